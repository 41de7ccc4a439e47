/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hist.h - a sparse histogram of durations in logarithmic bins of +-2 %.
 *
 * Bin b holds durations in [1.04^b, 1.04^(b+1)) nanoseconds; bin 0 holds 0 and 1. The same name
 * serves sizes orders of magnitude apart, so a kernel is several clusters: cut the histogram at its
 * valleys.
 */
#pragma once
#include "base/base.h"

struct hist_bin {
	uint16_t bin;
	uint32_t count;
};
struct hist {
	struct hist_bin *bins; /* by bin */
	uint32_t n;
	uint64_t count;
};

uint16_t hist_bin_of(int64_t duration_ns);
double hist_bin_ns(uint16_t bin); /* the middle of a bin */
double hist_mean_ns(const struct hist *h);
double hist_quantile_ns(const struct hist *h, double q); /* q in 0..1; inside a bin by position */
/* Wasserstein-1 distance in nanoseconds, each histogram taken as a distribution of mass 1. */
double hist_w1_ns(const struct hist *a, const struct hist *b);
