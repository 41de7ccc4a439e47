/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_core.h - what the watcher knows of a job, and what it concludes.
 *
 * A pure machine: observations come in with their times, a judgement goes out for a moment; it
 * reads no clock, no file and no network. So hours are tried in seconds, and a restart takes up
 * where the state was written. Times are milliseconds of a clock that never steps.
 *
 * What is normal is learnt from the job itself: the time between its lines, how long its saves,
 * evaluations and other pauses last that end by themselves. Silence is never health: who has
 * nothing to judge by says `blind`.
 *
 * Invariant: a time is above 0, or -1 where there is none; so the clock begins at WATCH_EPOCH_MS,
 * and what is older than the machine's boot has a time too.
 */
#pragma once
#include "base/base.h"

#define WATCH_EPOCH_MS INT64_C(1000000000000)

enum watch_state {
	WATCH_STARTING,
	WATCH_HEALTHY,
	WATCH_SUSPECT,
	WATCH_HUNG,
	WATCH_CRASHED,
	WATCH_COMPLETED,
	WATCH_BLIND,
	WATCH_STATES
};
const char *watch_state_name(enum watch_state s);

/* What an alert may be about; several may hold at once. */
enum watch_matter {
	MATTER_HUNG,
	MATTER_CRASHED,
	MATTER_COMPLETED,
	MATTER_SUSPECT,
	MATTER_IDLE,	  /* all GPUs idle, and nothing else tells of the job */
	MATTER_STARVED,	  /* GPUs wait for data */
	MATTER_THROTTLED, /* clocks are far below what they were */
	MATTER_SLOW,	  /* below the floor of its own throughput */
	MATTER_OVERDUE,	  /* a checkpoint */
	MATTER_LOSS,	  /* is not a number */
	MATTER_BLIND,
	MATTERS
};
const char *watch_matter_key(enum watch_matter m); /* "hung", "checkpoint-overdue" */

struct watch_limits {
	int64_t suspect_ms, hung_ms;	/* with nothing learnt */
	double steps;			/* suspect after so many median steps */
	int64_t start_ms;		/* until the first step */
	int64_t blind_ms;		/* a source may be silent */
	int64_t slow_ms;		/* too slow or starved for so long */
	int64_t settle_ms;		/* what lay there before is not called a hang before */
	int64_t save_every_ms;		/* 0: as the job did */
	double floor;			/* of its own median throughput; 0: none */
	double band;			/* of a board's limit: below it no GPU computes */
	bool suspect_given, hung_given; /* by a person: only what is learnt raises them */
	bool once;			/* no second look: what is silent now is silent */
};
struct watch_limits watch_limits_usual(void);

/* --- what is seen --- */

enum watch_sight {
	SIGHT_STEPS,	   /* rank, step, .. : lines of progress, one or many */
	SIGHT_SAVE_BEGIN,  /* value: its step */
	SIGHT_SAVE_END,	   /* value: its step; span_ms if said */
	SIGHT_SAVE_STANDS, /* it has not ended, and nothing changed since at_ms; text: what it lacks
			    */
	SIGHT_SAVED,	   /* a checkpoint appeared in the folder; text: its name */
	SIGHT_EVALUATION,
	SIGHT_PREPARES, /* compiles, builds an index, loads: long before a step is late */
	SIGHT_RESTART,
	SIGHT_FAILURE, /* rank, host, what, text; sure: the launcher or scheduler says it is over */
	SIGHT_TIMEOUT, /* a collective's watchdog spoke */
	SIGHT_DUMP,    /* a Flight Recorder dump appeared */
	SIGHT_DONE,    /* it ended as it should */
	SIGHT_JOB,     /* the scheduler's word: value is an enum watch_job_state */
	SIGHT_LOSS,    /* number: the last; NAN counts value times in a row */
	SIGHT_HEARD,   /* the source answered */
	SIGHT_SILENT,  /* it did not: text says why */
	SIGHTS
};
enum watch_job_state { JOB_UNKNOWN, JOB_PENDING, JOB_RUNNING, JOB_DONE, JOB_FAILED, JOB_GONE };

struct watch_seen {
	enum watch_sight sight;
	uint32_t source;
	int64_t at_ms;
	int64_t rank, value; /* -1 */
	const char *host, *what, *text;
	bool sure;
	double number;
	/* SIGHT_STEPS */
	int64_t first_ms;	 /* of its first line; at_ms: of its last */
	int64_t lines, total;	 /* total: of the whole job; -1 */
	double line_ms, step_ms; /* usual; NAN */
	int64_t pause_ms;	 /* the longest between two of its lines; 0 */
	bool paused_to_save, paused_to_evaluate;
	bool again;	 /* the steps went back: it was started again */
	bool history;	 /* read from what lay there before we watched */
	int64_t span_ms; /* SIGHT_SAVE_END */
};
struct watch_seen watch_seen_of(enum watch_sight sight, uint32_t source, int64_t at_ms);

struct watch_gpu_seen {
	uint32_t source;
	const char *host; /* "" */
	int64_t index, rank;
	int64_t at_ms;
	double power_w, limit_w, utilization, sm_clock_mhz; /* NAN */
	int64_t xid;					    /* -1 */
};

/* --- the state --- */

#define WATCH_RING	64u
#define WATCH_RANKS	16384u
#define WATCH_GPUS_MOST 16384u
#define WATCH_SAMPLES	24u
#define WATCH_TEXT	240u

struct watch_ring { /* the last lengths of something, ms */
	int64_t v[WATCH_RING];
	uint64_t n;
};
void watch_ring_add(struct watch_ring *r, int64_t ms);
int64_t watch_ring_most(const struct watch_ring *r);   /* 0: nothing learnt */
int64_t watch_ring_median(const struct watch_ring *r); /* 0 */

enum gpu_shape {
	SHAPE_NONE,    /* nothing known, or too old */
	SHAPE_WORKS,   /* computes */
	SHAPE_WAITS,   /* spins in a collective: busy, and few watts */
	SHAPE_RESTS,   /* 0 %, few watts */
	SHAPE_BUSY,    /* 100 %, watts unknown */
	SHAPE_FEW,     /* few watts, utilization unknown */
	SHAPE_STARVED, /* half busy, few watts */
	GPU_SHAPES
};
enum gpu_pattern {
	PATTERN_NONE,
	PATTERN_WORKS,
	PATTERN_SPLIT, /* one or few rest, the others wait */
	PATTERN_WAITS, /* all wait */
	PATTERN_FEW,   /* few watts everywhere, and no utilization to see who */
	PATTERN_RESTS,
	PATTERN_MIXED, /* nobody works */
	PATTERN_STARVED,
	PATTERNS
};
const char *gpu_pattern_name(enum gpu_pattern p);

struct watch_sample {
	int64_t at_ms;
	float power_w, limit_w, utilization, sm_clock_mhz;
};
struct watch_gpu {
	char *host;
	int64_t index, rank, xid;
	uint32_t source;
	enum gpu_shape shape;
	int64_t at_ms, period_ms;
	double most_w, least_w;	      /* seen */
	double busy, share, clock;    /* over the last minutes */
	double busy_last, share_last; /* not yet in these */
	double clock_best;	      /* while it worked */
	uint32_t rested;	      /* pauses in which it rested and that ended by themselves */
	bool rests_now;		      /* in this pause */
	struct watch_sample last[WATCH_SAMPLES];
	uint32_t n_last;
};
struct watch_rank {
	int64_t rank; /* -1: lines that name none */
	uint32_t source;
	int64_t step, at_ms;
	int64_t total; /* that it shows beside its steps; 0: none */
};
struct watch_failure {
	bool known, sure;
	int64_t rank, at_ms;
	char host[64], what[64], text[WATCH_TEXT];
};
struct watch_source_seen {
	char *name;
	bool tells_steps, tells_gpus, tells_job, tells_saves;
	int64_t heard_ms, asked_ms; /* -1: never */
	bool absent;		    /* a folder that is not there yet */
	char why[WATCH_TEXT];	    /* it is silent; "" */
};

enum watch_phase { PHASE_START, PHASE_STEPS, PHASE_SAVE, PHASE_EVALUATION, PHASE_PREPARE, PHASES };

struct watch {
	struct watch_limits limits;
	int64_t began_ms;
	VEC(struct watch_source_seen) sources;
	/* progress */
	enum watch_phase phase;
	int64_t phase_ms, progress_ms; /* -1: never */
	int64_t step, total;
	bool beyond;	     /* it went on behind the total: that is no end */
	int64_t ranks_known; /* the job has so many at least, whether or not they are seen */
	uint64_t attempt, steps_seen; /* lines of steps in this attempt */
	VEC(struct watch_rank) ranks;
	size_t rank_next;
	struct watch_ring line, pause, save, evaluation; /* between lines; longer pauses by kind */
	struct watch_ring step_us;			 /* all of the job, thinned */
	struct watch_ring step_now;			 /* the last ones */
	bool saves_since, evaluates_since;		 /* the last step */
	uint64_t save_begins, evaluations;
	int64_t slow_since_ms, starved_since_ms, throttled_since_ms;
	/* saves */
	int64_t save_begun_ms, saved_ms;
	int64_t stands_ms;	 /* a save that has not ended does nothing since; -1 */
	char stands[WATCH_TEXT]; /* which one, and what it lacks */
	struct watch_ring save_period;
	char saved_name[128];
	/* ends */
	struct watch_failure failure;
	int64_t done_ms, timeout_ms, dump_ms;
	uint64_t dumps;
	enum watch_job_state job;
	int64_t job_ms, gone;
	char job_word[64];
	int64_t loss_bad;
	/* GPUs */
	VEC(struct watch_gpu) gpus;
	uint32_t *gpu_table; /* by what tells them apart: row + 1, 0 where there is none */
	size_t gpu_slots, gpus_filed;
	uint32_t shapes[GPU_SHAPES];
	enum gpu_pattern pattern;
	int64_t round_ms, pattern_ms;	/* the round under way; since when it looks like this */
	int64_t signature_ms, still_ms; /* since when: the signature; nobody works; -1 */
	uint32_t signature_rounds, still_rounds;
	struct watch_ring still; /* pauses of all GPUs that ended by themselves */
	bool worked;		 /* they were seen to */
	/* the judgement before */
	bool hung;
	int64_t hung_ms; /* since when nothing moves */
};

void watch_init(struct watch *w, const struct watch_limits *limits, int64_t now_ms);
void watch_done(struct watch *w);
uint32_t watch_add_source(struct watch *w, const char *name);
void watch_saw(struct watch *w, const struct watch_seen *s);
/* The job has n ranks at least; a world that is said, or a rank that is named. */
void watch_knows_ranks(struct watch *w, int64_t n);
void watch_saw_gpu(struct watch *w, const struct watch_gpu_seen *s);

struct watch_matter_now {
	bool raised, mild; /* mild: less severe than its kind */
	char summary[WATCH_TEXT * 2];
};
struct watch_judgement {
	enum watch_state state;
	char summary[WATCH_TEXT * 2];
	struct watch_matter_now matters[MATTERS];
	int64_t quiet_ms;	     /* since the last sign of progress; -1 */
	int64_t suspect_ms, hung_ms; /* the limits as they hold now */
	const char *by;		     /* "steps", "gpus", .. */
};
void watch_judge(struct watch *w, int64_t now_ms, struct watch_judgement *ret);

/* --- inside: watch_gpu.c --- */

/* Settles the round that is over; takes GPUs out of which nothing was heard. */
void watch_gpus_settle(struct watch *w, int64_t now_ms);
uint32_t watch_gpus_known(const struct watch *w);
bool watch_gpus_signature(const struct watch *w);
/* Does somebody rest who never did in the pauses before? */
bool watch_gpus_strangers(const struct watch *w);
/* "node03 gpu 5", .. of those that rest; at most three by name. */
void watch_gpus_resting(const struct watch *w, char *ret, size_t size);
bool watch_gpus_starved(const struct watch *w);
uint32_t watch_gpus_throttled(const struct watch *w);
/* --- watch_judge.c: "4 min 10 s" --- */
const char *watch_span(int64_t ms, char ret[32]);
/* --- watch_core.c: what is no UTF-8 becomes "?" --- */
void watch_clean(char *s);
