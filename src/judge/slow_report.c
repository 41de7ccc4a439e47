/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_report.c - an entry as a finding: how bad it is, who it names, when, where, and what it
 * costs. The words are in slow_words.c.
 */
#include "base/stats.h"
#include "judge/judge_internal.h"
#include "model/layout.h"

#include <math.h>

#define RISK_RATIO	1.25 /* slower than its peers by this .. */
#define RISK_DRIFT	0.1  /* .. or by so much and growing .. */
#define STAGE_RATIO	1.3  /* a last stage with a head and a loss is heavier in any healthy job */
#define RISK_STEPS	5u   /* .. for so many steps .. */
#define RISK_STRENGTH	8.0  /* .. and so far clear of the noise */
#define COMMON_LEAST_NS 0.5e6 /* a wait for data shorter than this a step is no starvation */
#define WHOLE_SHARE                                                                                \
	0.6 /* of the least impact, over all that was given: few steps may do in a short recording \
	     */
#define SAVE_LEAST_NS 10e6 /* a save shorter than this is no save to speak of */
#define CPU_EXCESS    0.25 /* over its peers, for compute on a CPU job */
#define SIDE_TIMES    5.0  /* cheaper than the slow work that comes with it */
#define NOTE_MIN      0.01 /* of the steps: less is not worth a line */

bool names_nobody(const struct entry *e)
{
	return e->common || e->cause == CAUSE_CHECKPOINT ||
	       (e->cause == CAUSE_WORKLOAD_IMBALANCE && e->work != WORK_MORE) ||
	       e->cause == CAUSE_PIPELINE_IMBALANCE || e->cause == CAUSE_KERNEL_REGRESSION;
}

bool may_be_work(const struct entry *e)
{
	return e->blame == BLAME_COMPUTE && e->rows.n && e->work == WORK_UNTOLD &&
	       (e->cause == CAUSE_COMPUTE_STRAGGLER || e->cause == CAUSE_THROTTLING);
}

static double usual_step(const struct judge *j)
{
	_cleanup_free_ double *x = xmalloc((j->n_steps + 1) * sizeof(*x));
	size_t n = 0;

	for (uint32_t t = 0; t < j->n_steps; t++)
		if (!j->moments[t].set_aside)
			x[n++] = j->moments[t].wall;
	return n ? lower_median(x, n) : 0;
}

static double whole_time(const struct judge *j)
{
	double sum = 0;

	for (uint32_t t = 0; t < j->n_steps; t++)
		sum += j->moments[t].set_aside ? 0 : j->moments[t].wall;
	return sum;
}

uint32_t judged_steps(const struct judge *j)
{
	uint32_t n = 0;

	for (uint32_t t = 0; t < j->n_steps; t++)
		n += !j->moments[t].set_aside;
	return n;
}

static double slowdown_without(const struct entry *e, double saved_ns)
{
	return e->spent_ns > saved_ns ? e->spent_ns / (e->spent_ns - saved_ns) : 1;
}

static double slowdown_of(const struct entry *e)
{
	return slowdown_without(e, e->saved_ns);
}

/* CPUs are shared, with other ranks and with strangers: a rank that computes longer now and then is
   no fault of its machine. One stretch of steps, or most steps, by a good quarter is. */
static bool is_cpu_jitter(const struct judge *j, const struct entry *e)
{
	bool lasts = (e->windows == 1 && e->n_on >= 3) || 10 * e->n_on >= 6 * judged_steps(j);

	return j->job->cpu_job && e->blame == BLAME_COMPUTE && e->rows.n && judged_steps(j) >= 3 &&
	       (!lasts || e->mean_ns < CPU_EXCESS * e->base_ns);
}

/* A slow machine moves data slowly too: its slow transfers, which cost little beside its slow work,
   are a trace of that. */
static bool is_side_effect(const struct judge *j, const struct entry *e)
{
	for (size_t i = 0; i < j->entries.n && e->cause == CAUSE_COMM_LINK; i++) {
		const struct entry *other = &j->entries.v[i];
		uint32_t both = 0;
		bool shared = false;

		if (other->blame != BLAME_COMPUTE || other->cause == CAUSE_COMM_LINK ||
		    other->saved_ns < SIDE_TIMES * e->saved_ns)
			continue;
		for (size_t k = 0; k < e->rows.n; k++)
			for (size_t m = 0; m < other->rows.n; m++)
				shared |= e->rows.v[k] == other->rows.v[m];
		for (uint32_t t = 0; t < j->n_steps; t++)
			both += e->on[t] && other->on[t];
		if (shared && 2 * both >= e->n_on)
			return true;
	}
	return false;
}

static enum severity severity_of(const struct judge *j, const struct entry *e)
{
	bool enough = e->n_on >= MIN(3u, judged_steps(j)) || e->saved_ns >= usual_step(j) ||
		      (e->n_on > 1 && e->cause != CAUSE_CHECKPOINT &&
		       e->saved_ns >= WHOLE_SHARE * j->options.min_impact * whole_time(j));
	double ratio = e->cause == CAUSE_COMM_LINK ? e->ratio
		       : e->base_ns > 0		   ? (e->base_ns + e->mean_ns) / e->base_ns
						   : 1;

	if (is_cpu_jitter(j, e) || is_side_effect(j, e))
		return SEVERITY_NOTE;
	if (e->common &&
	    (e->blame == BLAME_HOST || (e->blame == BLAME_DATA && e->mean_ns < COMMON_LEAST_NS) ||
	     e->whole_file || (e->n_on < 3 && e->saved_ns < usual_step(j))))
		return SEVERITY_NOTE;
	if (e->cause == CAUSE_UNKNOWN && e->common && e->strength < 1)
		return SEVERITY_NOTE;
	if (e->cause == CAUSE_PIPELINE_IMBALANCE && e->ratio < STAGE_RATIO)
		return SEVERITY_NOTE;
	if (e->cause == CAUSE_CHECKPOINT && e->saved_ns < SAVE_LEAST_NS * e->n_on)
		return SEVERITY_NOTE;
	if (slowdown_without(e, fmax(e->saved_ns, e->extra_ns)) - 1 >= j->options.min_impact &&
	    enough)
		return SEVERITY_FAULT;
	if ((e->cause == CAUSE_COMPUTE_STRAGGLER || e->cause == CAUSE_COMM_LINK) && e->rows.n &&
	    (ratio >= RISK_RATIO || e->lately >= RISK_DRIFT) && e->n_on >= RISK_STEPS &&
	    (e->cause == CAUSE_COMM_LINK || e->strength >= RISK_STRENGTH))
		return SEVERITY_RISK;
	return SEVERITY_NOTE;
}

static void add_windows(const struct judge *j, struct finding *f, const struct entry *e)
{
	struct window *w = NULL;

	for (uint32_t t = 0; t < j->n_steps; t++) {
		const struct moment *m = &j->moments[t];

		if (!e->on[t]) {
			w = NULL;
			continue;
		}
		if (!w || m->begins) {
			bool goes_on = w != NULL;

			w = vec_push(&f->windows);
			*w = (struct window){ .first_step = (int64_t)m->number,
					      .first_time_ns = m->start_ns,
					      .run = m->run,
					      .goes_on = goes_on };
		}
		w->last_step = (int64_t)m->number;
		w->last_time_ns = m->start_ns + (int64_t)m->wall;
	}
}

static void add_impact(const struct judge *j, struct finding *f, const struct entry *e)
{
	double gpus =
	    (double)MAX(j->job->world_size, (int64_t)j->n_rows) * MAX(j->job->ranks[0].folds, 1u);

	f->slowdown = slowdown_of(e);
	f->step_ms_lost = e->n_on ? e->saved_ns / e->n_on / 1e6 : 0;
	f->lost_gpu_hours = e->saved_ns / 3.6e12 * gpus;
	f->gpu_hours_per_day = (1 - 1 / f->slowdown) * 24 * gpus;
	if (e->n_on < judged_steps(j)) /* only now and then: in the share of time that it takes */
		f->gpu_hours_per_day *= e->n_on / (double)MAX(judged_steps(j), 1u);
}

/* The detail with the largest excess, if it is a good part of the whole. */
const struct detail *main_detail(const struct detail *v, size_t n)
{
	const struct detail *best = NULL;
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		sum += fmax(0, v[i].excess_ns);
		if (!best || v[i].excess_ns > best->excess_ns)
			best = &v[i];
	}
	return best && best->excess_ns > 0.3 * sum ? best : NULL;
}

struct loss {
	const struct waited *at;
	double ns; /* over the steps that are on, all ranks together */
};

/* The operations in which most was waited over an entry's steps, the largest first. */
static void most_waited(const struct judge *j, const struct entry *e, struct loss *top, size_t n)
{
	for (size_t i = 0; i < j->waits.n; i++) {
		struct loss now = { .at = &j->waits.v[i] };

		for (uint32_t t = 0; t < j->n_steps; t++)
			now.ns += e->on[t] ? (double)now.at->ns[t] : 0;
		for (size_t k = 0; k < n; k++)
			if (now.ns > top[k].ns) {
				memmove(top + k + 1, top + k, (n - k - 1) * sizeof(*top));
				top[k] = now;
				break;
			}
	}
}

static void add_where(const struct judge *j, struct finding *f, const struct entry *e)
{
	struct loss most = { 0 };
	double kernels_ns = 0;

	if (e->cause == CAUSE_KERNEL_REGRESSION) {
		f->where_kernel = name_of(j, e->kernel);
		return;
	}
	if (!e->rows.n)
		return;
	most_waited(j, e, &most, 1);
	if (most.at)
		f->where_collective = comm_op_name(most.at->op);
	if (e->cause == CAUSE_COMM_LINK)
		return;
	const struct row_detail *d = &j->details[e->rows.v[0]];
	const struct detail *kernel = main_detail(d->kernels.v, d->kernels.n);
	const struct detail *phase = main_detail(d->phases.v, d->phases.n);

	if (e->blame == BLAME_COMPUTE && kernel)
		f->where_kernel = name_of(j, kernel->name);
	/* Of work that lies in no phase the phases say nothing, however little they differ. */
	for (size_t i = 0; i < d->kernels.n; i++)
		kernels_ns += fmax(0, d->kernels.v[i].excess_ns);
	if (phase && e->blame == BLAME_COMPUTE && phase->excess_ns > 0.3 * kernels_ns)
		f->where_phase = name_of(j, phase->name);
	if (e->blame == BLAME_HOST && d->host_what != NO_ID)
		f->where_phase = name_of(j, d->host_what);
}

/* Where few ranks did most of the waiting in an operation (a group that the culprit holds up beside
   the job), these; else all victims. */
static size_t waiting_rows(const struct judge *j, const struct waited *w, const bool *culprit,
			   uint32_t *rows, double *ret_sum)
{
	float most = 0;
	size_t n = 0;

	*ret_sum = 0;
	for (uint32_t row = 0; row < j->n_rows; row++)
		most = culprit[row] ? most : MAX(most, w->of_row[row]);
	for (uint32_t row = 0; row < j->n_rows; row++)
		if (!culprit[row] && w->of_row[row] > 0.5f * most) {
			rows[n++] = row;
			*ret_sum += (double)w->of_row[row];
		}
	return 8 * n < j->n_rows ? n : 0;
}

/* From the work that is late to the operations in which others wait for it, the costliest first. */
static void add_propagation(const struct judge *j, struct report *r, struct finding *f,
			    const struct entry *e, const bool *culprit, size_t n_victims)
{
	_cleanup_free_ uint32_t *rows = xmalloc((j->n_rows + 1) * sizeof(*rows));
	double on = MAX(e->n_on, 1u), sum;
	struct loss top[3] = { 0 };

	if (e->cause != CAUSE_COMM_LINK && f->where_phase)
		*vec_push(&f->propagation) = (struct propagation){
			.at = f->where_phase,
			.victims = report_rank_set(r, e->rows.v, e->rows.n),
			.ms = e->mean_ns / 1e6,
			.origin = true,
		};
	most_waited(j, e, top, ARRAY_SIZE(top));
	for (size_t k = 0; k < ARRAY_SIZE(top) && top[k].at; k++) {
		const char *desc = name_of(j, top[k].at->desc);
		size_t n = waiting_rows(j, top[k].at, culprit, rows, &sum);

		*vec_push(&f->propagation) = (struct propagation){
			.at = report_printf(r, "%s%s%s", comm_op_name(top[k].at->op),
					    desc ? " of " : "", desc ? desc : ""),
			.victims = n ? report_rank_set(r, rows, n) : f->victims,
			.ms = n ? sum / 1e6 / on / (double)n
				: top[k].ns / 1e6 / on / (double)n_victims,
		};
	}
}

static void add_victims(const struct judge *j, struct report *r, struct finding *f,
			const struct entry *e)
{
	VEC(uint32_t) rows = { 0 };
	_cleanup_free_ bool *culprit = xcalloc(j->n_rows + 1, 1);

	for (size_t i = 0; i < e->rows.n; i++)
		culprit[e->rows.v[i]] = true;
	for (uint32_t row = 0; row < j->n_rows; row++)
		if (!culprit[row] && j->ranks[row].wait_ns > 0)
			*vec_push(&rows) = row;
	if (rows.n && rows.n < j->n_rows && e->rows.n) {
		f->victims = report_rank_set(r, rows.v, rows.n);
		add_propagation(j, r, f, e, culprit, rows.n);
	}
	free(rows.v);
}

struct job_place place_of_row(const struct judge *j, const struct entry *e, uint32_t row)
{
	uint32_t t = j->n_steps - 1;

	while (t && !e->on[t])
		t--;
	return job_place(j->job, row, j->moments[t].run);
}

static void set_culprits(const struct judge *j, struct report *r, struct finding *f,
			 const struct entry *e)
{
	for (size_t i = 0; i < e->rows.n && j->job->ranks[e->rows.v[0]].lane; i++) {
		char place[64];

		layout_place(j->job, e->rows.v[i], place);
		*vec_push(&f->coords) = report_printf(r, "%s", place);
	}
	for (size_t i = 0; i < e->rows.n; i++) {
		const char *host = name_of(j, place_of_row(j, e, e->rows.v[i]).host);
		bool known = !host;

		*vec_push(&f->culprits) = e->rows.v[i];
		for (size_t k = 0; k < f->hosts.n && !known; k++)
			known = !strcmp(f->hosts.v[k], host);
		if (!known)
			*vec_push(&f->hosts) = host;
	}
}

static double confidence_of(const struct judge *j, const struct entry *e)
{
	double c = e->cause == CAUSE_COMM_LINK ? e->strength : 1 - exp(-fmax(e->strength, 1) / 5);

	if (names_nobody(e))
		c = 0.8;
	if (e->doubt_half)
		c *= 0.6;
	if (may_be_work(e))
		c *= 0.9;
	if (j->job->world_size > (int64_t)j->n_rows)
		c *= 0.9;
	return fmin(0.99, fmax(0.3, c));
}

static void assume_once(struct report *report, const char *text)
{
	for (size_t i = 0; i < report->assumed.n; i++)
		if (!strcmp(report->assumed.v[i], text))
			return;
	*vec_push(&report->assumed) = text;
}

void entry_report(struct judge *j, struct report *report, struct entry *e)
{
	struct finding f = { .severity = severity_of(j, e), .cause = e->cause, .slowdown = NAN };

	bridge_warm_up(j, e->on);
	if (f.severity == SEVERITY_NOTE &&
	    (slowdown_of(e) - 1 < NOTE_MIN || (judged_steps(j) < 3 && e->rows.n)))
		return;
	f.kind = e->cause == CAUSE_KERNEL_REGRESSION || (e->cause == CAUSE_UNKNOWN && e->windows)
		     ? KIND_REGRESSION
		 : e->cause == CAUSE_WORKLOAD_IMBALANCE || e->cause == CAUSE_PIPELINE_IMBALANCE
		     ? KIND_IMBALANCE
		     : KIND_SLOW;
	f.level = e->cause == CAUSE_KERNEL_REGRESSION		    ? "L3"
		  : e->cause == CAUSE_UNKNOWN && e->blame == BLAMES ? "L1"
								    : "L2";
	f.action = cause_info(e->cause)->action;
	if (!names_nobody(e))
		set_culprits(j, report, &f, e);
	if (e->cause == CAUSE_PIPELINE_IMBALANCE)
		*vec_push(&f.stages) = e->stage;
	add_windows(j, &f, e);
	add_impact(j, &f, e);
	words_say(j, report, &f, e);
	if (e->doubt_half)
		*vec_push(&report->assumed) =
		    "about half of the peers are slow from the first step given: the slower half "
		    "is named; whether "
		    "the other half is faster than it should be needs the past";
	if (may_be_work(e))
		assume_once(report,
			    "the ranks that compute longer were given as much work as their "
			    "peers: these files do not tell; more tokens look the same");
	if (!e->common)
		add_where(j, &f, e);
	add_victims(j, report, &f, e);
	f.confidence = confidence_of(j, e);
	words_next(j, report, &f, e);
	if (e->node == NO_ID && e->cause == CAUSE_COMM_LINK && !e->rows.n)
		f.action = "check-link";
	finding_set_id(&f, j->job);
	*vec_push(&report->findings) = f;
}
