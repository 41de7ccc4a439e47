/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hang.c - who broke the lockstep, by who waits for whom: each claim with the smallest dumps
 * that show it. What logs, stacks and power say is in test_hang_words.c.
 */
#include "hang_builder.h"

static void world_of(struct hang_case *c, const char *ranks)
{
	case_new(c);
	case_group(c, "world", "0", "default_pg", ranks);
}

/* --- behind --- */

static void who_has_not_begun_is_behind(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	dumps(&c, 0, 2, "2(world:all_reduce) world:all_reduce?");
	dump(&c, 3, "2(world:all_reduce)");
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "3");
	assert_string_equal(case_finding(&c, 0)->victims, "0-2");
	case_done(&c);
}

/* One recording, no time-out: what others wait in may merely be slow. */
static void that_it_hangs_is_said_to_be_assumed(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	dumps(&c, 0, 2, "2(world:all_reduce) world:all_reduce?");
	dump(&c, 3, "2(world:all_reduce)");
	case_judge(&c);
	assert_true(among(c.report.assumed.v, c.report.assumed.n, "that it hangs"));
	case_done(&c);
}

static void a_later_retirement_is_not_behind(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	dumps(&c, 0, 2, "3(world:all_reduce) world:all_reduce?");
	dump(&c, 3, "2(world:all_reduce) 2(world:all_reduce?)");
	assert_nobody_named(&c, VERDICT_INSUFFICIENT);
	case_done(&c);
}

/* Rank 1 lists number 3, which rank 0 has finished: both wait in number 4, for rank 2. */
static void an_operation_finished_elsewhere_is_not_waited_in(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2]");
	dump(&c, 0, "3(world:all_reduce) world:all_reduce?");
	dump(&c, 1, "2(world:all_reduce) 2(world:all_reduce?)");
	dump(&c, 2, "3(world:all_reduce)");
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "2");
	assert_true(proves(case_finding(&c, 0), "ranks 0-1 wait in all_reduce of 1024 Float, "
						"sequence number 4"));
	case_done(&c);
}

/* The root of a broadcast leaves before the others have come: that says nothing of them. */
static void a_root_that_has_finished_proves_nobody_elses_arrival(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	dump(&c, 0, "2(world:all_reduce) world:broadcast");
	dumps(&c, 1, 2, "2(world:all_reduce) world:broadcast?");
	dump(&c, 3, "2(world:all_reduce)");
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "3");
	case_done(&c);
}

/* Gloo leaves an operation "scheduled" when it is done; that it was retired counts. */
static void what_is_retired_is_done_whatever_its_state_says(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, NULL);
	c.backend = "gloo";
	dumps(&c, 0, 2, "2(world:all_reduce.) world:all_reduce?");
	dump(&c, 3, "2(world:all_reduce.)");
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "3");
	case_done(&c);
}

/* 2 waits in B for 1, which began it too, but waits in A for 0 since before. */
static void first_unfinished_operation_counts_across_groups(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "A", "1", "a", "[0, 1]");
	case_group(&c, "B", "2", "b", "[1, 2]");
	dump(&c, 0, "2(A:all_reduce)");
	dump(&c, 1, "2(A:all_reduce B:all_reduce) A:all_reduce? B:all_reduce?");
	dump(&c, 2, "2(B:all_reduce) B:all_reduce?");
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "0");
	case_done(&c);
}

/* Several that are pending are normal on NCCL: the lowest is compared. */
static void of_several_pending_operations_the_lowest_counts(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2]");
	dump(&c, 0, "2(world:all_reduce) world:all_gather? world:reduce_scatter?");
	dump(&c, 1, "2(world:all_reduce) world:all_gather? world:reduce_scatter?");
	dump(&c, 2, "2(world:all_reduce)");
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "2");
	assert_string_equal(case_finding(&c, 0)->where_collective, "all_gather of 1024 Float");
	case_done(&c);
}

static void two_that_are_behind_in_one_place_are_named_together(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3, 4]");
	dumps(&c, 0, 2, "2(world:all_reduce) world:all_reduce?");
	dumps(&c, 3, 4, "2(world:all_reduce)");
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "3-4");
	case_done(&c);
}

/* Groups of one dimension each have their own culprit. */
static void two_groups_may_hang_by_two_ranks(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "dp0", "1", "mesh_dp", "[0, 2, 4]");
	case_group(&c, "dp1", "2", "mesh_dp", "[1, 3, 5]");
	dump(&c, 0, "2(dp0:all_reduce) dp0:all_reduce?");
	dump(&c, 2, "2(dp0:all_reduce) dp0:all_reduce?");
	dump(&c, 4, "2(dp0:all_reduce)");
	dump(&c, 1, "2(dp1:all_reduce)");
	dump(&c, 3, "2(dp1:all_reduce) dp1:all_reduce?");
	dump(&c, 5, "2(dp1:all_reduce) dp1:all_reduce?");
	assert_string_equal(culprits_of(&c, case_finding(&c, 0)), "1");
	assert_string_equal(culprits_of(&c, case_finding(&c, 1)), "4");
	assert_null(case_finding(&c, 2));
	case_done(&c);
}

/* Many ranks behind few in one recording are as well a job at work. */
static void a_majority_behind_in_one_recording_is_not_blamed(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	dump(&c, 0, "2(world:all_reduce) world:all_reduce?");
	dumps(&c, 1, 3, "2(world:all_reduce)");
	assert_nobody_named(&c, VERDICT_INSUFFICIENT);
	case_done(&c);
}

/* --- all have begun --- */

static void enqueued_is_not_arrived(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	dumps(&c, 0, 3, "2(world:all_reduce) world:all_reduce?");
	t = log_file(&c);
	for (int64_t rank = 0; rank < 4; rank++)
		timed_out(t, rank, 3);
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_STUCK, "");
	assert_true(among(case_finding(&c, 0)->next.v, case_finding(&c, 0)->next.n, "links"));
	assert_true(among(case_finding(&c, 0)->next.v, case_finding(&c, 0)->next.n,
			  "kernels before the collective"));
	case_done(&c);
}

static void nobody_behind_in_one_recording_tells_nothing(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	dumps(&c, 0, 3, "2(world:all_reduce) world:all_reduce?");
	assert_nobody_named(&c, VERDICT_INSUFFICIENT);
	assert_true(among(c.report.open.v, c.report.open.n, "take the dumps again"));
	case_done(&c);
}

/* --- two moments --- */

static void two_moments_that_moved_are_no_hang(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2]");
	for (int64_t rank = 0; rank < 3; rank++) {
		dump_at(&c, rank, 0,
			rank == 2 ? "2(world:all_reduce)"
				  : "2(world:all_reduce) world:all_reduce?");
		dump_at(&c, rank, 60,
			rank == 2 ? "5(world:all_reduce)"
				  : "5(world:all_reduce) world:all_reduce?");
	}
	assert_nobody_named(&c, VERDICT_HEALTHY);
	case_done(&c);
}

static void two_moments_that_did_not_move_are_stuck(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2]");
	for (int64_t rank = 0; rank < 3; rank++) {
		dump_at(&c, rank, 0, "2(world:all_reduce) world:all_reduce?");
		dump_at(&c, rank, 60, "2(world:all_reduce) world:all_reduce?");
	}
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_STUCK, "");
	case_done(&c);
}

/* A second recording without progress makes the majority behind count as well. */
static void two_moments_that_did_not_move_need_no_assumption(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2]");
	for (int64_t rank = 0; rank < 3; rank++)
		for (int64_t seconds = 0; seconds <= 60; seconds += 60)
			dump_at(&c, rank, seconds,
				rank == 2 ? "2(world:all_reduce)"
					  : "2(world:all_reduce) world:all_reduce?");
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "2");
	assert_false(among(c.report.assumed.v, c.report.assumed.n, "that it hangs"));
	case_done(&c);
}

/* --- sides --- */

static void the_minority_is_the_odd_one_whoever_comes_first(void **state)
{
	for (int64_t odd = 0; odd < 4; odd++) {
		struct hang_case c;
		char name[8];

		(void)state;
		world_of(&c, "[0, 1, 2, 3]");
		for (int64_t rank = 0; rank < 4; rank++)
			dump(&c, rank,
			     rank == odd ? "2(world:all_reduce) world:all_gather?"
					 : "2(world:all_reduce) world:all_reduce?");
		snprintf(name, sizeof(name), "%d", (int)odd);
		assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_DESYNC, name);
		assert_contains(case_finding(&c, 0)->summary, "operation differs");
		case_done(&c);
	}
}

static void another_size_of_the_same_operation_is_odd(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2]");
	dump(&c, 0, "2(world:all_reduce) world:all_reduce/100?");
	dumps(&c, 1, 2, "2(world:all_reduce) world:all_reduce/200?");
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_DESYNC, "0");
	assert_contains(case_finding(&c, 0)->summary, "size differs");
	case_done(&c);
}

static void another_type_of_the_same_operation_is_odd(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2]");
	dumps(&c, 0, 1, "2(world:all_reduce) world:all_reduce~Half?");
	dump(&c, 2, "2(world:all_reduce) world:all_reduce~BFloat16?");
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_DESYNC, "2");
	assert_contains(case_finding(&c, 0)->summary, "dtype differs");
	case_done(&c);
}

/* What all have finished did no harm, whatever they called it with. */
static void a_difference_that_everybody_finished_is_not_blamed(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2]");
	dump(&c, 0, "world:all_reduce/100 2(world:all_reduce)");
	dumps(&c, 1, 2, "world:all_reduce/200 2(world:all_reduce)");
	assert_nobody_named(&c, VERDICT_INSUFFICIENT);
	case_done(&c);
}

static void a_tie_is_said_as_a_tie(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1]");
	dump(&c, 0, "world:all_reduce world:all_gather?");
	dump(&c, 1, "world:all_reduce world:reduce_scatter?");
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_DESYNC, "0-1");
	assert_contains(case_finding(&c, 0)->summary, "nothing tells which of them");
	assert_true(case_finding(&c, 0)->confidence < 0.5);
	case_done(&c);
}

static void habit_decides_between_two(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1]");
	dump(&c, 0, "3(world:all_gather world:reduce_scatter) world:all_reduce?");
	dump(&c, 1, "3(world:all_gather world:reduce_scatter) world:all_gather?");
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_DESYNC, "0");
	case_done(&c);
}

static void siblings_decide_between_two(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "tp0", "1", "mesh_tp", "[0, 1]");
	case_group(&c, "tp1", "2", "mesh_tp", "[2, 3]");
	dump(&c, 0, "tp0:all_gather tp0:broadcast?");
	dump(&c, 1, "tp0:all_gather tp0:all_reduce?");
	dumps(&c, 2, 3, "tp1:all_gather tp1:broadcast");
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_DESYNC, "1");
	case_done(&c);
}

static void uneven_parts_of_an_all_gather_are_no_difference(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2]");
	dump(&c, 0, "2(world:all_reduce) world:all_gather/100>300?");
	dump(&c, 1, "2(world:all_reduce) world:all_gather/150>300?");
	dump(&c, 2, "2(world:all_reduce) world:all_gather/50>300?");
	assert_nobody_named(&c, VERDICT_INSUFFICIENT);
	case_done(&c);
}

static void pieces(struct testimony *t, const char *in, const char *out)
{
	t->signatures.v[t->signatures.n - 1].in_sizes = told(t, in);
	t->signatures.v[t->signatures.n - 1].out_sizes = told(t, out);
}

/* Rank 2 expects 3 of rank 0, which sends 1 of its 6; totals and all other pairs agree. */
static void pieces_of_an_all_to_all_must_fit(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2]");
	pieces(dump(&c, 0, "world:all_to_all/6?"), "[[2], [2], [2]]", "[[2], [2], [2]]");
	pieces(dump(&c, 1, "world:all_to_all/6?"), "[[2], [2], [2]]", "[[2], [2], [2]]");
	pieces(dump(&c, 2, "world:all_to_all/6?"), "[[2], [2], [2]]", "[[3], [1], [2]]");
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_DESYNC, "2");
	assert_contains(case_finding(&c, 0)->summary, "size differs");
	case_done(&c);
}

static void an_all_to_all_of_unequal_pieces_that_fit_is_no_difference(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1]");
	pieces(dump(&c, 0, "world:all_to_all/6>5?"), "[[1], [5]]", "[[1], [4]]");
	pieces(dump(&c, 1, "world:all_to_all/7>8?"), "[[4], [3]]", "[[5], [3]]");
	assert_nobody_named(&c, VERDICT_INSUFFICIENT);
	case_done(&c);
}

/* --- cycles --- */

static void a_cycle_of_groups_names_the_leaver(void **state)
{
	for (int64_t leaver = 0; leaver < 4; leaver += 3) {
		struct hang_case c;

		(void)state;
		world_of(&c, "[0, 1, 2, 3]");
		case_group(&c, "fsdp", "1", "fsdp", "[0, 1, 2, 3]");
		for (int64_t rank = 0; rank < 4; rank++)
			dump(&c, rank,
			     rank == leaver
				 ? "world:barrier 3(fsdp:all_gather fsdp:reduce_scatter) "
				   "world:barrier?"
				 : "world:barrier 3(fsdp:all_gather fsdp:reduce_scatter) "
				   "fsdp:all_gather?");
		assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_DESYNC, leaver ? "3" : "0");
		case_done(&c);
	}
}

static void whoever_leaves_near_the_end_had_fewer_steps(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	case_group(&c, "fsdp", "1", "fsdp", "[0, 1, 2, 3]");
	dumps(&c, 0, 2, "3(fsdp:all_gather fsdp:reduce_scatter) fsdp:all_gather?");
	dump(&c, 3, "3(fsdp:all_gather fsdp:reduce_scatter) world:barrier?");
	steps_of(log_file(&c), -1, 190, 199, 200, -1);
	assert_named(&c, VERDICT_HUNG, CAUSE_UNEVEN_STEPS, "3");
	case_done(&c);
}

/* Each pair of groups is used A, B; rank 1 used them B, A. */
static void who_turns_the_order_of_two_groups_around_is_odd(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "A", "1", "a", "[0, 1]");
	case_group(&c, "B", "2", "b", "[0, 1]");
	dump(&c, 0, "3(A:all_reduce B:all_reduce) A:all_reduce?");
	dump(&c, 1, "3(A:all_reduce B:all_reduce) B:all_reduce?");
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_DESYNC, "1");
	case_done(&c);
}

/* 0 waits for 2, 2 for 1, 1 for 0: rank 0 went on to C before A. */
static void a_cycle_of_three_groups_names_the_leaver(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "A", "1", "a", "[0, 1]");
	case_group(&c, "B", "2", "b", "[1, 2]");
	case_group(&c, "C", "3", "c", "[0, 2]");
	dump(&c, 0, "3(A:all_reduce C:all_reduce) C:all_reduce?");
	dump(&c, 1, "3(A:all_reduce B:all_reduce) A:all_reduce?");
	dump(&c, 2, "3(B:all_reduce C:all_reduce) B:all_reduce?");
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_DESYNC, "0");
	case_done(&c);
}

/* --- absence --- */

static void an_absent_rank_is_named_where_its_peers_wait(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	dumps(&c, 0, 2, "2(world:all_reduce) world:all_reduce?");
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "3");
	assert_true(proves(case_finding(&c, 0), "nothing that was given is of rank 3"));
	case_done(&c);
}

static void an_absent_one_of_a_pair_is_named_where_others_left_evidence(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "tp0", "1", "mesh_tp", "[0, 1]");
	case_group(&c, "tp1", "2", "mesh_tp", "[2, 3]");
	dumps(&c, 0, 1, "2(tp0:all_reduce)");
	dump(&c, 2, "2(tp1:all_reduce) tp1:all_reduce?");
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "3");
	case_done(&c);
}

static void a_lost_dump_is_not_blamed_if_one_that_was_seen_explains_it(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3, 4]");
	dumps(&c, 0, 2, "2(world:all_reduce) world:all_reduce?");
	dump(&c, 4, "2(world:all_reduce)");
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "4");
	assert_true(among(c.report.missing.v, c.report.missing.n, "rank 3"));
	case_done(&c);
}

/* An empty dump is there: its rank lived and had begun nothing. */
static void an_empty_dump_is_no_absence(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	dumps(&c, 0, 2, "world:all_reduce?");
	dump(&c, 3, "");
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "3");
	assert_false(proves(case_finding(&c, 0), "nothing that was given is of rank 3"));
	case_done(&c);
}

static void what_a_cut_dump_lacks_proves_nothing(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	dumps(&c, 0, 2, "2(world:all_reduce) world:all_reduce?");
	dump(&c, 3, "world:all_reduce");
	cut_short(&c);
	assert_nobody_named(&c, VERDICT_INSUFFICIENT);
	case_done(&c);
}

static void a_wholly_absent_node_is_not_blamed(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]");
	dumps(&c, 0, 7, "2(world:all_reduce) world:all_reduce?");
	assert_nobody_named(&c, VERDICT_INSUFFICIENT);
	assert_true(among(c.report.missing.v, c.report.missing.n, "whole nodes"));
	case_done(&c);
}

/* Hosts are known: rank 3 is the only one of its node that nothing is of. */
static void one_of_a_node_that_left_evidence_is_blamed(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3, 4, 5, 6, 7]");
	for (int64_t rank = 0; rank < 8; rank++) {
		struct testimony *t;

		if (rank == 3)
			continue;
		t = dump(&c, rank, "2(world:all_reduce) world:all_reduce?");
		t->host = told(t, rank < 4 ? "node-a" : "node-b");
	}
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "3");
	case_done(&c);
}

/* --- Gloo --- */

/* Ranks 0 to 3 show groups of four neighbours: rank 7 completes the other one. */
static void members_of_gloo_groups_follow_the_pattern(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	c.backend = "gloo";
	case_group(&c, "tp0", "1", "mesh_tp", NULL);
	case_group(&c, "tp1", "2", "mesh_tp", NULL);
	dumps(&c, 0, 3, "2(tp0:all_reduce.)");
	dumps(&c, 4, 6, "2(tp1:all_reduce.) tp1:all_reduce?");
	c.files.v[0]->world_size = 8;
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "7");
	assert_true(
	    among(c.report.assumed.v, c.report.assumed.n, "from the pattern of the others"));
	case_done(&c);
}

/* --- send and recv --- */

static void who_does_not_send_is_behind(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "pp", "1", "pp", "[4, 5, 6]");
	dump(&c, 4, "2(pp:send(1))");
	dump(&c, 5, "2(pp:recv(0) pp:send(2)) pp:recv(0)?");
	dump(&c, 6, "2(pp:recv(1)) pp:recv(1)?");
	/* the pipeline is all that there is: ranks 0 to 3 have no part in it */
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "4");
	case_done(&c);
}

/* The host of rank 0 has called its send: its GPU waits in an all-reduce for rank 1. */
static void a_send_that_is_only_enqueued_keeps_its_receiver(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "pp", "7", "pp", "[0, 2]");
	case_group(&c, "tp", "8", "tp", "[0, 1]");
	dump(&c, 0, "2(tp:all_reduce pp:send(1)) tp:all_reduce? pp:send(1)?");
	dump(&c, 1, "2(tp:all_reduce)");
	dump(&c, 2, "2(pp:recv(0)) pp:recv(0)?");
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "1");
	case_done(&c);
}

/* Rank 2 has gone to the evaluation; ranks 0 and 1 wait for it in two groups. */
static void who_differs_within_a_circle_is_a_side_of_his_own(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "dp", "7", "dp", "[0, 1, 2, 3, 4]");
	case_group(&c, "ep", "8", "ep", "[1, 2]");
	dump(&c, 0, "4(dp:all_reduce/9) dp:all_reduce/9?");
	dump(&c, 1, "4(ep:all_to_all/5 dp:all_reduce/9) ep:all_to_all/5? dp:all_reduce/9?");
	dump(&c, 2, "4(ep:all_to_all/5 dp:all_reduce/9) dp:all_reduce/1?");
	dumps(&c, 3, 4, "4(dp:all_reduce/9) dp:all_reduce/9?");
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_DESYNC, "2");
	case_done(&c);
}

static void send_and_recv_that_meet_are_no_wait(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	case_new(&c);
	case_group(&c, "pp", "1", "pp", "[0, 1]");
	dump(&c, 0, "2(pp:send(1)) pp:send(1)?");
	dump(&c, 1, "2(pp:recv(0)) pp:recv(0)?");
	t = log_file(&c);
	timed_out(t, 0, 3);
	timed_out(t, 1, 3);
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_STUCK, "");
	case_done(&c);
}

/* Both receive from each other: neither is first. */
static void two_that_receive_from_each_other_are_a_tie(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "pp", "1", "pp", "[0, 1]");
	dump(&c, 0, "pp:recv(1)?");
	dump(&c, 1, "pp:recv(0)?");
	assert_named(&c, VERDICT_HUNG, CAUSE_COLLECTIVE_DESYNC, "0-1");
	assert_contains(case_finding(&c, 0)->summary, "nothing tells");
	case_done(&c);
}

/* --- rings --- */

/* Rank 0's ring goes back to number 1, that of rank 2 begins with number 4 as its record 40. */
static void a_ring_that_wrapped_is_aligned_by_number(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2]");
	dumps(&c, 0, 1,
	      "world:all_reduce world:all_gather world:all_reduce world:all_gather "
	      "world:all_reduce world:all_gather?");
	dump(&c, 2, "#40 world@4 world:all_gather world:all_reduce");
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "2");
	case_done(&c);
}

/* Number 2 has two parts; the ring of rank 1 begins with the second of them. */
static void coalesced_parts_cut_by_the_ring_are_no_difference(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2]");
	dump(&c, 0, "world:all_reduce world:all_gather/8 +world:all_gather/16 world:all_reduce?");
	dump(&c, 1, "#2 world@2 world:all_gather/16 world:all_reduce?");
	dump(&c, 2, "world:all_reduce world:all_gather/8 +world:all_gather/16 world:all_reduce?");
	assert_nobody_named(&c, VERDICT_INSUFFICIENT);
	case_done(&c);
}

/* Numbers may have holes: other groups of the same communicator count in between. */
static void holes_in_the_numbers_are_no_difference(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1]");
	dump(&c, 0, "world:all_reduce world@5 world:all_gather world@9 world:all_reduce?");
	dump(&c, 1, "world:all_reduce world@5 world:all_gather world@9 world:all_reduce?");
	assert_nobody_named(&c, VERDICT_INSUFFICIENT);
	case_done(&c);
}

/* The status counts on where the entries do not show it. */
static void the_status_tells_what_the_ring_has_lost(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2]");
	dumps(&c, 0, 1, "2(world:all_reduce) world:all_reduce?");
	status(&c, dump(&c, 2, ""), "world", 2, 2, 2);
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "2");
	assert_true(proves(case_finding(&c, 0), "had begun only number 2"));
	case_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_has_not_begun_is_behind),
		cmocka_unit_test(that_it_hangs_is_said_to_be_assumed),
		cmocka_unit_test(a_later_retirement_is_not_behind),
		cmocka_unit_test(an_operation_finished_elsewhere_is_not_waited_in),
		cmocka_unit_test(a_root_that_has_finished_proves_nobody_elses_arrival),
		cmocka_unit_test(what_is_retired_is_done_whatever_its_state_says),
		cmocka_unit_test(first_unfinished_operation_counts_across_groups),
		cmocka_unit_test(of_several_pending_operations_the_lowest_counts),
		cmocka_unit_test(two_that_are_behind_in_one_place_are_named_together),
		cmocka_unit_test(two_groups_may_hang_by_two_ranks),
		cmocka_unit_test(a_majority_behind_in_one_recording_is_not_blamed),
		cmocka_unit_test(enqueued_is_not_arrived),
		cmocka_unit_test(nobody_behind_in_one_recording_tells_nothing),
		cmocka_unit_test(two_moments_that_moved_are_no_hang),
		cmocka_unit_test(two_moments_that_did_not_move_are_stuck),
		cmocka_unit_test(two_moments_that_did_not_move_need_no_assumption),
		cmocka_unit_test(the_minority_is_the_odd_one_whoever_comes_first),
		cmocka_unit_test(another_size_of_the_same_operation_is_odd),
		cmocka_unit_test(another_type_of_the_same_operation_is_odd),
		cmocka_unit_test(a_difference_that_everybody_finished_is_not_blamed),
		cmocka_unit_test(a_tie_is_said_as_a_tie),
		cmocka_unit_test(habit_decides_between_two),
		cmocka_unit_test(siblings_decide_between_two),
		cmocka_unit_test(uneven_parts_of_an_all_gather_are_no_difference),
		cmocka_unit_test(pieces_of_an_all_to_all_must_fit),
		cmocka_unit_test(an_all_to_all_of_unequal_pieces_that_fit_is_no_difference),
		cmocka_unit_test(a_cycle_of_groups_names_the_leaver),
		cmocka_unit_test(whoever_leaves_near_the_end_had_fewer_steps),
		cmocka_unit_test(who_turns_the_order_of_two_groups_around_is_odd),
		cmocka_unit_test(a_cycle_of_three_groups_names_the_leaver),
		cmocka_unit_test(an_absent_rank_is_named_where_its_peers_wait),
		cmocka_unit_test(an_absent_one_of_a_pair_is_named_where_others_left_evidence),
		cmocka_unit_test(a_lost_dump_is_not_blamed_if_one_that_was_seen_explains_it),
		cmocka_unit_test(an_empty_dump_is_no_absence),
		cmocka_unit_test(what_a_cut_dump_lacks_proves_nothing),
		cmocka_unit_test(a_wholly_absent_node_is_not_blamed),
		cmocka_unit_test(one_of_a_node_that_left_evidence_is_blamed),
		cmocka_unit_test(members_of_gloo_groups_follow_the_pattern),
		cmocka_unit_test(who_does_not_send_is_behind),
		cmocka_unit_test(a_send_that_is_only_enqueued_keeps_its_receiver),
		cmocka_unit_test(who_differs_within_a_circle_is_a_side_of_his_own),
		cmocka_unit_test(send_and_recv_that_meet_are_no_wait),
		cmocka_unit_test(two_that_receive_from_each_other_are_a_tie),
		cmocka_unit_test(a_ring_that_wrapped_is_aligned_by_number),
		cmocka_unit_test(coalesced_parts_cut_by_the_ring_are_no_difference),
		cmocka_unit_test(holes_in_the_numbers_are_no_difference),
		cmocka_unit_test(the_status_tells_what_the_ring_has_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
