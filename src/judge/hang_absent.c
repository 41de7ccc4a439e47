/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_absent.c - absence is evidence, within bounds: a rank of which there is nothing is named
 * only if others of its node left something. Of a node that is silent as a whole nobody knows.
 */
#include "judge/hang_internal.h"

#define NODE_RANKS 8 /* where no host is known */

static bool has_host(const struct hang *h, uint32_t row)
{
	return h->s->ranks.v[row].host != NO_ID && h->s->ranks.v[row].rank >= 0;
}

/* How many ranks a node has: as many as share the first known host that is not the last. */
static int64_t ranks_of_a_node(const struct hang *h)
{
	int64_t most = 0, run = 0;

	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		if (!has_host(h, row)) {
			run = 0;
			continue;
		}
		run = row && has_host(h, row - 1) &&
			      h->s->ranks.v[row].host == h->s->ranks.v[row - 1].host
			  ? run + 1
			  : 1;
		most = MAX(most, run);
	}
	return most > 1 ? most : NODE_RANKS;
}

/* Taken when it hung: what a process said when it started is no sign that its node was looked at.
 */
static bool was_gathered(const struct hang *h, uint32_t row)
{
	const struct scene_rank *r = &h->s->ranks.v[row];

	if (!h->s->n_dumps && !h->n_stacks)
		return r->lived;
	return r->witnesses & 1u << WITNESS_DUMP || h->look[row].has_stack;
}

/* Who of a node was seen, by its host's name, and by its place where it has none. */
struct nodes {
	int64_t size; /* ranks of one */
	bool any_host;
	bool *by_host;	       /* by name */
	bool *by_place, *half; /* by rank / size, and by half of it: nodes of four are common too */
};

static struct nodes nodes_of(const struct hang *h)
{
	struct nodes n = { .size = MAX(ranks_of_a_node(h), 2) };
	size_t places = h->s->ranks.n + 1;

	n.by_host = xcalloc(h->s->names.n + 1, sizeof(bool));
	n.by_place = xcalloc(places, sizeof(bool));
	n.half = xcalloc(places, sizeof(bool));
	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		const struct scene_rank *r = &h->s->ranks.v[row];

		if (r->rank < 0)
			continue;
		n.any_host |= has_host(h, row);
		if (!was_gathered(h, row))
			continue;
		n.by_place[r->rank / n.size] = n.half[r->rank / MAX(n.size / 2, 1)] = true;
		if (has_host(h, row))
			n.by_host[r->host] = true;
	}
	return n;
}

static void nodes_done(struct nodes *n)
{
	free(n->by_host);
	free(n->by_place);
	free(n->half);
}

/* Nothing is known of any rank of its node: whether it lives cannot be told. */
static bool whole_node_absent(const struct hang *h, const struct nodes *n, uint32_t row)
{
	const struct scene_rank *r = &h->s->ranks.v[row];

	if (h->s->world_size <= n->size || r->rank < 0)
		return false;
	if (!n->any_host && !n->half[r->rank / MAX(n->size / 2, 1)])
		return true;
	/* a host may have two names, in a folder's and in the process's words */
	return !(has_host(h, row) && n->by_host[r->host]) && !n->by_place[r->rank / n->size];
}

void look_at_nodes(struct hang *h)
{
	struct nodes nodes = nodes_of(h);

	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		h->look[row].not_gathered =
		    !was_gathered(h, row) && whole_node_absent(h, &nodes, row);
	nodes_done(&nodes);
}

bool node_failed(const struct hang *h, uint32_t row)
{
	for (size_t i = 0; i < h->nodes_failed.n; i++) {
		uint32_t host = h->s->sayings.v[h->nodes_failed.v[i]].s.host;

		if (!has_host(h, row) || host == NO_ID || host == h->s->ranks.v[row].host)
			return true;
	}
	return false;
}

/* Ranks that left something, beside those named. */
static size_t seen_beside(const struct hang *h, const struct breach *b)
{
	size_t n = 0;

	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		n += h->s->ranks.v[row].lived;
	for (size_t i = 0; i < b->culprits.n; i++)
		n -= h->s->ranks.v[b->culprits.v[i]].lived;
	return n;
}

/* Of a job whose size is not said, by its log: what was left out of that may be all that misses. */
static bool only_absence_speaks(const struct hang *h, uint32_t row)
{
	return h->s->world_assumed && !h->s->n_dumps && !h->n_stacks && !h->s->ranks.v[row].lived &&
	       !node_failed(h, row) && !h->look[row].failed;
}

void weigh_absence(struct hang *h)
{
	for (size_t i = h->breaches.n; i-- > 0;) {
		struct breach *b = &h->breaches.v[i];
		size_t kept = 0, unseen = 0;

		if (b->ground != GROUND_ABSENT)
			continue;
		for (size_t k = 0; k < b->culprits.n; k++) {
			uint32_t row = b->culprits.v[k];
			bool gone = h->s->unheard && !h->s->ranks.v[row].lived;

			if ((gone || h->look[row].not_gathered) && !node_failed(h, row) &&
			    !h->look[row].failed) {
				unseen++;
				continue;
			}
			b->culprits.v[kept++] = row;
		}
		b->culprits.n = kept;
		if (unseen && !h->s->unheard)
			*vec_push(&h->r->missing) = report_printf(
			    h->r,
			    "nothing was given of %zu ranks that make up whole nodes: they are "
			    "waited for, but not blamed",
			    unseen);
		if (!kept || (kept >= seen_beside(h, b) && !node_failed(h, b->culprits.v[0])))
			breach_drop(h, i);
		else if (kept > 1 || only_absence_speaks(h, b->culprits.v[0]))
			b->confidence = 0.6;
	}
}
