/* SPDX-License-Identifier: Apache-2.0 */
/* stats.h - small robust statistics over doubles. Arrays may be reordered where a function says so.
 */
#pragma once
#include "base/base.h"

double stats_select(double *x, size_t n,
		    size_t k);		  /* reorders x; k < n: what sorting would put at x[k] */
double stats_median(double *x, size_t n); /* reorders x; NAN if n == 0 */
double stats_quantile(double *x, size_t n, double q); /* reorders x; linear between ranks */
double stats_mad(double *x, size_t n, double median); /* overwrites x; not scaled */
/* Median and MAD with a relative floor: (x - median) / max(1.4826 mad, floor * median). */
double stats_robust_z(double x, double median, double mad, double floor);
