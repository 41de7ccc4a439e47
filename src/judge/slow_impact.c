/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_impact.c - what a suspect costs, by replaying the steps without it; and the two faults that
 * are nobody's: work that differs from step to step, and stages that differ from the start.
 */
#include "base/stats.h"
#include "judge/judge_internal.h"

#include <math.h>

#define STAGE_MIN      1.05 /* own work of the heaviest stage over the others' middle */
#define SPREAD_MIN     0.05 /* of the step: the largest excess, mean over steps, for uneven work */
#define SPREAD_MIN_CPU 0.25 /* the same where CPUs do the work and share them */
#define SHARE_MAX      0.7  /* of that loss, with one rank among the most loaded */
#define CHANGES_MIN    3u   /* of the most loaded rank */
#define WEIGHT_MIN     0.2  /* of the largest blame for compute: less is noise beside it */
#define CHANCE	       1.3  /* times the largest of so many normal ones */
#define UNSTEADY       0.2  /* how much the excess of a slow machine may vary */
#define UNSTEADY_CPU   0.5  /* the same where CPUs are shared */
#define STANDS_STEPS   8u   /* or more, .. */
#define STANDS_WINDOW  4u   /* .. so many in a row, on the mean, .. */
#define BLIPS_MIN      3u   /* windows of under three steps each, on several machines at once */
#define STANDS_LEAST   3.0  /* .. at least so far out in a step, .. */
#define STANDS_SUM     20.0 /* .. and so far in all of them together, or .. */
#define STANDS_SIGMAS  5.0  /* .. so far out: a machine's, whatever else varies */
#define NOISY	       0.08 /* of the work, as noise: machines do not vary so much, work does */
#define NOISY_CPU      0.4

static bool replayed(const struct judge *j, uint32_t t)
{
	return j->moments[t].replay && !j->moments[t].set_aside;
}

static double run(const struct judge *j, uint32_t t, const struct what_if *w)
{
	return replay_run(j, j->moments[t].replay, t, w);
}

/* Marks what entry e would mend. */
static void mark(const struct entry *e, bool *rows, bool *units)
{
	for (size_t i = 0; i < e->rows.n && e->cause != CAUSE_COMM_LINK; i++)
		rows[e->rows.v[i]] = true;
	for (size_t i = 0; i < e->units.n; i++)
		units[e->units.v[i]] = true;
}

/* No step gets shorter by more than what its suspects did in excess: a row that does all that its
   peers do also gets rid of what it is not blamed for. */
static double excess_of(const struct judge *j, const struct entry *e, uint32_t t)
{
	double sum = 0;

	for (size_t i = 0; i < e->rows.n; i++)
		if (point_of(j, e->rows.v[i], t)->own >= 0)
			sum += fmax(0, own_excess(j, e->rows.v[i], t, (int)e->blame));
	return e->cause == CAUSE_COMM_LINK ? INFINITY : sum;
}

/* Steps of large jobs whose replay had to go lost, on the mean, what those lost that are kept. */
static void for_all_steps(const struct judge *j, struct entry *e)
{
	uint32_t kept = 0, on = 0;

	for (uint32_t t = 0; t < j->n_steps; t++) {
		on += e->on[t] && !j->moments[t].set_aside;
		kept += e->on[t] && replayed(j, t);
	}
	if (!kept || kept == on)
		return;
	e->spent_ns *= (double)on / kept;
	e->saved_ns *= (double)on / kept;
	e->extra_ns *= (double)on / kept;
}

/* The lower median of the steps in which nobody is blamed, or else e is not. 0: there are none. */
static double usual_wall(const struct judge *j, const struct entry *e)
{
	_cleanup_free_ double *x = xmalloc((j->n_steps + 1) * sizeof(*x));
	size_t n = 0;

	for (int strict = 1; strict >= 0 && !n; strict--)
		for (uint32_t t = 0; t < j->n_steps; t++) {
			bool on = e->on[t] || j->moments[t].set_aside;

			for (size_t i = 0; strict && i < j->entries.n; i++)
				on |= j->entries.v[i].on[t];
			if (!on)
				x[n++] = j->moments[t].wall;
		}
	return n ? lower_median(x, n) : 0;
}

/* Of large jobs few replays are kept. Where none is of its steps, these are longer than others by
   what it costs. */
static void cost_by_walls(const struct judge *j, struct entry *e)
{
	double usual = usual_wall(j, e);

	for (uint32_t t = 0; t < j->n_steps && usual > 0; t++) {
		if (!e->on[t] || j->moments[t].set_aside)
			continue;
		e->spent_ns += j->moments[t].wall;
		e->saved_ns += fmin(excess_of(j, e, t), fmax(0, j->moments[t].wall - usual));
	}
}

/* The time saved in its steps by mending it: alone, or last of all, whichever is more: where two
   faults hide each other, neither saves anything alone. */
void entry_impact(struct judge *j, struct entry *e)
{
	_cleanup_free_ bool *rows = xcalloc(j->n_rows, 1), *all_rows = xcalloc(j->n_rows, 1);
	_cleanup_free_ bool *but_rows = xcalloc(j->n_rows, 1);
	_cleanup_free_ bool *units = xcalloc(j->links.n + 1, 1),
			    *all_units = xcalloc(j->links.n + 1, 1);
	_cleanup_free_ bool *but_units = xcalloc(j->links.n + 1, 1);
	double alone = 0, last = 0;

	e->spent_ns = 0;
	mark(e, rows, units);
	for (size_t i = 0; i < j->entries.n; i++) {
		mark(&j->entries.v[i], all_rows, all_units);
		if (&j->entries.v[i] != e)
			mark(&j->entries.v[i], but_rows, but_units);
	}
	for (uint32_t t = 0; t < j->n_steps; t++) {
		struct what_if none = { 0 }, mended = { .rows = rows, .units = units };
		struct what_if all = { .rows = all_rows, .units = all_units };
		struct what_if but = { .rows = but_rows, .units = but_units };
		double before, most;

		if (!e->on[t] || !replayed(j, t))
			continue;
		before = run(j, t, &none);
		most = excess_of(j, e, t);
		e->spent_ns += before;
		alone += fmin(most, before - run(j, t, &mended));
		if (j->entries.n > 1)
			last += fmin(most, run(j, t, &but) - run(j, t, &all));
	}
	e->saved_ns = fmax(0, fmax(alone, last));
	if (e->spent_ns <= 0)
		cost_by_walls(j, e);
	for_all_steps(j, e);
}

/* A slow machine that stands out on its own: for a while, by the same factor, far from all noise.
   Rows that are slow together are known better than one. */
static bool stands_out(const struct judge *j, const struct entry *e)
{
	double sigma = j->sigma[BLAME_COMPUTE] / sqrt((double)MAX(e->rows.n, (size_t)1));
	double noise = sigma / fmax(e->mean_ns, 1), unsteady;

	if (e->blame != BLAME_COMPUTE || !e->n_on)
		return false;
	unsteady = sqrt(fmax(0, e->unsteady * e->unsteady - noise * noise));
	return e->n_on >= STANDS_STEPS && e->n_on >= STANDS_WINDOW * MAX(e->windows, 1u) &&
	       unsteady <= (j->job->cpu_job ? UNSTEADY_CPU : UNSTEADY) &&
	       (e->mean_ns > STANDS_SIGMAS * sigma ||
		(e->mean_ns > STANDS_LEAST * sigma &&
		 e->mean_ns * sqrt(e->n_on) > STANDS_SUM * sigma));
}

/* Steps in which such a machine is slow say nothing of how work is spread. */
static void note_stood_out(const struct judge *j, bool *steps)
{
	for (size_t i = 0; i < j->entries.n; i++)
		for (uint32_t t = 0; t < j->n_steps && stands_out(j, &j->entries.v[i]); t++)
			steps[t] |= j->entries.v[i].on[t];
}

static double work_excess(const struct judge *j, uint32_t row, uint32_t t)
{
	const struct point *p = point_of(j, row, t);

	return p->own < 0
		   ? 0
		   : (double)(p->part[BLAME_COMPUTE] - ref_of(j, j->role[row], t)[BLAME_COMPUTE]);
}

/* Per row, the share of the loss of all steps in which it is among the most loaded; and how often
   the most loaded row changes to one that was not near the top before. Fills e->on and its sums. */
static double share_of_most_loaded(const struct judge *j, struct entry *e)
{
	_cleanup_free_ double *share = xcalloc(j->n_rows + 1, sizeof(*share));
	_cleanup_free_ bool *top = xcalloc(j->n_rows + 1, 1);
	_cleanup_free_ bool *stood = xcalloc(j->n_steps + 1, 1);
	double spread = 0, best = 0;

	note_stood_out(j, stood);

	for (uint32_t t = 0; t < j->n_steps; t++) {
		double most = 0;
		uint32_t who = NO_ID;

		for (uint32_t row = 0; row < j->n_rows && !j->moments[t].set_aside && !stood[t];
		     row++)
			if (work_excess(j, row, t) > most) {
				most = work_excess(j, row, t);
				who = row;
			}
		e->on[t] = who != NO_ID && most > 0.02 * j->moments[t].wall;
		if (!e->on[t])
			continue;
		e->n_on++;
		e->windows += !top[who];
		spread += most;
		for (uint32_t row = 0; row < j->n_rows; row++) {
			top[row] = work_excess(j, row, t) > 0.7 * most;
			share[row] += top[row] ? most : 0;
		}
	}
	for (uint32_t row = 0; row < j->n_rows; row++)
		best = fmax(best, share[row]);
	e->mass_ns = spread;
	e->mean_ns = spread / MAX(e->n_on, 1u);
	return spread > 0 ? best / spread : 1;
}

/* What a blame for compute has to weigh, to be no trifle beside the largest. */
static double weight_least(const struct judge *j)
{
	double most = 0;

	for (size_t i = 0; i < j->entries.n; i++)
		if (j->entries.v[i].blame == BLAME_COMPUTE)
			most = fmax(most, j->entries.v[i].mass_ns);
	return WEIGHT_MIN * most;
}

static bool weighs(const struct entry *e, double least)
{
	return e->blame == BLAME_COMPUTE && e->mass_ns >= least;
}

/* How often the blame for compute passes from one set of ranks to another: machines do not take
 * turns. */
static uint32_t turns(const struct judge *j)
{
	const struct entry *before = NULL;
	double least = weight_least(j);
	uint32_t n = 0;

	for (uint32_t t = 0; t < j->n_steps; t++) {
		const struct entry *now = NULL;

		for (size_t i = 0; i < j->entries.n; i++)
			if (j->entries.v[i].on[t] && weighs(&j->entries.v[i], least))
				now = now ? now : &j->entries.v[i];
		if (!now)
			continue;
		n += before && before != now;
		before = now;
	}
	return n;
}

/* Several sets of ranks are slow by turns, a step or two at a time: so is work that differs. A
   machine that throttles does so for a while. */
bool work_takes_turns(const struct judge *j)
{
	double least = weight_least(j);
	uint32_t on = 0, windows = 0;

	for (size_t i = 0; i < j->entries.n; i++)
		if (weighs(&j->entries.v[i], least)) {
			on += j->entries.v[i].n_on;
			windows += j->entries.v[i].windows;
		}
	return on < 2 * windows && turns(j) >= CHANGES_MIN;
}

/* Of many ranks one is always far out: is the most loaded no further than chance has it, where the
   work as such varies little? */
static bool is_chance(const struct judge *j, const struct entry *e)
{
	double sigma = j->sigma[BLAME_COMPUTE], base = 0;
	uint32_t n = 0;

	for (uint32_t t = 0; t < j->n_steps; t++)
		for (uint32_t role = 0; role < j->n_roles && !j->moments[t].set_aside; role++) {
			base += (double)ref_of(j, role, t)[BLAME_COMPUTE];
			n++;
		}
	return n && sigma < 0.5 * NOISY * base / n &&
	       e->mean_ns < CHANCE * sqrt(2 * log(MAX(j->n_rows, 2u))) * sigma;
}

bool is_restless(const struct judge *j, const struct entry *e)
{
	return e->blame == BLAME_COMPUTE && !stands_out(j, e);
}

/* One rank, or all that a node has: what a machine can do to them, it does to all. */
static bool on_one_node(const struct judge *j, const struct entry *e)
{
	size_t there = 0;

	for (size_t i = 1; i < e->rows.n; i++)
		if (j->node[e->rows.v[i]] != j->node[e->rows.v[0]])
			return false;
	for (uint32_t row = 0; row < j->n_rows; row++)
		there += j->node[row] == j->node[e->rows.v[0]];
	return e->rows.n == 1 || e->rows.n == there;
}

bool is_shared_work(const struct judge *j, const struct entry *e)
{
	return e->blame == BLAME_COMPUTE && e->windows >= BLIPS_MIN && e->n_on < 3 * e->windows &&
	       !on_one_node(j, e);
}

/* The row of a role whose compute is nearest to the mean, and the mean; NO_ID: none has the step.
 */
static uint32_t mean_row(const struct judge *j, uint32_t role, uint32_t t, double *ret_mean)
{
	uint32_t best = NO_ID;
	double sum = 0, n = 0, nearest = INFINITY;

	for (const uint32_t *row = role_rows(j, role); row < role_end(j, role); row++)
		if (point_of(j, *row, t)->own > 0) {
			sum += (double)point_of(j, *row, t)->part[BLAME_COMPUTE];
			n++;
		}
	for (const uint32_t *row = role_rows(j, role); n > 0 && row < role_end(j, role); row++) {
		double off = fabs((double)point_of(j, *row, t)->part[BLAME_COMPUTE] - sum / n);

		if (point_of(j, *row, t)->own > 0 && off < nearest) {
			nearest = off;
			best = *row;
		}
	}
	*ret_mean = n > 0 ? sum / n : 0;
	return best;
}

/* All of a role do what the one in the middle does, times what makes it the mean of all: work does
   not vanish when it is evened out. Times of its own would not do: what is uneven may lie between
   two collectives. */
static void evened_work(const struct judge *j, uint32_t t, uint32_t *source, double *scale)
{
	const uint64_t *kinds = j->moments[t].replay->kinds;

	for (uint32_t role = 0; role < j->n_roles; role++) {
		double mean;
		uint32_t middle = mean_row(j, role, t, &mean);

		for (const uint32_t *row = role_rows(j, role); row < role_end(j, role); row++) {
			const struct point *p;

			source[*row] =
			    middle != NO_ID && kinds[middle] == kinds[*row] ? middle : *row;
			p = point_of(j, source[*row], t);
			scale[*row] = p->own > 0
					  ? ((double)(p->own - p->part[BLAME_COMPUTE]) + mean) /
						(double)p->own
					  : 1;
		}
	}
}

/* Rank by rank and step by step somebody else has more to do. */
bool imbalance_of_work(struct judge *j, struct entry *ret)
{
	_cleanup_free_ double *scale = xcalloc(j->n_rows + 1, sizeof(*scale));
	_cleanup_free_ uint32_t *source = xcalloc(j->n_rows + 1, sizeof(*source));
	struct entry e = { .cause = CAUSE_WORKLOAD_IMBALANCE,
			   .blame = BLAME_COMPUTE,
			   .node = NO_ID };
	struct what_if none = { 0 }, even = { .scale = scale, .source = source };
	bool restless, named = false;
	double wall = 0, least = j->job->cpu_job ? SPREAD_MIN_CPU : SPREAD_MIN;
	double weight = weight_least(j);

	if (j->n_rows < 2)
		return false;
	e.on = arena_alloc(&j->scratch, j->n_steps + 1);
	restless = share_of_most_loaded(j, &e) <= SHARE_MAX && e.windows >= CHANGES_MIN;
	restless |= turns(j) >= CHANGES_MIN;
	for (size_t i = 0; i < j->entries.n; i++) {
		const struct entry *own = &j->entries.v[i];

		if (!weighs(own, weight))
			continue;
		named = true;
		restless |=
		    own->n_on > 3 && own->unsteady > (j->job->cpu_job ? UNSTEADY_CPU : UNSTEADY);
		restless |= j->measured[BLAME_COMPUTE] >
			    (j->job->cpu_job ? NOISY_CPU : NOISY) * own->base_ns;
	}
	if ((!restless && (named || e.windows < 2)) ||
	    (2 * e.n_on < j->n_steps && !work_takes_turns(j)))
		return false;
	for (uint32_t t = 0; t < j->n_steps; t++) {
		double before;

		if (!e.on[t])
			continue;
		wall += j->moments[t].wall;
		if (!replayed(j, t))
			continue;
		before = run(j, t, &none);
		e.spent_ns += before;
		evened_work(j, t, source, scale);
		e.saved_ns += fmax(0, before - run(j, t, &even));
	}
	for_all_steps(j, &e);
	*ret = e;
	return e.mass_ns > least * wall && !is_chance(j, &e) &&
	       (restless || j->sigma[BLAME_COMPUTE] * e.n_on > 0.3 * least * wall);
}

/* What the stages needed over all steps. */
struct stage_work {
	double *of; /* [role] ns */
	uint32_t heavy;
	size_t n; /* that were traced: one that nobody traced is no stage without work */
	double middle, mean;
};

static struct stage_work stage_work(const struct judge *j)
{
	struct stage_work w = { .of = xcalloc(j->n_roles + 1, sizeof(*w.of)) };
	_cleanup_free_ double *x = xcalloc(j->n_roles + 1, sizeof(*x));

	for (uint32_t role = 0; role < j->n_roles; role++) {
		for (uint32_t t = 0; t < j->n_steps; t++)
			w.of[role] +=
			    j->moments[t].set_aside ? 0 : (double)ref_of(j, role, t)[BLAME_COMPUTE];
		if (w.of[role] > 0)
			x[w.n++] = w.of[role];
		w.mean += w.of[role];
		w.heavy = w.of[role] > w.of[w.heavy] ? role : w.heavy;
	}
	w.mean /= (double)MAX(w.n, (size_t)1);
	w.middle = lower_median(x, w.n);
	return w;
}

/* The cost, over all steps: the work does not vanish when stages are evened out, it moves to the
   other stages, so that each has the mean of all. What the steps would be without what the heaviest
   has more says whether it is worth a finding. */
static void stage_costs(const struct judge *j, const struct stage_work *w, struct entry *e)
{
	_cleanup_free_ double *evened = xcalloc(j->n_rows + 1, sizeof(*evened));
	_cleanup_free_ double *lighter = xcalloc(j->n_rows + 1, sizeof(*lighter));

	for (uint32_t row = 0; row < j->n_rows; row++) {
		double own = w->of[j->role[row]];

		lighter[row] = j->role[row] == w->heavy ? w->middle / own : 1;
		evened[row] = own > 0 ? w->mean / own : 1;
	}
	for (uint32_t t = 0; t < j->n_steps; t++) {
		struct what_if none = { 0 }, even = { .scale = evened },
			       without = { .scale = lighter };
		double before;

		if (j->moments[t].set_aside)
			continue;
		e->on[t] = true;
		e->n_on++;
		if (!replayed(j, t))
			continue;
		before = run(j, t, &none);
		e->spent_ns += before;
		e->saved_ns += fmax(0, before - run(j, t, &even));
		e->extra_ns += fmax(0, before - run(j, t, &without));
	}
	for_all_steps(j, e);
}

/* One stage has more work than the others, on all its ranks. */
bool imbalance_of_stages(struct judge *j, struct entry *ret)
{
	struct entry e = { .cause = CAUSE_PIPELINE_IMBALANCE,
			   .blame = BLAME_COMPUTE,
			   .node = NO_ID };
	struct stage_work w;

	if (!j->staged)
		return false;
	w = stage_work(j);
	if (w.n >= 2 && w.of[w.heavy] >= STAGE_MIN * w.middle) {
		e.on = arena_alloc(&j->scratch, j->n_steps + 1);
		stage_costs(j, &w, &e);
		e.stage = w.heavy;
		e.ratio = w.of[w.heavy] / w.middle;
		e.mean_ns = w.of[w.heavy] / MAX(e.n_on, 1u);
		e.base_ns = w.middle / MAX(e.n_on, 1u);
		*ret = e;
	}
	free(w.of);
	return e.n_on > 0;
}
