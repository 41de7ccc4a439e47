/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.h - from rank by rank to step by step.
 *
 * Files come one rank at a time, judge wants one step of all ranks at a time. Merge takes the
 * streams of all files, settles who is who (doubled ranks, mixed jobs, groups over ranks), numbers
 * the rows by rank and plays the steps in order of their number.
 */
#pragma once
#include "fold/fold.h"

struct merge;
struct merge *merge_new(void);
/* Takes the stream over. key orders streams that are alike (the sorted position of its file).
   Several streams of one rank with different steps are one rank; the same step again is dropped and
   counted. */
void merge_add(struct merge *m, uint64_t key, const char *path, struct rank_stream *stream);
/* After the last merge_add: the job. Warnings are one line each, for stderr and the report. */
struct job *merge_job(struct merge *m, struct error *reterr); /* NULL: nothing usable; owned by m */
size_t merge_warnings(const struct merge *m, const char *const **ret);
/* key -> row of the job, NO_ID if the stream was left out (another job, a double). */
uint32_t merge_row_of(const struct merge *m, uint64_t key);

/* steps[row] is NULL where that rank has no such step. All steps of one call have one number. Valid
   only during the call. Names are the job's. */
typedef int (*merge_step_fn)(void *user, uint64_t number, struct step *const *steps);
int merge_run(struct merge *m, merge_step_fn fn, void *user, struct error *reterr);
struct merge *merge_free(struct merge *m);

/*
 * Live: the heads of one writer's ranks are known and their steps are yet to come (the streams are
 * empty). Afterwards the names in *job may be added to.
 */
struct job *merge_job_live(struct merge *m, struct error *reterr);
/* Makes a step of that stream one of the job's: its row and groups. The names are the caller's.
   false: the stream was left out, or a group is not one of its head's. */
bool merge_live_step(const struct merge *m, uint64_t key, struct step *step);
