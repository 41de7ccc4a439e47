/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stamp.h - time stamps as tools write them, to epoch nanoseconds.
 *
 * Local times without a zone are taken as UTC: what matters is how they stand to each other.
 */
#pragma once
#include "base/base.h"

/*
 * A stamp at the beginning of p[0..len): how many characters it takes, 0 if there is none.
 *   2024/01/16 14:44:16.977   2024-01-16T14:44:16,977+02:00   20240116 14:44:16
 *   Tue Jan 16 14:44:16 2024   Jan 16 14:44:16 (no year: not told)   2024-01-16T14:44Z
 */
size_t stamp_parse(const char *p, size_t len, int64_t *ret_ns);
/* Seconds, milliseconds, microseconds or nanoseconds since 1970, told by their size; -1: none. */
int64_t stamp_of_number(double v);
/* Either of both, of the whole text; -1 if it is no time. */
int64_t stamp_of_text(const char *p, size_t len);
/* Days since 1970 of a day of the Gregorian calendar. */
int64_t stamp_days(int64_t year, unsigned month, unsigned day);
