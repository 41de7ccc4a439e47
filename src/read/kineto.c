/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kineto.c - a profiler trace from its first byte to its last: the document around the events, what
 * each event means, and what is told to the sink.
 *
 * A trace is an object whose member traceEvents holds the events, with other members before and
 * behind it in any order, or the bare array of events. Every event is taken on its own: whatever
 * happens inside one, the next starts clean. Losses are counted where they happen.
 */
#include "read/kineto.h"

#include <ctype.h>

#include "read/kineto_event.h"

#define META_BYTES_MAX	((size_t)16 << 20) /* of distributedInfo and its like */
#define EVENT_BYTES_MAX ((size_t)1 << 20)  /* of a damaged event's sound copy */
#define TS_MAX_NS	(INT64_MAX / 2)	   /* the year 2116; so that sums do not overflow */
/* No kernel runs for an hour (a hung collective is killed first), no range of a trace for a day. */
#define GPU_DURATION_MAX_NS  ((int64_t)3600 * 1000000000)
#define HOST_DURATION_MAX_NS (24 * GPU_DURATION_MAX_NS)

/* What a name means, found once for each name: bits by what it is the name of. */
enum name_class {
	NAME_RUNTIME_KNOWN = 1 << 0,
	NAME_LAUNCHES = 1 << 1,
	NAME_WAITS = 1 << 2,
	NAME_KERNEL_KNOWN = 1 << 3,
	NAME_LOCAL_KERNEL = 1 << 4, /* torch's own: no communication, whatever its arguments say */
	NAME_HOST_KNOWN = 1 << 5,
	NAME_HOST_COLLECTIVE = 1 << 6, /* gloo: */
	NAME_COMM_CALL = 1 << 7,       /* c10d:: */
	NAME_COMM_PARAMS = 1 << 8,     /* record_param_comms */
	NAME_MARK = 1 << 9,	       /* an annotation, though its category says operator */
};
struct known_name {
	uint16_t bits;
	uint8_t kernel_op, host_op; /* enum comm_op */
};

struct kineto {
	struct json_window w;
	struct trace_sink *sink;
	struct read_stats *stats;
	struct meta_builder meta;
	struct buf copy, key, text;
	struct key_guesses *guesses;
	struct known_name *known; /* by id */
	uint32_t n_known;
	uint64_t whole_end; /* in the text, behind the last whole event */
	bool any_event;	    /* traceEvents was found */
};

static void skip(struct kineto *k, enum skip_reason reason, uint64_t n)
{
	k->stats->skipped[reason] += n;
}

static void skip_found(struct kineto *k, unsigned found)
{
	skip(k, SKIP_BAD_TEXT, !!(found & JSON_FOUND_BAD_TEXT));
	skip(k, SKIP_TOO_DEEP, !!(found & JSON_FOUND_TOO_DEEP));
	skip(k, SKIP_TOO_LONG, !!(found & JSON_FOUND_TOO_LONG));
}

/* --- names --- */

static bool has(const char *s, size_t len, const char *part)
{
	return memmem(s, len, part, strlen(part)) != NULL;
}

static bool starts(const char *s, size_t len, const char *prefix)
{
	return len >= strlen(prefix) && !memcmp(s, prefix, strlen(prefix));
}

static uint16_t classify_runtime(const char *s, size_t len)
{
	uint16_t bits = NAME_RUNTIME_KNOWN;

	if (has(s, len, "Launch") || has(s, len, "Memcpy") || has(s, len, "Memset") ||
	    has(s, len, "MemFill") || starts(s, len, "runFunction"))
		bits |= NAME_LAUNCHES;
	if (has(s, len, "ynchronize") || has(s, len, "EventWait") || has(s, len, "QueueFinish"))
		bits |= NAME_WAITS;
	/* Without Async in its name a copy keeps the host until it is done. */
	if (has(s, len, "Memcpy") && !has(s, len, "Async"))
		bits |= NAME_WAITS;
	return bits;
}

static uint16_t classify_kernel(const char *s, size_t len, uint8_t *ret_op)
{
	*ret_op = (uint8_t)comm_op_of_kernel(s, len);
	return NAME_KERNEL_KNOWN | (!*ret_op && has(s, len, "at::native") ? NAME_LOCAL_KERNEL : 0);
}

static uint16_t classify_host(const char *s, size_t len, uint8_t *ret_op)
{
	static const char *const marks[] = { "ProfilerStep#", "enumerate(DataLoader)",
					     "nccl:",	      "gloo:",
					     "Optimizer.",    "DistributedDataParallel." };
	uint16_t bits = NAME_HOST_KNOWN;

	*ret_op = COMM_NONE;
	if (starts(s, len, "gloo:") || starts(s, len, "mpi:")) {
		bits |= NAME_HOST_COLLECTIVE;
		*ret_op = (uint8_t)comm_op_of(s, len);
	} else if (starts(s, len, "c10d::")) {
		*ret_op = (uint8_t)comm_op_of(s, len);
		bits |= *ret_op ? NAME_COMM_CALL : 0;
	} else if (len == 18 && !memcmp(s, "record_param_comms", len)) {
		bits |= NAME_COMM_PARAMS;
	}
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (starts(s, len, marks[i]))
			bits |= NAME_MARK;
	return bits;
}

static struct known_name *known_of(struct kineto *k, uint32_t id)
{
	if (id >= k->n_known) {
		uint32_t n = MAX(1024, id + id / 2);

		k->known = xrealloc(k->known, n * sizeof(*k->known));
		memset(k->known + k->n_known, 0, (n - k->n_known) * sizeof(*k->known));
		k->n_known = n;
	}
	return &k->known[id];
}

static const struct known_name *known_runtime(struct kineto *k, uint32_t id)
{
	struct known_name *n = known_of(k, id);

	if (!(n->bits & NAME_RUNTIME_KNOWN))
		n->bits |= classify_runtime(intern_get(k->sink->names, id),
					    intern_len(k->sink->names, id));
	return n;
}

static const struct known_name *known_kernel(struct kineto *k, uint32_t id)
{
	struct known_name *n = known_of(k, id);

	if (!(n->bits & NAME_KERNEL_KNOWN))
		n->bits |= classify_kernel(intern_get(k->sink->names, id),
					   intern_len(k->sink->names, id), &n->kernel_op);
	return n;
}

static const struct known_name *known_host(struct kineto *k, uint32_t id)
{
	struct known_name *n = known_of(k, id);

	if (!(n->bits & NAME_HOST_KNOWN))
		n->bits |= classify_host(intern_get(k->sink->names, id),
					 intern_len(k->sink->names, id), &n->host_op);
	return n;
}

/* "<built-in method f of T object at 0x7f01>" without the address, which differs from rank to rank
   and from object to object: else every object of a long trace would be a name of its own. */
static uint32_t intern_python(struct kineto *k, const struct event_fields *f)
{
	static const char mark[] = " at 0x";
	const char *at = memmem(f->name, f->name_len, mark, sizeof(mark) - 1);
	const char *end = f->name + f->name_len, *rest;

	if (!at)
		return intern(k->sink->names, f->name, f->name_len);
	for (rest = at + sizeof(mark) - 1; rest < end && isxdigit((unsigned char)*rest); rest++)
		;
	k->text.len = 0;
	buf_put(&k->text, f->name, (size_t)(at - f->name));
	buf_put(&k->text, rest, (size_t)(end - rest));
	return intern(k->sink->names, (const char *)k->text.data, k->text.len);
}

static uint32_t intern_name(struct kineto *k, const struct event_fields *f)
{
	size_t len = f->name_len;
	bool bad;

	if (len > JSON_STRING_MAX) {
		len = JSON_STRING_MAX;
		skip(k, SKIP_TOO_LONG, 1);
	}
	if (f->name_plain && f->category == CATEGORY_PYTHON && *f->name == '<' &&
	    len == f->name_len)
		return intern_python(k, f);
	if (f->name_plain)
		return intern(k->sink->names, f->name, len);
	k->text.data = vec_reserve(k->text.data, &k->text.cap, len + 4, 1);
	len = json_unescape((char *)k->text.data, f->name, len, &bad);
	skip(k, SKIP_BAD_TEXT, bad);
	return intern(k->sink->names, (const char *)k->text.data, len);
}

/* --- one event --- */

static int64_t sane_duration(struct kineto *k, const struct event_fields *f, int64_t max_ns)
{
	if (!(f->have & FIELD_DUR) || f->have & FIELD_BAD_DUR)
		return 0;
	if (f->dur_ns >= 0 && f->dur_ns <= max_ns)
		return f->dur_ns;
	skip(k, SKIP_BAD_DURATION, 1);
	return 0;
}

/* GPU work: kernels and copies, with the stream that they ran on. */
static void place_on_gpu(const struct event_fields *f, struct trace_event *e)
{
	uint64_t device = f->have & FIELD_DEVICE ? (uint64_t)f->device : f->pid;

	e->device = (uint32_t)device;
	e->thread = f->have & FIELD_STREAM ? (uint64_t)f->stream : f->tid;
	e->correlation = f->correlation;
	e->bytes = f->bytes;
}

/* The arguments of a collective, op from its name there or otherwise from the event's. */
static void take_comm(struct event_fields *f, enum comm_op op_of_name, struct trace_event *e)
{
	f->comm.op = op_of_name;
	if (f->have & FIELD_COLLECTIVE) {
		enum comm_op op = comm_op_of(f->collective, f->collective_len);

		/* "wait", "init": calls of the library that move nothing. */
		if (op != COMM_NONE || op_of_name == COMM_NONE)
			f->comm.op = op;
	}
	f->comm.peer = f->comm.op == COMM_RECV ? f->src : f->dst;
	if (f->comm.op != COMM_NONE)
		e->comm = &f->comm;
}

static bool is_output_first(enum comm_op op)
{
	return op == COMM_ALL_GATHER || op == COMM_REDUCE_SCATTER || op == COMM_ALL_TO_ALL ||
	       op == COMM_GATHER || op == COMM_SCATTER;
}

/* Calls without named sizes have their tensors' shapes: one list for in-place operations, the
   output's in front of the input's for the others. */
static void take_dims(struct event_fields *f, bool is_call)
{
	if (f->comm.in_elements >= 0)
		return;
	if (is_call && is_output_first(f->comm.op)) {
		f->comm.out_elements = f->dims_elements[0];
		f->comm.in_elements = f->dims_elements[1];
	} else {
		f->comm.in_elements = f->dims_elements[0];
	}
}

static int send(struct kineto *k, struct trace_event *e, enum event_kind kind)
{
	e->kind = kind;
	return k->sink->event(k->sink->user, e);
}

static int deliver_gpu(struct kineto *k, struct event_fields *f, struct trace_event *e)
{
	const struct known_name *name;

	place_on_gpu(f, e);
	if (f->category == CATEGORY_COPY)
		return send(k, e, EVENT_COPY);
	if (f->category == CATEGORY_SET)
		return send(k, e, EVENT_SET);
	if (f->category == CATEGORY_MTIA) {
		/* One lane for each core of the device; transfers have no correlation. */
		e->thread = f->tid;
		if (!(f->have & FIELD_CORRELATION))
			return send(k, e, EVENT_COPY);
	}
	name = known_kernel(k, e->name);
	e->blocks = f->blocks;
	if (name->kernel_op || (f->have & FIELD_COLLECTIVE && !(name->bits & NAME_LOCAL_KERNEL)))
		take_comm(f, name->kernel_op, e);
	return send(k, e, f->category == CATEGORY_MTIA ? EVENT_TASK : EVENT_KERNEL);
}

static int deliver_runtime(struct kineto *k, const struct event_fields *f, struct trace_event *e)
{
	const struct known_name *name = known_runtime(k, e->name);
	int r = 0;

	e->correlation = f->correlation;
	if (name->bits & NAME_LAUNCHES && f->correlation)
		r = send(k, e, EVENT_LAUNCH);
	if (name->bits & NAME_WAITS && !r)
		r = send(k, e, EVENT_SYNC);
	return r;
}

static int deliver_host(struct kineto *k, struct event_fields *f, struct trace_event *e)
{
	const struct known_name *name = known_host(k, e->name);
	bool mark = f->category == CATEGORY_ANNOTATION || name->bits & NAME_MARK;

	if (name->bits & NAME_HOST_COLLECTIVE && mark) {
		take_comm(f, name->host_op, e);
		take_dims(f, false);
		return send(k, e, EVENT_COLLECTIVE);
	}
	if (mark)
		return send(k, e, EVENT_ANNOTATION);
	if (name->bits & NAME_COMM_CALL) {
		take_comm(f, name->host_op, e);
		take_dims(f, true);
	} else if (name->bits & NAME_COMM_PARAMS && f->have & FIELD_COLLECTIVE) {
		take_comm(f, COMM_NONE, e);
	}
	return send(k, e, EVENT_OP);
}

/* Whether the event's arguments matter to us. */
static bool wants_args(struct kineto *k, const struct event_fields *f, uint32_t name)
{
	switch (f->category) {
	case CATEGORY_KERNEL:
	case CATEGORY_COPY:
	case CATEGORY_SET:
	case CATEGORY_MTIA:
	case CATEGORY_RUNTIME:
		return true;
	case CATEGORY_OP:
	case CATEGORY_OPERATOR:
	case CATEGORY_ANNOTATION:
		return known_host(k, name)->bits &
		       (NAME_HOST_COLLECTIVE | NAME_COMM_CALL | NAME_COMM_PARAMS);
	default:
		return false;
	}
}

static bool is_gpu_category(enum category c)
{
	return c == CATEGORY_KERNEL || c == CATEGORY_COPY || c == CATEGORY_SET ||
	       c == CATEGORY_MTIA || c == CATEGORY_GPU_ANNOTATION;
}

/* > 0: the careful way must look at it again; 0 done, or a negative errno of the sink. */
static int deliver(struct kineto *k, struct event_fields *f, const char *end)
{
	bool gpu = is_gpu_category(f->category);
	struct trace_event e = { 0 };

	k->stats->events++;
	skip(k, SKIP_BAD_NUMBER, f->bad_numbers);
	if (f->ph != 'X' || f->category == CATEGORY_NONE || !(f->have & FIELD_NAME))
		return 0;
	if (!(f->have & FIELD_TS) || f->have & FIELD_BAD_TS || f->ts_ns <= 0 ||
	    f->ts_ns > TS_MAX_NS) {
		skip(k, SKIP_BAD_TIME, 1);
		return 0;
	}
	e.name = intern_name(k, f);
	e.start_ns = f->ts_ns;
	f->bad_numbers = 0;
	if (wants_args(k, f, e.name)) {
		if (!event_args(end, k->sink->names, k->guesses, f)) {
			k->stats->events--;
			return 1;
		}
		skip(k, SKIP_BAD_NUMBER, f->bad_numbers);
	}
	e.duration_ns = sane_duration(k, f, gpu ? GPU_DURATION_MAX_NS : HOST_DURATION_MAX_NS);
	if (f->category == CATEGORY_GPU_ANNOTATION) {
		f->correlation = f->bytes = 0;
		place_on_gpu(f, &e);
		return send(k, &e, EVENT_GPU_ANNOTATION);
	}
	if (gpu)
		return deliver_gpu(k, f, &e);
	e.thread = hash_mix(f->have & FIELD_PID ? f->pid : 0, f->have & FIELD_TID ? f->tid : 0);
	if (f->category == CATEGORY_RUNTIME)
		return deliver_runtime(k, f, &e);
	if (f->category == CATEGORY_PYTHON)
		return send(k, &e, EVENT_PYTHON);
	return deliver_host(k, f, &e);
}

/* --- the array of events --- */

/* Is this the first key of an event? */
static bool event_begins_at(const char *p, const char *end)
{
	static const char *const keys[] = { "\"ph\"",  "\"name\"", "\"cat\"", "\"pid\"",
					    "\"tid\"", "\"ts\"",   "\"id\"",  "\"args\"" };

	if (*p != '{')
		return false;
	p = json_skip_space(p + 1, end);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (starts(p, (size_t)(end - p), keys[i]))
			return true;
	return false;
}

/* Is this the end of the events, with a member of the file behind it? */
static bool events_end_at(const char *p, const char *end)
{
	static const char *const keys[] = { "\"traceName\"",	       "\"displayTimeUnit\"",
					    "\"baseTimeNanoseconds\"", "\"distributedInfo\"",
					    "\"deviceProperties\"",    "\"schemaVersion\"",
					    "\"host_name\"",	       "\"trace_id\"" };

	if (*p != ']')
		return false;
	p = json_skip_space(p + 1, end);
	if (*p != ',')
		return false;
	p = json_skip_space(p + 1, end);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (starts(p, (size_t)(end - p), keys[i]))
			return true;
	return false;
}

/* On to where the array seems to go on, or to its end; false at the end of the text. */
static bool resync(struct kineto *k)
{
	struct json_window *w = &k->w;

	while (json_window_need(w, JSON_LOOKAHEAD)) {
		if (*w->p == '{' && event_begins_at(w->p, w->end))
			return true;
		if (*w->p == ']' && events_end_at(w->p, w->end))
			return true;
		w->p++;
	}
	return false;
}

enum step { STEP_ON, STEP_ARRAY_END, STEP_TEXT_END };

/* An event that the fast way did not take: 0 or a negative errno. *ret says how to go on. */
static int event_careful(struct kineto *k, enum step *ret)
{
	struct event_fields f;
	const char *text;
	unsigned found = 0;
	enum json_copied r;

	r = json_copy_value(&k->w, &k->copy, EVENT_BYTES_MAX, &found);
	skip_found(k, found);
	*ret = STEP_ON;
	if (r == JSON_END) {
		*ret = STEP_TEXT_END;
		return 0;
	}
	text = (const char *)k->copy.data;
	if (r == JSON_COPIED && *text == '{' &&
	    event_parse(text + 1, text + k->copy.len, k->guesses, &f)) {
		int e = deliver(k, &f, text + k->copy.len);

		if (e < 0)
			return e;
		skip(k, SKIP_MALFORMED, e > 0);
		k->whole_end = json_window_at(&k->w, k->w.p);
		return 0;
	}
	skip(k, SKIP_MALFORMED, !(found & (JSON_FOUND_TOO_DEEP | JSON_FOUND_TOO_LONG)));
	if (r == JSON_BROKEN && !resync(k))
		*ret = STEP_TEXT_END;
	return 0;
}

static int event_any(struct kineto *k, enum step *ret)
{
	struct json_window *w = &k->w;
	struct event_fields f;
	const char *next = event_parse(w->p + 1, w->end, k->guesses, &f);
	int r;

	if (!next && !w->eof && (size_t)(w->end - w->p) < w->cap / 2 && json_window_fill(w))
		next = event_parse(w->p + 1, w->end, k->guesses, &f);
	if (next) {
		r = deliver(k, &f, next);
		if (r <= 0) {
			w->p = next;
			k->whole_end = json_window_at(w, next);
			return r;
		}
	}
	return event_careful(k, ret);
}

/* Up to the closing bracket. *ret: STEP_ARRAY_END, or STEP_TEXT_END if the text ends before. */
static int read_events(struct kineto *k, enum step *ret)
{
	struct json_window *w = &k->w;
	int r = 0;

	*ret = STEP_ON;
	k->any_event = true;
	k->whole_end = json_window_at(w, w->p);
	while (*ret == STEP_ON && r >= 0) {
		w->p = json_skip_space(w->p, w->end);
		if (w->p >= w->end && !json_skip_space_refilling(w)) {
			*ret = STEP_TEXT_END;
		} else if (*w->p == '{') {
			r = event_any(k, ret);
		} else if (*w->p == ',') {
			w->p++;
		} else if (*w->p == ']') {
			w->p++;
			*ret = STEP_ARRAY_END;
		} else {
			skip(k, SKIP_MALFORMED, 1);
			w->p++;
			if (!resync(k))
				*ret = STEP_TEXT_END;
		}
	}
	return r;
}

/* --- the document --- */

/* A member of the file other than its events. */
static enum json_copied read_member(struct kineto *k)
{
	const char *key = (const char *)k->key.data;
	bool wanted = meta_wants(key);
	unsigned found = 0;
	enum json_copied r;

	r = json_copy_value(&k->w, wanted ? &k->copy : NULL, META_BYTES_MAX, &found);
	skip_found(k, found & ~(unsigned)JSON_FOUND_BAD_TEXT);
	if (r == JSON_COPIED && wanted)
		meta_member(&k->meta, key, (const char *)k->copy.data, k->copy.len);
	return r;
}

/* The members of the object, from behind its brace. *ret_whole: its end was reached. */
static int read_object(struct kineto *k, bool *ret_whole)
{
	struct json_window *w = &k->w;

	for (;;) {
		enum json_copied c;
		unsigned found = 0;

		if (!json_skip_space_refilling(w))
			return 0;
		if (*w->p == ',') {
			w->p++;
			continue;
		}
		if (*w->p == '}') {
			*ret_whole = true;
			return 0;
		}
		c = json_copy_key(w, &k->key, &found);
		if (c == JSON_COPIED && !json_skip_space_refilling(w))
			return 0;
		if (c == JSON_COPIED && !strcmp((const char *)k->key.data, "traceEvents") &&
		    *w->p == '[') {
			enum step step;
			int r;

			w->p++;
			r = read_events(k, &step);
			if (r < 0 || step == STEP_TEXT_END)
				return r;
			continue;
		}
		if (c == JSON_COPIED)
			c = read_member(k);
		if (c == JSON_END)
			return 0;
		if (c == JSON_BROKEN) {
			/* Nothing behind this can be told apart; the events so far stand. */
			skip(k, SKIP_MALFORMED, 1);
			*ret_whole = true;
			return 0;
		}
	}
}

/* What was behind the last whole event when the text broke off. */
static void count_truncation(struct kineto *k)
{
	while (k->w.p = k->w.end, json_window_fill(&k->w))
		;
	skip(k, SKIP_TRUNCATED, 1);
	k->stats->lost_bytes = json_window_at(&k->w, k->w.end) - k->whole_end;
}

static int read_document(struct kineto *k, struct error *reterr)
{
	struct json_window *w = &k->w;
	bool whole = false;
	enum step step;
	int r;

	if (json_window_need(w, 3) >= 3 && !memcmp(w->p, "\xef\xbb\xbf", 3))
		w->p += 3;
	if (!json_skip_space_refilling(w))
		return w->error ? w->error : error_set(reterr, -EBADMSG, "an empty file");
	if (*w->p != '{' && *w->p != '[')
		return error_set(reterr, -EBADMSG, "no JSON: it begins with neither { nor [");
	if (*w->p++ == '{') {
		r = read_object(k, &whole);
	} else {
		r = read_events(k, &step);
		whole = step == STEP_ARRAY_END;
	}
	if (r < 0)
		return r;
	if (!k->any_event && whole)
		return error_set(reterr, -EBADMSG, "JSON, but no trace: it has no traceEvents");
	if (!whole)
		count_truncation(k);
	return w->error;
}

int kineto_read(struct input *in, const struct kineto_options *options, struct trace_sink *sink,
		struct read_stats *stats, struct error *reterr)
{
	struct kineto k = { .sink = sink, .stats = stats };
	int r;

	k.guesses = xcalloc(1, sizeof(*k.guesses));
	json_window_init(&k.w, in, options ? options->window_bytes : 0);
	meta_init(&k.meta, sink->names);
	r = read_document(&k, reterr);
	stats->bytes = input_bytes_text(in);
	stats->bytes_file = input_bytes_raw(in);
	if (r >= 0 && sink->meta)
		r = sink->meta(sink->user, &k.meta.meta);
	meta_done(&k.meta);
	json_window_done(&k.w);
	buf_done(&k.copy);
	buf_done(&k.key);
	buf_done(&k.text);
	free(k.guesses);
	free(k.known);
	return r;
}
