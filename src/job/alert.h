/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert.h - alerts to people, out of band: delivered at least once, never twice for one matter,
 * over restarts of the watcher, failing receivers and receivers that never answer.
 *
 * An alert is known by its key ("hung", "checkpoint-overdue"). Raising a raised one changes its
 * text at most; clearing sends the resolution. What is to be delivered lies on disk before anybody
 * tries, and is gone from it only after the receiver said yes. Nothing here blocks: deliveries are
 * steps of one loop.
 */
#pragma once
#include <jansson.h>

#include "base/base.h"

enum alert_severity { ALERT_INFO, ALERT_WARNING, ALERT_CRITICAL, ALERT_SEVERITIES };
struct alert {
	const char *key;
	enum alert_severity severity;
	const char *summary; /* one line: what, who, since when */
	json_t *detail; /* more for templates and --json: culprit, verdict, evidence; borrowed */
};

struct alert_target {	      /* where alerts go; several are served alike */
	const char *webhook;  /* URL; NULL: */
	const char *command;  /* run by /bin/sh with the body on standard input */
	const char *template; /* file with {{fields}}; NULL: the plain JSON of docs/watch.md */
	enum alert_severity least;
};
struct alert_plan {
	const char *state; /* folder, 0700: queue and raised alerts */
	const char *job, *host;
	const struct alert_target *targets;
	size_t n_targets;
	const char *heartbeat;		  /* URL that is asked while the watcher lives; NULL */
	unsigned heartbeat_ms;		  /* default 60,000 */
	unsigned answer_ms;		  /* a receiver has so long; default 10,000 */
	unsigned retry_ms, retry_most_ms; /* back-off: 5,000 doubling to 300,000, with jitter */
	unsigned
	    escalate_ms; /* raised so long without an end: sent again, one severity up; 0: never */
};
struct alerts;

int alerts_open(const struct alert_plan *plan, int64_t now_ms, struct alerts **ret,
		struct error *reterr);
/* Raised or cleared; on disk when it returns. 1: this is news, 0: it was so already. */
int alert_raise(struct alerts *a, const struct alert *alert, int64_t now_ms, struct error *reterr);
int alert_clear(struct alerts *a, const char *key, const char *summary, int64_t now_ms,
		struct error *reterr);
bool alert_is_raised(const struct alerts *a, const char *key);
/* Goes on with deliveries for at most wait_ms; ret_next_ms: when it wants to be called again. */
void alerts_step(struct alerts *a, int64_t now_ms, unsigned wait_ms, int64_t *ret_next_ms);
/* For Prometheus and people: raised, waiting, delivered, failed tries, the last error. */
struct alert_counts {
	uint64_t raised, waiting, delivered, failed, heartbeats;
	char last_error[160];
};
struct alert_counts alerts_counts(const struct alerts *a);
struct alerts *alerts_close(struct alerts *a); /* what waits stays on disk; NULL is fine */
