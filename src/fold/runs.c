/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runs.c - radix sort in memory, merge of runs from the file.
 *
 * What is sorted are 8-byte keys (time since the earliest span, position), 20 bits of position and
 * 44 of time; only the bytes of time that differ are passed over. A run whose times span more than
 * 44 bits (4.9 hours, a broken file) is sorted by comparison instead.
 *
 * Host spans sort as if they had started a little earlier: the clocks of host and GPU differ by
 * some microseconds in traces, and a launch must be seen before the work that it started.
 */
#include "fold/runs.h"
#include "fold/spool.h"

#include <unistd.h>

#define POSITION_BITS 20
#define LEAD_NS	      ((int64_t)5000000)
#define WINDOW_ITEMS  2048
#define RADIX_BITS    11
#define BYTES_AN_ITEM (sizeof(struct item) + 2 * sizeof(uint64_t))

static int64_t item_key(const struct item *it)
{
	return item_on_gpu(it) ? it->start : it->start - LEAD_NS;
}

static int item_compare(const struct item *a, const struct item *b)
{
	int64_t ka = item_key(a), kb = item_key(b);

	if (ka != kb)
		return ka < kb ? -1 : 1;
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

static int item_compare_qsort(const void *a, const void *b)
{
	return item_compare(a, b);
}

void runs_init(struct runs *r, size_t limit_bytes)
{
	size_t limit = limit_bytes / BYTES_AN_ITEM;

	*r = (struct runs){ .fd = -EBADF };
	r->limit = MIN(MAX(limit, (size_t)64), (size_t)1 << POSITION_BITS);
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

static int key_compare(const void *a, const void *b, void *user)
{
	const uint64_t position = ((uint64_t)1 << POSITION_BITS) - 1;
	const struct runs *r = user;

	return item_compare(&r->items[*(const uint64_t *)a & position],
			    &r->items[*(const uint64_t *)b & position]);
}

/* Equal times in the order of their content. */
static void keys_settle_ties(struct runs *r)
{
	for (size_t i = 0, j; i < r->n; i = j) {
		for (j = i + 1; j < r->n; j++)
			if (r->keys[j] >> POSITION_BITS != r->keys[i] >> POSITION_BITS)
				break;
		if (j - i > 1)
			qsort_r(r->keys + i, j - i, sizeof(*r->keys), key_compare, r);
	}
}

/* Insertion, given up once it moved more than a few keys an item: what a device wrote is out of
   order by a place or two where streams overlap. False: not sorted, but still all there. */
static bool keys_nudge(uint64_t *keys, size_t n)
{
	size_t budget = 4 * n;

	for (size_t i = 1; i < n; i++) {
		uint64_t key = keys[i];
		size_t j = i;

		for (; j && keys[j - 1] > key && budget; j--, budget--)
			keys[j] = keys[j - 1];
		keys[j] = key;
		if (!budget)
			return false;
	}
	return true;
}

/* Sorts keys of times up to `high`; `spare` is as long. */
static void keys_sort(uint64_t *keys, uint64_t *spare, size_t n, uint64_t high)
{
	uint64_t *from = keys, *to = spare, *swap;

	if (keys_nudge(keys, n))
		return;
	for (unsigned shift = POSITION_BITS; shift < 64 && high >> (shift - POSITION_BITS);
	     shift += RADIX_BITS) {
		radix_pass(from, to, n, shift);
		swap = from;
		from = to;
		to = swap;
	}
	if (from != keys)
		memcpy(keys, from, n * sizeof(*keys));
}

/* Two sorted parts of `from` to one. */
static void keys_merge(const uint64_t *from, size_t n_first, size_t n, uint64_t *to)
{
	size_t i = 0, j = n_first;

	while (i < n_first && j < n)
		*to++ = from[i] <= from[j] ? from[i++] : from[j++];
	memcpy(to, from + i, (n_first - i) * sizeof(*to));
	to += n_first - i;
	memcpy(to, from + j, (n - j) * sizeof(*to));
}

static void keys_reserve(struct runs *r)
{
	if (r->keys_cap >= r->n)
		return;
	free(r->keys);
	free(r->spare);
	r->keys_cap = r->n;
	r->keys = xmalloc(r->n * sizeof(*r->keys));
	r->spare = xmalloc(r->n * sizeof(*r->spare));
}

/*
 * Sorts the items in memory: afterwards keys[] gives their order. Host and GPU spans are sorted
 * each by itself and then merged, since files hold each of them nearly in order, and both mixed.
 */
static void runs_sort(struct runs *r)
{
	int64_t low = INT64_MAX, high = INT64_MIN;
	size_t n_host = 0, host = 0, gpu;
	uint64_t range;

	if (!r->n)
		return;
	for (size_t i = 0; i < r->n; i++) {
		int64_t key = item_key(&r->items[i]);

		low = MIN(low, key);
		high = MAX(high, key);
		n_host += !item_on_gpu(&r->items[i]);
	}
	keys_reserve(r);
	range = (uint64_t)high - (uint64_t)low;
	if (range >= (uint64_t)1 << (64 - POSITION_BITS)) {
		qsort(r->items, r->n, sizeof(*r->items), item_compare_qsort);
		for (size_t i = 0; i < r->n; i++)
			r->keys[i] = i;
		return;
	}
	gpu = n_host;
	for (size_t i = 0; i < r->n; i++) {
		uint64_t time = (uint64_t)item_key(&r->items[i]) - (uint64_t)low;

		r->spare[item_on_gpu(&r->items[i]) ? gpu++ : host++] = time << POSITION_BITS | i;
	}
	keys_sort(r->spare, r->keys, n_host, range);
	keys_sort(r->spare + n_host, r->keys + n_host, r->n - n_host, range);
	keys_merge(r->spare, n_host, r->n, r->keys);
	keys_settle_ties(r);
}

static inline const struct item *sorted_item(const struct runs *r, size_t i)
{
	return &r->items[r->keys[i] & (((uint64_t)1 << POSITION_BITS) - 1)];
}

static int runs_spill(struct runs *r, struct error *reterr)
{
	_cleanup_free_ struct item *chunk = xmalloc(WINDOW_ITEMS * sizeof(*chunk));
	int status;

	if (r->fd < 0) {
		r->fd = spool_open_unlinked(reterr);
		if (r->fd < 0)
			return r->fd;
	}
	runs_sort(r);
	r->run = vec_reserve(r->run, &r->cap_runs, r->n_runs + 1, sizeof(*r->run));
	r->run[r->n_runs++] = (struct run){ .next = r->in_file, .end = r->in_file + r->n };
	for (size_t i = 0; i < r->n;) {
		size_t n = MIN((size_t)WINDOW_ITEMS, r->n - i);

		for (size_t k = 0; k < n; k++)
			chunk[k] = *sorted_item(r, i + k);
		status = spool_pwrite(r->fd, chunk, n * sizeof(*chunk), r->in_file * sizeof(*chunk),
				      reterr);
		if (status < 0)
			return status;
		r->in_file += n;
		i += n;
	}
	r->n = 0;
	return 0;
}

/* Makes room first. */
int runs_push_slow(struct runs *r, const struct item *it, struct error *reterr)
{
	if (r->n == r->limit) {
		int status = runs_spill(r, reterr);

		if (status < 0)
			return status;
	}
	if (r->n == r->cap) {
		size_t cap = MIN(r->cap ? r->cap * 2 : 1024, r->limit);

		r->items = xrealloc(r->items, cap * sizeof(*r->items));
		r->cap = cap;
	}
	r->items[r->n++] = *it;
	return 0;
}

/* 1 if the run has an item at hand, 0 at its end. */
static int run_fill(struct runs *r, struct run *run, struct error *reterr)
{
	uint64_t n;
	int status;

	if (run->at < run->have)
		return 1;
	n = MIN((uint64_t)WINDOW_ITEMS, run->end - run->next);
	if (!n)
		return 0;
	if (!run->window)
		run->window = xmalloc(WINDOW_ITEMS * sizeof(*run->window));
	status = spool_pread(r->fd, run->window, n * sizeof(struct item),
			     run->next * sizeof(struct item), reterr);
	if (status < 0)
		return status;
	run->next += n;
	run->at = 0;
	run->have = (uint32_t)n;
	return 1;
}

static bool run_before(const struct runs *r, size_t a, size_t b)
{
	const struct run *x = &r->run[a], *y = &r->run[b];

	return item_compare(&x->window[x->at], &y->window[y->at]) < 0;
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

static void runs_free_memory(struct runs *r)
{
	free(r->items);
	free(r->keys);
	free(r->spare);
	r->items = NULL;
	r->keys = r->spare = NULL;
	r->n = r->cap = r->keys_cap = 0;
}

int runs_start(struct runs *r, struct error *reterr)
{
	int status;

	if (!r->n_runs) {
		runs_sort(r);
		return 0;
	}
	if (r->n) {
		status = runs_spill(r, reterr);
		if (status < 0)
			return status;
	}
	runs_free_memory(r);
	r->heap = xmalloc(r->n_runs * sizeof(*r->heap));
	for (size_t i = 0; i < r->n_runs; i++) {
		status = run_fill(r, &r->run[i], reterr);
		if (status < 0)
			return status;
		if (status)
			r->heap[r->n_heap++] = i;
	}
	for (size_t i = r->n_heap; i-- > 0;)
		heap_down(r, i);
	return 0;
}

int runs_next(struct runs *r, struct item *ret, struct error *reterr)
{
	struct run *run;
	int status;

	if (!r->n_runs) {
		if (r->next == r->n)
			return 0;
		*ret = *sorted_item(r, r->next++);
		return 1;
	}
	if (!r->n_heap)
		return 0;
	run = &r->run[r->heap[0]];
	*ret = run->window[run->at++];
	status = run_fill(r, run, reterr);
	if (status < 0)
		return status;
	if (!status)
		r->heap[0] = r->heap[--r->n_heap];
	heap_down(r, 0);
	return 1;
}

void runs_done(struct runs *r)
{
	runs_free_memory(r);
	for (size_t i = 0; i < r->n_runs; i++)
		free(r->run[i].window);
	free(r->run);
	free(r->heap);
	cleanup_close(&r->fd);
	*r = (struct runs){ .fd = -EBADF };
}
