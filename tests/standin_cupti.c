/* SPDX-License-Identifier: Apache-2.0 */
/*
 * standin_cupti.c - a library in CUPTI's place: takes buffers, fills them with records in the
 * layouts of CUPTI 12 and 13, gives them back by the rules of its documentation, and lets itself be
 * played (standin_cupti.h). What a real one does with a GPU, it cannot show.
 *
 * Its functions have the real headers' prototypes where these are installed.
 */
#include "standin_cupti.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef HAVE_CUPTI
#include <cupti.h>
#else
#define CUPTIAPI
typedef int CUptiResult;
typedef int CUpti_ActivityKind;
typedef int CUpti_ActivityAttribute;
typedef int CUpti_ExternalCorrelationKind;
typedef uint32_t CUpti_CallbackId;
typedef void *CUcontext;
typedef struct {
	uint32_t kind;
} CUpti_Activity;
typedef void (*CUpti_BuffersCallbackRequestFunc)(uint8_t **, size_t *, size_t *);
typedef void (*CUpti_BuffersCallbackCompleteFunc)(CUcontext, uint32_t, uint8_t *, size_t, size_t);
typedef uint64_t (*CUpti_TimestampCallbackFunc)(void);
CUptiResult cuptiGetVersion(uint32_t *version);
CUptiResult cuptiGetTimestamp(uint64_t *timestamp);
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
					   CUpti_BuffersCallbackCompleteFunc complete);
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc f);
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind);
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind);
CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record);
CUptiResult cuptiActivityFlushAll(uint32_t flag);
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *n);
CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attr, size_t *size, void *value);
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id);
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t *id);
CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId id, uint8_t enable);
CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId id, uint8_t enable);
CUptiResult cuptiGetResultString(CUptiResult result, const char **s);
#endif

#include "tracer/cupti_abi.h"

#pragma GCC visibility push(default)

#define KINDS	   64
#define STACK	   64
#define KERNEL_API 211 /* cudaLaunchKernel */
#define RECORD_MAX 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t now_version = 130001;
static int refuses;
static _Atomic bool on[KINDS], runtime_on[1024];
static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static _Atomic CUpti_TimestampCallbackFunc timestamp;
static size_t dropped;
static uint32_t correlations;
static _Atomic size_t n_out, lost_without_buffer;
static _Thread_local uint64_t stack[STACK];
static _Thread_local uint32_t depth;

static struct {
	uint8_t *at;
	size_t size, used;
} host, device; /* buffers that are being filled */

/* What the GPU has not yet done. */
static struct pending {
	uint32_t size;
	union {
		uint32_t kind;
		struct cupti_kernel kernel;
		struct cupti_memcpy copy;
		struct cupti_peer peer;
		struct cupti_memset set;
		struct cupti_sync sync;
	} r;
} * pending;
static size_t n_pending, cap_pending;

static const struct {
	uint32_t kind, v12, v13;
} sizes[] = {
	{ CUPTI_KERNEL, 208, 216 },    { CUPTI_MEMCPY, 80, 96 }, { CUPTI_MEMSET, 72, 88 },
	{ CUPTI_MEMCPY_PEER, 80, 96 }, { CUPTI_SYNC, 40, 56 },	 { CUPTI_CORRELATION, 24, 24 },
	{ CUPTI_RUNTIME, 40, 40 },
};

static uint32_t size_of(uint32_t kind)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		if (sizes[i].kind == kind)
			return now_version >= 130000 ? sizes[i].v13 : sizes[i].v12;
	}
	abort();
}

static uint64_t real_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Callbacks come with our lock held, as CUPTI's do with its own: who waits for another of its
   callers in one hangs here. */
static void give_back(uint8_t **at, size_t size, size_t *used)
{
	if (!*at)
		return;
	n_out--;
	complete(NULL, 0, *at, size, *used);
	*at = NULL;
	*used = 0;
}

static void put(bool of_device, const void *record, uint32_t size)
{
	uint8_t **at = of_device ? &device.at : &host.at;
	size_t *used = of_device ? &device.used : &host.used;
	size_t *room = of_device ? &device.size : &host.size, most = 0;

	if (*at && *used + size > *room)
		give_back(at, *room, used);
	if (!*at) {
		request(at, room, &most);
		*used = 0;
		if (!*at) {
			lost_without_buffer++;
			dropped++;
			return;
		}
		n_out++;
	}
	memcpy(*at + *used, record, size);
	*used += size;
}

static uint32_t api_record(void)
{
	uint8_t call[RECORD_MAX] = { 0 };
	uint32_t kind = CUPTI_RUNTIME, id = ++correlations;
	struct cupti_correlation c = { .kind = CUPTI_CORRELATION, .external_kind = CUPTI_CUSTOM_2 };

	if (!on[CUPTI_RUNTIME] && !runtime_on[KERNEL_API])
		return id;
	if (depth && on[CUPTI_CORRELATION]) {
		c.id = stack[depth - 1];
		c.correlation = id;
		put(false, &c, sizeof(c));
	}
	memcpy(call, &kind, sizeof(kind));
	memcpy(call + 32, &id, sizeof(id));
	put(false, call, size_of(CUPTI_RUNTIME));
	return id;
}

static struct pending *add(uint32_t kind)
{
	struct pending *p;

	if (n_pending == cap_pending) {
		cap_pending = cap_pending ? cap_pending * 2 : 1024;
		pending = realloc(pending, cap_pending * sizeof(*pending));
	}
	p = &pending[n_pending++];
	memset(p, 0, sizeof(*p));
	p->r.kind = kind;
	p->size = size_of(kind);
	return p;
}

static uint32_t play_launch(const char *name, uint32_t stream, uint64_t start, uint64_t end,
			    uint32_t graph)
{
	uint32_t id;

	pthread_mutex_lock(&lock);
	id = api_record();
	if (on[CUPTI_KERNEL]) {
		struct cupti_kernel *k = &add(CUPTI_KERNEL)->r.kernel;

		k->start = start;
		k->end = end;
		k->name = name;
		k->stream = stream;
		k->graph = graph;
		k->correlation = id;
	}
	pthread_mutex_unlock(&lock);
	return id;
}

static uint32_t play_copy(uint8_t kind, uint32_t stream, uint64_t start, uint64_t end)
{
	uint32_t id;

	pthread_mutex_lock(&lock);
	id = api_record();
	if (on[CUPTI_MEMCPY]) {
		struct cupti_memcpy *c = &add(CUPTI_MEMCPY)->r.copy;

		c->copy_kind = kind;
		c->start = start;
		c->end = end;
		c->stream = stream;
		c->correlation = id;
	}
	pthread_mutex_unlock(&lock);
	return id;
}

static uint32_t play_peer(uint32_t stream, uint64_t start, uint64_t end)
{
	uint32_t id;

	pthread_mutex_lock(&lock);
	id = api_record();
	if (on[CUPTI_MEMCPY_PEER]) {
		struct cupti_peer *c = &add(CUPTI_MEMCPY_PEER)->r.peer;

		c->start = start;
		c->end = end;
		c->stream = stream;
		c->correlation = id;
	}
	pthread_mutex_unlock(&lock);
	return id;
}

static uint32_t play_set(uint32_t stream, uint64_t start, uint64_t end)
{
	uint32_t id;

	pthread_mutex_lock(&lock);
	id = api_record();
	if (on[CUPTI_MEMSET]) {
		struct cupti_memset *c = &add(CUPTI_MEMSET)->r.set;

		c->start = start;
		c->end = end;
		c->stream = stream;
		c->correlation = id;
	}
	pthread_mutex_unlock(&lock);
	return id;
}

static uint32_t play_sync(uint32_t type, uint32_t stream, uint64_t start, uint64_t end)
{
	uint32_t id;

	pthread_mutex_lock(&lock);
	id = api_record();
	if (on[CUPTI_SYNC]) {
		struct cupti_sync *c = &add(CUPTI_SYNC)->r.sync;

		c->type = type;
		c->start = start;
		c->end = end;
		c->stream = stream;
		c->correlation = id;
	}
	pthread_mutex_unlock(&lock);
	return id;
}

static void play_finish(bool shuffle)
{
	uint8_t record[RECORD_MAX] = { 0 };

	pthread_mutex_lock(&lock);
	for (size_t i = n_pending; shuffle && i > 1; i--) {
		size_t k = (size_t)(i * 2654435761u) % i;
		struct pending p = pending[i - 1];

		pending[i - 1] = pending[k];
		pending[k] = p;
	}
	for (size_t i = 0; i < n_pending; i++) {
		/* what a longer layout has behind ours is no zero */
		memset(record, 0xa5, pending[i].size);
		memcpy(record, &pending[i].r,
		       pending[i].size < sizeof(pending[i].r) ? pending[i].size
							      : sizeof(struct cupti_kernel));
		if (on[pending[i].r.kind])
			put(true, record, pending[i].size);
	}
	n_pending = 0;
	pthread_mutex_unlock(&lock);
}

static void play_drop(size_t n)
{
	pthread_mutex_lock(&lock);
	dropped += n;
	pthread_mutex_unlock(&lock);
}

static void play_version(uint32_t v, int result)
{
	now_version = v;
	refuses = result;
}

/* torch.profiler's part: its buffers and clock, and nothing given back. */
static _Atomic size_t its_kernels, its_unknown;
static uint8_t its_memory[8][1 << 20];
static uint32_t its_next;

static void its_request(uint8_t **buffer, size_t *size, size_t *records)
{
	*buffer = its_memory[its_next++ % 8];
	*size = sizeof(its_memory[0]);
	*records = 0;
}

static void its_complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
			 size_t valid)
{
	CUpti_Activity *r = NULL;

	(void)context, (void)stream, (void)size;
	if ((uintptr_t)buffer - (uintptr_t)its_memory >= sizeof(its_memory)) {
		its_unknown++;
		return;
	}
	while (cuptiActivityGetNextRecord(buffer, valid, &r) == 0)
		its_kernels += *(const uint32_t *)(const void *)r == CUPTI_KERNEL;
}

static uint64_t its_clock(void)
{
	return 1234567; /* ticks of something else */
}

static void play_profiler(bool run)
{
	static const int kinds[] = { CUPTI_KERNEL, CUPTI_MEMCPY, CUPTI_MEMSET, CUPTI_RUNTIME,
				     CUPTI_CORRELATION };

	if (run) {
		cuptiActivityRegisterTimestampCallback(its_clock);
		cuptiActivityRegisterCallbacks(its_request, its_complete);
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (run)
			cuptiActivityEnable((CUpti_ActivityKind)kinds[i]);
		else
			cuptiActivityDisable((CUpti_ActivityKind)kinds[i]);
	}
	cuptiActivityFlushAll(!run); /* at its begin to get rid of what is old */
}

static size_t play_kernels(void)
{
	return its_kernels;
}

static size_t play_unknown(void)
{
	return its_unknown;
}

static bool play_enabled(int kind)
{
	return on[kind];
}

static size_t play_out(void)
{
	return n_out;
}

static size_t play_pushed(void)
{
	return depth;
}

const struct standin standin = {
	play_version, play_launch,  play_copy, play_peer,     play_set,
	play_sync,    play_finish,  play_drop, play_profiler, play_kernels,
	play_unknown, play_enabled, play_out,  play_pushed,
};

/* CUPTI's own. */

CUptiResult cuptiGetVersion(uint32_t *version)
{
	*version = now_version;
	return 0;
}

CUptiResult cuptiGetTimestamp(uint64_t *t)
{
	CUpti_TimestampCallbackFunc f = timestamp;

	*t = f ? f() : real_ns();
	return 0;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc r,
					   CUpti_BuffersCallbackCompleteFunc c)
{
	pthread_mutex_lock(&lock);
	request = r;
	complete = c;
	pthread_mutex_unlock(&lock);
	return 0;
}

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc f)
{
	timestamp = f;
	return 0;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
	if (refuses)
		return (CUptiResult)refuses;
	on[(int)kind] = true;
	return 0;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
	on[(int)kind] = false;
	return 0;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
	uint8_t *at = (uint8_t *)*record;
	uint32_t kind;

	if (at) {
		memcpy(&kind, at, sizeof(kind));
		at += size_of(kind);
	} else {
		at = buffer;
	}
	if (at >= buffer + valid)
		return (CUptiResult)CUPTI_END;
	*record = (CUpti_Activity *)at;
	return 0;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	(void)flag;
	pthread_mutex_lock(&lock);
	give_back(&device.at, device.size,
		  &device.used); /* kernels first: the order is no promise */
	give_back(&host.at, host.size, &host.used);
	pthread_mutex_unlock(&lock);
	return 0;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *n)
{
	(void)context, (void)stream;
	pthread_mutex_lock(&lock);
	*n = dropped;
	dropped = 0;
	pthread_mutex_unlock(&lock);
	return 0;
}

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attr, size_t *size, void *value)
{
	(void)attr, (void)size, (void)value;
	return 0;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id)
{
	if ((int)kind == CUPTI_CUSTOM_2 && depth < STACK)
		stack[depth++] = id;
	return 0;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t *id)
{
	if ((int)kind != CUPTI_CUSTOM_2 || !depth)
		return (CUptiResult)1;
	*id = stack[--depth];
	return 0;
}

CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId id, uint8_t enable)
{
	runtime_on[id % 1024] = enable;
	return 0;
}

CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId id, uint8_t enable)
{
	(void)id, (void)enable;
	return 0;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **s)
{
	*s = (int)result == 39 ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "an error";
	return 0;
}

#pragma GCC visibility pop
