/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_rows.c - rows of counts by rank: put together, and looked at for holes.
 *
 * Rows are in the order of ranks, each rank once.
 */
#include "read/shards.h"

int block_counts_add(struct block_counts *c, const struct rank_blocks *row, const char *where,
		     struct error *reterr)
{
	size_t at = 0, end = c->ranks.n;

	if (row->rank < 0 || row->rank >= COUNT_RANKS_MOST || row->blocks < 0)
		return error_set(reterr, -EINVAL,
				 "%s: %" PRId64 " blocks of rank %" PRId64 " cannot be", where,
				 row->blocks, row->rank);
	while (at < end) {
		size_t mid = (at + end) / 2;

		if (c->ranks.v[mid].rank < row->rank)
			at = mid + 1;
		else
			end = mid;
	}
	if (at < c->ranks.n && c->ranks.v[at].rank == row->rank) {
		if (c->ranks.v[at].blocks == row->blocks)
			return 0;
		return error_set(reterr, -EINVAL,
				 "%s: %" PRId64 " blocks of rank %" PRId64
				 ", of which another node counted %" PRId64,
				 where, row->blocks, row->rank, c->ranks.v[at].blocks);
	}
	vec_grow(&c->ranks, 1);
	memmove(&c->ranks.v[at + 1], &c->ranks.v[at], (c->ranks.n - at) * sizeof(*c->ranks.v));
	c->ranks.v[at] = *row;
	c->ranks.n++;
	return 0;
}

int block_counts_whole(const struct block_counts *c, int64_t world_size, struct error *reterr)
{
	int64_t next = 0;

	for (size_t i = 0; i < c->ranks.n; i++) {
		if (c->ranks.v[i].rank > next)
			break;
		next = c->ranks.v[i].rank + 1;
	}
	if (c->ranks.n && c->ranks.v[c->ranks.n - 1].rank >= next)
		return error_set(reterr, -EINVAL,
				 "no count of rank %" PRId64
				 ", though there is one of rank %" PRId64,
				 next, c->ranks.v[c->ranks.n - 1].rank);
	if (world_size > 0 && next < world_size)
		return error_set(reterr, -EINVAL,
				 "no count of rank %" PRId64 " (of %" PRId64 " ranks)", next,
				 world_size);
	if (world_size > 0 && next > world_size)
		return error_set(reterr, -EINVAL,
				 "a count of rank %" PRId64 ", but the job has %" PRId64 " ranks",
				 next - 1, world_size);
	return 0;
}

void block_counts_done(struct block_counts *c)
{
	for (size_t i = 0; i < c->remarks.n; i++)
		free(c->remarks.v[i]);
	free(c->remarks.v);
	free(c->ranks.v);
	*c = (struct block_counts){ 0 };
}
