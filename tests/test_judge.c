/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_judge.c - what judge says of jobs made by hand: each rank works for a time that the test
 * gives, then all meet in one all_reduce of a known transfer. So every right answer can be computed
 * in the head.
 */
#include "judge/judge_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define MS	    1000000
#define RANKS_MAX   16
#define TRANSFER_MS 2

struct made {
	struct job job;
	struct judge *judge;
	struct report report;
	struct arena arena;
	uint32_t n;
};

/* What one rank does in one step, in milliseconds. */
struct work {
	double compute, host, data, save;
	double loader;	 /* a phase with so much GPU work; what is computed is one kernel then */
	uint64_t blocks; /* of each launch of that kernel; 0: unknown */
};

static void made_new(struct made *m, uint32_t n)
{
	static struct judge_options options = { .min_impact = 0.05 };

	*m = (struct made){ .n = n };
	m->job.n_ranks = n;
	m->job.world_size = n;
	m->job.first_step = m->job.last_step = -1;
	m->job.ranks = arena_alloc(&m->arena, n * sizeof(*m->job.ranks));
	m->job.groups = arena_alloc(&m->arena, sizeof(*m->job.groups));
	m->job.n_groups = 1;
	m->job.group_of = arena_alloc(&m->arena, n * sizeof(*m->job.group_of));
	m->job.groups[0] = (struct job_group){ .name = intern_str(&m->job.names, "0"),
					       .desc = intern_str(&m->job.names, "default_pg"),
					       .size = n,
					       .n_rows = n };
	m->job.groups[0].rows = arena_alloc(&m->arena, n * sizeof(uint32_t));
	for (uint32_t r = 0; r < n; r++) {
		m->job.ranks[r] = (struct rank_info){ .rank = r,
						      .world_size = n,
						      .host = NO_ID,
						      .gpu_name = NO_ID,
						      .backend = NO_ID,
						      .gpu_index = -1,
						      .n_groups = 1 };
		m->job.group_of[r] = arena_alloc(&m->arena, sizeof(uint32_t));
		m->job.groups[0].rows[r] = r;
	}
	m->judge = judge_new(&m->job, &options);
	m->report.job = &m->job;
}

static int64_t ns(double ms)
{
	return (int64_t)llround(ms * MS);
}

static double own_of(const struct work *w)
{
	return w->compute + w->host + w->data + w->save;
}

static struct step *made_step(struct made *m, uint32_t r, uint64_t number, const struct work *w,
			      double wall, int64_t start)
{
	struct step *s = arena_alloc(&m->arena, sizeof(*s));
	double own = own_of(w);

	*s = (struct step){ .rank_row = r,
			    .number = number,
			    .start_ns = start,
			    .mark_ns = ns(wall),
			    .wall_ns = ns(wall),
			    .own_ns = ns(own),
			    .own = { [OWN_COMPUTE] = ns(w->compute),
				     [OWN_HOST] = ns(w->host),
				     [OWN_DATA] = ns(w->data),
				     [OWN_SAVE] = ns(w->save) },
			    .host_what = NO_ID,
			    .longest_stall_ns = ns(w->host + w->data + w->save),
			    .n_comms = 1,
			    .n_colls = 1 };
	if (w->loader > 0) {
		s->n_phases = s->n_kernels = 1;
		s->phases = arena_alloc(&m->arena, sizeof(*s->phases));
		s->phases[0] = (struct step_phase){ .name = intern_str(&m->job.names, "loader"),
						    .count = 1,
						    .last_end_ns = ns(w->loader),
						    .total_ns = ns(w->loader),
						    .exposed_ns = ns(w->loader),
						    .gpu_ns = ns(w->loader) };
		s->kernels = arena_alloc(&m->arena, sizeof(*s->kernels));
		s->kernels[0] = (struct step_kernel){ .name = intern_str(&m->job.names, "gemm"),
						      .count = 10,
						      .sum_ns = ns(w->compute),
						      .max_ns = ns(w->compute / 10),
						      .blocks = w->blocks };
	}
	s->comms = arena_alloc(&m->arena, sizeof(*s->comms));
	s->comms[0] = (struct step_comm){ .op = COMM_ALL_REDUCE, .count = 1, .bytes = 1 << 20 };
	s->colls = arena_alloc(&m->arena, sizeof(*s->colls));
	s->colls[0] = (struct step_coll){ .seq = (int64_t)number,
					  .bytes = 1 << 20,
					  .peer = -1,
					  .start_ns = ns(own),
					  .end_ns = ns(wall),
					  .own_arrive_ns = ns(own),
					  .own_need_ns = ns(own),
					  .exposed_ns = ns(wall - own) };
	return s;
}

/* One step of all ranks; clocks of the ranks differ by `skew` milliseconds a rank. */
static void made_play_skewed(struct made *m, uint64_t number, const struct work *w, double skew)
{
	struct step *steps[RANKS_MAX];
	double wall = 0;

	for (uint32_t r = 0; r < m->n; r++)
		wall = fmax(wall, own_of(&w[r]) + TRANSFER_MS);
	for (uint32_t r = 0; r < m->n; r++)
		steps[r] = made_step(m, r, number, &w[r], wall,
				     (int64_t)number * 1000 * MS + ns(skew * r));
	assert_int_equal(judge_step(m->judge, number, steps), 0);
}

static void made_play(struct made *m, uint64_t number, const struct work *w)
{
	made_play_skewed(m, number, w, 0);
}

/* 1 % of noise, the same in every run. */
static double noisy(double ms, uint32_t rank, uint64_t step)
{
	return ms * (1 + 0.01 * ((double)(hash_mix(rank + 1, step) % 2001) / 1000 - 1));
}

static void made_even(struct made *m, uint64_t step, struct work *w, double ms)
{
	for (uint32_t r = 0; r < m->n; r++)
		w[r] = (struct work){ .compute = noisy(ms, r, step) };
}

static const struct finding *made_finish(struct made *m, size_t faults)
{
	size_t n = 0;

	assert_int_equal(judge_finish(m->judge, &m->report), 0);
	for (size_t i = 0; i < m->report.findings.n; i++)
		n += m->report.findings.v[i].severity != SEVERITY_NOTE;
	assert_int_equal(n, faults);
	assert_int_equal(m->report.verdict, faults ? VERDICT_SLOW : VERDICT_HEALTHY);
	return faults ? &m->report.findings.v[0] : NULL;
}

static void made_done(struct made *m)
{
	judge_free(m->judge);
	report_done(&m->report);
	intern_done(&m->job.names);
	arena_done(&m->job.arena);
	arena_done(&m->arena);
}

static void judge_names_the_rank_whose_own_time_is_longer(void **state)
{
	struct work w[RANKS_MAX];
	const struct finding *f;
	struct made m;

	(void)state;
	made_new(&m, 8);
	for (uint64_t t = 0; t < 12; t++) {
		made_even(&m, t, w, 100);
		if (t >= 5)
			w[3].compute = 150;
		made_play_skewed(&m, t, w, 7); /* clocks that differ change nothing */
	}
	f = made_finish(&m, 1);
	assert_int_equal(f->cause, CAUSE_COMPUTE_STRAGGLER);
	assert_int_equal(f->culprits.n, 1);
	assert_int_equal(f->culprits.v[0], 3);
	assert_int_equal(f->windows.n, 1);
	assert_int_equal(f->windows.v[0].first_step, 5);
	assert_int_equal(f->windows.v[0].last_step, 11);
	assert_string_equal(f->victims, "0-2,4-7");
	/* 152 ms with it; without it the slowest of seven needs about 101 + 2 */
	assert_true(f->slowdown > 1.46 && f->slowdown < 1.50);
	assert_int_equal(m.report.ranks.v[3].arrived_last >= 7, 1);
	made_done(&m);
}

static void judge_is_silent_on_ranks_that_only_differ_by_noise(void **state)
{
	struct work w[RANKS_MAX];
	struct made m;

	(void)state;
	made_new(&m, 16);
	for (uint64_t t = 0; t < 200; t++) {
		made_even(&m, t, w,
			  100 + 30 * (double)(t % 3)); /* sequence lengths that all share */
		made_play(&m, t, w);
	}
	made_finish(&m, 0);
	made_done(&m);
}

/* A kernel in the loader's phase takes longer on the slow rank too, but most lies in no phase. */
static void a_phase_without_the_work_is_not_where_it_is_slow(void **state)
{
	struct work w[RANKS_MAX];
	const struct finding *f;
	struct made m;

	(void)state;
	made_new(&m, 4);
	for (uint64_t t = 0; t < 12; t++) {
		made_even(&m, t, w, 20);
		for (uint32_t r = 0; r < 4; r++)
			w[r].loader = r == 1 ? 0.3 : 0.2;
		if (t >= 5)
			w[1].compute *= 2;
		made_play(&m, t, w);
	}
	f = made_finish(&m, 1);
	assert_int_equal(f->cause, CAUSE_COMPUTE_STRAGGLER);
	assert_string_equal(f->where_kernel, "gemm");
	assert_null(f->where_phase);
	made_done(&m);
}

/* All wait for data from step 5 on, each step another rank a little longer, one of them in most. */
static void waits_of_all_for_data_are_one_finding(void **state)
{
	static const uint32_t last[] = { 1, 1, 3, 1, 2, 1, 1, 0, 1 };
	struct work w[RANKS_MAX];
	const struct finding *f;
	struct made m;

	(void)state;
	made_new(&m, 4);
	for (uint64_t t = 0; t < 14; t++) {
		made_even(&m, t, w, 22);
		for (uint32_t r = 0; r < 4; r++)
			w[r].data = t < 5 ? 0.1 : 8 + 0.1 * r;
		if (t >= 5)
			w[last[t - 5]].data = 11;
		made_play(&m, t, w);
	}
	f = made_finish(&m, 1);
	assert_int_equal(f->cause, CAUSE_DATA_STARVED);
	assert_int_equal(f->culprits.n, 0);
	assert_int_equal(f->windows.v[0].first_step, 5);
	made_done(&m);
}

static void judge_tells_a_stalled_host_from_a_starved_rank(void **state)
{
	static const enum cause want[] = { CAUSE_HOST_STALL, CAUSE_DATA_STARVED };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct work w[RANKS_MAX];
		const struct finding *f;
		struct made m;

		made_new(&m, 4);
		for (uint64_t t = 0; t < 10; t++) {
			made_even(&m, t, w, 50);
			if (t == 4 || t == 7)
				*(i ? &w[2].data : &w[2].host) = 90;
			made_play(&m, t, w);
		}
		f = made_finish(&m, 1);
		assert_int_equal(f->cause, want[i]);
		assert_int_equal(f->culprits.v[0], 2);
		assert_int_equal(f->windows.n, 2);
		assert_int_equal(f->windows.v[1].first_step, 7);
		made_done(&m);
	}
}

static void judge_calls_separate_windows_throttling(void **state)
{
	struct work w[RANKS_MAX];
	const struct finding *f;
	struct made m;

	(void)state;
	made_new(&m, 8);
	for (uint64_t t = 0; t < 20; t++) {
		made_even(&m, t, w, 100);
		if ((t >= 4 && t <= 6) || (t >= 12 && t <= 14))
			w[6].compute = 140;
		made_play(&m, t, w);
	}
	f = made_finish(&m, 1);
	assert_int_equal(f->cause, CAUSE_THROTTLING);
	assert_int_equal(f->windows.n, 2);
	made_done(&m);
}

static void judge_names_the_slower_half_and_says_its_doubt(void **state)
{
	struct work w[RANKS_MAX];
	const struct finding *f;
	struct made m;

	(void)state;
	made_new(&m, 8);
	for (uint64_t t = 0; t < 8; t++) {
		made_even(&m, t, w, 100);
		for (uint32_t r = 0; r < 8; r += 2)
			w[r].compute *= 1.5;
		made_play(&m, t, w);
	}
	f = made_finish(&m, 1);
	assert_int_equal(f->culprits.n, 4);
	assert_int_equal(f->culprits.v[3], 6);
	assert_true(f->confidence < 0.65);
	assert_int_equal(m.report.assumed.n, 2);
	made_done(&m);
}

static bool excludes(const struct finding *f, enum cause cause)
{
	for (size_t i = 0; i < f->excluded.n; i++)
		if (f->excluded.v[i].cause == cause)
			return true;
	return false;
}

/* Rank 3 computes 1.5 times as long; its launches have so many blocks where its peers' have 4000.
 */
static const struct finding *slow_with_blocks(struct made *m, uint64_t blocks, uint64_t peers)
{
	struct work w[RANKS_MAX];

	made_new(m, 8);
	for (uint64_t t = 0; t < 12; t++) {
		made_even(m, t, w, 100);
		for (uint32_t r = 0; r < 8; r++) {
			w[r].loader = 0.1;
			w[r].blocks = r == 3 ? blocks : peers;
		}
		w[3].compute *= 1.5;
		made_play(m, t, w);
	}
	return made_finish(m, 1);
}

static void larger_launches_are_more_work_and_no_slow_machine(void **state)
{
	struct made m;
	const struct finding *f = slow_with_blocks(&m, 5600, 4000);

	(void)state;
	assert_int_equal(f->cause, CAUSE_WORKLOAD_IMBALANCE);
	assert_int_equal(f->culprits.n, 1);
	assert_int_equal(f->culprits.v[0], 3);
	assert_string_equal(f->action, "fix-data");
	assert_true(excludes(f, CAUSE_COMPUTE_STRAGGLER));
	made_done(&m);
}

static void as_large_launches_are_a_slow_machine(void **state)
{
	struct made m;
	const struct finding *f = slow_with_blocks(&m, 4000, 4000);

	(void)state;
	assert_int_equal(f->cause, CAUSE_COMPUTE_STRAGGLER);
	assert_true(excludes(f, CAUSE_WORKLOAD_IMBALANCE));
	assert_true(f->confidence > 0.95);
	assert_int_equal(m.report.assumed.n, 0);
	made_done(&m);
}

/* A kernel of one block a processor takes its work from a list: its grid says nothing. */
static void launches_that_tell_nothing_leave_both_possible(void **state)
{
	struct made m;
	const struct finding *f = slow_with_blocks(&m, 132, 132);

	(void)state;
	assert_int_equal(f->cause, CAUSE_COMPUTE_STRAGGLER);
	assert_false(excludes(f, CAUSE_WORKLOAD_IMBALANCE));
	assert_true(f->confidence < 0.9);
	assert_int_equal(m.report.assumed.n, 1);
	made_done(&m);
}

static void judge_blames_nobody_for_work_that_moves(void **state)
{
	struct work w[RANKS_MAX];
	const struct finding *f;
	struct made m;

	(void)state;
	made_new(&m, 8);
	for (uint64_t t = 0; t < 16; t++) {
		for (uint32_t r = 0; r < 8; r++)
			w[r] = (struct work){ .compute = 60 + (double)(hash_mix(r + 77, t) % 80) };
		made_play(&m, t, w);
	}
	f = made_finish(&m, 1);
	assert_int_equal(f->cause, CAUSE_WORKLOAD_IMBALANCE);
	assert_int_equal(f->culprits.n, 0);
	/* evened out each does the mean of a step, about 100 ms, where the largest of eight does
	 * 132 */
	assert_true(f->slowdown > 1.25 && f->slowdown < 1.35);
	made_done(&m);
}

/* A rank that gets slower and slower is no uneven work, however much its excess changes. */
static void a_rank_that_drifts_is_no_uneven_work(void **state)
{
	struct work w[RANKS_MAX];
	const struct finding *f;
	struct made m;

	(void)state;
	made_new(&m, 8);
	for (uint64_t t = 0; t < 5; t++) {
		made_even(&m, t, w, 100);
		w[2].compute *= 1 + 0.1 * (double)(t + 1);
		made_play(&m, t, w);
	}
	f = made_finish(&m, 1);
	assert_int_equal(f->cause, CAUSE_COMPUTE_STRAGGLER);
	assert_int_equal(f->culprits.n, 1);
	assert_int_equal(f->culprits.v[0], 2);
	made_done(&m);
}

/* A kernel whose work differs from rank to rank by half is no regression where it steps up by a
 * fifth. */
static void uneven_work_of_a_kernel_is_no_regression(void **state)
{
	struct work w[RANKS_MAX];
	const struct finding *f;
	struct made m;

	(void)state;
	made_new(&m, 8);
	for (uint64_t t = 0; t < 12; t++) {
		for (uint32_t r = 0; r < 8; r++)
			w[r] = (struct work){
				.compute =
				    (60 + 10 * (double)((r + 3 * t) % 8)) * (t < 6 ? 1 : 1.2),
				.loader = 1,
			};
		made_play(&m, t, w);
	}
	f = made_finish(&m, 1);
	assert_int_equal(f->cause, CAUSE_WORKLOAD_IMBALANCE);
	made_done(&m);
}

/* All wait for data, and each time for the one that waits longest. */
static void starvation_costs_what_the_last_one_waits(void **state)
{
	struct work w[RANKS_MAX];
	const struct finding *f;
	struct made m;

	(void)state;
	made_new(&m, 8);
	for (uint64_t t = 0; t < 12; t++) {
		made_even(&m, t, w, 100);
		for (uint32_t r = 0; r < 8; r++)
			w[r].data = (r + t) % 8 ? 40 + (double)((r * 5 + t) % 4) : 60;
		made_play(&m, t, w);
	}
	f = made_finish(&m, 1);
	assert_int_equal(f->cause, CAUSE_DATA_STARVED);
	assert_int_equal(f->culprits.n, 0);
	assert_true(f->slowdown > 1.54 && f->slowdown < 1.62);
	made_done(&m);
}

/* All write, some a little longer, every fourth step: the save is the job's, and no rank's. */
static void judge_takes_a_save_of_all_ranks_for_what_it_is(void **state)
{
	struct work w[RANKS_MAX];
	const struct finding *f;
	struct made m;

	(void)state;
	made_new(&m, 4);
	for (uint64_t t = 0; t < 10; t++) {
		struct step *steps[RANKS_MAX];
		bool saves = t % 4 == 1;

		made_even(&m, t, w, 100);
		for (uint32_t r = 0; r < 4; r++) {
			w[r].host = !saves ? 0 : r == 2 ? 860 : 800;
			steps[r] =
			    made_step(&m, r, t, &w[r], saves ? 963 : 103, (int64_t)t * 2000 * MS);
			if (saves)
				steps[r]->comms[0].op = COMM_BARRIER;
		}
		assert_int_equal(judge_step(m.judge, t, steps), 0);
	}
	f = made_finish(&m, 1);
	assert_int_equal(f->cause, CAUSE_CHECKPOINT);
	assert_int_equal(f->culprits.n, 0);
	assert_true(f->slowdown > 7);
	made_done(&m);
}

/* A chip that is a little slower than others is not named beside one that is far slower; one whose
   recording begins later is. */
static void judge_joins_ranks_that_are_slow_alike(void **state)
{
	struct work w[RANKS_MAX];
	const struct finding *f;
	struct made m;

	(void)state;
	made_new(&m, 8);
	for (uint64_t t = 0; t < 12; t++) {
		struct step *steps[RANKS_MAX];

		made_even(&m, t, w, 100);
		w[1].compute += 30;
		w[3].compute += 4;
		w[5].compute += 30;
		for (uint32_t r = 0; r < 8; r++)
			steps[r] = r == 5 && t < 7
				       ? NULL
				       : made_step(&m, r, t, &w[r], 133, (int64_t)t * 1000 * MS);
		assert_int_equal(judge_step(m.judge, t, steps), 0);
	}
	f = made_finish(&m, 1);
	assert_int_equal(f->culprits.n, 2);
	assert_int_equal(f->culprits.v[0], 1);
	assert_int_equal(f->culprits.v[1], 5);
	made_done(&m);
}

static void judge_takes_a_silent_writer_before_a_barrier_for_a_save(void **state)
{
	struct work w[RANKS_MAX];
	const struct finding *f;
	struct made m;

	(void)state;
	made_new(&m, 4);
	for (uint64_t t = 0; t < 12; t++) {
		struct step *steps[RANKS_MAX];

		made_even(&m, t, w, 100);
		if (t == 6)
			w[0].host = 900;
		for (uint32_t r = 0; r < 4; r++) {
			steps[r] =
			    made_step(&m, r, t, &w[r], t == 6 ? 1003 : 103, (int64_t)t * 2000 * MS);
			if (t == 6)
				steps[r]->comms[0].op = COMM_BARRIER;
		}
		assert_int_equal(judge_step(m.judge, t, steps), 0);
	}
	f = made_finish(&m, 1);
	assert_int_equal(f->cause, CAUSE_CHECKPOINT);
	assert_int_equal(f->culprits.n, 0);
	assert_int_equal(f->windows.v[0].first_step, 6);
	made_done(&m);
}

static void judge_sets_warm_up_aside(void **state)
{
	struct work w[RANKS_MAX];
	struct made m;

	(void)state;
	made_new(&m, 4);
	for (uint64_t t = 0; t < 10; t++) {
		made_even(&m, t, w, t ? 100 : 260);
		if (!t)
			w[1].compute = 330; /* compiled longest: no fault */
		made_play(&m, t, w);
	}
	made_finish(&m, 0);
	made_done(&m);
}

/* All ranks alike get slower at a step. On CPUs that others use too, a few steps prove nothing. */
static void judge_calls_a_job_slower_that_all_ranks_share(void **state)
{
	static const struct {
		uint64_t steps, since;
		bool cpu;
		size_t faults;
	} jobs[] = { { 8, 5, false, 1 }, { 8, 5, true, 0 },  { 8, 4, true, 0 },	 { 13, 7, true, 1 },
		     { 13, 9, true, 0 }, { 14, 4, true, 1 }, { 60, 30, true, 1 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		struct work w[RANKS_MAX];
		const struct finding *f;
		struct made m;

		made_new(&m, 4);
		m.job.cpu_job = jobs[i].cpu;
		for (uint64_t t = 0; t < jobs[i].steps; t++) {
			made_even(&m, t, w, t < jobs[i].since ? 100 : 160);
			made_play(&m, t, w);
		}
		f = made_finish(&m, jobs[i].faults);
		assert_int_equal(m.report.findings.n, 1); /* it is always said */
		assert_int_equal(m.report.findings.v[0].culprits.n, 0);
		assert_int_equal(m.report.findings.v[0].windows.v[0].first_step, jobs[i].since);
		if (f)
			assert_int_equal(f->cause, CAUSE_UNKNOWN);
		made_done(&m);
	}
}

static void judge_of_one_rank_blames_nobody(void **state)
{
	struct work w[RANKS_MAX] = { 0 };
	const struct finding *f;
	struct made m;

	(void)state;
	made_new(&m, 1);
	for (uint64_t t = 0; t < 8; t++) {
		w[0] = (struct work){ .compute = noisy(60, 0, t), .data = 30 };
		made_play(&m, t, w);
	}
	f = made_finish(&m, 1);
	assert_int_equal(f->cause, CAUSE_DATA_STARVED);
	assert_int_equal(f->culprits.n, 0);
	made_done(&m);
}

/* With two steps there is no noise to compare with: the arrivals speak. */
static void judge_of_two_steps_names_whom_all_waited_for(void **state)
{
	struct work w[RANKS_MAX];
	const struct finding *f;
	struct made m;

	(void)state;
	made_new(&m, 6);
	for (uint64_t t = 0; t < 2; t++) {
		made_even(&m, t, w, 50);
		w[4].host = 30;
		made_play(&m, t, w);
	}
	f = made_finish(&m, 1);
	assert_int_equal(f->culprits.v[0], 4);
	assert_int_equal(f->cause, CAUSE_HOST_STALL);
	made_done(&m);
}

/* Three collectives a step; in one step rank 2 left one of them long before the others arrived. */
static void judge_counts_a_pairing_that_contradicts_itself(void **state)
{
	struct work w[RANKS_MAX];
	struct made m;

	(void)state;
	made_new(&m, 3);
	for (uint64_t t = 0; t < 6; t++) {
		struct step *steps[RANKS_MAX];

		made_even(&m, t, w, 10);
		for (uint32_t r = 0; r < 3; r++) {
			struct step *s = made_step(&m, r, t, &w[r], 19, (int64_t)t * 1000 * MS);

			s->n_colls = 3;
			s->colls = arena_alloc(&m.arena, 3 * sizeof(*s->colls));
			for (int i = 0; i < 3; i++) {
				s->colls[i] =
				    (struct step_coll){ .seq = -1, .bytes = 1 << 20, .peer = -1 };
				s->colls[i].start_ns = ns(own_of(&w[r])) + i * 3 * MS;
				s->colls[i].end_ns = (13 + i * 3) * MS;
				s->colls[i].own_arrive_ns = s->colls[i].own_need_ns =
				    ns(own_of(&w[r]));
			}
			if (t == 3 && r == 2) {
				s->colls[0].start_ns = 1 * MS;
				s->colls[0].end_ns = 2 * MS;
			}
			steps[r] = s;
		}
		assert_int_equal(judge_step(m.judge, t, steps), 0);
	}
	made_finish(&m, 0);
	assert_int_equal(m.report.unpaired, 1);
	made_done(&m);
}

static void judge_forgets_old_steps_and_says_so(void **state)
{
	struct work w[RANKS_MAX];
	struct made m;

	(void)state;
	made_new(&m, 2);
	for (uint64_t t = 0; t < HISTORY_MAX + 10; t++) {
		made_even(&m, t, w, 10);
		made_play(&m, t, w);
	}
	made_finish(&m, 0);
	assert_int_equal(m.report.assumed.n, 1);
	assert_int_equal(m.report.ranks.v[0].steps.n, HISTORY_MAX + 10);
	made_done(&m);
}

static void replay_gives_back_the_step_and_the_step_without(void **state)
{
	struct work w[RANKS_MAX];
	bool rows[RANKS_MAX] = { false };
	double scale[RANKS_MAX];
	struct what_if none = { 0 }, mended = { .rows = rows }, faster = { .scale = scale };
	struct made m;

	(void)state;
	made_new(&m, 4);
	for (uint64_t t = 0; t < 4; t++) {
		for (uint32_t r = 0; r < 4; r++)
			w[r] = (struct work){ .compute = 100 + r }; /* 100 .. 103 */
		w[1].compute = 180;
		made_play(&m, t, w);
	}
	own_references(m.judge);
	rows[1] = true;
	for (int r = 0; r < 4; r++)
		scale[r] = 0.5;
	const struct replay *r = m.judge->moments[3].replay;

	assert_int_equal(llround(replay_run(m.judge, r, 3, &none)), ns(182));
	assert_int_equal(llround(replay_run(m.judge, r, 3, &mended)), ns(105));
	assert_int_equal(llround(replay_run(m.judge, r, 3, &faster)), ns(92));
	made_done(&m);
}

static void reference_is_the_faster_mode_only_if_it_is_one(void **state)
{
	double even[] = { 4, 2, 3, 1 }, modes[] = { 10, 1.5, 1.52, 10, 10, 10, 10, 10 },
	       spread[] = { 5, 6, 8, 9, 12, 13, 17, 20 };

	(void)state;
	assert_true(robust_reference(even, 4) >= 2 && robust_reference(even, 4) <= 2);
	assert_true(robust_reference(modes, 8) < 1.6);
	assert_true(robust_reference(spread, 8) >= 9);
	assert_true(isnan(lower_median(even, 0)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(judge_names_the_rank_whose_own_time_is_longer),
		cmocka_unit_test(judge_is_silent_on_ranks_that_only_differ_by_noise),
		cmocka_unit_test(judge_tells_a_stalled_host_from_a_starved_rank),
		cmocka_unit_test(a_phase_without_the_work_is_not_where_it_is_slow),
		cmocka_unit_test(waits_of_all_for_data_are_one_finding),
		cmocka_unit_test(judge_calls_separate_windows_throttling),
		cmocka_unit_test(judge_names_the_slower_half_and_says_its_doubt),
		cmocka_unit_test(larger_launches_are_more_work_and_no_slow_machine),
		cmocka_unit_test(as_large_launches_are_a_slow_machine),
		cmocka_unit_test(launches_that_tell_nothing_leave_both_possible),
		cmocka_unit_test(judge_blames_nobody_for_work_that_moves),
		cmocka_unit_test(a_rank_that_drifts_is_no_uneven_work),
		cmocka_unit_test(uneven_work_of_a_kernel_is_no_regression),
		cmocka_unit_test(starvation_costs_what_the_last_one_waits),
		cmocka_unit_test(judge_takes_a_save_of_all_ranks_for_what_it_is),
		cmocka_unit_test(judge_joins_ranks_that_are_slow_alike),
		cmocka_unit_test(judge_takes_a_silent_writer_before_a_barrier_for_a_save),
		cmocka_unit_test(judge_sets_warm_up_aside),
		cmocka_unit_test(judge_calls_a_job_slower_that_all_ranks_share),
		cmocka_unit_test(judge_of_one_rank_blames_nobody),
		cmocka_unit_test(judge_of_two_steps_names_whom_all_waited_for),
		cmocka_unit_test(judge_counts_a_pairing_that_contradicts_itself),
		cmocka_unit_test(judge_forgets_old_steps_and_says_so),
		cmocka_unit_test(replay_gives_back_the_step_and_the_step_without),
		cmocka_unit_test(reference_is_the_faster_mode_only_if_it_is_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
