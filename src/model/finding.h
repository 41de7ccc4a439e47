/* SPDX-License-Identifier: Apache-2.0 */
/*
 * finding.h - what judge says: findings, and the report that show prints.
 *
 * Everything a report points to lives in its arena or in the job's. Unknown numbers are NAN
 * (doubles) or -1 (integers) and are printed as null, never as 0.
 */
#pragma once
#include "model/cause.h"
#include "model/job.h"

enum severity { SEVERITY_FAULT, SEVERITY_RISK, SEVERITY_NOTE };
enum finding_kind {
	KIND_SLOW,
	KIND_HANG,
	KIND_CRASH,
	KIND_IMBALANCE,
	KIND_REGRESSION,
	KIND_CONFIG
};
enum verdict { VERDICT_HEALTHY, VERDICT_SLOW, VERDICT_HUNG, VERDICT_CRASHED, VERDICT_INSUFFICIENT };
const char *severity_name(enum severity s);
const char *finding_kind_name(enum finding_kind k);
const char *verdict_name(enum verdict v);

struct evidence {
	const char *text;
	double value, expected; /* NAN: none */
	const char *unit;	/* "ms", "x", ..; NULL: none */
	const char *source;	/* "trace", .. */
};
struct exclusion {
	enum cause cause;
	const char *why;
};
struct window {
	int64_t first_step, last_step;	     /* -1: unknown */
	int64_t first_time_ns, last_time_ns; /* -1: unknown; epoch */
	uint32_t run;			     /* of the job, from 0: it was started again as often */
	bool goes_on;			     /* the one before, on the other side of a restart */
};
struct propagation {
	const char *at;	     /* the operation or phase in which others lost time */
	const char *victims; /* set of ranks, "0-6,8" */
	double ms;	     /* lost there a step, by the mean of them */
	bool origin;	     /* what is late; the others wait for it */
};

struct finding {
	char id[17]; /* hash of cause, culprits, group, phase; stable over runs */
	enum severity severity;
	enum finding_kind kind;
	const char *level; /* "L1", "L2", "L3"; NULL */
	enum cause cause;
	const char *cause_detail; /* NULL: none */
	const char *summary;	  /* one sentence */
	const char *action;
	VEC(uint32_t) culprits; /* rows of the job */
	VEC(const char *) hosts;
	VEC(int64_t) stages;
	VEC(const char *) groups;
	VEC(const char *) coords;
	const char *victims; /* set of ranks; NULL: none */
	VEC(struct propagation) propagation;
	VEC(struct window) windows;
	const char *where_phase, *where_kernel, *where_collective; /* NULL: none */
	double slowdown;	  /* with / without, over the windows; NAN */
	double step_ms_lost;	  /* a step of the windows */
	double lost_gpu_hours;	  /* in what was given */
	double gpu_hours_per_day; /* if it goes on */
	double confidence;	  /* 0..1 */
	VEC(struct evidence) evidence;
	VEC(struct exclusion) excluded;
	VEC(const char *) next; /* commands and acts, in order */
};

/* One input as show lists it. */
struct report_input {
	const char *path, *format;
	int64_t rank; /* the one that a dump or stack is of; -1: none or several */
	VEC(uint32_t) rows;
	uint64_t steps, events, kernels, collectives, bytes;
	uint64_t skipped[SKIP_REASONS];
};

/* A rank in the report. */
struct report_rank {
	uint32_t row;
	VEC(struct report_step {
		uint64_t number;
		int64_t mark_ns;
	})
	steps;
	uint64_t arrived_last; /* collectives in which the others waited for it */
	int64_t wait_ns;       /* time it stood in collectives waiting for others; -1: unknown */
	bool suspect;
};

/* Where a rank stands in a group, in words for people. */
struct report_stand {
	uint32_t row;
	const char *state; /* "waiting", "behind", "past", "elsewhere", "gone", "done", "silent" */
	const char *operation;		       /* what it waits in or called last; NULL */
	int64_t last_enqueued, last_completed; /* sequence numbers; -1: unknown */
};
struct report_group {
	const char *group, *desc; /* name; description, NULL: none */
	const char *members;	  /* set of ranks, "0-15"; NULL: unknown */
	int64_t last_common;	  /* the last operation that all members called alike; -1 */
	bool stuck;		  /* someone waits in it */
	VEC(struct report_stand) ranks;
};
/* Processes whose threads stand alike. */
struct report_stack {
	VEC(uint32_t) rows;
	const char *who; /* for people: "ranks 0-6", "process 688514" */
	const char
	    *doing; /* "in a collective (all_reduce)", "in the data loader"; NULL: not known */
	bool odd;   /* not where most stand */
	VEC(const char *) frames; /* innermost first, "function (file:line)" */
};
struct report_gpu {
	uint32_t row;	   /* NO_ID: no rank is known for it */
	const char *host;  /* NULL */
	int64_t index;	   /* on its host; -1 */
	const char *shape; /* "compute", "communication", "starved", "waiting", "idle"; NULL */
	double power_w, limit_w, utilization; /* lately; NAN; utilization 0..1 */
	double power_w_before;		      /* while training went on; NAN */
};

struct report {
	struct arena arena;
	struct job *job;
	enum verdict verdict;
	const char *headline; /* why the verdict, where no finding says it; NULL */
	VEC(const char *) assumed;
	VEC(struct report_input) inputs;
	VEC(struct report_rank) ranks;	    /* by row */
	VEC(struct finding) findings;	    /* in the order to act on them */
	VEC(struct report_group) groups;    /* where ranks stand: stuck ones first */
	VEC(struct report_stack) stacks;    /* the odd ones first */
	VEC(struct report_gpu) gpus;	    /* by row */
	VEC(const char *) missing;	    /* what was not given and would have helped */
	VEC(const char *) open;		    /* commands and acts that would settle what is open */
	double step_ms_median, step_ms_p99; /* NAN */
	uint64_t unpaired; /* collectives left out because their members contradict each other */
};

/* The run of the job in which it was seen last. */
static inline uint32_t finding_run(const struct finding *f)
{
	return f->windows.n ? f->windows.v[f->windows.n - 1].run : 0;
}
/* Sets f->id once cause, culprits, groups and phase stand: the same for the same fault in any run.
 */
void finding_set_id(struct finding *f, const struct job *job);

void finding_done(struct finding *f); /* its contents */
void report_done(struct report *r);
const char *report_printf(struct report *r, const char *format, ...) PRINTF_LIKE(2, 3);
/* "0-7,9" from ranks (rows resolved by the job; unknown ones as "unknown-1"); into the arena. */
const char *report_rank_set(struct report *r, const uint32_t *rows, size_t n);
