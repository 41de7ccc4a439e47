/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.c - JSON lines of text, as lines of a log.
 *
 * Objects are translated as the log reader asks for bytes, so memory follows one object. What a
 * monitoring says (a member "text" or "event") is kept as it was said too, SAY_EVENT; of a log's
 * messages only what the log reader makes of them.
 */
#include "read/events.h"

#include <stdio.h>

#include "read/json_member.h"
#include "read/log.h"
#include "read/stamp.h"
#include "read/text_lines.h"

#define EVENT_BYTES_MAX ((size_t)1 << 20) /* of one object */
#define EVENT_TEXT_MAX	((size_t)16 << 10)
#define EVENT_HOST_MAX	128u
#define EVENT_LOOK	8u /* objects that the sniff looks at */

enum event_member {
	EVENT_TIME,
	EVENT_HOST,
	EVENT_TEXT,    /* a monitoring's */
	EVENT_MESSAGE, /* a log's */
	EVENT_RANK,
	EVENT_GPU,
	EVENT_SOURCE, /* who wrote it: "kernel" */
	EVENT_MEMBERS
};

static const struct {
	const char *key;
	enum event_member member;
} keys[] = {
	{ "time", EVENT_TIME },
	{ "timestamp", EVENT_TIME },
	{ "@timestamp", EVENT_TIME },
	{ "ts", EVENT_TIME },
	{ "when", EVENT_TIME },
	{ "asctime", EVENT_TIME },
	{ "__REALTIME_TIMESTAMP", EVENT_TIME },
	{ "host", EVENT_HOST },
	{ "hostname", EVENT_HOST },
	{ "node", EVENT_HOST },
	{ "nodename", EVENT_HOST },
	{ "node_name", EVENT_HOST },
	{ "_HOSTNAME", EVENT_HOST },
	{ "text", EVENT_TEXT },
	{ "event", EVENT_TEXT },
	{ "description", EVENT_TEXT },
	{ "message", EVENT_MESSAGE },
	{ "msg", EVENT_MESSAGE },
	{ "log", EVENT_MESSAGE },
	{ "MESSAGE", EVENT_MESSAGE },
	{ "rank", EVENT_RANK },
	{ "global_rank", EVENT_RANK },
	{ "gpu", EVENT_GPU },
	{ "gpu_index", EVENT_GPU },
	{ "SYSLOG_IDENTIFIER", EVENT_SOURCE },
	{ "source", EVENT_SOURCE },
};

struct event {
	struct json_member members[EVENT_MEMBERS]; /* value NULL: it has none */
};

/* The scalars of an object that are named so; the first name in the object wins. */
static struct event event_of(const char *p, const char *end)
{
	struct event e = { 0 };
	struct json_member m;

	if (p >= end || *p != '{')
		return e;
	for (p++; json_member_next(&p, end, true, &m);)
		for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
			if (json_is_scalar(&m) && json_key_is(&m, keys[i].key) &&
			    !e.members[keys[i].member].value)
				e.members[keys[i].member] = m;
	return e;
}

static bool is_string(const struct event *e, enum event_member m)
{
	return e->members[m].value && *e->members[m].value == '"';
}

/* The text of a member without escapes and line ends; its length, at most size. */
static size_t event_text(const struct event *e, enum event_member m, char *dst, size_t size)
{
	const char *p;
	size_t len;
	bool bad;

	if (!e->members[m].value)
		return 0;
	len = json_scalar(&e->members[m], &p);
	len = json_unescape(dst, p, MIN(len, size), &bad);
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)dst[i] < ' ')
			dst[i] = ' ';
	return len;
}

static int64_t event_number(const struct event *e, enum event_member m)
{
	const char *p = e->members[m].value, *end = e->members[m].end;
	int64_t v;

	/* Quotes around it are accepted. */
	return p && json_number(&p, end, 0, &v) == JSON_NUMBER_GOOD && v >= 0 ? v : -1;
}

static int64_t event_time(const struct event *e)
{
	const char *p;
	size_t len;

	if (!e->members[EVENT_TIME].value)
		return -1;
	len = json_scalar(&e->members[EVENT_TIME], &p);
	return stamp_of_text(p, len);
}

/* --- as a source of lines --- */

struct event_source {
	struct json_values values;
	struct buf line;
	size_t at;		/* in line */
	struct testimony *side; /* SAY_EVENT of each, until the log reader is done */
	struct read_stats *stats;
	bool monitoring; /* some object had a text of its own */
	uint64_t objects;
	char text[EVENT_TEXT_MAX + 8];
};

static void say_event(struct event_source *s, const struct event *e, const char *text, size_t len,
		      const char *host, size_t host_len)
{
	struct saying say = saying_of(SAY_EVENT);

	say.rank = event_number(e, EVENT_RANK);
	say.gpu = event_number(e, EVENT_GPU);
	say.host = host_len ? testimony_name(s->side, host, host_len) : NO_ID;
	/* Sayings are one where all but the text is the same: an event is its text. */
	say.what = say.text = testimony_name(s->side, text, MIN(len, SAYING_TEXT_MAX));
	say.time_ns = event_time(e);
	say.line = say.last_line = s->objects;
	testimony_say(s->side, &say);
}

/* 2024-01-16T14:44:16.123456789Z, as the log reader reads it whatever wrote it here. */
static int print_time(char *dst, size_t size, int64_t ns)
{
	int64_t s = ns / 1000000000, day = s / 86400, year = 1970 + day / 366;
	unsigned month = 1;

	while (stamp_days(year + 1, 1, 1) <= day)
		year++;
	while (month < 12 && stamp_days(year, month + 1, 1) <= day)
		month++;
	return snprintf(dst, size, "%04d-%02u-%02uT%02u:%02u:%02u.%09uZ ", (int)year, month,
			(unsigned)(day - stamp_days(year, month, 1) + 1), (unsigned)(s / 3600 % 24),
			(unsigned)(s / 60 % 60), (unsigned)(s % 60), (unsigned)(ns % 1000000000));
}

/* "TIME [pod/HOST/event] [rank3]: kernel: TEXT": marks that the log reader takes off again. */
static void print_line(struct event_source *s, const struct event *e, const char *text, size_t len,
		       const char *host, size_t host_len)
{
	char front[EVENT_HOST_MAX + 160];
	int64_t ns = event_time(e), rank = event_number(e, EVENT_RANK);
	size_t n = 0;

	if (ns >= 0)
		n += (size_t)print_time(front, sizeof(front), ns);
	if (host_len)
		n += (size_t)snprintf(front + n, sizeof(front) - n, "[pod/%.*s/event] ",
				      (int)host_len, host);
	if (rank >= 0)
		n += (size_t)snprintf(front + n, sizeof(front) - n, "[rank%" PRId64 "]: ", rank);
	buf_put(&s->line, front, n);
	n = event_text(e, EVENT_SOURCE, front, 64);
	if (line_is(front, n, "kernel"))
		buf_put(&s->line, "kernel: ", 8);
	buf_put(&s->line, text, len);
	buf_put(&s->line, "\n", 1);
}

static void take_object(struct event_source *s, const char *p, const char *end)
{
	struct event e = event_of(p, end);
	enum event_member said = is_string(&e, EVENT_TEXT) ? EVENT_TEXT : EVENT_MESSAGE;
	char host[EVENT_HOST_MAX + 8];
	size_t len = event_text(&e, said, s->text, EVENT_TEXT_MAX), host_len;

	s->objects++;
	if (!len) {
		s->stats->skipped[SKIP_MALFORMED]++;
		return;
	}
	host_len = event_text(&e, EVENT_HOST, host, EVENT_HOST_MAX);
	for (size_t i = 0; i < host_len; i++)
		if (host[i] == ' ' || host[i] == '/' || host[i] == ']')
			host[i] = '_';
	s->stats->events++;
	if (said == EVENT_TEXT) {
		s->monitoring = true;
		say_event(s, &e, s->text, len, host, host_len);
	}
	print_line(s, &e, s->text, len, host, host_len);
}

/* The next object, or each object of an array of them; false at the end. */
static bool take_value(struct event_source *s)
{
	const char *p, *end;
	struct json_member m, inner;

	if (!json_values_next(&s->values, &p, &end))
		return false;
	if (*p == '[') {
		for (p++; json_member_next(&p, end, false, &m);)
			take_object(s, m.value, m.end);
		return true;
	}
	take_object(s, p, end);
	if (s->line.len)
		return true;
	/* {"events": [..]}: the objects inside. */
	for (p++; json_member_next(&p, end, true, &m);)
		for (const char *q = *m.value == '[' ? m.value + 1 : m.end;
		     q < m.end && json_member_next(&q, m.end, false, &inner);)
			take_object(s, inner.value, inner.end);
	return true;
}

static ssize_t events_source(void *user, void *buf, size_t len)
{
	struct event_source *s = user;
	size_t n;

	if (s->at == s->line.len) {
		s->at = s->line.len = 0;
		while (!s->line.len)
			if (!take_value(s))
				break;
	}
	n = MIN(len, s->line.len - s->at);
	if (n)
		memcpy(buf, s->line.data + s->at, n);
	s->at += n;
	return n ? (ssize_t)n : s->values.w.error;
}

static uint32_t rename_id(const struct testimony *from, struct testimony *to, uint32_t id)
{
	return id == NO_ID
		   ? NO_ID
		   : testimony_name(to, intern_get(&from->names, id), intern_len(&from->names, id));
}

/* What the log reader made of the lines, and the events as they were said. */
static struct testimony *both(struct testimony *lines, struct testimony *side)
{
	for (size_t i = 0; i < side->sayings.n; i++) {
		struct saying say = side->sayings.v[i], *kept;

		say.host = rename_id(side, lines, say.host);
		say.what = rename_id(side, lines, say.what);
		say.text = rename_id(side, lines, say.text);
		kept = testimony_say(lines, &say);
		if (kept)
			kept->count += say.count - 1;
	}
	testimony_free(side);
	return lines;
}

int events_read(struct input *in, const char *path, struct testimony **ret,
		struct read_stats *stats, struct error *reterr)
{
	struct event_source *s = xcalloc(1, sizeof(*s));
	struct read_stats of_lines = { 0 };
	struct testimony *t = NULL;
	struct error e = { 0 };
	struct input *lines;
	int r;

	s->stats = stats;
	s->side = testimony_new(WITNESS_EVENTS, "events");
	json_values_init(&s->values, in, EVENT_BYTES_MAX);
	lines = input_of_source(events_source, s);
	r = log_read(lines, path, &t, &of_lines, &e);
	if (r >= 0 && s->side->sayings.n)
		t = both(t, s->side);
	else if (r >= 0)
		testimony_free(s->side);
	else
		t = s->side;
	r = MIN(s->values.w.error, 0);
	if (testimony_empty(t)) {
		t = testimony_free(t);
		r = r < 0 ? error_set(reterr, r, "%s", strerror(-r))
			  : error_set(reterr, -ENODATA, "no event");
	} else {
		t->witness = s->monitoring ? WITNESS_EVENTS : WITNESS_LOG;
		t->format = s->monitoring ? "events" : "json-log";
		t->lines = s->objects;
		if (r < 0)
			error_set(reterr, 0, "object %" PRIu64 ": %s", s->objects, strerror(-r));
		*ret = t;
		r = 0;
	}
	input_free(lines);
	for (size_t i = 0; i < SKIP_REASONS; i++)
		stats->skipped[i] += s->values.skipped[i];
	json_values_done(&s->values);
	buf_done(&s->line);
	free(s);
	return r;
}

/* --- the sniff --- */

/* A text with a time, and a host or a word that only events have. */
static bool is_event(const struct event *e)
{
	if (is_string(e, EVENT_TEXT))
		return e->members[EVENT_TIME].value || e->members[EVENT_HOST].value;
	return is_string(e, EVENT_MESSAGE) && e->members[EVENT_TIME].value;
}

bool events_sniff(const char *text, size_t len, const char *path)
{
	char line[8192 + JSON_PAD];
	const char *p = text, *end = text + len, *at;
	unsigned lines = 0, events = 0;
	size_t n;

	(void)path;
	while (lines < EVENT_LOOK && text_line_in(&p, end, &at, &n)) {
		struct event e;

		line_trim(&at, &n);
		if (n && at[n - 1] == ',')
			n--;
		if (!n || *at == '[' || *at == ']')
			continue;
		if (*at != '{')
			return false;
		if (n > sizeof(line) - JSON_PAD || (p == end && at[n - 1] != '}'))
			break;
		memcpy(line, at, n);
		memset(line + n, 0, JSON_PAD);
		e = event_of(line, line + n);
		lines++;
		events += is_event(&e);
	}
	return events && 2 * events >= lines;
}
