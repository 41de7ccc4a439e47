/* SPDX-License-Identifier: Apache-2.0 */
/* Events played bit by bit, as the agent does, give the steps that they give all at once. */
#include "fold/stream.h"
#include "fold_random.h"

#define SCALE	100 /* steps of 10 ms: the host's lead of 5 ms does not cover all of them */
#define STEP_NS (100000 * SCALE)
#define STEPS	(RANDOM_WORK / 100)

static void give(struct fold_stream *s, const struct random_event *e)
{
	struct intern *names = fold_stream_names(s);
	struct comm_args args = {
		.op = COMM_ALL_REDUCE,
		.group = intern_str(names, "0"),
		.group_desc = NO_ID,
		.ranks = NO_ID,
		.dtype = intern_str(names, "Float"),
		.seq = -1,
		.in_elements = 77,
		.out_elements = 77,
		.peer = -1,
		.self = -1,
	};
	struct trace_event event = {
		.kind = e->kind,
		.name = intern_str(names, e->name),
		.start_ns = e->start,
		.duration_ns = e->duration,
		.thread = e->thread,
		.correlation = e->correlation,
		.comm = e->args ? &args : NULL,
	};

	assert_int_equal(fold_stream_event(s, &event), 0);
}

static void take(struct fold_stream *s, struct buf *steps)
{
	const struct intern *names;
	struct step step;

	while (fold_stream_next(s, &step, &names)) {
		for (uint32_t i = 0; i < step.n_kernels; i++)
			buf_put_string(steps, intern_get(names, step.kernels[i].name),
				       intern_len(names, step.kernels[i].name));
		step_encode(steps, &step);
	}
}

/* The steps of all events, given `piece` at a time; each time what began well before all that is
   still to come is played, and the rest stays. */
static struct buf played(const struct random_event *e, size_t n, size_t piece)
{
	struct fold_scratch *scratch = fold_scratch_new();
	struct fold_stream *s = fold_stream_new(scratch);
	int64_t *first = xmalloc((n + 1) * sizeof(*first)); /* start of e[i] and all behind it */
	struct error error = { "" };
	struct buf steps = { 0 };

	first[n] = INT64_MAX;
	for (size_t i = n; i--;)
		first[i] = MIN(first[i + 1], e[i].start);
	for (uint64_t i = 0; i < STEPS; i++)
		assert_true(fold_stream_mark(
		    s, &(struct stream_mark){ .number = i,
					      .start = (int64_t)i * STEP_NS,
					      .end = (int64_t)(i + 1) * STEP_NS }));
	intern_str(fold_stream_names(s), "gemm");
	for (size_t i = 0; i < n; i++) {
		give(s, &e[i]);
		if (i % piece || i + 1 == n)
			continue;
		assert_int_equal(fold_stream_play(s, first[i + 1] - STEP_NS,
						  first[i + 1] - 2 * STEP_NS, false, &error),
				 0);
		take(s, &steps);
	}
	assert_true(fold_stream_held(s));
	assert_int_equal(fold_stream_play(s, INT64_MAX, INT64_MAX, true, &error), 0);
	take(s, &steps);
	assert_int_equal(fold_stream_held(s), 0);
	fold_stream_free(s);
	fold_scratch_free(scratch);
	free(first);
	return steps;
}

static void pieces_leave_no_trace(void **state)
{
	static const size_t pieces[] = { 3, 97, 640, 5000 };
	struct random_event *e = xcalloc(RANDOM_WORK * 3, sizeof(*e));
	size_t n = random_events(e, 0x5eed, SCALE);
	struct buf whole = played(e, n, n + 1);

	(void)state;
	assert_true(whole.len > STEPS * 50);
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		struct buf some = played(e, n, pieces[i]);

		assert_int_equal(some.len, whole.len);
		assert_memory_equal(some.data, whole.data, whole.len);
		buf_done(&some);
	}
	buf_done(&whole);
	free(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_leave_no_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
