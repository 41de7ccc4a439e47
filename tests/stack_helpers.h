/* SPDX-License-Identifier: Apache-2.0 */
/* stack_helpers.h - a text of stacks as a testimony, and a testimony of stacks as a few lines. */
#pragma once
#include "read_helpers.h"

#include "model/testimony.h"
#include "read/stack.h"

struct stack_told {
	struct testimony *t; /* NULL: nothing could be taken */
	struct read_stats stats;
	struct error error;
	int status;
	bool sniffed;
};

/* step: bytes at a time; 0: all at once. */
static inline struct stack_told stack_told_steps(const char *path, const char *text, size_t len,
						 size_t step)
{
	struct memory_source m = { text, len, 0, step, step };
	struct input *in = input_of_source(memory_read, &m);
	struct stack_told k = { 0 };
	bool json = stack_json_sniff(text, MIN(len, (size_t)65536), path);

	k.sniffed = json || stack_sniff(text, MIN(len, (size_t)65536), path);
	k.status = (json ? stack_json_read : stack_read)(in, path, &k.t, &k.stats, &k.error);
	input_free(in);
	return k;
}

static inline struct stack_told stack_told_of(const char *path, const char *text)
{
	return stack_told_steps(path, text, strlen(text), 0);
}

static inline void stack_told_done(struct stack_told *k)
{
	k->t = testimony_free(k->t);
}

static inline void stack_put(struct buf *b, const char *format, ...) PRINTF_LIKE(2, 3);
static inline void stack_put(struct buf *b, const char *format, ...)
{
	char *s;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&s, format, ap);
	va_end(ap);
	assert_true(n >= 0);
	buf_put(b, s, (size_t)n);
	free(s);
}

static inline void stack_put_thread(struct buf *b, const struct testimony *t,
				    const struct thread_stack *th)
{
	const char *before = "";

	stack_put(b, "  %s%s%s%s: ", th->name == NO_ID ? "-" : intern_get(&t->names, th->name),
		  th->main ? " main" : "", th->active ? " active" : "", th->gil ? " gil" : "");
	for (uint32_t i = 0; i < th->n_frames; i++) {
		const struct frame *f = &t->frames.v[th->frame + i];

		stack_put(b, "%s%s", before, intern_get(&t->names, f->function));
		if (f->file != NO_ID)
			stack_put(b, "@%s", intern_get(&t->names, f->file));
		if (f->line >= 0)
			stack_put(b, ":%d", f->line);
		before = " < ";
	}
	stack_put(b, "\n");
}

/* "py-spy rank 3 pid 7 ..\n  MainThread main active: f@x.py:1 < g@x.py:2\n"; what is unknown is
   left out. malloc'd. */
static inline char *stack_lines_of(const struct testimony *t)
{
	static const char *const tools[] = { "py-spy", "gdb", "faulthandler", "kernel", "other" };
	struct buf b = { 0 };

	for (size_t i = 0; i < t->stacks.n; i++) {
		const struct process_stack *p = &t->stacks.v[i];

		stack_put(&b, "%s", tools[p->tool]);
		if (p->rank >= 0)
			stack_put(&b, " rank %" PRId64, p->rank);
		if (p->local_rank >= 0)
			stack_put(&b, " local %" PRId64, p->local_rank);
		if (p->ranks != NO_ID)
			stack_put(&b, " ranks %s", intern_get(&t->names, p->ranks));
		if (p->pid >= 0)
			stack_put(&b, " pid %" PRId64, p->pid);
		if (p->host != NO_ID)
			stack_put(&b, " host %s", intern_get(&t->names, p->host));
		if (p->processes != 1)
			stack_put(&b, " x%u", p->processes);
		stack_put(&b, "\n");
		for (uint32_t k = 0; k < p->n_threads; k++)
			stack_put_thread(&b, t, &t->threads.v[p->thread + k]);
	}
	buf_put(&b, "", 1);
	return (char *)b.data;
}

/* The text is recognized and reads as these lines, in whatever pieces it comes. */
static inline void expect_stacks(const char *path, const char *text, const char *lines)
{
	static const size_t steps[] = { 0, 1, 7, 4096 };

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct stack_told k = stack_told_steps(path, text, strlen(text), steps[i]);
		_cleanup_free_ char *got = NULL;

		assert_int_equal(k.status, 0);
		assert_true(k.sniffed);
		got = stack_lines_of(k.t);
		assert_string_equal(got, lines);
		stack_told_done(&k);
	}
}
