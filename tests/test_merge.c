/* SPDX-License-Identifier: Apache-2.0 */
/* Who is who over many files, and steps in order. */
#include <stdio.h>
#include "fold_events.h"

/* A rank's trace with steps first..last of 1 us each at a time of its own. */
static struct rank_stream stream_at(int64_t rank, int64_t world, unsigned first, unsigned last,
				    int64_t at, const char *group, const char *members)
{
	struct made t = made_new(0);
	struct comm_args args = made_args(&t, COMM_ALL_REDUCE, group, 4, -1);

	if (members)
		args.ranks = intern_str(t.sink->names, members);
	for (unsigned i = first; i <= last; i++) {
		int64_t start = at + i * 1000;

		made_mark(&t, i, start, start + 1000);
		made_event(&t, EVENT_LAUNCH, "l", start + 1, 5, 1, i + 1, NULL);
		made_event(&t, EVENT_KERNEL, NCCL_NAME, start + 10, 500, 7, i + 1, &args);
	}
	return made_finish(&t, rank, world);
}

static struct rank_stream stream_of(int64_t rank, unsigned first, unsigned last)
{
	return stream_at(rank, 4, first, last, 0, "0", NULL);
}

struct played {
	struct job *job;
	char text[4096];
};

static int play(void *user, uint64_t number, struct step *const *steps)
{
	struct played *p = user;
	size_t n = strlen(p->text);

	n += (size_t)snprintf(p->text + n, sizeof(p->text) - n, "%d:", (int)number);
	for (uint32_t r = 0; r < p->job->n_ranks; r++) {
		if (!steps[r])
			continue;
		assert_int_equal(steps[r]->number, number);
		assert_int_equal(steps[r]->rank_row, r);
		n += (size_t)snprintf(p->text + n, sizeof(p->text) - n, "%u,", r);
	}
	snprintf(p->text + n, sizeof(p->text) - n, " ");
	return 0;
}

static void rows_are_in_order_of_rank_and_steps_in_order_of_number(void **state)
{
	struct merge *m = merge_new();
	struct rank_stream a = stream_of(3, 5, 6), b = stream_of(-1, 5, 5), c = stream_of(0, 4, 6);
	struct played p = { 0 };
	char name[32];

	(void)state;
	merge_add(m, 2, "c", &a);
	merge_add(m, 0, "a", &b);
	merge_add(m, 1, "b", &c);
	p.job = merge_job(m, NULL);
	assert_non_null(p.job);
	assert_int_equal(p.job->n_ranks, 3);
	assert_int_equal(p.job->ranks[0].rank, 0);
	assert_int_equal(p.job->ranks[1].rank, 3);
	assert_string_equal(job_rank_name(p.job, 2, name), "unknown-1");
	assert_int_equal(p.job->world_size, 4);
	assert_int_equal(p.job->first_step, 4);
	assert_int_equal(p.job->last_step, 6);
	assert_int_equal(merge_row_of(m, 2), 1);
	assert_int_equal(merge_row_of(m, 0), 2);
	assert_int_equal(merge_row_of(m, 9), NO_ID);
	assert_int_equal(merge_run(m, play, &p, NULL), 0);
	assert_string_equal(p.text, "4:0, 5:0,1,2, 6:0,1, ");
	p.text[0] = '\0';
	assert_int_equal(merge_run(m, play, &p, NULL), 0); /* can be played again */
	assert_string_equal(p.text, "4:0, 5:0,1,2, 6:0,1, ");
	merge_free(m);
}

static void files_of_one_rank_with_other_steps_are_one_rank(void **state)
{
	struct merge *m = merge_new();
	struct rank_stream a = stream_of(0, 8, 9), b = stream_of(0, 1, 2), c = stream_of(1, 1, 9);
	struct played p = { 0 };
	const char *const *warnings;

	(void)state;
	merge_add(m, 0, "late", &a);
	merge_add(m, 1, "early", &b);
	merge_add(m, 2, "other", &c);
	p.job = merge_job(m, NULL);
	assert_int_equal(p.job->n_ranks, 2);
	assert_int_equal(p.job->ranks[0].kernels, 4);
	assert_int_equal(merge_warnings(m, &warnings), 0);
	assert_int_equal(merge_run(m, play, &p, NULL), 0);
	assert_string_equal(p.text, "1:0,1, 2:0,1, 3:1, 4:1, 5:1, 6:1, 7:1, 8:0,1, 9:0,1, ");
	merge_free(m);
}

static void a_doubled_rank_is_left_out_and_said(void **state)
{
	struct merge *m = merge_new();
	struct rank_stream a = stream_of(0, 1, 3), b = stream_of(0, 2, 4);
	const char *const *warnings;

	(void)state;
	merge_add(m, 1, "copy.json", &b);
	merge_add(m, 0, "first.json", &a);
	assert_int_equal(merge_job(m, NULL)->n_ranks, 1);
	assert_int_equal(merge_warnings(m, &warnings), 1);
	assert_non_null(strstr(warnings[0], "copy.json"));
	assert_non_null(strstr(warnings[0], "first.json"));
	assert_int_equal(merge_row_of(m, 1), NO_ID);
	merge_free(m);
}

static void of_mixed_jobs_the_larger_one_stays(void **state)
{
	struct merge *m = merge_new();
	const char *const *warnings;
	struct job *job;

	(void)state;
	for (uint64_t i = 0; i < 3; i++) {
		struct rank_stream s = stream_at((int64_t)i, 8, 0, 1, 0, "0", NULL);

		merge_add(m, i, "eight", &s);
	}
	for (uint64_t i = 0; i < 2; i++) {
		struct rank_stream s = stream_at((int64_t)i, 4, 0, 1, 0, "0", NULL);

		merge_add(m, 10 + i, "four", &s);
	}
	job = merge_job(m, NULL);
	assert_int_equal(job->n_ranks, 3);
	assert_int_equal(job->world_size, 8);
	assert_int_equal(merge_warnings(m, &warnings), 1);
	assert_non_null(strstr(warnings[0], "left out 1 file of another job"));
	assert_non_null(strstr(warnings[0], "four"));
	merge_free(m);
}

static void add_at(struct merge *m, uint64_t key, const char *path, int64_t rank, unsigned first,
		   unsigned last, int64_t at)
{
	struct rank_stream s = stream_at(rank, 4, first, last, at, "0", NULL);

	merge_add(m, key, path, &s);
}

#define DAY ((int64_t)86400 * 1000000000)
#define NOW ((int64_t)1700000000 * 1000000000)

/* Months apart: as many ranks in both, so the later one stays; one line names what does not. */
static void of_two_runs_of_equal_size_the_later_one_stays(void **state)
{
	struct merge *m = merge_new();
	const char *const *warnings;
	struct job *job;
	char path[16];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "a%u", i);
		add_at(m, i, path, i, 5, 8, 92 * DAY);
		snprintf(path, sizeof(path), "b%u", i);
		add_at(m, 10 + i, path, i, 5, 8, 0);
	}
	job = merge_job(m, NULL);
	assert_int_equal(job->n_ranks, 4);
	assert_true(job->ranks[0].first_ns >= 92 * DAY);
	assert_int_equal(merge_warnings(m, &warnings), 1);
	assert_string_equal(warnings[0], "left out 4 files of another run of the same ranks, "
					 "recorded 92 days earlier: b0, b1, b2, ..");
	merge_free(m);
}

/* A profiler's schedule: the same ranks again, hours later, at higher steps. One rank's clock is a
   year off. */
static void traces_of_a_schedule_are_one_run(void **state)
{
	struct merge *m = merge_new();
	const char *const *warnings;
	struct job *job;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		int64_t at = i == 2 ? NOW - 365 * DAY : NOW;

		add_at(m, i, "a", i, 10, 12, at);
		add_at(m, 10 + i, "b", i, 100, 102, at + DAY / 4);
	}
	job = merge_job(m, NULL);
	assert_int_equal(merge_warnings(m, &warnings), 0);
	assert_int_equal(job->n_ranks, 4);
	assert_int_equal(job->first_step, 10);
	assert_int_equal(job->last_step, 102);
	merge_free(m);
}

/* Steps rise, but the ranks were not the same process for eight days without a trace. */
static void a_week_without_a_trace_ends_a_run(void **state)
{
	struct merge *m = merge_new();
	struct job *job;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		add_at(m, i, "a", i, 10, 12, NOW);
		add_at(m, 10 + i, "b", i, 100, 102, NOW + 8 * DAY);
	}
	add_at(m, 20, "c", 2, 100, 102, NOW + 8 * DAY);
	job = merge_job(m, NULL);
	assert_int_equal(job->n_ranks, 3);
	assert_int_equal(job->first_step, 100);
	merge_free(m);
}

/* The base of its times came last and was cut off: rank 1 is of the job all the same. */
static void a_trace_without_its_base_time_is_of_the_run(void **state)
{
	struct merge *m = merge_new();

	(void)state;
	add_at(m, 0, "a", 0, 10, 12, NOW);
	add_at(m, 1, "b", 1, 5, 6, 1000);
	assert_int_equal(merge_job(m, NULL)->n_ranks, 2);
	merge_free(m);
}

/* Began anew within seconds: the steps fall although time goes on. */
static void a_restart_is_another_run(void **state)
{
	struct merge *m = merge_new();
	struct job *job;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		add_at(m, i, "before", i, 10, 12, 0);
		add_at(m, 10 + i, "after", i, 3, 4, 20000000000);
	}
	job = merge_job(m, NULL);
	assert_int_equal(job->n_ranks, 3);
	assert_int_equal(job->first_step, 3);
	assert_int_equal(job->last_step, 4);
	merge_free(m);
}

/* Taken up within the hour at a step that the run has had, but not at its first. */
static void a_restart_from_a_checkpoint_is_the_same_job(void **state)
{
	struct merge *m = merge_new();
	struct played p = { 0 };
	const char *const *warnings;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		add_at(m, i, "before", i, 10, 13, NOW);
		add_at(m, 10 + i, "after", i, 12, 14, NOW + (int64_t)60 * 1000000000);
	}
	p.job = merge_job(m, NULL);
	assert_int_equal(p.job->n_ranks, 2);
	assert_int_equal(merge_run(m, play, &p, NULL), 0);
	assert_string_equal(p.text, "10:0,1, 11:0,1, 12:0,1, 13:0,1, 12:0,1, 13:0,1, 14:0,1, ");
	assert_int_equal(merge_warnings(m, &warnings), 0);
	merge_free(m);
}

/* One of three is taken up again, the others go on: its steps are called like nobody's. */
static void a_rank_that_counts_anew_alone_is_left_out_from_there_on(void **state)
{
	struct merge *m = merge_new();
	struct played p = { 0 };
	const char *const *warnings;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		add_at(m, i, "before", i, 10, 13, NOW);
		add_at(m, 10 + i, "after", i, i ? 14 : 11, i ? 16 : 13,
		       NOW + (int64_t)60 * 1000000000);
	}
	p.job = merge_job(m, NULL);
	assert_int_equal(merge_run(m, play, &p, NULL), 0);
	assert_string_equal(p.text,
			    "10:0,1,2, 11:0,1,2, 12:0,1,2, 13:0,1,2, 14:1,2, 15:1,2, 16:1,2, ");
	assert_int_equal(merge_warnings(m, &warnings), 1);
	assert_string_equal(warnings[0],
			    "left out 3 steps of rank 0, which counts steps anew while "
			    "the others go on");
	merge_free(m);
}

static void groups_that_contradict_are_of_two_runs(void **state)
{
	struct merge *m = merge_new();
	struct rank_stream a = stream_at(0, 4, 1, 2, 0, "tp", "[0, 1]");
	struct rank_stream b = stream_at(0, 4, 8, 9, DAY, "tp", "[0, 2]");

	(void)state;
	merge_add(m, 0, "a", &a);
	merge_add(m, 1, "b", &b);
	assert_int_equal(merge_job(m, NULL)->first_step, 8);
	assert_int_equal(merge_row_of(m, 0), NO_ID);
	merge_free(m);
}

/* Two jobs at one time, in a folder each: the one with more files stays, whole. */
static void doubled_ranks_are_settled_by_folder(void **state)
{
	struct merge *m = merge_new();
	const char *const *warnings;
	char path[16];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "a/%u", i);
		add_at(m, i, path, i, 1, 3, 500);
	}
	for (unsigned i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "b/%u", i);
		add_at(m, 10 + i, path, i, 1, 3, 0);
	}
	assert_int_equal(merge_job(m, NULL)->n_ranks, 3);
	assert_int_equal(merge_row_of(m, 0), NO_ID);
	assert_int_equal(merge_row_of(m, 1), NO_ID);
	assert_int_equal(merge_warnings(m, &warnings), 1);
	assert_string_equal(warnings[0],
			    "left out 2 files of a rank that another file has at the same time and "
			    "steps: a/0 (rank 0, as b/0), a/1 (rank 1, as b/1)");
	merge_free(m);
}

static void a_copy_is_left_out_without_a_rank_too(void **state)
{
	struct merge *m = merge_new();
	const char *const *warnings;

	(void)state;
	add_at(m, 0, "x", -1, 1, 3, 0);
	add_at(m, 1, "y", -1, 1, 3, 0);
	add_at(m, 2, "z", -1, 1, 3, 900);
	assert_int_equal(merge_job(m, NULL)->n_ranks, 2);
	assert_int_equal(merge_warnings(m, &warnings), 1);
	assert_string_equal(warnings[0], "left out 1 file copied from another: y (as x)");
	merge_free(m);
}

/* The same ranks and steps an hour later: another run, of which fewer files were given. */
static void of_two_runs_the_one_with_more_files_stays(void **state)
{
	struct merge *m = merge_new();
	const int64_t hour = (int64_t)3600 * 1000000000;
	struct job *job;

	(void)state;
	for (uint64_t i = 0; i < 3; i++) {
		struct rank_stream s = stream_at((int64_t)i, 4, 0, 1, hour, "0", NULL);

		merge_add(m, 10 + i, "new", &s);
	}
	for (uint64_t i = 0; i < 2; i++) {
		struct rank_stream s = stream_at((int64_t)i, 4, 0, 1, 0, "0", NULL);

		merge_add(m, i, "old", &s);
	}
	job = merge_job(m, NULL);
	assert_int_equal(job->n_ranks, 3);
	assert_true(job->ranks[0].first_ns >= hour);
	assert_int_equal(merge_row_of(m, 0), NO_ID);
	merge_free(m);
}

/* One name, two memberships: two groups. A rank that states none joins the one it is in. */
static void groups_are_told_apart_by_their_members(void **state)
{
	static const char *const members[] = { "[0, 1]", NULL, "[2, 3]", "[2, 3]" };
	struct merge *m = merge_new();
	struct job *job;

	(void)state;
	for (uint64_t i = 0; i < 4; i++) {
		struct rank_stream s = stream_at((int64_t)i, 4, 0, 0, 0, "tp", members[i]);

		merge_add(m, i, "x", &s);
	}
	job = merge_job(m, NULL);
	assert_int_equal(job->n_groups, 2);
	assert_int_equal(job->groups[0].n_rows, 2);
	assert_int_equal(job->groups[0].rows[1], 1);
	assert_int_equal(job->groups[1].rows[0], 2);
	assert_int_equal(job->group_of[1][0], 0);
	assert_int_equal(job->group_of[3][0], 1);
	assert_int_equal(job->groups[1].size, 2);
	merge_free(m);
}

static void a_shortened_member_list_is_no_member_list(void **state)
{
	struct merge *m = merge_new();
	struct rank_stream a = stream_at(0, 4, 0, 0, 0, "dp", "[0, 1, ..., 3]");
	struct rank_stream b = stream_at(1, 4, 0, 0, 0, "dp", "[0, 1, ..., 3]");
	struct job *job;

	(void)state;
	merge_add(m, 0, "a", &a);
	merge_add(m, 1, "b", &b);
	job = merge_job(m, NULL);
	assert_int_equal(job->n_groups, 1);
	assert_null(job->groups[0].ranks);
	assert_int_equal(job->groups[0].n_rows, 2);
	merge_free(m);
}

static void without_names_all_ranks_are_one_group(void **state)
{
	struct merge *m = merge_new();
	struct job *job;

	(void)state;
	for (uint64_t i = 0; i < 4; i++) {
		struct rank_stream s = stream_at((int64_t)i, 4, 0, 0, 0, NULL, NULL);

		merge_add(m, i, "x", &s);
	}
	job = merge_job(m, NULL);
	assert_int_equal(job->n_groups, 1);
	assert_int_equal(job->groups[0].n_rows, 4);
	assert_int_equal(job->groups[0].size, 4);
	assert_int_equal(job->groups[0].name, NO_ID);
	merge_free(m);
}

static void nothing_gives_no_job(void **state)
{
	struct merge *m = merge_new();
	struct error error = { "" };

	(void)state;
	assert_null(merge_job(m, &error));
	assert_true(error.text[0] != '\0');
	merge_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_in_order_of_rank_and_steps_in_order_of_number),
		cmocka_unit_test(files_of_one_rank_with_other_steps_are_one_rank),
		cmocka_unit_test(a_doubled_rank_is_left_out_and_said),
		cmocka_unit_test(of_mixed_jobs_the_larger_one_stays),
		cmocka_unit_test(of_two_runs_the_one_with_more_files_stays),
		cmocka_unit_test(of_two_runs_of_equal_size_the_later_one_stays),
		cmocka_unit_test(traces_of_a_schedule_are_one_run),
		cmocka_unit_test(a_week_without_a_trace_ends_a_run),
		cmocka_unit_test(a_trace_without_its_base_time_is_of_the_run),
		cmocka_unit_test(a_restart_is_another_run),
		cmocka_unit_test(a_restart_from_a_checkpoint_is_the_same_job),
		cmocka_unit_test(a_rank_that_counts_anew_alone_is_left_out_from_there_on),
		cmocka_unit_test(groups_that_contradict_are_of_two_runs),
		cmocka_unit_test(doubled_ranks_are_settled_by_folder),
		cmocka_unit_test(a_copy_is_left_out_without_a_rank_too),
		cmocka_unit_test(groups_are_told_apart_by_their_members),
		cmocka_unit_test(a_shortened_member_list_is_no_member_list),
		cmocka_unit_test(without_names_all_ranks_are_one_group),
		cmocka_unit_test(nothing_gives_no_job),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
