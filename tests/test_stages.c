/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_stages.c - what judge says of pipelines made by hand: eight ranks, two in each of four
 * stages, rank r of stage r / 2; the four ranks of the first two stages share a machine, the others
 * have another. Each rank works, meets the other of its stage in an all_reduce, and sends or
 * receives.
 */
#include "judge/judge_internal.h"

#include <math.h>
#include <stdio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define MS     1000000
#define RANKS  8u
#define STAGES 4u
#define LINES  2u /* pipelines */

struct made {
	struct job job;
	struct judge *judge;
	struct report report;
	struct arena arena;
	double
	    halfway;  /* no pipeline: all do the same, and meet for another 1 ms at this own time */
	bool experts; /* the ranks of a stage exchange tokens, as many as each has, unnumbered */
};

static int64_t ns(double ms)
{
	return (int64_t)llround(ms * MS);
}

static void group_set(struct made *m, uint32_t g, uint32_t first, uint32_t step, uint32_t n)
{
	struct job_group *group = &m->job.groups[g];
	char name[8];

	snprintf(name, sizeof(name), "%u", g + 1);
	*group = (struct job_group){ .name = intern_str(&m->job.names, name),
				     .desc = intern_str(&m->job.names, "undefined"),
				     .size = n,
				     .n_rows = n };
	group->rows = arena_alloc(&m->arena, n * sizeof(uint32_t));
	for (uint32_t i = 0; i < n; i++)
		group->rows[i] = first + i * step;
}

/* Groups 0-3 are the stages, 4-5 the pipelines, 6 is the job; a rank's own rows are 0 to 2. */
static void made_new(struct made *m)
{
	static struct judge_options options = { .min_impact = 0.05 };

	*m = (struct made){ .job = { .n_ranks = RANKS,
				     .world_size = RANKS,
				     .first_step = -1,
				     .last_step = -1,
				     .n_groups = STAGES + LINES + 1 } };
	m->job.ranks = arena_alloc(&m->arena, RANKS * sizeof(*m->job.ranks));
	m->job.groups = arena_alloc(&m->arena, m->job.n_groups * sizeof(*m->job.groups));
	m->job.group_of = arena_alloc(&m->arena, RANKS * sizeof(*m->job.group_of));
	for (uint32_t g = 0; g < STAGES; g++)
		group_set(m, g, 2 * g, 1, LINES);
	for (uint32_t g = 0; g < LINES; g++)
		group_set(m, STAGES + g, g, LINES, STAGES);
	group_set(m, STAGES + LINES, 0, 1, RANKS);
	for (uint32_t r = 0; r < RANKS; r++) {
		m->job.ranks[r] =
		    (struct rank_info){ .rank = r,
					.world_size = RANKS,
					.host = intern_str(&m->job.names,
							   r < RANKS / 2 ? "node-a" : "node-b"),
					.gpu_name = NO_ID,
					.backend = NO_ID,
					.gpu_index = (int32_t)(r % 4),
					.n_groups = 3 };
		m->job.group_of[r] = arena_alloc(&m->arena, 3 * sizeof(uint32_t));
		m->job.group_of[r][0] = r / LINES;
		m->job.group_of[r][1] = STAGES + r % LINES;
		m->job.group_of[r][2] = STAGES + LINES;
	}
	m->judge = judge_new(&m->job, &options);
	m->report.job = &m->job;
}

static void coll_add(struct step *s, uint32_t group, enum comm_op op, uint64_t bytes, double start,
		     double end, double own)
{
	uint32_t i = s->n_colls++;

	s->n_comms++;
	s->comms[i] = (struct step_comm){ .group = group, .op = op, .count = 1, .bytes = bytes };
	s->colls[i] = (struct step_coll){ .comm = i,
					  .peer = -1,
					  .seq = (int64_t)s->number * COMM_OPS + (int64_t)op,
					  .bytes = bytes,
					  .start_ns = ns(start),
					  .end_ns = ns(end),
					  .call_ns = INT64_MIN,
					  .own_arrive_ns = ns(own),
					  .own_need_ns = is_p2p(op) ? -1 : ns(own) };
}

/* One step: own[r] ms of work, 0 where the rank has no such step, 1 ms with the other of the stage,
   gather[r] ms, if any, of bytes that no other stage moves, and 1 ms with all. */
static void made_play(struct made *m, uint64_t number, const double *own, const double *gather)
{
	struct step *steps[RANKS] = { NULL };
	double wall = 0, more = m->halfway > 0 ? 1 : 0;

	for (uint32_t r = 0; r < RANKS; r++)
		wall = fmax(wall, own[r] + gather[r] + 2 + more);
	for (uint32_t r = 0; r < RANKS; r++) {
		struct step *s = arena_alloc(&m->arena, sizeof(*s));
		double met = fmax(own[r], own[r ^ 1]) + 1 + more, mine = own[r] + more;

		if (own[r] <= 0)
			continue;
		*s = (struct step){ .rank_row = r,
				    .number = number,
				    .start_ns = (int64_t)number * 1000 * MS,
				    .mark_ns = ns(wall),
				    .wall_ns = ns(wall),
				    .own_ns = ns(own[r]),
				    .own = { [OWN_COMPUTE] = ns(own[r]) },
				    .host_what = NO_ID };
		s->comms = arena_alloc(&m->arena, 5 * sizeof(*s->comms));
		s->colls = arena_alloc(&m->arena, 5 * sizeof(*s->colls));
		if (m->halfway <= 0)
			coll_add(s, 1, r / LINES % 2 ? COMM_RECV : COMM_SEND, 1024, 0, 0.01, 0);
		if (m->halfway > 0)
			coll_add(s, 2, COMM_REDUCE_SCATTER, 1 << 20, m->halfway, m->halfway + 1,
				 m->halfway);
		if (m->experts) {
			coll_add(s, 0, COMM_ALL_TO_ALL, (r + 1) << 20, mine, met, own[r]);
			s->colls[s->n_colls - 1].seq = -1;
		} else {
			coll_add(s, 0, COMM_ALL_REDUCE, 1 << 20, mine, met, own[r]);
		}
		if (gather[r] > 0)
			coll_add(s, 0, COMM_ALL_GATHER, (64 + r / LINES) << 20, met,
				 met + gather[r], own[r]);
		coll_add(s, 2, COMM_ALL_REDUCE, 1 << 20, met + gather[r], wall, own[r]);
		steps[r] = s;
	}
	assert_int_equal(judge_step(m->judge, number, steps), 0);
}

static size_t made_finish(struct made *m)
{
	size_t n = 0;

	assert_int_equal(judge_finish(m->judge, &m->report), 0);
	for (size_t i = 0; i < m->report.findings.n; i++)
		n += m->report.findings.v[i].severity != SEVERITY_NOTE;
	return n;
}

static void made_done(struct made *m)
{
	judge_free(m->judge);
	report_done(&m->report);
	intern_done(&m->job.names);
	arena_done(&m->job.arena);
	arena_done(&m->arena);
}

static double noisy(double ms, uint32_t rank, uint64_t step)
{
	return ms * (1 + 0.005 * ((double)(hash_mix(rank + 1, step) % 2001) / 1000 - 1));
}

static const double no_gather[RANKS];

/* A machine of two stages is slow in most steps; the stages of the other one are as they were. */
static void the_machine_that_changed_is_named_and_not_the_other(void **state)
{
	double own[RANKS];
	struct made m;

	(void)state;
	made_new(&m);
	for (uint64_t t = 0; t < 9; t++) {
		for (uint32_t r = 0; r < RANKS; r++)
			own[r] = noisy(r < 4 ? 130 : 100, r, t) * (r >= 4 && t >= 3 ? 1.5 : 1);
		made_play(&m, t, own, no_gather);
	}
	assert_int_equal(made_finish(&m), 1);
	assert_int_equal(m.report.findings.v[0].culprits.n, 4);
	assert_int_equal(m.report.findings.v[0].culprits.v[0], 4);
	assert_int_equal(m.report.findings.v[0].windows.v[0].first_step, 3);
	made_done(&m);
}

/* The recordings of most ranks begin a step later: stages are found where all are there. */
static void stages_are_found_where_all_ranks_are_there(void **state)
{
	double own[RANKS];
	struct made m;

	(void)state;
	made_new(&m);
	for (uint64_t t = 0; t < 9; t++) {
		for (uint32_t r = 0; r < RANKS; r++)
			own[r] = !t && r >= 2 ? 0 : noisy(100, r, t) * (r / LINES == 1 ? 1.6 : 1);
		made_play(&m, t, own, no_gather);
	}
	assert_int_equal(made_finish(&m), 1);
	assert_int_equal(m.report.findings.v[0].cause, CAUSE_PIPELINE_IMBALANCE);
	assert_int_equal(m.report.findings.v[0].stages.n, 1);
	assert_int_equal(m.report.findings.v[0].stages.v[0], 1);
	made_done(&m);
}

/* What only one stage transfers, as its experts' tokens, makes it no slower at what all do. */
static void transfers_of_one_group_alone_are_no_slow_link(void **state)
{
	double own[RANKS], gather[RANKS] = { 0 };
	struct made m;

	(void)state;
	made_new(&m);
	gather[0] = gather[1] = gather[2] = gather[3] = 12;
	for (uint64_t t = 0; t < 9; t++) {
		for (uint32_t r = 0; r < RANKS; r++)
			own[r] = noisy(100, r, t);
		made_play(&m, t, own, gather);
	}
	assert_int_equal(made_finish(&m), 0);
	made_done(&m);
}

/* Members of an all-to-all move what each has: it is one all the same, and mending the rank that
   the other waits for ends that wait. */
static void an_all_to_all_of_unequal_bytes_is_one(void **state)
{
	const struct finding *f;
	double own[RANKS];
	struct made m;

	(void)state;
	made_new(&m);
	m.experts = true;
	for (uint64_t t = 0; t < 9; t++) {
		for (uint32_t r = 0; r < RANKS; r++)
			own[r] = noisy(100, r, t) * (r == 2 && t >= 3 ? 1.5 : 1);
		made_play(&m, t, own, no_gather);
	}
	assert_int_equal(made_finish(&m), 1);
	f = &m.report.findings.v[0];
	assert_int_equal(f->culprits.n, 1);
	assert_int_equal(f->culprits.v[0], 2);
	assert_true(f->slowdown > 1.45 && f->slowdown < 1.52);
	made_done(&m);
}

/* All work alike up to where they meet, and unevenly behind it: evened out, each has the mean of
   its stage there, and no more before. */
static void uneven_work_behind_a_meeting_costs_what_evening_it_saves(void **state)
{
	double own[RANKS], with = 0, without = 0;
	const struct finding *f;
	struct made m;

	(void)state;
	made_new(&m);
	m.halfway = 50;
	for (uint64_t t = 0; t < 16; t++) {
		double most = 0, mean = 0;

		for (uint32_t r = 0; r < RANKS; r++)
			own[r] = 60 + (double)(hash_mix(r + 77, t) % 80);
		for (uint32_t r = 0; r < RANKS; r++) {
			most = fmax(most, own[r]);
			mean += own[r] / RANKS;
		}
		with += most + 3;
		without += mean + 3;
		made_play(&m, t, own, no_gather);
	}
	assert_int_equal(made_finish(&m), 1);
	f = &m.report.findings.v[0];
	assert_int_equal(f->cause, CAUSE_WORKLOAD_IMBALANCE);
	assert_true(fabs(f->slowdown / (with / without) - 1) < 0.05);
	made_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_machine_that_changed_is_named_and_not_the_other),
		cmocka_unit_test(stages_are_found_where_all_ranks_are_there),
		cmocka_unit_test(transfers_of_one_group_alone_are_no_slow_link),
		cmocka_unit_test(an_all_to_all_of_unequal_bytes_is_one),
		cmocka_unit_test(uneven_work_behind_a_meeting_costs_what_evening_it_saves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
