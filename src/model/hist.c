/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hist.c - logarithmic bins of durations and what can be read off them.
 *
 * A bin is found without a logarithm: the position of the highest bit and the six bits below it
 * give a bin that is at most one too low, and a table of lower bounds settles it. So fold can
 * afford it for every kernel.
 */
#include "model/hist.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#define HIST_BASE 1.04
#define MANTISSA  HIST_MANTISSA

uint64_t hist_lower[HIST_BINS + 1];
uint16_t hist_guess[64 << MANTISSA];
static double edges[HIST_BINS + 1], middles[HIST_BINS + 1]; /* ns */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool filled; /* spares the call once the tables are there */

static uint16_t bin_slow(uint64_t d)
{
	uint16_t lo = 0, hi = HIST_BINS;

	while (hi - lo > 1) {
		uint16_t mid = (uint16_t)((lo + hi) / 2);

		if (hist_lower[mid] <= d)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static void tables_fill(void)
{
	for (unsigned b = 0; b <= HIST_BINS; b++) {
		double v;

		edges[b] = b ? pow(HIST_BASE, b) : 0;
		middles[b] = b ? pow(HIST_BASE, b + 0.5) : 0.5;
		v = ceil(edges[b]);
		hist_lower[b] = v < 9.2e18 ? (uint64_t)v : UINT64_MAX;
	}
	hist_lower[0] = 0;
	/* Bins so narrow that no integer lies in them share a bound; the highest of them holds it.
	 */
	for (unsigned top = 0; top < 64; top++) {
		for (unsigned m = 0; m < 1u << MANTISSA; m++) {
			uint64_t d = ((uint64_t)1 << top) |
				     (top >= MANTISSA ? (uint64_t)m << (top - MANTISSA)
						      : (uint64_t)m >> (MANTISSA - top));

			hist_guess[(top << MANTISSA) | m] = bin_slow(d);
		}
	}
	atomic_store_explicit(&filled, true, memory_order_release);
}

void hist_prepare(void)
{
	if (!atomic_load_explicit(&filled, memory_order_acquire))
		pthread_once(&once, tables_fill);
}

uint16_t hist_bin_of(int64_t duration_ns)
{
	hist_prepare();
	return duration_ns > HIST_QUICK_NS ? bin_slow((uint64_t)duration_ns)
					   : hist_bin_quick(duration_ns);
}

/* Records from outside may have bins beyond all durations. */
static double bin_edge(uint32_t bin)
{
	hist_prepare();
	return bin <= HIST_BINS ? edges[bin] : pow(HIST_BASE, bin);
}

double hist_bin_ns(uint16_t bin)
{
	hist_prepare();
	return bin <= HIST_BINS ? middles[bin] : pow(HIST_BASE, bin + 0.5);
}

double hist_mean_ns(const struct hist *h)
{
	double sum = 0;

	for (uint32_t i = 0; i < h->n; i++)
		sum += hist_bin_ns(h->bins[i].bin) * h->bins[i].count;
	return h->count ? sum / (double)h->count : NAN;
}

double hist_quantile_ns(const struct hist *h, double q)
{
	double at = q * (double)h->count, before = 0;

	if (!h->count)
		return NAN;
	for (uint32_t i = 0; i < h->n; i++) {
		double count = h->bins[i].count;

		if (before + count >= at || i + 1 == h->n) {
			double low = bin_edge(h->bins[i].bin);
			double high = bin_edge((uint32_t)h->bins[i].bin + 1);
			double share = fmin(fmax((at - before) / count, 0), 1);

			return low + (high - low) * share;
		}
		before += count;
	}
	return NAN;
}

double hist_w1_ns(const struct hist *a, const struct hist *b)
{
	uint32_t i = 0, j = 0;
	double left_a = 0, left_b = 0, sum = 0;

	if (!a->count || !b->count)
		return NAN;
	/* Walk both quantile functions at once: in one dimension W1 is the area between them. */
	while (i < a->n && j < b->n) {
		double take;

		if (left_a <= 0)
			left_a = a->bins[i].count / (double)a->count;
		if (left_b <= 0)
			left_b = b->bins[j].count / (double)b->count;
		take = fmin(left_a, left_b);
		sum += take * fabs(hist_bin_ns(a->bins[i].bin) - hist_bin_ns(b->bins[j].bin));
		left_a -= take;
		left_b -= take;
		if (left_a <= 1e-15) {
			left_a = 0;
			i++;
		}
		if (left_b <= 1e-15) {
			left_b = 0;
			j++;
		}
	}
	return sum;
}
