/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - time that passes (monotonic), and what the wall's clock shows (since 1970). */
#pragma once
#include <stdint.h>
#include <time.h>

int64_t clock_ms(void);
int64_t clock_ns(void);
int64_t clock_wall_ms(void);
static inline int64_t timespec_ns(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
