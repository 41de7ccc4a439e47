/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti_buffers.c - memory for CUPTI's records: taken when it is first asked for, used again for
 * ever.
 *
 * A buffer is FREE, OUT (CUPTI's), FULL (ours), or READY (full before the last flush, to be read).
 * Request and completion run inside CUPTI with its locks held, on threads of the program, so they
 * do no more than one change of state; reading and zeroing are for the one thread that drains. The
 * lowest free buffer is taken, so few are ever touched. A buffer that CUPTI has is never freed: one
 * that it gave to somebody else is given up, and new memory takes its place.
 */
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "tracer/cupti.h"
#include "tracer/door.h"

enum { FREE, OUT, FULL, READY };

static struct buffer {
	_Atomic uint32_t state;
	uint8_t *_Atomic at;
	_Atomic size_t valid;
} buffers[CUPTI_BUFFERS];

static _Atomic uint32_t n_full;
static uint32_t abandoned; /* of the draining thread */

static uint8_t *memory_of(struct buffer *b)
{
	uint8_t *at = atomic_load_explicit(&b->at, memory_order_relaxed);

	if (!at) {
		at = mmap(NULL, CUPTI_BUFFER_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at == MAP_FAILED)
			return NULL;
		atomic_store_explicit(&b->at, at, memory_order_release);
	}
	return at;
}

static uint8_t *take(uint32_t most)
{
	for (uint32_t i = 0; i < most; i++) {
		uint32_t was = FREE;
		uint8_t *at;

		if (!atomic_compare_exchange_strong_explicit(
			&buffers[i].state, &was, OUT, memory_order_acquire, memory_order_relaxed))
			continue;
		at = memory_of(&buffers[i]);
		if (at)
			return at;
		atomic_store(&buffers[i].state, FREE);
		return NULL;
	}
	return NULL;
}

void cupti_buffers_request(uint8_t **buffer, size_t *size, size_t *records)
{
	bool may_refuse = cupti_version() >= CUPTI_NULL_SAFE;
	uint8_t *at = take(may_refuse ? CUPTI_BUFFERS_SOFT : CUPTI_BUFFERS);

	*records = 0;
	*size = CUPTI_BUFFER_BYTES;
	if (!at && !may_refuse) {
		/* an older CUPTI would crash: a small one that is never seen again */
		*size = 64u << 10;
		at = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at == MAP_FAILED)
			at = NULL;
		cupti_wake();
	}
	if (!at)
		*size = 0;
	*buffer = at;
}

void cupti_buffers_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
			    size_t valid)
{
	(void)context, (void)stream, (void)size;
	for (uint32_t i = 0; i < CUPTI_BUFFERS; i++) {
		struct buffer *b = &buffers[i];

		if (atomic_load_explicit(&b->at, memory_order_acquire) != buffer || !buffer)
			continue;
		if (atomic_load_explicit(&b->state, memory_order_relaxed) != OUT)
			break;
		atomic_store_explicit(&b->valid,
				      valid < CUPTI_BUFFER_BYTES ? valid : CUPTI_BUFFER_BYTES,
				      memory_order_relaxed);
		atomic_store_explicit(&b->state, FULL, memory_order_release);
		if (atomic_fetch_add(&n_full, 1) + 1 == CUPTI_BUFFERS_WAKE)
			cupti_wake();
		return;
	}
	tracer_count(RING_CUPTI_FOREIGN, 1);
}

void cupti_buffers_mark(void)
{
	for (uint32_t i = 0; i < CUPTI_BUFFERS; i++) {
		uint32_t was = FULL;

		if (atomic_compare_exchange_strong(&buffers[i].state, &was, READY))
			atomic_fetch_sub(&n_full, 1);
	}
}

unsigned cupti_buffers_drain(void (*read)(uint8_t *at, size_t valid, int pass))
{
	unsigned n = 0;

	for (uint32_t i = 0; i < CUPTI_BUFFERS; i++) {
		uint32_t state = atomic_load_explicit(&buffers[i].state, memory_order_acquire);

		if (state == FULL)
			read(buffers[i].at, buffers[i].valid, 0);
	}
	for (uint32_t i = 0; i < CUPTI_BUFFERS; i++) {
		struct buffer *b = &buffers[i];

		if (atomic_load_explicit(&b->state, memory_order_relaxed) != READY)
			continue;
		read(b->at, b->valid, 1);
		/* here and not by CUPTI, which would do it on the program's thread */
		memset(b->at, 0, b->valid);
		atomic_store_explicit(&b->state, FREE, memory_order_release);
		n++;
	}
	return n;
}

bool cupti_buffers_abandon(void)
{
	for (uint32_t i = 0; i < CUPTI_BUFFERS; i++) {
		struct buffer *b = &buffers[i];

		if (atomic_load(&b->state) != OUT)
			continue;
		atomic_store(&b->at, NULL);
		atomic_store(&b->state, FREE);
		abandoned++;
	}
	return abandoned <= CUPTI_ABANDONED;
}
