/* SPDX-License-Identifier: Apache-2.0 */
/* watch_source.c - looking at the sources of a watcher; see watch_source.h. */
#include "watch/watch_source.h"
#include "base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "watch/watch_read.h"

#define BACK_OFF_MS	 1000
#define BACK_OFF_MOST_MS (5 * 60000)
#define STREAM_MUCH	 ((size_t)512 << 10)
#define STREAM_PIPE	 (1 << 20)
#define COMMAND_KEEP	 ((size_t)256 << 10)

const char *source_kind_name(enum source_kind k)
{
	static const char *const names[SOURCE_KINDS] = {
		[SOURCE_LOG] = "log",
		[SOURCE_GPU_LOG] = "gpu-log",
		[SOURCE_LOG_COMMAND] = "log-command",
		[SOURCE_GPU_COMMAND] = "gpu-command",
		[SOURCE_JOB_COMMAND] = "state-command",
		[SOURCE_ENDPOINT] = "endpoint",
		[SOURCE_CHECKPOINTS] = "checkpoints",
		[SOURCE_DUMPS] = "dumps",
	};

	return k < SOURCE_KINDS ? names[k] : "unknown";
}

void sources_init(struct sources *s, struct watch *w, int64_t interval_ms, int64_t deadline_ms)
{
	*s = (struct sources){ .w = w, .interval_ms = interval_ms, .deadline_ms = deadline_ms };
}

void sources_done(struct sources *s)
{
	lanes_done(s);
	for (size_t i = 0; i < s->v.n; i++) {
		struct source *v = &s->v.v[i];

		tap_stop(&v->tap);
		for (size_t k = 0; k < v->files.n; k++)
			follow_done(&v->files.v[k].f);
		free(v->files.v);
		buf_done(&v->tail);
		free(v->header);
	}
	free(s->v.v);
	json_decref(s->cursors);
	s->web = web_free(s->web);
	*s = (struct sources){ 0 };
}

/* Paths of URLs may be secrets: several of one server are told apart by a number. */
static uint32_t add_endpoint(struct watch *w, const char *url)
{
	size_t before = w->sources.n;
	char name[256], numbered[280];
	uint32_t row;

	web_url_name(url, name, sizeof(name));
	row = watch_add_source(w, name);
	for (unsigned i = 2; w->sources.n == before; i++) {
		snprintf(numbered, sizeof(numbered), "%s #%u", name, i);
		row = watch_add_source(w, numbered);
	}
	return row;
}

void sources_add(struct sources *s, enum source_kind kind, const char *what)
{
	struct source *v = vec_push(&s->v);

	*v = (struct source){ .kind = kind,
			      .what = what,
			      .row = NO_ID,
			      .next_ms = INT64_MIN,
			      .before_ms = -1,
			      .heard_ms = -1,
			      .tap = { .out = -1, .err = -1 } };
	if (kind == SOURCE_ENDPOINT) {
		v->row = add_endpoint(s->w, what);
	} else {
		v->row = watch_add_source(s->w, what);
	}
}

void source_heard(struct sources *s, uint32_t row)
{
	struct watch_seen seen = watch_seen_of(SIGHT_HEARD, row, s->now_ms);

	watch_saw(s->w, &seen);
}

void source_silent(struct sources *s, uint32_t row, const char *why, int number)
{
	struct watch_seen seen = watch_seen_of(SIGHT_SILENT, row, s->now_ms);

	seen.text = why;
	seen.value = number;
	watch_saw(s->w, &seen);
}

static void silent(struct sources *s, uint32_t row, const char *why)
{
	source_silent(s, row, why, 0);
}

/* --- files and folders --- */

bool source_has_path(const struct source *v)
{
	return v->kind == SOURCE_LOG || v->kind == SOURCE_GPU_LOG ||
	       v->kind == SOURCE_CHECKPOINTS || v->kind == SOURCE_DUMPS;
}

static void cursor_from(struct follow *f, const json_t *j);

struct source_file *source_file_of(struct sources *s, struct source *v, const char *path)
{
	struct source_file *file;
	const json_t *c;
	size_t n;

	for (size_t i = 0; i < v->files.n; i++)
		if (!strcmp(v->files.v[i].f.path, path))
			return &v->files.v[i];
	if (v->files.n >= SOURCE_FILES_MOST)
		return NULL;
	file = vec_push(&v->files);
	*file = (struct source_file){ .before_ms = -1, .row = NO_ID };
	follow_init(&file->f, path);
	json_array_foreach(s->cursors, n, c)
	{
		const char *at = json_string_value(json_object_get(c, "path"));

		if (at && !strcmp(at, path))
			cursor_from(&file->f, c);
	}
	return file;
}

static void ask_lane(struct sources *s, struct source *v)
{
	lanes_ask(s, (uint32_t)(v - s->v.v));
}

/* --- commands --- */

int64_t sources_back_off(unsigned fails, int64_t most_ms)
{
	int64_t ms = BACK_OFF_MS;

	for (unsigned i = 1; i < fails && ms < most_ms; i++)
		ms *= 2;
	return MIN(ms, most_ms);
}

static void begin_command(struct sources *s, struct source *v)
{
	struct error e = { "" };

	if (v->tap.child.pid)
		return;
	if (tap_start(&v->tap, v->what, NULL, NULL, &e) < 0) {
		silent(s, v->row, e.text);
		return;
	}
	fcntl(v->tap.out, F_SETPIPE_SZ, STREAM_PIPE);
	v->streams = v->kind == SOURCE_LOG_COMMAND;
	free(v->header);
	v->header = NULL;
}

static bool names_columns(const char *p, size_t len)
{
	static const char *const words[] = { "power", "utilization", "index", "gpu" };

	if (!len || *p == '{')
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (memmem(p, len, words[i], strlen(words[i])))
			return true;
	return *p == '#';
}

/* The first line, or two that begin with #, if they name columns. */
char *source_header_of(const char *text, size_t len)
{
	const char *eol = memchr(text, '\n', MIN(len, (size_t)SOURCE_HEADER_MOST)), *next;

	if (!eol || !names_columns(text, (size_t)(eol - text)))
		return NULL;
	next = *text == '#' && (size_t)(eol + 1 - text) < len && eol[1] == '#'
		   ? memchr(eol + 1, '\n',
			    MIN(len - (size_t)(eol + 1 - text), (size_t)SOURCE_HEADER_MOST))
		   : NULL;
	eol = next ? next : eol;
	return strndup(text, (size_t)(eol + 1 - text));
}

static void keep_tail(struct source *v, const char *text, size_t len)
{
	size_t from = len > SOURCE_TAIL ? len - SOURCE_TAIL : 0, keep = len - from, over;

	over = v->tail.len + keep > SOURCE_TAIL ? v->tail.len + keep - SOURCE_TAIL : 0;
	if (over) {
		memmove(v->tail.data, v->tail.data + over, v->tail.len - over);
		v->tail.len -= over;
	}
	buf_put(&v->tail, text + from, keep);
}

/* Gives text to the reader of its kind; false: it is nothing that this kind should give. */
static bool give(struct sources *s, struct source *v, const char *text, size_t len)
{
	struct watch_piece p = {
		.text = text,
		.len = len,
		.path = v->kind == SOURCE_LOG_COMMAND ? "command.log" : "command.txt",
		.before_ms = v->before_ms >= 0 ? v->before_ms : s->now_ms - s->interval_ms,
		.at_ms = s->now_ms,
		.skipped = &s->cut,
	};

	s->pieces++;
	if (v->kind == SOURCE_LOG_COMMAND) {
		keep_tail(v, text, len);
		watch_read_log(s->w, v->row, &p);
		return true;
	}
	if (v->kind == SOURCE_JOB_COMMAND)
		return watch_read_job(s->w, v->row, &p);
	return watch_read_gpus(s->w, v->row, &p) > 0;
}

/* Whole lines of a stream, under its header. */
static bool take_stream(struct sources *s, struct source *v)
{
	struct buf *b = &v->tap.text;
	const char *lf = b->len ? memrchr(b->data, '\n', b->len) : NULL;
	size_t whole = lf ? (size_t)(lf + 1 - (const char *)b->data) : 0;
	bool good;

	if (!whole && b->len >= STREAM_MUCH)
		whole = b->len;
	if (!whole)
		return false;
	if (v->kind == SOURCE_GPU_COMMAND && !v->header) {
		v->header = source_header_of((const char *)b->data, whole);
		good = give(s, v, (const char *)b->data, whole);
	} else if (v->header) {
		struct buf with = { 0 };

		buf_put(&with, v->header, strlen(v->header));
		buf_put(&with, b->data, whole);
		good = give(s, v, (const char *)with.data, with.len);
		buf_done(&with);
	} else {
		good = give(s, v, (const char *)b->data, whole);
	}
	memmove(b->data, b->data + whole, b->len - whole);
	b->len -= whole;
	return good;
}

static void command_failed(struct sources *s, struct source *v, const char *why)
{
	v->fails++;
	silent(s, v->row, why);
	v->next_ms = s->now_ms + MAX(sources_back_off(v->fails, BACK_OFF_MOST_MS),
				     v->kind == SOURCE_LOG_COMMAND ? 0 : s->interval_ms);
}

static void command_ended(struct sources *s, struct source *v, enum tap_end end)
{
	struct buf *b = &v->tap.text;
	const char *why = tap_why(&v->tap);
	char word[64];
	bool good;

	if (v->kind == SOURCE_LOG_COMMAND) {
		if (take_stream(s, v))
			v->fails = 0;
		command_failed(s, v, end == TAP_GOOD ? "the command ended" : why);
		return;
	}
	if (end == TAP_FAILED && v->kind == SOURCE_JOB_COMMAND && why[0] &&
	    watch_job_of(why, strlen(why), word, sizeof(word)) == JOB_GONE) {
		b->len = 0;
		end = TAP_GOOD;
	}
	if (end != TAP_GOOD) {
		command_failed(s, v, why);
		return;
	}
	good = v->streams ? take_stream(s, v) : give(s, v, (const char *)b->data, b->len);
	b->len = 0;
	if (!good) {
		command_failed(s, v, "its output is nothing that is known");
		return;
	}
	v->fails = 0;
	source_heard(s, v->row);
	if (b->cap > COMMAND_KEEP)
		buf_done(b);
}

static void take_command(struct sources *s, struct source *v)
{
	bool fresh = !v->streams;
	enum tap_end end = tap_look(&v->tap, fresh ? s->deadline_ms : 0);

	if (end != TAP_RUNS) {
		command_ended(s, v, end);
		v->before_ms = s->now_ms;
		return;
	}
	/* It goes on printing: that is a stream, and no command that hangs. */
	if (fresh && v->kind == SOURCE_GPU_COMMAND && v->tap.text.len &&
	    clock_ms() - v->tap.child.began_ms >= s->deadline_ms / 2)
		v->streams = true;
	if (!v->streams || (s->now_ms < v->next_ms && v->tap.text.len < STREAM_MUCH))
		return;
	if (take_stream(s, v)) {
		v->fails = 0;
		v->heard_ms = s->now_ms;
		source_heard(s, v->row);
	} else if (v->kind == SOURCE_LOG_COMMAND) {
		source_heard(s, v->row); /* it runs; what it does not say is judged by the steps */
	} else if (MIN(s->now_ms - v->heard_ms, clock_ms() - v->tap.child.began_ms) >
		   s->w->limits.blind_ms) {
		tap_stop(&v->tap);
		command_failed(s, v, "it prints nothing any more");
	}
	v->before_ms = s->now_ms;
	v->next_ms = MAX(v->next_ms, s->now_ms + s->interval_ms);
}

/* --- endpoints --- */

static void answered(void *user, const struct web_answer *a)
{
	struct source *v = user;
	struct sources *s = v->all;
	struct watch_piece p = {
		.text = (const char *)a->body,
		.len = a->len,
		.path = "endpoint.prom",
		.before_ms = v->before_ms,
		.at_ms = s->now_ms,
	};
	char why[64];

	v->call = NULL;
	if (a->error || a->status != 200) {
		snprintf(why, sizeof(why), "HTTP status %d", a->status);
		v->fails++;
		silent(s, v->row, a->error && a->why ? a->why : why);
		return;
	}
	s->pieces++;
	if (watch_read_metrics(s->w, v->row, &p)) {
		v->fails = 0;
		source_heard(s, v->row);
	} else {
		silent(s, v->row, "its answer has neither GPUs nor steps");
	}
	v->before_ms = s->now_ms;
}

static void look_at_endpoint(struct sources *s, struct source *v)
{
	struct web_request r = {
		.url = v->what,
		.deadline_ms = (unsigned)s->deadline_ms,
		.done = answered,
		.user = v,
	};
	struct error e = { "" };

	if (v->call)
		return;
	if (v->before_ms < 0)
		v->before_ms = s->now_ms - s->interval_ms;
	v->all = s;
	if (!s->web)
		s->web = web_new();
	if (web_start(s->web, &r, &v->call, &e) < 0) {
		v->call = NULL;
		silent(s, v->row, e.text);
	}
}

/* --- all of them --- */

static void (*const lookers[SOURCE_KINDS])(struct sources *, struct source *) = {
	[SOURCE_LOG] = ask_lane,
	[SOURCE_GPU_LOG] = ask_lane,
	[SOURCE_LOG_COMMAND] = begin_command,
	[SOURCE_GPU_COMMAND] = begin_command,
	[SOURCE_JOB_COMMAND] = begin_command,
	[SOURCE_ENDPOINT] = look_at_endpoint,
	[SOURCE_CHECKPOINTS] = ask_lane,
	[SOURCE_DUMPS] = ask_lane,
};

void sources_look(struct sources *s, int64_t now_ms)
{
	s->now_ms = now_ms;
	for (size_t i = 0; i < s->v.n; i++) {
		struct source *v = &s->v.v[i];

		if (now_ms < v->next_ms || (v->streams && v->tap.child.pid))
			continue;
		v->next_ms = now_ms + s->interval_ms;
		lookers[v->kind](s, v);
	}
	s->looks++;
}

void sources_take(struct sources *s, int64_t now_ms)
{
	s->now_ms = now_ms;
	for (size_t i = 0; i < s->v.n; i++)
		if (s->v.v[i].tap.child.pid)
			take_command(s, &s->v.v[i]);
	lanes_take(s);
}

int64_t sources_next(const struct sources *s)
{
	int64_t next = lanes_next(s);

	for (size_t i = 0; i < s->v.n; i++)
		next = MIN(next, s->v.v[i].next_ms);
	return next;
}

static bool is_asked(const struct source *v)
{
	return (v->tap.child.pid && !v->streams) || v->call; /* lanes: lanes_wait() */
}

size_t sources_files(const struct sources *s, struct pollfd *ret, size_t n)
{
	size_t used = lanes_files(s, ret, n);

	for (size_t i = 0; i < s->v.n && used < n; i++)
		if (s->v.v[i].tap.child.pid && !s->v.v[i].streams)
			ret[used++] = (struct pollfd){ s->v.v[i].tap.out, POLLIN, 0 };
	return used;
}

bool sources_wait(const struct sources *s)
{
	for (size_t i = 0; i < s->v.n; i++)
		if (is_asked(&s->v.v[i]))
			return true;
	return lanes_wait(s);
}

void sources_feed(struct sources *s, size_t i, const char *text, size_t len, int64_t now_ms)
{
	struct source *v = &s->v.v[i];

	s->now_ms = now_ms;
	if (v->kind == SOURCE_LOG)
		v->kind = SOURCE_LOG_COMMAND;
	if (v->kind == SOURCE_GPU_LOG)
		v->kind = SOURCE_GPU_COMMAND;
	if (v->kind == SOURCE_ENDPOINT) {
		struct watch_piece p = { .text = text,
					 .len = len,
					 .path = "endpoint.prom",
					 .before_ms = MAX(v->before_ms, now_ms - s->interval_ms),
					 .at_ms = now_ms };

		watch_read_metrics(s->w, v->row, &p);
	} else {
		give(s, v, text, len);
	}
	v->before_ms = now_ms;
	source_heard(s, v->row);
}

/* --- the cursors --- */

static json_t *print_json(const struct follow *f)
{
	json_t *a = json_array();

	for (uint32_t i = 0; i < f->n_print; i++)
		json_array_append_new(a, json_integer(f->print[i]));
	return a;
}

static bool is_taken(const struct sources *s, const char *path)
{
	for (size_t i = 0; i < s->v.n; i++)
		for (size_t k = 0; k < s->v.v[i].files.n; k++)
			if (!strcmp(s->v.v[i].files.v[k].f.path, path))
				return true;
	return false;
}

/* Those of files that nobody could look at as yet are kept. */
static void put_kept(const struct sources *s, json_t *all)
{
	bool looked = true;
	json_t *c;
	size_t n;

	for (size_t i = 0; i < s->v.n; i++)
		looked &= s->v.v[i].looked || !source_has_path(&s->v.v[i]);
	if (looked)
		return;
	json_array_foreach(s->cursors, n, c)
	{
		const char *path = json_string_value(json_object_get(c, "path"));

		if (path && !is_taken(s, path))
			json_array_append(all, c);
	}
}

json_t *sources_to_json(const struct sources *s)
{
	json_t *all = json_array();

	for (size_t i = 0; i < s->v.n; i++)
		for (size_t k = 0; k < s->v.v[i].files.n; k++) {
			const struct follow *f = &s->v.v[i].files.v[k].f;

			if (!f->known)
				continue;
			json_array_append_new(
			    all, json_pack("{s:s%,s:I,s:I,s:I,s:b,s:o}", "path", f->path,
					   strlen(f->path), "dev", (json_int_t)f->dev, "ino",
					   (json_int_t)f->ino, "offset", (json_int_t)f->offset,
					   "dropping", f->dropping, "print", print_json(f)));
		}
	put_kept(s, all);
	return all;
}

static void cursor_from(struct follow *f, const json_t *j)
{
	const json_t *v;
	size_t i;

	f->known = true;
	f->dev = (uint64_t)json_integer_value(json_object_get(j, "dev"));
	f->ino = (uint64_t)json_integer_value(json_object_get(j, "ino"));
	f->offset = (uint64_t)MAX(json_integer_value(json_object_get(j, "offset")), 0);
	f->dropping = json_is_true(json_object_get(j, "dropping"));
	f->n_print = 0; /* the same path may be there twice */
	json_array_foreach(json_object_get(j, "print"), i, v) if (i < FOLLOW_PRINT)
	    f->print[f->n_print++] = (uint8_t)json_integer_value(v);
}

void sources_from_json(struct sources *s, const json_t *j)
{
	json_decref(s->cursors);
	s->cursors = json_incref((json_t *)(uintptr_t)j);
}
