/* SPDX-License-Identifier: Apache-2.0 */
/* coverage.c - a rank that was not given is named, never dropped. */
#include "show/coverage.h"
#include "base/ranges.h"

#include <math.h>

/* Beyond this a stated world size is damage, and nobody reads the list of what misses. */
#define WORLD_LIMIT ((int64_t)1 << 24)

static char *missing_of(const struct job *job, size_t *ret_n)
{
	_cleanup_free_ int64_t *missing = NULL;
	size_t n = 0;
	uint32_t row = 0;

	missing = xmalloc((size_t)job->world_size * sizeof(*missing));
	for (int64_t rank = 0; rank < job->world_size; rank++) {
		while (row < job->n_ranks && job->ranks[row].rank >= 0 &&
		       job->ranks[row].rank < rank)
			row++;
		if (row >= job->n_ranks || job->ranks[row].rank != rank)
			missing[n++] = rank;
	}
	*ret_n = n;
	return ranges_format(missing, n);
}

struct coverage coverage_of(const struct job *job)
{
	struct coverage c = { .n_seen = job->n_ranks, .part = NAN };
	_cleanup_free_ int64_t *known = xmalloc(job->n_ranks * sizeof(*known));
	size_t n_known = 0;

	while (n_known < job->n_ranks && job->ranks[n_known].rank >= 0) {
		known[n_known] = job->ranks[n_known].rank;
		n_known++;
	}
	c.seen = ranges_format(known, n_known);
	for (size_t i = n_known; i < job->n_ranks; i++) {
		char *longer =
		    xasprintf("%s%sunknown-%" PRIu32, c.seen, i ? "," : "", job->ranks[i].unknown);

		free(c.seen);
		c.seen = longer;
	}
	if (job->world_size > 0 && job->world_size <= WORLD_LIMIT) {
		c.missing = missing_of(job, &c.n_missing);
		c.part = MIN((double)job->n_ranks / (double)job->world_size, 1.0);
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
