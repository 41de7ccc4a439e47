/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error_file.h - what torchelastic's @record leaves of an exception: RUN/attempt_0/3/error.json,
 * {"message": {"message": "ValueError: ..", "extraInfo": {"py_callstack": "Traceback ..",
 * "timestamp": "1748959200"}}}; before torch 1.10 with "time_s" and a bare text.
 */
#pragma once
#include "read/witness.h"

bool error_file_sniff(const char *text, size_t len, const char *path);
int error_file_read(struct input *in, const char *path, struct testimony **ret,
		    struct read_stats *stats, struct error *reterr);
