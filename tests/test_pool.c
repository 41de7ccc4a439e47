/* SPDX-License-Identifier: Apache-2.0 */
/* test_pool.c - each task once, whatever the number of threads; quotas of both cgroup versions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/pool.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define TASKS 1000

struct tally {
	unsigned ran[TASKS]; /* each slot is its task's alone */
	_Atomic unsigned threads_not_mine;
	pthread_t mine;
	_Atomic unsigned watched;
};

static void count_task(void *user, size_t i)
{
	struct tally *t = user;

	t->ran[i]++;
	if (!pthread_equal(pthread_self(), t->mine))
		atomic_fetch_add(&t->threads_not_mine, 1);
}

static void each_task_runs_once(void **state)
{
	static const unsigned threads[] = { 0, 1, 2, 7, 1000 };

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(threads); k++) {
		struct tally t = { .mine = pthread_self() };

		pool_run(threads[k], TASKS, count_task, &t);
		for (size_t i = 0; i < TASKS; i++)
			assert_int_equal(t.ran[i], 1);
	}
}

static void one_thread_is_the_caller(void **state)
{
	struct tally t = { .mine = pthread_self() };

	(void)state;
	pool_run(1, TASKS, count_task, &t);
	assert_int_equal(t.threads_not_mine, 0);
}

static void no_task_is_no_work(void **state)
{
	struct tally t = { .mine = pthread_self() };

	(void)state;
	pool_run(4, 0, count_task, &t);
	assert_int_equal(t.ran[0], 0);
}

static void slow_task(void *user, size_t i)
{
	count_task(user, i);
	usleep(20000);
}

static void count_watch(void *user)
{
	struct tally *t = user;

	assert_true(pthread_equal(pthread_self(), t->mine));
	atomic_fetch_add(&t->watched, 1);
}

static void the_caller_watches_while_workers_work(void **state)
{
	struct tally t = { .mine = pthread_self() };
	const struct pool_watch watch = { count_watch, &t, 1 };

	(void)state;
	pool_run_watched(2, 8, slow_task, &t, &watch);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(t.ran[i], 1);
	assert_int_equal(t.threads_not_mine, 8);
	assert_true(t.watched > 0);
}

static void put(const char *root, const char *path, const char *text)
{
	char full[512];
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = 0;
		mkdir(full, 0700);
	}
	f = fopen(full, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void a_quota_binds_from_any_level_above(void **state)
{
	char root[] = "/tmp/lockstep-pool-XXXXXX", command[64];

	(void)state;
	assert_non_null(mkdtemp(root));
	put(root, "a/cpu.max", "400000 100000\n");
	put(root, "a/b/cpu.max", "max 100000\n");
	put(root, "c/cpu.max", "150000 100000\n");
	put(root, "cpu,cpuacct/d/cpu.cfs_quota_us", "50000\n");
	put(root, "cpu,cpuacct/d/cpu.cfs_period_us", "100000\n");
	put(root, "cpu,cpuacct/e/cpu.cfs_quota_us", "-1\n");
	put(root, "cpu,cpuacct/e/cpu.cfs_period_us", "100000\n");

	assert_int_equal(pool_quota_cpus("0::/a/b\n", root), 4);
	assert_int_equal(pool_quota_cpus("0::/c\n", root), 2); /* 1.5, rounded up */
	assert_int_equal(pool_quota_cpus("0::/\n", root), 0);
	assert_int_equal(pool_quota_cpus("5:cpuset:/x\n4:cpu,cpuacct:/d\n0::/a\n", root), 1);
	assert_int_equal(pool_quota_cpus("4:cpu,cpuacct:/e\n", root), 0);
	assert_int_equal(pool_quota_cpus("4:cpuset:/d", root), 0);
	assert_int_equal(pool_quota_cpus("no colons at all\n\n::\n", root), 0);
	assert_int_equal(pool_quota_cpus("", root), 0);

	snprintf(command, sizeof(command), "rm -r %s", root);
	assert_int_equal(system(command), 0);
}

static void there_is_a_cpu(void **state)
{
	(void)state;
	assert_true(pool_cpus() >= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_task_runs_once),
		cmocka_unit_test(one_thread_is_the_caller),
		cmocka_unit_test(no_task_is_no_work),
		cmocka_unit_test(the_caller_watches_while_workers_work),
		cmocka_unit_test(a_quota_binds_from_any_level_above),
		cmocka_unit_test(there_is_a_cpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
