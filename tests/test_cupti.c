/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels by a stand-in for CUPTI: each record right, drops counted, the seat lost and taken again.
 *
 * Each test is a process of its own, as the tracer begins once.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "door_told.h"
#include "standin_cupti.h"
#include "tracer/cupti.h"

#ifndef ROUNDS
#define ROUNDS 2000 /* of 5,000 kernels */
#endif

static const struct standin *cu;
static uint64_t t0;

#define claim(what)                                                                                \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                 \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void nap(unsigned ms)
{
	struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

static void arm(uint32_t version, int refuses)
{
	void *l = dlopen(getenv("STANDIN_CUPTI"), RTLD_NOW | RTLD_GLOBAL);

	claim(l);
	cu = dlsym(l, "standin");
	claim(cu);
	cu->version(version, refuses);
	told_reset();
	t0 = tracer_realtime_ns() - 1000000000u;
	claim(InitializeInjection() == 1);
}

/* The tracer's own thread reads within its second. */
static void wait_for(size_t n)
{
	for (int i = 0; i < 1500 && told_kernels < n; i++)
		nap(10);
	if (told_kernels != n)
		fprintf(stderr, "%zu of %zu\n", (size_t)told_kernels, n);
	claim(told_kernels == n);
}

static const struct ring_record *by_correlation(uint32_t id)
{
	for (size_t i = 0; i < n_told; i++) {
		if (told[i].kind == TOLD_KERNEL && told[i].r.value >> 32 == id)
			return &told[i].r;
	}
	claim(false);
}

static const char *phase_of(const struct ring_record *r)
{
	return told_name((uint32_t)r->value);
}

static void every_record_is_right(uint32_t version)
{
	uint32_t ids[7];
	const struct ring_record *r;

	arm(version, 0);
	lockstep_phase_begin(tracer_name("forward", 7), LOCKSTEP_PHASE_FORWARD);
	ids[0] = cu->launch("_Z4gemmPf", 7, t0 + 100, t0 + 350, 0);
	lockstep_phase_begin(tracer_name("mlp", 3), LOCKSTEP_PHASE_USER);
	ids[1] = cu->launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, t0 + 400, t0 + 1400, 3);
	lockstep_phase_end();
	ids[2] = cu->copy(1, 8, t0 + 10, t0 + 20);
	ids[3] = cu->peer(9, t0 + 30, t0 + 50);
	lockstep_phase_end();
	ids[4] = cu->set(10, t0 + 60, t0 + 61);
	ids[5] = cu->sync(3, 7, t0 + 1400, t0 + 1500);
	ids[6] = cu->copy(200, 8, t0 + 10, t0 + 20);
	cu->launch("untimed", 7, 0, 0, 0);
	cu->launch("ticks", 7, 1234567, 1234600, 0);
	cu->finish(true);
	wait_for(7);
	r = by_correlation(ids[0]);
	claim(r->kind == RING_KERNEL && r->t == t0 + 100 && r->duration == 250 && r->arg == 7);
	claim(!strcmp(told_name(r->name), "_Z4gemmPf") && !strcmp(phase_of(r), "forward"));
	claim(r->depth == 0);
	r = by_correlation(ids[1]);
	claim(!strcmp(told_name(r->name), "ncclDevKernel_AllReduce_Sum_f32_RING_LL"));
	claim(r->depth == 1 && !strcmp(phase_of(r), "mlp") && r->duration == 1000);
	r = by_correlation(ids[2]);
	claim(r->kind == RING_COPY && !strcmp(told_name(r->name), "Memcpy HtoD"));
	claim(r->duration == 10 && !strcmp(phase_of(r), "forward"));
	r = by_correlation(ids[3]);
	claim(r->kind == RING_COPY && !strcmp(told_name(r->name), "Memcpy PtoP") && r->arg == 9);
	r = by_correlation(ids[4]);
	claim(r->kind == RING_SET && r->duration == 1 && !strcmp(phase_of(r), ""));
	r = by_correlation(ids[5]);
	claim(r->kind == RING_SYNC && !strcmp(told_name(r->name), "Stream Synchronize"));
	claim(!strcmp(told_name(by_correlation(ids[6])->name), "Memcpy"));
	claim(told_counts[RING_IGNORED] == 1 && told_counts[RING_CLOCK_STEPS] == 1);
	claim(cu->pushed() == 0);
}

static void records_of_cupti_12(void)
{
	every_record_is_right(24);
}

static void records_of_cupti_13(void)
{
	every_record_is_right(130001);
}

static _Atomic uint64_t summed, named, odd;

static void sum(const struct ring_record *r, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (r[i].kind != RING_KERNEL)
			continue;
		summed += r[i].duration;
		named += r[i].name != 0;
		odd += (r[i].value & 0xffffffff) == 0;
	}
}

static size_t rss_kb(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (size_t)u.ru_maxrss;
}

static void ten_million_kernels_in_bounded_memory(void)
{
	enum { EACH = 5000, AHEAD = 3000 };
	static char names[100][160];
	uint64_t want = 0;
	size_t before = 0;

	arm(130001, 0);
	told_each = sum;
	for (int i = 0; i < 100; i++)
		snprintf(names[i], sizeof(names[i]), "_ZN2at6native%d_kernel_of_some_length_%090d",
			 i, i);
	lockstep_phase_begin(tracer_name("forward", 7), LOCKSTEP_PHASE_FORWARD);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < EACH; i++) {
			uint64_t d = (uint64_t)(i % 97) * 10;

			cu->launch(names[i % 100], 7, t0, t0 + d, 0);
			want += d;
		}
		cu->finish(true);
		/* as a GPU would take its time */
		for (int i = 0;
		     i < 20000 && told_kernels + AHEAD < (size_t)EACH * ((size_t)round + 1); i++)
			nap(1);
		if (round == 20)
			before = rss_kb();
	}
	wait_for((size_t)ROUNDS * EACH);
	claim(summed == want && named == (size_t)ROUNDS * EACH && odd == 0);
	claim(told_counts[RING_CUPTI_DROPPED] == 0 && told_counts[RING_CUPTI_FOREIGN] == 0);
	claim(rss_kb() < before + 2048);
}

static void drops_are_counted(void)
{
	size_t gaps = 0;

	arm(130001, 0);
	cu->drop(12345);
	for (int i = 0; i < 1000 && told_counts[RING_CUPTI_DROPPED] == 0; i++)
		nap(10);
	claim(told_counts[RING_CUPTI_DROPPED] == 12345);
	wait_for(1);
	for (size_t i = 0; i < n_told; i++)
		gaps += told[i].kind == TOLD_KERNEL && told[i].r.kind == RING_GAP &&
			told[i].r.value == 12345;
	claim(gaps == 1);
}

/* More than all buffers at once: a newer CUPTI is refused, and says what it dropped; for an older
   one there is always a buffer. */
static void a_flood_is_dropped_and_counted(void)
{
	enum { FLOOD = 60000 };

	arm(130001, 0);
	for (int i = 0; i < FLOOD; i++)
		cu->launch("kernel", 7, t0, t0 + 1, 0);
	cu->finish(false);
	for (int i = 0; i < 1500 && told_kernels + told_counts[RING_CUPTI_DROPPED] < FLOOD; i++)
		nap(10);
	claim(told_kernels + told_counts[RING_CUPTI_DROPPED] >= FLOOD);
	claim(told_counts[RING_CUPTI_DROPPED] > 0);
	/* the calls' records took more than half of the buffers */
	for (int i = 0; i < 1500 && told_kernels < 3u * (CUPTI_BUFFER_BYTES / 216); i++)
		nap(10);
	claim(told_kernels >= 3u * (CUPTI_BUFFER_BYTES / 216));
}

static void an_older_cupti_always_gets_a_buffer(void)
{
	enum { FLOOD = 60000 };

	arm(24, 0);
	for (int i = 0; i < FLOOD; i++)
		cu->launch("kernel", 7, t0, t0 + 1, 0);
	cu->finish(false);
	wait_for(FLOOD);
	claim(told_counts[RING_CUPTI_DROPPED] == 0);
}

static void *launch_many(void *unused)
{
	static _Atomic int turn;
	char name[16];
	int me = turn++;

	(void)unused;
	snprintf(name, sizeof(name), "phase %d", me);
	for (int i = 0; i < 2000; i++) {
		lockstep_phase_begin(tracer_name(name, strlen(name)), LOCKSTEP_PHASE_USER);
		cu->launch("kernel", (uint32_t)me, t0, t0 + 1, 0);
		lockstep_phase_end();
		if (i % 100 == 0)
			cu->finish(true);
	}
	claim(cu->pushed() == 0);
	return NULL;
}

static void phases_of_many_threads_reach_their_kernels(void)
{
	pthread_t t[4];
	char name[16];

	arm(130001, 0);
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, launch_many, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	cu->finish(true);
	wait_for(8000);
	for (size_t i = 0; i < n_told; i++) {
		if (told[i].kind != TOLD_KERNEL)
			continue;
		snprintf(name, sizeof(name), "phase %d", told[i].r.arg);
		claim(!strcmp(phase_of(&told[i].r), name));
	}
}

static void phases_deeper_than_the_stack_count_for_the_one_around(void)
{
	uint32_t id;

	arm(130001, 0);
	for (int i = 0; i < 100; i++)
		lockstep_phase_begin(tracer_name("deep", 4), LOCKSTEP_PHASE_USER);
	claim(cu->pushed() == 24);
	id = cu->launch("kernel", 7, t0, t0 + 1, 0);
	for (int i = 0; i < 100; i++)
		lockstep_phase_end();
	claim(cu->pushed() == 0);
	cu->finish(false);
	wait_for(1);
	claim(!strcmp(phase_of(by_correlation(id)), "deep"));
}

static void a_name_that_comes_to_stand_where_another_stood_is_seen(void)
{
	char name[64] = "first";
	uint32_t a, b;

	arm(130001, 0);
	a = cu->launch(name, 7, t0, t0 + 1, 0);
	cu->finish(false);
	wait_for(1);
	strcpy(name, "second");
	b = cu->launch(name, 7, t0, t0 + 1, 0);
	cu->finish(false);
	wait_for(2);
	claim(!strcmp(told_name(by_correlation(a)->name), "first"));
	claim(!strcmp(told_name(by_correlation(b)->name), "second"));
}

static void lose_it(bool said)
{
	cu->launch("kernel", 7, t0, t0 + 1, 0);
	cu->finish(false);
	wait_for(1);
	if (said)
		lockstep_profiler(1);
	cu->launch("taken", 7, t0, t0 + 1, 0); /* its buffer goes to the profiler */
	cu->finish(false);
	cu->profiler(true);
	for (int i = 0; i < 1000 && !told_profiled; i++)
		nap(10);
	claim(told_profiled);
	for (int i = 0; i < 10; i++)
		cu->launch("profiled", 7, t0, t0 + 1, 0);
	cu->finish(false);
}

static void check_taken_again(size_t kernels)
{
	for (int i = 0; i < 2000 && told_profiled; i++)
		nap(10);
	claim(!told_profiled);
	claim(cu->enabled(CUPTI_KERNEL) && cu->enabled(CUPTI_SYNC));
	for (int i = 0; i < 100; i++)
		cu->launch("again", 7, t0, t0 + 1, 0);
	cu->finish(true);
	wait_for(kernels + 100 + 2); /* and two gaps */
}

static void torch_profiler_takes_the_seat_and_it_is_taken_again(void)
{
	setenv("LOCKSTEP_PROFILER_WAIT", "3", 1);
	arm(130001, 0);
	lose_it(false);
	cu->profiler(false);
	claim(cu->profilers_kernels() == 10); /* all of its own */
	check_taken_again(1 + (size_t)(1 - (cu->profilers_unknown() > 0)));
	claim(told_counts[RING_CUPTI_FOREIGN] == 0);
}

static void who_says_that_the_profiler_is_done_is_believed(void)
{
	setenv("LOCKSTEP_PROFILER_WAIT", "3600", 1);
	arm(130001, 0);
	lose_it(true);
	nap(3000);
	claim(told_profiled);
	claim(cu->profilers_kernels() == 0); /* nothing of ours flushed its buffer */
	cu->profiler(false);
	claim(cu->profilers_kernels() == 10);
	lockstep_profiler(0);
	check_taken_again(1 + (size_t)(1 - (cu->profilers_unknown() > 0)));
}

static void silence_while_steps_go_on_is_a_lost_seat(void)
{
	setenv("LOCKSTEP_PROFILER_WAIT", "2", 1);
	arm(130001, 0);
	cu->launch("kernel", 7, t0, t0 + 1, 0);
	cu->finish(false);
	wait_for(1);
	nap(2000);
	claim(!told_profiled); /* no steps: nothing is missed */
	told_steps = 100;
	for (int i = 0; i < 1500 && !told_profiled; i++)
		nap(10);
	claim(told_profiled);
}

static void who_refuses_is_told_with_the_reason(void)
{
	arm(130001, 39);
	claim(told_code == 39);
	claim(!strcmp(told_why, "no kernels: CUPTI refuses "
				"(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)"));
	claim(!cu->enabled(CUPTI_KERNEL));
	lockstep_mark(1); /* all else goes on */
	claim(told_count(TOLD_MARK) == 1);
}

static void unknown_versions_are_left_alone(void)
{
	arm(150000, 0);
	claim(strstr(told_why, "newer than any"));
	claim(!cu->enabled(CUPTI_KERNEL));
}

static void kernels_can_be_switched_off(void)
{
	setenv("LOCKSTEP_KERNELS", "0", 1);
	arm(130001, 0);
	claim(strstr(told_why, "LOCKSTEP_KERNELS=0"));
	claim(!cu->enabled(CUPTI_KERNEL));
}

static void buffers_of_others_are_left_alone(void)
{
	static uint8_t theirs[4096];

	arm(130001, 0);
	cupti_buffers_complete(NULL, 0, theirs, sizeof(theirs), 100);
	cupti_buffers_complete(NULL, 0, NULL, 0, 0);
	claim(told_counts[RING_CUPTI_FOREIGN] == 2);
}

static const struct {
	const char *name;
	void (*run)(void);
} claims[] = {
#define CLAIM(f)                                                                                   \
	{                                                                                          \
#f, f                                                                              \
	}
	CLAIM(records_of_cupti_12),
	CLAIM(records_of_cupti_13),
	CLAIM(ten_million_kernels_in_bounded_memory),
	CLAIM(drops_are_counted),
	CLAIM(a_flood_is_dropped_and_counted),
	CLAIM(an_older_cupti_always_gets_a_buffer),
	CLAIM(phases_of_many_threads_reach_their_kernels),
	CLAIM(phases_deeper_than_the_stack_count_for_the_one_around),
	CLAIM(a_name_that_comes_to_stand_where_another_stood_is_seen),
	CLAIM(torch_profiler_takes_the_seat_and_it_is_taken_again),
	CLAIM(who_says_that_the_profiler_is_done_is_believed),
	CLAIM(silence_while_steps_go_on_is_a_lost_seat),
	CLAIM(who_refuses_is_told_with_the_reason),
	CLAIM(unknown_versions_are_left_alone),
	CLAIM(kernels_can_be_switched_off),
	CLAIM(buffers_of_others_are_left_alone),
};
#define CLAIMS (sizeof(claims) / sizeof(*claims))

/* All at once: most of their time is that of the tracer's clock. */
static pid_t start(size_t i)
{
	pid_t pid = fork();

	if (!pid) {
		alarm(100);
		claims[i].run();
		_exit(0);
	}
	return pid;
}

static pid_t pids[CLAIMS];

static void holds(void **state)
{
	int status = 1;

	waitpid(pids[*(size_t *)*state], &status, 0);
	assert_int_equal(status, 0);
}

int main(void)
{
	static size_t numbers[CLAIMS];
	struct CMUnitTest tests[CLAIMS];

	for (size_t i = 0; i < CLAIMS; i++) {
		numbers[i] = i;
		pids[i] = start(i);
		tests[i] = (struct CMUnitTest){ claims[i].name, holds, NULL, NULL, &numbers[i] };
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
