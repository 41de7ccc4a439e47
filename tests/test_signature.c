/* SPDX-License-Identifier: Apache-2.0 */
/* test_signature.c - what may differ between two ranks that call the same operation. */
#include "model/signature.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static struct intern names;

static int done(void **state)
{
	(void)state;
	intern_done(&names);
	return 0;
}

static struct signature call(enum comm_op op, int64_t in, int64_t out)
{
	struct signature s = signature_unknown();

	s.op = op;
	s.in_elements = in;
	s.out_elements = out;
	return s;
}

/* Of one operation with these elements on two ranks; the same whoever comes first. */
static enum mismatch compare(enum comm_op op, int64_t in_a, int64_t out_a, int64_t in_b,
			     int64_t out_b)
{
	struct signature a = call(op, in_a, out_a), b = call(op, in_b, out_b);
	enum mismatch m = signature_compare(&names, &a, &b);

	assert_int_equal(signature_compare(&names, &b, &a), m);
	return m;
}

static void operations_of_different_kinds_differ(void **state)
{
	(void)state;
	for (enum comm_op a = COMM_ALL_REDUCE; a < COMM_OTHER; a++)
		for (enum comm_op b = COMM_ALL_REDUCE; b < COMM_OTHER; b++) {
			struct signature x = call(a, 8, 8), y = call(b, 8, 8);

			assert_int_equal(signature_compare(&names, &x, &y),
					 a == b ? MISMATCH_NONE : MISMATCH_OPERATION);
		}
}

static void what_is_not_known_differs_from_nothing(void **state)
{
	struct signature unknown = signature_unknown(), known = call(COMM_ALL_REDUCE, 8, 8);

	(void)state;
	assert_int_equal(signature_compare(&names, &unknown, &known), MISMATCH_NONE);
	assert_int_equal(compare(COMM_ALL_REDUCE, -1, -1, 8, 8), MISMATCH_NONE);
	assert_int_equal(compare(COMM_ALL_GATHER, 8, -1, 9, -1), MISMATCH_SIZE);
}

static void sizes_of_a_reduction_must_agree(void **state)
{
	(void)state;
	assert_int_equal(compare(COMM_ALL_REDUCE, 8, 8, 8, 8), MISMATCH_NONE);
	assert_int_equal(compare(COMM_ALL_REDUCE, 8, 8, 9, 9), MISMATCH_SIZE);
	assert_int_equal(compare(COMM_REDUCE, 8, 8, 9, 9), MISMATCH_SIZE);
}

/* Only the root has an output (input) there. */
static void rooted_operations_compare_what_every_rank_has(void **state)
{
	(void)state;
	assert_int_equal(compare(COMM_REDUCE, 8, 8, 8, 0), MISMATCH_NONE);
	assert_int_equal(compare(COMM_GATHER, 8, 32, 8, 0), MISMATCH_NONE);
	assert_int_equal(compare(COMM_GATHER, 8, 32, 9, 0), MISMATCH_SIZE);
	assert_int_equal(compare(COMM_SCATTER, 32, 8, 0, 8), MISMATCH_NONE);
	assert_int_equal(compare(COMM_SCATTER, 32, 8, 0, 9), MISMATCH_SIZE);
	assert_int_equal(compare(COMM_BROADCAST, 8, 8, 0, 8), MISMATCH_NONE);
	assert_int_equal(compare(COMM_BROADCAST, 8, 8, 0, 9), MISMATCH_SIZE);
}

static void uneven_all_gather_matches(void **state)
{
	(void)state;
	assert_int_equal(compare(COMM_ALL_GATHER, 100, 300, 150, 300), MISMATCH_NONE);
	assert_int_equal(compare(COMM_ALL_GATHER, 100, 400, 150, 600), MISMATCH_SIZE);
	assert_int_equal(compare(COMM_ALL_GATHER, 100, 400, 100, 400), MISMATCH_NONE);
}

static void uneven_reduce_scatter_matches(void **state)
{
	(void)state;
	assert_int_equal(compare(COMM_REDUCE_SCATTER, 300, 100, 300, 150), MISMATCH_NONE);
	assert_int_equal(compare(COMM_REDUCE_SCATTER, 400, 100, 600, 150), MISMATCH_SIZE);
}

static void any_sizes_of_an_all_to_all_match(void **state)
{
	(void)state;
	assert_int_equal(compare(COMM_ALL_TO_ALL, 1, 2, 3, 4), MISMATCH_NONE);
}

/* A log's OpType of a barrier is ALLREDUCE; that of a dump lists sizes. */
static void a_barrier_as_the_watchdog_calls_it_is_one(void **state)
{
	struct signature barrier = call(COMM_BARRIER, 1, 1), said = call(COMM_ALL_REDUCE, 1, 1);

	(void)state;
	assert_int_equal(signature_compare(&names, &barrier, &said), MISMATCH_NONE);
	assert_int_equal(signature_compare(&names, &said, &barrier), MISMATCH_NONE);
	said.in_elements = 2;
	assert_int_equal(signature_compare(&names, &barrier, &said), MISMATCH_OPERATION);
	said.in_elements = 1;
	said.in_sizes = intern_str(&names, "[[1]]");
	assert_int_equal(signature_compare(&names, &barrier, &said), MISMATCH_OPERATION);
}

static void a_barrier_and_a_pair_have_no_sizes_to_compare(void **state)
{
	(void)state;
	assert_int_equal(compare(COMM_BARRIER, 1, 1, 0, 0), MISMATCH_NONE);
	assert_int_equal(compare(COMM_SEND, 8, 8, 9, 9), MISMATCH_NONE);
}

static void types_must_agree_where_both_are_known(void **state)
{
	struct signature a = call(COMM_ALL_REDUCE, 8, 8), b = a;

	(void)state;
	a.in_dtypes = intern_str(&names, "Float");
	assert_int_equal(signature_compare(&names, &a, &b), MISMATCH_NONE);
	b.in_dtypes = intern_str(&names, "");
	assert_int_equal(signature_compare(&names, &a, &b), MISMATCH_NONE);
	b.in_dtypes = intern_str(&names, "Half");
	assert_int_equal(signature_compare(&names, &a, &b), MISMATCH_DTYPE);
	b.in_elements = 9; /* the size counts before the type */
	assert_int_equal(signature_compare(&names, &a, &b), MISMATCH_SIZE);
}

static void unknown_operations_are_compared_by_name(void **state)
{
	struct signature a = call(COMM_OTHER, 8, 8), b = a, known = call(COMM_ALL_REDUCE, 8, 8);

	(void)state;
	a.name = intern_str(&names, "nccl:window_put");
	b.name = intern_str(&names, "nccl:window_get");
	known.name = intern_str(&names, "nccl:all_reduce");
	assert_int_equal(signature_compare(&names, &a, &b), MISMATCH_OPERATION);
	assert_int_equal(signature_compare(&names, &a, &a), MISMATCH_NONE);
	assert_int_equal(signature_compare(&names, &a, &known), MISMATCH_OPERATION);
}

static void every_mismatch_has_a_name(void **state)
{
	(void)state;
	assert_string_equal(mismatch_name(MISMATCH_OPERATION), "operation");
	assert_string_equal(mismatch_name(MISMATCH_SIZE), "size");
	assert_string_equal(mismatch_name(MISMATCH_DTYPE), "dtype");
}

/* --- words --- */

static void assert_words(const struct signature *s, const char *expected)
{
	char buf[80];

	assert_string_equal(signature_words(&names, s, buf, sizeof(buf)), expected);
}

static void words_name_the_operation_and_its_size(void **state)
{
	struct signature s = call(COMM_ALL_REDUCE, 1024, 1024);

	(void)state;
	assert_words(&s, "all_reduce of 1024 elements");
	s.in_dtypes = intern_str(&names, "Float, Float");
	assert_words(&s, "all_reduce of 1024 Float");
	s.in_elements = s.out_elements = -1;
	assert_words(&s, "all_reduce");
	s = call(COMM_BARRIER, 1, 1);
	assert_words(&s, "barrier");
	s = call(COMM_BROADCAST, 1, 1);
	assert_words(&s, "broadcast of 1 element");
}

static void words_of_a_reduce_scatter_tell_the_part(void **state)
{
	struct signature s = call(COMM_REDUCE_SCATTER, 400, 100);

	(void)state;
	assert_words(&s, "reduce_scatter of 100 elements");
}

static void words_of_a_pair_tell_the_peer_within_its_group(void **state)
{
	struct signature s = call(COMM_SEND, 8, 8);

	(void)state;
	s.target = 2;
	assert_words(&s, "send to its rank 2 of 8 elements");
	s = call(COMM_RECV, 8, 8);
	s.source = 1;
	assert_words(&s, "recv from its rank 1 of 8 elements");
}

static void words_are_cut_at_the_buffer(void **state)
{
	struct signature s = call(COMM_ALL_REDUCE, 1024, 1024);
	char buf[8];

	(void)state;
	assert_string_equal(signature_words(&names, &s, buf, sizeof(buf)), "all_red");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations_of_different_kinds_differ),
		cmocka_unit_test(what_is_not_known_differs_from_nothing),
		cmocka_unit_test(sizes_of_a_reduction_must_agree),
		cmocka_unit_test(rooted_operations_compare_what_every_rank_has),
		cmocka_unit_test(uneven_all_gather_matches),
		cmocka_unit_test(uneven_reduce_scatter_matches),
		cmocka_unit_test(any_sizes_of_an_all_to_all_match),
		cmocka_unit_test(a_barrier_and_a_pair_have_no_sizes_to_compare),
		cmocka_unit_test(a_barrier_as_the_watchdog_calls_it_is_one),
		cmocka_unit_test(types_must_agree_where_both_are_known),
		cmocka_unit_test(unknown_operations_are_compared_by_name),
		cmocka_unit_test(every_mismatch_has_a_name),
		cmocka_unit_test(words_name_the_operation_and_its_size),
		cmocka_unit_test(words_of_a_reduce_scatter_tell_the_part),
		cmocka_unit_test(words_of_a_pair_tell_the_peer_within_its_group),
		cmocka_unit_test(words_are_cut_at_the_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, done);
}
