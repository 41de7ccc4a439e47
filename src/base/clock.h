/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - time that passes (monotonic), and what the wall's clock shows (since 1970). */
#pragma once
#include <stdint.h>

int64_t clock_ms(void);
int64_t clock_ns(void);
int64_t clock_wall_ms(void);
