/* SPDX-License-Identifier: Apache-2.0 */
/* test_testimony.c - what one file says stays bounded, and loses nothing without counting it. */
#include "hang_builder.h"

static void a_file_that_says_nothing_is_empty(void **state)
{
	struct testimony *t = testimony_new(WITNESS_LOG, "log");

	(void)state;
	assert_true(testimony_empty(t));
	t->present = true;
	assert_false(testimony_empty(t));
	testimony_free(t);
	assert_null(testimony_free(NULL));
}

static void every_witness_and_saying_has_a_name_of_its_own(void **state)
{
	(void)state;
	for (unsigned a = 0; a < SAY_KINDS; a++)
		for (unsigned b = 0; b < a; b++)
			assert_string_not_equal(saying_name(a), saying_name(b));
	for (unsigned a = 0; a < WITNESSES; a++)
		for (unsigned b = 0; b < a; b++)
			assert_string_not_equal(witness_name(a), witness_name(b));
}

/* --- sayings --- */

static void what_is_said_again_is_counted_to_the_first(void **state)
{
	struct testimony *t = testimony_new(WITNESS_LOG, "log");
	struct saying s = saying_of(SAY_PEER_LOST);

	(void)state;
	for (uint64_t line = 1; line <= 1000; line++) {
		s.rank = 3;
		s.line = line;
		s.time_ns = (int64_t)line * SECOND;
		s.text = told(t, line % 2 ? "reset by peer" : "broken pipe");
		assert_non_null(testimony_say(t, &s));
	}
	assert_int_equal(t->sayings.n, 1);
	assert_int_equal(t->sayings.v[0].count, 1000);
	assert_int_equal(t->sayings.v[0].line, 1);
	assert_int_equal(t->sayings.v[0].last_line, 1000);
	assert_int_equal(t->sayings.v[0].time_ns, SECOND);
	assert_int_equal(t->sayings.v[0].last_ns, 1000 * SECOND);
	assert_string_equal(intern_get(&t->names, t->sayings.v[0].text), "reset by peer");
	testimony_free(t);
}

static void a_line_without_a_stamp_keeps_the_last_stamp(void **state)
{
	struct testimony *t = testimony_new(WITNESS_LOG, "log");
	struct saying s = saying_of(SAY_WARNING);

	(void)state;
	s.time_ns = 5 * SECOND;
	testimony_say(t, &s);
	s.time_ns = -1;
	testimony_say(t, &s);
	assert_int_equal(t->sayings.v[0].last_ns, 5 * SECOND);
	testimony_free(t);
}

static void sayings_that_differ_in_anything_but_words_stay_apart(void **state)
{
	struct testimony *t = testimony_new(WITNESS_LOG, "log");
	struct saying base = saying_of(SAY_TIMEOUT), other[11];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(other); i++)
		other[i] = base;
	other[0].kind = SAY_STATUS;
	other[1].rank = 1;
	other[2].local_rank = 1;
	other[3].peer = 1;
	other[4].group = 1;
	other[5].signature = 1;
	other[6].seq = 1;
	other[7].value = 1;
	other[8].pid = 1;
	other[9].gpu = 1;
	other[10].what = 1;
	testimony_say(t, &base);
	for (size_t i = 0; i < ARRAY_SIZE(other); i++)
		testimony_say(t, &other[i]);
	assert_int_equal(t->sayings.n, 1 + ARRAY_SIZE(other));
	testimony_free(t);
}

static void sayings_beyond_the_limit_are_counted(void **state)
{
	struct testimony *t = testimony_new(WITNESS_LOG, "log");
	struct saying s = saying_of(SAY_WARNING);

	(void)state;
	for (s.seq = 0; s.seq < TESTIMONY_SAYINGS_MAX; s.seq++)
		testimony_say(t, &s);
	assert_int_equal(t->dropped, 0);
	assert_null(testimony_say(t, &s));
	assert_int_equal(t->dropped, 1);
	s.seq = 7; /* one that is there is still counted */
	assert_int_equal(testimony_say(t, &s)->count, 2);
	assert_int_equal(t->dropped, 1);
	testimony_free(t);
}

/* --- groups and signatures --- */

static void a_group_is_its_name_and_its_description(void **state)
{
	struct testimony *t = testimony_new(WITNESS_DUMP, "flight-recorder");
	uint32_t a = told(t, "1"), b = told(t, "mesh_tp");

	(void)state;
	assert_int_equal(testimony_group(t, a, b), 0);
	assert_int_equal(testimony_group(t, a, NO_ID), 1);
	assert_int_equal(testimony_group(t, NO_ID, b), 2);
	assert_int_equal(testimony_group(t, a, b), 0);
	assert_int_equal(t->groups.v[0].size, -1);
	assert_int_equal(t->groups.v[0].ranks, NO_ID);
	testimony_free(t);
}

/* Many rows: the index grows under them. */
static void equal_signatures_have_one_row(void **state)
{
	struct testimony *t = testimony_new(WITNESS_DUMP, "flight-recorder");

	(void)state;
	for (int pass = 0; pass < 2; pass++)
		for (int64_t i = 0; i < 5000; i++) {
			struct signature s = signature_unknown();

			s.op = COMM_ALL_REDUCE;
			s.in_elements = i;
			assert_int_equal(testimony_signature(t, &s), i);
		}
	assert_int_equal(t->signatures.n, 5000);
	testimony_free(t);
}

/* --- progress --- */

static void line_of_step(struct testimony *t, int64_t step, int64_t seconds)
{
	struct progress_line l = progress_line_unknown();

	l.step = step;
	l.time_ns = seconds < 0 ? -1 : seconds * SECOND;
	l.line = t->lines++;
	testimony_progress(t, &l);
}

static void a_step_time_not_printed_follows_from_the_stamps(void **state)
{
	struct testimony *t = testimony_new(WITNESS_LOG, "log");

	(void)state;
	line_of_step(t, 10, 100);
	line_of_step(t, 20, 130);
	assert_int_equal(t->progress.n, 1);
	assert_true(fabs(t->progress.v[0].last_step_ms - 3000.0) < 1e-6);
	testimony_free(t);
}

static void clocks_that_go_back_give_no_step_time(void **state)
{
	struct testimony *t = testimony_new(WITNESS_LOG, "log");

	(void)state;
	line_of_step(t, 10, 100);
	line_of_step(t, 11, 90);
	assert_int_equal(t->progress.v[0].n_gaps, 0);
	assert_true(isnan(t->progress.v[0].last_step_ms));
	testimony_free(t);
}

static void a_step_that_goes_back_is_a_restart(void **state)
{
	struct testimony *t = testimony_new(WITNESS_LOG, "log");

	(void)state;
	line_of_step(t, 10, -1);
	line_of_step(t, 11, -1);
	line_of_step(t, 10, -1);
	line_of_step(t, 11, -1);
	assert_int_equal(t->progress.v[0].restarts, 1);
	assert_int_equal(t->progress.v[0].first_step, 10);
	assert_int_equal(t->progress.v[0].last_step, 11);
	assert_int_equal(t->progress.v[0].lines, 4);
	testimony_free(t);
}

/* A million steps of 100 ms, one of which took a minute. */
static void the_longest_gap_of_a_million_steps_is_kept(void **state)
{
	struct testimony *t = testimony_new(WITNESS_LOG, "log");
	struct progress_line l = progress_line_unknown();
	struct log_progress *p;

	(void)state;
	for (l.step = 1; l.step <= 1000000; l.step++) {
		l.step_ms = l.step == 654321 ? 60000 : 100;
		l.line = (uint64_t)l.step;
		testimony_progress(t, &l);
	}
	p = &t->progress.v[0];
	assert_int_equal(p->gaps[0].step, 654321);
	assert_true(p->gaps[0].ms > 59999);
	assert_int_equal(p->n_gaps, PROGRESS_GAPS);
	assert_int_equal(p->lines, 1000000);
	testimony_free(t);
}

static void gaps_come_longest_first(void **state)
{
	struct testimony *t = testimony_new(WITNESS_LOG, "log");
	struct progress_line l = progress_line_unknown();
	uint64_t random = 7;

	(void)state;
	for (l.step = 1; l.step <= 100; l.step++) {
		l.step_ms = (double)(case_random(&random) % 1000);
		testimony_progress(t, &l);
	}
	for (uint32_t i = 1; i < t->progress.v[0].n_gaps; i++)
		assert_true(t->progress.v[0].gaps[i - 1].ms >= t->progress.v[0].gaps[i].ms);
	testimony_free(t);
}

static void ranks_progress_apart_from_each_other(void **state)
{
	struct testimony *t = testimony_new(WITNESS_LOG, "log");

	(void)state;
	steps_of(t, -1, 1, 5, 100, -1);
	steps_of(t, 2, 1, 7, 100, -1);
	steps_of(t, 0, 1, 9, 100, -1);
	assert_int_equal(t->progress.n, 3);
	assert_int_equal(t->progress.v[1].rank, 2);
	assert_int_equal(t->progress.v[1].last_step, 7);
	testimony_free(t);
}

/* --- power --- */

static void a_thinned_series_keeps_its_last_sample(void **state)
{
	struct testimony *t = testimony_new(WITNESS_POWER, "nvidia-smi");
	struct gpu_series *g = testimony_gpu(t, NO_ID, 0, NO_ID);

	(void)state;
	for (int64_t i = 0; i < 100000; i++) {
		struct gpu_sample s = gpu_sample_unknown();

		s.time_ns = i;
		gpu_series_add(t, g, &s);
		assert_true(g->n_samples <= GPU_SAMPLES);
		assert_int_equal(g->samples[g->n_samples - 1].time_ns, i);
	}
	assert_int_equal(g->seen, 100000);
	for (uint32_t i = 1; i < g->n_samples; i++)
		assert_true(g->samples[i].time_ns > g->samples[i - 1].time_ns);
	testimony_free(t);
}

/* Evenly: no two neighbours are further apart than the stride. */
static void a_series_is_thinned_evenly(void **state)
{
	struct testimony *t = testimony_new(WITNESS_POWER, "nvidia-smi");
	struct gpu_series *g = testimony_gpu(t, NO_ID, 0, NO_ID);

	(void)state;
	for (int64_t i = 0; i < 3000; i++) {
		struct gpu_sample s = gpu_sample_unknown();

		s.time_ns = i;
		gpu_series_add(t, g, &s);
	}
	assert_true(g->stride > 1);
	for (uint32_t i = 1; i < g->n_samples; i++)
		assert_true(g->samples[i].time_ns - g->samples[i - 1].time_ns <=
			    (int64_t)g->stride);
	testimony_free(t);
}

static void a_gpu_is_its_host_and_index_or_its_uuid(void **state)
{
	struct testimony *t = testimony_new(WITNESS_POWER, "nvidia-smi");
	uint32_t a = told(t, "node-a"), b = told(t, "node-b"), uuid = told(t, "GPU-1");

	(void)state;
	testimony_gpu(t, a, 0, NO_ID);
	testimony_gpu(t, b, 0, NO_ID);
	testimony_gpu(t, a, -1, uuid);
	testimony_gpu(t, a, 0, uuid);
	testimony_gpu(t, a, -1, uuid);
	assert_int_equal(t->gpus.n, 3);
	testimony_free(t);
}

/* --- counters and stacks --- */

static void a_counter_keeps_its_first_and_last_value(void **state)
{
	struct testimony *t = testimony_new(WITNESS_COUNTERS, "counters");
	uint32_t port = told(t, "mlx5_0/1"), name = told(t, "symbol_error");

	(void)state;
	testimony_counter(t, NO_ID, port, name, 5);
	assert_true(t->counters.v[0].first >= 5 && t->counters.v[0].last <= 5);
	testimony_counter(t, NO_ID, port, name, 9);
	assert_int_equal(t->counters.n, 1);
	assert_int_equal(t->counters.v[0].seen, 2);
	assert_true(t->counters.v[0].last >= 9 && t->counters.v[0].first <= 5);
	testimony_free(t);
}

static void threads_belong_to_the_process_begun_last(void **state)
{
	struct testimony *t = testimony_new(WITNESS_STACKS, "py-spy");

	(void)state;
	for (int process = 0; process < 2; process++) {
		assert_non_null(testimony_stack(t));
		for (int thread = 0; thread <= process; thread++) {
			testimony_thread(t);
			frames_of(t, "f a.py:1|g b.py:2");
		}
	}
	assert_int_equal(t->stacks.v[1].thread, 1);
	assert_int_equal(t->stacks.v[1].n_threads, 2);
	assert_int_equal(t->threads.v[2].frame, 4);
	assert_int_equal(t->threads.v[2].n_frames, 2);
	testimony_free(t);
}

static void a_stripped_testimony_keeps_its_format_and_rank(void **state)
{
	struct hang_case c;
	struct testimony *t;

	(void)state;
	case_new(&c);
	case_group(&c, "world", "0", "default_pg", "[0]");
	t = dump(&c, 5, "3(world:all_reduce)");
	testimony_strip(t);
	assert_int_equal(t->entries.n, 0);
	assert_int_equal(t->names.n, 0);
	assert_int_equal(t->rank, 5);
	assert_string_equal(t->format, "flight-recorder");
	assert_false(testimony_empty(t));
	testimony_strip(t); /* again does no harm */
	case_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_that_says_nothing_is_empty),
		cmocka_unit_test(every_witness_and_saying_has_a_name_of_its_own),
		cmocka_unit_test(what_is_said_again_is_counted_to_the_first),
		cmocka_unit_test(a_line_without_a_stamp_keeps_the_last_stamp),
		cmocka_unit_test(sayings_that_differ_in_anything_but_words_stay_apart),
		cmocka_unit_test(sayings_beyond_the_limit_are_counted),
		cmocka_unit_test(a_group_is_its_name_and_its_description),
		cmocka_unit_test(equal_signatures_have_one_row),
		cmocka_unit_test(a_step_time_not_printed_follows_from_the_stamps),
		cmocka_unit_test(clocks_that_go_back_give_no_step_time),
		cmocka_unit_test(a_step_that_goes_back_is_a_restart),
		cmocka_unit_test(the_longest_gap_of_a_million_steps_is_kept),
		cmocka_unit_test(gaps_come_longest_first),
		cmocka_unit_test(ranks_progress_apart_from_each_other),
		cmocka_unit_test(a_thinned_series_keeps_its_last_sample),
		cmocka_unit_test(a_series_is_thinned_evenly),
		cmocka_unit_test(a_gpu_is_its_host_and_index_or_its_uuid),
		cmocka_unit_test(a_counter_keeps_its_first_and_last_value),
		cmocka_unit_test(threads_belong_to_the_process_begun_last),
		cmocka_unit_test(a_stripped_testimony_keeps_its_format_and_rank),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
