/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_clock.c - the ranks' clocks against each other, from collectives.
 *
 * Members of an all-to-all-kind collective leave it together, so that the difference of their ends
 * is the difference of their clocks: the middle one over a step is taken. From one rank to the next
 * a row is reached over one edge, the same in all steps that are paired alike (the hops), so that a
 * step costs what its hops do. A pairing whose members then do not even overlap contradicts itself
 * and is not used.
 */
#include "base/stats.h"
#include "judge/judge_internal.h"

#include <math.h>

#define OVERLAP_SCATTERS 8.0 /* of the step's own scatter */

/* Two rows in one collective, by their places in their steps. */
struct meeting {
	uint32_t from_coll, to_coll;
};
/* How a row's clock is known from another's. */
struct hop {
	uint32_t from, to; /* from is the collective's first member */
	uint32_t first, n; /* into meetings */
	bool back;	   /* to is known, from is reached */
	bool root;	   /* from is where a part that nothing else reaches begins */
};

struct edge {
	uint32_t from, to;
	struct meeting meeting;
	uint32_t inst;
};

static int by_edge(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	return x->inst < y->inst ? -1 : x->inst > y->inst;
}

/* Between the first member of each collective and each other one, by pairs of rows. */
static size_t find_edges(const struct pairing *p, struct edge **ret)
{
	VEC(struct edge) edges = { 0 };

	for (size_t i = 0; i < p->insts.n; i++) {
		const struct paired *inst = &p->insts.v[i];
		const struct paired_member *m = &p->members.v[inst->first_member];

		if (!inst->together || inst->odd)
			continue;
		for (uint32_t k = 1; k < inst->members; k++)
			*vec_push(&edges) =
			    (struct edge){ m->row, m[k].row, { m->coll, m[k].coll }, (uint32_t)i };
	}
	if (edges.n)
		qsort(edges.v, edges.n, sizeof(*edges.v), by_edge);
	*ret = edges.v;
	return edges.n;
}

/* Hops over pairs[] (each pair of rows once) until nothing new is reached. */
static void walk(struct pairing *p, bool *known, const struct hop *pairs, size_t n)
{
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < n; i++) {
			struct hop *hop;

			if (known[pairs[i].from] == known[pairs[i].to])
				continue;
			hop = &p->hops[p->n_hops++];
			*hop = pairs[i];
			hop->back = known[hop->to];
			known[hop->from] = known[hop->to] = true;
			more = true;
		}
	}
}

/* Each row over one hop from the first row of its connected part. */
static void plan_hops(const struct judge *j, struct pairing *p)
{
	_cleanup_free_ struct edge *edges = NULL;
	size_t n = find_edges(p, &edges), n_pairs = 0, from = 0;
	_cleanup_free_ struct hop *pairs = xcalloc(n + 1, sizeof(*pairs));
	_cleanup_free_ bool *known = xcalloc(j->n_rows + 1, 1);

	p->meetings = arena_alloc(&p->arena, (n + 1) * sizeof(*p->meetings));
	p->hops = arena_alloc(&p->arena, (2 * (size_t)j->n_rows + 1) * sizeof(*p->hops));
	p->offset = arena_alloc(&p->arena, (j->n_rows + 1) * sizeof(*p->offset));
	p->n_hops = 0;
	p->most_meetings = 0;
	for (size_t i = 0, k; i < n; i = k) {
		for (k = i; k < n && edges[k].from == edges[i].from && edges[k].to == edges[i].to;
		     k++)
			p->meetings[k] = edges[k].meeting;
		pairs[n_pairs++] = (struct hop){
			.from = edges[i].from,
			.to = edges[i].to,
			.first = (uint32_t)i,
			.n = (uint32_t)(k - i),
		};
		p->most_meetings = MAX(p->most_meetings, k - i);
	}
	for (;;) {
		while (from < n_pairs && (known[pairs[from].from] || known[pairs[from].to]))
			from++;
		if (from == n_pairs)
			break;
		p->hops[p->n_hops++] = (struct hop){ .from = pairs[from].from, .root = true };
		known[pairs[from].from] = true;
		walk(p, known, pairs, n_pairs);
	}
}

void clock_offsets(const struct judge *j, struct step *const *steps, struct pairing *p)
{
	_cleanup_free_ double *x = NULL;

	if (!p->hops)
		plan_hops(j, p);
	x = xmalloc((p->most_meetings + 1) * sizeof(*x));
	for (uint32_t row = 0; row < j->n_rows; row++)
		p->offset[row] = NAN;
	for (size_t i = 0; i < p->n_hops; i++) {
		const struct hop *hop = &p->hops[i];
		const struct meeting *met = p->meetings + hop->first;
		const struct step *from, *to;
		double difference;

		if (hop->root) {
			p->offset[hop->from] = 0;
			continue;
		}
		from = steps[hop->from];
		to = steps[hop->to];
		for (uint32_t k = 0; k < hop->n; k++)
			x[k] =
			    (double)(to->start_ns - p->base_ns + to->colls[met[k].to_coll].end_ns) -
			    (double)(from->start_ns - p->base_ns +
				     from->colls[met[k].from_coll].end_ns);
		difference = stats_select(x, hop->n, hop->n / 2);
		if (hop->back)
			p->offset[hop->from] = p->offset[hop->to] - difference;
		else
			p->offset[hop->to] = p->offset[hop->from] + difference;
	}
}

static bool comparable(const struct paired *inst)
{
	return inst->together && !inst->odd && inst->known >= 2;
}

void clock_contradictions(struct judge *j, struct pairing *p)
{
	size_t n = 0;
	double slack;

	p->spreads = vec_reserve(p->spreads, &p->spreads_cap, p->insts.n + 1, sizeof(*p->spreads));
	for (size_t i = 0; i < p->insts.n; i++)
		if (comparable(&p->insts.v[i]))
			p->spreads[n++] = p->insts.v[i].last_end - p->insts.v[i].first_end;
	p->scatter = n ? stats_median(p->spreads, n) : 0;
	slack = fmax(OVERLAP_SLACK_NS, OVERLAP_SCATTERS * p->scatter);
	for (size_t i = 0; i < p->insts.n; i++) {
		struct paired *inst = &p->insts.v[i];

		if (!inst->together || inst->members < 2)
			continue;
		inst->broken |= comparable(inst) && inst->last_start > inst->first_end + slack;
		j->paired++;
		j->unpaired += inst->broken;
	}
}
