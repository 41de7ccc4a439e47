/* SPDX-License-Identifier: Apache-2.0 */
/*
 * witness.h - the formats that say where ranks stand: one row a format, one file a format.
 *
 * The rows are asked in their order whether a file's first bytes are theirs; the log, which takes
 * any text, is the last. To add a format: its row in witness.c, its file, its fuzz target.
 */
#pragma once
#include "model/testimony.h"
#include "read/input.h"

struct witness_format {
	const char *name; /* as in read[].format: "flight-recorder" */
	/* Is a file that begins with text[0..len) (decompressed; at most 64 KB of it) one of these?
	   path may help where the content leaves it open; it never decides alone. */
	bool (*sniff)(const char *text, size_t len, const char *path);
	/*
	 * Reads it all. 0, or a negative errno with detail ("offset N: what") if nothing could be
	 * taken from it. A damaged or truncated file gives what came before, counts it in
	 * stats->skipped and says what was wrong in reterr with status 0. stats->events counts the
	 * entries, lines of interest, samples or threads that were taken.
	 */
	int (*read)(struct input *in, const char *path, struct testimony **ret,
		    struct read_stats *stats, struct error *reterr);
};
extern const struct witness_format witness_formats[];
extern const size_t n_witness_formats;

/* The row for these first bytes; -1: of no format. */
int witness_find(const char *text, size_t len, const char *path);
