/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline_meet.c - who meets whom in a timeline's communication, and since when they wait there.
 *
 * Analysers draw an operation from the moment at which all its members had come; the waiting before
 * is a gap. Where the members of one operation start together, each of them is let in when its lane
 * had nothing else left to do, but for the delay that all of them had alike, which is no waiting.
 * What is left before an operation is a wait for others that the drawing does not show: members
 * folded into the lane, operations left out. Where members mostly start apart, the drawing has
 * their waiting in it, and stays as it is.
 */
#include "read/timeline_inside.h"

#include <strings.h>

#define TOGETHER_NS    ((int64_t)1000000) /* apart, at most, for starts or ends to be one moment */
#define TOGETHER_SHARE 50		  /* of a step, and no more than this part of it */
#define FITS	       0.8		  /* of its operations that must fit a part */
#define LOOK_BACK      64u		  /* events that began within one moment */

/* --- what a name means --- */

static bool holds(const char *name, const char *word)
{
	size_t n = strlen(word);

	for (; *name; name++)
		if (!strncasecmp(name, word, n))
			return true;
	return false;
}

/* Names of work that the host does while its GPU waits. */
static const char *const host_words[] = { "gc",		"data", "batch-load", "load-batch",
					  "checkpoint", "save", "eval" };
static const struct {
	const char *word;
	enum timeline_part part;
} part_words[] = {
	{ "embedding", PART_ENDS }, { "layernorm", PART_TENSOR }, { "sequence", PART_TENSOR },
	{ "clip", PART_ALL },	    { "norm", PART_ALL },	  { "barrier", PART_ALL },
	{ "world", PART_ALL },	    { "tp-", PART_TENSOR },	  { "tensor", PART_TENSOR },
	{ "pp-", PART_LINE },	    { "grad", PART_STAGE },	  { "param", PART_STAGE },
};

static enum comm_op op_in(const char *name)
{
	static const struct {
		const char *word;
		enum comm_op op;
	} words[] = {
		{ "reduce-scatter", COMM_REDUCE_SCATTER },
		{ "reduce_scatter", COMM_REDUCE_SCATTER },
		{ "all-gather", COMM_ALL_GATHER },
		{ "allgather", COMM_ALL_GATHER },
		{ "all_gather", COMM_ALL_GATHER },
		{ "all-reduce", COMM_ALL_REDUCE },
		{ "allreduce", COMM_ALL_REDUCE },
		{ "all_reduce", COMM_ALL_REDUCE },
		{ "all-to-all", COMM_ALL_TO_ALL },
		{ "alltoall", COMM_ALL_TO_ALL },
		{ "all_to_all", COMM_ALL_TO_ALL },
		{ "barrier", COMM_BARRIER },
		{ "broadcast", COMM_BROADCAST },
		{ "send", COMM_SEND },
		{ "recv", COMM_RECV },
		{ "receive", COMM_RECV },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (holds(name, words[i].word))
			return words[i].op;
	return COMM_NONE;
}

static bool is_host(const char *name)
{
	if (!strcasecmp(name, host_words[0]))
		return true;
	for (size_t i = 1; i < ARRAY_SIZE(host_words); i++)
		if (!strncasecmp(name, host_words[i], strlen(host_words[i])))
			return true;
	return false;
}

static struct timeline_op op_of(const char *name, bool comm_thread)
{
	struct timeline_op op = { .kind = EVENT_KERNEL, .op = op_in(name), .part = PART_STAGE };

	if (op.op == COMM_NONE && is_host(name))
		op.kind = strcasecmp(name, host_words[0]) ? EVENT_ANNOTATION : EVENT_PYTHON;
	else if (op.op == COMM_NONE && comm_thread) /* of all kinds this one ties most */
		op.op = COMM_ALL_REDUCE;
	op.forward = op.op == COMM_NONE && op.kind == EVENT_KERNEL && holds(name, "forward");
	op.backward = op.op == COMM_NONE && op.kind == EVENT_KERNEL && holds(name, "backward");
	if (is_send_or_receive(op.op))
		op.toward = (op.op == COMM_SEND) == !holds(name, "backward") ? 1 : -1;
	for (size_t i = 0; i < ARRAY_SIZE(part_words); i++)
		if (holds(name, part_words[i].word)) {
			op.part = part_words[i].part;
			break;
		}
	return op;
}

/* --- groups --- */

/* A part's lanes are one row of the layout: numbers base, base + stride, .. */
struct lane_row {
	uint32_t base, stride, n;
};

static struct lane_row row_of(const struct timeline *t, const struct timeline_lane *lane,
			      enum timeline_part part)
{
	uint32_t coord[TIMELINE_DIMS], own = timeline_number(t, lane->coord);
	uint32_t last = t->size[TIMELINE_PP] - 1;
	struct lane_row line;

	memcpy(coord, lane->coord, sizeof(coord));
	coord[TIMELINE_PP] = 0;
	line =
	    (struct lane_row){ timeline_number(t, coord),
			       t->size[TIMELINE_TP] * t->size[TIMELINE_DP], t->size[TIMELINE_PP] };
	memcpy(coord, lane->coord, sizeof(coord));
	switch (part) {
	case PART_ALL:
		return (struct lane_row){ 0, 1, t->size[TIMELINE_PP] * line.stride };
	case PART_STAGE:
		coord[TIMELINE_DP] = 0;
		return (struct lane_row){ timeline_number(t, coord), t->size[TIMELINE_TP],
					  t->size[TIMELINE_DP] };
	case PART_LINE:
		return line;
	case PART_ENDS:
		if (!last || lane->coord[TIMELINE_PP] % last)
			return (struct lane_row){ own, 1, 1 };
		return (struct lane_row){ line.base, line.stride * last, 2 };
	case PART_TENSOR:
		coord[TIMELINE_TP] = 0;
		return (struct lane_row){ timeline_number(t, coord), 1, t->size[TIMELINE_TP] };
	default:
		return (struct lane_row){ own, 1, 1 };
	}
}

struct timeline_group timeline_group_of(const struct timeline *t, const struct timeline_lane *lane,
					enum timeline_part part, struct arena *arena)
{
	struct lane_row row = row_of(t, lane, part);
	struct timeline_group g = { .part = part, .base = row.base, .n = row.n };

	if (part == PART_ALL && row.n > 1) /* all there are: no list for each of them */
		return g;
	g.lanes = arena_alloc(arena, row.n * sizeof(*g.lanes));
	for (uint32_t i = 0; i < row.n; i++)
		g.lanes[i] = row.base + i * row.stride;
	return g;
}

/* --- operations --- */

/* One member of an operation; alike in all but the event where they are of one. */
struct meet {
	uint32_t key, step, order, event;
	uint32_t of; /* members that it should have */
};
struct meets {
	struct meet *v;
	size_t n, cap;
};

/* Of one operation or not, whatever the event. */
static int by_group(const struct meet *x, const struct meet *y)
{
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int by_meeting(const void *a, const void *b)
{
	const struct meet *x = a, *y = b;
	int group = by_group(a, b);

	if (group)
		return group;
	return x->event < y->event ? -1 : x->event > y->event;
}

static bool one_meeting(const struct meet *a, const struct meet *b)
{
	return !by_group(a, b);
}

static size_t meeting_end(const struct meets *m, size_t from)
{
	size_t end = from + 1;

	while (end < m->n && one_meeting(&m->v[from], &m->v[end]))
		end++;
	return end;
}

struct spread {
	int64_t starts, ends; /* how far apart */
};

static struct spread spread_of(const struct timeline *t, const struct meets *m, size_t from,
			       size_t end)
{
	int64_t s0 = INT64_MAX, s1 = INT64_MIN, e0 = INT64_MAX, e1 = INT64_MIN;

	for (size_t i = from; i < end; i++) {
		const struct timeline_event *e = &t->events.v[m->v[i].event];

		s0 = MIN(s0, e->start);
		s1 = MAX(s1, e->start);
		e0 = MIN(e0, e->end);
		e1 = MAX(e1, e->end);
	}
	return (struct spread){ s1 - s0, e1 - e0 };
}

/* All events of one name as members of operations of a part. */
static void gather(const struct timeline *t, const uint32_t *events, size_t n,
		   enum timeline_part part, struct meets *ret)
{
	ret->n = 0;
	for (size_t i = 0; i < n; i++) {
		const struct timeline_event *e = &t->events.v[events[i]];

		struct lane_row row = row_of(t, &t->lanes.v[e->lane], part);

		*vec_push(ret) = (struct meet){ row.base, e->step, e->order, events[i], row.n };
	}
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_meeting);
}

/* The share of operations whose members begin or end together. */
static double fit(const struct timeline *t, const struct meets *m, int64_t together)
{
	size_t fits = 0, all = 0;

	for (size_t i = 0, end; i < m->n; i = end) {
		struct spread s;

		end = meeting_end(m, i);
		if (end - i < 2)
			continue;
		s = spread_of(t, m, i, end);
		all++;
		fits += s.starts <= together || s.ends <= together;
	}
	return all ? (double)fits / (double)all : 0;
}

/* The part that a name suggests, unless its operations contradict that and fit another one. */
static enum timeline_part settle_part(const struct timeline *t, const uint32_t *events, size_t n,
				      enum timeline_part suggested, int64_t together,
				      struct meets *scratch)
{
	static const enum timeline_part others[] = { PART_ALL, PART_STAGE, PART_LINE, PART_ENDS,
						     PART_TENSOR };
	double own;

	gather(t, events, n, suggested, scratch);
	own = fit(t, scratch, together);
	if (own >= FITS || !scratch->n)
		return suggested;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		gather(t, events, n, others[i], scratch);
		if (fit(t, scratch, together) >= FITS)
			return others[i];
	}
	return own > 1 - FITS ? suggested : PART_ONE;
}

struct tally {
	uint64_t met, all;
};

/* Members that begin together begin to wait when their lane has nothing else left to do. The delay
   that all have alike is the last one's, if no member is missing that may have been later. */
static void let_in(struct timeline *t, const struct meets *m, int64_t together, struct tally *tally)
{
	for (size_t i = 0, end; i < m->n; i = end) {
		int64_t delay = INT64_MAX, missing;

		end = meeting_end(m, i);
		if (end - i < 2)
			continue;
		tally->all++;
		if (spread_of(t, m, i, end).starts > together)
			continue;
		tally->met++;
		missing = (int64_t)m->v[i].of - (int64_t)(end - i);
		for (size_t k = i; k < end; k++) {
			const struct timeline_event *e = &t->events.v[m->v[k].event];

			delay = MIN(delay, e->start - e->waited_from);
		}
		for (size_t k = i; k < end; k++) {
			struct timeline_event *e = &t->events.v[m->v[k].event];

			e->start = MIN(e->start, e->waited_from + (missing > 0 ? 0 : delay));
			e->met = true;
		}
	}
}

/* --- the whole --- */

static int by_place(const void *a, const void *b)
{
	const struct timeline_event *x = a, *y = b;

	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return x->step < y->step ? -1 : x->step > y->step;
}

/* Gives events their lanes, leaves out those without, and puts them in order. */
static void order_events(struct timeline *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->events.n; i++) {
		struct timeline_event e = t->events.v[i];

		e.lane = t->threads.v[e.thread].lane;
		t->stray += e.lane == NO_ID;
		if (e.lane != NO_ID)
			t->events.v[n++] = e;
	}
	t->events.n = n;
	if (n)
		qsort(t->events.v, n, sizeof(*t->events.v), by_place);
	for (size_t i = 0; i < n; i++) {
		struct timeline_lane *lane = &t->lanes.v[t->events.v[i].lane];

		lane->first = lane->n ? lane->first : i;
		lane->n++;
	}
}

static void mark_steps(struct timeline *t)
{
	t->marks = xmalloc((t->steps.n + 1) * sizeof(*t->marks));
	for (size_t i = 0; i < t->steps.n; i++)
		t->marks[i] = (struct timeline_mark){ INT64_MAX, INT64_MIN };
	for (size_t i = 0; i < t->events.n; i++) {
		struct timeline_mark *m = &t->marks[t->events.v[i].step];

		m->start = MIN(m->start, t->events.v[i].start);
		m->end = MAX(m->end, t->events.v[i].end);
	}
}

static void find_ops(struct timeline *t)
{
	t->ops = xcalloc(t->names.n + 1u, sizeof(*t->ops));
	for (size_t i = 0; i < t->events.n; i++) {
		const struct timeline_event *e = &t->events.v[i];

		if (!t->ops[e->name].seen)
			t->ops[e->name] =
			    op_of(intern_get(&t->names, e->name), t->threads.v[e->thread].comm);
		t->ops[e->name].seen = true;
	}
}

static int by_kind_and_time(const void *a, const void *b, void *user)
{
	const struct timeline_event *v = user;
	const struct timeline_event *x = &v[*(const uint32_t *)a], *y = &v[*(const uint32_t *)b];

	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

/* The places of all communication, by name, lane, step and start; numbers each in its order. */
static uint32_t *number_events(struct timeline *t, size_t *ret_n)
{
	uint32_t *at = xmalloc((t->events.n + 1) * sizeof(*at));
	size_t n = 0;

	for (size_t i = 0; i < t->events.n; i++)
		if (t->ops[t->events.v[i].name].op != COMM_NONE)
			at[n++] = (uint32_t)i;
	if (n)
		qsort_r(at, n, sizeof(*at), by_kind_and_time, t->events.v);
	for (size_t i = 1; i < n; i++) {
		struct timeline_event *e = &t->events.v[at[i]], *before = &t->events.v[at[i - 1]];

		if (e->name == before->name && e->lane == before->lane && e->step == before->step)
			e->order = before->order + 1;
	}
	*ret_n = n;
	return at;
}

/* When each lane was done with all that began before, operations of the same moment aside. */
static void note_waits(struct timeline *t, int64_t together)
{
	for (size_t l = 0; l < t->lanes.n; l++) {
		struct timeline_event *v = t->events.v + t->lanes.v[l].first;
		int64_t done = INT64_MIN;
		size_t next = 0;

		for (size_t i = 0; i < t->lanes.v[l].n; i++) {
			int64_t from;

			for (; next < i && v[next].start < v[i].start - together; next++)
				done = MAX(done, v[next].end);
			from = MAX(done, t->marks[v[i].step].start);
			for (size_t k = i; k > next && i - k < LOOK_BACK; k--)
				if (v[k - 1].end <= v[i].start)
					from = MAX(from, v[k - 1].end);
			v[i].waited_from = MIN(from, v[i].start);
		}
	}
}

/* The lane at the other end; stages are a ring where they are interleaved. */
static uint32_t other_end(const struct timeline *t, const struct timeline_event *e)
{
	uint32_t coord[TIMELINE_DIMS], stages = t->size[TIMELINE_PP];

	memcpy(coord, t->lanes.v[e->lane].coord, sizeof(coord));
	coord[TIMELINE_PP] =
	    (coord[TIMELINE_PP] + stages + (uint32_t)t->ops[e->name].toward) % stages;
	return stages > 1 ? timeline_number(t, coord) : NO_ID;
}

/* Sends and receives of one direction between two lanes: the n-th sent is the n-th received. */
static void meet_pairs(struct timeline *t, const uint32_t *at, size_t n, int64_t together,
		       struct meets *scratch, struct tally *tally)
{
	scratch->n = 0;
	for (size_t i = 0; i < n; i++) {
		struct timeline_event *e = &t->events.v[at[i]];
		const struct timeline_op *op = &t->ops[e->name];
		uint32_t own = timeline_number(t, t->lanes.v[e->lane].coord);
		bool sends = op->op == COMM_SEND;

		if (!is_send_or_receive(op->op))
			continue;
		e->peer = other_end(t, e);
		if (e->peer == NO_ID)
			continue;
		/* Downwards or upwards tells the two directions between two stages apart. */
		*vec_push(scratch) =
		    (struct meet){ 2 * (sends ? own : e->peer) + ((op->toward > 0) == sends),
				   e->step, e->order, at[i], 2 };
	}
	if (scratch->n)
		qsort(scratch->v, scratch->n, sizeof(*scratch->v), by_meeting);
	let_in(t, scratch, together, tally);
}

/* Does this compute end in something that is sent? All but the last of the model's do. */
static bool is_sent(const struct timeline *t, const struct timeline_event *e, int32_t last_chunk)
{
	const struct timeline_op *op = &t->ops[e->name];
	uint32_t stage = t->lanes.v[e->lane].coord[TIMELINE_PP];

	if (op->forward)
		return stage + 1 < t->size[TIMELINE_PP] || e->chunk < last_chunk;
	return op->backward && (stage > 0 || e->chunk > 0);
}

/* Computes, or sends, of all lanes by lane, direction and step; each in its order. */
static void gather_halves(const struct timeline *t, bool sends, int32_t last_chunk,
			  struct meets *ret)
{
	ret->n = 0;
	for (size_t i = 0; i < t->events.n; i++) {
		const struct timeline_event *e = &t->events.v[i];
		const struct timeline_op *op = &t->ops[e->name];
		bool up = op->op == COMM_SEND ? op->toward > 0 : op->forward;

		if (sends ? op->op == COMM_SEND : is_sent(t, e, last_chunk))
			*vec_push(ret) =
			    (struct meet){ 2 * e->lane + up, e->step, 0, (uint32_t)i, 0 };
	}
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_meeting);
}

/* A send that waits for nobody is drawn when it is received, maybe long after: it was there when
   what it sends was, the n-th sent being the n-th computed, if there are as many of both. */
static void date_sends(struct timeline *t)
{
	struct meets computes = { 0 }, sends = { 0 };
	int32_t last_chunk = 0;

	for (size_t i = 0; i < t->events.n; i++)
		last_chunk = MAX(last_chunk, t->events.v[i].chunk);
	gather_halves(t, false, last_chunk, &computes);
	gather_halves(t, true, last_chunk, &sends);
	for (size_t i = 0, k = 0, end, last; i < sends.n; i = end) {
		end = meeting_end(&sends, i);
		while (k < computes.n && by_group(&computes.v[k], &sends.v[i]) < 0)
			k++;
		last = k < computes.n && one_meeting(&computes.v[k], &sends.v[i])
			   ? meeting_end(&computes, k)
			   : k;
		for (size_t n = 0; last - k == end - i && n < end - i; n++) {
			struct timeline_event *send = &t->events.v[sends.v[i + n].event];
			int64_t made = t->events.v[computes.v[k + n].event].end;

			send->waited_from = MIN(send->waited_from, made);
		}
	}
	free(computes.v);
	free(sends.v);
}

static int by_length(const void *a, const void *b)
{
	const struct timeline_mark *x = a, *y = b;
	int64_t p = x->end - x->start, q = y->end - y->start;

	return p < q ? -1 : p > q;
}

/* How far apart what is one moment may lie, in steps as long as these. */
static int64_t moment_of(const struct timeline *t)
{
	size_t n = t->steps.n, used = 0;
	_cleanup_free_ struct timeline_mark *m = xmalloc((n + 1) * sizeof(*m));

	for (size_t i = 0; i < n; i++)
		if (t->marks[i].end > t->marks[i].start)
			m[used++] = t->marks[i];
	if (!used)
		return 0;
	qsort(m, used, sizeof(*m), by_length);
	return MIN(TOGETHER_NS, (m[used / 2].end - m[used / 2].start) / TOGETHER_SHARE);
}

void timeline_settle_meetings(struct timeline *t)
{
	struct meets scratch = { 0 };
	struct tally tally = { 0 };
	_cleanup_free_ uint32_t *at = NULL;
	int64_t together;
	size_t n;

	order_events(t);
	mark_steps(t);
	find_ops(t);
	at = number_events(t, &n);
	together = moment_of(t);
	note_waits(t, together);
	date_sends(t);
	for (size_t i = 0, end; i < n; i = end) {
		struct timeline_op *op = &t->ops[t->events.v[at[i]].name];

		for (end = i; end < n && t->events.v[at[end]].name == t->events.v[at[i]].name;)
			end++;
		if (is_send_or_receive(op->op))
			continue;
		op->part = settle_part(t, at + i, end - i, op->part, together, &scratch);
		gather(t, at + i, end - i, op->part, &scratch);
		let_in(t, &scratch, together, &tally);
	}
	meet_pairs(t, at, n, together, &scratch, &tally);
	t->aligned = (double)tally.met >= FITS * (double)tally.all;
	free(scratch.v);
}
