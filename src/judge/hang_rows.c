/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_rows.c - the ranks of the scene become rows of the report's job.
 *
 * Where traces gave ranks already, those of the scene are added and all are put in order again, so
 * that a row means the same everywhere in the report.
 */
#include "judge/hang_internal.h"

static struct rank_info info_of(struct hang *h, uint32_t row)
{
	const struct scene_rank *r = &h->s->ranks.v[row];
	struct job *job = h->r->job;
	const char *host = intern_get(&h->s->names, r->host);

	return (struct rank_info){
		.rank = r->rank,
		.unknown = r->unknown,
		.world_size = h->s->world_size,
		.host = r->host == NO_ID || !*host ? NO_ID : intern_str(&job->names, host),
		.gpu_name = NO_ID,
		.backend = NO_ID,
		.gpu_index = r->gpu >= 0 && r->gpu < 1024 ? (int32_t)r->gpu : -1,
		.cpu_job = h->s->gloo,
		.absent = !r->witnesses,
		.first_ns = -1,
		.last_ns = -1,
	};
}

struct ordered {
	int64_t rank;
	uint32_t unknown, row;
};

static int by_rank(const void *a, const void *b)
{
	const struct ordered *x = a, *y = b;

	if ((x->rank < 0) != (y->rank < 0))
		return x->rank < 0 ? 1 : -1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->unknown != y->unknown)
		return x->unknown < y->unknown ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

static void map_rows(uint32_t *rows, size_t n, const uint32_t *to)
{
	for (size_t i = 0; i < n; i++)
		rows[i] = to[rows[i]];
}

/* to[old row] = new row */
static void reorder(struct hang *h, const uint32_t *to)
{
	struct job *job = h->r->job;
	uint32_t n = job->n_ranks;
	struct rank_info *ranks = arena_alloc(&job->arena, (n + 1) * sizeof(*ranks));
	uint32_t **group_of = arena_alloc(&job->arena, (n + 1) * sizeof(*group_of));
	struct report_rank *of = xcalloc(n + 1, sizeof(*of));

	for (uint32_t row = 0; row < n; row++) {
		ranks[to[row]] = job->ranks[row];
		group_of[to[row]] = job->group_of[row];
		of[to[row]] = (struct report_rank){ .row = to[row], .wait_ns = -1 };
	}
	for (size_t i = 0; i < h->r->ranks.n; i++) {
		uint32_t row = to[h->r->ranks.v[i].row];

		of[row] = h->r->ranks.v[i];
		of[row].row = row;
	}
	free(h->r->ranks.v);
	h->r->ranks.v = of;
	h->r->ranks.n = h->r->ranks.cap = n;
	job->ranks = ranks;
	job->group_of = group_of;
	for (uint32_t g = 0; g < job->n_groups; g++)
		map_rows(job->groups[g].rows, job->groups[g].n_rows, to);
	for (size_t i = 0; i < h->r->inputs.n; i++)
		map_rows(h->r->inputs.v[i].rows.v, h->r->inputs.v[i].rows.n, to);
	for (size_t i = 0; i < h->r->findings.n; i++)
		map_rows(h->r->findings.v[i].culprits.v, h->r->findings.v[i].culprits.n, to);
	for (size_t i = 0; i < h->s->ranks.n; i++)
		h->row[i] = to[h->row[i]];
}

static uint32_t row_of_trace(const struct job *job, uint32_t n, int64_t rank)
{
	for (uint32_t row = 0; row < n && rank >= 0; row++)
		if (job->ranks[row].rank == rank)
			return row;
	return NO_ID;
}

static void rows_of_inputs(struct hang *h)
{
	for (size_t i = 0; i < h->r->inputs.n; i++) {
		struct report_input *in = &h->r->inputs.v[i];
		uint32_t row = scene_row(h->s, in->rank);

		if (row != NO_ID && !in->rows.n)
			*vec_push(&in->rows) = h->row[row];
	}
}

void rows_join(struct hang *h)
{
	struct job *job = h->r->job;
	uint32_t old = job->n_ranks, n = old, unknown = 0;
	uint32_t most = old + (uint32_t)h->s->ranks.n;
	struct rank_info *ranks = arena_alloc(&job->arena, (most + 1) * sizeof(*ranks));
	uint32_t **group_of = arena_alloc(&job->arena, (most + 1) * sizeof(*group_of));
	_cleanup_free_ struct ordered *order = xmalloc((most + 1) * sizeof(*order));
	_cleanup_free_ uint32_t *to = xmalloc((most + 1) * sizeof(*to));

	for (uint32_t row = 0; row < old; row++) {
		ranks[row] = job->ranks[row];
		group_of[row] = job->group_of[row];
		unknown += ranks[row].rank < 0;
	}
	job->ranks = ranks;
	job->group_of = group_of;
	for (uint32_t i = 0; i < h->s->ranks.n; i++) {
		uint32_t row = row_of_trace(job, old, h->s->ranks.v[i].rank);

		h->row[i] = row != NO_ID ? row : n;
		if (row != NO_ID)
			continue;
		ranks[n] = info_of(h, i);
		ranks[n].unknown += ranks[n].rank < 0 ? unknown : 0;
		n++;
	}
	job->n_ranks = n;
	job->world_size = MAX(job->world_size, h->s->world_size);
	if (!old)
		job->cpu_job = h->s->gloo;
	for (uint32_t row = 0; row < n; row++)
		order[row] = (struct ordered){ ranks[row].rank, ranks[row].unknown, row };
	qsort(order, n, sizeof(*order), by_rank);
	for (uint32_t row = 0; row < n; row++)
		to[order[row].row] = row;
	reorder(h, to);
	rows_of_inputs(h);
}
