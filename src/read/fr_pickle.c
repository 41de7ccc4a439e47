/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fr_pickle.c - a pickle as what it is here: a list of pushes.
 *
 * Opcodes that make data are followed (protocols 2 to 5, as torch::jit's pickler and Python's write
 * them). Those that import, call, build, or fetch something from elsewhere end the reading, with
 * their name and place: no dump has them, and only a program could want them. There is no code here
 * that could do what they ask for.
 */
#include <stdio.h>

#include "read/fr_inside.h"

struct pickle {
	struct fr *f;
	struct json_window *w;
	VEC(struct pile_value) memo;
	uint32_t n_memos; /* that were put */
	uint64_t start;	  /* where the opcode stands */
	uint64_t needed;  /* bytes that the text ended short of */
	bool stopped;
};

#define MEMO_GAP_MAX 4096u

static const char cut[] = "the dump ends in the middle";

/* --- reading --- */

static inline uint64_t little(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | p[n];
	return v;
}

/* Passes over bytes that are not wanted, however many. */
static const char *pass(struct pickle *p, uint64_t len)
{
	while (len) {
		size_t n = MIN(json_window_need(p->w, 1), len);

		if (!n)
			return cut;
		p->w->p += n;
		len -= n;
	}
	return NULL;
}

static const char *push(struct pickle *p, struct pile_value v)
{
	return pile_push(&p->f->r.pile, v);
}

/* Members of a large group are written as one string that no window holds. */
static const char *push_long_text(struct pickle *p, uint64_t len)
{
	struct buf *b = &p->f->r.text;

	b->len = 0;
	for (uint64_t left = len; left;) {
		size_t n = MIN(json_window_need(p->w, 1), left);

		if (!n)
			return cut;
		if (len <= PILE_STRING_MAX)
			buf_put(b, p->w->p, n);
		p->w->p += n;
		left -= n;
	}
	return push(p, pile_text(&p->f->r, (const char *)b->data, len));
}

static const char *push_text(struct pickle *p, uint64_t len)
{
	struct pile_value v;

	if (len > PILE_IN_PLACE_MAX)
		return push_long_text(p, len);
	if (json_window_need(p->w, len) < len)
		return cut;
	v = pile_text(&p->f->r, p->w->p, len);
	p->w->p += len;
	return push(p, v);
}

/* --- the memo --- */

static const char *memo_put(struct pickle *p, uint64_t at)
{
	const struct pile_value *v = pile_keep(&p->f->r.pile);

	/* Picklers number what they name from 0 on; a gap is no pickler's. */
	if (!v)
		return "a name for nothing";
	if (at > p->memo.n + MEMO_GAP_MAX)
		return "a memo number that no pickler gives";
	if (at >= PILE_MEMO_MAX)
		return "more names than any dump has";
	while (p->memo.n <= at)
		*vec_push(&p->memo) = pile_plain(PILE_UNSET);
	p->n_memos += p->memo.v[at].kind == PILE_UNSET;
	p->memo.v[at] = *v;
	return NULL;
}

static const char *memo_get(struct pickle *p, uint64_t at)
{
	if (at >= p->memo.n || p->memo.v[at].kind == PILE_UNSET)
		return "a memo that was never put";
	return push(p, p->memo.v[at]);
}

/* --- opcodes; arg is the fixed part behind the opcode, little-endian --- */

#define OPCODE(name) static const char *name(struct pickle *p, const uint8_t *arg, unsigned n_arg)
#define UNUSED_ARG   ((void)arg, (void)n_arg)

OPCODE(op_ignore)
{
	UNUSED_ARG;
	(void)p;
	return NULL;
}

OPCODE(op_stop)
{
	UNUSED_ARG;
	p->stopped = true;
	return NULL;
}

OPCODE(op_mark)
{
	UNUSED_ARG;
	return pile_mark(&p->f->r.pile);
}

OPCODE(op_pop)
{
	UNUSED_ARG;
	return pile_pop(&p->f->r.pile);
}

OPCODE(op_pop_mark)
{
	UNUSED_ARG;
	return pile_pop_marked(&p->f->r.pile);
}

OPCODE(op_dup)
{
	const struct pile_value *v = pile_keep(&p->f->r.pile);

	UNUSED_ARG;
	return v ? push(p, *v) : "a copy of nothing";
}

OPCODE(op_none)
{
	UNUSED_ARG;
	return push(p, pile_plain(PILE_NONE));
}

OPCODE(op_true)
{
	UNUSED_ARG;
	return push(p, (struct pile_value){ .kind = PILE_BOOL, .n = 1 });
}

OPCODE(op_false)
{
	UNUSED_ARG;
	return push(p, (struct pile_value){ .kind = PILE_BOOL });
}

OPCODE(op_unsigned)
{
	return push(p, pile_int((int64_t)little(arg, n_arg)));
}

OPCODE(op_int32)
{
	return push(p, pile_int((int32_t)little(arg, n_arg)));
}

/* Two's complement of any length; beyond 64 bits there is nothing to say in a dump. */
static const char *push_long(struct pickle *p, uint64_t len)
{
	uint64_t v;

	if (len > 8) {
		const char *bad = pass(p, len);

		p->f->r.stats->skipped[SKIP_BAD_NUMBER] += !bad;
		return bad ? bad : push(p, pile_plain(PILE_UNKNOWN));
	}
	if (json_window_need(p->w, len) < len)
		return cut;
	v = little((const uint8_t *)p->w->p, (unsigned)len);
	if (len && len < 8 && v >> (8 * len - 1))
		v |= ~0ull << (8 * len);
	p->w->p += len;
	return push(p, pile_int((int64_t)v));
}

OPCODE(op_long)
{
	return push_long(p, little(arg, n_arg));
}

OPCODE(op_float)
{
	uint64_t bits = 0;

	for (unsigned i = 0; i < n_arg; i++)
		bits = bits << 8 | arg[i];
	return push(p, (struct pile_value){ .kind = PILE_FLOAT, .n = (int64_t)bits });
}

OPCODE(op_text)
{
	return push_text(p, little(arg, n_arg));
}

OPCODE(op_bytes)
{
	const char *bad = pass(p, little(arg, n_arg));

	return bad ? bad : push(p, pile_plain(PILE_UNKNOWN));
}

OPCODE(op_put)
{
	return memo_put(p, little(arg, n_arg));
}

OPCODE(op_memoize)
{
	UNUSED_ARG;
	return memo_put(p, p->n_memos);
}

OPCODE(op_get)
{
	return memo_get(p, little(arg, n_arg));
}

OPCODE(op_empty_dict)
{
	UNUSED_ARG;
	return pile_begin(&p->f->r.pile, PILE_DICT);
}

OPCODE(op_empty_list)
{
	UNUSED_ARG;
	return pile_begin(&p->f->r.pile, PILE_LIST);
}

OPCODE(op_append)
{
	UNUSED_ARG;
	return pile_append(&p->f->r.pile);
}

OPCODE(op_appends)
{
	UNUSED_ARG;
	return pile_append_marked(&p->f->r.pile);
}

OPCODE(op_setitem)
{
	UNUSED_ARG;
	return pile_set(&p->f->r.pile);
}

OPCODE(op_setitems)
{
	UNUSED_ARG;
	return pile_set_marked(&p->f->r.pile);
}

OPCODE(op_tuple0)
{
	UNUSED_ARG;
	return pile_pack(&p->f->r.pile, PILE_TUPLE, 0);
}

OPCODE(op_tuple1)
{
	UNUSED_ARG;
	return pile_pack(&p->f->r.pile, PILE_TUPLE, 1);
}

OPCODE(op_tuple2)
{
	UNUSED_ARG;
	return pile_pack(&p->f->r.pile, PILE_TUPLE, 2);
}

OPCODE(op_tuple3)
{
	UNUSED_ARG;
	return pile_pack(&p->f->r.pile, PILE_TUPLE, 3);
}

OPCODE(op_tuple)
{
	UNUSED_ARG;
	return pile_pack_marked(&p->f->r.pile, PILE_TUPLE);
}

/* --- the table --- */

struct opcode {
	const char *name;
	const char *(*run)(struct pickle *p, const uint8_t *arg, unsigned n_arg);
	uint8_t n_arg;
	const char *refused; /* what it would do; NULL: it makes data */
};

static const struct opcode opcodes[256] = {
	[0x80] = { "PROTO", op_ignore, 1, NULL },
	[0x95] = { "FRAME", op_ignore, 8, NULL },
	['.'] = { "STOP", op_stop, 0, NULL },
	['('] = { "MARK", op_mark, 0, NULL },
	['0'] = { "POP", op_pop, 0, NULL },
	['1'] = { "POP_MARK", op_pop_mark, 0, NULL },
	['2'] = { "DUP", op_dup, 0, NULL },
	['N'] = { "NONE", op_none, 0, NULL },
	[0x88] = { "NEWTRUE", op_true, 0, NULL },
	[0x89] = { "NEWFALSE", op_false, 0, NULL },
	['K'] = { "BININT1", op_unsigned, 1, NULL },
	['M'] = { "BININT2", op_unsigned, 2, NULL },
	['J'] = { "BININT", op_int32, 4, NULL },
	[0x8a] = { "LONG1", op_long, 1, NULL },
	[0x8b] = { "LONG4", op_long, 4, NULL },
	['G'] = { "BINFLOAT", op_float, 8, NULL },
	[0x8c] = { "SHORT_BINUNICODE", op_text, 1, NULL },
	['X'] = { "BINUNICODE", op_text, 4, NULL },
	[0x8d] = { "BINUNICODE8", op_text, 8, NULL },
	['U'] = { "SHORT_BINSTRING", op_text, 1, NULL },
	['T'] = { "BINSTRING", op_text, 4, NULL },
	['C'] = { "SHORT_BINBYTES", op_bytes, 1, NULL },
	['B'] = { "BINBYTES", op_bytes, 4, NULL },
	[0x8e] = { "BINBYTES8", op_bytes, 8, NULL },
	[0x96] = { "BYTEARRAY8", op_bytes, 8, NULL },
	['q'] = { "BINPUT", op_put, 1, NULL },
	['r'] = { "LONG_BINPUT", op_put, 4, NULL },
	[0x94] = { "MEMOIZE", op_memoize, 0, NULL },
	['h'] = { "BINGET", op_get, 1, NULL },
	['j'] = { "LONG_BINGET", op_get, 4, NULL },
	['}'] = { "EMPTY_DICT", op_empty_dict, 0, NULL },
	[']'] = { "EMPTY_LIST", op_empty_list, 0, NULL },
	[0x8f] = { "EMPTY_SET", op_empty_list, 0, NULL },
	['a'] = { "APPEND", op_append, 0, NULL },
	['e'] = { "APPENDS", op_appends, 0, NULL },
	[0x90] = { "ADDITEMS", op_appends, 0, NULL },
	['s'] = { "SETITEM", op_setitem, 0, NULL },
	['u'] = { "SETITEMS", op_setitems, 0, NULL },
	[')'] = { "EMPTY_TUPLE", op_tuple0, 0, NULL },
	[0x85] = { "TUPLE1", op_tuple1, 0, NULL },
	[0x86] = { "TUPLE2", op_tuple2, 0, NULL },
	[0x87] = { "TUPLE3", op_tuple3, 0, NULL },
	['t'] = { "TUPLE", op_tuple, 0, NULL },
	[0x91] = { "FROZENSET", op_tuple, 0, NULL },
	['c'] = { "GLOBAL", NULL, 0, "import code" },
	[0x93] = { "STACK_GLOBAL", NULL, 0, "import code" },
	['i'] = { "INST", NULL, 0, "import and call code" },
	['o'] = { "OBJ", NULL, 0, "call code" },
	['R'] = { "REDUCE", NULL, 0, "call code" },
	['b'] = { "BUILD", NULL, 0, "call code" },
	[0x81] = { "NEWOBJ", NULL, 0, "call code" },
	[0x92] = { "NEWOBJ_EX", NULL, 0, "call code" },
	['P'] = { "PERSID", NULL, 0, "fetch an object from elsewhere" },
	['Q'] = { "BINPERSID", NULL, 0, "fetch an object from elsewhere" },
	[0x82] = { "EXT1", NULL, 0, "import code" },
	[0x83] = { "EXT2", NULL, 0, "import code" },
	[0x84] = { "EXT4", NULL, 0, "import code" },
	[0x97] = { "NEXT_BUFFER", NULL, 0, "fetch a buffer from elsewhere" },
	[0x98] = { "READONLY_BUFFER", NULL, 0, "fetch a buffer from elsewhere" },
};

/* --- the machine --- */

static enum pile_end step(struct pickle *p, struct error *e)
{
	const struct opcode *o;
	const char *bad;
	uint8_t code;
	const uint8_t *arg;
	size_t left = json_window_need(p->w, 1);

	p->start = json_window_at(p->w, p->w->p);
	if (!left) {
		error_set(e, 0, "offset %" PRIu64 ": %s", p->start, cut);
		return PILE_CUT;
	}
	code = (uint8_t)*p->w->p;
	o = &opcodes[code];
	if (!o->name) {
		error_set(e, 0, "offset %" PRIu64 ": byte 0x%02x is no opcode of a dump", p->start,
			  code);
		return PILE_BROKEN;
	}
	if (o->refused) {
		error_set(e, 0, "offset %" PRIu64 ": %s would %s: refused, nothing was run",
			  p->start, o->name, o->refused);
		return PILE_REFUSED;
	}
	if (left < 1u + o->n_arg && json_window_need(p->w, 1u + o->n_arg) < 1u + o->n_arg) {
		bad = cut;
	} else {
		arg = (const uint8_t *)p->w->p + 1;
		p->w->p += 1 + o->n_arg;
		bad = o->run(p, arg, o->n_arg);
	}
	if (!bad)
		return PILE_WHOLE;
	error_set(e, 0, bad == cut ? "offset %" PRIu64 ": %s" : "offset %" PRIu64 ": %s (%s)",
		  p->start, bad, o->name);
	return bad == cut ? PILE_CUT : PILE_BROKEN;
}

/*
 * The few opcodes that nearly all of a dump is made of, while they lie whole in the window. Stops
 * in front of any other, and of whatever is not plainly right: step() then decides.
 */
static void run_quickly(struct pickle *p)
{
	struct pile *pile = &p->f->r.pile;
	const uint8_t *s = (const uint8_t *)p->w->p, *end = (const uint8_t *)p->w->end;
	const uint8_t *next = s;

	for (; next && end - s >= FR_OPCODE_MAX && pile->stack.n < pile->stack.cap;
	     s = next ? next : s) {
		struct pile_value v = pile_plain(PILE_SPENT);

		if (*s == '(') {
			next = pile_mark(pile) ? NULL : s + 1;
			continue;
		}
		if (*s == ']') {
			next = pile_begin(pile, PILE_LIST) ? NULL : s + 1;
			continue;
		}
		if (*s == '}')
			next = fr_quick_entry(p->f, p->memo.v, p->memo.n, s, end);
		else
			next = fr_scalar(p->memo.v, p->memo.n, s, &v);
		if (next)
			pile->stack.v[pile->stack.n++] = v;
	}
	fr_quick_keep(p->f);
	p->w->p = (const char *)s;
}

enum pile_end fr_pickle_run(struct fr *f, struct error *e)
{
	struct pickle p = { .f = f, .w = &f->r.window };
	enum pile_end end = PILE_WHOLE;

	while (end == PILE_WHOLE && !p.stopped) {
		run_quickly(&p);
		end = step(&p, e);
	}
	if (f->n_quick_frames)
		fr_quick_frames(f, p.memo.v, p.memo.n);
	free(p.memo.v);
	return end;
}
