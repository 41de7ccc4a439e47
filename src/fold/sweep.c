/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep.c - the rank's own clock over one window.
 *
 * At any instant the first of these that holds is the state: computing, copying, waiting in a
 * collective (the own clock stands still), idle. An idle stretch is the host's up to the launch of
 * the work that ends it, and latency after that. The parts of own[] and the stretches in which the
 * clock stood still add up to the window exactly.
 */
#include "fold/inside.h"

#define COINCIDE_NS ((int64_t)3000)

static bool is_comm(const struct work *w)
{
	return w->kind == ITEM_COLL_KERNEL || w->kind == ITEM_GLOO || w->kind == ITEM_UNSEEN;
}

static void add_clipped(const struct closing *c, struct intervals *l, int64_t a, int64_t b)
{
	intervals_add(l, MAX(a, c->begin), MIN(b, c->end));
}

static int interval_order(const void *a, const void *b)
{
	const struct interval *x = a, *y = b;

	return x->a < y->a ? -1 : x->a > y->a;
}

/* On CPU jobs compute is what operators cover on any thread, but for calls that start or await
   communication, and for what is the host's although operators run in it: a compile, a loader that
   works in the step's own thread, a save. Threads are taken one by one: a wait on one hides no work
   on another. */
static void cover_of_operators(struct closing *c)
{
	const uint16_t hosts = NAME_COMPILE | NAME_DATA | NAME_SAVE | NAME_GC;
	struct intervals all = { 0 };

	for (uint32_t lane = 0; lane < c->f->n_lanes; lane++) {
		if (c->f->lanes[lane].gpu)
			continue;
		c->rest.n = c->of_class.n = 0;
		for (size_t i = 0; i < c->around.n; i++) {
			const struct range *r = c->around.v[i];

			if (r->lane != lane)
				continue;
			if (r->kind == ITEM_OP)
				add_clipped(c, &c->rest, r->start, r->end);
			else if (r->kind == ITEM_CALL || r->kind == ITEM_WAITING ||
				 (r->class & hosts))
				add_clipped(c, &c->of_class, r->start, r->end);
		}
		intervals_subtract(&c->rest, &c->of_class, &c->scratch);
		for (size_t i = 0; i < c->scratch.n; i++)
			*vec_push(&all) = c->scratch.v[i];
	}
	if (all.n)
		qsort(all.v, all.n, sizeof(*all.v), interval_order);
	for (size_t i = 0; i < all.n; i++)
		intervals_add(&c->compute, all.v[i].a, all.v[i].b);
	free(all.v);
}

static void unions_build(struct closing *c)
{
	c->compute.n = c->copy.n = c->comm.n = 0;
	for (size_t i = 0; i < c->busy.n; i++) {
		const struct work *w = c->busy.v[i];

		if (is_comm(w))
			add_clipped(c, &c->comm, w->start, w->end);
		else if (w->kind == ITEM_KERNEL)
			add_clipped(c, &c->compute, w->start, w->end);
		else
			add_clipped(c, &c->copy, w->start, w->end);
	}
	if (!c->gpu_job)
		cover_of_operators(c);
}

/* Where list changes next after t, and whether t lies inside one of it. */
static int64_t list_next(const struct intervals *l, size_t *at, int64_t t, bool *ret_inside)
{
	while (*at < l->n && l->v[*at].b <= t)
		(*at)++;
	*ret_inside = *at < l->n && l->v[*at].a <= t;
	if (*at == l->n)
		return INT64_MAX;
	return *ret_inside ? l->v[*at].b : l->v[*at].a;
}

static void segments_build(struct closing *c)
{
	size_t at_compute = 0, at_copy = 0, at_comm = 0;
	int64_t own = 0, t = c->begin, next;

	c->segments.n = 0;
	for (; t < c->end; t = next) {
		enum clock_state state = CLOCK_IDLE;
		bool in;

		next = MIN(c->end, list_next(&c->compute, &at_compute, t, &in));
		if (in) {
			state = CLOCK_COMPUTE;
		} else {
			next = MIN(next, list_next(&c->copy, &at_copy, t, &in));
			if (in) {
				state = CLOCK_COPY;
			} else {
				next = MIN(next, list_next(&c->comm, &at_comm, t, &in));
				if (in)
					state = CLOCK_STANDS;
			}
		}
		if (!c->segments.n || c->segments.v[c->segments.n - 1].state != state)
			*vec_push(&c->segments) = (struct segment){ t, own, state };
		if (state != CLOCK_STANDS)
			own += next - t;
	}
	*vec_push(&c->segments) = (struct segment){ c->end, own, CLOCK_IDLE };
}

int64_t clock_own_at(const struct closing *c, int64_t t)
{
	size_t lo = 0, hi = c->segments.n - 1;
	const struct segment *s;

	if (t <= c->begin)
		return 0;
	if (t >= c->end)
		return c->segments.v[hi].own;
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (c->segments.v[mid].start <= t)
			lo = mid;
		else
			hi = mid;
	}
	s = &c->segments.v[lo];
	return s->state == CLOCK_STANDS ? s->own : s->own + (t - s->start);
}

/* The collective for which the clock stood still at the end of [s, e); from: the first in busy that
   may touch it. */
static size_t stretch_owner(const struct closing *c, size_t from, int64_t s, int64_t e)
{
	size_t ends = SIZE_MAX, runs = SIZE_MAX;

	for (size_t i = from; i < c->busy.n && c->busy.v[i]->start < e; i++) {
		const struct work *w = c->busy.v[i];

		if (!is_comm(w) || w->end <= s || w->end < e - COINCIDE_NS)
			continue;
		if (w->end <= e + COINCIDE_NS) {
			if (ends == SIZE_MAX || w->end > c->busy.v[ends]->end)
				ends = i;
		} else if (runs == SIZE_MAX) {
			runs = i; /* by start: the first one runs longest */
		}
	}
	return ends != SIZE_MAX ? ends : runs;
}

/* Backwards from the end of a stretch: what was waited for last, then what ran before that one
   started. */
static void stretch_attribute(struct closing *c, size_t from, int64_t s, int64_t e, int64_t own)
{
	while (e > s) {
		size_t owner = stretch_owner(c, from, s, e);
		const struct work *w;
		int64_t start;

		if (owner == SIZE_MAX)
			return;
		w = c->busy.v[owner];
		start = MAX(w->start, s);
		c->exposure.v[owner].exposed_ns += MIN(e, w->end) - start;
		c->exposure.v[owner].need_ns = own;
		e = start;
	}
}

static void stretches_attribute(struct closing *c)
{
	size_t from = 0;

	c->exposure.n = 0;
	vec_grow(&c->exposure, c->busy.n);
	for (size_t i = 0; i < c->busy.n; i++)
		c->exposure.v[i] = (struct exposure){ .need_ns = -1 };
	for (size_t i = 0; i + 1 < c->segments.n; i++) {
		const struct segment *s = &c->segments.v[i];

		if (s->state != CLOCK_STANDS)
			continue;
		while (from < c->busy.n &&
		       (!is_comm(c->busy.v[from]) || c->busy.v[from]->end <= s->start) &&
		       c->busy.v[from]->start <= s->start)
			from++;
		stretch_attribute(c, from, s->start, s[1].start, s->own);
	}
}

/* When the host launched the work that ends an idle stretch at e; e if that is not known. */
static int64_t launch_of_next(const struct closing *c, size_t *at, int64_t e)
{
	int64_t launch = INT64_MAX;

	while (*at < c->busy.n && c->busy.v[*at]->start < e)
		(*at)++;
	for (size_t i = *at; i < c->busy.n && c->busy.v[i]->start == c->busy.v[*at]->start; i++)
		if (c->busy.v[i]->kind <= ITEM_SET && c->busy.v[i]->launch != TIME_UNKNOWN)
			launch = MIN(launch, c->busy.v[i]->ready);
	return MIN(launch, e);
}

static void idle_split(struct closing *c)
{
	size_t at = 0;

	c->host.n = 0;
	for (size_t i = 0; i + 1 < c->segments.n; i++) {
		int64_t a = c->segments.v[i].start, b = c->segments.v[i + 1].start, launch = b;
		int64_t length = b - a;

		switch (c->segments.v[i].state) {
		case CLOCK_COMPUTE:
			c->step.own[OWN_COMPUTE] += length;
			continue;
		case CLOCK_COPY:
			c->step.own[OWN_COPY] += length;
			continue;
		case CLOCK_STANDS:
			c->step.comm_exposed_ns += length;
			continue;
		case CLOCK_IDLE:
			break;
		}
		if (c->gpu_job)
			launch = MAX(a, launch_of_next(c, &at, b));
		intervals_add(&c->host, a, launch);
		c->step.own[OWN_LAUNCH] += b - launch;
		if (launch - a > c->step.longest_stall_ns) {
			c->step.longest_stall_ns = launch - a;
			c->step.longest_stall_at_ns = a - c->begin;
		}
	}
}

static void ranges_of_class(struct closing *c, uint16_t class)
{
	c->of_class.n = 0;
	for (size_t i = 0; i < c->around.n; i++)
		if (c->around.v[i]->class & class)
			add_clipped(c, &c->of_class, c->around.v[i]->start, c->around.v[i]->end);
}

/* Takes what ranges of a class cover from `rest`, and returns how much that was. */
static int64_t take_class(struct closing *c, uint16_t class)
{
	struct intervals swap;
	int64_t taken;

	if (!c->rest.n)
		return 0;
	ranges_of_class(c, class);
	if (!c->of_class.n)
		return 0;
	taken = intervals_subtract(&c->rest, &c->of_class, &c->scratch);
	swap = c->rest;
	c->rest = c->scratch;
	c->scratch = swap;
	return taken;
}

/* How much of l lies before t; sums[i] is the length of the first i of l. */
static int64_t length_before(const struct intervals *l, const int64_t *sums, int64_t t)
{
	size_t lo = 0, hi = l->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (l->v[mid].b <= t)
			lo = mid + 1;
		else
			hi = mid;
	}
	return sums[lo] + (lo < l->n && l->v[lo].a < t ? t - l->v[lo].a : 0);
}

struct holder {
	const struct range *range;
	int64_t held;
};

/* Of ranges that hold nearly as much as the best one, the shortest: the innermost. */
static void holder_try(struct holder *best, const struct range *r, int64_t held)
{
	if (held < best->held - best->held / 10)
		return;
	if (!best->range || held > best->held + best->held / 10 ||
	    r->end - r->start < best->range->end - best->range->start) {
		best->range = r;
		best->held = MAX(best->held, held);
	}
}

/* The innermost function or range that holds at least half of the host's stretches; annotations
   only where no function does. */
static uint32_t most_of_host(const struct closing *c, const struct intervals *host, int64_t total)
{
	int64_t *sums = xmalloc((host->n + 1) * sizeof(*sums));
	struct holder function = { 0 }, annotation = { 0 };
	uint32_t name = NO_ID;

	sums[0] = 0;
	for (size_t i = 0; i < host->n; i++)
		sums[i + 1] = sums[i] + (host->v[i].b - host->v[i].a);
	for (size_t i = 0; i < c->around.n; i++) {
		const struct range *r = c->around.v[i];
		bool detail = r->kind == ITEM_DETAIL || r->kind == ITEM_SYNC;
		int64_t held;

		if ((!detail && r->kind != ITEM_RANGE) || r->end - r->start < total / 2)
			continue;
		held = length_before(host, sums, r->end) - length_before(host, sums, r->start);
		if (held >= total / 2)
			holder_try(detail ? &function : &annotation, r, held);
	}
	free(sums);
	if (function.range)
		name = function.range->name;
	else if (annotation.range)
		name = annotation.range->name;
	return name;
}

static void host_split(struct closing *c)
{
	struct step *s = &c->step;
	struct intervals own = { 0 };

	c->rest.n = 0;
	for (size_t i = 0; i < c->host.n; i++)
		*vec_push(&c->rest) = c->host.v[i];
	s->own[OWN_DATA] = take_class(c, NAME_DATA);
	s->own[OWN_SAVE] = take_class(c, NAME_SAVE);
	for (size_t i = 0; i < c->rest.n; i++)
		*vec_push(&own) = c->rest.v[i];
	s->own[OWN_HOST] = intervals_sum(&c->rest);
	s->host_detail_ns[HOST_COMPILE] = take_class(c, NAME_COMPILE);
	s->host_detail_ns[HOST_GC] = take_class(c, NAME_GC);
	s->host_detail_ns[HOST_IO] = take_class(c, NAME_IO);
	s->host_detail_ns[HOST_SYNC] = take_class(c, NAME_SYNC);
	s->host_detail_ns[HOST_PYTHON] = take_class(c, NAME_PYTHON);
	s->host_detail_ns[HOST_UNKNOWN] = intervals_sum(&c->rest);
	s->host_what = s->own[OWN_HOST] ? most_of_host(c, &own, s->own[OWN_HOST]) : NO_ID;
	free(own.v);
}

void sweep_step(struct closing *c)
{
	struct step *s = &c->step;

	unions_build(c);
	segments_build(c);
	stretches_attribute(c);
	idle_split(c);
	host_split(c);
	s->own_ns = c->segments.v[c->segments.n - 1].own;
	s->compute_ns = intervals_sum(&c->compute);
	s->copy_ns = intervals_sum(&c->copy);
	s->comm_ns = intervals_sum(&c->comm);
}
