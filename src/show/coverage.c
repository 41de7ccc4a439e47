/* SPDX-License-Identifier: Apache-2.0 */
/* coverage.c - a rank that was not given is named, never dropped. */
#include "show/coverage.h"
#include "base/buf.h"
#include "base/ranges.h"

#include <math.h>
#include <stdio.h>

static void range_add(struct buf *out, int64_t first, int64_t last)
{
	char text[64];
	int n;

	n = first == last ? snprintf(text, sizeof(text), "%s%" PRId64, out->len ? "," : "", first)
			  : snprintf(text, sizeof(text), "%s%" PRId64 "-%" PRId64,
				     out->len ? "," : "", first, last);
	buf_put(out, text, (size_t)n);
}

/* The gaps between the ranks seen; a world of a billion costs no more than one of eight. */
static char *missing_of(const struct job *job, size_t *ret_n)
{
	struct buf out = { 0 };
	int64_t next = 0;

	*ret_n = 0;
	for (uint32_t row = 0; row <= job->n_ranks && next < job->world_size; row++) {
		bool known = row < job->n_ranks && job->ranks[row].rank >= 0;

		if (known && job->ranks[row].absent)
			continue;
		int64_t rank = known ? MIN(job->ranks[row].rank, job->world_size) : job->world_size;

		if (rank > next) {
			range_add(&out, next, rank - 1);
			*ret_n += (size_t)(rank - next);
		}
		next = MAX(next, rank + 1);
	}
	buf_put(&out, "", 1);
	return (char *)out.data;
}

struct coverage coverage_of(const struct job *job)
{
	struct coverage c = { .n_seen = job->n_ranks, .part = NAN };
	_cleanup_free_ int64_t *known = xmalloc(((size_t)job->n_ranks + 1) * sizeof(*known));
	_cleanup_free_ char *numbers = NULL;
	struct buf seen = { 0 };
	size_t n_known = 0;
	uint32_t row = 0;

	for (; row < job->n_ranks && job->ranks[row].rank >= 0; row++) {
		if (job->ranks[row].absent)
			c.n_seen--;
		else
			known[n_known++] = job->ranks[row].rank;
	}
	numbers = ranges_format(known, n_known);
	buf_put(&seen, numbers, strlen(numbers));
	for (; row < job->n_ranks; row++) {
		char name[32];

		buf_put(&seen, ",", seen.len > 0);
		job_rank_name(job, row, name);
		buf_put(&seen, name, strlen(name));
	}
	buf_put(&seen, "", 1);
	c.seen = (char *)seen.data;
	if (job->world_size > 0) {
		c.missing = missing_of(job, &c.n_missing);
		c.part = MIN((double)c.n_seen / (double)job->world_size, 1.0);
	}
	return c;
}

void coverage_done(struct coverage *c)
{
	free(c->seen);
	free(c->missing);
	*c = (struct coverage){ 0 };
}

const char *coverage_host(const struct job *job, uint32_t row)
{
	uint32_t host = job->ranks[row].host;

	return host == NO_ID ? NULL : intern_get(&job->names, host);
}
