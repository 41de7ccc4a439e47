/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_rank.c - from records of a ring to the events that fold knows from traces.
 *
 * Phases are annotations; a job without GPU work has no operators in its ring, so its phases count
 * as what the CPU computed, but for what rank_wait.c finds to be waiting. Collectives are the
 * host's, unless kernels of a communication library show them: then they tell of those.
 */
#include "agent/ring_rank.h"
#include "agent/rank_wait.h"

#define LAG_NS	       ((int64_t)300000000)   /* so late another thread may tell what it did */
#define GPU_LAG_NS     ((int64_t)5000000000)  /* so late kernels may come */
#define PENDING_NS     ((int64_t)10000000000) /* so long a step waits for its collectives */
#define SILENCE_NS     ((int64_t)60000000000) /* without a step: what was held is of none */
#define FUTURE_NS      ((int64_t)10000000000)
#define BEFORE_NS      ((int64_t)1000000000)
#define NUMBER_MOST    ((uint64_t)1 << 53)
#define HELD_MANY      1024u
#define SNAPSHOT_NS    ((int64_t)200000000)
#define TOKENS_MOST    4096u
#define MARKS_MOST     4096u
#define RUNS_MOST      65536u
#define RUN_LONGEST_NS ((int64_t)50000000)

struct rank_live *rank_new(struct ring_file *ring, struct fold_scratch *scratch)
{
	struct rank_live *r = xcalloc(1, sizeof(*r));

	r->ring = ring;
	r->fold = fold_stream_new(scratch);
	r->skip_until = -1;
	r->gpu_until = INT64_MIN;
	return r;
}

struct rank_live *rank_free(struct rank_live *r)
{
	if (!r)
		return NULL;
	ring_free(r->ring);
	fold_stream_free(r->fold);
	free(r->names);
	free(r->spans.v);
	free(r->marks.v);
	free(r->tokens.v);
	free(r->snapshots.v);
	free(r->runs.v);
	free(r->done.v);
	arena_done(&r->arena);
	free(r);
	return NULL;
}

/* --- names --- */

static struct rank_name *name_new(struct rank_live *r, uint32_t id)
{
	size_t len, need = (size_t)r->ring->n_names + 1;
	const char *s = ring_name(r->ring, id, &len);

	id = id > r->ring->n_names ? 0 : id;
	if (r->n_names < need) {
		r->names = vec_reserve(r->names, &r->cap_names, need, sizeof(*r->names));
		for (; r->n_names < need; r->n_names++)
			r->names[r->n_names] = (struct rank_name){ .id = NO_ID };
	}
	if (r->names[id].id == NO_ID) {
		r->names[id].id = id && len ? intern(fold_stream_names(r->fold), s, len)
					    : intern_str(fold_stream_names(r->fold), "(unnamed)");
		r->names[id].comm = comm_op_of_kernel(s, len) != COMM_NONE;
		r->tells_waits |=
		    len == sizeof(RANK_WAIT_NAME) - 1 && !memcmp(s, RANK_WAIT_NAME, len);
	}
	return &r->names[id];
}

static inline struct rank_name *name_of(struct rank_live *r, uint32_t id)
{
	return id < r->n_names && r->names[id].id != NO_ID ? &r->names[id] : name_new(r, id);
}

/* What the phases of a kind are to the fold; -1: nothing but time. */
static int stream_name_of(uint16_t phase)
{
	switch (phase) {
	case RING_PHASE_DATA:
		return STREAM_NAME_DATA;
	case RING_PHASE_CHECKPOINT:
		return STREAM_NAME_SAVE;
	case RING_PHASE_EVALUATION:
		return STREAM_NAME_EVALUATION;
	case RING_PHASE_COMPILE:
		return STREAM_NAME_COMPILE;
	case RING_PHASE_GC:
		return STREAM_NAME_GC;
	default:
		return -1;
	}
}

/* --- records --- */

/* Whatever stands in a record: never beyond the end of time. */
static inline int64_t later(int64_t t, int64_t ns)
{
	return t > INT64_MAX - ns ? INT64_MAX : t + ns;
}

/* false: its time is absurd. */
static inline bool event_give(struct rank_live *r, struct trace_event *e)
{
	if (e->start_ns > r->horizon || e->start_ns < r->floor) {
		r->strange++;
		return false;
	}
	if (e->duration_ns > r->horizon - e->start_ns)
		e->duration_ns = r->horizon - e->start_ns;
	if (fold_stream_event(r->fold, e) < 0)
		r->strange++;
	return true;
}

static void take_phase(struct rank_live *r, uint32_t slot, const struct ring_record *rec)
{
	uint16_t phase = rec->arg < RING_PHASES ? rec->arg : RING_PHASE_USER;
	struct rank_name *name = name_of(r, rec->name);
	int what = stream_name_of(phase);
	struct trace_event e = {
		.kind = EVENT_ANNOTATION,
		.name = name->id,
		.start_ns = ring_time(r->ring, rec->t),
		.duration_ns = ring_span(r->ring, rec->duration),
		.thread = slot,
	};

	if (what >= 0 && !(name->kinds & 1u << phase)) {
		name->kinds |= (uint16_t)(1u << phase);
		fold_stream_name_is(r->fold, name->id, (enum stream_name)what);
	}
	if (!event_give(r, &e) || fold_stream_gpu(r->fold))
		return;
	if (what < 0) {
		e.kind = EVENT_OP;
		event_give(r, &e);
	}
	rank_wait_note(r, &(struct rank_span){ e.start_ns, later(e.start_ns, e.duration_ns), slot,
					       RING_PHASE, rec->depth, (uint8_t)phase, false });
}

static void take_step(struct rank_live *r, const struct ring_record *rec)
{
	int64_t start = ring_time(r->ring, rec->t);

	if (r->marks.n == MARKS_MOST) {
		r->strange++;
		return;
	}
	*vec_push(&r->marks) = (struct stream_mark){
		.number = rec->value,
		.start = start,
		.end = later(start, ring_span(r->ring, rec->duration)),
		.flags = (rec->arg & RING_STEP_EVALUATION ? STEP_EVALUATION : 0u) |
			 (rec->arg & RING_STEP_PROFILED ? STEP_PROFILED : 0u),
	};
}

/* By enum lockstep_op, which is an ABI of its own. */
static const enum comm_op ops[] = {
	COMM_OTHER,	 COMM_ALL_REDUCE,     COMM_BROADCAST,  COMM_REDUCE,
	COMM_ALL_GATHER, COMM_REDUCE_SCATTER, COMM_ALL_TO_ALL, COMM_GATHER,
	COMM_SCATTER,	 COMM_BARRIER,	      COMM_SEND,       COMM_RECV,
};

/* The last collective of a group that was done. */
static void done_note(struct rank_live *r, const struct comm_args *args, uint64_t bytes, int64_t at)
{
	struct standing_coll c = { args->group, args->op, args->seq, bytes, at };

	for (size_t i = 0; i < r->done.n; i++) {
		if (r->done.v[i].group != args->group)
			continue;
		if (c.seq >= r->done.v[i].seq)
			r->done.v[i] = c;
		return;
	}
	if (r->done.n < STANDING_DONE_MOST)
		*vec_push(&r->done) = c;
}

static void take_coll(struct rank_live *r, uint32_t slot, const struct ring_record *rec,
		      uint64_t bytes)
{
	struct comm_args args = comm_args_unknown();
	struct intern *names = fold_stream_names(r->fold);
	struct trace_event e = {
		.kind = r->comm_kernels ? EVENT_ANNOTATION : EVENT_COLLECTIVE,
		.start_ns = ring_time(r->ring, rec->t),
		.duration_ns = ring_span(r->ring, rec->duration),
		.thread = slot,
		.comm = &args,
	};

	args.op = rec->arg < ARRAY_SIZE(ops) ? ops[rec->arg] : COMM_OTHER;
	if (rec->name)
		args.group = name_of(r, rec->name)->id;
	args.seq = (int64_t)rec->value;
	if (args.seq < 0 || args.seq >= UINT32_MAX)
		args.seq = -1;
	if (bytes && bytes < (uint64_t)1 << 56) {
		args.in_elements = (int64_t)bytes;
		args.dtype = intern_str(names, "Byte");
	}
	e.name = intern_str(names, r->comm_kernels ? "record_param_comms" : comm_op_name(args.op));
	if (!event_give(r, &e))
		return;
	done_note(r, &args, bytes, e.start_ns);
	if (!fold_stream_gpu(r->fold))
		rank_wait_note(r, &(struct rank_span){ e.start_ns, later(e.start_ns, e.duration_ns),
						       slot, RING_COLL, rec->depth, 0, false });
}

/* A kernel names its phase. The ledger counts kernels by their launches: without those, by this. */
static void run_note(struct rank_live *r, uint32_t phase, int64_t start, int64_t end)
{
	struct rank_run *last = r->runs.n ? &r->runs.v[r->runs.n - 1] : NULL;

	if (last && last->phase == phase && start - last->start < RUN_LONGEST_NS &&
	    start >= last->start) {
		last->busy += MAX(end - MAX(start, last->end), (int64_t)0);
		last->end = MAX(last->end, end);
		return;
	}
	if (r->runs.n == RUNS_MOST)
		return;
	*vec_push(&r->runs) = (struct rank_run){ start, end, end - start, phase };
}

static inline void take_gpu(struct rank_live *r, const struct ring_record *rec)
{
	static const uint8_t kinds[] = { [RING_KERNEL] = EVENT_KERNEL,
					 [RING_COPY] = EVENT_COPY,
					 [RING_SET] = EVENT_SET,
					 [RING_SYNC] = EVENT_SYNC };
	struct rank_name *name = name_of(r, rec->name);
	struct trace_event e = {
		.kind = (enum event_kind)kinds[rec->kind],
		.name = name->id,
		.start_ns = ring_time_gpu(r->ring, rec->t),
		.duration_ns = (int64_t)MIN(rec->duration, (uint64_t)1 << 44),
		.thread = rec->arg,
		.correlation = rec->value >> 32,
	};

	r->comm_kernels |= name->comm && rec->kind == RING_KERNEL;
	if (!event_give(r, &e))
		return;
	if (!r->launches && rec->kind == RING_KERNEL && !name->comm && (uint32_t)rec->value)
		run_note(r, name_of(r, (uint32_t)rec->value)->id, e.start_ns,
			 later(e.start_ns, e.duration_ns));
	r->gpu_until = MAX(r->gpu_until, e.start_ns);
}

static void take_launch(struct rank_live *r, uint32_t slot, const struct ring_record *rec)
{
	struct trace_event e = {
		.kind = EVENT_LAUNCH,
		.name = name_of(r, rec->name)->id,
		.start_ns = ring_time(r->ring, rec->t),
		.duration_ns = ring_span(r->ring, rec->duration),
		.thread = slot,
		.correlation = rec->value >> 32,
	};

	r->launches = true;
	event_give(r, &e);
}

static void take_counter(struct rank_live *r, const struct ring_record *rec)
{
	size_t len;
	const char *name = ring_name(r->ring, rec->name, &len);
	struct rank_value v = { .time = ring_time(r->ring, rec->t) };

	memcpy(&v.value, &rec->value, sizeof(v.value));
	if (len == 6 && !memcmp(name, "tokens", 6) && v.value >= 0 && v.value < 1e18 &&
	    r->tokens.n < TOKENS_MOST)
		*vec_push(&r->tokens) = v;
}

/* Records were overtaken: what began before the first one that is left lacks some. */
static void gap_note(struct rank_live *r, const struct ring_record *rec, size_t n)
{
	int64_t at;

	r->overtaken_seen = r->ring->overtaken;
	if (rec->kind == RING_MORE && n > 1)
		rec++;
	at = rec->kind >= RING_KERNEL && rec->kind <= RING_SYNC ? ring_time_gpu(r->ring, rec->t)
								: ring_time(r->ring, rec->t);
	if (at < r->horizon)
		r->partial_until = MAX(r->partial_until, at);
}

static void take(void *user, uint32_t slot, const struct ring_record *rec, size_t n)
{
	struct rank_live *r = user;

	if (r->ring->overtaken != r->overtaken_seen)
		gap_note(r, rec, n);
	for (size_t i = 0; i < n; i++, rec++) {
		bool more = i + 1 < n && rec[1].kind == RING_MORE;

		switch (rec->kind) {
		case RING_KERNEL:
		case RING_COPY:
		case RING_SET:
		case RING_SYNC:
			take_gpu(r, rec);
			break;
		case RING_LAUNCH:
			take_launch(r, slot, rec);
			break;
		case RING_PHASE:
			take_phase(r, slot, rec);
			break;
		case RING_COLL:
			take_coll(r, slot, rec, more ? rec[1].value : 0);
			break;
		case RING_STEP:
			take_step(r, rec);
			break;
		case RING_COUNTER:
			take_counter(r, rec);
			break;
		case RING_GAP:
			r->lost += rec->value < 1u << 30 ? rec->value : 0;
			r->profiled |= rec->arg == 1;
			break;
		case RING_MARK:
		case RING_MORE:
			break;
		default:
			r->strange++;
		}
	}
}

/* --- steps --- */

static int mark_order(const void *a, const void *b)
{
	const struct stream_mark *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static uint64_t tokens_take(struct rank_live *r, int64_t end)
{
	double sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < r->tokens.n; i++) {
		if (r->tokens.v[i].time <= end)
			sum += r->tokens.v[i].value;
		else
			r->tokens.v[n++] = r->tokens.v[i];
	}
	r->tokens.n = n;
	return sum < 1e18 ? (uint64_t)sum : 0;
}

static void marks_give(struct rank_live *r)
{
	if (r->marks.n > 1)
		qsort(r->marks.v, r->marks.n, sizeof(*r->marks.v), mark_order);
	for (size_t i = 0; i < r->marks.n; i++) {
		struct stream_mark *m = &r->marks.v[i];
		uint64_t lost = rank_lost(r);

		if (m->start < r->floor || m->end > r->horizon || m->number > NUMBER_MOST) {
			r->strange++;
			continue;
		}
		m->number += r->count.more;
		if (r->count.any && m->number <= r->count.last) {
			r->count.more += r->count.last + 1 - m->number;
			m->number = r->count.last + 1;
		}
		m->tokens = tokens_take(r, m->end);
		m->dropped = lost - r->lost_before;
		if (m->start < r->partial_until)
			m->flags |= STEP_PARTIAL;
		if (r->profiled)
			m->flags |= STEP_PROFILED;
		if (!fold_stream_mark(r->fold, m)) {
			r->strange++;
			continue;
		}
		r->lost_before = lost;
		r->profiled = r->opened = false;
		r->count.any = true;
		r->count.last = m->number;
		r->last_mark_end = m->end;
		r->marked = r->horizon - FUTURE_NS;
	}
	r->marks.n = 0;
}

/* A step whose events are many is played while it goes on. It began after the last reading. */
static void mark_open(struct rank_live *r)
{
	struct stream_mark m = { .number = r->ring->h.step + r->count.more, .end = INT64_MAX };

	if (!r->count.any || r->opened || m.number != r->count.last + 1 ||
	    fold_stream_held(r->fold) < HELD_MANY)
		return;
	m.start = r->last_mark_end;
	r->opened = fold_stream_mark(r->fold, &m);
}

static int64_t pending_begin(const struct rank_live *r)
{
	int64_t first = INT64_MAX;

	for (uint32_t i = 0; i < r->ring->h.n_pending; i++) {
		const struct ring_pending *p = &r->ring->pending[i];

		if (p->id)
			first = MIN(first, ring_time(r->ring, p->r.t));
	}
	return first;
}

/* Up to when all is known that began. */
static int64_t known_until(const struct rank_live *r, int64_t now)
{
	int64_t until = now - LAG_NS, pending = pending_begin(r);

	if (pending < until)
		until = MAX(pending, now - PENDING_NS);
	if (fold_stream_gpu(r->fold) && now - r->gpu_moved < GPU_LAG_NS)
		until = MIN(until, MAX(r->gpu_until, now - GPU_LAG_NS));
	until = MIN(until, MAX(rank_wait_until(r), now - PENDING_NS));
	if (!r->opened && now - r->marked < SILENCE_NS)
		until = MIN(until, r->last_mark_end);
	return until;
}

static void snapshot(struct rank_live *r, int64_t now)
{
	struct rank_snapshot *s;

	if (r->snapshots.n && now - r->snapshots.v[r->snapshots.n - 1].time < SNAPSHOT_NS)
		return;
	if (r->snapshots.n == RANK_SNAPSHOTS) { /* every other one: as far back, half as fine */
		for (size_t i = 0; i < RANK_SNAPSHOTS / 2; i++)
			r->snapshots.v[i] = r->snapshots.v[i * 2];
		r->snapshots.n = RANK_SNAPSHOTS / 2;
	}
	s = vec_push(&r->snapshots);
	s->time = now;
	s->count = r->count;
	memcpy(s->cursor, r->ring->cursor, sizeof(s->cursor));
}

const struct rank_snapshot *rank_resume(const struct rank_live *r, int64_t end)
{
	for (size_t i = r->snapshots.n; i--;)
		if (r->snapshots.v[i].time <= end)
			return &r->snapshots.v[i];
	return r->snapshots.n ? &r->snapshots.v[0] : NULL;
}

static void fill_note(struct rank_live *r)
{
	const struct ring_file *f = r->ring;

	r->fill = 0;
	for (uint32_t i = 0; i < f->h.n_slots; i++)
		if (f->slots[i].capacity && f->slots[i].head > f->cursor[i])
			r->fill = MAX(r->fill, (double)(f->slots[i].head - f->cursor[i]) /
						   f->slots[i].capacity);
}

int rank_poll(struct rank_live *r, int64_t now, bool dead, struct error *reterr)
{
	int64_t gpu_before = r->gpu_until, until;
	int status;

	snapshot(r, now);
	r->horizon = now + FUTURE_NS;
	r->floor = ring_time(r->ring, r->ring->h.first.ticks) - BEFORE_NS;
	status = ring_refresh(r->ring, reterr);
	if (status < 0)
		return status;
	fill_note(r);
	if (!r->polled) {
		r->last_mark_end = r->floor;
		r->marked = now;
	}
	r->ring->dead = dead;
	status = ring_read(r->ring, take, r, reterr);
	if (status < 0)
		return status;
	if (r->gpu_until != gpu_before)
		r->gpu_moved = now;
	marks_give(r);
	mark_open(r);
	if (!fold_stream_gpu(r->fold))
		rank_wait_settle(r, now, dead);
	until = known_until(r, now);
	r->polled = now;
	return fold_stream_play(r->fold, until, until, dead, reterr);
}

/* What ran for the phases of a step, and is then forgotten. */
static void runs_take(struct rank_live *r, struct step *s)
{
	const struct intern *names;
	size_t n = 0;

	for (size_t i = 0; i < r->runs.n; i++) {
		const struct rank_run *run = &r->runs.v[i];
		uint32_t name = NO_ID;

		if (run->start >= s->start_ns + s->wall_ns) {
			r->runs.v[n++] = *run;
			continue;
		}
		if (run->start >= s->start_ns && !r->launches)
			name = fold_stream_name_out(r->fold, run->phase, &names);
		for (uint32_t k = 0; k < s->n_phases && name != NO_ID; k++)
			if (s->phases[k].name == name)
				s->phases[k].gpu_ns += run->busy;
	}
	r->runs.n = n;
}

bool rank_next(struct rank_live *r, struct step *ret, const struct intern **ret_names)
{
	while (fold_stream_next(r->fold, ret, ret_names)) {
		runs_take(r, ret);
		if (r->skip_until < 0 || ret->number > (uint64_t)r->skip_until)
			return true;
	}
	return false;
}

uint64_t rank_lost(const struct rank_live *r)
{
	const uint64_t *c = r->ring->h.counters;

	return r->lost + r->ring->overtaken + c[RING_LOST_NO_SLOT] + c[RING_LOST_REENTRANT] +
	       c[RING_LOST_DEPTH] + c[RING_LOST_PENDING] + c[RING_CUPTI_DROPPED];
}

/* --- where it stands --- */

static void opens_take(struct rank_live *r, struct rank_standing *s)
{
	const struct ring_file *f = r->ring;

	s->open = arena_alloc(&r->arena, STANDING_OPEN_MOST * sizeof(*s->open));
	for (uint32_t i = 0; i < f->h.n_slots; i++) {
		const struct ring_slot *slot = &f->slots[i];
		uint32_t depth = MIN(slot->depth, RING_OPEN_MAX);

		for (uint32_t k = 0; k < depth && s->n_open < STANDING_OPEN_MOST; k++)
			s->open[s->n_open++] = (struct standing_open){
				.name = name_of(r, slot->open[k].name)->id,
				.begin_ns = ring_time(f, slot->open[k].t),
			};
	}
}

static void pending_take(struct rank_live *r, struct rank_standing *s)
{
	const struct ring_file *f = r->ring;

	s->pending = arena_alloc(&r->arena, STANDING_PENDING_MOST * sizeof(*s->pending));
	for (uint32_t i = 0; i < f->h.n_pending && s->n_pending < STANDING_PENDING_MOST; i++) {
		const struct ring_pending *p = &f->pending[i];

		if (!p->id || p->r.kind != RING_COLL)
			continue;
		s->pending[s->n_pending++] = (struct standing_coll){
			.group = p->r.name ? name_of(r, p->r.name)->id : NO_ID,
			.op = p->r.arg < ARRAY_SIZE(ops) ? ops[p->r.arg] : COMM_OTHER,
			.seq = (int64_t)p->r.value < 0 ? -1 : (int64_t)p->r.value,
			.bytes = p->bytes,
			.begin_ns = ring_time(f, p->r.t),
		};
	}
}

bool rank_standing(struct rank_live *r, struct rank_standing *ret, const struct intern **ret_names)
{
	arena_reset(&r->arena);
	*ret = (struct rank_standing){
		.pid = r->ring->h.pid,
		.step =
		    r->ring->h.step < NUMBER_MOST ? (int64_t)(r->ring->h.step + r->count.more) : -1,
		.n_done = (uint32_t)r->done.n,
	};
	opens_take(r, ret);
	pending_take(r, ret);
	ret->done = arena_alloc(&r->arena, (r->done.n + 1) * sizeof(*ret->done));
	if (r->done.n)
		memcpy(ret->done, r->done.v, r->done.n * sizeof(*ret->done));
	fold_stream_name_out(r->fold, NO_ID, ret_names);
	for (uint32_t i = 0; i < ret->n_open; i++)
		ret->open[i].name = fold_stream_name_out(r->fold, ret->open[i].name, ret_names);
	for (uint32_t i = 0; i < ret->n_pending; i++)
		ret->pending[i].group =
		    fold_stream_name_out(r->fold, ret->pending[i].group, ret_names);
	for (uint32_t i = 0; i < ret->n_done; i++)
		ret->done[i].group = fold_stream_name_out(r->fold, ret->done[i].group, ret_names);
	return ret->n_open || ret->n_pending;
}
