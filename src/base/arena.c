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

static void chunks_free(struct arena_chunk *c)
{
	while (c) {
		struct arena_chunk *next = c->next;

		free(c);
		c = next;
	}
}

/* Spare chunks that are too small for what is asked go: what is kept stays near what is used. */
static struct arena_chunk *chunk_for(struct arena *a, size_t size)
{
	size_t want = a->chunk ? MIN(a->chunk->size * 2, ARENA_LARGEST) : ARENA_FIRST;
	struct arena_chunk *c;

	while (a->spare && a->spare->size < size) {
		c = a->spare;
		a->spare = c->next;
		free(c);
	}
	c = a->spare;
	if (c) {
		a->spare = c->next;
	} else {
		want = MAX(want, size);
		c = xmalloc(sizeof(*c) + want);
		c->size = want;
	}
	c->next = a->chunk;
	c->used = 0;
	a->chunk = c;
	return c;
}

void *arena_alloc(struct arena *a, size_t size)
{
	struct arena_chunk *c = a->chunk;
	void *p;

	size = (size + ARENA_ALIGN - 1) & ~(ARENA_ALIGN - 1);
	if (!c || c->size - c->used < size)
		c = chunk_for(a, size);
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
	struct arena_chunk **end = &a->chunk;

	while (*end)
		end = &(*end)->next;
	*end = a->spare;
	a->spare = a->chunk;
	a->chunk = NULL;
}

void arena_join(struct arena *to, struct arena *from)
{
	struct arena_chunk **end = &from->chunk;

	/* behind the chunk that is being filled */
	while (*end)
		end = &(*end)->next;
	if (to->chunk) {
		*end = to->chunk->next;
		to->chunk->next = from->chunk;
	} else {
		to->chunk = from->chunk;
	}
	from->chunk = NULL;
	arena_done(from);
}

void arena_done(struct arena *a)
{
	chunks_free(a->chunk);
	chunks_free(a->spare);
	*a = (struct arena){ 0 };
}
