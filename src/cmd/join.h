/* SPDX-License-Identifier: Apache-2.0 */
/*
 * join.h - where the rooms meet: paths in, a job and its steps in order out.
 *
 * One worker takes one input from its bytes to its encoded steps. What workers find lies in slots
 * by the input's place in the survey, so that nothing that is printed depends on who was faster.
 */
#pragma once
#include "base/options.h"
#include "fold/merge.h"
#include "fold/scene_build.h"
#include "model/finding.h"

struct join_options {
	struct option_steps steps;
	struct option_ranks ranks; /* n == 0: all */
	const char *layout;	   /* NULL: find out */
	const char *step_range;	   /* of Nsight recordings; NULL: find out */
	unsigned threads;	   /* 0: one a CPU */
	bool live;		   /* records of one writer alone need not be kept: see live.h */
	bool again;		   /* after join_steps gave 1: all else was said already */
};

struct join {
	struct merge *merge;
	struct live *live;    /* the steps come from here, once; NULL: from merge */
	size_t live_input;    /* of report.inputs */
	struct job *job;      /* owned by merge; an empty one if nothing was usable */
	struct report report; /* job, inputs and assumed are filled */
	bool usable;	      /* there are steps */
	struct scene scene;   /* of dumps, logs, stacks and power; any: there is something in it */
	struct standings *standings;
	VEC(struct scene_part) parts; /* what the scene is made of */
	struct job nothing;
};

/*
 * Reads all that the paths hold ("-": step records from stdin) and prints a line on stderr for each
 * input that gave less than it should. Always leaves a join that can be shown and must be done.
 */
void join_paths(struct join *j, char *const *paths, size_t n_paths,
		const struct join_options *options);
/* The steps of all ranks, in order of their number. 1: a live file turned out not to be in order,
   and is to be joined `again`, with live off: what was given is of no use. */
int join_steps(struct join *j, merge_step_fn fn, void *user, struct error *reterr);
void join_done(struct join *j);
