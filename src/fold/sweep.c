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
#define LATENCY_NS  ((int64_t)20000) /* from the end of what a kernel waits for to its start */

static inline void add_clipped(const struct closing *c, struct intervals *l, int64_t a, int64_t b)
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

/* The union of the computing kernels; what else is busy goes to its own lists. */
static void unions_build(struct closing *c)
{
	const int64_t begin = c->begin, end = c->end;
	struct interval *compute;
	int64_t last = INT64_MIN; /* the end of the last one */

	c->compute.n = c->copy.n = c->comm.n = c->waits.n = 0;
	vec_grow(&c->compute, c->busy.n);
	compute = c->compute.v;
	for (const struct work *const *at = c->busy.v, *const *all = at + c->busy.n; at < all;
	     at++) {
		const struct work *w = *at;
		int64_t from = MAX(w->start, begin), to = MIN(w->end, end);

		if (w->kind != ITEM_KERNEL) {
			bool waits = work_is_coll(w) || w->kind == ITEM_UNSEEN;

			intervals_add(waits ? &c->comm : &c->copy, from, to);
			if (waits)
				*vec_push(&c->waits) = w;
		} else if (to > from && from > last) {
			*compute++ = (struct interval){ from, to };
			last = to;
		} else if (to > last && to > from) {
			compute[-1].b = last = to;
		}
	}
	c->compute.n = (size_t)(compute - c->compute.v);
	if (!c->gpu_job)
		cover_of_operators(c);
}

int64_t clock_own_at(const struct closing *c, int64_t t)
{
	size_t lo = 0, hi = c->stands.n;
	const struct stand *s;

	if (t <= c->begin)
		return 0;
	t = MIN(t, c->end);
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (c->stands.v[mid].start <= t)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return t - c->begin;
	s = &c->stands.v[lo - 1];
	return s->own + MAX(t - s->end, 0);
}

/* The collective for which the clock stood still at the end of [s, e); from: the first one that may
   touch it. *ret_needed: work went on when it ended, or it is not known when. Work that goes on
   while a collective runs did not need it: of a short stretch, as lies between any two kernels,
   that is certain. */
static size_t stretch_owner(const struct closing *c, size_t from, int64_t s, int64_t e,
			    bool *ret_needed)
{
	size_t ends = SIZE_MAX, runs = SIZE_MAX;

	for (size_t i = from; i < c->waits.n && c->waits.v[i]->start < e; i++) {
		const struct work *w = c->waits.v[i];

		if (w->end <= s || w->end < e - LATENCY_NS)
			continue;
		if (w->end <= e + COINCIDE_NS) {
			if (ends == SIZE_MAX || w->end > c->waits.v[ends]->end)
				ends = i;
		} else if (runs == SIZE_MAX) {
			runs = i; /* by start: the first one runs longest */
		}
	}
	*ret_needed = ends != SIZE_MAX || e >= c->end || e - s > LATENCY_NS;
	return ends != SIZE_MAX ? ends : runs;
}

/* Backwards from the end of a stretch: what was waited for last, then what ran before that one
   started. */
static void stretch_attribute(struct closing *c, size_t from, int64_t s, int64_t e, int64_t own)
{
	while (e > s) {
		bool needed;
		size_t owner = stretch_owner(c, from, s, e, &needed);
		const struct work *w;
		int64_t start;

		if (owner == SIZE_MAX)
			return;
		w = c->waits.v[owner];
		start = MAX(w->start, s);
		c->exposure.v[owner].exposed_ns += MIN(e, w->end) - start;
		if (needed)
			c->exposure.v[owner].need_ns = own;
		e = start;
	}
}

static void stretches_attribute(struct closing *c)
{
	size_t from = 0;

	c->exposure.n = 0;
	vec_grow(&c->exposure, c->waits.n);
	for (size_t i = 0; i < c->waits.n; i++)
		c->exposure.v[i] = (struct exposure){ .need_ns = -1 };
	for (size_t i = 0; i < c->stands.n; i++) {
		const struct stand *s = &c->stands.v[i];

		while (from < c->waits.n && c->waits.v[from]->end <= s->start &&
		       c->waits.v[from]->start <= s->start)
			from++;
		stretch_attribute(c, from, s->start, s->end, s->own);
	}
}

/* When the host launched the work that ends an idle stretch at e; e if that is not known. `busy`
   ends with work that never starts. */
static inline int64_t launch_of_next(const struct work *const **at, int64_t e)
{
	const struct work *const *w = *at;
	int64_t launch = e, start;

	while ((*w)->start < e)
		w++;
	*at = w;
	for (start = (*w)->start; (*w)->start == start && start != TIME_NEVER; w++)
		launch = MIN(launch, work_ready(*w));
	return launch;
}

/* A stretch behind all of them, so that walking a list needs no look at its length. */
static const struct interval *walk_begin(struct intervals *l)
{
	vec_grow(l, 1);
	l->v[l->n] = (struct interval){ INT64_MAX, INT64_MAX };
	return l->v;
}

/* Whether t lies inside the list; *next: when that changes, unless something does before. */
static inline bool walk_to(const struct interval **at, int64_t t, int64_t *next)
{
	while ((*at)->b <= t)
		(*at)++;
	if ((*at)->a <= t) {
		*next = MIN(*next, (*at)->b);
		return true;
	}
	*next = MIN(*next, (*at)->a);
	return false;
}

/* What idle stretches add up to. */
struct idle {
	const struct work *const *busy; /* the first that may end one */
	struct interval *host;		/* of the host */
	int64_t launched, longest, longest_at;
};

/* An idle stretch [a, b): the host's, then latency. */
static inline void idle_split(struct idle *idle, bool gpu_job, int64_t a, int64_t b)
{
	int64_t launch = gpu_job ? MAX(a, launch_of_next(&idle->busy, b)) : b;

	idle->launched += b - launch;
	if (launch <= a)
		return;
	*idle->host++ = (struct interval){ a, launch };
	if (launch - a > idle->longest) {
		idle->longest = launch - a;
		idle->longest_at = a;
	}
}

/* Most stretches: from t on while only computing and idling meet, up to where copies or
   collectives begin. Returns the instant that was reached, where nothing computes. */
static inline int64_t run_plain(const struct interval **at, int64_t t, int64_t until, bool gpu_job,
				struct idle *idle, int64_t *computed)
{
	const struct interval *compute = *at;

	for (; compute->b <= until; compute++) {
		idle_split(idle, gpu_job, t, compute->a);
		*computed += compute->b - compute->a;
		t = compute->b;
	}
	*at = compute;
	return t;
}

/* The state of the clock from instant to instant at which it changes. */
static void clock_run(struct closing *c)
{
	const struct interval *compute = walk_begin(&c->compute), *copy = walk_begin(&c->copy);
	const struct interval *comm = walk_begin(&c->comm);
	const int64_t begin = c->begin, end = c->end;
	int64_t computed = 0, copied = 0, stood = 0, next;
	struct idle idle = { .busy = c->busy.v, .longest_at = begin };

	c->stands.n = c->host.n = 0;
	vec_grow(&c->host, c->compute.n + c->copy.n + c->comm.n + 1);
	idle.host = c->host.v;
	for (int64_t t = begin; t < end; t = next) {
		next = end;
		if (walk_to(&compute, t, &next)) {
			computed += next - t;
		} else if (walk_to(&copy, t, &next)) {
			copied += next - t;
		} else if (walk_to(&comm, t, &next)) {
			*vec_push(&c->stands) = (struct stand){ t, next, t - begin - stood };
			stood += next - t;
		} else {
			idle_split(&idle, c->gpu_job, t, next);
			next = run_plain(&compute, next, MIN(MIN(copy->a, comm->a), end),
					 c->gpu_job, &idle, &computed);
		}
	}
	c->host.n = (size_t)(idle.host - c->host.v);
	c->step.own[OWN_COMPUTE] = computed;
	c->step.own[OWN_COPY] = copied;
	c->step.own[OWN_LAUNCH] = idle.launched;
	c->step.longest_stall_ns = idle.longest;
	c->step.longest_stall_at_ns = idle.longest_at - begin;
	c->step.comm_exposed_ns = stood;
	c->step.own_ns = end - begin - stood;
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

static void intervals_copy(struct intervals *to, const struct intervals *from)
{
	to->n = 0;
	vec_grow(to, from->n);
	if (from->n)
		memcpy(to->v, from->v, from->n * sizeof(*from->v));
	to->n = from->n;
}

static void host_split(struct closing *c)
{
	struct step *s = &c->step;
	struct intervals own = { 0 };

	if (!c->around.n) { /* nothing tells what it did */
		s->own[OWN_HOST] = s->host_detail_ns[HOST_UNKNOWN] = intervals_sum(&c->host);
		return;
	}
	intervals_copy(&c->rest, &c->host);
	s->own[OWN_DATA] = take_class(c, NAME_DATA);
	s->own[OWN_SAVE] = take_class(c, NAME_SAVE);
	s->own[OWN_HOST] = intervals_sum(&c->rest);
	intervals_copy(&own, &c->rest);
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
	clock_run(c);
	stretches_attribute(c);
	host_split(c);
	s->compute_ns = s->own[OWN_COMPUTE]; /* nothing takes precedence over it */
	s->copy_ns = intervals_sum(&c->copy);
	s->comm_ns = intervals_sum(&c->comm);
}
