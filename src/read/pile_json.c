/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pile_json.c - JSON of dumps, whole or damaged, as pushes onto the pile.
 *
 * Commas and colons carry nothing that the places of values do not, so they are passed over; a
 * missing one does no harm.
 */
#include "read/json_fast.h"
#include "read/pile.h"

#define NUMBER_MAX 64u /* characters of a number or word */

struct json {
	struct pile_reader *r;
	struct json_window *w;
	uint64_t objects; /* a bit for each open bracket, the innermost lowest: it is an object */
	bool done;
};

static const char cut[] = "the dump ends in the middle";

/* The closing quote of the string that begins at w->p; NULL: it is not in the window. */
static const char *string_end(struct json_window *w, bool *ret_plain)
{
	const char *q = json_string_end(w->p + 1, w->end, ret_plain);

	while (!q && json_window_fill(w))
		q = json_string_end(w->p + 1, w->end, ret_plain);
	return q;
}

/* A string that does not fit into the window, piece by piece; no more than is of use. */
static const char *gather_string(struct json_window *w, struct buf *ret)
{
	bool escape = false;

	ret->len = 0;

	for (w->p++;; w->p++) {
		if (w->p == w->end && !json_window_fill(w))
			return cut;
		if (!escape && *w->p == '"')
			break;
		escape = !escape && *w->p == '\\';
		if (ret->len <= PILE_STRING_MAX)
			buf_put(ret, w->p, 1);
	}
	w->p++;
	return NULL;
}

static struct pile_value unescaped(struct json *j, const char *s, size_t len)
{
	struct buf *b = &j->r->text;
	bool bad;

	b->len = 0;
	buf_put(b, s, len); /* room; what is written is never longer */
	len = json_unescape((char *)b->data, s, len, &bad);
	j->r->stats->skipped[SKIP_BAD_TEXT] += bad;
	return pile_text(j->r, (const char *)b->data, len);
}

static const char *push_long_string(struct json *j)
{
	struct buf raw = { 0 };
	const char *bad = gather_string(j->w, &raw);

	if (!bad)
		bad = pile_push(&j->r->pile, unescaped(j, (const char *)raw.data, raw.len));
	buf_done(&raw);
	return bad;
}

static const char *push_string(struct json *j)
{
	struct json_window *w = j->w;
	struct pile_value v;
	bool plain;
	const char *q = string_end(w, &plain);

	if (!q || (size_t)(q - w->p) > PILE_IN_PLACE_MAX)
		return push_long_string(j);
	v = plain ? pile_text(j->r, w->p + 1, (size_t)(q - w->p - 1))
		  : unescaped(j, w->p + 1, (size_t)(q - w->p - 1));
	w->p = q + 1;
	return pile_push(&j->r->pile, v);
}

/* An integer that ends in the window, as nearly all words are: moves the window behind it. */
static bool plain_integer(struct json_window *w, int64_t *ret)
{
	const char *p = w->p + (*w->p == '-'), *digits = p;
	int64_t v = 0;

	while (json_is_digit(*p) && p - digits < 18)
		v = v * 10 + (*p++ - '0');
	if (p == digits || p >= w->end || (*p != ',' && *p != '}' && *p != ']'))
		return false;
	*ret = *w->p == '-' ? -v : v;
	w->p = p;
	return true;
}

static const char *push_word(struct json *j)
{
	struct json_window *w = j->w;
	struct pile_value v = pile_plain(PILE_UNKNOWN);
	char text[NUMBER_MAX + 1], *end;
	size_t left, n = 0;

	if (plain_integer(w, &v.n)) {
		v.kind = PILE_INT;
		return pile_push(&j->r->pile, v);
	}
	left = json_window_need(w, NUMBER_MAX);
	while (n < left && n < NUMBER_MAX && (unsigned char)w->p[n] > ' ' &&
	       !strchr(",:{}[]\"", w->p[n]))
		n++;
	if (n == left && left < NUMBER_MAX)
		return cut;
	if (!n || n == NUMBER_MAX)
		return "neither a value nor an end";
	memcpy(text, w->p, n);
	text[n] = 0;
	if (!strcmp(text, "null")) {
		v = pile_plain(PILE_NONE);
	} else if (!strcmp(text, "true") || !strcmp(text, "false")) {
		v = (struct pile_value){ .kind = PILE_BOOL, .n = *text == 't' };
	} else {
		errno = 0;
		v = pile_int(strtoll(text, &end, 10));
		if (*end || errno) {
			double d = strtod(text, &end);

			v = pile_plain(PILE_UNKNOWN);
			if (end == text)
				return "neither a value nor an end";
			if (!*end) {
				v.kind = PILE_FLOAT;
				memcpy(&v.n, &d, sizeof(d));
			}
		}
	}
	w->p += n;
	return pile_push(&j->r->pile, v);
}

static const char *open_bracket(struct json *j, bool object)
{
	const char *bad = pile_begin(&j->r->pile, object ? PILE_DICT : PILE_LIST);

	j->w->p++;
	j->objects = j->objects << 1 | object;
	return bad ? bad : pile_mark(&j->r->pile);
}

static const char *close_bracket(struct json *j, bool object)
{
	struct pile *p = &j->r->pile;
	const char *bad;

	if (!p->n_marks)
		return "an end without a beginning";
	if ((j->objects & 1) != object)
		return "an end of another kind than its beginning";
	bad = object ? pile_set_marked(p) : pile_append_marked(p);
	j->w->p++;
	j->objects >>= 1;
	j->done = !p->n_marks;
	return bad;
}

static const char *token(struct json *j)
{
	char c;

	if (!json_skip_space_refilling(j->w))
		return cut;
	c = *j->w->p;
	if (c == ',' || c == ':') {
		j->w->p++;
		return NULL;
	}
	if (c == '"')
		return push_string(j);
	if (c == '{' || c == '[')
		return open_bracket(j, c == '{');
	if (c == '}' || c == ']')
		return close_bracket(j, c == '}');
	return push_word(j);
}

enum pile_end pile_json_run(struct pile_reader *r, struct error *e)
{
	struct json j = { .r = r, .w = &r->window };
	const char *bad = NULL;

	while (!j.done && !bad)
		bad = token(&j);
	if (!bad)
		return PILE_WHOLE;
	error_set(e, 0, "offset %" PRIu64 ": %s", json_window_at(j.w, j.w->p), bad);
	return bad == cut ? PILE_CUT : PILE_BROKEN;
}
