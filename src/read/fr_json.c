/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fr_json.c - the JSON twin of a dump, and JSON that people made of pickles: pushes onto the same
 * pile.
 *
 * Commas and colons carry nothing that the places of values do not, so they are passed over; a
 * missing one does no harm.
 */
#include "read/fr_inside.h"
#include "read/json_fast.h"

#define NUMBER_MAX 64u /* characters of a number or word */

struct json {
	struct fr *f;
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

/* A string that does not fit into the window: to its end, or the text's. */
static const char *pass_string(struct json_window *w)
{
	bool escape = false;

	for (w->p++;; w->p++) {
		if (w->p == w->end && !json_window_fill(w))
			return cut;
		if (!escape && *w->p == '"')
			break;
		escape = !escape && *w->p == '\\';
	}
	w->p++;
	return NULL;
}

static const char *push_string(struct json *j)
{
	struct json_window *w = j->w;
	struct fr_value v = fr_plain(FR_UNKNOWN);
	bool plain;
	const char *q = string_end(w, &plain);

	if (!q || (size_t)(q - w->p) > FR_STRING_MAX) {
		const char *bad = pass_string(w);

		j->f->stats->skipped[SKIP_TOO_LONG] += !bad;
		return bad ? bad : fr_pile_push(&j->f->pile, v);
	}
	if (plain) {
		v = fr_text(j->f, w->p + 1, (size_t)(q - w->p - 1));
	} else {
		struct buf *b = &j->f->text;
		bool bad;
		size_t len = (size_t)(q - w->p - 1);

		b->len = 0;
		buf_put(b, w->p + 1, len); /* room; what is written is never longer */
		len = json_unescape((char *)b->data, w->p + 1, len, &bad);
		j->f->stats->skipped[SKIP_BAD_TEXT] += bad;
		v = fr_text(j->f, (const char *)b->data, len);
	}
	w->p = q + 1;
	return fr_pile_push(&j->f->pile, v);
}

static const char *push_word(struct json *j)
{
	struct json_window *w = j->w;
	struct fr_value v = fr_plain(FR_UNKNOWN);
	char text[NUMBER_MAX + 1], *end;
	size_t left = json_window_need(w, NUMBER_MAX), n = 0;

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
		v = fr_plain(FR_NONE);
	} else if (!strcmp(text, "true") || !strcmp(text, "false")) {
		v = (struct fr_value){ .kind = FR_BOOL, .n = *text == 't' };
	} else {
		errno = 0;
		v = fr_int(strtoll(text, &end, 10));
		if (*end || errno) {
			double d = strtod(text, &end);

			v = fr_plain(FR_UNKNOWN);
			if (end == text)
				return "neither a value nor an end";
			if (!*end) {
				v.kind = FR_FLOAT;
				memcpy(&v.n, &d, sizeof(d));
			}
		}
	}
	w->p += n;
	return fr_pile_push(&j->f->pile, v);
}

static const char *open_bracket(struct json *j, bool object)
{
	const char *bad = fr_pile_begin(&j->f->pile, object ? FR_DICT : FR_LIST);

	j->w->p++;
	j->objects = j->objects << 1 | object;
	return bad ? bad : fr_pile_mark(&j->f->pile);
}

static const char *close_bracket(struct json *j, bool object)
{
	struct fr_pile *p = &j->f->pile;
	const char *bad;

	if (!p->n_marks)
		return "an end without a beginning";
	if ((j->objects & 1) != object)
		return "an end of another kind than its beginning";
	bad = object ? fr_pile_set_marked(p) : fr_pile_append_marked(p);
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

enum fr_end fr_json_run(struct fr *f, struct error *e)
{
	struct json j = { .f = f, .w = &f->window };
	const char *bad = NULL;

	while (!j.done && !bad)
		bad = token(&j);
	if (!bad)
		return FR_WHOLE;
	error_set(e, 0, "offset %" PRIu64 ": %s", json_window_at(j.w, j.w->p), bad);
	return bad == cut ? FR_CUT : FR_BROKEN;
}
