/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_tracer.c - what the calls of lockstep.h cost the thread that makes them.
 *
 * Linked with liblockstep.so as a program is. Rounds of each call take turns, and with them, where
 * it was built WITH_LTTNG and a session records, the same told to lttng-ust: a begin and an end
 * that carry name and kind, a counter that carries name and value. Times are of the thread's
 * processor. With "count CALL N" it makes N calls and nothing else, for those who count
 * instructions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif
#include "lockstep/lockstep.h"
#ifdef WITH_LTTNG
#define TRACEPOINT_CREATE_PROBES
#define TRACEPOINT_DEFINE
#include "lttng_pair.h"
#endif

enum { ROUNDS = 41, CALLS = 50000 };

static uint32_t name;
static volatile uint64_t kept;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void do_nothing(unsigned n)
{
	(void)n;
}

static void do_pair(unsigned n)
{
	while (n--) {
		lockstep_phase_begin(name, LOCKSTEP_PHASE_FORWARD);
		lockstep_phase_end();
	}
}

static void do_counter(unsigned n)
{
	while (n--)
		lockstep_counter(name, n);
}

static void do_collective(unsigned n)
{
	while (n--)
		lockstep_collective_end(
		    lockstep_collective_begin(name, LOCKSTEP_OP_ALL_REDUCE, n, 4096));
}

static void do_name(unsigned n)
{
	while (n--)
		kept = lockstep_name("model.layers.12.self_attn");
}

static void do_step(unsigned n)
{
	while (n--) {
		lockstep_step_begin(-1);
		lockstep_step_end();
	}
}

static void read_clock(unsigned n)
{
	while (n--) {
#if defined(__x86_64__)
		if (!getenv("LOCKSTEP_CLOCK")) {
			for (unsigned i = 0; i < 100; i++)
				kept = __rdtsc();
			continue;
		}
#endif
		for (unsigned i = 0; i < 100; i++) {
			struct timespec t;

			clock_gettime(CLOCK_MONOTONIC, &t);
			kept = (uint64_t)t.tv_nsec;
		}
	}
}

static void do_clock(unsigned n)
{
	read_clock(n / 100);
}

#ifdef WITH_LTTNG
static void lttng_pair(unsigned n)
{
	while (n--) {
		tracepoint(lockstep_bench, begin, name, LOCKSTEP_PHASE_FORWARD);
		tracepoint(lockstep_bench, end, name);
	}
}

static void lttng_counter(unsigned n)
{
	while (n--)
		tracepoint(lockstep_bench, counter, name, n);
}

static int lttng_records(void)
{
	return tracepoint_enabled(lockstep_bench, begin) &&
	       tracepoint_enabled(lockstep_bench, counter);
}
#else
#define lttng_pair    NULL
#define lttng_counter NULL
static int lttng_records(void)
{
	return 0;
}
#endif

static struct call {
	const char *name, *what, *bar;
	void (*run)(unsigned n);
	void (*rival)(unsigned n);
	double took[ROUNDS], rival_took[ROUNDS];
} calls[] = {
	{ "pair", "tracer, phase begin and end", "50 ns with the TSC, 60 without", do_pair,
	  lttng_pair },
	{ "counter", "tracer, counter", NULL, do_counter, lttng_counter },
	{ "collective", "tracer, collective begin and end", NULL, do_collective, NULL },
	{ "step", "tracer, step begin and end", NULL, do_step, NULL },
	{ "name", "tracer, name of 25 bytes looked up", NULL, do_name, NULL },
	{ "clock", "  the clock alone, once", NULL, do_clock, NULL },
	{ "nothing", NULL, NULL, do_nothing, NULL },
};
#define N_CALLS (sizeof(calls) / sizeof(calls[0]))

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double timed(void (*run)(unsigned n))
{
	double begin = now_ns();

	run(CALLS);
	return (now_ns() - begin) / CALLS;
}

static void show(struct call *c, const char *clock)
{
	char beside[160] = "";

	qsort(c->took, ROUNDS, sizeof(double), compare);
	qsort(c->rival_took, ROUNDS, sizeof(double), compare);
	if (c->rival && lttng_records())
		snprintf(beside, sizeof(beside),
			 "; lttng-ust, the same told: min %.1f median %.1f ns", c->rival_took[0],
			 c->rival_took[ROUNDS / 2]);
	else if (c->rival || c->bar)
		snprintf(beside, sizeof(beside), "; lttng-ust: no session records here");
	printf("%-34s %9.4g %-9s %s; min %.1f median %.1f ns of %d x %d%s%s%s\n", c->what,
	       c->took[0], "ns", clock, c->took[0], c->took[ROUNDS / 2], ROUNDS, CALLS, beside,
	       c->bar ? "; bar " : "", c->bar ? c->bar : "");
}

static int count(const char *what, unsigned n)
{
	for (size_t i = 0; i < N_CALLS; i++) {
		if (!strcmp(calls[i].name, what)) {
			calls[i].run(n);
			return 0;
		}
	}
	return 2;
}

int main(int argc, char **argv)
{
	if (!lockstep_start()) {
		fprintf(stderr,
			"bench_tracer: the tracer is off; is there room in $LOCKSTEP_DIR?\n");
		return 1;
	}
	name = lockstep_name("forward");
	if (argc > 3)
		return count(argv[2], (unsigned)strtoul(argv[3], NULL, 10));
	for (unsigned i = 0; i < ROUNDS; i++) {
		for (size_t j = 0; j < N_CALLS; j++) {
			calls[j].took[i] = timed(calls[j].run);
			if (calls[j].rival && lttng_records())
				calls[j].rival_took[i] = timed(calls[j].rival);
		}
	}
	for (size_t j = 0; j < N_CALLS; j++) {
		if (calls[j].what)
			show(&calls[j],
			     getenv("LOCKSTEP_CLOCK") ? "CLOCK_MONOTONIC" : "TSC if trusted");
	}
	return 0;
}
