/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_pin.c - whose link it is, from which units of links are slow and which are not.
 *
 * A suspect is a rank or a machine; it explains a slow unit that it is in, and is contradicted by
 * one that is not slow. One suspect that explains nearly all is named; else up to four machines, or
 * ranks, that do so together and that nobody could stand in for. Where several would do as well
 * nobody is named.
 */
#include "judge/judge_internal.h"

#define PIN_MIN	 0.8 /* how well a suspect must explain what is slow and what is not */
#define PIN_LEAD 0.1
#define SET_MAX	 4u   /* suspects that are named together */
#define SET_MIN	 0.9  /* how well they must explain it, .. */
#define SET_LEAD 0.04 /* .. and what each of them must add */

struct pinning {
	const struct judge *j;
	const bool *slow, *compared; /* [links] */
	double all_slow;
	bool inside; /* transfers inside a machine are slow too */
	size_t n;    /* suspects: rows, then nodes */
	double *its, *its_slow;
	size_t *seen;
};

/* As an F-measure: units that somebody is in, those of them that are slow, and all that are slow.
 */
static double fit(double its, double its_slow, double all_slow)
{
	return its_slow > 0 ? 2 * its_slow / (its + all_slow) : 0;
}

/* Counts the units of each suspect, but for those that are taken (NULL: none is). Where only
   transfers between machines are slow, those inside one say nothing of a port. */
static void count_units(struct pinning *p, const bool *taken)
{
	const struct judge *j = p->j;

	memset(p->its, 0, p->n * sizeof(*p->its));
	memset(p->its_slow, 0, p->n * sizeof(*p->its_slow));
	memset(p->seen, 0, p->n * sizeof(*p->seen));
	for (size_t i = 0; i < j->links.n; i++) {
		const struct link_unit *u = &j->links.v[i];

		if (!p->compared[i] || (taken && taken[i]))
			continue;
		for (uint32_t k = 0; k < u->n_rows; k++) {
			size_t node = (size_t)j->n_rows + j->node[u->rows[k]];

			if (p->inside || u->nodes > 1) {
				p->its[u->rows[k]]++;
				p->its_slow[u->rows[k]] += p->slow[i];
			}
			if ((u->nodes < 2 && !p->inside) || p->seen[node] == i + 1)
				continue;
			p->seen[node] = i + 1;
			p->its[node]++;
			p->its_slow[node] += p->slow[i];
		}
	}
}

static void name_suspect(const struct judge *j, struct entry *e, size_t suspect)
{
	for (uint32_t row = 0; row < j->n_rows; row++)
		if (row == suspect || (size_t)j->n_rows + j->node[row] == suspect)
			*vec_push(&e->rows) = row;
}

/* The best, a rank before a machine that fits as well; *ret_alone: no other of its kind comes near.
 */
static size_t best_single(struct pinning *p, double *ret_fit, bool *ret_alone)
{
	size_t n = p->j->n_nodes > 1 ? p->n : p->j->n_rows, best = 0, near = 0;

	count_units(p, NULL);
	for (size_t k = 0; k < n; k++)
		if (fit(p->its[k], p->its_slow[k], p->all_slow) >
		    fit(p->its[best], p->its_slow[best], p->all_slow))
			best = k;
	*ret_fit = fit(p->its[best], p->its_slow[best], p->all_slow);
	for (size_t k = 0; k < n; k++)
		near += (k < p->j->n_rows) == (best < p->j->n_rows) &&
			fit(p->its[k], p->its_slow[k], p->all_slow) > *ret_fit - PIN_LEAD;
	*ret_alone = near == 1;
	return best;
}

static void take_units(const struct pinning *p, size_t suspect, bool *taken)
{
	const struct judge *j = p->j;

	for (size_t i = 0; i < j->links.n; i++) {
		const struct link_unit *u = &j->links.v[i];

		for (uint32_t k = 0; p->compared[i] && k < u->n_rows; k++)
			taken[i] |= suspect < j->n_rows
					? u->rows[k] == suspect && (p->inside || u->nodes > 1)
					: (size_t)j->n_rows + j->node[u->rows[k]] == suspect &&
					      (p->inside || u->nodes > 1);
	}
}

/* What suspects explain together. */
struct together {
	size_t v[SET_MAX], n;
	double its, its_slow;
};

static bool is_in(const struct together *s, size_t suspect)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i] == suspect)
			return true;
	return false;
}

/* The suspect of first..last that adds most to the set; *ret: how well all explain it then. */
static size_t best_next(struct pinning *p, const struct together *s, const bool *taken,
			size_t first, size_t last, double *ret)
{
	size_t best = SIZE_MAX;

	*ret = 0;
	count_units(p, taken);
	for (size_t k = first; k < last; k++) {
		double now = fit(s->its + p->its[k], s->its_slow + p->its_slow[k], p->all_slow);

		if (is_in(s, k) || now <= *ret)
			continue;
		*ret = now;
		best = k;
	}
	return best;
}

/* Could another stand in for one of them? */
static bool replaceable(struct pinning *p, const struct together *s, double reached, size_t first,
			size_t last)
{
	_cleanup_free_ bool *taken = xcalloc(p->j->links.n + 1, 1);
	bool any = false;

	for (size_t i = 0; i < s->n && !any; i++) {
		struct together rest = { .n = s->n };
		double now;

		memset(taken, 0, p->j->links.n);
		memcpy(rest.v, s->v, sizeof(rest.v)); /* the one itself must not come back */
		for (size_t k = 0; k < s->n; k++)
			if (k != i)
				take_units(p, s->v[k], taken);
		for (size_t u = 0; u < p->j->links.n; u++) {
			rest.its += taken[u];
			rest.its_slow += taken[u] && p->slow[u];
		}
		best_next(p, &rest, taken, first, last, &now);
		any = now > reached - SET_LEAD;
	}
	return any;
}

/* Several of one kind, each the one that adds most to those before. */
static bool pin_several(struct pinning *p, struct entry *e, size_t first, size_t last)
{
	_cleanup_free_ bool *taken = xcalloc(p->j->links.n + 1, 1);
	struct together s = { .n = 0 };
	double reached = 0;

	while (s.n < SET_MAX) {
		double now;
		size_t next = best_next(p, &s, taken, first, last, &now);

		if (next == SIZE_MAX || now < reached + SET_LEAD)
			break;
		reached = now;
		s.its += p->its[next];
		s.its_slow += p->its_slow[next];
		s.v[s.n++] = next;
		take_units(p, next, taken);
	}
	if (s.n < 2 || reached < SET_MIN || replaceable(p, &s, reached, first, last))
		return false;
	for (size_t i = 0; i < s.n; i++)
		name_suspect(p->j, e, s.v[i]);
	qsort(e->rows.v, e->rows.n, sizeof(*e->rows.v), by_row);
	e->strength = reached;
	return true;
}

/* A pair that sends and receives is its own answer, unless one end is known. */
static void pin_pair(struct entry *e, const struct link_unit *u, size_t best, bool known)
{
	for (uint32_t k = 0; k < u->n_rows; k++)
		if (!known || best == u->rows[k])
			*vec_push(&e->rows) = u->rows[k];
}

void link_pin(struct judge *j, struct entry *e, const bool *slow, const bool *compared)
{
	size_t n = (size_t)j->n_rows + j->n_nodes, best;
	_cleanup_free_ double *its = xcalloc(n + 1, sizeof(*its));
	_cleanup_free_ double *its_slow = xcalloc(n + 1, sizeof(*its_slow));
	_cleanup_free_ size_t *seen = xcalloc(n + 1, sizeof(*seen));
	struct pinning p = { j, slow, compared, 0, false, n, its, its_slow, seen };
	bool alone;

	for (size_t i = 0; i < j->links.n; i++) {
		p.all_slow += compared[i] && slow[i];
		p.inside |= compared[i] && slow[i] && j->links.v[i].nodes < 2;
	}
	best = best_single(&p, &e->strength, &alone);
	if (e->units.n == 1 && j->links.v[e->units.v[0]].n_rows == 2) {
		pin_pair(e, &j->links.v[e->units.v[0]], best, alone && e->strength >= PIN_MIN);
	} else if (e->strength >= PIN_MIN && alone) {
		e->node = best >= j->n_rows ? (uint32_t)(best - j->n_rows) : NO_ID;
		name_suspect(j, e, best);
	} else if (!(j->n_nodes > 1 && pin_several(&p, e, j->n_rows, n))) {
		pin_several(&p, e, 0, j->n_rows);
	}
}
