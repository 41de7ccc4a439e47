/* SPDX-License-Identifier: Apache-2.0 */
/*
 * close.c - settles the window of a step, and makes its record.
 *
 * The window is where the step's time went: on CPU jobs its mark; on GPU jobs from the end of the
 * last window to the later of its mark's end and its last work's end. While the host runs ahead
 * that is the end of its work; when the host falls behind, the GPU has nothing of the next step
 * before the mark ends, and the host's tail counts where it happened. Windows of marks that touch
 * tile time: nothing is counted twice, and no stall vanishes.
 */
#include "fold/play.h"

#define NAME_LONGEST	512
#define UNSEEN_QUEUE_NS ((int64_t)2000000) /* a first launch this late: earlier work ran unseen */

uint32_t name_out(struct player *p, uint32_t name)
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

static int64_t gpu_work_end(const struct works *w)
{
	int64_t end = TIME_UNKNOWN;

	for (size_t i = 0; i < w->n; i++)
		if (w->v[i].kind <= ITEM_SET)
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
	int64_t begin = m->start, before = gpu_work_end(&p->strays);

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
	int64_t end = TIME_UNKNOWN;

	if (p->gpu_job && w->n)
		end = w->loose ? gpu_work_end(w) : w->end;
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

	return work_compare(*x, *y);
}

static int range_order(const void *a, const void *b)
{
	const struct range *const *x = a, *const *y = b;

	if ((*x)->start != (*y)->start)
		return (*x)->start < (*y)->start ? -1 : 1;
	return (*x)->end > (*y)->end ? -1 : (*x)->end < (*y)->end;
}

static bool busy_touches(const struct closing *c, const struct work *w)
{
	return w->end > c->begin && w->start < c->end;
}

/* Of another step, or of none: what touches the window. False: busy is out of order. */
static bool busy_add(struct closing *c, const struct works *w)
{
	size_t before = c->busy.n;

	for (size_t i = 0; i < w->n; i++) {
		if (busy_touches(c, &w->v[i]))
			*vec_push(&c->busy) = &w->v[i];
		else if (!w->unordered && w->v[i].start >= c->end)
			break;
	}
	if (c->busy.n == before)
		return true;
	return !w->unordered &&
	       (!before || work_compare(c->busy.v[before - 1], c->busy.v[before]) <= 0);
}

/* Of the step itself: all of it. */
static bool busy_add_own(struct closing *c, const struct works *w)
{
	size_t before = c->busy.n;

	vec_grow(&c->busy, w->n);
	for (size_t i = 0; i < w->n; i++)
		c->busy.v[before + i] = &w->v[i];
	c->busy.n += w->n;
	if (!w->n)
		return true;
	return !w->unordered &&
	       (!before || work_compare(c->busy.v[before - 1], c->busy.v[before]) <= 0);
}

static void around_add(struct closing *c, const struct ranges *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->v[i].end > c->begin && r->v[i].start < c->end)
			*vec_push(&c->around) = &r->v[i];
}

static const struct work never = { .start = TIME_NEVER, .wait = WAIT_NEVER, .kind = ITEM_KINDS };

/* Everything that touches the window, whatever step it belongs to. Later steps only until what they
   have starts behind the window: a host far ahead leaves many open. */

static void window_gather(struct player *p, struct closing *c)
{
	const struct mark *marks = p->f->marks;
	bool sorted;

	c->busy.n = c->around.n = 0;
	sorted = busy_add(c, &p->strays);
	sorted &= busy_add_own(c, &open_at(p, p->base)->work);
	around_add(c, &p->stray_ranges);
	for (uint32_t m = p->base; m - p->base < p->n_open; m++) {
		if (m > p->base && (c->begin >= c->end || marks[m].start - p->lead >= c->end))
			break;
		if (m > p->base)
			sorted &= busy_add(c, &open_at(p, m)->work);
		around_add(c, &open_at(p, m)->ranges);
	}
	if (!sorted)
		qsort(c->busy.v, c->busy.n, sizeof(*c->busy.v), work_order);
	*vec_push(&c->busy) = &never;
	c->busy.n--;
	sorted = true;
	for (size_t i = 1; i < c->around.n && sorted; i++)
		sorted = range_order(&c->around.v[i - 1], &c->around.v[i]) <= 0;
	if (!sorted)
		qsort(c->around.v, c->around.n, sizeof(*c->around.v), range_order);
}

static void stray_add(struct player *p, const struct work *w)
{
	*vec_push(&p->strays) = *w;
	works_settle(&p->strays, w->kind <= ITEM_SET);
}

/* What ends behind the window is still there in the next one. */
static void carry(struct player *p, const struct closing *c, struct open_step *done)
{
	size_t n = 0;

	for (size_t i = 0; i < p->strays.n; i++)
		if (p->strays.v[i].end > c->end)
			p->strays.v[n++] = p->strays.v[i];
	p->strays.n = n;
	for (size_t i = 0; i < done->work.n && done->work.end > c->end; i++)
		if (done->work.v[i].end > c->end)
			stray_add(p, &done->work.v[i]);
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

int step_close(struct player *p, struct error *reterr)
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
	p->n_open--;
	p->base++;
	return status;
}

void closing_done(struct closing *c)
{
	struct intervals *lists[] = { &c->compute, &c->copy,	&c->comm,    &c->host,
				      &c->rest,	   &c->scratch, &c->of_class };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		free(lists[i]->v);
	free(c->busy.v);
	free(c->around.v);
	free(c->stands.v);
	free(c->waits.v);
	free(c->exposure.v);
	kernels_done(c);
	arena_done(&c->arena);
}
