/* SPDX-License-Identifier: Apache-2.0 */
/* Bins hold what they say, and distances come back from them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "model/hist.h"

static void a_bin_holds_the_powers_around_it(void **state)
{
	(void)state;
	assert_int_equal(hist_bin_of(0), 0);
	assert_int_equal(hist_bin_of(1), 0);
	assert_int_equal(hist_bin_of(2), 17); /* 1.04^17 = 1.948, 1.04^18 = 2.026 */
	for (int64_t d = 1; d > 0 && d < INT64_MAX / 3; d += d / 7 + 1) {
		uint16_t b = hist_bin_of(d);

		assert_true(pow(1.04, b) <= (double)d * (1 + 1e-12));
		assert_true(pow(1.04, b + 1) > (double)d * (1 - 1e-12));
	}
	assert_true(hist_bin_of(INT64_MAX) < 1120);
}

static void the_middle_of_a_bin_is_within_two_percent(void **state)
{
	(void)state;
	for (int64_t d = 100; d < 1000000000; d = d * 9 / 7)
		assert_true(fabs(hist_bin_ns(hist_bin_of(d)) / (double)d - 1) <= 0.0201);
}

static void the_quick_way_to_a_bin_ends_in_the_same_one(void **state)
{
	static const int64_t edges[] = { INT64_MIN,	    -1,	      0, 1, 2, HIST_QUICK_NS,
					 HIST_QUICK_NS + 1, INT64_MAX };

	(void)state;
	hist_prepare();
	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
		assert_int_equal(hist_bin_quick(edges[i]), hist_bin_of(edges[i]));
	/* Each bin holds its bounds, and not the next one's. */
	for (uint16_t b = 1; b < 1100; b++) {
		int64_t low = (int64_t)hist_lower[b], next = (int64_t)hist_lower[b + 1];

		if (low == next)
			continue;
		assert_int_equal(hist_bin_quick(low), b);
		assert_int_equal(hist_bin_quick(next - 1), b);
	}
}

static struct hist hist_of(struct hist_bin *bins, const int64_t *values, size_t n)
{
	struct hist h = { .bins = bins };

	for (size_t i = 0; i < n; i++) {
		uint16_t b = hist_bin_of(values[i]);

		if (!h.n || bins[h.n - 1].bin != b)
			bins[h.n++] = (struct hist_bin){ b, 0 };
		bins[h.n - 1].count++;
		h.count++;
	}
	return h;
}

static void quantiles_and_means_are_near(void **state)
{
	int64_t values[1000];
	struct hist_bin bins[1000];
	struct hist h;

	(void)state;
	for (int i = 0; i < 1000; i++)
		values[i] = 10000 + 10 * i;
	h = hist_of(bins, values, 1000);
	assert_true(fabs(hist_mean_ns(&h) / 14995 - 1) < 0.02);
	assert_true(fabs(hist_quantile_ns(&h, 0.5) / 15000 - 1) < 0.02);
	assert_true(fabs(hist_quantile_ns(&h, 0.99) / 19900 - 1) < 0.02);
	assert_true(hist_quantile_ns(&h, 0) <= 10100);
	h.count = 0;
	assert_true(isnan(hist_quantile_ns(&h, 0.5)));
}

/* Half of a at 1000, half at 4000; b all at 1000: half the mass moves by 3000. */
static void w1_is_mass_times_way(void **state)
{
	const int64_t a[] = { 1000, 1000, 4000, 4000 }, b[] = { 1000 };
	struct hist_bin x[4], y[4];
	struct hist ha = hist_of(x, a, 4), hb = hist_of(y, b, 1);

	(void)state;
	assert_true(fabs(hist_w1_ns(&ha, &hb) / 1500 - 1) < 0.03);
	assert_true(fabs(hist_w1_ns(&ha, &hb) - hist_w1_ns(&hb, &ha)) < 1e-6);
	assert_true(hist_w1_ns(&ha, &ha) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bin_holds_the_powers_around_it),
		cmocka_unit_test(the_quick_way_to_a_bin_ends_in_the_same_one),
		cmocka_unit_test(the_middle_of_a_bin_is_within_two_percent),
		cmocka_unit_test(quantiles_and_means_are_near),
		cmocka_unit_test(w1_is_mass_times_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
