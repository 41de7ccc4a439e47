/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene.h - where all ranks of a job stand, from all that was given: what the judge of hangs reads.
 *
 * Rows are ranks in order (processes whose rank nobody tells come last), the same rows everywhere
 * in the scene. Strings are ids in names; -1, NO_ID and NAN are unknown.
 */
#pragma once
#include "model/signature.h"

enum member_source {
	MEMBER_ABSENT, /* of the group, but nothing tells where it stands */
	MEMBER_LOG,    /* its own watchdog's words */
	MEMBER_DUMP,
};

/* An operation that is not finished. */
struct scene_op {
	int64_t seq;
	uint32_t place;	    /* among operations of one number */
	uint32_t signature; /* row of scene.signatures */
	uint32_t frames;    /* "function (file:line)\n..", NO_ID */
	int64_t order;	    /* in the rank's own counting over all groups; -1 */
	int64_t created_ns, timeout_ms;
	enum op_state state;
	bool p2p;
};

struct scene_member {
	uint32_t row;
	enum member_source source;
	int64_t first;		     /* lowest sequence number that its dump still has; -1 */
	int64_t enqueued, completed; /* -1: unknown */
	bool waits;
	struct scene_op wait; /* the lowest that is not finished */
	uint32_t n_pending;
	uint32_t last_signature; /* of the operation `enqueued`; NO_ID */
	bool left_here;		 /* the rank's last step parts here from those before it */
	bool signalled;		 /* told to dump by another rank: had not timed out itself */
	bool met; /* it waits in a send or recv, and the peer has called the other half of it */
	int64_t met_order; /* of that half among the peer's calls, as scene_op.order */
};

struct scene_side {
	uint32_t signature;
	VEC(uint32_t) rows;
};
/* A place at which members called different things. */
struct scene_conflict {
	int64_t seq;
	uint32_t place;
	enum mismatch kind;
	VEC(struct scene_side) sides; /* largest first */
	bool finished;		      /* by everyone: it did no harm, or not there */
	uint32_t siblings; /* signature that groups of the same description called there; NO_ID */
};

#define SCENE_SIDES_MAX	    64u /* of a conflict; further ones count to the last */
#define SCENE_CONFLICTS_MAX 4u	/* of a group; the lowest */
struct scene_group {
	uint32_t name, desc;
	int64_t size;	    /* as stated; -1 */
	bool members_known; /* all of them are in members */
	bool guessed;	    /* a rank without a dump was added, by the pattern of the others */
	VEC(struct scene_member) members; /* by row */
	VEC(struct scene_conflict) conflicts;
	int64_t
	    last_common; /* the last sequence number that all members with dumps called alike; -1 */
};

struct scene_rank {
	int64_t rank; /* -1: then `unknown` counts from 1 */
	uint32_t unknown;
	uint32_t host;
	int64_t gpu, pid;
	uint32_t witnesses; /* 1 << enum witness, of those that speak of it */
	bool lived;	    /* it was seen alive: a dump, a stack, a line of its own */
	bool cut;	    /* its dump ends in the middle: what it lacks proves nothing */
	/* its first unfinished operation over all groups, from its dump */
	uint32_t wait_group;
	int64_t wait_seq;
	bool left_step;		      /* its last step has other operations than those before it */
	enum habit habit, habit_size; /* did that operation follow what it used to follow? */
	uint32_t usual;		      /* signature that used to come there */
	uint32_t stack;		      /* row of scene.stacks; NO_ID */
	uint32_t stack_before; /* of another moment: the same file in another folder; NO_ID */
	uint32_t progress;     /* row of scene.progress; NO_ID */
};

struct scene_stack {
	uint32_t row; /* NO_ID: a process nobody ties to a rank */
	int64_t pid;
	uint32_t host, path;
	enum stack_tool tool;
	const struct testimony *of; /* frames and threads are there */
	uint32_t process;	    /* row of of->stacks */
	uint32_t main_thread;	    /* row of of->threads */
};
struct scene_saying {
	struct saying s; /* strings are ids in scene.names, group and signature rows of the scene */
	uint32_t row, peer_row; /* NO_ID */
	uint32_t file;		/* row of files; lines of one file are in order */
};
struct scene_progress {
	struct log_progress p;
	uint32_t row; /* NO_ID: lines that name no rank */
	uint32_t file;
};
struct scene_gpu {
	const struct gpu_series *series; /* strings are ids of the testimony `of` */
	const struct testimony *of;
	uint32_t row;  /* NO_ID */
	uint32_t host; /* of scene.names */
	bool assumed;  /* the row follows from the order of hosts and GPUs only */
};
struct scene_count { /* RAS and Inspector, by communicator and moment */
	struct comm_count c;
	const struct testimony *of;
	uint32_t row, group; /* group: row of scene.groups; NO_ID */
	int64_t size;	     /* of the communicator */
	int64_t time_ns;
	uint32_t before; /* row of the same rank's count at the moment before; NO_ID */
	bool latest;	 /* of the communicator's last moment */
};

struct scene_counter { /* of a network port: one that means trouble, and rose */
	uint32_t host, device, name;
	double rise; /* between the first and the last reading; the value itself if read once */
	bool once;
};

enum scene_moved { MOVED_UNKNOWN, MOVED_NO, MOVED_YES };

struct scene {
	struct arena arena;
	struct intern names;
	int64_t world_size;	/* -1 */
	bool world_assumed;	/* from the highest rank that was seen */
	bool workers_are_nodes; /* the number in worker-3.log is no rank */
	VEC(struct scene_rank) ranks;
	VEC(struct scene_group) groups;
	VEC(struct signature) signatures;
	VEC(struct scene_stack) stacks;
	VEC(struct scene_saying) sayings; /* in order of file and line */
	VEC(struct scene_progress) progress;
	VEC(struct scene_gpu) gpus;
	VEC(struct scene_count) counts;
	VEC(struct scene_counter) counters;
	VEC(const struct testimony *) files; /* logs and events */
	uint32_t n_dumps, n_recordings;
	bool gloo;		/* dumps of Gloo: no send and recv in them */
	enum scene_moved moved; /* between the recordings of dumps, or of RAS */
	int64_t last_step_ns;	/* by the stamps of logs; -1 */
	int64_t step_ns;	/* what a step took in the log that shows it; 0 */
	int64_t recorded_ns;	/* newest time of the last recording; -1 */
	bool folded;		/* a log leaves out equal lines of other ranks */
	bool cut_off;		/* one breaks off amid the lines of its watchdogs */
	bool unheard; /* for either: that a rank is silent in logs does not tell that it was */
	bool any;     /* there is evidence of where ranks stand */
	VEC(const char *) said; /* for assumed: what was left out of it and why */
};

uint32_t scene_row(const struct scene *s, int64_t rank); /* NO_ID */
/* The group of all ranks: PyTorch's default one, by its description, or by its number where an old
   log has no more. */
bool scene_group_is_world(const struct scene *s, const struct scene_group *g);
/* Does any file show steps, numbered or not? */
bool scene_has_steps(const struct scene *s);
const struct scene_member *scene_member(const struct scene_group *g, uint32_t row); /* NULL */
void scene_done(struct scene *s);
