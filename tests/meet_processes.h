/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet_processes.h - nodes of a meeting as processes, and what holds for both ways to meet; after
 * cmocka.h.
 */
#pragma once
#include <arpa/inet.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "meet/meet_inside.h"
#include "meet_rows.h"

static char scratch[64], secret[96], other_secret[96], folder[96], address[32];

struct node {
	pid_t pid;
	int fd, r;
	char *text; /* verdict or error */
	int64_t took_ms;
};

static inline void put_file(const char *path, const void *bytes, size_t len, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static inline int set_up(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	(void)state;
	strcpy(scratch, "/tmp/lockstep-meet-XXXXXX");
	assert_non_null(mkdtemp(scratch));
	snprintf(secret, sizeof(secret), "%s/secret", scratch);
	snprintf(other_secret, sizeof(other_secret), "%s/other", scratch);
	snprintf(folder, sizeof(folder), "%s/folder", scratch);
	assert_int_equal(mkdir(folder, 0700), 0);
	put_file(secret, "0123456789abcdef0123456789\n", 27, 0600);
	put_file(other_secret, "0123456789abcdef0123456780\n", 27, 0600);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
	snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(at.sin_port));
	close(fd);
	return 0;
}

static inline int tear_down(void **state)
{
	char *line = xasprintf("rm -rf %s", scratch);

	(void)state;
	assert_int_equal(system(line), 0);
	free(line);
	return 0;
}

static inline struct meet_plan tcp(uint32_t node, uint32_t nodes)
{
	return (struct meet_plan){ .address = address,
				   .secret_file = secret,
				   .job = "1234.0",
				   .name = NULL,
				   .node = node,
				   .nodes = nodes,
				   .limit_ms = 8000 };
}

static inline struct meet_plan shared(uint32_t node, uint32_t nodes)
{
	struct meet_plan p = tcp(node, nodes);

	p.address = p.secret_file = NULL;
	p.folder = folder;
	return p;
}

static inline void send_all(int fd, const void *bytes, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = write(fd, (const char *)bytes + at, len - at);

		if (n <= 0)
			_exit(1);
		at += (size_t)n;
	}
}

static inline struct node start_big(const struct meet_plan *plan, size_t part_len, size_t more)
{
	struct node n = { 0 };
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	fflush(NULL);
	n.pid = fork();
	if (!n.pid) {
		uint8_t *part = xcalloc(part_len + 1, 1);
		struct buf verdict = { 0 };
		struct error error = { "" };
		int r;

		close(ends[0]);
		memset(part, 7, part_len);
		r = meet(plan, part, part_len, rows_judge, &more, &verdict, &error);
		send_all(ends[1], &r, sizeof(r));
		if (r < 0)
			send_all(ends[1], error.text, strlen(error.text));
		else
			send_all(ends[1], verdict.data, verdict.len);
		free(part);
		buf_done(&verdict);
		_exit(0);
	}
	close(ends[1]);
	n.fd = ends[0];
	n.took_ms = clock_ms();
	return n;
}

static inline struct node start(const struct meet_plan *plan)
{
	return start_big(plan, 5, 0);
}

static inline void finish(struct node *n)
{
	struct buf b = { 0 };
	uint8_t some[4096];
	ssize_t got;

	while ((got = read(n->fd, some, sizeof(some))) > 0)
		buf_put(&b, some, (size_t)got);
	close(n->fd);
	n->took_ms = clock_ms() - n->took_ms;
	waitpid(n->pid, NULL, 0);
	buf_put(&b, "", 1);
	n->r = -ECHILD; /* killed */
	n->text = xstrdup("");
	if (b.len > sizeof(n->r)) {
		free(n->text);
		memcpy(&n->r, b.data, sizeof(n->r));
		n->text = xstrdup((const char *)b.data + sizeof(n->r));
	}
	buf_done(&b);
}

static inline void has(const struct node *n, const char *words)
{
	if (!strstr(n->text, words))
		fail_msg("\"%s\" is not in: %d %.2000s", words, n->r, n->text);
}

static inline void lacks(const struct node *n, const char *words)
{
	if (strstr(n->text, words))
		fail_msg("\"%s\" is in: %d %.2000s", words, n->r, n->text);
}

static inline void finish_all(struct node *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		finish(&v[i]);
	for (size_t i = 0; i < n; i++)
		if (v[i].r == 0 && v[0].r == 0)
			assert_string_equal(v[i].text, v[0].text);
}

static inline void free_all(struct node *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].text);
}

/* Until somebody listens, so that what follows comes after it. */
static inline void until_listening(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd;

	at.sin_port = htons((uint16_t)atoi(strchr(address, ':') + 1));
	for (int i = 0; i < 500; i++) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0) {
			close(fd);
			return;
		}
		close(fd);
		poll(NULL, 0, 10);
	}
	fail_msg("nobody listens at %s", address);
}

static inline bool file_is_there(const char *pattern)
{
	char *full = xasprintf("%s/lockstep-meeting-*/%s", folder, pattern);
	glob_t found;
	bool there = glob(full, 0, NULL, &found) == 0;

	globfree(&found);
	free(full);
	return there;
}

static inline void until_file(const char *pattern)
{
	for (int i = 0; i < 500 && !file_is_there(pattern); i++)
		poll(NULL, 0, 10);
	assert_true(file_is_there(pattern));
}

static inline void refused(const struct meet_plan *p, int want, const char *words)
{
	struct buf verdict = { 0 };
	struct error error = { "" };
	int r = meet(p, "x", 1, rows_judge, NULL, &verdict, &error);

	if (r != want || !strstr(error.text, words))
		fail_msg("%d and \"%s\", not %d and \"%s\"", r, error.text, want, words);
	assert_null(verdict.data);
}

static inline void all_get_the_same_verdict(struct meet_plan (*way)(uint32_t, uint32_t))
{
	struct node v[5];

	for (uint32_t i = 0; i < 5; i++) {
		struct meet_plan p = way(4 - i, 5); /* node 0 comes last */

		v[i] = start_big(&p, 1000 + i, 3000);
		if (i == 3)
			poll(NULL, 0, 150);
	}
	finish_all(v, 5);
	for (uint32_t i = 0; i < 5; i++) {
		char *row = xasprintf("%u\tcame\t", i);

		assert_int_equal(v[i].r, 0);
		has(&v[i], row);
		free(row);
	}
	has(v, "\t1003\t");
	assert_true(v[0].took_ms < 4000);
	free_all(v, 5);
}

static inline int64_t ahead(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec + 90000000000;
}

static inline void a_wrong_clock_is_measured(struct meet_plan (*way)(uint32_t, uint32_t))
{
	struct node v[2];
	double clock = 0, doubt = 0;
	const char *row;

	for (uint32_t i = 0; i < 2; i++) {
		struct meet_plan p = way(i, 2);

		p.clock_ns = i ? ahead : NULL;
		v[i] = start(&p);
	}
	finish_all(v, 2);
	assert_int_equal(v[0].r, 0);
	row = strstr(v[0].text, "\n1\tcame\t");
	assert_non_null(row);
	assert_int_equal(sscanf(row + 1, "%*d\t%*s\t%*s\t%*s\t-\t%lf\t%lf", &clock, &doubt), 2);
	if (!(clock > 90000 - doubt && clock < 90000 + doubt && doubt > 0 && doubt < 2000))
		fail_msg("%f +- %f", clock, doubt);
	free_all(v, 2);
}

static inline void who_does_not_come_is_named(struct meet_plan (*way)(uint32_t, uint32_t))
{
	static const char *const names[] = { "gpu00", "gpu01", "gpu02", "gpu03" };
	struct node v[2];

	for (uint32_t i = 0; i < 2; i++) {
		struct meet_plan p = way(i, 4);

		p.limit_ms = 1200;
		p.names = names;
		p.name = names[i];
		v[i] = start(&p);
	}
	finish_all(v, 2);
	assert_int_equal(v[1].r, 0);
	has(&v[1], "0\tcame\tgpu00\t");
	has(&v[1], "1\tcame\tgpu01\t");
	has(&v[1], "2\tabsent\tgpu02\t-\tnever heard of\t");
	has(&v[1], "3\tabsent\tgpu03\t");
	assert_true(v[0].took_ms >= 900 && v[0].took_ms < 2500);
	free_all(v, 2);
}

static inline void a_node_that_dies_is_lost(struct meet_plan (*way)(uint32_t, uint32_t),
					    const char *why)
{
	struct node v[3];

	for (uint32_t i = 0; i < 3; i++) {
		struct meet_plan p = way(i, 4); /* of which the last never comes */

		p.limit_ms = why ? 1500 : 7000;
		v[i] = start(&p);
	}
	if (why)
		poll(NULL, 0, 700);
	else
		until_file("part-2-*");
	kill(v[2].pid, SIGKILL);
	finish_all(v, 3);
	assert_int_equal(v[1].r, 0);
	has(&v[1], "2\tlost\t");
	has(&v[1], "3\tabsent\t");
	has(&v[1], why ? why : "gave its part, and has not been heard of since");
	free_all(v, 3);
}

static inline void a_number_held_twice_is_named(struct meet_plan (*way)(uint32_t, uint32_t))
{
	static const char *const names[] = { "gpu00", "gpu01", "twin", "gpu02" };
	static const uint32_t nodes[] = { 0, 1, 1, 2 };
	struct node v[4];

	for (uint32_t i = 0; i < 4; i++) {
		struct meet_plan p = way(nodes[i], 3);

		p.limit_ms = 3000;
		p.name = names[i];
		v[i] = start(&p);
		poll(NULL, 0, i == 3 ? 0 : 200);
	}
	finish_all(v, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(v[i].r, 0);
	has(&v[0], "1\tcame\tgpu01\t");
	has(&v[0], "1\tmisfit\ttwin\t");
	has(&v[0], "is a second node 1: gpu01");
	free_all(v, 4);
}

static inline void a_second_judge_is_a_guest(struct meet_plan (*way)(uint32_t, uint32_t))
{
	struct meet_plan p = way(0, 2);
	struct node v[3];

	p.name = "first";
	v[0] = start(&p);
	if (p.folder)
		until_file("call");
	else
		until_listening();
	p.name = "second";
	v[1] = start(&p);
	poll(NULL, 0, 700);
	p = way(1, 2);
	v[2] = start(&p);
	finish_all(v, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(v[i].r, 0);
	has(&v[0], "0\tmisfit\t");
	has(&v[0], "is a second node 0: ");
	free_all(v, 3);
}

static inline void a_judge_that_is_started_anew_is_found(struct meet_plan (*way)(uint32_t,
										 uint32_t))
{
	struct meet_plan p = way(0, 3);
	struct node v[4];

	v[3] = start(&p);
	for (uint32_t i = 1; i < 3; i++) {
		p = way(i, 3);
		if (i == 2) { /* both have given their parts, or are about to */
			poll(NULL, 0, 300);
			kill(v[3].pid, SIGKILL);
		}
		v[i] = start(&p);
	}
	poll(NULL, 0, 200);
	p = way(0, 3);
	p.name = "anew";
	v[0] = start(&p);
	finish_all(v, 4);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(v[i].r, 0);
	has(&v[0], "0\tcame\tanew\t");
	has(&v[0], "1\tcame\t");
	has(&v[0], "2\tcame\t");
	assert_true(v[0].took_ms < 4000);
	free_all(v, 4);
}

static inline void another_count_of_nodes_is_named(struct meet_plan (*way)(uint32_t, uint32_t))
{
	struct node v[3];

	for (uint32_t i = 0; i < 3; i++) {
		struct meet_plan p = way(i, i == 2 ? 8 : 3);

		p.limit_ms = 1500;
		v[i] = start(&p);
	}
	finish_all(v, 3);
	assert_int_equal(v[2].r, 0);
	has(&v[2], "2\tabsent\t");
	has(&v[2], "2\tmisfit\t");
	has(&v[2], "says it is node 2 of 8; here 3 nodes meet");
	free_all(v, 3);
}

static volatile sig_atomic_t stopped;

static inline void on_alarm(int number)
{
	(void)number;
	stopped = 1;
}

/* They wait for limits most of the time: eight at once. */
static inline int run_side_by_side(const struct CMUnitTest *tests, size_t n)
{
	int status, failed = 0;

	signal(SIGPIPE, SIG_IGN);
	for (size_t at = 0; at < 8; at++) {
		struct CMUnitTest mine[64];
		size_t k = 0;

		if (fork())
			continue;
		for (size_t i = at; i < n && k < ARRAY_SIZE(mine); i += 8)
			mine[k++] = tests[i];
		exit(_cmocka_run_group_tests("meet", mine, k, NULL, NULL) != 0);
	}
	while (wait(&status) > 0)
		failed |= status;
	return failed != 0;
}
