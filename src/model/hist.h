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

/* The same without a call, once hist_prepare was called. */
#define HIST_QUICK_NS ((int64_t)1 << 50)
#define HIST_BINS     1120 /* 1.04^1114 is beyond 2^63 */
#define HIST_MANTISSA 6
extern uint64_t hist_lower[HIST_BINS + 1];	 /* smallest duration of each bin */
extern uint16_t hist_guess[64 << HIST_MANTISSA]; /* by highest bit and the bits below it */
void hist_prepare(void);
static inline uint16_t hist_bin_quick(int64_t duration_ns)
{
	uint64_t d = (uint64_t)MAX(duration_ns, 1), bits;
	double exact = (double)(int64_t)d; /* its exponent is the position of the highest bit */
	uint16_t b;

	if (duration_ns > HIST_QUICK_NS)
		return hist_bin_of(duration_ns);
	memcpy(&bits, &exact, sizeof(bits));
	b = hist_guess[(bits >> (52 - HIST_MANTISSA)) - (1023u << HIST_MANTISSA)];
	return (uint16_t)(b + (hist_lower[b + 1] <= d)); /* a coin's toss: no branch */
}
double hist_bin_ns(uint16_t bin); /* the middle of a bin */
double hist_mean_ns(const struct hist *h);
double hist_quantile_ns(const struct hist *h, double q); /* q in 0..1; inside a bin by position */
/* Wasserstein-1 distance in nanoseconds, each histogram taken as a distribution of mass 1. */
double hist_w1_ns(const struct hist *a, const struct hist *b);
