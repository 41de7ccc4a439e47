/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h - the job as all its files together show it: ranks, groups, layout.
 *
 * Rows count from 0 in order of rank (unknown ones last), whatever order the files came in. Judge
 * and show work with rows; a rank's number is ranks[row].rank.
 */
#pragma once
#include "model/step.h"

/* A process group over the whole job: what the ranks call by one name with one membership. */
struct job_group {
	uint32_t name, desc; /* interned; NO_ID: unknown */
	uint32_t size;	     /* as stated; 0: unknown */
	uint32_t *rows;	     /* members that we have traces of, ascending */
	uint32_t n_rows;
	uint32_t *ranks; /* all members as stated, ascending; NULL: unknown */
	uint32_t n_ranks;
};

/* Where a rank ran. */
struct job_place {
	uint32_t host;	   /* interned; NO_ID */
	int32_t gpu_index; /* -1 */
};
/* A rank that ran elsewhere in one of the job's runs than its rank_info says. */
struct job_move {
	uint32_t row, run;
	struct job_place place;
};

struct job {
	struct intern names;
	struct arena arena;
	struct rank_info *ranks; /* by row; groups[] of each are its own, see group_of */
	uint32_t n_ranks;
	uint32_t **group_of; /* [row][row of rank_info.groups] -> row of groups */
	struct job_group *groups;
	uint32_t n_groups;
	struct job_move *moves; /* of a job that was started again; by row and run */
	uint32_t n_moves;
	int64_t world_size;	       /* -1: unknown */
	int64_t first_step, last_step; /* -1: none */
	bool cpu_job;
	const char *layout_spec; /* --layout as given; NULL: find out */
};

/* Does the row stand for several ranks, or perhaps so? Then its number is no rank's. */
bool job_is_folded(const struct job *job, uint32_t row);
/* "rank 3" or "unknown-1", into buf; returns buf. */
const char *job_rank_name(const struct job *job, uint32_t row, char buf[32]);
/* Where the row ran in that run of the job, from 0. */
struct job_place job_place(const struct job *job, uint32_t row, uint32_t run);
void job_done(struct job *job);
