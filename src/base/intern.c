/* SPDX-License-Identifier: Apache-2.0 */
/* intern.c - a hash table of ids over an arena of strings; at most half full. */
#include "base/intern.h"

struct intern_entry {
	const char *s;
	uint32_t len;
	uint32_t hash;
};

/* The first len (0..7) bytes at p as a number, without a loop or a call. */
static inline uint64_t few_bytes(const unsigned char *p, size_t len)
{
	uint32_t first, last;

	if (len >= 4) {
		memcpy(&first, p, 4);
		memcpy(&last, p + len - 4, 4);
		return first | (uint64_t)last << (8 * (len - 4));
	}
	if (!len)
		return 0;
	return p[0] | (uint64_t)p[len / 2] << (8 * (len / 2)) |
	       (uint64_t)p[len - 1] << (8 * (len - 1));
}

/* Names are short and nearly always equal here: a loop beats a call. */
static inline bool same_bytes(const char *a, const char *b, size_t len)
{
	uint64_t x, y;

	if (len < 8)
		return few_bytes((const unsigned char *)a, len) ==
		       few_bytes((const unsigned char *)b, len);
	if (len > 64)
		return !memcmp(a, b, len);
	for (size_t i = 0; i + 8 < len; i += 8) {
		memcpy(&x, a + i, 8);
		memcpy(&y, b + i, 8);
		if (x != y)
			return false;
	}
	memcpy(&x, a + len - 8, 8);
	memcpy(&y, b + len - 8, 8);
	return x == y;
}

uint64_t hash_bytes(const void *p, size_t len, uint64_t seed)
{
	const unsigned char *b = p;
	uint64_t h = seed ^ (len * 0x9e3779b97f4a7c15u);
	uint64_t w;

	for (; len >= 8; b += 8, len -= 8) {
		memcpy(&w, b, 8);
		h = (h ^ w) * 0x9fb21c651e98df25u;
		h ^= h >> 35;
	}
	h = (h ^ few_bytes(b, len)) * 0x9fb21c651e98df25u;
	h ^= h >> 29;
	h *= 0xff51afd7ed558ccdu;
	return h ^ (h >> 32);
}

static void intern_rehash(struct intern *in, uint32_t slots)
{
	free(in->slots);
	in->slots = xcalloc(slots, sizeof(*in->slots));
	in->mask = slots - 1;
	for (uint32_t id = 0; id < in->n; id++) {
		uint32_t i = in->entries[id].hash & in->mask;

		while (in->slots[i])
			i = (i + 1) & in->mask;
		in->slots[i] = id + 1;
	}
}

/* The slot that holds the string, or the free one where it would go. */
static uint32_t intern_slot(const struct intern *in, const char *s, size_t len, uint32_t hash)
{
	uint32_t i = hash & in->mask;

	for (; in->slots[i]; i = (i + 1) & in->mask) {
		const struct intern_entry *e = &in->entries[in->slots[i] - 1];

		if (e->hash == hash && e->len == len && same_bytes(e->s, s, len))
			break;
	}
	return i;
}

uint32_t intern(struct intern *in, const char *s, size_t len)
{
	uint32_t hash, slot;

	if (!len)
		s = ""; /* that of an empty buffer is NULL */
	hash = (uint32_t)hash_bytes(s, len, 0);
	if (!in->slots || in->n >= in->mask / 2)
		intern_rehash(in, in->slots ? (in->mask + 1) * 2 : 64);
	slot = intern_slot(in, s, len, hash);
	if (in->slots[slot])
		return in->slots[slot] - 1;
	if (in->n == in->cap) {
		in->cap = in->cap ? in->cap * 2 : 128;
		in->entries = xrealloc(in->entries, in->cap * sizeof(*in->entries));
	}
	in->entries[in->n] = (struct intern_entry){
		.s = arena_strndup(&in->arena, s, len),
		.len = (uint32_t)len,
		.hash = hash,
	};
	in->slots[slot] = ++in->n;
	return in->n - 1;
}

uint32_t intern_str(struct intern *in, const char *s)
{
	return intern(in, s, strlen(s));
}

uint32_t intern_find(const struct intern *in, const char *s, size_t len)
{
	uint32_t slot;

	if (!in->slots)
		return NO_ID;
	slot = intern_slot(in, s, len, (uint32_t)hash_bytes(s, len, 0));
	return in->slots[slot] ? in->slots[slot] - 1 : NO_ID;
}

const char *intern_get(const struct intern *in, uint32_t id)
{
	return id < in->n ? in->entries[id].s : "";
}

size_t intern_len(const struct intern *in, uint32_t id)
{
	return id < in->n ? in->entries[id].len : 0;
}

void intern_done(struct intern *in)
{
	arena_done(&in->arena);
	free(in->entries);
	free(in->slots);
	*in = (struct intern){ 0 };
}
