/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - chunks in a list, newest first; each new one twice as large, up to 1 MiB. */
#include "base/arena.h"

#define ARENA_ALIGN   ((size_t)16)
#define ARENA_FIRST   ((size_t)4 << 10)
#define ARENA_LARGEST ((size_t)1 << 20)

struct arena_chunk {
	struct arena_chunk *next;
	size_t used, size;
	_Alignas(16) char data[];
};

void *arena_alloc(struct arena *a, size_t size)
{
	struct arena_chunk *c = a->chunk;
	void *p;

	size = (size + ARENA_ALIGN - 1) & ~(ARENA_ALIGN - 1);
	if (!c || c->size - c->used < size) {
		size_t want = c ? MIN(c->size * 2, ARENA_LARGEST) : ARENA_FIRST;

		want = MAX(want, size);
		c = xmalloc(sizeof(*c) + want);
		*c = (struct arena_chunk){ .next = a->chunk, .size = want };
		a->chunk = c;
	}
	p = c->data + c->used;
	c->used += size;
	return memset(p, 0, size);
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
	char *p = arena_alloc(a, len + 1);

	return memcpy(p, s, len);
}

void arena_reset(struct arena *a)
{
	struct arena_chunk *keep = NULL;

	for (struct arena_chunk *c = a->chunk, *next; c; c = next) {
		next = c->next;
		if (!keep || c->size > keep->size) {
			free(keep);
			keep = c;
		} else {
			free(c);
		}
	}
	if (keep) {
		keep->next = NULL;
		keep->used = 0;
	}
	a->chunk = keep;
}

void arena_done(struct arena *a)
{
	for (struct arena_chunk *c = a->chunk, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	a->chunk = NULL;
}
