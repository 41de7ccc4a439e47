/* SPDX-License-Identifier: Apache-2.0 */
/*
 * judge_internal.h - what the files of judge share. Nothing outside src/judge includes it.
 *
 * A step is used up when it comes: its collectives are paired and become the replay of the step,
 * its numbers become one point a row of a bounded history. At the end excesses, windows, causes and
 * what-ifs are taken from the history and the kept replays.
 */
#pragma once
#include "base/arena.h"
#include "judge/judge.h"

/* What a rank can be blamed for: the parts of its own time, grouped as people act on them. */
enum blame {
	BLAME_COMPUTE, /* OWN_COMPUTE and OWN_COPY */
	BLAME_HOST,    /* OWN_HOST and OWN_LAUNCH */
	BLAME_DATA,
	BLAME_SAVE,
	BLAME_LATE, /* it entered the first step given later than the others */
	BLAMES,
};

/* One row at one step, in nanoseconds. own < 0: the row has no such step. */
struct point {
	float own, wall;
	float part[BLAMES];
	float stall; /* longest single stretch without work, host's */
	float busy;  /* the host's step without its waits for the GPU; < 0: unknown */
};

#define POINTS_MAX	 (1u << 22) /* of all rows together, 40 bytes each */
#define HISTORY_MAX	 1024u	    /* steps */
#define HISTORY_MIN	 64u
#define REPLAY_BYTES_MAX ((size_t)64 << 20)

/* One step of the whole job. */
struct moment {
	uint64_t number;
	int64_t start_ns;
	uint32_t flags;	       /* of all rows together */
	uint32_t n_rows;       /* that have the step */
	double wall;	       /* lower median over rows */
	enum comm_op odd_op;   /* an operation that other steps lack (barrier, ..); COMM_NONE */
	bool set_aside;	       /* warm-up: shown, never judged */
	bool begins;	       /* the first step of a run */
	uint32_t run;	       /* from 0; the job was started again as often */
	struct replay *replay; /* NULL: not kept */
};

/* The replay of a step: see slow_replay.c. */
struct replay_event {
	double own;    /* own time of the row */
	uint32_t coll; /* place among the row's collectives, by start */
	uint32_t
	    block; /* 0: the row arrives at it; 1: the row cannot go on before it is complete */
};
struct replay_inst {
	double transfer;  /* its duration once all have arrived */
	float scale;	  /* of transfer, what its peers needed; 1: no doubt about it */
	uint32_t unit;	  /* of links; NO_ID */
	uint32_t members; /* rows that arrive */
};
struct replay {
	uint32_t n_rows, n_events, n_insts, n_colls;
	uint32_t *first;      /* [n_rows + 1] into events */
	uint32_t *first_coll; /* [n_rows + 1] into inst_of */
	uint32_t *inst_of;    /* [n_colls] which collective a row's slot is */
	uint64_t *kinds;      /* [n_rows] hash of a row's kinds of collectives */
	double *late;	      /* [n_rows] how much later than the first the row entered the step */
	double *end;	      /* [n_rows] own time at the step's end; < 0: absent */
	struct replay_event *events;
	struct replay_inst *insts;
	size_t bytes;
	size_t cap_colls, cap_insts;
};

/* What to assume of a step; all of zeros: as it was. */
struct what_if {
	const bool *rows;	/* [row] does what its peers did; NULL: nobody */
	const bool *units;	/* [link unit] is as fast as its like; NULL: none */
	const double *scale;	/* [row] own time times this; NULL: 1 */
	const uint32_t *source; /* [row] whose work it does, that then is scaled; NULL: its own */
};

/* A collective as all its members saw it. The first five hold in all steps that are paired alike.
 */
struct paired {
	uint32_t group; /* row of job groups */
	enum comm_op op;
	uint32_t members, first_member; /* into pairing.members */
	bool together;			/* members leave together */
	bool odd;			/* numbered twice, or called differently: not used */
	bool broken;			/* odd, or members contradict each other: not used */
	uint32_t known;			/* members whose clocks are known */
	uint32_t last_row;		/* that was looked at */
	uint64_t bytes;
	double shortest, longest;		/* durations */
	double last_start, first_end, last_end; /* by the clock of all */
	double waited;				/* by all members together; < 0: nobody did */
	uint32_t waited_at;			/* waits */
};
struct paired_member {
	uint32_t row;
	uint32_t coll; /* of the row's step */
};
/* Kept from step to step: a step of the same shape is paired as the one before. */
struct pairing {
	uint64_t *shape; /* [row] what its pairing depends on; NULL: nothing was paired yet */
	uint64_t bytes;	 /* hash over what was moved in this step */
	bool once;	 /* by its times: of no use for another step */
	bool orphans;	 /* a collective has one member that is not alone in its group */
	bool loose;	 /* a send or receive has */
	VEC(struct paired) insts;
	VEC(struct paired_member) members;
	uint32_t **inst_of; /* [row][coll] -> insts */
	int64_t base_ns;    /* the earliest start of a row */
	double *offset;	    /* [row] clock against row 0's clock; NAN: not connected */
	double scatter;	    /* of ends within a collective, median of the step, ns */
	struct arena arena; /* of what is made anew with the pairing */

	struct hop *hops; /* slow_clock.c; NULL: not planned */
	struct meeting *meetings;
	size_t n_hops, most_meetings;
	double *spreads;
	size_t spreads_cap;

	uint32_t **slot_of; /* slow_replay.c: [row][coll]; NULL: not known */
	uint64_t *kinds;    /* [row] hash of its kinds of collectives */

	struct link_sample *samples; /* slow_link.c, in order of kind and unit; NULL: not known */
	size_t n_samples;
	uint64_t samples_bytes; /* hash over what was moved */
};

/* A group, or a pair that sends and receives: its transfer times against those of its like. */
struct link_unit {
	uint32_t *rows; /* ascending */
	uint32_t n_rows;
	uint32_t group;	    /* row of job groups */
	uint32_t nodes;	    /* that its rows are spread over */
	bool p2p, complete; /* complete: all members were given */
	struct link_time {
		float spent;	/* ns, of what others of the kind do too; 0: nothing there */
		float alone;	/* ns, of what only this unit does: other bytes than all others */
		float expected; /* ns, from units of the same kind; 0: there is none to compare with
				 */
		float bytes;	/* of both */
	} * at;			/* [step] */
	bool by_past;		/* nobody like it is faster: expected is what it took before */
};

/* One kernel name over the job. */
struct kernel_line {
	uint32_t name;
	float *typical; /* [step] lower quartile over rows of the mean duration, ns; 0: absent */
	float *total;	/* [step] lower median over rows of the summed duration, ns */
	float *spread;	/* [step] distance of the quartiles over rows of the mean duration, ns */
};
#define KERNELS_MAX 512u

/* A kernel or phase of a row, summed over the steps in which the row looked slow. */
struct detail {
	uint32_t name;
	double excess_ns; /* over its peers */
	double base_ns;	  /* what its peers needed */
	double work;	  /* launches, or where all say how large, their blocks .. */
	double base_work; /* .. and those of its peers */
	double launches;  /* where blocks are known; 0: they are not */
};
/* What differed on a row while its step looked slow. */
struct row_detail {
	VEC(struct detail) kernels;
	VEC(struct detail) phases;
	double host_detail[HOST_DETAILS];
	uint32_t host_what;
	double host_what_ns;
	double
	    w1_ns; /* L3: the largest distance of one kernel's distribution to the group's middle */
	uint32_t w1_kernel;
};

/* Rows that slowed the job for one reason at the same steps. */
struct entry {
	enum blame blame;
	enum cause cause;
	VEC(uint32_t) rows;
	bool *on; /* [step] */
	uint32_t n_on;
	double mass_ns;	 /* summed excess over rows and steps */
	double mean_ns;	 /* excess a row and step that is on */
	double base_ns;	 /* what its peers needed there */
	double strength; /* excess in units of the noise */
	double saved_ns; /* by what-if, summed over the steps that are on and kept */
	double spent_ns; /* the same steps as replayed with the fault */
	double extra_ns; /* pipeline-imbalance: saved if what one stage has more were not there */
	uint32_t windows;
	double drift;	 /* share of base_ns that the excess grows by each step; 0: it does not */
	double lately;	 /* excess over base_ns in the last third, where it grows */
	double unsteady; /* how much the excess varies over its steps, against its middle */
	bool doubt_half; /* about half of the peers are slow and there is no past */
	VEC(uint32_t) units; /* comm-link: what is slow */
	double ratio;	     /* and by how much, against its like .. */
	bool by_past;	     /* .. or against what they took before */
	uint32_t node;	     /* a whole node; NO_ID */
	uint32_t kernel;     /* kernel-regression: interned name */
	uint32_t stage;	     /* pipeline-imbalance */
	bool whole_file;     /* no step marks: starting up is part of it */
	bool common;	     /* on all ranks alike: nobody is blamed */
	bool unseen;	     /* whoever it is was not given */
	enum work_told {
		WORK_UNTOLD, /* whether the ranks had more to do is not known */
		WORK_SAME,   /* the kernels that took longer were launched as large and as often */
		WORK_MORE,   /* they were launched larger, or more often */
	} work;
	double work_ratio; /* WORK_MORE: times that of its peers, of these kernels */
};

/* A kind of collective, to find the one that other steps lack. */
#define OP_MOMENTS 8u
#define OPS_MAX	   4096u
struct op_seen {
	uint64_t key; /* operation, group, whether it is small */
	uint32_t steps;
	uint64_t at[OP_MOMENTS]; /* of the last of these steps, counted from the first given */
	enum comm_op op;
};

/* Time that all ranks together waited in one operation of one kind of group. */
struct waited {
	uint32_t desc; /* of the group, interned; NO_ID */
	enum comm_op op;
	float *ns;     /* [step] */
	float *of_row; /* [row] over all steps */
};

/* The job was started again. */
struct restart {
	uint64_t last, first; /* numbers of the steps before and behind */
	uint64_t again;	      /* steps that are done once more */
	double again_ns;
	double down_ns; /* < 0: unknown */
	bool anew;	/* counted from where the run before had begun: again is not known */
	int64_t start_ns;
};

struct judge {
	struct job *job;
	struct judge_options options;
	uint32_t n_rows;
	struct pairing pairing; /* of the step that came last */

	uint32_t *role; /* [row] ranks that should look alike */
	uint32_t n_roles;
	uint32_t *by_role;	 /* rows in order of role, ascending in each */
	uint32_t *first_of_role; /* [n_roles + 1] into by_role */
	bool staged;		 /* roles are pipeline stages, in order */
	uint32_t roles_of;	 /* rows in the step by which they were found */
	uint32_t *node;		 /* [row] */
	uint32_t n_nodes;
	bool nodes_known; /* by host names or GPU indices */

	uint32_t n_steps, history; /* steps kept, at most history */
	uint64_t dropped_steps;
	VEC(struct restart) restarts;
	uint64_t run_first;	/* number of the run's first step */
	struct moment *moments; /* [history] */
	struct point *points;	/* [row * history + step] */
	size_t replay_bytes;
	struct replay *spare; /* one that was dropped: its memory is used again */

	bool *useless_numbers; /* [job groups] of this step: sequence numbers pair nobody */
	bool *local_peers;     /* [job groups] peers of sends and receives count within the group */
	VEC(struct link_unit) links;
	struct intern link_ids; /* keys of links */
	struct kernel_line *kernels;
	uint32_t n_kernels;
	uint32_t *kernel_of_name; /* [names] -> kernels */
	uint32_t kernel_of_name_n;
	struct row_detail *details; /* [row] */
	struct report_rank *ranks;  /* [row], moved into the report at the end */
	double *caused; /* [row] time that others stood waiting where it arrived last, ns */
	uint64_t paired, unpaired;
	VEC(struct waited) waits; /* by operation and group */
	VEC(struct op_seen) ops;
	uint32_t *op_slots; /* [2 * OPS_MAX] row of ops + 1, by key */

	struct report past; /* findings in steps that were forgotten */
	bool more_to_come;  /* these are not the last steps */

	/* filled by job_findings */
	float *ref; /* [role * history + step][BLAMES + 1]: what peers needed; last: own */
	double sigma[BLAMES];	 /* noise, with a floor */
	double measured[BLAMES]; /* the same without */
	VEC(struct entry) entries;
	struct arena scratch; /* of the entries: of one look at the history */
};

static inline struct point *point_of(const struct judge *j, uint32_t row, uint32_t t)
{
	return &j->points[(size_t)row * j->history + t];
}
static inline float *ref_of(const struct judge *j, uint32_t role, uint32_t t)
{
	return &j->ref[((size_t)role * j->history + t) * (BLAMES + 1)];
}
static inline bool is_p2p(enum comm_op op)
{
	return op == COMM_SEND || op == COMM_RECV || op == COMM_SEND_RECV;
}
static inline double coll_ns(const struct step_coll *c)
{
	return (double)(c->end_ns - c->start_ns);
}

/* The rows of a role: for (const uint32_t *row = role_rows(j, role); row < role_end(j, role);
 * row++)
 */
static inline const uint32_t *role_rows(const struct judge *j, uint32_t role)
{
	return j->by_role + j->first_of_role[role];
}
static inline const uint32_t *role_end(const struct judge *j, uint32_t role)
{
	return j->by_role + j->first_of_role[role + 1];
}

/* The middle that faults do not move: the lower median, or the middle of a tight faster mode that
   holds a quarter of the values or more. Reorders x. NAN if n == 0. */
double robust_reference(double *x, size_t n);
double lower_median(double *x, size_t n); /* reorders x */
int by_row(const void *a, const void *b); /* for qsort of rows */

/* judge.c */
/* Frees the entries of which drop says so. */
void entries_drop(struct judge *j, bool (*drop)(const struct judge *j, const struct entry *e));
/* Frees all that job_findings made: the history may be looked at again. */
void entries_forget(struct judge *j);
/* slow_restart.c */
/* Sets run and begins of step t, whose points are taken; notes a restart. */
void restart_step(struct judge *j, uint32_t t);
/* A note on what restarts cost. */
void restart_report(struct judge *j, struct report *report);
/* slow_role.c */
void roles_find(struct judge *j, struct step *const *steps);
void nodes_find(struct judge *j);
/* slow_pair.c */
void pair_step(struct judge *j, struct step *const *steps, struct pairing *p);
void pair_done(struct pairing *p);
/* slow_clock.c */
#define OVERLAP_SLACK_NS 50e3 /* clocks drift inside a step, and time stamps are rounded */
void clock_offsets(const struct judge *j, struct step *const *steps, struct pairing *p);
/* The scatter of ends within a collective; then those whose members were never in it at one time.
 */
void clock_contradictions(struct judge *j, struct pairing *p);
/* slow_replay.c */
struct replay *replay_build(struct judge *j, struct step *const *steps, struct pairing *p);
/* The length of step t under an assumption. */
double replay_run(const struct judge *j, const struct replay *r, uint32_t t,
		  const struct what_if *w);
void replay_free(struct replay *r);
/* slow_link.c */
/* Notes the transfers of a step, and in its replay what they would be at their peers' speed. */
void link_step(struct judge *j, struct pairing *p, struct replay *r, uint32_t t);
void link_entries(struct judge *j);
/* slow_pin.c */
/* Fills e->rows with whom the slow units point to, and e->strength; nobody if several fit alike. */
void link_pin(struct judge *j, struct entry *e, const bool *slow, const bool *compared);
/* slow_kernel.c */
void kernel_step(struct judge *j, struct step *const *steps, uint32_t t);
void kernel_details(struct judge *j, struct step *const *steps, uint32_t row, const uint32_t *peers,
		    size_t n_peers);
/* Had the ranks of an entry more to do than their peers? */
void kernel_work(const struct judge *j, struct entry *e);
bool kernel_regression(struct judge *j, struct report *report);
/* Where x[0..n) steps up for good, with `least` values or more on each side: the split with the
   widest clear gap, and the medians before and after it. 0 if there is none. */
size_t step_up(const double *x, size_t n, size_t least, double *before, double *after);
/* slow_reference.c */
void own_references(struct judge *j);
/* How far a row's part of the step (BLAMES: all of it) is above what its role needed, ns. */
double own_excess(const struct judge *j, uint32_t row, uint32_t t, int b);
/* slow_own.c */
void own_entries(struct judge *j);
void bridge_warm_up(const struct judge *j, bool *on);
/* For recordings of one or two steps: who the others waited for. */
bool late_entry(struct judge *j, struct entry *ret);
/* slow_job.c */
void job_set_aside(struct judge *j);
void job_findings(struct judge *j, struct report *report);
/* slow_past.c */
void past_take(struct judge *j); /* what is found in the history as it stands */
void past_report(struct judge *j, struct report *report);
/* Where a fault began that was there in the first step of the history already; -1: there, or it
   was not seen before. */
int64_t past_start(const struct judge *j, const struct entry *e);
/* slow_impact.c */
void entry_impact(struct judge *j, struct entry *e);
bool work_takes_turns(const struct judge *j);
/* For entries_drop: only the restless part of uneven work. */
bool is_restless(const struct judge *j, const struct entry *e);
/* Ranks of several machines that are slow at the same few steps now and then share their work (a
   replica's long sequences), not their machine. */
bool is_shared_work(const struct judge *j, const struct entry *e);
bool imbalance_of_work(struct judge *j, struct entry *ret);
bool imbalance_of_stages(struct judge *j, struct entry *ret);
/* slow_report.c */
uint32_t judged_steps(const struct judge *j); /* not set aside */
bool names_nobody(const struct entry *e);     /* a fault of the job's, or nobody's */
bool may_be_work(const struct entry *e);      /* slow by its machine, or by more work: not told */
const struct detail *main_detail(const struct detail *v,
				 size_t n); /* most of the excess; NULL: none */
void entry_report(struct judge *j, struct report *report, struct entry *e);
/* slow_words.c */
const char *name_of(const struct judge *j, uint32_t id); /* NULL: none */
/* Where a rank was in the last of an entry's steps. */
struct job_place place_of_row(const struct judge *j, const struct entry *e, uint32_t row);
void words_say(const struct judge *j, struct report *r, struct finding *f, const struct entry *e);
void words_next(const struct judge *j, struct report *r, struct finding *f, const struct entry *e);
