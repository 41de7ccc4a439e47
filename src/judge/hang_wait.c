/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_wait.c - who waits for whom, over all groups: whoever waits for nobody is the one.
 *
 * A rank waits in the operation that it began first and has not finished. It waits for the members
 * of that group who have not begun it, and for those who called something else in its place. From
 * these edges the sets of ranks follow that wait for nobody outside (the strongly connected
 * components without a way out, Tarjan 1972): one rank that is free is behind; several that wait
 * for each other are a cycle; ranks whose operation has everybody are stuck in it.
 *
 * A place in a group is a node of its own between those who wait there and those waited for, so
 * that edges are linear in ranks.
 */
#include "judge/hang_internal.h"

#define PLACES_MAX 64u /* of one group; the lowest */

struct place {
	uint32_t group;
	int64_t seq;
	uint32_t place;
	bool p2p, peer_unknown;
	size_t waiter;		 /* of p2p: one node a waiting member */
	uint32_t side;		 /* of a conflict; NO_ID */
	uint32_t signature;	 /* of the first that waits there; NO_ID */
	uint32_t first_to, n_to; /* in graph.to */
	uint32_t waiting;
};

struct visit {
	uint32_t node, edge;
};

struct graph {
	uint32_t n_ranks;
	bool with_unseen; /* ranks of which there is nothing count as behind */
	VEC(struct place) places;
	VEC(uint32_t) to; /* rows that a place waits for */
	uint32_t *wait;	  /* by row: its place; NO_ID */
	uint32_t *waited; /* by row: the place where most wait for it; NO_ID */
	/* Tarjan */
	uint32_t *index, *low, *component;
	VEC(uint32_t) stack;
	VEC(struct visit) visits;
	uint32_t next_index, n_components;
};

/* Also in a later part of the same number: coalesced calls end together. */
static const struct scene_conflict *conflict_at(const struct scene_group *g, int64_t seq,
						uint32_t place)
{
	for (size_t i = 0; i < g->conflicts.n; i++)
		if (g->conflicts.v[i].seq == seq && g->conflicts.v[i].place >= place)
			return &g->conflicts.v[i];
	return NULL;
}

static uint32_t side_of(const struct scene_conflict *c, uint32_t row)
{
	for (uint32_t i = 0; c && i < c->sides.n; i++) {
		size_t low = 0, high = c->sides.v[i].rows.n; /* ascending */

		while (low < high) {
			size_t middle = low + (high - low) / 2;

			if (c->sides.v[i].rows.v[middle] == row)
				return i;
			if (c->sides.v[i].rows.v[middle] < row)
				low = middle + 1;
			else
				high = middle;
		}
	}
	return NO_ID;
}

/* What `row` waits in counts in this group only if nothing that it began before keeps it. */
static bool counts_here(const struct hang *h, uint32_t group, const struct scene_member *m)
{
	uint32_t first = h->s->ranks.v[m->row].wait_group;

	return m->waits && (first == NO_ID || first == group || m->source != MEMBER_DUMP);
}

/* from: where the places of the group begin */
static uint32_t place_of(struct graph *g, size_t from, uint32_t group, const struct scene_group *of,
			 size_t member, uint32_t side)
{
	const struct scene_member *m = &of->members.v[member];

	for (size_t i = from; i < g->places.n && !m->wait.p2p; i++) {
		const struct place *p = &g->places.v[i];

		if (p->p2p || p->seq != m->wait.seq || p->place != m->wait.place || p->side != side)
			continue;
		if (p->signature == NO_ID)
			g->places.v[i].signature = m->wait.signature;
		return (uint32_t)i;
	}
	if (g->places.n - from >= PLACES_MAX && !m->wait.p2p)
		return NO_ID;
	*vec_push(&g->places) = (struct place){
		.group = group,
		.seq = m->wait.seq,
		.place = m->wait.place,
		.p2p = m->wait.p2p,
		.waiter = member,
		.side = side,
		.signature = m->wait.signature,
	};
	return (uint32_t)g->places.n - 1;
}

/* The member that a send goes to or a recv comes from: their numbers count within the group. */
static const struct scene_member *peer_of(const struct scene *s, const struct scene_group *g,
					  const struct scene_op *op)
{
	const struct signature *sig =
	    op->signature == NO_ID ? NULL : &s->signatures.v[op->signature];
	int32_t peer = !sig ? -1 : sig->op == COMM_SEND ? sig->target : sig->source;

	if (peer < 0 || !g->members_known || (size_t)peer >= g->members.n)
		return NULL;
	return &g->members.v[peer];
}

/* A rank that has a dump but no number in the group has not begun anything there. */
static bool behind(const struct scene_member *m, const struct place *p, const struct hang *h,
		   bool with_unseen)
{
	const struct scene_group *g = &h->s->groups.v[p->group];

	if (!with_unseen && m->source == MEMBER_ABSENT && !h->s->ranks.v[m->row].lived)
		return false;
	if (h->s->ranks.v[m->row].cut)
		return false;
	/* that it was told to dump says that it lives, and its node's dumps were not fetched */
	if (!with_unseen && m->source == MEMBER_ABSENT && h->look[m->row].told &&
	    h->look[m->row].not_gathered)
		return false;
	/* lines that name no group are of several: their numbers cannot be compared */
	if (g->name == NO_ID && g->desc == NO_ID && m->source == MEMBER_LOG)
		return false;
	if (m->source == MEMBER_ABSENT && h->look[m->row].waiting_stack)
		return false;
	if (m->source == MEMBER_ABSENT)
		return true;
	if (m->enqueued < 0)
		return m->source == MEMBER_DUMP &&
		       h->s->ranks.v[m->row].witnesses & (1u << WITNESS_DUMP);
	return m->enqueued < p->seq;
}

/* It has begun the operation, but something that it began before keeps it from coming there. */
static bool kept_elsewhere(const struct hang *h, const struct scene_member *m,
			   const struct place *p)
{
	uint32_t first = h->s->ranks.v[m->row].wait_group;

	return m->source == MEMBER_DUMP && m->waits && m->wait.seq <= p->seq && first != NO_ID &&
	       first != p->group;
}

/* The same of a send or recv: the host of the peer has called its half, but the peer waits in what
   it began before. */
static bool peer_kept(const struct hang *h, const struct scene_member *peer, int64_t met_order)
{
	uint32_t first = h->s->ranks.v[peer->row].wait_group;

	return first != NO_ID &&
	       scene_member(&h->s->groups.v[first], peer->row)->wait.order < met_order;
}

/* Gloo records no send and receive: who has nothing pending may wait in one. Where all who came to
   a place left their usual order to go there, those who have not come are no worse for it. */
static bool may_wait_unseen(const struct hang *h, const struct scene_member *m, bool strayed)
{
	const struct scene_rank *r = &h->s->ranks.v[m->row];

	return strayed && h->s->gloo && m->source == MEMBER_DUMP && r->wait_group == NO_ID &&
	       !h->look[m->row].busy_stack;
}

static bool all_strayed(const struct hang *h, const struct place *p)
{
	const struct scene_group *g = &h->s->groups.v[p->group];
	size_t waiting = 0, strayed = 0, kept = 0;

	for (size_t i = 0; i < g->members.n; i++) {
		const struct scene_member *m = &g->members.v[i];
		bool here = counts_here(h, p->group, m) && m->wait.seq == p->seq;

		waiting += here;
		strayed += here && h->s->ranks.v[m->row].habit == HABIT_BROKEN;
		kept +=
		    kept_elsewhere(h, m, p) || (h->s->ranks.v[m->row].wait_group != NO_ID && !here);
	}
	return waiting && strayed == waiting && kept > waiting;
}

/* A log says that it is a send, but not to whom: to one of those who wait as well, if any. */
static bool names_peer(const struct scene *s, const struct scene_op *op)
{
	const struct signature *sig =
	    op->signature == NO_ID ? NULL : &s->signatures.v[op->signature];

	return sig && (sig->target >= 0 || sig->source >= 0);
}

/* By its dump: two that only their logs name would wait for each other in a circle that is none. */
static bool waits_too(const struct hang *h, const struct scene_member *m)
{
	return h->s->ranks.v[m->row].wait_group != NO_ID;
}

static void add_targets(struct hang *h, struct graph *g, struct place *p)
{
	const struct scene_group *group = &h->s->groups.v[p->group];
	const struct scene_conflict *c = conflict_at(group, p->seq, p->place);
	bool strayed = h->s->gloo && !p->p2p && all_strayed(h, p);

	p->first_to = (uint32_t)g->to.n;
	if (p->p2p) {
		const struct scene_member *m = &group->members.v[p->waiter];
		const struct scene_member *peer = peer_of(h->s, group, &m->wait);

		if (peer && (!m->met || peer_kept(h, peer, m->met_order)))
			*vec_push(&g->to) = peer->row;
		p->peer_unknown = !names_peer(h->s, &m->wait);
		for (size_t i = 0; i < group->members.n && p->peer_unknown; i++)
			if (i != p->waiter && waits_too(h, &group->members.v[i]))
				*vec_push(&g->to) = group->members.v[i].row;
		p->n_to = (uint32_t)g->to.n - p->first_to;
		return;
	}
	for (size_t i = 0; i < group->members.n; i++) {
		const struct scene_member *m = &group->members.v[i];
		uint32_t side = side_of(c, m->row);

		if (may_wait_unseen(h, m, strayed))
			continue;
		if (behind(m, p, h, g->with_unseen) || kept_elsewhere(h, m, p) ||
		    (p->side != NO_ID && side != NO_ID && side != p->side && !c->finished))
			*vec_push(&g->to) = m->row;
	}
	p->n_to = (uint32_t)g->to.n - p->first_to;
}

static void build_graph(struct hang *h, struct graph *g)
{
	g->n_ranks = (uint32_t)h->s->ranks.n;
	g->wait = xmalloc((g->n_ranks + 1) * sizeof(*g->wait));
	memset(g->wait, 0xff, (g->n_ranks + 1) * sizeof(*g->wait));
	for (uint32_t k = 0; k < h->s->groups.n; k++) {
		const struct scene_group *group = &h->s->groups.v[k];
		size_t from = g->places.n;

		for (size_t i = 0; i < group->members.n; i++) {
			const struct scene_member *m = &group->members.v[i];
			const struct scene_conflict *c;
			uint32_t place;

			if (!counts_here(h, k, m))
				continue;
			c = m->wait.p2p ? NULL : conflict_at(group, m->wait.seq, m->wait.place);
			place = place_of(g, from, k, group, i,
					 c && !c->finished ? side_of(c, m->row) : NO_ID);
			if (place == NO_ID)
				continue;
			g->places.v[place].waiting++;
			if (g->wait[m->row] == NO_ID)
				g->wait[m->row] = place;
		}
	}
	for (size_t i = 0; i < g->places.n; i++)
		add_targets(h, g, &g->places.v[i]);
}

/* --- strongly connected components, without recursion --- */

static uint32_t edge_count(const struct graph *g, uint32_t node)
{
	return node < g->n_ranks ? g->wait[node] != NO_ID : g->places.v[node - g->n_ranks].n_to;
}

static uint32_t edge_to(const struct graph *g, uint32_t node, uint32_t i)
{
	const struct place *p;

	if (node < g->n_ranks)
		return g->n_ranks + g->wait[node];
	p = &g->places.v[node - g->n_ranks];
	return g->to.v[p->first_to + i];
}

static void enter(struct graph *g, uint32_t node)
{
	g->index[node] = g->low[node] = ++g->next_index;
	*vec_push(&g->stack) = node;
	*vec_push(&g->visits) = (struct visit){ node, 0 };
}

static void leave(struct graph *g, uint32_t node)
{
	uint32_t member;

	g->visits.n--;
	if (g->visits.n) {
		uint32_t parent = g->visits.v[g->visits.n - 1].node;

		g->low[parent] = MIN(g->low[parent], g->low[node]);
	}
	if (g->low[node] != g->index[node])
		return;
	do {
		member = g->stack.v[--g->stack.n];
		g->component[member] = g->n_components;
	} while (member != node);
	g->n_components++;
}

static void find_components(struct graph *g)
{
	uint32_t n = g->n_ranks + (uint32_t)g->places.n;

	g->index = xcalloc(n + 1, sizeof(*g->index));
	g->low = xcalloc(n + 1, sizeof(*g->low));
	g->component = xmalloc((n + 1) * sizeof(*g->component));
	memset(g->component, 0xff, (n + 1) * sizeof(*g->component));
	for (uint32_t root = 0; root < n; root++) {
		if (!g->index[root])
			enter(g, root);
		while (g->visits.n) {
			struct visit *v = &g->visits.v[g->visits.n - 1];
			uint32_t to;

			if (v->edge == edge_count(g, v->node)) {
				leave(g, v->node);
				continue;
			}
			to = edge_to(g, v->node, v->edge++);
			if (!g->index[to])
				enter(g, to);
			else if (g->component[to] == NO_ID)
				g->low[v->node] = MIN(g->low[v->node], g->index[to]);
		}
	}
}

/* --- what the components without a way out are --- */

struct sink {
	uint32_t component;
	VEC(uint32_t) rows;
	bool waited_for, leads_out;
};

static struct sink *sinks_of(const struct graph *g, uint32_t *ret_n)
{
	struct sink *sinks = xcalloc(g->n_components + 1, sizeof(*sinks));
	uint32_t n = g->n_ranks + (uint32_t)g->places.n;

	for (uint32_t node = 0; node < n; node++) {
		struct sink *own = &sinks[g->component[node]];

		own->component = g->component[node];

		if (node < g->n_ranks)
			*vec_push(&own->rows) = node;
		for (uint32_t i = 0; i < edge_count(g, node); i++) {
			uint32_t to = g->component[edge_to(g, node, i)];

			own->leads_out |= to != g->component[node];
			if (node >= g->n_ranks)
				sinks[to].waited_for = true;
		}
	}
	*ret_n = g->n_components;
	return sinks;
}

static void add_victims(const struct graph *g, struct breach *b)
{
	_cleanup_free_ bool *culprit = xcalloc(g->n_ranks + 1, sizeof(bool));

	/* those of its own place first, then all that wait for them */
	for (size_t i = 0; i < b->culprits.n; i++)
		culprit[b->culprits.v[i]] = true;
	for (size_t i = 0; i < b->victims.n; i++)
		culprit[b->victims.v[i]] = true;
	for (uint32_t row = 0; row < g->n_ranks; row++)
		if (g->wait[row] != NO_ID && !culprit[row])
			*vec_push(&b->victims) = row;
}

static void find_places(struct graph *g)
{
	g->waited = xmalloc((g->n_ranks + 1) * sizeof(*g->waited));
	memset(g->waited, 0xff, (g->n_ranks + 1) * sizeof(*g->waited));
	for (uint32_t i = 0; i < g->places.n; i++) {
		const struct place *p = &g->places.v[i];

		for (uint32_t k = 0; k < p->n_to; k++) {
			uint32_t *at = &g->waited[g->to.v[p->first_to + k]];

			if (*at == NO_ID || p->waiting > g->places.v[*at].waiting)
				*at = i;
		}
	}
}

/* Where most of those who wait for `row` stand. */
static void set_place(const struct graph *g, struct breach *b, uint32_t row)
{
	const struct place *p;

	if (g->waited[row] == NO_ID)
		return;
	p = &g->places.v[g->waited[row]];
	b->group = p->group;
	b->seq = p->seq;
	b->signature = p->signature;
}

/* Those of one place who are behind in it belong together, whatever each of them does. */
static struct breach *breach_at(struct hang *h, enum ground ground, const struct breach *like)
{
	struct breach *b;

	for (size_t i = 0; i < h->breaches.n; i++) {
		b = &h->breaches.v[i];
		if (b->ground == ground && b->group == like->group && b->seq == like->seq)
			return b;
	}
	b = vec_push(&h->breaches);
	*b = *like;
	b->ground = ground;
	return b;
}

static void free_sink(struct hang *h, const struct graph *g, uint32_t row)
{
	struct breach like = { .group = NO_ID, .seq = -1, .signature = NO_ID, .confidence = 0.9 };
	enum ground ground = GROUND_BEHIND;

	set_place(g, &like, row);
	if (like.group != NO_ID && !h->look[row].has_stack &&
	    scene_member(&h->s->groups.v[like.group], row)->source == MEMBER_ABSENT) {
		if (h->look[row].lost_peer)
			return; /* it waited as well, until the first of the others gave up */
		ground = GROUND_ABSENT;
	}
	*vec_push(&breach_at(h, ground, &like)->culprits) = row;
}

struct without {
	const struct graph *g;
	uint32_t component;
};

/* The component without these rows: is there a circle left? By taking off, again and again, what
   waits for nobody in it. */
static bool breaks_cycle(void *user, const uint32_t *rows, size_t n)
{
	const struct without *w = user;
	const struct graph *g = w->g;
	uint32_t nodes = g->n_ranks + (uint32_t)g->places.n, left = 0;
	_cleanup_free_ bool *gone = xcalloc(nodes + 1, sizeof(bool));
	bool changed = true;

	for (size_t i = 0; i < n; i++)
		gone[rows[i]] = true;
	for (uint32_t node = 0; node < nodes; node++)
		gone[node] |= g->component[node] != w->component;
	while (changed) {
		changed = false;
		left = 0;
		for (uint32_t node = 0; node < nodes; node++) {
			bool waiting = false;

			if (gone[node])
				continue;
			for (uint32_t e = 0; !waiting && e < edge_count(g, node); e++)
				waiting = !gone[edge_to(g, node, e)];
			if (!waiting)
				gone[node] = changed = true;
			left += waiting;
		}
	}
	return !left;
}

static bool covers(const struct scene_conflict *c, size_t n)
{
	size_t rows = 0;

	for (size_t i = 0; i < c->sides.n; i++)
		rows += c->sides.v[i].rows.n;
	return rows >= n;
}

static bool some_left_the_order(const struct hang *h, const uint32_t *rows, size_t n)
{
	size_t broken = 0;

	for (size_t i = 0; i < n; i++)
		broken += h->s->ranks.v[rows[i]].habit == HABIT_BROKEN;
	return broken && 2 * broken <= n;
}

static void cycle_sink(struct hang *h, const struct graph *g, const struct sink *s)
{
	struct breach *b = breach_new(h, GROUND_ORDER);
	struct without without = { g, s->component };
	const struct cycle cycle = { &without, breaks_cycle };
	const struct scene_conflict *c = NULL;

	/* one group in which they differ, or several in a circle? */
	for (size_t i = 0; i < s->rows.n; i++) {
		uint32_t place = g->wait[s->rows.v[i]];
		const struct scene_conflict *at;

		if (place == NO_ID || g->places.v[place].side == NO_ID)
			continue;
		at = conflict_at(&h->s->groups.v[g->places.v[place].group], g->places.v[place].seq,
				 g->places.v[place].place);
		if (at && (!c || at->seq < c->seq)) {
			c = at;
			b->group = g->places.v[place].group;
			b->seq = at->seq;
		}
	}
	if (c && (covers(c, s->rows.n) || !some_left_the_order(h, s->rows.v, s->rows.n))) {
		b->ground = GROUND_DIFFERS;
		odd_side(h, b, c);
	} else {
		b->group = NO_ID;
		b->seq = -1;
		odd_in_cycle(h, b, s->rows.v, s->rows.n, &cycle);
		if (b->culprits.n)
			set_place(g, b, b->culprits.v[0]);
	}
}

/* With NCCL's timing on: who waits there, and has its GPU begun? */
static bool waits_at(const struct hang *h, const struct place *p, const struct scene_member *m,
		     enum op_state state)
{
	return m->source == MEMBER_DUMP && counts_here(h, p->group, m) && m->wait.p2p == p->p2p &&
	       (p->p2p || m->wait.seq == p->seq) && m->wait.state == state;
}

/* All have called it, and the GPUs of some have begun: those of the others are kept by what comes
   before it in their streams, and the first wait for them. Of a send or recv it is the peer's. */
static void held_sink(struct hang *h, const struct place *p)
{
	const struct scene_group *of = &h->s->groups.v[p->group];
	struct breach like = { .group = p->group,
			       .seq = p->seq,
			       .signature = p->signature,
			       .confidence = 0.8,
			       .on_gpu = true };
	const struct scene_member *peer =
	    p->p2p ? peer_of(h->s, of, &of->members.v[p->waiter].wait) : NULL;
	struct row_list held = { 0 };
	size_t started = 0;

	for (size_t i = 0; i < of->members.n; i++) {
		const struct scene_member *m = &of->members.v[i];

		started += (!p->p2p || i == p->waiter) && waits_at(h, p, m, OP_STARTED);
		if ((!p->p2p || m == peer) && waits_at(h, p, m, OP_SCHEDULED))
			*vec_push(&held) = m->row;
	}
	if (held.n && held.n <= started)
		rows_append(&breach_at(h, GROUND_BEHIND, &like)->culprits, &held);
	free(held.v);
}

/* All have come to it, but a few by another way: a call that one left out, or made once more, of
   the same operation shows nowhere else than in its own steps. */
static void left_sink(struct hang *h, const struct place *p)
{
	const struct scene_group *of = &h->s->groups.v[p->group];
	struct breach like = { .group = p->group,
			       .seq = p->seq,
			       .signature = p->signature,
			       .confidence = 0.6,
			       .left_out = true };
	size_t left = 0, all = 0;

	for (size_t i = 0; i < of->members.n; i++) {
		const struct scene_member *m = &of->members.v[i];
		bool here = counts_here(h, p->group, m) && m->wait.seq == p->seq;

		all += here;
		left += here && m->left_here;
	}
	for (size_t i = 0; i < of->members.n && left && 2 * left < all; i++)
		if (of->members.v[i].left_here)
			*vec_push(&breach_at(h, GROUND_ORDER, &like)->culprits) =
			    of->members.v[i].row;
}

/* Ranks whose operation has everybody: nobody is behind, and it does not end. */
static void stuck_sink(struct hang *h, const struct graph *g, uint32_t row)
{
	const struct place *p = &g->places.v[g->wait[row]];
	struct breach *b,
	    like = { .group = p->group, .seq = p->seq, .signature = NO_ID, .confidence = 0.6 };

	like.signature = scene_member(&h->s->groups.v[p->group], row)->wait.signature;
	b = breach_at(h, GROUND_STUCK, &like);
	if (b->signature == NO_ID)
		b->signature = like.signature;
	*vec_push(&b->victims) = row;
}

/* A conflict that nobody waits in any more may still have begun it all. */
static bool has_ground(const struct hang *h, enum ground ground)
{
	for (size_t i = 0; i < h->breaches.n; i++)
		if (h->breaches.v[i].ground == ground)
			return true;
	return false;
}

static void graph_done(struct graph *g)
{
	free(g->places.v);
	free(g->to.v);
	free(g->wait);
	free(g->waited);
	free(g->index);
	free(g->low);
	free(g->component);
	free(g->stack.v);
	free(g->visits.v);
}

void breach_of_waits(struct hang *h, bool with_unseen)
{
	struct graph g = { .with_unseen = with_unseen };
	struct sink *sinks;
	bool named;
	uint32_t n;

	build_graph(h, &g);
	find_places(&g);
	find_components(&g);
	sinks = sinks_of(&g, &n);
	for (uint32_t i = 0; i < n; i++) {
		const struct sink *s = &sinks[i];
		uint32_t row = s->rows.n ? s->rows.v[0] : NO_ID;

		if (!s->rows.n || s->leads_out)
			continue;
		if (s->rows.n > 1)
			cycle_sink(h, &g, s);
		else if (g.wait[row] == NO_ID && s->waited_for)
			free_sink(h, &g, row);
	}
	/* places without a way out hold the ranks that are stuck in them */
	for (uint32_t row = 0;
	     row < g.n_ranks && !has_ground(h, GROUND_ORDER) && !has_ground(h, GROUND_DIFFERS);
	     row++)
		if (g.wait[row] != NO_ID && !g.places.v[g.wait[row]].n_to &&
		    !g.places.v[g.wait[row]].peer_unknown)
			stuck_sink(h, &g, row);
	named = has_ground(h, GROUND_ORDER) || has_ground(h, GROUND_DIFFERS) ||
		has_ground(h, GROUND_BEHIND);
	for (size_t i = 0; i < g.places.n && !named; i++) {
		const struct place *p = &g.places.v[i];

		if (!p->n_to && !p->peer_unknown)
			held_sink(h, p);
		if (!p->n_to && !p->p2p)
			left_sink(h, p);
	}
	for (size_t i = 0; i < h->breaches.n; i++)
		if (h->breaches.v[i].ground != GROUND_STUCK)
			add_victims(&g, &h->breaches.v[i]);
	for (uint32_t i = 0; i < n; i++)
		free(sinks[i].rows.v);
	free(sinks);
	graph_done(&g);
}
