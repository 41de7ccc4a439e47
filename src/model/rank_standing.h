/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_standing.h - where one rank stood at a moment, as the agent saw it: its open phases and the
 * collectives under way. Written when a process is gone or a job stands still, kept in .lks.
 *
 * Strings are ids of the container's table. See docs/lks.md for the bytes.
 */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "model/event.h"

#define STANDING_OPEN_MOST    64u
#define STANDING_PENDING_MOST 256u
#define STANDING_DONE_MOST    256u

enum rank_state {
	RANK_LIVES,
	RANK_GONE,	 /* its process was gone, in the middle of something, before any other */
	RANK_GONE_AFTER, /* after another one's */
	RANK_ENDED,	 /* it told that it ends */
	RANK_CUT,	 /* gone with all others, while the job went on */
	RANK_STATES
};

struct standing_open {
	uint32_t name;
	int64_t begin_ns;
};
struct standing_coll {
	uint32_t group; /* name; NO_ID: unknown */
	enum comm_op op;
	int64_t seq; /* -1: unknown */
	uint64_t bytes;
	int64_t begin_ns;
};
struct rank_standing {
	uint64_t row; /* of the container's heads */
	int64_t time_ns;
	enum rank_state state;
	int64_t pid, step;		      /* the step under way or done last; -1 */
	struct standing_open *open;	      /* the outermost first, thread by thread */
	struct standing_coll *pending, *done; /* done: the last one of each group */
	uint32_t n_open, n_pending, n_done;
};

void rank_standing_encode(struct buf *out, const struct rank_standing *s);
/* -EBADMSG: it is none. */
int rank_standing_decode(struct span *in, struct arena *arena, struct rank_standing *ret);
