/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fr_quick.c - the short way through an entry of a native dump.
 *
 * Behind the first few entries of a ring nothing new is said: every string is a number in the memo,
 * no container is named, and the operation was met before. Then the opcodes can be read straight
 * into the entry's fields, and the frames, two thirds of the bytes, are passed over: they are only
 * looked at if the entry is not done. Whatever is otherwise is left to the machine of fr_pickle.c;
 * the invariant is that nothing has been changed before all of the entry was seen.
 */
#include "read/fr_inside.h"

struct quick {
	struct fr *f;
	const struct pile_value *memo;
	size_t n_memo;
	const uint8_t *s, *end;
};

static inline bool there(const struct quick *q)
{
	return q->end - q->s >= FR_OPCODE_MAX;
}

/* What the memo holds where the opcode at q->s points; NULL: it is no such opcode. */
static inline const struct pile_value *named(struct quick *q)
{
	uint32_t at;

	if (*q->s == 'h') {
		at = q->s[1];
		q->s += 2;
	} else if (*q->s == 'j') {
		at = fr_load32(q->s + 1);
		q->s += 5;
	} else {
		return NULL;
	}
	return at < q->n_memo ? &q->memo[at] : NULL;
}

static inline bool scalar(struct quick *q, struct pile_value *ret)
{
	const uint8_t *next = fr_scalar(q->memo, q->n_memo, q->s, ret);

	if (!next)
		return false;
	q->s = next;
	return true;
}

static inline bool list_begins(struct quick *q)
{
	if (!there(q) || q->s[0] != ']' || q->s[1] != '(')
		return false;
	q->s += 2;
	return true;
}

/* A list of numbers or strings, as making_list of fr_entry.c writes it. */
static bool flat_list(struct quick *q, enum pile_kind leaf, struct fr_making *m)
{
	uint32_t at = m->n;
	int64_t n = 0;

	if (!list_begins(q) || !fr_making_add(m, 0))
		return false;
	for (; there(q) && *q->s != 'e'; n++) {
		struct pile_value v;

		if (!scalar(q, &v) || v.kind != (uint32_t)leaf ||
		    !fr_making_add(m, leaf == PILE_INT ? v.n : v.ref))
			return false;
	}
	m->words[at] = n;
	return there(q) && *q->s++ == 'e';
}

static bool list_of_lists(struct quick *q, struct fr_making *m)
{
	uint32_t at = m->n;
	int64_t n = 0;

	if (!list_begins(q) || !fr_making_add(m, 0))
		return false;
	for (; there(q) && *q->s != 'e'; n++)
		if (!flat_list(q, PILE_INT, m))
			return false;
	m->words[at] = n;
	return there(q) && *q->s++ == 'e';
}

/* Four BINGETs in a row. */
static inline bool four_short(const uint8_t *p)
{
	return ((uint64_t)fr_load64(p) & 0x00ff00ff00ff00ffu) == 0x0068006800680068u;
}

/* Frames that are all named already; ret_n: bytes from *ret on. */
static bool frames(struct quick *q, const uint8_t **ret, size_t *ret_n)
{
	if (!list_begins(q))
		return false;
	*ret = q->s;
	for (; there(q) && (*q->s == 'j' || *q->s == 'h'); q->s += *q->s == 'j' ? 5 : 2) {
		while (there(q) && four_short(q->s))
			q->s += 8;
		while (there(q) && q->s[0] == 'j' && q->s[5] == 'j' && q->s[10] == 'j')
			q->s += 15;
		if (!there(q) || (*q->s != 'j' && *q->s != 'h'))
			break;
	}
	*ret_n = (size_t)(q->s - *ret);
	return there(q) && *q->s++ == 'e';
}

static bool group(struct quick *q, uint32_t *ret_name, uint32_t *ret_desc)
{
	const struct pile_value *name, *desc;

	if (!(name = named(q)) || !there(q) || !(desc = named(q)) || !there(q) ||
	    name->kind != PILE_STRING || desc->kind != PILE_STRING || *q->s++ != 0x86)
		return false;
	*ret_name = name->ref;
	*ret_desc = desc->ref;
	return true;
}

struct met {
	struct pile_slots slots;
	struct pile_value values[FR_N_WORDS];
	struct fr_making making;
	uint32_t name, desc; /* of the group */
	const uint8_t *frames;
	size_t n_frames;
};

/* The value of one key; false: not of the kind that it should be, or out of its usual order. */
static bool member(struct quick *q, struct met *m, uint32_t key)
{
	static const uint8_t order[] = {
		[FR_KEY_INPUT_SIZES] = 1,
		[FR_KEY_INPUT_DTYPES] = 2,
		[FR_KEY_OUTPUT_SIZES] = 3,
		[FR_KEY_OUTPUT_DTYPES] = 4,
	};
	struct pile_value passed;

	if (key >= FR_N_WORDS)
		return scalar(q, &passed);
	if (key == FR_KEY_FRAMES)
		return frames(q, &m->frames, &m->n_frames);
	if (key == FR_KEY_PROCESS_GROUP)
		return group(q, &m->name, &m->desc);
	if (key < sizeof(order) && order[key]) {
		if (m->making.row != order[key] - 1u)
			return false;
		m->making.row++;
		return order[key] % 2 ? list_of_lists(q, &m->making)
				      : flat_list(q, PILE_STRING, &m->making);
	}
	if (!scalar(q, &m->values[key]))
		return false;
	pile_slot_set(&m->slots, key, &m->values[key]);
	return true;
}

void fr_quick_keep(struct fr *f)
{
	if (!f->quick_at)
		return;
	f->n_quick_frames = (uint32_t)MIN(f->quick_len, sizeof(f->quick_frames));
	memcpy(f->quick_frames, f->quick_at, f->n_quick_frames);
	f->quick_at = NULL;
}

void fr_quick_frames(struct fr *f, const struct pile_value *memo, size_t n_memo)
{
	struct pile_value items[FR_FRAMES_MAX];
	uint8_t padded[sizeof(f->quick_frames) + FR_OPCODE_MAX] = { 0 };
	struct quick q = { f, memo, n_memo, padded, padded + f->n_quick_frames };
	size_t n = 0;

	memcpy(padded, f->quick_frames, f->n_quick_frames);
	while (q.s < q.end && n < FR_FRAMES_MAX) {
		const struct pile_value *v = named(&q);

		if (!v)
			break;
		items[n++] = *v;
	}
	fr_entry_frames(f, items, n);
}

const uint8_t *fr_quick_entry(struct fr *f, const struct pile_value *memo, size_t n_memo,
			      const uint8_t *s, const uint8_t *end)
{
	struct quick q = { f, memo, n_memo, s + 2, end };
	struct met m;
	uint32_t signature, row;

	if (s[1] != '(')
		return NULL;
	m.slots.seen = 0;
	m.making.n = m.making.row = 0; /* row: lists met so far */
	m.name = m.desc = NO_ID;
	m.frames = NULL;
	m.n_frames = 0;
	while (there(&q) && *q.s != 'u') {
		const struct pile_value *key = named(&q);

		if (!key || key->kind != PILE_STRING || !there(&q) || !member(&q, &m, key->ref))
			return NULL;
	}
	if (!there(&q) || m.making.row != 4 || m.name == NO_ID)
		return NULL;
	if (!pile_slot(&m.slots, FR_KEY_PROFILING_NAME) || !pile_slot(&m.slots, FR_KEY_PG_ID) ||
	    m.values[FR_KEY_PROFILING_NAME].kind != PILE_STRING ||
	    m.values[FR_KEY_PG_ID].kind != PILE_INT ||
	    !fr_making_end(&m.making, m.values[FR_KEY_PROFILING_NAME].ref,
			   pile_slot(&m.slots, FR_KEY_IS_P2P)))
		return NULL;
	signature = fr_making_find(f, &m.making);
	row = fr_group_find(f, m.values[FR_KEY_PG_ID].n, m.name, m.desc);
	if (signature == NO_ID || row == NO_ID)
		return NULL;
	f->n_frames = f->n_quick_frames = 0;
	f->quick_at = m.frames;
	f->quick_len = m.n_frames;
	if (fr_entry(f, &m.slots, row, signature) && m.frames) {
		fr_quick_keep(f);
		fr_quick_frames(f, memo, n_memo);
		f->r.t->entries.v[f->r.t->entries.n - 1].frames = fr_frames_text(f);
	}
	return q.s + 1;
}
