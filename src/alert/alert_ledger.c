/* SPDX-License-Identifier: Apache-2.0 */
/* alert_ledger.c - the ledger in memory; alert_lines.c has its lines. */
#include "alert/alert_ledger.h"

#include <stdio.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

const char *alert_what_name(enum alert_what what)
{
	static const char *const names[ALERT_WHATS] = { "raised", "escalated", "resolved" };

	return what < ALERT_WHATS ? names[what] : "unknown";
}

const char *alert_severity_name(enum alert_severity s)
{
	static const char *const names[ALERT_SEVERITIES] = { "info", "warning", "critical" };

	return s < ALERT_SEVERITIES ? names[s] : "unknown";
}

static void event_free(struct event *e)
{
	free(e->key);
	free(e->summary);
	free(e->detail);
	free(e);
}

static size_t event_bytes(const struct event *e)
{
	return sizeof(*e) + strlen(e->key) + strlen(e->summary) +
	       (e->detail ? strlen(e->detail) : 0);
}

void ledger_init(struct ledger *l)
{
	uint64_t random;

	*l = (struct ledger){ .next = 1 };
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = (uint64_t)time(NULL) << 24 ^ (uint64_t)getpid();
	snprintf(l->origin, sizeof(l->origin), "%016" PRIx64, random);
}

void ledger_done(struct ledger *l)
{
	for (size_t i = 0; i < l->events.n; i++)
		event_free(l->events.v[i]);
	free(l->events.v);
	free(l->raised.v);
	*l = (struct ledger){ 0 };
}

int ledger_target(struct ledger *l, const char *id)
{
	for (size_t i = 0; i < l->n_targets; i++)
		if (!strcmp(l->targets[i], id))
			return (int)i;
	if (l->n_targets == LEDGER_TARGETS_MOST)
		return -1;
	snprintf(l->targets[l->n_targets], TARGET_ID, "%s", id);
	return (int)l->n_targets++;
}

static size_t raised_find(const struct ledger *l, const char *key)
{
	size_t i = 0;

	while (i < l->raised.n && strcmp(l->raised.v[i]->key, key) != 0)
		i++;
	return i;
}

struct event *ledger_raised(const struct ledger *l, const char *key)
{
	size_t i = raised_find(l, key);

	return i < l->raised.n ? l->raised.v[i] : NULL;
}

static void drop_if_idle(struct ledger *l, struct event *e)
{
	size_t i = 0;

	if (e->to || ledger_raised(l, e->key) == e)
		return;
	while (i < l->events.n && l->events.v[i] != e)
		i++;
	if (i < l->events.n) {
		memmove(&l->events.v[i], &l->events.v[i + 1],
			(l->events.n - i - 1) * sizeof(*l->events.v));
		l->events.n--;
	}
	l->bytes -= event_bytes(e);
	event_free(e);
}

void ledger_add(struct ledger *l, struct event *e)
{
	size_t i = raised_find(l, e->key);
	struct event *before = i < l->raised.n ? l->raised.v[i] : NULL;

	if (!e->n)
		e->n = l->next;
	l->next = MAX(l->next, e->n + 1);
	if (!e->id[0])
		snprintf(e->id, sizeof(e->id), "%s-%" PRIu64, l->origin, e->n);
	*vec_push(&l->events) = e;
	l->bytes += event_bytes(e);
	if (e->what != ALERT_RESOLVED) {
		if (!before)
			vec_push(&l->raised);
		l->raised.v[i] = e;
	} else if (before) {
		memmove(&l->raised.v[i], &l->raised.v[i + 1],
			(l->raised.n - i - 1) * sizeof(*l->raised.v));
		l->raised.n--;
	}
	if (before)
		drop_if_idle(l, before);
	drop_if_idle(l, e);
}

void ledger_settle(struct ledger *l, struct event *e, unsigned target)
{
	e->to &= ~((uint64_t)1 << target);
	drop_if_idle(l, e);
}
