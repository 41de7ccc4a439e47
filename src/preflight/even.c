/* SPDX-License-Identifier: Apache-2.0 */
/*
 * even.c - the arithmetic of stopping together.
 *
 * The invariant: under every plan all ranks make the same number of steps, and what is dropped and
 * added is counted in blocks, to the block.
 */
#include "preflight/even.h"

#include "read/shards.h"

const char *even_how_name(enum even_how how)
{
	static const char *const names[EVEN_HOWS] = { "drop", "pad", "repeat" };

	return how < EVEN_HOWS ? names[how] : "unknown";
}

int64_t even_steps(int64_t blocks, int64_t blocks_per_step, bool drop_last)
{
	int64_t whole = blocks / blocks_per_step;

	return whole + (!drop_last && blocks % blocks_per_step ? 1 : 0);
}

/* Who ends first and last: the lowest rank where several do. */
static void find_ends(const struct rank_blocks *ranks, size_t n, struct even_balance *b)
{
	const struct rank_blocks *least = ranks, *most = ranks;

	for (size_t i = 0; i < n; i++) {
		if (ranks[i].blocks < least->blocks)
			least = &ranks[i];
		if (ranks[i].blocks > most->blocks)
			most = &ranks[i];
		b->total += ranks[i].blocks;
	}
	b->least = least->blocks;
	b->most = most->blocks;
	b->first_rank = least->rank;
	b->last_rank = most->rank;
}

static void drop_on(const struct rank_blocks *r, int64_t keep, int64_t blocks_per_step,
		    bool drop_last, struct even_balance *b)
{
	int64_t dropped = r->blocks - keep;

	if (dropped <= 0)
		return;
	b->blocks_dropped += dropped;
	if (drop_last)
		b->blocks_partial += r->blocks % blocks_per_step;
	if (dropped > b->dropped_most) {
		b->dropped_most = dropped;
		b->dropped_most_rank = r->rank;
	}
	if (b->tokens >= 0 && r->blocks)
		b->tokens_dropped +=
		    (int64_t)((double)r->tokens * (double)dropped / (double)r->blocks + 0.5);
}

/* All ranks run stop_steps steps; the last one of the longest may be partial. */
static void make_plan(const struct rank_blocks *ranks, size_t n, int64_t blocks_per_step,
		      bool drop_last, enum even_how how, struct even_balance *b)
{
	int64_t full;

	b->stop_steps = how == EVEN_DROP ? b->least_steps : b->most_steps;
	full = b->stop_steps * blocks_per_step;
	for (size_t i = 0; i < n; i++) {
		int64_t steps = even_steps(ranks[i].blocks, blocks_per_step, drop_last);

		if (steps < b->stop_steps)
			b->blocks_added += MIN(full, b->most) - ranks[i].blocks;
		else
			drop_on(&ranks[i], full, blocks_per_step, drop_last, b);
	}
	b->share = b->total ? (double)(b->blocks_dropped + b->blocks_added) / (double)b->total : 0;
	if (b->tokens < 0)
		b->tokens_dropped = -1;
	else if (b->tokens)
		b->tokens_share = (double)b->tokens_dropped / (double)b->tokens;
}

static int check(const struct rank_blocks *ranks, size_t n, int64_t blocks_per_step,
		 struct error *reterr)
{
	int64_t total = 0;

	if (!n)
		return error_set(reterr, -ENODATA, "no rank's blocks are known");
	if (blocks_per_step <= 0 || blocks_per_step > COUNT_BLOCKS_MOST)
		return error_set(reterr, -EINVAL, "%" PRId64 " blocks a step cannot be",
				 blocks_per_step);
	for (size_t i = 0; i < n; i++) {
		if (ranks[i].blocks < 0)
			return error_set(reterr, -EINVAL, "rank %" PRId64 " has %" PRId64 " blocks",
					 ranks[i].rank, ranks[i].blocks);
		if (ranks[i].blocks > COUNT_TOKENS_MOST ||
		    __builtin_add_overflow(total, ranks[i].blocks, &total))
			return error_set(reterr, -EINVAL,
					 "rank %" PRId64 " has more blocks than any job",
					 ranks[i].rank);
	}
	return 0;
}

int even_balance(const struct rank_blocks *ranks, size_t n, int64_t blocks_per_step, bool drop_last,
		 enum even_how how, struct even_balance *ret, struct error *reterr)
{
	struct even_balance b = { .ranks = n, .balanced = true, .dropped_most_rank = -1 };
	int r = check(ranks, n, blocks_per_step, reterr);

	if (r < 0)
		return r;
	find_ends(ranks, n, &b);
	b.least_steps = even_steps(b.least, blocks_per_step, drop_last);
	b.most_steps = even_steps(b.most, blocks_per_step, drop_last);
	b.balanced = b.least_steps == b.most_steps;
	b.ragged = b.balanced && !drop_last && b.least != b.most;
	for (size_t i = 0; i < n; i++) {
		b.ranks_short +=
		    even_steps(ranks[i].blocks, blocks_per_step, drop_last) < b.most_steps;
		if (ranks[i].tokens < 0 || b.tokens < 0 ||
		    __builtin_add_overflow(b.tokens, ranks[i].tokens, &b.tokens))
			b.tokens = -1;
	}
	make_plan(ranks, n, blocks_per_step, drop_last, how, &b);
	*ret = b;
	return 0;
}
