/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_fold.c - what fold costs a kernel event, without a reader: kernels, their launches and step
 * marks go straight into the sink, in an order that runs back in time as in real files.
 *
 * Measured is all from the event to the encoded step; what it takes to make the events is measured
 * with a sink that does nothing, and taken off. Times are of the processor, not of the wall. Beside
 * it, in the same run, qsort of as many 16-byte spans, the least that sorting by hand costs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fold/fold.h"

enum {
	KERNELS = 20000, /* a step: some 10 MB of JSON */
	NAMES = 60,
	RUNS = 7,
	GAP_NS = 4000,
};

struct work {
	const char *name;
	int steps;
	bool launches;
};

struct span16 {
	uint64_t start;
	uint32_t duration, name;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static int compare_spans(const void *a, const void *b)
{
	const struct span16 *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static void fail(const char *what)
{
	fprintf(stderr, "bench_fold: %s\n", what);
	exit(1);
}

static int ignore(void *user, const struct trace_event *event)
{
	(void)user;
	(void)event;
	return 0;
}

static void give(struct trace_sink *sink, const struct trace_event *event)
{
	if (sink->event(sink->user, event) < 0)
		fail("the sink refuses an event");
}

static uint32_t name_of(struct trace_sink *sink, const char *prefix, int number)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%s%d", prefix, number);

	return intern(sink->names, text, (size_t)n);
}

/* Launches of one step first, then its kernels, then its mark: as Kineto groups them. */
static void give_step(struct trace_sink *sink, int step, bool launches, const uint32_t *names,
		      uint32_t *random)
{
	int64_t begin = (int64_t)step * KERNELS * GAP_NS;
	uint64_t correlation = (uint64_t)step * KERNELS + 1;
	struct trace_event e = { .comm = NULL };

	e.kind = EVENT_LAUNCH;
	e.name = names[NAMES];
	e.thread = 1;
	e.duration_ns = 1500;
	for (int i = 0; i < KERNELS && launches; i++) {
		e.start_ns = begin + (int64_t)i * GAP_NS + 100;
		e.correlation = correlation + (uint64_t)i;
		give(sink, &e);
	}
	e.kind = EVENT_KERNEL;
	e.thread = 7;
	for (int i = 0; i < KERNELS; i++) {
		uint32_t r = next_random(random);

		e.name = names[r % NAMES];
		e.start_ns = begin + (int64_t)i * GAP_NS + 2000;
		/* each kernel has its time, and some 3 % around it */
		e.duration_ns =
		    (1000 + 30 * (int64_t)(r % NAMES)) * (968 + (int64_t)((r >> 8) % 64)) / 1000;
		e.correlation = launches ? correlation + (uint64_t)i : 0;
		give(sink, &e);
	}
	e.kind = EVENT_ANNOTATION;
	e.name = name_of(sink, "ProfilerStep#", step + 1);
	e.thread = 1;
	e.correlation = 0;
	e.start_ns = begin;
	e.duration_ns = (int64_t)KERNELS * GAP_NS - 10;
	give(sink, &e);
}

/* Nanoseconds it takes to give all events of the work to the sink. */
static uint64_t give_all(struct trace_sink *sink, const struct work *w)
{
	uint32_t names[NAMES + 1], random = 1;
	uint64_t began;

	for (int i = 0; i < NAMES; i++)
		names[i] = name_of(sink, "void some_kernel_of_a_layer_", i);
	names[NAMES] = name_of(sink, "cudaLaunchKernel", 0);
	began = now_ns();
	for (int step = 0; step < w->steps; step++)
		give_step(sink, step, w->launches, names, &random);
	return now_ns() - began;
}

/* Nanoseconds a kernel event, and the bytes of the steps. */
static double fold_once(const struct work *w, uint64_t *ret_bytes)
{
	struct fold_options options = { .first_step = -1, .last_step = -1 };
	struct fold *f = fold_new(&options);
	struct trace_sink nothing = { .names = fold_sink(f)->names, .event = ignore };
	struct trace_meta meta = { .rank = 0,
				   .world_size = 1,
				   .host = NO_ID,
				   .backend = NO_ID,
				   .gpu_name = NO_ID,
				   .trace_id = NO_ID };
	struct rank_stream stream;
	struct error error = { 0 };
	uint64_t made = give_all(&nothing, w), began = now_ns();

	give_all(fold_sink(f), w);
	if (fold_sink(f)->meta(fold_sink(f)->user, &meta) < 0 ||
	    fold_finish(f, NULL, &stream, &error) < 0)
		fail("fold_finish");
	began = now_ns() - began;
	if (stream.n_steps != (uint64_t)w->steps)
		fail("not all steps came out");
	*ret_bytes = stream.steps.len;
	rank_stream_done(&stream);
	fold_free(f);
	return (double)(began - made) / (w->steps * (double)KERNELS);
}

static double sort_once(int steps)
{
	size_t n = (size_t)steps * KERNELS;
	struct span16 *spans = malloc(n * sizeof(*spans));
	uint32_t random = 1;
	uint64_t began;

	if (!spans)
		fail("no memory");
	for (size_t i = 0; i < n; i++)
		spans[i] = (struct span16){ next_random(&random), 1000, 1 };
	began = now_ns();
	qsort(spans, n, sizeof(*spans), compare_spans);
	began = now_ns() - began;
	free(spans);
	return (double)began / (double)n;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void bench(const struct work *w)
{
	double folds[RUNS], sorts[RUNS];
	uint64_t bytes = 0;

	for (int i = 0; i < RUNS; i++) {
		folds[i] = fold_once(w, &bytes);
		sorts[i] = sort_once(w->steps);
	}
	qsort(folds, RUNS, sizeof(double), compare_doubles);
	qsort(sorts, RUNS, sizeof(double), compare_doubles);
	printf("%-34s %9.3g %-9s %d steps of %d kernels; min %.3g median %.3g ns of %d; "
	       "qsort of as many 16-byte spans: min %.3g ns; bar 50 ns\n",
	       w->name, folds[0], "ns", w->steps, KERNELS, folds[0], folds[RUNS / 2], RUNS,
	       sorts[0]);
	if (!w->launches)
		return;
	printf("%-34s %9" PRIu64 " %-9s %d kernels a step; names not included; bar 2700 bytes\n",
	       "  step record", bytes / (uint64_t)w->steps, "bytes", KERNELS);
}

int main(void)
{
	static const struct work works[] = {
		{ "fold, a kernel event", 12, false },
		{ "fold, a kernel with its launch", 12, true },
		{ "  the same, through files", 40, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(works); i++)
		bench(&works[i]);
	return 0;
}
