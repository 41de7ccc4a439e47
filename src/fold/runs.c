/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runs.c - insertion or radix sort in memory, merge of runs from the file.
 *
 * Spans of the host and of the GPU are kept apart, since files hold each of them nearly in order,
 * and both mixed. A span that comes out of order is moved to its place if that is not far; a list
 * where that would cost too much is sorted at its end by 8-byte keys (time since the earliest span,
 * position), 20 bits of position and 44 of time, of which only the bits that differ are passed
 * over. One whose times span more than 44 bits (4.9 hours, a broken file) is sorted by comparison.
 *
 * Host spans sort as if they had started a little earlier: the clocks of host and GPU differ by
 * some microseconds in traces, and a launch must be seen before the work that it started.
 */
#include "fold/runs.h"
#include "fold/spool.h"

#include <unistd.h>

#define POSITION_BITS 20
#define POSITION_MASK (((uint64_t)1 << POSITION_BITS) - 1)
#define LEAD_NS	      ((int64_t)5000000)
#define WINDOW_ITEMS  2048
#define RADIX_BITS    11
#define MOVES_AN_ITEM 4
#define MOVES_FREE    256
#define BYTES_AN_ITEM (sizeof(struct item) + 2 * sizeof(uint64_t))

static int64_t item_key(const struct item *it)
{
	return item_on_gpu(it) ? it->start : it->start - LEAD_NS;
}

/* Of two that start at the same time. */
static int item_compare_rest(const struct item *a, const struct item *b)
{
	if (item_duration(a) != item_duration(b))
		return item_duration(a) > item_duration(b) ? -1 : 1; /* the outer range first */
	if (item_kind(a) != item_kind(b))
		return item_kind(a) < item_kind(b) ? -1 : 1;
	if (a->correlation != b->correlation)
		return a->correlation < b->correlation ? -1 : 1;
	if (a->seq != b->seq)
		return a->seq < b->seq ? -1 : 1;
	if (a->lane != b->lane)
		return a->lane < b->lane ? -1 : 1;
	return a->name < b->name ? -1 : a->name > b->name;
}

/* Of one list. */
static int item_compare(const struct item *a, const struct item *b)
{
	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return item_compare_rest(a, b);
}

void runs_init(struct runs *r, size_t limit_bytes)
{
	size_t limit = limit_bytes / BYTES_AN_ITEM;

	*r = (struct runs){ .fd = -EBADF };
	r->lists[0].last = r->lists[1].last = INT64_MAX;
	r->limit = MIN(MAX(limit, (size_t)64), (size_t)1 << POSITION_BITS);
}

/* Moves the item that came last to its place; `back` leads to the one before it. */
void runs_nudge(struct item_list *l, struct item *last, ptrdiff_t back)
{
	struct item it = *last;
	size_t left = l->n - 1;

	if (l->unsorted)
		return;
	for (; left && item_compare(&last[back], &it) > 0; last += back, left--) {
		if (l->moved++ == MOVES_AN_ITEM * l->n + MOVES_FREE) {
			l->unsorted = true;
			break;
		}
		*last = last[back];
	}
	*last = it;
}

/* --- what is in memory --- */

/* The i-th of a list as it came. */
static inline struct item *list_item(const struct runs *r, bool gpu, size_t i)
{
	return gpu ? r->items + (r->cap - 1 - i) : r->items + i;
}

static inline const struct item *list_sorted(const struct runs *r, bool gpu, size_t i)
{
	const struct item_list *l = &r->lists[gpu];

	return list_item(r, gpu, l->keys ? (size_t)(l->keys[i] & POSITION_MASK) : i);
}

/* One pass of a stable radix sort by the digit at `shift`. */
static void radix_pass(const uint64_t *from, uint64_t *to, size_t n, unsigned shift)
{
	uint32_t at[1 << RADIX_BITS] = { 0 }, sum = 0;

	for (size_t i = 0; i < n; i++)
		at[(from[i] >> shift) & ((1 << RADIX_BITS) - 1)]++;
	for (size_t d = 0; d < ARRAY_SIZE(at); d++) {
		uint32_t count = at[d];

		at[d] = sum;
		sum += count;
	}
	for (size_t i = 0; i < n; i++)
		to[at[(from[i] >> shift) & ((1 << RADIX_BITS) - 1)]++] = from[i];
}

struct list_of {
	const struct runs *r;
	bool gpu;
};

static int key_compare(const void *a, const void *b, void *user)
{
	const struct list_of *of = user;
	size_t x = *(const uint64_t *)a & POSITION_MASK, y = *(const uint64_t *)b & POSITION_MASK;
	int order = item_compare(list_item(of->r, of->gpu, x), list_item(of->r, of->gpu, y));

	return order ? order : x < y ? -1 : x > y;
}

/* Equal times in the order of their content. */
static void keys_settle_ties(uint64_t *keys, size_t n, struct list_of of)
{
	for (size_t i = 0, j; i < n; i = j) {
		for (j = i + 1; j < n; j++)
			if (keys[j] >> POSITION_BITS != keys[i] >> POSITION_BITS)
				break;
		if (j - i > 1)
			qsort_r(keys + i, j - i, sizeof(*keys), key_compare, &of);
	}
}

/* Sorts keys of times up to `high`; `spare` is as long. Returns that of the two which holds them.
 */
static uint64_t *keys_sort(uint64_t *keys, uint64_t *spare, size_t n, uint64_t high)
{
	for (unsigned shift = POSITION_BITS; shift < 64 && high >> (shift - POSITION_BITS);
	     shift += RADIX_BITS) {
		uint64_t *swap = keys;

		radix_pass(keys, spare, n, shift);
		keys = spare;
		spare = swap;
	}
	return keys;
}

/* Afterwards list_sorted gives the items in order. */
static void list_sort(struct runs *r, bool gpu)
{
	struct item_list *l = &r->lists[gpu];
	int64_t low = INT64_MAX, high = INT64_MIN;
	uint64_t *keys, *spare, *sorted, range;
	bool in_spare;

	if (!l->unsorted || !l->n)
		return;
	for (size_t i = 0; i < l->n; i++) {
		int64_t start = list_item(r, gpu, i)->start;

		low = MIN(low, start);
		high = MAX(high, start);
	}
	keys = xmalloc(l->n * sizeof(*keys));
	range = (uint64_t)high - (uint64_t)low;
	if (range >> (64 - POSITION_BITS)) {
		for (size_t i = 0; i < l->n; i++)
			keys[i] = i;
		qsort_r(keys, l->n, sizeof(*keys), key_compare, &(struct list_of){ r, gpu });
		l->keys = keys;
		return;
	}
	spare = xmalloc(l->n * sizeof(*spare));
	for (size_t i = 0; i < l->n; i++)
		keys[i] =
		    ((uint64_t)list_item(r, gpu, i)->start - (uint64_t)low) << POSITION_BITS | i;
	in_spare = keys_sort(keys, spare, l->n, range) == spare;
	sorted = in_spare ? spare : keys;
	free(in_spare ? keys : spare);
	keys_settle_ties(sorted, l->n, (struct list_of){ r, gpu });
	l->keys = sorted;
}

static void memory_start(struct runs *r)
{
	for (int gpu = 0; gpu < 2; gpu++) {
		list_sort(r, gpu);
		r->lists[gpu].next = 0;
	}
}

static inline bool host_before(const struct item *host, const struct item *gpu)
{
	int64_t key = host->start - LEAD_NS;

	return key != gpu->start ? key < gpu->start : item_compare_rest(host, gpu) < 0;
}

/* Up to `most` items of both lists, while both have some. */
static size_t keys_merge(struct runs *r, const struct item **batch, size_t most)
{
	struct item_list *host = &r->lists[0], *gpu = &r->lists[1];
	size_t n = 0;

	for (; n < most && host->next < host->n && gpu->next < gpu->n; n++) {
		const struct item *x = list_sorted(r, false, host->next);
		const struct item *y = list_sorted(r, true, gpu->next);
		bool first = host_before(x, y);

		batch[n] = first ? x : y;
		host->next += first;
		gpu->next += !first;
	}
	return n;
}

/* The same of lists that came in order, so that an item is where its position says. */
static size_t plain_merge(struct runs *r, const struct item **batch, size_t most)
{
	struct item_list *host = &r->lists[0], *gpu = &r->lists[1];
	const struct item *x, *y;
	size_t n = 0, some;

	if (host->next == host->n || gpu->next == gpu->n)
		return 0;
	x = list_item(r, false, host->next);
	y = list_item(r, true, gpu->next);
	/* As many as cannot empty either list: nothing else is asked in between. */
	while ((some = MIN(MIN(host->n - host->next, gpu->n - gpu->next), most - n))) {
		const struct item *from = x;

		for (const struct item **end = &batch[n + some], **at = &batch[n]; at < end; at++) {
			bool first = host_before(x, y);

			*at = first ? x : y;
			x += first;
			y -= !first;
		}
		n += some;
		host->next += (size_t)(x - from);
		gpu->next += some - (size_t)(x - from);
	}
	return n;
}

/* The next items in memory, at most `most`; how many there were. */
static size_t memory_next(struct runs *r, const struct item **batch, size_t most)
{
	struct item_list *host = &r->lists[0], *gpu = &r->lists[1];
	size_t n =
	    host->keys || gpu->keys ? keys_merge(r, batch, most) : plain_merge(r, batch, most);

	while (n < most && gpu->next == gpu->n && host->next < host->n)
		batch[n++] = list_sorted(r, false, host->next++);
	while (n < most && host->next == host->n && gpu->next < gpu->n)
		batch[n++] = list_sorted(r, true, gpu->next++);
	return n;
}

static void memory_empty(struct runs *r)
{
	for (int gpu = 0; gpu < 2; gpu++) {
		free(r->lists[gpu].keys);
		r->lists[gpu] = (struct item_list){ .last = INT64_MAX };
	}
	r->bottom = r->items;
	r->top = r->items ? r->items + r->cap : NULL;
}

/* Memory that is not yet touched costs nothing, moving what is there does: so there are few steps.
 */
static void memory_grow(struct runs *r)
{
	size_t cap = !r->cap ? 1024 : r->cap < 1 << 14 ? r->cap * 4 : r->limit;
	size_t n = r->lists[1].n;

	cap = MIN(cap, r->limit);
	r->items = xrealloc(r->items, cap * sizeof(*r->items));
	memmove(r->items + cap - n, r->items + r->cap - n, n * sizeof(*r->items));
	r->cap = cap;
	r->bottom = r->items + r->lists[0].n;
	r->top = r->items + cap - n;
}

/* --- runs in the file --- */

static int runs_spill(struct runs *r, struct error *reterr)
{
	_cleanup_free_ struct item *chunk = xmalloc(WINDOW_ITEMS * sizeof(*chunk));
	const struct item *batch[RUNS_BATCH];
	uint64_t begin = r->in_file;
	size_t n = 0, got;
	int status = 0;

	if (r->fd < 0) {
		r->fd = spool_open_unlinked(reterr);
		if (r->fd < 0)
			return r->fd;
	}
	memory_start(r);
	do {
		got = memory_next(r, batch, RUNS_BATCH);
		for (size_t i = 0; i < got; i++)
			chunk[n++] = *batch[i];
		if (n + RUNS_BATCH <= WINDOW_ITEMS && got)
			continue;
		status = spool_pwrite(r->fd, chunk, n * sizeof(*chunk), r->in_file * sizeof(*chunk),
				      reterr);
		r->in_file += n;
		n = 0;
	} while (got && status >= 0);
	if (status < 0)
		return status;
	r->run = vec_reserve(r->run, &r->cap_runs, r->n_runs + 1, sizeof(*r->run));
	r->run[r->n_runs++] = (struct run){ .next = begin, .end = r->in_file };
	memory_empty(r);
	return 0;
}

int runs_make_room(struct runs *r, struct error *reterr)
{
	if (r->cap == r->limit)
		return runs_spill(r, reterr);
	memory_grow(r);
	return 0;
}

/* The next window of a run; none at its end. */
static int run_fill(struct runs *r, struct run *run, struct error *reterr)
{
	const struct item *batch[RUNS_BATCH];
	size_t got;
	int status = 0;

	if (!run->window)
		run->window = xmalloc(WINDOW_ITEMS * sizeof(*run->window));
	run->at = run->have = 0;
	if (run->next < run->end) {
		run->have = (uint32_t)MIN((uint64_t)WINDOW_ITEMS, run->end - run->next);
		status = spool_pread(r->fd, run->window, run->have * sizeof(struct item),
				     run->next * sizeof(struct item), reterr);
		run->next += run->have;
	} else if (run->in_memory) {
		do {
			got = memory_next(r, batch, RUNS_BATCH);
			for (size_t i = 0; i < got; i++)
				run->window[run->have++] = *batch[i];
		} while (got && run->have + RUNS_BATCH <= WINDOW_ITEMS);
	}
	return status;
}

static int64_t run_key(const struct runs *r, size_t run)
{
	return item_key(&r->run[run].window[r->run[run].at]);
}

static bool run_before(const struct runs *r, size_t a, size_t b)
{
	const struct run *x = &r->run[a], *y = &r->run[b];
	int64_t key_x = run_key(r, a), key_y = run_key(r, b);

	if (key_x != key_y)
		return key_x < key_y;
	return item_compare_rest(&x->window[x->at], &y->window[y->at]) < 0;
}

static void heap_down(struct runs *r, size_t i)
{
	for (size_t child; (child = 2 * i + 1) < r->n_heap; i = child) {
		size_t swap;

		if (child + 1 < r->n_heap && run_before(r, r->heap[child + 1], r->heap[child]))
			child++;
		if (!run_before(r, r->heap[child], r->heap[i]))
			break;
		swap = r->heap[i];
		r->heap[i] = r->heap[child];
		r->heap[child] = swap;
	}
}

int runs_start(struct runs *r, struct error *reterr)
{
	memory_start(r);
	if (!r->n_runs)
		return 0;
	r->run = vec_reserve(r->run, &r->cap_runs, r->n_runs + 1, sizeof(*r->run));
	r->run[r->n_runs++] = (struct run){ .in_memory = true };
	r->heap = xcalloc(r->n_runs, sizeof(*r->heap));
	for (size_t i = 0; i < r->n_runs; i++) {
		int status = run_fill(r, &r->run[i], reterr);

		if (status < 0)
			return status;
		if (r->run[i].have)
			r->heap[r->n_heap++] = i;
	}
	for (size_t i = r->n_heap; i-- > 0;)
		heap_down(r, i);
	return 0;
}

/* Of the first run what comes before anything of the others. */
static size_t run_take(struct runs *r, struct run *run, const struct item **batch, size_t most)
{
	int64_t until = r->n_heap > 1 ? run_key(r, r->heap[1]) : INT64_MAX;
	size_t n = 0;

	if (r->n_heap > 2)
		until = MIN(until, run_key(r, r->heap[2]));
	do
		batch[n++] = &run->window[run->at++];
	while (n < most && run->at < run->have && item_key(&run->window[run->at]) < until);
	return n;
}

static int merged_next(struct runs *r, const struct item **batch, struct error *reterr)
{
	size_t n = 0;

	while (n < RUNS_BATCH && r->n_heap) {
		struct run *run = &r->run[r->heap[0]];

		if (run->at < run->have) {
			n += run_take(r, run, batch + n, RUNS_BATCH - n);
		} else {
			int status;

			if (n)
				break; /* what was given out lies in the window */
			status = run_fill(r, run, reterr);
			if (status < 0)
				return status;
			if (!run->have)
				r->heap[0] = r->heap[--r->n_heap];
		}
		if (run->at < run->have || !run->have)
			heap_down(r, 0);
	}
	return (int)n;
}

int runs_next(struct runs *r, const struct item **batch, struct error *reterr)
{
	if (r->n_runs)
		return merged_next(r, batch, reterr);
	return (int)memory_next(r, batch, RUNS_BATCH);
}

void runs_done(struct runs *r)
{
	memory_empty(r);
	free(r->items);
	for (size_t i = 0; i < r->n_runs; i++)
		free(r->run[i].window);
	free(r->run);
	free(r->heap);
	cleanup_close(&r->fd);
	*r = (struct runs){ .fd = -EBADF };
}

bool runs_keep(struct runs *r, const struct item *const *left, size_t n)
{
	struct item_list *host = &r->lists[0], *gpu = &r->lists[1];
	size_t of_gpu = 0, hosts, gpus;

	if (r->n_runs || host->keys || gpu->keys)
		return false;
	for (size_t i = 0; i < n; i++)
		of_gpu += item_on_gpu(left[i]);
	hosts = host->n - host->next + (n - of_gpu);
	gpus = gpu->n - gpu->next + of_gpu;
	if (hosts)
		memmove(r->items, r->items + host->n - hosts, hosts * sizeof(*r->items));
	if (gpus)
		memmove(r->items + r->cap - gpus, r->items + r->cap - gpu->n,
			gpus * sizeof(*r->items));
	*host = (struct item_list){ .n = hosts, .last = hosts ? host->last : INT64_MAX };
	*gpu = (struct item_list){ .n = gpus, .last = gpus ? gpu->last : INT64_MAX };
	r->bottom = r->items + hosts;
	r->top = r->items + r->cap - gpus;
	return true;
}

void runs_again(struct runs *r)
{
	memory_empty(r);
	for (size_t i = 0; i < r->n_runs; i++)
		free(r->run[i].window);
	free(r->heap);
	r->heap = NULL;
	r->n_runs = r->n_heap = 0;
	r->in_file = 0;
}
