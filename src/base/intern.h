/* SPDX-License-Identifier: Apache-2.0 */
/* intern.h - each distinct string once, as a u32 that counts from 0 in order of arrival. */
#pragma once
#include "base/arena.h"

struct intern {
	struct arena arena;
	struct intern_entry *entries; /* by id */
	uint32_t n, cap;
	uint32_t *slots; /* open addressing, id + 1 */
	uint32_t mask;
};

/* The id of s[0..len), added if new. Any bytes but NUL are kept as they are. */
uint32_t intern(struct intern *in, const char *s, size_t len);
uint32_t intern_str(struct intern *in, const char *s);
uint32_t intern_find(const struct intern *in, const char *s, size_t len); /* NO_ID if absent */
const char *intern_get(const struct intern *in, uint32_t id); /* NUL-ended; "" for NO_ID */
size_t intern_len(const struct intern *in, uint32_t id);
void intern_done(struct intern *in);

uint64_t hash_bytes(const void *p, size_t len, uint64_t seed); /* not for adversaries */
static inline uint64_t hash_mix(uint64_t h, uint64_t v)
{
	h = (h ^ v * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
	return h ^ (h >> 32);
}
