/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.c - the kernels of a step: per name and class of stream the sum, the maximum and the
 * histogram of durations, and how long launches took to start.
 */
#include "fold/inside.h"

#define CLASSES_LIMIT 8

struct kernel_row {
	uint32_t name, lane;
	uint32_t next; /* row of the same name on another lane, + 1 */
	uint32_t count;
	int64_t sum, max;
	uint32_t last; /* the bin that was hit last */
	struct {
		struct hist_bin *v;
		size_t n, cap;
	} bins;
};

struct kernel_table {
	struct kernel_row *rows;
	size_t n, cap;	 /* rows beyond n keep their bins for the next step */
	uint32_t *first; /* by name: row + 1, valid if its row has that name */
	size_t n_first;
};

static void bin_count(struct kernel_row *row, uint16_t bin)
{
	size_t lo = 0, hi = row->bins.n;

	if (row->last < row->bins.n && row->bins.v[row->last].bin == bin) {
		row->bins.v[row->last].count++;
		return;
	}
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (row->bins.v[mid].bin < bin)
			lo = mid + 1;
		else
			hi = mid;
	}
	row->last = (uint32_t)lo;
	if (lo < row->bins.n && row->bins.v[lo].bin == bin) {
		row->bins.v[lo].count++;
		return;
	}
	vec_grow(&row->bins, 1);
	memmove(row->bins.v + lo + 1, row->bins.v + lo, (row->bins.n - lo) * sizeof(*row->bins.v));
	row->bins.v[lo] = (struct hist_bin){ bin, 1 };
	row->bins.n++;
}

static struct kernel_row *row_add(struct kernel_table *t, const struct work *w)
{
	size_t old = t->cap;
	struct kernel_row *row;

	t->rows = vec_reserve(t->rows, &t->cap, t->n + 1, sizeof(*t->rows));
	memset(t->rows + old, 0, (t->cap - old) * sizeof(*t->rows));
	row = &t->rows[t->n++];
	row->name = w->name;
	row->lane = w->lane;
	row->count = row->next = row->last = 0;
	row->sum = row->max = 0;
	row->bins.n = 0;
	return row;
}

static struct kernel_row *row_of(struct kernel_table *t, const struct work *w)
{
	uint32_t at = t->first[w->name];
	struct kernel_row *row;

	if (!at || at > t->n || t->rows[at - 1].name != w->name) {
		row = row_add(t, w);
		t->first[w->name] = (uint32_t)t->n;
		return row;
	}
	for (;;) {
		row = &t->rows[at - 1];
		if (row->lane == w->lane)
			return row;
		if (!row->next)
			break;
		at = row->next;
	}
	row->next = (uint32_t)t->n + 1;
	return row_add(t, w);
}

/* Streams in order of their compute: class 0 has most of it. */
static void classes_settle(struct fold *f, const struct kernel_table *t, uint32_t *class_of)
{
	for (size_t i = 0; i < f->n_lanes; i++)
		f->lanes[i].compute_ns = 0;
	for (size_t i = 0; i < t->n; i++)
		f->lanes[t->rows[i].lane].compute_ns += t->rows[i].sum + 1;
	for (size_t i = 0; i < f->n_lanes; i++)
		class_of[i] = CLASSES_LIMIT - 1;
	for (uint32_t class = 0; class < CLASSES_LIMIT - 1; class ++) {
		size_t best = 0;

		for (size_t i = 1; i < f->n_lanes; i++)
			if (f->lanes[i].compute_ns > f->lanes[best].compute_ns)
				best = i;
		if (!f->n_lanes || !f->lanes[best].compute_ns)
			break;
		class_of[best] = class;
		f->lanes[best].compute_ns = 0;
	}
}

static void kernel_merge(struct closing *c, struct step_kernel *k, const struct kernel_row *row)
{
	struct hist_bin *bins = arena_alloc(&c->arena, (k->hist.n + row->bins.n) * sizeof(*bins));
	uint32_t i = 0, j = 0, n = 0;

	while (i < k->hist.n || j < row->bins.n) {
		if (j == row->bins.n || (i < k->hist.n && k->hist.bins[i].bin < row->bins.v[j].bin))
			bins[n] = k->hist.bins[i++];
		else
			bins[n] = row->bins.v[j++];
		if (n && bins[n].bin == bins[n - 1].bin)
			bins[n - 1].count += bins[n].count;
		else
			n++;
	}
	k->hist.bins = bins;
	k->hist.n = n;
	k->hist.count += row->count;
	k->count += row->count;
	k->sum_ns += row->sum;
	k->max_ns = MAX(k->max_ns, row->max);
}

static void kernels_emit(struct closing *c)
{
	struct kernel_table *t = c->kernels;
	struct step *s = &c->step;
	uint32_t *class_of = arena_alloc(&c->arena, (c->f->n_lanes + 1) * sizeof(*class_of));

	classes_settle(c->f, t, class_of);
	s->kernels = arena_alloc(&c->arena, (t->n + 1) * sizeof(*s->kernels));
	for (size_t i = 0; i < t->n; i++) {
		const struct kernel_row *row = &t->rows[i];
		uint32_t class = class_of[row->lane], k = s->n_kernels;

		/* Several lanes can share the last class. */
		for (uint32_t j = 0; class == CLASSES_LIMIT - 1 && j < s->n_kernels; j++)
			if (s->kernels[j].name == row->name && s->kernels[j].stream_class == class)
				k = j;
		if (k == s->n_kernels) {
			s->kernels[k] =
			    (struct step_kernel){ .name = row->name, .stream_class = class };
			s->n_kernels++;
		}
		kernel_merge(c, &s->kernels[k], row);
	}
}

static int64_t delay_quantile(const struct kernel_row *delays, double q)
{
	struct hist h = { delays->bins.v, (uint32_t)delays->bins.n, delays->count };

	return delays->count ? (int64_t)hist_quantile_ns(&h, q) : -1;
}

void kernels_step(struct closing *c)
{
	struct kernel_table *t = c->kernels;
	struct kernel_row delays = { 0 };
	size_t known = 0, gpu = 0;

	if (!t)
		t = c->kernels = xcalloc(1, sizeof(*t));
	if (t->n_first < c->f->names.n) {
		t->first = xrealloc(t->first, c->f->names.n * sizeof(*t->first));
		memset(t->first + t->n_first, 0, (c->f->names.n - t->n_first) * sizeof(*t->first));
		t->n_first = c->f->names.n;
	}
	t->n = 0;
	for (size_t i = 0; i < c->work->n; i++) {
		const struct work *w = &c->work->v[i];
		struct kernel_row *row;

		gpu += w->kind <= ITEM_SET;
		known += w->kind <= ITEM_SET && w->launch != TIME_UNKNOWN;
		if (w->kind != ITEM_KERNEL)
			continue;
		row = row_of(t, w);
		row->count++;
		row->sum += w->end - w->start;
		row->max = MAX(row->max, w->end - w->start);
		bin_count(row, hist_bin_of(w->end - w->start));
		if (w->launch != TIME_UNKNOWN) {
			bin_count(&delays, hist_bin_of(MAX(w->start - w->launch, 0)));
			delays.count++;
		}
	}
	kernels_emit(c);
	c->step.launch_delay_p50_ns = delay_quantile(&delays, 0.5);
	c->step.launch_delay_p99_ns = delay_quantile(&delays, 0.99);
	if (known * 2 < gpu)
		c->step.flags |= STEP_NO_LAUNCHES;
	free(delays.bins.v);
}

void kernels_done(struct closing *c)
{
	if (!c->kernels)
		return;
	for (size_t i = 0; i < c->kernels->cap; i++)
		free(c->kernels->rows[i].bins.v);
	free(c->kernels->rows);
	free(c->kernels->first);
	free(c->kernels);
	c->kernels = NULL;
}
