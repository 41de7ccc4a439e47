/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_shape.c - lines of progress that differ in their digits only.
 *
 * A job prints one line a step, a hundred thousand times, and all of them look alike. The first of
 * a kind is parsed in full and its shape kept: its bytes with every digit made a 0, and where its
 * numbers stand. A line of the same length and shape holds the same words, so that nothing can be
 * overlooked in it, and its numbers are read where they must be. Whatever differs is parsed in
 * full.
 */
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include <math.h>

#include "read/log_internal.h"
#include "read/stamp.h"

#define SHAPES	  64u /* by length of line; must be a power of two */
#define SHAPE_MIN 16u
#define SHAPE_MAX 512u

struct place {
	uint16_t at, len; /* len 0: not there */
};

struct log_shape {
	uint16_t len;
	enum progress_source source;
	struct place rank, stamp, step, ms, tokens, loss, epoch;
	double ms_scale;
	bool ms_is_rate;
	int64_t fixed_rank;
	int64_t bar_total; /* bars of another are of something else; -1: no bar */
	bool total;	   /* "10/ 500": the last number in step */
	char text[SHAPE_MAX];
};

struct log_shapes {
	struct log_shape v[SHAPES];
	char day[11]; /* "2026-11-29 " */
	int64_t day_ns;
};

static struct place place_of(const struct log_line *l, struct scan s)
{
	if (!s.p || s.p < l->start || s.end > l->end)
		return (struct place){ 0 };
	return (struct place){ (uint16_t)(s.p - l->start), (uint16_t)(s.end - s.p) };
}

static struct place place_if(bool there, const struct log_line *l, struct scan at)
{
	static const struct place nowhere;

	return there ? place_of(l, at) : nowhere;
}

/* Numbers that are written in letters, or times that no digits tell, cannot be learnt. */
static bool can_learn(const struct log *g, const struct log_line *l, const struct progress_found *f)
{
	size_t len = (size_t)(l->end - l->start);

	if (len < SHAPE_MIN || len > SHAPE_MAX || l->start == g->scratch || l->folded)
		return false;
	if (l->rank >= 0 && !l->rank_at.p)
		return false;
	if (l->time_ns >= 0 && (!l->stamp_at.p || scan_left(&l->stamp_at) < 19))
		return false;
	if (f->p.epoch >= 0 && !f->epoch.p)
		return false;
	return isnan(f->p.loss) || !isinf(f->p.loss);
}

void log_shape_learn(struct log *g, const struct log_line *l, const struct progress_found *f)
{
	size_t len = (size_t)(l->end - l->start);
	struct log_shape *s;

	if (!can_learn(g, l, f))
		return;
	if (!g->shapes)
		g->shapes = xcalloc(1, sizeof(*g->shapes));
	s = &g->shapes->v[len & (SHAPES - 1)];
	*s = (struct log_shape){
		.len = (uint16_t)len,
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
		.total = f->p.total >= 0 || f->p.epoch_steps >= 0,
		.bar_total = f->source != FROM_BARS  ? -1
			     : f->p.epoch_steps >= 0 ? f->p.epoch_steps
						     : f->p.total,
	};
	for (size_t i = 0; i < len; i++)
		s->text[i] = is_digit(l->start[i]) ? '0' : l->start[i];
}

#ifdef __SSE2__
/* 16 bytes with every digit a 0 */
static inline __m128i zeroed(const char *p)
{
	__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
	__m128i digit = _mm_cmplt_epi8(_mm_add_epi8(v, _mm_set1_epi8((char)(-128 - '0'))),
				       _mm_set1_epi8(-128 + 10));

	return _mm_or_si128(_mm_andnot_si128(digit, v), _mm_and_si128(digit, _mm_set1_epi8('0')));
}

static inline bool same16(const char *line, const char *text)
{
	__m128i want = _mm_loadu_si128((const __m128i *)(const void *)text);

	return _mm_movemask_epi8(_mm_cmpeq_epi8(zeroed(line), want)) == 0xffff;
}
#else
static inline bool same16(const char *line, const char *text)
{
	for (unsigned i = 0; i < 16; i++)
		if ((is_digit(line[i]) ? '0' : line[i]) != text[i])
			return false;
	return true;
}
#endif

static bool same_shape(const struct log_shape *s, const char *line)
{
	size_t i = 0;

	for (; i + 16 <= s->len; i += 16)
		if (!same16(line + i, s->text + i))
			return false;
	return i == s->len || same16(line + s->len - 16, s->text + s->len - 16);
}

static double number_of(const char *line, struct place p)
{
	static const double tenths[] = { 1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9 };
	struct scan s = scan_of(line + p.at, line + p.at + p.len);
	unsigned behind = 0, point = 0;
	uint64_t n = 0;
	double v;

	if (!p.len)
		return (double)NAN;
	for (const char *c = s.p; p.len < 10; c++) {
		if (c == s.end)
			return (double)n * tenths[point ? behind : 0];
		if (*c == '.' && !point) {
			point = 1;
			continue;
		}
		if (!is_digit(*c))
			break;
		n = 10 * n + (uint64_t)(*c - '0');
		behind += point;
	}
	return scan_double(&s, &v) ? v : (double)NAN;
}

static int64_t two(const char *p)
{
	return 10 * (p[0] - '0') + (p[1] - '0');
}

/* "2026-11-29 21:31:49[.123]": the day is mostly that of the line before. */
static bool stamp_of(struct log *g, struct log_shapes *all, const char *line, struct place p,
		     int64_t *ret)
{
	const char *s = line + p.at;
	struct scan q = scan_of(s, s + p.len);
	int64_t scale = 100000000, ns;

	if (s[13] != ':' || s[16] != ':' || (p.len > 19 && s[19] != '.' && s[19] != ','))
		return log_stamp(g, &q, ret);
	if (memcmp(s, all->day, sizeof(all->day))) {
		if (s[4] != '-' || !log_stamp(g, &q, ret) || q.p != q.end)
			return false;
		memcpy(all->day, s, sizeof(all->day));
		all->day_ns = stamp_days(g->year, (unsigned)two(s + 5), (unsigned)two(s + 8)) *
			      86400000000000;
	}
	ns = ((two(s + 11) * 60 + two(s + 14)) * 60 + two(s + 17)) * 1000000000;
	for (const char *c = s + 20; c < q.end; c++, scale /= 10) {
		if (!is_digit(*c))
			return log_stamp(g, &q, ret);
		ns += (*c - '0') * scale;
	}
	*ret = all->day_ns + ns;
	return true;
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

bool log_shape_take(struct log *g, const char *start, const char *end, uint64_t number)
{
	struct progress_line p = progress_line_unknown();
	size_t len = (size_t)(end - start);
	const struct log_shape *s;
	struct scan q;

	if (!g->shapes)
		return false;
	s = &g->shapes->v[len & (SHAPES - 1)];
	if (s->len != len || !same_shape(s, start))
		return false;
	q = scan_of(start + s->step.at, start + s->step.at + s->step.len);
	if (!digits_in(&q, &p.step) || (s->total && !digits_in(&q, &p.total)))
		return false;
	if (s->bar_total >= 0 && p.total != s->bar_total)
		return false;
	if (s->epoch.len) {
		q = scan_of(start + s->epoch.at, start + s->epoch.at + s->epoch.len);
		if (!digits_in(&q, &p.epoch) || !progress_in_epoch(&p, p.step, p.total))
			return false;
	}
	p.rank = s->fixed_rank;
	if (s->rank.len) {
		q = scan_of(start + s->rank.at, start + s->rank.at + s->rank.len);
		if (!digits_in(&q, &p.rank))
			return false;
	}
	if (s->stamp.len && !stamp_of(g, g->shapes, start, s->stamp, &p.time_ns))
		return false;
	p.step_ms = number_of(start, s->ms) * s->ms_scale;
	if (s->ms_is_rate)
		p.step_ms = p.step_ms > 0 ? 1e3 / p.step_ms : (double)NAN;
	p.tokens_per_s = number_of(start, s->tokens);
	p.loss = number_of(start, s->loss);
	p.line = number;
	log_progress_say(g, s->source, &p);
	return true;
}
