/* SPDX-License-Identifier: Apache-2.0 */
/* Who left the order where ranks wait for each other in a circle, and whose GPU has not begun. */
#include "hang_builder.h"

/* Rank 1 leaves out a call of the pair; the next ones come as usual, each for itself. */
static void who_left_out_a_call_is_told_by_the_steps_before(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "world", "0", "default_pg", "[0, 1, 2, 3]");
	case_group(&c, "a", "1", "a", "[0, 1]");
	case_group(&c, "b", "2", "b", "[2, 3]");
	dump(&c, 0,
	     "3(5(a:all_reduce) world:all_reduce) 4(a:all_reduce) a:all_reduce? world:all_reduce?");
	dump(&c, 1, "3(5(a:all_reduce) world:all_reduce) 4(a:all_reduce) world:all_reduce?");
	dumps(&c, 2, 3, "3(5(b:all_reduce) world:all_reduce) 5(b:all_reduce) world:all_reduce?");
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_DESYNC, "1");
	assert_true(proves(case_finding(&c, 0), "the calls of rank 1 in its last step"));
	case_done(&c);
}

/* In the first step nothing came before; but all others who stand there have called one more. */
static void who_left_out_a_call_is_told_by_those_beside_it(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "world", "0", "default_pg", "[0, 1, 2, 3]");
	case_group(&c, "a", "1", "tp", "[0, 1]");
	case_group(&c, "b", "2", "tp", "[2, 3]");
	dump(&c, 0, "2(a:all_reduce) a:all_reduce? world:all_reduce?");
	dump(&c, 1, "2(a:all_reduce) world:all_reduce?");
	dumps(&c, 2, 3, "3(b:all_reduce) world:all_reduce?");
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_DESYNC, "1");
	case_done(&c);
}

static void groups_of_one_kind_tell_by_their_sizes(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "a", "1", "dp", "[0, 1]");
	case_group(&c, "b", "2", "dp", "[2, 3]");
	dump(&c, 0, "a:all_gather/1>2 a:all_gather/2>4? a:all_gather/3>6?");
	dump(&c, 1, "a:all_gather/1>2 a:all_gather/3>6?");
	dumps(&c, 2, 3, "b:all_gather/1>2 b:all_gather/2>4 b:all_gather/3>6");
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_DESYNC, "1");
	case_done(&c);
}

/* Rank 0 receives where it never did, but without it 1 and 2 would still wait for each other. */
static void who_does_not_explain_the_circle_is_not_blamed(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "world", "0", "default_pg", "[0, 1, 2]");
	case_group(&c, "tp", "1", "tp", "[1, 2]");
	case_group(&c, "pp", "2", "pp", "[0, 1]");
	dump(&c, 0, "3(world:all_reduce) pp:recv(1)?");
	dump(&c, 1, "3(5(tp:all_reduce) world:all_reduce) 4(tp:all_reduce) tp:all_reduce?");
	dump(&c, 2, "3(5(tp:all_reduce) world:all_reduce) 4(tp:all_reduce) world:all_reduce?");
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_DESYNC, "2");
	case_done(&c);
}

/* Pieces of an all_to_all may differ, so that nothing shows in the place itself. */
static void who_comes_to_the_same_call_by_other_ones_is_told_by_its_steps(void **state)
{
	const char *const pieces[] = { "ep:all_to_all/4", "ep:all_to_all/8" };
	struct hang_case c;
	char calls[256];

	(void)state;
	for (int fault = 0; fault < 2; fault++) {
		case_new(&c);
		case_group(&c, "world", "0", "default_pg", "[0, 1, 2, 3]");
		case_group(&c, "ep", "1", "ep", "[0, 1, 2, 3]");
		for (int64_t rank = 0; rank < 4; rank++) {
			snprintf(calls, sizeof(calls),
				 "4(6(%s) world:all_reduce) 2(%s) %d(%s?) world:all_reduce?",
				 pieces[0], pieces[0], rank == 2 && fault ? 3 : 4,
				 pieces[rank == 2]);
			dump(&c, rank, calls);
		}
		if (fault) {
			assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_DESYNC, "2");
			assert_contains(case_finding(&c, 0)->summary, "by other calls than");
		} else {
			assert_nobody_named(&c, VERDICT_INSUFFICIENT);
		}
		case_done(&c);
	}
}

/* A save between the steps, and a job's own begin, make no step of another kind. */
static void what_comes_seldom_is_no_calls_too_many(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "world", "0", "default_pg", "[0, 1, 2, 3]");
	case_group(&c, "fsdp", "1", "fsdp", "[0, 1, 2, 3]");
	dumps(&c, 0, 2,
	      "world:barrier world:broadcast 3(2(fsdp:all_gather) fsdp:reduce_scatter) "
	      "world:barrier fsdp:all_gather?");
	dump(&c, 3,
	     "world:barrier world:broadcast 2(2(fsdp:all_gather) fsdp:reduce_scatter) "
	     "2(fsdp:all_gather) fsdp:reduce_scatter world:barrier world:barrier?");
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_DESYNC, "3");
	case_done(&c);
}

static void gpu_case(struct hang_case *c, bool twice, const char *others, const char *held)
{
	case_new(c);
	case_group(c, "world", "0", "default_pg", "[0, 1, 2]");
	case_group(c, "pp", "1", "pp", "[1, 2]");
	for (int64_t rank = 0; rank < 3; rank++)
		for (int64_t seconds = 0; seconds <= (twice ? 60 : 0); seconds += 60)
			dump_at(c, rank, seconds, rank == 2 ? held : others);
}

/* All have called it, and NCCL's timing shows whose GPU has not come to it. */
static void a_gpu_that_has_not_begun_is_waited_for(void **state)
{
	struct hang_case c;

	(void)state;
	gpu_case(&c, true, "2(world:all_reduce) world:all_reduce*",
		 "2(world:all_reduce) world:all_reduce?");
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "2");
	assert_true(proves(case_finding(&c, 0), "the GPU of rank 2 has not started it"));
	case_done(&c);
	gpu_case(&c, true, "2(world:all_reduce) world:all_reduce?",
		 "2(world:all_reduce) world:all_reduce?");
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_STUCK, "");
	case_done(&c);
	/* in one recording it may compute */
	gpu_case(&c, false, "2(world:all_reduce) world:all_reduce*",
		 "2(world:all_reduce) world:all_reduce?");
	assert_nobody_named(&c, VERDICT_INSUFFICIENT);
	case_done(&c);
}

static void the_gpu_of_a_peer_that_has_not_begun_is_waited_for(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "pp", "1", "pp", "[0, 1]");
	for (int64_t seconds = 0; seconds <= 60; seconds += 60) {
		dump_at(&c, 0, seconds, "2(pp:send(1)) pp:send(1)?");
		dump_at(&c, 1, seconds, "2(pp:recv(0)) pp:recv(0)*");
	}
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "0");
	case_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_left_out_a_call_is_told_by_the_steps_before),
		cmocka_unit_test(who_left_out_a_call_is_told_by_those_beside_it),
		cmocka_unit_test(groups_of_one_kind_tell_by_their_sizes),
		cmocka_unit_test(who_does_not_explain_the_circle_is_not_blamed),
		cmocka_unit_test(who_comes_to_the_same_call_by_other_ones_is_told_by_its_steps),
		cmocka_unit_test(what_comes_seldom_is_no_calls_too_many),
		cmocka_unit_test(a_gpu_that_has_not_begun_is_waited_for),
		cmocka_unit_test(the_gpu_of_a_peer_that_has_not_begun_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
