/* SPDX-License-Identifier: Apache-2.0 */
/* json_member.c - a walk over the members of sound JSON. */
#include "read/json_member.h"

bool json_member_next(const char **p, const char *end, bool keyed, struct json_member *ret)
{
	const char *at = json_skip_space(*p, end);
	bool plain;

	if (at < end && *at == ',')
		at = json_skip_space(at + 1, end);
	*ret = (struct json_member){ 0 };
	if (keyed) {
		if (at >= end || *at != '"')
			return false;
		ret->key = at + 1;
		at = json_string_end(ret->key, end, &plain);
		if (!at)
			return false;
		ret->key_len = (size_t)(at - ret->key);
		at = json_skip_space(at + 1, end);
		if (*at != ':')
			return false;
		at = json_skip_space(at + 1, end);
	}
	if (at >= end || *at == ']' || *at == '}')
		return false;
	ret->value = at;
	at = json_skip_value(at, end);
	if (!at)
		return false;
	*p = ret->end = at;
	return true;
}

bool json_key_is(const struct json_member *m, const char *word)
{
	return m->key_len == strlen(word) && !memcmp(m->key, word, m->key_len);
}

bool json_is_scalar(const struct json_member *m)
{
	return *m->value != '{' && *m->value != '[';
}

size_t json_scalar(const struct json_member *m, const char **ret)
{
	const char *p = m->value, *end = m->end;

	if (*p == '"' && end - p >= 2) {
		p++;
		end--;
	}
	while (p < end && (unsigned char)*p <= ' ')
		p++;
	while (end > p && (unsigned char)end[-1] <= ' ')
		end--;
	*ret = p;
	return (size_t)(end - p);
}

/* --- values of a text --- */

void json_values_init(struct json_values *v, struct input *in, size_t max_bytes)
{
	*v = (struct json_values){ .max_bytes = max_bytes };
	json_window_init(&v->w, in, 0);
}

void json_values_done(struct json_values *v)
{
	json_window_done(&v->w);
	buf_done(&v->copy);
}

/* The end of the line at the window's place; NULL if it does not end within the window. */
static const char *line_end(struct json_window *w)
{
	size_t seen = 0;

	for (;;) {
		size_t have = (size_t)(w->end - w->p);
		const char *nl = have ? memchr(w->p + seen, '\n', have - seen) : NULL;

		if (nl)
			return nl;
		seen = have;
		if (!json_window_fill(w))
			return w->eof ? w->end : NULL;
	}
}

static void copy_text(struct json_values *v, const char *p, size_t len)
{
	static const char zeros[JSON_PAD];

	v->copy.len = 0;
	buf_put(&v->copy, p, len);
	buf_put(&v->copy, zeros, sizeof(zeros));
	v->copy.len = len;
}

/* A value that is the whole of its line, a comma behind it and ends of what is around it aside. */
static bool take_line(struct json_values *v)
{
	const char *nl = line_end(&v->w), *text, *end;
	size_t len, own;

	if (!nl)
		return false;
	len = (size_t)(nl - v->w.p);
	while (len && ((unsigned char)v->w.p[len - 1] <= ' ' || v->w.p[len - 1] == ','))
		len--;
	if (!len || len > v->max_bytes)
		return false;
	copy_text(v, v->w.p, len);
	text = (const char *)v->copy.data;
	end = json_skip_value(text, text + len);
	if (!end)
		return false;
	own = (size_t)(end - text);
	for (size_t i = own; i < len; i++)
		if (!strchr("]} \t\r,", text[i]) || !text[i])
			return false;
	memset(v->copy.data + own, 0, len - own);
	v->copy.len = own;
	v->w.p = nl;
	return true;
}

/* Whatever lies up to the end of the line is left. */
static void skip_line(struct json_values *v)
{
	const char *nl;

	while (!(nl = line_end(&v->w)) && !v->w.eof)
		v->w.p = v->w.end;
	v->w.p = nl ? nl : v->w.end;
}

static enum json_copied take_document(struct json_values *v)
{
	unsigned found = 0;
	enum json_copied got = json_copy_value(&v->w, &v->copy, v->max_bytes, &found);

	v->skipped[SKIP_TOO_LONG] += (found & JSON_FOUND_TOO_LONG) != 0;
	v->skipped[SKIP_TOO_DEEP] += (found & JSON_FOUND_TOO_DEEP) != 0;
	v->skipped[SKIP_MALFORMED] += (found & JSON_FOUND_BAD_SYNTAX) != 0;
	v->skipped[SKIP_BAD_TEXT] += (found & JSON_FOUND_BAD_TEXT) != 0;
	v->skipped[SKIP_TRUNCATED] += got == JSON_END;
	if (got == JSON_BROKEN)
		v->w.p += v->w.p < v->w.end;
	return got;
}

bool json_values_next(struct json_values *v, const char **ret, const char **ret_end)
{
	while (json_skip_space_refilling(&v->w)) {
		if (*v->w.p != '{' && *v->w.p != '[') {
			v->skipped[SKIP_MALFORMED] += !strchr("],}", *v->w.p);
			if (v->lines)
				skip_line(v);
			else
				v->w.p++;
			continue;
		}
		if (take_line(v)) {
			v->lines = true;
		} else if (v->lines) {
			v->skipped[SKIP_MALFORMED]++;
			skip_line(v);
			continue;
		} else if (take_document(v) == JSON_BROKEN || !v->copy.len) {
			continue;
		}
		*ret = (const char *)v->copy.data;
		*ret_end = *ret + v->copy.len;
		v->n++;
		return true;
	}
	return false;
}
