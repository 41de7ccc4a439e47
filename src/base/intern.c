/* SPDX-License-Identifier: Apache-2.0 */
/* intern.c - a hash table of ids over an arena of strings; at most half full. */
#include "base/intern.h"

struct intern_entry {
	const char *s;
	uint32_t len;
	uint32_t hash;
};

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
	w = 0;
	memcpy(&w, b, len);
	h = (h ^ w) * 0x9fb21c651e98df25u;
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

		if (e->hash == hash && e->len == len && !memcmp(e->s, s, len))
			break;
	}
	return i;
}

uint32_t intern(struct intern *in, const char *s, size_t len)
{
	uint32_t hash = (uint32_t)hash_bytes(s, len, 0);
	uint32_t slot;

	if (!in->slots || in->n >= in->mask / 2)
		intern_rehash(in, in->slots ? (in->mask + 1) * 2 : 256);
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
