/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fr.h - dumps of PyTorch's Flight Recorder, one rank each: what it called, group by group.
 *
 * Native pickles, pickles that Python wrote again, and the JSON twin give the same testimony, but
 * that JSON has no stack frames. A pickle is data here and nothing else: whatever in it would
 * import, call or build something refuses the file. Dump versions from 1.x on; keys that are not
 * known are passed over, whatever their value.
 */
#pragma once
#include "read/witness.h"

bool fr_pickle_sniff(const char *text, size_t len, const char *path);
bool fr_json_sniff(const char *text, size_t len, const char *path);
int fr_read(struct input *in, const char *path, struct testimony **ret, struct read_stats *stats,
	    struct error *reterr);

/* rank and host that a dump's path tells; -1, or false. */
int64_t fr_rank_of_path(const char *path);
