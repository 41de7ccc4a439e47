/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fr_entry.c - one entry of the ring: which operation, of which group, with what, and how far.
 *
 * Sizes become one canonical text, whatever list or tuple held them, so that ranks can be compared
 * by it; their elements are summed over all tensors.
 */
#include <inttypes.h>
#include <stdio.h>

#include "read/fr_inside.h"

/* --- what was called --- */

/* Digits at *p, moved behind them; -1: none. */
static int32_t small_number(const char **p)
{
	const char *s = *p;
	int64_t n = 0;

	while (*s >= '0' && *s <= '9' && n < INT32_MAX)
		n = n * 10 + (*s++ - '0');
	if (s == *p || n > INT32_MAX)
		return -1;
	*p = s;
	return (int32_t)n;
}

/* The ranks of "send 1->2" and "recv 3<-0", which count within the group. */
static void op_peers(const char *name, struct fr_op *o)
{
	const char *p = strchr(name, ' ');
	int32_t first, second;
	bool forth;

	if (!p)
		return;
	p++;
	first = small_number(&p);
	if (first < 0 || (strncmp(p, "->", 2) && strncmp(p, "<-", 2)))
		return;
	forth = *p == '-';
	p += 2;
	second = small_number(&p);
	if (second < 0)
		return;
	o->source = forth ? first : second;
	o->target = forth ? second : first;
}

static const struct fr_op *op_of(struct fr *f, uint32_t name)
{
	struct fr_op *o = &f->ops[name % FR_OPS_CACHED];
	const char *s, *colon;

	if (o->op && o->name == name)
		return o;
	s = intern_get(&f->r.t->names, name);
	*o = (struct fr_op){ .name = name, .source = -1, .target = -1 };
	o->op = comm_op_of(s, strlen(s));
	colon = strrchr(s, ':');
	if ((o->op == COMM_NONE || o->op == COMM_OTHER) && colon) /* a backend that is new */
		o->op = comm_op_of(colon + 1, strlen(colon + 1));
	if (o->op == COMM_NONE)
		o->op = COMM_OTHER; /* nothing else is recorded */
	if (o->op == COMM_SEND || o->op == COMM_RECV)
		op_peers(s, o);
	return o;
}

/* --- sizes --- */

static void put_text(struct buf *b, const char *s, size_t len)
{
	if (b->len + len <= FR_SIZES_MAX)
		buf_put(b, s, len);
}

static void put_number(struct buf *b, int64_t n)
{
	char digits[24];
	size_t at = sizeof(digits);
	uint64_t u = n < 0 ? -(uint64_t)n : (uint64_t)n;

	do
		digits[--at] = (char)('0' + u % 10);
	while (u /= 10);
	if (n < 0)
		digits[--at] = '-';
	put_text(b, digits + at, sizeof(digits) - at);
}

/* "[8, 32]"; returns the elements, -1 if they cannot be told. */
static int64_t put_shape(struct fr *f, const struct pile_value *dims, size_t n)
{
	int64_t elements = 1;

	if (!fr_may_walk(f, n))
		return -1;
	put_text(&f->r.text, "[", 1);
	for (size_t i = 0; i < n; i++) {
		int64_t d = pile_number(&f->r, &dims[i], -1);

		put_text(&f->r.text, ", ", i ? 2 : 0);
		put_number(&f->r.text, d);
		if (d < 0 || elements < 0 || __builtin_mul_overflow(elements, d, &elements))
			elements = -1;
	}
	put_text(&f->r.text, "]", 1);
	return elements;
}

/* "[[8, 32], [4]]" of a list of tensors. */
static uint32_t sizes_of(struct fr *f, const struct pile_value *v, int64_t *ret_elements)
{
	int64_t sum = 0;
	size_t n;
	const struct pile_value *items = pile_items(&f->r.pile, v, &n);

	*ret_elements = -1;
	if (!v || v->kind != PILE_OBJECT || !fr_may_walk(f, n))
		return NO_ID;
	f->r.text.len = 0;
	if (n && items[0].kind == PILE_INT) { /* one tensor without a list around it */
		put_text(&f->r.text, "[", 1);
		sum = put_shape(f, items, n);
		put_text(&f->r.text, "]", 1);
	} else {
		put_text(&f->r.text, "[", 1);
		for (size_t i = 0; i < n; i++) {
			size_t n_dims;
			const struct pile_value *dims = pile_items(&f->r.pile, &items[i], &n_dims);
			int64_t elements;

			put_text(&f->r.text, ", ", i ? 2 : 0);
			elements = put_shape(f, dims, n_dims);
			if (elements < 0 || sum < 0 || __builtin_add_overflow(sum, elements, &sum))
				sum = -1;
		}
		put_text(&f->r.text, "]", 1);
	}
	*ret_elements = sum;
	return intern(&f->r.t->names, (const char *)f->r.text.data, f->r.text.len);
}

/* "Float, Float" of a list of names. */
static uint32_t dtypes_of(struct fr *f, const struct pile_value *v)
{
	size_t n;
	const struct pile_value *items = pile_items(&f->r.pile, v, &n);

	if (v && v->kind == PILE_STRING)
		return v->ref;
	if (!v || v->kind != PILE_OBJECT || !fr_may_walk(f, n))
		return NO_ID;
	if (n == 1 && items[0].kind == PILE_STRING)
		return items[0].ref;
	f->r.text.len = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t id = items[i].kind == PILE_STRING ? items[i].ref : NO_ID;

		put_text(&f->r.text, ", ", i ? 2 : 0);
		put_text(&f->r.text, intern_get(&f->r.t->names, id),
			 intern_len(&f->r.t->names, id));
	}
	return intern(&f->r.t->names, (const char *)f->r.text.data, f->r.text.len);
}

/* --- signatures, most of which were seen before --- */

/* A list as words: its length, then its members. False: it is no list of these, or a long one. */
static bool making_list(const struct fr *f, const struct pile_value *v, enum pile_kind leaf,
			struct fr_making *m)
{
	size_t n;
	const struct pile_value *items = pile_items(&f->r.pile, v, &n);

	if (!v || v->kind != PILE_OBJECT || !fr_making_add(m, (int64_t)n))
		return false;
	for (size_t i = 0; i < n; i++)
		if (items[i].kind != (uint32_t)leaf ||
		    !fr_making_add(m, leaf == PILE_INT ? items[i].n : items[i].ref))
			return false;
	return true;
}

static bool making_sizes(const struct fr *f, const struct pile_value *v, struct fr_making *m)
{
	size_t n;
	const struct pile_value *items = pile_items(&f->r.pile, v, &n);

	if (!v || v->kind != PILE_OBJECT || !fr_making_add(m, (int64_t)n))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!making_list(f, &items[i], PILE_INT, m))
			return false;
	return true;
}

static uint32_t signature_new(struct fr *f, const struct fr_op *op, const struct pile_slots *slots)
{
	const struct pile_value *p2p = pile_slot(slots, FR_KEY_IS_P2P);
	struct signature s = signature_unknown();

	s.op = op->op;
	/* "coalesced" closes a batch of sends and receives, or of collectives. */
	if (s.op == COMM_SEND_RECV && p2p && !pile_number(&f->r, p2p, 0))
		s.op = COMM_OTHER;
	s.name = op->name;
	s.source = op->source;
	s.target = op->target;
	s.in_sizes = sizes_of(f, pile_slot(slots, FR_KEY_INPUT_SIZES), &s.in_elements);
	s.out_sizes = sizes_of(f, pile_slot(slots, FR_KEY_OUTPUT_SIZES), &s.out_elements);
	s.in_dtypes = dtypes_of(f, pile_slot(slots, FR_KEY_INPUT_DTYPES));
	s.out_dtypes = dtypes_of(f, pile_slot(slots, FR_KEY_OUTPUT_DTYPES));
	return testimony_signature(f->r.t, &s);
}

static uint32_t making_slot(const struct fr_making *m)
{
	uint64_t h = 0;

	for (uint32_t i = 0; i < m->n; i++)
		h = (h ^ (uint64_t)m->words[i]) * 0x9fb21c651e98df25u;
	return (uint32_t)(h >> 32) % FR_MAKINGS_CACHED;
}

uint32_t fr_making_find(const struct fr *f, const struct fr_making *m)
{
	const struct fr_making *seen = &f->makings[making_slot(m)];

	if (seen->n != m->n || memcmp(seen->words, m->words, m->n * sizeof(*m->words)) != 0)
		return NO_ID;
	return seen->row;
}

static uint32_t signature_of(struct fr *f, const struct fr_op *op, const struct pile_slots *slots)
{
	struct fr_making m = { .n = 0 };

	if (!making_sizes(f, pile_slot(slots, FR_KEY_INPUT_SIZES), &m) ||
	    !making_list(f, pile_slot(slots, FR_KEY_INPUT_DTYPES), PILE_STRING, &m) ||
	    !making_sizes(f, pile_slot(slots, FR_KEY_OUTPUT_SIZES), &m) ||
	    !making_list(f, pile_slot(slots, FR_KEY_OUTPUT_DTYPES), PILE_STRING, &m) ||
	    !fr_making_end(&m, op->name, pile_slot(slots, FR_KEY_IS_P2P)))
		return signature_new(f, op, slots);
	m.row = fr_making_find(f, &m);
	if (m.row == NO_ID) {
		m.row = signature_new(f, op, slots);
		f->makings[making_slot(&m)] = m;
	}
	return m.row;
}

/* --- in which group --- */

uint32_t fr_group_find(const struct fr *f, int64_t pg_id, uint32_t name, uint32_t desc)
{
	uint32_t row;

	if ((uint64_t)pg_id >= f->group_of_pg.n || !f->group_of_pg.v[pg_id])
		return NO_ID;
	row = f->group_of_pg.v[pg_id] - 1;
	return f->r.t->groups.v[row].name == name && f->r.t->groups.v[row].desc == desc ? row
											: NO_ID;
}

static uint32_t group_of(struct fr *f, const struct pile_slots *slots)
{
	int64_t pg_id = pile_number(&f->r, pile_slot(slots, FR_KEY_PG_ID), -1);
	uint32_t name = pile_id(pile_slot(slots, FR_KEY_PG_NAME)),
		 desc = pile_id(pile_slot(slots, FR_KEY_PG_DESC)), row;
	size_t n;
	const struct pile_value *pair =
	    pile_items(&f->r.pile, pile_slot(slots, FR_KEY_PROCESS_GROUP), &n);

	if (n) {
		name = pile_id(&pair[0]);
		desc = n > 1 ? pile_id(&pair[1]) : NO_ID;
	} else if (pile_id(pile_slot(slots, FR_KEY_PROCESS_GROUP)) != NO_ID) {
		name = pile_id(pile_slot(slots, FR_KEY_PROCESS_GROUP));
	} else if (name == NO_ID && pg_id >= 0) { /* versions before groups had names */
		char text[24];
		int len = snprintf(text, sizeof(text), "%" PRId64, pg_id);

		name = intern(&f->r.t->names, text, (size_t)len);
	}
	row = fr_group_find(f, pg_id, name, desc);
	if (row != NO_ID)
		return row;
	row = testimony_group(f->r.t, name, desc);
	if (pg_id >= 0 && pg_id < FR_GROUPS_MAX) {
		while (f->group_of_pg.n <= (size_t)pg_id)
			*vec_push(&f->group_of_pg) = 0;
		f->group_of_pg.v[pg_id] = row + 1;
	}
	return row;
}

/* --- where in the program --- */

static void frames_of(struct fr *f, const struct pile_value *items, size_t n)
{
	size_t n_cells;

	f->n_frames = 0;
	for (size_t i = 0; i < n && f->n_frames < FR_FRAMES_MAX; i++) {
		const struct pile_value *c =
		    pile_cells(&f->r.pile, &items[i], PILE_FRAME, &n_cells);

		if (c && n_cells == 3)
			f->frames[f->n_frames++] =
			    (struct fr_frame){ pile_id(&c[0]), pile_id(&c[1]),
					       c[2].kind == PILE_INT ? c[2].n : -1 };
		else if (items[i].kind == PILE_STRING) /* written out by another tool */
			f->frames[f->n_frames++] = (struct fr_frame){ items[i].ref, NO_ID, -1 };
	}
}

uint32_t fr_frames_text(struct fr *f)
{
	const struct intern *names = &f->r.t->names;

	f->r.text.len = 0;
	for (uint32_t i = 0; i < f->n_frames; i++) {
		const struct fr_frame *fr = &f->frames[i];
		char line[32] = "";
		int len = fr->line >= 0 ? snprintf(line, sizeof(line), ":%" PRId64, fr->line) : 0;

		buf_put(&f->r.text, "\n", i ? 1 : 0);
		buf_put(&f->r.text, intern_get(names, fr->function),
			intern_len(names, fr->function));
		if (fr->file == NO_ID)
			continue;
		buf_put(&f->r.text, " (", 2);
		buf_put(&f->r.text, intern_get(names, fr->file), intern_len(names, fr->file));
		buf_put(&f->r.text, line, (size_t)len);
		buf_put(&f->r.text, ")", 1);
	}
	return f->n_frames ? intern(&f->r.t->names, (const char *)f->r.text.data, f->r.text.len)
			   : NO_ID;
}

/* --- the entry --- */

static enum op_state state_of(const struct pile_value *v)
{
	uint32_t id = pile_id(v);

	return id == FR_KEY_SCHEDULED	? OP_SCHEDULED
	       : id == FR_KEY_STARTED	? OP_STARTED
	       : id == FR_KEY_COMPLETED ? OP_COMPLETED
					: OP_STATE_UNKNOWN;
}

static int64_t time_of(struct fr *f, const struct pile_value *v)
{
	int64_t ns = pile_number(&f->r, v, -1);

	if (ns <= 0) /* JSON says 0 where the pickle says None */
		return -1;
	f->r.t->time_ns = MAX(f->r.t->time_ns, ns);
	return ns;
}

/* Point-to-point operations count apart; versions before 2.3 do not say which they are. */
static bool is_p2p(struct fr *f, const struct fr_op *op, const struct pile_slots *slots)
{
	if (pile_slot(slots, FR_KEY_IS_P2P))
		return pile_number(&f->r, pile_slot(slots, FR_KEY_IS_P2P), 0) != 0;
	return op->op == COMM_SEND || op->op == COMM_RECV;
}

static int64_t seq_of(struct fr *f, bool p2p, const struct pile_slots *slots)
{
	const struct pile_value *seq =
	    pile_slot(slots, p2p ? FR_KEY_P2P_SEQ_ID : FR_KEY_COLLECTIVE_SEQ_ID);

	return pile_number(&f->r, seq ? seq : pile_slot(slots, FR_KEY_SEQ_ID), -1);
}

/* On Gloo an operation is done when it is retired, whatever its state says. */
static bool is_done(const struct fr *f, const struct op_entry *e, uint32_t name)
{
	return e->state == OP_COMPLETED ||
	       (e->retired && !strncmp(intern_get(&f->r.t->names, name), "gloo:", 5));
}

bool fr_entry(struct fr *f, const struct pile_slots *slots, uint32_t group, uint32_t signature)
{
	const struct fr_op *op;
	struct op_entry e = { .frames = NO_ID };
	uint32_t name = pile_id(pile_slot(slots, FR_KEY_PROFILING_NAME));
	const struct pile_value *us = pile_slot(slots, FR_KEY_TIME_CREATED_US);

	f->r.stats->events++;
	if (f->r.t->entries.n >= FR_ENTRIES_MAX) {
		f->r.t->dropped++;
		return false;
	}
	if (name == NO_ID)
		name = intern_str(&f->r.t->names, "");
	op = op_of(f, name);
	e.p2p = is_p2p(f, op, slots);
	e.seq = seq_of(f, e.p2p, slots);
	e.op_id = pile_number(&f->r, pile_slot(slots, FR_KEY_OP_ID), -1);
	e.record = pile_number(&f->r, pile_slot(slots, FR_KEY_RECORD_ID), -1);
	e.created_ns = time_of(f, pile_slot(slots, FR_KEY_TIME_CREATED_NS));
	if (e.created_ns < 0 && us)
		e.created_ns = 1000 * (pile_number(&f->r, us, 0) % (INT64_MAX / 1000));
	e.started_ns = time_of(f, pile_slot(slots, FR_KEY_TIME_STARTED_NS));
	e.completed_ns = time_of(f, pile_slot(slots, FR_KEY_TIME_COMPLETED_NS));
	e.timeout_ms = pile_number(&f->r, pile_slot(slots, FR_KEY_TIMEOUT_MS), -1);
	e.state = (uint8_t)state_of(pile_slot(slots, FR_KEY_STATE));
	e.retired = pile_number(&f->r, pile_slot(slots, FR_KEY_RETIRED), 0) != 0;
	e.group = group != NO_ID ? group : group_of(f, slots);
	e.signature = signature != NO_ID ? signature : signature_of(f, op, slots);
	*vec_push(&f->r.t->entries) = e;
	return !is_done(f, &e, name);
}

/* Kept for an entry that is not done, at hand for one that is: it may be the last. */
void fr_entry_frames(struct fr *f, const struct pile_value *items, size_t n)
{
	frames_of(f, items, n);
	f->n_quick_frames = 0;
}
