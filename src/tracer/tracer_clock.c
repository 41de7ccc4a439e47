/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracer_clock.c - which clock ticks, and pairs by which a reader makes times of ticks.
 *
 * The TSC only where the kernel itself keeps time by it: then it runs evenly and alike on all
 * cores. LOCKSTEP_CLOCK=monotonic forbids it, for machines that move while they run;
 * LOCKSTEP_CLOCK=tsc takes it unasked, for those whose kernel does not say what the host knows.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tracer/core.h"
#include "tracer/tracer_libc.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool clock_has_tsc(void)
{
#if defined(__x86_64__)
	static const char path[] =
	    "/sys/devices/system/clocksource/clocksource0/current_clocksource";
	const char *wish = getenv("LOCKSTEP_CLOCK");
	unsigned a, b, c, d;
	char source[16];

	if (wish && (!strcmp(wish, "monotonic") || !strcmp(wish, "tsc")))
		return wish[0] == 't';
	return file_read(path, source, sizeof(source)) >= 3 && !strncmp(source, "tsc", 3) &&
	       (source[3] == '\n' || !source[3]) && __get_cpuid(0x80000007, &a, &b, &c, &d) &&
	       (d & 1u << 8);
#else
	return false;
#endif
}

uint64_t tracer_ticks(void)
{
	return core_ticks();
}

uint64_t tracer_realtime_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The narrowest of some tries: whoever is interrupted between two clocks pairs them badly. */
void clock_pair(struct ring_clock_pair *p, unsigned tries)
{
	uint64_t width = UINT64_MAX;

	for (unsigned i = 0; i < tries; i++) {
		uint64_t before = core_ticks(), monotonic = core_monotonic_ns();
		uint64_t realtime = tracer_realtime_ns(), after = core_ticks();

		if (after - before >= width)
			continue;
		width = after - before;
		*p = (struct ring_clock_pair){ before + width / 2, monotonic, realtime };
	}
}

/* Whoever finds another at it leaves it to that one. */
void clock_show(void)
{
	struct ring_header *h = core.header;
	struct ring_clock_pair p;

	if (exchange(&core.clock_lock, 1))
		return;
	clock_pair(&p, 2);
	store_relaxed(&h->clock_seq, ++core.clock_seq);
	store_fence();
	h->last = p;
	store_release(&h->clock_seq, ++core.clock_seq);
	store_release(&core.clock_lock, 0);
}
