/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracer_slots.c - which thread writes into which ring, and what others push into it.
 *
 * A thread claims a slot by writing its number into a free one. When none is free, those of dead
 * threads are taken over: threads end without telling us, so that there is nothing of ours in
 * their end. A record is written by its slot's thread alone; the number of records, published last,
 * says what a reader may believe.
 */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include "tracer/core.h"
#include "tracer/tracer_libc.h"

#define SKIP_WITHOUT_SLOT 1024 /* records of a thread before it looks for a slot again */

__thread struct my_thread my_thread __attribute__((tls_model("initial-exec")));

static bool is_dead(uint32_t tid)
{
	return syscall(SYS_tgkill, core.pid, (pid_t)tid, 0) && errno == ESRCH;
}

/* Ours, or free, or that of somebody dead; errno is kept. */
static struct my_slot *find_slot(uint32_t tid)
{
	int kept = errno;
	struct my_slot *found = NULL;

	for (unsigned pass = 0; pass < 3 && !found; pass++) {
		for (unsigned i = RING_KERNEL_SLOT + 1; i < RING_SLOTS && !found; i++) {
			struct my_slot *s = &core.slots[i];
			uint32_t owner = load_acquire(&s->tid);

			if ((pass == 0 && owner == tid) || (pass == 1 && !owner) ||
			    (pass == 2 && owner && is_dead(owner)))
				found = swap_if(&s->tid, &owner, tid) ? s : NULL;
		}
	}
	errno = kept;
	return found;
}

/* Whoever had it is gone; what it had open will not end. */
static void take_over(struct my_slot *s, uint32_t tid)
{
	char thread[16] = "";

	s->head = load_acquire(&s->head);
	load_acquire(&s->depth);
	store_relaxed(&s->shown->depth, 0);
	store_fence();
	s->depth = 0;
	store_relaxed(&s->beat, 0);
	prctl(PR_GET_NAME, thread, 0, 0, 0);
	memcpy(s->shown->thread, thread, sizeof(thread));
	store_relaxed(&s->shown->claims, ++s->claims);
	store_release(&s->shown->tid, tid);
}

/* The mark of being busy is set by the caller, and taken off here if there is no slot. */
struct my_slot *core_claim(struct my_thread *me)
{
	uint32_t tid;

	if (me->skip) {
		me->skip--;
	} else {
		tid = thread_id();
		me->slot = find_slot(tid);
		if (me->slot) {
			take_over(me->slot, tid);
			return me->slot;
		}
		me->skip = SKIP_WITHOUT_SLOT;
	}
	tracer_count(RING_LOST_NO_SLOT, 1);
	core_leave();
	return NULL;
}

void tracer_push(const struct ring_record *r, unsigned n)
{
	struct my_slot *s = core_enter();

	if (!s)
		return;
	for (unsigned i = 0; i < n; i++)
		core_put_record(s, &r[i]);
	core_leave();
}

void tracer_push_kernels(const struct ring_record *r, unsigned n)
{
	struct my_slot *s = &core.slots[RING_KERNEL_SLOT];

	if (!tracer_on())
		return;
	for (unsigned i = 0; i < n; i++)
		core_put_record(s, &r[i]);
}

uint32_t tracer_phase(void)
{
	const struct my_slot *s = my_thread.slot;
	uint32_t depth = tracer_on() && s ? s->depth : 0;

	if (depth > RING_OPEN_MAX)
		depth = RING_OPEN_MAX;
	return depth ? (uint32_t)s->open[depth - 1].word : 0;
}
