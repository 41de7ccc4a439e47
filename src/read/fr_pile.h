/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fr_pile.h - the values of a Flight Recorder dump while they are being read, from pickle or JSON.
 *
 * Both spell the same tree, as pushes onto a stack: begin a dictionary, its keys and values, end
 * it. A dictionary that the taker knows (an entry of the ring, a stack frame, the header) is given
 * to it as it ends and is gone afterwards; only what nobody knew is kept as a value. So memory
 * follows one entry, not the dump.
 *
 * Values are numbers: a string is its id in the testimony's names, a container a row of objects.
 * The invariant: whatever the bytes were, an id or row that is read back is checked against what
 * is there now, and nothing ever walks deeper than it knows how deep the thing should be; so
 * containers that hold themselves do no harm.
 */
#pragma once
#include "base/intern.h"

#define FR_DEPTH_MAX  64u	    /* containers inside each other */
#define FR_STACK_MAX  (1u << 22)    /* values on the stack: one for each entry of a ring */
#define FR_CELLS_MAX  (1u << 22)    /* values kept inside of containers */
#define FR_MEMO_MAX   (1u << 23)    /* values that a pickle names to repeat them */
#define FR_STRING_MAX (64u << 10)   /* longer strings are dropped and counted */
#define FR_TEXT_MAX   (64ull << 20) /* of all strings of a dump together */

enum fr_kind {
	FR_UNSET, /* a memo that was never put */
	FR_NONE,
	FR_BOOL,
	FR_INT,
	FR_FLOAT, /* n: the double's bits */
	FR_STRING,
	FR_OBJECT,
	FR_SPENT,   /* a container that was taken already */
	FR_UNKNOWN, /* a value beyond the limits */
};
struct fr_value {
	uint32_t kind, ref; /* enum fr_kind; string: its id, object: its row */
	int64_t n;
};

enum fr_shape { FR_LIST, FR_TUPLE, FR_DICT, FR_FRAME, FR_TAKEN };
struct fr_object {
	uint32_t shape;
	uint32_t first, n, cap; /* in cells; a dictionary has two cells a member */
};

struct fr_pile;
enum fr_take { FR_PLAIN, FR_IS_FRAME, FR_IS_TAKEN };
/* A dictionary has ended: pairs[0..n) are keys and values. A frame's cells are for the taker to
   add (fr_pile_frame). pairs are gone after the next push. */
typedef enum fr_take (*fr_taker)(void *user, uint32_t object, const struct fr_value *pairs,
				 size_t n);

struct fr_pile {
	VEC(struct fr_value) stack;
	VEC(struct fr_value) cells;
	VEC(struct fr_object) objects;
	uint32_t marks[FR_DEPTH_MAX];
	uint32_t n_marks;
	uint32_t kept; /* objects below this row are named in a memo and stay */
	fr_taker take;
	void *user;
};

void fr_pile_init(struct fr_pile *p, fr_taker take, void *user);
void fr_pile_done(struct fr_pile *p);

/* These give NULL, or in a few words what is wrong. */
const char *fr_pile_push(struct fr_pile *p, struct fr_value v);
const char *fr_pile_begin(struct fr_pile *p, enum fr_shape shape); /* an empty container */
const char *fr_pile_mark(struct fr_pile *p);
/* The values above the mark go to the container below it. */
const char *fr_pile_append_marked(struct fr_pile *p);
const char *fr_pile_set_marked(struct fr_pile *p);
/* The same with the last one, or the last two values, and no mark. */
const char *fr_pile_append(struct fr_pile *p);
const char *fr_pile_set(struct fr_pile *p);
/* The last n values, or those above the mark, become one container. */
const char *fr_pile_pack(struct fr_pile *p, enum fr_shape shape, size_t n);
const char *fr_pile_pack_marked(struct fr_pile *p, enum fr_shape shape);
const char *fr_pile_pop(struct fr_pile *p);
const char *fr_pile_pop_marked(struct fr_pile *p);
/* The value on top, to be named; its container stays from now on. NULL: the pile is empty. */
const struct fr_value *fr_pile_keep(struct fr_pile *p);
/* The text ended: gives every dictionary that is still open to the taker, the outermost first. */
void fr_pile_end(struct fr_pile *p);

/* For the taker: a frame's three values become its cells. */
void fr_pile_frame(struct fr_pile *p, uint32_t object, const struct fr_value values[3]);
/* What a container holds; 0 and NULL if v is none of that shape. Two cells a dictionary's member.
 */
const struct fr_value *fr_pile_cells(const struct fr_pile *p, const struct fr_value *v,
				     enum fr_shape shape, size_t *ret_n);
/* The same of a list or tuple. */
const struct fr_value *fr_pile_items(const struct fr_pile *p, const struct fr_value *v,
				     size_t *ret_n);

static inline struct fr_value fr_int(int64_t n)
{
	return (struct fr_value){ .kind = FR_INT, .n = n };
}
static inline struct fr_value fr_string(uint32_t id)
{
	return (struct fr_value){ .kind = FR_STRING, .ref = id };
}
static inline struct fr_value fr_plain(enum fr_kind kind)
{
	return (struct fr_value){ .kind = kind };
}
