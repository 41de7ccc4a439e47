/* SPDX-License-Identifier: Apache-2.0 */
/* read_helpers.h - for the readers' tests: bytes in memory as a source, events as lines of text. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/buf.h"
#include "read/kineto.h"

/* Gives at most `first` bytes at once, then `step` bytes at a time. */
struct memory_source {
	const char *p;
	size_t len, at, first, step;
};

static inline ssize_t memory_read(void *user, void *buf, size_t len)
{
	struct memory_source *m = user;
	size_t n = MIN(len, m->len - m->at);

	if (m->step)
		n = MIN(n, m->at ? m->step : m->first);
	memcpy(buf, m->p + m->at, n);
	m->at += n;
	return (ssize_t)n;
}

/* What a reader told its sink, one line for each event, and what it said of the file. */
struct told {
	struct intern names;
	struct buf lines;
	struct read_stats stats;
	struct error error;
	int64_t rank, world_size, base_time_ns;
	char host[64], backend[64], gpu_name[64], trace_id[128];
	uint32_t n_groups;
	struct trace_group group; /* the first; ranks are copied */
	uint32_t group_ranks[16];
	uint64_t n[EVENT_KINDS];
	int64_t sum_ns[EVENT_KINDS];
	uint64_t kernel_colls;
	int64_t kernel_coll_ns;
	int status;
};

static inline int told_event(void *user, const struct trace_event *e)
{
	static const char *const kinds[EVENT_KINDS] = {
		[EVENT_KERNEL] = "kernel",
		[EVENT_COPY] = "copy",
		[EVENT_SET] = "set",
		[EVENT_TASK] = "task",
		[EVENT_UNSEEN] = "unseen",
		[EVENT_LAUNCH] = "launch",
		[EVENT_SYNC] = "sync",
		[EVENT_ANNOTATION] = "annotation",
		[EVENT_GPU_ANNOTATION] = "gpu_annotation",
		[EVENT_OP] = "op",
		[EVENT_PYTHON] = "python",
		[EVENT_COLLECTIVE] = "collective",
	};
	struct told *t = user;
	const struct comm_args *c = e->comm;
	char line[4096];
	int n;

	t->n[e->kind]++;
	t->sum_ns[e->kind] += e->duration_ns;
	if (e->kind == EVENT_KERNEL && c) {
		t->kernel_colls++;
		t->kernel_coll_ns += e->duration_ns;
	}
	n = snprintf(line, sizeof(line), "%s|%s|%" PRId64 "|%" PRId64, kinds[e->kind],
		     intern_get(&t->names, e->name), e->start_ns, e->duration_ns);
	if (e->kind <= EVENT_SET || e->kind == EVENT_GPU_ANNOTATION)
		n += snprintf(line + n, sizeof(line) - (size_t)n, "|gpu %u stream %" PRIu64,
			      e->device, e->thread);
	if (e->correlation)
		n += snprintf(line + n, sizeof(line) - (size_t)n, "|correlation %" PRIu64,
			      e->correlation);
	if (e->bytes)
		n += snprintf(line + n, sizeof(line) - (size_t)n, "|bytes %" PRIu64, e->bytes);
	if (e->blocks)
		n += snprintf(line + n, sizeof(line) - (size_t)n, "|blocks %" PRIu64, e->blocks);
	if (c)
		n += snprintf(line + n, sizeof(line) - (size_t)n,
			      "|%s group %s desc %s ranks %s dtype %s size %u seq %" PRId64
			      " in %" PRId64 " out %" PRId64 " peer %d self %d",
			      comm_op_name(c->op), intern_get(&t->names, c->group),
			      intern_get(&t->names, c->group_desc), intern_get(&t->names, c->ranks),
			      intern_get(&t->names, c->dtype), c->group_size, c->seq,
			      c->in_elements, c->out_elements, c->peer, c->self);
	buf_put(&t->lines, line, (size_t)n);
	buf_put(&t->lines, "\n", 1);
	return 0;
}

static inline int told_meta(void *user, const struct trace_meta *m)
{
	struct told *t = user;

	t->rank = m->rank;
	t->world_size = m->world_size;
	t->base_time_ns = m->base_time_ns;
	snprintf(t->host, sizeof(t->host), "%s", intern_get(&t->names, m->host));
	snprintf(t->backend, sizeof(t->backend), "%s", intern_get(&t->names, m->backend));
	snprintf(t->gpu_name, sizeof(t->gpu_name), "%s", intern_get(&t->names, m->gpu_name));
	snprintf(t->trace_id, sizeof(t->trace_id), "%s", intern_get(&t->names, m->trace_id));
	t->n_groups = m->n_groups;
	if (m->n_groups) {
		t->group = m->groups[0];
		for (uint32_t i = 0; i < m->groups[0].n_ranks && i < 16; i++)
			t->group_ranks[i] = m->groups[0].ranks[i];
	}
	return 0;
}

/* Reads a trace to its end; told_done frees what it gave. */
static inline void told_read(struct told *t, struct input *in, size_t window_bytes)
{
	struct kineto_options options = { .window_bytes = window_bytes };
	struct trace_sink sink = {
		.names = &t->names, .user = t, .event = told_event, .meta = told_meta
	};

	*t = (struct told){ .rank = -9 };
	t->status = kineto_read(in, &options, &sink, &t->stats, &t->error);
	buf_put(&t->lines, "", 1);
}

static inline void told_text(struct told *t, const char *text, size_t len)
{
	struct memory_source m = { .p = text, .len = len };
	struct input *in = input_of_source(memory_read, &m);

	told_read(t, in, 0);
	input_free(in);
}

static inline const char *told_lines(const struct told *t)
{
	return (const char *)t->lines.data;
}

static inline void told_done(struct told *t)
{
	intern_done(&t->names);
	buf_done(&t->lines);
}
