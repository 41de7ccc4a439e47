/* SPDX-License-Identifier: Apache-2.0 */
/*
 * even.h - from counts of blocks to the steps that each rank has, who runs dry first, and what it
 * costs to make all stop at the same step. Arithmetic only.
 *
 * The method: every rank stops at the minimum over ranks of the steps that its blocks give
 * ("evenfix" in arXiv 2608.05944).
 */
#pragma once
#include "base/base.h"

struct rank_blocks;

enum even_how {
	EVEN_DROP,   /* all stop at the minimum */
	EVEN_PAD,    /* short ranks fill up with empty blocks */
	EVEN_REPEAT, /* short ranks begin anew */
	EVEN_HOWS
};
const char *even_how_name(enum even_how how); /* "drop", .. */

struct even_balance {
	size_t ranks;
	int64_t least, most;	       /* blocks */
	int64_t total;		       /* blocks, all ranks */
	int64_t first_rank, last_rank; /* whose blocks end first, and last */
	int64_t least_steps,
	    most_steps;	    /* per rank, whole steps; the last partial one counts if kept */
	size_t ranks_short; /* with fewer steps than the most */
	bool balanced;	    /* all have the same number of steps */
	bool ragged;	    /* steps are equal but the last one's blocks are not */
	/* The plan by `how`: all ranks make stop_steps steps. */
	int64_t stop_steps;
	int64_t blocks_dropped, blocks_added; /* in all */
	int64_t dropped_most;		      /* on one rank: */
	int64_t dropped_most_rank;	      /* -1: nothing is dropped */
	/* Of blocks_dropped: what lies in partial last steps, which drop_last leaves out anyway. */
	int64_t blocks_partial;
	double share; /* of all blocks that are dropped and added */
	/* Tokens of the dropped blocks, a rank's tokens taken as evenly spread over its blocks; -1
	   where a rank's tokens are not known. */
	int64_t tokens, tokens_dropped;
	double tokens_share;
};
/* blocks_per_step: of one rank, accumulation included; drop_last: a partial last step is not run.
   -ENODATA: no ranks; -EINVAL: numbers that cannot be. */
int even_balance(const struct rank_blocks *ranks, size_t n, int64_t blocks_per_step, bool drop_last,
		 enum even_how how, struct even_balance *ret, struct error *reterr);
/* The steps that so many blocks give. */
int64_t even_steps(int64_t blocks, int64_t blocks_per_step, bool drop_last);
