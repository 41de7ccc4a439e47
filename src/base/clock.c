/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - two clocks of the kernel. */
#include "base/clock.h"

#include <time.h>

static int64_t of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return timespec_ns(t);
}

int64_t clock_ms(void)
{
	return of(CLOCK_MONOTONIC) / 1000000;
}

int64_t clock_ns(void)
{
	return of(CLOCK_MONOTONIC);
}

int64_t clock_wall_ms(void)
{
	return of(CLOCK_REALTIME) / 1000000;
}
