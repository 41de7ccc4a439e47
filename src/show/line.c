/* SPDX-License-Identifier: Apache-2.0 */
/* line.c - a sentence that grows, and the words that reports share. */
#include "show/line.h"

#include <stdio.h>
#include <time.h>

#include "base/ranges.h"
#include "show/page.h"

#define UNKNOWN_NAMED 8 /* of ranks without a number; more are counted */

void line_add(struct line *l, const char *format, ...)
{
	char *s;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&s, format, ap);
	va_end(ap);
	if (n < 0)
		return;
	buf_put(&l->b, s, (size_t)n);
	free(s);
}

const char *line_end(struct line *l)
{
	buf_put(&l->b, "", 1);
	return (const char *)l->b.data;
}

void line_done(struct line *l)
{
	buf_done(&l->b);
}

const char *plural(uint64_t n, const char *one, const char *many)
{
	return n == 1 ? one : many;
}

/* Ascending and each once, whatever the rows were. */
static size_t in_order(int64_t *v, size_t n)
{
	size_t kept = 0;

	qsort(v, n, sizeof(*v), ranges_compare);
	for (size_t i = 0; i < n; i++)
		if (!kept || v[kept - 1] != v[i])
			v[kept++] = v[i];
	return kept;
}

void line_ranks(struct line *l, const struct job *job, const uint32_t *rows, size_t n)
{
	_cleanup_free_ int64_t *known = xmalloc((n + 1) * sizeof(*known));
	_cleanup_free_ char *set = NULL;
	size_t n_known = 0, unknown = 0;
	char name[32];

	for (size_t i = 0; i < n; i++)
		if (job->ranks[rows[i]].rank >= 0)
			known[n_known++] = job->ranks[rows[i]].rank;
	n_known = in_order(known, n_known);
	set = ranges_format(known, n_known);
	if (n_known)
		line_add(l, "%s %s", plural(n_known, "rank", "ranks"), set);
	for (size_t i = 0; i < n; i++) {
		if (job->ranks[rows[i]].rank >= 0)
			continue;
		if (unknown++ < UNKNOWN_NAMED)
			line_add(l, "%s%s", n_known || unknown > 1 ? ", " : "",
				 job_rank_name(job, rows[i], name));
	}
	if (unknown > UNKNOWN_NAMED)
		line_add(l, " and %zu more", unknown - UNKNOWN_NAMED);
}

/* Cut behind a whole range: in the middle it would read as another one. */
char *set_name(const char *set, size_t columns)
{
	char *clean = page_name(set, strlen(set) + 2);
	size_t len = strlen(clean), at = 0;

	if (len <= columns)
		return clean;
	for (size_t i = 0; i + 3 <= columns && i < len; i++)
		if (clean[i] == ',')
			at = i;
	if (at)
		strcpy(clean + at, ",..");
	return clean;
}

void line_name(struct line *l, const char *before, const char *name, size_t columns)
{
	_cleanup_free_ char *shown = name ? page_name(name, columns) : NULL;

	if (shown)
		line_add(l, "%s%s", before, shown);
}

void line_time(struct line *l, int64_t epoch_ns)
{
	time_t seconds = (time_t)(epoch_ns / 1000000000);
	char text[40];
	struct tm tm;

	if (gmtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm))
		line_add(l, "%s", text);
}

void line_duration(struct line *l, int64_t ns)
{
	double seconds = (double)ns / 1e9;
	char n[32];

	if (seconds < 120)
		line_add(l, "%s s", page_number(seconds, n));
	else if (seconds < 7200)
		line_add(l, "%.0f min", seconds / 60);
	else
		line_add(l, "%s h", page_number(seconds / 3600, n));
}
