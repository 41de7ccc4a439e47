/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracer_start.c - begins and ends: once, for good, and without a trace where it cannot.
 *
 * The byte that says "on" stands in a page that a fork wipes, so that a child of a process that
 * tells is silent at no cost. What has begun is never unmapped: a thread may be inside a call.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "tracer/core.h"
#include "tracer/tracer_libc.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { NOT_YET, BEGINNING, BEGUN };

static const uint8_t never;
const volatile uint8_t *tracer_enabled = &never;
struct core core = { .rank = -1, .local_rank = -1, .world_size = -1 };
static uint8_t *enabled_page;
static uint32_t progress; /* atomic */

void tracer_count(enum ring_counter c, uint64_t n)
{
	uint64_t all = add_relaxed(&core.counters[c], n) + n;

	if (core.header && tracer_on())
		store_relaxed(&core.header->counters[c], all);
}

static void state_show(enum ring_state state)
{
	store_release(&core.header->state, (uint32_t)state);
}

static void copy_text(char *to, size_t size, const char *s)
{
	struct text t = text_in(to, size);

	text_add(&t, s);
}

void tracer_off(uint32_t code, const char *why)
{
	if (!tracer_on() || exchange(&core.off_told, 1))
		return;
	core.header->off_code = code;
	copy_text(core.header->off_text, sizeof(core.header->off_text), why);
	state_show(RING_OFF);
	store_release(enabled_page, 0);
}

void lockstep_stop(void)
{
	if (!tracer_on() || exchange(&core.off_told, 1))
		return;
	state_show(RING_ENDED);
	store_release(enabled_page, 0);
}

void tracer_left(const char *what)
{
	if (tracer_on() && !exchange(&core.left_told, 1))
		copy_text(core.header->left_text, sizeof(core.header->left_text), what);
}

/* Field 22 of /proc/self/stat; the name in it may hold anything, so from its end. */
static uint64_t start_time(void)
{
	char stat[1024], *p;
	uint64_t n = 0;

	if (file_read("/proc/self/stat", stat, sizeof(stat)) <= 0)
		return 0;
	p = strrchr(stat, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	for (p = p ? p + 1 : stat; *p >= '0' && *p <= '9'; p++)
		n = n * 10 + (uint64_t)(*p - '0');
	return n;
}

static uint64_t pid_namespace(void)
{
	char link[64];
	uint64_t n = 0;
	ssize_t len = readlink("/proc/self/ns/pid", link, sizeof(link) - 1);

	for (ssize_t i = 0; i < len; i++) {
		if (link[i] >= '0' && link[i] <= '9')
			n = n * 10 + (uint64_t)(link[i] - '0');
	}
	return n;
}

static bool describe(struct ring_header *h, const struct ring_place *place)
{
	memcpy(h->magic, RING_MAGIC, sizeof(h->magic));
	h->major = RING_MAJOR, h->minor = RING_MINOR;
	h->header_bytes = sizeof(*h);
	h->file_bytes = place->bytes;
	h->n_slots = RING_SLOTS, h->slot_bytes = sizeof(struct ring_slot);
	h->slots_at = place->slots_at, h->pending_at = place->pending_at;
	h->names_at = place->names_at;
	h->n_pending = RING_PENDING, h->pending_bytes = sizeof(struct ring_pending);
	h->names_bytes = RING_NAME_BYTES;
	h->state = RING_STARTING;
	h->pid = (uint32_t)core.pid, h->uid = (uint32_t)geteuid();
	h->rank = core.rank, h->local_rank = core.local_rank, h->world_size = core.world_size;
	h->start_time = start_time();
	h->pid_namespace = pid_namespace();
	if (file_read("/proc/sys/kernel/random/boot_id", h->boot_id, sizeof(h->boot_id)) < 36)
		return false;
	h->boot_id[36] = 0;
	h->clock = core.tsc ? RING_CLOCK_TSC : RING_CLOCK_MONOTONIC;
	clock_pair(&h->first, 5);
	h->last = h->first;
	whom_describe(h);
	return h->start_time && h->pid_namespace;
}

static void slots_place(uint8_t *file, const struct ring_place *place)
{
	uint64_t at = place->rings_at;

	for (unsigned i = 0; i < RING_SLOTS; i++) {
		struct my_slot *s = &core.slots[i];
		uint32_t capacity = i == RING_KERNEL_SLOT ? RING_KERNELS : RING_RECORDS;

		s->shown = (struct ring_slot *)(file + place->slots_at) + i;
		s->ring = (struct ring_record *)(file + at);
		s->mask = capacity - 1;
		if (i == RING_KERNEL_SLOT)
			copy_text(s->shown->thread, sizeof(s->shown->thread), "gpu");
		s->shown->at = at;
		s->shown->capacity = capacity;
		at += capacity * sizeof(struct ring_record);
	}
	core.pending = (struct ring_pending *)(file + place->pending_at);
	names_start(file + place->names_at);
}

static bool page_make(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return false;
	if (madvise(p, 4096, MADV_WIPEONFORK)) {
		munmap(p, 4096); /* a kernel before 4.14: a child could not be told from us */
		return false;
	}
	enabled_page = p;
	return true;
}

static bool begin(const struct whom *w)
{
	static struct ring_header h; /* too large for a signal handler's stack */
	struct ring_place place;
	const char *why;
	uint8_t *file;
	int error;

	core.tsc = clock_has_tsc();
	if (load_relaxed(&core.rank) < 0)
		store_relaxed(&core.rank, w->rank);
	if (load_relaxed(&core.local_rank) < 0)
		store_relaxed(&core.local_rank, w->local_rank);
	if (load_relaxed(&core.world_size) < 0)
		store_relaxed(&core.world_size, w->world_size);
	ring_place(&place);
	if (!describe(&h, &place) || !page_make())
		return false;
	file = ring_make(&h, place.bytes, &error, &why);
	if (!file) {
		munmap(enabled_page, 4096);
		return false;
	}
	memcpy(file, &h, sizeof(h));
	core.header = (struct ring_header *)file;
	slots_place(file, &place);
	state_show(RING_ON);
	store_release(enabled_page, 1);
	store_release(&tracer_enabled, (const volatile uint8_t *)enabled_page);
	return true;
}

/* Not for ever: the other may be this very thread, below a signal handler, or not have been forked.
 */
static void wait_for_other(void)
{
	for (unsigned i = 0; i < 200; i++) {
		struct timespec t = { .tv_nsec = 100000 };
		pid_t pid = load_acquire(&core.pid);

		if (load_acquire(&progress) != BEGINNING || (pid && pid != getpid()))
			return;
		syscall(SYS_nanosleep, &t, NULL);
	}
}

bool tracer_start(enum tracer_door door)
{
	uint32_t expect = NOT_YET;
	int kept = errno;
	struct whom w;

	if (load_acquire(&progress) == NOT_YET) {
		whom_identity(&w);
		if (whom_traced(&w, door) && swap_if(&progress, &expect, BEGINNING)) {
			store_release(&core.pid, getpid());
			begin(&w);
			store_release(&progress, BEGUN);
		}
	}
	if (unlikely(load_acquire(&progress) == BEGINNING))
		wait_for_other();
	errno = kept;
	if (!tracer_on())
		return false;
	store_relaxed(&core.header->doors,
		      __atomic_or_fetch(&core.doors, (uint32_t)door, __ATOMIC_RELAXED));
	return true;
}
