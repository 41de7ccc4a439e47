/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - selection instead of sorting: a job's ranks are looked at once a step, in O(ranks). */
#include "base/stats.h"

#include <math.h>

static void swap_double(double *a, double *b)
{
	double t = *a;

	*a = *b;
	*b = t;
}

/* Reorders x so that x[k] is what sorting would put there, nothing larger before it, nothing
   smaller behind (Hoare 1961). Input that is sorted already is its best case. */
static void select_nth(double *x, size_t n, size_t k)
{
	ptrdiff_t low = 0, high = (ptrdiff_t)n - 1, at = (ptrdiff_t)k;

	while (low < high) {
		double pivot = x[at];
		ptrdiff_t i = low, j = high;

		do {
			while (x[i] < pivot)
				i++;
			while (pivot < x[j])
				j--;
			if (i <= j)
				swap_double(&x[i++], &x[j--]);
		} while (i <= j);
		if (j < at)
			low = i;
		if (at < i)
			high = j;
	}
}

double stats_select(double *x, size_t n, size_t k)
{
	select_nth(x, n, k);
	return x[k];
}

double stats_quantile(double *x, size_t n, double q)
{
	double at, next, part;
	size_t k;

	if (!n)
		return NAN;
	at = fmin(fmax(q, 0), 1) * (double)(n - 1);
	k = (size_t)at;
	part = at - (double)k;
	select_nth(x, n, k);
	if (part <= 0 || k + 1 >= n)
		return x[k];
	next = x[k + 1];
	for (size_t i = k + 2; i < n; i++)
		next = fmin(next, x[i]);
	return x[k] + part * (next - x[k]);
}

double stats_median(double *x, size_t n)
{
	return stats_quantile(x, n, 0.5);
}

double stats_mad(double *x, size_t n, double median)
{
	for (size_t i = 0; i < n; i++)
		x[i] = fabs(x[i] - median);
	return stats_median(x, n);
}

double stats_robust_z(double x, double median, double mad, double floor)
{
	double scale = fmax(1.4826 * mad, floor * fabs(median));

	if (scale > 0)
		return (x - median) / scale;
	return x > median ? INFINITY : x < median ? -INFINITY : 0;
}
