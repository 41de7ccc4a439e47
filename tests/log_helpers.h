/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_helpers.h - for the tests of the log reader: text in memory, read in pieces of several sizes,
 * and its testimony as lines of text in which only what is known stands.
 */
#pragma once
#include <math.h>

#include "log_same.h"
#include "read_helpers.h"

#include "read/log.h"

/* --- a testimony as lines of text --- */

static void put(struct buf *b, const char *format, ...) PRINTF_LIKE(2, 3);
static void put(struct buf *b, const char *format, ...)
{
	char text[1024];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	buf_put(b, text, MIN((size_t)n, sizeof(text) - 1));
}

static void put_number(struct buf *b, const char *name, int64_t v)
{
	if (v != -1)
		put(b, " %s=%" PRId64, name, v);
}

static void put_name(struct buf *b, const struct testimony *t, const char *name, uint32_t id)
{
	if (id != NO_ID)
		put(b, " %s=%s", name, intern_get(&t->names, id));
}

static void put_saying(struct buf *b, const struct testimony *t, const struct saying *s, bool text)
{
	put(b, "%s", saying_name(s->kind));
	put_number(b, "rank", s->rank);
	put_number(b, "local", s->local_rank);
	put_number(b, "peer", s->peer);
	if (s->group != NO_ID) {
		const struct op_group *g = &t->groups.v[s->group];

		put_name(b, t, "group", g->name);
		if (g->desc != NO_ID)
			put(b, "(%s)", intern_get(&t->names, g->desc));
	}
	if (s->signature != NO_ID) {
		const struct signature *sig = &t->signatures.v[s->signature];

		put(b, " %s", comm_op_name(sig->op));
		put_number(b, "in", sig->in_elements);
		put_number(b, "out", sig->out_elements);
	}
	put_number(b, "seq", s->seq);
	put_number(b, "value", s->value);
	put_number(b, "timeout", s->timeout_ms);
	put_number(b, "ran", s->ran_ms);
	put_number(b, "pid", s->pid);
	put_number(b, "gpu", s->gpu);
	put_name(b, t, "host", s->host);
	put_name(b, t, "what", s->what);
	put_number(b, "ms", s->time_ns == -1 ? -1 : s->time_ns / 1000000);
	put_number(b, "took_ms", s->duration_ns == -1 ? -1 : s->duration_ns / 1000000);
	if (s->count > 1)
		put(b, " x%" PRIu64, s->count);
	if (text)
		put_name(b, t, "text", s->text);
	put(b, "\n");
}

static void put_progress(struct buf *b, const struct log_progress *p)
{
	put(b, "progress");
	put_number(b, "rank", p->rank);
	put(b, " %" PRId64 "..%" PRId64, p->first_step, p->last_step);
	if (p->total_steps >= 0)
		put(b, "/%" PRId64, p->total_steps);
	put_number(b, "epoch", p->last_epoch);
	if (p->epoch_at >= 0)
		put(b, " at %" PRId64 "/%" PRId64, p->epoch_at, p->epoch_steps);
	put(b, " lines=%" PRIu64, p->lines);
	if (p->restarts)
		put(b, " restarts=%" PRIu64, p->restarts);
	if (!isnan(p->last_step_ms))
		put(b, " ms=%.6g", p->last_step_ms);
	if (!isnan(p->last_tokens_per_s))
		put(b, " tokens/s=%.6g", p->last_tokens_per_s);
	if (!isnan(p->last_loss))
		put(b, " loss=%.6g", p->last_loss);
	if (p->last_ns >= 0)
		put(b, " last_ms=%" PRId64, p->last_ns / 1000000);
	put(b, "\n");
}

struct heard {
	struct testimony *t;
	struct read_stats stats;
	struct error error;
	struct buf lines;
	int status;
};

/* Fails if lines are read otherwise for being like others. */
static void hear_each(const struct heard *h, const char *text, size_t len, const char *path)
{
	struct memory_source m = { .p = text, .len = len };
	struct input *in = input_of_source(memory_read, &m);
	struct testimony *t = NULL;
	struct read_stats stats = { 0 };
	struct error e = { 0 };

	assert_int_equal(log_read_each(in, path, &t, &stats, &e), 0);
	log_settle_years(&t, 1);
	assert_string_equal(log_differs(h->t, t) ? log_differs(h->t, t) : "nothing", "nothing");
	assert_int_equal(h->stats.events, stats.events);
	testimony_free(t);
	input_free(in);
}

static void hear(struct heard *h, const char *text, size_t len, const char *path, size_t step)
{
	struct memory_source m = { .p = text, .len = len, .first = step, .step = step };
	struct input *in = input_of_source(memory_read, &m);

	memset(h, 0, sizeof(*h));
	h->status = log_read(in, path, &h->t, &h->stats, &h->error);
	if (h->t) {
		log_settle_years(&h->t, 1);
		hear_each(h, text, len, path);
	}
	input_free(in);
}

static inline const char *heard_lines(struct heard *h, bool text)
{
	h->lines.len = 0;
	if (h->t->rank >= 0 || h->t->world_size >= 0) {
		put(&h->lines, "file");
		put_number(&h->lines, "rank", h->t->rank);
		put_number(&h->lines, "world", h->t->world_size);
		put(&h->lines, "\n");
	}
	for (size_t i = 0; i < h->t->sayings.n; i++)
		put_saying(&h->lines, h->t, &h->t->sayings.v[i], text);
	for (size_t i = 0; i < h->t->progress.n; i++)
		put_progress(&h->lines, &h->t->progress.v[i]);
	buf_put(&h->lines, "", 1);
	return (const char *)h->lines.data;
}

static void heard_done(struct heard *h)
{
	testimony_free(h->t);
	buf_done(&h->lines);
}

static void expect_of(const char *path, const char *text, size_t len, const char *want)
{
	static const size_t steps[] = { 0, 1, 7, 64, 1000 };

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct heard h;

		hear(&h, text, len, path, steps[i]);
		assert_int_equal(h.status, 0);
		assert_string_equal(heard_lines(&h, false), want);
		heard_done(&h);
	}
}

struct row {
	const char *text, *want;
};

static inline void expect_rows(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		expect_of("train.log", rows[i].text, strlen(rows[i].text), rows[i].want);
}
