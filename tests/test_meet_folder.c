/* SPDX-License-Identifier: Apache-2.0 */
/* test_meet_folder.c - nodes as processes in a folder; what else lies there is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "meet_processes.h"

static void folder_nodes_get_the_same_verdict_and_tidy_up(void **state)
{
	(void)state;
	all_get_the_same_verdict(shared);
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(mkdir(folder, 0700), 0);
}

static void a_wrong_clock_is_measured_by_the_folder(void **state)
{
	(void)state;
	a_wrong_clock_is_measured(shared);
}

static void folder_absent_nodes_are_named(void **state)
{
	(void)state;
	who_does_not_come_is_named(shared);
}

static void a_node_that_dies_in_a_folder_is_lost(void **state)
{
	(void)state;
	a_node_that_dies_is_lost(shared, NULL);
}

static void a_number_held_twice_in_a_folder_is_named(void **state)
{
	(void)state;
	a_number_held_twice_is_named(shared);
}

static void a_second_judge_in_a_folder_is_a_guest(void **state)
{
	(void)state;
	a_second_judge_is_a_guest(shared);
}

static void a_judge_that_is_started_anew_calls_again(void **state)
{
	(void)state;
	a_judge_that_is_started_anew_is_found(shared);
}

static void another_count_of_nodes_in_a_folder_is_named(void **state)
{
	(void)state;
	another_count_of_nodes_is_named(shared);
}

/* A node's file that answers nothing that is called now. */
static void what_an_earlier_attempt_left_is_not_taken(void **state)
{
	struct meet_plan p = shared(0, 3);
	struct node v[4];

	(void)state;
	v[0] = start(&p);
	for (uint32_t i = 1; i < 3; i++) {
		p = shared(i, 3);
		p.limit_ms = 20000;
		v[i] = start(&p);
		until_file(i == 1 ? "part-1-*" : "part-2-*");
		if (i == 1)
			kill(v[0].pid, SIGKILL); /* the call stays, and so do the parts */
	}
	poll(NULL, 0, 100);
	kill(v[1].pid, SIGKILL);
	kill(v[2].pid, SIGKILL);
	finish_all(v, 3);
	free_all(v, 3);
	assert_true(file_is_there("call"));
	for (uint32_t i = 0; i < 2; i++) {
		p = shared(i, 3);
		p.limit_ms = 2000;
		v[i] = start(&p);
	}
	finish_all(v, 2);
	assert_int_equal(v[0].r, 0);
	assert_int_equal(v[1].r, 0);
	has(&v[1], "1\tcame\t");
	has(&v[1], "2\tabsent\t");
	has(&v[1], "a file of an earlier attempt is here, made at 20");
	free_all(v, 2);
}

/* The folder of our job, as the meeting names it. */
static char *job_folder(void)
{
	struct meet_plan p = shared(1, 2);
	struct buf verdict = { 0 };
	char *pattern = xasprintf("%s/lockstep-meeting-*", folder), *path;
	glob_t found;

	p.limit_ms = 30;
	assert_int_equal(meet(&p, "", 0, rows_judge, NULL, &verdict, NULL), -ETIMEDOUT);
	assert_int_equal(glob(pattern, 0, NULL, &found), GLOB_NOMATCH); /* it tidies up */
	p.limit_ms = 300;
	struct node n = start(&p);
	for (int i = 0; i < 100 && glob(pattern, 0, NULL, &found) != 0; i++)
		poll(NULL, 0, 5);
	path = xstrdup(found.gl_pathv[0]);
	finish(&n);
	free_all(&n, 1);
	globfree(&found);
	free(pattern);
	return path;
}

static void strange_files_in_a_folder_are_said(void **state)
{
	static const char *const said[] = {
		"5\timpostor\tpart-5-link\t-\tits file is a link, or no regular file",
		"6\timpostor\tpart-6-fifo\t-\tits file is a link, or no regular file",
		"-1\tstranger\tnotes.txt\t-\tis no file of a meeting, or torn",
		"7\tstranger\tpart-7-torn\t-\tis no file of a meeting, or torn",
		"8\timpostor\tpart-8-new\t-\tits file is of another version of lockstep",
		"9\tstranger\tpart-9-huge\t-\tis larger than any file of a meeting",
	};
	char *path = job_folder();
	int dir;
	struct node v[2];

	(void)state;
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chdir(path), 0);
	assert_int_equal(symlink("/etc/passwd", "part-5-link"), 0);
	assert_int_equal(mkfifo("part-6-fifo", 0600), 0);
	put_file("notes.txt", "hello", 5, 0600);
	put_file("part-7-torn", "LSMEETF\n\1p", 10, 0600);
	put_file("part-8-new", "LSMEETF\n\2p and what nobody knows", 32, 0600);
	put_file("part-9-huge", "", 0, 0600);
	assert_int_equal(truncate("part-9-huge", 1 << 30), 0);
	if (geteuid() == 0) {
		put_file("part-1-foreign", "x", 1, 0644);
		assert_int_equal(chown("part-1-foreign", 12345, 0), 0);
	}
	assert_int_equal(chdir("/"), 0);
	for (uint32_t i = 0; i < 2; i++) {
		struct meet_plan p = shared(i, 2);

		v[i] = start(&p);
	}
	finish_all(v, 2);
	assert_int_equal(v[0].r, 0);
	assert_int_equal(v[1].r, 0);
	for (size_t i = 0; i < ARRAY_SIZE(said); i++)
		has(&v[1], said[i]);
	if (geteuid() == 0)
		has(&v[1], "1\timpostor\tpart-1-foreign\t-\tits file belongs to another user");
	has(&v[1], "1\tcame\t");
	free_all(v, 2);
	dir = open(path, O_RDONLY | O_DIRECTORY);
	assert_int_equal(faccessat(dir, "notes.txt", F_OK, 0), 0); /* not ours to remove */
	assert_int_not_equal(faccessat(dir, "call", F_OK, 0), 0);
	close(dir);
	free(path);
}

static void a_folder_that_others_can_change_is_refused(void **state)
{
	char *path = job_folder();
	struct meet_plan p = shared(0, 2);

	(void)state;
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, 0777), 0);
	refused(&p, -EPERM, "others can write in");
	rmdir(path);
	assert_int_equal(symlink("/tmp", path), 0);
	refused(&p, -ENOTDIR, "is no folder");
	unlink(path);
	if (geteuid() == 0) {
		assert_int_equal(mkdir(path, 0700), 0);
		assert_int_equal(chown(path, 12345, 0), 0);
		refused(&p, -EPERM, "belongs to user 12345");
		rmdir(path);
	}
	free(path);
}

static void a_secret_holds_in_a_folder_too(void **state)
{
	struct node v[3];

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct meet_plan p = shared(i, 3);

		p.limit_ms = 2000;
		p.secret_file = secret;
		if (i == 1) /* answers nothing, since it cannot read the call */
			p.secret_file = other_secret;
		v[i] = start(&p);
	}
	finish_all(v, 3);
	assert_int_equal(v[2].r, 0);
	has(&v[2], "2\tcame\t");
	has(&v[2], "1\tabsent\t");
	assert_int_equal(v[1].r, -ETIMEDOUT);
	has(&v[1], "it is of another secret");
	free_all(v, 3);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(folder_nodes_get_the_same_verdict_and_tidy_up),
		TEST(a_wrong_clock_is_measured_by_the_folder),
		TEST(folder_absent_nodes_are_named),
		TEST(a_number_held_twice_in_a_folder_is_named),
		TEST(a_second_judge_in_a_folder_is_a_guest),
		TEST(a_judge_that_is_started_anew_calls_again),
		TEST(a_node_that_dies_in_a_folder_is_lost),
		TEST(another_count_of_nodes_in_a_folder_is_named),
		TEST(what_an_earlier_attempt_left_is_not_taken),
		TEST(strange_files_in_a_folder_are_said),
		TEST(a_folder_that_others_can_change_is_refused),
		TEST(a_secret_holds_in_a_folder_too),
	};

	return run_side_by_side(tests, ARRAY_SIZE(tests));
}
