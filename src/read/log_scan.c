/* SPDX-License-Identifier: Apache-2.0 */
/* log_scan.c - small steps through a text: words, numbers, lists of ranks; never behind its end. */
#include <math.h>

#include "read/log_internal.h"

/* memmem() prepares more than a search in one line is worth. */
static const char *find(const char *p, const char *end, const char *word)
{
	size_t n = strlen(word);
	const char *last; /* where it may begin */

	if (p >= end || (size_t)(end - p) < n)
		return NULL;
	last = end - n;
	while (p <= last && (p = memchr(p, *word, (size_t)(last - p) + 1))) {
		if (!memcmp(p, word, n))
			return p;
		p++;
	}
	return NULL;
}

bool scan_to(struct scan *s, const char *word)
{
	const char *at = find(s->p, s->end, word);

	if (!at)
		return false;
	s->p = at + strlen(word);
	return true;
}

static const char *find_any(const char *p, const char *end, const char *word)
{
	for (; p < end; p++) {
		struct scan s = scan_of(p, end);

		if (to_lower(*p) == *word && scan_eat_any(&s, word))
			return p;
	}
	return NULL;
}

bool scan_to_any(struct scan *s, const char *word)
{
	const char *at = find_any(s->p, s->end, word);

	if (!at)
		return false;
	s->p = at + strlen(word);
	return true;
}

bool text_has(const char *p, const char *end, const char *word)
{
	return find(p, end, word);
}

bool text_has_any(const char *p, const char *end, const char *word)
{
	return find_any(p, end, word);
}

bool log_joins_lines(const char *p, const char *end)
{
	static const char blanks[] = "                "; /* 16 */

	return text_has(p, end, blanks);
}

bool scan_int(struct scan *s, int64_t *ret)
{
	bool minus = s->p < s->end && *s->p == '-';
	const char *p = s->p + minus;
	uint64_t v = 0;
	bool over = false;

	for (; p < s->end && is_digit(*p); p++) {
		over = over || v > (uint64_t)INT64_MAX / 10 - 1;
		v = over ? 0 : 10 * v + (uint64_t)(*p - '0');
	}
	if (p == s->p + minus)
		return false;
	s->p = p;
	*ret = over ? -1 : minus ? -(int64_t)v : (int64_t)v;
	return true;
}

static const double tens[] = { 1e0,  1e1,  1e2,	 1e3,  1e4,  1e5,  1e6,	 1e7,  1e8,  1e9,  1e10,
			       1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21 };

static double scaled(double v, int64_t exponent)
{
	while (exponent > 21) {
		v *= 1e21;
		exponent -= 21;
	}
	while (exponent < -21) {
		v /= 1e21;
		exponent += 21;
	}
	return exponent < 0 ? v / tens[-exponent] : v * tens[exponent];
}

bool scan_double(struct scan *s, double *ret)
{
	const char *p = s->p;
	bool minus = p < s->end && *p == '-';
	int64_t exponent = 0, more;
	uint64_t v = 0;
	bool any = false, point = false;
	struct scan e;

	p += minus;
	if (p < s->end && !is_digit(*p)) {
		e = scan_of(p, s->end);
		if (scan_eat_any(&e, "nan"))
			*ret = (double)NAN;
		else if (scan_eat_any(&e, "inf"))
			*ret = minus ? -(double)INFINITY : (double)INFINITY;
		else
			return false;
		s->p = e.p;
		return true;
	}
	for (; p < s->end; p++) {
		if (is_digit(*p)) {
			any = true;
			if (v < (uint64_t)1 << 59) {
				v = 10 * v + (uint64_t)(*p - '0');
				exponent -= point;
			} else {
				exponent += !point;
			}
		} else if (*p == '.' && !point && p + 1 < s->end && is_digit(p[1])) {
			point = true;
		} else if (*p != ',' || point || !any || s->end - p < 4 || !is_digit(p[1]) ||
			   !is_digit(p[2]) || !is_digit(p[3])) {
			break;
		}
	}
	if (!any)
		return false;
	e = scan_of(p, s->end);
	if (p + 1 < s->end && (*p == 'e' || *p == 'E')) {
		bool down = p[1] == '-';

		e.p = p + 1 + (p[1] == '-' || p[1] == '+');
		if (scan_digits(&e, &more)) /* beyond 400: infinite or 0 */
			exponent += down ? -MIN(more, 10000) : MIN(more, 10000);
		else
			e.p = p;
	}
	s->p = e.p;
	*ret = scaled((double)v, exponent) * (minus ? -1 : 1);
	return true;
}

size_t scan_ranks(struct scan *s, int64_t *ret, size_t max)
{
	size_t n = 0;

	for (;;) {
		int64_t first, last;

		while (s->p < s->end && (*s->p == ' ' || *s->p == ',' || *s->p == '['))
			s->p++;
		if (!scan_digits(s, &first))
			break;
		last = first;
		if (s->p + 1 < s->end && *s->p == '-' && is_digit(s->p[1])) {
			s->p++;
			if (!scan_digits(s, &last))
				break;
		}
		for (; first <= last && n < max; first++)
			ret[n++] = first;
	}
	if (s->p < s->end && *s->p == ']')
		s->p++;
	return n;
}
