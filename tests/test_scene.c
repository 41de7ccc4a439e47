/* SPDX-License-Identifier: Apache-2.0 */
/* test_scene.c - many files become one scene: which dumps count, which ranks there are, who is
 * whose. */
#include "hang_builder.h"

static void world_of(struct hang_case *c, const char *ranks)
{
	case_new(c);
	case_group(c, "world", "0", "default_pg", ranks);
}

static const struct scene_member *member(const struct hang_case *c, const char *group, int64_t rank)
{
	const struct scene_group *g = scene_group_of(c, group);
	const struct scene_member *m;

	assert_non_null(g);
	m = scene_member(g, scene_row(&c->scene, rank));
	assert_non_null(m);
	return m;
}

/* --- which dumps count --- */

static void twins_count_once(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1]");
	for (int64_t rank = 0; rank < 2; rank++) {
		struct testimony *json;

		dump(&c, rank, "2(world:all_reduce) world:all_reduce?");
		json = dump_at(&c, rank, 60, "2(world:all_reduce) world:all_reduce?");
		json->path = told(json, rank ? "json/rank_1.json" : "json/rank_0.json");
	}
	case_scene(&c);
	assert_int_equal(c.scene.n_dumps, 2);
	assert_int_equal(c.scene.n_recordings, 1);
	assert_int_equal(c.scene.moved, MOVED_UNKNOWN);
	case_done(&c);
}

static void of_several_dumps_of_a_rank_the_latest_counts(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1]");
	dump_at(&c, 0, 60, "5(world:all_reduce)");
	dump_at(&c, 0, 0, "3(world:all_reduce)");
	dump_at(&c, 1, 0, "3(world:all_reduce)");
	dump_at(&c, 1, 60, "5(world:all_reduce)");
	case_scene(&c);
	assert_int_equal(c.scene.n_dumps, 2);
	assert_int_equal(c.scene.n_recordings, 2);
	assert_int_equal(member(&c, "0", 0)->enqueued, 5);
	assert_int_equal(c.scene.moved, MOVED_YES);
	case_done(&c);
}

static void the_same_again_in_another_folder_has_not_moved(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1]");
	for (int64_t rank = 0; rank < 2; rank++)
		for (int64_t seconds = 0; seconds <= 60; seconds += 60)
			dump_at(&c, rank, seconds, "3(world:all_reduce) world:all_reduce?");
	case_scene(&c);
	assert_int_equal(c.scene.n_recordings, 2);
	assert_int_equal(c.scene.moved, MOVED_NO);
	case_done(&c);
}

/* The tracer counts calls that the Flight Recorder does not, and names groups without a
   description: beside the recorder's dumps its own standings are no later recording in which
   something moved. */
static void what_the_tracer_saw_last_is_no_second_recording(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "world", "0", "default_pg", "[0, 1, 2]");
	case_group(&c, "traced", "0", NULL, NULL);
	for (int64_t rank = 0; rank < 3; rank++) {
		dump_at(&c, rank, 0,
			rank == 2 ? "2(world:all_reduce)"
				  : "2(world:all_reduce) world:all_reduce?");
		if (rank != 2)
			dump_at(&c, rank, 60, "3(traced:all_reduce) traced:all_reduce?")->format =
			    TESTIMONY_TRACED;
	}
	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "2");
	case_done(&c);
}

static void stale_dumps_are_left_out(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	dumps(&c, 0, 2, "5(world:all_reduce) world:all_reduce?");
	dump_at(&c, 3, -7200, "5(world:all_reduce) world:all_reduce?");
	case_scene(&c);
	assert_int_equal(c.scene.n_dumps, 3);
	assert_int_equal(member(&c, "0", 3)->source, MEMBER_ABSENT);
	assert_int_equal(c.scene.said.n, 1);
	assert_contains(c.scene.said.v[0], "1 dump of more than an hour before the others");
	case_done(&c);
}

static void two_jobs_are_told_apart(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	case_group(&c, "other", "0", "default_pg", "[0, 1]");
	dump(&c, 0, "9(other:all_reduce)");
	dump(&c, 1, "9(other:all_reduce)");
	dumps(&c, 0, 3, "2(world:all_reduce) world:all_reduce?");
	case_scene(&c);
	assert_int_equal(c.scene.n_dumps, 4);
	assert_int_equal(c.scene.world_size, 4);
	assert_int_equal(member(&c, "0", 0)->enqueued, 3);
	assert_contains(c.scene.said.v[0], "2 dumps of another job");
	case_done(&c);
}

static void a_dump_whose_rank_nobody_tells_is_left_out_and_said(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1]");
	dumps(&c, 0, 1, "2(world:all_reduce)");
	dump(&c, -1, "2(world:all_reduce)");
	case_scene(&c);
	assert_int_equal(c.scene.n_dumps, 2);
	assert_contains(c.scene.said.v[0], "1 dump whose rank neither name nor content tells");
	case_done(&c);
}

static void no_files_are_no_scene(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	c.standings = standings_new();
	case_scene(&c);
	assert_false(c.scene.any);
	assert_int_equal(c.scene.ranks.n, 0);
	assert_int_equal(c.scene.world_size, -1);
	case_done(&c);
}

/* --- which ranks there are --- */

static void the_default_group_states_the_world(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3, 4, 5]");
	dump(&c, 1, "world:all_reduce?");
	case_scene(&c);
	assert_int_equal(c.scene.world_size, 6);
	assert_false(c.scene.world_assumed);
	assert_int_equal(c.scene.ranks.n, 6);
	assert_int_equal(scene_group_of(&c, "0")->members.n, 6);
	case_done(&c);
}

static void the_highest_rank_seen_is_assumed_to_be_the_last(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, NULL);
	dump(&c, 1, "world:all_reduce");
	dump(&c, 5, "world:all_reduce");
	case_scene(&c);
	assert_int_equal(c.scene.world_size, 6);
	assert_true(c.scene.world_assumed);
	/* that 0, 2, 3 and 4 are members is a guess */
	assert_int_equal(scene_group_of(&c, "0")->members.n, 6);
	assert_true(scene_group_of(&c, "0")->guessed);
	case_done(&c);
}

static void a_greeting_states_the_world(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	says(log_file(&c), SAY_HELLO, 3, NULL)->value = 16;
	case_scene(&c);
	assert_int_equal(c.scene.world_size, 16);
	assert_false(c.scene.world_assumed);
	assert_true(c.scene.ranks.v[3].lived);
	assert_false(c.scene.ranks.v[4].lived);
	case_done(&c);
}

/* A billion ranks in a damaged file are no world. */
static void an_absurd_rank_is_no_rank(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	says(log_file(&c), SAY_HELLO, 3, NULL)->value = INT64_MAX;
	says(c.files.v[0], SAY_EXCEPTION, INT64_MAX / 2, "x");
	case_scene(&c);
	assert_int_equal(c.scene.world_size, 4);
	case_done(&c);
}

static void rows_are_found_by_rank_and_unknown_ones_come_last(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	stack(&c, 2, IN_ALL_REDUCE);
	stack(&c, -1, IN_DATA_LOADER)->pid = 77;
	case_scene(&c);
	assert_int_equal(c.scene.ranks.n, 4);
	assert_int_equal(scene_row(&c.scene, 2), 2);
	assert_int_equal(scene_row(&c.scene, -1), NO_ID);
	assert_int_equal(scene_row(&c.scene, 3), NO_ID);
	assert_int_equal(c.scene.ranks.v[3].rank, -1);
	assert_int_equal(c.scene.ranks.v[3].unknown, 1);
	assert_int_equal(c.scene.ranks.v[3].pid, 77);
	case_done(&c);
}

/* --- groups --- */

static void members_are_those_that_the_dump_states(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2, 3, 4, 5, 6, 7]");
	case_group(&c, "dp", "3", "mesh_dp", "[1, 3, 5]");
	dump(&c, 3, "dp:all_reduce?");
	case_scene(&c);
	assert_int_equal(scene_group_of(&c, "3")->members.n, 3);
	assert_true(scene_group_of(&c, "3")->members_known);
	assert_int_equal(member(&c, "3", 5)->source, MEMBER_ABSENT);
	assert_int_equal(member(&c, "3", 3)->source, MEMBER_DUMP);
	assert_null(scene_member(scene_group_of(&c, "3"), 2));
	case_done(&c);
}

static void members_that_are_shortened_are_not_taken_for_all(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "dp", "3", "mesh_dp", "[0, 1, 2, ..., 7]");
	dump(&c, 1, "dp:all_reduce?");
	case_scene(&c);
	assert_false(scene_group_of(&c, "3")->members_known);
	assert_int_equal(scene_group_of(&c, "3")->members.n, 1);
	case_done(&c);
}

static void the_last_common_operation_is_the_lowest_that_all_began(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1, 2]");
	dump(&c, 0, "9(world:all_reduce)");
	dump(&c, 1, "7(world:all_reduce)");
	dump(&c, 2, "8(world:all_reduce)");
	case_scene(&c);
	assert_int_equal(scene_group_of(&c, "0")->last_common, 7);
	case_done(&c);
}

static void the_last_common_operation_is_before_the_first_difference(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1]");
	dump(&c, 0, "4(world:all_reduce) world:all_gather 2(world:all_reduce?)");
	dump(&c, 1, "4(world:all_reduce) world:broadcast? 2(world:all_reduce?)");
	case_scene(&c);
	assert_int_equal(scene_group_of(&c, "0")->last_common, 4);
	case_done(&c);
}

static void sides_come_largest_first(void **state)
{
	struct hang_case c;
	const struct scene_conflict *k;

	(void)state;
	world_of(&c, "[0, 1, 2, 3, 4, 5]");
	dump(&c, 0, "world:all_reduce world:all_gather?");
	dumps(&c, 1, 2, "world:all_reduce world:broadcast?");
	dumps(&c, 3, 5, "world:all_reduce world:all_reduce?");
	case_scene(&c);
	assert_int_equal(scene_group_of(&c, "0")->conflicts.n, 1);
	k = &scene_group_of(&c, "0")->conflicts.v[0];
	assert_int_equal(k->seq, 2);
	assert_int_equal(k->kind, MISMATCH_OPERATION);
	assert_int_equal(k->sides.n, 3);
	assert_int_equal(k->sides.v[0].rows.n, 3);
	assert_int_equal(k->sides.v[1].rows.n, 2);
	assert_int_equal(k->sides.v[2].rows.v[0], 0);
	assert_false(k->finished);
	case_done(&c);
}

static void of_many_differences_the_lowest_are_kept(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c, "[0, 1]");
	dump(&c, 0, "20(world:all_reduce/1?)");
	dump(&c, 1, "20(world:all_reduce/2?)");
	case_scene(&c);
	assert_int_equal(scene_group_of(&c, "0")->conflicts.n, SCENE_CONFLICTS_MAX);
	for (size_t i = 0; i < SCENE_CONFLICTS_MAX; i++)
		assert_int_equal(scene_group_of(&c, "0")->conflicts.v[i].seq, i + 1);
	case_done(&c);
}

/* One of unknown size is alike with each of two that differ: whichever was read first. */
static void a_difference_is_found_in_any_order_of_dumps(void **state)
{
	(void)state;
	for (uint64_t shuffle = 0; shuffle < 12; shuffle++) {
		struct hang_case c;

		world_of(&c, "[0, 1, 2]");
		c.shuffle = shuffle;
		dump(&c, 0, "world:all_reduce?");
		dump(&c, 1, "world:all_reduce/1?");
		dump(&c, 2, "world:all_reduce/2?");
		c.files.v[0]->signatures.v[0].in_elements = -1;
		c.files.v[0]->signatures.v[0].out_elements = -1;
		case_scene(&c);
		assert_int_equal(scene_group_of(&c, "0")->conflicts.n, 1);
		case_done(&c);
	}
}

/* That many finished differences come before the one that hurts must not hide it. */
static void finished_differences_do_not_hide_the_one_that_hurts(void **state)
{
	struct hang_case c;
	const struct scene_group *g;

	(void)state;
	world_of(&c, "[0, 1, 2]");
	dumps(&c, 0, 1, "20(world:all_reduce/1) world:all_reduce/1?");
	dump(&c, 2, "20(world:all_reduce/2) world:all_gather?");
	case_scene(&c);
	g = scene_group_of(&c, "0");
	assert_int_equal(g->conflicts.n, 2);
	assert_true(g->conflicts.v[0].finished);
	assert_int_equal(g->conflicts.v[1].seq, 21);
	assert_false(g->conflicts.v[1].finished);
	case_done(&c);
}

/* The two halves of a transfer are in both dumps: who waits there waits for no peer. */
static void send_and_recv_meet(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "pp", "1", "pp", "[4, 6, 9]");
	dump(&c, 4, "pp:send(1)?");
	dump(&c, 6, "pp:recv(0)?");
	dump(&c, 9, "pp:recv(1)?");
	case_scene(&c);
	assert_true(member(&c, "1", 4)->met);
	assert_true(member(&c, "1", 6)->met);
	assert_false(member(&c, "1", 9)->met);
	case_done(&c);
}

static void send_and_recv_of_other_sizes_do_not_meet(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "pp", "1", "pp", "[0, 1]");
	dump(&c, 0, "pp:send/100(1)?");
	dump(&c, 1, "pp:recv/200(0)?");
	case_scene(&c);
	assert_false(member(&c, "1", 0)->met);
	case_done(&c);
}

/* --- lines --- */

static void a_watchdogs_words_say_where_a_rank_without_a_dump_stands(void **state)
{
	struct hang_case c;
	struct testimony *t;
	struct saying *s;

	(void)state;
	world_of(&c, "[0, 1]");
	dump(&c, 0, "4(world:all_reduce) world:all_reduce?");
	t = log_file(&c);
	s = says(t, SAY_STATUS, 1, "last enqueued work: 4, last completed work: 4");
	s->group = testimony_group(t, NO_ID, told(t, "default_pg"));
	s->seq = s->value = 4;
	case_scene(&c);
	assert_int_equal(c.scene.groups.n, 1);
	assert_int_equal(member(&c, "0", 1)->source, MEMBER_LOG);
	assert_int_equal(member(&c, "0", 1)->enqueued, 4);
	assert_false(member(&c, "0", 1)->waits);
	case_done(&c);
}

static void numbers_within_a_group_are_not_taken_for_ranks(void **state)
{
	struct hang_case c;
	struct saying *s;

	(void)state;
	case_new(&c);
	for (int64_t rank = 0; rank < 16; rank++)
		says(log_file(&c), SAY_HELLO, rank, NULL);
	s = says(c.files.v[0], SAY_TIMEOUT, -1, "[Rank 1] Watchdog caught ..");
	s->local_rank = 1;
	s->seq = 9;
	case_scene(&c);
	for (size_t i = 0; i < c.scene.sayings.n; i++)
		if (c.scene.sayings.v[i].s.kind == SAY_TIMEOUT)
			assert_int_equal(c.scene.sayings.v[i].row, NO_ID);
	for (size_t i = 0; i < c.scene.groups.n; i++)
		assert_int_equal(c.scene.groups.v[i].members.n, 0);
	case_done(&c);
}

static void a_process_ties_a_line_to_the_rank_that_has_it(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	case_new(&c);
	t = log_file(&c);
	for (int64_t rank = 0; rank < 4; rank++)
		says(t, SAY_HELLO, rank, NULL)->pid = 100 + rank;
	says(log_file(&c), SAY_EXIT, -1, "exited")->pid = 102;
	case_scene(&c);
	assert_int_equal(c.scene.sayings.v[4].row, 2);
	case_done(&c);
}

/* Two nodes have a process of the same number: which of them is meant nobody says. */
static void a_process_number_of_two_nodes_ties_nothing(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	says(log_file(&c), SAY_HELLO, 0, NULL)->pid = 100;
	says(log_file(&c), SAY_HELLO, 8, NULL)->pid = 100;
	says(log_file(&c), SAY_EXIT, -1, "exited")->pid = 100;
	case_scene(&c);
	assert_int_equal(c.scene.sayings.v[2].row, NO_ID);
	case_done(&c);
}

/* A kernel's log has no rank, whatever number is in its name. */
static void a_nodes_own_log_is_of_no_rank(void **state)
{
	struct hang_case c;
	struct saying *s;

	(void)state;
	case_new(&c);
	for (int64_t rank = 0; rank < 4; rank++)
		says(log_file(&c), SAY_HELLO, rank, NULL)->pid = 100 + rank;
	s = says(log_file(&c), SAY_OUT_OF_MEMORY, 3, "Out of memory: Killed process 101");
	s->pid = 101;
	case_scene(&c);
	assert_int_equal(c.scene.sayings.v[4].row, 1);
	case_done(&c);
}

/* --- stacks --- */

static void a_stack_of_several_ranks_is_each_ones(void **state)
{
	struct hang_case c;
	struct process_stack *p;

	(void)state;
	case_new(&c);
	p = stack(&c, -1, IN_ALL_REDUCE);
	p->ranks = told(c.files.v[0], "0, 2, 3");
	p->processes = 3;
	case_scene(&c);
	assert_int_equal(c.scene.ranks.n, 4);
	assert_int_equal(c.scene.ranks.v[1].stack, NO_ID);
	for (uint32_t row = 0; row < 4; row++)
		if (row != 1)
			assert_int_not_equal(c.scene.ranks.v[row].stack, NO_ID);
	case_done(&c);
}

static void a_stack_finds_its_rank_by_its_process(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	for (int64_t rank = 0; rank < 4; rank++)
		says(log_file(&c), SAY_HELLO, rank, NULL)->pid = 100 + rank;
	stack(&c, -1, IN_DATA_LOADER)->pid = 102;
	case_scene(&c);
	assert_int_equal(c.scene.ranks.n, 4);
	assert_int_not_equal(c.scene.ranks.v[2].stack, NO_ID);
	case_done(&c);
}

static void a_stack_of_python_outweighs_the_kernels(void **state)
{
	for (int python_first = 0; python_first < 2; python_first++) {
		struct hang_case c;

		(void)state;
		case_new(&c);
		for (int i = 0; i < 2; i++) {
			bool python = (i == 0) == (python_first == 1);
			struct process_stack *p =
			    stack(&c, 0, python ? IN_ALL_REDUCE : "futex_wait kernel:0");

			p->tool = python ? STACK_PYSPY : STACK_KERNEL;
		}
		case_scene(&c);
		assert_int_equal(c.scene.stacks.v[c.scene.ranks.v[0].stack].tool, STACK_PYSPY);
		case_done(&c);
	}
}

/* --- GPUs --- */

static void gpus_in_order_are_assumed_to_be_the_ranks(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	world_of(&c, "[0, 1, 2, 3]");
	dump(&c, 0, "world:all_reduce?");
	for (int node = 1; node >= 0; node--) {
		t = case_file(&c, WITNESS_POWER, "nvidia-smi", -1);
		t->host = told(t, node ? "node-b" : "node-a");
		gpu_draws(t, 1, 100, 1);
		gpu_draws(t, 0, 100, 1);
	}
	case_scene(&c);
	assert_int_equal(c.scene.gpus.n, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(c.scene.gpus.v[i].row, i);
		assert_int_equal(c.scene.gpus.v[i].series->index, i % 2);
		assert_true(c.scene.gpus.v[i].assumed);
	}
	case_done(&c);
}

static void gpus_that_do_not_fit_the_world_are_no_ranks(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	world_of(&c, "[0, 1, 2]");
	dump(&c, 0, "world:all_reduce?");
	t = case_file(&c, WITNESS_POWER, "nvidia-smi", -1);
	for (int64_t gpu = 0; gpu < 8; gpu++)
		gpu_draws(t, gpu, 100, 1);
	case_scene(&c);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(c.scene.gpus.v[i].row, NO_ID);
	case_done(&c);
}

static void a_greeting_says_whose_gpu_it_is(void **state)
{
	struct hang_case c;
	struct testimony *t = NULL;
	struct saying *s;

	(void)state;
	case_new(&c);
	t = log_file(&c);
	for (int64_t rank = 0; rank < 2; rank++) {
		s = says(t, SAY_HELLO, rank, NULL);
		s->gpu = 1 - rank;
		s->host = told(t, "node-a");
	}
	t = case_file(&c, WITNESS_POWER, "nvidia-smi", -1);
	t->host = told(t, "node-a");
	gpu_draws(t, 0, 100, 1);
	gpu_draws(t, 1, 100, 1);
	case_scene(&c);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(c.scene.gpus.v[i].row, 1 - c.scene.gpus.v[i].series->index);
		assert_false(c.scene.gpus.v[i].assumed);
	}
	case_done(&c);
}

/* --- counts --- */

static void counted(struct testimony *t, uint32_t group, int64_t rank, int64_t pid)
{
	struct comm_count k = {
		.group = group, .rank = rank, .host = NO_ID, .pid = pid, .gpu = -1
	};

	*vec_push(&t->counts) = k;
}

/* A communicator of two beside the one of all four: its ranks are found by their processes. */
static void the_largest_communicator_is_the_world(void **state)
{
	struct hang_case c;
	struct testimony *t;
	uint32_t all, pair;

	(void)state;
	case_new(&c);
	t = case_file(&c, WITNESS_RAS, "ncclras", -1);
	all = testimony_group(t, told(t, "0xa"), NO_ID);
	t->groups.v[all].size = 4;
	pair = testimony_group(t, told(t, "0xb"), NO_ID);
	t->groups.v[pair].size = 2;
	for (int64_t rank = 0; rank < 4; rank++)
		counted(t, all, rank, 100 + rank);
	counted(t, pair, 0, 101);
	counted(t, pair, 1, 103);
	case_scene(&c);
	assert_int_equal(c.scene.world_size, 4);
	for (size_t i = 0; i < c.scene.counts.n; i++)
		assert_int_equal(c.scene.counts.v[i].row, c.scene.counts.v[i].c.pid - 100);
	case_done(&c);
}

static void counts_of_two_moments_are_linked(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	for (int64_t seconds = 60; seconds >= 0; seconds -= 60) {
		struct testimony *t = case_file(&c, WITNESS_RAS, "ncclras", -1);
		uint32_t all = testimony_group(t, told(t, "0xa"), NO_ID);

		t->time_ns = CASE_BEGIN + seconds * SECOND;
		t->groups.v[all].size = 2;
		counted(t, all, 0, 100);
		counted(t, all, 1, 101);
	}
	case_scene(&c);
	assert_int_equal(c.scene.counts.n, 4);
	for (size_t i = 0; i < 4; i++) {
		const struct scene_count *k = &c.scene.counts.v[i];

		assert_int_equal(k->latest, k->time_ns > CASE_BEGIN);
		assert_int_equal(k->before != NO_ID, k->latest);
		if (k->latest)
			assert_int_equal(c.scene.counts.v[k->before].c.rank, k->c.rank);
	}
	case_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(twins_count_once),
		cmocka_unit_test(of_several_dumps_of_a_rank_the_latest_counts),
		cmocka_unit_test(the_same_again_in_another_folder_has_not_moved),
		cmocka_unit_test(what_the_tracer_saw_last_is_no_second_recording),
		cmocka_unit_test(stale_dumps_are_left_out),
		cmocka_unit_test(two_jobs_are_told_apart),
		cmocka_unit_test(a_dump_whose_rank_nobody_tells_is_left_out_and_said),
		cmocka_unit_test(no_files_are_no_scene),
		cmocka_unit_test(the_default_group_states_the_world),
		cmocka_unit_test(the_highest_rank_seen_is_assumed_to_be_the_last),
		cmocka_unit_test(a_greeting_states_the_world),
		cmocka_unit_test(an_absurd_rank_is_no_rank),
		cmocka_unit_test(rows_are_found_by_rank_and_unknown_ones_come_last),
		cmocka_unit_test(members_are_those_that_the_dump_states),
		cmocka_unit_test(members_that_are_shortened_are_not_taken_for_all),
		cmocka_unit_test(the_last_common_operation_is_the_lowest_that_all_began),
		cmocka_unit_test(the_last_common_operation_is_before_the_first_difference),
		cmocka_unit_test(sides_come_largest_first),
		cmocka_unit_test(of_many_differences_the_lowest_are_kept),
		cmocka_unit_test(a_difference_is_found_in_any_order_of_dumps),
		cmocka_unit_test(finished_differences_do_not_hide_the_one_that_hurts),
		cmocka_unit_test(send_and_recv_meet),
		cmocka_unit_test(send_and_recv_of_other_sizes_do_not_meet),
		cmocka_unit_test(a_watchdogs_words_say_where_a_rank_without_a_dump_stands),
		cmocka_unit_test(numbers_within_a_group_are_not_taken_for_ranks),
		cmocka_unit_test(a_process_ties_a_line_to_the_rank_that_has_it),
		cmocka_unit_test(a_process_number_of_two_nodes_ties_nothing),
		cmocka_unit_test(a_nodes_own_log_is_of_no_rank),
		cmocka_unit_test(a_stack_of_several_ranks_is_each_ones),
		cmocka_unit_test(a_stack_finds_its_rank_by_its_process),
		cmocka_unit_test(a_stack_of_python_outweighs_the_kernels),
		cmocka_unit_test(gpus_in_order_are_assumed_to_be_the_ranks),
		cmocka_unit_test(gpus_that_do_not_fit_the_world_are_no_ranks),
		cmocka_unit_test(a_greeting_says_whose_gpu_it_is),
		cmocka_unit_test(the_largest_communicator_is_the_world),
		cmocka_unit_test(counts_of_two_moments_are_linked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
