/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert.c - raises, clears, escalates; what a caller sees of alerts.
 *
 * Invariant: an event is in the journal before a try is made with it, unless the disk refuses; then
 * `unsaved` is said until all of it is on the disk again.
 */
#include "alert/alert_inside.h"
#include "alert/web_curl.h"
#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#define COMMAND_FILES 128u
#define LOOK_MS	      50

void alerts_said(struct alerts *a, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(a->counts.last_error, sizeof(a->counts.last_error), format, ap);
	va_end(ap);
}

void alerts_transport(struct alerts *a, const struct alert_transport *transport)
{
	a->transport = *transport;
}

/* --- the clock --- */

/* A clock that was set back takes what waits with it. */
static void clock_goes(struct alerts *a, int64_t now_ms)
{
	int64_t back = a->now_ms - now_ms;

	a->now_ms = now_ms;
	if (back <= 0)
		return;
	a->next_beat_ms -= back;
	a->next_save_ms -= back;
	for (size_t i = 0; i < a->n_targets; i++) {
		struct target *t = &a->targets[i];

		t->next_ms -= back;
		for (size_t k = 0; k < t->queue.n; k++)
			t->queue.v[k].next_ms -= back;
	}
}

/* --- the disk --- */

static void saved(struct alerts *a, int r, const struct error *why)
{
	a->unsaved = r < 0;
	if (r >= 0)
		return;
	a->why_unsaved = *why;
	a->next_save_ms = a->now_ms + SAVE_AGAIN_MS;
	alerts_said(a, "%s", why->text);
}

/* On a disk that refuses, many changes at once are tried together. */
static void append(struct alerts *a, struct buf *lines, struct error *reterr)
{
	struct error why = a->why_unsaved;

	if (!a->unsaved || a->now_ms >= a->next_save_ms - SAVE_AGAIN_MS + SAVE_SOON_MS)
		saved(a, journal_append(&a->journal, &a->ledger, lines, &why), &why);
	if (a->unsaved)
		error_set(reterr, -EIO, "%s", why.text);
	buf_done(lines);
}

static void save_again(struct alerts *a)
{
	struct error why = { "" };

	if (a->unsaved && a->now_ms >= a->next_save_ms)
		saved(a, journal_rewrite(&a->journal, &a->ledger, &why), &why);
}

void alerts_settled(struct alerts *a, struct target *t, struct event *e, const char *how)
{
	struct buf lines = { 0 };

	ledger_put_settled(&a->ledger, e, t->bit, how, &lines);
	target_unqueue(t, e);
	ledger_settle(&a->ledger, e, t->bit);
	append(a, &lines, NULL);
}

/* --- events --- */

/* Valid UTF-8 without control characters, at most `most` bytes, cut between characters. */
static char *clean(const char *text, size_t most)
{
	size_t len = strlen(text);
	char *s = xmalloc(MIN(len, most) + 1);
	json_t *v;

	if (len > most)
		for (len = most; len && ((unsigned char)text[len] & 0xc0) == 0x80;)
			len--;
	for (size_t i = 0; i < len; i++)
		s[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? ' ' : text[i];
	s[len] = '\0';
	v = json_string(s);
	for (size_t i = 0; !v && i < len; i++)
		s[i] = (unsigned char)s[i] < 0x80 ? s[i] : '?';
	json_decref(v);
	return s;
}

static char *detail_text(json_t *detail)
{
	char *text = detail && !json_is_null(detail)
			 ? json_dumps(detail, JSON_COMPACT | JSON_ENCODE_ANY)
			 : NULL;

	if (text && strlen(text) > ALERT_DETAIL_MOST) {
		size_t len = strlen(text);

		free(text);
		text = xasprintf("{\"left_out_bytes\":%zu}", len);
	}
	return text;
}

/* The oldest delivery that is not under way, of the target that has the most. */
static bool drop_one(struct alerts *a)
{
	struct target *t = NULL;

	for (size_t i = 0; i < a->n_targets; i++)
		if (!t || a->targets[i].queue.n > t->queue.n)
			t = &a->targets[i];
	for (size_t i = 0; t && i < t->queue.n; i++)
		if (!t->queue.v[i].flight) {
			a->counts.dropped++;
			alerts_said(a, "more than %u alerts wait; the oldest are given up",
				    LEDGER_EVENTS_MOST);
			alerts_settled(a, t, t->queue.v[i].event, "too many");
			return true;
		}
	return false;
}

static void make_room(struct alerts *a)
{
	while (a->ledger.events.n >= LEDGER_EVENTS_MOST || a->ledger.bytes > LEDGER_BYTES_MOST)
		if (!drop_one(a))
			break;
}

/* Takes over e's texts; e goes to those whom its severity concerns. */
static void event_new(struct alerts *a, const struct event *from, struct error *reterr)
{
	struct event *e = xmalloc(sizeof(*e));
	struct buf lines = { 0 };

	make_room(a);
	*e = *from;
	e->n = a->ledger.next;
	snprintf(e->id, sizeof(e->id), "%s-%" PRIu64, a->ledger.origin, e->n);
	e->time_ms = MAX(a->now_ms, 0);
	for (size_t i = 0; i < a->n_targets; i++)
		if (e->severity >= a->targets[i].least) {
			e->to |= (uint64_t)1 << a->targets[i].bit;
			target_queue(&a->targets[i], e);
		}
	ledger_put_event(&a->ledger, e, &lines);
	ledger_add(&a->ledger, e);
	append(a, &lines, reterr);
}

static struct event event_of(const struct event *raised)
{
	struct event e = *raised;

	e.id[0] = '\0';
	e.to = 0;
	e.before = e.severity;
	e.key = xstrdup(raised->key);
	e.summary = xstrdup(raised->summary);
	e.detail = raised->detail ? xstrdup(raised->detail) : NULL;
	return e;
}

static void set_text(struct alerts *a, char **at, char *text)
{
	a->ledger.bytes -= *at ? strlen(*at) : 0;
	a->ledger.bytes += text ? strlen(text) : 0;
	free(*at);
	*at = text;
}

static void escalate(struct alerts *a, const struct event *raised)
{
	struct event e = event_of(raised);

	e.what = ALERT_ESCALATED;
	e.severity = MIN(e.severity + 1, ALERT_CRITICAL);
	e.escalations++;
	event_new(a, &e, NULL);
}

static int key_check(const char *key, struct error *reterr)
{
	bool fine = key && *key && strlen(key) <= ALERT_KEY_MOST;

	for (size_t i = 0; fine && key[i]; i++)
		fine = key[i] >= ' ' && key[i] < 0x7f;
	return fine ? 0
		    : error_set(reterr, -EINVAL,
				"an alert's key is printable ASCII of 1 to %u bytes",
				ALERT_KEY_MOST);
}

/* More severe than before is news; otherwise what it says now is said when it is sent again. A text
   that has gone out, or may be on its way, belongs to its event for good. */
static int raise_again(struct alerts *a, struct event *raised, const struct alert *alert,
		       struct error *reterr)
{
	bool news = alert->severity > raised->severity;
	struct event e;

	if (!news) {
		if (!raised->to) {
			set_text(a, &raised->summary,
				 clean(alert->summary ? alert->summary : "", ALERT_SUMMARY_MOST));
			set_text(a, &raised->detail, detail_text(alert->detail));
		}
		return 0;
	}
	e = event_of(raised);
	free(e.summary);
	free(e.detail);
	e.what = ALERT_ESCALATED;
	e.severity = alert->severity;
	e.summary = clean(alert->summary ? alert->summary : "", ALERT_SUMMARY_MOST);
	e.detail = detail_text(alert->detail);
	event_new(a, &e, reterr);
	return 1;
}

int alert_raise(struct alerts *a, const struct alert *alert, int64_t now_ms, struct error *reterr)
{
	struct event *raised;
	struct event e;
	int r = key_check(alert->key, reterr);

	if (r < 0)
		return r;
	if ((unsigned)alert->severity >= ALERT_SEVERITIES)
		return error_set(reterr, -EINVAL, "an alert has no severity %d",
				 (int)alert->severity);
	error_set(reterr, 0, "%s", "");
	clock_goes(a, now_ms);
	raised = ledger_raised(&a->ledger, alert->key);
	if (raised)
		return raise_again(a, raised, alert, reterr);
	if (a->ledger.raised.n >= LEDGER_RAISED_MOST)
		return error_set(reterr, -ENOSPC, "%u alerts are raised already",
				 LEDGER_RAISED_MOST);
	e = (struct event){ .what = ALERT_RAISED,
			    .severity = alert->severity,
			    .before = alert->severity,
			    .first = alert->severity,
			    .since_ms = MAX(a->now_ms, 0),
			    .key = xstrdup(alert->key),
			    .summary =
				clean(alert->summary ? alert->summary : "", ALERT_SUMMARY_MOST),
			    .detail = detail_text(alert->detail) };
	event_new(a, &e, reterr);
	return 1;
}

int alert_clear(struct alerts *a, const char *key, const char *summary, int64_t now_ms,
		struct error *reterr)
{
	struct event *raised;
	struct event e;
	int r = key_check(key, reterr);

	if (r < 0)
		return r;
	error_set(reterr, 0, "%s", "");
	clock_goes(a, now_ms);
	raised = ledger_raised(&a->ledger, key);
	if (!raised)
		return 0;
	e = event_of(raised);
	e.what = ALERT_RESOLVED;
	if (summary) {
		free(e.summary);
		e.summary = clean(summary, ALERT_SUMMARY_MOST);
	}
	event_new(a, &e, reterr);
	return 1;
}

bool alert_is_raised(const struct alerts *a, const char *key)
{
	return ledger_raised(&a->ledger, key) != NULL;
}

void alerts_alive(struct alerts *a, bool alive)
{
	a->alive = alive;
}

/* --- the loop --- */

static int64_t escalate_at(const struct alerts *a, const struct event *e)
{
	if (!a->escalate_ms || e->escalations >= ESCALATIONS_MOST)
		return INT64_MAX;
	return e->time_ms + (int64_t)a->escalate_ms;
}

static int64_t escalate_due(struct alerts *a)
{
	int64_t next = INT64_MAX;

	for (size_t i = 0; i < a->ledger.raised.n; i++) {
		struct event *e = a->ledger.raised.v[i];

		if (escalate_at(a, e) <= a->now_ms) {
			escalate(a, e);
			e = a->ledger.raised.v[i];
		}
		next = MIN(next, MAX(escalate_at(a, e), a->now_ms + 1));
	}
	return next;
}

static size_t command_files(const struct alerts *a, struct pollfd *files, int64_t *left_ms)
{
	size_t n = 0;

	for (const struct flight *f = a->flights; f; f = f->next) {
		if (!f->command)
			continue;
		*left_ms = MIN(*left_ms, command_left_ms(f->command) + 1);
		if (f->command->file < 0)
			*left_ms = MIN(*left_ms, 20); /* an old kernel: looked at instead */
		else if (n + 1 < COMMAND_FILES)
			files[n++] = (struct pollfd){ f->command->file, POLLIN, 0 };
	}
	return n;
}

static int64_t due(struct alerts *a)
{
	int64_t next;

	commands_look(a);
	save_again(a);
	next = escalate_due(a);
	sends_begin(a);
	next = MIN(next, sends_next_ms(a));
	return a->unsaved ? MIN(next, a->next_save_ms) : next;
}

/* Waits for what is under way, for what is due, or for wait_ms. */
static int64_t wait_for(struct alerts *a, int64_t next, unsigned wait_ms)
{
	struct pollfd files[COMMAND_FILES];
	int64_t left = INT32_MAX;
	size_t n = command_files(a, files, &left);

	left = MIN(left, MAX(next - a->now_ms, 0));
	web_step(a->web, (unsigned)MIN(left, (int64_t)wait_ms), files, n);
	return due(a);
}

void alerts_step(struct alerts *a, int64_t now_ms, unsigned wait_ms, int64_t *ret_next_ms)
{
	int64_t next;

	clock_goes(a, now_ms);
	next = due(a);
	if (a->own_web)
		next = wait_for(a, next, wait_ms);
	if (a->flights) /* they want to be looked at */
		next = MIN(next, a->now_ms + LOOK_MS);
	*ret_next_ms = next;
}

uint64_t alerts_finish(struct alerts *a, int64_t now_ms, unsigned most_ms)
{
	int64_t began = clock_ms(), passed = 0;

	a->alive = false; /* no heartbeat for its sake */
	while (alerts_counts(a).waiting && passed < most_ms) {
		clock_goes(a, now_ms + passed);
		wait_for(a, due(a), (unsigned)(most_ms - passed));
		passed = clock_ms() - began;
	}
	return alerts_counts(a).waiting;
}

/* --- opening and closing --- */

static int target_add(struct alerts *a, const struct alert_plan *plan, size_t i,
		      struct error *reterr)
{
	const struct alert_target *from = &plan->targets[i];
	char id[TARGET_ID];
	size_t again = 0;
	int bit, r = target_open(a, &a->targets[i], from, reterr);

	if (r < 0)
		return r;
	for (size_t k = 0; k < i; k++)
		again += !strcmp(from->webhook ? from->webhook : from->command,
				 plan->targets[k].webhook ? plan->targets[k].webhook
							  : plan->targets[k].command);
	target_id(from, again, id);
	bit = ledger_target(&a->ledger, id);
	if (bit < 0)
		return error_set(reterr, -E2BIG, "more than %u targets", LEDGER_TARGETS_MOST);
	a->targets[i].bit = (unsigned)bit;
	return 0;
}

/* What was waiting goes on; who is new here gets what is raised; who is no longer, nothing. */
static void take_up(struct alerts *a, size_t n_known)
{
	uint64_t ours = 0;

	for (size_t i = 0; i < a->n_targets; i++)
		ours |= (uint64_t)1 << a->targets[i].bit;
	for (size_t i = 0; i < a->ledger.raised.n; i++)
		for (size_t k = 0; k < a->n_targets; k++)
			if (a->targets[k].bit >= n_known &&
			    a->ledger.raised.v[i]->severity >= a->targets[k].least)
				a->ledger.raised.v[i]->to |= (uint64_t)1 << a->targets[k].bit;
	for (size_t i = a->ledger.events.n; i-- > 0;) {
		struct event *e = a->ledger.events.v[i];

		for (unsigned bit = 0; bit < LEDGER_TARGETS_MOST && (e->to & ~ours); bit++) {
			uint64_t mask = (uint64_t)1 << bit;

			if (!(e->to & mask & ~ours))
				continue;
			a->counts.dropped++;
			if ((e->to & ~mask) == 0) {
				ledger_settle(&a->ledger, e, bit);
				break; /* e may be gone */
			}
			ledger_settle(&a->ledger, e, bit);
		}
	}
	if (a->counts.dropped)
		alerts_said(a,
			    "%" PRIu64 " deliveries were for targets that are no longer configured",
			    a->counts.dropped);
	for (size_t i = 0; i < a->ledger.events.n; i++)
		for (size_t k = 0; k < a->n_targets; k++)
			if (a->ledger.events.v[i]->to >> a->targets[k].bit & 1)
				target_queue(&a->targets[k], a->ledger.events.v[i]);
}

/* Targets that are gone and that no event names are forgotten: their bits are wanted. */
static void forget_targets(struct alerts *a)
{
	struct ledger *l = &a->ledger;
	size_t n = 0;
	uint64_t bits[LEDGER_TARGETS_MOST] = { 0 };

	for (size_t i = 0; i < l->n_targets; i++) {
		bool ours = false;

		for (size_t k = 0; k < a->n_targets && !ours; k++)
			ours = a->targets[k].bit == i;
		bits[i] = ours ? (uint64_t)1 << n : 0;
		if (!ours)
			continue;
		for (size_t k = 0; k < a->n_targets; k++)
			if (a->targets[k].bit == i) {
				memmove(l->targets[n], l->targets[i], TARGET_ID);
				a->targets[k].bit = (unsigned)n | 0x100; /* done */
			}
		n++;
	}
	for (size_t k = 0; k < a->n_targets; k++)
		a->targets[k].bit &= 0xff;
	for (size_t e = 0; e < l->events.n; e++) {
		uint64_t to = 0;

		for (size_t i = 0; i < l->n_targets; i++)
			to |= l->events.v[e]->to >> i & 1 ? bits[i] : 0;
		l->events.v[e]->to = to;
	}
	l->n_targets = n;
}

static int targets_add(struct alerts *a, const struct alert_plan *plan, struct error *reterr)
{
	struct alert_target beat = { .webhook = plan->heartbeat,
				     .template = plan->heartbeat_template,
				     .ca_file = plan->heartbeat_ca_file,
				     .token_file = plan->heartbeat_token_file };
	size_t n_known = a->ledger.n_targets;
	bool web = plan->heartbeat != NULL;
	const struct web_curl *curl;
	int r = 0;

	if (plan->n_targets > LEDGER_TARGETS_MOST / 2)
		return error_set(reterr, -E2BIG, "more than %u targets", LEDGER_TARGETS_MOST / 2);
	a->targets = xcalloc(plan->n_targets, sizeof(*a->targets));
	a->n_targets = plan->n_targets;
	for (size_t i = 0; i < plan->n_targets && r >= 0; i++) {
		r = target_add(a, plan, i, reterr);
		web = web || plan->targets[i].webhook;
	}
	if (r >= 0 && plan->heartbeat)
		r = target_open(a, &a->heartbeat, &beat, reterr);
	if (r >= 0 && web)
		r = web_curl_load(&curl, reterr);
	if (r < 0)
		return r;
	take_up(a, n_known);
	forget_targets(a);
	return 0;
}

static void set_times(struct alerts *a, const struct alert_plan *plan)
{
	a->heartbeat_ms = plan->heartbeat_ms ? plan->heartbeat_ms : 60000;
	a->answer_ms = plan->answer_ms ? plan->answer_ms : 10000;
	a->retry_ms = plan->retry_ms ? plan->retry_ms : 5000;
	a->retry_most_ms = plan->retry_most_ms ? plan->retry_most_ms : 300000;
	a->retry_most_ms = MAX(a->retry_most_ms, a->retry_ms);
	a->escalate_ms = plan->escalate_ms;
	a->keep_ms = (plan->keep_hours ? plan->keep_hours : 168) * (int64_t)3600000;
}

/* A file that grows beyond its limit is an error to be told, and no reason to die. */
static void ignore_size_signal(void)
{
	struct sigaction now;

	if (sigaction(SIGXFSZ, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
		signal(SIGXFSZ, SIG_IGN);
}

int alerts_open(const struct alert_plan *plan, int64_t now_ms, struct alerts **ret,
		struct error *reterr)
{
	struct alerts *a = xcalloc(1, sizeof(*a));
	struct error why = { "" };
	int r, writable;

	ignore_size_signal();
	set_times(a, plan);
	a->now_ms = now_ms;
	a->job = clean(plan->job ? plan->job : "", ALERT_KEY_MOST);
	a->host = clean(plan->host ? plan->host : "", ALERT_KEY_MOST);
	a->web = plan->web ? plan->web : web_new();
	a->own_web = !plan->web;
	if (getrandom(&a->random, sizeof(a->random), GRND_NONBLOCK) != sizeof(a->random))
		a->random = (uint64_t)now_ms;
	a->random |= 1;
	ledger_init(&a->ledger);
	r = writable = journal_open(&a->journal, plan->state, &a->ledger, &why);
	if (r >= 0)
		r = targets_add(a, plan, &why);
	if (r < 0) {
		error_set(reterr, r, "%s", why.text);
		alerts_close(a);
		return r;
	}
	a->counts.damaged = a->ledger.damaged;
	if (writable == 0 && journal_rewrite(&a->journal, &a->ledger, &why) < 0)
		writable = 1;
	saved(a, writable ? -EIO : 0, &why);
	if (writable)
		error_set(reterr, 1, "%s", why.text);
	*ret = a;
	return writable;
}

struct alerts *alerts_close(struct alerts *a)
{
	if (!a)
		return NULL;
	flights_end(a);
	for (size_t i = 0; i < a->n_targets; i++)
		target_done(&a->targets[i]);
	target_done(&a->heartbeat);
	free(a->targets);
	if (a->own_web)
		web_free(a->web);
	journal_close(&a->journal);
	ledger_done(&a->ledger);
	free(a->job);
	free(a->host);
	free(a);
	return NULL;
}

struct alert_counts alerts_counts(const struct alerts *a)
{
	struct alert_counts c = a->counts;

	c.raised = a->ledger.raised.n;
	for (size_t i = 0; i < a->n_targets; i++)
		c.waiting += a->targets[i].queue.n;
	c.unsaved = a->unsaved;
	return c;
}

json_t *alerts_raised(const struct alerts *a)
{
	json_t *all = json_array();

	for (size_t i = 0; i < a->ledger.raised.n; i++)
		json_array_append_new(all, body_fields(a, a->ledger.raised.v[i]));
	return all;
}
