/* SPDX-License-Identifier: Apache-2.0 */
/* log_stamp.c - the time as lines of logs have it, in the orders and with the marks that are usual.
 */
#include "read/log_internal.h"
#include "read/stamp.h"

#define NS_PER_S 1000000000ll

/* n digits, exactly. */
static bool fixed(struct scan *s, unsigned n, int64_t *ret)
{
	int64_t v = 0;

	if (scan_left(s) < n)
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (!is_digit(s->p[i]))
			return false;
		v = 10 * v + (s->p[i] - '0');
	}
	s->p += n;
	*ret = v;
	return true;
}

/* HH:MM[:SS[.fraction]], as nanoseconds of the day. */
static bool clock_of(struct scan *s, int64_t *ret)
{
	struct scan q = *s;
	int64_t h, m, sec = 0, ns = 0, scale = NS_PER_S / 10;

	if (!fixed(&q, 2, &h) || !scan_eat(&q, ":") || !fixed(&q, 2, &m) || h > 24 || m > 59)
		return false;
	if (scan_at(&q, ":")) {
		q.p++;
		if (!fixed(&q, 2, &sec) || sec > 60)
			return false;
		if (scan_left(&q) > 1 && (*q.p == '.' || *q.p == ',') && is_digit(q.p[1]))
			for (q.p++; q.p < q.end && is_digit(*q.p); q.p++, scale /= 10)
				ns += (*q.p - '0') * scale;
	}
	*s = q;
	*ret = ((h * 60 + m) * 60 + sec) * NS_PER_S + ns;
	return true;
}

/* Z, +01:00, -0500: what to take off. */
static int64_t zone_of(struct scan *s)
{
	struct scan q = *s;
	int64_t h, m = 0, sign;

	if (scan_eat(&q, "Z")) {
		*s = q;
		return 0;
	}
	if (scan_left(&q) < 5 || (*q.p != '+' && *q.p != '-'))
		return 0;
	sign = *q.p++ == '-' ? -1 : 1;
	if (!fixed(&q, 2, &h) || h > 14)
		return 0;
	scan_eat(&q, ":");
	if (!fixed(&q, 2, &m) || m > 59 || (q.p < q.end && is_digit(*q.p)))
		return 0;
	*s = q;
	return sign * (h * 60 + m) * 60 * NS_PER_S;
}

static int64_t epoch_ns(struct log *g, int64_t y, int64_t m, int64_t d, int64_t clock)
{
	int64_t key = (y * 16 + m) * 32 + d;

	if (key != g->day_key) {
		g->day_key = key;
		g->day_ns = stamp_days(y, (unsigned)m, (unsigned)d) * LOG_NS_PER_DAY;
	}
	return g->day_ns + clock;
}

static bool is_date(int64_t m, int64_t d)
{
	return m >= 1 && m <= 12 && d >= 1 && d <= 31;
}

/* 2026-11-29 or 2026/11/29; 11/29/2026 or 11/29/26. */
static bool date_of(struct scan *s, int64_t *y, int64_t *m, int64_t *d)
{
	struct scan q = *s;
	int64_t swap;

	if (fixed(&q, 4, y) && q.p < q.end && (*q.p == '-' || *q.p == '/')) {
		char sep[2] = { *q.p, 0 };

		q.p++;
		if (!fixed(&q, 2, m) || !scan_eat(&q, sep) || !fixed(&q, 2, d))
			return false;
	} else {
		q = *s;
		if (!fixed(&q, 2, m) || !scan_eat(&q, "/") || !fixed(&q, 2, d) ||
		    !scan_eat(&q, "/"))
			return false;
		if (!fixed(&q, 4, y)) {
			if (!fixed(&q, 2, y))
				return false;
			*y += 2000;
		}
		if (*m > 12) {
			swap = *m;
			*m = *d;
			*d = swap;
		}
	}
	if (!is_date(*m, *d) || *y < 2000 || *y > 2200)
		return false;
	*s = q;
	return true;
}

static int64_t month_of(const struct scan *s)
{
	static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

	for (int64_t m = 0; scan_left(s) >= 3 && m < 12; m++)
		if (!memcmp(s->p, names + 3 * m, 3))
			return m + 1;
	return 0;
}

/* [Tue ]Nov 29 21:31:49[ 2026] */
static bool written_stamp(struct log *g, struct scan *s, int64_t *ret)
{
	struct scan q = *s;
	int64_t m, d, clock, y;

	if (scan_left(&q) > 4 && q.p[3] == ' ' && !month_of(&q) && is_alpha(q.p[0]) &&
	    is_alpha(q.p[1]) && is_alpha(q.p[2]))
		q.p += 4;
	m = month_of(&q);
	if (!m || scan_left(&q) < 15)
		return false;
	q.p += 3;
	if (!scan_eat(&q, " "))
		return false;
	scan_blanks(&q);
	if (!scan_digits(&q, &d) || !scan_eat(&q, " ") || !is_date(m, d) || !clock_of(&q, &clock))
		return false;
	*s = q;
	*ret = log_yearless(m, d, clock);
	if (scan_eat(&q, " ") && fixed(&q, 4, &y) && y >= 2000 && y <= 2200 &&
	    (q.p == q.end || !is_digit(*q.p))) {
		*s = q;
		g->year = y;
		*ret = epoch_ns(g, y, m, d, clock);
	}
	return true;
}

bool log_stamp(struct log *g, struct scan *s, int64_t *ret)
{
	struct scan q = *s;
	int64_t y, m, d, clock;

	if (q.p < q.end && is_alpha(*q.p))
		return written_stamp(g, s, ret);
	if (!date_of(&q, &y, &m, &d))
		return false;
	if (q.p == q.end || (*q.p != ' ' && *q.p != 'T' && *q.p != '_' && *q.p != '-'))
		return false;
	q.p++;
	if (!clock_of(&q, &clock))
		return false;
	g->year = y;
	*ret = epoch_ns(g, y, m, d, clock) - zone_of(&q);
	*s = q;
	return true;
}

bool log_level_stamp(struct scan *s, char *level, int64_t *ret)
{
	struct scan q = *s;
	int64_t v, clock;
	const char *digits;

	if (scan_left(&q) < 12 || !log_is_level(*q.p) || !is_digit(q.p[1]))
		return false;
	*level = *q.p++;
	digits = q.p;
	if (!scan_digits(&q, &v) || q.p - digits < 3 || q.p - digits > 4 || !scan_eat(&q, " ") ||
	    !is_date(v / 100, v % 100))
		return false;
	scan_blanks(&q);
	if (!clock_of(&q, &clock))
		return false;
	*ret = log_yearless(v / 100, v % 100, clock);
	*s = q;
	return true;
}

bool log_day_stamp(struct scan *s, int64_t *ret)
{
	struct scan q = *s;
	int64_t m, d, clock;

	if (!fixed(&q, 2, &m) || !scan_eat(&q, "-") || !fixed(&q, 2, &d) || !is_date(m, d) ||
	    !scan_eat(&q, " ") || !clock_of(&q, &clock))
		return false;
	*s = q;
	*ret = log_yearless(m, d, clock);
	return true;
}

static int64_t two(const char *p)
{
	return 10 * (p[0] - '0') + (p[1] - '0');
}

/*
 * "2026-11-29 21:31:49[.123]", whose digits are digits: the day is mostly that of the stamp before.
 * false: it is to be read in full.
 */
static bool stamp_of_day(struct log *g, const char *s, const char *end, int64_t *ret)
{
	int64_t scale = NS_PER_S / 10, hour = two(s + 11), minute = two(s + 14),
		second = two(s + 17), ns;

	if (s[13] != ':' || s[16] != ':' || hour > 24 || minute > 59 || second > 60 ||
	    memcmp(s, g->day, sizeof(g->day)) != 0)
		return false;
	ns = ((hour * 60 + minute) * 60 + second) * NS_PER_S;
	if (end > s + 19 && s[19] != '.' && s[19] != ',')
		return false;
	for (const char *c = s + 20; c < end; c++, scale /= 10) {
		if (!is_digit(*c))
			return false;
		ns += (*c - '0') * scale;
	}
	g->year = g->day_year;
	*ret = g->day_at_ns + ns;
	return true;
}

bool log_stamp_again(struct log *g, const char *p, const char *end, bool level, int64_t *ret)
{
	bool full = !level && end - p >= 19 && p[4] == '-';
	struct scan s = scan_of(p, end);
	char letter;

	if (full && stamp_of_day(g, p, end, ret))
		return true;
	if (!(level ? log_level_stamp(&s, &letter, ret) : log_stamp(g, &s, ret)) || s.p != end)
		return false;
	if (full) {
		memcpy(g->day, p, sizeof(g->day));
		g->day_year = g->year;
		g->day_at_ns = g->day_ns;
	}
	return true;
}
