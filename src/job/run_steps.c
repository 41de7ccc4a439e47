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
#include "job/run_inside.h"

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

/* The number behind a word, with a mark or two between; -1. */
static int64_t behind(const char *text, const char *end, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = text; p + len < end; p++) {
		const char *q = p + len, *after;
		int64_t v;

		if (tolower((unsigned char)*p) != word[0] || strncasecmp(p, word, len) != 0 ||
		    (p > text && isalnum((unsigned char)p[-1])))
			continue;
		if (q < end && (*q == 's' || *q == 'S'))
			q++;
		for (unsigned n = 0; n < 5 && q < end && *q && strchr(" \t:=#[(\"'_-", *q); n++)
			q++;
		if (q == p + len || q == end || !isdigit((unsigned char)*q))
			continue;
		v = number(q, end, &after);
		if (after == end || !isalpha((unsigned char)*after)) /* "step 3ms" */
			return v;
	}
	return -1;
}

/* "12/400 [", as bars have it; -1. */
static int64_t bar_of(const char *text, const char *end)
{
	for (const char *p = text; p < end; p++) {
		const char *q, *after;
		int64_t v;

		if (!isdigit((unsigned char)*p) || (p > text && isalnum((unsigned char)p[-1])))
			continue;
		v = number(p, end, &q);
		p = q;
		if (q + 1 >= end || *q != '/' || !isdigit((unsigned char)q[1]))
			continue;
		number(q + 1, end, &after);
		while (after < end && *after == ' ')
			after++;
		if (after < end && *after == '[')
			return v;
	}
	return -1;
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
	static const char *const words[] = { "step", "iteration", "iter" };
	const char *end = text + len;
	int64_t epoch = behind(text, end, "epoch"), bar = bar_of(text, end), step = -1;
	bool news = false;

	for (size_t i = 0; i < ARRAY_SIZE(words) && step < 0; i++)
		step = behind(text, end, words[i]);
	if (epoch > p->epoch) {
		news = p->epoch >= 0;
		p->epoch = epoch;
		if (news && step >= 0 && step < p->step)
			p->step = -1; /* steps of an epoch */
	}
	if (step > p->step) {
		news = true;
		p->step = step;
		if (p->first_step < 0)
			p->first_step = step;
	}
	if (bar >= 0 && bar != p->bar) {
		news = true;
		p->bar = bar;
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

/* Lines end with a newline or, of bars, with a carriage return; long ones are not progress. */
void tee_words(struct stream *s, struct progress *p, const uint8_t *text, size_t len,
	       int64_t now_ms)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\n' || text[i] == '\r') {
			if (s->n_words && s->n_words < sizeof(s->words))
				progress_line(p, s->words, s->n_words, now_ms);
			s->n_words = 0;
		} else if (s->n_words < sizeof(s->words)) {
			s->words[s->n_words++] = (char)text[i];
		}
	}
}
