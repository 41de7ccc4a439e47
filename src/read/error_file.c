/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error_file.c - torchelastic's error.json as the traceback that it holds: the log reader reads
 * that, so an exception means the same wherever it stands, and is of the rank in the path.
 */
#include "read/error_file.h"

#include "read/json_member.h"
#include "read/log.h"
#include "read/stamp.h"
#include "read/text_lines.h"

#define ERROR_BYTES_MAX ((size_t)4 << 20)

struct error_text {
	struct buf text; /* the traceback, as a log shows it */
	size_t given;
};

static bool member(const char *p, const char *end, const char *key, struct json_member *ret)
{
	if (p == end || *p != '{')
		return false;
	for (p++; json_member_next(&p, end, true, ret);)
		if (json_key_is(ret, key))
			return true;
	return false;
}

static void append(struct buf *to, const struct json_member *m)
{
	const char *p;
	size_t len = json_scalar(m, &p);
	_cleanup_free_ char *plain = xmalloc(len + JSON_PAD);
	bool bad;

	buf_put(to, plain, json_unescape(plain, p, len, &bad));
}

/* The traceback, and when it was written (-1); false: the document is of another kind. */
static bool error_of(const char *p, const char *end, struct buf *text, int64_t *ret_ns)
{
	static const char head[] = "Traceback (most recent call last):\n";
	struct json_member outer, message, extra, stack, time;
	bool known;

	*ret_ns = -1;
	if (!member(p, end, "message", &outer))
		return false;
	if (json_is_scalar(&outer) && *outer.value == '"') {
		message = outer;
		known = member(p, end, "extraInfo", &extra) || member(p, end, "errorCode", &extra);
	} else {
		known =
		    member(outer.value, outer.end, "message", &message) && json_is_scalar(&message);
		if (!member(outer.value, outer.end, "extraInfo", &extra))
			extra.value = extra.end = outer.end;
	}
	if (!known)
		return false;
	if (member(extra.value, extra.end, "timestamp", &time) && json_is_scalar(&time)) {
		const char *number = time.value;
		int64_t s;

		if (json_number(&number, time.end, 0, &s) == JSON_NUMBER_GOOD)
			*ret_ns = stamp_of_number((double)s);
	}
	if (member(extra.value, extra.end, "py_callstack", &stack) && json_is_scalar(&stack) &&
	    stack.end - stack.value > (ptrdiff_t)sizeof(head)) {
		append(text, &stack);
	} else {
		buf_put(text, head, sizeof(head) - 1);
		append(text, &message);
	}
	buf_put(text, "\n", 1);
	return true;
}

static ssize_t give(void *user, void *buf, size_t len)
{
	struct error_text *e = user;
	size_t n = MIN(len, e->text.len - e->given);

	memcpy(buf, e->text.data + e->given, n);
	e->given += n;
	return (ssize_t)n;
}

int error_file_read(struct input *in, const char *path, struct testimony **ret,
		    struct read_stats *stats, struct error *reterr)
{
	struct json_values values;
	struct error_text e = { 0 };
	struct testimony *t = NULL;
	struct read_stats of_lines = { 0 };
	const char *p, *end;
	struct input *lines;
	int64_t time_ns = -1;
	int r = 0;

	json_values_init(&values, in, ERROR_BYTES_MAX);
	if (json_values_next(&values, &p, &end) && error_of(p, end, &e.text, &time_ns)) {
		lines = input_of_source(give, &e);
		r = log_read(lines, path, &t, &of_lines, reterr);
		input_free(lines);
	}
	if (!t || testimony_empty(t)) {
		t = testimony_free(t);
		r = error_set(reterr, -ENODATA, "no exception in it");
	} else {
		t->format = "torchelastic-error";
		for (size_t i = 0; i < t->sayings.n; i++)
			t->sayings.v[i].time_ns = t->sayings.v[i].last_ns = time_ns;
		stats->events += of_lines.events;
		*ret = t;
	}
	for (size_t i = 0; i < SKIP_REASONS; i++)
		stats->skipped[i] += values.skipped[i];
	json_values_done(&values);
	buf_done(&e.text);
	return r;
}

/* Its first member, and a word that only it has. */
bool error_file_sniff(const char *text, size_t len, const char *path)
{
	const char *end = text + len;

	(void)path;
	line_trim(&text, &len);
	if (!len || *text != '{')
		return false;
	text++;
	len = (size_t)(end - text);
	line_trim(&text, &len);
	return line_starts(text, len, "\"message\"") &&
	       (memmem(text, len, "\"py_callstack\"", 14) ||
		memmem(text, len, "\"errorCode\"", 11));
}
