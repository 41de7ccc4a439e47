/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h - a watcher of one job, from a host outside it: looks, judges, alerts, and survives.
 */
#pragma once
#include "base/answer.h"
#include "alert/alert.h"
#include "watch/watch_core.h"
#include "watch/watch_source.h"

struct watch_what {
	enum source_kind kind;
	const char *what;
};
struct watch_options {
	const char *job;
	const struct watch_what *sources;
	size_t n_sources;
	int64_t interval_ms, deadline_ms;
	struct watch_limits limits;
	const char *state;    /* folder; NULL: nothing survives */
	const char *evidence; /* folder of folders; NULL: none is collected */
	const char *collect;  /* a command that collects more; NULL */
	int64_t evidence_ms;  /* collecting and diagnosing may take so long */
	const char *metrics;  /* a file; NULL */
	const char *listen;   /* HOST:PORT or a socket; NULL */
	const char *replay;   /* a recording instead of the sources; NULL */
	const struct alert_target *targets;
	size_t n_targets;
	const char *heartbeat, *heartbeat_template;
	const char *ca_file, *token_file; /* of the heartbeat */
	int64_t heartbeat_ms, escalate_ms;
	bool json, once, until_end;
	void (*say)(const char *format, ...) PRINTF_LIKE(1, 2); /* one problem on stderr */
};
/* The last state, as an exit status of lockstep: 0, 1 or 2; a negative errno with detail if it
   could not begin. */
int watch_run(const struct watch_options *o, struct error *reterr);

/* --- inside --- */

struct watcher {
	const struct watch_options *o;
	struct watch w;
	struct sources sources;
	struct watch_judgement now;
	struct alerts *alerts;
	const char *job;
	char host[64];
	int64_t now_ms, wall_offset_ms; /* the calendar's ms less the clock's */
	/* reported */
	enum watch_state state;
	bool raised[MATTERS];
	int64_t since_ms;		 /* of the state */
	int64_t quiet_since_ms[MATTERS]; /* of what is raised; 0: not known */
	bool told;			 /* something began, and was printed */
	uint64_t failed;		 /* deliveries, when that was said last */
	int64_t failed_ms;
	/* evidence: of the matter about to be alerted */
	struct tap evidence;
	enum watch_matter evidence_of; /* MATTERS: none is collected */
	char *folder;
	json_t *diagnosis;	 /* what came out last; NULL */
	bool collected[MATTERS]; /* done for the incident under way */
	int64_t saved_ms;
	struct answer answer;
};

static inline int64_t watch_wall(const struct watcher *r) /* Unix time */
{
	return r->now_ms + r->wall_offset_ms;
}

/* watch_report.c: matters that began or ended are printed, alerted and kept. True: something did.
 */
bool watch_report(struct watcher *r);
void watch_say_state(const struct watcher *r); /* one line, though nothing changed */
void watch_say_beginning(const struct watcher *r);
void watch_metrics(const void *watcher, struct buf *out);
/* watch_evidence.c */
int watch_evidence_begin(struct watcher *r, enum watch_matter m);
/* Looks whether it is done; then r->diagnosis is set if there is one. */
void watch_evidence_look(struct watcher *r);
/* "; diagnosis: ..", or "" */
void watch_evidence_words(const struct watcher *r, char *ret, size_t size);
/* watch_replay.c */
int watch_replay(struct watcher *r, struct error *reterr);
