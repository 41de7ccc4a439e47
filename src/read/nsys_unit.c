/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nsys_unit.c - whose a row of an Nsight recording is: which processes and GPUs are ranks, and
 * which of them the calls and ranges of a host's thread belong to.
 *
 * A process that works on one GPU is a rank, with whatever little it does on others (every rank of
 * a node touches the first GPU); one that works on several is a rank for each. A thread's rows go
 * where the work goes that it launches.
 */
#include "read/nsys_inside.h"

#define MAIN_SHARE 20 /* of a process's kernels on its busiest GPU: less on another is no rank */

static struct nsys_unit *unit_of(struct nsys *n, uint64_t process, uint32_t device)
{
	for (size_t i = 0; i < n->units.n; i++)
		if (n->units.v[i].process == process && n->units.v[i].device == device)
			return &n->units.v[i];
	if (n->units.n == NSYS_UNITS_MAX)
		return NULL;
	*vec_push(&n->units) = (struct nsys_unit){ .process = process, .device = device };
	return &n->units.v[n->units.n - 1];
}

static int by_process(const void *a, const void *b)
{
	const struct nsys_unit *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return x->process < y->process ? -1 : x->process > y->process;
}

static uint64_t most_kernels(const struct nsys *n, uint64_t process)
{
	uint64_t most = 0;

	for (size_t i = 0; i < n->units.n; i++)
		if (n->units.v[i].process == process)
			most = MAX(most, n->units.v[i].kernels);
	return most;
}

static void find_units(struct nsys *n)
{
	struct nsys_unit *last = NULL;
	size_t kept = 0;

	for (size_t i = 0; i < n->rows.n; i++) {
		struct nsys_row *r = &n->rows.v[i];

		if (n->no_process)
			r->process = 0;
		if (r->kind != EVENT_KERNEL)
			continue;
		if (!last || last->process != r->process || last->device != r->device)
			last = unit_of(n, r->process, r->device);
		if (last)
			last->kernels++;
	}
	for (size_t i = 0; i < n->units.n; i++) /* before any of them moves */
		n->units.v[i].n_marks =
		    n->units.v[i].kernels * MAIN_SHARE < most_kernels(n, n->units.v[i].process);
	for (size_t i = 0; i < n->units.n; i++)
		if (!n->units.v[i].n_marks)
			n->units.v[kept++] = n->units.v[i];
	n->units.n = kept;
	if (kept)
		qsort(n->units.v, kept, sizeof(*n->units.v), by_process);
}

/* The unit of a process and GPU; of the process alone where the GPU is none of its ranks'. */
static uint32_t unit_at(const struct nsys *n, uint64_t process, uint32_t device, bool *ret_only)
{
	uint32_t any = NO_ID, exact = NO_ID, count = 0;

	for (uint32_t i = 0; i < n->units.n; i++) {
		if (n->units.v[i].process != process)
			continue;
		count++;
		if (any == NO_ID)
			any = i;
		if (n->units.v[i].device == device)
			exact = i;
	}
	if (ret_only)
		*ret_only = count == 1;
	return exact != NO_ID ? exact : any;
}

struct started {
	uint64_t process, correlation;
	uint32_t unit;
};
struct thread {
	uint64_t thread;
	uint32_t unit;
	uint64_t launches;
};

static int by_correlation(const void *a, const void *b)
{
	const struct started *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

static int by_thread(const void *a, const void *b)
{
	const struct thread *x = a, *y = b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->unit < y->unit ? -1 : x->unit > y->unit;
}

/* GPU work by process and correlation; returns how much. */
static size_t gather_started(const struct nsys *n, struct started *ret)
{
	size_t count = 0;

	for (size_t i = 0; i < n->rows.n; i++) {
		const struct nsys_row *r = &n->rows.v[i];

		if (nsys_on_gpu(r) && r->correlation && r->unit != NO_ID)
			ret[count++] = (struct started){ r->process, r->correlation, r->unit };
	}
	if (count)
		qsort(ret, count, sizeof(*ret), by_correlation);
	return count;
}

/* One entry a thread and unit, then of each thread the one with most launches. Sorts. */
static size_t main_units(struct thread *threads, size_t n)
{
	size_t pairs = 0, kept = 0;

	if (n)
		qsort(threads, n, sizeof(*threads), by_thread);
	for (size_t i = 0; i < n; i++) {
		struct thread *last = pairs ? &threads[pairs - 1] : NULL;

		if (last && last->thread == threads[i].thread && last->unit == threads[i].unit)
			last->launches++;
		else
			threads[pairs++] = threads[i];
	}
	for (size_t i = 0; i < pairs; i++) {
		struct thread *last = kept ? &threads[kept - 1] : NULL;

		if (!last || last->thread != threads[i].thread)
			threads[kept++] = threads[i];
		else if (threads[i].launches > last->launches)
			*last = threads[i];
	}
	return kept;
}

/* Calls by the work that they started; and for which unit each thread starts most. */
static size_t place_calls(struct nsys *n, struct thread *threads)
{
	struct started *all = xmalloc((n->rows.n + 1) * sizeof(*all));
	size_t n_all = gather_started(n, all), used = 0;

	for (size_t i = 0; i < n->rows.n; i++) {
		struct nsys_row *r = &n->rows.v[i];
		struct started key = { r->process, r->correlation, 0 };
		const struct started *found;

		if (r->kind != EVENT_LAUNCH || !n_all)
			continue;
		found = bsearch(&key, all, n_all, sizeof(*all), by_correlation);
		if (!found)
			continue;
		r->unit = found->unit;
		threads[used++] = (struct thread){ r->thread, r->unit, 1 };
	}
	free(all);
	return main_units(threads, used);
}

static uint32_t unit_of_thread(const struct thread *threads, size_t n, uint64_t thread)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (threads[middle].thread < thread)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && threads[low].thread == thread ? threads[low].unit : NO_ID;
}

static bool several_share_a_process(const struct nsys *n)
{
	bool only = true;

	for (size_t i = 0; i < n->units.n && only; i++)
		unit_at(n, n->units.v[i].process, NO_ID, &only);
	return !only;
}

/* Rows unit by unit, in the order that they had. */
static void put_together(struct nsys *n)
{
	struct nsys_row *sorted = xmalloc((n->rows.n + 1) * sizeof(*sorted));
	size_t at = 0;

	for (size_t i = 0; i < n->rows.n; i++)
		if (n->rows.v[i].unit != NO_ID)
			n->units.v[n->rows.v[i].unit].n_rows++;
	for (size_t u = 0; u < n->units.n; u++) {
		n->units.v[u].first_row = at;
		at += n->units.v[u].n_rows;
		n->units.v[u].n_rows = 0;
	}
	for (size_t i = 0; i < n->rows.n; i++) {
		struct nsys_unit *u;

		if (n->rows.v[i].unit == NO_ID)
			continue;
		u = &n->units.v[n->rows.v[i].unit];
		sorted[u->first_row + u->n_rows++] = n->rows.v[i];
	}
	free(n->rows.v);
	n->rows.v = sorted;
	n->rows.n = n->rows.cap = at;
}

void nsys_settle_units(struct nsys *n)
{
	_cleanup_free_ struct thread *threads = NULL;
	size_t n_threads = 0;

	find_units(n);
	if (!n->units.n)
		return;
	for (size_t i = 0; i < n->rows.n; i++) {
		struct nsys_row *r = &n->rows.v[i];

		if (nsys_on_gpu(r))
			r->unit = unit_at(n, r->process, r->device, NULL);
	}
	if (several_share_a_process(n)) {
		threads = xmalloc((n->rows.n + 1) * sizeof(*threads));
		n_threads = place_calls(n, threads);
	}
	for (size_t i = 0; i < n->rows.n; i++) {
		struct nsys_row *r = &n->rows.v[i];
		uint32_t of_process;
		bool only;

		if (nsys_on_gpu(r) || r->unit != NO_ID)
			continue;
		of_process = unit_at(n, r->process, NO_ID, &only);
		r->unit = only ? of_process : unit_of_thread(threads, n_threads, r->thread);
		if (r->unit == NO_ID)
			r->unit = of_process;
	}
	put_together(n);
}
