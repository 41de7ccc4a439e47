/* SPDX-License-Identifier: Apache-2.0 */
/* testimony_text.h - what a reader of dumps gave, as lines of text: for comparing. */
#pragma once
#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "model/testimony.h"

static inline const char *text_of(const struct testimony *t, uint32_t id)
{
	return id == NO_ID ? "-" : intern_get(&t->names, id);
}

PRINTF_LIKE(2, 3)
static inline void put_line(struct buf *b, const char *format, ...)
{
	char line[16384];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	buf_put(b, line, MIN((size_t)n, sizeof(line) - 1));
}

static inline void put_entry(struct buf *b, const struct testimony *t, const struct op_entry *e,
			     bool frames)
{
	const struct signature *s = &t->signatures.v[e->signature];
	const struct op_group *g = &t->groups.v[e->group];

	put_line(b, "entry %s/%s #%" PRId64 " op %" PRId64 " record %" PRId64 " %s=%s",
		 text_of(t, g->name), text_of(t, g->desc), e->seq, e->op_id, e->record,
		 text_of(t, s->name), comm_op_name(s->op));
	put_line(b, " %s=%" PRId64 " %s -> %s=%" PRId64 " %s", text_of(t, s->in_sizes),
		 s->in_elements, text_of(t, s->in_dtypes), text_of(t, s->out_sizes),
		 s->out_elements, text_of(t, s->out_dtypes));
	put_line(b,
		 " %d->%d state %d retired %d p2p %d timeout %" PRId64 " at %" PRId64 " %" PRId64
		 " %" PRId64 "\n",
		 s->source, s->target, e->state, e->retired, e->p2p, e->timeout_ms, e->created_ns,
		 e->started_ns, e->completed_ns);
	if (frames && e->frames != NO_ID)
		put_line(b, "frames %s\n", text_of(t, e->frames));
}

static inline void put_count(struct buf *b, const struct testimony *t, const struct comm_count *c)
{
	const struct op_group *g = &t->groups.v[c->group];

	put_line(b, "count %s/%" PRId64 " rank %" PRId64 " host %s pid %" PRId64 " gpu %" PRId64,
		 text_of(t, g->name), g->size, c->rank, text_of(t, c->host), c->pid, c->gpu);
	for (unsigned op = 0; op < COMM_OPS; op++)
		if (c->counts[op] >= 0)
			put_line(b, " %s=%" PRId64, comm_op_name(op), c->counts[op]);
	put_line(b, "%s%s%s%s%s%s\n", c->missing ? " missing" : "",
		 c->unresponsive ? " unresponsive" : "", c->dead ? " dead" : "",
		 c->failed ? " failed" : "", c->finalized ? " finalized" : "",
		 c->aborted ? " aborted" : "");
}

static inline void testimony_text(struct buf *b, const struct testimony *t, bool frames)
{
	put_line(b,
		 "rank %" PRId64 " host %s world %" PRId64 " time %" PRId64
		 " version %d.%d dropped %" PRIu64 "\n",
		 t->rank, text_of(t, t->host), t->world_size, t->time_ns, t->version_major,
		 t->version_minor, t->dropped);
	for (size_t i = 0; i < t->groups.n; i++)
		if (t->groups.v[i].ranks != NO_ID)
			put_line(b, "group %s/%s %s\n", text_of(t, t->groups.v[i].name),
				 text_of(t, t->groups.v[i].desc), text_of(t, t->groups.v[i].ranks));
	for (size_t i = 0; i < t->status.n; i++)
		put_line(b, "status %s of %" PRId64 ": %" PRId64 " %" PRId64 " %" PRId64 "\n",
			 text_of(t, t->groups.v[t->status.v[i].group].name), t->status.v[i].rank,
			 t->status.v[i].enqueued, t->status.v[i].started, t->status.v[i].completed);
	for (size_t i = 0; i < t->entries.n; i++)
		put_entry(b, t, &t->entries.v[i], frames);
	for (size_t i = 0; i < t->counts.n; i++)
		put_count(b, t, &t->counts.v[i]);
	for (size_t i = 0; i < t->sayings.n; i++)
		put_line(b, "saying %s host %s pid %" PRId64 " at %" PRId64 ": %s\n",
			 saying_name(t->sayings.v[i].kind), text_of(t, t->sayings.v[i].host),
			 t->sayings.v[i].pid, t->sayings.v[i].time_ns,
			 text_of(t, t->sayings.v[i].text));
	buf_put(b, "", 1);
}
