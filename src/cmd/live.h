/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.h - step records judged as they come, from one writer: a pipe, or one file.
 *
 * Nothing is written to disk and memory does not grow with the steps: a step is closed when two
 * later ones have begun (or at the end), then it is given on and forgotten. What comes later than
 * that is counted and left out. From a pipe it is given on while the writer is busy, so that
 * neither waits for the other.
 */
#pragma once
#include "base/options.h"
#include "fold/merge.h"
#include "read/input.h"
#include "read/read.h"

struct live_options {
	struct option_steps steps;
	struct option_ranks ranks; /* n == 0: all */
};
struct live;
/*
 * Reads up to the first step: the heads of the ranks go to *merge, which must be empty, and give
 * the job. in is taken over, NULL: stdin; path is borrowed. Where there is no job *ret_job is NULL
 * and *reterr says why; the live is there all the same, to be asked for its stats.
 */
struct live *live_open(struct input *in, const char *path, const struct live_options *options,
		       struct merge *merge, struct job **ret_job, struct error *reterr);
/* The steps, as merge_run gives them. */
int live_run(struct live *l, merge_step_fn fn, void *user, struct error *reterr);
/* Of what was read so far. */
struct live_stats {
	struct read_stats read;
	uint64_t steps;		/* of all ranks together, that were given on */
	uint64_t late, unknown; /* records behind the window; of ranks whose head came too late */
	uint64_t doubled;	/* that a rank has twice */
	uint64_t alone;		/* of ranks that count anew while the others go on */
	bool in_order;		/* there were none of these: a file would have given the same */
	const char *problem;	/* in words; "": none */
};
struct live_stats live_stats(const struct live *l);
/* The row of the job of the i-th rank of the records; NO_ID: left out. */
size_t live_ranks(const struct live *l);
uint32_t live_row(const struct live *l, size_t i);
struct live *live_free(struct live *l); /* NULL is fine; returns NULL */
/* The bytes of stdin, for input_of_source. user: a live, whose closed steps are given on while
   nothing comes; NULL: none. */
ssize_t live_stdin(void *user, void *buf, size_t len);
