/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_shape.c - the numbers of lines of progress that differ in their digits only.
 *
 * A job prints one line a step, a hundred thousand times, and all of them look alike. The first of
 * a kind is parsed in full and it is kept where its numbers stand; in a line of the same shape
 * (log_alike.c) they are read where they must be. Whatever differs is parsed in full.
 */
#include <math.h>

#include "read/log_internal.h"
#include "read/stamp.h"

#define WHOLE_MAX    17u /* digits, so that none is beyond 63 bits */
#define DECIMALS_MAX 9u

/* --- places --- */

/* Nothing but digits and one point? */
static bool is_number(const char *p, const char *end)
{
	unsigned points = 0;

	for (; p < end && (is_digit(*p) || *p == '.'); p++)
		points += *p == '.';
	return p == end && points <= 1;
}

static struct log_place place_of(const struct log_line *l, struct scan s)
{
	struct log_place p = { 0 };
	const char *point;

	if (!s.p || s.p < l->start || s.end > l->end)
		return p;
	point = memchr(s.p, '.', scan_left(&s));
	p.at = (uint16_t)(s.p - l->start);
	p.len = (uint16_t)scan_left(&s);
	p.digits = p.len <= WHOLE_MAX && is_number(s.p, s.end);
	p.point = p.digits ? (uint8_t)(point ? point - s.p : p.len) : 0;
	return p;
}

static struct log_place place_if(bool there, const struct log_line *l, struct scan at)
{
	static const struct log_place nowhere;

	return there ? place_of(l, at) : nowhere;
}

/* The next whole number in s, which is moved behind it; not there if it has commas. */
static struct log_place next_whole(const struct log_line *l, struct scan *s)
{
	struct scan n;

	while (s->p < s->end && !is_digit(*s->p))
		s->p++;
	n = *s;
	while (s->p < s->end && is_digit(*s->p))
		s->p++;
	n.end = s->p;
	return place_if(n.p < n.end && (s->p == s->end || *s->p != ','), l, n);
}

/* "12:30": with other digits it may be part of a stamp. */
static bool has_clock(const char *p, const char *end)
{
	for (; end - p > 2; p++)
		if (is_digit(p[0]) && p[1] == ':' && is_digit(p[2]))
			return true;
	return false;
}

/* Numbers that are written in letters, or times that no digits tell, cannot be learnt. */
static bool can_learn(const struct log *g, const struct log_line *l, const struct progress_found *f)
{
	if (l->start == g->scratch || l->folded || l->by_value)
		return false;
	if (l->rank >= 0 && !l->rank_at.p)
		return false;
	if (l->time_ns >= 0 && (!l->stamp_at.p || scan_left(&l->stamp_at) < 19))
		return false;
	if (l->time_ns == -1 && has_clock(l->start, MIN(f->step.p, l->end)))
		return false;
	if (f->p.epoch >= 0 && !f->epoch.p)
		return false;
	return isnan(f->p.loss) || !isinf(f->p.loss);
}

bool log_progress_shape(const struct log *g, const struct log_line *l,
			const struct progress_found *f, struct log_progress_shape *ret)
{
	struct scan numbers = f->step, epoch = f->epoch;
	struct log_place number;

	if (!can_learn(g, l, f))
		return false;
	*ret = (struct log_progress_shape){
		.source = f->source,
		.rank = place_if(l->rank >= 0, l, l->rank_at),
		.stamp = place_if(l->time_ns >= 0, l, l->stamp_at),
		.step = place_of(l, f->step),
		.ms = place_if(!isnan(f->p.step_ms), l, f->ms),
		.tokens = place_if(!isnan(f->p.tokens_per_s), l, f->tokens),
		.loss = place_if(!isnan(f->p.loss), l, f->loss),
		.epoch = place_of(l, f->epoch),
		.ms_scale = f->ms_scale,
		.ms_is_rate = f->ms_is_rate,
		.fixed_rank = f->p.rank,
		.totals = f->p.total >= 0 || f->p.epoch_steps >= 0,
		.bar_total = f->source != FROM_BARS  ? -1
			     : f->p.epoch_steps >= 0 ? f->p.epoch_steps
						     : f->p.total,
	};
	number = next_whole(l, &epoch);
	if (number.digits)
		ret->epoch = number;
	ret->first = next_whole(l, &numbers);
	ret->second = next_whole(l, &numbers);
	if (!ret->first.digits || (ret->totals && !ret->second.digits))
		ret->first.len = ret->second.len = 0;
	return true;
}

/* --- numbers --- */

static inline uint64_t few_digits(const char *p, size_t len)
{
	uint64_t v = 0;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	/* One to eight: pairs of them, then pairs of these, each by one multiplication. */
	memcpy(&v, p, sizeof(v));
	v = (v ^ 0x3030303030303030u) << (64 - 8 * len);
	v = v * 2561 >> 8 & 0x00ff00ff00ff00ffu;
	v = v * 6553601 >> 16 & 0x0000ffff0000ffffu;
	v = v * 42949672960001 >> 32;
#else
	for (size_t i = 0; i < len; i++)
		v = 10 * v + (uint64_t)(p[i] - '0');
#endif
	return v;
}

static inline int64_t digits_at(const char *p, size_t len)
{
	int64_t v = 0;

	if (!len)
		return 0;
	for (; len > 8; len--)
		v = 10 * v + (*p++ - '0');
	return v * 100000000 + (int64_t)few_digits(p, len);
}

static inline int64_t whole_at(const char *line, const struct log_place *p)
{
	return digits_at(line + p->at, p->len);
}

static inline double decimal_at(const char *line, const struct log_place *p)
{
	static const double tenths[] = { 1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9 };
	static const int64_t tens[] = { 1,	10,	 100,	   1000,      10000,
					100000, 1000000, 10000000, 100000000, 1000000000 };
	const char *c = line + p->at;
	unsigned behind;
	struct scan s;
	double v;

	if (!p->len)
		return (double)NAN;
	if (p->digits && p->len <= DECIMALS_MAX) {
		behind = p->point < p->len ? p->len - p->point - 1u : 0;
		return (double)(digits_at(c, p->point) * tens[behind] +
				digits_at(c + p->point + 1, behind)) *
		       tenths[behind];
	}
	s = scan_of(c, c + p->len);
	return scan_double(&s, &v) ? v : (double)NAN;
}

/* All numbers in it, of which the last is given; "1,234" is one. */
static bool digits_in(struct scan *s, int64_t *ret)
{
	int64_t v = 0;
	bool any = false;

	while (s->p < s->end && !is_digit(*s->p))
		s->p++;
	for (; s->p < s->end && (is_digit(*s->p) || (*s->p == ',' && any)); s->p++) {
		if (*s->p == ',')
			continue;
		if (v > INT64_MAX / 100)
			return false;
		v = 10 * v + (*s->p - '0');
		any = true;
	}
	*ret = v;
	return any;
}

static inline bool number_at(const char *line, const struct log_place *p, int64_t *ret)
{
	struct scan s = scan_of(line + p->at, line + p->at + p->len);

	if (!p->digits || p->point < p->len)
		return digits_in(&s, ret);
	*ret = whole_at(line, p);
	return true;
}

static bool steps_at(const struct log_progress_shape *f, const char *line, struct progress_line *p)
{
	struct scan s = scan_of(line + f->step.at, line + f->step.at + f->step.len);

	if (!f->first.len)
		return digits_in(&s, &p->step) && (!f->totals || digits_in(&s, &p->total));
	p->step = whole_at(line, &f->first);
	if (f->totals)
		p->total = whole_at(line, &f->second);
	return true;
}

bool log_progress_take(struct log *g, const struct log_progress_shape *s, const char *line,
		       uint64_t number)
{
	struct progress_line p = progress_line_unknown();

	if (!steps_at(s, line, &p))
		return false;
	if (s->bar_total >= 0 && p.total != s->bar_total)
		return false;
	if (s->epoch.len &&
	    (!number_at(line, &s->epoch, &p.epoch) || !progress_in_epoch(&p, p.step, p.total)))
		return false;
	p.rank = s->fixed_rank;
	if (s->rank.len && !number_at(line, &s->rank, &p.rank))
		return false;
	if (s->stamp.len && !log_stamp_again(g, line + s->stamp.at,
					     line + s->stamp.at + s->stamp.len, false, &p.time_ns))
		return false;
	p.step_ms = decimal_at(line, &s->ms) * s->ms_scale;
	if (s->ms_is_rate)
		p.step_ms = p.step_ms > 0 ? 1e3 / p.step_ms : (double)NAN;
	p.line = number;
	if (s->rank.len || g->late.shape != s)
		log_progress_settle(g);
	log_progress_say(g, s->source, &p);
	g->late.shape = s;
	g->late.line = line;
	if (s->rank.len) {
		g->late.rank = p.rank;
		log_progress_settle(g);
	}
	return true;
}

void log_progress_settle(struct log *g)
{
	const struct log_progress_shape *s = g->late.shape;

	g->late.shape = NULL;
	if (s && (s->tokens.len || s->loss.len))
		log_progress_more(g, s->source, s->rank.len ? g->late.rank : s->fixed_rank,
				  decimal_at(g->late.line, &s->tokens),
				  decimal_at(g->late.line, &s->loss));
}
