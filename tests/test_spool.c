/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes come back as they were written, in memory and beyond it; runs give spans by time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <unistd.h>

#include "fold/runs.h"
#include "fold/spool.h"

static void a_spool_gives_back_what_it_took(void **state)
{
	struct spool s;
	uint8_t block[1000], back[2500];

	(void)state;
	spool_init(&s, 4096);
	for (unsigned i = 0; i < 50; i++) {
		memset(block, (int)i, sizeof(block));
		assert_int_equal(spool_write(&s, block, sizeof(block), NULL), 0);
	}
	assert_int_equal(s.len, 50000);
	assert_true(s.in_file > 0);
	assert_true(s.mem.cap < 8192);
	/* across the edge of file and memory */
	assert_int_equal(spool_read(&s, s.in_file - 1200, back, 2500, NULL), 0);
	for (unsigned i = 0; i < 2500; i++)
		assert_int_equal(back[i], (s.in_file - 1200 + i) / 1000);
	assert_int_equal(spool_read(&s, 49999, back, 2, NULL), -EINVAL);
	spool_done(&s);
}

static void a_spool_of_zeros_closes_nothing(void **state)
{
	struct spool s = { 0 };

	(void)state;
	spool_done(&s);
	assert_true(fcntl(0, F_GETFD) >= 0 || errno == EBADF);
	assert_int_equal(s.len, 0);
}

static int64_t push_reversed(struct runs *r, size_t n)
{
	int64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		struct item it = { .start = (int64_t)(n - i) * 977 % 100003, .name = (uint32_t)i };

		item_set(&it, ITEM_KERNEL, (int64_t)i);
		sum += it.start;
		assert_int_equal(runs_push(r, &it, NULL), 0);
	}
	return sum;
}

static void runs_come_out_by_time(void **state)
{
	static const size_t limits[] = { 1 << 20, 4800 };

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		int64_t last = INT64_MIN, sum = 0, want;
		struct runs r;
		struct item it;
		size_t n = 0;

		runs_init(&r, limits[k]);
		want = push_reversed(&r, 5000);
		assert_int_equal(runs_start(&r, NULL), 0);
		assert_int_equal(r.n_runs, k ? 50 : 0);
		while (runs_next(&r, &it, NULL) > 0) {
			assert_true(it.start >= last);
			last = it.start;
			sum += it.start;
			n++;
		}
		assert_int_equal(n, 5000);
		assert_int_equal(sum, want);
		runs_done(&r);
	}
}

/* Times further apart than a sort key can hold. */
static void runs_sort_times_of_centuries(void **state)
{
	struct runs r;
	struct item it = { 0 };
	int64_t last = INT64_MIN;

	(void)state;
	runs_init(&r, 1 << 20);
	for (int64_t i = 0; i < 100; i++) {
		it.start = (i * 37 % 100 - 50) * ((int64_t)1 << 54);
		item_set(&it, ITEM_KERNEL, 1);
		assert_int_equal(runs_push(&r, &it, NULL), 0);
	}
	assert_int_equal(runs_start(&r, NULL), 0);
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(runs_next(&r, &it, NULL), 1);
		assert_true(it.start > last);
		last = it.start;
	}
	assert_int_equal(runs_next(&r, &it, NULL), 0);
	runs_done(&r);
}

static void a_launch_comes_before_work_that_seems_to_precede_it(void **state)
{
	struct runs r;
	struct item launch = { .start = 1000 }, work = { .start = 900 }, it;

	(void)state;
	item_set(&launch, ITEM_LAUNCH, 1);
	item_set(&work, ITEM_KERNEL, 1);
	runs_init(&r, 1 << 20);
	assert_int_equal(runs_push(&r, &work, NULL), 0);
	assert_int_equal(runs_push(&r, &launch, NULL), 0);
	assert_int_equal(runs_start(&r, NULL), 0);
	assert_int_equal(runs_next(&r, &it, NULL), 1);
	assert_int_equal(item_kind(&it), ITEM_LAUNCH);
	runs_done(&r);
}

static void an_item_keeps_long_durations(void **state)
{
	struct item it;

	(void)state;
	item_set(&it, ITEM_WAITING, 3600000000000);
	assert_int_equal(item_duration(&it), 3600000000000);
	assert_int_equal(item_kind(&it), ITEM_WAITING);
	item_set(&it, ITEM_KERNEL, INT64_MAX);
	assert_int_equal(item_duration(&it), ITEM_LONGEST);
	item_set(&it, ITEM_KERNEL, -1);
	assert_int_equal(item_duration(&it), 0);
	assert_int_equal(sizeof(struct item), 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_spool_gives_back_what_it_took),
		cmocka_unit_test(a_spool_of_zeros_closes_nothing),
		cmocka_unit_test(runs_come_out_by_time),
		cmocka_unit_test(runs_sort_times_of_centuries),
		cmocka_unit_test(a_launch_comes_before_work_that_seems_to_precede_it),
		cmocka_unit_test(an_item_keeps_long_durations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
