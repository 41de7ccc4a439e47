/* SPDX-License-Identifier: Apache-2.0 */
/* hang_internal.h - between the files that judge a hang. Rows are the scene's unless said. */
#pragma once
#include "judge/hang.h"
#include "model/doing.h"

/* What GPUs draw, as shares of their board's limit, tells what they do. */
enum power_shape {
	SHAPE_UNKNOWN,
	SHAPE_COMPUTE,	     /* most of the limit */
	SHAPE_COMMUNICATION, /* half of it, at full utilization */
	SHAPE_WAITING,	     /* full utilization, little power: a kernel that spins */
	SHAPE_STARVED,	     /* it comes and goes */
	SHAPE_IDLE,	     /* no utilization, little power */
	SHAPES
};

/* A rank's own failure, by the words of its log, its launcher or its node. */
struct failure {
	enum cause cause;
	const struct scene_saying *said; /* the line that counts; NULL: none */
	int64_t time_ns;
	uint64_t order; /* file and line */
	bool first;	/* the launcher calls it the first */
	bool by_signal; /* it was ended from outside, by nobody who said so */
};

/* All that is known of a rank, beside where it stands in groups. */
struct rank_look {
	bool has_stack;
	struct doing_found doing;
	uint32_t place;		/* equal where the main threads of ranks stand alike */
	bool waiting_stack;	/* its stack waits in a collective, or may */
	bool busy_stack;	/* its stack is in something that is no collective */
	struct failure *failed; /* NULL: no failure of its own */
	bool echo;		/* it failed because a peer did, or was ended by its launcher */
	bool lost_peer;		/* .. by its own words: it was waiting for others */
	bool stopped;		/* its launcher says that it ends it */
	const struct scene_saying *end; /* the launcher's line of its exit; NULL */
	bool told;			/* to dump, by another's watchdog: it lives */
	bool not_gathered; /* nothing was taken on its whole node when the others' was */
	bool monitored;	   /* its heartbeat monitor spoke: it lives, its watchdog hangs */
	bool left;	   /* it said that it leaves */
	const struct scene_saying *left_said;
	enum power_shape shape;
	bool saving;	  /* a save of its own, or of all, was begun and not ended */
	bool unanswered;  /* ncclras has it as dead, missing or silent */
	bool data_work;	  /* the last that the log is about: work on data, of its own or of all */
	bool compile;	  /* the same of compiling */
	int64_t xid;	  /* last one of its own GPU; -1 */
	bool named, dead; /* by a breach, once they stand */
};

struct row_list {
	uint32_t *v;
	size_t n, cap;
};

/* Why a set of ranks is named. */
enum ground {
	GROUND_BEHIND,	 /* others wait in what it has not begun */
	GROUND_ABSENT,	 /* the same, and nothing is of it */
	GROUND_DIFFERS,	 /* it called something else in the same place */
	GROUND_ORDER,	 /* a cycle of groups: it left the usual order */
	GROUND_STUCK,	 /* all have come and nothing moves */
	GROUND_REPORTED, /* PyTorch or NCCL name it */
	GROUND_FAILED,	 /* its own failure ended the job */
	GROUND_STACK,	 /* its stack is elsewhere than the others' */
	GROUND_POWER,	 /* its GPU is idle where the others' wait */
};

/* Why a job never began. */
enum start {
	START_BEGAN,
	START_OTHER_WORLD, /* they count another number of ranks */
	START_NO_WAY,	   /* they could not reach the store that others reached */
	START_NO_STORE,	   /* nobody could */
	START_NEVER_CAME,  /* the store missed as many as left no word */
	START_IN_LOBBY,	   /* the others still wait for the group to be set up */
};

/* One thing that broke. */
struct breach {
	enum ground ground;
	enum cause cause;
	const char *detail;
	struct row_list culprits, victims;
	struct row_list groups; /* of those joined into one */
	uint32_t group;		/* where they wait; NO_ID */
	int64_t seq;
	uint32_t signature; /* what they wait in; NO_ID */
	const struct scene_conflict *conflict;
	const struct failure *failure;
	bool tie;   /* all sides are named: none is the odd one */
	bool alike; /* most ranks failed by the same words */
	bool
	    left_out; /* it waits where the others do, but its step lacks a call, or has one more */
	bool on_gpu;  /* its host has called what the others wait in, its GPU has not begun it */
	enum start start;
	int64_t
	    counted; /* of it: ranks that there should be; seq: that came, or were believed in */
	double confidence;
};

struct hang {
	const struct scene *s;
	struct report *r;
	uint32_t *row;		/* of the report, by the scene's */
	struct rank_look *look; /* by the scene's rows */
	VEC(struct failure) failures;
	VEC(struct breach) breaches;
	struct failure *untied; /* words of a node that name no rank */
	size_t n_untied;
	size_t n_stacks;	      /* ranks whose stack was given */
	struct row_list nodes_failed; /* sayings in which the scheduler gives up a node */
	bool timed_out;		      /* somebody's watchdog spoke */
	bool someone_waits;	      /* by a dump */
	bool ended;		      /* the job ended by an error */
	bool near_end;		      /* the log stands near the end of an epoch or of the run */
	bool goes_on;		      /* something shows progress after the dumps */
	bool monitors;		      /* heartbeat monitors spoke */
	bool spins;		      /* all GPUs wait, and no step came for long */
	bool assumed_hang;	      /* one recording: that it hangs is assumed */
	int64_t counts_ns;     /* between readings of ncclras that are equal; 0: one; -1: none */
	struct row_list early; /* they say that their epoch is over, the others go on */
	struct row_list
	    unseen; /* nothing pending, but perhaps in a send or receive that no dump shows */
	int64_t last_step, total_steps;
	int64_t waited_ms;		    /* as the watchdogs state it; -1 */
	bool peer_lost;			    /* somebody lost a peer, or its store */
	const struct scene_saying *stopped; /* a launcher was ended itself; NULL */
	const struct scene_saying *cancelled;
	int64_t now_ns;	       /* the latest moment of what is sampled again and again; -1 */
	int64_t save_began_ns; /* of the save that is not known to be over; -1 */
	bool saves_now;	       /* others wait for a save that is within its usual time */
	size_t saves_before;
	double longest_save_ms; /* of those before; 0: not known */
};

/* What more than half of a number are alike in is what is left of pairs that differ (Boyer and
   Moore 1981): the candidate, who is to be counted. */
struct vote {
	size_t for_it;
};
/* One more; false: it is the candidate from now on. */
static inline bool vote_goes_on(struct vote *v, bool like_candidate)
{
	bool goes_on = v->for_it;

	v->for_it += !goes_on || like_candidate ? 1 : -(size_t)1;
	return goes_on;
}

/* hang_rows.c: rows of the report for all ranks of the scene */
void rows_join(struct hang *h);
/* hang_look.c: stacks, words and power of each rank */
void look_at_ranks(struct hang *h);
bool waits_by_stack(const struct doing_found *d);
/* hang_saves.c */
void look_at_now(struct hang *h);
void look_at_saves(struct hang *h);
bool save_is_usual(const struct hang *h); /* no longer than saves take in this job */
/* hang_power.c */
void look_at_power(struct hang *h);
const char *power_shape_name(enum power_shape s);
/* hang_fail.c: who failed first by its own words */
void look_at_failures(struct hang *h);
void breach_of_failures(struct hang *h);
void breach_of_echoes(struct hang *h);
/* hang_start.c: jobs that never began. false: it is none of which that can be told */
bool breach_of_start(struct hang *h);
void breach_of_lobby(struct hang *h);
const char *words_of_lobby(struct hang *h); /* where it names nobody; NULL: not of that kind */
const char *sentence_of_start(struct hang *h, const struct breach *b);
/* hang_wait.c: who waits for whom */
/* with_unseen: ranks of which there is nothing count as not having come */
void breach_of_waits(struct hang *h, bool with_unseen);
/* hang_sides.c: which side of a conflict, or of a cycle, is the odd one */
void odd_side(struct hang *h, struct breach *b, const struct scene_conflict *c);
void breach_of_places(struct hang *h);
struct cycle {
	void *user;
	/* If these ranks went on, would nobody wait for each other any more? */
	bool (*breaks)(void *user, const uint32_t *rows, size_t n);
};
void odd_in_cycle(struct hang *h, struct breach *b, const uint32_t *rows, size_t n,
		  const struct cycle *cycle);
/* hang_alone.c: where no frontier is known: stacks, power, RAS, reports alone */
void breach_of_reports(struct hang *h);
void breach_of_one_failure(struct hang *h);
void breach_of_silence(struct hang *h);
void breach_of_setup(struct hang *h); /* one rank keeps a group from being set up */
void breach_of_monitors(struct hang *h);
void breach_of_all_monitors(struct hang *h); /* where they name nobody */
void breach_of_counts(struct hang *h);
void breach_of_stacks(struct hang *h);
void breach_of_power(struct hang *h);
int64_t gpus_read_ns(const struct hang *h); /* the latest sample of power; -1 */
/* hang_cause.c */
void find_cause(struct hang *h, struct breach *b);
void split_by_cause(struct hang *h);
/* Two failures of one kind, by the same words where there are any. */
bool same_failure(const struct failure *a, const struct failure *b);
/* hang_after.c: what became of the others once the first had failed */
void prove_after(struct hang *h, struct finding *f, const struct breach *b);
/* hang_proof.c */
void prove(struct hang *h, struct finding *f, const char *source, const char *text);
void prove_breach(struct hang *h, struct finding *f, const struct breach *b);
/* hang_words.c */
void write_findings(struct hang *h);
const char *hang_name(const struct hang *h, uint32_t id);		  /* "" for NO_ID */
const char *hang_last_words(const struct hang *h, enum saying_kind kind); /* "": none */
const char *hang_who(struct hang *h, const uint32_t *rows, size_t n); /* "rank 3", "ranks 0-2" */
const char *hang_op(struct hang *h, uint32_t signature);	      /* "barrier" */
const char *hang_group(struct hang *h, uint32_t group);
const char *hang_doing(struct hang *h, uint32_t row); /* what its stack is doing */
/* hang_freeze.c: a job that stands still again and again, and goes on */
void judge_freezes(struct hang *h, double min_impact);
/* hang_table.c: groups, stacks and power in the report */
void write_tables(struct hang *h);

/* hang_unseen.c: what Gloo's dumps do not show */
void doubt_unseen(struct hang *h);
/* hang_absent.c */
void look_at_nodes(struct hang *h);
void weigh_absence(struct hang *h);
bool node_failed(const struct hang *h, uint32_t row); /* by the scheduler's words */
void breach_drop(struct hang *h, size_t i);
void rows_append(struct row_list *to, const struct row_list *from); /* hang.c */
struct breach *breach_new(struct hang *h, enum ground ground);
const char *hang_ranks(struct hang *h, const uint32_t *rows, size_t n); /* "0-2,4" */
