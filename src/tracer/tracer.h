/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracer.h - what the doors of liblockstep.so share: the ring of the process and the slot of the
 * thread.
 *
 * Whatever is called here returns at once, allocates nothing and prints nothing. Only libc is
 * linked, with no symbol above GLIBC_2.17. A process that was forked tells nothing: the page of
 * `tracer_enabled` is wiped by the fork.
 */
#pragma once
#include <stdbool.h>

#include "lockstep/lockstep.h"
#include "model/ring_layout.h"

/* By whom it was started; bits. */
enum tracer_door {
	DOOR_API = 1,
	DOOR_CUDA = 2,
	DOOR_NVTX = 4,
	DOOR_NCCL = 8,
	DOOR_PYTHON = 16,
};

/* The ring is there and the process tells: one byte of a page of its own. */
extern const volatile uint8_t *tracer_enabled;
static inline bool tracer_on(void)
{
	return __atomic_load_n(__atomic_load_n(&tracer_enabled, __ATOMIC_RELAXED),
			       __ATOMIC_ACQUIRE);
}

/* Starts once; later calls only note the door; who comes while another thread starts waits for it,
   20 ms at most. true: on. */
bool tracer_start(enum tracer_door door);
/* Off for good, with the reason for the agent: code is an errno or a result of CUPTI's. */
void tracer_off(uint32_t code, const char *why);
/* What was left alone since somebody else had set it; kept once. */
void tracer_left(const char *what);

void tracer_count(enum ring_counter c, uint64_t n);
uint32_t tracer_name(const char *s, size_t len);
uint64_t tracer_ticks(void);	   /* of the ring's clock */
uint64_t tracer_realtime_ns(void); /* as CUPTI's */

/*
 * One or more units into the ring of this thread; a RING_MORE stands behind the record that it
 * belongs to.
 */
void tracer_push(const struct ring_record *r, unsigned n);
/* The same into that of GPU work: by one thread at a time, to be seen to by the caller. */
void tracer_push_kernels(const struct ring_record *r, unsigned n);
/* The step under way, or the next to begin, is marked: enum ring_step flags. */
void tracer_step_flag(enum ring_step flag);
/* The name of the innermost open phase of this thread; 0: none. */
uint32_t tracer_phase(void);
