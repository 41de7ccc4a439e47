/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collected.c - collect.json and the files about single processes beside it: which rank stood on
 * which host, as which process, with which GPU. Dumps and stacks do not say it of themselves.
 */
#include "read/collected.h"

#include "read/json_member.h"
#include "read/text_lines.h"

#define COLLECTED_BYTES_MAX ((size_t)64 << 20)

struct collected {
	struct testimony *t;
	uint32_t host;
	int64_t time_ns;
	uint64_t ranks;
};

static int64_t number(const struct json_member *m)
{
	const char *p = m->value;
	int64_t v;

	/* Quotes around it are accepted. */
	return json_number(&p, m->end, 0, &v) == JSON_NUMBER_GOOD && v >= 0 ? v : -1;
}

static uint32_t text(struct testimony *t, const struct json_member *m)
{
	char copy[256 + 8];
	const char *p;
	size_t len = json_scalar(m, &p);
	bool bad;

	if (*m->value != '"' || len > 256)
		return NO_ID;
	len = json_unescape(copy, p, len, &bad);
	return len ? testimony_name(t, copy, len) : NO_ID;
}

/* What the object says of a process: nothing without a rank. */
static void hello(struct collected *c, const char *p, const char *end)
{
	struct saying s = saying_of(SAY_HELLO);
	struct json_member m;

	for (p++; json_member_next(&p, end, true, &m);) {
		if (!json_is_scalar(&m))
			continue;
		if (json_key_is(&m, "rank"))
			s.rank = number(&m);
		else if (json_key_is(&m, "local_rank"))
			s.local_rank = number(&m);
		else if (json_key_is(&m, "world_size"))
			s.value = number(&m);
		else if (json_key_is(&m, "gpu"))
			s.gpu = number(&m);
		else if (json_key_is(&m, "pid"))
			s.pid = number(&m);
	}
	if (s.rank < 0)
		return;
	s.host = c->host;
	s.time_ns = c->time_ns;
	s.line = s.last_line = ++c->ranks;
	if (s.value > 0)
		c->t->world_size = MAX(c->t->world_size, s.value);
	testimony_say(c->t, &s);
}

static void take(struct collected *c, const char *from, const char *end)
{
	struct json_member m, list = { 0 };
	const char *p;

	for (p = from + 1; json_member_next(&p, end, true, &m);) {
		if (json_key_is(&m, "host"))
			c->t->host = c->host = text(c->t, &m);
		else if (json_key_is(&m, "time_ns"))
			c->t->time_ns = c->time_ns = number(&m);
		else if (json_key_is(&m, "ranks") && *m.value == '[')
			list = m;
	}
	hello(c, from, end);
	for (p = list.value ? list.value + 1 : end;
	     list.value && json_member_next(&p, list.end, false, &m);)
		if (*m.value == '{')
			hello(c, m.value, m.end);
}

int collected_read(struct input *in, const char *path, struct testimony **ret,
		   struct read_stats *stats, struct error *reterr)
{
	struct collected c = { testimony_new(WITNESS_EVENTS, "collected"), NO_ID, -1, 0 };
	struct buf copy = { 0 };
	struct json_window w;
	unsigned found = 0;
	enum json_copied got;

	(void)path;
	json_window_init(&w, in, 0);
	json_skip_space_refilling(&w);
	got = json_copy_value(&w, &copy, COLLECTED_BYTES_MAX, &found);
	if (copy.len && *copy.data == '{')
		take(&c, (const char *)copy.data, (const char *)copy.data + copy.len);
	if (got != JSON_COPIED) {
		stats->skipped[SKIP_TRUNCATED]++;
		error_set(reterr, 0, "ends in the middle");
	}
	stats->events = c.ranks;
	json_window_done(&w);
	buf_done(&copy);
	*ret = c.t;
	return 0;
}

/* Its first member names it. */
bool collected_sniff(const char *text, size_t len, const char *path)
{
	(void)path;
	line_trim(&text, &len);
	if (!len || *text != '{')
		return false;
	text++;
	len--;
	line_trim(&text, &len);
	return line_starts(text, len, "\"lockstep_collect\"");
}
