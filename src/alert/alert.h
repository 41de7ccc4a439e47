/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert.h - alerts to people, out of band: delivered at least once, never twice for one matter as
 * far as a receiver can tell, over restarts of the watcher, failing receivers and receivers that
 * never answer.
 *
 * An alert is known by its key ("hung", "checkpoint-overdue"). Raising a raised one changes its
 * text at most, unless it has become more severe; clearing sends the resolution. What is to be
 * delivered lies on disk before anybody tries, and is gone from it only after the receiver said
 * yes. Nothing here blocks: deliveries are steps of one loop. docs/alerts.md says what is promised.
 *
 * now_ms is Unix time in milliseconds and comes from the caller; it may step.
 */
#pragma once
#include <jansson.h>

#include "alert/web.h"

enum alert_severity { ALERT_INFO, ALERT_WARNING, ALERT_CRITICAL, ALERT_SEVERITIES };
struct alert {
	const char *key; /* printable, at most ALERT_KEY_MOST bytes */
	enum alert_severity severity;
	const char *summary; /* one line: what, who, since when */
	json_t *detail; /* more for templates and --json: culprit, verdict, evidence; borrowed */
};
#define ALERT_KEY_MOST	   200u
#define ALERT_SUMMARY_MOST 1000u
#define ALERT_DETAIL_MOST  (64u << 10) /* of JSON; more is left out, and that is said */

struct alert_target {	      /* where alerts go; several are served alike */
	const char *webhook;  /* URL; NULL: */
	const char *command;  /* run by /bin/sh with the body on standard input */
	const char *template; /* file with {{fields}}; NULL: the plain JSON of docs/alerts.md */
	enum alert_severity least;
	const char *ca_file;	/* trusted for https instead of the system's; NULL */
	const char *token_file; /* its first line goes out as bearer token; NULL */
};
struct alert_plan {
	const char *state; /* folder of its own, 0700: queue and raised alerts */
	const char *job, *host;
	const struct alert_target *targets;
	size_t n_targets;
	const char *heartbeat; /* URL that is asked while the watcher lives and sees; NULL */
	const char *heartbeat_template; /* POSTed; NULL: GET */
	const char *heartbeat_ca_file, *heartbeat_token_file;
	unsigned heartbeat_ms;		  /* default 60,000 */
	unsigned answer_ms;		  /* a receiver has so long; default 10,000 */
	unsigned retry_ms, retry_most_ms; /* back-off: 5,000 doubling to 300,000, with jitter */
	unsigned
	    escalate_ms; /* raised so long without an end: sent again, one severity up; 0: never */
	unsigned keep_hours; /* an undelivered alert is kept so long; default 168 */
	struct web *web;     /* the caller's, so that one wait serves both; NULL: one of our own */
};
struct alerts;

/*
 * 0, or 1 with detail: the folder cannot be written, so alerts are kept in memory and delivered,
 * but a restart would lose them; it is tried again with each change. Bad templates, URLs and
 * folders: a negative errno.
 */
int alerts_open(const struct alert_plan *plan, int64_t now_ms, struct alerts **ret,
		struct error *reterr);
/* Raised or cleared; on disk when it returns, else reterr's text is set (empty otherwise) and it is
   kept in memory. 1: this is news, 0: it was so already, -EINVAL: no key. */
int alert_raise(struct alerts *a, const struct alert *alert, int64_t now_ms, struct error *reterr);
int alert_clear(struct alerts *a, const char *key, const char *summary, int64_t now_ms,
		struct error *reterr);
bool alert_is_raised(const struct alerts *a, const char *key);
/* Heartbeats go out while this is true: the watcher is not blind. At first it is not. */
void alerts_alive(struct alerts *a, bool alive);
/*
 * Goes on with deliveries for at most wait_ms, less when something has come to its end;
 * ret_next_ms: when it wants to be called again. With plan.web it never waits, and answers come out
 * of the caller's web_step.
 */
void alerts_step(struct alerts *a, int64_t now_ms, unsigned wait_ms, int64_t *ret_next_ms);
/* Before an end: goes on for most_ms, or until all is delivered. How many deliveries wait still;
   they lie on disk, and go on when somebody opens the folder again. */
uint64_t alerts_finish(struct alerts *a, int64_t now_ms, unsigned most_ms);

/* For Prometheus and people, since the start but for raised and waiting. */
struct alert_counts {
	uint64_t raised, waiting; /* now; waiting: deliveries, one a target */
	uint64_t delivered, failed, heartbeats, heartbeats_failed;
	uint64_t refused; /* given up: the receiver will not have this one */
	uint64_t dropped; /* given up: too old, too many, or its target is no longer configured */
	uint64_t damaged; /* lines of the state that could not be read */
	bool unsaved;	  /* the state is in memory only */
	char last_error[256];
};
struct alert_counts alerts_counts(const struct alerts *a);
/* The plain JSON of what is raised, an array; for --json and status. New reference. */
json_t *alerts_raised(const struct alerts *a);
struct alerts *alerts_close(struct alerts *a); /* what waits stays on disk; NULL is fine */
