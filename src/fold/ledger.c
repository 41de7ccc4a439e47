/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.c - the phases of a step: what people named, how long it took, how much of it was exposed.
 *
 * A phase is exposed while the rank's own clock runs. On GPU jobs what a phase costs is what it
 * launched: the union of its kernels, wherever on the time line they ran.
 */
#include "fold/inside.h"

#define PHASES_LIMIT 256
#define NESTING_MOST 256 /* ranges that one kernel is counted in, on average */

struct launched {
	int64_t launch, start, end;
};

static int launched_order(const void *a, const void *b)
{
	const struct launched *x = a, *y = b;

	return x->launch < y->launch ? -1 : x->launch > y->launch;
}

static int interval_order(const void *a, const void *b)
{
	const struct interval *x = a, *y = b;

	return x->a < y->a ? -1 : x->a > y->a;
}

/* The step's compute kernels by the time of their launch. */
static size_t launched_list(const struct closing *c, struct launched **ret)
{
	struct launched *list = xmalloc((c->work->n + 1) * sizeof(*list));
	bool sorted = true;
	size_t n = 0;

	for (size_t i = 0; i < c->work->n; i++) {
		const struct work *w = &c->work->v[i];

		if (w->kind != ITEM_KERNEL || w->launch == TIME_UNKNOWN)
			continue;
		sorted &= !n || list[n - 1].launch <= w->launch;
		list[n++] = (struct launched){ w->launch, w->start, w->end };
	}
	if (!sorted)
		qsort(list, n, sizeof(*list), launched_order);
	*ret = list;
	return n;
}

/* Union of the kernels launched in [from, to). *left: how many more may be looked at in this step.
 */
static int64_t gpu_time(struct closing *c, const struct launched *list, size_t n, int64_t from,
			int64_t to, size_t *left)
{
	size_t lo = 0, hi = n;
	bool sorted = true;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (list[mid].launch < from)
			lo = mid + 1;
		else
			hi = mid;
	}
	c->rest.n = c->scratch.n = 0;
	for (; lo < n && list[lo].launch < to && *left; lo++, --*left) {
		sorted &= !c->rest.n || c->rest.v[c->rest.n - 1].a <= list[lo].start;
		*vec_push(&c->rest) = (struct interval){ list[lo].start, list[lo].end };
	}
	if (!sorted)
		qsort(c->rest.v, c->rest.n, sizeof(*c->rest.v), interval_order);
	for (size_t i = 0; i < c->rest.n; i++)
		intervals_add(&c->scratch, c->rest.v[i].a, c->rest.v[i].b);
	return intervals_sum(&c->scratch);
}

static struct step_phase *phase_of(struct step *s, uint32_t name, size_t *last)
{
	for (size_t k = 0; k < s->n_phases; k++) {
		size_t i = (*last + k) % s->n_phases;

		if (s->phases[i].name == name) {
			*last = i;
			return &s->phases[i];
		}
	}
	if (s->n_phases == PHASES_LIMIT)
		return NULL;
	*last = s->n_phases++;
	s->phases[*last] = (struct step_phase){ .name = name, .first_start_ns = INT64_MAX };
	return &s->phases[*last];
}

/* Host time of a class, hidden or not, of the ranges that belong to the step. */
static int64_t time_of_class(struct closing *c, uint16_t class)
{
	c->of_class.n = 0;
	for (size_t i = 0; i < c->ranges->n; i++)
		if (c->ranges->v[i].class & class)
			intervals_add(&c->of_class, c->ranges->v[i].start, c->ranges->v[i].end);
	return intervals_sum(&c->of_class);
}

void ledger_step(struct closing *c)
{
	struct step *s = &c->step;
	struct launched *list = NULL;
	size_t n = 0, last = 0, left;

	for (size_t i = 0; i < c->ranges->n && c->gpu_job && !list; i++)
		if (c->ranges->v[i].kind == ITEM_RANGE)
			n = launched_list(c, &list);
	left = (n + 64) * NESTING_MOST;
	s->phases = arena_alloc(&c->arena, PHASES_LIMIT * sizeof(*s->phases));
	for (size_t i = 0; i < c->ranges->n; i++) {
		const struct range *r = &c->ranges->v[i];
		int64_t start = r->start - c->begin, end = r->end - c->begin;
		struct step_phase *p;

		if (r->kind != ITEM_RANGE)
			continue;
		if (r->class & NAME_EVAL)
			s->flags |= STEP_EVALUATION;
		p = phase_of(s, r->name, &last);
		if (!p) {
			s->dropped++;
			continue;
		}
		p->count++;
		p->first_start_ns = MIN(p->first_start_ns, start);
		p->last_end_ns = p->count == 1 ? end : MAX(p->last_end_ns, end);
		p->total_ns += end - start;
		p->longest_ns = MAX(p->longest_ns, end - start);
		p->exposed_ns += clock_own_at(c, r->end) - clock_own_at(c, r->start);
		if (n && left)
			p->gpu_ns += gpu_time(c, list, n, r->start, r->end, &left);
		else if (n)
			s->dropped++;
	}
	free(list);
	s->data_wait_ns = time_of_class(c, NAME_DATA);
	s->gc_ns = time_of_class(c, NAME_GC);
	s->sync_ns = time_of_class(c, NAME_SYNC);
	if (s->own[OWN_SAVE] > 0 || time_of_class(c, NAME_SAVE) > 0)
		s->flags |= STEP_CHECKPOINT;
}
