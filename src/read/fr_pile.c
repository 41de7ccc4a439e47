/* SPDX-License-Identifier: Apache-2.0 */
/* fr_pile.c - the stack of values, the containers on it, and what is let go once it was taken. */
#include "read/fr_pile.h"

static const char too_many[] = "more values than any dump has";
static const char no_mark[] = "an end without a beginning";
static const char no_container[] = "members without a container";

void fr_pile_init(struct fr_pile *p, fr_taker take, void *user)
{
	*p = (struct fr_pile){ .take = take, .user = user };
}

void fr_pile_done(struct fr_pile *p)
{
	free(p->stack.v);
	free(p->cells.v);
	free(p->objects.v);
	*p = (struct fr_pile){ 0 };
}

const char *fr_pile_push(struct fr_pile *p, struct fr_value v)
{
	if (p->stack.n >= FR_STACK_MAX)
		return too_many;
	*vec_push(&p->stack) = v;
	return NULL;
}

const char *fr_pile_begin(struct fr_pile *p, enum fr_shape shape)
{
	if (p->objects.n >= FR_CELLS_MAX)
		return too_many;
	*vec_push(&p->objects) =
	    (struct fr_object){ .shape = shape, .first = (uint32_t)p->cells.n };
	return fr_pile_push(
	    p, (struct fr_value){ .kind = FR_OBJECT, .ref = (uint32_t)p->objects.n - 1 });
}

const char *fr_pile_mark(struct fr_pile *p)
{
	if (p->n_marks >= FR_DEPTH_MAX)
		return "nested too deep";
	p->marks[p->n_marks++] = (uint32_t)p->stack.n;
	return NULL;
}

static struct fr_object *object_of(struct fr_pile *p, const struct fr_value *v)
{
	return v->kind == FR_OBJECT && v->ref < p->objects.n ? &p->objects.v[v->ref] : NULL;
}

const struct fr_value *fr_pile_cells(const struct fr_pile *p, const struct fr_value *v,
				     enum fr_shape shape, size_t *ret_n)
{
	const struct fr_object *o;

	*ret_n = 0;
	if (!v || v->kind != FR_OBJECT || v->ref >= p->objects.n)
		return NULL;
	o = &p->objects.v[v->ref];
	if (o->shape != shape || !o->n || (size_t)o->first + o->n > p->cells.n)
		return NULL;
	*ret_n = o->n;
	return &p->cells.v[o->first];
}

const struct fr_value *fr_pile_items(const struct fr_pile *p, const struct fr_value *v,
				     size_t *ret_n)
{
	const struct fr_value *items = fr_pile_cells(p, v, FR_LIST, ret_n);

	return items ? items : fr_pile_cells(p, v, FR_TUPLE, ret_n);
}

/* Room for n more cells of o at the end of its own; its cells move to the tail if need be. */
static const char *object_grow(struct fr_pile *p, struct fr_object *o, size_t n)
{
	size_t cap = MAX((size_t)o->n + n, 2 * (size_t)o->cap);

	if ((size_t)o->first + o->cap > p->cells.n) { /* a part that was let go since */
		o->first = (uint32_t)p->cells.n;
		o->n = o->cap = 0;
		cap = n;
	}
	if (o->cap - o->n >= n)
		return NULL;
	if (p->cells.n + cap > FR_CELLS_MAX)
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

static const char *object_add(struct fr_pile *p, struct fr_object *o, const struct fr_value *v,
			      size_t n)
{
	const char *bad = NULL;

	if (!o->cap && n &&
	    p->cells.n + n <= FR_CELLS_MAX) { /* filled at once, as nearly all are */
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
static void object_taken(struct fr_pile *p, uint32_t row)
{
	if (row >= p->kept) {
		p->cells.n = MIN(p->cells.n, (size_t)p->objects.v[row].first);
		p->objects.n = row;
	} else {
		p->objects.v[row] = (struct fr_object){ .shape = FR_TAKEN };
	}
}

/* Gives an ended dictionary to the taker; v, its value, may become FR_SPENT. */
static enum fr_take give(struct fr_pile *p, struct fr_value *v, const struct fr_value *pairs,
			 size_t n)
{
	uint32_t row = v->ref;
	enum fr_take taken = p->take(p->user, row, pairs, n);

	if (taken == FR_IS_TAKEN) {
		*v = fr_plain(FR_SPENT);
		object_taken(p, row);
	}
	return taken;
}

/* A dictionary that was filled piece by piece is given when it goes into a list. */
static inline void settle(struct fr_pile *p, struct fr_value *v)
{
	size_t n;
	const struct fr_value *pairs;

	if (v->ref >= p->objects.n || p->objects.v[v->ref].shape != FR_DICT)
		return;
	pairs = fr_pile_cells(p, v, FR_DICT, &n);

	if (pairs)
		give(p, v, pairs, n & ~(size_t)1);
}

static const char *pop_mark(struct fr_pile *p, size_t *ret)
{
	if (!p->n_marks)
		return no_mark;
	*ret = p->marks[--p->n_marks];
	return *ret > p->stack.n ? no_mark : NULL;
}

/* Members that are gone already are left out; dictionaries that nobody took yet are given. */
static size_t append_filter(struct fr_pile *p, size_t from)
{
	struct fr_value *v = p->stack.v;
	size_t kept = from;

	for (size_t i = from; i < p->stack.n; i++) {
		if (v[i].kind == FR_OBJECT)
			settle(p, &v[i]);
		if (v[i].kind != FR_SPENT)
			v[kept++] = v[i];
	}
	return kept - from;
}

static const char *append_from(struct fr_pile *p, size_t from)
{
	struct fr_value *v = p->stack.v;
	struct fr_object *o = from ? object_of(p, &v[from - 1]) : NULL;
	const char *bad = NULL;
	size_t n;

	if (!o)
		return from && v[from - 1].kind == FR_SPENT ? NULL : no_container;
	n = append_filter(p, from);
	o = object_of(p, &v[from - 1]);
	if (o && (o->shape == FR_LIST || o->shape == FR_TUPLE) && n)
		bad = object_add(p, o, &v[from], n);
	p->stack.n = from;
	return bad;
}

const char *fr_pile_append_marked(struct fr_pile *p)
{
	size_t from;
	const char *bad = pop_mark(p, &from);

	return bad ? bad : append_from(p, from);
}

const char *fr_pile_append(struct fr_pile *p)
{
	return p->stack.n < 2 ? no_container : append_from(p, p->stack.n - 1);
}

static const char *set_from(struct fr_pile *p, size_t from, bool whole)
{
	struct fr_value *v = p->stack.v;
	size_t n = (p->stack.n - from) & ~(size_t)1;
	const char *bad = NULL;
	struct fr_object *o;

	if (!from)
		return no_container;
	o = object_of(p, &v[from - 1]);
	if (!o && v[from - 1].kind != FR_SPENT)
		return no_container;
	if (o && o->shape == FR_DICT &&
	    (o->n || !whole || give(p, &v[from - 1], &v[from], n) == FR_PLAIN))
		bad = object_add(p, o, &v[from], n);
	p->stack.n = from;
	return bad;
}

const char *fr_pile_set_marked(struct fr_pile *p)
{
	size_t from;
	const char *bad = pop_mark(p, &from);

	return bad ? bad : set_from(p, from, true);
}

const char *fr_pile_set(struct fr_pile *p)
{
	return p->stack.n < 3 ? no_container : set_from(p, p->stack.n - 2, false);
}

const char *fr_pile_pack(struct fr_pile *p, enum fr_shape shape, size_t n)
{
	const char *bad;
	size_t from;

	if (n > p->stack.n)
		return "fewer values than a tuple needs";
	from = p->stack.n - n;
	if (p->objects.n >= FR_CELLS_MAX)
		return too_many;
	*vec_push(&p->objects) =
	    (struct fr_object){ .shape = shape, .first = (uint32_t)p->cells.n };
	bad = object_add(p, &p->objects.v[p->objects.n - 1], n ? &p->stack.v[from] : NULL, n);
	p->stack.n = from;
	return bad ? bad
		   : fr_pile_push(p, (struct fr_value){ .kind = FR_OBJECT,
							.ref = (uint32_t)p->objects.n - 1 });
}

const char *fr_pile_pack_marked(struct fr_pile *p, enum fr_shape shape)
{
	size_t from;
	const char *bad = pop_mark(p, &from);

	return bad ? bad : fr_pile_pack(p, shape, p->stack.n - from);
}

const char *fr_pile_pop(struct fr_pile *p)
{
	if (!p->stack.n)
		return "nothing to drop";
	p->stack.n--;
	return NULL;
}

const char *fr_pile_pop_marked(struct fr_pile *p)
{
	size_t from;
	const char *bad = pop_mark(p, &from);

	if (!bad)
		p->stack.n = from;
	return bad;
}

const struct fr_value *fr_pile_keep(struct fr_pile *p)
{
	const struct fr_value *v = p->stack.n ? &p->stack.v[p->stack.n - 1] : NULL;

	if (v && v->kind == FR_OBJECT)
		p->kept = MAX(p->kept, v->ref + 1);
	return v;
}

void fr_pile_end(struct fr_pile *p)
{
	if (!p->n_marks && p->stack.n)
		settle(p, &p->stack.v[p->stack.n - 1]);
	for (uint32_t i = 0; i < p->n_marks; i++) {
		size_t from = p->marks[i], to = i + 1 < p->n_marks ? p->marks[i + 1] : p->stack.n;
		size_t n;
		const struct fr_object *o;

		if (!from || from > to || to > p->stack.n)
			continue;
		o = object_of(p, &p->stack.v[from - 1]);
		n = (to - from) & ~(size_t)1;
		/* An entry that breaks off may lack its state: only what has no entry in it. */
		if (o && o->shape == FR_DICT)
			p->take(p->user, NO_ID, &p->stack.v[from], n);
	}
	p->n_marks = 0;
}

void fr_pile_frame(struct fr_pile *p, uint32_t object, const struct fr_value values[3])
{
	struct fr_object *o = object < p->objects.n ? &p->objects.v[object] : NULL;

	if (!o)
		return;
	o->n = 0;
	if (object_add(p, o, values, 3) == NULL)
		o->shape = FR_FRAME;
}
