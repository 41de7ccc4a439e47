/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_pairs.c - an all_to_all of unequal pieces: what a sends to b must be what b expects from a.
 *
 * Totals may agree although no pair fits, so each pair is compared where dumps list a tensor a
 * peer.
 */
#include "fold/scene_inside.h"

#define PAIR_MEMBERS_MAX 4096u

/* "[[4, 3, 2304], [4, 0, 2304]]" -> elements of each tensor; their number, at most max. */
static size_t tensor_elements(const char *text, int64_t *ret, size_t max)
{
	size_t n = 0;
	int depth = 0;
	int64_t elements = 1, number = -1;

	for (const char *p = text;; p++) {
		if (*p >= '0' && *p <= '9') {
			number = (number < 0 ? 0 : number * 10) + (*p - '0');
			if (number > INT32_MAX)
				return 0;
			continue;
		}
		if (number >= 0) {
			if (__builtin_mul_overflow(elements, number, &elements))
				return 0;
			number = -1;
		}
		if (!*p)
			return n;
		if (*p == '[') {
			depth++;
			elements = 1;
		} else if (*p == ']' && depth-- == 2 && n < max) {
			ret[n++] = elements;
		}
	}
}

struct pieces {
	int64_t *in, *out; /* by member of the group */
	bool known;
};

static bool take_pieces(const struct scene *s, const struct scene_member *m, size_t n,
			struct pieces *ret)
{
	const struct signature *sig;

	if (m->source != MEMBER_DUMP || m->wait.signature == NO_ID || !m->waits || m->wait.p2p)
		return false;
	sig = &s->signatures.v[m->wait.signature];
	if (sig->op != COMM_ALL_TO_ALL || sig->in_sizes == NO_ID || sig->out_sizes == NO_ID)
		return false;
	ret->known = tensor_elements(intern_get(&s->names, sig->in_sizes), ret->in, n) == n &&
		     tensor_elements(intern_get(&s->names, sig->out_sizes), ret->out, n) == n;
	return ret->known;
}

static void conflict_of_pairs(struct scene_group *g, const struct pieces *p, size_t n)
{
	struct scene_conflict c = { .seq = g->members.v[0].wait.seq,
				    .kind = MISMATCH_SIZE,
				    .siblings = NO_ID };
	_cleanup_free_ uint32_t *unfit = xcalloc(n, sizeof(*unfit));
	struct scene_side side[2] = { { .signature = NO_ID }, { .signature = NO_ID } };
	uint32_t most = 0;

	for (size_t a = 0; a < n; a++)
		for (size_t k = 0; k < n; k++)
			if (a != k && p[a].in[k] != p[k].out[a]) {
				unfit[a]++;
				unfit[k]++;
			}
	for (size_t i = 0; i < n; i++)
		most = MAX(most, unfit[i]);
	if (!most)
		return;
	for (size_t i = 0; i < n; i++) {
		struct scene_side *to = &side[2 * unfit[i] > most];

		*vec_push(&to->rows) = g->members.v[i].row;
		to->signature = g->members.v[i].wait.signature;
	}
	for (size_t i = 0; i < 2; i++)
		if (side[i].rows.n)
			*vec_push(&c.sides) = side[i];
	if (c.sides.n == 2 && c.sides.v[0].rows.n < c.sides.v[1].rows.n) {
		side[0] = c.sides.v[0];
		c.sides.v[0] = c.sides.v[1];
		c.sides.v[1] = side[0];
	}
	*vec_push(&g->conflicts) = c;
}

void pair_conflicts(struct building *b, struct scene_group *g)
{
	size_t n = g->members.n;
	struct pieces *p;
	_cleanup_free_ int64_t *all = NULL;
	bool whole = true;

	if (n < 2 || n > PAIR_MEMBERS_MAX || !g->members.v[0].waits ||
	    g->members.v[0].wait.signature == NO_ID ||
	    b->s->signatures.v[g->members.v[0].wait.signature].op != COMM_ALL_TO_ALL)
		return;
	for (size_t i = 0; i < n; i++)
		whole &=
		    g->members.v[i].waits && g->members.v[i].wait.seq == g->members.v[0].wait.seq;
	if (!whole)
		return;
	p = xcalloc(n, sizeof(*p));
	all = xcalloc(2 * n * n, sizeof(*all));
	for (size_t i = 0; i < n && whole; i++) {
		p[i].in = all + 2 * n * i;
		p[i].out = p[i].in + n;
		whole = take_pieces(b->s, &g->members.v[i], n, &p[i]);
	}
	if (whole)
		conflict_of_pairs(g, p, n);
	free(p);
}
