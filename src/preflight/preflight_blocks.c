/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_blocks.c - block balance: how much data each rank has, and whether all ranks have work
 * for the same number of steps.
 *
 * A node gives the counts of its own ranks if it knows which these are, and the first node those of
 * all, so that parts stay small. A digest tells whether all nodes read the same counts.
 */
#include "preflight/preflight_inside.h"

#include <stdio.h>

#include "preflight/even.h"
#include "read/shards.h"

#define RANKS_MOST ((int64_t)1 << 20)

/* --- on each node --- */

static bool is_mine(const struct preflight_plan *p, int64_t rank)
{
	return rank >= p->first_rank && rank < p->first_rank + p->ranks_here;
}

/* All ranks' counts, or this node's alone if they are all there. */
static bool mine_alone(const struct preflight_plan *p, const struct block_counts *c)
{
	int64_t found = 0;

	if (p->first_rank <= 0 || p->ranks_here <= 0)
		return false;
	for (size_t i = 0; i < c->ranks.n; i++)
		found += is_mine(p, c->ranks.v[i].rank);
	return found == p->ranks_here;
}

/* Runs of ranks without a hole: {"first", "blocks": [..]}. */
static json_t *runs_json(const struct preflight_plan *p, const struct block_counts *c)
{
	json_t *runs = json_array(), *blocks = NULL;
	bool mine = mine_alone(p, c);
	int64_t next = -1;

	for (size_t i = 0; i < c->ranks.n; i++) {
		const struct rank_blocks *r = &c->ranks.v[i];

		if (mine && !is_mine(p, r->rank))
			continue;
		if (!blocks || r->rank != next) {
			json_t *run = json_object();

			blocks = json_array();
			json_object_set_new(run, "first", json_integer(r->rank));
			json_object_set_new(run, "blocks", blocks);
			json_array_append_new(runs, run);
		}
		json_array_append_new(blocks, json_integer(r->blocks));
		next = r->rank + 1;
	}
	return runs;
}

/* Tells whether two nodes read the same counts (FNV-1a): nobody gains by a collision. */
static void put_digest(json_t *facts, const struct block_counts *c)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < c->ranks.n; i++) {
		h = (h ^ (uint64_t)c->ranks.v[i].rank) * UINT64_C(0x100000001b3);
		h = (h ^ (uint64_t)c->ranks.v[i].blocks) * UINT64_C(0x100000001b3);
	}
	json_object_set_new(facts, "digest", json_sprintf("%016" PRIx64, h));
}

/* Counts of more ranks than the job has are for the judge to refuse: they are no damage. */
static int read_counts(const struct preflight_plan *p, struct block_options options,
		       struct block_counts *ret, struct error *reterr)
{
	int r = block_counts_read(p->blocks, p->n_blocks, &options, ret, reterr);
	struct error ignored;

	if (r != -EINVAL || options.world_size <= 0)
		return r;
	options.world_size = -1;
	return block_counts_read(p->blocks, p->n_blocks, &options, ret, &ignored) < 0 ? r : 0;
}

int facts_of_blocks(const struct preflight_plan *p, json_t **ret, struct error *reterr)
{
	(void)reterr; /* what cannot be counted is a fact too */
	bool of_many = p->first_rank >= 0 && p->ranks_here > 0;
	struct block_options options = {
		.sequence_length = p->sequence_length,
		.world_size = p->world_size,
		.deal = p->strided ? DEAL_STRIDED : DEAL_CONTIGUOUS,
		.length_field = p->length_field,
		.partial = of_many,
		.first_rank = of_many ? p->first_rank : 0,
		.ranks_here = of_many ? p->ranks_here : 0,
	};
	struct block_counts c = { 0 };
	json_t *facts = json_object(), *remarks = json_array();
	struct error bad = { "" };
	int r = 0;

	json_object_set_new(facts, "given", json_boolean(p->n_blocks > 0));
	if (p->n_blocks)
		r = read_counts(p, options, &c, &bad);
	if (r < 0)
		json_object_set_new(facts, "bad", text_json(bad.text));
	if (r >= 0 && p->n_blocks) {
		put_digest(facts, &c);
		json_object_set_new(facts, "runs", runs_json(p, &c));
		json_object_set_new(facts, "ranks", json_integer((json_int_t)c.ranks.n));
		json_object_set_new(facts, "last_said", json_integer(c.last_said));
		json_object_set_new(facts, "unit", text_json(c.unit));
		json_object_set_new(facts, "packed", json_boolean(c.packed));
		for (size_t i = 0; i < c.remarks.n && i < 16; i++)
			json_array_append_new(remarks, text_json(c.remarks.v[i]));
	}
	json_object_set_new(facts, "remarks", remarks);
	block_counts_done(&c);
	*ret = facts;
	return 0;
}

/* --- at the judge --- */

struct counted {
	VEC(struct rank_blocks) ranks; /* ascending */
	const char *unit;
	size_t nodes; /* that gave counts */
	int64_t last; /* the highest rank that anybody's files speak of; -1 */
	bool clash;   /* said already */
};

static int by_rank(const void *a, const void *b)
{
	const struct rank_blocks *x = a, *y = b;

	return x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank)
				  : (x->files > y->files) - (x->files < y->files);
}

/* A node's counts; `files` keeps whose they are. */
static void take_runs(struct counted *c, const json_t *facts, uint32_t node)
{
	const json_t *runs = json_object_get(facts, "runs"), *run, *value;
	size_t i, k;

	json_array_foreach(runs, i, run)
	{
		int64_t first = fact_number(run, "first", -1);
		const json_t *blocks = json_object_get(run, "blocks");

		if (first < 0 || first > RANKS_MOST)
			continue;
		json_array_foreach(blocks, k, value)
		{
			int64_t v = json_is_integer(value) ? json_integer_value(value) : -1;

			if (v < 0 || first + (int64_t)k > RANKS_MOST ||
			    c->ranks.n > 4 * (size_t)RANKS_MOST)
				break;
			*vec_push(&c->ranks) = (struct rank_blocks){ .rank = first + (int64_t)k,
								     .blocks = v,
								     .files = node };
		}
	}
}

/* One row a rank; two nodes that count a rank differently are at odds. */
static void settle_counts(struct judging *j, struct counted *c)
{
	size_t n = 0;

	if (c->ranks.n)
		qsort(c->ranks.v, c->ranks.n, sizeof(*c->ranks.v), by_rank);
	for (size_t i = 0; i < c->ranks.n; i++) {
		const struct rank_blocks *r = &c->ranks.v[i], *last = n ? &c->ranks.v[n - 1] : NULL;

		if (last && last->rank == r->rank) {
			if (last->blocks != r->blocks && !c->clash) {
				const struct preflight_node *a = &j->nodes[last->files];
				const struct preflight_node *b = &j->nodes[r->files];
				json_t *check = check_put(
				    j, INVARIANT_BLOCKS, "counts", CHECK_REFUSE,
				    xasprintf("rank %" PRId64 " has %s %s by %s, and %s by %s",
					      r->rank, thousands(last->blocks), c->unit, a->host,
					      thousands(r->blocks), b->host),
				    "the same counts on every node",
				    "give all nodes the same counts or shards");

				check_host(check, a);
				check_host(check, b);
				c->clash = true;
			}
			continue;
		}
		c->ranks.v[n++] = *r;
	}
	c->ranks.n = n;
}

static void collect_counts(struct judging *j, struct counted *c)
{
	const char *digest = NULL;

	c->unit = "blocks";
	for (size_t i = 0; i < j->n; i++) {
		const json_t *facts = node_facts(&j->nodes[i], "blocks");
		const char *unit = fact_text(facts, "unit"), *d = fact_text(facts, "digest");
		size_t before = c->ranks.n;

		if (!facts || !fact_true(facts, "given"))
			continue;
		if (unit)
			c->unit = unit;
		c->last = MAX(c->last, fact_number(facts, "last_said", -1));
		/* The same file, which an earlier node gave whole. */
		if (digest && d && !strcmp(d, digest) && c->nodes)
			continue;
		take_runs(c, facts, (uint32_t)i);
		c->nodes++;
		if (!digest && d && c->ranks.n - before == (size_t)fact_number(facts, "ranks", 0))
			digest = d;
	}
	settle_counts(j, c);
}

/* Paths that were named and cannot be counted. */
static void rule_of_bad_counts(struct judging *j)
{
	struct gathered g = { 0 };

	for (size_t i = 0; i < j->n; i++) {
		const char *bad = fact_text(node_facts(&j->nodes[i], "blocks"), "bad");

		if (bad)
			gather(&g, &j->nodes[i], xasprintf("%.800s", bad));
	}
	gathered_put(j, &g, INVARIANT_BLOCKS, "counts", CHECK_REFUSE, NULL,
		     "counts or shards that can be read and counted",
		     "mend what it says, or give another path by --blocks");
}

/* Counts of all nodes, or of all ranks? Who gave none is named already. */
static bool is_whole(const struct judging *j, const struct counted *c)
{
	for (size_t i = 0; i < j->n; i++)
		if (!j->nodes[i].part || fact_text(node_facts(&j->nodes[i], "blocks"), "bad"))
			return j->plan->world_size >= 0 &&
			       (int64_t)c->ranks.n >= j->plan->world_size;
	return true;
}

/* Is there a count of each rank, and of no other? */
static void rule_of_coverage(struct judging *j, const struct counted *c)
{
	int64_t world = j->plan->world_size, missing = 0, first = -1, next = 0, last = c->last;
	char *said = NULL;
	json_t *check;
	bool beyond;

	for (size_t i = 0; i < c->ranks.n; i++) {
		int64_t rank = c->ranks.v[i].rank;

		last = MAX(last, rank);
		if (world >= 0 && rank >= world)
			continue;
		first = first < 0 && rank > next ? next : first;
		missing += rank - next;
		next = rank + 1;
	}
	if (world > next) {
		first = first < 0 ? next : first;
		missing += world - next;
	}
	/* The counts of nodes that did not come are missing with them. */
	if (!is_whole(j, c))
		missing = 0;
	beyond = world >= 0 && last >= world;
	if (!missing && !beyond)
		return;
	if (world < 0)
		world = next;
	if (missing)
		said = xasprintf("%s of %s ranks ha%s no count, rank %s first", thousands(missing),
				 thousands(world), missing == 1 ? "s" : "ve", thousands(first));
	if (beyond) {
		char *both = xasprintf("counts up to rank %s, and the job has %s rank%s%s%s",
				       thousands(last), thousands(world), world == 1 ? "" : "s",
				       said ? "; " : "", said ? said : "");

		free(said);
		said = both;
	}
	check = check_put(j, INVARIANT_BLOCKS, "ranks", CHECK_REFUSE, said,
			  "a count of every rank, and of no other",
			  "shard the data for this world size, or give the counts of all ranks");
	if (missing)
		check_rank(j, check, first);
}

static char *count_text(int64_t n, const char *unit)
{
	size_t len = strlen(unit);

	if (n == 1 && len > 2 && unit[len - 1] == 's') /* "batches", "blocks" */
		len -= !strcmp(unit, "batches") ? 2 : 1;
	return xasprintf("%s %.*s", thousands(n), (int)len, unit);
}

static char *balance_text(const struct judging *j, const struct counted *c,
			  const struct even_balance *b, int64_t per_step)
{
	const struct preflight_node *f = node_of_rank(j, b->first_rank);
	const struct preflight_node *l = node_of_rank(j, b->last_rank);
	bool hosts = f && l && j->n > 1;

	if (b->least_steps == b->most_steps) {
		_cleanup_free_ char *step = count_text(per_step, c->unit);
		_cleanup_free_ char *each = count_text(b->least_steps, c->unit);
		_cleanup_free_ char *who =
		    b->ranks == 1 ? xstrdup("the one rank")
				  : xasprintf("all %s ranks", thousands((int64_t)b->ranks));

		if (per_step == 1)
			return xasprintf("%s ha%s %s", who, b->ranks == 1 ? "s" : "ve", each);
		return xasprintf("%s end%s after %s step%s of %s", who, b->ranks == 1 ? "s" : "",
				 thousands(b->least_steps), b->least_steps == 1 ? "" : "s", step);
	}
	return xasprintf("rank %" PRId64 "%s%s%s ends first, after %s step%s, rank %" PRId64
			 "%s%s%s last, after %s: %s step%s apart",
			 b->first_rank, hosts ? " (" : "", hosts ? f->host : "", hosts ? ")" : "",
			 thousands(b->least_steps), b->least_steps == 1 ? "" : "s", b->last_rank,
			 hosts ? " (" : "", hosts ? l->host : "", hosts ? ")" : "",
			 thousands(b->most_steps), thousands(b->most_steps - b->least_steps),
			 b->most_steps - b->least_steps == 1 ? "" : "s");
}

static void put_numbers(json_t *check, const struct even_balance *b, int64_t per_step)
{
	json_t *d = json_object();

	json_object_set_new(d, "blocks_per_step", json_integer(per_step));
	json_object_set_new(d, "ranks", json_integer((json_int_t)b->ranks));
	json_object_set_new(d, "first_rank", json_integer(b->first_rank));
	json_object_set_new(d, "last_rank", json_integer(b->last_rank));
	json_object_set_new(d, "least_steps", json_integer(b->least_steps));
	json_object_set_new(d, "most_steps", json_integer(b->most_steps));
	json_object_set_new(d, "least_blocks", json_integer(b->least));
	json_object_set_new(d, "most_blocks", json_integer(b->most));
	json_object_set_new(d, "ranks_short", json_integer((json_int_t)b->ranks_short));
	json_object_set_new(d, "evening_drops_blocks", json_integer(b->blocks_dropped));
	json_object_set_new(d, "evening_drops_share", json_real(b->share));
	json_object_set_new(check, "blocks", d);
}

/* Whole steps are equal but what is left is not: it matters only if the rest is run. */
static bool rest_differs(const struct counted *c, int64_t per_step, struct even_balance *ret)
{
	struct error ignored;

	return even_balance((const void *)c->ranks.v, c->ranks.n, per_step, false, EVEN_DROP, ret,
			    &ignored) >= 0 &&
	       ret->least_steps != ret->most_steps;
}

static char *balance_remedy(const struct counted *c, const struct even_balance *b, bool part)
{
	_cleanup_free_ char *dropped = count_text(b->blocks_dropped, c->unit);

	if (part)
		return xstrdup("see who is missing, or whose counts are");
	if (!b->least_steps)
		return xasprintf("give rank %" PRId64 " data, or take fewer %s a step",
				 b->first_rank, c->unit);
	return xasprintf("lockstep.even(loader) in the job, or lockstep even: all stop after %s "
			 "step%s, which drops %s (%.3g %%)",
			 thousands(b->least_steps), b->least_steps == 1 ? "" : "s", dropped,
			 100 * b->share);
}

static void rule_of_balance(struct judging *j, const struct counted *c)
{
	const struct preflight_plan *p = j->plan;
	int64_t per_step = p->blocks_per_step > 0 ? p->blocks_per_step : 1;
	struct even_balance b, kept;
	struct error error;
	bool uneven, rest, part = false;
	char *measured;
	json_t *check;

	if (even_balance((const void *)c->ranks.v, c->ranks.n, per_step, !p->keep_last, EVEN_DROP,
			 &b, &error) < 0) {
		check_put(j, INVARIANT_BLOCKS, "balance", CHECK_UNKNOWN, xstrdup(error.text),
			  "the same number of steps on every rank", "see the line above");
		return;
	}
	if (!b.most_steps) {
		_cleanup_free_ char *step = count_text(per_step, c->unit);

		check_put(j, INVARIANT_BLOCKS, "balance", CHECK_REFUSE,
			  xasprintf("no rank has enough for one step of %s: at most %s", step,
				    thousands(b.most)),
			  "a step on every rank", "look at the counts and at --blocks-per-step");
		return;
	}
	uneven = b.least_steps != b.most_steps;
	rest = !uneven && !p->keep_last && rest_differs(c, per_step, &kept);
	measured = balance_text(j, c, &b, per_step);
	if (uneven || rest) {
		char *more =
		    rest ? xasprintf("%s, but with a partial last step rank %" PRId64
				     " has one more than rank %" PRId64,
				     measured, kept.last_rank, kept.first_rank)
			 : xasprintf("%s (%s and %s %s, %s a step)%s", measured, thousands(b.least),
				     thousands(b.most), c->unit, thousands(per_step),
				     p->evened ? "; the job evens its steps" : "");

		free(measured);
		measured = more;
	}
	if (!is_whole(j, c) || (int64_t)c->ranks.n < j->plan->world_size) {
		char *more = xasprintf("of a part of the ranks only: %s", measured);

		free(measured);
		measured = more;
		part = true;
	}
	{
		_cleanup_free_ char *remedy = balance_remedy(c, &b, part && !uneven);

		check = check_put(
		    j, INVARIANT_BLOCKS, "balance",
		    !uneven && !rest ? part && !p->evened ? CHECK_UNKNOWN : CHECK_OK
		    : p->evened	     ? CHECK_OK
		    : uneven	     ? CHECK_REFUSE
				     : CHECK_WARN,
		    measured, "the same number of steps on every rank",
		    rest ? "drop the partial last step (drop_last=True), or lockstep.even(loader)"
			 : remedy);
	}
	put_numbers(check, &b, per_step);
	if (uneven) {
		check_rank(j, check, b.first_rank);
		check_rank(j, check, b.last_rank);
	}
}

/* What was odd in the files, once each. */
static void put_remarks(struct judging *j)
{
	const json_t *facts = j->n ? node_facts(&j->nodes[0], "blocks") : NULL, *remark;
	const json_t *remarks = json_object_get(facts, "remarks");
	size_t i;

	json_array_foreach(remarks, i, remark) if (json_is_string(remark) && i < 16)
	    check_put(j, INVARIANT_BLOCKS, "remark", CHECK_WARN, xstrdup(json_string_value(remark)),
		      "files without a doubt", "look at the file");
}

void rules_of_blocks(struct judging *j)
{
	struct counted c = { .last = -1 };

	rule_of_bad_counts(j);
	collect_counts(j, &c);
	if (c.ranks.n) {
		rule_of_balance(j, &c);
		rule_of_coverage(j, &c);
		put_remarks(j);
	} else if (j->plan->evened) {
		check_put(j, INVARIANT_BLOCKS, "balance", CHECK_OK,
			  xstrdup("not counted: the job evens its steps"),
			  "the same number of steps on every rank", NULL);
	} else if (!check_trouble(j, INVARIANT_BLOCKS)) {
		bool given = j->plan->n_blocks > 0;

		check_put(j, INVARIANT_BLOCKS, "balance",
			  given || j->plan->asked[INVARIANT_BLOCKS] ? CHECK_UNKNOWN : CHECK_WARN,
			  xstrdup(given ? "no counts came" : "not looked at: no counts were given"),
			  "the same number of steps on every rank",
			  "give counts or shards by --blocks, or --evened if the job evens itself");
	}
	free(c.ranks.v);
}
