/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.c - the text of a whole job's timeline, and its lanes as traces.
 *
 * Events lie in the order of the drawing and names come last, so all are kept, small, until the end
 * of the file. What is given is each lane as a rank: its work as kernels, its communication with
 * groups and peers, a mark for each of its steps.
 */
#include "read/timeline_inside.h"

#include <stdio.h>

#include "base/buf.h"
#include "read/json_member.h"

#define EVENT_BYTES_MAX ((size_t)64 << 10)
#define NAME_BYTES_MAX	256u
#define TIME_MAX_NS	((int64_t)1 << 60)
#define DURATION_MAX_NS ((int64_t)7 * 24 * 3600 * 1000000000)
#define CHUNK_MAX	65535
#define LOOK_BEHIND	4096u /* of a file, in which its array of events begins */

static bool has(const char *text, size_t len, const char *part)
{
	return memmem(text, len, part, strlen(part)) != NULL;
}

bool timeline_looks(const char *text, size_t len)
{
	bool stages = has(text, len, "\"DP rank") && has(text, len, "PP rank ");
	bool halves =
	    has(text, len, "\"forward-compute\"") || has(text, len, "\"backward-compute\"");

	return has(text, len, "\"ph\"") && (stages || (halves && has(text, len, "\"step\"")));
}

/* --- threads --- */

static uint32_t thread_slot(const struct timeline *t, uint64_t pid, uint64_t tid)
{
	uint32_t i = (uint32_t)hash_mix(hash_mix(1, pid), tid) & t->thread_mask;

	while (t->thread_slots[i] && (t->threads.v[t->thread_slots[i] - 1].pid != pid ||
				      t->threads.v[t->thread_slots[i] - 1].tid != tid))
		i = (i + 1) & t->thread_mask;
	return i;
}

static void threads_rehash(struct timeline *t)
{
	uint32_t size = t->thread_slots ? (t->thread_mask + 1) * 2 : 64;

	free(t->thread_slots);
	t->thread_slots = xcalloc(size, sizeof(*t->thread_slots));
	t->thread_mask = size - 1;
	for (uint32_t i = 0; i < t->threads.n; i++)
		t->thread_slots[thread_slot(t, t->threads.v[i].pid, t->threads.v[i].tid)] = i + 1;
}

/* NO_ID: there are too many. */
static uint32_t thread_of(struct timeline *t, uint64_t pid, uint64_t tid, bool number)
{
	uint32_t slot;

	if (t->last_thread < t->threads.n && t->threads.v[t->last_thread].pid == pid &&
	    t->threads.v[t->last_thread].tid == tid)
		return t->last_thread;
	if (!t->thread_slots || t->threads.n * 2 >= t->thread_mask)
		threads_rehash(t);
	slot = thread_slot(t, pid, tid);
	if (!t->thread_slots[slot]) {
		if (t->threads.n == TIMELINE_THREADS_MAX)
			return NO_ID;
		*vec_push(&t->threads) = (struct timeline_thread){
			.pid = pid, .tid = tid, .name = NO_ID, .lane = NO_ID, .number = number
		};
		t->thread_slots[slot] = (uint32_t)t->threads.n;
	}
	return t->last_thread = t->thread_slots[slot] - 1;
}

/* --- one event --- */

struct fields {
	char ph;
	const char *name, *label; /* label: "name" among the arguments */
	size_t name_len, label_len;
	uint64_t pid, tid;
	bool tid_number, have_ts, have_dur, have_step, bad;
	int64_t ts_ns, dur_ns, step, chunk;
};

static uint64_t identity(const struct json_member *m, const char *end, bool *ret_number)
{
	const char *p = m->value, *text;
	size_t len = json_scalar(m, &text);
	int64_t v;

	*ret_number = json_number(&p, end, 0, &v) == JSON_NUMBER_GOOD && v >= 0;
	return *ret_number ? (uint64_t)v : hash_bytes(text, len, 17) | (uint64_t)1 << 63;
}

static bool number(struct fields *f, const struct json_member *m, const char *end, unsigned scale,
		   int64_t *ret)
{
	const char *p = m->value;
	enum json_number got = json_number(&p, end, scale, ret);

	f->bad |= got == JSON_NUMBER_BAD;
	return got == JSON_NUMBER_GOOD;
}

/* Does an object end where its members do? Else there is something that the walk did not see. */
static bool ends(const char *p, const char *end)
{
	p = json_skip_space(p, end);
	return p < end && *p == '}';
}

static bool parse_args(struct fields *f, const char *p, const char *end)
{
	struct json_member m;

	for (p++; json_member_next(&p, end, true, &m);) {
		if (json_key_is(&m, "step"))
			f->have_step = number(f, &m, end, 0, &f->step) && f->step >= 0;
		else if (json_key_is(&m, "model_chunk"))
			number(f, &m, end, 0, &f->chunk);
		else if (json_key_is(&m, "name") && json_is_scalar(&m))
			f->label_len = json_scalar(&m, &f->label);
	}
	return ends(p, end);
}

/* p at the opening brace. False if the text is not as sound as it looked. */
static bool parse_event(struct fields *f, const char *p, const char *end)
{
	struct json_member m;
	const char *ph;
	bool ignored, sound = true;

	*f = (struct fields){ 0 };
	for (p++; json_member_next(&p, end, true, &m);) {
		if (json_key_is(&m, "ph") && json_scalar(&m, &ph) == 1)
			f->ph = *ph;
		else if (json_key_is(&m, "name") && json_is_scalar(&m))
			f->name_len = json_scalar(&m, &f->name);
		else if (json_key_is(&m, "pid"))
			f->pid = identity(&m, end, &ignored);
		else if (json_key_is(&m, "tid"))
			f->tid = identity(&m, end, &f->tid_number);
		else if (json_key_is(&m, "ts"))
			f->have_ts = number(f, &m, end, 3, &f->ts_ns);
		else if (json_key_is(&m, "dur"))
			f->have_dur = number(f, &m, end, 3, &f->dur_ns);
		else if (json_key_is(&m, "args") && *m.value == '{')
			sound &= parse_args(f, m.value, m.end);
	}
	return sound && ends(p, end);
}

static uint32_t name_of(struct timeline *t, const char *name, size_t len)
{
	len = MIN(len, (size_t)NAME_BYTES_MAX);
	if (t->names.n >= TIMELINE_NAMES_MAX + t->threads.n + t->processes.n)
		return intern_find(&t->names, name, len);
	return intern(&t->names, name, len);
}

static void take_label(struct timeline *t, const struct fields *f)
{
	static const char of_process[] = "process_name", of_thread[] = "thread_name";

	if (!f->label_len)
		return;
	if (f->name_len == sizeof(of_process) - 1 && !memcmp(f->name, of_process, f->name_len)) {
		if (t->processes.n < TIMELINE_THREADS_MAX)
			*vec_push(&t->processes) =
			    (struct timeline_process){ f->pid, name_of(t, f->label, f->label_len) };
	} else if (f->name_len == sizeof(of_thread) - 1 &&
		   !memcmp(f->name, of_thread, f->name_len)) {
		uint32_t thread = thread_of(t, f->pid, f->tid, f->tid_number);

		if (thread != NO_ID)
			t->threads.v[thread].name = name_of(t, f->label, f->label_len);
	}
}

/* The row of a step; NO_ID if there are too many. */
static uint32_t step_of(struct timeline *t, uint64_t number)
{
	char text[24];
	size_t len = (size_t)snprintf(text, sizeof(text), "%" PRIu64, number);
	uint32_t row = t->steps.n == TIMELINE_STEPS_MAX ? intern_find(&t->step_ids, text, len)
							: intern(&t->step_ids, text, len);

	if (row != NO_ID && row == t->steps.n)
		*vec_push(&t->steps) = number;
	return row;
}

static void take_event(struct timeline *t, const struct fields *f, struct read_stats *stats)
{
	struct timeline_event e = { .start = f->ts_ns, .peer = NO_ID, .lane = NO_ID };

	stats->events++;
	stats->skipped[SKIP_BAD_NUMBER] += f->bad;
	if (f->ph == 'M')
		take_label(t, f);
	if (f->ph != 'X' || !f->name_len)
		return;
	if (!f->have_ts || f->ts_ns < -TIME_MAX_NS || f->ts_ns > TIME_MAX_NS) {
		stats->skipped[SKIP_BAD_TIME]++;
		return;
	}
	if (!f->have_dur || f->dur_ns < 0 || f->dur_ns > DURATION_MAX_NS) {
		stats->skipped[SKIP_BAD_DURATION]++;
		return;
	}
	if (!f->have_step) {
		stats->skipped[SKIP_NO_STEP]++;
		return;
	}
	e.end = e.start + f->dur_ns;
	e.chunk = (int32_t)MIN(MAX(f->chunk, 0), (int64_t)CHUNK_MAX);
	e.name = name_of(t, f->name, f->name_len);
	e.thread = thread_of(t, f->pid, f->tid, f->tid_number);
	e.step = step_of(t, (uint64_t)f->step);
	if (e.name == NO_ID || e.thread == NO_ID || e.step == NO_ID ||
	    t->events.n == TIMELINE_EVENTS_MAX) {
		t->beyond++;
		return;
	}
	*vec_push(&t->events) = e;
}

/* --- the text --- */

/* Behind the bracket of the events, wherever the file has it. */
static bool find_events(struct json_window *w)
{
	static const char key[] = "\"traceEvents\"";
	const char *at, *open;

	if (!json_skip_space_refilling(w))
		return false;
	json_window_need(w, LOOK_BEHIND);
	if (w->end - w->p >= 3 && !memcmp(w->p, "\xef\xbb\xbf", 3))
		w->p += 3;
	w->p = json_skip_space(w->p, w->end);
	at = memmem(w->p, (size_t)(w->end - w->p), key, sizeof(key) - 1);
	open = at ? memchr(at, '[', (size_t)(w->end - at)) : w->p;
	if (!open || open >= w->end || *open != '[')
		return false;
	w->p = open + 1;
	return true;
}

static void count_found(struct read_stats *stats, unsigned found)
{
	static const struct {
		unsigned found;
		enum skip_reason reason;
	} reasons[] = {
		{ JSON_FOUND_BAD_TEXT, SKIP_BAD_TEXT },
		{ JSON_FOUND_TOO_DEEP, SKIP_TOO_DEEP },
		{ JSON_FOUND_TOO_LONG, SKIP_TOO_LONG },
		{ JSON_FOUND_BAD_SYNTAX, SKIP_MALFORMED },
	};

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		stats->skipped[reasons[i].reason] += (found & reasons[i].found) != 0;
}

/* One event; false at the end of the text. */
static bool read_event(struct timeline *t, struct json_window *w, struct buf *copy,
		       struct read_stats *stats)
{
	const char *text, *next = json_skip_object(w->p + 1, w->end, 1);
	enum json_copied got;
	unsigned found = 0;
	struct fields f;

	if (next && parse_event(&f, w->p, next)) {
		take_event(t, &f, stats);
		w->p = next;
		return true;
	}
	got = json_copy_value(w, copy, EVENT_BYTES_MAX, &found);
	text = (const char *)copy->data;
	count_found(stats, found);
	if (got == JSON_END)
		return false;
	if (got == JSON_BROKEN) {
		stats->skipped[SKIP_MALFORMED]++;
		w->p += w->p < w->end;
	} else if (copy->len && *text == '{') {
		parse_event(&f, text, text + copy->len);
		take_event(t, &f, stats);
	}
	return true;
}

/* Up to the bracket that closes the events; false if the text ends before. */
static bool read_events(struct timeline *t, struct json_window *w, struct read_stats *stats)
{
	struct buf copy = { 0 };
	uint64_t whole = json_window_at(w, w->p);
	bool sound = true, more;

	while ((more = json_skip_space_refilling(w)) && *w->p != ']') {
		if (*w->p == '{') {
			more = read_event(t, w, &copy, stats);
			if (!more)
				break;
			whole = json_window_at(w, w->p);
			sound = true;
			continue;
		}
		/* Of what lies between two events, the first byte that should not. */
		stats->skipped[SKIP_MALFORMED] += *w->p != ',' && sound;
		sound &= *w->p++ == ',';
	}
	buf_done(&copy);
	while (!more && (w->p = w->end, json_window_fill(w)))
		;
	if (!more)
		stats->lost_bytes = json_window_at(w, w->end) - whole;
	return more;
}

static int read_text(struct timeline *t, struct input *in, struct read_stats *stats,
		     struct error *reterr)
{
	struct json_window w;
	int r = 0;

	json_window_init(&w, in, 0);
	if (find_events(&w))
		stats->skipped[SKIP_TRUNCATED] += !read_events(t, &w, stats);
	else if (!w.error)
		r = error_set(reterr, -EBADMSG, "no timeline: it has no array of events");
	if (w.error)
		r = w.error;
	json_window_done(&w);
	stats->bytes = input_bytes_text(in);
	stats->bytes_file = input_bytes_raw(in);
	return r;
}

int timeline_read(struct input *in, struct timeline **ret, struct read_stats *stats,
		  struct error *reterr)
{
	struct timeline *t = xcalloc(1, sizeof(*t));
	int r = read_text(t, in, stats, reterr);

	if (r >= 0)
		r = timeline_settle_lanes(t, reterr);
	if (r < 0) {
		timeline_free(t);
		return r;
	}
	timeline_settle_meetings(t);
	stats->skipped[SKIP_NO_STEP] += t->stray;
	stats->skipped[SKIP_TOO_LONG] += t->beyond;
	if (t->beyond)
		error_set(reterr, 0,
			  "%" PRIu64 " events were left out: more events, names or steps than are "
			  "kept of one timeline",
			  t->beyond);
	else if (t->stray)
		error_set(reterr, 0,
			  "%" PRIu64
			  " events were left out: they stand in threads whose names give no place "
			  "in the job (\"DP rank 0\", \"PP rank 0\")",
			  t->stray);
	*ret = t;
	return 0;
}

struct timeline *timeline_free(struct timeline *t)
{
	if (!t)
		return NULL;
	intern_done(&t->names);
	intern_done(&t->step_ids);
	free(t->events.v);
	free(t->threads.v);
	free(t->processes.v);
	free(t->thread_slots);
	free(t->steps.v);
	free(t->ops);
	free(t->lanes.v);
	free(t->lane_at);
	free(t->marks);
	free(t);
	return NULL;
}

/* --- a lane as a trace --- */

static const char *const part_descs[PARTS] = {
	[PART_ONE] = "FOLDED",
	[PART_ALL] = "WORLD",
	[PART_STAGE] = "DATA_PARALLEL_GROUP",
	[PART_LINE] = "PIPELINE_MODEL_PARALLEL_GROUP",
	[PART_ENDS] = "EMBEDDING_GROUP",
	[PART_TENSOR] = "TENSOR_MODEL_PARALLEL_GROUP",
};

struct giver {
	struct timeline *t;
	const struct timeline_lane *lane;
	struct trace_sink *sink;
	struct arena arena;
	struct trace_group groups[PARTS];
	uint32_t *names; /* of the timeline -> of the sink */
};

static void make_groups(struct giver *g)
{
	for (int part = 0; part < PARTS; part++) {
		struct timeline_group members =
		    timeline_group_of(g->t, g->lane, (enum timeline_part)part, &g->arena);
		char name[64];

		snprintf(name, sizeof(name), "%s of %u", part_descs[part], members.base);
		g->groups[part] = (struct trace_group){
			.name = intern_str(g->sink->names, name),
			.desc = intern_str(g->sink->names, part_descs[part]),
			.size = members.n,
			.ranks = members.lanes,
			.n_ranks = members.lanes ? members.n : 0,
		};
	}
}

static uint32_t name_in_sink(struct giver *g, uint32_t name)
{
	if (g->names[name] == NO_ID)
		g->names[name] = intern(g->sink->names, intern_get(&g->t->names, name),
					intern_len(&g->t->names, name));
	return g->names[name];
}

static int give_mark(struct giver *g, uint32_t step, int64_t start, int64_t end)
{
	struct trace_event e = { .kind = EVENT_ANNOTATION,
				 .start_ns = start,
				 .duration_ns = end - start + 1 };
	char name[48];

	snprintf(name, sizeof(name), "ProfilerStep#%" PRIu64, g->t->steps.v[step]);
	e.name = intern_str(g->sink->names, name);
	return g->sink->event(g->sink->user, &e);
}

/* The wait before an operation whose members are not all in the file. */
static int give_wait(struct giver *g, const struct timeline_event *before)
{
	struct trace_event e = { .kind = EVENT_UNSEEN,
				 .name = intern_str(g->sink->names, "wait"),
				 .start_ns = before->waited_from,
				 .duration_ns = before->start - before->waited_from,
				 .device = NO_ID };

	return g->sink->event(g->sink->user, &e);
}

static int give_event(struct giver *g, const struct timeline_event *from)
{
	const struct timeline_op *op = &g->t->ops[from->name];
	const struct trace_group *group =
	    &g->groups[is_send_or_receive(op->op) ? PART_LINE : op->part];
	struct comm_args comm = comm_args_unknown();
	struct trace_event e = {
		.kind = op->kind,
		.name = name_in_sink(g, from->name),
		.start_ns = from->start,
		.duration_ns = from->end - from->start,
		/* What overlaps on one thread of the drawing ran on different streams. */
		.thread = op->kind == EVENT_KERNEL ? from->name + 1u : 0,
		.device = NO_ID,
	};

	if (op->op != COMM_NONE) {
		comm.op = op->op;
		comm.group = group->name;
		comm.group_desc = group->desc;
		comm.group_size = group->size;
		comm.peer = from->peer == NO_ID ? -1 : (int32_t)from->peer;
		e.comm = &comm;
	}
	if (e.comm && g->t->aligned && !from->met && from->waited_from < from->start) {
		int r = give_wait(g, from);

		if (r < 0)
			return r;
	}
	return g->sink->event(g->sink->user, &e);
}

/* A step of a lane lasts from the first event of any lane, or the end of the lane's step before. */
static int give_steps(struct giver *g, const struct timeline_mark *job)
{
	const struct timeline_event *v = g->t->events.v + g->lane->first;
	struct timeline_mark *own = arena_alloc(&g->arena, (g->t->steps.n + 1) * sizeof(*own));
	int64_t before = INT64_MIN;
	int r = 0;

	for (size_t i = 0; i < g->t->steps.n; i++)
		own[i] = (struct timeline_mark){ INT64_MAX, INT64_MIN };
	for (size_t i = 0; i < g->lane->n; i++) {
		own[v[i].step].start = MIN(own[v[i].step].start, v[i].start);
		own[v[i].step].end = MAX(own[v[i].step].end, v[i].end);
	}
	for (size_t i = 0; i < g->lane->n && r >= 0;
	     i++) { /* steps in order of their first events */
		struct timeline_mark *m = &own[v[i].step];
		int64_t start;

		if (m->start == INT64_MAX)
			continue;
		start = MAX(MIN(job[v[i].step].start, m->start), before);
		if (start <= m->end) { /* else it lies within the step before */
			r = give_mark(g, v[i].step, start, m->end);
			before = m->end + 1;
		}
		m->start = INT64_MAX;
	}
	return r;
}

static int give_meta(struct giver *g)
{
	struct trace_meta meta = {
		.rank = timeline_number(g->t, g->lane->coord),
		.world_size = (int64_t)g->t->size[TIMELINE_DP] * g->t->size[TIMELINE_PP] *
			      g->t->size[TIMELINE_TP],
		.host = NO_ID,
		.backend = NO_ID,
		.gpu_name = NO_ID,
		.trace_id = NO_ID,
		.lane = true,
		.folds = g->t->folds,
		.groups = g->groups,
		.n_groups = PARTS,
	};

	return g->sink->meta(g->sink->user, &meta);
}

uint32_t timeline_lanes(const struct timeline *t)
{
	return (uint32_t)t->lanes.n;
}

int timeline_give(struct timeline *t, uint32_t lane, struct trace_sink *sink)
{
	struct giver g = { .t = t, .lane = &t->lanes.v[lane], .sink = sink };
	int r;

	g.names = arena_alloc(&g.arena, (t->names.n + 1) * sizeof(*g.names));
	for (uint32_t i = 0; i < t->names.n; i++)
		g.names[i] = NO_ID;
	make_groups(&g);
	r = give_steps(&g, t->marks);
	for (size_t i = 0; i < g.lane->n && r >= 0; i++)
		r = give_event(&g, &t->events.v[g.lane->first + i]);
	if (r >= 0)
		r = give_meta(&g);
	arena_done(&g.arena);
	return r;
}
