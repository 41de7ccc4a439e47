/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_reference.c - what the ranks of a role needed in a step: the measure of everybody's excess.
 *
 * The middle of the role's rows, which a minority cannot move. Where a whole role moves together,
 * or has one row only, its own past, with what moved the other roles taken out.
 */
#include "base/stats.h"
#include "judge/judge_internal.h"

#include <math.h>

#define LEVEL_RISE  1.06  /* of a role's middle against its past */
#define LEVEL_NEAR  0.025 /* of the past: a rank that stayed where all were */
#define STALL_TIMES 3.0	  /* what the other roles wait for: a whole role stands out */
#define STALL_SHARE 0.01  /* of the step, at least */
#define ROLE_RISE   0.08  /* of what a role needs, for it to be slow as a whole */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

double lower_median(double *x, size_t n)
{
	if (!n)
		return NAN;
	return stats_select(x, n, (n - 1) / 2);
}

/* The middle of the fastest values if at least `least` of them lie close together, clear of the
   rest; else the lower median. Reorders x. */
static double fast_mode(double *x, size_t n, size_t least)
{
	double middle = lower_median(x, n);

	if (n >= 4) /* what is looked at lies below it */
		qsort(x, (n - 1) / 2 + 1, sizeof(*x), by_value);
	for (size_t i = MAX(least, (size_t)2) - 1; n >= 4 && i + 1 <= (n - 1) / 2; i++) {
		double width = x[i] - x[0], gap = x[i + 1] - x[i];

		if (gap > 0.08 * x[i] && gap > 3 * width)
			return x[i / 2];
	}
	return middle;
}

double robust_reference(double *x, size_t n)
{
	return fast_mode(x, n, (n + 3) / 4);
}

static double part_of(const struct point *p, int b)
{
	return b == BLAMES ? (double)p->own : (double)p->part[b];
}

/* A role of one has no peers: its own middle over time, moved by what moved the other roles. */
static void reference_from_past(struct judge *j, uint32_t role, uint32_t row, const double *common)
{
	_cleanup_free_ double *x = xmalloc((j->n_steps + 1) * sizeof(*x));

	for (int b = 0; b <= BLAMES; b++) {
		size_t n = 0;
		double middle;

		for (uint32_t t = 0; t < j->n_steps; t++)
			if (!j->moments[t].set_aside && point_of(j, row, t)->own >= 0)
				x[n++] = part_of(point_of(j, row, t), b) / common[t];
		middle =
		    n ? b == BLAME_COMPUTE || b == BLAMES ? fast_mode(x, n, 2) : lower_median(x, n)
		      : 0;
		for (uint32_t t = 0; t < j->n_steps; t++)
			ref_of(j, role, t)[b] = (float)(middle * common[t]);
	}
}

/* What each role needed at each step before roles are compared with their past: its reference, or
   the work of its only row. [role * n_steps + step] */
static double *role_levels(const struct judge *j, const uint32_t *size)
{
	double *level = xcalloc((size_t)j->n_roles * j->n_steps + 1, sizeof(*level));

	for (uint32_t row = 0; row < j->n_rows; row++)
		for (uint32_t t = 0; t < j->n_steps; t++)
			level[(size_t)j->role[row] * j->n_steps + t] =
			    size[j->role[row]] > 1
				? (double)ref_of(j, j->role[row], t)[BLAME_COMPUTE]
				: fmax(0, (double)point_of(j, row, t)->part[BLAME_COMPUTE]);
	return level;
}

/* How much more than usual the other roles worked at each step: the middle over them of what each
   needed against its own middle. All 1 if there are none. */
static void common_work(const struct judge *j, uint32_t role, const double *level, double *common)
{
	_cleanup_free_ double *x = xmalloc((MAX(j->n_roles, j->n_steps) + 1) * sizeof(*x));
	_cleanup_free_ double *middle = xcalloc(j->n_roles + 1, sizeof(*middle));

	for (uint32_t other = 0; other < j->n_roles; other++) {
		memcpy(x, level + (size_t)other * j->n_steps, j->n_steps * sizeof(*x));
		middle[other] = other != role ? lower_median(x, j->n_steps) : 0;
	}
	for (uint32_t t = 0; t < j->n_steps; t++) {
		size_t n = 0;

		for (uint32_t other = 0; other < j->n_roles; other++)
			if (middle[other] > 0 && level[(size_t)other * j->n_steps + t] > 0)
				x[n++] = level[(size_t)other * j->n_steps + t] / middle[other];
		common[t] = n ? lower_median(x, n) : 1;
	}
}

/* Mean distance from the middle, as a share of it. */
static double scatter_of(const double *x, size_t n)
{
	_cleanup_free_ double *y = xmalloc((n + 1) * sizeof(*y));
	double middle, sum = 0;

	if (!n)
		return 0;
	memcpy(y, x, n * sizeof(*x));
	middle = stats_median(y, n);
	for (size_t i = 0; i < n; i++)
		sum += fabs(x[i] - middle);
	return sum / (double)n / fmax(middle, 1e-9);
}

/* What moved the others need not have moved this one (a machine of several stages that got slow, or
   the one other role there is): where a role is steadier by itself than beside the others, it is
   taken by itself. */
static void drop_foreign_moves(const struct judge *j, uint32_t role, const double *level,
			       double *common)
{
	_cleanup_free_ double *raw = xmalloc((j->n_steps + 1) * sizeof(*raw));
	_cleanup_free_ double *beside = xmalloc((j->n_steps + 1) * sizeof(*beside));
	size_t n = 0;

	for (uint32_t t = 0; t < j->n_steps; t++) {
		double own = level[(size_t)role * j->n_steps + t];

		if (j->moments[t].set_aside || own <= 0 || common[t] <= 0)
			continue;
		raw[n] = own;
		beside[n++] = own / common[t];
	}
	if (scatter_of(raw, n) >= scatter_of(beside, n))
		return;
	for (uint32_t t = 0; t < j->n_steps; t++)
		common[t] = 1;
}

/* What a role needed where it was high, over what it needed elsewhere; 0: it was never one of both.
 */
static double rise_of(const struct judge *j, const double *level, const bool *high)
{
	_cleanup_free_ double *up = xmalloc((j->n_steps + 1) * sizeof(*up));
	_cleanup_free_ double *down = xmalloc((j->n_steps + 1) * sizeof(*down));
	size_t n_up = 0, n_down = 0;

	for (uint32_t t = 0; t < j->n_steps; t++) {
		if (j->moments[t].set_aside || level[t] <= 0)
			continue;
		if (high[t])
			up[n_up++] = level[t];
		else
			down[n_down++] = level[t];
	}
	return n_up > 1 && n_down > 1 ? stats_median(up, n_up) / stats_median(down, n_down) : 0;
}

/* Of two roles one may have got slower, or the other faster: did this one move, and the other not?
 */
static bool moved_alone(const struct judge *j, uint32_t role, const double *level, const bool *high)
{
	double other = rise_of(j, level + (size_t)(1 - role) * j->n_steps, high);

	return rise_of(j, level + (size_t)role * j->n_steps, high) > 1 + ROLE_RISE &&
	       fabs(other - 1) < LEVEL_NEAR;
}

/* A whole role that gets slower together has no peers left: what it needed in its fastest steps,
   the others' change taken out, is what it is measured against. */
static void role_against_past(struct judge *j, uint32_t role, const double *level, double *common)
{
	_cleanup_free_ double *x = xmalloc((j->n_steps + 1) * sizeof(*x));
	_cleanup_free_ bool *high = xcalloc(j->n_steps + 1, 1);
	size_t n = 0, risen = 0;
	bool from_start = false;
	double mode;

	for (uint32_t t = 0; t < j->n_steps; t++)
		if (!j->moments[t].set_aside && ref_of(j, role, t)[BLAME_COMPUTE] > 0)
			x[n++] = (double)ref_of(j, role, t)[BLAME_COMPUTE] / common[t];
	if (n < 4)
		return;
	mode = fast_mode(x, n, 2);
	for (uint32_t t = 0, first = 1; t < j->n_steps; t++) {
		high[t] = !j->moments[t].set_aside && (double)ref_of(j, role, t)[BLAME_COMPUTE] >
							  (1 + ROLE_RISE) * mode * common[t];
		from_start |= high[t] && first;
		first &= j->moments[t].set_aside;
		risen += high[t];
	}
	/* Of two roles the other may as well have been faster for a while, or have got slower
	 * since. */
	if (j->n_roles == 2 && (from_start || !moved_alone(j, role, level, high)) &&
	    (2 * risen > n || from_start))
		return;
	for (uint32_t t = 0; t < j->n_steps; t++) {
		float *ref = ref_of(j, role, t);
		float lowered = ref[BLAME_COMPUTE] - (float)(mode * common[t]);

		if (j->moments[t].set_aside || (double)lowered < ROLE_RISE * mode * common[t])
			continue;
		ref[BLAME_COMPUTE] -= lowered;
		ref[BLAMES] -= lowered;
	}
}

/* Most of a role got slower at one step and a few did not: then these few, who are where all were
   before, are what the others are measured against. Only where the role's work is steady from step
   to step. */
static void keep_past_level(struct judge *j, uint32_t role)
{
	_cleanup_free_ double *x = xmalloc((MAX(j->n_rows, j->n_steps) + 1) * sizeof(*x));
	_cleanup_free_ double *past = xmalloc((j->n_steps + 1) * sizeof(*past));
	size_t n_past = 0;

	for (uint32_t t = 0; t < j->n_steps; t++) {
		float *ref = &ref_of(j, role, t)[BLAME_COMPUTE];
		double level, spread;
		float lowered = 0;
		size_t n = 0;

		if (j->moments[t].set_aside)
			continue;
		if (n_past >= 2) {
			memcpy(x, past, n_past * sizeof(*x));
			level = stats_median(x, n_past);
			spread = stats_mad(x, n_past, level);
			for (const uint32_t *row = role_rows(j, role);
			     row < role_end(j, role) && (double)*ref > LEVEL_RISE * level; row++) {
				const struct point *p = point_of(j, *row, t);

				if (p->own >= 0 && fabs((double)p->part[BLAME_COMPUTE] - level) <
						       LEVEL_NEAR * level)
					x[n++] = (double)p->part[BLAME_COMPUTE];
			}
			if (n && spread < LEVEL_NEAR / 2 * level)
				lowered = *ref - (float)lower_median(x, n);
			*ref -= lowered;
			ref_of(j, role, t)[BLAMES] -= lowered;
		}
		past[n_past++] = (double)*ref;
	}
}

/* What a whole role's GPUs wait for, hosts, data or a save, no peer in it shows. Ranks of other
   roles have other work, but all wait for next to nothing of these: so the other roles tell. Of two
   roles the past has to agree. */
static void stalls_against_others(struct judge *j, int b)
{
	_cleanup_free_ double *x = xmalloc((MAX(j->n_roles, j->n_steps) + 1) * sizeof(*x));
	_cleanup_free_ double *past = xcalloc(j->n_roles + 1, sizeof(*past));

	for (uint32_t role = 0; role < j->n_roles; role++) {
		size_t n = 0;

		for (uint32_t t = 0; t < j->n_steps; t++)
			if (!j->moments[t].set_aside)
				x[n++] = (double)ref_of(j, role, t)[b];
		past[role] = n ? stats_quantile(x, n, 0.25) : 0;
	}
	for (uint32_t t = 0; t < j->n_steps; t++) {
		double others;

		if (j->moments[t].set_aside)
			continue;
		for (uint32_t role = 0; role < j->n_roles; role++)
			x[role] = (double)ref_of(j, role, t)[b];
		others = lower_median(x, j->n_roles);
		for (uint32_t role = 0; role < j->n_roles; role++) {
			float *ref = ref_of(j, role, t);
			double now = (double)ref[b];

			if (now < STALL_TIMES * others ||
			    now - others < STALL_SHARE * j->moments[t].wall ||
			    (j->n_roles == 2 && now < STALL_TIMES * past[role]))
				continue;
			ref[BLAMES] -= (float)(now - others);
			ref[b] = (float)others;
		}
	}
}

void own_references(struct judge *j)
{
	_cleanup_free_ double *x = xmalloc((j->n_rows + 1) * sizeof(*x));
	_cleanup_free_ double *common = xmalloc((j->n_steps + 1) * sizeof(*common));
	_cleanup_free_ uint32_t *size = xcalloc(j->n_roles + 1, sizeof(*size));
	_cleanup_free_ double *level = NULL;
	_cleanup_free_ bool *role_seen = xcalloc(j->n_roles + 1, sizeof(*role_seen));

	j->ref = xcalloc((size_t)j->n_roles * j->history * (BLAMES + 1), sizeof(*j->ref));
	for (uint32_t row = 0; row < j->n_rows; row++)
		size[j->role[row]]++;
	for (uint32_t role = 0; role < j->n_roles; role++)
		for (uint32_t t = 0; size[role] > 1 && t < j->n_steps; t++)
			for (int b = 0; b <= BLAMES; b++) {
				size_t n = 0;

				for (const uint32_t *row = role_rows(j, role);
				     row < role_end(j, role); row++)
					if (point_of(j, *row, t)->own >= 0)
						x[n++] = part_of(point_of(j, *row, t), b);
				if (n)
					ref_of(j, role, t)[b] =
					    (float)(b == BLAME_COMPUTE || b == BLAMES
							? robust_reference(x, n)
							: lower_median(x, n));
			}
	for (uint32_t role = 0; role < j->n_roles; role++)
		if (size[role] > 2)
			keep_past_level(j, role);
	level = role_levels(j, size);
	for (uint32_t row = 0; row < j->n_rows; row++) {
		uint32_t role = j->role[row];

		if (size[role] != 1 && (j->n_roles < 2 || role_seen[role]))
			continue;
		role_seen[role] = true;
		common_work(j, role, level, common);
		if (j->n_roles > 1)
			drop_foreign_moves(j, role, level, common);
		if (size[role] == 1)
			reference_from_past(j, role, row, common);
		else
			role_against_past(j, role, level, common);
	}
	for (int b = 0; b < BLAMES && j->n_roles > 1; b++)
		if (b == BLAME_HOST || b == BLAME_DATA || b == BLAME_SAVE)
			stalls_against_others(j, b);
}

double own_excess(const struct judge *j, uint32_t row, uint32_t t, int b)
{
	return part_of(point_of(j, row, t), b) - (double)ref_of(j, j->role[row], t)[b];
}
