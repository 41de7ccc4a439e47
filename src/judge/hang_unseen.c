/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_unseen.c - Gloo's dumps show no send and receive: a rank that has nothing pending may
 * compute and be what all wait for, or may wait in a receive for another rank that does.
 *
 * It is named only if there is no such other: no further rank with nothing pending, none that left
 * its usual order, and, where the job has stages that only sends join, none of which there is no
 * dump; nor is it one of several there. Else one would blame the innocent as often as not, and only
 * stacks can tell.
 */
#include "judge/hang_internal.h"

#define SCALARS 64 /* elements: a norm or a loss, which may go over all stages */

/* Something beside its dump tells why it does not come. */
static bool tells_itself(const struct hang *h, uint32_t row)
{
	const struct rank_look *l = &h->look[row];

	return l->busy_stack || l->failed || l->saving || l->unanswered;
}

static bool has_dump(const struct hang *h, uint32_t row)
{
	return h->s->ranks.v[row].witnesses & (1u << WITNESS_DUMP);
}

static uint32_t root_of(uint32_t *parent, uint32_t row)
{
	while (parent[row] != row)
		row = parent[row] = parent[parent[row]];
	return row;
}

/* The last operation of a member moved more than a few numbers. */
static bool moves_data(const struct hang *h, const struct scene_group *g)
{
	for (size_t i = 0; i < g->members.n; i++) {
		const struct scene_member *m = &g->members.v[i];
		const struct signature *s =
		    m->last_signature == NO_ID ? NULL : &h->s->signatures.v[m->last_signature];

		if (s && MAX(s->in_elements, s->out_elements) > SCALARS)
			return true;
	}
	return false;
}

/* Ranks fall into parts that share no group in which data moves: something else joins them. */
static bool has_stages(const struct hang *h)
{
	_cleanup_free_ uint32_t *parent = xmalloc((h->s->ranks.n + 1) * sizeof(*parent));
	uint32_t first = NO_ID;

	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		parent[row] = row;
	for (size_t k = 0; k < h->s->groups.n; k++) {
		const struct scene_group *g = &h->s->groups.v[k];

		for (size_t i = 1; moves_data(h, g) && i < g->members.n; i++)
			parent[root_of(parent, g->members.v[i].row)] =
			    root_of(parent, g->members.v[0].row);
	}
	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		if (!has_dump(h, row))
			continue;
		if (first == NO_ID)
			first = root_of(parent, row);
		else if (root_of(parent, row) != first)
			return true;
	}
	return false;
}

static bool may_be_waited_for(const struct hang *h, const struct breach *b, uint32_t row,
			      bool stages)
{
	const struct scene_rank *r = &h->s->ranks.v[row];

	if (!has_dump(h, row))
		return stages && r->rank >= 0 && !h->look[row].waiting_stack;
	if (h->look[row].waiting_stack)
		return false;
	return r->wait_group == NO_ID || (r->habit == HABIT_BROKEN && r->wait_group != b->group);
}

/* Another of them as well: one place may hold several that wait for the one. */
static bool another_may_be(const struct hang *h, const struct breach *b, bool stages)
{
	if (stages && b->culprits.n > 1)
		return true;
	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		bool own = false;

		for (size_t k = 0; k < b->culprits.n && !own; k++)
			own = b->culprits.v[k] == row;
		if (!own && may_be_waited_for(h, b, row, stages))
			return true;
	}
	return false;
}

void doubt_unseen(struct hang *h)
{
	bool stages = h->s->gloo && has_stages(h);

	h->unseen.n = 0;
	for (size_t i = h->breaches.n; i-- > 0 && h->s->gloo;) {
		struct breach *b = &h->breaches.v[i];
		bool told = false;

		for (size_t k = 0; k < b->culprits.n; k++)
			told |= tells_itself(h, b->culprits.v[k]);
		if (b->ground != GROUND_BEHIND || told || !another_may_be(h, b, stages))
			continue;
		rows_append(&h->unseen, &b->culprits);
		breach_drop(h, i);
	}
}
