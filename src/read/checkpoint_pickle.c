/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint_pickle.c - what a checkpoint's pickle says: which storages, which keys, where DCP put
 * what.
 *
 * Opcodes are followed as moves on a stack of tags. Those that would import or call only leave
 * their name on it: there is no code here that could do what they ask for.
 */
#include "read/checkpoint_inside.h"

#define STORAGE_WORDS 5u /* ("storage", class, key, place, number of elements, ..) */

enum tag {
	TAG_OTHER,
	TAG_NUMBER,
	TAG_TEXT,
	TAG_GLOBAL,
	TAG_NONE,
	TAG_DICT,
	TAG_STORAGE,
	TAG_OBJECT
};
struct value {
	enum tag tag;
	uint32_t len;
	int64_t n; /* number; place of a text or a class's name; row of a storage or place */
};
/* A dictionary that says where something lies. */
struct place {
	struct value file, at, len;
	bool altered;
};
struct storage {
	struct value key, class;
	int64_t n;
};
#define MEMO_GAP_MOST 4096u
#define MEMO_MOST     (1u << 26)
#define STACK_MOST    (1u << 24)

struct machine {
	const uint8_t *text;
	struct span s;
	const struct pickle_watch *watch;
	VEC(struct value) stack, memo;
	VEC(size_t) marks;
	VEC(struct place) places;
	VEC(struct storage) storages;
	uint64_t memos;
	bool stopped;
};

/* What an opcode brings: a number, or bytes. */
struct argument {
	int64_t n;
	struct value text;
};
/* items: what it takes off the stack; out: what it leaves, OTHER at first. */
typedef const char *(*act_fn)(struct machine *m, const struct argument *a, struct value *items,
			      size_t n, struct value *out);

static struct pickle_text words(const struct machine *m, struct value v)
{
	return (struct pickle_text){ (const char *)m->text + v.n, v.len };
}

bool pickle_is(struct pickle_text t, const char *word)
{
	return strlen(word) == t.len && memcmp(t.p, word, t.len) == 0;
}

bool pickle_has(struct pickle_text t, const char *part)
{
	size_t len = strlen(part);

	for (size_t i = 0; i + len <= t.len; i++)
		if (strncasecmp(t.p + i, part, len) == 0)
			return true;
	return false;
}

/* --- moves --- */

#define ACT(name)                                                                                  \
	static const char *name(struct machine *m, const struct argument *a, struct value *items,  \
				size_t n, struct value *out)
#define ACT_UNUSED ((void)m, (void)a, (void)items, (void)n, (void)out)

ACT(act_stop)
{
	ACT_UNUSED;
	m->stopped = true;
	return NULL;
}

ACT(act_mark)
{
	ACT_UNUSED;
	*vec_push(&m->marks) = m->stack.n;
	return NULL;
}

ACT(act_number)
{
	ACT_UNUSED;
	*out = (struct value){ .tag = TAG_NUMBER, .n = a->n };
	return NULL;
}

ACT(act_text)
{
	ACT_UNUSED;
	*out = a->text;
	out->tag = TAG_TEXT;
	if (m->watch->text)
		m->watch->text(m->watch->user, words(m, *out));
	return NULL;
}

ACT(act_none)
{
	ACT_UNUSED;
	out->tag = TAG_NONE;
	return NULL;
}

ACT(act_dict)
{
	ACT_UNUSED;
	*out = (struct value){ .tag = TAG_DICT, .n = -1 };
	return NULL;
}

ACT(act_dup)
{
	ACT_UNUSED;
	if (!m->stack.n)
		return "a copy of nothing";
	*out = m->stack.v[m->stack.n - 1];
	return NULL;
}

static const char *put(struct machine *m, uint64_t at)
{
	if (!m->stack.n)
		return "a name for nothing";
	if (at > m->memo.n + MEMO_GAP_MOST || at > (uint64_t)(m->s.p - m->text) || at >= MEMO_MOST)
		return "a memo number that no pickler gives";
	while (m->memo.n <= at)
		*vec_push(&m->memo) = (struct value){ 0 };
	m->memo.v[at] = m->stack.v[m->stack.n - 1];
	m->memos++;
	return NULL;
}

ACT(act_put)
{
	ACT_UNUSED;
	return put(m, (uint64_t)a->n);
}

ACT(act_memoize)
{
	ACT_UNUSED;
	return put(m, m->memos);
}

ACT(act_get)
{
	ACT_UNUSED;
	if ((uint64_t)a->n >= m->memo.n)
		return "a memo that was never put";
	*out = m->memo.v[a->n];
	return NULL;
}

ACT(act_global)
{
	ACT_UNUSED;
	*out = a->text;
	out->tag = TAG_GLOBAL;
	return NULL;
}

ACT(act_stack_global)
{
	ACT_UNUSED;
	*out = items[1];
	out->tag = items[1].tag == TAG_TEXT ? TAG_GLOBAL : TAG_OTHER;
	return NULL;
}

ACT(act_new)
{
	ACT_UNUSED;
	*out = items[0];
	out->tag = items[0].tag == TAG_GLOBAL ? TAG_OBJECT : TAG_OTHER;
	return NULL;
}

ACT(act_tuple)
{
	ACT_UNUSED;
	if (n < STORAGE_WORDS || items[0].tag != TAG_TEXT || items[1].tag != TAG_GLOBAL ||
	    items[2].tag != TAG_TEXT || items[4].tag != TAG_NUMBER ||
	    !pickle_is(words(m, items[0]), "storage"))
		return NULL;
	*out = (struct value){ .tag = TAG_STORAGE, .n = (int64_t)m->storages.n };
	*vec_push(&m->storages) =
	    (struct storage){ .key = items[2], .class = items[1], .n = items[4].n };
	return NULL;
}

ACT(act_fetch)
{
	const struct storage *t;

	ACT_UNUSED;
	if (items[0].tag != TAG_STORAGE || !m->watch->storage)
		return NULL;
	t = &m->storages.v[items[0].n];
	m->watch->storage(m->watch->user, words(m, t->key), words(m, t->class), t->n);
	return NULL;
}

static void set_place(struct machine *m, struct value *dict, struct pickle_text key, struct value v)
{
	bool file = pickle_is(key, "relative_path"), at = pickle_is(key, "offset"),
	     len = pickle_is(key, "length"), altered = pickle_is(key, "transform_descriptors");
	struct place *p;

	if (dict->tag != TAG_DICT || !(file || at || len || altered))
		return;
	if (dict->n < 0) {
		dict->n = (int64_t)m->places.n;
		*vec_push(&m->places) = (struct place){ 0 };
	}
	p = &m->places.v[dict->n];
	if (file)
		p->file = v;
	else if (at)
		p->at = v;
	else if (len)
		p->len = v;
	else
		p->altered = v.tag != TAG_NONE;
}

ACT(act_set)
{
	struct value *dict;

	ACT_UNUSED;
	if (n % 2)
		return "a key without a value";
	if (items == m->stack.v)
		return "members of nothing";
	dict = items - 1;
	for (size_t i = 0; i < n; i += 2) {
		struct pickle_text key;

		if (items[i].tag != TAG_TEXT)
			continue;
		key = words(m, items[i]);
		set_place(m, dict, key, items[i + 1]);
		if (m->watch->pair)
			m->watch->pair(m->watch->user, key,
				       items[i + 1].tag == TAG_NUMBER ? &items[i + 1].n : NULL,
				       dict == m->stack.v);
	}
	return NULL;
}

ACT(act_build)
{
	const struct place *p;

	ACT_UNUSED;
	if (items == m->stack.v)
		return "a state of nothing";
	if (!m->watch->item || items[-1].tag != TAG_OBJECT ||
	    !pickle_is(words(m, items[-1]), "_StorageInfo"))
		return NULL;
	if (items[0].tag != TAG_DICT || items[0].n < 0)
		return "a place without a file";
	p = &m->places.v[items[0].n];
	if (p->file.tag != TAG_TEXT || p->at.tag != TAG_NUMBER || p->len.tag != TAG_NUMBER)
		return "a place without file, offset and length";
	m->watch->item(m->watch->user, words(m, p->file), p->at.n, p->len.n, p->altered);
	return NULL;
}

/* --- the table --- */

enum arg { ARG_NONE, ARG_FIXED, ARG_SIGNED, ARG_LONG, ARG_BYTES, ARG_LINE, ARG_LINES };
#define TO_MARK (-1)

struct move {
	const char *name;
	enum arg arg;
	uint8_t width; /* of the argument, or of its length */
	int8_t takes;
	bool leaves;
	act_fn act;
};
static const struct move moves[256] = {
	[0x80] = { "PROTO", ARG_FIXED, 1, 0, false, NULL },
	[0x95] = { "FRAME", ARG_FIXED, 8, 0, false, NULL },
	['.'] = { "STOP", ARG_NONE, 0, 1, false, act_stop },
	['('] = { "MARK", ARG_NONE, 0, 0, false, act_mark },
	['0'] = { "POP", ARG_NONE, 0, 1, false, NULL },
	['1'] = { "POP_MARK", ARG_NONE, 0, TO_MARK, false, NULL },
	['2'] = { "DUP", ARG_NONE, 0, 0, true, act_dup },
	['N'] = { "NONE", ARG_NONE, 0, 0, true, act_none },
	[0x88] = { "NEWTRUE", ARG_NONE, 0, 0, true, NULL },
	[0x89] = { "NEWFALSE", ARG_NONE, 0, 0, true, NULL },
	['K'] = { "BININT1", ARG_FIXED, 1, 0, true, act_number },
	['M'] = { "BININT2", ARG_FIXED, 2, 0, true, act_number },
	['J'] = { "BININT", ARG_SIGNED, 4, 0, true, act_number },
	[0x8a] = { "LONG1", ARG_LONG, 1, 0, true, act_number },
	[0x8b] = { "LONG4", ARG_LONG, 4, 0, true, act_number },
	['G'] = { "BINFLOAT", ARG_FIXED, 8, 0, true, NULL },
	[0x8c] = { "SHORT_BINUNICODE", ARG_BYTES, 1, 0, true, act_text },
	['X'] = { "BINUNICODE", ARG_BYTES, 4, 0, true, act_text },
	[0x8d] = { "BINUNICODE8", ARG_BYTES, 8, 0, true, act_text },
	['U'] = { "SHORT_BINSTRING", ARG_BYTES, 1, 0, true, act_text },
	['T'] = { "BINSTRING", ARG_BYTES, 4, 0, true, act_text },
	['C'] = { "SHORT_BINBYTES", ARG_BYTES, 1, 0, true, NULL },
	['B'] = { "BINBYTES", ARG_BYTES, 4, 0, true, NULL },
	[0x8e] = { "BINBYTES8", ARG_BYTES, 8, 0, true, NULL },
	[0x96] = { "BYTEARRAY8", ARG_BYTES, 8, 0, true, NULL },
	['q'] = { "BINPUT", ARG_FIXED, 1, 0, false, act_put },
	['r'] = { "LONG_BINPUT", ARG_FIXED, 4, 0, false, act_put },
	[0x94] = { "MEMOIZE", ARG_NONE, 0, 0, false, act_memoize },
	['h'] = { "BINGET", ARG_FIXED, 1, 0, true, act_get },
	['j'] = { "LONG_BINGET", ARG_FIXED, 4, 0, true, act_get },
	['}'] = { "EMPTY_DICT", ARG_NONE, 0, 0, true, act_dict },
	[']'] = { "EMPTY_LIST", ARG_NONE, 0, 0, true, NULL },
	[0x8f] = { "EMPTY_SET", ARG_NONE, 0, 0, true, NULL },
	[')'] = { "EMPTY_TUPLE", ARG_NONE, 0, 0, true, NULL },
	['a'] = { "APPEND", ARG_NONE, 0, 1, false, NULL },
	['e'] = { "APPENDS", ARG_NONE, 0, TO_MARK, false, NULL },
	[0x90] = { "ADDITEMS", ARG_NONE, 0, TO_MARK, false, NULL },
	['s'] = { "SETITEM", ARG_NONE, 0, 2, false, act_set },
	['u'] = { "SETITEMS", ARG_NONE, 0, TO_MARK, false, act_set },
	[0x85] = { "TUPLE1", ARG_NONE, 0, 1, true, act_tuple },
	[0x86] = { "TUPLE2", ARG_NONE, 0, 2, true, act_tuple },
	[0x87] = { "TUPLE3", ARG_NONE, 0, 3, true, act_tuple },
	['t'] = { "TUPLE", ARG_NONE, 0, TO_MARK, true, act_tuple },
	['l'] = { "LIST", ARG_NONE, 0, TO_MARK, true, NULL },
	['d'] = { "DICT", ARG_NONE, 0, TO_MARK, true, NULL },
	[0x91] = { "FROZENSET", ARG_NONE, 0, TO_MARK, true, NULL },
	['c'] = { "GLOBAL", ARG_LINES, 0, 0, true, act_global },
	[0x93] = { "STACK_GLOBAL", ARG_NONE, 0, 2, true, act_stack_global },
	['i'] = { "INST", ARG_LINES, 0, TO_MARK, true, NULL },
	['o'] = { "OBJ", ARG_NONE, 0, TO_MARK, true, NULL },
	['R'] = { "REDUCE", ARG_NONE, 0, 2, true, NULL },
	['b'] = { "BUILD", ARG_NONE, 0, 1, false, act_build },
	[0x81] = { "NEWOBJ", ARG_NONE, 0, 2, true, act_new },
	[0x92] = { "NEWOBJ_EX", ARG_NONE, 0, 3, true, act_new },
	['P'] = { "PERSID", ARG_LINE, 0, 0, true, NULL },
	['Q'] = { "BINPERSID", ARG_NONE, 0, 1, true, act_fetch },
	[0x82] = { "EXT1", ARG_FIXED, 1, 0, true, NULL },
	[0x83] = { "EXT2", ARG_FIXED, 2, 0, true, NULL },
	[0x84] = { "EXT4", ARG_FIXED, 4, 0, true, NULL },
	[0x97] = { "NEXT_BUFFER", ARG_NONE, 0, 0, true, NULL },
	[0x98] = { "READONLY_BUFFER", ARG_NONE, 0, 0, false, NULL },
};

/* --- the machine --- */

static int64_t little(const uint8_t *p, size_t n, bool is_signed)
{
	uint64_t v = 0;

	for (size_t i = MIN(n, 8u); i-- > 0;)
		v = v << 8 | p[i];
	if (is_signed && n && n < 8 && p[n - 1] & 0x80)
		v |= ~UINT64_C(0) << (8 * n);
	return (int64_t)v;
}

/* Up to the end of the line, which becomes the text. */
static bool line(struct machine *m, struct value *ret)
{
	const uint8_t *end = memchr(m->s.p, '\n', span_left(&m->s));

	if (!end || end - m->s.p > UINT16_MAX)
		return false;
	*ret = (struct value){ .len = (uint32_t)(end - m->s.p), .n = m->s.p - m->text };
	m->s.p = end + 1;
	return true;
}

static bool argument(struct machine *m, const struct move *o, struct argument *a)
{
	const uint8_t *p;
	uint64_t len;

	*a = (struct argument){ 0 };
	if (o->arg == ARG_LINE || o->arg == ARG_LINES)
		return line(m, &a->text) && (o->arg == ARG_LINE || line(m, &a->text));
	p = span_bytes(&m->s, o->width);
	if (!p)
		return false;
	a->n = little(p, o->width, o->arg == ARG_SIGNED);
	if (o->arg != ARG_LONG && o->arg != ARG_BYTES)
		return true;
	len = (uint64_t)a->n;
	if (len > span_left(&m->s))
		return false;
	p = span_bytes(&m->s, (size_t)len);
	a->n = p && o->arg == ARG_LONG ? little(p, (size_t)len, true) : 0;
	a->text = (struct value){ .len = (uint32_t)MIN(len, UINT32_MAX), .n = p - m->text };
	return p != NULL;
}

/* What an opcode takes: n values on top, none of them from in front of the last mark. */
static bool taken(struct machine *m, const struct move *o, size_t *ret_n)
{
	size_t floor = m->marks.n ? m->marks.v[m->marks.n - 1] : 0;

	if (o->takes == TO_MARK) {
		if (!m->marks.n || m->stack.n < floor)
			return false;
		*ret_n = m->stack.n - floor;
		m->marks.n--;
		return true;
	}
	*ret_n = (size_t)o->takes;
	return m->stack.n >= floor + *ret_n;
}

static int move(struct machine *m, struct error *e)
{
	size_t at = (size_t)(m->s.p - m->text), n;
	uint8_t code = span_u8(&m->s);
	const struct move *o = &moves[code];
	struct value out = { .tag = TAG_OTHER };
	struct argument a;
	const char *bad;

	if (m->s.bad)
		return error_set(e, -ENODATA, "the pickle is cut off at byte %zu", at);
	if (!o->name)
		return error_set(e, code ? -ENOTSUP : -EBADMSG,
				 "byte %zu of the pickle: 0x%02x is no opcode that is known here",
				 at, code);
	if (!argument(m, o, &a))
		return error_set(e, -ENODATA, "the pickle is cut off at byte %zu", at);
	if (!taken(m, o, &n))
		return error_set(e, -EBADMSG, "byte %zu of the pickle: %s takes what is not there",
				 at, o->name);
	bad = o->act && (n || o->takes <= 0) ? o->act(m, &a, m->stack.v + (m->stack.n - n), n, &out)
					     : NULL;
	if (bad)
		return error_set(e, -EBADMSG, "byte %zu of the pickle: %s (%s)", at, bad, o->name);
	m->stack.n -= n;
	if (m->stack.n >= STACK_MOST || m->marks.n >= STACK_MOST)
		return error_set(e, -ENOTSUP, "byte %zu of the pickle: deeper than is looked at",
				 at);
	if (o->leaves)
		*vec_push(&m->stack) = out;
	return 0;
}

int pickle_look(const uint8_t *p, size_t len, const struct pickle_watch *watch, size_t *ret_used,
		struct error *reterr)
{
	struct machine m = { .text = p, .s = span_of(p, len), .watch = watch };
	int r = 0;

	vec_grow(&m.stack, 64);
	while (!r && !m.stopped)
		r = move(&m, reterr);
	if (!r)
		*ret_used = (size_t)(m.s.p - p);
	free(m.stack.v);
	free(m.memo.v);
	free(m.marks.v);
	free(m.places.v);
	free(m.storages.v);
	return r;
}

/* --- facts --- */

void checkpoint_fact(struct checkpoint_facts *f, struct pickle_text key, const int64_t *number,
		     bool outermost)
{
	static const char *const steps[] = { "step",  "iter",	      "iteration",
					     "steps", "global_steps", "global_step" };

	if (pickle_has(key, "optim") || pickle_is(key, "exp_avg") ||
	    pickle_is(key, "momentum_buffer"))
		f->optimizer = true;
	if (!number || !outermost)
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(steps); i++)
		if (*number >= 0 && i + 1 > f->step_rank && pickle_is(key, steps[i])) {
			f->step = *number;
			f->step_rank = i + 1;
		}
	if (pickle_is(key, "dp_world_size"))
		f->dp_world = *number;
	if (pickle_is(key, "mp_world_size"))
		f->mp_world = *number;
}
