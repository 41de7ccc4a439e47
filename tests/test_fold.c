/* SPDX-License-Identifier: Apache-2.0 */
/* What fold makes of traces whose right answer can be worked out by hand. Times in nanoseconds. */
#include <stdio.h>
#include <math.h>
#include <time.h>
#include "fold_random.h"

static const char *stream_name(const struct rank_stream *s, uint32_t id)
{
	return intern_get(&s->names, id);
}

/*
 * launches at 10, 30, 40; compute 20-220, all-reduce 120-420, compute 420-620, nothing to 1000:
 * own clock 0-220, stands to 420, runs to 1000.
 */
static void own_clock_stands_while_only_a_collective_runs(void **state)
{
	struct made t = made_new(0);
	struct arena arena = { 0 };
	struct rank_stream s;
	struct step step;

	(void)state;
	made_mark(&t, 7, 0, 1000);
	made_mark(&t, 8, 1000, 2000);
	made_work(&t, EVENT_KERNEL, "gemm", 10, 20, 220, 7);
	made_work(&t, EVENT_KERNEL, NCCL_NAME, 30, 120, 420, 8);
	made_work(&t, EVENT_KERNEL, "gemm", 40, 420, 620, 7);
	made_work(&t, EVENT_KERNEL, "gemm", 1010, 1030, 2000, 7);
	s = made_finish(&t, 3, 8);
	assert_int_equal(s.n_steps, 2);
	assert_int_equal(s.info.rank, 3);
	assert_int_equal(s.info.kernels, 4);
	assert_int_equal(s.info.collectives, 1);
	assert_int_equal(s.info.collective_ns, 300);
	assert_false(s.info.cpu_job);
	step = made_step(&s, 0, &arena);
	assert_int_equal(step.number, 7);
	assert_int_equal(step.mark_ns, 1000);
	assert_int_equal(step.wall_ns, 1000);
	assert_int_equal(step.own_ns, 800);
	assert_int_equal(step.own[OWN_COMPUTE], 400);
	assert_int_equal(step.own[OWN_LAUNCH], 10);
	assert_int_equal(step.own[OWN_HOST], 10 + 380);
	assert_int_equal(step.comm_exposed_ns, 200);
	assert_int_equal(step.comm_ns, 300);
	assert_int_equal(step.compute_ns, 400);
	assert_int_equal(step.longest_stall_ns, 380);
	assert_int_equal(step.longest_stall_at_ns, 620);
	assert_int_equal(step.n_colls, 1);
	assert_int_equal(step.comms[step.colls[0].comm].op, COMM_ALL_REDUCE);
	assert_int_equal(step.colls[0].start_ns, 120);
	assert_int_equal(step.colls[0].end_ns, 420);
	assert_int_equal(step.colls[0].call_ns, 30);
	assert_int_equal(step.colls[0].own_arrive_ns, 120);
	assert_int_equal(step.colls[0].own_need_ns, 220);
	assert_int_equal(step.colls[0].exposed_ns, 200);
	assert_int_equal(step.n_kernels, 1);
	assert_string_equal(stream_name(&s, step.kernels[0].name), "gemm");
	assert_int_equal(step.kernels[0].count, 2);
	assert_int_equal(step.kernels[0].sum_ns, 400);
	rank_stream_done(&s);
	arena_done(&arena);
}

/* The host runs ahead: windows follow the GPU and tile time. */
static void windows_follow_the_gpu_when_the_host_runs_ahead(void **state)
{
	struct made t = made_new(0);
	struct arena arena = { 0 };
	struct rank_stream s;
	struct step a, b, c;

	(void)state;
	made_mark(&t, 0, 0, 1000);
	made_mark(&t, 1, 1000, 2000);
	made_mark(&t, 2, 2000, 3000);
	made_work(&t, EVENT_KERNEL, "k", 100, 200, 1500, 7);
	made_work(&t, EVENT_KERNEL, "k", 1010, 1500, 2900, 7);
	made_work(&t, EVENT_KERNEL, "k", 2010, 2900, 4000, 7);
	s = made_finish(&t, 0, 1);
	a = made_step(&s, 0, &arena);
	b = made_step(&s, 1, &arena);
	c = made_step(&s, 2, &arena);
	assert_int_equal(a.start_ns, 0);
	assert_int_equal(a.wall_ns, 1500);
	assert_int_equal(b.start_ns, 1500);
	assert_int_equal(b.wall_ns, 1400);
	assert_int_equal(b.own[OWN_COMPUTE], 1400);
	assert_int_equal(b.mark_ns, 1000);
	assert_int_equal(c.start_ns, 2900);
	assert_int_equal(c.wall_ns, 1100);
	rank_stream_done(&s);
	arena_done(&arena);
}

/* A stall behind the last kernel of the last step does not vanish, and counts once. */
static void a_stall_at_the_end_counts_in_its_own_step(void **state)
{
	struct made t = made_new(0);
	struct arena arena = { 0 };
	struct rank_stream s;
	struct step a, b;

	(void)state;
	made_mark(&t, 0, 0, 1000);
	made_mark(&t, 1, 1000, 9000);
	made_work(&t, EVENT_KERNEL, "k", 10, 20, 900, 7);
	made_work(&t, EVENT_KERNEL, "k", 1010, 1020, 1900, 7);
	s = made_finish(&t, 0, 1);
	a = made_step(&s, 0, &arena);
	b = made_step(&s, 1, &arena);
	assert_int_equal(a.wall_ns, 1000);
	assert_int_equal(b.wall_ns, 8000);
	assert_int_equal(b.longest_stall_ns, 7100);
	rank_stream_done(&s);
	arena_done(&arena);
}

/* Work that had been queued before the recording began is not the first step's. */
static void first_window_begins_where_unseen_work_ends(void **state)
{
	struct made t = made_new(0);
	struct arena arena = { 0 };
	struct rank_stream s;
	struct step a;

	(void)state;
	made_mark(&t, 0, 0, 10000000);
	made_event(&t, EVENT_KERNEL, "old", 100, 5000000, 7, 5, NULL); /* older than any launch */
	made_work(&t, EVENT_KERNEL, "k", 1000, 5000100, 12000100, 7);
	s = made_finish(&t, 0, 1);
	a = made_step(&s, 0, &arena);
	assert_int_equal(a.start_ns, 5000100);
	assert_int_equal(a.wall_ns, 7000000);
	assert_int_equal(a.own[OWN_COMPUTE], 7000000);
	assert_int_equal(a.n_kernels, 1);
	assert_int_equal(s.info.kernels, 2);
	assert_int_equal(s.skipped[SKIP_NO_STEP], 1);
	rank_stream_done(&s);
	arena_done(&arena);
}

/* An idle stretch up to the next launch belongs to what the host was in. */
static void idle_time_is_split_by_what_the_host_did(void **state)
{
	struct made t = made_new(0);
	struct arena arena = { 0 };
	struct rank_stream s;
	struct step a;

	(void)state;
	made_mark(&t, 0, 0, 10000);
	made_work(&t, EVENT_KERNEL, "k", 0, 0, 1000, 7);
	made_range(&t, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 900, 3000);
	made_range(&t, "save_checkpoint", 3000, 3500);
	made_work(&t, EVENT_COPY, "Memcpy HtoD", 4000, 4100, 4300, 7);
	made_event(&t, EVENT_PYTHON, "<object at 0x7f12ab>: slow", 4300, 4000, 1, 0, NULL);
	made_event(&t, EVENT_PYTHON, "Python GC", 5000, 1000, 1, 0, NULL);
	made_work(&t, EVENT_KERNEL, "k", 8300, 8400, 10000, 7);
	s = made_finish(&t, 0, 1);
	a = made_step(&s, 0, &arena);
	assert_int_equal(a.wall_ns, 10000);
	assert_int_equal(a.own[OWN_COMPUTE], 2600);
	assert_int_equal(a.own[OWN_COPY], 200);
	assert_int_equal(a.own[OWN_DATA], 2000);
	assert_int_equal(a.own[OWN_SAVE], 500);
	assert_int_equal(a.own[OWN_LAUNCH], 200);
	assert_int_equal(a.own[OWN_HOST], 500 + 4000);
	assert_int_equal(a.host_detail_ns[HOST_GC], 1000);
	assert_int_equal(a.host_detail_ns[HOST_PYTHON], 0); /* shorter than any stall: not kept */
	assert_int_equal(a.data_wait_ns, 2100);
	assert_int_equal(a.gc_ns, 1000);
	assert_int_equal(a.longest_stall_ns, 4000);
	assert_true(a.flags & STEP_CHECKPOINT);
	rank_stream_done(&s);
	arena_done(&arena);
}

static void the_function_that_held_the_host_is_named_without_addresses(void **state)
{
	const int64_t us = 1000;
	struct made t = made_new(0);
	struct arena arena = { 0 };
	struct rank_stream s;
	struct step a;

	(void)state;
	made_mark(&t, 0, 0, 10000 * us);
	made_work(&t, EVENT_KERNEL, "k", 0, 0, 1000 * us, 7);
	made_event(&t, EVENT_PYTHON, "train.py(1): main", 0, 10000 * us, 1, 0, NULL);
	made_event(&t, EVENT_PYTHON, "a.py(9): <Foo at 0x7f12ab> tokenize", 1000 * us, 8000 * us, 1,
		   0, NULL);
	made_event(&t, EVENT_PYTHON, "b.py(3): part", 1000 * us, 2000 * us, 1, 0, NULL);
	made_work(&t, EVENT_KERNEL, "k", 9000 * us, 9000 * us, 10000 * us, 7);
	s = made_finish(&t, 0, 1);
	a = made_step(&s, 0, &arena);
	assert_int_equal(a.own[OWN_HOST], 8000 * us);
	assert_int_equal(a.host_detail_ns[HOST_PYTHON], 8000 * us);
	assert_string_equal(stream_name(&s, a.host_what), "a.py(9): <Foo at 0x> tokenize");
	rank_stream_done(&s);
	arena_done(&arena);
}

/* Back to back, the second is waited for last; the first is what ran before it. */
static void exposed_time_goes_to_what_was_waited_for(void **state)
{
	struct made t = made_new(0);
	struct arena arena = { 0 };
	struct rank_stream s;
	struct step a;

	(void)state;
	made_mark(&t, 0, 0, 2000);
	made_work(&t, EVENT_KERNEL, "k", 0, 0, 100, 7);
	made_work(&t, EVENT_KERNEL, NCCL_NAME, 1, 50, 400, 8);
	made_work(&t, EVENT_KERNEL, NCCL_NAME, 2, 400, 900, 8);
	made_work(&t, EVENT_KERNEL, NCCL_NAME, 3, 60, 50000, 9); /* hidden behind all of it */
	made_work(&t, EVENT_KERNEL, "k", 4, 900, 60000, 7);
	s = made_finish(&t, 0, 1);
	a = made_step(&s, 0, &arena);
	assert_int_equal(a.n_colls, 3);
	assert_int_equal(a.colls[0].start_ns, 50);
	assert_int_equal(a.colls[0].exposed_ns, 300);
	assert_int_equal(a.colls[0].own_need_ns, 100);
	assert_int_equal(a.colls[1].start_ns, 60);
	assert_int_equal(a.colls[1].exposed_ns, 0);
	assert_int_equal(a.colls[1].own_need_ns, -1);
	assert_int_equal(a.colls[2].exposed_ns, 500);
	assert_int_equal(a.colls[2].own_need_ns, 100);
	assert_int_equal(a.comm_exposed_ns, 800);
	rank_stream_done(&s);
	arena_done(&arena);
}

/* Between any two kernels lies a gap. The collective that runs meanwhile, and afterwards, is not
   what the second one needed; the one that had just ended is. */
static void a_gap_between_kernels_needs_no_collective_that_runs_on(void **state)
{
	struct made t = made_new(0);
	struct arena arena = { 0 };
	struct rank_stream s;
	struct step a;

	(void)state;
	made_mark(&t, 0, 0, 90000);
	made_work(&t, EVENT_KERNEL, "k", 0, 0, 10000, 7);
	made_work(&t, EVENT_KERNEL, NCCL_NAME, 1, 5000, 80000, 8);
	made_work(&t, EVENT_KERNEL, NCCL_NAME, 2, 6000, 26000, 9);
	made_work(&t, EVENT_KERNEL, "k", 3, 11500, 20000, 7);
	made_work(&t, EVENT_KERNEL, "k", 4, 33000, 90000, 7); /* 7 us behind the second */
	s = made_finish(&t, 0, 1);
	a = made_step(&s, 0, &arena);
	assert_int_equal(a.n_colls, 2);
	assert_int_equal(a.colls[0].own_need_ns, -1);
	assert_int_equal(a.colls[1].own_need_ns, 18500);
	assert_int_equal(a.comm_exposed_ns, 1500 + 13000);
	rank_stream_done(&s);
	arena_done(&arena);
}

static void kernels_keep_how_large_they_are_launched(void **state)
{
	struct made t = made_new(0);
	struct arena arena = { 0 };
	struct rank_stream s;
	struct step a;

	(void)state;
	made_mark(&t, 0, 0, 1000);
	for (int i = 0; i < 3; i++) {
		struct trace_event e = { .kind = EVENT_KERNEL,
					 .name = intern_str(t.sink->names, "gemm"),
					 .start_ns = 100 * i,
					 .duration_ns = 50,
					 .thread = 7,
					 .correlation = (uint64_t)i + 1,
					 .blocks = 1000 + 100 * (uint64_t)i };

		made_event(&t, EVENT_LAUNCH, "cudaLaunchKernel", 100 * i, 5, 1, e.correlation,
			   NULL);
		assert_int_equal(t.sink->event(t.sink->user, &e), 0);
	}
	s = made_finish(&t, 0, 1);
	a = made_step(&s, 0, &arena);
	assert_int_equal(a.n_kernels, 1);
	assert_int_equal(a.kernels[0].count, 3);
	assert_int_equal(a.kernels[0].blocks, 1100);
	rank_stream_done(&s);
	arena_done(&arena);
}

static void a_kernel_without_arguments_takes_those_of_its_call(void **state)
{
	struct made t = made_new(0);
	struct arena arena = { 0 };
	struct comm_args args = made_args(&t, COMM_ALL_GATHER, "tp", 1024, 42);
	struct rank_stream s;
	struct step a;

	(void)state;
	made_mark(&t, 0, 0, 5000);
	made_event(&t, EVENT_OP, "record_param_comms", 100, 50, 1, 0, &args);
	made_work(&t, EVENT_KERNEL, "ncclDevKernel_Generic(x)", 120, 200, 900, 8);
	made_range(&t, "nccl:recv 1<-3", 1000, 1100);
	made_work(&t, EVENT_KERNEL, "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", 1050, 1200,
		  1900, 8);
	s = made_finish(&t, 0, 8);
	a = made_step(&s, 0, &arena);
	assert_int_equal(a.n_colls, 2);
	assert_int_equal(a.comms[a.colls[0].comm].op, COMM_ALL_GATHER);
	assert_int_equal(a.colls[0].seq, 42);
	assert_int_equal(a.colls[0].bytes, 4096);
	assert_string_equal(stream_name(&s, s.info.groups[a.comms[a.colls[0].comm].group].name),
			    "tp");
	assert_int_equal(a.comms[a.colls[1].comm].op, COMM_RECV);
	assert_int_equal(a.colls[1].peer, 3);
	assert_int_equal(s.info.groups[a.comms[a.colls[1].comm].group].name, NO_ID);
	rank_stream_done(&s);
	arena_done(&arena);
}

/* Operators 100-300 and 600-700 on one thread, 650-750 on another; gloo 200-500; call 190. */
static void a_cpu_job_computes_in_its_operators(void **state)
{
	struct made t = made_new(0);
	struct arena arena = { 0 };
	struct comm_args args = made_args(&t, COMM_ALL_REDUCE, NULL, 64, -1);
	struct rank_stream s;
	struct step a;

	(void)state;
	made_mark(&t, 4, 0, 1000);
	made_op(&t, "aten::mm", 100, 300);
	made_op(&t, "aten::inner", 120, 200);
	made_event(&t, EVENT_OP, "c10d::allreduce_", 190, 10, 1, 0, &args);
	made_event(&t, EVENT_COLLECTIVE, "gloo:all_reduce", 200, 300, 9, 0, &args);
	made_op(&t, "aten::mul", 600, 700);
	made_event(&t, EVENT_OP, "aten::add", 650, 100, 2, 0, NULL);
	s = made_finish(&t, 1, 2);
	assert_true(s.info.cpu_job);
	assert_int_equal(s.info.kernels, 0);
	assert_int_equal(s.info.collectives, 1);
	assert_int_equal(s.info.collective_ns, 300);
	a = made_step(&s, 0, &arena);
	assert_int_equal(a.number, 4);
	assert_int_equal(a.wall_ns, 1000);
	assert_int_equal(a.own[OWN_COMPUTE], 190 + 150); /* less the call itself */
	assert_int_equal(a.comm_exposed_ns, 200);
	assert_int_equal(a.own[OWN_HOST], 100 + 10 + 100 + 250);
	assert_int_equal(a.own_ns, 800);
	assert_int_equal(a.colls[0].call_ns, 190);
	assert_int_equal(a.colls[0].own_arrive_ns, 190);
	assert_int_equal(a.colls[0].own_need_ns, 300);
	assert_int_equal(a.colls[0].bytes, 256);
	rank_stream_done(&s);
	arena_done(&arena);
}

/* Two calls whose events ran in the other order: the sizes tell. */
static void calls_and_their_events_pair_by_size(void **state)
{
	struct made t = made_new(0);
	struct arena arena = { 0 };
	struct comm_args small = made_args(&t, COMM_ALL_REDUCE, NULL, 8, -1);
	struct comm_args large = made_args(&t, COMM_ALL_REDUCE, NULL, 800, -1);
	struct rank_stream s;
	struct step a;

	(void)state;
	made_mark(&t, 0, 0, 1000);
	made_event(&t, EVENT_OP, "c10d::allreduce_", 100, 10, 1, 0, &small);
	made_event(&t, EVENT_OP, "c10d::allreduce_", 200, 10, 1, 0, &large);
	made_event(&t, EVENT_COLLECTIVE, "gloo:all_reduce", 300, 100, 9, 0, &large);
	made_event(&t, EVENT_COLLECTIVE, "gloo:all_reduce", 310, 100, 8, 0, &small);
	s = made_finish(&t, 0, 2);
	a = made_step(&s, 0, &arena);
	assert_int_equal(a.n_colls, 2);
	assert_int_equal(a.colls[0].bytes, 3200);
	assert_int_equal(a.colls[0].call_ns, 200);
	assert_int_equal(a.colls[1].call_ns, 100);
	rank_stream_done(&s);
	arena_done(&arena);
}

static void without_marks_the_file_is_one_window(void **state)
{
	struct made t = made_new(0);
	struct arena arena = { 0 };
	struct rank_stream s;
	struct step a;

	(void)state;
	made_work(&t, EVENT_KERNEL, "k", 100, 200, 300, 7);
	made_work(&t, EVENT_KERNEL, "k", 500, 600, 700, 7);
	s = made_finish(&t, 0, 1);
	assert_true(s.no_marks);
	assert_int_equal(s.n_steps, 1);
	a = made_step(&s, 0, &arena);
	assert_int_equal(a.number, 0);
	assert_true(a.flags & STEP_WHOLE_FILE);
	assert_int_equal(a.wall_ns, 500);
	assert_int_equal(a.own[OWN_COMPUTE], 200);
	assert_int_equal(a.own[OWN_HOST], 200);
	assert_int_equal(a.own[OWN_LAUNCH], 100);
	rank_stream_done(&s);
	arena_done(&arena);
}

static void an_empty_trace_has_no_steps(void **state)
{
	struct made t = made_new(0);
	struct rank_stream s = made_finish(&t, 0, 1);

	(void)state;
	assert_int_equal(s.n_steps, 0);
	rank_stream_done(&s);
}

/* A duration of years on a stream that went on is cut at the next start, and counted. */
/* What waits for a call that loads a module is the host's, not the GPU's, however long it takes. */
static void a_launch_is_done_when_its_call_returns(void **state)
{
	static const int64_t calls[] = { 2000000, 2000000000, 5000000000, 100000000000 };
	struct arena arena = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		struct made t = made_new(0);
		int64_t begin = calls[i] + 700000, end = begin + 1000000;
		struct rank_stream s;
		struct step step;

		made_mark(&t, 1, 0, end + 1000000);
		made_work(&t, EVENT_KERNEL, "gemm", 10, 20, 30, 7);
		made_event(&t, EVENT_LAUNCH, "cudaLaunchKernel", 1000, calls[i], 1, 5, NULL);
		made_event(&t, EVENT_KERNEL, "gemm", begin, end - begin, 7, 5, NULL);
		s = made_finish(&t, 0, 1);
		step = made_step(&s, 0, &arena);
		assert_int_equal(step.own[OWN_COMPUTE], 1000010);
		assert_int_equal(step.own[OWN_LAUNCH], 10 + begin - (1000 + calls[i]));
		rank_stream_done(&s);
	}
	arena_done(&arena);
}

static void absurd_durations_end_where_the_stream_goes_on(void **state)
{
	struct made t = made_new(0);
	struct arena arena = { 0 };
	struct rank_stream s;
	struct step a;

	(void)state;
	made_mark(&t, 0, 0, 10000000);
	made_work(&t, EVENT_KERNEL, "k", 0, 100, (int64_t)1 << 60, 7);
	made_work(&t, EVENT_KERNEL, "k", 10, 5000100, 9000100, 7);
	s = made_finish(&t, 0, 1);
	a = made_step(&s, 0, &arena);
	assert_int_equal(s.skipped[SKIP_BAD_DURATION], 1);
	assert_int_equal(s.info.kernel_ns, 9000000);
	assert_int_equal(a.own[OWN_COMPUTE], 9000000);
	assert_int_equal(a.wall_ns, 10000000);
	rank_stream_done(&s);
	arena_done(&arena);
}

static void phases_carry_what_they_launched(void **state)
{
	struct made t = made_new(0);
	struct arena arena = { 0 };
	struct rank_stream s;
	struct step a;

	(void)state;
	made_mark(&t, 0, 0, 1000);
	made_mark(&t, 1, 1000, 2000);
	made_range(&t, "forward", 10, 100);
	made_range(&t, "backward", 100, 300);
	made_range(&t, "forward", 300, 310);
	made_work(&t, EVENT_KERNEL, "a", 20, 200, 400, 7);
	made_work(&t, EVENT_KERNEL, "b", 30, 300, 500, 8);
	made_work(&t, EVENT_KERNEL, "c", 150, 500, 900, 7);
	s = made_finish(&t, 0, 1);
	a = made_step(&s, 0, &arena);
	assert_int_equal(a.n_phases, 2);
	assert_string_equal(stream_name(&s, a.phases[0].name), "forward");
	assert_int_equal(a.phases[0].count, 2);
	assert_int_equal(a.phases[0].first_start_ns, 10);
	assert_int_equal(a.phases[0].last_end_ns, 310);
	assert_int_equal(a.phases[0].total_ns, 100);
	assert_int_equal(a.phases[0].longest_ns, 90);
	assert_int_equal(a.phases[0].gpu_ns, 300);
	assert_int_equal(a.phases[1].gpu_ns, 400);
	assert_int_equal(a.kernels[0].stream_class, 0);
	assert_int_equal(a.kernels[1].stream_class, 1);
	rank_stream_done(&s);
	arena_done(&arena);
}

static void only_the_steps_asked_for_are_kept(void **state)
{
	struct fold_options options = { 0, 2, 3 };
	struct made t = { .fold = fold_new(&options) };
	struct arena arena = { 0 };
	struct rank_stream s;

	(void)state;
	t.sink = fold_sink(t.fold);
	for (unsigned i = 0; i < 6; i++) {
		made_mark(&t, i, i * 1000, i * 1000 + 1000);
		made_work(&t, EVENT_KERNEL, "k", i * 1000, i * 1000, i * 1000 + 900, 7);
	}
	s = made_finish(&t, 0, 1);
	assert_int_equal(s.n_steps, 2);
	assert_int_equal(made_step(&s, 0, &arena).number, 2);
	assert_int_equal(made_step(&s, 1, &arena).wall_ns, 1000);
	assert_int_equal(s.info.kernels, 6);
	rank_stream_done(&s);
	arena_done(&arena);
}

/* The same events in another order, or through a file, give the same bytes. */
static struct rank_stream random_fold(const struct random_event *e, size_t n, size_t spill)
{
	struct made t = made_new(spill);
	struct comm_args args;

	/* ids of names follow the order in which they are met; keep that out of the comparison */
	intern_str(t.sink->names, "gemm");
	args = made_args(&t, COMM_ALL_REDUCE, "0", 77, -1);
	for (unsigned i = 0; i < RANDOM_WORK / 100; i++)
		made_mark(&t, i, i * 100000, i * 100000 + 100000);
	for (size_t i = 0; i < n; i++)
		made_event(&t, e[i].kind, e[i].name, e[i].start, e[i].duration, e[i].thread,
			   e[i].correlation, e[i].args ? &args : NULL);
	return made_finish(&t, 0, 2);
}

static void assert_same_stream(const struct rank_stream *a, const struct rank_stream *b)
{
	struct buf x = { 0 }, y = { 0 };
	uint8_t *p = xmalloc(a->steps.len + 1), *q = xmalloc(a->steps.len + 1);

	assert_int_equal(a->steps.len, b->steps.len);
	assert_int_equal(spool_read(&a->steps, 0, p, a->steps.len, NULL), 0);
	assert_int_equal(spool_read(&b->steps, 0, q, b->steps.len, NULL), 0);
	assert_memory_equal(p, q, a->steps.len);
	rank_info_encode(&x, &a->info);
	rank_info_encode(&y, &b->info);
	assert_int_equal(x.len, y.len);
	assert_memory_equal(x.data, y.data, x.len);
	assert_int_equal(a->names.n, b->names.n);
	for (uint32_t i = 0; i < a->names.n; i++)
		assert_string_equal(intern_get(&a->names, i), intern_get(&b->names, i));
	buf_done(&x);
	buf_done(&y);
	free(p);
	free(q);
}

static void order_and_spilling_leave_no_trace(void **state)
{
	struct random_event *e = xcalloc(RANDOM_WORK * 3, sizeof(*e));
	uint64_t seed = 0x5eed;
	size_t n = random_events(e, seed, 1);
	struct rank_stream sorted = random_fold(e, n, 0), spilled, shuffled;

	(void)state;
	print_message("seed %#lx\n", (unsigned long)seed);
	assert_int_equal(sorted.n_steps, RANDOM_WORK / 100);
	spilled = random_fold(e, n, 8192);
	assert_same_stream(&sorted, &spilled);
	for (size_t i = n - 1; i > 0; i--) {
		size_t k = random_next(&seed) % (i + 1);
		struct random_event swap = e[i];

		e[i] = e[k];
		e[k] = swap;
	}
	shuffled = random_fold(e, n, 0);
	assert_same_stream(&sorted, &shuffled);
	rank_stream_done(&sorted);
	rank_stream_done(&spilled);
	rank_stream_done(&shuffled);
	free(e);
}

static void the_rank_comes_from_the_hint_when_nothing_else_says_it(void **state)
{
	struct made t = made_new(0);
	struct fold_hint hint = { .rank = 12, .host = "node7_x", .host_len = 5 };
	struct rank_stream s;

	(void)state;
	made_mark(&t, 0, 0, 100);
	made_op(&t, "aten::mm", 0, 50);
	assert_int_equal(fold_finish(t.fold, &hint, &s, NULL), 0);
	fold_free(t.fold);
	assert_int_equal(s.info.rank, 12);
	assert_string_equal(stream_name(&s, s.info.host), "node7");
	rank_stream_done(&s);
}

/* Processor seconds for a job of n steps whose GPU has work in the last one alone, so that all are
   open before the first is closed. */
static double seconds_of_open_steps(unsigned n)
{
	struct timespec began, ended;
	struct made t = made_new(0);
	struct rank_stream s;

	for (unsigned i = 0; i < n; i++) {
		made_mark(&t, i, i * 1000, i * 1000 + 1000);
		made_range(&t, "forward", i * 1000 + 10, i * 1000 + 500);
	}
	made_work(&t, EVENT_KERNEL, "gemm", n * 1000 - 900, n * 1000 - 800, n * 1000 - 100, 7);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began);
	s = made_finish(&t, 0, 1);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended);
	assert_int_equal(s.n_steps, n);
	assert_int_equal(s.info.kernels, 1);
	rank_stream_done(&s);
	return (double)(ended.tv_sec - began.tv_sec) +
	       (double)(ended.tv_nsec - began.tv_nsec) / 1e9;
}

/* Eight times as many: 8 times the work, not 64 times. The least of three tries each: what a busy
   machine adds to one is no cost of ours. */
static void the_cost_of_a_step_does_not_grow_with_the_open_ones(void **state)
{
	double few = INFINITY, many = INFINITY;

	(void)state;
	for (int i = 0; i < 3; i++) {
		few = fmin(few, seconds_of_open_steps(5000));
		many = fmin(many, seconds_of_open_steps(40000));
	}
	print_message("5,000 open steps: %.1f ms; 40,000: %.1f ms\n", few * 1e3, many * 1e3);
	assert_true(many < 24 * few);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_clock_stands_while_only_a_collective_runs),
		cmocka_unit_test(windows_follow_the_gpu_when_the_host_runs_ahead),
		cmocka_unit_test(a_stall_at_the_end_counts_in_its_own_step),
		cmocka_unit_test(first_window_begins_where_unseen_work_ends),
		cmocka_unit_test(idle_time_is_split_by_what_the_host_did),
		cmocka_unit_test(the_function_that_held_the_host_is_named_without_addresses),
		cmocka_unit_test(exposed_time_goes_to_what_was_waited_for),
		cmocka_unit_test(a_gap_between_kernels_needs_no_collective_that_runs_on),
		cmocka_unit_test(kernels_keep_how_large_they_are_launched),
		cmocka_unit_test(a_kernel_without_arguments_takes_those_of_its_call),
		cmocka_unit_test(a_cpu_job_computes_in_its_operators),
		cmocka_unit_test(calls_and_their_events_pair_by_size),
		cmocka_unit_test(without_marks_the_file_is_one_window),
		cmocka_unit_test(an_empty_trace_has_no_steps),
		cmocka_unit_test(a_launch_is_done_when_its_call_returns),
		cmocka_unit_test(absurd_durations_end_where_the_stream_goes_on),
		cmocka_unit_test(phases_carry_what_they_launched),
		cmocka_unit_test(only_the_steps_asked_for_are_kept),
		cmocka_unit_test(order_and_spilling_leave_no_trace),
		cmocka_unit_test(the_rank_comes_from_the_hint_when_nothing_else_says_it),
		cmocka_unit_test(the_cost_of_a_step_does_not_grow_with_the_open_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
