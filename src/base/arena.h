/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - memory of one pass: many small allocations, one free. */
#pragma once
#include "base/base.h"

struct arena {
	struct arena_chunk *chunk; /* that is filled, and full ones behind it */
	struct arena_chunk *spare; /* from before a reset */
};

void *arena_alloc(struct arena *a, size_t size);		 /* 16-byte aligned, zeroed */
char *arena_strndup(struct arena *a, const char *s, size_t len); /* adds the NUL */
void arena_reset(struct arena *a);		       /* keeps its chunks for what comes */
void arena_join(struct arena *to, struct arena *from); /* what was allocated from `from` lives on */
void arena_done(struct arena *a);		       /* an arena of zeros is valid */
