/* SPDX-License-Identifier: Apache-2.0 */
/* alert_inside.h - what the files of alerts share: targets, their deliveries, and flights. */
#pragma once
#include "alert/alert_command.h"
#include "alert/alert_journal.h"
#include "alert/alert_template.h"

#define REFUSALS_MOST	  5u  /* of one delivery, then it is given up */
#define FLIGHTS_A_TARGET  4u  /* at once, each of another alert */
#define TRIES_BEFORE_AGE  20u /* a clock that steps makes nothing too old at once */
#define ESCALATIONS_MOST  3u
#define SAVE_AGAIN_MS	  30000
#define SAVE_SOON_MS	  1000 /* with a change */
#define HEARTBEAT_SHARE	  4    /* a failed one is tried again after this part of its interval */
#define ANSWER_BYTES_MOST 4096u

struct alerts;
struct target;

/* One try under way: of a delivery, or (event NULL) of the heartbeat. */
struct flight {
	struct alerts *a;
	struct target *target;
	struct event *event;
	struct web_call *call; /* or: */
	struct command *command;
	struct flight *next;
};
struct delivery {
	struct event *event;
	struct flight *flight;
	bool behind; /* an older event of the same alert waits in front of it */
	unsigned tries, refusals;
	int64_t next_ms;
};
struct target {
	char *webhook, *command, *ca_file, *token_file;
	struct template *template;
	bool json; /* what the template gives */
	enum alert_severity least;
	unsigned bit;		    /* in event.to */
	char name[160];		    /* for people */
	VEC(struct delivery) queue; /* in the order of events */
	unsigned failures, flying;  /* failures: in a row */
	int64_t next_ms;
};
/* How tries are made; the tests have one of their own. done is flight_done. */
struct alert_transport {
	int (*start)(void *user, struct flight *f, const struct buf *body, struct error *reterr);
	void *user;
};
struct alerts {
	struct ledger ledger;
	struct journal journal;
	struct target *targets;
	size_t n_targets;
	struct target heartbeat; /* webhook NULL: none */
	struct flight *beating;
	int64_t next_beat_ms, now_ms, next_save_ms;
	char *job, *host;
	unsigned heartbeat_ms, answer_ms, retry_ms, retry_most_ms, escalate_ms;
	int64_t keep_ms;
	struct web *web;
	bool own_web, alive, unsaved;
	struct error why_unsaved;
	struct alert_transport transport;
	struct flight *flights; /* all */
	uint64_t random;
	struct alert_counts counts;
};

/* alert_body.c: what templates and the plain JSON say of an event; new reference. */
json_t *body_fields(const struct alerts *a, const struct event *e);
void body_make(const struct alerts *a, const struct target *t, const struct event *e,
	       struct buf *out);
extern const char *const body_names[];
extern const size_t body_n_names;
/* Renders samples; -EINVAL with detail if a template for JSON gives none. */
int body_prove(const struct alerts *a, const struct target *t, const char *path,
	       struct error *reterr);

/* alert_target.c */
int target_open(struct alerts *a, struct target *t, const struct alert_target *from,
		struct error *reterr);
void target_id(const struct alert_target *from, size_t again, char ret[TARGET_ID]);
void target_done(struct target *t);
void target_queue(struct target *t, struct event *e);
void target_unqueue(struct target *t, const struct event *e);

/* alert_send.c: tries and their ends. */
void sends_begin(struct alerts *a);   /* what is due */
void commands_look(struct alerts *a); /* those that have ended */
void flight_done(struct flight *f, const struct web_answer *answer);
int64_t sends_next_ms(const struct alerts *a);
void flights_end(struct alerts *a); /* cancels all */

/* alert.c */
void alerts_settled(struct alerts *a, struct target *t, struct event *e, const char *how);
void alerts_said(struct alerts *a, const char *format, ...) PRINTF_LIKE(2, 3);
/* What another transport than the web and commands makes of the tries: for tests. */
void alerts_transport(struct alerts *a, const struct alert_transport *transport);
