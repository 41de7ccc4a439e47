/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracer_api.c - what include/lockstep/lockstep.h promises, and the steps and collectives that
 * belong to the process and not to a thread.
 */
#include <string.h>
#include "tracer/core.h"

#define BEAT_TICKS (1u << 20) /* some 100 us to 1 ms: how fresh the process' beat is kept */

static void beat(struct my_slot *s, uint64_t now)
{
	if (likely(now - load_relaxed(&s->beat) < BEAT_TICKS))
		return;
	store_relaxed(&s->beat, now);
	store_relaxed(&core.header->beat, now);
}

int lockstep_start(void)
{
	return tracer_start(DOOR_API);
}

int lockstep_on(void)
{
	return tracer_on();
}

void lockstep_identity(int rank, int local_rank, int world_size)
{
	struct ring_header *h = core.header;

	if (exchange(&core.identity_lock, 1))
		return;
	store_relaxed(&core.rank, rank >= 0 ? rank : core.rank);
	store_relaxed(&core.local_rank, local_rank >= 0 ? local_rank : core.local_rank);
	store_relaxed(&core.world_size, world_size >= 0 ? world_size : core.world_size);
	if (tracer_on()) {
		store_relaxed(&h->identity_seq, ++core.identity_seq);
		store_fence();
		h->rank = core.rank, h->local_rank = core.local_rank;
		h->world_size = core.world_size;
		store_release(&h->identity_seq, ++core.identity_seq);
	}
	store_release(&core.identity_lock, 0);
}

uint32_t lockstep_name(const char *name)
{
	return name ? tracer_name(name, strnlen(name, RING_NAME_MAX + 1)) : 0;
}

static inline void phase_open(struct my_slot *s, uint32_t name, unsigned kind, uint64_t now)
{
	uint32_t depth = s->depth;
	uint64_t word = core_word(name, RING_PHASE, depth, kind);

	s->open[depth] = (struct open_phase){ now, word };
	core_words(&s->shown->open[depth], now, 0, word, 0);
	store_release(&s->depth, depth + 1);
	store_release(&s->shown->depth, depth + 1);
	store_fence();
}

static inline void phase_close(struct my_slot *s, const struct open_phase *open, uint64_t duration)
{
	uint32_t depth = s->depth - 1;

	store_release(&s->depth, depth);
	core_put(s, open->t, duration, open->word, 0);
	store_release(&s->shown->depth, depth);
	beat(s, open->t + duration);
}

/*
 * Each call is written for the usual case, in which it calls nothing and so keeps nothing on the
 * stack; what is left is done by a function of its own. The second kind is of clocks that are a
 * call themselves.
 */
static __attribute__((noinline)) void phase_begin_slow(uint32_t name, unsigned kind)
{
	struct my_slot *s = core_enter();

	if (!s)
		return;
	if (s->depth < RING_OPEN_MAX) {
		phase_open(s, name, kind, core_ticks());
	} else {
		tracer_count(RING_LOST_DEPTH, 1);
		store_release(&s->depth, s->depth + 1);
	}
	core_leave();
}

static __attribute__((noinline)) void phase_begin_called(uint32_t name, unsigned kind,
							 struct my_slot *s)
{
	phase_open(s, name, kind, core_monotonic_ns());
	core_leave();
}

void lockstep_phase_begin(uint32_t name, enum lockstep_phase_kind kind)
{
	struct my_slot *s = core_enter_fast();

	if (likely(s && s->depth < RING_OPEN_MAX)) {
		if (unlikely(!core.tsc)) {
			phase_begin_called(name, kind, s);
			return;
		}
		phase_open(s, name, kind, core_tsc());
		core_leave();
		return;
	}
	if (s)
		core_leave();
	phase_begin_slow(name, kind);
}

static __attribute__((noinline)) void phase_end_slow(void)
{
	struct my_slot *s = core_enter();

	if (!s)
		return;
	if (!s->depth) {
		tracer_count(RING_END_WITHOUT_BEGIN, 1);
	} else if (s->depth > RING_OPEN_MAX) {
		store_release(&s->depth, s->depth - 1);
	} else {
		const struct open_phase *open = &s->open[s->depth - 1];

		phase_close(s, open, core_duration(open->t, core_ticks()));
	}
	core_leave();
}

static __attribute__((noinline)) void phase_end_called(struct my_slot *s)
{
	const struct open_phase *open = &s->open[s->depth - 1];

	phase_close(s, open, core_duration(open->t, core_monotonic_ns()));
	core_leave();
}

void lockstep_phase_end(void)
{
	struct my_slot *s = core_enter_fast();

	if (likely(s && s->depth - 1u < RING_OPEN_MAX)) {
		const struct open_phase *open = &s->open[s->depth - 1];
		uint64_t now;

		if (unlikely(!core.tsc)) {
			phase_end_called(s);
			return;
		}
		now = core_tsc();
		if (likely(now >= open->t)) {
			phase_close(s, open, now - open->t);
			core_leave();
			return;
		}
	}
	if (s)
		core_leave();
	phase_end_slow();
}

static inline void value_put(struct my_slot *s, uint32_t name, unsigned kind, uint64_t value,
			     uint64_t now)
{
	core_put(s, now, 0, core_word(name, kind, core_depth(s), 0), value);
	beat(s, now);
	core_leave();
}

static __attribute__((noinline)) void tell_value_slow(uint32_t name, unsigned kind, uint64_t value)
{
	struct my_slot *s = core_enter();

	if (s)
		value_put(s, name, kind, value, core_ticks());
}

static __attribute__((noinline)) void tell_value_called(uint32_t name, unsigned kind,
							uint64_t value, struct my_slot *s)
{
	value_put(s, name, kind, value, core_monotonic_ns());
}

static inline void tell_value(uint32_t name, unsigned kind, uint64_t value)
{
	struct my_slot *s = core_enter_fast();

	if (unlikely(!s))
		tell_value_slow(name, kind, value);
	else if (likely(core.tsc))
		value_put(s, name, kind, value, core_tsc());
	else
		tell_value_called(name, kind, value, s);
}

void lockstep_counter(uint32_t name, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	tell_value(name, RING_COUNTER, bits);
}

void lockstep_mark(uint32_t name)
{
	tell_value(name, RING_MARK, 0);
}

/* The step that is open ends now; false: none was. */
static bool step_close(struct my_slot *s, uint64_t now)
{
	uint64_t begin = exchange(&core.step_begin, 0);
	struct ring_record r = { .t = begin, .kind = RING_STEP };

	if (!begin)
		return false;
	r.duration = core_duration(begin, now);
	r.value = (uint64_t)load_relaxed(&core.step_number);
	r.arg = (uint16_t)load_relaxed(&core.step_flags);
	core_put_record(s, &r);
	store_release(&core.header->steps_done, add_relaxed(&core.steps_done, 1) + 1);
	clock_show();
	return true;
}

void lockstep_step_begin(int64_t number)
{
	struct my_slot *s = core_enter();
	uint64_t now;

	if (!s)
		return;
	now = core_ticks();
	step_close(s, now);
	if (number < 0)
		number = load_relaxed(&core.step_next);
	store_relaxed(&core.step_next, number + 1);
	store_relaxed(&core.step_number, number);
	store_relaxed(&core.step_flags, 0);
	store_relaxed(&core.header->step, (uint64_t)number);
	store_release(&core.step_begin, now ? now : 1);
	beat(s, now);
	core_leave();
}

void lockstep_step_end(void)
{
	struct my_slot *s = core_enter();
	uint64_t now;

	if (!s)
		return;
	now = core_ticks();
	if (!step_close(s, now))
		tracer_count(RING_END_WITHOUT_BEGIN, 1);
	beat(s, now);
	core_leave();
}

void tracer_step_flag(enum ring_step flag)
{
	__atomic_or_fetch(&core.step_flags, (uint32_t)flag, __ATOMIC_RELAXED);
}

/* A free place, taken: the ids go round, so that one is not used again soon. */
static struct my_pending *pending_take(uint64_t *ret_id)
{
	for (unsigned i = 0; i < RING_PENDING; i++) {
		uint64_t id = add_relaxed(&core.collectives, 1) + RING_PENDING, none = 0;
		struct my_pending *p = &core.under_way[id % RING_PENDING];

		if (load_relaxed(&p->id) || !swap_if(&p->id, &none, PENDING_BUSY))
			continue;
		*ret_id = id;
		return p;
	}
	tracer_count(RING_LOST_PENDING, 1);
	return NULL;
}

uint64_t lockstep_collective_begin(uint32_t group, enum lockstep_op op, int64_t sequence,
				   uint64_t bytes)
{
	struct ring_pending *shown;
	struct my_pending *p;
	uint64_t id;

	if (!tracer_on())
		return 0;
	p = pending_take(&id);
	if (!p)
		return 0;
	shown = &core.pending[id % RING_PENDING];
	p->r = (struct ring_record){ .t = core_ticks(),
				     .name = group,
				     .kind = RING_COLL,
				     .depth = my_thread.slot ? core_depth(my_thread.slot) : 0,
				     .arg = (uint16_t)op,
				     .value = (uint64_t)sequence };
	p->bytes = bytes;
	shown->r = p->r;
	shown->bytes = bytes;
	store_release(&shown->id, id);
	store_release(&p->id, id);
	return id;
}

void lockstep_collective_end(uint64_t id)
{
	struct my_pending *p = &core.under_way[id % RING_PENDING];
	uint64_t expect = id, now;
	struct ring_record r[2];

	if (!tracer_on() || !id)
		return;
	if (id == PENDING_BUSY || !swap_if(&p->id, &expect, PENDING_BUSY)) {
		tracer_count(RING_END_WITHOUT_BEGIN, 1);
		return;
	}
	now = core_ticks();
	r[0] = p->r;
	r[0].duration = core_duration(r[0].t, now);
	r[1] = (struct ring_record){ .kind = RING_MORE, .value = p->bytes };
	tracer_push(r, 2);
	store_relaxed(&core.pending[id % RING_PENDING].id, 0);
	store_fence();
	store_release(&p->id, 0);
}
