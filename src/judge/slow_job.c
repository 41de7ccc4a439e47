/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_job.c - from the history to findings: what is set aside, who is named, and what all ranks
 * share.
 */
#include "base/stats.h"
#include "judge/judge_internal.h"

#include <math.h>

#define WARM_UP		 1.3  /* times the usual own work, on all ranks, at the beginning */
#define STARVED_SHARE	 0.05 /* of the step: all ranks wait for data */
#define COMMON_MOST	 2.0  /* times what all wait: more is a rank's */
#define LAUNCH_BOUND	 0.35 /* of the step: all ranks wait for their hosts */
#define SPIKE		 1.5  /* times the usual step */
#define TRANSFERS_ROSE	 1.2  /* after over before, of all transfers together */
#define REGRESSION_NOTE	 1.1  /* after over before */
#define REGRESSION_FAULT 1.25
#define TRIFLE_SHARE	 0.1 /* of its steps */
#define SPLITS_LEAST                                                                               \
	1000 /* so many ways to pick the slow steps: that they are the last is no chance */

/* Warm-up: the first steps of a run, while all ranks' own work is far above what it is later. */
void job_set_aside(struct judge *j)
{
	_cleanup_free_ double *x = xmalloc((MAX(j->n_rows, j->n_steps) + 1) * sizeof(*x));
	_cleanup_free_ double *own = xcalloc(j->n_steps + 1, sizeof(*own));
	uint32_t until = 0;
	double usual;

	for (uint32_t t = 0; t < j->n_steps; t++) {
		size_t n = 0;

		for (uint32_t row = 0; row < j->n_rows; row++)
			if (point_of(j, row, t)->own >= 0)
				x[n++] = (double)point_of(j, row, t)->own;
		own[t] = n ? lower_median(x, n) : 0;
	}
	if (j->n_steps < 4)
		return;
	memcpy(x, own, j->n_steps * sizeof(*x));
	usual = lower_median(x, j->n_steps);
	for (uint32_t t = 0; t < j->n_steps; t++) {
		if (j->moments[t].begins)
			until = t + MAX(1u, j->n_steps / 4);
		if (t >= until || own[t] <= WARM_UP * usual) {
			until = 0;
			continue;
		}
		j->moments[t].set_aside = true;
		j->moments[t].flags |= STEP_WARM_UP;
	}
}

/* A quarter of the steps, rounded up: what comes every four steps or more seldom. */
static bool are_few(const struct judge *j, uint32_t steps)
{
	return 4 * steps <= j->n_steps + 3;
}

/* Operations that few steps have: a barrier, the gather of a save. */
static void mark_odd_operations(struct judge *j)
{
	for (size_t i = 0; i < j->ops.n; i++) {
		const struct op_seen *o = &j->ops.v[i];

		if (!are_few(j, o->steps) || o->steps > OP_MOMENTS || j->n_steps < 3)
			continue;
		for (uint32_t t = 0; t < j->n_steps; t++)
			for (uint32_t k = 0; k < o->steps; k++)
				if (j->dropped_steps + t == o->at[k] &&
				    (!j->moments[t].odd_op || o->op == COMM_BARRIER))
					j->moments[t].odd_op = o->op;
	}
}

/* A silent writer: its host idles in just the steps that have an operation the others lack. */
static void find_saves(struct judge *j)
{
	for (size_t i = 0; i < j->entries.n; i++) {
		struct entry *e = &j->entries.v[i];
		bool all = e->blame == BLAME_HOST && are_few(j, e->n_on);

		for (uint32_t t = 0; t < j->n_steps; t++)
			all &= !e->on[t] || j->moments[t].odd_op ||
			       (j->moments[t].flags & STEP_CHECKPOINT);
		if (all && e->n_on)
			e->cause = CAUSE_CHECKPOINT;
	}
}

/* Where all ranks save, the one that takes a little longer is not the point: the save is the job's.
 */
static bool is_shared_save(const struct judge *j, const struct entry *e)
{
	(void)j;
	return (e->blame == BLAME_SAVE || e->cause == CAUSE_CHECKPOINT) && e->base_ns > e->mean_ns;
}

/* Where all ranks wait for data, the one that waits a little longer in some steps is not the point.
 */
static bool is_shared_wait(const struct judge *j, const struct entry *e)
{
	double wall = 0;

	if (e->blame != BLAME_DATA || e->base_ns <= e->mean_ns)
		return false;
	for (uint32_t t = 0; t < j->n_steps; t++)
		wall += e->on[t] ? j->moments[t].wall : 0;
	return e->base_ns * e->n_on > STARVED_SHARE * wall;
}

/* Ranks whose launches say that they had more to do are no slow machines. */
static void ask_for_work(struct judge *j)
{
	for (size_t i = 0; i < j->entries.n; i++) {
		struct entry *e = &j->entries.v[i];

		if (e->blame != BLAME_COMPUTE)
			continue;
		kernel_work(j, e);
		if (e->work == WORK_MORE)
			e->cause = CAUSE_WORKLOAD_IMBALANCE;
	}
}

static double common_part(const struct judge *j, uint32_t t, int b, double *x)
{
	size_t n = 0;

	for (uint32_t row = 0; row < j->n_rows; row++)
		if (point_of(j, row, t)->own >= 0)
			x[n++] =
			    b < BLAMES
				? (double)point_of(j, row, t)->part[b]
				: (double)(point_of(j, row, t)->wall - point_of(j, row, t)->own);
	return n ? lower_median(x, n) : 0;
}

/* All wait for the one that waits longest. */
static double longest_part(const struct judge *j, uint32_t t, enum blame b)
{
	double most = 0;

	for (uint32_t row = 0; row < j->n_rows; row++)
		if (point_of(j, row, t)->own >= 0)
			most = fmax(most, (double)point_of(j, row, t)->part[b]);
	return most;
}

/* What every rank spends in one part, when that is much: the job's, not a rank's. */
static bool common_entry(struct judge *j, enum blame b, double share, struct entry *e)
{
	_cleanup_free_ double *x = xmalloc((j->n_rows + 1) * sizeof(*x));
	/* A loader that got slow costs in the steps since then; saves come now and then, and their
	   cost is that of the whole job. */
	const bool windowed = b == BLAME_DATA;
	double part = 0, wall = 0;

	*e = (struct entry){ .blame = b, .node = NO_ID, .common = true };
	e->on = arena_alloc(&j->scratch, j->n_steps + 1);
	for (uint32_t t = 0; t < j->n_steps; t++) {
		double now;

		if (j->moments[t].flags & STEP_PARTIAL)
			continue;
		e->whole_file |= (j->moments[t].flags & STEP_WHOLE_FILE) != 0;
		now = common_part(j, t, (int)b, x);
		part += now;
		wall += j->moments[t].wall;
		e->on[t] = now > share * j->moments[t].wall;
		e->n_on += e->on[t];
		if (windowed && !e->on[t])
			continue;
		e->saved_ns += windowed ? fmin(COMMON_MOST * now, longest_part(j, t, b)) : now;
		e->spent_ns += j->moments[t].wall;
	}
	e->mass_ns = e->saved_ns;
	e->mean_ns = e->saved_ns / MAX(windowed ? e->n_on : j->n_steps, 1u);
	return wall > 0 && part > share * wall && e->n_on;
}

static void report_common(struct judge *j, struct report *report, bool data_named, bool save_named,
			  bool *explained)
{
	struct entry e;

	if (!data_named && common_entry(j, BLAME_DATA, STARVED_SHARE, &e)) {
		e.cause = CAUSE_DATA_STARVED;
		entry_report(j, report, &e);
	}
	if (!save_named && common_entry(j, BLAME_SAVE, 0.02, &e)) {
		e.cause = CAUSE_CHECKPOINT;
		for (uint32_t t = 0; t < j->n_steps; t++)
			explained[t] |= e.on[t];
		entry_report(j, report, &e);
	}
	if (common_entry(j, BLAME_HOST, LAUNCH_BOUND, &e) && !j->job->cpu_job) {
		e.cause = CAUSE_HOST_STALL;
		entry_report(j, report, &e);
	}
}

static size_t judged_walls(const struct judge *j, double *x, uint32_t *at)
{
	size_t n = 0;

	for (uint32_t t = 0; t < j->n_steps; t++)
		if (!j->moments[t].set_aside && !(j->moments[t].flags & STEP_PARTIAL)) {
			at[n] = t;
			x[n++] = j->moments[t].wall;
		}
	return n;
}

/* Did the transfers of all groups get slower at that step, for the same bytes? Then it is the
   network, but with all alike it cannot be told where. */
static bool transfers_rose(const struct judge *j, const uint32_t *at, size_t n, size_t split,
			   double *ratio)
{
	double spent[2] = { 0 }, bytes[2] = { 0 },
	       steps[2] = { (double)split, (double)(n - split) };

	for (size_t i = 0; i < n; i++)
		for (size_t u = 0; u < j->links.n; u++) {
			spent[i >= split] +=
			    (double)(j->links.v[u].at[at[i]].spent + j->links.v[u].at[at[i]].alone);
			bytes[i >= split] += (double)j->links.v[u].at[at[i]].bytes;
		}
	if (spent[0] <= 0 || bytes[0] <= 0)
		return false;
	*ratio = spent[1] / steps[1] / (spent[0] / steps[0]);
	return *ratio > TRANSFERS_ROSE &&
	       fabs(bytes[1] / steps[1] / (bytes[0] / steps[0]) - 1) < 0.05;
}

/* In how many ways could as many steps as lie behind `split` have been the slow ones? */
static double ways_to_split(size_t n, size_t split)
{
	double ways = 1;

	for (size_t k = 1; k <= MIN(split, n - split); k++)
		ways *= (double)(n - k + 1) / (double)k;
	return ways;
}

/* CPUs are shared, with strangers too, and a few steps in a row then are slow by chance. */
static bool is_lasting(const struct judge *j, size_t n, size_t split)
{
	return !j->job->cpu_job || ways_to_split(n, split) >= SPLITS_LEAST;
}

/* Waiting for data, on all ranks, is at least half of what was added: that was said. */
static bool is_for_data(const struct judge *j, const uint32_t *at, size_t n, size_t split,
			double added)
{
	_cleanup_free_ double *x = xmalloc((j->n_rows + 1) * sizeof(*x));
	double before = INFINITY,
	       after = 0; /* it may have begun a step earlier: the least before */

	for (size_t i = 0; i < n; i++) {
		double now = common_part(j, at[i], BLAME_DATA, x);

		before = i < split ? fmin(before, now) : before;
		after += i < split ? 0 : now / (double)(n - split);
	}
	return after - before > 0.5 * added;
}

/* L1: the job got slower since a step and nobody was named for it. */
static void report_regression(struct judge *j, struct report *report)
{
	_cleanup_free_ double *x = xmalloc((j->n_steps + 1) * sizeof(*x));
	_cleanup_free_ uint32_t *at = xmalloc((j->n_steps + 1) * sizeof(*at));
	struct entry e = { .cause = CAUSE_UNKNOWN, .blame = BLAMES, .node = NO_ID, .common = true };
	size_t n = judged_walls(j, x, at), split = 0;
	double before = 0, after = 0;

	if (n >= 7)
		split = step_up(x, n, 3, &before, &after);
	if (!split)
		return;
	if (after < REGRESSION_NOTE * before || is_for_data(j, at, n, split, after - before))
		return;
	e.on = arena_alloc(&j->scratch, j->n_steps + 1);
	for (size_t i = split; i < n; i++) {
		e.on[at[i]] = true;
		e.n_on++;
		e.spent_ns += x[i];
		e.saved_ns += fmax(0, x[i] - before);
	}
	e.ratio = after / before;
	e.mean_ns = after;
	e.base_ns = before;
	e.mass_ns = e.saved_ns;
	e.windows = 1;
	e.strength = after > REGRESSION_FAULT * before && is_lasting(j, n, split) ? 1 : 0;
	if (transfers_rose(j, at, n, split, &e.ratio))
		e.cause = CAUSE_COMM_LINK;
	entry_report(j, report, &e);
}

/* Are all hosts busy or silent in these steps, and do they have an operation that the other steps
 * lack? */
static bool all_save(const struct judge *j, const struct entry *e)
{
	_cleanup_free_ double *x = xmalloc((j->n_rows + 1) * sizeof(*x));
	double idle = 0;
	bool odd = true;

	for (uint32_t t = 0; t < j->n_steps; t++) {
		if (!e->on[t])
			continue;
		odd &= j->moments[t].odd_op || (j->moments[t].flags & STEP_CHECKPOINT);
		idle += common_part(j, t, BLAME_HOST, x) + common_part(j, t, BLAME_SAVE, x);
	}
	return odd && idle > 0.5 * e->saved_ns;
}

/* L1: steps far above the usual ones that nobody was named for. */
static void report_spikes(struct judge *j, struct report *report, const bool *explained)
{
	_cleanup_free_ double *x = xmalloc((j->n_steps + 1) * sizeof(*x));
	_cleanup_free_ uint32_t *at = xmalloc((j->n_steps + 1) * sizeof(*at));
	struct entry e = { .cause = CAUSE_UNKNOWN, .blame = BLAMES, .node = NO_ID, .common = true };
	size_t n = judged_walls(j, x, at);
	double usual = n >= 5 ? lower_median(x, n) : INFINITY;
	bool saves;

	e.on = arena_alloc(&j->scratch, j->n_steps + 1);
	for (uint32_t t = 0; t < j->n_steps; t++) {
		if (j->moments[t].set_aside || explained[t] || j->moments[t].wall < SPIKE * usual)
			continue;
		e.on[t] = true;
		e.n_on++;
		e.spent_ns += j->moments[t].wall;
		e.saved_ns += j->moments[t].wall - usual;
	}
	saves = e.n_on && all_save(j, &e);
	if (!e.n_on || 4 * e.n_on > n + (saves ? 3 : 0))
		return;
	e.mean_ns = e.spent_ns / e.n_on;
	e.base_ns = usual;
	e.ratio = e.mean_ns / usual;
	e.mass_ns = e.saved_ns;
	if (saves) {
		e.cause = CAUSE_CHECKPOINT;
		e.blame = BLAME_SAVE;
	}
	entry_report(j, report, &e);
}

/* What costs a small part of its steps explains nothing of how long these are: of a save by all
   ranks, those that take a little longer. */
static bool is_trifle_of_steps(const struct entry *e)
{
	return e->saved_ns < TRIFLE_SHARE * e->spent_ns;
}

static void report_entries(struct judge *j, struct report *report, bool *explained, bool *data,
			   bool *save)
{
	for (size_t i = 0; i < j->entries.n; i++)
		entry_impact(j, &j->entries.v[i]);
	for (size_t i = 0; i < j->entries.n; i++) {
		struct entry *e = &j->entries.v[i];

		*data |= e->cause == CAUSE_DATA_STARVED;
		*save |= e->cause == CAUSE_CHECKPOINT && !is_trifle_of_steps(e);
		for (uint32_t t = 0; t < j->n_steps && !is_trifle_of_steps(e); t++)
			explained[t] |= e->on[t];
		entry_report(j, report, e);
	}
}

void job_findings(struct judge *j, struct report *report)
{
	_cleanup_free_ bool *explained = xcalloc(j->n_steps + 1, 1);
	struct entry work = { 0 }, stages = { 0 }, late = { 0 };
	bool uneven, staged, data = false, save = false, named;

	job_set_aside(j);
	mark_odd_operations(j);
	own_references(j);
	own_entries(j);
	find_saves(j);
	ask_for_work(j);
	entries_drop(j, is_shared_save);
	entries_drop(j, is_shared_wait);
	link_entries(j);
	uneven = imbalance_of_work(j, &work);
	if (uneven || work_takes_turns(j))
		entries_drop(j, is_restless);
	entries_drop(j, is_shared_work);
	staged = imbalance_of_stages(j, &stages);
	if (j->n_steps < 3 && !j->entries.n && late_entry(j, &late)) {
		entry_report(j, report, &late);
		free(late.rows.v);
	}
	report_entries(j, report, explained, &data, &save);
	named = j->entries.n > 0;
	if (uneven)
		entry_report(j, report, &work);
	if (staged)
		entry_report(j, report, &stages);
	named |= kernel_regression(j, report);
	report_common(j, report, data, save, explained);
	if (!named && !uneven)
		report_regression(j, report);
	report_spikes(j, report, explained);
}
