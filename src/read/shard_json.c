/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_json.c - small JSON, strictly: counts files and indexes of shards.
 *
 * Traces are mended where they are damaged (json_scan.h); a count that was guessed would be worse
 * than none. So this one knows the line, and stops at the first thing that is wrong.
 */
#include "read/shard_inside.h"

#define STRICT_STRING_MOST ((size_t)1 << 20)

static bool wrong(struct strict_json *j, const char *what)
{
	if (!j->wrong)
		j->wrong = what;
	return false;
}

struct strict_json strict_json_of(const char *text, size_t len)
{
	struct strict_json j = { .p = text, .end = text + len, .line = 1 };

	if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
		j.p += 3;
	return j;
}

char strict_json_peek(struct strict_json *j)
{
	for (; j->p < j->end && strchr(" \t\r\n", *j->p) && *j->p; j->p++)
		j->line += *j->p == '\n';
	return j->wrong || j->p >= j->end ? 0 : *j->p;
}

bool strict_json_string(struct strict_json *j, const char **ret, size_t *ret_len)
{
	const char *p;

	if (strict_json_peek(j) != '"')
		return wrong(j, "a string is missing");
	for (p = j->p + 1; p < j->end && *p != '"'; p++) {
		if ((unsigned char)*p < ' ')
			return wrong(j, "a control character in a string");
		if (*p == '\\' && ++p == j->end)
			break;
	}
	if (p >= j->end)
		return wrong(j, "a string without an end");
	if ((size_t)(p - j->p) > STRICT_STRING_MOST)
		return wrong(j, "a string that is too long");
	*ret = j->p + 1;
	*ret_len = (size_t)(p - *ret);
	j->p = p + 1;
	return true;
}

bool strict_json_next(struct strict_json *j, char open, bool *begun, const char **ret_key,
		      size_t *ret_len)
{
	const char *key = NULL;
	size_t len = 0;
	char c = strict_json_peek(j), end = open == '{' ? '}' : ']';

	if (!*begun) {
		if (c != open || j->depth >= COUNT_DEPTH_MOST)
			return wrong(j, c != open ? "a bracket is missing" : "nested too deep");
		j->p++;
		j->depth++;
		c = strict_json_peek(j);
	} else if (c == ',') {
		j->p++;
		c = strict_json_peek(j);
		if (c == end)
			return wrong(j, "a comma with nothing behind it");
	} else if (c != end) {
		return wrong(j, "a comma or a closing bracket is missing");
	}
	if (c == end) {
		j->p++;
		j->depth--;
		return false;
	}
	*begun = true;
	if (open == '{') {
		if (!strict_json_string(j, &key, &len))
			return false;
		if (strict_json_peek(j) != ':')
			return wrong(j, "a colon is missing");
		j->p++;
	}
	if (ret_key) {
		*ret_key = key;
		*ret_len = len;
	}
	return true;
}

static bool skip_word(struct strict_json *j)
{
	const char *from = j->p;

	while (j->p < j->end &&
	       ((*j->p >= '0' && *j->p <= '9') || (*j->p >= 'a' && *j->p <= 'z') ||
		(*j->p >= 'A' && *j->p <= 'Z') || strchr("+-.", *j->p)) &&
	       *j->p)
		j->p++;
	return j->p > from ? true : wrong(j, "a value is missing");
}

/* Recurses, COUNT_DEPTH_MOST deep at most. */
bool strict_json_skip(struct strict_json *j)
{
	const char *s;
	size_t len;
	char c = strict_json_peek(j);

	if (c == '{' || c == '[') {
		bool begun = false;

		while (strict_json_next(j, c, &begun, &s, &len))
			if (!strict_json_skip(j))
				return false;
		return !j->wrong;
	}
	if (c == '"')
		return strict_json_string(j, &s, &len);
	return c ? skip_word(j) : wrong(j, "the text ends in the middle");
}

bool strict_json_integer(struct strict_json *j, int64_t *ret, const char **ret_not)
{
	const char *s;
	size_t len;
	char c = strict_json_peek(j);

	*ret_not = NULL;
	if (c == '{' || c == '[') {
		*ret_not = "is no number";
		strict_json_skip(j);
		return false;
	}
	if (c == '"') {
		if (!strict_json_string(j, &s, &len))
			return false;
	} else {
		s = j->p;
		if (!c ? !wrong(j, "the text ends in the middle") : !skip_word(j))
			return false;
		len = (size_t)(j->p - s);
	}
	*ret_not = count_of_text(s, len, ret);
	return !*ret_not;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

const char *count_of_text(const char *s, size_t len, int64_t *ret)
{
	const char *p = s, *end = s + len;
	int64_t v = 0;
	bool minus, digits = false, large = false;

	while (p < end && is_blank(*p))
		p++;
	while (end > p && is_blank(end[-1]))
		end--;
	if (end - p >= 2 && (*p == '"' || *p == '\'') && end[-1] == *p) {
		p++;
		end--;
	}
	minus = p < end && *p == '-';
	p += p < end && (*p == '-' || *p == '+');
	for (; p < end && *p >= '0' && *p <= '9'; p++) {
		digits = true;
		large |=
		    __builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p - '0', &v);
	}
	if (digits && p < end && *p == '.') /* pandas writes 30835.0 */
		for (p++; p < end && *p == '0';)
			p++;
	if (!digits || p != end)
		return "is no whole number";
	if (large)
		return "is larger than any count";
	if (minus && v)
		return "is negative";
	*ret = v;
	return NULL;
}
