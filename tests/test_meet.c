/* SPDX-License-Identifier: Apache-2.0 */
/* test_meet.c - nodes as processes on loopback; who does not fit is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "meet_processes.h"

static void one_node_judges_alone(void **state)
{
	struct meet_plan p = { .nodes = 1, .name = "alone" };
	struct node n = start(&p);

	(void)state;
	finish(&n);
	assert_int_equal(n.r, 0);
	has(&n, "0\tcame\talone\t-\t-\t0.000\t0.000\t0\t5\t");
	free_all(&n, 1);
}

static void a_plan_that_cannot_be_is_refused(void **state)
{
	static const char *const bad[] = { "host",    ":1",	"host:", "host:0", "host:70000",
					   "host:1x", "::1:80", "[::1]", "host:-1" };
	struct meet_plan p = tcp(0, 0);
	struct error error;
	struct buf verdict = { 0 };

	(void)state;
	refused(&p, -EINVAL, "0 nodes cannot meet");
	p = tcp(0, MEET_NODES_MOST + 1);
	refused(&p, -EINVAL, "cannot meet");
	p = tcp(2, 2);
	refused(&p, -EINVAL, "node 2 of 2");
	p = tcp(0, 2);
	p.folder = folder;
	refused(&p, -EINVAL, "one of the two");
	p.folder = p.address = NULL;
	refused(&p, -EINVAL, "one of the two");
	p = tcp(0, 2);
	p.secret_file = NULL;
	refused(&p, -EINVAL, "need a secret");
	p = tcp(0, 2);
	p.job = "";
	refused(&p, -EINVAL, "has a name");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		p = tcp((uint32_t)i % 2, 2);
		p.address = bad[i];
		refused(&p, -EINVAL, "HOST:PORT");
	}
	p = shared(1, 2);
	p.folder = "/nonexistent/x";
	refused(&p, -ENOENT, "/nonexistent/x");
	p = tcp(0, 1);
	assert_int_equal(meet(&p, "x", MEET_PART_MOST + 1, rows_judge, NULL, &verdict, &error),
			 -E2BIG);
}

static void a_secret_is_ours_alone(void **state)
{
	struct meet_plan p = tcp(0, 2);
	char path[128];
	uint8_t *key;
	size_t len;

	(void)state;
	assert_int_equal(meet_secret_read(secret, &key, &len, NULL), 0);
	assert_int_equal(len, 26); /* without the newline */
	free(key);
	p.secret_file = "/nonexistent/secret";
	refused(&p, -ENOENT, "/nonexistent/secret");
	p.secret_file = scratch;
	refused(&p, -EINVAL, "no regular file");
	snprintf(path, sizeof(path), "%s/bad", scratch);
	p.secret_file = path;
	put_file(path, "0123456789abcdef0123456789", 26, 0640);
	refused(&p, -EPERM, "chmod 600");
	put_file(path, "0123456789abcde  \r\n", 19, 0600);
	refused(&p, -EINVAL, "15 bytes is too short");
	unlink(path);
	put_file(path, scratch, 0, 0600);
	assert_int_equal(truncate(path, 5000), 0);
	refused(&p, -E2BIG, "at most 4096");
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	refused(&p, -EINVAL, "no regular file");
	unlink(path);
	if (geteuid() == 0) {
		put_file(path, "0123456789abcdef0123456789", 26, 0600);
		assert_int_equal(chown(path, 12345, 0), 0);
		refused(&p, -EPERM, "belongs to user 12345");
	}
}

static void tcp_nodes_get_the_same_verdict(void **state)
{
	(void)state;
	all_get_the_same_verdict(tcp);
}

static void large_parts_and_verdicts_arrive(void **state)
{
	struct node v[6];

	(void)state;
	for (uint32_t i = 0; i < 6; i++) {
		struct meet_plan p = i < 3 ? tcp(i, 3) : shared(i - 3, 3);

		p.limit_ms = 40000;
		v[i] = start_big(&p, MEET_PART_MOST, MEET_VERDICT_MOST / 4);
	}
	finish_all(v, 3);
	finish_all(v + 3, 3);
	for (uint32_t i = 0; i < 6; i++) {
		assert_int_equal(v[i].r, 0);
		assert_true(strlen(v[i].text) > MEET_VERDICT_MOST / 4);
		has(&v[i], "2\tcame\t");
		has(&v[i], "\t4194304\t");
	}
	free_all(v, 6);
}

static void names_are_resolved_and_ports_are_used_again(void **state)
{
	char *port = strchr(address, ':'), named[64];

	(void)state;
	snprintf(named, sizeof(named), "localhost%s", port);
	for (int i = 0; i < 3; i++) { /* three attempts, one right after the other */
		struct node v[2];

		for (uint32_t k = 0; k < 2; k++) {
			struct meet_plan p = tcp(k, 2);

			p.address = named;
			p.job = i ? "1234.1" : "1234.0";
			v[k] = start(&p);
		}
		finish_all(v, 2);
		assert_int_equal(v[0].r, 0);
		assert_int_equal(v[1].r, 0);
		free_all(v, 2);
	}
}

/* As `lockstep run` does after each attempt: at once, by the same processes. */
static void rounds_follow_one_another(void **state)
{
	int64_t began = clock_ms();
	int status, failed = 0;

	(void)state;
	for (uint32_t node = 0; node < 8; node++) {
		if (fork())
			continue;
		for (int round = 0; round < 6 && !failed; round++) {
			char job[32];
			struct meet_plan p = tcp(node, 8);
			struct buf verdict = { 0 };

			snprintf(job, sizeof(job), "1234.%d", round);
			p.job = job;
			failed = meet(&p, job, 7, rows_judge, NULL, &verdict, NULL) < 0 ||
				 memmem(verdict.data, verdict.len, "absent", 6) ||
				 memmem(verdict.data, verdict.len, "lost", 4);
			buf_done(&verdict);
		}
		_exit(failed);
	}
	while (wait(&status) > 0)
		failed |= status;
	assert_int_equal(failed, 0);
	assert_true(clock_ms() - began < 6000);
}

static void a_wrong_clock_is_measured_by_exchanges(void **state)
{
	(void)state;
	a_wrong_clock_is_measured(tcp);
}

static void tcp_absent_nodes_are_named(void **state)
{
	(void)state;
	who_does_not_come_is_named(tcp);
}

static void without_node_0_everybody_knows_it_in_time(void **state)
{
	struct node v[3];

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct meet_plan p = i < 2 ? tcp(1 + i, 3) : shared(1, 3);

		p.limit_ms = 700;
		v[i] = start(&p);
	}
	finish_all(v, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(v[i].r, -ETIMEDOUT);
		assert_true(v[i].took_ms < 1500);
	}
	has(&v[0], "as node 1: nobody listens there");
	has(&v[0], address);
	has(&v[2], "node 0 has not called; no file of: node");
	assert_false(file_is_there("part-*"));
	free_all(v, 3);
}

static void a_judge_that_dies_is_known_and_who_was_missing(void **state)
{
	struct meet_plan p = tcp(0, 3);
	struct node judge, n;

	(void)state;
	p.name = "gpu00";
	judge = start(&p);
	until_listening();
	p = tcp(1, 3);
	p.limit_ms = 2500;
	n = start(&p);
	poll(NULL, 0, 1600); /* past the first news of who is missing */
	kill(judge.pid, SIGKILL);
	finish(&judge);
	finish(&n);
	assert_int_equal(n.r, -ETIMEDOUT);
	has(&n, "(gpu00)");
	has(&n, "last heard: 2 of 3 nodes came, missing: node 2");
	free_all(&judge, 1);
	free_all(&n, 1);
}

static void a_node_that_dies_over_tcp_is_lost(void **state)
{
	(void)state;
	a_node_that_dies_is_lost(tcp, "went after it had given its part: ");
}

static void a_node_that_is_started_anew_is_one(void **state)
{
	struct meet_plan p = tcp(0, 3);
	struct node v[4];

	(void)state;
	v[0] = start(&p);
	until_listening();
	p = tcp(1, 3);
	v[1] = start(&p);
	poll(NULL, 0, 300);
	kill(v[1].pid, SIGKILL);
	p.name = "again";
	v[2] = start(&p);
	poll(NULL, 0, 200);
	p = tcp(2, 3);
	v[3] = start(&p);
	finish_all(v, 4);
	assert_int_equal(v[2].r, 0);
	has(&v[2], "1\tcame\tagain\t");
	lacks(&v[2], "misfit");
	assert_true(v[3].took_ms < 3000); /* after which a number held twice is settled */
	free_all(v, 4);
}

static void a_number_held_twice_over_tcp_is_named(void **state)
{
	(void)state;
	a_number_held_twice_is_named(tcp);
}

static void a_second_judge_at_a_port_is_a_guest(void **state)
{
	(void)state;
	a_second_judge_is_a_guest(tcp);
}

static void a_judge_that_is_started_anew_is_called_again(void **state)
{
	(void)state;
	a_judge_that_is_started_anew_is_found(tcp);
}

static void another_count_of_nodes_over_tcp_is_named(void **state)
{
	(void)state;
	another_count_of_nodes_is_named(tcp);
}

static void a_wrong_secret_is_named_and_delays_nobody(void **state)
{
	struct node v[4];

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		struct meet_plan p = tcp(i == 3 ? 2 : i, 3);

		if (i == 0)
			p.name = "gpu00";
		if (i == 3) { /* claims to be node 2, before it comes */
			p.secret_file = other_secret;
			p.name = "liar";
		}
		if (i != 2)
			v[i] = start(&p);
		until_listening();
	}
	poll(NULL, 0, 1000);
	v[2] = start(&(struct meet_plan){ .address = address,
					  .secret_file = secret,
					  .job = "1234.0",
					  .node = 2,
					  .nodes = 3,
					  .limit_ms = 8000 });
	finish_all(v, 4);
	assert_int_equal(v[3].r, -EACCES);
	has(&v[3], "holds another secret");
	assert_int_equal(v[0].r, 0);
	assert_int_equal(v[2].r, 0);
	assert_true(v[2].took_ms < 1500);
	has(&v[0], "2\tcame\t");
	has(&v[0], "2\timpostor\tliar\t127.0.0.1\tdoes not hold the secret of this meeting");
	free_all(v, 4);
}

static void another_job_at_our_port_is_named_on_both_sides(void **state)
{
	struct node v[3];

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct meet_plan p = tcp(i, 3);

		p.limit_ms = 1500;
		p.name = i ? NULL : "gpu00";
		if (i == 2)
			p.job = "9999.0";
		v[i] = start(&p);
		until_listening();
	}
	finish_all(v, 3);
	assert_int_equal(v[1].r, 0);
	has(&v[1], "2\tabsent\t");
	has(&v[1], "2\timpostor\t");
	has(&v[1], "is of job \"9999.0\", not of \"1234.0\"");
	assert_int_equal(v[2].r, -ETIMEDOUT);
	has(&v[2], address);
	free_all(v, 3);
}

static void a_job_at_our_port_is_told_who_has_it(void **state)
{
	struct meet_plan p = tcp(0, 2);
	struct node v[2];

	(void)state;
	p.name = "gpu00";
	p.limit_ms = 3000;
	v[0] = start(&p);
	until_listening();
	p.job = "9999.0";
	p.limit_ms = 700;
	v[1] = start(&p);
	finish(&v[1]);
	assert_int_equal(v[1].r, -ETIMEDOUT);
	has(&v[1], "job \"1234.0\" of gpu00 meets there");
	kill(v[0].pid, SIGKILL);
	finish(&v[0]);
	free_all(v, 2);
}

static void a_signal_ends_it_soon(void **state)
{
	struct meet_plan plans[] = { tcp(0, 2), tcp(1, 2), shared(0, 2), shared(1, 2) };
	struct sigaction act = { .sa_handler = on_alarm };

	(void)state;
	sigaction(SIGALRM, &act, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(plans); i++) {
		int64_t began = clock_ms();
		struct itimerval t = { .it_value.tv_usec = 100000 };

		stopped = 0;
		plans[i].stop = &stopped;
		setitimer(ITIMER_REAL, &t, NULL);
		refused(&plans[i], -EINTR, "was stopped");
		assert_true(clock_ms() - began < 1000);
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(one_node_judges_alone),
		TEST(a_plan_that_cannot_be_is_refused),
		TEST(a_secret_is_ours_alone),
		TEST(tcp_nodes_get_the_same_verdict),
		TEST(large_parts_and_verdicts_arrive),
		TEST(names_are_resolved_and_ports_are_used_again),
		TEST(rounds_follow_one_another),
		TEST(a_wrong_clock_is_measured_by_exchanges),
		TEST(tcp_absent_nodes_are_named),
		TEST(without_node_0_everybody_knows_it_in_time),
		TEST(a_judge_that_dies_is_known_and_who_was_missing),
		TEST(a_node_that_dies_over_tcp_is_lost),
		TEST(a_node_that_is_started_anew_is_one),
		TEST(a_number_held_twice_over_tcp_is_named),
		TEST(a_second_judge_at_a_port_is_a_guest),
		TEST(a_judge_that_is_started_anew_is_called_again),
		TEST(another_count_of_nodes_over_tcp_is_named),
		TEST(a_wrong_secret_is_named_and_delays_nobody),
		TEST(another_job_at_our_port_is_named_on_both_sides),
		TEST(a_job_at_our_port_is_told_who_has_it),
		TEST(a_signal_ends_it_soon),
	};

	return run_side_by_side(tests, ARRAY_SIZE(tests));
}
