/* SPDX-License-Identifier: Apache-2.0 */
/* scene_conflicts.c - the places at which members of a group called different things. */
#include "fold/scene_inside.h"

static uint32_t called_with(const struct building *b, const struct scene_group *g, size_t member,
			    uint32_t of_table, int64_t pos)
{
	const struct dump_view *v = b->view[g->members.v[member].row];
	const struct dump_group *own = v ? same_group(v, of_table) : NULL;

	return own ? dump_variant(own, pos) : NO_ID;
}

static bool sides_alike(const struct scene *s, uint32_t a, uint32_t b, enum mismatch *ret)
{
	*ret = signature_compare(&s->names, &s->signatures.v[a], &s->signatures.v[b]);
	return *ret == MISMATCH_NONE;
}

/* In order of rows. */
static void row_add(struct scene_side *side, uint32_t row)
{
	size_t at = side->rows.n;

	vec_push(&side->rows);
	for (; at && side->rows.v[at - 1] > row; at--)
		side->rows.v[at] = side->rows.v[at - 1];
	side->rows.v[at] = row;
}

static void side_add(struct building *b, struct scene_conflict *c, uint32_t signature, uint32_t row)
{
	enum mismatch kind;

	for (size_t i = 0; i < c->sides.n; i++)
		if (sides_alike(b->s, c->sides.v[i].signature, signature, &kind)) {
			row_add(&c->sides.v[i], row);
			return;
		}
	if (c->sides.n < SCENE_SIDES_MAX)
		*vec_push(&c->sides) = (struct scene_side){ .signature = signature };
	row_add(&c->sides.v[c->sides.n - 1], row);
}

static int by_side_size(const void *a, const void *b)
{
	const struct scene_side *x = a, *y = b;

	if (x->rows.n != y->rows.n)
		return x->rows.n > y->rows.n ? -1 : 1;
	return (x->rows.v[0] > y->rows.v[0]) - (x->rows.v[0] < y->rows.v[0]);
}

static void conflict_done(struct scene_conflict *c)
{
	for (size_t i = 0; i < c->sides.n; i++)
		free(c->sides.v[i].rows.v);
	free(c->sides.v);
}

static void conflict_add(struct building *b, struct scene_group *g, struct scene_conflict *c)
{
	size_t at = g->conflicts.n;

	if (c->sides.n < 2) {
		conflict_done(c);
		return;
	}
	qsort(c->sides.v, c->sides.n, sizeof(*c->sides.v), by_side_size);
	sides_alike(b->s, c->sides.v[0].signature, c->sides.v[1].signature, &c->kind);
	c->finished = true;
	for (size_t i = 0; i < g->members.n; i++)
		if (g->members.v[i].waits && !g->members.v[i].wait.p2p &&
		    g->members.v[i].wait.seq <= c->seq)
			c->finished = false;
	if (c->finished && g->conflicts.n && g->conflicts.v[0].finished) {
		conflict_done(c); /* one that did no harm is enough to say */
		return;
	}
	vec_push(&g->conflicts);
	for (; at && g->conflicts.v[at - 1].seq > c->seq; at--)
		g->conflicts.v[at] = g->conflicts.v[at - 1];
	g->conflicts.v[at] = *c;
}

static int by_position(const void *a, const void *b, void *st)
{
	const struct standing_slot *slots = ((const struct standings *)st)->slots;
	int64_t x = slots[*(const uint32_t *)a].pos, y = slots[*(const uint32_t *)b].pos;

	return (x > y) - (x < y);
}

static bool slot_differs(struct building *b, const struct standing_slot *slot)
{
	enum mismatch kind;

	/* each with each: who is alike with a third need not be with the other, and whose dump
	   was read first is chance */
	for (uint32_t i = 1; i < slot->n_variants; i++)
		for (uint32_t k = 0; k < i; k++)
			if (!sides_alike(b->s, signature_here(b, slot_variant(slot, k)),
					 signature_here(b, slot_variant(slot, i)), &kind))
				return true;
	return false;
}

#define PAST_COMPARED 8
#define PAST_LEAST    4

/* Did two groups call the same operations at the numbers before? Then they run one program. */
static bool same_past(const struct building *b, uint32_t one, uint32_t other, int64_t pos)
{
	int alike = 0;

	for (int64_t back = 1; back <= PAST_COMPARED; back++) {
		int64_t at = pos - POSITION(back);
		const struct standing_slot *x = standings_slot(b->st, one, at);
		const struct standing_slot *y = standings_slot(b->st, other, at);

		if (!x || !y)
			continue;
		if (b->st->signatures.v[x->variants[0]].op !=
		    b->st->signatures.v[y->variants[0]].op)
			return false;
		alike++;
	}
	return alike >= PAST_LEAST;
}

static bool is_larger(const struct scene *s, uint32_t a, uint32_t b)
{
	const struct signature *x = &s->signatures.v[a], *y = &s->signatures.v[b];

	return x->in_elements != y->in_elements ? x->in_elements > y->in_elements
						: x->out_elements > y->out_elements;
}

/* Groups of one description run one program: what most of the others called in that place. */
static uint32_t called_by_siblings(struct building *b, uint32_t of_table, int64_t pos)
{
	const struct standing_group *own = &b->st->groups.v[of_table];
	const char *desc = intern_get(&b->st->names, own->desc);
	uint32_t votes[COMM_OPS] = { 0 }, largest[COMM_OPS] = { 0 }, most = 0;
	bool described = *desc && strcmp(desc, "undefined");

	for (uint32_t i = 0; i < b->st->groups.n; i++) {
		const struct standing_slot *slot;

		if (i == of_table || b->st->groups.v[i].desc != own->desc)
			continue;
		if (!described && !same_past(b, of_table, i, pos))
			continue;
		slot = standings_slot(b->st, i, pos);
		for (uint32_t v = 0; slot && v < slot->n_variants; v++) {
			uint32_t signature = signature_here(b, slot_variant(slot, v));
			enum comm_op op = b->s->signatures.v[signature].op;

			if (!votes[op]++ || is_larger(b->s, signature, largest[op]))
				largest[op] = signature;
		}
	}
	for (uint32_t op = 1; op < COMM_OPS; op++)
		most = votes[op] > votes[most] ? op : most;
	return votes[most] ? largest[most] : NO_ID;
}

/* Is it alike with much, for want of sizes? Such a one must not stand for a side of others. */
static bool is_vague(const struct signature *s)
{
	return s->op == COMM_NONE || (s->in_elements < 0 && s->out_elements < 0);
}

static void add_sides(struct building *b, const struct scene_group *g, uint32_t of_table,
		      const struct standing_slot *slot, bool vague, struct scene_conflict *c)
{
	for (size_t m = 0; m < g->members.n; m++) {
		uint32_t variant = called_with(b, g, m, of_table, slot->pos), signature;

		if (variant == NO_ID)
			continue;
		signature = signature_here(b, slot_variant(slot, variant));
		if (is_vague(&b->s->signatures.v[signature]) == vague)
			side_add(b, c, signature, g->members.v[m].row);
	}
}

static void conflicts_of_dumps(struct building *b, uint32_t of_table)
{
	const struct standing_group *from = &b->st->groups.v[of_table];
	struct scene_group *g = &b->s->groups.v[b->group[of_table]];
	_cleanup_free_ uint32_t *slots = xmalloc((from->differing.n + 1) * sizeof(*slots));

	if (!from->differing.n)
		return;
	memcpy(slots, from->differing.v, from->differing.n * sizeof(*slots));
	qsort_r(slots, from->differing.n, sizeof(*slots), by_position, (void *)(uintptr_t)b->st);
	for (size_t i = 0; i < from->differing.n; i++) {
		const struct standing_slot *slot = &b->st->slots[slots[i]];
		struct scene_conflict c = { .seq = POSITION_SEQ(slot->pos),
					    .place = (uint32_t)(slot->pos & 255),
					    .siblings =
						called_by_siblings(b, of_table, slot->pos) };

		if (g->conflicts.n >= SCENE_CONFLICTS_MAX)
			return;
		if (!slot_differs(b, slot))
			continue;
		for (int vague = 0; vague < 2; vague++)
			add_sides(b, g, of_table, slot, vague, &c);
		conflict_add(b, g, &c);
	}
}

/* What a log's watchdogs name at one sequence number. */
static void conflicts_of_waits(struct building *b, struct scene_group *g)
{
	struct scene_conflict c = { .seq = -1, .siblings = NO_ID };

	for (size_t i = 0; i < g->members.n; i++)
		if (g->members.v[i].waits && g->members.v[i].source == MEMBER_LOG &&
		    g->members.v[i].wait.seq >= 0 &&
		    (c.seq < 0 || g->members.v[i].wait.seq < c.seq))
			c.seq = g->members.v[i].wait.seq;
	if (c.seq < 0)
		return;
	for (size_t i = 0; i < 2 * g->members.n; i++) {
		const struct scene_member *m = &g->members.v[i % g->members.n];
		bool vague = i >= g->members.n;

		if (m->waits && m->wait.seq == c.seq && m->wait.signature != NO_ID &&
		    !m->wait.p2p && is_vague(&b->s->signatures.v[m->wait.signature]) == vague)
			side_add(b, &c, m->wait.signature, m->row);
	}
	conflict_add(b, g, &c);
}

static void find_last_common(struct scene_group *g)
{
	int64_t common = INT64_MAX;

	for (size_t i = 0; i < g->members.n; i++)
		if (g->members.v[i].source == MEMBER_DUMP && g->members.v[i].enqueued >= 0)
			common = MIN(common, g->members.v[i].enqueued);
	if (g->conflicts.n)
		common = MIN(common, g->conflicts.v[0].seq - 1);
	g->last_common = common == INT64_MAX ? -1 : common;
}

/* A member whose dump is there and shows nothing of the group has begun nothing in it. */
static void note_idle_members(struct building *b)
{
	for (size_t i = 0; i < b->s->groups.n; i++)
		for (size_t k = 0; k < b->s->groups.v[i].members.n; k++) {
			struct scene_member *m = &b->s->groups.v[i].members.v[k];

			if (m->source == MEMBER_ABSENT && b->view[m->row] && !b->view[m->row]->cut)
				m->source = MEMBER_DUMP;
		}
}

void find_conflicts(struct building *b)
{
	note_idle_members(b);
	for (uint32_t i = 0; i < b->st->groups.n; i++)
		if (b->group[i] != NO_ID)
			conflicts_of_dumps(b, i);
	for (size_t i = 0; i < b->s->groups.n; i++) {
		struct scene_group *g = &b->s->groups.v[i];

		if (!g->conflicts.n)
			pair_conflicts(b, g);
		if (!g->conflicts.n)
			conflicts_of_waits(b, g);
		find_last_common(g);
	}
}
