/* SPDX-License-Identifier: Apache-2.0 */
/* The own clock against a count of every nanosecond, and intervals. */
#include <stdio.h>
#include "fold_events.h"
#include "fold/inside.h"

static uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

#define WINDOW 3000
#define WORKS  24

struct timeline {
	struct plan {
		enum event_kind kind;
		int64_t launch, start, end;
		bool comm;
	} work[WORKS];
	size_t n;
	int64_t data_from, data_to;
};

static struct timeline timeline_random(uint64_t *seed)
{
	struct timeline t = { 0 };
	int64_t at[3] = { 0, 0, 0 };

	t.n = 4 + random_next(seed) % (WORKS - 4);
	for (size_t i = 0; i < t.n; i++) {
		unsigned lane = (unsigned)(random_next(seed) % 3);
		int64_t start = at[lane] + (int64_t)(random_next(seed) % 300);
		int64_t end = start + 1 + (int64_t)(random_next(seed) % 300);
		int64_t launch = start - (int64_t)(random_next(seed) % 400);

		if (start >= WINDOW - 1)
			continue;
		t.work[i] = (struct plan){
			lane == 2 ? EVENT_COPY : EVENT_KERNEL,
			MAX(0, launch),
			start,
			MIN(end, WINDOW),
			lane == 1,
		};
		at[lane] = end;
	}
	t.data_from = (int64_t)(random_next(seed) % WINDOW);
	t.data_to = t.data_from + (int64_t)(random_next(seed) % 1000);
	t.data_to = MIN(t.data_to, WINDOW);
	return t;
}

static struct step timeline_fold(const struct timeline *t, struct arena *arena)
{
	static const char *const stream[] = { "k", NCCL_NAME, "Memcpy" };
	struct made m = made_new(0);
	struct rank_stream s;
	struct step step;

	made_mark(&m, 0, 0, WINDOW);
	for (size_t i = 0; i < t->n; i++) {
		const struct plan *p = &t->work[i];
		unsigned lane = p->kind == EVENT_COPY ? 2 : p->comm ? 1 : 0;

		if (p->end > p->start)
			made_work(&m, p->kind, stream[lane], p->launch, p->start, p->end, lane + 7);
	}
	made_range(&m, "dataloader", t->data_from, t->data_to);
	s = made_finish(&m, 0, 1);
	step = made_step(&s, 0, arena);
	rank_stream_done(&s);
	return step;
}

/* The definition itself, one nanosecond at a time. */
static void timeline_count(const struct timeline *t, int64_t own[OWN_PARTS], int64_t *stands)
{
	for (int64_t now = 0; now < WINDOW; now++) {
		bool compute = false, copy = false, comm = false;
		int64_t next = INT64_MAX, launch = INT64_MAX;

		for (size_t i = 0; i < t->n; i++) {
			const struct plan *p = &t->work[i];

			if (p->end <= p->start)
				continue;
			if (p->start <= now && now < p->end) {
				compute |= p->kind == EVENT_KERNEL && !p->comm;
				copy |= p->kind == EVENT_COPY;
				comm |= p->comm;
			}
			if (p->start > now && p->start < next)
				next = p->start;
		}
		for (size_t i = 0; i < t->n; i++)
			if (t->work[i].end > t->work[i].start && t->work[i].start == next)
				launch = MIN(launch, t->work[i].launch);
		if (compute)
			own[OWN_COMPUTE]++;
		else if (copy)
			own[OWN_COPY]++;
		else if (comm)
			++*stands;
		else if (launch <= now)
			own[OWN_LAUNCH]++;
		else if (now >= t->data_from && now < t->data_to)
			own[OWN_DATA]++;
		else
			own[OWN_HOST]++;
	}
}

static void own_clock_is_what_a_count_of_instants_says(void **state)
{
	uint64_t seed = 20261129;

	(void)state;
	print_message("seed %lu\n", (unsigned long)seed);
	for (unsigned round = 0; round < 400; round++) {
		struct timeline t = timeline_random(&seed);
		int64_t own[OWN_PARTS] = { 0 }, stands = 0, exposed = 0;
		struct arena arena = { 0 };
		struct step s = timeline_fold(&t, &arena);

		timeline_count(&t, own, &stands);
		assert_int_equal(s.wall_ns, WINDOW);
		for (unsigned p = 0; p < OWN_PARTS; p++)
			assert_int_equal(s.own[p], own[p]);
		assert_int_equal(s.comm_exposed_ns, stands);
		assert_int_equal(s.own_ns, WINDOW - stands);
		for (uint32_t i = 0; i < s.n_colls; i++)
			exposed += s.colls[i].exposed_ns;
		assert_int_equal(exposed, stands);
		arena_done(&arena);
	}
}

static void intervals_keep_their_union(void **state)
{
	struct intervals l = { 0 };

	(void)state;
	intervals_add(&l, 0, 10);
	intervals_add(&l, 5, 7);
	intervals_add(&l, 10, 12);
	intervals_add(&l, 20, 20);
	intervals_add(&l, 20, 25);
	assert_int_equal(l.n, 2);
	assert_int_equal(intervals_sum(&l), 17);
	free(l.v);
}

static void subtraction_takes_each_overlap_once(void **state)
{
	struct intervals a = { 0 }, b = { 0 }, left = { 0 };

	(void)state;
	intervals_add(&a, 0, 10);
	intervals_add(&a, 20, 30);
	intervals_add(&b, 2, 4);
	intervals_add(&b, 8, 22);
	intervals_add(&b, 29, 99);
	assert_int_equal(intervals_subtract(&a, &b, &left), 2 + 2 + 2 + 1);
	assert_int_equal(left.n, 3);
	assert_int_equal(left.v[0].b, 2);
	assert_int_equal(left.v[1].a, 4);
	assert_int_equal(left.v[1].b, 8);
	assert_int_equal(left.v[2].a, 22);
	assert_int_equal(left.v[2].b, 29);
	free(a.v);
	free(b.v);
	free(left.v);
}

static void assert_class(const char *name, uint16_t want)
{
	const uint16_t told = NAME_DATA | NAME_SAVE | NAME_COMPILE | NAME_GC | NAME_IO;
	uint16_t got = name_classify(name, strlen(name));

	if ((got & told) != want)
		print_message("%s\n", name);
	assert_int_equal(got & told, want);
}

static void names_say_what_they_mean_and_no_more(void **state)
{
	(void)state;
	assert_class("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", NAME_DATA);
	assert_class("torch/utils/data/dataloader.py(729): __next__", NAME_DATA);
	assert_class("torch/utils/data/_utils/collate.py(2): collate", 0);
	assert_class("Data", NAME_DATA);
	assert_class("next_batch", NAME_DATA);
	assert_class("DistributedDataParallel.forward", 0);
	assert_class("save_checkpoint", NAME_SAVE);
	assert_class("torch/serialization.py(943): save", NAME_SAVE);
	assert_class("torch/utils/checkpoint.py(48): checkpoint", 0);
	assert_class("_compile.compile_inner (dynamo_timed)", NAME_COMPILE);
	assert_class("## Call CompiledFxGraph fabc ##", 0);
	assert_class("Python GC", NAME_GC);
	assert_class("<built-in method read of _io.FileIO object at 0x7f>", NAME_IO);
	assert_class("backward", 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_clock_is_what_a_count_of_instants_says),
		cmocka_unit_test(intervals_keep_their_union),
		cmocka_unit_test(subtraction_takes_each_overlap_once),
		cmocka_unit_test(names_say_what_they_mean_and_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
