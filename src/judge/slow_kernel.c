/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_kernel.c - L3: kernels. One that got slower on all ranks since a step, and which kernel or
 * phase it is in which a suspect differs from its peers.
 *
 * A kernel's speed in a step is the lower quartile over ranks of its mean duration, so that
 * stragglers do not move it. Longer sequences slow all kernels of a step alike; that common factor
 * is taken out first.
 */
#include "base/stats.h"
#include "judge/judge_internal.h"

#include <math.h>

#define SHARE_MIN      0.005 /* of the step's compute, for a kernel to be watched at all */
#define REGRESSION_MIN 1.1   /* after over before */
#define DETAILS_MAX    64u
#define SLOWER_MIN     1.03 /* a kernel that takes so much longer is one of those to ask .. */
#define MORE_MIN       1.03 /* .. whether it had more work, by so much at least .. */
#define MORE_OF_TIME   0.3 /* .. and so much of what it took longer: attention's grows by squares */
#define SAME_MOST      1.01  /* no more work than its peers */
#define BLOCKS_TELL    1000u /* a kernel of fewer may be one that stays, whatever its work */
#define TOLD_SHARE     0.03  /* of the excess, by kernels that tell */

/* All streams of one kernel name on one row. */
struct sample {
	uint32_t row;
	float count, sum;
};

/* Nothing is done where there are too many names already. */
static void line_of(struct judge *j, uint32_t name)
{
	uint32_t old = j->kernel_of_name_n;

	if (name >= old) {
		j->kernel_of_name_n = MAX(name + 1, old * 2);
		j->kernel_of_name =
		    xrealloc(j->kernel_of_name, j->kernel_of_name_n * sizeof(*j->kernel_of_name));
		for (uint32_t i = old; i < j->kernel_of_name_n; i++)
			j->kernel_of_name[i] = NO_ID;
	}
	if (j->kernel_of_name[name] == NO_ID) {
		struct kernel_line *k;

		if (j->n_kernels == KERNELS_MAX)
			return;
		k = &j->kernels[j->n_kernels];
		k->name = name;
		k->typical = xcalloc(j->history, sizeof(*k->typical));
		k->total = xcalloc(j->history, sizeof(*k->total));
		k->spread = xcalloc(j->history, sizeof(*k->spread));
		j->kernel_of_name[name] = j->n_kernels++;
	}
}

/* Gives each name of the step its line, in order of names; returns how many samples there are at
   most. */
static size_t take_names(struct judge *j, struct step *const *steps)
{
	uint32_t n_names = j->job->names.n;
	_cleanup_free_ bool *seen = xcalloc(n_names + 1, 1);
	size_t n = 0;

	for (uint32_t row = 0; row < j->n_rows; row++)
		for (uint32_t i = 0; steps[row] && i < steps[row]->n_kernels; i++, n++)
			if (steps[row]->kernels[i].name < n_names)
				seen[steps[row]->kernels[i].name] = true;
	for (uint32_t name = 0; name < n_names; name++)
		if (seen[name])
			line_of(j, name);
	return n;
}

/* Samples by line, in order of rows: first[line] is where a line's begin, n[line] how many. */
static struct sample *take_samples(struct judge *j, struct step *const *steps, size_t *first,
				   size_t *n)
{
	size_t all = take_names(j, steps);
	struct sample *s = xmalloc((all + 1) * sizeof(*s));

	memset(first, 0, (KERNELS_MAX + 1) * sizeof(*first));
	memset(n, 0, KERNELS_MAX * sizeof(*n));
	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t row = 0; row < j->n_rows; row++)
			for (uint32_t i = 0; steps[row] && i < steps[row]->n_kernels; i++) {
				const struct step_kernel *k = &steps[row]->kernels[i];
				uint32_t line = k->name < j->kernel_of_name_n
						    ? j->kernel_of_name[k->name]
						    : NO_ID;
				struct sample *last;

				if (line == NO_ID)
					continue;
				if (!pass) {
					first[line + 1]++;
					continue;
				}
				last = &s[first[line] + n[line]];
				if (n[line] && last[-1].row == row) {
					last[-1].count += (float)k->count;
					last[-1].sum += (float)k->sum_ns;
					continue;
				}
				*last = (struct sample){ row, (float)k->count, (float)k->sum_ns };
				n[line]++;
			}
		for (uint32_t line = 0; !pass && line < KERNELS_MAX; line++)
			first[line + 1] += first[line];
	}
	return s;
}

void kernel_step(struct judge *j, struct step *const *steps, uint32_t t)
{
	size_t first[KERNELS_MAX + 1], n[KERNELS_MAX];
	_cleanup_free_ struct sample *s = take_samples(j, steps, first, n);
	_cleanup_free_ double *x = xmalloc(((size_t)j->n_rows + 1) * sizeof(*x));

	for (uint32_t line = 0; line < j->n_kernels; line++) {
		const struct sample *its = s + first[line];

		if (!n[line])
			continue;
		for (size_t i = 0; i < n[line]; i++)
			x[i] = its[i].count > 0 ? (double)(its[i].sum / its[i].count) : 0;
		j->kernels[line].typical[t] = (float)stats_quantile(x, n[line], 0.25);
		j->kernels[line].spread[t] =
		    (float)stats_quantile(x, n[line], 0.75) - j->kernels[line].typical[t];
		for (size_t i = 0; i < n[line]; i++)
			x[i] = (double)its[i].sum;
		j->kernels[line].total[t] = (float)lower_median(x, n[line]);
	}
}

/* The work of a kernel of one step, as its launches tell. */
static double work_of(const struct step_kernel *k, bool blocks)
{
	return (double)k->count * (blocks ? (double)k->blocks : 1);
}

static struct detail *detail_of(struct detail **v, size_t *n, size_t *cap, uint32_t name)
{
	for (size_t i = 0; i < *n; i++)
		if ((*v)[i].name == name)
			return &(*v)[i];
	if (*n == DETAILS_MAX)
		return NULL;
	*v = vec_reserve(*v, cap, *n + 1, sizeof(**v));
	(*v)[*n] = (struct detail){ .name = name };
	return &(*v)[(*n)++];
}

/* The same kernel on the same class of stream. */
static const struct step_kernel *kernel_like(const struct step *s, const struct step_kernel *k)
{
	for (uint32_t i = 0; i < s->n_kernels; i++)
		if (s->kernels[i].name == k->name && s->kernels[i].stream_class == k->stream_class)
			return &s->kernels[i];
	return NULL;
}

/* L3: the distance of the row's distribution of a kernel to the middle one of its peers: the
   average of their quantile functions, O(peers), after the design's rule on distances. */
static double distance_to_middle(struct step *const *steps, const struct step_kernel *own,
				 const uint32_t *peers, size_t n_peers)
{
	double sum = 0, q;
	const int points = 16;

	for (int i = 0; i < points; i++) {
		double middle = 0, n = 0;

		q = (i + 0.5) / points;
		for (size_t k = 0; k < n_peers; k++) {
			const struct step_kernel *p = kernel_like(steps[peers[k]], own);

			if (p && p->hist.count) {
				middle += hist_quantile_ns(&p->hist, q);
				n++;
			}
		}
		if (n > 0)
			sum += fabs(hist_quantile_ns(&own->hist, q) - middle / n);
	}
	return sum / points;
}

/* What a phase cost its rank: the GPU work launched in it, on CPU jobs its exposed time. */
static double phase_ns(const struct judge *j, const struct step_phase *phase)
{
	return (double)(j->job->cpu_job ? phase->exposed_ns : phase->gpu_ns);
}

static void phase_details(const struct judge *j, struct row_detail *d, struct step *const *steps,
			  const struct step *s, const uint32_t *peers, size_t n_peers, double *x)
{
	for (uint32_t i = 0; i < s->n_phases; i++) {
		const struct step_phase *ph = &s->phases[i];
		struct detail *line;
		size_t n = 0;
		double base;

		for (size_t k = 0; k < n_peers; k++)
			for (uint32_t q = 0; q < steps[peers[k]]->n_phases; q++) {
				const struct step_phase *o = &steps[peers[k]]->phases[q];

				if (o->name != ph->name)
					continue;
				x[n++] = phase_ns(j, o);
				break; /* records from outside may have a name twice */
			}
		if (!n)
			continue;
		base = lower_median(x, n);
		line = detail_of(&d->phases.v, &d->phases.n, &d->phases.cap, ph->name);
		if (line) {
			line->excess_ns += phase_ns(j, ph) - base;
			line->base_ns += base;
		}
	}
}

void kernel_details(struct judge *j, struct step *const *steps, uint32_t row, const uint32_t *peers,
		    size_t n_peers)
{
	struct row_detail *d = &j->details[row];
	const struct step *s = steps[row];
	_cleanup_free_ double *x = xmalloc((n_peers * 4 + 4) * sizeof(*x));
	_cleanup_free_ double *work = xmalloc((n_peers + 1) * sizeof(*work));
	double worst = 0;
	const struct step_kernel *suspect = NULL;

	for (uint32_t i = 0; i < s->n_kernels; i++) {
		const struct step_kernel *own = &s->kernels[i];
		struct detail *line;
		size_t n = 0;
		bool blocks = own->blocks > 0;
		double excess, base;

		for (size_t k = 0; k < n_peers; k++) {
			const struct step_kernel *p = kernel_like(steps[peers[k]], own);

			if (!p)
				continue;
			x[n] = (double)p->sum_ns;
			work[n++] = work_of(p, blocks);
		}
		if (!n)
			continue;
		base = lower_median(x, n);
		excess = (double)own->sum_ns - base;
		line = detail_of(&d->kernels.v, &d->kernels.n, &d->kernels.cap, own->name);
		if (line) {
			line->excess_ns += excess;
			line->base_ns += base;
			line->work += work_of(own, blocks);
			line->base_work += lower_median(work, n);
			line->launches += blocks ? own->count : 0;
		}
		if (excess > worst) {
			worst = excess;
			suspect = own;
		}
	}
	if (suspect) {
		double w1 = distance_to_middle(steps, suspect, peers, n_peers);

		if (w1 > d->w1_ns) {
			d->w1_ns = w1;
			d->w1_kernel = suspect->name;
		}
	}
	phase_details(j, d, steps, s, peers, MIN(n_peers, (size_t)64), x);
	for (int i = 0; i < HOST_DETAILS; i++)
		d->host_detail[i] += (double)s->host_detail_ns[i];
	if ((double)s->longest_stall_ns > d->host_what_ns) {
		d->host_what_ns = (double)s->longest_stall_ns;
		d->host_what = s->host_what;
	}
}

/* A kernel that takes longer on one rank has more work there, or a slower machine. Its launches
   tell: longer sequences, more tokens of an expert, another micro-batch make grids larger, or
   launches more. Kernels of few blocks may be such as stay on the GPU and take their work from a
   list; they say nothing. */
void kernel_work(const struct judge *j, struct entry *e)
{
	double excess = 0, more = 0, same = 0, ratios = 0;

	for (size_t i = 0; i < e->rows.n; i++) {
		const struct row_detail *d = &j->details[e->rows.v[i]];

		for (size_t k = 0; k < d->kernels.n; k++) {
			const struct detail *line = &d->kernels.v[k];
			double time, work;

			excess += fmax(0, line->excess_ns);
			if (line->base_ns <= 0 || line->base_work <= 0)
				continue;
			time = 1 + line->excess_ns / line->base_ns;
			work = line->work / line->base_work;
			if (time < SLOWER_MIN)
				continue;
			if (work >= MORE_MIN && work - 1 >= MORE_OF_TIME * (time - 1)) {
				more += line->excess_ns;
				ratios += work * line->excess_ns;
			} else if (work <= SAME_MOST && work >= 2 - SAME_MOST &&
				   line->launches > 0 &&
				   line->work > BLOCKS_TELL * line->launches) {
				same += line->excess_ns;
			}
		}
	}
	e->work = WORK_UNTOLD;
	if (more > TOLD_SHARE * excess && more > same) {
		e->work = WORK_MORE;
		e->work_ratio = ratios / more;
	} else if (same > TOLD_SHARE * excess) {
		e->work = WORK_SAME;
	}
}

/* The factor common to all kernels of a step: the median of speeds over their own medians. */
static void common_factors(const struct judge *j, const uint32_t *at, size_t n, double *factor)
{
	_cleanup_free_ double *middle = xcalloc(j->n_kernels + 1, sizeof(*middle));
	_cleanup_free_ double *x = xmalloc((MAX(n, (size_t)j->n_kernels) + 1) * sizeof(*x));

	for (uint32_t k = 0; k < j->n_kernels; k++) {
		size_t count = 0;

		for (size_t i = 0; i < n; i++)
			if (j->kernels[k].typical[at[i]] > 0)
				x[count++] = (double)j->kernels[k].typical[at[i]];
		middle[k] = count == n ? stats_median(x, count) : 0;
	}
	for (size_t i = 0; i < n; i++) {
		size_t count = 0;

		for (uint32_t k = 0; k < j->n_kernels; k++)
			if (middle[k] > 0)
				x[count++] = (double)j->kernels[k].typical[at[i]] / middle[k];
		factor[i] = count >= 3 ? stats_median(x, count) : 1;
	}
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Where v is or would be in the n sorted values of s. */
static size_t sorted_place(const double *s, size_t n, double v)
{
	size_t lo = 0;

	while (n) {
		size_t half = n / 2;

		if (s[lo + half] < v) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo;
}

/* stats_quantile of sorted values. */
static double sorted_quantile(const double *s, size_t n, double q)
{
	double at = q * (double)(n - 1);
	size_t k = (size_t)at;
	double part = at - (double)k;

	return part <= 0 || k + 1 >= n ? s[k] : s[k] + part * (s[k + 1] - s[k]);
}

static void medians_about(const double *x, size_t n, size_t split, double *y, double *before,
			  double *after)
{
	memcpy(y, x, split * sizeof(*y));
	*before = stats_median(y, split);
	memcpy(y, x + split, (n - split) * sizeof(*y));
	*after = stats_median(y, n - split);
}

/* Quantiles leave room for a tenth of the steps: of the places near by, the one with the fewest
   steps on the wrong side of the middle. */
static size_t sharpest_split(const double *x, size_t n, size_t least, size_t split, double middle)
{
	size_t best = split, fewest = SIZE_MAX, wrong = 0;

	for (size_t i = 0; i < n; i++)
		wrong += x[i] < middle;
	for (size_t k = 0; k + least <= n; k++) {
		size_t off = k > split ? k - split : split - k;
		size_t off_best = best > split ? best - split : split - best;

		if (k >= least && (wrong < fewest || (wrong == fewest && off < off_best))) {
			fewest = wrong;
			best = k;
		}
		if (k < n) /* step k goes over to those before */
			wrong += x[k] >= middle ? 1 : (size_t)-1;
	}
	return best;
}

/* The values on both sides are kept in order from split to split, since every kernel of a job comes
 * here. */
size_t step_up(const double *x, size_t n, size_t least, double *before, double *after)
{
	_cleanup_free_ double *y = xmalloc((n + 1) * sizeof(*y));
	_cleanup_free_ double *rest = xmalloc((n + 1) * sizeof(*rest));
	double best = 0;
	size_t split = 0;

	memcpy(rest, x, n * sizeof(*rest));
	qsort(rest, n, sizeof(*rest), by_value);
	for (size_t k = 1; k + least <= n; k++) {
		size_t into = sorted_place(y, k - 1, x[k - 1]);
		size_t from = sorted_place(rest, n - k + 1, x[k - 1]);
		double low, high, gap;

		memmove(y + into + 1, y + into, (k - 1 - into) * sizeof(*y));
		y[into] = x[k - 1];
		memmove(rest + from, rest + from + 1, (n - k - from) * sizeof(*rest));
		if (k < least)
			continue;
		high = sorted_quantile(y, k, 0.9);	 /* nearly all of before .. */
		low = sorted_quantile(rest, n - k, 0.1); /* .. lies below nearly all of after */
		gap = low - high;
		if (gap > best) {
			best = gap;
			split = k;
		}
	}
	if (!split)
		return 0;
	medians_about(x, n, split, y, before, after);
	split = sharpest_split(x, n, least, split, (*before + *after) / 2);
	medians_about(x, n, split, y, before, after);
	return split;
}

struct regression {
	uint32_t kernel;
	size_t split;
	double before, after, lost_ns;
};

/* How far ranks differ in a kernel: where its work is uneven, as that of experts is, a step up by
   no more than that may be chance. */
static double usual_spread(const struct kernel_line *line, const uint32_t *at, size_t n)
{
	_cleanup_free_ double *x = xmalloc((n + 1) * sizeof(*x));

	for (size_t i = 0; i < n; i++)
		x[i] = (double)line->spread[at[i]];
	return stats_median(x, n);
}

static struct regression find_regression(const struct judge *j, const uint32_t *at, size_t n)
{
	struct regression worst = { .kernel = NO_ID };
	_cleanup_free_ double *factor = xmalloc((n + 1) * sizeof(*factor));
	_cleanup_free_ double *x = xmalloc((n + 1) * sizeof(*x));

	common_factors(j, at, n, factor);
	for (uint32_t k = 0; k < j->n_kernels; k++) {
		const struct kernel_line *line = &j->kernels[k];
		struct regression r = { .kernel = k };
		double wall = 0;
		size_t i = 0;

		for (; i < n && line->typical[at[i]] > 0; i++)
			x[i] = (double)line->typical[at[i]] / factor[i];
		if (i < n || !(r.split = step_up(x, n, 2, &r.before, &r.after)) ||
		    r.after <= r.before * REGRESSION_MIN ||
		    r.after - r.before < usual_spread(line, at, n))
			continue;
		for (i = r.split; i < n; i++) {
			r.lost_ns += (double)line->total[at[i]] * (1 - r.before / r.after);
			wall += j->moments[at[i]].wall;
		}
		if (r.lost_ns > SHARE_MIN * wall && r.lost_ns > worst.lost_ns)
			worst = r;
	}
	return worst;
}

bool kernel_regression(struct judge *j, struct report *report)
{
	_cleanup_free_ uint32_t *at = xmalloc((j->n_steps + 1) * sizeof(*at));
	struct regression r;
	struct entry e = { .cause = CAUSE_KERNEL_REGRESSION,
			   .blame = BLAME_COMPUTE,
			   .node = NO_ID };
	size_t n = 0;

	for (uint32_t t = 0; t < j->n_steps; t++)
		if (!j->moments[t].set_aside && !(j->moments[t].flags & STEP_PARTIAL))
			at[n++] = t;
	if (n < 5)
		return false;
	r = find_regression(j, at, n);
	if (r.kernel == NO_ID)
		return false;
	e.on = arena_alloc(&j->scratch, j->n_steps + 1);
	for (size_t i = r.split; i < n; i++) {
		e.on[at[i]] = true;
		e.n_on++;
		e.spent_ns += j->moments[at[i]].wall;
	}
	e.mass_ns = e.saved_ns = r.lost_ns;
	e.mean_ns = r.after;
	e.base_ns = r.before;
	e.ratio = r.after / r.before;
	e.kernel = j->kernels[r.kernel].name;
	entry_report(j, report, &e);
	return true;
}
