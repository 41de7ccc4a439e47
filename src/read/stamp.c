/* SPDX-License-Identifier: Apache-2.0 */
/* stamp.c - time stamps, by hand: strptime follows the locale and timegm the machine's zone files.
 */
#include "read/stamp.h"

#define NS_PER_S     INT64_C(1000000000)
#define STAMP_YEAR_0 1990 /* no cluster is older, and small numbers are no years */
#define STAMP_YEAR_N 2200

struct cursor {
	const char *p, *end;
};

/* min to max digits; -1 and nothing taken if there are fewer, or if they are beyond 63 bits. */
static int64_t digits(struct cursor *c, unsigned min, unsigned max)
{
	int64_t v = 0;
	unsigned n = 0;

	while (n < max && c->p + n < c->end && c->p[n] >= '0' && c->p[n] <= '9') {
		if (v > (INT64_MAX - 9) / 10)
			return -1;
		v = v * 10 + (c->p[n++] - '0');
	}
	if (n < min)
		return -1;
	c->p += n;
	return v;
}

static bool take(struct cursor *c, const char *any)
{
	if (c->p >= c->end || !*c->p || !strchr(any, *c->p))
		return false;
	c->p++;
	return true;
}

int64_t stamp_days(int64_t year, unsigned month, unsigned day)
{
	int64_t y = year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400;
	int64_t of_era = y - era * 400;
	int64_t of_year = (153 * ((int64_t)month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static unsigned month_of(struct cursor *c)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

	if (c->end - c->p < 3)
		return 0;
	for (unsigned m = 0; m < 12; m++)
		if (!memcmp(c->p, months + 3 * m, 3)) {
			c->p += 3;
			return m + 1;
		}
	return 0;
}

static bool is_weekday(const struct cursor *c)
{
	static const char *const days[] = { "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun" };

	for (size_t i = 0; i < ARRAY_SIZE(days); i++)
		if (c->end - c->p > 4 && !memcmp(c->p, days[i], 3) &&
		    (c->p[3] == ' ' || c->p[3] == ','))
			return true;
	return false;
}

struct moment {
	int64_t year, month, day, hour, minute, second, ns, zone_s;
};

/* 14:44:16.977, 14:44:16,977, 14:44; also 02:44:16 PM. */
static bool clock_time(struct cursor *c, struct moment *m)
{
	struct cursor at;

	m->hour = digits(c, 1, 2);
	if (m->hour < 0 || !take(c, ":"))
		return false;
	m->minute = digits(c, 2, 2);
	if (m->minute < 0)
		return false;
	m->second = 0;
	if (take(c, ":")) {
		m->second = digits(c, 2, 2);
		if (m->second < 0)
			return false;
	}
	at = *c;
	if (take(&at, ".,")) {
		int64_t scale = NS_PER_S, v = 0;

		while (at.p < at.end && *at.p >= '0' && *at.p <= '9') {
			if (scale > 1) {
				scale /= 10;
				v += (*at.p - '0') * scale;
			}
			at.p++;
		}
		if (scale < NS_PER_S) {
			m->ns = v;
			*c = at;
		}
	}
	if (c->end - c->p >= 3 && c->p[0] == ' ' && (c->p[1] == 'A' || c->p[1] == 'P') &&
	    c->p[2] == 'M') {
		m->hour = m->hour % 12 + (c->p[1] == 'P' ? 12 : 0);
		c->p += 3;
	}
	return m->hour < 24 && m->minute < 60 && m->second <= 60;
}

/* Z, +02:00, -0800, " UTC"; nothing is UTC. */
static void zone(struct cursor *c, struct moment *m)
{
	struct cursor at = *c;
	int64_t sign, hours, minutes;

	if (take(c, "Z"))
		return;
	if (at.end - at.p >= 4 && (!memcmp(at.p, " UTC", 4) || !memcmp(at.p, " GMT", 4))) {
		c->p += 4;
		return;
	}
	take(&at, " ");
	sign = at.p < at.end && *at.p == '-' ? -1 : 1;
	if (!take(&at, "+-"))
		return;
	hours = digits(&at, 2, 2);
	take(&at, ":");
	minutes = digits(&at, 2, 2);
	if (hours < 0 || hours > 14 || minutes < 0 || minutes > 59)
		return;
	m->zone_s = sign * (hours * 3600 + minutes * 60);
	*c = at;
}

static bool moment_ns(const struct moment *m, int64_t *ret)
{
	if (m->year < STAMP_YEAR_0 || m->year > STAMP_YEAR_N || m->month < 1 || m->month > 12 ||
	    m->day < 1 || m->day > 31)
		return false;
	*ret = ((stamp_days(m->year, (unsigned)m->month, (unsigned)m->day) * 24 + m->hour) * 3600 +
		m->minute * 60 + m->second - m->zone_s) *
		   NS_PER_S +
	       m->ns;
	return true;
}

/* 2024/01/16 14:44:16, 2024-01-16T14:44:16, 20240116 14:44:16. */
static bool by_numbers(struct cursor *c, struct moment *m)
{
	m->year = digits(c, 4, 4);
	if (m->year < 0)
		return false;
	if (take(c, "-/.")) {
		m->month = digits(c, 1, 2);
		if (m->month < 0 || !take(c, "-/."))
			return false;
		m->day = digits(c, 1, 2);
	} else {
		m->month = digits(c, 2, 2);
		m->day = digits(c, 2, 2);
	}
	if (m->day < 0 || !take(c, "T -_"))
		return false;
	while (take(c, " "))
		;
	return clock_time(c, m);
}

/* Tue Jan 16 14:44:16 2024, Tue Jan 16 02:44:16 PM UTC 2024, Tue, 16 Jan 2024 14:44:16. */
static bool by_words(struct cursor *c, struct moment *m)
{
	struct cursor at;

	if (is_weekday(c))
		c->p += 3;
	while (take(c, " ,"))
		;
	m->day = digits(c, 1, 2);
	while (take(c, " "))
		;
	m->month = month_of(c);
	if (!m->month)
		return false;
	while (take(c, " "))
		;
	if (m->day < 0) {
		m->day = digits(c, 1, 2);
		while (take(c, " "))
			;
		if (!clock_time(c, m))
			return false;
		while (take(c, " "))
			;
		at = *c;
		while (at.p < at.end && *at.p >= 'A' && *at.p <= 'Z') /* a zone's name */
			at.p++;
		if (take(&at, " "))
			*c = at;
		m->year = digits(c, 4, 4);
		return m->year >= 0;
	}
	m->year = digits(c, 4, 4);
	while (take(c, " "))
		;
	return m->year >= 0 && clock_time(c, m);
}

size_t stamp_parse(const char *p, size_t len, int64_t *ret_ns)
{
	struct cursor c = { p, p + len };
	struct moment m = { 0 };
	bool number = len && *p >= '0' && *p <= '9';

	if (len < 12)
		return 0;
	if (!(number && by_numbers(&c, &m))) {
		c.p = p;
		m = (struct moment){ 0 };
		if (!by_words(&c, &m))
			return 0;
	}
	zone(&c, &m);
	return moment_ns(&m, ret_ns) ? (size_t)(c.p - p) : 0;
}

int64_t stamp_of_number(double v)
{
	/* 1990 to 2200 in each of the units lie far apart from each other. */
	static const double per_s[] = { 1, 1e3, 1e6, 1e9 };

	for (size_t i = 0; i < ARRAY_SIZE(per_s); i++) {
		double s = v / per_s[i];

		if (s < 6.3e8 || s > 7.3e9)
			continue;
		/* Whole seconds apart: a double holds nanoseconds of today to 256 only. */
		return i == 3 ? (int64_t)v
			      : (int64_t)s * NS_PER_S + (int64_t)((s - (double)(int64_t)s) * 1e9);
	}
	return -1;
}

int64_t stamp_of_text(const char *p, size_t len)
{
	struct cursor c = { p, p + len };
	int64_t ns, whole, scale;
	size_t taken = stamp_parse(p, len, &ns);

	if (taken)
		return taken == len ? ns : -1;
	whole = digits(&c, 9, 19);
	if (whole < 0)
		return -1;
	ns = stamp_of_number((double)whole);
	if (ns < 0)
		return -1;
	/* What unit the size told, to the last digit. */
	scale = whole >= 100 * NS_PER_S * 1000000 ? 1
		: whole >= 100 * NS_PER_S * 1000  ? 1000
		: whole >= 100 * NS_PER_S	  ? 1000000
						  : NS_PER_S;
	ns = whole * scale; /* within 2200, so within 63 bits */
	if (take(&c, "."))
		while (c.p < c.end && *c.p >= '0' && *c.p <= '9') {
			scale /= 10;
			ns += (*c.p++ - '0') * scale;
		}
	return c.p == c.end ? ns : -1;
}
