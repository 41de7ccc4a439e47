/* SPDX-License-Identifier: Apache-2.0 */
/* fold_events.h - traces made by hand: events pushed straight into a fold, steps decoded again. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "fold/merge.h"

struct made {
	struct fold *fold;
	struct trace_sink *sink;
};

static inline struct made made_new(size_t spill_bytes)
{
	struct fold_options options = { spill_bytes, -1, -1 };
	struct made t = { .fold = fold_new(&options) };

	t.sink = fold_sink(t.fold);
	return t;
}

static inline void made_event(struct made *t, enum event_kind kind, const char *name, int64_t start,
			      int64_t duration, uint64_t thread, uint64_t correlation,
			      const struct comm_args *comm)
{
	struct trace_event e = {
		.kind = kind,
		.name = intern_str(t->sink->names, name),
		.start_ns = start,
		.duration_ns = duration,
		.thread = thread,
		.correlation = correlation,
		.comm = comm,
	};

	assert_int_equal(t->sink->event(t->sink->user, &e), 0);
}

static inline void made_mark(struct made *t, unsigned number, int64_t start, int64_t end)
{
	char name[64];

	snprintf(name, sizeof(name), "ProfilerStep#%u", number);
	made_event(t, EVENT_ANNOTATION, name, start, end - start, 1, 0, NULL);
}

static inline void made_range(struct made *t, const char *name, int64_t start, int64_t end)
{
	made_event(t, EVENT_ANNOTATION, name, start, end - start, 1, 0, NULL);
}

static inline void made_op(struct made *t, const char *name, int64_t start, int64_t end)
{
	made_event(t, EVENT_OP, name, start, end - start, 1, 0, NULL);
}

/* GPU work with its launch; launch < 0: the launch is not in the file. */
static inline void made_work(struct made *t, enum event_kind kind, const char *name, int64_t launch,
			     int64_t start, int64_t end, uint64_t stream)
{
	static uint64_t correlation = 1000;

	correlation++;
	if (launch >= 0)
		made_event(t, EVENT_LAUNCH, "cudaLaunchKernel", launch, 5, 1, correlation, NULL);
	made_event(t, kind, name, start, end - start, stream, correlation, NULL);
}

#define NCCL_NAME "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

static inline struct comm_args made_args(struct made *t, enum comm_op op, const char *group,
					 int64_t elements, int64_t seq)
{
	return (struct comm_args){
		.op = op,
		.group = group ? intern_str(t->sink->names, group) : NO_ID,
		.group_desc = NO_ID,
		.ranks = NO_ID,
		.dtype = intern_str(t->sink->names, "Float"),
		.seq = seq,
		.in_elements = elements,
		.out_elements = elements,
		.peer = -1,
		.self = -1,
	};
}

static inline struct trace_meta made_meta(int64_t rank, int64_t world)
{
	return (struct trace_meta){
		.rank = rank,
		.world_size = world,
		.host = NO_ID,
		.backend = NO_ID,
		.gpu_name = NO_ID,
		.trace_id = NO_ID,
	};
}

/* Ends the trace; the fold is gone afterwards. */
static inline struct rank_stream made_finish(struct made *t, int64_t rank, int64_t world)
{
	struct trace_meta meta = made_meta(rank, world);
	struct rank_stream s;
	struct error error = { "" };

	assert_int_equal(t->sink->meta(t->sink->user, &meta), 0);
	assert_int_equal(fold_finish(t->fold, NULL, &s, &error), 0);
	t->fold = fold_free(t->fold);
	return s;
}

/* The i-th step of a stream, decoded into the arena. */
static inline struct step made_step(const struct rank_stream *s, size_t i, struct arena *arena)
{
	uint8_t *bytes = arena_alloc(arena, s->steps.len + 1);
	struct span in = span_of(bytes, s->steps.len);
	struct step step = { 0 };

	assert_int_equal(spool_read(&s->steps, 0, bytes, s->steps.len, NULL), 0);
	for (size_t k = 0; k <= i; k++) {
		uint64_t len = span_varint(&in);
		struct span record = span_of(in.p, (size_t)len);

		assert_false(in.bad);
		assert_non_null(span_bytes(&in, (size_t)len));
		assert_int_equal(step_decode(&record, arena, &step, NULL), 0);
	}
	return step;
}
