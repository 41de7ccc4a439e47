/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comms.c - the collectives of a step: rows of (group, operation, bytes), and each one with the own
 * time at which the rank arrived and at which it began to need the result.
 */
#include "fold/inside.h"

static unsigned dtype_bytes(const char *name)
{
	static const struct {
		const char *name;
		unsigned bytes;
	} sizes[] = {
		{ "Float", 4 },		{ "BFloat16", 2 },	{ "Half", 2 },
		{ "Double", 8 },	{ "Int", 4 },		{ "Long", 8 },
		{ "Byte", 1 },		{ "Char", 1 },		{ "Bool", 1 },
		{ "Short", 2 },		{ "float", 4 },		{ "double", 8 },
		{ "c10::BFloat16", 2 }, { "c10::Half", 2 },	{ "int", 4 },
		{ "long int", 8 },	{ "long", 8 },		{ "bool", 1 },
		{ "signed char", 1 },	{ "unsigned char", 1 }, { "short int", 2 },
		{ "Float8_e4m3fn", 1 }, { "Float8_e5m2", 1 },	{ "ComplexFloat", 8 },
		{ "UInt32", 4 },	{ "UInt64", 8 },	{ "c10::complex<float>", 8 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		if (!strcmp(sizes[i].name, name))
			return sizes[i].bytes;
	return 0;
}

/* The larger side of the operation: members of an all-gather and of a reduce-scatter agree on it.
 */
static uint64_t bytes_of(const struct fold *f, const struct comm_args *a)
{
	int64_t n = MAX(a->in_elements, a->out_elements);
	unsigned size = a->dtype == NO_ID ? 0 : dtype_bytes(intern_get(&f->names, a->dtype));

	return n > 0 && n < (int64_t)1 << 56 ? (uint64_t)n * size : 0;
}

struct comm_rows {
	uint32_t *slots;
	uint32_t mask;
};

/* Until the last collective was counted a row's bytes are those of one. */
static uint32_t row_of(struct step *s, struct comm_rows *rows, uint32_t group, enum comm_op op,
		       uint64_t bytes)
{
	uint32_t i = (uint32_t)hash_mix(hash_mix(group, (uint64_t)op), bytes) & rows->mask;
	struct step_comm *c;

	for (; rows->slots[i]; i = (i + 1) & rows->mask) {
		c = &s->comms[rows->slots[i] - 1];
		if (c->group == group && c->op == op && c->bytes == bytes)
			return rows->slots[i] - 1;
	}
	s->comms[s->n_comms] = (struct step_comm){
		.group = group,
		.op = op,
		.bytes = bytes,
		.first_seq = -1,
		.last_seq = -1,
		.min_ns = INT64_MAX,
	};
	rows->slots[i] = s->n_comms + 1;
	return s->n_comms++;
}

static void row_count(struct step_comm *row, const struct step_coll *coll)
{
	int64_t length = coll->end_ns - coll->start_ns;

	row->count++;
	row->sum_ns += length;
	row->min_ns = MIN(row->min_ns, length);
	row->max_ns = MAX(row->max_ns, length);
	if (coll->seq >= 0) {
		row->first_seq = row->first_seq < 0 ? coll->seq : MIN(row->first_seq, coll->seq);
		row->last_seq = MAX(row->last_seq, coll->seq);
	}
	row->order_hash = hash_mix(hash_mix(row->order_hash, (uint64_t)row->op), coll->bytes);
}

/* A collective of the step itself. */
static bool is_own(const struct closing *c, const struct work *w)
{
	return w >= c->work->v && w < c->work->v + c->work->n && work_is_coll(w);
}

static struct step_coll coll_of(const struct closing *c, size_t i)
{
	const struct work *w = c->waits.v[i];
	bool call = w->kind == ITEM_GLOO && w->launch != TIME_UNKNOWN;

	return (struct step_coll){
		.seq = w->seq ? (int64_t)w->seq - 1 : -1,
		.peer = c->f->comms[w->comm].peer,
		.start_ns = w->start - c->begin,
		.end_ns = w->end - c->begin,
		.call_ns = w->launch == TIME_UNKNOWN ? INT64_MIN : w->launch - c->begin,
		.own_arrive_ns = clock_own_at(c, call ? w->launch : w->start),
		.own_need_ns = c->exposure.v[i].need_ns,
		.exposed_ns = c->exposure.v[i].exposed_ns,
	};
}

void comms_step(struct closing *c)
{
	struct step *s = &c->step;
	struct comm_rows rows = { .mask = 63 };
	size_t n = 0;

	for (size_t i = 0; i < c->waits.n; i++)
		n += is_own(c, c->waits.v[i]);
	if (!n)
		return;
	while (rows.mask < n * 2)
		rows.mask = rows.mask * 2 + 1;
	rows.slots = xcalloc(rows.mask + 1, sizeof(*rows.slots));
	s->comms = arena_alloc(&c->arena, n * sizeof(*s->comms));
	s->colls = arena_alloc(&c->arena, n * sizeof(*s->colls));
	for (size_t i = 0; i < c->waits.n; i++) {
		const struct work *w = c->waits.v[i];
		const struct comm_args *args;
		struct step_coll *coll;

		if (!is_own(c, w))
			continue;
		args = &c->f->comms[w->comm];
		coll = &s->colls[s->n_colls++];
		*coll = coll_of(c, i);
		coll->bytes = bytes_of(c->f, args);
		coll->comm =
		    row_of(s, &rows, groups_of(c->groups, c->f, w->comm), args->op, coll->bytes);
		row_count(&s->comms[coll->comm], coll);
	}
	for (uint32_t i = 0; i < s->n_comms; i++)
		s->comms[i].bytes *= s->comms[i].count;
	free(rows.slots);
}
