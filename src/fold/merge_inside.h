/* SPDX-License-Identifier: Apache-2.0 */
/* merge_inside.h - what merge.c and merge_groups.c share. */
#pragma once
#include "fold/merge.h"

struct source_step {
	uint64_t number, offset;
	uint64_t len;
};
struct source {
	uint64_t key;
	char *path;
	struct rank_stream s;
	uint32_t row;		   /* NO_ID: left out */
	struct source_step *steps; /* by number */
	size_t n_steps, next;
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
};
/* Fills ranks[].groups of the job's rows, sources[].groups, and the job's groups. */
void merge_groups(struct merge *m);
uint32_t merge_name(const struct source *s, uint32_t id);
