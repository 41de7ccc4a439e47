/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracer_names.c - names made numbers, once and for all.
 *
 * Nobody waits here, so a signal handler may ask while its own thread is asking: a number and its
 * bytes are reserved together by one compare-and-swap, written, and only then put into the table
 * by another. Two threads that bring the same new name at the same moment may give it two numbers;
 * readers take names by their bytes. The file has a copy, never read here, whose count grows
 * once all names up to it are written.
 */
#include <string.h>
#include "tracer/core.h"
#include "tracer/tracer_libc.h"

#define BUCKETS 16384u /* twice RING_NAMES: a search ends soon */

static struct {
	uint64_t reserved;	       /* numbers << 32 | bytes; atomic */
	uint32_t shown;		       /* numbers in the file's count; atomic */
	uint8_t *area;		       /* in the file */
	uint32_t bucket[BUCKETS];      /* a number; 0: none; atomic */
	uint32_t hash[RING_NAMES + 1]; /* by number, as all below */
	uint32_t at[RING_NAMES + 1];
	uint16_t len[RING_NAMES + 1];
	uint8_t written[RING_NAMES + 1]; /* atomic */
	char bytes[RING_NAME_BYTES];
} names;

void names_start(uint8_t *area)
{
	names.area = area;
}

static uint32_t hash_of(const char *s, size_t len)
{
	uint64_t h = 0x9e3779b97f4a7c15u ^ len, word;

	for (; len >= 8; s += 8, len -= 8) {
		memcpy(&word, s, 8);
		h = (h ^ word) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	word = 0;
	for (size_t i = 0; i < len; i++)
		word |= (uint64_t)(uint8_t)s[i] << 8 * i;
	h = (h ^ word) * 0xff51afd7ed558ccdu;
	h ^= h >> 29;
	h *= 0xc4ceb9fe1a85ec53u;
	return (uint32_t)(h >> 32);
}

/* The number at the first bucket that holds this name, or 0 with *at at the free one. */
static uint32_t find(const char *s, size_t len, uint32_t hash, uint32_t *at)
{
	uint32_t b = *at, id;

	while ((id = load_acquire(&names.bucket[b])) != 0) {
		if (names.hash[id] == hash && names.len[id] == len &&
		    !memcmp(names.bytes + names.at[id], s, len))
			break;
		b = (b + 1) % BUCKETS;
	}
	*at = b;
	return id;
}

static uint32_t reserve(size_t len, uint32_t *ret_at)
{
	uint64_t old = load_relaxed(&names.reserved), grown;

	do {
		uint64_t n = old >> 32, used = (uint32_t)old;

		if (n >= RING_NAMES || used + 2 + len > RING_NAME_BYTES)
			return 0;
		*ret_at = (uint32_t)used;
		grown = (n + 1) << 32 | (used + 2 + len);
	} while (!swap_if(&names.reserved, &old, grown));
	return (uint32_t)(grown >> 32);
}

/* The count goes on over all that are written; whoever stores an older one than another stores
   again. */
static void show(void)
{
	struct ring_header *h = core.header;
	uint32_t n = load_acquire(&names.shown);

	while (n < RING_NAMES && load_acquire(&names.written[n + 1])) {
		if (swap_if(&names.shown, &n, n + 1))
			n++;
	}
	do {
		n = load_acquire(&names.shown);
		if (n)
			store_relaxed(&h->names_used, names.at[n] + 2u + names.len[n]);
		store_release(&h->n_names, n);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	} while (n != load_acquire(&names.shown));
}

static uint32_t add(const char *s, size_t len, uint32_t hash, uint32_t bucket)
{
	uint32_t at, id = reserve(len, &at), there;

	if (!id) {
		tracer_count(RING_LOST_NAMES, 1);
		return 0;
	}
	names.hash[id] = hash, names.at[id] = at, names.len[id] = (uint16_t)len;
	memcpy(names.bytes + at, s, len);
	names.area[at] = (uint8_t)len, names.area[at + 1] = (uint8_t)(len >> 8);
	memcpy(names.area + at + 2, s, len);
	store_release(&names.written[id], 1);
	show();
	for (;;) {
		uint32_t none = 0;

		if (swap_if(&names.bucket[bucket], &none, id))
			return id;
		there = find(s, len, hash, &bucket);
		if (there)
			return there;
	}
}

uint32_t tracer_name(const char *s, size_t len)
{
	uint32_t hash, bucket, id;
	bool cut;

	if (!tracer_on() || !s || !len)
		return 0;
	cut = len > RING_NAME_MAX;
	len = cut ? RING_NAME_MAX : len;
	hash = hash_of(s, len), bucket = hash % BUCKETS;
	id = find(s, len, hash, &bucket);
	if (likely(id))
		return id;
	if (cut)
		tracer_count(RING_CUT_NAMES, 1);
	return add(s, len, hash, bucket);
}
