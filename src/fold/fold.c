/* SPDX-License-Identifier: Apache-2.0 */
/* fold.c - the life of a fold: made, fed (collect.c), played (play.c), and its stream handed out.
 */
#include "fold/play.h"

#define SPILL_DEFAULT ((size_t)32 << 20)
#define SPOOL_LIMIT   ((size_t)4 << 20)

struct fold *fold_new(const struct fold_options *options)
{
	struct fold *f = xcalloc(1, sizeof(*f));

	f->options =
	    options ? *options : (struct fold_options){ .first_step = -1, .last_step = -1 };
	runs_init(&f->runs, f->options.spill_bytes ? f->options.spill_bytes : SPILL_DEFAULT);
	f->sink = (struct trace_sink){
		.names = &f->names,
		.user = f,
		.event = fold_event,
		.meta = fold_meta,
	};
	f->meta = (struct trace_meta){
		.rank = -1,
		.world_size = -1,
		.host = NO_ID,
		.backend = NO_ID,
		.gpu_name = NO_ID,
		.trace_id = NO_ID,
	};
	f->last_comm = NO_ID;
	f->last_lane[0].lane = f->last_lane[1].lane = NO_ID;
	f->first = INT64_MAX;
	f->last = INT64_MIN;
	f->self_rank = -1;
	f->first_launch = UINT32_MAX;
	return f;
}

struct trace_sink *fold_sink(struct fold *f)
{
	return &f->sink;
}

struct fold *fold_free(struct fold *f)
{
	if (!f)
		return NULL;
	runs_done(&f->runs);
	intern_done(&f->names);
	arena_done(&f->arena);
	free(f->class);
	free(f->lanes);
	free(f->lane_slots);
	free(f->comms);
	free(f->comm_slots);
	free(f->marks);
	free(f);
	return NULL;
}

void rank_stream_done(struct rank_stream *s)
{
	intern_done(&s->names);
	arena_done(&s->arena);
	spool_done(&s->steps);
}

struct gpu_kernels {
	uint32_t device;
	uint64_t kernels;
};

static int device_order(const void *a, const void *b)
{
	const struct gpu_kernels *x = a, *y = b;

	return x->device < y->device ? -1 : x->device > y->device;
}

/* The device with most kernels; NO_ID without any. */
static uint32_t gpu_of(const struct fold *f)
{
	_cleanup_free_ struct gpu_kernels *list = xmalloc((f->n_lanes + 1) * sizeof(*list));
	struct gpu_kernels best = { .device = NO_ID };
	size_t n = 0;

	for (size_t i = 0; i < f->n_lanes; i++)
		if (f->lanes[i].gpu)
			list[n++] = (struct gpu_kernels){ f->lanes[i].device, f->lanes[i].kernels };
	qsort(list, n, sizeof(*list), device_order);
	for (size_t i = 0, end; i < n; i = end) {
		struct gpu_kernels sum = { .device = list[i].device };

		for (end = i; end < n && list[end].device == sum.device; end++)
			sum.kernels += list[end].kernels;
		if (sum.kernels > best.kernels)
			best = sum;
	}
	return best.device;
}

/* A rank beyond the world is no rank: the file contradicts itself. */
static int64_t rank_of(const struct fold *f, const struct fold_hint *hint)
{
	if (f->meta.rank >= 0 && (f->meta.world_size <= 0 || f->meta.rank < f->meta.world_size))
		return f->meta.rank;
	if (f->self_rank >= 0 && f->meta.world_size >= 0 &&
	    f->self_size == (uint64_t)f->meta.world_size)
		return f->self_rank;
	return hint ? hint->rank : -1;
}

static void info_fill(struct player *p, const struct fold_hint *hint)
{
	struct rank_info *info = &p->out->info;
	const struct fold *f = p->f;
	uint32_t gpu = gpu_of(f);

	for (size_t i = 0; i < f->n_lanes; i++) {
		if (f->lanes[i].task)
			continue;
		info->kernels += f->lanes[i].kernels;
		info->kernel_ns += f->lanes[i].kernel_ns;
	}
	info->rank = rank_of(f, hint);
	info->world_size = f->meta.world_size;
	info->lane = f->meta.lane;
	info->folds = f->meta.folds;
	info->host = name_out(p, f->meta.host);
	if (f->meta.host == NO_ID && hint && hint->host)
		info->host = intern(&p->out->names, hint->host, hint->host_len);
	info->gpu_name = name_out(p, f->meta.gpu_name);
	info->backend = name_out(p, f->meta.backend);
	info->gpu_index = gpu <= INT32_MAX ? (int32_t)gpu : -1;
	info->cpu_job = !p->gpu_job;
	info->first_ns = f->first <= f->last ? f->first + f->meta.base_time_ns : 0;
	info->last_ns = f->first <= f->last ? f->last + f->meta.base_time_ns : 0;
	info->n_groups = (uint32_t)p->groups.rows.n;
	info->groups = arena_alloc(&p->out->arena, (info->n_groups + 1) * sizeof(*info->groups));
	for (uint32_t i = 0; i < info->n_groups; i++) {
		info->groups[i] = p->groups.rows.v[i];
		info->groups[i].name = name_out(p, info->groups[i].name);
		info->groups[i].desc = name_out(p, info->groups[i].desc);
	}
	p->out->gpu_kernels = info->kernels;
	p->out->collectives = info->collectives;
}

int fold_finish(struct fold *f, const struct fold_hint *hint, struct rank_stream *ret,
		struct error *reterr)
{
	struct rank_stream out = { 0 };
	struct player *p = xcalloc(1, sizeof(*p));
	int status;

	spool_init(&out.steps, SPOOL_LIMIT);
	marks_settle(f);
	p->f = f;
	p->out = &out;
	p->gpu_job = f->gpu_seen;
	p->window_end = TIME_UNKNOWN;
	if (!f->n_marks && f->first <= f->last) {
		f->marks = vec_reserve(f->marks, &f->marks_cap, 1, sizeof(*f->marks));
		f->marks[f->n_marks++] = (struct mark){ f->first, f->last + 1, 0, true };
		f->whole = out.no_marks = true;
	}
	groups_init(&p->groups, f, &out.arena);
	p->closing.f = f;
	p->closing.groups = &p->groups;
	p->closing.gpu_job = p->gpu_job;
	status = play_all(p, reterr);
	if (status >= 0)
		info_fill(p, hint);
	for (size_t i = 0; i < SKIP_REASONS; i++)
		out.skipped[i] += f->skipped[i];
	closing_done(&p->closing);
	player_done(p);
	free(p);
	if (status < 0) {
		rank_stream_done(&out);
		return status;
	}
	runs_done(&f->runs);
	*ret = out;
	return 0;
}
