/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_year.c - the year of stamps that tell none.
 *
 * c10d and the kernel's log write "E0603 14:00:11" and "Jun  3 14:00:11". Within a file the year is
 * that of its other lines; a file with no other lines (a rank's stderr beside its stdout) takes
 * that of the folder: the year in which the stamp lies nearest to the latest that is dated.
 */
#include "read/log.h"
#include "read/log_internal.h"
#include "read/stamp.h"

#define NEAR (183 * LOG_NS_PER_DAY)

int64_t log_yearless(int64_t month, int64_t day, int64_t clock_ns)
{
	/* In a year with a 29th of February. */
	static const int64_t before[] = { 0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335 };
	int64_t days = before[month - 1] + day - 1;

	return -2 - (days * LOG_NS_PER_DAY + clock_ns);
}

int64_t log_in_year(int64_t ns, int64_t year)
{
	int64_t day, clock;

	if (ns >= -1)
		return ns;
	if (year < 0)
		return -1;
	day = (-2 - ns) / LOG_NS_PER_DAY;
	clock = (-2 - ns) % LOG_NS_PER_DAY;
	/* In other years what follows February is a day earlier. */
	if (day > 59 && (year % 4 || (year % 100 == 0 && year % 400)))
		day--;
	return (stamp_days(year, 1, 1) + day) * LOG_NS_PER_DAY + clock;
}

/* In the year that brings it nearest to `near`. */
static int64_t nearest(int64_t ns, int64_t near_ns)
{
	int64_t year = 1970 + near_ns / (LOG_NS_PER_DAY * 1461 / 4), t;

	if (ns >= -1 || near_ns <= 0)
		return MAX(ns, -1);
	t = log_in_year(ns, year);
	if (t > near_ns + NEAR)
		return log_in_year(ns, year - 1);
	return t < near_ns - NEAR ? log_in_year(ns, year + 1) : t;
}

void log_settle_years(struct testimony *const *v, size_t n)
{
	int64_t latest = -1;

	for (size_t i = 0; i < n; i++) {
		const struct testimony *t = v[i];

		latest = MAX(latest, t->time_ns);
		for (size_t k = 0; k < t->sayings.n; k++)
			latest = MAX(latest, t->sayings.v[k].last_ns);
		for (size_t k = 0; k < t->progress.n; k++)
			latest = MAX(latest, t->progress.v[k].last_ns);
	}
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < v[i]->sayings.n; k++) {
			struct saying *s = &v[i]->sayings.v[k];

			s->time_ns = nearest(s->time_ns, latest);
			s->last_ns = nearest(s->last_ns, latest);
		}
}
