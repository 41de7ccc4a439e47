/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.c - from one stream a file to one row a rank, played by step number.
 *
 * The result depends on the keys of the streams, never on the order in which they were added. Only
 * one step of all ranks is decoded at a time.
 */
#include "fold/merge_inside.h"

#include <stdio.h>

struct merge *merge_new(void)
{
	struct merge *m = xcalloc(1, sizeof(*m));

	m->job.world_size = m->job.first_step = m->job.last_step = -1;
	return m;
}

void merge_add(struct merge *m, uint64_t key, const char *path, struct rank_stream *stream)
{
	*vec_push(&m->sources) = (struct source){
		.key = key,
		.path = xstrdup(path),
		.s = *stream,
		.row = NO_ID,
	};
	*stream = (struct rank_stream){ .steps.fd = -EBADF };
}

size_t merge_warnings(const struct merge *m, const char *const **ret)
{
	*ret = (const char *const *)m->warnings.v;
	return m->warnings.n;
}

uint32_t merge_name(const struct source *s, uint32_t id)
{
	return id < s->n_names ? s->names[id] : NO_ID;
}

static int source_order(const void *a, const void *b)
{
	const struct source *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static int step_order(const void *a, const void *b)
{
	const struct source_step *x = a, *y = b;

	if (x->run != y->run)
		return x->run < y->run ? -1 : 1;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Where each step of a stream lies; a damaged end is cut. */
static void source_index(struct source *s)
{
	size_t cap = 0;
	uint64_t at = 0;

	while (at < s->s.steps.len) {
		uint8_t head[20];
		size_t n = (size_t)MIN((uint64_t)sizeof(head), s->s.steps.len - at);
		struct span in = span_of(head, n), number;
		uint64_t len;

		if (spool_read(&s->s.steps, at, head, n, NULL) < 0)
			break;
		len = span_varint(&in);
		at += (uint64_t)(in.p - head);
		number = in;
		if (in.bad || len > MIN(s->s.steps.len - at, (uint64_t)UINT32_MAX))
			break;
		s->steps = vec_reserve(s->steps, &cap, s->n_steps + 1, sizeof(*s->steps));
		s->steps[s->n_steps] =
		    (struct source_step){ span_varint(&number), at, (uint32_t)len, 0 };
		s->falls |=
		    s->n_steps && s->steps[s->n_steps].number <= s->steps[s->n_steps - 1].number;
		s->n_steps++;
		at += len;
	}
	merge_sort_steps(s);
}

void merge_sort_steps(struct source *s)
{
	if (s->n_steps)
		qsort(s->steps, s->n_steps, sizeof(*s->steps), step_order);
}

static bool kept(const struct source *s)
{
	return s->left == LEFT_NOT;
}

struct rank_source {
	int64_t rank;
	size_t source;
};

static int rank_source_order(const void *a, const void *b)
{
	const struct rank_source *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->source < y->source ? -1 : x->source > y->source;
}

static void row_take(struct rank_info *row, const struct source *s, bool first)
{
	const struct rank_info *info = &s->s.info;

	if (first) {
		*row = *info;
		row->host = merge_name(s, info->host);
		row->gpu_name = merge_name(s, info->gpu_name);
		row->backend = merge_name(s, info->backend);
		row->groups = NULL;
		row->n_groups = 0;
		return;
	}
	row->kernels += info->kernels;
	row->collectives += info->collectives;
	row->kernel_ns += info->kernel_ns;
	row->collective_ns += info->collective_ns;
	row->first_ns = MIN(row->first_ns, info->first_ns);
	row->last_ns = MAX(row->last_ns, info->last_ns);
	row->cpu_job &= info->cpu_job;
	if (row->host == NO_ID)
		row->host = merge_name(s, info->host);
}

static void names_settle(struct merge *m)
{
	for (size_t i = 0; i < m->sources.n; i++) {
		struct source *s = &m->sources.v[i];

		if (!kept(s))
			continue;
		s->n_names = s->s.names.n;
		s->names = xmalloc((s->n_names + 1) * sizeof(*s->names));
		for (uint32_t id = 0; id < s->n_names; id++)
			s->names[id] = intern(&m->job.names, intern_get(&s->s.names, id),
					      intern_len(&s->s.names, id));
		intern_done(&s->s.names);
	}
}

/* Rows by rank; those without a number last, in the order of their files. */
static void settle_rows(struct merge *m)
{
	struct rank_source *list = xmalloc((m->sources.n + 1) * sizeof(*list));
	struct job *job = &m->job;
	uint32_t unknown = 0;
	size_t n = 0;

	for (size_t i = 0; i < m->sources.n; i++) {
		int64_t rank = m->sources.v[i].s.info.rank;

		if (kept(&m->sources.v[i]))
			list[n++] = (struct rank_source){ rank < 0 ? INT64_MAX : rank, i };
	}
	qsort(list, n, sizeof(*list), rank_source_order);
	job->ranks = arena_alloc(&job->arena, (n + 1) * sizeof(*job->ranks));
	for (size_t i = 0; i < n; i++) {
		struct source *s = &m->sources.v[list[i].source];
		bool known = list[i].rank != INT64_MAX;
		bool again = known && i && list[i - 1].rank == list[i].rank;

		if (!again)
			job->n_ranks++;
		s->row = job->n_ranks - 1;
		row_take(&job->ranks[s->row], s, !again);
		if (!known)
			job->ranks[s->row].unknown = ++unknown;
	}
	free(list);
}

static void settle_steps(struct merge *m)
{
	struct job *job = &m->job;

	for (size_t i = 0; i < m->sources.n; i++) {
		const struct source *s = &m->sources.v[i];

		if (!kept(s) || !s->n_steps)
			continue;
		if (job->first_step < 0 || s->steps[0].number < (uint64_t)job->first_step)
			job->first_step = (int64_t)s->steps[0].number;
		job->last_step = MAX(job->last_step, (int64_t)s->steps[s->n_steps - 1].number);
	}
}

static struct job *job_settled(struct merge *m, struct error *reterr)
{
	struct job *job = &m->job;

	names_settle(m);
	settle_rows(m);
	if (!job->n_ranks) {
		error_set(reterr, -ENODATA, "no step in any of the files");
		return NULL;
	}
	job->cpu_job = true;
	for (uint32_t row = 0; row < job->n_ranks; row++)
		job->cpu_job &= job->ranks[row].cpu_job;
	merge_groups(m);
	settle_steps(m);
	merge_runs(m);
	return job;
}

struct job *merge_job(struct merge *m, struct error *reterr)
{
	if (m->sources.n)
		qsort(m->sources.v, m->sources.n, sizeof(*m->sources.v), source_order);
	for (size_t i = 0; i < m->sources.n; i++)
		source_index(&m->sources.v[i]);
	merge_settle(m);
	return job_settled(m, reterr);
}

struct job *merge_job_live(struct merge *m, struct error *reterr)
{
	if (m->sources.n)
		qsort(m->sources.v, m->sources.n, sizeof(*m->sources.v), source_order);
	merge_settle_world(m);
	return job_settled(m, reterr);
}

static const struct source *source_of(const struct merge *m, uint64_t key)
{
	size_t low = 0, high = m->sources.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (m->sources.v[middle].key < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low < m->sources.n && m->sources.v[low].key == key ? &m->sources.v[low] : NULL;
}

bool merge_live_step(const struct merge *m, uint64_t key, struct step *step)
{
	const struct source *s = source_of(m, key);

	if (!s || !kept(s))
		return false;
	step->rank_row = s->row;
	for (uint32_t i = 0; i < step->n_comms; i++) {
		if (step->comms[i].group >= s->s.info.n_groups)
			return false;
		step->comms[i].group = s->groups[step->comms[i].group];
	}
	return true;
}

uint32_t merge_row_of(const struct merge *m, uint64_t key)
{
	const struct source *s = source_of(m, key);

	return s ? s->row : NO_ID;
}

static int source_decode(struct merge *m, struct source *s, struct step *ret, struct error *reterr)
{
	const struct source_step *at = &s->steps[s->next];
	struct span in;
	int status;

	m->record.len = 0;
	m->record.data = vec_reserve(m->record.data, &m->record.cap, at->len, 1);
	status = spool_read(&s->s.steps, at->offset, m->record.data, at->len, reterr);
	if (status < 0)
		return status;
	in = span_of(m->record.data, at->len);
	status = step_decode(&in, &m->step_arena, ret, reterr);
	if (status < 0)
		return status;
	ret->rank_row = s->row;
	ret->host_what = merge_name(s, ret->host_what);
	for (uint32_t i = 0; i < ret->n_phases; i++)
		ret->phases[i].name = merge_name(s, ret->phases[i].name);
	for (uint32_t i = 0; i < ret->n_kernels; i++)
		ret->kernels[i].name = merge_name(s, ret->kernels[i].name);
	for (uint32_t i = 0; i < ret->n_comms; i++) {
		if (ret->comms[i].group >= s->s.info.n_groups)
			return error_set(reterr, -EBADMSG, "%s: a group that was not stated",
					 s->path);
		ret->comms[i].group = s->groups[ret->comms[i].group];
	}
	return 0;
}

static bool is_same(const struct source_step *a, const struct source_step *b)
{
	return a->run == b->run && a->number == b->number;
}

/* One step of all ranks that have it. */
static int run_number(struct merge *m, const struct source_step *at, struct step **steps,
		      struct error *reterr)
{
	memset(steps, 0, m->job.n_ranks * sizeof(struct step *));
	for (size_t i = 0; i < m->sources.n; i++) {
		struct source *s = &m->sources.v[i];

		for (; kept(s) && s->next < s->n_steps && is_same(&s->steps[s->next], at);
		     s->next++) {
			struct step *step;
			int status;

			if (steps[s->row]) {
				m->doubled_steps++;
				continue;
			}
			step = arena_alloc(&m->step_arena, sizeof(*step));
			status = source_decode(m, s, step, reterr);
			if (status < 0)
				return status;
			steps[s->row] = step;
		}
	}
	return 0;
}

int merge_run(struct merge *m, merge_step_fn fn, void *user, struct error *reterr)
{
	_cleanup_free_ struct step **steps = xcalloc(m->job.n_ranks, sizeof(struct step *));

	for (size_t i = 0; i < m->sources.n; i++)
		m->sources.v[i].next = 0;
	m->doubled_steps = 0;
	for (;;) {
		struct source_step first = { .run = RUN_NONE };
		int status;

		for (size_t i = 0; i < m->sources.n; i++) {
			const struct source *s = &m->sources.v[i];

			const struct source_step *next;

			if (!kept(s) || s->next == s->n_steps)
				continue;
			next = &s->steps[s->next]; /* those left out come last */
			if (next->run < first.run ||
			    (next->run == first.run && next->number < first.number))
				first = *next;
		}
		if (first.run == RUN_NONE)
			return 0;
		status = run_number(m, &first, steps, reterr);
		if (status >= 0)
			status = fn(user, first.number, steps);
		arena_reset(&m->step_arena);
		if (status < 0)
			return status;
	}
}

struct merge *merge_free(struct merge *m)
{
	if (!m)
		return NULL;
	for (size_t i = 0; i < m->sources.n; i++) {
		struct source *s = &m->sources.v[i];

		rank_stream_done(&s->s);
		free(s->path);
		free(s->steps);
		free(s->names);
	}
	free(m->sources.v);
	for (size_t i = 0; i < m->warnings.n; i++)
		free(m->warnings.v[i]);
	free(m->warnings.v);
	job_done(&m->job);
	arena_done(&m->step_arena);
	buf_done(&m->record);
	free(m);
	return NULL;
}
