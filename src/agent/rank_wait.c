/* SPDX-License-Identifier: Apache-2.0 */
/* rank_wait.c - see rank_wait.h. */
#include "agent/rank_wait.h"

#define SPANS_MOST 8192u
#define KEEP_NS	   ((int64_t)10000000000)

void rank_wait_note(struct rank_live *r, const struct rank_span *span)
{
	if (r->spans.n == SPANS_MOST) {
		memmove(r->spans.v, r->spans.v + SPANS_MOST / 2,
			SPANS_MOST / 2 * sizeof(*r->spans.v));
		r->spans.n = SPANS_MOST / 2;
	}
	*vec_push(&r->spans) = *span;
}

static void wait_give(struct rank_live *r, uint32_t slot, int64_t from, int64_t to)
{
	uint32_t name = intern_str(fold_stream_names(r->fold), RANK_WAIT_NAME);
	struct trace_event e = {
		.kind = EVENT_OP,
		.name = name,
		.start_ns = from,
		.duration_ns = to - from,
		.thread = slot,
	};

	if (to > from && fold_stream_event(r->fold, &e) < 0)
		r->strange++;
}

static int span_order(const void *a, const void *b)
{
	const struct rank_span *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* The thread that ended it waited, except while it was in phases that it began meanwhile. */
static void coll_settle(struct rank_live *r, const struct rank_span *coll)
{
	struct rank_span inner[64] = { 0 };
	int64_t at = coll->start;
	size_t n = 0;

	for (size_t i = 0; i < r->spans.n && n < ARRAY_SIZE(inner); i++) {
		const struct rank_span *s = &r->spans.v[i];

		if (s->kind == RING_PHASE && s->slot == coll->slot && s->start >= coll->start &&
		    s->start < coll->end)
			inner[n++] = *s;
	}
	qsort(inner, n, sizeof(*inner), span_order);
	for (size_t i = 0; i < n; i++) {
		wait_give(r, coll->slot, at, inner[i].start);
		at = MAX(at, inner[i].end);
	}
	wait_give(r, coll->slot, at, coll->end);
}

static bool slot_has_phases(const struct rank_live *r, uint32_t slot)
{
	for (size_t i = 0; i < r->spans.n; i++)
		if (r->spans.v[i].kind == RING_PHASE && r->spans.v[i].slot == slot)
			return true;
	return false;
}

/* Collectives that ended elsewhere: their last begin in the pass, and when the last one ended. */
static void backward_settle(struct rank_live *r, const struct rank_span *pass)
{
	int64_t begun = INT64_MIN, end = INT64_MIN;

	for (size_t i = 0; i < r->spans.n; i++) {
		const struct rank_span *s = &r->spans.v[i];

		if (s->kind == RING_PHASE && s->slot == pass->slot && s->depth < pass->depth &&
		    s->phase == RING_PHASE_BACKWARD)
			return; /* a part of a pass */
		if (s->kind != RING_COLL || (s->slot == pass->slot && !r->tells_waits) ||
		    s->start < pass->start || s->start >= pass->end)
			continue;
		begun = MAX(begun, s->start);
		end = MAX(end, s->end);
	}
	if (begun != INT64_MIN)
		wait_give(r, pass->slot, begun, MIN(end, pass->end));
}

void rank_wait_settle(struct rank_live *r, int64_t now, bool all)
{
	size_t n = 0;

	for (size_t i = 0; i < r->spans.n; i++) {
		struct rank_span *s = &r->spans.v[i];

		if (s->done || (!all && s->end >= r->polled))
			continue;
		s->done = true;
		if (s->kind == RING_COLL && slot_has_phases(r, s->slot)) {
			if (!r->tells_waits)
				coll_settle(r, s);
		} else if (s->kind == RING_PHASE && s->phase == RING_PHASE_BACKWARD) {
			backward_settle(r, s);
		}
	}
	for (size_t i = 0; i < r->spans.n; i++)
		if (r->spans.v[i].end > now - KEEP_NS)
			r->spans.v[n++] = r->spans.v[i];
	r->spans.n = n;
}

int64_t rank_wait_until(const struct rank_live *r)
{
	int64_t first = INT64_MAX;

	for (size_t i = 0; i < r->spans.n; i++)
		if (!r->spans.v[i].done)
			first = MIN(first, r->spans.v[i].start);
	return first;
}
