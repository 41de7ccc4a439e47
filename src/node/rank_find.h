/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_find.h - which processes of this node are ranks of a training job.
 *
 * A rank is a process with RANK in its environment (or, where no process has it, the number that
 * mpirun or srun gave it). Children that share their parent's rank are its data-loader workers.
 */
#pragma once
#include <sys/types.h>

#include "base/base.h"

#define RANK_TEXT_MAX 384u

struct rank_process {
	pid_t pid, parent;
	uid_t uid;
	int64_t rank, local_rank, world_size; /* -1 */
	int64_t master_port;		      /* -1 */
	unsigned job; /* from 1: which of this node's jobs, where several have a rank of a number */
	int64_t start_ticks;
	uint64_t started_ns; /* epoch */
	char comm[32];
	char state;	  /* of /proc/PID/stat: R, S, D, Z */
	bool by_rank;	  /* RANK is set; else a launcher's number */
	bool asked;	  /* named on the command line */
	bool stuck;	  /* reading its environment hangs: a sign by itself */
	bool denied;	  /* its environment cannot be read by us */
	unsigned workers; /* children that share its rank */
	/* of its environment; "" */
	char dump_prefix[RANK_TEXT_MAX]; /* TORCH_FR_DUMP_TEMP_FILE or its older name */
	char pipe_prefix[RANK_TEXT_MAX];
	char home[RANK_TEXT_MAX], cache[RANK_TEXT_MAX], visible[RANK_TEXT_MAX];
	char master[RANK_TEXT_MAX], run_id[RANK_TEXT_MAX];
};

struct rank_list {
	VEC(struct rank_process) v;
	unsigned denied; /* processes whose environment is not ours to read */
	unsigned stuck;	 /* of which it could not be read in time */
};

/* proc: "/proc". asked: only these, whatever they are; n_asked 0: all ranks that are found. */
void ranks_find(const char *proc, const pid_t *asked, size_t n_asked, struct rank_list *ret);
void ranks_done(struct rank_list *l);
