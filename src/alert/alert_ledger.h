/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert_ledger.h - what alerts remember: events (a raise, an escalation, a resolution) that some
 * target has not taken yet, and which alerts are raised; and the lines that say so on disk.
 *
 * A line is the CRC-32 of a JSON object in 8 hexadecimal digits, a space, the object, a newline.
 * Reading them in order gives the ledger; a line that is not whole is left out and counted, but for
 * a last one without its newline, which a crash leaves and nobody relied on.
 */
#pragma once
#include "base/buf.h"
#include "alert/alert.h"

#define LEDGER_TARGETS_MOST 64u
#define LEDGER_EVENTS_MOST  4096u
#define LEDGER_BYTES_MOST   (8u << 20) /* of texts in memory */
#define LEDGER_RAISED_MOST  1024u
#define LEDGER_LINE_MOST    (256u << 10)
#define LEDGER_ID_MOST	    48u
#define TARGET_ID	    17u /* 16 hexadecimal digits */

enum alert_what { ALERT_RAISED, ALERT_ESCALATED, ALERT_RESOLVED, ALERT_WHATS };
const char *alert_what_name(enum alert_what what);
const char *alert_severity_name(enum alert_severity s);

struct event {
	uint64_t n;		 /* ascending */
	char id[LEDGER_ID_MOST]; /* the idempotency key, stays over restarts */
	enum alert_what what;
	enum alert_severity severity, before, first; /* before: this event; first: when raised */
	unsigned escalations;
	int64_t time_ms, since_ms;
	uint64_t to;		      /* targets, by their bits, that have not taken it yet */
	char *key, *summary, *detail; /* detail: JSON or NULL */
};
struct ledger {
	uint64_t next;				      /* number of the next event */
	char origin[TARGET_ID];			      /* of this state: random */
	char targets[LEDGER_TARGETS_MOST][TARGET_ID]; /* bit i of event.to */
	size_t n_targets;
	VEC(struct event *) events; /* ascending; some target waits, or its alert is raised */
	VEC(struct event *) raised; /* the latest event of each raised alert; also in events */
	size_t bytes;
	uint64_t damaged;
};

void ledger_init(struct ledger *l); /* a new origin */
void ledger_done(struct ledger *l);
/* Bit of the target with this id, added if new; -1: too many. */
int ledger_target(struct ledger *l, const char *id);
struct event *ledger_raised(const struct ledger *l, const char *key); /* NULL: it is not */
/* Takes over e, whose texts are malloc'd, and gives it its number and id. */
void ledger_add(struct ledger *l, struct event *e);
/* The target has taken it, or never will. Frees the event if nobody needs it any more. */
void ledger_settle(struct ledger *l, struct event *e, unsigned target);

/* Lines for the disk. */
void ledger_put_event(const struct ledger *l, const struct event *e, struct buf *out);
void ledger_put_settled(const struct ledger *l, const struct event *e, unsigned target,
			const char *how, struct buf *out);
void ledger_put_all(const struct ledger *l, struct buf *out);
/* Reads lines into an empty ledger; never fails: what is damaged is counted. */
void ledger_read(struct ledger *l, const void *data, size_t len);
