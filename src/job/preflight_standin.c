/* SPDX-License-Identifier: Apache-2.0 */
/* preflight_standin.c - until the readers of counts and the meeting are merged: to be deleted. */
#include <stdio.h>
#include "job/even.h"
#include "job/meet.h"
#include "read/shards.h"
int block_counts_read(const char *const *paths, size_t n, const struct block_options *options,
		      struct block_counts *ret, struct error *reterr)
{
	FILE *f = fopen(paths[0], "re");
	char line[256];
	int64_t row = 0;
	(void)n;
	(void)options;
	if (!f)
		return error_set(reterr, -errno, "%s: %s", paths[0], strerror(errno));
	*ret = (struct block_counts){ .unit = "blocks", .sequence_length = -1 };
	while (fgets(line, sizeof(line), f)) {
		long long a, b;
		int k = sscanf(line, "%lld,%lld", &a, &b);
		if (k < 1)
			continue;
		*vec_push(&ret->ranks) =
		    (struct rank_blocks){ .rank = k == 2 ? a : row, .blocks = k == 2 ? b : a };
		row++;
	}
	fclose(f);
	return ret->ranks.n ? 0 : error_set(reterr, -ENODATA, "%s: no counts", paths[0]);
}
void block_counts_done(struct block_counts *c)
{
	free(c->ranks.v);
	for (size_t i = 0; i < c->remarks.n; i++)
		free(c->remarks.v[i]);
	free(c->remarks.v);
	*c = (struct block_counts){ 0 };
}
int even_balance(const struct rank_blocks *ranks, size_t n, int64_t per, bool drop_last,
		 enum even_how how, struct even_balance *ret, struct error *reterr)
{
	struct even_balance b = { .ranks = n, .least = INT64_MAX, .least_steps = INT64_MAX };
	(void)how;
	(void)reterr;
	for (size_t i = 0; i < n; i++) {
		int64_t s = (ranks[i].blocks + (drop_last ? 0 : per - 1)) / per;
		b.total += ranks[i].blocks;
		if (ranks[i].blocks < b.least)
			b.least = ranks[i].blocks, b.first_rank = ranks[i].rank;
		if (ranks[i].blocks > b.most)
			b.most = ranks[i].blocks, b.last_rank = ranks[i].rank;
		b.least_steps = MIN(s, b.least_steps);
		b.most_steps = MAX(s, b.most_steps);
	}
	for (size_t i = 0; i < n; i++)
		b.blocks_dropped += ranks[i].blocks - MIN(ranks[i].blocks, b.least_steps * per);
	b.share = b.total ? (double)b.blocks_dropped / (double)b.total : 0;
	b.balanced = b.least_steps == b.most_steps;
	*ret = b;
	return 0;
}
int meet(const struct meet_plan *plan, const void *part, size_t part_len, meet_judge_fn judge,
	 void *user, struct buf *ret_verdict, struct error *reterr)
{
	struct meet_part p = {
		.presence = MEET_CAME, .part = part, .part_len = part_len, .clock_ns = INT64_MIN
	};
	if (plan->nodes > 1)
		return error_set(reterr, -ENOTSUP, "one node only, as yet");
	return judge(user, &p, 1, ret_verdict, reterr);
}
