/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_scan.c - the window, and the careful way through JSON that its writer damaged.
 *
 * Profilers of ten years wrote names without escaping them, so a quote, a backslash or a line feed
 * may stand where none is allowed. The one question is where a string ends: at the first quote
 * behind which the surrounding value goes on as JSON must (quote_ends). All else follows from that,
 * and a writer's sound text gives the same answer.
 */
#include "read/json_fast.h"

#include <stdio.h>

void json_window_init(struct json_window *w, struct input *in, size_t bytes)
{
	bytes = MAX(bytes ? bytes : JSON_WINDOW_BYTES, JSON_WINDOW_MIN);
	*w = (struct json_window){ .in = in, .cap = bytes };
	w->buf = xmalloc(bytes + JSON_PAD);
	memset(w->buf, 0, JSON_PAD);
	w->p = w->end = w->buf;
}

void json_window_done(struct json_window *w)
{
	free(w->buf);
	w->buf = NULL;
}

bool json_window_fill(struct json_window *w)
{
	size_t left = (size_t)(w->end - w->p);
	ssize_t n;

	if (w->eof || left == w->cap)
		return false;
	memmove(w->buf, w->p, left);
	w->offset += (uint64_t)(w->p - w->buf);
	w->p = w->buf;
	n = input_read(w->in, w->buf + left, w->cap - left);
	if (n <= 0) {
		w->eof = true;
		w->error = (int)n;
		n = 0;
	}
	w->end = w->buf + left + n;
	memset(w->buf + left + n, 0, JSON_PAD);
	return n > 0;
}

bool json_skip_space_refilling(struct json_window *w)
{
	for (;;) {
		w->p = json_skip_space(w->p, w->end);
		if (w->p < w->end)
			return true;
		w->p = w->end;
		if (!json_window_fill(w))
			return false;
	}
}

/* --- what a string's quote means --- */

enum string_role { ROLE_KEY, ROLE_MEMBER, ROLE_ELEMENT, ROLE_ANY };

/* Where a careful copy goes, and what it met. */
struct copy {
	struct json_window *w;
	struct buf *out;
	size_t max_bytes;
	unsigned found;
	uint64_t objects; /* a bit for each open bracket, the innermost lowest: it is an object */
	unsigned depth;
	bool comma; /* a comma is due before the next element */
};

static const char *space_end(const char *p, const char *end)
{
	while (p < end && (unsigned char)*p <= ' ')
		p++;
	return p;
}

static bool value_is_at(const char *p, const char *end)
{
	return p == end || strchr("\"-[{0123456789tfnNIi", *p);
}

/* Does a member's key with its colon stand here, and a value behind it begin? `unseen` if that lies
   beyond what can be seen. */
static bool key_is_at(const char *p, const char *end, bool unseen)
{
	if (p == end)
		return unseen;
	if (*p != '"')
		return false;
	for (p++; p < end && *p != '"'; p++) {
		if ((unsigned char)*p < ' ') /* what lies between two strings, not a key */
			return false;
		if (*p == '\\')
			p++;
	}
	if (p >= end)
		return unseen;
	p = space_end(p + 1, end);
	return p == end ? unseen : *p == ':' && (unseen || value_is_at(space_end(p + 1, end), end));
}

/* The place behind a comma: does the surrounding object or array go on there? */
static bool goes_on_at(const char *p, const char *end, bool in_object)
{
	p = space_end(p, end);
	if (p < end && *p == (in_object ? '}' : ']')) /* a comma too many */
		return true;
	/* A writer that died inside an event, and the next event. */
	if (in_object && end - p > 6 && *p == '{' && !memcmp(space_end(p + 1, end), "\"ph\"", 4))
		return true;
	return in_object ? key_is_at(p, end, true) : value_is_at(p, end);
}

/* Is the quote in front of p the end of its string? What can be seen ends at `end`. */
static bool quote_ends(const char *p, const char *end, enum string_role role)
{
	bool in_object = role == ROLE_MEMBER;

	p = space_end(p, end);
	if (p == end || role == ROLE_ANY)
		return true;
	if (role == ROLE_KEY)
		return *p == ':';
	if (*p == ',')
		return goes_on_at(p + 1, end, in_object);
	if (*p != (in_object ? '}' : ']'))
		return false;
	/* Behind the closing bracket comes a comma, another bracket, or the end. */
	p = space_end(p + 1, end);
	return p == end || *p == ',' || *p == '}' || *p == ']';
}

/*
 * Is the escaped quote in front of p the end of a member's string, whose writer left a backslash
 * before it as it was (a path that ends in one)? In sound text no bare quote follows before the
 * string's real end, so a bare key, or an object's end with one behind it, settles it.
 */
static bool escaped_quote_ends(const char *p, const char *end, enum string_role role)
{
	const char *q = space_end(p, end);

	if (role != ROLE_MEMBER)
		return false;
	if (q < end && *q == ',')
		return key_is_at(space_end(q + 1, end), end, false);
	for (p = q; q < end && (*q == '}' || *q == ']'); q = space_end(q + 1, end))
		;
	if (q == p || q == end || *q != ',')
		return q > p && q == end;
	q = space_end(q + 1, end);
	return key_is_at(q < end && *q == '{' ? space_end(q + 1, end) : q, end, false);
}

/* --- the careful copy --- */

static void emit(struct copy *c, const char *s, size_t len)
{
	if (!c->out)
		return;
	if (c->out->len + len > c->max_bytes) {
		c->found |= JSON_FOUND_TOO_LONG;
		c->out = NULL;
		return;
	}
	buf_put(c->out, s, len);
}

/* What the writer should have written for one character. */
static void emit_escaped(struct copy *c, unsigned char ch)
{
	char text[8];

	c->found |= JSON_FOUND_BAD_TEXT;
	if (ch == '"' || ch == '\\')
		snprintf(text, sizeof(text), "\\%c", ch);
	else
		snprintf(text, sizeof(text), "\\u%04x", ch);
	emit(c, text, strlen(text));
}

static bool is_hex4(const char *p)
{
	for (int i = 0; i < 4; i++)
		if (!strchr("0123456789abcdefABCDEF", p[i]) || !p[i])
			return false;
	return true;
}

/* A backslash at p begins a sound escape of this length; 0: it does not. */
static size_t escape_len(const char *p, const char *end)
{
	if (end - p < 2 || !p[1])
		return 0;
	if (strchr("\"\\/bfnrt", p[1]))
		return 2;
	return p[1] == 'u' && end - p >= 6 && is_hex4(p + 2) ? 6 : 0;
}

/* From the opening quote to behind the closing one. */
static enum json_copied copy_string(struct copy *c, enum string_role role)
{
	struct json_window *w = c->w;
	struct buf *out = c->out;
	size_t len = 0;

	emit(c, "\"", 1);
	w->p++;
	for (;;) {
		const char *end;
		size_t run;

		if (!json_window_need(w, JSON_LOOKAHEAD))
			return JSON_END;
		end = w->end;
		if (c->out && len >= JSON_STRING_MAX) { /* read on, but keep no more of it */
			c->found |= JSON_FOUND_TOO_LONG;
			c->out = NULL;
		}
		run = json_plain_run(w->p, end);
		if (run) {
			run = MIN(run, JSON_STRING_MAX);
			emit(c, w->p, run);
			len += run;
			w->p += run;
		} else if (*w->p == '"') {
			if (quote_ends(w->p + 1, end, role))
				break;
			emit_escaped(c, '"');
			w->p++;
			len++;
		} else if (*w->p == '\\') {
			size_t escape = escape_len(w->p, end);

			if (escape == 2 && w->p[1] == '"' &&
			    escaped_quote_ends(w->p + 2, end, role))
				escape = 0;
			if (escape)
				emit(c, w->p, escape);
			else
				emit_escaped(c, '\\');
			w->p += escape ? escape : 1;
			len++;
		} else {
			emit_escaped(c, (unsigned char)*w->p);
			w->p++;
			len++;
		}
	}
	w->p++;
	if (len >= JSON_STRING_MAX && out && !c->out && out->len < c->max_bytes)
		c->out = out; /* it was the string that was cut, the value goes on */
	emit(c, "\"", 1);
	return JSON_COPIED;
}

/* A number, a word, or nothing where one should be. */
static enum json_copied copy_bare(struct copy *c)
{
	struct json_window *w = c->w;
	size_t left = json_window_need(w, JSON_LOOKAHEAD), n = 0;

	while (n < left && n < JSON_LOOKAHEAD && (unsigned char)w->p[n] > ' ' &&
	       !strchr(",:}]\"{[", w->p[n]))
		n++;
	if (n == left)
		return JSON_END;
	if (n == JSON_LOOKAHEAD)
		return JSON_BROKEN;
	if (!n) {
		if (*w->p != ',' && *w->p != '}')
			return JSON_BROKEN;
		c->found |= JSON_FOUND_BAD_SYNTAX;
		emit(c, "null", 4);
	} else {
		emit(c, w->p, n);
	}
	w->p += n;
	return JSON_COPIED;
}

/* Down to the bracket that closes a value which is too deep to be kept. */
static enum json_copied skip_deep(struct copy *c)
{
	struct json_window *w = c->w;
	uint64_t depth = c->depth;

	c->found |= JSON_FOUND_TOO_DEEP;
	c->out = NULL;
	for (; depth; w->p++) {
		if (w->p == w->end && !json_window_fill(w))
			return JSON_END;
		if (*w->p == '{' || *w->p == '[') {
			depth++;
		} else if (*w->p == '}' || *w->p == ']') {
			depth--;
		} else if (*w->p == '"') {
			struct copy inner = { .w = w };
			enum json_copied r = copy_string(&inner, ROLE_ANY);

			if (r != JSON_COPIED)
				return r;
			w->p--;
		}
	}
	c->depth = 0;
	return JSON_COPIED;
}

static enum json_copied copy_open(struct copy *c)
{
	bool object = *c->w->p == '{';

	emit(c, c->w->p, 1);
	c->w->p++;
	c->depth++;
	c->objects = c->objects << 1 | object;
	c->comma = false;
	return c->depth > JSON_DEPTH_MAX ? skip_deep(c) : JSON_COPIED;
}

static void copy_close(struct copy *c)
{
	bool object = c->objects & 1;

	if (*c->w->p != (object ? '}' : ']'))
		c->found |= JSON_FOUND_BAD_SYNTAX;
	emit(c, object ? "}" : "]", 1);
	c->w->p++;
	c->depth--;
	c->objects >>= 1;
	c->comma = true;
}

/* One element of the innermost object or array, or its end. */
static enum json_copied copy_element(struct copy *c)
{
	struct json_window *w = c->w;
	enum json_copied r;

	if (!json_skip_space_refilling(w))
		return JSON_END;
	if (*w->p == ',') {
		w->p++;
		return JSON_COPIED; /* one is written when an element comes */
	}
	if (*w->p == '}' || (*w->p == ']' && !(c->objects & 1))) {
		copy_close(c);
		return JSON_COPIED;
	}
	if ((c->objects & 1) && *w->p != '"')
		return JSON_BROKEN;
	if (c->comma)
		emit(c, ",", 1);
	c->comma = true;
	if (c->objects & 1) {
		r = copy_string(c, ROLE_KEY);
		if (r != JSON_COPIED)
			return r;
		if (!json_skip_space_refilling(w))
			return JSON_END;
		if (*w->p != ':')
			return JSON_BROKEN;
		emit(c, ":", 1);
		w->p++;
		if (!json_skip_space_refilling(w))
			return JSON_END;
	}
	if (*w->p == '{' || *w->p == '[')
		return copy_open(c);
	if (*w->p != '"')
		return copy_bare(c);
	return copy_string(c, c->objects & 1 ? ROLE_MEMBER : ROLE_ELEMENT);
}

enum json_copied json_copy_value(struct json_window *w, struct buf *out, size_t max_bytes,
				 unsigned *found)
{
	struct copy c = { .w = w, .out = out, .max_bytes = max_bytes };
	enum json_copied r;

	if (out)
		out->len = 0;
	if (!json_skip_space_refilling(w))
		return JSON_END;
	if (*w->p == '{' || *w->p == '[')
		r = copy_open(&c);
	else
		r = *w->p == '"' ? copy_string(&c, ROLE_MEMBER) : copy_bare(&c);
	while (r == JSON_COPIED && c.depth)
		r = copy_element(&c);
	*found |= c.found;
	if (!out)
		return r;
	if (!c.out) {
		out->len = 0;
		buf_put(out, "null", 4);
	}
	out->data = vec_reserve(out->data, &out->cap, out->len + JSON_PAD, 1);
	memset(out->data + out->len, 0, JSON_PAD);
	return r;
}

enum json_copied json_copy_key(struct json_window *w, struct buf *out, unsigned *found)
{
	struct copy c = { .w = w, .out = out, .max_bytes = JSON_STRING_MAX * 2, .objects = 1 };
	enum json_copied r;

	out->len = 0;
	if (*w->p != '"')
		return JSON_BROKEN;
	r = copy_string(&c, ROLE_KEY);
	*found |= c.found;
	if (r != JSON_COPIED)
		return r;
	if (!json_skip_space_refilling(w))
		return JSON_END;
	if (*w->p != ':')
		return JSON_BROKEN;
	w->p++;
	/* Without the quotes, and with a NUL to compare by. */
	buf_put(out, "", 1);
	memmove(out->data, out->data + 1, out->len - 1);
	out->len -= MIN(out->len, 3);
	out->data[out->len] = 0;
	return JSON_COPIED;
}

/* --- text --- */

/* The length of the UTF-8 character at s, 0 if it is none. */
static size_t utf8_len(const unsigned char *s, size_t left)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	uint32_t ch = s[0] & (0x7fu >> n);

	if (s[0] < 0xc2 || s[0] > 0xf4 || n > left)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		ch = ch << 6 | (s[i] & 0x3f);
	}
	if (ch < smallest[n] || ch > 0x10ffff || (ch >= 0xd800 && ch < 0xe000))
		return 0;
	return n;
}

static size_t utf8_put(char *dst, uint32_t ch)
{
	if (ch < 0x80) {
		dst[0] = (char)ch;
		return 1;
	}
	if (ch < 0x800) {
		dst[0] = (char)(0xc0 | ch >> 6);
		dst[1] = (char)(0x80 | (ch & 0x3f));
		return 2;
	}
	if (ch < 0x10000) {
		dst[0] = (char)(0xe0 | ch >> 12);
		dst[1] = (char)(0x80 | (ch >> 6 & 0x3f));
		dst[2] = (char)(0x80 | (ch & 0x3f));
		return 3;
	}
	dst[0] = (char)(0xf0 | ch >> 18);
	dst[1] = (char)(0x80 | (ch >> 12 & 0x3f));
	dst[2] = (char)(0x80 | (ch >> 6 & 0x3f));
	dst[3] = (char)(0x80 | (ch & 0x3f));
	return 4;
}

static uint32_t hex4(const char *p)
{
	char text[5] = { p[0], p[1], p[2], p[3], 0 };

	return (uint32_t)strtoul(text, NULL, 16);
}

/* A \u escape at s, or a pair of them; returns how much of s it took. */
static size_t unescape_unicode(char *dst, const char *s, const char *end, size_t *ret_n, bool *bad)
{
	uint32_t ch = hex4(s + 2);
	size_t used = 6;

	if (ch >= 0xd800 && ch < 0xdc00 && end - s >= 12 && s[6] == '\\' && s[7] == 'u' &&
	    is_hex4(s + 8)) {
		uint32_t low = hex4(s + 8);

		if (low >= 0xdc00 && low < 0xe000) {
			ch = 0x10000 + ((ch - 0xd800) << 10) + (low - 0xdc00);
			used = 12;
		}
	}
	if (!ch || (ch >= 0xd800 && ch < 0xe000)) { /* no character, or one that no name may hold */
		*bad = true;
		ch = 0xfffd;
	}
	*ret_n = utf8_put(dst, ch);
	return used;
}

size_t json_unescape(char *dst, const char *s, size_t len, bool *ret_bad)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *end = s + len;
	char *d = dst;

	*ret_bad = false;
	while (s < end) {
		unsigned char ch = (unsigned char)*s;
		size_t n = 1, used = 1;

		*d = (char)ch;
		if (ch == '\\') {
			used = escape_len(s, end);
			if (used == 2)
				*d = to[strchr(from, s[1]) - from];
			else if (used == 6)
				used = unescape_unicode(d, s, end, &n, ret_bad);
			else
				*ret_bad = true;
			used += !used;
		} else if (ch >= 0x80) {
			n = utf8_len((const unsigned char *)s, (size_t)(end - s));
			*ret_bad |= !n;
			n += !n;
			memcpy(d, s, n);
			used = n;
		} else if (ch < ' ') {
			*ret_bad = true;
			if (!ch)
				n = 0; /* names are NUL-ended */
		}
		d += n;
		s += used;
	}
	return (size_t)(d - dst);
}
