/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - see stream.h: collect.c and play.c fed bit by bit.
 *
 * Marks are counted from a base that moves on; every place that remembers a mark by its number is
 * moved with it (marks_forget), so that a job may run for years.
 */
#include "fold/stream.h"
#include "fold/play.h"

#define ITEMS_BYTES  ((size_t)6 << 20) /* beyond, they go to an unlinked file */
#define SPOOL_BYTES  ((size_t)8 << 20)
#define OPEN_MOST    1024u /* steps that may wait to be closed */
#define FORGET_AT    2048u /* a multiple of every open_step ring's size */
#define COMMS_LIMIT  65536u
#define KEEP_WORKS   4096u /* of a closed step's list, before its memory is given back */
#define SPARE_WORKS  16u
#define HOST_LEAD_NS ((int64_t)5000000) /* as in runs.c: the host's items are played earlier */

struct mark_more {
	uint32_t flags;
	uint64_t tokens, dropped;
};

struct fold_scratch {
	struct closing closing;
	/* Lists of large steps that were closed, for those that grow: memory that was touched once
	   is cheaper than new one, and each rank keeping its own would be too much. */
	struct works spare[SPARE_WORKS];
	size_t n_spare;
};

struct fold_stream {
	struct fold *f;
	struct player player;
	struct rank_stream out;
	struct fold_scratch *shared;
	VEC(struct mark_more) more; /* of each mark */
	VEC(struct item) left;	    /* not yet to be played */
	size_t given;		    /* bytes of the spool that fold_stream_next has given */
	uint64_t first_given;	    /* the mark of the next step in the spool */
	uint64_t forgotten;	    /* marks before the first of f->marks */
	struct arena arena;
	struct arena head_arena;
};

struct fold_scratch *fold_scratch_new(void)
{
	return xcalloc(1, sizeof(struct fold_scratch));
}

struct fold_scratch *fold_scratch_free(struct fold_scratch *s)
{
	if (!s)
		return NULL;
	closing_done(&s->closing);
	while (s->n_spare)
		free(s->spare[--s->n_spare].v);
	free(s);
	return NULL;
}

struct fold_stream *fold_stream_new(struct fold_scratch *shared)
{
	struct fold_options options = { ITEMS_BYTES, -1, -1 };
	struct fold_stream *s = xcalloc(1, sizeof(*s));

	s->f = fold_new(&options);
	s->shared = shared;
	s->player.f = s->f;
	s->player.out = &s->out;
	s->player.window_end = TIME_UNKNOWN;
	s->player.host_mark_from = s->player.mark_from = INT64_MAX;
	spool_init(&s->out.steps, SPOOL_BYTES);
	groups_init(&s->player.groups, s->f, &s->out.arena);
	return s;
}

struct fold_stream *fold_stream_free(struct fold_stream *s)
{
	if (!s)
		return NULL;
	player_done(&s->player); /* closing is the scratch's */
	fold_free(s->f);
	rank_stream_done(&s->out);
	free(s->more.v);
	free(s->left.v);
	arena_done(&s->arena);
	arena_done(&s->head_arena);
	free(s);
	return NULL;
}

struct intern *fold_stream_names(struct fold_stream *s)
{
	return &s->f->names;
}

void fold_stream_name_is(struct fold_stream *s, uint32_t name, enum stream_name what)
{
	static const uint16_t classes[] = {
		[STREAM_NAME_DATA] = NAME_DATA,	      [STREAM_NAME_SAVE] = NAME_SAVE,
		[STREAM_NAME_EVALUATION] = NAME_EVAL, [STREAM_NAME_COMPILE] = NAME_COMPILE,
		[STREAM_NAME_GC] = NAME_GC,	      [STREAM_NAME_WAITING] = NAME_WAITING,
	};

	fold_class(s->f, name);
	s->f->class[name] |= classes[what];
}

int fold_stream_event(struct fold_stream *s, const struct trace_event *e)
{
	struct trace_event plain;

	/* Sizes of collectives are as many as a stranger likes. */
	if (!e->comm || s->f->n_comms < COMMS_LIMIT)
		return fold_event(s->f, e);
	s->out.skipped[SKIP_TOO_LONG]++;
	plain = *e;
	plain.comm = NULL;
	return fold_event(s->f, &plain);
}

bool fold_stream_gpu(const struct fold_stream *s)
{
	return s->f->gpu_seen;
}

size_t fold_stream_held(const struct fold_stream *s)
{
	return s->f->runs.lists[0].n + s->f->runs.lists[1].n;
}

/* What remembers which mark an instant belongs to has to look again. */
static void marks_changed(struct player *p)
{
	p->host_mark = p->base;
	p->host_mark_from = p->mark_from = INT64_MAX;
	p->host_mark_to = p->mark_to = INT64_MIN;
}

bool fold_stream_mark(struct fold_stream *s, const struct stream_mark *mark)
{
	struct fold *f = s->f;
	struct mark *last = f->n_marks ? &f->marks[f->n_marks - 1] : NULL;
	struct mark m = { mark->start, mark->end, mark->number, true };
	bool ends = last && last->end == INT64_MAX && last->number == mark->number;

	if (mark->end < mark->start || (last && !ends && mark->number <= last->number))
		return false;
	if (last && !ends) {
		if (m.start < last->start)
			return false;
		last->end = MIN(last->end, m.start);
		m.start = MAX(m.start, last->end);
		m.end = MAX(m.end, m.start);
	}
	if (ends) {
		/* An open one began about then: now it is known. */
		last->start = f->n_marks > 1 ? MAX(m.start, last[-1].end) : m.start;
		last->end = MAX(mark->end, last->start);
		s->more.v[f->n_marks - 1] =
		    (struct mark_more){ mark->flags, mark->tokens, mark->dropped };
	} else {
		f->marks = vec_reserve(f->marks, &f->marks_cap, f->n_marks + 1, sizeof(*f->marks));
		f->marks[f->n_marks++] = m;
		*vec_push(&s->more) =
		    (struct mark_more){ mark->flags, mark->tokens, mark->dropped };
	}
	marks_changed(&s->player);
	return true;
}

/* --- playing --- */

static void closing_borrow(struct fold_stream *s)
{
	struct closing *c = &s->player.closing;

	*c = s->shared->closing;
	c->f = s->f;
	c->groups = &s->player.groups;
	c->gpu_job = s->player.gpu_job = s->f->gpu_seen;
}

static void closing_return(struct fold_stream *s)
{
	s->shared->closing = s->player.closing;
}

static void spare_put(struct fold_scratch *s, struct works *w)
{
	if (s->n_spare < SPARE_WORKS)
		s->spare[s->n_spare++] = *w;
	else
		free(w->v);
	*w = (struct works){ 0 };
}

/* A list that grows goes on in one that has grown already. */
static void works_widen(struct fold_scratch *s, struct works *w)
{
	struct works *spare = s->n_spare ? &s->spare[s->n_spare - 1] : NULL;

	if (!spare || w->n <= KEEP_WORKS / 2 || spare->cap <= w->cap * 2)
		return;
	memcpy(spare->v, w->v, w->n * sizeof(*w->v));
	free(w->v);
	w->v = spare->v;
	w->cap = spare->cap;
	s->n_spare--;
}

/* Lists of closed steps do not keep the memory of a large one. */
static void open_trim(struct fold_stream *s)
{
	struct player *p = &s->player;

	for (size_t i = 0; i < p->cap_open; i++) {
		struct works *w = &p->open[i].work;

		if (!w->n && w->cap > KEEP_WORKS)
			spare_put(s->shared, w);
		else
			works_widen(s->shared, w);
	}
}

static bool ended(const struct fold_stream *s, uint32_t mark)
{
	return mark < s->f->n_marks && s->f->marks[mark].end != INT64_MAX;
}

static int close_settled(struct fold_stream *s, int64_t settled, bool all, struct error *reterr)
{
	struct player *p = &s->player;
	int status = 0;

	while (status >= 0 && ended(s, p->base) &&
	       (all || s->f->marks[p->base].end < settled || s->f->n_marks - p->base > OPEN_MOST))
		status = step_close(p, reterr);
	return status;
}

static bool item_before(const struct item *it, int64_t until)
{
	return item_on_gpu(it) ? it->start < until : it->start - HOST_LEAD_NS < until;
}

/* Lists in order show by their first items that there is nothing to play; else who looks finds out.
 */
static bool nothing_before(const struct runs *r, int64_t until)
{
	const struct item *host = r->items, *gpu = r->cap ? r->items + r->cap - 1 : NULL;

	if (r->n_runs || r->lists[0].unsorted || r->lists[1].unsorted)
		return false;
	return (!r->lists[0].n || !item_before(host, until)) &&
	       (!r->lists[1].n || !item_before(gpu, until));
}

static int items_play(struct fold_stream *s, int64_t until, struct error *reterr)
{
	const struct item *batch[RUNS_BATCH];
	struct runs *runs = &s->f->runs;
	int status, n;

	if (nothing_before(runs, until))
		return 0;
	status = runs_start(runs, reterr);
	s->left.n = 0;
	while (status >= 0 && (n = runs_next(runs, batch, reterr))) {
		if (n < 0)
			return n;
		for (int i = 0; i < n && status >= 0; i++) {
			if (item_before(batch[i], until))
				status = play_item(&s->player, batch[i], reterr);
			else if (!s->left.n && runs_keep(runs, batch + i, (size_t)(n - i)))
				return 0; /* in order: none behind it is before */
			else
				*vec_push(&s->left) = *batch[i];
		}
	}
	runs_again(runs);
	for (size_t i = 0; i < s->left.n && status >= 0; i++) {
		bool gpu = item_on_gpu(&s->left.v[i]);
		struct item *it = runs_room(runs, gpu, &status, reterr);

		if (!it)
			break;
		*it = s->left.v[i];
		runs_add(runs, it, gpu);
	}
	return status;
}

/* Drops marks that are long closed; `by` is a multiple of the ring of open steps, so that these
   stay where they are. */
static void marks_forget(struct fold_stream *s)
{
	struct player *p = &s->player;
	struct fold *f = s->f;
	uint32_t by = FORGET_AT;

	if (p->base < 2 * by || by % MAX(p->cap_open, (size_t)1))
		return;
	memmove(f->marks, f->marks + by, (f->n_marks - by) * sizeof(*f->marks));
	memmove(s->more.v, s->more.v + by, (s->more.n - by) * sizeof(*s->more.v));
	f->n_marks -= by;
	s->more.n -= by;
	s->forgotten += by;
	p->base -= by;
	for (size_t i = 0; i < f->n_lanes; i++) {
		struct lane *l = &f->lanes[i];

		if (l->last_mark == NO_MARK)
			continue;
		if (l->last_mark < by)
			l->last_work = NO_ID;
		l->last_mark = l->last_mark < by ? NO_MARK : l->last_mark - by;
	}
	for (size_t i = 0; p->launches.ring && i < LAUNCHES; i++) {
		struct launch *l = &p->launches.ring[i];

		if (l->mark != NO_MARK)
			l->mark = l->mark < by ? NO_MARK : l->mark - by;
	}
	marks_changed(p);
}

int fold_stream_play(struct fold_stream *s, int64_t until, int64_t settled, bool all,
		     struct error *reterr)
{
	struct player *p = &s->player;
	int status;

	if (s->given == s->out.steps.len) { /* all were taken */
		s->out.steps.len = s->out.steps.mem.len = s->given = 0;
		s->first_given = s->forgotten + p->base;
	}
	closing_borrow(s);
	marks_changed(p);
	status = items_play(s, all ? INT64_MAX : until, reterr);
	if (status >= 0)
		status = close_settled(s, settled, all, reterr);
	closing_return(s);
	open_trim(s);
	marks_forget(s);
	return status;
}

bool fold_stream_next(struct fold_stream *s, struct step *ret, const struct intern **ret_names)
{
	const struct spool *all = &s->out.steps;
	struct span in;
	size_t len;
	uint64_t mark = s->first_given;
	const struct mark_more *more;

	if (s->given >= all->mem.len)
		return false;
	in = span_of(all->mem.data + s->given, all->mem.len - s->given);
	len = (size_t)span_varint(&in);
	s->given = all->mem.len - span_left(&in) + len;
	s->first_given++;
	in = span_of(in.p, MIN(len, span_left(&in)));
	arena_reset(&s->arena);
	if (step_decode(&in, &s->arena, ret, NULL) < 0 || mark < s->forgotten ||
	    mark - s->forgotten >= s->more.n)
		return fold_stream_next(s, ret, ret_names);
	more = &s->more.v[mark - s->forgotten];
	ret->flags |= more->flags;
	ret->tokens = more->tokens;
	ret->dropped += more->dropped;
	*ret_names = &s->out.names;
	return true;
}

void fold_stream_head(struct fold_stream *s, struct rank_info *ret)
{
	struct player *p = &s->player;
	const struct groups *g = &p->groups;

	arena_reset(&s->head_arena);
	*ret = s->out.info;
	ret->cpu_job = !s->f->gpu_seen;
	ret->first_ns = s->f->first <= s->f->last ? s->f->first : 0;
	ret->last_ns = s->f->first <= s->f->last ? s->f->last : 0;
	for (size_t i = 0; i < s->f->n_lanes; i++) {
		ret->kernels += s->f->lanes[i].kernels;
		ret->kernel_ns += s->f->lanes[i].kernel_ns;
	}
	ret->n_groups = (uint32_t)g->rows.n;
	ret->groups = arena_alloc(&s->head_arena, (g->rows.n + 1) * sizeof(*ret->groups));
	for (uint32_t i = 0; i < ret->n_groups; i++) {
		ret->groups[i] = g->rows.v[i];
		ret->groups[i].name = name_out(p, ret->groups[i].name);
		ret->groups[i].desc = name_out(p, ret->groups[i].desc);
	}
}

uint64_t fold_stream_skipped(const struct fold_stream *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < SKIP_REASONS; i++)
		n += s->out.skipped[i] + s->f->skipped[i];
	return n;
}

uint32_t fold_stream_name_out(struct fold_stream *s, uint32_t name, const struct intern **ret_names)
{
	*ret_names = &s->out.names;
	return name_out(&s->player, name);
}
