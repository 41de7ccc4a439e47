/* SPDX-License-Identifier: Apache-2.0 */
/* test_stats.c - selection against sorting, and what robust means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/stats.h"
#include <math.h>
#include <stdio.h>

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void quantiles_are_those_of_the_sorted_values(void **state)
{
	static const double qs[] = { 0, 0.01, 0.25, 0.5, 0.75, 0.99, 1 };
	const unsigned seed = 20261129;
	double x[257], sorted[257];

	(void)state;
	printf("seed %u\n", seed);
	srand(seed);
	for (int round = 0; round < 300; round++) {
		size_t n = 1 + (size_t)(rand() % 257);
		int few = round % 3 ? 1000000 : 4; /* also with many equal values */

		for (size_t i = 0; i < n; i++)
			sorted[i] = rand() % few;
		qsort(sorted, n, sizeof(*sorted), compare_doubles);
		for (size_t q = 0; q < ARRAY_SIZE(qs); q++) {
			double at = qs[q] * (double)(n - 1), part = at - floor(at);
			size_t k = (size_t)at, next = k + 1 < n ? k + 1 : k;
			double want = sorted[k] + part * (sorted[next] - sorted[k]);

			memcpy(x, sorted, n * sizeof(*x));
			for (size_t i = n - 1; i > 0; i--) {
				size_t j = (size_t)rand() % (i + 1);
				double t = x[i];

				x[i] = x[j];
				x[j] = t;
			}
			assert_float_equal(stats_quantile(x, n, qs[q]), want, 1e-9);
		}
	}
}

static void the_median_of_nothing_is_unknown(void **state)
{
	(void)state;
	assert_true(isnan(stats_median(NULL, 0)));
}

static void an_even_count_has_its_median_between(void **state)
{
	double x[] = { 4, 1, 3, 2 };

	(void)state;
	assert_float_equal(stats_median(x, 4), 2.5, 0);
}

/* What z by mean and deviation cannot do with 8 ranks, where it is at most 7/sqrt(8) = 2.47. */
static void one_of_eight_stands_out(void **state)
{
	double x[] = { 100, 101, 99, 100, 100, 102, 98, 150 }, copy[8];
	double median, mad;

	(void)state;
	memcpy(copy, x, sizeof(x));
	median = stats_median(copy, 8);
	memcpy(copy, x, sizeof(x));
	mad = stats_mad(copy, 8, median);
	assert_float_equal(median, 100, 1e-12);
	assert_float_equal(mad, 1, 1e-12);
	assert_float_equal(stats_robust_z(150, median, mad, 0.02), 25, 1e-9);
}

static void the_grain_of_a_clock_is_no_outlier(void **state)
{
	(void)state;
	assert_float_equal(stats_robust_z(101, 100, 0, 0.02), 0.5, 1e-12);
	assert_true(isinf(stats_robust_z(1, 0, 0, 0.02)));
	assert_float_equal(stats_robust_z(0, 0, 0, 0.02), 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles_are_those_of_the_sorted_values),
		cmocka_unit_test(the_median_of_nothing_is_unknown),
		cmocka_unit_test(an_even_count_has_its_median_between),
		cmocka_unit_test(one_of_eight_stands_out),
		cmocka_unit_test(the_grain_of_a_clock_is_no_outlier),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
