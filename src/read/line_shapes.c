/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line_shapes.c - the table of shapes.
 *
 * Texts stand one behind another in an arena, so that the few hundred kinds of lines that make up
 * a log stay in the caches of the CPU. They are found by a hash of some of their bytes, or guessed
 * by what followed the line before the last times.
 */
#include "read/line_shapes.h"

#include "read/log_bytes.h"

#define SHAPES	   4096u /* the first is none */
#define SLOTS	   8192u /* must be a power of two */
#define ARENA_SIZE ((size_t)1 << 20)

struct line_shapes {
	struct line_shape v[SHAPES];
	uint16_t slots[SLOTS]; /* index by hash; 0: free */
	unsigned n, last;
	size_t used;
	char *arena;
};

struct line_shapes *line_shapes_new(void)
{
	struct line_shapes *s = xcalloc(1, sizeof(*s));

	s->arena = xmalloc(ARENA_SIZE + LOG_PAD);
	s->n = 1;
	return s;
}

struct line_shapes *line_shapes_free(struct line_shapes *s)
{
	if (s)
		free(s->arena);
	free(s);
	return NULL;
}

/* By its length, beginning, end, and 16 bytes at each quarter. */
static inline uint64_t shape_hash(const char *line, size_t len)
{
	uint64_t w[10], h = len * 0x9e3779b97f4a7c15u;
	size_t last = len - 16;
	char few[16] = { 0 };

	if (len < sizeof(few)) {
		line = memcpy(few, line, len);
		last = 0;
	}
	for (unsigned i = 0; i < 5; i++)
		shape16(line + i * last / 4, w + 2 * i);
	h ^= w[0] * 0xff51afd7ed558ccdu + w[1] * 0xc4ceb9fe1a85ec53u + w[2] * 0x9fb21c651e98df25u;
	h ^= w[3] * 0xd6e8feb86659fd93u + w[4] * 0xa0761d6478bd642fu + w[5] * 0xe7037ed1a0b428dbu;
	h ^= w[6] * 0x8ebc6af09c88c6e3u + w[7] * 0x589965cc75374cc3u;
	h ^= w[8] * 0x1d8e4e27c47d124fu + w[9] * 0xeb44accab455d165u;
	h ^= h >> 32;
	return h * 0x9e3779b97f4a7c15u;
}

static inline bool is_of(const struct line_shape *v, const char *line, size_t len)
{
	return v->len == len &&
	       (len < 16 ? same_few(line, v->text, len) : same_shape(line, v->text, len));
}

/* Where it stands, or the free slot for it. */
static uint16_t *slot_of(struct line_shapes *s, const char *line, size_t len, uint64_t hash)
{
	uint32_t at = (uint32_t)(hash >> 32) & (SLOTS - 1);

	for (;; at = (at + 1) & (SLOTS - 1)) {
		const struct line_shape *v = &s->v[s->slots[at]];

		if (!s->slots[at] || (v->tag == (uint32_t)hash && is_of(v, line, len)))
			return &s->slots[at];
	}
}

struct line_shape *line_shapes_find(struct line_shapes *s, const char *line, size_t len)
{
	uint16_t at = *slot_of(s, line, len, shape_hash(line, len));

	return at ? &s->v[at] : NULL;
}

static void forget(struct line_shapes *s)
{
	memset(s->v, 0, sizeof(s->v));
	memset(s->slots, 0, sizeof(s->slots));
	s->n = 1;
	s->last = 0;
	s->used = 0;
}

static void *room(struct line_shapes *s, size_t bytes)
{
	void *p = s->arena + s->used;

	s->used += (bytes + 7) & ~(size_t)7;
	return memset(p, 0, bytes);
}

struct line_shape *line_shapes_add(struct line_shapes *s, const char *line, size_t len,
				   size_t bytes)
{
	uint64_t hash = shape_hash(line, len);
	struct line_shape *v;
	uint16_t *slot;
	char *text;

	if (s->n == SHAPES || s->used + len + bytes + 32 > ARENA_SIZE)
		forget(s);
	slot = slot_of(s, line, len, hash);
	if (!*slot) {
		*slot = (uint16_t)s->n++;
		v = &s->v[*slot];
		v->text = text = room(s, MAX(len, (size_t)16));
		for (size_t i = 0; i < len; i++)
			text[i] = is_digit(line[i]) ? '0' : line[i];
		v->len = (uint16_t)len;
		v->tag = (uint32_t)hash;
	}
	v = &s->v[*slot];
	v->kept = bytes ? room(s, bytes) : NULL;
	v->met_again = false;
	return v;
}

struct line_shape *line_shapes_next(struct line_shapes *s, const char *p, const char *end)
{
	const uint16_t *next = s->v[s->last].next;

	for (unsigned i = 0; i < ARRAY_SIZE(s->v->next) && next[i]; i++) {
		struct line_shape *v = &s->v[next[i]];

		if ((size_t)(end - p) > v->len && is_line_end(p[v->len]) && is_of(v, p, v->len))
			return v;
	}
	return NULL;
}

void line_shapes_note(struct line_shapes *s, struct line_shape *shape)
{
	uint16_t *next = s->v[s->last].next, at = (uint16_t)(shape - s->v);

	if (next[0] != at) {
		next[1] = next[0];
		next[0] = at;
	}
	s->last = at;
}
