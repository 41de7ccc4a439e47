/* SPDX-License-Identifier: Apache-2.0 */
/* rank_standing.c - the bytes of a standing. */
#include "model/rank_standing.h"

static void put_id(struct buf *out, uint32_t id)
{
	buf_put_varint(out, id == NO_ID ? 0 : (uint64_t)id + 1);
}

static uint32_t get_id(struct span *in)
{
	uint64_t v = span_varint(in);

	return v && v <= NO_ID ? (uint32_t)(v - 1) : NO_ID;
}

static void put_colls(struct buf *out, const struct standing_coll *c, uint32_t n, int64_t time_ns)
{
	buf_put_varint(out, n);
	for (uint32_t i = 0; i < n; i++) {
		put_id(out, c[i].group);
		buf_put_varint(out, (uint64_t)c[i].op);
		buf_put_signed(out, c[i].seq);
		buf_put_varint(out, c[i].bytes);
		buf_put_signed(out, (int64_t)((uint64_t)time_ns - (uint64_t)c[i].begin_ns));
	}
}

void rank_standing_encode(struct buf *out, const struct rank_standing *s)
{
	buf_put_varint(out, s->row);
	buf_put_signed(out, s->time_ns);
	buf_put_varint(out, (uint64_t)s->state);
	buf_put_signed(out, s->pid);
	buf_put_signed(out, s->step);
	buf_put_varint(out, s->n_open);
	for (uint32_t i = 0; i < s->n_open; i++) {
		put_id(out, s->open[i].name);
		buf_put_signed(out,
			       (int64_t)((uint64_t)s->time_ns - (uint64_t)s->open[i].begin_ns));
	}
	put_colls(out, s->pending, s->n_pending, s->time_ns);
	put_colls(out, s->done, s->n_done, s->time_ns);
}

static struct standing_coll *get_colls(struct span *in, struct arena *arena, uint64_t most,
				       int64_t time_ns, uint32_t *ret_n)
{
	uint64_t n = span_varint(in);
	struct standing_coll *c;

	if (n > most || n > span_left(in)) {
		in->bad = true;
		return NULL;
	}
	c = arena_alloc(arena, (n + 1) * sizeof(*c));
	for (uint64_t i = 0; i < n; i++) {
		uint64_t op;

		c[i].group = get_id(in);
		op = span_varint(in);
		c[i].op = op < COMM_OPS ? (enum comm_op)op : COMM_OTHER;
		c[i].seq = span_signed(in);
		if (c[i].seq < 0)
			c[i].seq = -1;
		c[i].bytes = span_varint(in);
		c[i].begin_ns = (int64_t)((uint64_t)time_ns - (uint64_t)span_signed(in));
	}
	*ret_n = (uint32_t)n;
	return c;
}

int rank_standing_decode(struct span *in, struct arena *arena, struct rank_standing *ret)
{
	struct rank_standing s = { .row = span_varint(in) };
	uint64_t state, n;

	s.time_ns = span_signed(in);
	state = span_varint(in);
	s.state = state < RANK_STATES ? (enum rank_state)state : RANK_LIVES;
	s.pid = span_signed(in);
	s.step = span_signed(in);
	n = span_varint(in);
	if (in->bad || n > STANDING_OPEN_MOST || n > span_left(in))
		return -EBADMSG;
	s.n_open = (uint32_t)n;
	s.open = arena_alloc(arena, (n + 1) * sizeof(*s.open));
	for (uint32_t i = 0; i < s.n_open; i++) {
		s.open[i].name = get_id(in);
		s.open[i].begin_ns = (int64_t)((uint64_t)s.time_ns - (uint64_t)span_signed(in));
	}
	s.pending = get_colls(in, arena, STANDING_PENDING_MOST, s.time_ns, &s.n_pending);
	if (!in->bad)
		s.done = get_colls(in, arena, STANDING_DONE_MOST, s.time_ns, &s.n_done);
	if (in->bad)
		return -EBADMSG;
	*ret = s;
	return 0;
}
