/* SPDX-License-Identifier: Apache-2.0 */
/*
 * play.c - plays the items of a trace by time and gathers them by step.
 *
 * A span belongs to the step in which it starts, GPU work to that of its launch. The host may run a
 * step ahead of the GPU, so a step stays open until work of the step after the next one begins.
 */
#include "fold/play.h"

#define OVERLAP_ABSURD ((int64_t)1000000) /* of work on one stream, before it is clipped */
#define LONG_CALL_NS   ((int64_t)1000000) /* a launch that loads a module, or waits for room */
#define STRAYS_LIMIT   65536

static int mark_order(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end > y->end ? -1 : x->end < y->end;
}

/* In order, none inside another, none twice. */
void marks_settle(struct fold *f)
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

/* The mark of an instant: mostly that of the last one asked for. */
static uint32_t mark_at(struct player *p, int64_t t)
{
	const struct fold *f = p->f;
	size_t lo = 0, hi = f->n_marks;

	if (t >= p->mark_from && t < p->mark_to)
		return p->mark;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (f->marks[mid].start <= t)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo || t >= f->marks[lo - 1].end)
		return NO_MARK;
	p->mark = (uint32_t)(lo - 1);
	p->mark_from = f->marks[lo - 1].start;
	p->mark_to = f->marks[lo - 1].end;
	if (lo < f->n_marks)
		p->mark_to = MIN(p->mark_to, f->marks[lo].start);
	return p->mark;
}

/* Host items come in order of time, so their mark is the last one's or a later one. */
static uint32_t host_mark_next(struct player *p, int64_t t)
{
	const struct fold *f = p->f;
	uint32_t m = p->host_mark;

	while (m + 1 < f->n_marks && f->marks[m + 1].start <= t)
		m++;
	p->host_mark = m;
	if (m >= f->n_marks)
		return NO_MARK;
	p->host_mark_from = f->marks[m].start;
	p->host_mark_to = f->marks[m].end;
	if (m + 1 < f->n_marks)
		p->host_mark_to = MIN(p->host_mark_to, f->marks[m + 1].start);
	return t >= p->host_mark_from && t < f->marks[m].end ? m : NO_MARK;
}

static inline uint32_t host_mark(struct player *p, int64_t t)
{
	if (t >= p->host_mark_from && t < p->host_mark_to)
		return p->host_mark;
	return host_mark_next(p, t);
}

/* Opens the steps of n marks from the first open one on. */
void open_widen(struct player *p, size_t n)
{
	struct player old = *p;

	p->n_open = n;
	if (n <= p->cap_open)
		return;
	p->cap_open = MAX(p->cap_open, (size_t)4);
	while (p->cap_open < n)
		p->cap_open *= 2;
	p->open = xcalloc(p->cap_open, sizeof(*p->open));
	/* All of them: closed ones keep their memory for later steps. */
	for (size_t i = 0; i < old.cap_open; i++) {
		uint32_t mark = p->base + (uint32_t)i;

		*open_at(p, mark) = *open_at(&old, mark);
	}
	free(old.open);
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
	lane->ranges_end = MAX(lane->ranges_end, range.end);
}

static bool range_holds(const struct comm_range *r, int64_t t)
{
	return r->end && t >= r->start && t <= r->end && r->comm != NO_ID;
}

/* The launch of a collective, or one that took long. */
static void launch_tell(struct player *p, const struct item *it, struct launch *l)
{
	const struct lane *lane = &p->f->lanes[it->lane];
	struct launch_more *more = launch_more(&p->launches, l);

	*more = (struct launch_more){ .ready = it->start, .param = NO_ID, .annotation = NO_ID };
	l->more = true;
	if (item_duration(it) > LONG_CALL_NS)
		more->ready = it->start + item_duration(it);
	if (range_holds(&lane->param, it->start)) {
		more->param = lane->param.comm;
		more->seq = lane->param.seq;
	}
	if (range_holds(&lane->annotation, it->start))
		more->annotation = lane->annotation.comm;
}

static inline void play_launch(struct player *p, const struct item *it, uint32_t mark)
{
	struct launch *l;

	if (!it->correlation)
		return;
	l = launches_put(&p->launches, it->correlation);
	l->mark = mark;
	l->start = it->start;
	if (item_duration(it) > LONG_CALL_NS || it->start <= p->f->lanes[it->lane].ranges_end)
		launch_tell(p, it, l);
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
static uint32_t comm_settle(struct fold *f, const struct item *it, const struct launch_more *l,
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
static void clip_last(struct player *p, struct lane *lane, const struct item *it)
{
	struct works *works;
	struct work *w;

	if (lane->last_work == NO_ID)
		return;
	if (lane->last_mark == NO_MARK)
		works = &p->strays;
	else if (lane->last_mark >= p->base)
		works = &open_at(p, lane->last_mark)->work;
	else
		return;
	if (lane->last_work >= works->n)
		return;
	w = &works->v[lane->last_work];
	if (w->lane != it->lane || w->end - it->start <= OVERLAP_ABSURD)
		return;
	if (w->kind <= ITEM_COLL_KERNEL)
		lane->kernel_ns -= w->end - it->start;
	if (w->kind == ITEM_COLL_KERNEL)
		p->out->info.collective_ns -= w->end - it->start;
	w->end = MAX(it->start, w->start);
	works->loose = works->unordered = true;
	p->out->skipped[SKIP_BAD_DURATION]++;
}

static void coll_count(struct player *p, int64_t duration)
{
	p->out->info.collectives++;
	p->out->info.collective_ns += duration;
}

/* A place at the end of the list where work of a mark goes, and that list; NULL: there is no more
   room. */
static inline struct work *work_place(struct player *p, uint32_t *mark, int64_t start,
				      struct works **ret)
{
	struct works *to = &p->strays;

	if (*mark == NO_MARK) {
		p->out->skipped[SKIP_NO_STEP]++;
	} else if (*mark < p->base) {
		p->out->skipped[SKIP_LATE]++;
		*mark = NO_MARK;
	} else {
		to = &open_of(p, *mark)->work;
		/* In order of time the first one has the longest lead. */
		if (!to->n || start < to->v[to->n - 1].start)
			p->lead = MAX(p->lead, p->f->marks[*mark].start - start);
	}
	*ret = to;
	return *mark == NO_MARK && to->n >= STRAYS_LIMIT ? NULL : vec_push(to);
}

/* The step of work whose launch is not in the file: by its own start, unless its correlation is
   older than any launch that was recorded. Then it is of a step before the recording. */
static uint32_t mark_unlaunched(struct player *p, const struct item *it)
{
	const struct fold *f = p->f;
	bool before =
	    it->correlation && it->correlation < f->first_launch && f->first_launch != UINT32_MAX;

	return before && !f->whole ? NO_MARK : mark_at(p, it->start);
}

/* What a stream remembers of its last work. */
static inline void lane_worked(struct lane *lane, uint32_t mark, size_t at, int64_t end)
{
	lane->last_mark = mark;
	lane->last_work = (uint32_t)at;
	lane->last_end = end;
}

/* Most kernels: of the first open step or the next one, and behind what that has already. False: it
   takes the long way. */
static inline bool play_kernel(struct player *p, const struct item *it, uint32_t mark,
			       int64_t launch, uint32_t wait)
{
	struct lane *lane = &p->f->lanes[it->lane];
	const int64_t start = it->start, end = start + item_duration(it);
	uint32_t ahead = mark - p->base; /* NO_MARK and what is closed are far ahead, unsigned */
	struct works *to;
	struct work *w;

	if (ahead >= 2 || ahead >= p->n_open || lane->last_end - start > OVERLAP_ABSURD)
		return false;
	to = &open_at(p, mark)->work;
	if (!to->n || to->n == to->cap || to->v[to->n - 1].start >= start)
		return false;
	lane_worked(lane, mark, to->n, end);
	lane->kernels++;
	lane->kernel_ns += end - start;
	to->end = MAX(to->end, end);
	w = &to->v[to->n++];
	w->start = start;
	w->end = end;
	w->launch = launch;
	w->wait = wait;
	w->name = it->name;
	w->seq = it->seq;
	w->lane = it->lane;
	w->kind = ITEM_KERNEL;
	return true;
}

static int work_put(struct player *p, const struct item *it, const struct launch *l, uint32_t mark,
		    struct error *reterr)
{
	const struct launch_more *more = l && l->more ? launch_more(&p->launches, l) : NULL;
	struct lane *lane = &p->f->lanes[it->lane];
	enum item_kind kind = item_kind(it);
	int64_t end = it->start + item_duration(it);
	uint32_t comm = NO_ID, seq = kind == ITEM_KERNEL ? it->seq : 0;
	struct works *to;
	struct work *w;
	int status = 0;

	lane->kernels += kind <= ITEM_COLL_KERNEL;
	if (kind <= ITEM_COLL_KERNEL)
		lane->kernel_ns += end - it->start;
	if (kind == ITEM_COLL_KERNEL) {
		comm = comm_settle(p->f, it, more, &seq);
		if (p->gpu_job)
			coll_count(p, end - it->start);
	}
	if (lane->last_end - it->start > OVERLAP_ABSURD)
		clip_last(p, lane, it);
	if (mark != NO_MARK && mark >= p->base + 2)
		status = close_before(p, mark - 1, reterr);
	w = work_place(p, &mark, it->start, &to);
	if (!w)
		return status;
	*w = (struct work){
		.start = it->start,
		.end = end,
		.launch = l ? l->start : TIME_UNKNOWN,
		.wait = l ? launch_wait(&p->launches, l) : WAIT_NEVER,
		.name = kind == ITEM_COLL_KERNEL ? comm : it->name,
		.seq = seq,
		.lane = it->lane,
		.kind = (uint8_t)kind,
	};
	works_settle(to, true);
	lane_worked(lane, mark, to->n - 1, end);
	return status;
}

static inline int play_gpu(struct player *p, const struct item *it, struct error *reterr)
{
	const struct launch *l = launches_find(&p->launches, it->correlation);
	uint32_t mark = l ? l->mark : mark_unlaunched(p, it);

	if (item_kind(it) == ITEM_KERNEL &&
	    play_kernel(p, it, mark, l ? l->start : TIME_UNKNOWN,
			l ? launch_wait(&p->launches, l) : WAIT_NEVER))
		return 0;
	return work_put(p, it, l, mark, reterr);
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
		.wait = WAIT_NEVER,
		.lane = it->lane,
		.kind = ITEM_GLOO,
	};
	struct works *to;
	struct work *place;

	w.comm = comm_settle(p->f, it, NULL, &w.seq);
	if (!p->gpu_job)
		coll_count(p, w.end - w.start);
	place = work_place(p, &mark, w.start, &to);
	if (!place)
		return;
	*place = w;
	works_settle(to, false);
}

static int play_host(struct player *p, const struct item *it, struct error *reterr)
{
	uint32_t mark = host_mark(p, it->start);
	enum item_kind kind = item_kind(it);
	int status = 0;

	if (!p->gpu_job && mark != NO_MARK)
		status = close_before(p, mark, reterr);
	if (kind == ITEM_LAUNCH) {
		play_launch(p, it, mark);
		return status;
	}
	switch (kind) {
	case ITEM_COMM_RANGE:
		lane_enter(p->f, it);
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

int play_all(struct player *p, struct error *reterr)
{
	const struct item *batch[RUNS_BATCH];
	int status = runs_start(&p->f->runs, reterr), n;

	while (status >= 0 && (n = runs_next(&p->f->runs, batch, reterr))) {
		if (n < 0)
			return n;
		for (int i = 0; i < n && status >= 0; i++)
			status = item_on_gpu(batch[i]) ? play_gpu(p, batch[i], reterr)
						       : play_host(p, batch[i], reterr);
	}
	if (status < 0)
		return status;
	return close_before(p, (uint32_t)p->f->n_marks, reterr);
}

int play_item(struct player *p, const struct item *it, struct error *reterr)
{
	return item_on_gpu(it) ? play_gpu(p, it, reterr) : play_host(p, it, reterr);
}

void player_done(struct player *p)
{
	for (size_t i = 0; i < p->cap_open; i++) {
		free(p->open[i].work.v);
		free(p->open[i].ranges.v);
	}
	free(p->open);
	free(p->strays.v);
	free(p->stray_ranges.v);
	free(p->name_map);
	groups_done(&p->groups);
	launches_done(&p->launches);
	buf_done(&p->record);
	buf_done(&p->record_head);
}
