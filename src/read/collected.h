/* SPDX-License-Identifier: Apache-2.0 */
/* collected.h - what `lockstep collect` writes about the ranks that it asked. */
#pragma once
#include "read/witness.h"

bool collected_sniff(const char *text, size_t len, const char *path);
int collected_read(struct input *in, const char *path, struct testimony **ret,
		   struct read_stats *stats, struct error *reterr);
