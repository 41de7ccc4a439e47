/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_load.c - the rings of a node at work, for the bench of the agent: RANKS rings in DIR, each
 * with steps of STEP_MS in which KERNELS kernels end, told every 100 ms as CUPTI's buffers are.
 *
 *	ring_load DIR RANKS STEPS STEP_MS KERNELS LAUNCHES(0|1)
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "model/ring_layout.h"

#define BUFFER_MS 100
#define NAMES	  200

struct rank {
	struct ring_header *h;
	struct ring_slot *slots;
	uint64_t correlation;
};

static uint64_t now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void push(struct rank *r, unsigned slot, const struct ring_record *rec)
{
	struct ring_slot *s = &r->slots[slot];
	struct ring_record *ring = (struct ring_record *)((char *)r->h + s->at);

	ring[s->head & (s->capacity - 1)] = *rec;
	__atomic_store_n(&s->head, s->head + 1, __ATOMIC_RELEASE);
}

static uint32_t name_add(struct ring_header *h, const char *text)
{
	char *at = (char *)h + h->names_at + h->names_used;
	uint16_t len = (uint16_t)strlen(text);

	memcpy(at, &len, 2);
	memcpy(at + 2, text, len);
	h->names_used += 2u + len;
	return ++h->n_names;
}

static uint64_t start_time(void)
{
	char text[1024] = "", *p;
	FILE *f = fopen("/proc/self/stat", "r");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	text[n] = '\0';
	if (f)
		fclose(f);
	p = strrchr(text, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

static void rank_make(struct rank *r, const char *dir, int rank, int ranks)
{
	uint64_t slots_at = 4096, pending_at = slots_at + RING_SLOTS * sizeof(struct ring_slot);
	uint64_t names_at = pending_at + RING_PENDING * sizeof(struct ring_pending);
	uint64_t at = (names_at + RING_NAME_BYTES + 4095) & ~4095ull;
	uint64_t bytes = at + (RING_KERNELS + (RING_SLOTS - 1ull) * RING_RECORDS) * 32;
	char path[4096], part[4104];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/%d.ring", dir, rank);
	snprintf(part, sizeof(part), "%s.part", path);
	fd = open(part, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		exit(1);
	r->h = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	r->slots = (struct ring_slot *)((char *)r->h + slots_at);
	stat("/proc/self/ns/pid", &st);
	*r->h = (struct ring_header){
		.major = RING_MAJOR,
		.header_bytes = sizeof(*r->h),
		.file_bytes = bytes,
		.n_slots = RING_SLOTS,
		.slots_at = slots_at,
		.slot_bytes = sizeof(struct ring_slot),
		.pending_at = pending_at,
		.n_pending = RING_PENDING,
		.names_at = names_at,
		.pending_bytes = sizeof(struct ring_pending),
		.names_bytes = RING_NAME_BYTES,
		.state = RING_ON,
		.rank = rank,
		.world_size = ranks,
		.pid = (uint32_t)getpid(),
		.uid = (uint32_t)geteuid(),
		.start_time = start_time(),
		.pid_namespace = st.st_ino,
		.clock = RING_CLOCK_MONOTONIC,
		.host = "node",
		.job = "load",
	};
	memcpy(r->h->magic, RING_MAGIC, 8);
	r->h->first.ticks = r->h->first.monotonic_ns = now(CLOCK_MONOTONIC);
	r->h->first.realtime_ns = now(CLOCK_REALTIME);
	r->h->last = r->h->first;
	for (unsigned i = 0; i < RING_SLOTS; i++) {
		r->slots[i].at = at;
		r->slots[i].capacity = i ? RING_RECORDS : RING_KERNELS;
		at += r->slots[i].capacity * 32ull;
	}
	for (int i = 0; i < NAMES; i++) {
		char text[64];

		snprintf(text, sizeof(text), "sm90_xmma_gemm_bf16_tilesize128x128_%d", i);
		name_add(r->h, text);
	}
	name_add(r->h, "forward");
	name_add(r->h, "backward");
	rename(part, path);
}

/* The kernels that began in the buffer before this moment, launched two buffers before it. */
static void buffer_tell(struct rank *r, long kernels, int launches)
{
	uint64_t real = now(CLOCK_REALTIME), mono = now(CLOCK_MONOTONIC);
	uint64_t apart = BUFFER_MS * 1000000ull / (uint64_t)kernels;

	for (long i = 0; i < kernels; i++) {
		uint64_t ago = (uint64_t)(kernels - i) * apart;
		struct ring_record rec = {
			.t = mono - ago - BUFFER_MS * 1000000ull,
			.duration = 3000,
			.kind = RING_LAUNCH,
			.value = ++r->correlation << 32,
		};

		if (launches)
			push(r, RING_KERNEL_SLOT, &rec);
		rec.t = real - ago;
		rec.duration = apart * 9 / 10 - (r->correlation * 2654435761u >> 7) % (apart / 4);
		rec.name = 1 + (uint32_t)(r->correlation % NAMES);
		rec.kind = RING_KERNEL;
		rec.arg = 7;
		push(r, RING_KERNEL_SLOT, &rec);
	}
}

static void phases_tell(struct rank *r, uint64_t begin, uint64_t end, long step)
{
	struct ring_record rec = { .kind = RING_PHASE,
				   .name = NAMES + 1,
				   .arg = RING_PHASE_FORWARD };

	rec.t = begin;
	rec.duration = (end - begin) / 3;
	push(r, 1, &rec);
	rec.t += rec.duration;
	rec.name++;
	rec.arg = RING_PHASE_BACKWARD;
	push(r, 1, &rec);
	rec = (struct ring_record){ .kind = RING_STEP, .t = begin, .duration = end - begin };
	rec.value = (uint64_t)step;
	push(r, 1, &rec);
	r->h->last.ticks = r->h->last.monotonic_ns = end;
	r->h->last.realtime_ns = now(CLOCK_REALTIME) - (now(CLOCK_MONOTONIC) - end);
}

int main(int argc, char **argv)
{
	long ranks, steps, step_ms, kernels, launches, buffers;
	struct rank *all;
	uint64_t begin, next;

	if (argc != 7)
		return 64;
	ranks = strtol(argv[2], NULL, 10);
	steps = strtol(argv[3], NULL, 10);
	step_ms = strtol(argv[4], NULL, 10);
	kernels = strtol(argv[5], NULL, 10);
	launches = strtol(argv[6], NULL, 10);
	buffers = step_ms / BUFFER_MS;
	all = calloc((size_t)ranks, sizeof(*all));
	for (long i = 0; i < ranks; i++)
		rank_make(&all[i], argv[1], (int)i, (int)ranks);
	next = begin = now(CLOCK_MONOTONIC);
	for (long step = 0; step < steps; step++) {
		for (long i = 0; i < ranks; i++)
			all[i].h->step = (uint64_t)step;
		for (long b = 0; b < buffers; b++) {
			struct timespec ts;

			next += BUFFER_MS * 1000000ull;
			ts = (struct timespec){ (time_t)(next / 1000000000u),
						(long)(next % 1000000000u) };
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
			for (long i = 0; i < ranks; i++)
				buffer_tell(&all[i], kernels / buffers, (int)launches);
		}
		for (long i = 0; i < ranks; i++)
			phases_tell(&all[i], begin, next, step);
		begin = next;
	}
	return 0;
}
