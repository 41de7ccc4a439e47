/* SPDX-License-Identifier: Apache-2.0 */
/* launches.c - from work back to what started it: launches by correlation, calls by order. */
#include "fold/launches.h"

void launches_begin(struct launches *l)
{
	l->ring = xcalloc(LAUNCHES, sizeof(*l->ring));
	l->more = xcalloc(LAUNCHES, sizeof(*l->more));
	l->newest = xcalloc(LAUNCHES, sizeof(*l->newest));
}

void launches_done(struct launches *l)
{
	free(l->ring);
	free(l->more);
	free(l->newest);
	*l = (struct launches){ 0 };
}

void calls_put(struct calls *c, const struct call *call)
{
	if (c->n == ARRAY_SIZE(c->v)) {
		memmove(c->v, c->v + 1, (c->n - 1) * sizeof(*c->v));
		c->n--;
	}
	c->v[c->n++] = *call;
}

/* FSDP2's reduce-scatter runs as an all-reduce over Gloo. */
static bool op_fits(enum comm_op call, enum comm_op event)
{
	return call == event || (call == COMM_REDUCE_SCATTER && event == COMM_ALL_REDUCE);
}

int64_t calls_take(struct calls *c, const struct call *event)
{
	size_t found = c->n;
	int64_t start;

	for (size_t i = 0; i < c->n && c->v[i].start <= event->start; i++) {
		if (!op_fits(c->v[i].op, event->op))
			continue;
		if (c->v[i].elements == event->elements) {
			found = i;
			break;
		}
		/* Sizes that differ mean a swap; sizes that are not known mean nothing. */
		if (found == c->n && (c->v[i].elements < 0 || event->elements < 0))
			found = i;
	}
	if (found == c->n)
		return TIME_UNKNOWN;
	start = c->v[found].start;
	memmove(c->v + found, c->v + found + 1, (c->n - found - 1) * sizeof(*c->v));
	c->n--;
	return start;
}
