/* SPDX-License-Identifier: Apache-2.0 */
/* alert_lines.c - the ledger as lines of JSON, each with its check sum, and back. */
#include "alert/alert_ledger.h"

#include <stdio.h>

#define VERSION 1
#define HEAD	9 /* check sum and space */

/* CRC-32 as in zlib, four bits at a time. */
static uint32_t crc(const uint8_t *p, size_t len)
{
	static const uint32_t of[16] = {
		0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
		0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
		0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};
	uint32_t c = ~0u;

	for (; len; len--, p++) {
		c ^= *p;
		c = c >> 4 ^ of[c & 15];
		c = c >> 4 ^ of[c & 15];
	}
	return ~c;
}

/* Takes over record. */
static void put_line(json_t *record, struct buf *out)
{
	char *text = json_dumps(record, JSON_COMPACT), head[HEAD + 1];

	json_decref(record);
	if (!text)
		return;
	snprintf(head, sizeof(head), "%08" PRIx32 " ", crc((uint8_t *)text, strlen(text)));
	buf_put(out, head, HEAD);
	buf_put(out, text, strlen(text));
	buf_put(out, "\n", 1);
	free(text);
}

static json_t *integer(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static void put_begin(const struct ledger *l, struct buf *out)
{
	json_t *known = json_array(), *o = json_object();

	for (size_t i = 0; i < l->n_targets; i++)
		json_array_append_new(known, json_string(l->targets[i]));
	json_object_set_new(o, "lockstep-alerts", integer(VERSION));
	json_object_set_new(o, "origin", json_string(l->origin));
	json_object_set_new(o, "next", integer(l->next));
	json_object_set_new(o, "known", known);
	put_line(o, out);
}

void ledger_put_event(const struct ledger *l, const struct event *e, struct buf *out)
{
	json_t *to = json_array(), *o = json_object();

	for (size_t i = 0; i < l->n_targets; i++)
		if (e->to >> i & 1)
			json_array_append_new(to, json_string(l->targets[i]));
	json_object_set_new(o, "event", integer(e->n));
	json_object_set_new(o, "id", json_string(e->id));
	json_object_set_new(o, "what", integer(e->what));
	json_object_set_new(o, "key", json_string(e->key));
	json_object_set_new(o, "severity", integer(e->severity));
	json_object_set_new(o, "before", integer(e->before));
	json_object_set_new(o, "first", integer(e->first));
	json_object_set_new(o, "escalations", integer(e->escalations));
	json_object_set_new(o, "time_ms", json_integer(e->time_ms));
	json_object_set_new(o, "since_ms", json_integer(e->since_ms));
	json_object_set_new(o, "summary", json_string(e->summary));
	if (e->detail)
		json_object_set_new(o, "detail", json_string(e->detail));
	json_object_set_new(o, "to", to);
	put_line(o, out);
}

void ledger_put_settled(const struct ledger *l, const struct event *e, unsigned target,
			const char *how, struct buf *out)
{
	json_t *o = json_object();

	json_object_set_new(o, "settled", integer(e->n));
	json_object_set_new(o, "to", json_string(l->targets[target]));
	json_object_set_new(o, "how", json_string(how));
	put_line(o, out);
}

void ledger_put_all(const struct ledger *l, struct buf *out)
{
	put_begin(l, out);
	for (size_t i = 0; i < l->events.n; i++)
		ledger_put_event(l, l->events.v[i], out);
}

/* --- reading --- */

static bool number(const json_t *o, const char *name, uint64_t most, uint64_t *ret)
{
	const json_t *v = json_object_get(o, name);

	if (!json_is_integer(v) || json_integer_value(v) < 0 ||
	    (uint64_t)json_integer_value(v) > most)
		return false;
	*ret = (uint64_t)json_integer_value(v);
	return true;
}

static bool text_of(const json_t *o, const char *name, size_t most, const char **ret)
{
	const json_t *v = json_object_get(o, name);

	*ret = json_string_value(v);
	return *ret && json_string_length(v) <= most && strlen(*ret) == json_string_length(v);
}

static bool target_id_fine(const char *id)
{
	return id && strlen(id) == TARGET_ID - 1 && strspn(id, "0123456789abcdef") == TARGET_ID - 1;
}

static bool read_begin(struct ledger *l, const json_t *o)
{
	const json_t *known = json_object_get(o, "known");
	const char *origin;
	uint64_t version, next;

	if (!number(o, "lockstep-alerts", VERSION, &version) || !version ||
	    !number(o, "next", INT64_MAX / 2, &next) || !text_of(o, "origin", 16, &origin) ||
	    !target_id_fine(origin))
		return false;
	l->next = MAX(l->next, next);
	strcpy(l->origin, origin);
	for (size_t i = 0; i < json_array_size(known); i++) {
		const char *id = json_string_value(json_array_get(known, i));

		if (target_id_fine(id))
			ledger_target(l, id);
	}
	return true;
}

static bool detail_fine(const char *text)
{
	json_t *v = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
	bool fine = v != NULL;

	json_decref(v);
	return fine;
}

static bool read_numbers(struct event *e, const json_t *o)
{
	uint64_t what, severity, before, first, escalations, time_ms, since_ms;

	if (!number(o, "event", INT64_MAX / 4, &e->n) || !e->n ||
	    !number(o, "what", ALERT_WHATS - 1, &what) ||
	    !number(o, "severity", ALERT_SEVERITIES - 1, &severity) ||
	    !number(o, "before", ALERT_SEVERITIES - 1, &before) ||
	    !number(o, "first", ALERT_SEVERITIES - 1, &first) ||
	    !number(o, "escalations", 1000, &escalations) ||
	    !number(o, "time_ms", INT64_MAX / 2, &time_ms) ||
	    !number(o, "since_ms", INT64_MAX / 2, &since_ms))
		return false;
	e->what = (enum alert_what)what;
	e->severity = (enum alert_severity)severity;
	e->before = (enum alert_severity)before;
	e->first = (enum alert_severity)first;
	e->escalations = (unsigned)escalations;
	e->time_ms = (int64_t)time_ms;
	e->since_ms = (int64_t)since_ms;
	return true;
}

static bool read_event(struct ledger *l, const json_t *o)
{
	const json_t *to = json_object_get(o, "to");
	const char *id, *key, *summary, *detail = NULL;
	struct event e = { 0 }, *kept;

	if (!read_numbers(&e, o) || !text_of(o, "id", LEDGER_ID_MOST - 1, &id) || !*id ||
	    !text_of(o, "key", ALERT_KEY_MOST, &key) || !*key ||
	    !text_of(o, "summary", ALERT_SUMMARY_MOST, &summary) ||
	    (json_object_get(o, "detail") &&
	     (!text_of(o, "detail", ALERT_DETAIL_MOST, &detail) || !detail_fine(detail))) ||
	    (l->events.n && l->events.v[l->events.n - 1]->n >= e.n) ||
	    l->events.n >= 2 * LEDGER_EVENTS_MOST || l->raised.n >= LEDGER_RAISED_MOST)
		return false;
	for (size_t i = 0; i < json_array_size(to); i++) {
		const char *target = json_string_value(json_array_get(to, i));
		int bit = target_id_fine(target) ? ledger_target(l, target) : -1;

		if (bit >= 0)
			e.to |= (uint64_t)1 << bit;
	}
	strcpy(e.id, id);
	e.key = xstrdup(key);
	e.summary = xstrdup(summary);
	e.detail = detail ? xstrdup(detail) : NULL;
	kept = xmalloc(sizeof(*kept));
	*kept = e;
	ledger_add(l, kept);
	return true;
}

static bool read_settled(struct ledger *l, const json_t *o)
{
	const char *target;
	uint64_t n;
	int bit;

	if (!number(o, "settled", INT64_MAX / 2, &n) || !text_of(o, "to", 16, &target) ||
	    !target_id_fine(target))
		return false;
	bit = ledger_target(l, target);
	for (size_t i = 0; bit >= 0 && i < l->events.n; i++)
		if (l->events.v[i]->n == n) {
			ledger_settle(l, l->events.v[i], (unsigned)bit);
			break;
		}
	return true;
}

static bool read_line(struct ledger *l, const char *line, size_t len)
{
	json_t *o;
	char head[HEAD] = "", *end;
	bool fine;

	if (len <= HEAD || len > LEDGER_LINE_MOST || line[HEAD - 1] != ' ')
		return false;
	memcpy(head, line, HEAD - 1);
	if (strspn(head, "0123456789abcdef") != HEAD - 1 ||
	    strtoul(head, &end, 16) != crc((const uint8_t *)line + HEAD, len - HEAD))
		return false;
	o = json_loadb(line + HEAD, len - HEAD, JSON_REJECT_DUPLICATES, NULL);
	fine = o && (json_object_get(o, "event")     ? read_event(l, o)
		     : json_object_get(o, "settled") ? read_settled(l, o)
						     : read_begin(l, o));
	json_decref(o);
	return fine;
}

void ledger_read(struct ledger *l, const void *data, size_t len)
{
	const char *p = data, *end = len ? p + len : p, *newline;

	while (p < end && (newline = memchr(p, '\n', (size_t)(end - p)))) {
		if (!read_line(l, p, (size_t)(newline - p)))
			l->damaged++;
		p = newline + 1;
	}
}
