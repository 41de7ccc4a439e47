/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl.c - the profiler plugin's side of nccl.h.
 *
 * An event ends when its work is enqueued, not when it is done; the GPU's side of it comes as a
 * kernel. Of the events that NCCL may give, only collectives and sends and receives are asked for:
 * they cost no proxy thread. Others come along (groups, calls) and are let go.
 *
 * Nothing here can fail: NCCL takes any answer but success for the end of its plugin, and where
 * nothing is told the mask is empty. An event whose communicator is unknown (NCCL gives NULL beside
 * a failed init) is counted.
 */
#include "tracer/nccl.h"

#include <stdatomic.h>
#include <string.h>

#include "tracer/door.h"
#include "tracer/door_words.h"
#include "tracer/nccl_abi.h"

#define COMMS	   256u /* communicators at a time */
#define MASK	   (NCCL_EVENT_COLL | NCCL_EVENT_P2P)
#define NAME_BYTES 256u

static struct comm {
	_Atomic uint32_t taken;
	uint32_t group; /* id of its name */
	int ranks;
	int version;
} comms[COMMS];
/* What has no place among them: its events are told without a group. */
static struct comm nobody[7] = { [2] = { .version = 2 },
				 [3] = { .version = 3 },
				 [4] = { .version = 4 },
				 [5] = { .version = 5 },
				 [6] = { .version = 6 } };

static _Atomic bool tells;

static const struct {
	const char *name;
	uint8_t bytes;
} datatypes[] = {
	{ "ncclInt8", 1 },     { "ncclUint8", 1 },	{ "ncclInt32", 4 },
	{ "ncclUint32", 4 },   { "ncclInt64", 8 },	{ "ncclUint64", 8 },
	{ "ncclFloat16", 2 },  { "ncclFloat32", 4 },	{ "ncclFloat64", 8 },
	{ "ncclBfloat16", 2 }, { "ncclFloat8e4m3", 1 }, { "ncclFloat8e5m2", 1 },
};

bool nccl_tells(void)
{
	return atomic_load_explicit(&tells, memory_order_relaxed);
}

uint32_t nccl_group_name(const char *name, uint64_t hash)
{
	char text[NAME_BYTES + 24];
	size_t n = name ? strnlen(name, NAME_BYTES) : 0;

	if (n) {
		memcpy(text, name, n);
		text[n++] = ':';
	}
	text[n++] = '0';
	text[n++] = 'x';
	for (int shift = 60; shift >= 0; shift -= 4)
		text[n++] = "0123456789abcdef"[hash >> shift & 15];
	return tracer_name(text, n);
}

static struct comm *take_comm(int version)
{
	for (uint32_t i = 0; i < COMMS; i++) {
		uint32_t no = 0;

		if (atomic_compare_exchange_strong(&comms[i].taken, &no, 1))
			return &comms[i];
	}
	tracer_count(RING_IGNORED, 1);
	return &nobody[version];
}

static int init(void **context, int *mask, int version, uint32_t group, int ranks)
{
	struct comm *c = take_comm(version);

	if (c->taken) {
		c->version = version;
		c->group = group;
		c->ranks = ranks;
	}
	if (context)
		*context = c;
	if (mask)
		*mask = MASK;
	atomic_store(&tells, true);
	return NCCL_OK;
}

/* The process is none that tells: NCCL goes on as if there were no plugin. */
static int init_none(void **context, int *mask)
{
	if (context)
		*context = NULL;
	if (mask)
		*mask = 0;
	return NCCL_OK;
}

static int init_2(void **context, int *mask)
{
	return tracer_start(DOOR_NCCL) ? init(context, mask, 2, 0, 0) : init_none(context, mask);
}

static int init_3(void **context, int *mask)
{
	return tracer_start(DOOR_NCCL) ? init(context, mask, 3, 0, 0) : init_none(context, mask);
}

static int init_4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks,
		  int rank, void *log)
{
	(void)nodes, (void)rank, (void)log;
	if (!tracer_start(DOOR_NCCL))
		return init_none(context, mask);
	return init(context, mask, 4, nccl_group_name(name, hash), ranks);
}

static int init_5(void **context, uint64_t hash, int *mask, const char *name, int nodes, int ranks,
		  int rank, void *log)
{
	(void)nodes, (void)rank, (void)log;
	if (!tracer_start(DOOR_NCCL))
		return init_none(context, mask);
	return init(context, mask, 5, nccl_group_name(name, hash), ranks);
}

static uint64_t u64_at(const void *event, uint8_t at)
{
	uint64_t v;

	memcpy(&v, (const char *)event + at, sizeof(v));
	return v;
}

static const char *text_at(const void *event, uint8_t at)
{
	const char *s;

	memcpy(&s, (const char *)event + at, sizeof(s));
	return s;
}

static uint64_t type_bytes(const char *name)
{
	for (size_t i = 0; name && i < sizeof(datatypes) / sizeof(*datatypes); i++) {
		if (!strcmp(name, datatypes[i].name))
			return datatypes[i].bytes;
	}
	return 0;
}

/* Of the input of this rank: those of which the count is of one rank's share have all shares. */
static uint64_t bytes_of(uint8_t op, uint64_t count, const char *type, int ranks)
{
	uint64_t shares = 1;

	if ((op == LOCKSTEP_OP_REDUCE_SCATTER || op == LOCKSTEP_OP_ALL_TO_ALL) && ranks > 0)
		shares = (uint64_t)ranks;
	return count * type_bytes(type) * shares;
}

static uint8_t op_of(const char *func)
{
	return func ? word_of_collective(func, strnlen(func, NAME_BYTES))
		    : (uint8_t)LOCKSTEP_OP_UNKNOWN;
}

static uint64_t begin_coll(const struct comm *c, const struct nccl_shape *s, const void *e)
{
	uint32_t group = c->group;
	uint8_t op = op_of(text_at(e, s->coll_func));

	if (s->coll_name)
		group = nccl_group_name(text_at(e, s->coll_name), u64_at(e, s->coll_hash));
	return tracer_collective(
	    group, op, (int64_t)u64_at(e, s->coll_seq),
	    bytes_of(op, u64_at(e, s->coll_count), text_at(e, s->coll_type), c->ranks),
	    text_at(e, s->coll_algo));
}

static uint64_t begin_p2p(const struct comm *c, const struct nccl_shape *s, const void *e)
{
	uint32_t group = c->group;
	uint8_t op = op_of(text_at(e, s->p2p_func));

	if (s->p2p_name)
		group = nccl_group_name(text_at(e, s->p2p_name), u64_at(e, s->p2p_hash));
	return tracer_collective(
	    group, op, -1, bytes_of(op, u64_at(e, s->p2p_count), text_at(e, s->p2p_type), 0), NULL);
}

static int start(void *context, void **handle, const void *event)
{
	const struct comm *c = context;
	const struct nccl_shape *s;
	uint64_t type;

	if (!handle)
		return NCCL_OK;
	*handle = NULL;
	if (!tracer_on() || !event)
		return NCCL_OK;
	if (!c) {
		tracer_count(RING_IGNORED, 1);
		return NCCL_OK;
	}
	s = &nccl_shapes[c->version];
	type = s->wide ? u64_at(event, 0) : *(const uint8_t *)event;
	if (type == NCCL_EVENT_COLL)
		*handle = (void *)(uintptr_t)begin_coll(c, s, event);
	else if (type == NCCL_EVENT_P2P)
		*handle = (void *)(uintptr_t)begin_p2p(c, s, event);
	return NCCL_OK;
}

static int stop(void *handle)
{
	if (handle)
		lockstep_collective_end((uint64_t)(uintptr_t)handle);
	return NCCL_OK;
}

static int state(void *handle, int what, void *args)
{
	(void)handle, (void)what, (void)args;
	return NCCL_OK;
}

static int finalize(void *context)
{
	struct comm *c = context;

	if (c && c >= comms && c < comms + COMMS)
		atomic_store(&c->taken, 0);
	return NCCL_OK;
}

#define NAME "lockstep"

extern const struct nccl_plugin_3 ncclProfiler_v2, ncclProfiler_v3;
extern const struct nccl_plugin_4 ncclProfiler_v4;
extern const struct nccl_plugin_5 ncclProfiler_v5, ncclProfiler_v6;

TRACER_EXPORT const struct nccl_plugin_3 ncclProfiler_v2 = {
	NAME, init_2, start, stop, state, finalize,
};
TRACER_EXPORT const struct nccl_plugin_3 ncclProfiler_v3 = {
	NAME, init_3, start, stop, state, finalize,
};
TRACER_EXPORT const struct nccl_plugin_4 ncclProfiler_v4 = {
	NAME, init_4, start, stop, state, finalize,
};
TRACER_EXPORT const struct nccl_plugin_5 ncclProfiler_v5 = {
	NAME, init_5, start, stop, state, finalize,
};
TRACER_EXPORT const struct nccl_plugin_5 ncclProfiler_v6 = {
	NAME, init_5, start, stop, state, finalize,
};
