/* SPDX-License-Identifier: Apache-2.0 */
/* pile.c - the stack of values, the containers on it, and what is let go once it was taken. */
#include "read/pile.h"

static const char too_many[] = "more values than any dump has";
static const char no_mark[] = "an end without a beginning";
static const char no_container[] = "members without a container";

void pile_init(struct pile *p, pile_taker take, void *user)
{
	*p = (struct pile){ .take = take, .user = user };
}

void pile_done(struct pile *p)
{
	free(p->stack.v);
	free(p->cells.v);
	free(p->objects.v);
	*p = (struct pile){ 0 };
}

const char *pile_push(struct pile *p, struct pile_value v)
{
	if (p->stack.n >= PILE_STACK_MAX)
		return too_many;
	*vec_push(&p->stack) = v;
	return NULL;
}

const char *pile_begin(struct pile *p, enum pile_shape shape)
{
	if (p->objects.n >= PILE_CELLS_MAX)
		return too_many;
	*vec_push(&p->objects) =
	    (struct pile_object){ .shape = shape, .first = (uint32_t)p->cells.n };
	return pile_push(
	    p, (struct pile_value){ .kind = PILE_OBJECT, .ref = (uint32_t)p->objects.n - 1 });
}

const char *pile_mark(struct pile *p)
{
	if (p->n_marks >= PILE_DEPTH_MAX)
		return "nested too deep";
	p->marks[p->n_marks++] = (uint32_t)p->stack.n;
	return NULL;
}

static struct pile_object *object_of(struct pile *p, const struct pile_value *v)
{
	return v->kind == PILE_OBJECT && v->ref < p->objects.n ? &p->objects.v[v->ref] : NULL;
}

const struct pile_value *pile_cells(const struct pile *p, const struct pile_value *v,
				    enum pile_shape shape, size_t *ret_n)
{
	const struct pile_object *o;

	*ret_n = 0;
	if (!v || v->kind != PILE_OBJECT || v->ref >= p->objects.n)
		return NULL;
	o = &p->objects.v[v->ref];
	if (o->shape != shape || !o->n || (size_t)o->first + o->n > p->cells.n)
		return NULL;
	*ret_n = o->n;
	return &p->cells.v[o->first];
}

const struct pile_value *pile_items(const struct pile *p, const struct pile_value *v, size_t *ret_n)
{
	const struct pile_value *items = pile_cells(p, v, PILE_LIST, ret_n);

	return items ? items : pile_cells(p, v, PILE_TUPLE, ret_n);
}

/* Room for n more cells of o at the end of its own; its cells move to the tail if need be. */
static const char *object_grow(struct pile *p, struct pile_object *o, size_t n)
{
	size_t cap = MAX((size_t)o->n + n, 2 * (size_t)o->cap);

	if ((size_t)o->first + o->cap > p->cells.n) { /* a part that was let go since */
		o->first = (uint32_t)p->cells.n;
		o->n = o->cap = 0;
		cap = n;
	}
	if (o->cap - o->n >= n)
		return NULL;
	if (p->cells.n + cap > PILE_CELLS_MAX)
		return too_many;
	if ((size_t)o->first + o->cap == p->cells.n) {
		cap = MAX((size_t)o->n + n, (size_t)o->cap);
		vec_grow(&p->cells, cap - o->cap);
		p->cells.n += cap - o->cap;
	} else {
		vec_grow(&p->cells, cap);
		memcpy(&p->cells.v[p->cells.n], &p->cells.v[o->first], o->n * sizeof(*p->cells.v));
		o->first = (uint32_t)p->cells.n;
		p->cells.n += cap;
	}
	/* Cells that nobody filled yet are no values. */
	memset(&p->cells.v[o->first + o->n], 0, (cap - o->n) * sizeof(*p->cells.v));
	o->cap = (uint32_t)cap;
	return NULL;
}

static const char *object_add(struct pile *p, struct pile_object *o, const struct pile_value *v,
			      size_t n)
{
	const char *bad = NULL;

	if (!o->cap && n &&
	    p->cells.n + n <= PILE_CELLS_MAX) { /* filled at once, as nearly all are */
		vec_grow(&p->cells, n);
		o->first = (uint32_t)p->cells.n;
		o->cap = (uint32_t)n;
		p->cells.n += n;
	} else {
		bad = object_grow(p, o, n);
	}
	if (bad || !n)
		return bad;
	memcpy(&p->cells.v[o->first + o->n], v, n * sizeof(*v));
	o->n += (uint32_t)n;
	return NULL;
}

/* A container was taken: unless something newer is named in a memo, all that was read since it
   began goes with it. */
static void object_taken(struct pile *p, uint32_t row)
{
	if (row >= p->kept) {
		p->cells.n = MIN(p->cells.n, (size_t)p->objects.v[row].first);
		p->objects.n = row;
	} else {
		p->objects.v[row] = (struct pile_object){ .shape = PILE_TAKEN };
	}
}

/* Gives an ended dictionary to the taker; v, its value, may become PILE_SPENT. */
static enum pile_take give(struct pile *p, struct pile_value *v, const struct pile_value *pairs,
			   size_t n)
{
	uint32_t row = v->ref;
	enum pile_take taken = p->take(p->user, row, pairs, n);

	if (taken == PILE_IS_TAKEN) {
		*v = pile_plain(PILE_SPENT);
		object_taken(p, row);
	}
	return taken;
}

/* A dictionary that was filled piece by piece is given when it goes into a list. */
static inline void settle(struct pile *p, struct pile_value *v)
{
	size_t n;
	const struct pile_value *pairs;

	if (v->ref >= p->objects.n || p->objects.v[v->ref].shape != PILE_DICT)
		return;
	pairs = pile_cells(p, v, PILE_DICT, &n);

	if (pairs)
		give(p, v, pairs, n & ~(size_t)1);
}

static const char *pop_mark(struct pile *p, size_t *ret)
{
	if (!p->n_marks)
		return no_mark;
	*ret = p->marks[--p->n_marks];
	return *ret > p->stack.n ? no_mark : NULL;
}

/* Members that are gone already are left out; dictionaries that nobody took yet are given. */
static size_t append_filter(struct pile *p, size_t from)
{
	struct pile_value *v = p->stack.v;
	size_t kept = from;

	for (size_t i = from; i < p->stack.n; i++) {
		if (v[i].kind == PILE_OBJECT)
			settle(p, &v[i]);
		if (v[i].kind != PILE_SPENT)
			v[kept++] = v[i];
	}
	return kept - from;
}

static const char *append_from(struct pile *p, size_t from)
{
	struct pile_value *v = p->stack.v;
	struct pile_object *o = from ? object_of(p, &v[from - 1]) : NULL;
	const char *bad = NULL;
	size_t n;

	if (!o)
		return from && v[from - 1].kind == PILE_SPENT ? NULL : no_container;
	n = append_filter(p, from);
	o = object_of(p, &v[from - 1]);
	if (o && (o->shape == PILE_LIST || o->shape == PILE_TUPLE) && n)
		bad = object_add(p, o, &v[from], n);
	p->stack.n = from;
	return bad;
}

const char *pile_append_marked(struct pile *p)
{
	size_t from;
	const char *bad = pop_mark(p, &from);

	return bad ? bad : append_from(p, from);
}

const char *pile_append(struct pile *p)
{
	return p->stack.n < 2 ? no_container : append_from(p, p->stack.n - 1);
}

static const char *set_from(struct pile *p, size_t from, bool whole)
{
	struct pile_value *v = p->stack.v;
	size_t n = (p->stack.n - from) & ~(size_t)1;
	const char *bad = NULL;
	struct pile_object *o;

	if (!from)
		return no_container;
	o = object_of(p, &v[from - 1]);
	if (!o && v[from - 1].kind != PILE_SPENT)
		return no_container;
	if (o && o->shape == PILE_DICT &&
	    (o->n || !whole || give(p, &v[from - 1], &v[from], n) == PILE_PLAIN))
		bad = object_add(p, o, &v[from], n);
	p->stack.n = from;
	return bad;
}

const char *pile_set_marked(struct pile *p)
{
	size_t from;
	const char *bad = pop_mark(p, &from);

	return bad ? bad : set_from(p, from, true);
}

const char *pile_set(struct pile *p)
{
	return p->stack.n < 3 ? no_container : set_from(p, p->stack.n - 2, false);
}

const char *pile_pack(struct pile *p, enum pile_shape shape, size_t n)
{
	const char *bad;
	size_t from;

	if (n > p->stack.n)
		return "fewer values than a tuple needs";
	from = p->stack.n - n;
	if (p->objects.n >= PILE_CELLS_MAX)
		return too_many;
	*vec_push(&p->objects) =
	    (struct pile_object){ .shape = shape, .first = (uint32_t)p->cells.n };
	bad = object_add(p, &p->objects.v[p->objects.n - 1], n ? &p->stack.v[from] : NULL, n);
	p->stack.n = from;
	return bad ? bad
		   : pile_push(p, (struct pile_value){ .kind = PILE_OBJECT,
						       .ref = (uint32_t)p->objects.n - 1 });
}

const char *pile_pack_marked(struct pile *p, enum pile_shape shape)
{
	size_t from;
	const char *bad = pop_mark(p, &from);

	return bad ? bad : pile_pack(p, shape, p->stack.n - from);
}

const char *pile_pop(struct pile *p)
{
	if (!p->stack.n)
		return "nothing to drop";
	p->stack.n--;
	return NULL;
}

const char *pile_pop_marked(struct pile *p)
{
	size_t from;
	const char *bad = pop_mark(p, &from);

	if (!bad)
		p->stack.n = from;
	return bad;
}

const struct pile_value *pile_keep(struct pile *p)
{
	const struct pile_value *v = p->stack.n ? &p->stack.v[p->stack.n - 1] : NULL;

	if (v && v->kind == PILE_OBJECT)
		p->kept = MAX(p->kept, v->ref + 1);
	return v;
}

void pile_close(struct pile *p)
{
	if (!p->n_marks && p->stack.n)
		settle(p, &p->stack.v[p->stack.n - 1]);
	for (uint32_t i = 0; i < p->n_marks; i++) {
		size_t from = p->marks[i], to = i + 1 < p->n_marks ? p->marks[i + 1] : p->stack.n;
		size_t n;
		const struct pile_object *o;

		if (!from || from > to || to > p->stack.n)
			continue;
		o = object_of(p, &p->stack.v[from - 1]);
		n = (to - from) & ~(size_t)1;
		/* An entry that breaks off may lack its state: only what has no entry in it. */
		if (o && o->shape == PILE_DICT)
			p->take(p->user, NO_ID, &p->stack.v[from], n);
	}
	p->n_marks = 0;
}

void pile_clear(struct pile *p)
{
	p->stack.n = p->cells.n = p->objects.n = 0;
	p->n_marks = p->kept = 0;
}

void pile_frame(struct pile *p, uint32_t object, const struct pile_value values[3])
{
	struct pile_object *o = object < p->objects.n ? &p->objects.v[object] : NULL;

	if (!o)
		return;
	o->n = 0;
	if (object_add(p, o, values, 3) == NULL)
		o->shape = PILE_FRAME;
}

/* --- dictionaries and strings --- */

void pile_slots_of(const struct pile_value *pairs, size_t n, uint32_t n_words,
		   struct pile_slots *slots)
{
	slots->seen = 0;
	for (size_t i = 0; i + 1 < n; i += 2)
		if (pairs[i].kind == PILE_STRING && pairs[i].ref < n_words)
			pile_slot_set(slots, pairs[i].ref, &pairs[i + 1]);
}

void pile_reader_init(struct pile_reader *r, struct testimony *t, struct input *in,
		      struct read_stats *stats, const char *const *words, size_t n_words,
		      pile_taker take, void *user)
{
	*r = (struct pile_reader){ .t = t, .stats = stats };
	for (size_t i = 0; i < n_words; i++)
		intern_str(&t->names, words[i]);
	json_window_init(&r->window, in, PILE_WINDOW_BYTES);
	pile_init(&r->pile, take, user);
}

void pile_reader_done(struct pile_reader *r)
{
	pile_done(&r->pile);
	json_window_done(&r->window);
	buf_done(&r->text);
}

struct pile_value pile_text(struct pile_reader *r, const char *s, size_t len)
{
	uint32_t before = r->t->names.n, id;

	if (len > PILE_STRING_MAX || r->text_bytes > PILE_TEXT_MAX) {
		r->stats->skipped[SKIP_TOO_LONG]++;
		return pile_plain(PILE_UNKNOWN);
	}
	id = intern(&r->t->names, s, len);
	if (r->t->names.n != before)
		r->text_bytes += len + 1;
	return pile_string(id);
}

int64_t pile_number(const struct pile_reader *r, const struct pile_value *v, int64_t otherwise)
{
	double d;
	char *end;
	const char *s;
	long long n;

	if (!v)
		return otherwise;
	if (v->kind == PILE_INT || v->kind == PILE_BOOL)
		return v->n;
	if (v->kind == PILE_FLOAT) {
		memcpy(&d, &v->n, sizeof(d));
		return d > -9e18 && d < 9e18 ? (int64_t)d : otherwise;
	}
	if (v->kind != PILE_STRING)
		return otherwise;
	s = intern_get(&r->t->names, v->ref);
	errno = 0;
	n = strtoll(s, &end, 10);
	return *s && !*end && !errno ? n : otherwise;
}
