/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fold.c - plays the items of a trace by time, gathers them by step, and closes each step.
 *
 * A span belongs to the step in which it starts, GPU work to that of its launch. The window of a
 * step is where its time went: on CPU jobs its mark; on GPU jobs from the end of the last window to
 * the later of its mark's end and its last work's end. While the host runs ahead that is the end of
 * its work; when the host falls behind, the GPU has nothing of the next step before the mark ends,
 * and the host's tail counts where it happened. Windows of marks that touch tile time: nothing is
 * counted twice, and no stall vanishes.
 */
#include "fold/launches.h"

#define SPILL_DEFAULT	((size_t)32 << 20)
#define SPOOL_LIMIT	((size_t)4 << 20)
#define NAME_LONGEST	512
#define OVERLAP_ABSURD	((int64_t)1000000) /* of work on one stream, before it is clipped */
#define UNSEEN_QUEUE_NS ((int64_t)2000000) /* a first launch this late: earlier work ran unseen */
#define LONG_CALL_NS	((int64_t)1000000) /* a launch that loads a module, or waits for room */
#define MARKS_APART_NS	((int64_t)1000000)
#define STRAYS_LIMIT	65536

struct open_step {
	struct works work;
	struct ranges ranges;
};

struct player {
	struct fold *f;
	struct rank_stream *out;
	struct closing closing;
	struct groups groups;
	struct launches launches;
	struct calls calls;
	bool gpu_job;
	uint32_t host_mark; /* of the last host item */
	uint32_t base;	    /* first open mark */
	struct open_step *open;
	size_t n_open, cap_open;
	struct works strays; /* outside every mark, or of closed steps: still busy */
	struct ranges stray_ranges;
	int64_t window_end; /* of the last closed step; TIME_UNKNOWN */
	uint32_t *name_map;
	size_t n_name_map;
	struct buf record, record_head;
};

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

/* --- marks --- */

static int mark_order(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end > y->end ? -1 : x->end < y->end;
}

/* In order, none inside another, none twice. */
static void marks_settle(struct fold *f)
{
	size_t n = 0;

	if (f->n_marks)
		qsort(f->marks, f->n_marks, sizeof(*f->marks), mark_order);
	for (size_t i = 0; i < f->n_marks; i++) {
		struct mark m = f->marks[i];

		if (n && (m.number == f->marks[n - 1].number ||
			  m.start + MARKS_APART_NS < f->marks[n - 1].end))
			continue;
		m.wanted =
		    (f->options.first_step < 0 || m.number >= (uint64_t)f->options.first_step) &&
		    (f->options.last_step < 0 || m.number <= (uint64_t)f->options.last_step);
		f->marks[n++] = m;
	}
	f->n_marks = n;
}

static uint32_t mark_at(const struct fold *f, int64_t t)
{
	size_t lo = 0, hi = f->n_marks;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (f->marks[mid].start <= t)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && t < f->marks[lo - 1].end ? (uint32_t)(lo - 1) : NO_MARK;
}

/* Host items come in order of time, so their mark is the last one's or a later one. */
static uint32_t host_mark(struct player *p, int64_t t)
{
	const struct fold *f = p->f;
	uint32_t m = p->host_mark;

	while (m + 1 < f->n_marks && f->marks[m + 1].start <= t)
		m++;
	p->host_mark = m;
	return m < f->n_marks && t >= f->marks[m].start && t < f->marks[m].end ? m : NO_MARK;
}

/* --- open steps --- */

static struct open_step *open_of(struct player *p, uint32_t mark)
{
	size_t i = mark - p->base, old = p->cap_open;

	if (i >= p->n_open) {
		p->open = vec_reserve(p->open, &p->cap_open, i + 1, sizeof(*p->open));
		memset(p->open + old, 0, (p->cap_open - old) * sizeof(*p->open));
		p->n_open = i + 1;
	}
	return &p->open[i];
}

/* --- closing --- */

static uint32_t name_out(struct player *p, uint32_t name)
{
	size_t n = p->f->names.n;
	const char *s;

	if (name == NO_ID)
		return NO_ID;
	if (p->n_name_map < n) {
		p->name_map = xrealloc(p->name_map, n * sizeof(*p->name_map));
		for (; p->n_name_map < n; p->n_name_map++)
			p->name_map[p->n_name_map] = NO_ID;
	}
	if (p->name_map[name] == NO_ID) {
		s = intern_get(&p->f->names, name);
		p->name_map[name] = intern(
		    &p->out->names, s, MIN(intern_len(&p->f->names, name), (size_t)NAME_LONGEST));
	}
	return p->name_map[name];
}

/* "fn of <object at 0x7f..>" differs from rank to rank: addresses become 0x. */
static uint32_t name_normal(struct player *p, uint32_t name)
{
	const char *s = intern_get(&p->f->names, name), *x;
	char out[NAME_LONGEST];
	size_t n = 0;

	if (name == NO_ID || !strstr(s, "0x"))
		return name_out(p, name);
	while ((x = strstr(s, "0x")) && n + (size_t)(x - s) + 2 < sizeof(out)) {
		memcpy(out + n, s, (size_t)(x - s) + 2);
		n += (size_t)(x - s) + 2;
		s = x + 2 + strspn(x + 2, "0123456789abcdefABCDEF");
	}
	for (; *s && n < sizeof(out); s++)
		out[n++] = *s;
	return intern(&p->out->names, out, n);
}

static int64_t work_end(const struct works *w, bool gpu_only)
{
	int64_t end = TIME_UNKNOWN;

	for (size_t i = 0; i < w->n; i++)
		if (!gpu_only || w->v[i].kind <= ITEM_SET)
			end = MAX(end, w->v[i].end);
	return end;
}

static const struct work *first_gpu_work(const struct works *w)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->v[i].kind <= ITEM_SET)
			return &w->v[i];
	return NULL;
}

/* Where the first window begins: at its mark, unless the GPU was still at work that began before,
   seen or not. */
static int64_t first_begin(const struct player *p, const struct mark *m, const struct works *w)
{
	const struct work *first = first_gpu_work(w);
	int64_t begin = m->start, before = work_end(&p->strays, true);

	if (!first)
		return begin;
	if (before != TIME_UNKNOWN && before > begin)
		begin = MIN(before, MAX(first->start, begin));
	if (first->launch != TIME_UNKNOWN)
		return first->start - first->launch > UNSEEN_QUEUE_NS ? MAX(begin, first->start)
								      : begin;
	return MAX(MIN(begin, first->start), first->start - (m->end - m->start));
}

static void window_settle(struct player *p, struct closing *c, const struct mark *m,
			  const struct works *w, bool whole)
{
	const struct work *first = first_gpu_work(w);
	int64_t end = p->gpu_job ? work_end(w, true) : TIME_UNKNOWN;

	c->begin = m->start;
	c->end = m->end;
	if (!p->gpu_job)
		return;
	if (whole) {
		c->begin = first ? first->start : m->start;
		c->end = MAX(end, c->begin);
		return;
	}
	c->end = MAX(m->end, end);
	if (p->window_end == TIME_UNKNOWN)
		c->begin = first_begin(p, m, w);
	else if (c->mark && m->start - p->f->marks[c->mark - 1].end > MARKS_APART_NS)
		c->begin = MAX(p->window_end, first ? MIN(m->start, first->start) : m->start);
	else
		c->begin = p->window_end;
	c->end = MAX(c->end, c->begin);
}

static int work_order(const void *a, const void *b)
{
	const struct work *const *x = a, *const *y = b;

	if ((*x)->start != (*y)->start)
		return (*x)->start < (*y)->start ? -1 : 1;
	return (*x)->end > (*y)->end ? -1 : (*x)->end < (*y)->end;
}

static int range_order(const void *a, const void *b)
{
	const struct range *const *x = a, *const *y = b;

	if ((*x)->start != (*y)->start)
		return (*x)->start < (*y)->start ? -1 : 1;
	return (*x)->end > (*y)->end ? -1 : (*x)->end < (*y)->end;
}

static void busy_add(struct closing *c, const struct works *w, bool all)
{
	for (size_t i = 0; i < w->n; i++)
		if (all || (w->v[i].end > c->begin && w->v[i].start < c->end))
			*vec_push(&c->busy) = &w->v[i];
}

static void around_add(struct closing *c, const struct ranges *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->v[i].end > c->begin && r->v[i].start < c->end)
			*vec_push(&c->around) = &r->v[i];
}

/* Everything that touches the window, whatever step it belongs to. */
static void window_gather(struct player *p, struct closing *c)
{
	bool sorted = true;

	c->busy.n = c->around.n = 0;
	busy_add(c, &p->strays, false);
	around_add(c, &p->stray_ranges);
	for (size_t i = 0; i < p->n_open; i++) {
		busy_add(c, &p->open[i].work, i == 0);
		around_add(c, &p->open[i].ranges);
	}
	for (size_t i = 1; i < c->busy.n && sorted; i++)
		sorted = work_order(&c->busy.v[i - 1], &c->busy.v[i]) <= 0;
	if (!sorted)
		qsort(c->busy.v, c->busy.n, sizeof(*c->busy.v), work_order);
	sorted = true;
	for (size_t i = 1; i < c->around.n && sorted; i++)
		sorted = range_order(&c->around.v[i - 1], &c->around.v[i]) <= 0;
	if (!sorted)
		qsort(c->around.v, c->around.n, sizeof(*c->around.v), range_order);
}

/* What ends behind the window is still there in the next one. */
static void carry(struct player *p, const struct closing *c, struct open_step *done)
{
	size_t n = 0;

	for (size_t i = 0; i < p->strays.n; i++)
		if (p->strays.v[i].end > c->end)
			p->strays.v[n++] = p->strays.v[i];
	p->strays.n = n;
	for (size_t i = 0; i < done->work.n; i++)
		if (done->work.v[i].end > c->end)
			*vec_push(&p->strays) = done->work.v[i];
	/* Strays moved: what lanes remember of theirs is void. */
	for (size_t i = 0; i < p->f->n_lanes; i++)
		if (p->f->lanes[i].last_mark == NO_MARK)
			p->f->lanes[i].last_work = NO_ID;
	n = 0;
	for (size_t i = 0; i < p->stray_ranges.n; i++)
		if (p->stray_ranges.v[i].end > c->end)
			p->stray_ranges.v[n++] = p->stray_ranges.v[i];
	p->stray_ranges.n = n;
	for (size_t i = 0; i < done->ranges.n; i++)
		if (done->ranges.v[i].end > c->end)
			*vec_push(&p->stray_ranges) = done->ranges.v[i];
}

static int step_emit(struct player *p, struct step *s, struct error *reterr)
{
	int status;

	s->host_what = name_normal(p, s->host_what);
	for (uint32_t i = 0; i < s->n_phases; i++)
		s->phases[i].name = name_out(p, s->phases[i].name);
	for (uint32_t i = 0; i < s->n_kernels; i++)
		s->kernels[i].name = name_out(p, s->kernels[i].name);
	p->record.len = p->record_head.len = 0;
	step_encode(&p->record, s);
	buf_put_varint(&p->record_head, p->record.len);
	status = spool_write(&p->out->steps, p->record_head.data, p->record_head.len, reterr);
	if (status >= 0)
		status = spool_write(&p->out->steps, p->record.data, p->record.len, reterr);
	if (status >= 0)
		p->out->n_steps++;
	return status;
}

static int step_close(struct player *p, struct error *reterr)
{
	struct open_step *o = open_of(p, p->base);
	struct closing *c = &p->closing;
	const struct mark *m = &p->f->marks[p->base];
	bool whole = p->out->no_marks;
	int status = 0;

	c->mark = p->base;
	c->work = &o->work;
	c->ranges = &o->ranges;
	window_settle(p, c, m, &o->work, whole);
	window_gather(p, c);
	arena_reset(&c->arena);
	c->step = (struct step){
		.number = m->number,
		.flags = (whole ? STEP_WHOLE_FILE : 0u) |
			 (!p->gpu_job && p->f->launch_seen ? STEP_KERNELS_UNKNOWN : 0u),
		.start_ns = c->begin + p->f->meta.base_time_ns,
		.mark_ns = whole ? c->end - c->begin : m->end - m->start,
		.wall_ns = c->end - c->begin,
		.host_what = NO_ID,
	};
	if (m->wanted) {
		sweep_step(c);
		ledger_step(c);
		kernels_step(c);
		comms_step(c);
		status = step_emit(p, &c->step, reterr);
	}
	carry(p, c, o);
	p->window_end = c->end;
	o->work.n = o->ranges.n = 0;
	if (p->n_open > 1) {
		struct open_step reuse = *o;

		memmove(p->open, p->open + 1, (p->n_open - 1) * sizeof(*p->open));
		p->open[p->n_open - 1] = reuse;
	}
	p->n_open--;
	p->base++;
	return status;
}

/* Closes every step before `mark`. */
static int close_before(struct player *p, uint32_t mark, struct error *reterr)
{
	while (p->base < mark && p->base < p->f->n_marks) {
		int status = step_close(p, reterr);

		if (status < 0)
			return status;
	}
	return 0;
}

/* --- playing --- */

static void lane_enter(struct fold *f, const struct item *it)
{
	struct lane *lane = &f->lanes[it->lane];
	struct comm_range range = {
		.start = it->start,
		.end = it->start + item_duration(it),
		.comm = it->comm,
		.seq = it->seq,
	};

	if (fold_class(f, it->name) & NAME_PARAM)
		lane->param = range;
	else
		lane->annotation = range;
}

static bool range_holds(const struct comm_range *r, int64_t t)
{
	return r->end && t >= r->start && t <= r->end && r->comm != NO_ID;
}

static void play_launch(struct player *p, const struct item *it, uint32_t mark)
{
	const struct lane *lane = &p->f->lanes[it->lane];
	struct launch l = {
		.correlation = it->correlation,
		.mark = mark,
		.start = it->start,
		.ready = it->start,
		.param = NO_ID,
		.annotation = NO_ID,
	};

	if (item_duration(it) > LONG_CALL_NS)
		l.ready = it->start + item_duration(it);
	if (range_holds(&lane->param, it->start)) {
		l.param = lane->param.comm;
		l.seq = lane->param.seq;
	}
	if (range_holds(&lane->annotation, it->start))
		l.annotation = lane->annotation.comm;
	if (it->correlation)
		launches_put(&p->launches, &l);
}

static void ranges_push(struct player *p, const struct item *it, uint32_t mark)
{
	enum item_kind kind = item_kind(it);
	struct range r = {
		.start = it->start,
		.end = it->start + item_duration(it),
		.name = it->name,
		.lane = it->lane,
		.kind = (uint8_t)kind,
	};
	const uint16_t telling =
	    NAME_DATA | NAME_SAVE | NAME_COMPILE | NAME_GC | NAME_IO | NAME_EVAL;

	if (kind == ITEM_RANGE || kind == ITEM_DETAIL)
		r.class = fold_class(p->f, it->name) & telling;
	if (kind == ITEM_DETAIL)
		r.class |= NAME_PYTHON;
	if (kind == ITEM_SYNC)
		r.class = NAME_SYNC;
	if (mark != NO_MARK && mark >= p->base)
		*vec_push(&open_of(p, mark)->ranges) = r;
	else if (p->stray_ranges.n < STRAYS_LIMIT)
		*vec_push(&p->stray_ranges) = r;
}

static void comm_fill(struct comm_args *a, const struct comm_args *from)
{
	if (a->op == COMM_NONE || a->op == COMM_OTHER || a->op == COMM_SEND_RECV)
		a->op = from->op != COMM_NONE && (from->op != COMM_OTHER || a->op == COMM_NONE)
			    ? from->op
			    : a->op;
	if (a->group == NO_ID && a->group_desc == NO_ID && a->ranks == NO_ID) {
		a->group = from->group;
		a->group_desc = from->group_desc;
		a->ranks = from->ranks;
		if (!a->group_size)
			a->group_size = from->group_size;
	}
	if (a->in_elements < 0 && a->out_elements < 0) {
		a->in_elements = from->in_elements;
		a->out_elements = from->out_elements;
		if (a->dtype == NO_ID)
			a->dtype = from->dtype;
	}
	if (a->peer < 0)
		a->peer = from->peer;
}

/* What is known of a collective: its own arguments, else those of the call around its launch, else
   its name. */
static uint32_t comm_settle(struct fold *f, const struct item *it, const struct launch *l,
			    uint32_t *ret_seq)
{
	struct comm_args a = it->comm != NO_ID ? f->comms[it->comm] : comm_args_unknown();
	const char *name = intern_get(&f->names, it->name);

	*ret_seq = it->seq;
	if (l && l->param != NO_ID) {
		comm_fill(&a, &f->comms[l->param]);
		if (!*ret_seq)
			*ret_seq = l->seq;
	}
	if (l && l->annotation != NO_ID)
		comm_fill(&a, &f->comms[l->annotation]);
	if (a.op == COMM_NONE || a.op == COMM_OTHER || a.op == COMM_SEND_RECV) {
		enum comm_op op = comm_op_of(name, intern_len(&f->names, it->name));

		if (op != COMM_NONE && (op != COMM_OTHER || a.op == COMM_NONE))
			a.op = op;
	}
	if (a.op == COMM_NONE)
		a.op = COMM_OTHER;
	a.self = -1; /* the same for all: no part of what tells operations apart */
	return fold_comm(f, &a);
}

/* A stream runs one thing at a time: work that reaches far over the next one's start did not end
   when the file says. */
static void clip_last(struct player *p, const struct item *it)
{
	struct lane *lane = &p->f->lanes[it->lane];
	struct works *works;
	struct work *w;

	if (lane->last_work == NO_ID)
		return;
	if (lane->last_mark == NO_MARK)
		works = &p->strays;
	else if (lane->last_mark >= p->base)
		works = &open_of(p, lane->last_mark)->work;
	else
		return;
	if (lane->last_work >= works->n)
		return;
	w = &works->v[lane->last_work];
	if (w->lane != it->lane || w->end - it->start <= OVERLAP_ABSURD)
		return;
	if (w->kind == ITEM_KERNEL || w->kind == ITEM_COLL_KERNEL)
		p->out->info.kernel_ns -= w->end - it->start;
	if (w->kind == ITEM_COLL_KERNEL)
		p->out->info.collective_ns -= w->end - it->start;
	w->end = MAX(it->start, w->start);
	p->out->skipped[SKIP_BAD_DURATION]++;
}

static void totals_count(struct player *p, const struct work *w)
{
	struct rank_info *info = &p->out->info;

	if (w->kind == ITEM_KERNEL || w->kind == ITEM_COLL_KERNEL) {
		info->kernels++;
		info->kernel_ns += w->end - w->start;
	}
	if (w->kind == (p->gpu_job ? ITEM_COLL_KERNEL : ITEM_GLOO)) {
		info->collectives++;
		info->collective_ns += w->end - w->start;
	}
}

static void work_push(struct player *p, struct work *w)
{
	struct works *to = &p->strays;

	totals_count(p, w);
	if (w->mark == NO_MARK) {
		p->out->skipped[SKIP_NO_STEP]++;
	} else if (w->mark < p->base) {
		p->out->skipped[SKIP_LATE]++;
		w->mark = NO_MARK;
	} else {
		to = &open_of(p, w->mark)->work;
	}
	if (w->mark == NO_MARK && to->n >= STRAYS_LIMIT)
		return;
	if (w->kind <= ITEM_SET) {
		p->f->lanes[w->lane].last_mark = w->mark;
		p->f->lanes[w->lane].last_work = (uint32_t)to->n;
	}
	*vec_push(to) = *w;
}

/* The step of work whose launch is not in the file: by its own start, unless its correlation is
   older than any launch that was recorded. Then it is of a step before the recording. */
static uint32_t mark_unlaunched(const struct fold *f, const struct item *it)
{
	bool before =
	    it->correlation && it->correlation < f->first_launch && f->first_launch != UINT32_MAX;

	return before && !f->whole ? NO_MARK : mark_at(f, it->start);
}

static int play_gpu(struct player *p, const struct item *it, struct error *reterr)
{
	const struct launch *l = launches_find(&p->launches, it->correlation);
	struct work w = {
		.start = it->start,
		.end = it->start + item_duration(it),
		.launch = l ? l->start : TIME_UNKNOWN,
		.ready = l ? l->ready : TIME_UNKNOWN,
		.name = it->name,
		.comm = NO_ID,
		.mark = l ? l->mark : mark_unlaunched(p->f, it),
		.lane = it->lane,
		.kind = (uint8_t)item_kind(it),
	};
	int status = 0;

	if (item_kind(it) == ITEM_COLL_KERNEL)
		w.comm = comm_settle(p->f, it, l, &w.seq);
	clip_last(p, it);
	if (w.mark != NO_MARK && w.mark >= 2)
		status = close_before(p, w.mark - 1, reterr);
	work_push(p, &w);
	return status;
}

static struct call call_of(struct fold *f, const struct item *it)
{
	const struct comm_args *a = it->comm == NO_ID ? NULL : &f->comms[it->comm];
	enum comm_op op = a ? a->op : COMM_NONE;

	if (op == COMM_NONE)
		op = comm_op_of(intern_get(&f->names, it->name), intern_len(&f->names, it->name));
	return (struct call){ it->start, op, a ? a->in_elements : -1 };
}

static void play_gloo(struct player *p, const struct item *it, uint32_t mark)
{
	struct call event = call_of(p->f, it);
	struct work w = {
		.start = it->start,
		.end = it->start + item_duration(it),
		.launch = p->gpu_job ? TIME_UNKNOWN : calls_take(&p->calls, &event),
		.name = it->name,
		.mark = mark,
		.lane = it->lane,
		.kind = ITEM_GLOO,
	};

	w.comm = comm_settle(p->f, it, NULL, &w.seq);
	work_push(p, &w);
}

static int play_host(struct player *p, const struct item *it, struct error *reterr)
{
	uint32_t mark = host_mark(p, it->start);
	enum item_kind kind = item_kind(it);
	int status = 0;

	if (!p->gpu_job && mark != NO_MARK)
		status = close_before(p, mark, reterr);
	switch (kind) {
	case ITEM_COMM_RANGE:
		lane_enter(p->f, it);
		return status;
	case ITEM_LAUNCH:
		play_launch(p, it, mark);
		return status;
	case ITEM_GLOO:
		play_gloo(p, it, mark);
		return status;
	case ITEM_OP:
	case ITEM_WAITING:
	case ITEM_CALL:
		if (p->gpu_job)
			return status;
		if (kind == ITEM_CALL) {
			struct call call = call_of(p->f, it);

			calls_put(&p->calls, &call);
		}
		break;
	default:
		break;
	}
	ranges_push(p, it, mark);
	return status;
}

static int play_all(struct player *p, struct error *reterr)
{
	struct item it;
	int status = runs_start(&p->f->runs, reterr);

	while (status >= 0 && (status = runs_next(&p->f->runs, &it, reterr)) > 0)
		status = item_on_gpu(&it) ? play_gpu(p, &it, reterr) : play_host(p, &it, reterr);
	if (status < 0)
		return status;
	return close_before(p, (uint32_t)p->f->n_marks, reterr);
}

/* --- the head --- */

/* The device with most kernels; NO_ID without any. */
static uint32_t gpu_of(const struct fold *f)
{
	uint32_t best = NO_ID;
	uint64_t most = 0;

	for (size_t i = 0; i < f->n_lanes; i++) {
		uint64_t n = 0;

		for (size_t k = 0; f->lanes[i].gpu && k < f->n_lanes; k++)
			if (f->lanes[k].gpu && f->lanes[k].device == f->lanes[i].device)
				n += f->lanes[k].kernels;
		if (n > most || (n && n == most && f->lanes[i].device < best)) {
			most = n;
			best = f->lanes[i].device;
		}
	}
	return best;
}

static int64_t rank_of(const struct fold *f, const struct fold_hint *hint)
{
	if (f->meta.rank >= 0)
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

	info->rank = rank_of(f, hint);
	info->world_size = f->meta.world_size;
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

static void player_done(struct player *p)
{
	struct closing *c = &p->closing;
	struct intervals *lists[] = { &c->compute, &c->copy, &c->comm,	  &c->host,
				      &c->launch,  &c->rest, &c->scratch, &c->of_class };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		free(lists[i]->v);
	for (size_t i = 0; i < p->cap_open; i++) {
		free(p->open[i].work.v);
		free(p->open[i].ranges.v);
	}
	free(p->open);
	free(p->strays.v);
	free(p->stray_ranges.v);
	free(p->name_map);
	free(c->busy.v);
	free(c->around.v);
	free(c->segments.v);
	free(c->exposure.v);
	kernels_done(c);
	arena_done(&c->arena);
	groups_done(&p->groups);
	launches_done(&p->launches);
	buf_done(&p->record);
	buf_done(&p->record_head);
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
