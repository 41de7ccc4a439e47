/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_replay.c - a recording of what sources said, played as fast as it can be judged.
 *
 * One JSON object a line: "t" in seconds, never going back, "source" as it is called on the command
 * line, and "text" that it gave, "silent" with a reason, "saved" with a checkpoint's name, or
 * "dump" with a number of dumps; without a source only time passes. Between the lines time passes,
 * and the job is judged at every interval, as it would be live.
 */
#include "watch/watch.h"

#include <math.h>
#include <stdio.h>

#define LINE_MOST  ((size_t)16 << 20)
#define T_MOST	   1e10
#define TICKS_MOST 10000000u

struct replay {
	struct watcher *r;
	int64_t next_ms; /* judgement */
	uint64_t line, ticks;
};

static void judge(struct replay *p, int64_t at_ms)
{
	p->r->now_ms = at_ms;
	watch_judge(&p->r->w, at_ms, &p->r->now);
	watch_report(p->r);
	p->ticks++;
}

static size_t source_named(const struct watcher *r, const char *name)
{
	for (size_t i = 0; i < r->sources.v.n; i++)
		if (!strcmp(r->sources.v.v[i].what, name))
			return i;
	return SIZE_MAX;
}

static void feed_sight(struct replay *p, uint32_t row, const json_t *j, int64_t at)
{
	const char *silent = json_string_value(json_object_get(j, "silent"));
	const char *saved = json_string_value(json_object_get(j, "saved"));
	const json_t *dump = json_object_get(j, "dump");
	struct watch_seen s = watch_seen_of(SIGHT_SILENT, row, at);

	s.text = silent;
	if (saved) {
		s.sight = SIGHT_SAVED;
		s.text = saved;
	} else if (dump) {
		s.sight = SIGHT_DUMP;
		s.value = json_integer_value(dump);
	}
	watch_saw(&p->r->w, &s);
	if (s.sight != SIGHT_SILENT) {
		s.sight = SIGHT_HEARD;
		watch_saw(&p->r->w, &s);
	}
}

static int feed(struct replay *p, const json_t *j, struct error *reterr)
{
	const json_t *t = json_object_get(j, "t"), *text = json_object_get(j, "text");
	const char *source = json_string_value(json_object_get(j, "source"));
	struct watcher *r = p->r;
	size_t i = source ? source_named(r, source) : SIZE_MAX;
	double seconds = json_number_value(t);
	int64_t at;

	if (!json_is_number(t) || !(seconds >= 0 && seconds < T_MOST))
		return error_set(reterr, -EBADMSG, "line %" PRIu64 ": its \"t\" is no time",
				 p->line);
	at = WATCH_EPOCH_MS + (int64_t)llround(seconds * 1000);
	if (i == SIZE_MAX && source)
		return error_set(reterr, -EBADMSG,
				 "line %" PRIu64
				 ": no source \"%.80s\" was given on the command line",
				 p->line, source);
	if (p->next_ms == INT64_MIN) { /* the watch begins with the recording */
		watch_done(&r->w);
		watch_init(&r->w, &r->o->limits, at);
		for (size_t k = 0; k < r->sources.v.n; k++)
			r->sources.v.v[k].row = watch_add_source(&r->w, r->sources.v.v[k].what);
		p->next_ms = at + r->o->interval_ms;
	}
	if (at < r->now_ms)
		return error_set(reterr, -EBADMSG, "line %" PRIu64 ": \"t\" goes back", p->line);
	for (; p->next_ms < at; p->next_ms += r->o->interval_ms) {
		if (p->ticks >= TICKS_MOST)
			return error_set(reterr, -E2BIG,
					 "line %" PRIu64 ": the recording is too long", p->line);
		judge(p, p->next_ms);
	}
	r->now_ms = at;
	if (!source)
		return 0;
	if (json_is_string(text))
		sources_feed(&r->sources, i, json_string_value(text), json_string_length(text), at);
	else
		feed_sight(p, r->sources.v.v[i].row, j, at);
	return 0;
}

/* The next line; of a longer one than LINE_MOST no more than that is kept. */
static bool next_line(FILE *f, struct buf *line)
{
	int c = 0;

	line->len = 0;
	while (c != '\n' && (c = getc_unlocked(f)) != EOF) {
		char byte = (char)c;

		if (line->len <= LINE_MOST)
			buf_put(line, &byte, 1);
	}
	return line->len > 0;
}

int watch_replay(struct watcher *r, struct error *reterr)
{
	struct replay p = { .r = r, .next_ms = INT64_MIN };
	FILE *f = fopen(r->o->replay, "re");
	struct buf line = { 0 };
	int code = 0;

	if (!f)
		return error_set(reterr, -errno, "%s: %s", r->o->replay, strerror(errno));
	r->now_ms = WATCH_EPOCH_MS;
	r->wall_offset_ms = -WATCH_EPOCH_MS;
	while (!code && next_line(f, &line)) {
		json_error_t where;
		json_t *j;
		struct error e = { "" };

		p.line++;
		if (line.len > LINE_MOST || line.data[0] == '\n')
			continue;
		j = json_loadb((const char *)line.data, line.len, 0, &where);
		if (!j)
			code = error_set(&e, -EBADMSG, "line %" PRIu64 ": %s", p.line, where.text);
		else
			code = feed(&p, j, &e);
		json_decref(j);
		if (code < 0)
			error_set(reterr, code, "%s: %.400s", r->o->replay, e.text);
	}
	if (!code)
		judge(&p, r->now_ms);
	buf_done(&line);
	fclose(f);
	return code;
}
