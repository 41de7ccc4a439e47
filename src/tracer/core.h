/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core.h - the private side of the ring: what the writer knows by itself, since it believes nothing
 * that stands in memory which another process can write.
 *
 * All of it is static memory: nothing is taken, so nothing can fail once the ring is mapped. It is
 * never given back, so a thread that is still inside a call when all ends hurts nobody.
 */
#pragma once
#include <sys/types.h>
#include <time.h>
#include "tracer/tracer.h"
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define CACHE_LINE 64

#define load_relaxed(p)	    __atomic_load_n(p, __ATOMIC_RELAXED)
#define load_acquire(p)	    __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store_relaxed(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define add_relaxed(p, v)   __atomic_fetch_add(p, v, __ATOMIC_RELAXED)
#define exchange(p, v)	    __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL)
#define swap_if(p, expect, v)                                                                      \
	__atomic_compare_exchange_n(p, expect, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
/* Stores after it are seen after those before it. */
#define store_fence() __atomic_thread_fence(__ATOMIC_RELEASE)
#define likely(x)     __builtin_expect(!!(x), 1)
#define unlikely(x)   __builtin_expect(!!(x), 0)

struct open_phase {
	uint64_t t, word; /* word: as core_word makes it */
};

/* A slot as its thread knows it. head, beat and depth are atomic for its next thread's sake only.
 */
struct my_slot {
	struct ring_record *ring;
	struct ring_slot *shown; /* to the readers */
	uint64_t head;
	uint64_t beat; /* when it last said that somebody lives */
	uint32_t mask, depth;
	uint32_t tid; /* 0: free; atomic */
	uint32_t claims;
	struct open_phase open[RING_OPEN_MAX];
} __attribute__((aligned(CACHE_LINE)));

#define PENDING_BUSY 1 /* being written, or told; no collective has this id */
struct my_pending {
	uint64_t id; /* 0: free, PENDING_BUSY, else whose it is; atomic */
	struct ring_record r;
	uint64_t bytes;
} __attribute__((aligned(CACHE_LINE)));

struct core {
	struct ring_header *header;
	struct ring_pending *pending;
	bool tsc;
	pid_t pid;
	struct my_slot slots[RING_SLOTS];
	struct my_pending under_way[RING_PENDING];
	uint64_t collectives; /* begun; atomic */
	/* the step: 0: none is open; atomic */
	uint64_t step_begin;
	int64_t step_number, step_next;
	uint32_t step_flags;
	uint64_t steps_done;
	uint64_t counters[RING_COUNTERS];
	struct ring_clock_pair last;
	uint32_t clock_lock, clock_seq, identity_lock, identity_seq;
	int32_t rank, local_rank, world_size; /* as told, or the environment's */
	uint32_t doors, off_told, left_told;
};
extern struct core core;

/* What a thread knows of itself; initial-exec, so that it is there in a signal handler too. */
struct my_thread {
	struct my_slot *slot;
	uint32_t skip; /* records not told before a slot is looked for again */
	uint8_t busy;  /* inside a call: a signal handler that comes now tells nothing */
};
extern __thread struct my_thread my_thread __attribute__((tls_model("initial-exec")));

static inline uint64_t core_monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t core_tsc(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#else
	return 0; /* core.tsc is never set */
#endif
}

static inline uint64_t core_ticks(void)
{
	if (likely(core.tsc))
		return core_tsc();
	return core_monotonic_ns();
}

/* The slot of this thread, claimed at the first call; NULL: nothing can be told. core_leave must
   follow if it is not NULL. */
struct my_slot *core_claim(struct my_thread *me);
static inline struct my_slot *core_enter(void)
{
	struct my_thread *me = &my_thread;

	if (unlikely(!tracer_on()))
		return NULL;
	if (unlikely(me->busy)) {
		tracer_count(RING_LOST_REENTRANT, 1);
		return NULL;
	}
	*(volatile uint8_t *)&me->busy = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (likely(me->slot != NULL))
		return me->slot;
	return core_claim(me);
}

/* Nothing is in the way: it is on, the thread has a slot and is not inside a call, the TSC ticks.
 */
static inline struct my_slot *core_enter_fast(void)
{
	struct my_thread *me = &my_thread;
	struct my_slot *s = me->slot;

	if (unlikely(!tracer_on() || me->busy || !s))
		return NULL;
	*(volatile uint8_t *)&me->busy = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return s;
}

static inline void core_leave(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	*(volatile uint8_t *)&my_thread.busy = 0;
}

/* name, kind, depth and arg of a record, as they lie in it. */
static inline uint64_t core_word(uint32_t name, unsigned kind, unsigned depth, unsigned arg)
{
	static_assert(offsetof(struct ring_record, name) == 16 &&
			  offsetof(struct ring_record, kind) == 20 &&
			  offsetof(struct ring_record, depth) == 21 &&
			  offsetof(struct ring_record, arg) == 22 &&
			  offsetof(struct ring_record, value) == 24,
		      "a record is four words");
	return name | (uint64_t)(uint8_t)kind << 32 | (uint64_t)(uint8_t)depth << 40 |
	       (uint64_t)(uint16_t)arg << 48;
}

/* Whole words, so that nobody has to put halves together again. */
static inline void core_words(struct ring_record *to, uint64_t t, uint64_t duration, uint64_t word,
			      uint64_t value)
{
	uint64_t *w = (uint64_t *)to;

	w[0] = t, w[1] = duration, w[2] = word, w[3] = value;
}

/* One unit; each is shown by itself, so that never more than one is being overwritten. */
static inline void core_put(struct my_slot *s, uint64_t t, uint64_t duration, uint64_t word,
			    uint64_t value)
{
	uint64_t head = s->head;

	core_words(&s->ring[head & s->mask], t, duration, word, value);
	store_release(&s->head, head + 1);
	store_release(&s->shown->head, head + 1);
	store_fence();
}

static inline void core_put_record(struct my_slot *s, const struct ring_record *r)
{
	core_put(s, r->t, r->duration, core_word(r->name, r->kind, r->depth, r->arg), r->value);
}

static inline uint8_t core_depth(const struct my_slot *s)
{
	return s->depth < 255 ? (uint8_t)s->depth : 255;
}

/* now - begin, never below 0. */
static inline uint64_t core_duration(uint64_t begin, uint64_t now)
{
	if (likely(now >= begin))
		return now - begin;
	tracer_count(RING_CLOCK_STEPS, 1);
	return 0;
}

/* tracer_clock.c */
bool clock_has_tsc(void);
void clock_pair(struct ring_clock_pair *p, unsigned tries);
void clock_show(void);

/* tracer_names.c */
void names_start(uint8_t *area);

/* tracer_whom.c: what the environment and the command line say of this process. */
struct whom {
	int32_t rank, local_rank, world_size;
	bool ranked; /* the environment names a rank */
};
void whom_identity(struct whom *ret);
bool whom_traced(const struct whom *w, enum tracer_door door);
/* args: as in /proc/PID/cmdline: a byte 0 behind each. */
bool whom_is_helper(const char *args, size_t len);
void whom_program(const char *args, size_t len, char *out, size_t size);
void whom_describe(struct ring_header *h);

/* tracer_file.c */
struct ring_place {
	uint64_t bytes, slots_at, pending_at, names_at, rings_at;
};
void ring_place(struct ring_place *ret);
/* The new file, mapped; NULL: *ret_why says why, the result is an errno. */
uint8_t *ring_make(const struct ring_header *h, uint64_t bytes, int *ret_error,
		   const char **ret_why);
