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

static int push(struct runs *r, struct item it)
{
	bool gpu = item_on_gpu(&it);
	struct item *place = runs_room_plain(r, gpu, it.start);
	int status = 0;

	if (place) {
		*place = it;
		return 0;
	}
	place = runs_room(r, gpu, &status, NULL);
	if (!place)
		return status;
	*place = it;
	runs_add(r, place, gpu);
	return 0;
}

/* All items, in the order in which they come out. */
static size_t pull(struct runs *r, struct item *ret, size_t most)
{
	const struct item *batch[RUNS_BATCH];
	size_t n = 0;
	int got;

	assert_int_equal(runs_start(r, NULL), 0);
	while ((got = runs_next(r, batch, NULL)) > 0)
		for (int i = 0; i < got && n < most; i++)
			ret[n++] = *batch[i];
	assert_int_equal(got, 0);
	return n;
}

static int64_t push_reversed(struct runs *r, size_t n)
{
	int64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		struct item it = { .start = (int64_t)(n - i) * 977 % 100003, .name = (uint32_t)i };

		item_set(&it, ITEM_KERNEL, (int64_t)i);
		sum += it.start;
		assert_int_equal(push(r, it), 0);
	}
	return sum;
}

static void runs_come_out_by_time(void **state)
{
	static const size_t limits[] = { 1 << 20, 4800 };
	struct item *out = xcalloc(5000, sizeof(*out));

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		int64_t sum = 0, want;
		struct runs r;

		runs_init(&r, limits[k]);
		want = push_reversed(&r, 5000);
		assert_int_equal(r.n_runs, k ? 49 : 0);
		assert_int_equal(pull(&r, out, 5000), 5000);
		for (size_t i = 0; i < 5000; i++) {
			assert_true(!i || out[i].start >= out[i - 1].start);
			sum += out[i].start;
		}
		assert_int_equal(sum, want);
		runs_done(&r);
	}
	free(out);
}

static uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static int64_t seen_at(const struct item *it)
{
	return it->start - (item_on_gpu(it) ? 0 : 5000000);
}

/* The rule itself: by time, the outer one first, then by kind and what else tells them apart. */
static int rule(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	int64_t keys[][2] = {
		{ seen_at(x), seen_at(y) },
		{ item_duration(y), item_duration(x) },
		{ item_kind(x), item_kind(y) },
		{ x->correlation, y->correlation },
		{ x->seq, y->seq },
		{ x->lane, y->lane },
		{ x->name, y->name },
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (keys[i][0] != keys[i][1])
			return keys[i][0] < keys[i][1] ? -1 : 1;
	return 0;
}

#define MIXED 6000

/* Nearly in order up to not at all, with many ties, in memory and through files. */
static void runs_come_out_by_the_rule_however_they_came(void **state)
{
	static const uint64_t disorders[] = { 1, 40, 4000, 50000000 };
	static const size_t limits[] = { 1 << 20, 96000, 9600 };
	struct item *in = xcalloc(MIXED, sizeof(*in)), *out = xcalloc(MIXED, sizeof(*out));
	uint64_t seed = 0xd15c0;

	(void)state;
	print_message("seed %#lx\n", (unsigned long)seed);
	for (size_t k = 0; k < ARRAY_SIZE(disorders) * ARRAY_SIZE(limits); k++) {
		uint64_t disorder = disorders[k / ARRAY_SIZE(limits)];
		struct runs r;

		runs_init(&r, limits[k % ARRAY_SIZE(limits)]);
		for (size_t i = 0; i < MIXED; i++) {
			in[i] = (struct item){
				.start = (int64_t)((i + random_next(&seed) % disorder) / 3) * 900,
				.lane = (uint16_t)(random_next(&seed) % 3),
				.name = (uint32_t)(random_next(&seed) % 5),
				.correlation = (uint32_t)(random_next(&seed) % 4),
			};
			item_set(&in[i], random_next(&seed) % 2 ? ITEM_KERNEL : ITEM_RANGE,
				 (int64_t)(random_next(&seed) % 3));
			assert_int_equal(push(&r, in[i]), 0);
		}
		qsort(in, MIXED, sizeof(*in), rule);
		assert_int_equal(pull(&r, out, MIXED), MIXED);
		assert_memory_equal(in, out, MIXED * sizeof(*in));
		runs_done(&r);
	}
	free(in);
	free(out);
}

/* Times further apart than a sort key can hold. */
static void runs_sort_times_of_centuries(void **state)
{
	struct item out[600], it = { 0 };
	struct runs r;

	(void)state;
	runs_init(&r, 1 << 20);
	for (int64_t i = 0; i < 600; i++) {
		it.start = (i * 37 % 600 - 300) * ((int64_t)1 << 52);
		item_set(&it, ITEM_KERNEL, 1);
		assert_int_equal(push(&r, it), 0);
	}
	assert_true(r.lists[1].unsorted);
	assert_int_equal(pull(&r, out, 600), 600);
	for (unsigned i = 1; i < 600; i++)
		assert_true(out[i].start > out[i - 1].start);
	runs_done(&r);
}

static void a_launch_comes_before_work_that_seems_to_precede_it(void **state)
{
	struct item launch = { .start = 1000 }, work = { .start = 900 }, out[2];
	struct runs r;

	(void)state;
	item_set(&launch, ITEM_LAUNCH, 1);
	item_set(&work, ITEM_KERNEL, 1);
	runs_init(&r, 1 << 20);
	assert_int_equal(push(&r, work), 0);
	assert_int_equal(push(&r, launch), 0);
	assert_int_equal(pull(&r, out, 2), 2);
	assert_int_equal(item_kind(&out[0]), ITEM_LAUNCH);
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
		cmocka_unit_test(runs_come_out_by_the_rule_however_they_came),
		cmocka_unit_test(runs_sort_times_of_centuries),
		cmocka_unit_test(a_launch_comes_before_work_that_seems_to_precede_it),
		cmocka_unit_test(an_item_keeps_long_durations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
