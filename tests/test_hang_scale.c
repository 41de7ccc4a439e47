/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hang_scale.c - the same evidence in any order gives the same report, byte for byte; and what
 * eight times the ranks cost is about eight times as much.
 */
#include "hang_builder.h"

#include <time.h>

/* --- any order --- */

static char *json_of(struct hang_case *c)
{
	struct show_options options = { .given = "hang/" };
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	case_judge(c);
	assert_int_equal(show_json(out, &c->report, &options), 0);
	fclose(out);
	return text;
}

#define ORDERS 24

/* Seeds are the loop's own numbers. */
static void assert_any_order(void (*make)(struct hang_case *c))
{
	char *first = NULL;

	for (uint64_t shuffle = 0; shuffle < ORDERS; shuffle++) {
		struct hang_case c;
		char *text;

		case_new(&c);
		make(&c);
		c.shuffle = shuffle;
		text = json_of(&c);
		if (first)
			assert_string_equal(text, first);
		if (first)
			free(text);
		else
			first = text;
		case_done(&c);
	}
	free(first);
}

static void everything_about_one_that_is_behind(struct hang_case *c)
{
	struct testimony *t;

	case_group(c, "world", "0", "default_pg", "[0, 1, 2, 3, 4, 5, 6, 7]");
	case_group(c, "tp0", "1", "mesh_tp", "[0, 1]");
	case_group(c, "tp1", "2", "mesh_tp", "[2, 3]");
	dumps(c, 0, 1, "2(tp0:all_gather world:all_reduce) tp0:all_gather world:all_reduce?");
	dump(c, 2, "2(tp1:all_gather world:all_reduce) tp1:all_gather? world:all_reduce?");
	dump(c, 3, "2(tp1:all_gather world:all_reduce)");
	dumps(c, 4, 7, "2(world:all_reduce) world:all_reduce?");
	for (int64_t rank = 0; rank < 8; rank++)
		stack(c, rank, rank == 3 ? IN_DATA_LOADER : IN_ALL_REDUCE);
	for (int64_t rank = 0; rank < 8; rank += 2) {
		t = log_file(c);
		steps_of(t, rank, 1, 9, 100, -1);
		timed_out(t, rank, 3)->time_ns = CASE_BEGIN + rank;
	}
	t = case_file(c, WITNESS_POWER, "nvidia-smi", -1);
	for (int64_t gpu = 0; gpu < 8; gpu++)
		gpu_draws(t, gpu, gpu == 3 ? 70 : 110, gpu == 3 ? 0 : 1);
}

static void sides_that_are_a_tie(struct hang_case *c)
{
	case_group(c, "world", "0", "default_pg", "[0, 1, 2, 3, 4, 5]");
	dumps(c, 0, 1, "world:all_reduce world:all_gather/5?");
	dumps(c, 2, 3, "world:all_reduce world:all_reduce/5?");
	dumps(c, 4, 5, "world:all_reduce world:reduce_scatter/5?");
}

static void a_cycle_of_two_groups(struct hang_case *c)
{
	case_group(c, "world", "0", "default_pg", "[0, 1, 2, 3]");
	case_group(c, "fsdp", "1", "fsdp", "[0, 1, 2, 3]");
	dumps(c, 0, 2, "3(fsdp:all_gather fsdp:reduce_scatter) fsdp:all_gather?");
	dump(c, 3, "3(fsdp:all_gather fsdp:reduce_scatter) world:barrier?");
}

static void two_recordings_of_a_ring_that_wrapped(struct hang_case *c)
{
	case_group(c, "world", "0", "default_pg", "[0, 1, 2]");
	for (int64_t seconds = 0; seconds <= 60; seconds += 60) {
		dump_at(c, 0, seconds, "5(world:all_reduce) world:all_gather world:all_reduce?");
		dump_at(c, 1, seconds, "5(world:all_reduce) world:all_gather world:all_reduce?");
		dump_at(c, 2, seconds, "#40 world@4 2(world:all_reduce) world:all_gather");
	}
	dump_at(c, 0, 60, "5(world:all_reduce) world:all_gather world:all_reduce?");
}

/* A log of each rank; without stamps nothing but the launcher's word says who was first. */
static void failures_in_logs_of_their_own(struct hang_case *c)
{
	for (int64_t rank = 0; rank < 4; rank++) {
		struct testimony *t = log_file(c);

		says(t, SAY_HELLO, rank, NULL)->value = 4;
		if (rank == 1 || rank == 2) {
			says(t, SAY_EXCEPTION, rank, "ValueError")->what = told(t, "ValueError");
			says(t, SAY_EXIT, rank, NULL)->value = 1;
		} else {
			says(t, SAY_PEER_LOST, rank, "Connection closed by peer");
		}
	}
	says(log_file(c), SAY_FIRST_FAILURE, 2, "Root Cause")->value = 1;
}

static void the_same_evidence_in_another_order_gives_the_same_report(void **state)
{
	(void)state;
	assert_any_order(everything_about_one_that_is_behind);
}

static void a_tie_is_written_alike_in_any_order(void **state)
{
	(void)state;
	assert_any_order(sides_that_are_a_tie);
}

static void a_cycle_is_written_alike_in_any_order(void **state)
{
	(void)state;
	assert_any_order(a_cycle_of_two_groups);
}

static void recordings_are_told_apart_in_any_order(void **state)
{
	(void)state;
	assert_any_order(two_recordings_of_a_ring_that_wrapped);
}

static void failures_are_written_alike_in_any_order(void **state)
{
	(void)state;
	assert_any_order(failures_in_logs_of_their_own);
}

/* --- any number of ranks --- */

#define FEW	   2048
#define MANY	   16384
#define RATIO_MOST (2.5 * MANY / FEW) /* 20: linear is 8, quadratic 64 */
#define TIMES	   3
#define GRAIN_MS   2.0 /* below this a time says little */

static double cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

struct timed {
	struct hang_case c;
	double ms;
};

static void timed_dump(struct timed *m, int64_t rank, const char *calls)
{
	double before;

	dump(&m->c, rank, calls)->world_size = 0;
	before = cpu_ms();
	case_take(&m->c, m->c.files.n - 1);
	m->ms += cpu_ms() - before;
}

typedef void (*make_ranks)(struct timed *m, int64_t n);

/* CPU time of taking, joining, judging and printing n ranks; culprits are checked. */
static double ms_of(make_ranks make, int64_t n, const char *culprits)
{
	double best = INFINITY;

	for (int i = 0; i < (n > FEW ? 1 : TIMES); i++) {
		struct timed m = { .ms = 0 };
		double before;

		case_new(&m.c);
		make(&m, n);
		before = cpu_ms();
		free(json_of(&m.c));
		m.ms += cpu_ms() - before;
		if (culprits) {
			assert_non_null(case_finding(&m.c, 0));
			assert_string_equal(culprits_of(&m.c, case_finding(&m.c, 0)), culprits);
		}
		best = fmin(best, m.ms);
		case_done(&m.c);
	}
	return best;
}

static void assert_linear(make_ranks make, const char *culprits)
{
	double few = ms_of(make, FEW, culprits), many = ms_of(make, MANY, culprits);

	/* A neighbour on the machine can only add to a time. */
	for (int i = 1; i < TIMES && many > RATIO_MOST * fmax(few, GRAIN_MS); i++)
		many = fmin(many, ms_of(make, MANY, culprits));
	print_message("%d ranks %.1f ms, %d ranks %.1f ms\n", FEW, few, MANY, many);
	if (many > RATIO_MOST * fmax(few, GRAIN_MS))
		fail_msg("%d ranks take %.1f ms, %d ranks %.1f ms", FEW, few, MANY, many);
}

#define BEHIND 1000

static void one_behind(struct timed *m, int64_t n)
{
	case_group(&m->c, "world", "0", "default_pg", NULL);
	for (int64_t rank = 0; rank < n; rank++)
		timed_dump(m, rank,
			   rank == BEHIND ? "8(world:all_reduce)"
					  : "8(world:all_reduce) world:all_reduce?");
}

static void a_third_behind(struct timed *m, int64_t n)
{
	case_group(&m->c, "world", "0", "default_pg", NULL);
	for (int64_t rank = 0; rank < n; rank++)
		timed_dump(m, rank,
			   rank % 3 ? "8(world:all_reduce) world:all_reduce?"
				    : "8(world:all_reduce)");
}

static void one_leaves(struct timed *m, int64_t n)
{
	case_group(&m->c, "world", "0", "default_pg", NULL);
	case_group(&m->c, "fsdp", "1", "fsdp", NULL);
	for (int64_t rank = 0; rank < n; rank++)
		timed_dump(
		    m, rank,
		    rank == BEHIND
			? "world:barrier 4(fsdp:all_gather fsdp:reduce_scatter) world:barrier?"
			: "world:barrier 4(fsdp:all_gather fsdp:reduce_scatter) "
			  "fsdp:all_gather?");
}

static void one_differs(struct timed *m, int64_t n)
{
	case_group(&m->c, "world", "0", "default_pg", NULL);
	for (int64_t rank = 0; rank < n; rank++)
		timed_dump(m, rank,
			   rank == BEHIND ? "8(world:all_reduce) world:all_gather?"
					  : "8(world:all_reduce) world:all_reduce?");
}

/* Each rank is in a group of eight neighbours and in one of all that are eight apart. */
static void one_behind_in_many_groups(struct timed *m, int64_t n)
{
	for (int64_t rank = 0; rank < n; rank++) {
		char tp[24], dp[24], ranks[96];
		int64_t first = rank / 8 * 8;

		m->c.n_groups = 0;
		snprintf(tp, sizeof(tp), "tp%d", (int)(rank / 8));
		snprintf(dp, sizeof(dp), "dp%d", (int)(rank % 8));
		snprintf(ranks, sizeof(ranks), "[%d, %d, %d, %d, %d, %d, %d, %d]", (int)first,
			 (int)first + 1, (int)first + 2, (int)first + 3, (int)first + 4,
			 (int)first + 5, (int)first + 6, (int)first + 7);
		case_group(&m->c, "tp", tp, "mesh_tp", ranks);
		case_group(&m->c, "dp", dp, "mesh_dp", NULL);
		timed_dump(m, rank,
			   rank == BEHIND ? "4(tp:all_gather dp:all_reduce)"
			   : rank / 8 == BEHIND / 8
			       ? "4(tp:all_gather dp:all_reduce) tp:all_gather?"
			       : "4(tp:all_gather dp:all_reduce) tp:all_gather dp:all_reduce?");
	}
}

/* What each rank sends in an all_to_all is its own affair. */
static void own_sizes(struct timed *m, int64_t n)
{
	case_group(&m->c, "world", "0", "default_pg", NULL);
	for (int64_t rank = 0; rank < n; rank++) {
		char calls[96];

		snprintf(calls, sizeof(calls), "8(world:all_to_all/%d>%d) %s", (int)rank + 1,
			 (int)rank + 2, rank == BEHIND ? "" : "world:all_reduce?");
		timed_dump(m, rank, calls);
	}
}

static void all_time_out(struct timed *m, int64_t n)
{
	struct testimony *t = case_file(&m->c, WITNESS_LOG, "log", -1);

	for (int64_t rank = 0; rank < n; rank++) {
		says(t, SAY_HELLO, rank, NULL)->value = n;
		if (rank != BEHIND)
			timed_out(t, rank, 9);
	}
}

static void stacks_of_all(struct timed *m, int64_t n)
{
	for (int64_t rank = 0; rank < n; rank++)
		stack(&m->c, rank, rank == BEHIND ? IN_DATA_LOADER : IN_ALL_REDUCE);
}

/* Every rank saves by its own words, in one log, and goes on. */
static void saves_of_all(struct timed *m, int64_t n)
{
	struct testimony *t = case_file(&m->c, WITNESS_LOG, "log", -1);

	for (int64_t rank = 0; rank < n; rank++)
		says(t, SAY_SAVE_BEGIN, rank, NULL)->value = 5;
	for (int64_t rank = 0; rank < n; rank++)
		says(t, SAY_SAVE_END, rank, NULL)->value = 5;
	for (int64_t rank = 0; rank < n; rank++)
		steps_of(t, rank, 5, 6, 100, -1);
}

/* A third does not come, and of each there is a line, a GPU and a count to be looked through. */
static void a_third_behind_with_lines(struct timed *m, int64_t n)
{
	struct testimony *t, *gpus;

	a_third_behind(m, n);
	t = case_file(&m->c, WITNESS_LOG, "log", -1);
	gpus = case_file(&m->c, WITNESS_POWER, "nvidia-smi", -1);
	for (int64_t rank = 0; rank < n; rank++) {
		says(t, SAY_HELLO, rank, NULL)->value = n;
		gpu_draws(gpus, rank, 300, 1);
		gpus->gpus.v[rank].rank = rank;
	}
	steps_of(t, -1, 5, 6, 100, -1);
	says(t, SAY_DATA_WORK, -1, "map: 3/10");
}

static void a_stack_of_its_own_for_each(struct timed *m, int64_t n)
{
	for (int64_t rank = 0; rank < n; rank++) {
		char frames[96];

		snprintf(frames, sizeof(frames), "part_%d ops/own.py:%d|<module> train.py:90",
			 (int)rank, (int)rank + 1);
		stack(&m->c, rank, frames);
	}
}

static void ranks_behind_cost_no_more_than_their_number(void **state)
{
	(void)state;
	assert_linear(one_behind, "1000");
	assert_linear(a_third_behind, NULL);
}

static void a_cycle_costs_no_more_than_its_ranks(void **state)
{
	(void)state;
	assert_linear(one_leaves, "1000");
}

static void a_difference_costs_no_more_than_its_ranks(void **state)
{
	(void)state;
	assert_linear(one_differs, "1000");
}

static void groups_cost_no_more_than_their_number(void **state)
{
	(void)state;
	assert_linear(one_behind_in_many_groups, "1000");
}

static void sizes_of_its_own_cost_a_rank_no_more(void **state)
{
	(void)state;
	assert_linear(own_sizes, "1000");
}

static void lines_and_stacks_cost_no_more_than_their_number(void **state)
{
	(void)state;
	assert_linear(all_time_out, "1000");
	assert_linear(stacks_of_all, "1000");
	assert_linear(saves_of_all, NULL);
	assert_linear(a_third_behind_with_lines, NULL);
	assert_linear(a_stack_of_its_own_for_each, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_evidence_in_another_order_gives_the_same_report),
		cmocka_unit_test(a_tie_is_written_alike_in_any_order),
		cmocka_unit_test(a_cycle_is_written_alike_in_any_order),
		cmocka_unit_test(recordings_are_told_apart_in_any_order),
		cmocka_unit_test(failures_are_written_alike_in_any_order),
		cmocka_unit_test(ranks_behind_cost_no_more_than_their_number),
		cmocka_unit_test(a_cycle_costs_no_more_than_its_ranks),
		cmocka_unit_test(a_difference_costs_no_more_than_its_ranks),
		cmocka_unit_test(groups_cost_no_more_than_their_number),
		cmocka_unit_test(sizes_of_its_own_cost_a_rank_no_more),
		cmocka_unit_test(lines_and_stacks_cost_no_more_than_their_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
