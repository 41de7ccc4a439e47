/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.c - the kernels of a step: per name and class of stream the sum, the maximum and the
 * histogram of durations, and how long launches took to start.
 */
#include "fold/inside.h"

#define CLASSES_LIMIT 8

/* Counts of the bins low .. low + n - 1: durations of one name lie close together. */
struct bins {
	uint32_t *v;
	size_t n, cap;
	uint16_t low;
};

struct kernel_row {
	uint32_t name, lane;
	uint32_t next; /* row of the same name on another lane, + 1 */
	uint32_t count;
	int64_t sum, max;
	uint64_t blocks;
	struct bins bins;
};

struct kernel_table {
	struct kernel_row *rows;
	size_t n, cap;	 /* rows beyond n keep their bins for the next step */
	uint32_t *first; /* by name: row + 1, 0: none */
	size_t n_first;
};

/* Makes room for a bin outside of those that are counted so far. */
static void bins_widen(struct bins *b, uint16_t bin)
{
	size_t front = b->n && bin < b->low ? (size_t)(b->low - bin) : 0;
	size_t n = b->n ? MAX(b->n + front, (size_t)(bin - MIN(bin, b->low)) + 1) : 1;

	b->v = vec_reserve(b->v, &b->cap, n, sizeof(*b->v));
	if (front)
		memmove(b->v + front, b->v, b->n * sizeof(*b->v));
	memset(b->v, 0, front * sizeof(*b->v));
	memset(b->v + front + b->n, 0, (n - front - b->n) * sizeof(*b->v));
	if (!b->n || front)
		b->low = bin;
	b->n = n;
}

static inline void bin_count(struct bins *b, uint16_t bin)
{
	if ((size_t)(bin - b->low) >= b->n) /* below is far above, unsigned */
		bins_widen(b, bin);
	b->v[bin - b->low]++;
}

static struct hist bins_hist(struct arena *arena, const struct bins *b)
{
	struct hist h = { 0 };

	for (size_t i = 0; i < b->n; i++)
		h.n += b->v[i] != 0;
	h.bins = arena_alloc(arena, h.n * sizeof(*h.bins));
	h.n = 0;
	for (size_t i = 0; i < b->n; i++) {
		if (!b->v[i])
			continue;
		h.bins[h.n++] = (struct hist_bin){ (uint16_t)(b->low + i), b->v[i] };
		h.count += b->v[i];
	}
	return h;
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
	row->count = row->next = 0;
	row->sum = row->max = 0;
	row->blocks = 0;
	row->bins.n = 0;
	return row;
}

static struct kernel_row *row_find(struct kernel_table *t, const struct work *w)
{
	uint32_t *next = &t->first[w->name];

	for (; *next; next = &t->rows[*next - 1].next)
		if (t->rows[*next - 1].lane == w->lane)
			return &t->rows[*next - 1];
	*next = (uint32_t)t->n + 1;
	return row_add(t, w);
}

static inline struct kernel_row *row_of(struct kernel_table *t, const struct work *w)
{
	uint32_t at = t->first[w->name];

	return at && t->rows[at - 1].lane == w->lane ? &t->rows[at - 1] : row_find(t, w);
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

static void hist_add(struct arena *arena, struct hist *to, const struct hist *h)
{
	struct hist_bin *bins = arena_alloc(arena, (to->n + h->n) * sizeof(*bins));
	uint32_t i = 0, j = 0, n = 0;

	while (i < to->n || j < h->n) {
		if (j == h->n || (i < to->n && to->bins[i].bin < h->bins[j].bin))
			bins[n] = to->bins[i++];
		else
			bins[n] = h->bins[j++];
		if (n && bins[n].bin == bins[n - 1].bin)
			bins[n - 1].count += bins[n].count;
		else
			n++;
	}
	to->bins = bins;
	to->n = n;
	to->count += h->count;
}

static void kernel_merge(struct closing *c, struct step_kernel *k, const struct kernel_row *row)
{
	struct hist h = bins_hist(&c->arena, &row->bins);

	if (k->count)
		hist_add(&c->arena, &k->hist, &h);
	else
		k->hist = h;
	k->count += row->count;
	k->blocks += row->blocks; /* the sum; kernels_emit makes it the mean */
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
	for (uint32_t k = 0; k < s->n_kernels; k++)
		s->kernels[k].blocks =
		    (s->kernels[k].blocks + s->kernels[k].count / 2) / MAX(s->kernels[k].count, 1u);
}

static int64_t delay_quantile(const struct hist *h, double q)
{
	return h->count ? (int64_t)hist_quantile_ns(h, q) : -1;
}

void kernels_step(struct closing *c)
{
	struct kernel_table *t = c->kernels;
	const struct work *end;
	struct bins delays = { 0 };
	struct hist h;
	size_t known = 0, unknown = 0;

	if (!t)
		t = c->kernels = xcalloc(1, sizeof(*t));
	if (t->n_first < c->f->names.n) {
		t->first = xrealloc(t->first, c->f->names.n * sizeof(*t->first));
		memset(t->first + t->n_first, 0, (c->f->names.n - t->n_first) * sizeof(*t->first));
		t->n_first = c->f->names.n;
	}
	for (size_t i = 0; i < t->n; i++)
		t->first[t->rows[i].name] = 0;
	t->n = 0;
	hist_prepare();
	end = c->work->n ? c->work->v + c->work->n : NULL;
	for (const struct work *w = c->work->v; w < end; w++) {
		int64_t duration = w->end - w->start;
		bool launched = w->launch != TIME_UNKNOWN;
		struct kernel_row *row;

		if (w->kind > ITEM_SET)
			continue;
		known += launched;
		unknown += !launched;
		if (w->kind != ITEM_KERNEL)
			continue;
		row = row_of(t, w);
		row->count++;
		row->sum += duration;
		row->blocks += w->seq;
		row->max = MAX(row->max, duration);
		bin_count(&row->bins, hist_bin_quick(duration));
		if (launched)
			bin_count(&delays, hist_bin_quick(w->start - w->launch));
	}
	kernels_emit(c);
	h = bins_hist(&c->arena, &delays);
	c->step.launch_delay_p50_ns = delay_quantile(&h, 0.5);
	c->step.launch_delay_p99_ns = delay_quantile(&h, 0.99);
	if (known < unknown)
		c->step.flags |= STEP_NO_LAUNCHES;
	free(delays.v);
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
