/* SPDX-License-Identifier: Apache-2.0 */
/* ranges.h - sets of ranks as people write them: "0-7,9". */
#pragma once
#include "base/base.h"

/* Writes sorted, distinct values as ranges into a malloc'd string; "" if n is 0. */
char *ranges_format(const int64_t *values, size_t n);
/* For qsort of int64_t, ascending. */
int ranges_compare(const void *a, const void *b);
/* The first of n ascending values that is no less than value; n: none is. */
size_t ranges_lower(const int64_t *values, size_t n, int64_t value);
/* Is it among values, which ascend? */
bool ranges_has(const int64_t *values, size_t n, int64_t value);
/* Parses "0-7,9"; values ascending and distinct. -EINVAL with detail. At most 2^24 values. */
int ranges_parse(const char *text, int64_t **ret, size_t *ret_n, struct error *reterr);
