/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_agreement.c - do all nodes mean the same job: its ranks, each once, and what differs
 * between nodes that must not.
 */
#include "preflight/preflight_inside.h"
#include "base/ranges.h"

#include <stdio.h>

static const struct same_rule same_rules[] = {
	{ INVARIANT_AGREEMENT, "environment", "environment", "environment", CHECK_REFUSE, false,
	  "the same variables on every node", "set them in one place for all nodes" },
	{ INVARIANT_AGREEMENT, "environment", "tuning", "tuning", CHECK_WARN, false,
	  "the same variables on every node", "set them in one place for all nodes" },
	{ INVARIANT_AGREEMENT, "versions", "versions", "versions", CHECK_REFUSE, false,
	  "the same versions on every node", "run one image everywhere" },
	{ INVARIANT_AGREEMENT, "versions", "platform", "platform", CHECK_WARN, false,
	  "the same system on every node", "run one image everywhere" },
	{ INVARIANT_AGREEMENT, "versions", "packages", "packages", CHECK_WARN, false,
	  "the same packages on every node", "run one image everywhere" },
	{ INVARIANT_AGREEMENT, "code", "code", "code", CHECK_REFUSE, false,
	  "the same code on every node",
	  "check out one commit everywhere, or run it from one folder" },
	{ INVARIANT_AGREEMENT, "config", "config", "config", CHECK_REFUSE, false,
	  "the same configuration on every node", "copy one file to all nodes" },
	{ INVARIANT_AGREEMENT, "data", "data", "data", CHECK_REFUSE, false,
	  "the same data files on every node", "copy the data anew to the odd node" },
	{ INVARIANT_AGREEMENT, "data", "data times", "data-times", CHECK_WARN, true,
	  "data changed at the same time on every node",
	  "--hash-data tells whether the files are the same throughout" },
};

struct node_range {
	int64_t first, n;
	size_t node;
};

static int by_first(const void *a, const void *b)
{
	const struct node_range *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

static json_t *odd_ranks(struct judging *j, char *measured)
{
	return check_put(j, INVARIANT_AGREEMENT, "ranks", CHECK_REFUSE, measured,
			 "every rank from 0 on at one node, once",
			 "give each node its own --first-rank and --ranks, or its --node");
}

/* Ranks that two nodes would start, or none. */
static void rule_of_ranks(struct judging *j)
{
	struct node_range *r = xcalloc(j->n + 1, sizeof(*r));
	int64_t next = 0, world = j->plan->world_size;
	size_t n = 0, troubles = 0;

	for (size_t i = 0; i < j->n; i++)
		if (j->nodes[i].first_rank >= 0 && j->nodes[i].ranks > 0)
			r[n++] =
			    (struct node_range){ j->nodes[i].first_rank, j->nodes[i].ranks, i };
	if (!n || n < j->n) { /* nodes that did not come or say would be holes */
		free(r);
		return;
	}
	qsort(r, n, sizeof(*r), by_first);
	for (size_t i = 0; i < n && troubles < 8; i++) {
		const struct preflight_node *node = &j->nodes[r[i].node];

		if (r[i].first < next) {
			json_t *c = odd_ranks(j, xasprintf("%s and %s both would run rank %" PRId64,
							   j->nodes[r[i - 1].node].host, node->host,
							   r[i].first));

			check_host(c, &j->nodes[r[i - 1].node]);
			check_host(c, node);
			troubles++;
		} else if (r[i].first > next) {
			check_rank(
			    j,
			    odd_ranks(j, xasprintf("no node would run rank %" PRId64 "%s", next,
						   r[i].first > next + 1 ? " and others" : "")),
			    next);
			troubles++;
		}
		next = MAX(next, r[i].first + r[i].n);
	}
	if (world >= 0 && next != world) {
		odd_ranks(j, xasprintf("the nodes have %s rank%s, and the job has %s",
				       thousands(next), next == 1 ? "" : "s", thousands(world)));
		troubles++;
	}
	if (!troubles)
		check_put(j, INVARIANT_AGREEMENT, "ranks", CHECK_OK,
			  xasprintf("%s rank%s on %zu node%s, each once", thousands(next),
				    next == 1 ? "" : "s", n, n == 1 ? "" : "s"),
			  "every rank from 0 on at one node, once", NULL);
	free(r);
}

/* The value that most have, of those from 0 on; -1: none. */
static int64_t most_frequent(int64_t *v, size_t n, size_t *ret_times)
{
	int64_t best = -1;

	*ret_times = 0;
	qsort(v, n, sizeof(*v), ranges_compare);
	for (size_t i = 0, k; i < n; i = k) {
		for (k = i; k < n && v[k] == v[i]; k++)
			;
		if (v[i] >= 0 && k - i > *ret_times) {
			*ret_times = k - i;
			best = v[i];
		}
	}
	return best;
}

/* World sizes as each node sees them. */
static void rule_of_world(struct judging *j)
{
	int64_t *sizes = xcalloc(j->n + 1, sizeof(*sizes)), usual;
	struct gathered g = { 0 };
	_cleanup_free_ char *limit = NULL;
	size_t times;

	for (size_t i = 0; i < j->n; i++)
		sizes[i] = fact_number(j->nodes[i].part, "world_size", -1);
	usual = most_frequent(sizes, j->n, &times);
	limit = xasprintf("the same world size on every node; %s on %zu of %zu", thousands(usual),
			  times, j->n);
	for (size_t i = 0; i < j->n; i++) {
		int64_t w = fact_number(j->nodes[i].part, "world_size", -1);

		if (w >= 0 && w != usual)
			gather(&g, &j->nodes[i],
			       xasprintf("says %s rank%s", thousands(w), w == 1 ? "" : "s"));
	}
	gathered_put(j, &g, INVARIANT_AGREEMENT, "world-size", CHECK_REFUSE, NULL, limit,
		     "set WORLD_SIZE, --world-size or --nodes alike everywhere");
	free(sizes);
}

/* A node that is judged alone agrees with itself; whether it is alone is another matter. */
static void rule_of_one(struct judging *j)
{
	int64_t said = j->plan->nodes_said;

	if (j->n != 1 || check_trouble(j, INVARIANT_AGREEMENT))
		return;
	if (said > 1)
		check_put(j, INVARIANT_AGREEMENT, "alone", CHECK_WARN,
			  xasprintf("this node was judged alone, and the launcher has %s nodes",
				    thousands(said)),
			  "all nodes of the job are compared",
			  "give them a place to meet: --meet-folder DIR, or --meet HOST:PORT with "
			  "--secret-file FILE");
	else
		check_put(j, INVARIANT_AGREEMENT, "alone", CHECK_OK,
			  xstrdup("one node: there is nothing to compare it with"), NULL, NULL);
}

void rules_of_agreement(struct judging *j)
{
	rule_of_one(j);
	rule_of_world(j);
	rule_of_ranks(j);
	for (size_t i = 0; i < ARRAY_SIZE(same_rules); i++)
		rule_of_same(j, &same_rules[i]);
}
