/* SPDX-License-Identifier: Apache-2.0 */
/* test_watch.c - the watcher's judgement by itself: what is seen goes in, verdicts come out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "watch/watch_keep.h"
#include "watch/watch_read.h"

#define MINUTE ((int64_t)60000)

static struct watch begun(void)
{
	struct watch_limits limits = watch_limits_usual();
	struct watch w;

	watch_init(&w, &limits, 0);
	watch_add_source(&w, "log");
	watch_add_source(&w, "other");
	return w;
}

/* A line a second of steps from..to, the last at at_ms. */
static void steps(struct watch *w, int64_t step, int64_t at_ms)
{
	struct watch_seen s = watch_seen_of(SIGHT_STEPS, 0, at_ms);

	s.value = step;
	s.lines = 10;
	s.line_ms = s.step_ms = 1000;
	s.first_ms = at_ms - 9000;
	watch_saw(w, &s);
	s = watch_seen_of(SIGHT_HEARD, 0, at_ms);
	watch_saw(w, &s);
}

static int64_t trained(struct watch *w, int64_t from_ms, int64_t to_ms)
{
	int64_t at = from_ms;

	for (; at <= to_ms; at += 10000)
		steps(w, at / 1000, at);
	return at - 10000;
}

static struct watch_judgement judged(struct watch *w, int64_t at_ms)
{
	struct watch_seen s = watch_seen_of(SIGHT_HEARD, 0, at_ms);
	struct watch_judgement j;

	watch_saw(w, &s);
	watch_judge(w, at_ms, &j);
	return j;
}

static void seen(struct watch *w, enum watch_sight sight, int64_t at_ms)
{
	struct watch_seen s = watch_seen_of(sight, 0, at_ms);

	s.text = s.what = "words";
	watch_saw(w, &s);
}

static void silence_is_suspect_after_two_minutes_and_hung_after_ten(void **state)
{
	struct watch w = begun();
	int64_t last = trained(&w, 10000, 10 * MINUTE);

	(void)state;
	assert_int_equal(judged(&w, last + MINUTE).state, WATCH_HEALTHY);
	assert_int_equal(judged(&w, last + 2 * MINUTE).state, WATCH_SUSPECT);
	assert_int_equal(judged(&w, last + 9 * MINUTE).state, WATCH_SUSPECT);
	assert_int_equal(judged(&w, last + 10 * MINUTE).state, WATCH_HUNG);
	steps(&w, 100000, last + 11 * MINUTE);
	assert_int_equal(judged(&w, last + 11 * MINUTE + 1000).state, WATCH_HEALTHY);
	watch_done(&w);
}

static void slow_steps_have_longer(void **state)
{
	struct watch w = begun();

	(void)state;
	for (int i = 1; i < 30; i++) {
		struct watch_seen s = watch_seen_of(SIGHT_STEPS, 0, i * 2 * MINUTE);

		s.value = i;
		s.line_ms = s.step_ms = 2.0 * MINUTE;
		watch_saw(&w, &s);
	}
	assert_int_equal(judged(&w, (58 + 19) * MINUTE).state, WATCH_HEALTHY);
	assert_int_equal(judged(&w, (58 + 20) * MINUTE).state, WATCH_SUSPECT);
	watch_done(&w);
}

static void a_save_has_as_long_as_the_job_s_own(void **state)
{
	struct watch w = begun();
	int64_t at = 0;

	(void)state;
	for (int i = 0; i < 4; i++) {
		at = trained(&w, at + 10000, at + 5 * MINUTE);
		seen(&w, SIGHT_SAVE_BEGIN, at);
		at += 6 * MINUTE;
		seen(&w, SIGHT_SAVE_END, at);
	}
	at = trained(&w, at + 10000, at + 5 * MINUTE);
	seen(&w, SIGHT_SAVE_BEGIN, at);
	assert_int_equal(judged(&w, at + 11 * MINUTE).state, WATCH_HEALTHY);
	assert_int_equal(judged(&w, at + 14 * MINUTE).state, WATCH_SUSPECT);
	watch_done(&w);
}

static void what_was_called_a_hang_teaches_nothing(void **state)
{
	struct watch w = begun();
	int64_t at = trained(&w, 10000, 10 * MINUTE);

	(void)state;
	assert_int_equal(judged(&w, at + 20 * MINUTE).state, WATCH_HUNG);
	at = trained(&w, at + 20 * MINUTE, at + 30 * MINUTE);
	assert_int_equal(judged(&w, at + 2 * MINUTE).state, WATCH_SUSPECT);
	watch_done(&w);
}

static void a_time_out_s_words_are_a_hang_at_once(void **state)
{
	struct watch w = begun();
	int64_t at = trained(&w, 10000, 10 * MINUTE);

	(void)state;
	seen(&w, SIGHT_TIMEOUT, at + 1000);
	assert_int_equal(judged(&w, at + 2000).state, WATCH_HUNG);
	watch_done(&w);
}

static void an_exception_that_is_outlived_is_no_crash(void **state)
{
	struct watch w = begun();
	int64_t at = trained(&w, 10000, 10 * MINUTE);

	(void)state;
	seen(&w, SIGHT_FAILURE, at + 1000);
	steps(&w, 10000, at + 5000);
	assert_int_equal(judged(&w, at + 90000).state, WATCH_HEALTHY);
	seen(&w, SIGHT_FAILURE, at + 91000);
	assert_int_equal(judged(&w, at + 4 * MINUTE).state, WATCH_CRASHED);
	watch_done(&w);
}

static void a_job_that_waits_for_nodes_is_not_hung(void **state)
{
	struct watch w = begun();
	struct watch_seen s = watch_seen_of(SIGHT_JOB, 1, 0);

	(void)state;
	s.value = JOB_PENDING;
	watch_saw(&w, &s);
	assert_int_equal(judged(&w, 600 * MINUTE).state, WATCH_STARTING);
	watch_done(&w);
}

static void sources_that_show_nothing_are_blindness(void **state)
{
	struct watch w = begun();

	(void)state;
	assert_int_equal(judged(&w, 59 * MINUTE).state, WATCH_STARTING);
	assert_int_equal(judged(&w, 61 * MINUTE).state, WATCH_BLIND);
	watch_done(&w);
}

static void a_source_that_is_not_there_yet_is_no_blindness_while_another_speaks(void **state)
{
	struct watch w = begun();
	struct watch_seen s = watch_seen_of(SIGHT_SILENT, 1, 1000);

	(void)state;
	s.text = "No such file or directory";
	watch_saw(&w, &s);
	assert_int_equal(judged(&w, 10 * MINUTE).state, WATCH_STARTING);
	assert_true(judged(&w, 61 * MINUTE).matters[MATTER_BLIND].raised);
	watch_done(&w);
}

/* The last of total steps by a rank, at at_ms. */
static void made(struct watch *w, int64_t rank, int64_t step, int64_t total, int64_t at_ms)
{
	struct watch_seen s = watch_seen_of(SIGHT_STEPS, 0, at_ms);

	s.rank = rank;
	s.value = step;
	s.total = total;
	watch_saw(w, &s);
}

static void the_last_step_of_all_is_an_end_and_no_hang(void **state)
{
	static const struct {
		int64_t steps[2], total;
		enum watch_sight then;
		enum watch_state want;
	} ends[] = {
		{ { 600, 600 }, 600, SIGHTS, WATCH_COMPLETED },
		{ { 600, -1 }, 600, SIGHTS, WATCH_COMPLETED },
		{ { 598, 598 }, 600, SIGHTS, WATCH_HUNG },
		{ { 600, 598 }, 600, SIGHTS, WATCH_HUNG }, /* one of them did not */
		{ { 600, 600 }, 600, SIGHT_TIMEOUT, WATCH_CRASHED },
		{ { 300, 300 }, 600, SIGHT_DONE, WATCH_COMPLETED },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		struct watch w = begun();
		int64_t at;

		for (int64_t k = 1; k <= 10; k++)
			for (int64_t rank = 0; rank < 2; rank++)
				if (ends[i].steps[rank] >= 0)
					made(&w, rank, ends[i].steps[rank] - 10 + k, ends[i].total,
					     k * 10000);
		at = 100000;
		if (ends[i].then != SIGHTS)
			seen(&w, ends[i].then, at += 1000);
		for (; at <= 40 * MINUTE; at += 5000) {
			enum watch_state now = judged(&w, at).state;

			assert_true(now != WATCH_HUNG || ends[i].want != WATCH_COMPLETED);
			assert_true(now != WATCH_SUSPECT || ends[i].want != WATCH_COMPLETED);
		}
		assert_int_equal(judged(&w, at).state, ends[i].want);
		watch_done(&w);
	}
}

/* The incident: each rank shows the total of its own blocks, and the one with the fewest has left.
 */
static void the_last_step_of_one_rank_is_no_end(void **state)
{
	struct watch w = begun();

	(void)state;
	for (int64_t k = 1; k <= 98; k++) {
		made(&w, 0, k, 100, k * 10000);
		made(&w, 2, k, 98, k * 10000 + 1);
	}
	assert_int_equal(judged(&w, 980000 + 11 * MINUTE).state, WATCH_HUNG);
	watch_done(&w);
}

/* Only one rank shows steps, with a total that may be its own: who knows what the others do? */
static void the_last_step_of_the_only_rank_that_is_seen_is_no_end(void **state)
{
	static const struct {
		int64_t rank, ranks_known, other_total;
		enum watch_job_state job;
		enum watch_state want;
	} jobs[] = {
		{ 3, 0, -1, JOB_UNKNOWN, WATCH_SUSPECT },   /* there is a rank 0 */
		{ 0, 16, -1, JOB_UNKNOWN, WATCH_SUSPECT },  /* a world of 16 was said */
		{ 0, 16, 110, JOB_UNKNOWN, WATCH_SUSPECT }, /* totals differ, and 14 show none */
		{ 0, 16, 98, JOB_UNKNOWN, WATCH_COMPLETED },
		{ 0, 2, 110, JOB_UNKNOWN, WATCH_COMPLETED }, /* those are all */
		{ 0, 1, -1, JOB_UNKNOWN, WATCH_COMPLETED },
		{ -1, 16, -1, JOB_UNKNOWN, WATCH_COMPLETED }, /* speaks for the job */
		{ 3, 0, -1, JOB_RUNNING, WATCH_HUNG },
		{ 3, 0, -1, JOB_GONE, WATCH_COMPLETED },
		{ 3, 0, -1, JOB_DONE, WATCH_COMPLETED },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		struct watch w = begun();
		struct watch_seen s = watch_seen_of(SIGHT_JOB, 1, 1000000);
		struct watch_judgement j;

		watch_knows_ranks(&w, jobs[i].ranks_known);
		for (int64_t k = 1; k <= 110; k++) {
			if (k <= 98)
				made(&w, jobs[i].rank, k, 98, k * 10000);
			if (k <= jobs[i].other_total)
				made(&w, 1, k, jobs[i].other_total, k * 10000 + 1);
		}
		s.value = jobs[i].job;
		if (jobs[i].job != JOB_UNKNOWN)
			watch_saw(&w, &s);
		j = judged(&w, 1100000 + 11 * MINUTE);
		assert_int_equal(j.state, jobs[i].want);
		if (j.state == WATCH_SUSPECT)
			assert_non_null(strstr(j.summary, "no source shows the other ranks"));
		watch_done(&w);
	}
}

static void a_save_that_stands_is_said_until_one_ends(void **state)
{
	struct watch w = begun();
	struct watch_seen s = watch_seen_of(SIGHT_SAVE_STANDS, 0, 100000);
	struct watch_judgement j;

	(void)state;
	for (int64_t k = 1; k <= 200; k++)
		made(&w, -1, k, -1, k * 10000);
	s.text = "checkpoint-200: no trainer_state.json";
	watch_saw(&w, &s);
	assert_false(judged(&w, 100000 + 9 * MINUTE).matters[MATTER_OVERDUE].raised);
	j = judged(&w, 100000 + 11 * MINUTE);
	assert_true(j.matters[MATTER_OVERDUE].raised);
	assert_non_null(
	    strstr(j.matters[MATTER_OVERDUE].summary, "checkpoint-200: no trainer_state"));
	seen(&w, SIGHT_SAVE_END, 100000 + 12 * MINUTE);
	assert_false(judged(&w, 100000 + 12 * MINUTE).matters[MATTER_OVERDUE].raised);
	watch_done(&w);
}

static void a_total_that_is_passed_is_no_end(void **state)
{
	struct watch w = begun();

	(void)state;
	for (int64_t epoch = 0; epoch < 3; epoch++)
		for (int64_t k = 1; k <= 10; k++)
			made(&w, -1, k, 10, (epoch * 10 + k) * 10000);
	assert_int_equal(judged(&w, 120 * MINUTE).state, WATCH_HUNG);
	watch_done(&w);
}

static void who_does_not_go_after_the_last_step_is_a_suspicion_first(void **state)
{
	struct watch w = begun();
	struct watch_seen s = watch_seen_of(SIGHT_JOB, 1, 1000);
	struct watch_judgement j;

	(void)state;
	s.value = JOB_RUNNING;
	watch_saw(&w, &s);
	for (int64_t k = 1; k <= 20; k++)
		made(&w, -1, k, 20, k * 10000);
	assert_int_equal(judged(&w, 200000 + 9 * MINUTE).state, WATCH_HEALTHY);
	j = judged(&w, 200000 + 15 * MINUTE);
	assert_int_equal(j.state, WATCH_SUSPECT);
	assert_non_null(strstr(j.summary, "still runs"));
	assert_int_equal(judged(&w, 200000 + 31 * MINUTE).state, WATCH_HUNG);
	s.value = JOB_DONE;
	watch_saw(&w, &s);
	assert_int_equal(judged(&w, 200000 + 32 * MINUTE).state, WATCH_COMPLETED);
	watch_done(&w);
}

static void a_limit_that_was_given_is_kept(void **state)
{
	struct watch w = begun();

	(void)state;
	w.limits.suspect_ms = 20000;
	w.limits.hung_ms = 60000;
	w.limits.suspect_given = w.limits.hung_given = true;
	for (int64_t k = 1; k <= 3; k++)
		made(&w, -1, k, -1, k * 1000);
	assert_int_equal(judged(&w, 3000 + 21000).state, WATCH_SUSPECT);
	assert_int_equal(judged(&w, 3000 + 61000).state, WATCH_HUNG);
	watch_done(&w);
}

static void a_time_limit_is_no_crash_like_others(void **state)
{
	struct watch w = begun();
	struct watch_seen s = watch_seen_of(SIGHT_FAILURE, 0, 5 * MINUTE);
	struct watch_judgement j;

	(void)state;
	trained(&w, 10000, 5 * MINUTE);
	s.what = "time limit";
	s.text = "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED DUE TO TIME LIMIT ***";
	s.host = "n1";
	s.sure = true;
	watch_saw(&w, &s);
	j = judged(&w, 5 * MINUTE + 1000);
	assert_int_equal(strncmp(j.summary, "ended by the time limit", 23), 0);
	assert_true(j.matters[MATTER_CRASHED].mild);
	s.what = "ValueError";
	s.text = "ValueError: bad";
	watch_done(&w);
	w = begun();
	watch_saw(&w, &s);
	assert_string_equal(judged(&w, 6 * MINUTE).summary, "crashed: n1 first: ValueError: bad");
	watch_done(&w);
}

static void gpus_seen(struct watch *w, int64_t at, int resting, bool works)
{
	for (int i = 0; i < 8; i++) {
		struct watch_gpu_seen g = {
			.host = "h",
			.index = i,
			.rank = -1,
			.at_ms = at,
			.power_w = works ? 600 : 71,
			.limit_w = 700,
			.utilization = i == resting ? 0 : 1,
			.sm_clock_mhz = NAN,
			.xid = -1,
		};

		watch_saw_gpu(w, &g);
	}
}

static int64_t gpus_for(struct watch *w, int64_t at, int64_t ms, int resting, bool works)
{
	for (int64_t end = at + ms; at < end; at += 5000)
		gpus_seen(w, at, resting, works);
	return at;
}

static void who_rests_for_the_first_time_is_told_sooner(void **state)
{
	int64_t when[2];

	(void)state;
	for (int strange = 0; strange < 2; strange++) {
		struct watch w = begun();
		int64_t at = 5000, began;

		for (int i = 0; i < 5; i++) {
			at = gpus_for(&w, at, 10 * MINUTE, -1, true);
			at = gpus_for(&w, at, 2 * MINUTE, 0, false);
		}
		at = gpus_for(&w, at, 10 * MINUTE, -1, true);
		began = at;
		do
			at = gpus_for(&w, at, 5000, strange ? 3 : 0, false);
		while (judged(&w, at).state != WATCH_HUNG && at < began + 60 * MINUTE);
		when[strange] = at - began;
		assert_true(when[strange] > 2 * MINUTE);
		watch_done(&w);
	}
	assert_true(when[1] < when[0]);
	assert_true(when[0] < 6 * MINUTE);
}

static void a_state_goes_on_behind_a_restart(void **state)
{
	struct watch_clock before = { .mono_ms = 20 * MINUTE, .wall_ms = 1000000, .boot = "a" };
	struct watch_clock after = { .mono_ms = 2000 * MINUTE,
				     .wall_ms = 1000000 + 5 * MINUTE,
				     .boot = "b" };
	struct watch w = begun(), again = begun();
	struct error e = { "" };
	json_t *j;

	(void)state;
	trained(&w, 10000, 20 * MINUTE);
	gpus_seen(&w, 20 * MINUTE, 3, false);
	j = watch_to_json(&w, &before);
	assert_int_equal(watch_from_json(&again, j, &after, &e), 0);
	json_decref(j);
	assert_int_equal(again.step, w.step);
	/* five minutes passed on the calendar, whatever the boots' clocks say */
	assert_int_equal(after.mono_ms - again.progress_ms, 5 * MINUTE);
	assert_int_equal(judged(&again, after.mono_ms + MINUTE).state, WATCH_SUSPECT);
	assert_int_equal(again.gpus.n, 8);
	watch_done(&w);
	watch_done(&again);
}

static void the_scheduler_s_words_are_known(void **state)
{
	static const struct {
		const char *text;
		enum watch_job_state want;
	} words[] = {
		{ "RUNNING\n", JOB_RUNNING },
		{ "             JOBID PARTITION NAME USER ST TIME\n 4711 gpu big ann R 1:00\n",
		  JOB_RUNNING },
		{ "CANCELLED by 1000\n", JOB_FAILED },
		{ "OUT_OF_ME+\nCOMPLETED\n", JOB_FAILED },
		{ "JobId=1 JobState=NODE_FAIL Reason=None\n", JOB_FAILED },
		{ "slurm_load_jobs error: Invalid job id specified\n", JOB_GONE },
		{ "\n", JOB_GONE },
		{ "what is this\n", JOB_UNKNOWN },
		{ "Succeeded", JOB_DONE },
	};
	char word[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		assert_int_equal(
		    watch_job_of(words[i].text, strlen(words[i].text), word, sizeof(word)),
		    words[i].want);
}

static void losses_that_are_no_numbers_are_counted(void **state)
{
	static const struct {
		const char *text;
		int64_t bad;
		bool any;
	} texts[] = {
		{ "step 1 loss 1.5\n", 0, true },
		{ "loss: nan\nloss: nan\n", 2, true },
		{ "{'loss': nan, 'grad_norm': inf}\n", 1, true },
		{ "lm loss: NaN | x\nlm loss: 1.0 | x\n", 0, true },
		{ "loss=-inf\n", 1, true },
		{ "the loss of nanny\n", 0, false },
		{ "loss nano\n", 0, false },
		{ "", 0, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		int64_t bad;
		bool good;

		assert_int_equal(watch_loss_of(texts[i].text, strlen(texts[i].text), &bad, &good),
				 texts[i].any);
		assert_int_equal(bad, texts[i].bad);
	}
}

/* An exporter with more GPUs than any job, twice: bounded, each found again, no time lost. */
static void an_endpoint_of_a_hundred_thousand_gpus_is_read_soon(void **state)
{
	struct watch w = begun();
	struct watch_piece p = { .path = "endpoint.prom", .before_ms = 0 };
	struct buf text = { 0 };
	char line[160];

	(void)state;
	for (int i = 0; i < 100000; i++) {
		int n =
		    snprintf(line, sizeof(line),
			     "DCGM_FI_DEV_GPU_UTIL{gpu=\"%d\",Hostname=\"h%d\"} 100\n", i % 8, i);

		buf_put(&text, line, (size_t)n);
	}
	p.text = (char *)text.data;
	p.len = text.len;
	for (int k = 1; k <= 2; k++) {
		p.at_ms = 1000 * k;
		assert_true(watch_read_metrics(&w, 0, &p) > 0);
		assert_int_equal(w.gpus.n, WATCH_GPUS_MOST);
		assert_int_equal(w.gpus.v[WATCH_GPUS_MOST - 1].n_last, k);
	}
	p.text = "lockstep_step{rank=\"0\"} 1e30\n";
	p.len = strlen(p.text);
	assert_int_equal(watch_read_metrics(&w, 0, &p), 0);
	buf_done(&text);
	watch_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silence_is_suspect_after_two_minutes_and_hung_after_ten),
		cmocka_unit_test(slow_steps_have_longer),
		cmocka_unit_test(a_save_has_as_long_as_the_job_s_own),
		cmocka_unit_test(what_was_called_a_hang_teaches_nothing),
		cmocka_unit_test(a_time_out_s_words_are_a_hang_at_once),
		cmocka_unit_test(an_exception_that_is_outlived_is_no_crash),
		cmocka_unit_test(a_job_that_waits_for_nodes_is_not_hung),
		cmocka_unit_test(sources_that_show_nothing_are_blindness),
		cmocka_unit_test(
		    a_source_that_is_not_there_yet_is_no_blindness_while_another_speaks),
		cmocka_unit_test(the_last_step_of_all_is_an_end_and_no_hang),
		cmocka_unit_test(the_last_step_of_one_rank_is_no_end),
		cmocka_unit_test(the_last_step_of_the_only_rank_that_is_seen_is_no_end),
		cmocka_unit_test(a_save_that_stands_is_said_until_one_ends),
		cmocka_unit_test(a_total_that_is_passed_is_no_end),
		cmocka_unit_test(who_does_not_go_after_the_last_step_is_a_suspicion_first),
		cmocka_unit_test(a_limit_that_was_given_is_kept),
		cmocka_unit_test(a_time_limit_is_no_crash_like_others),
		cmocka_unit_test(who_rests_for_the_first_time_is_told_sooner),
		cmocka_unit_test(a_state_goes_on_behind_a_restart),
		cmocka_unit_test(the_scheduler_s_words_are_known),
		cmocka_unit_test(an_endpoint_of_a_hundred_thousand_gpus_is_read_soon),
		cmocka_unit_test(losses_that_are_no_numbers_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
