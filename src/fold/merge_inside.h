/* SPDX-License-Identifier: Apache-2.0 */
/* merge_inside.h - what merge.c, merge_settle.c and merge_groups.c share. */
#pragma once
#include "fold/merge.h"

enum left_out {
	LEFT_NOT,
	LEFT_NO_STEPS,
	LEFT_OTHER_WORLD,
	LEFT_OTHER_RUN,
	LEFT_COPY,
	LEFT_DOUBLED,
};

struct source_step {
	uint64_t number, offset;
	uint32_t len, run; /* run: of the job, from 0; RUN_NONE: left out */
};
#define RUN_NONE UINT32_MAX
struct source {
	uint64_t key;
	char *path;
	struct rank_stream s;
	uint32_t row; /* NO_ID: left out */
	enum left_out left;
	uint32_t run;
	size_t other;		   /* the source that stays in place of a copy or double */
	size_t beside;		   /* files in its folder, 0: not counted */
	struct source_step *steps; /* by number */
	size_t n_steps, next;
	bool falls;	 /* numbers do not always rise as they come */
	uint32_t *names; /* of the stream -> of the job */
	uint32_t n_names;
	uint32_t *groups; /* of the stream -> of the row */
};
struct merge {
	VEC(struct source) sources; /* after merge_job by key */
	VEC(char *) warnings;
	struct job job;
	struct arena step_arena;
	struct buf record;
	uint64_t doubled_steps;
	bool restarted; /* a file goes on behind the one before, with steps that it has too */
};
/* Says of each source whether it stays (left), and why not in warnings; job.world_size. */
void merge_settle(struct merge *m);
/* The same where the ranks are of one writer and have no steps yet. */
void merge_settle_world(struct merge *m);
/* Which run of the job each step is of, where it was started again; then a source's steps are in
   order of run and number. */
void merge_runs(struct merge *m);
void merge_sort_steps(struct source *s);
/* Fills ranks[].groups of the job's rows, sources[].groups, and the job's groups. */
void merge_groups(struct merge *m);
uint32_t merge_name(const struct source *s, uint32_t id);
