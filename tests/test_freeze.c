/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_freeze.c - a job that stands still again and again is slow, and nobody's fault is made of
 * what comes by chance or what the log itself explains.
 */
#include "hang_builder.h"

/* A log of `n` steps of a second, a line every `line` of them. */
struct walk {
	struct hang_case c;
	struct testimony *t;
	int64_t line, at; /* steps a line; the clock, ms */
	int64_t done;	  /* when the line before was written, ms */
	bool stamped;
};

static void walk_new(struct walk *w, int64_t line, bool stamped)
{
	*w = (struct walk){ .line = line, .stamped = stamped };
	case_new(&w->c);
	w->t = log_file(&w->c);
}

/* Step `step`, which took ms. */
static void walks(struct walk *w, int64_t step, int64_t ms)
{
	struct progress_line l = progress_line_unknown();

	w->at += ms;
	if (step % w->line)
		return;
	l.step = step;
	l.line = ++w->t->lines;
	if (w->stamped)
		l.time_ns = CASE_BEGIN + w->at / 1000 * SECOND;
	else
		l.step_ms = (double)(w->at - w->done) / (double)w->line;
	w->done = w->at;
	testimony_progress(w->t, &l);
}

static void walks_to(struct walk *w, int64_t n, int64_t every, int64_t stall_ms)
{
	for (int64_t step = 1; step <= n; step++)
		walks(w, step, 1000 + (every && step % every == 0 ? stall_ms : 0));
}

static void says_at(struct walk *w, enum saying_kind kind, int64_t step)
{
	says(w->t, kind, -1, NULL)->value = step;
}

static const struct finding *freeze_of(struct walk *w, size_t windows)
{
	const struct finding *f = case_finding(&w->c, 0);

	assert_non_null(f);
	assert_int_equal(w->c.report.verdict, VERDICT_SLOW);
	assert_int_equal(f->kind, KIND_SLOW);
	assert_int_equal(f->culprits.n, 0);
	assert_int_equal(f->windows.n, windows);
	assert_null(case_finding(&w->c, 1));
	return f;
}

static bool notes(struct walk *w, enum cause cause)
{
	case_judge(&w->c);
	for (size_t i = 0; i < w->c.report.findings.n; i++)
		if (w->c.report.findings.v[i].severity == SEVERITY_NOTE &&
		    w->c.report.findings.v[i].cause == cause)
			return true;
	return false;
}

static void a_freeze_every_so_many_steps_is_said_with_its_cost(void **state)
{
	struct walk w;
	const struct finding *f;

	(void)state;
	for (int stamped = 0; stamped < 2; stamped++) {
		walk_new(&w, 1, stamped);
		walks_to(&w, 60, 10, 10000);
		w.t->world_size = 8;
		f = freeze_of(&w, 6);
		assert_int_equal(f->cause, CAUSE_UNKNOWN);
		assert_int_equal(f->windows.v[0].first_step, 10);
		assert_contains(f->summary, "every 10 steps (20 s)");
		assert_contains(f->summary, "stands still for 10 s");
		assert_true(fabs(f->slowdown - 2) < 0.05);
		assert_true(f->confidence < 0.5);
		case_done(&w.c);
	}
}

static void lines_every_ten_steps_show_a_rhythm_of_any_number(void **state)
{
	struct walk w;

	(void)state;
	walk_new(&w, 10, true);
	walks_to(&w, 2000, 128, 40000);
	assert_contains(freeze_of(&w, 15)->summary, "about every 128 steps");
	case_done(&w.c);
}

/* 70 s in a line of ten steps may be one of 61 s, or all of 7 s: the cost is the least of it. */
static void a_time_printed_for_ten_steps_is_not_taken_for_more_than_it_proves(void **state)
{
	struct walk w;
	const struct finding *f;

	(void)state;
	walk_new(&w, 10, false);
	walks_to(&w, 1000, 100, 60000);
	f = freeze_of(&w, 10);
	assert_true(fabs(f->slowdown - 1.06) < 0.01);
	assert_contains(f->summary, "at least");
	case_done(&w.c);
}

static void a_freeze_every_so_many_minutes_is_said_as_time(void **state)
{
	uint64_t random = 3;
	int64_t next = 600000;
	struct walk w;

	(void)state;
	walk_new(&w, 1, true);
	for (int64_t step = 1; step <= 6000; step++) {
		bool stands = w.at >= next;

		walks(&w, step, 500 + (int64_t)(case_random(&random) % 1400) + stands * 45000);
		next += stands * 600000;
	}
	assert_contains(freeze_of(&w, 13)->summary, "every 10 min");
	case_done(&w.c);
}

static void gaps_at_random_are_no_rhythm(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		uint64_t random = seed;
		struct walk w;

		walk_new(&w, seed % 2 ? 1 : 10, seed % 3);
		for (int64_t step = 1; step <= 2000; step++)
			walks(&w, step, case_random(&random) % 100 ? 1000 : 21000);
		if (case_finding(&w.c, 0))
			fail_msg("seed %d: %s", (int)seed, case_finding(&w.c, 0)->summary);
		assert_false(notes(&w, CAUSE_UNKNOWN));
		case_done(&w.c);
	}
}

static void one_gap_slow_first_steps_and_steps_that_get_longer_are_no_freeze(void **state)
{
	struct walk w;

	(void)state;
	walk_new(&w, 1, true);
	for (int64_t step = 1; step <= 1000; step++)
		walks(&w, step, step < 6 ? 60000 : step == 500 ? 400000 : step > 700 ? 5000 : 1000);
	assert_nobody_named(&w.c, VERDICT_HEALTHY);
	assert_int_equal(w.c.report.findings.n, 0);
	case_done(&w.c);
}

static void an_evaluation_that_the_log_states_is_none(void **state)
{
	struct walk w;

	(void)state;
	for (int with_step = 0; with_step < 2; with_step++) {
		walk_new(&w, 1, true);
		for (int64_t step = 1; step <= 500; step++) {
			walks(&w, step, step % 50 ? 1000 : 31000);
			if (with_step && step % 50 == 0)
				says_at(&w, SAY_EVALUATION, step);
		}
		if (!with_step)
			says(w.t, SAY_EVALUATION, -1, NULL)->count = 10;
		assert_nobody_named(&w.c, VERDICT_HEALTHY);
		assert_int_equal(w.c.report.findings.n, 0);
		case_done(&w.c);
	}
}

static void a_save_that_the_log_states_is_named_and_no_fault(void **state)
{
	struct walk w;

	(void)state;
	walk_new(&w, 10, true);
	for (int64_t step = 1; step <= 1000; step++) {
		if (step % 100 == 1 && step > 1)
			says_at(&w, SAY_SAVE_BEGIN, step - 1);
		walks(&w, step, step % 100 == 1 && step > 1 ? 41000 : 1000);
	}
	assert_nobody_named(&w.c, VERDICT_HEALTHY);
	assert_true(notes(&w, CAUSE_CHECKPOINT));
	case_done(&w.c);
}

static void a_freeze_between_the_saves_is_told_from_them(void **state)
{
	struct walk w;
	const struct finding *f;

	(void)state;
	walk_new(&w, 1, true);
	for (int64_t step = 1; step <= 1000; step++) {
		walks(&w, step,
		      1000 + (step % 100 ? 0 : 40000) + (step % 130 == 7 && step > 7 ? 30000 : 0));
		if (step % 100 == 0)
			says_at(&w, SAY_SAVE_END, step);
	}
	f = freeze_of(&w, 7);
	assert_contains(f->summary, "every 130 steps");
	assert_int_equal(f->excluded.v[0].cause, CAUSE_CHECKPOINT);
	assert_true(notes(&w, CAUSE_CHECKPOINT));
	case_done(&w.c);
}

static void a_freeze_once_an_epoch_points_at_the_data(void **state)
{
	struct walk w;

	(void)state;
	walk_new(&w, 1, true);
	for (int64_t step = 1; step <= 600; step++) {
		walks(&w, step, step % 100 == 1 ? 31000 : 1000);
		if (step % 100 == 0)
			says_at(&w, SAY_EPOCH_END, step / 100);
	}
	assert_int_equal(freeze_of(&w, 5)->cause, CAUSE_DATA_STARVED);
	case_done(&w.c);
}

/* A pipe that is written when it is full, stamped where it arrives. */
static void lines_that_come_in_bursts_are_no_freeze(void **state)
{
	struct walk w;

	(void)state;
	walk_new(&w, 1, true);
	for (int64_t step = 1; step <= 2000; step++)
		walks(&w, step, step % 40 ? 0 : 40000);
	assert_nobody_named(&w.c, VERDICT_HEALTHY);
	case_done(&w.c);
}

static void what_a_freeze_costs_decides_whether_it_is_a_fault(void **state)
{
	struct walk w;

	(void)state;
	walk_new(&w, 1, true);
	walks_to(&w, 1000, 100, 4000);
	assert_nobody_named(&w.c, VERDICT_HEALTHY);
	assert_true(notes(&w, CAUSE_UNKNOWN));
	case_done(&w.c);
}

static void a_job_that_broke_has_its_freezes_as_a_note(void **state)
{
	struct walk w;

	(void)state;
	walk_new(&w, 1, true);
	walks_to(&w, 1000, 100, 30000);
	says(w.t, SAY_EXCEPTION, 3, "ValueError")->what = told(w.t, "ValueError");
	says(w.t, SAY_EXIT, 3, NULL)->value = 1;
	assert_named(&w.c, VERDICT_CRASHED, CAUSE_EXCEPTION, "3");
	assert_true(notes(&w, CAUSE_UNKNOWN));
	case_done(&w.c);
}

static void a_restart_forgets_only_the_steps_that_come_again(void **state)
{
	struct walk w;

	(void)state;
	walk_new(&w, 1, true);
	walks_to(&w, 550, 100, 30000);
	w.at += 3600000;
	for (int64_t step = 451; step <= 950; step++)
		walks(&w, step, step % 100 ? 1000 : 31000);
	assert_contains(freeze_of(&w, 9)->summary, "every 100 steps");
	case_done(&w.c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_freeze_every_so_many_steps_is_said_with_its_cost),
		cmocka_unit_test(lines_every_ten_steps_show_a_rhythm_of_any_number),
		cmocka_unit_test(a_time_printed_for_ten_steps_is_not_taken_for_more_than_it_proves),
		cmocka_unit_test(a_freeze_every_so_many_minutes_is_said_as_time),
		cmocka_unit_test(gaps_at_random_are_no_rhythm),
		cmocka_unit_test(one_gap_slow_first_steps_and_steps_that_get_longer_are_no_freeze),
		cmocka_unit_test(an_evaluation_that_the_log_states_is_none),
		cmocka_unit_test(a_save_that_the_log_states_is_named_and_no_fault),
		cmocka_unit_test(a_freeze_between_the_saves_is_told_from_them),
		cmocka_unit_test(a_freeze_once_an_epoch_points_at_the_data),
		cmocka_unit_test(lines_that_come_in_bursts_are_no_freeze),
		cmocka_unit_test(what_a_freeze_costs_decides_whether_it_is_a_fault),
		cmocka_unit_test(a_job_that_broke_has_its_freezes_as_a_note),
		cmocka_unit_test(a_restart_forgets_only_the_steps_that_come_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
