/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hang_words.c - what logs, stacks, power and counts add to who waits for whom, and what they
 * tell alone.
 */
#include "hang_builder.h"

#define IN_USERS_CODE "step_impl ops/custom.py:12|train train.py:40|<module> train.py:90"
#define IN_OTHER_CODE "sum_of ops/other.py:7|train train.py:44|<module> train.py:90"
#define IN_BARRIER                                                                                 \
	"barrier torch/distributed/distributed_c10d.py:4551|save_checkpoint train.py:16|train "    \
	"train.py:44|<module> train.py:90"
#define IN_SAVE                                                                                    \
	"save torch/serialization.py:943|save_checkpoint train.py:14|train train.py:44|<module> "  \
	"train.py:90"

static void world_of(struct hang_case *c, const char *ranks)
{
	case_new(c);
	case_group(c, "world", "0", "default_pg", ranks);
}

/* Ranks 0 to 2 wait in number 3 for rank 3, which has a dump. */
static void rank_3_behind(struct hang_case *c)
{
	world_of(c, "[0, 1, 2, 3]");
	dumps(c, 0, 2, "2(world:all_reduce) world:all_reduce?");
	dump(c, 3, "2(world:all_reduce)");
}

/* --- stacks --- */

static void a_stack_says_what_keeps_the_one_that_is_behind(void **state)
{
	struct hang_case c;

	(void)state;
	rank_3_behind(&c);
	stack(&c, 0, IN_ALL_REDUCE);
	stack(&c, 3, IN_DATA_LOADER);
	assert_named(&c, VERDICT_HUNG, CAUSE_DATA_STARVED, "3");
	assert_string_equal(case_finding(&c, 0)->where_phase, doing_name(DOING_DATA));
	case_done(&c);
}

static void stacks_alone_name_the_one_that_is_in_no_collective(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	for (int64_t rank = 0; rank < 4; rank++)
		stack(&c, rank, rank == 1 ? IN_DATA_LOADER : IN_ALL_REDUCE);
	assert_named(&c, VERDICT_HUNG, CAUSE_DATA_STARVED, "1");
	case_done(&c);
}

static void the_odd_stack_comes_first(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	for (int64_t rank = 0; rank < 4; rank++)
		stack(&c, rank, rank == 1 ? IN_DATA_LOADER : IN_ALL_REDUCE);
	case_judge(&c);
	assert_int_equal(c.report.stacks.n, 2);
	assert_string_equal(c.report.stacks.v[0].who, "rank 1");
	assert_true(c.report.stacks.v[0].odd);
	assert_string_equal(c.report.stacks.v[1].who, "ranks 0,2-3");
	assert_false(c.report.stacks.v[1].odd);
	case_done(&c);
}

static void all_in_one_collective_name_nobody(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	for (int64_t rank = 0; rank < 4; rank++)
		stack(&c, rank, IN_ALL_REDUCE);
	assert_nobody_named(&c, VERDICT_INSUFFICIENT);
	case_done(&c);
}

/* Ranks 0 to 2 wait by their dumps, in a place whose frames tell nothing; rank 3 stands there. */
static void equal_stacks_wait_alike(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	dumps(&c, 0, 2, "2(world:all_reduce) world:all_reduce?");
	for (int64_t rank = 0; rank < 4; rank++)
		stack(&c, rank, IN_USERS_CODE);
	assert_nobody_named(&c, VERDICT_INSUFFICIENT);
	case_done(&c);
}

static void a_stack_in_code_of_its_own_does_not_wait(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	dumps(&c, 0, 2, "2(world:all_reduce) world:all_reduce?");
	for (int64_t rank = 0; rank < 3; rank++)
		stack(&c, rank, IN_USERS_CODE);
	stack(&c, 3, IN_OTHER_CODE);
	assert_named(&c, VERDICT_HUNG, CAUSE_HOST_STALL, "3");
	assert_string_equal(case_finding(&c, 0)->cause_detail, "python");
	case_done(&c);
}

static void stacks_of_all_others_make_a_missing_process_a_dead_rank(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	dumps(&c, 0, 2, "2(world:all_reduce) world:all_reduce?");
	for (int64_t rank = 0; rank < 3; rank++)
		stack(&c, rank, IN_ALL_REDUCE);
	assert_named(&c, VERDICT_HUNG, CAUSE_DEAD_RANK, "3");
	case_done(&c);
}

/* --- failures and their echoes --- */

static void echoes_are_not_causes(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	case_new(&c);
	t = log_file(&c);
	for (int64_t rank = 0; rank < 4; rank++)
		if (rank != 2) {
			says(t, SAY_PEER_LOST, rank, "Connection closed by peer");
			says(t, SAY_EXCEPTION, rank, "RuntimeError: Connection closed by peer");
			says(t, SAY_EXIT, rank, NULL)->value = 1;
		}
	says(t, SAY_EXCEPTION, 2, "ValueError: bad shard")->what = told(t, "ValueError");
	assert_named(&c, VERDICT_CRASHED, CAUSE_EXCEPTION, "2");
	assert_contains(case_finding(&c, 0)->summary, "ValueError: bad shard");
	case_done(&c);
}

static void who_is_ended_by_its_launcher_did_not_fail(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	case_new(&c);
	t = log_file(&c);
	for (int64_t rank = 0; rank < 3; rank++) {
		says(t, SAY_STOPPED, rank, "Sending process closing signal SIGTERM")->value = 15;
		says(t, SAY_EXIT, rank, NULL)->value = -15;
	}
	says(t, SAY_EXIT, 3, "failed (exitcode: -9)")->value = -9;
	assert_named(&c, VERDICT_CRASHED, CAUSE_DEAD_RANK, "3");
	assert_contains(case_finding(&c, 0)->summary, "signal 9");
	case_done(&c);
}

static void the_launchers_first_failure_outweighs_the_order_of_lines(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	case_new(&c);
	t = log_file(&c);
	for (int64_t rank = 0; rank < 2; rank++)
		says(t, SAY_EXCEPTION, rank, "KeyError")->what = told(t, "KeyError");
	for (int64_t rank = 2; rank < 5; rank++)
		says(t, SAY_EXCEPTION, rank, "ValueError")->what = told(t, "ValueError");
	says(t, SAY_FIRST_FAILURE, 4, "Root Cause (first observed failure)")->value = 1;
	assert_named(&c, VERDICT_CRASHED, CAUSE_EXCEPTION, "4");
	case_done(&c);
}

static void bare_exits(struct hang_case *c, int64_t n)
{
	struct testimony *t = log_file(c);

	says(t, SAY_FIRST_FAILURE, 0, "exitcode  : 1")->value = 1;
	for (int64_t rank = 1; rank < n; rank++)
		says(t, SAY_EXIT, rank, "exitcode  : 1")->value = 1;
}

static void exit_codes_that_all_ranks_have_blame_no_rank(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	bare_exits(&c, 4);
	assert_named(&c, VERDICT_CRASHED, CAUSE_DEAD_RANK, "");
	case_done(&c);
}

/* They lived when their dumps were written, and waited: the launcher's first is not the first. */
static void exit_codes_after_a_hang_are_its_echo(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "world", "0", "default_pg", "[0, 1, 2, 3]");
	for (int64_t rank = 0; rank < 4; rank++)
		dump(&c, rank,
		     rank == 2 ? "3(world:all_reduce)" : "3(world:all_reduce) world:all_reduce?");
	bare_exits(&c, 4);
	assert_named(&c, VERDICT_CRASHED, CAUSE_MISSING_RANK, "2");
	case_done(&c);
}

/* Two timed out, one lost a peer when they gave up, and one was ended by the launcher: that one. */
static void who_lost_a_peer_in_a_hang_was_waiting_too(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	case_new(&c);
	t = log_file(&c);
	says(t, SAY_PEER_LOST, 0, "Connection closed by peer");
	for (int64_t rank = 1; rank <= 3; rank += 2)
		says(t, SAY_TIMEOUT, rank, "Timed out waiting 15000ms for recv operation");
	for (int64_t rank = 2; rank <= 3; rank++)
		says(t, SAY_STOPPED, rank, "closing signal SIGTERM");
	says(t, SAY_FIRST_FAILURE, 0, "exitcode  : 1")->value = 1;
	says(t, SAY_EXIT, 1, "exitcode  : 1")->value = 1;
	for (int64_t rank = 2; rank <= 3; rank++)
		says(t, SAY_EXIT, rank, "exitcode  : -15")->value = -15;
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "2");
	case_done(&c);
}

static void words_that_most_ranks_say_blame_the_code_and_no_rank(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	case_new(&c);
	t = log_file(&c);
	for (int64_t rank = 0; rank < 4; rank++)
		says(t, SAY_EXCEPTION, rank, "KeyError: 'lr'")->what = told(t, "KeyError");
	assert_named(&c, VERDICT_CRASHED, CAUSE_EXCEPTION, "");
	case_done(&c);
}

static void an_end_without_an_error_is_no_failure(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	case_new(&c);
	t = log_file(&c);
	steps_of(t, -1, 1, 20, 20, -1);
	for (int64_t rank = 0; rank < 4; rank++)
		says(t, SAY_EXIT, rank, NULL)->value = 0;
	assert_nobody_named(&c, VERDICT_HEALTHY);
	case_done(&c);
}

/* Watchdogs end their processes by SIGABRT once they have timed out. */
static void ends_after_a_time_out_are_not_causes(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	rank_3_behind(&c);
	t = log_file(&c);
	for (int64_t rank = 0; rank < 3; rank++)
		timed_out(t, rank, 3)->time_ns = CASE_BEGIN;
	for (int64_t rank = 0; rank < 3; rank++) {
		says(t, SAY_FATAL, rank,
		     "Process group watchdog thread terminated with exception: .. timed out");
		says(t, SAY_EXIT, rank, NULL)->value = -6;
	}
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "3");
	case_done(&c);
}

/* The node's OOM killer names a process; another log says which rank that process is. */
static void the_kernels_words_reach_the_rank_by_its_process(void **state)
{
	struct hang_case c;
	struct testimony *t;
	struct saying *s;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	for (int64_t rank = 0; rank < 4; rank++)
		if (rank != 2)
			dump(&c, rank, "2(world:all_reduce) world:all_reduce?");
	t = log_file(&c);
	for (int64_t rank = 0; rank < 4; rank++)
		says(t, SAY_HELLO, rank, NULL)->pid = 4240 + rank;
	t = log_file(&c);
	s = says(t, SAY_OUT_OF_MEMORY, -1, "Out of memory: Killed process 4242 (python)");
	s->pid = 4242;
	s->value = 1;
	assert_named(&c, VERDICT_CRASHED, CAUSE_OUT_OF_MEMORY, "2");
	assert_contains(case_finding(&c, 0)->summary, "Killed process 4242");
	case_done(&c);
}

/* What the dumps show came before the failure that it led to. */
static void a_difference_in_the_dumps_outweighs_the_failure_it_led_to(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	world_of(&c, "[0, 1, 2]");
	dump(&c, 0, "2(world:all_reduce) world:all_reduce/100?");
	dump(&c, 1, "2(world:all_reduce) world:all_reduce/200?");
	dump(&c, 2, "2(world:all_reduce) world:all_reduce/100?");
	t = log_file(&c);
	says(t, SAY_EXCEPTION, 0, "RuntimeError: op.preamble.length <= op.nbytes");
	assert_named(&c, VERDICT_CRASHED, CAUSE_COLLECTIVE_DESYNC, "1");
	case_done(&c);
}

static void a_job_that_is_ended_from_outside_did_not_fail(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	case_new(&c);
	t = log_file(&c);
	steps_of(t, -1, 1, 20, 1000, -1);
	says(t, SAY_CANCELLED, -1, "JOB 7 CANCELLED DUE TO TIME LIMIT")->what =
	    told(t, "time limit");
	assert_named(&c, VERDICT_CRASHED, CAUSE_PREEMPTED, "");
	assert_non_null(case_finding(&c, 0)->cause_detail);
	assert_string_equal(case_finding(&c, 0)->cause_detail, "time limit");
	case_done(&c);
}

/* --- watchdogs and reports --- */

static void who_is_told_to_dump_had_not_timed_out_itself(void **state)
{
	struct hang_case c;
	struct testimony *t;
	struct saying *s;

	(void)state;
	rank_3_behind(&c);
	t = log_file(&c);
	for (int64_t rank = 0; rank < 3; rank++)
		timed_out(t, rank, 3);
	s = says(t, SAY_DUMP_SIGNAL, 3, "Received a dump signal due to a collective timeout");
	s->seq = s->value = 2;
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "3");
	assert_true(proves(case_finding(&c, 0), "told to dump by another rank"));
	assert_false(among(c.report.assumed.v, c.report.assumed.n, "that it hangs"));
	case_done(&c);
}

static void watchdogs_alone_name_the_one_that_is_silent(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	case_new(&c);
	t = log_file(&c);
	for (int64_t rank = 0; rank < 4; rank++)
		says(t, SAY_HELLO, rank, NULL)->value = 4;
	for (int64_t rank = 0; rank < 4; rank++)
		if (rank != 1)
			timed_out(t, rank, 5);
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "1");
	case_done(&c);
}

/* Rank 1 was told to dump, since what it waits in began later; rank 3 says nothing at all. */
static void who_is_mute_comes_before_who_was_told_to_dump(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	case_new(&c);
	t = log_file(&c);
	for (int64_t rank = 0; rank < 24; rank++) {
		says(t, SAY_HELLO, rank, "initialized")->value = 24;
		if (rank == 1)
			says(t, SAY_DUMP_SIGNAL, rank, "Received a dump signal");
		else if (rank != 3)
			timed_out(t, rank, 3);
	}
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "3");
	case_done(&c);
}

static void several_that_were_told_to_dump_are_not_blamed(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	case_new(&c);
	t = log_file(&c);
	for (int64_t rank = 0; rank < 24; rank++)
		if (rank == 1 || rank == 13)
			says(t, SAY_DUMP_SIGNAL, rank, "Received a dump signal");
		else
			timed_out(t, rank, 3);
	assert_string_equal(culprits_of(&c, case_finding(&c, 0)), "");
	case_done(&c);
}

/* The same, but equal lines of other ranks were left out of the log. */
static void a_folded_log_proves_no_absence(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	case_new(&c);
	t = log_file(&c);
	for (int64_t rank = 0; rank < 4; rank++)
		says(t, SAY_HELLO, rank, NULL)->value = 4;
	for (int64_t rank = 0; rank < 4; rank++)
		if (rank != 1)
			timed_out(t, rank, 5);
	says(t, SAY_FOLDED, -1, "[repeated 3x across cluster]");
	assert_named(&c, VERDICT_HUNG, CAUSE_UNKNOWN, "");
	assert_true(among(c.report.missing.v, c.report.missing.n, "folds equal lines"));
	case_done(&c);
}

static void the_desync_report_names_the_lagging_rank(void **state)
{
	struct hang_case c;
	struct testimony *t;
	struct saying *s;

	(void)state;
	case_new(&c);
	t = log_file(&c);
	for (int64_t rank = 0; rank < 4; rank++)
		says(t, SAY_HELLO, rank, NULL)->value = 4;
	timed_out(t, 0, 5);
	s = says(t, SAY_DESYNC_LAGGING, 0,
		 "[2] finished collective #4, but didn't join collective #5");
	s->peer = 2;
	s->seq = 4;
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "2");
	assert_true(proves(case_finding(&c, 0), "finished collective 4"));
	case_done(&c);
}

/* All have enqueued it by their dumps, but the watchdog of rank 3 itself is stuck. */
static void whose_watchdog_is_stuck_stalls_on_its_host(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	dumps(&c, 0, 3, "2(world:all_reduce) world:all_reduce?");
	t = log_file(&c);
	for (int64_t rank = 0; rank < 3; rank++)
		timed_out(t, rank, 3);
	says(t, SAY_HEARTBEAT, 3, "Heartbeat monitor timed out!");
	assert_named(&c, VERDICT_HUNG, CAUSE_HOST_STALL, "3");
	case_done(&c);
}

static void a_gpu_that_fell_off_the_bus_explains_what_is_stuck(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	dumps(&c, 0, 3, "2(world:all_reduce) world:all_reduce?");
	t = log_file(&c);
	for (int64_t rank = 0; rank < 4; rank++)
		timed_out(t, rank, 3);
	says(t, SAY_GPU_ERROR, 2, "Xid 79: GPU has fallen off the bus")->value = 79;
	assert_named(&c, VERDICT_HUNG, CAUSE_GPU_ERROR, "2");
	case_done(&c);
}

static void who_says_goodbye_is_not_lost_without_a_word(void **state)
{
	struct hang_case c;

	(void)state;
	rank_3_behind(&c);
	says(log_file(&c), SAY_LEFT, 3, "rank 3: no more data, bye");
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "3");
	assert_true(proves(case_finding(&c, 0), "no more data, bye"));
	case_done(&c);
}

/* 16 ranks, of which nothing is of 8 to 15: a node, but the scheduler says that it is gone. */
static void a_node_that_the_scheduler_lost_is_named(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]");
	dumps(&c, 0, 7, "2(world:all_reduce) world:all_reduce?");
	timed_out(log_file(&c), 0, 3);
	says(log_file(&c), SAY_NODE_FAILED, -1, "node n2 failed");
	assert_string_equal(culprits_of(&c, case_finding(&c, 0)), "8-15");
	assert_int_equal(case_finding(&c, 0)->cause, CAUSE_DEAD_RANK);
	case_done(&c);
}

/* --- progress and saves --- */

static void steps_after_the_dumps_are_no_hang(void **state)
{
	struct hang_case c;

	(void)state;
	rank_3_behind(&c);
	steps_of(log_file(&c), -1, 1, 40, 1000, CASE_BEGIN + 30 * SECOND);
	assert_nobody_named(&c, VERDICT_HEALTHY);
	case_done(&c);
}

/* Rank 0 writes and the others wait in a barrier. An earlier save took a minute; this one has
   lasted for `seconds`. */
static void a_save_that_lasts(struct hang_case *c, int64_t seconds)
{
	struct testimony *t, *power;
	struct saying *s;

	world_of(c, "[0, 1, 2, 3]");
	dump(c, 0, "2(world:all_reduce)");
	dumps(c, 1, 3, "2(world:all_reduce) world:barrier?");
	t = log_file(c);
	steps_of(t, -1, 1, 10, 1000, CASE_BEGIN - 1000 * SECOND);
	s = says(t, SAY_SAVE_BEGIN, -1, "saving checkpoint at step 10");
	s->value = 10;
	s = says(t, SAY_SAVE_END, -1, "saved checkpoint at step 10");
	s->value = 10;
	s->duration_ns = 60 * SECOND;
	steps_of(t, -1, 11, 20, 1000, CASE_BEGIN - seconds * SECOND);
	s = says(t, SAY_SAVE_BEGIN, -1, "saving checkpoint at step 20");
	s->value = 20;
	s->time_ns = s->last_ns = CASE_BEGIN - seconds * SECOND;
	power = case_file(c, WITNESS_POWER, "nvidia-smi", -1);
	for (int64_t gpu = 0; gpu < 4; gpu++)
		gpu_draws(power, gpu, 90, gpu ? 1 : 0);
}

static void a_save_within_its_usual_time_is_no_hang(void **state)
{
	struct hang_case c;

	(void)state;
	a_save_that_lasts(&c, 50);
	assert_nobody_named(&c, VERDICT_HEALTHY);
	assert_contains(c.report.headline, "a checkpoint is being saved");
	case_done(&c);
}

static void a_save_far_beyond_its_usual_time_is_a_hang(void **state)
{
	struct hang_case c;

	(void)state;
	a_save_that_lasts(&c, 600);
	assert_named(&c, VERDICT_HUNG, CAUSE_CHECKPOINT, "0");
	case_done(&c);
}

/* No log: the stack of rank 0 writes, those of the others wait inside a save. */
static void the_writer_of_a_checkpoint_is_told_from_who_waits_for_it(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	dump(&c, 0, "2(world:all_reduce)");
	dumps(&c, 1, 3, "2(world:all_reduce) world:barrier?");
	for (int64_t rank = 0; rank < 4; rank++)
		stack(&c, rank, rank ? IN_BARRIER : IN_SAVE);
	assert_named(&c, VERDICT_HUNG, CAUSE_CHECKPOINT, "0");
	case_done(&c);
}

/* --- power --- */

static void an_idle_gpu_among_waiting_ones_is_named(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	case_new(&c);
	t = case_file(&c, WITNESS_POWER, "nvidia-smi", -1);
	for (int64_t gpu = 0; gpu < 8; gpu++)
		gpu_draws(t, gpu, gpu == 5 ? 70 : 110, gpu == 5 ? 0 : 1);
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "5");
	assert_string_equal(c.report.gpus.v[5].shape, "idle");
	assert_string_equal(c.report.gpus.v[4].shape, "waiting");
	case_done(&c);
}

static void gpus_that_compute_are_no_hang(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	case_new(&c);
	t = case_file(&c, WITNESS_POWER, "nvidia-smi", -1);
	for (int64_t gpu = 0; gpu < 8; gpu++)
		gpu_draws(t, gpu, gpu == 5 ? 70 : 600, gpu == 5 ? 0 : 1);
	assert_null(case_finding(&c, 0));
	assert_string_equal(c.report.gpus.v[4].shape, "compute");
	case_done(&c);
}

static void gpus_that_all_wait_name_nobody(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	case_new(&c);
	t = case_file(&c, WITNESS_POWER, "nvidia-smi", -1);
	for (int64_t gpu = 0; gpu < 8; gpu++)
		gpu_draws(t, gpu, 110, 1);
	assert_nobody_named(&c, VERDICT_INSUFFICIENT);
	case_done(&c);
}

/* --- counts of NCCL's RAS --- */

static void ras(struct hang_case *c, int64_t seconds, const int64_t *launched, size_t n)
{
	struct testimony *t = case_file(c, WITNESS_RAS, "ncclras", -1);
	uint32_t group = testimony_group(t, told(t, "0xabc"), NO_ID);

	t->groups.v[group].size = (int64_t)n;
	t->time_ns = CASE_BEGIN + seconds * SECOND;
	for (size_t i = 0; i < n; i++) {
		struct comm_count k = {
			.group = group, .rank = (int64_t)i, .host = NO_ID, .pid = -1, .gpu = -1
		};

		for (int op = 0; op < COMM_OPS; op++)
			k.counts[op] = -1;
		k.counts[COMM_ALL_REDUCE] = launched[i];
		k.missing = launched[i] < 0;
		*vec_push(&t->counts) = k;
	}
}

static void who_launched_fewer_by_ras_is_named(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	ras(&c, 0, (int64_t[]){ 40, 40, 39, 40 }, 4);
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "2");
	case_done(&c);
}

static void counts_that_go_on_are_no_hang(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	ras(&c, 0, (int64_t[]){ 40, 40, 39, 40 }, 4);
	ras(&c, 60, (int64_t[]){ 80, 80, 79, 80 }, 4);
	assert_nobody_named(&c, VERDICT_HEALTHY);
	case_done(&c);
}

static void one_reading_of_ras_proves_no_hang_and_two_do(void **state)
{
	static const struct {
		int64_t seconds; /* of a second reading; 0: none */
		int64_t counts[4];
		const char *culprit, *assumed, *proof;
	} rows[] = {
		{ 0, { 40, 40, 39, 40 }, "2", "asked once", "all_reduce 40" },
		{ 5, { 40, 40, 39, 40 }, "2", "twice within 5 s", "none more within 5 s" },
		{ 89, { 40, 40, 39, 40 }, "2", NULL, "none more within 89 s" },
		{ 0, { 40, -1, 40, 40 }, "1", "asked once", "rank 1 is missing" },
		{ 89, { 40, -1, 40, 40 }, "1", NULL, "all_reduce 40; none more within 89 s" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct hang_case c;

		case_new(&c);
		ras(&c, 0, rows[i].counts, 4);
		if (rows[i].seconds)
			ras(&c, rows[i].seconds, rows[i].counts, 4);
		assert_named(&c, VERDICT_HUNG,
			     rows[i].counts[1] < 0 ? CAUSE_DEAD_RANK : CAUSE_MISSING_RANK,
			     rows[i].culprit);
		assert_int_equal(among(c.report.assumed.v, c.report.assumed.n,
				       rows[i].assumed ? rows[i].assumed : "that it hangs"),
				 rows[i].assumed != NULL);
		assert_true(proves(&c.report.findings.v[0], rows[i].proof));
		case_done(&c);
	}
}

static void who_does_not_answer_ras_is_dead(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	ras(&c, 0, (int64_t[]){ 40, -1, 40, 40 }, 4);
	assert_named(&c, VERDICT_HUNG, CAUSE_DEAD_RANK, "1");
	case_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stack_says_what_keeps_the_one_that_is_behind),
		cmocka_unit_test(stacks_alone_name_the_one_that_is_in_no_collective),
		cmocka_unit_test(the_odd_stack_comes_first),
		cmocka_unit_test(all_in_one_collective_name_nobody),
		cmocka_unit_test(equal_stacks_wait_alike),
		cmocka_unit_test(a_stack_in_code_of_its_own_does_not_wait),
		cmocka_unit_test(stacks_of_all_others_make_a_missing_process_a_dead_rank),
		cmocka_unit_test(echoes_are_not_causes),
		cmocka_unit_test(who_is_ended_by_its_launcher_did_not_fail),
		cmocka_unit_test(the_launchers_first_failure_outweighs_the_order_of_lines),
		cmocka_unit_test(exit_codes_that_all_ranks_have_blame_no_rank),
		cmocka_unit_test(exit_codes_after_a_hang_are_its_echo),
		cmocka_unit_test(who_lost_a_peer_in_a_hang_was_waiting_too),
		cmocka_unit_test(words_that_most_ranks_say_blame_the_code_and_no_rank),
		cmocka_unit_test(an_end_without_an_error_is_no_failure),
		cmocka_unit_test(ends_after_a_time_out_are_not_causes),
		cmocka_unit_test(the_kernels_words_reach_the_rank_by_its_process),
		cmocka_unit_test(a_difference_in_the_dumps_outweighs_the_failure_it_led_to),
		cmocka_unit_test(a_job_that_is_ended_from_outside_did_not_fail),
		cmocka_unit_test(who_is_told_to_dump_had_not_timed_out_itself),
		cmocka_unit_test(watchdogs_alone_name_the_one_that_is_silent),
		cmocka_unit_test(who_is_mute_comes_before_who_was_told_to_dump),
		cmocka_unit_test(several_that_were_told_to_dump_are_not_blamed),
		cmocka_unit_test(a_folded_log_proves_no_absence),
		cmocka_unit_test(the_desync_report_names_the_lagging_rank),
		cmocka_unit_test(whose_watchdog_is_stuck_stalls_on_its_host),
		cmocka_unit_test(a_gpu_that_fell_off_the_bus_explains_what_is_stuck),
		cmocka_unit_test(who_says_goodbye_is_not_lost_without_a_word),
		cmocka_unit_test(a_node_that_the_scheduler_lost_is_named),
		cmocka_unit_test(steps_after_the_dumps_are_no_hang),
		cmocka_unit_test(a_save_within_its_usual_time_is_no_hang),
		cmocka_unit_test(a_save_far_beyond_its_usual_time_is_a_hang),
		cmocka_unit_test(the_writer_of_a_checkpoint_is_told_from_who_waits_for_it),
		cmocka_unit_test(an_idle_gpu_among_waiting_ones_is_named),
		cmocka_unit_test(gpus_that_compute_are_no_hang),
		cmocka_unit_test(gpus_that_all_wait_name_nobody),
		cmocka_unit_test(who_launched_fewer_by_ras_is_named),
		cmocka_unit_test(counts_that_go_on_are_no_hang),
		cmocka_unit_test(one_reading_of_ras_proves_no_hang_and_two_do),
		cmocka_unit_test(who_does_not_answer_ras_is_dead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
