/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A place is taken by making its id BUSY, published by writing the id, and given back by making it
 * 0. An id holds a number that is never used again, so a range that ends twice meets nobody else's.
 */
#include "tracer/nvtx_range.h"

#include <stdatomic.h>

#include "tracer/door.h"

#define BUSY	 1u
#define STEP	 255u /* a kind that no phase has */
#define NO_PLACE NVTX_OPEN

static struct place {
	_Atomic uint64_t id;
	uint64_t t;
	uint32_t name;
	uint8_t kind;
} places[NVTX_OPEN];

static _Atomic uint64_t started;

static uint64_t start(uint32_t name, uint8_t kind)
{
	uint64_t n = atomic_fetch_add_explicit(&started, 1, memory_order_relaxed) + 1;

	for (uint32_t i = 0; i < NVTX_OPEN; i++) {
		uint32_t at = (uint32_t)(n + i) % NVTX_OPEN;
		uint64_t free = 0;

		if (!atomic_compare_exchange_strong_explicit(
			&places[at].id, &free, BUSY, memory_order_acquire, memory_order_relaxed))
			continue;
		places[at].t = tracer_ticks();
		places[at].name = name;
		places[at].kind = kind;
		atomic_store_explicit(&places[at].id, n << 16 | at, memory_order_release);
		return n << 16 | at;
	}
	tracer_count(RING_LOST_PENDING, 1);
	return n << 16 | NO_PLACE;
}

uint64_t nvtx_range_start(uint32_t name, uint8_t kind)
{
	return start(name, kind);
}

uint64_t nvtx_range_start_step(void)
{
	return start(0, STEP);
}

static void tell(uint64_t t, uint32_t name, uint8_t kind)
{
	struct ring_record r = { .t = t, .name = name, .kind = RING_PHASE, .arg = kind };
	uint64_t now = tracer_ticks();

	if (now < t)
		tracer_count(RING_CLOCK_STEPS, 1);
	else
		r.duration = now - t;
	tracer_push(&r, 1);
}

void nvtx_range_end(uint64_t id)
{
	uint32_t at = (uint32_t)id & 0xffff;
	uint64_t want = id;
	struct place p;

	if (at == NO_PLACE)
		return; /* counted when it began */
	if (at > NO_PLACE || id >> 16 == 0 ||
	    !atomic_compare_exchange_strong_explicit(&places[at].id, &want, BUSY,
						     memory_order_acquire, memory_order_relaxed)) {
		tracer_count(RING_END_WITHOUT_BEGIN, 1);
		return;
	}
	p.t = places[at].t;
	p.name = places[at].name;
	p.kind = places[at].kind;
	atomic_store_explicit(&places[at].id, 0, memory_order_release);
	if (p.kind != STEP)
		tell(p.t, p.name, p.kind);
	else if (!tracer_steps_elsewhere())
		lockstep_step_end();
}
