/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inside.h - what the files of fold share: the state of one trace, and of one step being closed.
 *
 * collect.c takes events and keeps items; fold.c plays them by time and closes steps; a step is
 * closed by sweep.c (the own clock), ledger.c (phases), kernels.c and comms.c.
 */
#pragma once
#include "fold/fold.h"
#include "fold/runs.h"

#define TIME_UNKNOWN INT64_MIN
#define TIME_NEVER   INT64_MAX
#define NO_MARK	     UINT32_MAX

/* What a name says; found once a name. */
enum name_class {
	NAME_KNOWN = 1 << 0, /* was looked at */
	NAME_STEP = 1 << 1,  /* ProfilerStep#N */
	NAME_NCCL = 1 << 2,  /* a kernel of a communication library */
	NAME_DATA = 1 << 3,
	NAME_SAVE = 1 << 4,
	NAME_COMPILE = 1 << 5,
	NAME_GC = 1 << 6,
	NAME_IO = 1 << 7,
	NAME_CALL = 1 << 8,    /* c10d::* that starts a collective */
	NAME_WAITING = 1 << 9, /* an operator that waits, or whose work is another's */
	NAME_PARAM = 1 << 10,  /* record_param_comms */
	NAME_EVAL = 1 << 11,
	NAME_PYTHON = 1 << 12, /* set on spans, not names: a Python function */
	NAME_SYNC = 1 << 13,   /* set on spans: waits for the GPU */
	NAME_RANGE = 1 << 14,  /* an annotation of a communication library: "nccl:*" */
};

struct lane {
	uint64_t thread;
	uint32_t device;
	bool gpu;
	bool task;		  /* its work is counted as no kernels */
	int64_t op_start, op_end; /* collect: the last outermost operator */
	/* fold: the communication ranges that were last entered on this thread */
	struct comm_range {
		int64_t start, end;
		uint32_t comm, seq;
	} param, annotation;
	int64_t ranges_end;	       /* both have ended by then */
	uint32_t last_mark, last_work; /* GPU: where the last work of this stream was put */
	int64_t last_end;	       /* when that one ends */
	uint64_t kernels;	       /* GPU: those that were played */
	int64_t kernel_ns;	       /* the time of them */
	int64_t compute_ns;	       /* kernels.c: of the step */
};

struct mark {
	int64_t start, end;
	uint64_t number;
	bool wanted;
};

/* A span of GPU work, or of a collective on the host, that belongs to a step. There are as many as
   kernels, so it is kept small. */
struct work {
	int64_t start, end;
	int64_t launch; /* launch, or call of a collective on the host; TIME_UNKNOWN */
	union {
		uint32_t name;
		uint32_t comm; /* of a collective */
	};
	uint32_t seq;  /* + 1; of a kernel that is no communication: its blocks. 0: unknown */
	uint32_t wait; /* work_ready: the host's part behind the launch; WAIT_NEVER */
	uint16_t lane;
	uint8_t kind; /* enum item_kind */
};

static inline bool work_is_coll(const struct work *w)
{
	return w->kind == ITEM_COLL_KERNEL || w->kind == ITEM_GLOO;
}
/* How long a launch took: ns, or from WAIT_US on us. */
#define WAIT_NEVER UINT32_MAX
#define WAIT_US	   ((uint32_t)1 << 31)
static inline uint32_t wait_of(int64_t ns)
{
	return ns < (int64_t)WAIT_US ? (uint32_t)ns
				     : WAIT_US + (uint32_t)MIN(ns / 1000, (int64_t)WAIT_US - 2);
}
/* When the host had done its part: the launch, or the end of a call that took long; TIME_NEVER:
   nothing tells. */
static inline int64_t work_ready(const struct work *w)
{
	if (w->wait < WAIT_US)
		return w->launch + w->wait;
	return w->wait == WAIT_NEVER ? TIME_NEVER : w->launch + (int64_t)(w->wait - WAIT_US) * 1000;
}
/* By start, of equal ones the longer first: < 0, 0, > 0. */
static inline int work_compare(const struct work *a, const struct work *b)
{
	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->end > b->end ? -1 : a->end < b->end;
}

/* A range of the host. */
struct range {
	int64_t start, end;
	uint32_t name;
	uint16_t class; /* enum name_class */
	uint16_t lane;
	uint8_t kind;
};

struct works {
	struct work *v;
	size_t n, cap;
	int64_t end;	/* none ends later */
	bool unordered; /* not by work_compare */
	bool loose;	/* of the GPU's all may end before that */
};
struct ranges {
	struct range *v;
	size_t n, cap;
};

struct fold {
	struct fold_options options;
	struct intern names;
	struct trace_sink sink;
	struct runs runs;
	struct error error; /* of a spill */

	uint16_t *class; /* by name */
	size_t class_cap, n_class;
	struct lane *lanes;
	size_t n_lanes, lanes_cap;
	uint32_t *lane_slots;
	uint32_t lane_mask;
	struct lane_key {
		uint64_t thread;
		uint32_t device;
		uint32_t lane; /* NO_ID: none yet */
	} last_lane[2];

	struct comm_args *comms; /* distinct but for seq */
	size_t n_comms, comms_cap;
	uint32_t *comm_slots;
	uint32_t comm_mask;
	uint32_t last_comm;

	struct mark *marks;
	size_t n_marks, marks_cap;

	struct arena arena; /* what meta() copied */
	struct trace_meta meta;
	bool gpu_seen, launch_seen;
	bool whole;	       /* no marks: the file is one window */
	uint32_t first_launch; /* the smallest correlation of a launch */
	int64_t first, last;
	int64_t self_rank; /* as the widest group's record_param_comms says; -1 */
	uint32_t self_size;
	uint64_t skipped[SKIP_REASONS];
};

uint16_t fold_class_new(struct fold *f, uint32_t name);
static inline uint16_t fold_class(struct fold *f, uint32_t name)
{
	return name < f->n_class && f->class[name] ? f->class[name] : fold_class_new(f, name);
}
uint32_t fold_comm(struct fold *f, const struct comm_args *args); /* row of comms */
int fold_event(void *user, const struct trace_event *e);
int fold_meta(void *user, const struct trace_meta *meta);
/* classes.c */
uint16_t name_classify(const char *name, size_t len);

/* Groups of the rank, and which one each signature means (groups.c). */
struct groups {
	struct arena *arena;
	VEC(struct rank_group) rows;
	VEC(uint32_t) next; /* row of the same name, NO_ID ends */
	struct {
		uint32_t first, last;
	} * named; /* rows of a name, by its id + 1, so that NO_ID is 0 */
	uint32_t n_named;
	uint32_t *of_comm; /* by row of comms, NO_ID: not yet known */
	size_t n_of_comm;
};
void groups_init(struct groups *g, struct fold *f, struct arena *arena);
uint32_t groups_of(struct groups *g, struct fold *f, uint32_t comm);
void groups_done(struct groups *g);

struct interval {
	int64_t a, b;
};
struct intervals {
	struct interval *v;
	size_t n, cap;
};
/* In order of a: keeps the union. */
static inline void intervals_add(struct intervals *l, int64_t a, int64_t b)
{
	struct interval *last = l->n ? &l->v[l->n - 1] : NULL;

	if (b <= a)
		return;
	if (last && a <= last->b) {
		last->b = MAX(last->b, b);
		return;
	}
	*vec_push(l) = (struct interval){ a, b };
}
int64_t intervals_sum(const struct intervals *l);
/* ret = from without what; returns what was taken away. ret != from. */
int64_t intervals_subtract(const struct intervals *from, const struct intervals *what,
			   struct intervals *ret);

/* A stretch in which the own clock stands still, and what it shows then. */
struct stand {
	int64_t start, end, own;
};

struct exposure {
	int64_t exposed_ns; /* the own clock stood still for it */
	int64_t need_ns;    /* own clock when it last did; -1 */
};

/* A step while it is closed; buffers are kept from step to step. */
struct closing {
	struct fold *f;
	struct groups *groups;
	struct arena arena;
	bool gpu_job;

	int64_t begin, end; /* the window, file time */
	uint32_t mark;
	const struct works *work;	  /* that belongs to the step */
	const struct ranges *ranges;	  /* that belong to the step */
	VEC(const struct work *) busy;	  /* all work in the window, by start */
	VEC(const struct range *) around; /* all ranges that touch the window, by start */

	struct intervals compute, copy, comm, host, rest, scratch, of_class;
	VEC(struct stand) stands;
	VEC(const struct work *) waits; /* of busy, collectives and what is not in the file */
	VEC(struct exposure) exposure;	/* of each of them */
	struct kernel_table *kernels;
	struct step step;
};
int64_t clock_own_at(const struct closing *c, int64_t t); /* clipped to the window */
void sweep_step(struct closing *c);
void ledger_step(struct closing *c);
void kernels_step(struct closing *c);
void kernels_done(struct closing *c);
void closing_done(struct closing *c); /* its memory, kernels' too */
void comms_step(struct closing *c);
