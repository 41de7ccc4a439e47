/* SPDX-License-Identifier: Apache-2.0 */
/* The profiler plugin, called as NCCL calls it in each of its versions. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "door_told.h"
#include "tracer/nccl.h"
#include "tracer/nccl_abi.h"

extern const struct nccl_plugin_3 ncclProfiler_v2, ncclProfiler_v3;
extern const struct nccl_plugin_4 ncclProfiler_v4;
extern const struct nccl_plugin_5 ncclProfiler_v5, ncclProfiler_v6;

static int fresh(void **state)
{
	(void)state;
	told_reset();
	return 0;
}

static void check(const char *group, uint8_t op, int64_t seq, uint64_t bytes, const char *algo)
{
	const struct told *t = told_nth(TOLD_COLL_BEGIN, 0);

	assert_non_null(t);
	assert_string_equal(told_name(t->name), group);
	assert_int_equal(t->arg, op);
	assert_int_equal(t->value, seq);
	assert_int_equal(t->more, bytes);
	if (algo)
		assert_string_equal(t->algorithm, algo);
	assert_int_equal(told_count(TOLD_COLL_END), 1);
}

static void version_2_and_3_name_the_group_in_the_event(void **state)
{
	struct nccl_event_2 e2 = { .type = NCCL_EVENT_COLL };
	struct nccl_event_3 e3 = { .type = NCCL_EVENT_P2P };
	void *context, *handle = NULL;
	int mask = 0;

	(void)state;
	assert_int_equal(ncclProfiler_v2.init(&context, &mask), NCCL_OK);
	assert_int_equal(mask, NCCL_EVENT_COLL | NCCL_EVENT_P2P);
	e2.coll.name = "tp";
	e2.coll.hash = 0x1234;
	e2.coll.seq = 17;
	e2.coll.func = "AllReduce";
	e2.coll.count = 100;
	e2.coll.datatype = "ncclBfloat16";
	e2.coll.algo = "RING";
	ncclProfiler_v2.start(context, &handle, &e2);
	assert_non_null(handle);
	ncclProfiler_v2.stop(handle);
	check("tp:0x0000000000001234", LOCKSTEP_OP_ALL_REDUCE, 17, 200, "RING");
	ncclProfiler_v2.finalize(context);

	told_reset();
	ncclProfiler_v3.init(&context, &mask);
	e3.p2p.name = NULL;
	e3.p2p.hash = 0xff;
	e3.p2p.func = "Send";
	e3.p2p.count = 10;
	e3.p2p.datatype = "ncclFloat32";
	ncclProfiler_v3.start(context, &handle, &e3);
	ncclProfiler_v3.stop(handle);
	check("0x00000000000000ff", LOCKSTEP_OP_SEND, -1, 40, NULL);
	ncclProfiler_v3.finalize(context);
}

static void version_4_names_it_in_init(void **state)
{
	struct nccl_event_4 e = { .type = NCCL_EVENT_COLL };
	void *context, *handle;
	int mask;

	(void)state;
	ncclProfiler_v4.init(&context, &mask, "dp", 0xabc, 1, 8, 3, NULL);
	e.coll.seq = 5;
	e.coll.func = "ReduceScatter"; /* its count is of one share of eight */
	e.coll.count = 1000;
	e.coll.datatype = "ncclFloat32";
	e.coll.algo = "TREE";
	ncclProfiler_v4.start(context, &handle, &e);
	ncclProfiler_v4.stop(handle);
	check("dp:0x0000000000000abc", LOCKSTEP_OP_REDUCE_SCATTER, 5, 32000, "TREE");
	ncclProfiler_v4.finalize(context);
}

static void versions_5_and_6_have_a_wide_type_and_the_hash_first(void **state)
{
	const struct nccl_plugin_5 *const plugins[] = { &ncclProfiler_v5, &ncclProfiler_v6 };
	void *context, *handle;
	int mask;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct nccl_event_5 e = { .type = NCCL_EVENT_P2P };

		told_reset();
		plugins[i]->init(&context, 0xabc, &mask, "pp", 1, 2, 0, NULL);
		e.p2p.func = "Recv";
		e.p2p.count = 7;
		e.p2p.datatype = "ncclFloat8e4m3";
		plugins[i]->start(context, &handle, &e);
		plugins[i]->stop(handle);
		check("pp:0x0000000000000abc", LOCKSTEP_OP_RECV, -1, 7, NULL);
		told_reset();
		e.type = NCCL_EVENT_COLL | 1u << 8; /* low byte alone would be a collective */
		plugins[i]->start(context, &handle, &e);
		assert_null(handle);
		plugins[i]->finalize(context);
	}
}

static void other_events_and_odd_words_do_no_harm(void **state)
{
	struct nccl_event_5 e = { .type = NCCL_EVENT_COLL };
	void *context, *handle = &e;
	int mask;

	(void)state;
	ncclProfiler_v5.init(&context, 1, &mask, NULL, 1, 2, 0, NULL);
	for (uint64_t bit = 0; bit < 16; bit++) {
		e.type = 1u << bit;
		if (e.type == NCCL_EVENT_COLL || e.type == NCCL_EVENT_P2P)
			continue;
		handle = &e;
		ncclProfiler_v5.start(context, &handle, &e);
		assert_null(handle);
	}
	assert_int_equal(ncclProfiler_v5.stop(NULL), NCCL_OK);
	assert_int_equal(ncclProfiler_v5.state(NULL, 19, NULL), NCCL_OK);
	e.type = NCCL_EVENT_COLL; /* no function, no type, no algorithm */
	ncclProfiler_v5.start(context, &handle, &e);
	ncclProfiler_v5.stop(handle);
	check("0x0000000000000001", LOCKSTEP_OP_UNKNOWN, 0, 0, NULL);
	ncclProfiler_v5.start(NULL, &handle, &e); /* as beside a communicator whose init failed */
	assert_null(handle);
	assert_int_equal(told_counts[RING_IGNORED], 1);
	ncclProfiler_v5.start(context, &handle, NULL);
	ncclProfiler_v5.start(context, NULL, &e);
	ncclProfiler_v5.finalize(NULL);
	ncclProfiler_v5.finalize(context);
}

static void more_communicators_than_places_are_told_without_a_group(void **state)
{
	static void *contexts[300];
	struct nccl_event_4 e = { .type = NCCL_EVENT_COLL };
	void *handle;
	int mask;

	(void)state;
	for (size_t i = 0; i < 300; i++)
		ncclProfiler_v4.init(&contexts[i], &mask, "many", i, 1, 2, 0, NULL);
	assert_int_equal(told_counts[RING_IGNORED], 44);
	e.coll.func = "Broadcast";
	ncclProfiler_v4.start(contexts[299], &handle, &e);
	ncclProfiler_v4.stop(handle);
	check("", LOCKSTEP_OP_BROADCAST, 0, 0, NULL);
	for (size_t i = 0; i < 300; i++)
		ncclProfiler_v4.finalize(contexts[i]);
	told_reset();
	for (size_t i = 0; i < 256; i++)
		ncclProfiler_v4.init(&contexts[i], &mask, "again", i, 1, 2, 0, NULL);
	assert_int_equal(told_counts[RING_IGNORED], 0);
	for (size_t i = 0; i < 256; i++)
		ncclProfiler_v4.finalize(contexts[i]);
}

static void a_process_that_tells_nothing_asks_for_nothing(void **state)
{
	void *context = state;
	int mask = 77;

	(void)state;
	told_off = true;
	assert_int_equal(ncclProfiler_v2.init(&context, &mask), NCCL_OK);
	assert_int_equal(mask, 0);
	assert_int_equal(ncclProfiler_v6.init(&context, 1, &mask, "x", 1, 2, 0, NULL), NCCL_OK);
	assert_null(context);
}

static void *run(void *context)
{
	struct nccl_event_5 e = { .type = NCCL_EVENT_COLL };
	void *handle;

	e.coll.func = "AllGather";
	e.coll.datatype = "ncclInt8";
	e.coll.count = 1;
	for (uint64_t i = 0; i < 20000; i++) {
		e.coll.seq = i;
		ncclProfiler_v5.start(context, &handle, &e);
		ncclProfiler_v5.stop(handle);
	}
	return NULL;
}

static void many_threads_at_once(void **state)
{
	pthread_t t[4];
	void *contexts[4];
	int mask;

	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		ncclProfiler_v5.init(&contexts[i], i, &mask, "c", 1, 2, 0, NULL);
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, run, contexts[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(told_count(TOLD_COLL_BEGIN), 80000);
	assert_int_equal(told_count(TOLD_COLL_END), 80000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(version_2_and_3_name_the_group_in_the_event, fresh),
		cmocka_unit_test_setup(version_4_names_it_in_init, fresh),
		cmocka_unit_test_setup(versions_5_and_6_have_a_wide_type_and_the_hash_first, fresh),
		cmocka_unit_test_setup(other_events_and_odd_words_do_no_harm, fresh),
		cmocka_unit_test_setup(more_communicators_than_places_are_told_without_a_group,
				       fresh),
		cmocka_unit_test_setup(many_threads_at_once, fresh),
		cmocka_unit_test_setup(a_process_that_tells_nothing_asks_for_nothing, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
