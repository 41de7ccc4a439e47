/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert_send.c - tries: which is due, how it is made, what its end means.
 *
 * Invariant: of one alert's events a target has at most one under way, the oldest that it has not
 * taken; so their order is kept, whatever fails. A target that fails is asked with one event at a
 * time, those that were tried least first, so that an event which it chokes on holds up its own
 * alert only.
 */
#include "alert/alert_inside.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- what an answer means --- */

enum meaning { TAKEN, LATER, REFUSED };

/* Of a refusal only what concerns the message is final in the end: a token, a URL or a channel may
   be put right while we wait. */
static enum meaning meaning_of(const struct web_answer *a)
{
	static const int later[] = { 401, 402, 403, 404, 407, 408, 410, 421, 425, 429 };

	if (a->error < 0 || a->status < 200)
		return LATER;
	if (a->status < 300)
		return TAKEN;
	if (a->status < 400 || a->status >= 500)
		return LATER;
	for (size_t i = 0; i < ARRAY_SIZE(later); i++)
		if (later[i] == a->status)
			return LATER;
	return REFUSED;
}

static uint64_t random_next(struct alerts *a)
{
	a->random ^= a->random << 13;
	a->random ^= a->random >> 7;
	a->random ^= a->random << 17;
	return a->random;
}

/* Doubling, and off by up to a quarter: receivers that come back are not stormed. */
static int64_t back_off_ms(struct alerts *a, unsigned failures)
{
	int64_t ms = a->retry_ms;

	while (--failures && ms < a->retry_most_ms)
		ms *= 2;
	ms = MIN(ms, (int64_t)a->retry_most_ms);
	return ms - ms / 4 + (int64_t)(random_next(a) % (uint64_t)(ms / 2 + 1));
}

static struct delivery *delivery_of(struct target *t, const struct event *e)
{
	for (size_t i = 0; i < t->queue.n; i++)
		if (t->queue.v[i].event == e)
			return &t->queue.v[i];
	return NULL;
}

/* "https://host: answers 400: invalid_payload (3 tries)" */
static void say_failed(struct alerts *a, const struct target *t, const struct delivery *d,
		       const struct web_answer *answer)
{
	char said[64] = "";
	size_t n = 0;

	if (answer->why && answer->why[0]) {
		alerts_said(a, "%s (%u tries)", answer->why, d->tries);
		return;
	}
	for (; n < answer->len && n + 1 < sizeof(said) && answer->body[n] >= ' ' &&
	       answer->body[n] < 0x7f;
	     n++)
		said[n] = (char)answer->body[n];
	alerts_said(a, "%s: answers %d%s%s (%u tries)", t->name, answer->status,
		    said[0] ? ": " : "", said, d->tries);
}

static bool too_old(const struct alerts *a, const struct delivery *d)
{
	return d->tries >= TRIES_BEFORE_AGE && a->now_ms - d->event->time_ms > a->keep_ms;
}

static void put_off(struct alerts *a, struct target *t, struct delivery *d,
		    const struct web_answer *answer)
{
	int64_t wait = back_off_ms(a, d->tries);

	t->failures++;
	t->next_ms = a->now_ms + back_off_ms(a, t->failures);
	if (answer->retry_after_ms >= 0) {
		t->next_ms = MAX(t->next_ms, a->now_ms + answer->retry_after_ms);
		wait = MAX(wait, answer->retry_after_ms);
	}
	d->next_ms = a->now_ms + wait;
}

/* It answers again: what waits only because it did not is due. */
static void target_good(struct alerts *a, struct target *t)
{
	if (t->failures)
		for (size_t i = 0; i < t->queue.n; i++)
			t->queue.v[i].next_ms = MIN(t->queue.v[i].next_ms, a->now_ms);
	t->failures = 0;
	t->next_ms = 0;
}

static void delivery_done(struct alerts *a, struct target *t, struct delivery *d,
			  const struct web_answer *answer)
{
	enum meaning meaning = meaning_of(answer);

	d->flight = NULL;
	d->tries++;
	t->flying--;
	if (meaning == TAKEN) {
		a->counts.delivered++;
		target_good(a, t);
		alerts_settled(a, t, d->event, "delivered");
		return;
	}
	a->counts.failed++;
	say_failed(a, t, d, answer);
	if (meaning == REFUSED) {
		unsigned tries = ++d->refusals;

		target_good(a, t); /* it lives */
		d->next_ms = a->now_ms + back_off_ms(a, tries);
		if (tries >= REFUSALS_MOST) {
			a->counts.refused++;
			alerts_said(a, "%s: refuses alert \"%.60s\" with %d; given up", t->name,
				    d->event->key, answer->status);
			alerts_settled(a, t, d->event, "refused");
		}
		return;
	}
	put_off(a, t, d, answer);
	if (too_old(a, d)) {
		a->counts.dropped++;
		alerts_said(a, "%s: alert \"%.60s\" is too old; given up", t->name, d->event->key);
		alerts_settled(a, t, d->event, "too old");
	}
}

static void beat_done(struct alerts *a, const struct web_answer *answer)
{
	bool good = answer->error == 0 && answer->status >= 200 && answer->status < 300;

	a->beating = NULL;
	if (good) {
		a->counts.heartbeats++;
		return;
	}
	a->counts.heartbeats_failed++;
	a->next_beat_ms = MIN(a->next_beat_ms, a->now_ms + a->heartbeat_ms / HEARTBEAT_SHARE);
	if (answer->why && answer->why[0])
		alerts_said(a, "heartbeat: %s", answer->why);
	else
		alerts_said(a, "heartbeat: %s answers %d", a->heartbeat.name, answer->status);
}

static void flight_unlink(struct flight *f)
{
	struct flight **at = &f->a->flights;

	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
}

void flight_done(struct flight *f, const struct web_answer *answer)
{
	flight_unlink(f);
	if (f->event)
		delivery_done(f->a, f->target, delivery_of(f->target, f->event), answer);
	else
		beat_done(f->a, answer);
	free(f->command);
	free(f);
}

/* --- how one is made --- */

static void web_done(void *user, const struct web_answer *answer)
{
	flight_done(user, answer);
}

static int start_web(struct flight *f, const struct buf *body, struct error *reterr)
{
	const struct target *t = f->target;
	_cleanup_free_ char *id = f->event ? xasprintf("Idempotency-Key: %s", f->event->id) : NULL;
	const char *headers[2] = { t->json ? "Content-Type: application/json"
					   : "Content-Type: text/plain; charset=utf-8",
				   id };
	bool post = f->event || t->template;
	struct web_request q = {
		.url = t->webhook,
		.body = post ? (body->len ? (const char *)body->data : "") : NULL,
		.body_len = body->len,
		.headers = headers,
		.n_headers = post ? (id ? 2 : 1) : 0,
		.ca_file = t->ca_file,
		.token_file = t->token_file,
		.deadline_ms = f->a->answer_ms,
		.answer_most = ANSWER_BYTES_MOST,
		.done = web_done,
		.user = f,
	};

	return web_start(f->a->web, &q, &f->call, reterr);
}

static int start_command(struct flight *f, const struct buf *body, struct error *reterr)
{
	const struct event *e = f->event;
	json_t *fields = body_fields(f->a, e);
	static const struct {
		const char *variable, *field;
	} variables[] = {
		{ "KEY", "key" },	  { "ID", "id" },     { "INCIDENT", "incident" },
		{ "WHAT", "what" },	  { "JOB", "job" },   { "SEVERITY", "severity" },
		{ "SUMMARY", "summary" }, { "HOST", "host" }, { "TIME", "time" },
		{ "SINCE", "since" },
	};
	char *env[ARRAY_SIZE(variables) + 1] = { 0 };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const char *v = json_string_value(json_object_get(fields, variables[i].field));

		env[i] = xasprintf("LOCKSTEP_ALERT_%s=%s", variables[i].variable, v ? v : "");
	}
	f->command = xcalloc(1, sizeof(*f->command));
	r = command_start(f->command, f->target->command, body->data, body->len,
			  (const char *const *)env, f->a->answer_ms, reterr);
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		free(env[i]);
	json_decref(fields);
	return r;
}

static struct flight *take_off(struct alerts *a, struct target *t, struct event *e)
{
	struct flight *f = xcalloc(1, sizeof(*f));
	struct buf body = { 0 };
	struct error why = { "" };
	_cleanup_free_ char *text = NULL;
	int r;

	*f = (struct flight){ .a = a, .target = t, .event = e, .next = a->flights };
	a->flights = f;
	if (e)
		body_make(a, t, e, &body);
	else if (t->template)
		body_make(a, t,
			  &(struct event){ .id = "heartbeat",
					   .key = (char[]){ "heartbeat" },
					   .summary = (char[]){ "the watcher lives" },
					   .time_ms = a->now_ms,
					   .since_ms = a->now_ms },
			  &body);
	r = a->transport.start ? a->transport.start(a->transport.user, f, &body, &why)
	    : t->webhook       ? start_web(f, &body, &why)
			       : start_command(f, &body, &why);
	buf_done(&body);
	if (r >= 0)
		return f;
	text = xasprintf("%s: %s", t->name, why.text);
	flight_done(f, &(struct web_answer){ .error = r, .why = text, .retry_after_ms = -1 });
	return NULL;
}

/* --- which are due --- */

static struct delivery *choose(const struct alerts *a, const struct target *t)
{
	struct delivery *best = NULL;

	for (size_t i = 0; i < t->queue.n; i++) {
		struct delivery *d = &t->queue.v[i];

		if (d->flight || d->behind || d->next_ms > a->now_ms ||
		    (best && best->tries <= d->tries))
			continue;
		best = d;
		if (!t->failures)
			break;
	}
	return best;
}

static unsigned flights_most(const struct target *t)
{
	return t->failures ? 1 : FLIGHTS_A_TARGET;
}

static void target_begin(struct alerts *a, struct target *t)
{
	struct delivery *d;

	while (t->next_ms <= a->now_ms && t->flying < flights_most(t) && (d = choose(a, t))) {
		struct event *e = d->event;
		struct flight *f;

		t->flying++;
		f = take_off(a, t, e);
		d = f ? delivery_of(t, e) : NULL;
		if (d)
			d->flight = f;
	}
}

void sends_begin(struct alerts *a)
{
	for (size_t i = 0; i < a->n_targets; i++)
		target_begin(a, &a->targets[i]);
	if (!a->heartbeat.webhook || !a->alive || a->beating || a->now_ms < a->next_beat_ms)
		return;
	a->next_beat_ms = a->now_ms + a->heartbeat_ms;
	a->beating = take_off(a, &a->heartbeat, NULL);
}

int64_t sends_next_ms(const struct alerts *a)
{
	int64_t next = INT64_MAX;

	for (size_t i = 0; i < a->n_targets; i++) {
		const struct target *t = &a->targets[i];

		for (size_t k = 0; k < t->queue.n && t->flying < flights_most(t); k++)
			if (!t->queue.v[k].flight && !t->queue.v[k].behind)
				next = MIN(next, MAX(t->queue.v[k].next_ms, t->next_ms));
	}
	if (a->heartbeat.webhook && a->alive && !a->beating)
		next = MIN(next, a->next_beat_ms);
	return next;
}

/* --- commands --- */

static void command_over(struct flight *f, enum command_state state, const char *why)
{
	struct web_answer answer = { .status = 200, .retry_after_ms = -1 };
	char text[600];

	if (state != COMMAND_GOOD) {
		answer.status = 0;
		answer.error = state == COMMAND_FAILED ? -EIO : -ETIMEDOUT;
	}
	snprintf(text, sizeof(text), "%s: %s", f->target->name,
		 state == COMMAND_FAILED ? why : "no end in time, killed");
	answer.why = text;
	flight_done(f, &answer);
}

void commands_look(struct alerts *a)
{
	for (struct flight *f = a->flights, *next; f; f = next) {
		char why[300];
		enum command_state state;

		next = f->next;
		if (!f->command)
			continue;
		state = command_look(f->command, why, sizeof(why));
		if (state != COMMAND_RUNS)
			command_over(f, state, why);
	}
}

void flights_end(struct alerts *a)
{
	while (a->flights) {
		struct flight *f = a->flights;

		a->flights = f->next;
		if (f->call)
			web_cancel(a->web, f->call);
		if (f->command)
			command_kill(f->command);
		free(f->command);
		free(f);
	}
}
