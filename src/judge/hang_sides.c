/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_sides.c - of several sides that wait for each other, which one left the order?
 *
 * By majority, never by who comes first. Where the sides are equal: the one whose operation did not
 * follow what it used to follow; the one that differs from what groups of the same kind called in
 * the same place; the one in an operation outside the step (a barrier). Else it is a tie, and said.
 */
#include "judge/hang_internal.h"

#include <stdio.h>

struct side {
	VEC(uint32_t) rows;
	uint32_t group; /* where they wait, in a cycle */
	int64_t seq;
	uint32_t signature;
	size_t weight;	       /* of all ranks that wait in its place, in the cycle or not */
	uint32_t broken, kept; /* by habit */
	uint32_t left;	       /* whose last step has other operations than those before */
	bool outside;	       /* a barrier or its like, or alone in the group of all ranks */
	bool elsewhere;	       /* its stacks are in a save, an evaluation, an exit */
	bool
	    skipped; /* it called less in other groups than those did who stand in the same place */
	bool like_others; /* groups of the same kind called this there */
	bool few;	  /* no more than half of all */
	bool explains;	  /* without it the others would not wait in a circle */
};

static void count_habits(const struct hang *h, struct side *s)
{
	for (size_t i = 0; i < s->rows.n; i++) {
		enum habit habit = h->s->ranks.v[s->rows.v[i]].habit;

		s->broken += habit == HABIT_BROKEN;
		s->kept += habit == HABIT_KEPT;
		s->left += h->s->ranks.v[s->rows.v[i]].left_step;
	}
}

static bool outside_of_steps(const struct hang *h, uint32_t signature)
{
	const struct signature *sig = signature == NO_ID ? NULL : &h->s->signatures.v[signature];

	return sig && (sig->op == COMM_BARRIER || (sig->op == COMM_ALL_REDUCE &&
						   sig->in_elements >= 0 && sig->in_elements <= 1));
}

/* The side that f holds for while it does not for the others that may have begun it; NULL if there
   is none. */
static struct side *only_one(struct side *sides, size_t n, bool (*f)(const struct side *s))
{
	struct side *found = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!sides[i].explains || !f(&sides[i]))
			continue;
		if (found)
			return NULL;
		found = &sides[i];
	}
	return found;
}

static bool broke_habit(const struct side *s)
{
	return s->broken && !s->kept;
}

static bool left_step(const struct side *s)
{
	return s->left == s->rows.n && s->few;
}

static bool is_outside(const struct side *s)
{
	return s->outside && !s->kept;
}

static bool has_skipped(const struct side *s)
{
	return s->skipped;
}

static bool is_elsewhere(const struct side *s)
{
	return s->elsewhere;
}

static bool unlike_others(const struct side *s)
{
	return !s->like_others;
}

/* All but the largest, if it has more ranks than all others together. */
static bool by_majority(struct breach *b, const struct side *sides, size_t n)
{
	size_t most = 0, rest = 0;

	for (size_t i = 1; i < n; i++)
		if (sides[i].rows.n > sides[most].rows.n)
			most = i;
	for (size_t i = 0; i < n; i++)
		rest += i == most ? 0 : sides[i].rows.n;
	if (sides[most].rows.n <= rest)
		return false;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < sides[i].rows.n; k++)
			*vec_push(i == most ? &b->victims : &b->culprits) = sides[i].rows.v[k];
	b->signature = sides[most].signature;
	return true;
}

static void name_side(struct breach *b, const struct side *sides, size_t n, const struct side *odd)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < sides[i].rows.n; k++)
			*vec_push(&sides[i] == odd ? &b->culprits : &b->victims) =
			    sides[i].rows.v[k];
	for (size_t i = 0; i < n; i++)
		if (&sides[i] != odd)
			b->signature = sides[i].signature;
}

#define SIDES_ASKED_MOST 64u

/* The one side that is smaller than any other and than half: whoever the fewest had to leave the
   order for explains all the others, who wait for it through each other. */
static struct side *smallest(const struct cycle *c, struct side *sides, size_t n)
{
	struct side *least = NULL;
	size_t all = 0, equal = 0, asked = 0;

	for (size_t i = 0; i < n; i++)
		all += sides[i].weight;
	for (size_t i = 0; i < n; i++) {
		if (2 * sides[i].weight >= all || (least && sides[i].weight > least->weight))
			continue;
		if (asked++ >= SIDES_ASKED_MOST)
			return NULL;
		if (!c->breaks(c->user, sides[i].rows.v, sides[i].rows.n))
			continue;
		equal = least && sides[i].weight == least->weight ? equal + 1 : 1;
		least = &sides[i];
	}
	return equal == 1 ? least : NULL;
}

/* Who left the order explains the circle: without it the others wait for nobody any more. Where
   none does, or they are too many to ask, any may have. */
static void find_explaining(const struct cycle *c, struct side *sides, size_t n)
{
	bool any = false;

	for (size_t i = 0; c && i < n && n <= SIDES_ASKED_MOST; i++) {
		sides[i].explains = c->breaks(c->user, sides[i].rows.v, sides[i].rows.n);
		any |= sides[i].explains;
	}
	for (size_t i = 0; i < n && !any; i++)
		sides[i].explains = true;
}

static void find_few(struct side *sides, size_t n)
{
	size_t all = 0;

	for (size_t i = 0; i < n; i++)
		all += sides[i].rows.n;
	for (size_t i = 0; i < n; i++)
		sides[i].few = 2 * sides[i].rows.n <= all;
}

static void decide(struct breach *b, struct side *sides, size_t n, const struct cycle *cycle)
{
	bool (*const signs[])(const struct side *s) = { broke_habit, left_step, unlike_others,
							is_outside };
	struct side *odd = NULL;

	find_few(sides, n);
	find_explaining(cycle, sides, n);
	if (cycle)
		odd = only_one(sides, n, broke_habit);
	if (cycle && !odd)
		odd = only_one(sides, n, left_step);
	if (cycle && !odd)
		odd = only_one(sides, n, has_skipped);
	if (cycle && !odd)
		odd = smallest(cycle, sides, n);
	if (cycle && !odd)
		odd = only_one(sides, n, is_elsewhere);
	if (cycle && !odd)
		odd = only_one(sides, n, is_outside);
	if (!odd && by_majority(b, sides, n)) {
		b->confidence = 0.95;
		return;
	}
	for (size_t i = 0; !odd && i < ARRAY_SIZE(signs); i++)
		odd = only_one(sides, n, signs[i]);
	b->confidence = 0.8;
	if (odd) {
		name_side(b, sides, n, odd);
		return;
	}
	b->tie = true;
	b->confidence = 0.4;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < sides[i].rows.n; k++)
			*vec_push(&b->culprits) = sides[i].rows.v[k];
	b->signature = NO_ID;
}

static void sides_done(struct side *sides, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(sides[i].rows.v);
	free(sides);
}

/* What groups of the same kind called there: the same with its sizes, else the same operation. */
static bool like_siblings(const struct hang *h, const struct scene_conflict *c, uint32_t signature,
			  bool exactly)
{
	const struct signature *x, *y;

	if (c->siblings == NO_ID || signature == NO_ID)
		return false;
	x = &h->s->signatures.v[c->siblings];
	y = &h->s->signatures.v[signature];
	return x->op == y->op &&
	       (!exactly || signature_compare(&h->s->names, x, y) == MISMATCH_NONE);
}

void odd_side(struct hang *h, struct breach *b, const struct scene_conflict *c)
{
	size_t n = c->sides.n;
	struct side *sides = xcalloc(n, sizeof(*sides));
	bool any = false, exactly = false;

	for (size_t i = 0; i < n; i++)
		exactly |= like_siblings(h, c, c->sides.v[i].signature, true);
	for (size_t i = 0; i < n; i++) {
		sides[i].signature = c->sides.v[i].signature;
		for (size_t k = 0; k < c->sides.v[i].rows.n; k++)
			*vec_push(&sides[i].rows) = c->sides.v[i].rows.v[k];
		count_habits(h, &sides[i]);
		sides[i].outside = outside_of_steps(h, sides[i].signature);
		sides[i].like_others = like_siblings(h, c, sides[i].signature, exactly);
		any |= sides[i].like_others;
	}
	for (size_t i = 0; i < n && !any; i++)
		sides[i].like_others = true; /* nobody can say */
	b->conflict = c;
	decide(b, sides, n, NULL);
	sides_done(sides, n);
}

static size_t waiting_at(const struct hang *h, uint32_t group, int64_t seq)
{
	const struct scene_group *g = group == NO_ID ? NULL : &h->s->groups.v[group];
	size_t n = 0;

	for (size_t i = 0; g && i < g->members.n; i++)
		n += g->members.v[i].waits && g->members.v[i].wait.seq == seq &&
		     h->s->ranks.v[g->members.v[i].row].wait_group == group;
	return n;
}

static bool in_world_group(const struct hang *h, uint32_t row)
{
	uint32_t group = h->s->ranks.v[row].wait_group;

	return group != NO_ID && scene_group_is_world(h->s, &h->s->groups.v[group]);
}

static bool stacks_elsewhere(const struct hang *h, const struct side *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->rows.n; i++) {
		const struct doing_found *d = &h->look[s->rows.v[i]].doing;

		n += h->look[s->rows.v[i]].has_stack &&
		     (d->inside == DOING_CHECKPOINT || d->inside == DOING_EVALUATION ||
		      d->inside == DOING_EXIT || d->doing == DOING_EXIT);
	}
	return n && n == s->rows.n;
}

/* What a rank has finished in its group of a description, and called; -1: in none, or in several.
 */
struct numbers {
	int64_t finished, called;
};

static void numbers_in(const struct hang *h, uint32_t desc, struct numbers *ret)
{
	for (size_t i = 0; i < h->s->ranks.n; i++)
		ret[i] = (struct numbers){ -1, -1 };
	for (size_t i = 0; i < h->s->groups.n; i++) {
		const struct scene_group *g = &h->s->groups.v[i];

		for (size_t k = 0; g->desc == desc && k < g->members.n; k++) {
			const struct scene_member *m = &g->members.v[k];

			if (m->source == MEMBER_DUMP)
				ret[m->row] = ret[m->row].finished == -1
						  ? (struct numbers){ m->completed, m->enqueued }
						  : (struct numbers){ -2, -2 };
		}
	}
}

#define AGREEING_LEAST 2u

/* Whether nearly all who wait in a place agree on a number: what most have finished, and the others
   have called at least; or what all but a few have called. What one has called alone says how far
   its host runs ahead, but who stands in the place has called all that comes before. */
static bool agree(const struct scene_group *g, int64_t seq, const struct numbers *number,
		  bool called, int64_t *ret_usual)
{
	size_t all = 0, agreeing = 0;
	struct vote vote = { 0 };
	int64_t usual = -1;

	for (int pass = 0; pass < 2; pass++)
		for (size_t k = 0; k < g->members.n; k++) {
			const struct scene_member *m = &g->members.v[k];
			const struct numbers *own = &number[m->row];
			int64_t its = called ? own->called : own->finished;

			if (!m->waits || m->wait.seq != seq || own->finished < 0)
				continue;
			if (pass) {
				all++;
				agreeing += called ? its == usual : own->called >= usual;
			} else if (!vote_goes_on(&vote, its == usual)) {
				usual = its;
			}
		}
	*ret_usual = usual;
	return agreeing >= AGREEING_LEAST && 10 * agreeing >= 9 * (all - 1);
}

static bool called_less(const struct side *s, const struct numbers *number, int64_t usual)
{
	for (size_t i = 0; i < s->rows.n; i++)
		if (number[s->rows.v[i]].finished >= 0 && number[s->rows.v[i]].called < usual)
			return true;
	return false;
}

/* Has a rank of the side called less, in groups of another kind, than nearly all who stand where it
   stands? Each description's numbers are found once for all sides. */
static void mark_skipped(const struct hang *h, struct side *sides, size_t n)
{
	_cleanup_free_ struct numbers *number = xmalloc((h->s->ranks.n + 1) * sizeof(*number));
	struct intern done = { 0 };

	for (size_t i = 0; i < h->s->groups.n; i++) {
		uint32_t desc = h->s->groups.v[i].desc, before = done.n;
		char key[16];

		snprintf(key, sizeof(key), "%" PRIx32, desc);
		if (desc == NO_ID || intern_str(&done, key) < before)
			continue;
		numbers_in(h, desc, number);
		for (size_t k = 0; k < n; k++) {
			struct side *s = &sides[k];
			const struct scene_group *g =
			    s->group == NO_ID ? NULL : &h->s->groups.v[s->group];
			int64_t usual;

			if (!g || g->desc == desc)
				continue;
			for (int called = 0; called < 2; called++)
				s->skipped |= agree(g, s->seq, number, called, &usual) &&
					      called_less(s, number, usual);
		}
	}
	intern_done(&done);
}

/* In one place, and calling the same there. */
static bool on_side(const struct hang *h, const struct side *side, const struct scene_rank *r,
		    uint32_t signature)
{
	if (side->group != r->wait_group || side->seq != r->wait_seq)
		return false;
	if (side->signature == signature || side->signature == NO_ID || signature == NO_ID)
		return true;
	return signature_compare(&h->s->names, &h->s->signatures.v[side->signature],
				 &h->s->signatures.v[signature]) == MISMATCH_NONE;
}

void odd_in_cycle(struct hang *h, struct breach *b, const uint32_t *rows, size_t n,
		  const struct cycle *cycle)
{
	struct side *sides = xcalloc(n, sizeof(*sides));
	size_t n_sides = 0;

	for (size_t i = 0; i < n; i++) {
		const struct scene_rank *r = &h->s->ranks.v[rows[i]];
		const struct scene_member *m =
		    r->wait_group == NO_ID ? NULL
					   : scene_member(&h->s->groups.v[r->wait_group], rows[i]);
		uint32_t signature = m ? m->wait.signature : NO_ID;
		size_t at = 0;

		while (at < n_sides && !on_side(h, &sides[at], r, signature))
			at++;
		if (at == n_sides) {
			n_sides++;
			sides[at].group = r->wait_group;
			sides[at].seq = r->wait_seq;
			sides[at].signature = signature;
			sides[at].like_others = true;
			sides[at].weight = waiting_at(h, r->wait_group, r->wait_seq);
		}
		*vec_push(&sides[at].rows) = rows[i];
	}
	for (size_t i = 0; i < n_sides; i++) {
		count_habits(h, &sides[i]);
		sides[i].outside = outside_of_steps(h, sides[i].signature) ||
				   in_world_group(h, sides[i].rows.v[0]);
		sides[i].elsewhere = stacks_elsewhere(h, &sides[i]);
	}
	mark_skipped(h, sides, n_sides);
	if (n_sides > 1) {
		decide(b, sides, n_sides, cycle);
	} else { /* all wait in one place for each other: no side */
		b->tie = true;
		b->confidence = 0.3;
		for (size_t i = 0; i < n; i++)
			*vec_push(&b->culprits) = rows[i];
	}
	sides_done(sides, n_sides);
}

/* Watchdogs of all ranks spoke, in groups whose members nobody lists: those few that wait in the
   group of all ranks while the others are in groups of their step have left the loop. */
void breach_of_places(struct hang *h)
{
	const struct scene *s = h->s;
	struct side sides[2] = { { .signature = NO_ID }, { .signature = NO_ID } };
	_cleanup_free_ bool *seen = xcalloc(s->ranks.n + 1, sizeof(bool));
	size_t waiting = 0;
	struct breach *b;

	for (size_t i = 0; i < s->groups.n && !s->n_dumps; i++) {
		bool unnamed = s->groups.v[i].desc == NO_ID && s->groups.v[i].name == NO_ID;
		bool world = scene_group_is_world(s, &s->groups.v[i]);

		for (size_t k = 0; k < s->groups.v[i].members.n; k++) {
			const struct scene_member *m = &s->groups.v[i].members.v[k];

			if (unnamed)
				world = outside_of_steps(h, m->wait.signature);

			if (!m->waits || seen[m->row])
				continue;
			seen[m->row] = true;
			waiting++;
			*vec_push(&sides[world].rows) = m->row;
			sides[world].signature = m->wait.signature;
		}
	}
	if (waiting && waiting == s->ranks.n && sides[1].rows.n && 2 * sides[1].rows.n < waiting) {
		b = breach_new(h, GROUND_ORDER);
		name_side(b, sides, 2, &sides[1]);
		b->confidence = 0.5;
	}
	free(sides[0].rows.v);
	free(sides[1].rows.v);
}
