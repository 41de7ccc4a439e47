/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti_records.c - CUPTI's records become the ring's, in the order of their buffers; each has its
 * own times, so the order says nothing.
 *
 * Read twice: first for what ties launches to phases, since that may stand in a later buffer than
 * the kernels. Only the draining thread comes here.
 */
#include <string.h>

#include "tracer/cupti.h"
#include "tracer/door.h"

#define BATCH 64u
#define LATER 2048u /* kept back at most; then the phase is what is known by now */
#define PAST_NS                                                                                    \
	(24ull * 3600 * 1000000000) /* no record is older, or later than that from now on          \
				     */

static uint32_t copy_names[11], sync_names[5], set_name;

static const char *const copy_words[] = {
	"Memcpy",      "Memcpy HtoD", "Memcpy DtoH", "Memcpy HtoA", "Memcpy AtoH", "Memcpy AtoA",
	"Memcpy AtoD", "Memcpy DtoA", "Memcpy DtoD", "Memcpy HtoH", "Memcpy PtoP",
};
static const char *const sync_words[] = {
	"Synchronize",	      "Event Synchronize",   "Stream Wait Event",
	"Stream Synchronize", "Context Synchronize",
};

static struct {
	struct ring_record r[BATCH];
	unsigned n;
	struct ring_record later[LATER];
	unsigned n_later;
	uint64_t oldest; /* of the times that can be */
	bool phases;
} out;

static uint32_t name_of(const char *s)
{
	return tracer_name(s, strlen(s));
}

void cupti_records_start(void)
{
	for (size_t i = 0; i < sizeof(copy_words) / sizeof(*copy_words); i++)
		copy_names[i] = name_of(copy_words[i]);
	for (size_t i = 0; i < sizeof(sync_words) / sizeof(*sync_words); i++)
		sync_names[i] = name_of(sync_words[i]);
	set_name = name_of("Memset");
}

static void flush(void)
{
	tracer_push_kernels(out.r, out.n);
	out.n = 0;
}

void cupti_records_end(void)
{
	flush();
	for (unsigned i = 0; i < out.n_later; i++)
		out.later[i].value |= cupti_phases_of((uint32_t)(out.later[i].value >> 32));
	tracer_push_kernels(out.later, out.n_later);
	out.n_later = 0;
}

/* What was not timed has zeroes, what another tool's clock timed is far away: neither is told. */
static void put(enum ring_kind kind, uint32_t name, uint64_t start, uint64_t end, uint32_t stream,
		uint32_t correlation, bool graph)
{
	struct ring_record *r;
	uint32_t phase;

	if (!start || end < start) {
		tracer_count(RING_IGNORED, 1);
		return;
	}
	if (start - out.oldest > 2 * PAST_NS || end - start > PAST_NS) {
		tracer_count(RING_CLOCK_STEPS, 1);
		return;
	}
	phase = out.phases ? cupti_phases_of(correlation) : 0;
	r = phase || !out.phases ? &out.r[out.n++] : &out.later[out.n_later++];
	*r = (struct ring_record){
		.t = start,
		.duration = end - start,
		.name = name,
		.kind = (uint8_t)kind,
		.depth = graph,
		.arg = (uint16_t)stream,
		.value = (uint64_t)correlation << 32 | phase,
	};
	if (out.n == BATCH)
		flush();
	if (out.n_later == LATER)
		cupti_records_end();
}

static void read_kernel(const void *p)
{
	const struct cupti_kernel *k = p;

	put(RING_KERNEL, cupti_name(k->name), k->start, k->end, k->stream, k->correlation,
	    k->graph != 0);
}

static void read_memcpy(const void *p)
{
	const struct cupti_memcpy *c = p;
	size_t n = sizeof(copy_names) / sizeof(*copy_names);

	put(RING_COPY, copy_names[c->copy_kind < n ? c->copy_kind : 0], c->start, c->end, c->stream,
	    c->correlation, c->graph != 0);
}

static void read_peer(const void *p)
{
	const struct cupti_peer *c = p;

	put(RING_COPY, copy_names[10], c->start, c->end, c->stream, c->correlation, false);
}

static void read_memset(const void *p)
{
	const struct cupti_memset *c = p;

	put(RING_SET, set_name, c->start, c->end, c->stream, c->correlation, false);
}

static void read_sync(const void *p)
{
	const struct cupti_sync *s = p;
	size_t n = sizeof(sync_names) / sizeof(*sync_names);

	put(RING_SYNC, sync_names[s->type < n ? s->type : 0], s->start, s->end, s->stream,
	    s->correlation, false);
}

static void read_correlation(const void *p)
{
	cupti_phases_learn(p);
}

/* Asked for only since correlation needs it. */
static void let_go(const void *p)
{
	(void)p;
}

static void (*const readers[])(const void *record) = {
	[CUPTI_MEMCPY] = read_memcpy, [CUPTI_MEMSET] = read_memset,
	[CUPTI_DRIVER] = let_go,      [CUPTI_RUNTIME] = let_go,
	[CUPTI_KERNEL] = read_kernel, [CUPTI_MEMCPY_PEER] = read_peer,
	[CUPTI_SYNC] = read_sync,     [CUPTI_CORRELATION] = read_correlation,
};

static void learn(uint8_t *at, size_t valid)
{
	void *record = NULL;

	while (!cupti.next(at, valid, &record)) {
		if (*(const uint32_t *)record == CUPTI_CORRELATION)
			cupti_phases_learn(record);
	}
}

void cupti_records_read(uint8_t *at, size_t valid, int pass)
{
	void *record = NULL;

	out.phases = cupti_phases_on();
	if (pass == 0) {
		if (out.phases)
			learn(at, valid);
		return;
	}
	out.oldest = tracer_realtime_ns() - PAST_NS;
	while (!cupti.next(at, valid, &record)) {
		uint32_t kind = *(const uint32_t *)record;

		if (kind < sizeof(readers) / sizeof(*readers) && readers[kind])
			readers[kind](record);
		else
			tracer_count(RING_IGNORED, 1);
	}
}
