/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pile.h - the values of a dump while it is being read, from pickle or JSON.
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
#include "base/buf.h"
#include "model/testimony.h"
#include "read/json_scan.h"

#define PILE_DEPTH_MAX	  64u	      /* containers inside each other */
#define PILE_STACK_MAX	  (1u << 22)  /* values on the stack: one for each entry of a ring */
#define PILE_CELLS_MAX	  (1u << 22)  /* values kept inside of containers */
#define PILE_MEMO_MAX	  (1u << 23)  /* values that a pickle names to repeat them */
#define PILE_STRING_MAX	  (1u << 20)  /* longer strings are dropped and counted */
#define PILE_IN_PLACE_MAX (64u << 10) /* longer ones are gathered piece by piece */
#define PILE_WINDOW_BYTES ((size_t)128 << 10)
#define PILE_TEXT_MAX	  (64ull << 20) /* of all strings of a dump together */

enum pile_kind {
	PILE_UNSET, /* a memo that was never put */
	PILE_NONE,
	PILE_BOOL,
	PILE_INT,
	PILE_FLOAT, /* n: the double's bits */
	PILE_STRING,
	PILE_OBJECT,
	PILE_SPENT,   /* a container that was taken already */
	PILE_UNKNOWN, /* a value beyond the limits */
};
struct pile_value {
	uint32_t kind, ref; /* enum pile_kind; string: its id, object: its row */
	int64_t n;
};

enum pile_shape { PILE_LIST, PILE_TUPLE, PILE_DICT, PILE_FRAME, PILE_TAKEN };
struct pile_object {
	uint32_t shape;
	uint32_t first, n, cap; /* in cells; a dictionary has two cells a member */
};

struct pile;
enum pile_take { PILE_PLAIN, PILE_IS_FRAME, PILE_IS_TAKEN };
/* A dictionary has ended: pairs[0..n) are keys and values. A frame's cells are for the taker to
   add (pile_frame). pairs are gone after the next push. */
typedef enum pile_take (*pile_taker)(void *user, uint32_t object, const struct pile_value *pairs,
				     size_t n);

struct pile {
	VEC(struct pile_value) stack;
	VEC(struct pile_value) cells;
	VEC(struct pile_object) objects;
	uint32_t marks[PILE_DEPTH_MAX];
	uint32_t n_marks;
	uint32_t kept; /* objects below this row are named in a memo and stay */
	pile_taker take;
	void *user;
};

void pile_init(struct pile *p, pile_taker take, void *user);
void pile_done(struct pile *p);

/* These give NULL, or in a few words what is wrong. */
const char *pile_push(struct pile *p, struct pile_value v);
const char *pile_begin(struct pile *p, enum pile_shape shape); /* an empty container */
const char *pile_mark(struct pile *p);
/* The values above the mark go to the container below it. */
const char *pile_append_marked(struct pile *p);
const char *pile_set_marked(struct pile *p);
/* The same with the last one, or the last two values, and no mark. */
const char *pile_append(struct pile *p);
const char *pile_set(struct pile *p);
/* The last n values, or those above the mark, become one container. */
const char *pile_pack(struct pile *p, enum pile_shape shape, size_t n);
const char *pile_pack_marked(struct pile *p, enum pile_shape shape);
const char *pile_pop(struct pile *p);
const char *pile_pop_marked(struct pile *p);
/* The value on top, to be named; its container stays from now on. NULL: the pile is empty. */
const struct pile_value *pile_keep(struct pile *p);
/* The text ended: gives every dictionary that is still open to the taker, the outermost first. */
void pile_close(struct pile *p);
void pile_clear(struct pile *p); /* empty again, its memory is kept */

/* For the taker: a frame's three values become its cells. */
void pile_frame(struct pile *p, uint32_t object, const struct pile_value values[3]);
/* What a container holds; 0 and NULL if v is none of that shape. Two cells a dictionary's member.
 */
const struct pile_value *pile_cells(const struct pile *p, const struct pile_value *v,
				    enum pile_shape shape, size_t *ret_n);
/* The same of a list or tuple. */
const struct pile_value *pile_items(const struct pile *p, const struct pile_value *v,
				    size_t *ret_n);

static inline struct pile_value pile_int(int64_t n)
{
	return (struct pile_value){ .kind = PILE_INT, .n = n };
}
static inline struct pile_value pile_string(uint32_t id)
{
	return (struct pile_value){ .kind = PILE_STRING, .ref = id };
}
static inline struct pile_value pile_plain(enum pile_kind kind)
{
	return (struct pile_value){ .kind = kind };
}

/* --- dictionaries by the keys that a reader knows --- */

/* A reader's words are the first strings of its testimony's names: their ids count from 0. */
#define PILE_WORDS_MAX 64u
struct pile_slots {
	uint64_t seen;
	const struct pile_value *at[PILE_WORDS_MAX]; /* only where seen */
};
static inline const struct pile_value *pile_slot(const struct pile_slots *s, uint32_t word)
{
	return s->seen >> word & 1 ? s->at[word] : NULL;
}
static inline void pile_slot_set(struct pile_slots *s, uint32_t word, const struct pile_value *v)
{
	s->seen |= (uint64_t)1 << word;
	s->at[word] = v;
}
void pile_slots_of(const struct pile_value *pairs, size_t n, uint32_t n_words,
		   struct pile_slots *slots);
/* The string's id; NO_ID if v is none. */
static inline uint32_t pile_id(const struct pile_value *v)
{
	return v && v->kind == PILE_STRING ? v->ref : NO_ID;
}

/* --- a dump on its way onto the pile --- */

struct pile_reader {
	struct testimony *t; /* whose names the strings go to */
	struct read_stats *stats;
	struct pile pile;
	struct json_window window;
	struct buf text;     /* scratch */
	uint64_t text_bytes; /* of strings taken so far */
};
/* words: n_words of them, at most PILE_WORDS_MAX; t must have no names yet. */
void pile_reader_init(struct pile_reader *r, struct testimony *t, struct input *in,
		      struct read_stats *stats, const char *const *words, size_t n_words,
		      pile_taker take, void *user);
void pile_reader_done(struct pile_reader *r); /* t is the caller's */

/* A string's value: PILE_UNKNOWN and counted if it is beyond the limits. */
struct pile_value pile_text(struct pile_reader *r, const char *s, size_t len);
/* What a value says as a number: digits in a string too; `otherwise` if it is none. */
int64_t pile_number(const struct pile_reader *r, const struct pile_value *v, int64_t otherwise);

/* How the text of a dump came to its end. */
enum pile_end {
	PILE_WHOLE,
	PILE_CUT,     /* it ends in the middle */
	PILE_BROKEN,  /* it makes no sense from here on */
	PILE_REFUSED, /* a pickle that is more than data */
};
/* One JSON value from the window's place on; what is wrong goes to e, with its offset. */
enum pile_end pile_json_run(struct pile_reader *r, struct error *e);
