/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_members.c - to which groups does a rank belong that left no dump?
 *
 * Gloo's dumps do not list members: they are those who have entries in the group. A rank without a
 * dump is given to the group that its pattern completes: groups of one description share the
 * world out in one shape, `size` ranks that are `stride` apart. Where no shape fits, nobody is
 * added.
 */
#include "fold/scene_inside.h"

struct shape {
	int64_t size, stride;
};

static int64_t rank_at(const struct scene *s, const struct scene_group *g, size_t i)
{
	return s->ranks.v[g->members.v[i].row].rank;
}

/* The group of a shape to which the rank belongs, as a number. */
static int64_t group_of_rank(const struct shape *p, int64_t rank)
{
	return rank / (p->size * p->stride) * p->stride + rank % p->stride;
}

static bool has_shape(const struct scene *s, const struct scene_group *g, const struct shape *p)
{
	for (size_t i = 1; i < g->members.n; i++)
		if (group_of_rank(p, rank_at(s, g, i)) != group_of_rank(p, rank_at(s, g, 0)))
			return false;
	return true;
}

static bool of_kind(const struct scene *s, const struct scene_group *g, uint32_t desc)
{
	return g->desc == desc && !g->members_known && g->members.n &&
	       s->ranks.v[g->members.v[0].row].rank >= 0;
}

/* The shape of the largest group of the description whose ranks are evenly apart. */
static struct shape shape_of(const struct scene *s, uint32_t desc)
{
	struct shape best = { 0, 0 };

	for (size_t i = 0; i < s->groups.n; i++) {
		const struct scene_group *g = &s->groups.v[i];
		struct shape p = { .size = (int64_t)g->members.n, .stride = 1 };
		bool even = true;

		if (!of_kind(s, g, desc))
			continue;
		if (g->members.n > 1)
			p.stride = rank_at(s, g, 1) - rank_at(s, g, 0);
		for (size_t k = 2; even && k < g->members.n; k++)
			even = rank_at(s, g, k) - rank_at(s, g, k - 1) == p.stride;
		if (even && p.size > best.size)
			best = p;
	}
	return best;
}

static size_t groups_of_kind(const struct scene *s, uint32_t desc)
{
	size_t n = 0;

	for (size_t i = 0; i < s->groups.n; i++)
		n += of_kind(s, &s->groups.v[i], desc);
	return n;
}

static bool everybody_else_is_in(const struct building *b, const struct scene_group *g)
{
	size_t dumps = 0;

	for (size_t i = 0; i < g->members.n; i++)
		dumps += g->members.v[i].source == MEMBER_DUMP;
	return dumps == b->chosen.n && b->chosen.n > 1;
}

static bool in_any(const struct scene *s, uint32_t desc, uint32_t row)
{
	for (size_t i = 0; i < s->groups.n; i++)
		if (of_kind(s, &s->groups.v[i], desc) && scene_member(&s->groups.v[i], row))
			return true;
	return false;
}

static void give(struct building *b, uint32_t desc, uint32_t row)
{
	struct scene *s = b->s;
	struct shape p = shape_of(s, desc);
	int64_t rank = s->ranks.v[row].rank;

	for (size_t i = 0; i < s->groups.n; i++) {
		struct scene_group *g = &s->groups.v[i];

		if (!of_kind(s, g, desc) || scene_member(g, row))
			continue;
		if (everybody_else_is_in(b, g) ||
		    (p.stride > 0 && (int64_t)g->members.n < p.size && has_shape(s, g, &p) &&
		     group_of_rank(&p, rank) == group_of_rank(&p, rank_at(s, g, 0)))) {
			scene_member_add(g, row);
			g->guessed = true;
			return;
		}
	}
}

#define ABSENT_MOST 4096u /* ranks to find a place for */

void infer_members(struct building *b)
{
	struct scene *s = b->s;
	size_t absent = 0;

	for (uint32_t row = 0; row < s->ranks.n && absent < ABSENT_MOST; row++) {
		if (b->view[row] || s->ranks.v[row].rank < 0 || !b->chosen.n)
			continue;
		absent++;
		for (size_t i = 0; i < s->groups.n; i++) {
			uint32_t desc = s->groups.v[i].desc;
			bool first = true;

			for (size_t k = 0; k < i && first; k++)
				first = s->groups.v[k].desc != desc;
			if (first && groups_of_kind(s, desc) && !in_any(s, desc, row))
				give(b, desc, row);
		}
	}
}
