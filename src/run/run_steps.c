/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_steps.c - progress, from the words of the output: a number behind "step", "iteration" or
 * "iter", or a bar's "12/400 [".
 *
 * Only what is new counts: a step beyond all before it, a bar that moved, an epoch that began. A
 * line that repeats an old step ("still at step 99") is none.
 */
#include <ctype.h>

#include "base/stats.h"
#include "run/run_inside.h"

#define NUMBER_MOST 1000000000000ll

void progress_init(struct progress *p)
{
	*p = (struct progress){ .step = -1, .first_step = -1, .epoch = -1, .bar = -1 };
}

static int64_t number(const char *p, const char *end, const char **ret_end)
{
	int64_t v = 0;

	while (p < end && isdigit((unsigned char)*p) && v < NUMBER_MOST)
		v = 10 * v + (*p++ - '0');
	*ret_end = p;
	return v;
}

/* A word stands at p: the number behind it, with a mark or two between; -1. */
static int64_t behind(const char *p, const char *end, const char *word)
{
	size_t len = strlen(word);
	const char *q = p + len, *after;
	int64_t v;

	if (len >= (size_t)(end - p) || strncasecmp(p, word, len) != 0)
		return -1;
	if (q < end && (*q == 's' || *q == 'S'))
		q++;
	for (unsigned n = 0; n < 5 && q < end && *q && strchr(" \t:=#[(\"'_-", *q); n++)
		q++;
	if (q == p + len || q == end || !isdigit((unsigned char)*q))
		return -1;
	v = number(q, end, &after);
	return after < end && isalpha((unsigned char)*after) ? -1 : v; /* "step 3ms" */
}

/* A number begins at p: is it a bar's, "12/400 ["? *ret_end: behind its digits. */
static int64_t bar_of(const char *p, const char *end, const char **ret_end)
{
	const char *after;
	int64_t v = number(p, end, ret_end);

	if (end - *ret_end < 2 || **ret_end != '/' || !isdigit((unsigned char)(*ret_end)[1]))
		return -1;
	number(*ret_end + 1, end, &after);
	while (after < end && *after == ' ')
		after++;
	return after < end && *after == '[' ? v : -1;
}

struct found {
	int64_t step, epoch, bar; /* the first of each; -1 */
};

static void first(int64_t *to, int64_t v)
{
	if (*to < 0)
		*to = v;
}

/* One pass: a word or a number counts where it begins. */
static struct found find(const char *text, const char *end)
{
	struct found f = { -1, -1, -1 };
	bool inside = false;

	for (const char *p = text; p < end; p++) {
		bool digit = *p >= '0' && *p <= '9';
		char c = (char)(*p | 0x20);

		if (!inside && digit) {
			const char *after;

			first(&f.bar, bar_of(p, end, &after));
			p = MAX(after, p + 1) - 1;
		} else if (!inside && c == 's') {
			first(&f.step, behind(p, end, "step"));
		} else if (!inside && c == 'i') {
			first(&f.step, behind(p, end, "iteration"));
			first(&f.step, behind(p, end, "iter"));
		} else if (!inside && c == 'e') {
			first(&f.epoch, behind(p, end, "epoch"));
		}
		inside = digit || (c >= 'a' && c <= 'z');
	}
	return f;
}

static void moved(struct progress *p, int64_t now_ms)
{
	int64_t gap = now_ms - p->at_ms;

	if (p->n > 1) { /* the first gap is the start's */
		p->gaps[p->n % GAPS_KEPT] = gap;
		p->longest_ms = MAX(p->longest_ms, gap);
	}
	p->n++;
	p->at_ms = now_ms;
}

void progress_line(struct progress *p, const char *text, size_t len, int64_t now_ms)
{
	struct found f = find(text, text + len);
	bool news = false;

	if (f.epoch > p->epoch) {
		news = p->epoch >= 0;
		p->epoch = f.epoch;
		if (news && f.step >= 0 && f.step < p->step)
			p->step = -1; /* steps of an epoch */
	}
	if (f.step > p->step) {
		news = true;
		p->step = f.step;
		if (p->first_step < 0)
			p->first_step = f.step;
	}
	if (f.bar >= 0 && f.bar != p->bar) {
		news = true;
		p->bar = f.bar;
	}
	if (news)
		moved(p, now_ms);
}

int64_t progress_median_ms(const struct progress *p)
{
	double v[GAPS_KEPT];
	size_t n = 0;

	for (size_t i = 0; i < GAPS_KEPT; i++)
		if (p->gaps[i] > 0)
			v[n++] = (double)p->gaps[i];
	return n < 3 ? 0 : (int64_t)stats_median(v, n);
}

static void piece(struct stream *s, struct progress *p, const char *text, size_t len, bool ends,
		  int64_t now_ms)
{
	if (ends && !s->n_words && len < sizeof(s->words)) {
		progress_line(p, text, len, now_ms);
		return;
	}
	len = MIN(len, sizeof(s->words) - s->n_words);
	memcpy(s->words + s->n_words, text, len);
	s->n_words += len;
	if (!ends)
		return;
	if (s->n_words < sizeof(s->words))
		progress_line(p, s->words, s->n_words, now_ms);
	s->n_words = 0;
}

/* Lines end with a newline or, of bars, with a carriage return; long ones are not progress. */
void tee_words(struct stream *s, struct progress *p, const uint8_t *text, size_t len,
	       int64_t now_ms)
{
	const char *at = (const char *)text, *end = at + len;

	while (at < end) {
		const char *line = memchr(at, '\n', (size_t)(end - at)), *bar;

		bar = memchr(at, '\r', (size_t)((line ? line : end) - at));
		line = bar ? bar : line;
		piece(s, p, at, (size_t)((line ? line : end) - at), line != NULL, now_ms);
		if (!line)
			return;
		at = line + 1;
	}
}
