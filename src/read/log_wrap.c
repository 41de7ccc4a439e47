/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_wrap.c - lines that were cut: by the width of the terminal that they were copied from, or at
 * a blank by whoever wrapped them.
 *
 * A copy of a terminal is told by its beginning: nearly every line is as wide as all others, padded
 * with blanks. Then what fills its line goes on in the next, unless that begins like a line of its
 * own. Elsewhere only a known text that breaks off is held until the next line.
 */
#include "read/log_internal.h"

#define WRAP_LOOK_LINES 400u /* at the beginning of the file */
#define WRAP_MIN	60u  /* columns of the narrowest terminal */
#define WRAP_MAX	512u

/* Columns of a text: characters, not bytes. */
static size_t columns(const char *p, const char *end)
{
	size_t n = 0;

	for (; p < end; p++)
		n += ((unsigned char)*p & 0xc0) != 0x80;
	return n;
}

/* Does this look like the beginning of a line, not like the rest of one? */
static bool begins(const char *p, const char *end)
{
	static const char *const words[] = { "INFO",  "WARN",	   "ERROR",
					     "DEBUG", "Traceback", "  File " };
	struct scan s = scan_of(p, end);

	if (p == end || *p == '[' || *p == '{')
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (scan_at(&s, words[i]))
			return true;
	/* a year, a glog level, a label */
	if (end - p > 10 && is_digit(p[0]) && is_digit(p[1]) &&
	    (p[4] == '-' || p[2] == ':' || p[2] == '/'))
		return true;
	return end - p > 6 && is_alpha(*p) && is_digit(p[1]) && is_digit(p[2]) && is_digit(p[3]) &&
	       (p[4] == ' ' || is_digit(p[4]));
}

/* Do both begin alike, digits aside? Then the second is a line of its own. */
static bool alike(const char *p, const char *end, const char *q, const char *q_end)
{
	size_t n = MIN((size_t)(end - p), (size_t)(q_end - q));

	for (size_t i = 0; i < MIN(n, (size_t)6); i++)
		if (p[i] != q[i] && !(is_digit(p[i]) && is_digit(q[i])))
			return false;
	return n >= 6;
}

struct look {
	size_t lines, widest, at_widest, shorter, padded, full, rest;
};

static void look_at(struct look *k, const char *buf, const char *end, size_t width)
{
	const char *last = buf;
	bool cut = false;

	*k = (struct look){ .widest = width };
	for (const char *p = buf, *eol; p < end && k->lines < WRAP_LOOK_LINES; p = eol + 1) {
		size_t n;

		eol = memchr(p, '\n', (size_t)(end - p));
		if (!eol)
			break;
		if (memchr(p, '\r', (size_t)(eol - p)) || memchr(p, '\033', (size_t)(eol - p))) {
			k->lines = 0; /* no copy of a screen */
			return;
		}
		n = columns(p, eol);
		k->widest = MAX(k->widest, n);
		if (cut)
			k->rest += !begins(p, eol) && !alike(last, p, p, eol);
		cut = width && n == width && eol[-1] != ' ';
		k->lines++;
		k->at_widest += width && n == width;
		k->padded += width && n == width && eol[-1] == ' ';
		k->full += cut;
		last = p;
	}
}

size_t log_wrap_width(const char *buf, size_t len)
{
	struct look k;
	size_t width;

	look_at(&k, buf, buf + len, 0);
	width = k.widest;
	if (k.lines < 4 || width < WRAP_MIN || width > WRAP_MAX)
		return 0;
	look_at(&k, buf, buf + len, width);
	if (k.full < 2 || k.rest * 3 < k.full * 2)
		return 0;
	/* Lines that are equally long by chance are not padded. */
	if (!k.padded || k.at_widest * 10 < k.lines * 8)
		return 0;
	return width;
}

/* Is the line that ends here cut, and goes on in what comes next? */
static bool goes_on(const struct log *g, const char *p, const char *end)
{
	return columns(p, end) == g->wrap_width && end > p && (end[-1] != ' ' || end[-2] != ' ');
}

void log_wrap_flush(struct log *g, log_line_fn line)
{
	uint64_t number = g->number;
	const char *end;

	if (!g->n_joined)
		return;
	end = g->joined + g->n_joined;
	memset(g->joined + g->n_joined, '\n', LOG_PAD);
	g->number = g->joined_number;
	g->n_joined = 0;
	g->joined_open = false;
	line(g, g->joined, end);
	g->number = number;
}

void log_wrap_line(struct log *g, const char *p, const char *end, log_line_fn line)
{
	bool more = goes_on(g, p, end);
	size_t n;

	if (g->joined_open && ((g->joined_edge && begins(p, end)) ||
			       alike(g->joined, g->joined + g->n_joined, p, end)))
		g->joined_open = false;
	if (!g->joined_open)
		log_wrap_flush(g, line);
	if (!g->n_joined)
		g->joined_number = g->number;
	/* A blank in the last column may be the text's own. */
	g->joined_edge = more && end[-1] == ' ';
	while (!more && end > p && end[-1] == ' ')
		end--;
	n = MIN((size_t)(end - p), LOG_LINE_MAX - g->n_joined);
	memcpy(g->joined + g->n_joined, p, n);
	g->n_joined += n;
	g->joined_open = more;
	if (!more)
		log_wrap_flush(g, line);
}

/* --- a text that breaks off --- */

bool log_hold(struct log *g, const struct log_line *l)
{
	size_t n = (size_t)(l->end - l->start);

	if (g->partial_tries >= LOG_PARTIAL_LINES || n > LOG_PARTIAL_MAX)
		return false;
	if (!g->partial)
		g->partial = xmalloc(2 * LOG_PARTIAL_MAX + LOG_PAD);
	memmove(g->partial, l->start, n);
	g->n_partial = n;
	g->partial_number = l->number;
	g->holds = true;
	return true;
}

/* Tries the held text with the next line's behind it. */
static bool held_with(struct log *g, const struct log_line *l, const char *gap, log_line_fn line)
{
	size_t n = g->n_partial, more = MIN((size_t)(l->end - l->text), LOG_PARTIAL_MAX - 1);
	uint64_t number = g->number, events = g->stats->events;

	memcpy(g->partial + n, gap, strlen(gap));
	n += strlen(gap);
	memcpy(g->partial + n, l->text, more);
	memset(g->partial + n + more, '\n', LOG_PAD);
	g->number = g->partial_number;
	g->holds = false;
	line(g, g->partial, g->partial + n + more);
	g->number = number;
	return g->stats->events > events;
}

void log_hold_done(struct log *g, log_line_fn line)
{
	uint64_t number = g->number;

	if (!g->holds)
		return;
	g->holds = false;
	g->partial_tries = LOG_PARTIAL_LINES; /* not to be held again */
	memset(g->partial + g->n_partial, '\n', LOG_PAD);
	g->number = g->partial_number;
	line(g, g->partial, g->partial + g->n_partial);
	g->number = number;
	g->partial_tries = 0;
}

bool log_hold_continues(struct log *g, const struct log_line *l, log_line_fn line)
{
	size_t held = g->n_partial;
	bool took;

	/* Another rank's or another text's line: what is held must do as it is. */
	if (l->ranked || l->level || l->text == l->end) {
		log_hold_done(g, line);
		return false;
	}
	g->partial_tries++;
	took = held_with(g, l, "", line);
	if (!took) {
		g->n_partial = held;
		took = held_with(g, l, " ", line);
	}
	if (!g->holds)
		g->partial_tries = 0;
	return took || g->holds;
}
