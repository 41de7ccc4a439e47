/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_codec.c - a step as bytes: varints in the order of docs/lks.md, each list delta coded.
 *
 * A decoder never trusts a count: one element takes at least one byte, so a count beyond the bytes
 * that are left is refused before anything is allocated for it.
 */
#include "model/step.h"

#include <endian.h>

#define NAME_LIMIT (UINT32_MAX - 1)

static void put_id(struct buf *out, uint32_t id)
{
	buf_put_varint(out, id == NO_ID ? 0 : (uint64_t)id + 1);
}

static uint32_t get_id(struct span *in)
{
	uint64_t v = span_varint(in);

	if (v > NAME_LIMIT) {
		in->bad = true;
		return NO_ID;
	}
	return v ? (uint32_t)(v - 1) : NO_ID;
}

static uint32_t get_u32(struct span *in)
{
	uint64_t v = span_varint(in);

	if (v > UINT32_MAX)
		in->bad = true;
	return (uint32_t)v;
}

/* Wrapping differences, so that any two int64 survive the trip. */
static int64_t minus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t plus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static void *get_list(struct span *in, struct arena *arena, size_t size, uint32_t *ret_n)
{
	uint64_t n = span_varint(in);

	if (n > span_left(in))
		in->bad = true;
	if (in->bad || !n) {
		*ret_n = 0;
		return NULL;
	}
	*ret_n = (uint32_t)n;
	return arena_alloc(arena, n * size);
}

/*
 * Where an element cannot reach beyond the end, however long its varints are, they are read without
 * a look at the end each time, from a span of its own that stays in registers.
 */
#define VARINT_MOST 10

#define INLINE static inline __attribute__((always_inline))

/* One of more than 8 bytes: what follows it; NULL: it does not end. */
static __attribute__((noinline)) const uint8_t *varint_longest(const uint8_t *p, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < VARINT_MOST; i++) {
		v |= (uint64_t)(p[i] & 0x7f) << 7 * i;
		if (!(p[i] & 0x80)) {
			*ret = v;
			return p + i + 1;
		}
	}
	return NULL;
}

INLINE uint64_t varint_roomy(struct span *in)
{
	uint64_t word, more;
	unsigned n;

	memcpy(&word, in->p, sizeof(word));
	word = le64toh(word);
	more = ~word & 0x8080808080808080u; /* the first one ends it */
	if (more & 0x80) {
		in->p++;
		return word & 0x7f;
	}
	if (!more) {
		const uint8_t *next = varint_longest(in->p, &word);

		in->bad |= !next;
		in->p = next ? next : in->p + VARINT_MOST; /* never beyond the room */
		return next ? word : 0;
	}
	n = (unsigned)__builtin_ctzll(more) / 8 + 1;
	in->p += n;
	word &= 0x7f7f7f7f7f7f7f7fu >> (64 - 8 * n);
	word = (word & 0x007f007f007f007fu) | (word & 0x7f007f007f007f00u) >> 1;
	word = (word & 0x00003fff00003fffu) | (word & 0x3fff00003fff0000u) >> 2;
	return (word & 0x000000000fffffffu) | (word & 0x0fffffff00000000u) >> 4;
}

INLINE uint64_t take_varint(struct span *in, bool roomy)
{
	return roomy ? varint_roomy(in) : span_varint(in);
}

INLINE int64_t take_signed(struct span *in, bool roomy)
{
	uint64_t v = take_varint(in, roomy);

	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

INLINE uint32_t take_u32(struct span *in, bool roomy)
{
	uint64_t v = take_varint(in, roomy);

	if (v > UINT32_MAX)
		in->bad = true;
	return (uint32_t)v;
}

INLINE uint32_t take_id(struct span *in, bool roomy)
{
	uint64_t v = take_varint(in, roomy);

	if (v > NAME_LIMIT)
		in->bad = true;
	return v && v <= NAME_LIMIT ? (uint32_t)(v - 1) : NO_ID;
}

/* An element of at most `most` bytes by take(in, roomy, ...), which must be inlined. */
#define TAKE(in, most, take, ...)                                                                  \
	do {                                                                                       \
		if (span_left(in) >= (most)) {                                                     \
			struct span own = *(in);                                                   \
			take(&own, true, __VA_ARGS__);                                             \
			*(in) = own;                                                               \
		} else {                                                                           \
			take(in, false, __VA_ARGS__);                                              \
		}                                                                                  \
	} while (0)

static void put_hist(struct buf *out, const struct hist *h)
{
	uint16_t last = 0;

	buf_put_varint(out, h->n);
	for (uint32_t i = 0; i < h->n; i++) {
		buf_put_varint(out, (uint16_t)(h->bins[i].bin - last));
		buf_put_varint(out, h->bins[i].count);
		last = h->bins[i].bin;
	}
}

INLINE void take_bin(struct span *in, bool roomy, struct hist_bin *bin, uint16_t last, bool first)
{
	uint64_t step = take_varint(in, roomy);

	if (step > UINT16_MAX || last + step > UINT16_MAX || (!first && !step))
		in->bad = true;
	bin->bin = (uint16_t)(last + step);
	bin->count = take_u32(in, roomy);
}

static void get_hist(struct span *in, struct arena *arena, struct hist *h)
{
	uint16_t last = 0;

	h->bins = get_list(in, arena, sizeof(*h->bins), &h->n);
	h->count = 0;
	for (uint32_t i = 0; i < h->n && !in->bad; i++) {
		TAKE(in, 2 * VARINT_MOST, take_bin, &h->bins[i], last, !i);
		last = h->bins[i].bin;
		h->count += h->bins[i].count;
	}
}

static void put_phases(struct buf *out, const struct step *s)
{
	int64_t last = 0;

	buf_put_varint(out, s->n_phases);
	for (uint32_t i = 0; i < s->n_phases; i++) {
		const struct step_phase *p = &s->phases[i];

		put_id(out, p->name);
		buf_put_varint(out, p->count);
		buf_put_signed(out, minus(p->first_start_ns, last));
		buf_put_signed(out, minus(p->last_end_ns, p->first_start_ns));
		buf_put_signed(out, p->total_ns);
		buf_put_signed(out,
			       p->count == 1 ? minus(p->longest_ns, p->total_ns) : p->longest_ns);
		buf_put_signed(out, p->exposed_ns);
		buf_put_signed(out, p->gpu_ns);
		last = p->first_start_ns;
	}
}

INLINE void take_phase(struct span *in, bool roomy, struct step_phase *p, int64_t last)
{
	p->name = take_id(in, roomy);
	p->count = take_u32(in, roomy);
	p->first_start_ns = plus(take_signed(in, roomy), last);
	p->last_end_ns = plus(take_signed(in, roomy), p->first_start_ns);
	p->total_ns = take_signed(in, roomy);
	p->longest_ns = take_signed(in, roomy);
	if (p->count == 1)
		p->longest_ns = plus(p->longest_ns, p->total_ns);
	p->exposed_ns = take_signed(in, roomy);
	p->gpu_ns = take_signed(in, roomy);
}

static void get_phases(struct span *in, struct arena *arena, struct step *s)
{
	int64_t last = 0;

	s->phases = get_list(in, arena, sizeof(*s->phases), &s->n_phases);
	for (uint32_t i = 0; i < s->n_phases && !in->bad; i++) {
		TAKE(in, 8 * VARINT_MOST, take_phase, &s->phases[i], last);
		last = s->phases[i].first_start_ns;
	}
}

static void put_kernels(struct buf *out, const struct step *s)
{
	buf_put_varint(out, s->n_kernels);
	for (uint32_t i = 0; i < s->n_kernels; i++) {
		const struct step_kernel *k = &s->kernels[i];

		put_id(out, k->name);
		buf_put_varint(out, k->stream_class);
		buf_put_varint(out, k->count);
		buf_put_signed(out, k->sum_ns);
		buf_put_signed(out, k->count == 1 ? minus(k->max_ns, k->sum_ns) : k->max_ns);
		put_hist(out, &k->hist);
	}
}

INLINE void take_kernel(struct span *in, bool roomy, struct step_kernel *k)
{
	k->name = take_id(in, roomy);
	k->stream_class = take_u32(in, roomy);
	k->count = take_u32(in, roomy);
	k->sum_ns = take_signed(in, roomy);
	k->max_ns = take_signed(in, roomy);
	if (k->count == 1)
		k->max_ns = plus(k->max_ns, k->sum_ns);
}

static void get_kernels(struct span *in, struct arena *arena, struct step *s)
{
	s->kernels = get_list(in, arena, sizeof(*s->kernels), &s->n_kernels);
	for (uint32_t i = 0; i < s->n_kernels && !in->bad; i++) {
		TAKE(in, 5 * VARINT_MOST, take_kernel, &s->kernels[i]);
		get_hist(in, arena, &s->kernels[i].hist);
	}
}

/* Behind all else, and not there where nothing is known. */
static void put_blocks(struct buf *out, const struct step *s)
{
	uint64_t any = 0;

	for (uint32_t i = 0; i < s->n_kernels; i++)
		any |= s->kernels[i].blocks;
	for (uint32_t i = 0; any && i < s->n_kernels; i++)
		buf_put_varint(out, s->kernels[i].blocks);
}

static void get_blocks(struct span *in, struct step *s)
{
	if (in->bad || !span_left(in))
		return;
	for (uint32_t i = 0; i < s->n_kernels && !in->bad; i++)
		s->kernels[i].blocks = span_varint(in);
}

static void put_comms(struct buf *out, const struct step *s)
{
	buf_put_varint(out, s->n_comms);
	for (uint32_t i = 0; i < s->n_comms; i++) {
		const struct step_comm *c = &s->comms[i];

		put_id(out, c->group);
		buf_put_varint(out, (uint64_t)c->op);
		buf_put_varint(out, c->count);
		buf_put_signed(out, c->first_seq);
		buf_put_signed(out, minus(c->last_seq, c->first_seq));
		buf_put_varint(out, c->bytes);
		buf_put_signed(out, c->sum_ns);
		buf_put_signed(out, c->min_ns);
		buf_put_signed(out, c->max_ns);
		buf_put(out, &c->order_hash, sizeof(c->order_hash));
	}
}

INLINE void take_comm(struct span *in, bool roomy, struct step_comm *c)
{
	const uint8_t *hash;
	uint64_t op;

	c->group = take_id(in, roomy);
	op = take_varint(in, roomy);
	c->op = op < COMM_OPS ? (enum comm_op)op : COMM_OTHER;
	c->count = take_u32(in, roomy);
	c->first_seq = take_signed(in, roomy);
	c->last_seq = plus(take_signed(in, roomy), c->first_seq);
	c->bytes = take_varint(in, roomy);
	c->sum_ns = take_signed(in, roomy);
	c->min_ns = take_signed(in, roomy);
	c->max_ns = take_signed(in, roomy);
	if (roomy) {
		memcpy(&c->order_hash, in->p, sizeof(c->order_hash));
		in->p += sizeof(c->order_hash);
		return;
	}
	hash = span_bytes(in, sizeof(c->order_hash));
	if (hash)
		memcpy(&c->order_hash, hash, sizeof(c->order_hash));
}

static void get_comms(struct span *in, struct arena *arena, struct step *s)
{
	s->comms = get_list(in, arena, sizeof(*s->comms), &s->n_comms);
	for (uint32_t i = 0; i < s->n_comms && !in->bad; i++)
		TAKE(in, 9 * VARINT_MOST + sizeof(uint64_t), take_comm, &s->comms[i]);
}

/* Which fields are there, and which follow from others. */
enum {
	COLL_SEQ = 1,
	COLL_PEER = 2,
	COLL_CALL = 4,
	COLL_NEED = 8,
	COLL_BYTES = 16,
	COLL_EXPOSED = 32, /* all of its duration was */
	COLL_OWN = 64,	   /* the own clock stood still for the one before, and ran else */
	COLL_SHARE = 128,  /* its bytes are an equal share of its row's */
};

/* What each collective is less. */
struct coll_base {
	int64_t start, own, seq, exposed;
};

static int64_t own_expected(const struct coll_base *base, int64_t start)
{
	return minus(plus(base->own, minus(start, base->start)), base->exposed);
}

static uint64_t share_of(const struct step *s, uint32_t comm)
{
	const struct step_comm *row = comm < s->n_comms ? &s->comms[comm] : NULL;

	return row && row->count ? row->bytes / row->count : 0;
}

static uint8_t coll_has(const struct step_coll *c, const struct step *s,
			const struct coll_base *base)
{
	bool share = c->bytes && c->bytes == share_of(s, c->comm);

	return (uint8_t)((c->seq != -1 ? COLL_SEQ : 0) | (c->peer != -1 ? COLL_PEER : 0) |
			 (c->call_ns != INT64_MIN ? COLL_CALL : 0) |
			 (c->own_need_ns != -1 ? COLL_NEED : 0) |
			 (c->bytes && !share ? COLL_BYTES : 0) | (share ? COLL_SHARE : 0) |
			 (c->exposed_ns == minus(c->end_ns, c->start_ns) ? COLL_EXPOSED : 0) |
			 (c->own_arrive_ns == own_expected(base, c->start_ns) ? COLL_OWN : 0));
}

static void put_colls(struct buf *out, const struct step *s)
{
	struct coll_base base = { 0 };

	buf_put_varint(out, s->n_colls);
	for (uint32_t i = 0; i < s->n_colls; i++) {
		const struct step_coll *c = &s->colls[i];
		uint8_t has = coll_has(c, s, &base);

		buf_put_varint(out, c->comm);
		buf_put(out, &has, 1);
		buf_put_signed(out, minus(c->start_ns, base.start));
		buf_put_signed(out, minus(c->end_ns, c->start_ns));
		if (!(has & COLL_OWN))
			buf_put_signed(out, minus(c->own_arrive_ns, base.own));
		if (!(has & COLL_EXPOSED))
			buf_put_signed(out, c->exposed_ns);
		if (has & COLL_SEQ)
			buf_put_signed(out, minus(c->seq, base.seq));
		if (has & COLL_PEER)
			buf_put_signed(out, c->peer);
		if (has & COLL_CALL)
			buf_put_signed(out, minus(c->start_ns, c->call_ns));
		if (has & COLL_NEED)
			buf_put_signed(out, minus(c->own_need_ns, c->own_arrive_ns));
		if (has & COLL_BYTES)
			buf_put_varint(out, c->bytes);
		base.start = c->start_ns;
		base.own = c->own_arrive_ns;
		base.exposed = c->exposed_ns;
		if (has & COLL_SEQ)
			base.seq = c->seq;
	}
}

INLINE void take_coll(struct span *in, bool roomy, const struct step *s, struct step_coll *c,
		      struct coll_base *base)
{
	int64_t start;
	uint8_t has;

	c->comm = take_u32(in, roomy);
	has = roomy ? *in->p++ : span_u8(in);
	c->start_ns = start = plus(take_signed(in, roomy), base->start);
	c->end_ns = plus(take_signed(in, roomy), start);
	c->own_arrive_ns =
	    has & COLL_OWN ? own_expected(base, start) : plus(take_signed(in, roomy), base->own);
	c->exposed_ns = has & COLL_EXPOSED ? minus(c->end_ns, start) : take_signed(in, roomy);
	base->start = start;
	base->own = c->own_arrive_ns;
	base->exposed = c->exposed_ns;
	c->seq = c->own_need_ns = -1;
	c->peer = -1;
	c->call_ns = INT64_MIN;
	if (has & COLL_SEQ)
		c->seq = base->seq = plus(take_signed(in, roomy), base->seq);
	if (has & COLL_PEER) {
		int64_t peer = take_signed(in, roomy);

		if (peer < INT32_MIN || peer > INT32_MAX)
			in->bad = true;
		c->peer = (int32_t)peer;
	}
	if (has & COLL_CALL)
		c->call_ns = minus(c->start_ns, take_signed(in, roomy));
	if (has & COLL_NEED)
		c->own_need_ns = plus(take_signed(in, roomy), c->own_arrive_ns);
	if (has & COLL_BYTES)
		c->bytes = take_varint(in, roomy);
	if (c->comm >= s->n_comms)
		in->bad = true;
	else if (has & COLL_SHARE)
		c->bytes = share_of(s, c->comm);
}

static void get_colls(struct span *in, struct arena *arena, struct step *s)
{
	struct coll_base base = { 0 };

	s->colls = get_list(in, arena, sizeof(*s->colls), &s->n_colls);
	for (uint32_t i = 0; i < s->n_colls && !in->bad; i++)
		TAKE(in, 10 * VARINT_MOST + 1, take_coll, s, &s->colls[i], &base);
}

/* The plain times of a step in the order in which they lie in the record, in front of the parts of
   its own time. New ones go to the end of the record, not here. */
static const size_t times[] = {
	offsetof(struct step, start_ns),
	offsetof(struct step, mark_ns),
	offsetof(struct step, wall_ns),
	offsetof(struct step, own_ns),
	offsetof(struct step, longest_stall_ns),
	offsetof(struct step, longest_stall_at_ns),
	offsetof(struct step, compute_ns),
	offsetof(struct step, comm_ns),
	offsetof(struct step, copy_ns),
	offsetof(struct step, comm_exposed_ns),
	offsetof(struct step, launch_delay_p50_ns),
	offsetof(struct step, launch_delay_p99_ns),
	offsetof(struct step, gc_ns),
	offsetof(struct step, data_wait_ns),
	offsetof(struct step, sync_ns),
};

static void put_times(struct buf *out, const struct step *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(times); i++)
		buf_put_signed(out, *(const int64_t *)((const char *)s + times[i]));
	for (size_t i = 0; i < OWN_PARTS; i++)
		buf_put_signed(out, s->own[i]);
	for (size_t i = 0; i < HOST_DETAILS; i++)
		buf_put_signed(out, s->host_detail_ns[i]);
}

INLINE void take_times(struct span *in, bool roomy, struct step *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(times); i++)
		*(int64_t *)((char *)s + times[i]) = take_signed(in, roomy);
	for (size_t i = 0; i < OWN_PARTS; i++)
		s->own[i] = take_signed(in, roomy);
	for (size_t i = 0; i < HOST_DETAILS; i++)
		s->host_detail_ns[i] = take_signed(in, roomy);
}

void step_encode(struct buf *out, const struct step *step)
{
	buf_put_varint(out, step->number);
	buf_put_varint(out, step->rank_row);
	buf_put_varint(out, step->flags);
	put_times(out, step);
	put_id(out, step->host_what);
	buf_put_varint(out, step->tokens);
	buf_put_varint(out, step->dropped);
	put_phases(out, step);
	put_kernels(out, step);
	put_comms(out, step);
	put_colls(out, step);
	put_blocks(out, step);
}

bool step_peek(struct span in, struct step *ret)
{
	struct step s = { 0 };

	s.number = span_varint(&in);
	s.rank_row = get_u32(&in);
	s.flags = get_u32(&in);
	s.start_ns = span_signed(&in);
	if (in.bad)
		return false;
	*ret = s;
	return true;
}

int step_decode(struct span *in, struct arena *arena, struct step *ret, struct error *reterr)
{
	struct step s = { 0 };

	s.number = span_varint(in);
	s.rank_row = get_u32(in);
	s.flags = get_u32(in);
	TAKE(in, (ARRAY_SIZE(times) + OWN_PARTS + HOST_DETAILS) * VARINT_MOST, take_times, &s);
	s.host_what = get_id(in);
	s.tokens = span_varint(in);
	s.dropped = span_varint(in);
	get_phases(in, arena, &s);
	get_kernels(in, arena, &s);
	get_comms(in, arena, &s);
	get_colls(in, arena, &s);
	get_blocks(in, &s);
	if (in->bad)
		return error_set(reterr, -EBADMSG, "a step record is damaged or cut short");
	*ret = s;
	return 0;
}

enum { INFO_CPU_JOB = 1 << 0, INFO_LANE = 1 << 1 };

void rank_info_encode(struct buf *out, const struct rank_info *info)
{
	uint8_t flags =
	    (uint8_t)((info->cpu_job ? INFO_CPU_JOB : 0) | (info->lane ? INFO_LANE : 0));

	buf_put_signed(out, info->rank);
	buf_put_varint(out, info->unknown);
	buf_put_signed(out, info->world_size);
	put_id(out, info->host);
	put_id(out, info->gpu_name);
	put_id(out, info->backend);
	buf_put_signed(out, info->gpu_index);
	buf_put(out, &flags, 1);
	buf_put_varint(out, info->kernels);
	buf_put_varint(out, info->collectives);
	buf_put_signed(out, info->kernel_ns);
	buf_put_signed(out, info->collective_ns);
	buf_put_signed(out, info->first_ns);
	buf_put_signed(out, minus(info->last_ns, info->first_ns));
	buf_put_varint(out, info->n_groups);
	for (uint32_t i = 0; i < info->n_groups; i++) {
		const struct rank_group *g = &info->groups[i];
		uint32_t last = 0;

		put_id(out, g->name);
		put_id(out, g->desc);
		buf_put_varint(out, g->size);
		buf_put_varint(out, g->ranks ? (uint64_t)g->n_ranks + 1 : 0);
		for (uint32_t k = 0; g->ranks && k < g->n_ranks; k++) {
			buf_put_varint(out, g->ranks[k] - last);
			last = g->ranks[k];
		}
	}
	if (info->lane)
		buf_put_varint(out, info->folds);
}

static void get_members(struct span *in, struct arena *arena, struct rank_group *g)
{
	uint64_t n = span_varint(in), last = 0;

	if (!n)
		return;
	n--;
	if (n > span_left(in)) {
		in->bad = true;
		return;
	}
	g->ranks = arena_alloc(arena, n * sizeof(*g->ranks));
	g->n_ranks = (uint32_t)n;
	for (uint64_t k = 0; k < n; k++) {
		uint64_t step = span_varint(in);

		if (step > UINT32_MAX || last + step > UINT32_MAX)
			in->bad = true;
		last = (uint32_t)(last + step);
		g->ranks[k] = (uint32_t)last;
	}
}

int rank_info_decode(struct span *in, struct arena *arena, struct rank_info *ret,
		     struct error *reterr)
{
	struct rank_info r = { 0 };
	uint8_t flags;
	int64_t gpu;

	r.rank = span_signed(in);
	r.unknown = get_u32(in);
	r.world_size = span_signed(in);
	r.host = get_id(in);
	r.gpu_name = get_id(in);
	r.backend = get_id(in);
	gpu = span_signed(in);
	r.gpu_index = gpu >= -1 && gpu <= INT32_MAX ? (int32_t)gpu : -1;
	flags = span_u8(in);
	r.cpu_job = flags & INFO_CPU_JOB;
	r.lane = flags & INFO_LANE;
	r.kernels = span_varint(in);
	r.collectives = span_varint(in);
	r.kernel_ns = span_signed(in);
	r.collective_ns = span_signed(in);
	r.first_ns = span_signed(in);
	r.last_ns = plus(span_signed(in), r.first_ns);
	r.groups = get_list(in, arena, sizeof(*r.groups), &r.n_groups);
	for (uint32_t i = 0; i < r.n_groups && !in->bad; i++) {
		struct rank_group *g = &r.groups[i];

		g->name = get_id(in);
		g->desc = get_id(in);
		g->size = get_u32(in);
		get_members(in, arena, g);
	}
	if (r.lane)
		r.folds = get_u32(in);
	if (in->bad)
		return error_set(reterr, -EBADMSG, "the head of a rank is damaged or cut short");
	*ret = r;
	return 0;
}
