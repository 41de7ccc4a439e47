/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_words.c - a finding in words and numbers: what was seen beside what was to be expected, why
 * it is not something else, and what to do next. Written to be read at three in the morning.
 */
#include "base/ranges.h"
#include "base/stats.h"
#include "judge/judge_internal.h"
#include "model/layout.h"

#include <math.h>

#define PLACES_SHOWN 3

/* "step 7", "steps 9, 12-13", "since step 5": the last when it lasts to the end. */
static const char *when(const struct judge *j, struct report *r, const struct entry *e)
{
	VEC(int64_t) v = { 0 };
	_cleanup_free_ char *set = NULL;
	int64_t start = past_start(j, e);
	const char *text;

	if (start >= 0 && e->windows <= 1 && e->on[j->n_steps - 1])
		return report_printf(r, "%s step %" PRId64, j->more_to_come ? "from" : "since",
				     start);
	for (uint32_t t = 0; t < j->n_steps; t++)
		if (e->on[t])
			*vec_push(&v) = (int64_t)j->moments[t].number;
	if (!v.n)
		return "in no step";
	set = ranges_format(v.v, v.n);
	if (v.n == j->n_steps && v.n > 1 && !j->more_to_come)
		text = report_printf(r, "in all steps (%s)", set);
	else if (v.n > 1 && e->windows <= 1 && e->on[j->n_steps - 1])
		text = report_printf(r, "%s step %" PRId64, j->more_to_come ? "from" : "since",
				     v.v[0]);
	else
		text = report_printf(r, "in step%s %s", v.n > 1 ? "s" : "", set);
	free(v.v);
	return text;
}

/* Lanes by their places: "the worker at dp=0 pp=3". */
static const char *workers(const struct judge *j, struct report *r, const struct entry *e)
{
	const char *text = e->rows.n > 1 ? "the workers at" : "the worker at";
	char place[64];

	for (size_t i = 0; i < MIN(e->rows.n, (size_t)PLACES_SHOWN); i++)
		text = report_printf(r, "%s%s %s", text, i ? "," : "",
				     layout_place(j->job, e->rows.v[i], place));
	if (e->rows.n > PLACES_SHOWN)
		text = report_printf(r, "%s and %zu more", text, e->rows.n - PLACES_SHOWN);
	return text;
}

#define HOSTS_SAID 3u

/* " (all of a, b)" where the rows are all those of several machines; "" if not. */
static const char *whole_hosts(const struct judge *j, struct report *r, const struct entry *e)
{
	_cleanup_free_ uint32_t *missing = xcalloc(j->n_nodes + 1, sizeof(*missing));
	const char *text = "";
	uint32_t hosts = 0;

	for (uint32_t row = 0; row < j->n_rows; row++)
		missing[j->node[row]]++;
	for (size_t i = 0; i < e->rows.n; i++)
		missing[j->node[e->rows.v[i]]]--;
	for (size_t i = 0; i < e->rows.n; i++) {
		uint32_t row = e->rows.v[i], name = place_of_row(j, e, row).host;

		if (missing[j->node[row]] || name == NO_ID)
			return "";
		if (i && j->node[row] == j->node[e->rows.v[i - 1]])
			continue;
		if (hosts++ < HOSTS_SAID)
			text = report_printf(r, "%s%s%s", text, hosts > 1 ? ", " : "",
					     intern_get(&j->job->names, name));
	}
	if (hosts > HOSTS_SAID)
		return report_printf(r, " (all of %s and %" PRIu32 " more hosts)", text,
				     hosts - HOSTS_SAID);
	return hosts > 1 ? report_printf(r, " (all of %s)", text) : "";
}

static const char *who(const struct judge *j, struct report *r, const struct entry *e)
{
	const char *host = "";
	uint32_t name;

	if (!e->rows.n)
		return "";
	name = place_of_row(j, e, e->rows.v[0]).host;
	if (e->node == NO_ID && e->rows.n > 1 && j->n_nodes > 1)
		host = whole_hosts(j, r, e);
	else if (e->node != NO_ID && name != NO_ID)
		host = report_printf(r, " (all of %s)", intern_get(&j->job->names, name));
	else if (e->node != NO_ID)
		host = " (one whole machine)";
	if (job_is_folded(j->job, e->rows.v[0]))
		return workers(j, r, e);
	if (e->rows.n == 1 && j->job->ranks[e->rows.v[0]].rank < 0)
		return report_rank_set(r, e->rows.v, 1);
	return report_printf(r, "rank%s %s%s", e->rows.n > 1 ? "s" : "",
			     report_rank_set(r, e->rows.v, e->rows.n), host);
}

const char *name_of(const struct judge *j, uint32_t id)
{
	const char *name = id == NO_ID ? NULL : intern_get(&j->job->names, id);

	return name && strcmp(name, "undefined")
		   ? name
		   : NULL; /* what PyTorch calls a group without one */
}

/* Three digits, never an exponent: 0.106, 14.3, 14,306. */
static const char *amount(struct report *r, double v)
{
	if (!isfinite(v) || fabs(v) >= 999999.5)
		return report_printf(r, "%.0f", v);
	if (fabs(v) >= 999.5)
		return report_printf(r, "%s%ld,%03ld", v < 0 ? "-" : "", lround(fabs(v)) / 1000,
				     lround(fabs(v)) % 1000);
	return report_printf(r, "%.3g", fabs(v) < 0.0005 ? 0 : v);
}

/* A kernel's name may be a page of templates. */
static const char *kernel_name(const struct judge *j, struct report *r, uint32_t id)
{
	const char *name = name_of(j, id);

	return name && strlen(name) > 60 ? report_printf(r, "%.58s..", name) : name;
}

static void add_evidence(struct finding *f, const char *text, double value, double expected,
			 const char *unit)
{
	*vec_push(&f->evidence) = (struct evidence){ text, value, expected, unit, "trace" };
}

static void exclude(struct finding *f, enum cause cause, const char *why)
{
	*vec_push(&f->excluded) = (struct exclusion){ cause, why };
}

/* Own time of the culprits and the middle of their peers over the steps that are on. */
static void mean_parts(const struct judge *j, const struct entry *e, int b, double *value,
		       double *expected)
{
	double n = 0;

	*value = *expected = 0;
	for (uint32_t t = 0; t < j->n_steps; t++)
		for (size_t i = 0; e->on[t] && i < e->rows.n; i++) {
			const struct point *p = point_of(j, e->rows.v[i], t);

			if (p->own < 0)
				continue;
			*value += b < BLAMES ? (double)p->part[b] : (double)(p->wall - p->own);
			*expected += (double)ref_of(j, j->role[e->rows.v[i]], t)[b];
			n++;
		}
	if (n > 0) {
		*value /= n * 1e6;
		*expected /= n * 1e6;
	}
}

/* Time in collectives with nothing else to do, of everybody else, in the same steps. */
static double others_waiting(const struct judge *j, const struct entry *e)
{
	VEC(double) x = { 0 };
	double result;

	for (uint32_t row = 0; row < j->n_rows; row++) {
		bool culprit = false;

		for (size_t i = 0; i < e->rows.n; i++)
			culprit |= e->rows.v[i] == row;
		for (uint32_t t = 0; !culprit && t < j->n_steps; t++)
			if (e->on[t] && point_of(j, row, t)->own >= 0)
				*vec_push(&x) =
				    (double)(point_of(j, row, t)->wall - point_of(j, row, t)->own);
	}
	result = x.n ? lower_median(x.v, x.n) / 1e6 : NAN;
	free(x.v);
	return result;
}

/* CV and z of the role at the steps that are on: shown because people know them, never decided on.
 */
static void add_familiar(const struct judge *j, struct report *r, struct finding *f,
			 const struct entry *e)
{
	double cv = 0, z = 0, n = 0;
	uint32_t role = j->role[e->rows.v[0]];

	for (uint32_t t = 0; t < j->n_steps; t++) {
		double sum = 0, squares = 0, most = 0, count = 0;

		for (uint32_t row = 0; e->on[t] && row < j->n_rows; row++) {
			double x = (double)point_of(j, row, t)->part[e->blame];

			if (j->role[row] != role || point_of(j, row, t)->own < 0)
				continue;
			sum += x;
			squares += x * x;
			most = fmax(most, x);
			count++;
		}
		if (count < 2 || sum <= 0)
			continue;
		double mean = sum / count, sd = sqrt(fmax(0, (squares - sum * mean) / (count - 1)));

		cv += sd / mean;
		z += sd > 0 ? (most - mean) / sd : 0;
		n++;
	}
	if (n > 0)
		add_evidence(f,
			     report_printf(r,
					   "outlier score, deviations from its peers' median "
					   "(their CV is %.2f, the plain z %.1f)",
					   cv / n, z / n),
			     e->strength, NAN, NULL);
}

static const char *const blame_words[BLAMES] = {
	[BLAME_COMPUTE] = "compute",
	[BLAME_HOST] = "GPU idle because the host is late,",
	[BLAME_DATA] = "waiting for data",
	[BLAME_SAVE] = "saving",
	[BLAME_LATE] = "entering the step late",
};

/* Mean step of a row over the steps that are on, as its marks on the host say: what people look at.
 */
static double mean_mark(const struct judge *j, const struct entry *e, uint32_t row)
{
	const struct report_rank *r = &j->ranks[row];
	double sum = 0, n = 0;
	size_t k, had = 0;

	/* the last ones listed are those that the history has */
	for (uint32_t t = 0; t < j->n_steps; t++)
		had += point_of(j, row, t)->own >= 0;
	k = r->steps.n - MIN(had, r->steps.n);
	for (uint32_t t = 0; t < j->n_steps && k < r->steps.n; t++) {
		if (point_of(j, row, t)->own < 0)
			continue;
		if (e->on[t]) {
			sum += (double)r->steps.v[k].mark_ns;
			n++;
		}
		k++;
	}
	return n > 0 ? sum / n : 0;
}

/* The usual suspect is the rank with the longest step; where that one only waits, it is said. */
static void add_longest_victim(const struct judge *j, struct report *r, struct finding *f,
			       const struct entry *e)
{
	double longest = 0, own = 0;
	uint32_t who = NO_ID;

	for (uint32_t row = 0; row < j->n_rows; row++) {
		double mark = mean_mark(j, e, row);
		bool culprit = false;

		for (size_t i = 0; i < e->rows.n; i++)
			culprit |= e->rows.v[i] == row;
		if (culprit) {
			own = fmax(own, mark);
		} else if (mark > longest) {
			longest = mark;
			who = row;
		}
	}
	if (who != NO_ID && longest > 1.05 * own)
		add_evidence(
		    f,
		    report_printf(r,
				  "rank %s has the longest step and is a victim: it waits; "
				  "its step against the culprit's",
				  report_rank_set(r, &who, 1)),
		    longest / 1e6, own / 1e6, "ms");
}

/* What goes with the rank to another machine, when the job is started again, is not the machine's.
 */
static void add_machines(const struct judge *j, struct report *r, struct finding *f,
			 const struct entry *e)
{
	struct job_place last = place_of_row(j, e, e->rows.v[0]);

	for (uint32_t t = 0; t < j->n_steps; t++) {
		struct job_place at = job_place(j->job, e->rows.v[0], j->moments[t].run);

		if (!e->on[t] || at.host == last.host || !name_of(j, at.host))
			continue;
		add_evidence(f,
			     report_printf(r,
					   "machines on which it was so in turn, %s before: "
					   "it goes with the rank",
					   name_of(j, at.host)),
			     2, 1, "count");
		return;
	}
}

static void own_evidence(const struct judge *j, struct report *r, struct finding *f,
			 const struct entry *e)
{
	double value, expected, exposed, none;
	const struct row_detail *d = &j->details[e->rows.v[0]];
	const struct detail *kernel = main_detail(d->kernels.v, d->kernels.n);
	uint64_t last = 0;

	for (int i = -1; i < BLAMES; i++) { /* what it is blamed for comes first */
		int b = i < 0 ? (int)e->blame : i;

		if (i == (int)e->blame)
			continue;
		mean_parts(j, e, b, &value, &expected);
		if (i < 0 || (value > 1.2 * expected + 0.05 && b != BLAME_LATE))
			add_evidence(f,
				     report_printf(r, "%s per step, against its peers' median",
						   b == BLAME_HOST && j->job->cpu_job
						       ? "host idle"
						       : blame_words[b]),
				     value, expected, "ms");
	}
	mean_parts(j, e, BLAMES, &exposed, &none);
	add_evidence(f, "waiting in collectives per step, against the other ranks' median", exposed,
		     others_waiting(j, e), "ms");
	for (size_t i = 0; i < e->rows.n; i++)
		last += j->ranks[e->rows.v[i]].arrived_last;
	if (last)
		add_evidence(f, "collectives in which it arrived last", (double)last, NAN, "count");
	if (e->blame == BLAME_COMPUTE && kernel && kernel->base_ns > 0)
		add_evidence(f,
			     report_printf(r, "kernel %s, times its peers'",
					   kernel_name(j, r, kernel->name)),
			     (kernel->base_ns + kernel->excess_ns) / kernel->base_ns, 1, "x");
	if (e->blame == BLAME_COMPUTE && d->w1_kernel != NO_ID && d->w1_ns > 0)
		add_evidence(
		    f,
		    report_printf(r, "durations of kernel %s, distance to its peers' middle (W1)",
				  kernel_name(j, r, d->w1_kernel)),
		    d->w1_ns / 1e3, 0, "us");
	add_machines(j, r, f, e);
	add_longest_victim(j, r, f, e);
	add_familiar(j, r, f, e);
}

static void own_exclusions(const struct judge *j, struct report *r, struct finding *f,
			   const struct entry *e)
{
	double value, expected, exposed, none, others = others_waiting(j, e);
	bool many = e->rows.n > 1;

	mean_parts(j, e, BLAMES, &exposed, &none);
	exclude(f, CAUSE_COMM_LINK,
		report_printf(r, "%s %s ms a step in collectives; the others wait %s ms, for %s",
			      many ? "they wait" : "it waits", amount(r, exposed),
			      amount(r, others), many ? "them" : "it"));
	if (e->blame == BLAME_COMPUTE) {
		mean_parts(j, e, BLAME_HOST, &value, &expected);
		exclude(f, CAUSE_HOST_STALL,
			report_printf(r, "%s by %s ms a step, peers' by %s ms",
				      many ? "their hosts delay them" : "its host delays it",
				      amount(r, value), amount(r, expected)));
		if (e->work == WORK_SAME)
			exclude(f, CAUSE_WORKLOAD_IMBALANCE,
				report_printf(r,
					      "the kernels that take longer are launched as often "
					      "and as large as %s peers'",
					      many ? "their" : "its"));
		if (e->work == WORK_MORE)
			exclude(f, CAUSE_COMPUTE_STRAGGLER,
				"the kernels that take longer are launched larger, or more often");
	} else {
		mean_parts(j, e, BLAME_COMPUTE, &value, &expected);
		exclude(f, CAUSE_COMPUTE_STRAGGLER,
			report_printf(r, "%s %s ms a step, peers %s ms",
				      many ? "they compute" : "it computes", amount(r, value),
				      amount(r, expected)));
	}
}

static const char *host_detail_of(const struct judge *j, const struct entry *e)
{
	const double *d = j->details[e->rows.v[0]].host_detail;
	int best = HOST_UNKNOWN;
	double sum = 0;

	for (int i = 0; i < HOST_DETAILS; i++) {
		sum += d[i];
		best = i != HOST_UNKNOWN && d[i] > d[best] ? i : best;
	}
	if (best == HOST_UNKNOWN || d[best] < 0.3 * sum)
		best = HOST_UNKNOWN;
	return host_detail_name((enum host_detail)best);
}

static void own_summary(const struct judge *j, struct report *r, struct finding *f,
			const struct entry *e)
{
	double value, expected;
	bool many = e->rows.n > 1;
	const char *name = who(j, r, e), *at = when(j, r, e), *verb = many ? "" : "s",
		   *its = many ? "their" : "its", *mine, *peers;

	mean_parts(j, e, (int)e->blame, &value, &expected);
	mine = amount(r, value);
	peers = amount(r, expected);
	switch (e->blame) {
	case BLAME_COMPUTE:
		if (e->work == WORK_MORE) {
			f->summary = report_printf(
			    r,
			    "%s %s more work, %.3g times that of %s peers in the kernels that take "
			    "longer: %s ms a step, peers %s ms, %s",
			    name, many ? "have" : "has", e->work_ratio, its, mine, peers, at);
			break;
		}
		f->summary = report_printf(
		    r, "%s compute%s %s ms a step where %s peers need %s ms, %s%s", name, verb,
		    mine, its, peers, at,
		    e->cause == CAUSE_THROTTLING
			? report_printf(r, " (%u separate windows)", e->windows)
		    : e->drift > 0 ? report_printf(r,
						   ", and drifts: by %.2g %% a step, to %.0f %% "
						   "above %s peers",
						   100 * e->drift, 100 * e->lately, its)
				   : "");
		break;
	case BLAME_DATA:
		f->summary = report_printf(
		    r, "%s wait%s %s ms a step for %s data loader%s, %s peers %s ms, %s", name,
		    verb, mine, its, many ? "s" : "", its, peers, at);
		break;
	case BLAME_LATE:
		f->summary =
		    report_printf(r,
				  "%s entered the step %s ms after the first rank (%s peers: %s "
				  "ms); what %s did before is not in these traces",
				  name, mine, its, peers, many ? "they" : "it");
		break;
	default:
		f->cause_detail = host_detail_of(j, e);
		f->summary = report_printf(
		    r, "the host%s of %s stall%s for %s ms a step (%s peers: %s ms), %s%s%s",
		    many ? "s" : "", name, verb, mine, its, peers, at,
		    strcmp(f->cause_detail, "unknown") ? ": " : "",
		    strcmp(f->cause_detail, "unknown") ? f->cause_detail : "");
	}
}

#define SET_SAID 48 /* letters; longer sets are told by their ends */

static const char *unit_words(const struct judge *j, struct report *r, const struct link_unit *u)
{
	const char *set = report_rank_set(r, u->rows, u->n_rows);

	if (strlen(set) <= SET_SAID)
		return report_printf(r, "ranks %s", set);
	return report_printf(r, "%" PRIu32 " ranks from %" PRId64 " to %" PRId64, u->n_rows,
			     j->job->ranks[u->rows[0]].rank,
			     j->job->ranks[u->rows[u->n_rows - 1]].rank);
}

static void link_words(const struct judge *j, struct report *r, struct finding *f,
		       const struct entry *e)
{
	const char *name = who(j, r, e);
	const char *than = e->by_past ? "before" : "the same elsewhere";

	for (size_t i = 0; i < e->units.n && i < 8; i++) {
		const struct link_unit *u = &j->links.v[e->units.v[i]];
		const char *desc = name_of(j, j->job->groups[u->group].desc);
		double spent = 0, expected = 0;

		for (uint32_t t = 0; t < j->n_steps; t++) {
			spent += e->on[t] ? (double)u->at[t].spent : 0;
			expected += e->on[t] ? (double)u->at[t].expected : 0;
		}
		*vec_push(&f->groups) =
		    report_printf(r, "%s%s%s", desc && *desc ? desc : "", desc && *desc ? ": " : "",
				  unit_words(j, r, u));
		add_evidence(f,
			     report_printf(r, "transfers among %s once all have arrived, per step",
					   unit_words(j, r, u)),
			     spent / 1e6 / MAX(e->n_on, 1u), expected / 1e6 / MAX(e->n_on, 1u),
			     "ms");
	}
	if (e->rows.n)
		f->summary =
		    report_printf(r, "transfers that include %s take %.3g times as long as %s, %s",
				  name, e->ratio, than, when(j, r, e));
	else
		f->summary = report_printf(
		    r,
		    "transfers of %zu group%s (%s) take %.3g times as long as %s, %s; which member "
		    "it is cannot be told",
		    e->units.n, e->units.n > 1 ? "s" : "", f->groups.v[0], e->ratio, than,
		    when(j, r, e));
	exclude(f, CAUSE_COMPUTE_STRAGGLER,
		"all members had arrived: the shortest duration of each collective is compared, "
		"which holds no waiting");
}

static void stage_words(struct report *r, struct finding *f, const struct entry *e)
{
	f->summary = report_printf(
	    r,
	    "pipeline stage %u computes %s ms a step, the middle stage %s ms, on all its "
	    "ranks",
	    e->stage, amount(r, e->mean_ns / 1e6), amount(r, e->base_ns / 1e6));
	add_evidence(f, "compute per step of the heaviest stage, against the middle one",
		     e->mean_ns / 1e6, e->base_ns / 1e6, "ms");
	add_evidence(f, "the step, against what it would be without what this stage has more",
		     e->spent_ns / MAX(e->n_on, 1u) / 1e6,
		     (e->spent_ns - e->extra_ns) / MAX(e->n_on, 1u) / 1e6, "ms");
	exclude(f, CAUSE_COMPUTE_STRAGGLER, "all ranks of the stage are alike");
}

static void plain_words(const struct judge *j, struct report *r, struct finding *f,
			const struct entry *e)
{
	const char *at = when(j, r, e);

	switch (e->cause) {
	case CAUSE_CHECKPOINT:
		f->summary =
		    e->rows.n
			? report_printf(
			      r, "%s is busy or silent while the others wait, as in a save, %s",
			      who(j, r, e), at)
			: report_printf(r, "all ranks stand in a save, %s", at);
		if (e->rows.n)
			exclude(f, CAUSE_HOST_STALL,
				"only in steps that have a barrier or operation that the "
				"other steps lack, or inside a range named as a save");
		add_evidence(f, "a save costs", e->saved_ns / 1e6 / MAX(e->n_on, 1u), NAN, "ms");
		break;
	case CAUSE_WORKLOAD_IMBALANCE:
		f->summary =
		    report_printf(r,
				  "ranks have unequal work, and which has most changes (%u times "
				  "in %u steps): %s ms a step more than the median",
				  e->windows, e->n_on, amount(r, e->mean_ns / 1e6));
		exclude(f, CAUSE_COMPUTE_STRAGGLER, "no rank is the slow one in most steps");
		break;
	case CAUSE_PIPELINE_IMBALANCE:
		stage_words(r, f, e);
		break;
	case CAUSE_KERNEL_REGRESSION:
		f->summary =
		    report_printf(r, "kernel %s takes %s us on all ranks, %s us before, %s",
				  kernel_name(j, r, e->kernel), amount(r, e->mean_ns / 1e3),
				  amount(r, e->base_ns / 1e3), at);
		add_evidence(f,
			     "mean duration of the kernel, other kernels' common change taken out",
			     e->mean_ns / 1e3, e->base_ns / 1e3, "us");
		exclude(f, CAUSE_COMPUTE_STRAGGLER, "at least three quarters of the ranks show it");
		break;
	case CAUSE_DATA_STARVED:
		f->summary =
		    report_printf(r, "input-bound: %s %s ms a step (%.0f %%) for data, %s",
				  j->n_rows > 1 ? "all ranks wait" : "the rank waits",
				  amount(r, e->mean_ns / 1e6), 100 * e->saved_ns / e->spent_ns, at);
		add_evidence(f, "waiting for the data loader per step, nothing else running",
			     e->mean_ns / 1e6, 0, "ms");
		break;
	case CAUSE_HOST_STALL:
		f->summary = report_printf(
		    r,
		    "launch-bound: the GPU idles %s ms a step (%.0f %%) because its host launches "
		    "late%s",
		    amount(r, e->mean_ns / 1e6), 100 * e->saved_ns / e->spent_ns,
		    j->n_rows > 1 ? ", on all ranks" : "");
		break;
	case CAUSE_COMM_LINK:
		f->summary = report_printf(
		    r,
		    "transfers of all groups alike take %.3g times as long, %s; where the "
		    "slow link is cannot be told",
		    e->ratio, at);
		add_evidence(f, "step time, against the steps before", e->mean_ns / 1e6,
			     e->base_ns / 1e6, "ms");
		exclude(f, CAUSE_COMPUTE_STRAGGLER, "no rank's own time grew");
		break;
	default:
		f->summary = report_printf(
		    r, "steps take %s ms instead of %s ms, %s; no rank given stands out",
		    amount(r, e->mean_ns / 1e6), amount(r, e->base_ns / 1e6), at);
		add_evidence(f, "step time", e->mean_ns / 1e6, e->base_ns / 1e6, "ms");
	}
}

/* What to do where no command finds out more; NULL where one does. */
static const char *advice(const struct judge *j, const struct entry *e)
{
	switch (e->cause) {
	case CAUSE_CHECKPOINT:
		return "wait, if this is the usual save; to make saves cheaper: save less often, "
		       "asynchronously, or to a faster store";
	case CAUSE_WORKLOAD_IMBALANCE:
		return "drain no machine: give the ranks equal work (sort or pack sequences by "
		       "length, balance the routing)";
	case CAUSE_PIPELINE_IMBALANCE:
		return "drain no machine: move layers from this stage to the others";
	case CAUSE_KERNEL_REGRESSION:
		return "see what changed at that step for all ranks: shapes, a recompile, a "
		       "library's choice of kernel, power limits";
	case CAUSE_UNKNOWN:
		return e->blame == BLAME_LATE
			   ? "record a few steps more, from before this one, on all ranks"
		       : j->job->world_size == (int64_t)j->n_rows
			   ? "see what changed at that step for all ranks: the network, "
			     "storage, other jobs on the machines"
			   : "trace the ranks that are missing here, in the same steps";
	default:
		return NULL;
	}
}

/* The first culprit: one is enough to look at. */
static const char *first_of(const struct judge *j, struct report *r, const struct entry *e)
{
	struct entry one = *e;

	one.rows.n = MIN(e->rows.n, (size_t)1);
	one.node = NO_ID;
	return who(j, r, &one);
}

void words_next(const struct judge *j, struct report *r, struct finding *f, const struct entry *e)
{
	struct job_place at =
	    e->rows.n ? place_of_row(j, e, e->rows.v[0]) : (struct job_place){ NO_ID, -1 };
	const char *host = name_of(j, at.host);
	const char *on = host ? report_printf(r, "ssh %s ", host) : "";
	const char *first = first_of(j, r, e);
	const char *where =
	    e->rows.n && !host ? report_printf(r, "   # on the machine of %s", first) : "";
	int32_t gpu = at.gpu_index;

	if (advice(j, e))
		*vec_push(&f->next) = advice(j, e);
	if (may_be_work(e))
		*vec_push(&f->next) = report_printf(
		    r,
		    "before its machine is drained: compare the tokens and sequence lengths of %s "
		    "in these steps with its peers'",
		    first);
	switch (e->cause) {
	case CAUSE_COMPUTE_STRAGGLER:
	case CAUSE_THROTTLING:
		if (j->job->cpu_job)
			*vec_push(&f->next) = report_printf(
			    r, "%stop -b -n 1 | head -20   # who shares its CPUs", on);
		else
			*vec_push(&f->next) = report_printf(
			    r, "%snvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE,POWER,ECC%s%s", on,
			    gpu >= 0 ? report_printf(r, " -i %d", gpu) : "", where);
		break;
	case CAUSE_COMM_LINK:
		*vec_push(&f->next) = report_printf(r, "%sibstat%s", on, where);
		*vec_push(&f->next) =
		    report_printf(r, "%snvidia-smi nvlink -e   # link errors", on);
		break;
	case CAUSE_HOST_STALL:
		if (e->rows.n)
			*vec_push(&f->next) = report_printf(
			    r, "%spy-spy dump --pid PID   # of %s, while it stalls", on, first);
		break;
	case CAUSE_DATA_STARVED:
		*vec_push(&f->next) = report_printf(r, "%siostat -x 1 3%s", on, where);
		*vec_push(&f->next) =
		    report_printf(r, "%stop -b -n 1 | head -20   # its loader's workers", on);
		break;
	default:
		break;
	}
	*vec_push(&f->next) = report_printf(r, "lockstep explain %s", cause_info(e->cause)->name);
}

void words_say(const struct judge *j, struct report *r, struct finding *f, const struct entry *e)
{
	if (e->cause == CAUSE_COMM_LINK && !e->common) {
		link_words(j, r, f, e);
	} else if (names_nobody(e)) {
		plain_words(j, r, f, e);
	} else {
		own_summary(j, r, f, e);
		own_evidence(j, r, f, e);
		own_exclusions(j, r, f, e);
	}
}
