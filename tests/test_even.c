/* SPDX-License-Identifier: Apache-2.0 */
/* test_even.c - the arithmetic of stopping together, and of parts that nodes counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "preflight/even.h"
#include "read/shards.h"

static struct rank_blocks row(int64_t rank, int64_t blocks, int64_t tokens)
{
	return (struct rank_blocks){ rank, blocks, -1, tokens, 1 };
}

static struct even_balance balance(const struct rank_blocks *v, size_t n, int64_t step,
				   bool drop_last, enum even_how how)
{
	struct even_balance b;
	struct error e = { 0 };

	assert_int_equal(even_balance(v, n, step, drop_last, how, &b, &e), 0);
	return b;
}

static void the_incident_stops_at_3854_seven_steps_apart(void **state)
{
	struct rank_blocks v[16];
	struct even_balance b;

	(void)state;
	for (int i = 0; i < 16; i++)
		v[i] = row(i, i == 3 ? 30835 : i == 11 ? 30888 : 30861, -1);
	b = balance(v, 16, 8, true, EVEN_DROP);
	assert_int_equal(b.first_rank, 3);
	assert_int_equal(b.last_rank, 11);
	assert_int_equal(b.least_steps, 3854);
	assert_int_equal(b.most_steps, 3861);
	assert_int_equal(b.stop_steps, 3854);
	assert_int_equal(b.dropped_most, 30888 - 3854 * 8);
	assert_false(b.balanced);
	/* The partial step of rank 3 is a step if it is kept. */
	b = balance(v, 16, 8, false, EVEN_DROP);
	assert_int_equal(b.stop_steps, 3855);
	assert_int_equal(b.blocks_partial, 0);
	assert_int_equal(b.dropped_most, 30888 - 3855 * 8);
}

static void what_is_dropped_and_added_is_counted_to_the_block(void **state)
{
	const struct rank_blocks v[] = { row(0, 17, 1700), row(1, 9, 900), row(2, 24, 2400) };
	struct even_balance b = balance(v, 3, 4, true, EVEN_DROP);

	(void)state;
	assert_int_equal(b.stop_steps, 2);
	assert_int_equal(b.blocks_dropped, 9 + 1 + 16);
	assert_int_equal(b.blocks_partial, 1 + 1);
	assert_int_equal(b.tokens_dropped, 2600);
	assert_int_equal(b.tokens, 5000);
	assert_float_equal(b.tokens_share, 0.52, 1e-9);
	b = balance(v, 3, 4, true, EVEN_PAD);
	assert_int_equal(b.stop_steps, 6);
	assert_int_equal(b.blocks_added, 7 + 15);
	assert_int_equal(b.blocks_dropped, 0);
	/* 25 blocks: six whole steps and one block that is dropped, whatever is done about the rest
	 */
	const struct rank_blocks w[] = { row(0, 25, -1), row(1, 9, -1) };

	b = balance(w, 2, 4, true, EVEN_REPEAT);
	assert_int_equal(b.blocks_added, 24 - 9);
	assert_int_equal(b.blocks_dropped, 1);
	assert_int_equal(b.tokens_dropped, -1);
}

static void equal_steps_of_unequal_blocks_are_balanced(void **state)
{
	const struct rank_blocks v[] = { row(0, 17, -1), row(1, 19, -1) };
	struct even_balance b = balance(v, 2, 8, true, EVEN_DROP);

	(void)state;
	assert_true(b.balanced);
	assert_false(b.ragged);
	assert_int_equal(b.ranks_short, 0);
	b = balance(v, 2, 8, false, EVEN_DROP);
	assert_true(b.balanced);
	assert_true(b.ragged);
}

static void numbers_that_cannot_be_are_refused(void **state)
{
	const struct rank_blocks bad[] = { row(0, -1, -1) };
	const struct rank_blocks huge[] = { row(0, INT64_MAX, -1), row(1, INT64_MAX, -1) };
	const struct rank_blocks good[] = { row(0, 1, -1) };
	struct even_balance b;
	struct error e = { 0 };

	(void)state;
	assert_int_equal(even_balance(NULL, 0, 1, true, EVEN_DROP, &b, &e), -ENODATA);
	assert_int_equal(even_balance(good, 1, 0, true, EVEN_DROP, &b, &e), -EINVAL);
	assert_int_equal(even_balance(bad, 1, 1, true, EVEN_DROP, &b, &e), -EINVAL);
	assert_int_equal(even_balance(huge, 2, 1, true, EVEN_DROP, &b, &e), -EINVAL);
	assert_int_equal(even_balance(good, 1, 1, true, EVEN_DROP, &b, NULL), 0);
}

static void parts_of_nodes_become_one(void **state)
{
	struct block_counts c = { 0 };
	struct rank_blocks v[] = { row(2, 7, -1), row(0, 5, -1), row(1, 6, -1),
				   row(2, 7, -1), row(2, 8, -1), row(-1, 8, -1) };
	struct error e = { 0 };

	(void)state;
	assert_int_equal(block_counts_add(&c, &v[0], "n1", &e), 0);
	assert_int_equal(block_counts_add(&c, &v[1], "n0", &e), 0);
	assert_int_equal(block_counts_whole(&c, -1, &e), -EINVAL);
	assert_non_null(strstr(e.text, "rank 1"));
	assert_int_equal(block_counts_add(&c, &v[2], "n0", &e), 0);
	/* Two nodes that see the same storage agree. */
	assert_int_equal(block_counts_add(&c, &v[3], "n2", &e), 0);
	assert_int_equal(c.ranks.n, 3);
	assert_int_equal(c.ranks.v[1].blocks, 6);
	assert_int_equal(block_counts_whole(&c, 3, &e), 0);
	assert_int_equal(block_counts_whole(&c, 4, &e), -EINVAL);
	assert_int_equal(block_counts_whole(&c, 2, &e), -EINVAL);
	assert_int_equal(block_counts_add(&c, &v[4], "n3", &e), -EINVAL);
	assert_non_null(strstr(e.text, "n3"));
	assert_int_equal(block_counts_add(&c, &v[5], "n3", &e), -EINVAL);
	block_counts_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_incident_stops_at_3854_seven_steps_apart),
		cmocka_unit_test(what_is_dropped_and_added_is_counted_to_the_block),
		cmocka_unit_test(equal_steps_of_unequal_blocks_are_balanced),
		cmocka_unit_test(numbers_that_cannot_be_are_refused),
		cmocka_unit_test(parts_of_nodes_become_one),
	};

	return cmocka_run_group_tests_name("even", tests, NULL, NULL);
}
