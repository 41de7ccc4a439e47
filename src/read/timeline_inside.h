/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_inside.h - what timeline.c (the text), timeline_lanes.c (who is who) and
   timeline_meet.c (who meets whom) share. */
#pragma once
#include "base/arena.h"
#include "base/intern.h"
#include "read/timeline.h"

#define TIMELINE_EVENTS_MAX  (1u << 24) /* 72 bytes each; more are counted as lost */
#define TIMELINE_THREADS_MAX (1u << 18)
#define TIMELINE_NAMES_MAX   4096u
#define TIMELINE_STEPS_MAX   (1u << 16)

enum timeline_dim { TIMELINE_DP, TIMELINE_PP, TIMELINE_TP, TIMELINE_DIMS };

/* A row of the drawing: process and thread as the file has them. */
struct timeline_thread {
	uint64_t pid, tid;
	uint32_t name; /* of the thread, NO_ID until it is met */
	uint32_t lane; /* NO_ID: of no lane */
	bool comm;     /* its name says that it shows communication */
	bool number;   /* tid is a number */
};
struct timeline_process {
	uint64_t pid;
	uint32_t name;
};

struct timeline_event {
	int64_t start, end;
	uint32_t name, step;   /* step: row of steps */
	uint32_t thread, lane; /* lane: known after timeline_settle_lanes */
	uint32_t order;	       /* the how-manieth of its name in its lane and step */
	int32_t chunk;	       /* of the model, where stages are interleaved; else 0 */
	uint32_t peer;	       /* of send and receive: the other lane; NO_ID */
	int64_t waited_from;   /* when its lane was done with all before it */
	bool met;	       /* it begins when it was let in (timeline_meet.c) */
};

/* Which lanes a collective of one name ties together. */
enum timeline_part {
	PART_ONE, /* nobody: what it ties is folded into the lane */
	PART_ALL,
	PART_STAGE,  /* the replicas of one stage */
	PART_LINE,   /* the stages of one replica */
	PART_ENDS,   /* first and last stage of one replica, which share an embedding */
	PART_TENSOR, /* the tensor-parallel ranks of one stage and replica */
	PARTS,
};
/* What a name of an event means; found once a name. */
struct timeline_op {
	enum event_kind kind;
	enum comm_op op;	 /* COMM_NONE: no communication */
	int toward;		 /* send, receive: the other stage against this one, -1 or +1 */
	enum timeline_part part; /* collectives */
	bool forward, backward;	 /* compute: gives what the next stage, or the one before, gets */
	bool seen;
};

struct timeline_lane {
	uint32_t coord[TIMELINE_DIMS];
	size_t first, n; /* events, by start */
};
struct timeline_mark {
	int64_t start, end;
};

struct timeline {
	struct intern names;
	VEC(struct timeline_event) events; /* once settled by lane, then start */
	VEC(struct timeline_thread) threads;
	VEC(struct timeline_process) processes;
	uint32_t *thread_slots, thread_mask;
	uint32_t last_thread;
	struct intern step_ids; /* their numbers as text; a row each of steps */
	VEC(uint64_t) steps;
	struct timeline_op *ops; /* by name */
	VEC(struct timeline_lane) lanes;
	uint32_t size[TIMELINE_DIMS];
	uint32_t folds;		     /* ranks that a lane stands for; 0: not known */
	uint32_t *lane_at;	     /* by number; NO_ID: not in the file */
	struct timeline_mark *marks; /* by step: of all lanes together */
	uint64_t stray;		     /* events of threads that are of no lane */
	uint64_t beyond;	     /* events beyond a limit */
	bool aligned;		     /* operations are drawn without the waiting before them */
};

static inline bool is_send_or_receive(enum comm_op op)
{
	return op == COMM_SEND || op == COMM_RECV;
}

static inline uint32_t timeline_number(const struct timeline *t, const uint32_t *coord)
{
	return coord[TIMELINE_TP] +
	       t->size[TIMELINE_TP] *
		   (coord[TIMELINE_DP] + t->size[TIMELINE_DP] * coord[TIMELINE_PP]);
}

/* timeline_lanes.c: from names of processes and threads. -EBADMSG if there is no lane. */
int timeline_settle_lanes(struct timeline *t, struct error *reterr);
/* timeline_meet.c: fills ops, orders events, and lets those who wait begin to wait in time. */
void timeline_settle_meetings(struct timeline *t);
struct timeline_group {
	enum timeline_part part;
	uint32_t base;	 /* the number of its first one */
	uint32_t *lanes; /* numbers, ascending; NULL: all of the job */
	uint32_t n;
};
/* The lanes that one collective of this lane ties together; into `arena`. */
struct timeline_group timeline_group_of(const struct timeline *t, const struct timeline_lane *lane,
					enum timeline_part part, struct arena *arena);
