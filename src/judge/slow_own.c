/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_own.c - L1 and L2: whose own time is longer than that of the ranks that should look alike.
 *
 * Excess is measured against the role in the same step, so that what all share (longer sequences,
 * warm-up) is no excess. The noise is what is left of a row's excess when its own middle is taken
 * out; a row is blamed for steps that stand clear of it, or for a stretch that does so in sum.
 */
#include "base/stats.h"
#include "judge/judge_internal.h"

#include <math.h>

#define STRONG	     5.0   /* times the noise: one step suffices */
#define SHARE_STRONG 0.03  /* and at least this share of the step */
#define SHARE_WEAK   0.012 /* a stretch of steps: this share of each */
#define SCORE_WEAK   7.0   /* and this many standard errors in sum */
#define LEAST_NS     0.5e6 /* a host's or loader's delay below this is jitter, whatever its share */
#define NOISE_FLOOR  0.003 /* of the step */
#define LATE_SHARE   0.1   /* of the steps, lost by the middle rank in waiting for one */
#define LATE_OF_ALL  0.6   /* of all waiting */
#define QUIET	     0.35  /* of changes between steps, .. */
#define QUIET_SIGMAS 0.4538 /* .. which for normal noise lie below so many sigmas */
#define BLIP	     0.1    /* of the longest window: a shorter one beside it is chance */
#define DRIFT_STEPS  30u    /* or more, .. */
#define DRIFT_SHARE  0.25   /* .. a good part of the growth in each half of them, .. */
#define DRIFT_TIMES  1.4    /* .. to so much more than at first: it drifts */
#define DIP	     0.2    /* of an entry's mean excess: still the same stretch */
#define TRIFLE	     0.25   /* of the mean excess of rows that it could be joined with */
#define SAME_STEPS   0.5    /* Jaccard: rows that are slow at the same steps are one finding */

struct deviations {
	double *v;
	size_t n, cap;
};

static bool judged(const struct judge *j, uint32_t row, uint32_t t)
{
	return !j->moments[t].set_aside && point_of(j, row, t)->own >= 0;
}

/* Of two ranks that are alike one is always the reference, so half of all excesses are nothing. The
   noise of their work is how much the difference between them changes from step to step; a fault
   changes it too, but not in most steps, so the quieter changes count. */
static void noise_of_pair(const struct judge *j, uint32_t row, uint32_t other,
			  struct deviations *ret)
{
	struct deviations changes = { 0 };
	double before = NAN, quiet;

	for (uint32_t t = 0; row < other && t < j->n_steps; t++) {
		double now;

		if (!judged(j, row, t) || !judged(j, other, t))
			continue;
		now = (double)(point_of(j, row, t)->part[BLAME_COMPUTE] -
			       point_of(j, other, t)->part[BLAME_COMPUTE]);
		if (!isnan(before))
			*vec_push(&changes) = fabs(now - before) / M_SQRT2;
		before = now;
	}
	quiet = changes.n ? stats_quantile(changes.v, changes.n, QUIET) / QUIET_SIGMAS : 0;
	for (size_t i = 0; i < changes.n; i++)
		*vec_push(ret) = quiet / 1.4826; /* as a median deviation of that noise would be */
	free(changes.v);
}

/* By row, the other one of its role if the role has two; else NO_ID. malloc'd. */
static uint32_t *find_pairs(const struct judge *j)
{
	uint32_t *other = xmalloc((j->n_rows + 1) * sizeof(*other));
	_cleanup_free_ uint32_t *size = xcalloc(j->n_roles + 1, sizeof(*size));
	_cleanup_free_ uint32_t *sum = xcalloc(j->n_roles + 1, sizeof(*sum));

	for (uint32_t row = 0; row < j->n_rows; row++) {
		size[j->role[row]]++;
		sum[j->role[row]] += row;
	}
	for (uint32_t row = 0; row < j->n_rows; row++)
		other[row] = size[j->role[row]] == 2 ? sum[j->role[row]] - row : NO_ID;
	return other;
}

static double as_sigma(struct deviations *d)
{
	double sigma = d->n ? 1.4826 * stats_median(d->v, d->n) : 0;

	free(d->v);
	return sigma;
}

/* What excess is when nothing is wrong: about a row's own middle, and below its role. */
static double noise_of(struct judge *j, int b)
{
	struct deviations around = { 0 }, below = { 0 };
	_cleanup_free_ double *x = xmalloc((j->n_steps + 1) * sizeof(*x));
	_cleanup_free_ uint32_t *other = b == BLAME_COMPUTE ? find_pairs(j) : NULL;
	size_t steps = 0;
	double wall;

	for (uint32_t row = 0; row < j->n_rows; row++) {
		size_t n = 0;
		double middle;

		if (other && other[row] != NO_ID) {
			noise_of_pair(j, row, other[row], &around);
			continue;
		}
		for (uint32_t t = 0; t < j->n_steps; t++)
			if (judged(j, row, t))
				x[n++] = own_excess(j, row, t, b);
		middle = n ? lower_median(x, n) : 0;
		for (size_t i = 0; i < n; i++) {
			if (n >= 3)
				*vec_push(&around) = fabs(x[i] - middle);
			if (x[i] < 0)
				*vec_push(&below) = -x[i];
		}
	}
	for (uint32_t t = 0; t < j->n_steps; t++)
		if (!j->moments[t].set_aside)
			x[steps++] = j->moments[t].wall;
	wall = steps ? lower_median(x, steps) : 0;
	double a = as_sigma(&around), c = as_sigma(&below);

	j->measured[b] = fmax(a, c);
	return fmax(j->measured[b], NOISE_FLOOR * wall);
}

/* Steps that stand clear, then those beside them at half that height. Returns how many are on. */
static uint32_t strong_steps(const struct judge *j, uint32_t row, int b, bool *on)
{
	_cleanup_free_ double *x = xmalloc((j->n_steps + 1) * sizeof(*x));
	double sigma = j->sigma[b], typical;
	uint32_t n = 0, strong;

	for (uint32_t t = 0; t < j->n_steps; t++) {
		double e = judged(j, row, t) ? own_excess(j, row, t, b) : 0;

		on[t] = e > fmax(STRONG * sigma, SHARE_STRONG * j->moments[t].wall) &&
			own_excess(j, row, t, BLAMES) > 0.4 * e;
		if (on[t])
			x[n++] = e;
	}
	if (!n)
		return 0;
	typical = lower_median(x, n);
	strong = n;
	n = 0;
	for (uint32_t t = 0; t < j->n_steps; t++) {
		double e = judged(j, row, t) ? own_excess(j, row, t, b) : 0;

		on[t] |= e > fmax(0.5 * typical, fmax(2.5 * sigma, 0.01 * j->moments[t].wall)) &&
			 own_excess(j, row, t, BLAMES) > 0.4 * e;
	}
	for (uint32_t t = 1; t + 1 < j->n_steps; t++) /* one step that dips is no end */
		on[t] |= on[t - 1] && on[t + 1] && judged(j, row, t) &&
			 own_excess(j, row, t, b) > 0.25 * typical;
	for (uint32_t t = 0; t < j->n_steps; t++)
		n += on[t];
	if (2 * strong >= n)
		return n;
	memset(on, 0,
	       j->n_steps); /* mostly half-heights: no steps that stand clear, perhaps a stretch */
	return 0;
}

/* The stretch with the largest sum of excess above the least that matters (Kadane's scan). */
static uint32_t weak_stretch(const struct judge *j, uint32_t row, int b, bool *on)
{
	double sigma = j->sigma[b], sum = 0, best = 0;
	uint32_t from = 0, first = 0, last = 0, n = 0;
	double mean = 0;

	for (uint32_t t = 0; t < j->n_steps; t++) {
		if (judged(j, row, t))
			sum +=
			    own_excess(j, row, t, b) - fmax(sigma, SHARE_WEAK * j->moments[t].wall);
		if (sum <= 0) {
			sum = 0;
			from = t + 1;
		} else if (sum > best) {
			best = sum;
			first = from;
			last = t;
		}
	}
	if (best <= 0)
		return 0;
	for (uint32_t t = first; t <= last; t++)
		if (judged(j, row, t)) {
			mean += own_excess(j, row, t, b);
			n++;
		}
	mean /= MAX(n, 1u);
	if (n < 3 || mean * sqrt(n) < SCORE_WEAK * sigma)
		return 0;
	for (uint32_t t = first; t <= last; t++)
		on[t] = judged(j, row, t);
	return n;
}

static bool any_judged(const struct judge *j, const struct entry *e, uint32_t t)
{
	for (size_t i = 0; i < e->rows.n; i++)
		if (judged(j, e->rows.v[i], t))
			return true;
	return false;
}

/* Steps of which nothing is known are no end of a window. */
static void entry_measure(const struct judge *j, struct entry *e)
{
	bool in_window = false;
	uint32_t n = 0;

	e->mass_ns = e->base_ns = 0;
	e->n_on = e->windows = 0;
	for (uint32_t t = 0; t < j->n_steps; t++) {
		e->n_on += e->on[t];
		e->windows += e->on[t] && !in_window;
		in_window = e->on[t] || (in_window && !any_judged(j, e, t));
		for (size_t i = 0; e->on[t] && i < e->rows.n; i++) {
			if (!judged(j, e->rows.v[i], t))
				continue;
			e->mass_ns += own_excess(j, e->rows.v[i], t, (int)e->blame);
			e->base_ns += (double)ref_of(j, j->role[e->rows.v[i]], t)[e->blame];
			n++;
		}
	}
	e->mean_ns = e->mass_ns / MAX(n, 1u);
	e->base_ns /= MAX(n, 1u);
	e->strength = e->mean_ns / j->sigma[e->blame];
}

/* In a long history every rank is far out once: a step or two far from a window of many are no
   window of their own. */
static void drop_blips(const struct judge *j, bool *on)
{
	uint32_t longest = 0, n = 0;

	for (int pass = 0; pass < 2; pass++)
		for (uint32_t t = 0; t <= j->n_steps; t++) {
			if (t < j->n_steps && on[t]) {
				n++;
				continue;
			}
			longest = MAX(longest, n);
			if (pass && n < BLIP * longest)
				memset(on + t - n, 0, n);
			n = 0;
		}
}

static double overlap(const struct judge *j, const bool *a, const bool *b)
{
	uint32_t both = 0, any = 0;

	for (uint32_t t = 0; t < j->n_steps; t++) {
		both += a[t] && b[t];
		any += a[t] || b[t];
	}
	return any ? (double)both / any : 0;
}

/* Is the host really late, or is everybody's? Where all ranks are bound by their launches, the one
   whose host happens to be behind idles, and the others wait for it with their launches done: their
   hosts need as long. So its host must be busy for longer than its peers', or stop once for a good
   part of the loss. */
static bool host_is_late(const struct judge *j, uint32_t row, const struct entry *e)
{
	_cleanup_free_ double *x = xmalloc((j->n_rows + 1) * sizeof(*x));
	double busy = 0, stalled = 0;

	if (j->job->cpu_job)
		return true;
	for (uint32_t t = 0; t < j->n_steps; t++) {
		size_t n = 0;

		for (uint32_t other = 0; e->on[t] && other < j->n_rows; other++)
			if (j->role[other] == j->role[row] && judged(j, other, t))
				x[n++] = (double)point_of(j, other, t)->busy;
		if (n && judged(j, row, t)) {
			busy += (double)point_of(j, row, t)->busy - lower_median(x, n);
			stalled += (double)point_of(j, row, t)->stall;
		}
	}
	return busy > 0.4 * e->mass_ns || stalled > 0.4 * e->mass_ns;
}

/* The blames of one row: what is small beside another at the same steps goes with it. */
static void row_entries(struct judge *j, uint32_t row)
{
	struct entry own[BLAMES];
	uint32_t n = 0;

	for (int b = 0; b < BLAMES; b++) {
		struct entry e = { .blame = (enum blame)b, .node = NO_ID };

		e.on = arena_alloc(&j->scratch, j->n_steps + 1);
		if (!strong_steps(j, row, b, e.on) && !weak_stretch(j, row, b, e.on))
			continue;
		*vec_push(&e.rows) = row;
		entry_measure(j, &e);
		if ((b != BLAME_COMPUTE && e.mean_ns < LEAST_NS) ||
		    (b == BLAME_HOST && !host_is_late(j, row, &e))) {
			free(e.rows.v);
			continue;
		}
		own[n++] = e;
	}
	for (uint32_t i = 0; i < n; i++) {
		bool small = false;

		for (uint32_t k = 0; k < n; k++)
			small |= k != i && own[i].mass_ns < own[k].mass_ns &&
				 (own[i].mass_ns < 0.35 * own[k].mass_ns ||
				  overlap(j, own[i].on, own[k].on) > 0.3);
		if (small)
			free(own[i].rows.v);
		else
			*vec_push(&j->entries) = own[i];
	}
}

static int by_mass(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->mass_ns != y->mass_ns)
		return x->mass_ns > y->mass_ns ? -1 : 1;
	return x->rows.v[0] < y->rows.v[0] ? -1 : x->rows.v[0] > y->rows.v[0];
}

int by_row(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static enum cause cause_of(const struct entry *e)
{
	switch (e->blame) {
	case BLAME_COMPUTE:
		return e->windows > 1 ? CAUSE_THROTTLING : CAUSE_COMPUTE_STRAGGLER;
	case BLAME_DATA:
		return CAUSE_DATA_STARVED;
	case BLAME_SAVE:
		return CAUSE_CHECKPOINT;
	case BLAME_HOST:
		return CAUSE_HOST_STALL;
	default:
		return CAUSE_UNKNOWN;
	}
}

/* Steps set aside as warm-up show more compute on all ranks, but a host or loader that is as late
   there as afterwards was so from then on. */
static void reach_back(const struct judge *j, struct entry *e)
{
	uint32_t first = 0;

	while (first < j->n_steps && !e->on[first])
		first++;
	for (uint32_t t = first; t-- > 0 && j->moments[t].set_aside;) {
		double sum = 0;

		for (size_t i = 0; i < e->rows.n; i++)
			sum += point_of(j, e->rows.v[i], t)->own >= 0
				   ? own_excess(j, e->rows.v[i], t, (int)e->blame)
				   : 0;
		if (sum < 0.4 * e->mean_ns * (double)e->rows.n)
			break;
		e->on[t] = true;
		e->n_on++;
	}
}

/* One step in which the excess of an entry's rows dips is no end of a window. */
static void fill_dips(const struct judge *j, struct entry *e)
{
	for (uint32_t t = 1; t + 1 < j->n_steps; t++) {
		double sum = 0;
		uint32_t n = 0;

		if (e->on[t] || !e->on[t - 1] || !e->on[t + 1])
			continue;
		for (size_t i = 0; i < e->rows.n; i++)
			if (judged(j, e->rows.v[i], t)) {
				sum += own_excess(j, e->rows.v[i], t, (int)e->blame);
				n++;
			}
		e->on[t] = n && sum / n > DIP * e->mean_ns;
	}
}

/* Steps set aside between two that are on are no end of a window: a run began in them. */
void bridge_warm_up(const struct judge *j, bool *on)
{
	for (uint32_t t = 1, end; t < j->n_steps; t = end) {
		end = t + 1;
		if (!on[t - 1] || !j->moments[t].set_aside)
			continue;
		while (end < j->n_steps && j->moments[end].set_aside)
			end++;
		if (end < j->n_steps && on[end])
			memset(on + t, 1, end - t);
	}
}

/* Of the steps that both have. */
static bool same_steps(const struct judge *j, const struct entry *a, const struct entry *b)
{
	uint32_t both = 0, any = 0;

	for (uint32_t t = 0; t < j->n_steps; t++) {
		if (!any_judged(j, a, t) || !any_judged(j, b, t))
			continue;
		both += a->on[t] && b->on[t];
		any += a->on[t] || b->on[t];
	}
	return any && both >= SAME_STEPS * any;
}

/* Beside a machine that is far slower, one that is a little so is not slow for the same reason. */
static bool is_trifle(const struct entry *first, const struct entry *e)
{
	return e->blame == BLAME_COMPUTE && e->mean_ns < TRIFLE * first->mean_ns;
}

/* Joins rows that are slow for the same reason at the same steps; the largest takes the others in.
 */
static void join_entries(struct judge *j)
{
	size_t n = 0;

	if (j->entries.n)
		qsort(j->entries.v, j->entries.n, sizeof(*j->entries.v), by_mass);
	for (size_t i = 0; i < j->entries.n; i++) {
		struct entry *e = &j->entries.v[i];
		size_t k = 0;

		while (k < n &&
		       (j->entries.v[k].blame != e->blame || is_trifle(&j->entries.v[k], e) ||
			!same_steps(j, &j->entries.v[k], e)))
			k++;
		if (k < n) {
			*vec_push(&j->entries.v[k].rows) = e->rows.v[0];
			free(e->rows.v);
		} else {
			j->entries.v[n++] = *e;
		}
	}
	j->entries.n = n;
	for (size_t i = 0; i < n; i++) {
		struct entry *e = &j->entries.v[i];

		qsort(e->rows.v, e->rows.n, sizeof(*e->rows.v), by_row);
		for (uint32_t t = 0; t < j->n_steps;
		     t++) { /* a step counts if half of the rows say so */
			uint32_t high = 0, known = 0;

			for (size_t k = 0; k < e->rows.n; k++) {
				known += judged(j, e->rows.v[k], t);
				high += judged(j, e->rows.v[k], t) &&
					own_excess(j, e->rows.v[k], t, (int)e->blame) >
					    0.4 * e->mean_ns;
			}
			if (e->rows.n > 1)
				e->on[t] = known && 2 * high >= known;
		}
		bridge_warm_up(j, e->on);
		drop_blips(j, e->on);
		fill_dips(j, e);
		entry_measure(j, e);
		e->cause = cause_of(e);
		if (e->blame != BLAME_COMPUTE)
			reach_back(j, e);
	}
}

/* The rows of one machine, all of those given, are named as the machine. */
static void name_nodes(struct judge *j)
{
	for (size_t i = 0; i < j->entries.n; i++) {
		struct entry *e = &j->entries.v[i];
		uint32_t node = j->node[e->rows.v[0]], all = 0, role = 0;

		for (uint32_t row = 0; row < j->n_rows; row++) {
			all += j->node[row] == node;
			role += j->role[row] == j->role[e->rows.v[0]];
		}
		for (size_t k = 0; k < e->rows.n; k++)
			if (j->node[e->rows.v[k]] != node)
				all = 0;
		e->node = j->n_nodes > 1 && all > 1 && all == e->rows.n ? node : NO_ID;
		e->doubt_half = e->blame == BLAME_COMPUTE && 2 * e->rows.n >= role &&
				e->n_on + 1 >= j->n_steps && role > 1;
	}
}

/* One or two steps have no noise to compare with: here the arrivals speak. The rank that the others
   stood waiting for, for most of all waiting, and no little of the step. */
bool late_entry(struct judge *j, struct entry *ret)
{
	struct entry e = { .blame = BLAME_LATE, .cause = CAUSE_UNKNOWN, .node = NO_ID };
	double all = 0, wall = 0, lost, most = 0;
	uint32_t who = 0;

	for (uint32_t row = 0; row < j->n_rows; row++) {
		all += j->caused[row];
		who = j->caused[row] > j->caused[who] ? row : who;
	}
	for (uint32_t t = 0; t < j->n_steps; t++)
		wall += j->moments[t].wall;
	lost = j->caused[who] / MAX(j->n_rows - 1, 1u);
	if (j->n_rows < 3 || lost < LATE_SHARE * wall || j->caused[who] < LATE_OF_ALL * all)
		return false;
	e.on = arena_alloc(&j->scratch, j->n_steps + 1);
	memset(e.on, 1, j->n_steps);
	*vec_push(&e.rows) = who;
	for (int b = 0; b < BLAMES; b++) { /* what it did meanwhile, as far as the step shows it */
		double x = 0;

		for (uint32_t t = 0; t < j->n_steps; t++)
			x += judged(j, who, t) ? own_excess(j, who, t, b) : 0;
		if (x > most && x > 0.5 * lost) {
			most = x;
			e.blame = (enum blame)b;
		}
	}
	entry_measure(j, &e);
	e.cause = cause_of(&e);
	e.windows = 1;
	e.mass_ns = e.saved_ns = lost;
	e.spent_ns = wall;
	e.strength = 5 * j->caused[who] / all;
	*ret = e;
	return true;
}

/* The excess of an entry over what its peers needed, in each of its steps; returns how many. */
static size_t ratios_of(const struct judge *j, const struct entry *e, double *x)
{
	size_t n = 0;

	for (uint32_t t = 0; t < j->n_steps; t++) {
		double over = 0, base = 0;

		for (size_t i = 0; e->on[t] && i < e->rows.n; i++)
			if (judged(j, e->rows.v[i], t)) {
				over += own_excess(j, e->rows.v[i], t, (int)e->blame);
				base += (double)ref_of(j, j->role[e->rows.v[i]], t)[e->blame];
			}
		if (base > 0)
			x[n++] = over / base;
	}
	return n;
}

/* How much the excess of an entry varies from step to step, against its own middle: a slow machine
   is slow by the same factor each time, or by one that drifts, uneven work is not. 0 with fewer
   than three steps. */
static double unsteadiness(const struct judge *j, const struct entry *e)
{
	_cleanup_free_ double *x = xmalloc((j->n_steps + 1) * sizeof(*x));
	_cleanup_free_ double *change = xmalloc((j->n_steps + 1) * sizeof(*change));
	size_t n = ratios_of(j, e, x);
	double middle, spread;

	if (n < 3)
		return 0;
	for (size_t i = 1; i < n; i++)
		change[i - 1] = x[i] - x[i - 1];
	middle = stats_median(x, n);
	spread = stats_mad(x, n, middle);
	/* of two steps of the same noise: what a drift does not add to */
	spread = fmin(spread, stats_mad(change, n - 1, stats_median(change, n - 1)) / M_SQRT2);
	return spread / fmax(middle, 1e-9);
}

/* An excess that grows all the time that it lasts, to the end of what was given: by how much. */
static void measure_drift(const struct judge *j, struct entry *e)
{
	_cleanup_free_ double *x = xmalloc((j->n_steps + 1) * sizeof(*x));
	size_t n = ratios_of(j, e, x), third = n / 3;
	double first, middle, last;

	if (n < DRIFT_STEPS || e->blame != BLAME_COMPUTE || !e->on[j->n_steps - 1])
		return;
	last = stats_median(x + n - third, third);
	middle = stats_median(x + third, n - 2 * third);
	first = stats_median(x, third);
	if (middle - first < DRIFT_SHARE * (last - first) ||
	    last - middle < DRIFT_SHARE * (last - first) || last < DRIFT_TIMES * first)
		return;
	e->drift = (last - first) / (double)(n - third);
	e->lately = last;
}

void own_entries(struct judge *j)
{
	for (int b = 0; b < BLAMES; b++)
		j->sigma[b] = noise_of(j, b);
	if (j->n_rows < 2)
		return;
	for (uint32_t row = 0; row < j->n_rows; row++)
		row_entries(j, row);
	join_entries(j);
	name_nodes(j);
	for (size_t i = 0; i < j->entries.n; i++) {
		j->entries.v[i].unsteady = unsteadiness(j, &j->entries.v[i]);
		measure_drift(j, &j->entries.v[i]);
	}
}
