/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvtx.c - the door for NVTX v3: NVTX_INJECTION64_PATH names this library, and the first NVTX call
 * of each shared object comes here to have its functions replaced.
 *
 * Pushed ranges become phases of their thread (nvtx_step.c says which are steps), started ones are
 * told when they end, marks are marks, and counters if they carry a number. NCCL's own ranges
 * become collectives while its profiler plugin is not here. What tells nothing is counted.
 *
 * Ranges of two domains that cross on one thread are told as if they were nested.
 */
#include "tracer/nvtx.h"

#include <stdatomic.h>
#include <string.h>

#include "tracer/door.h"
#include "tracer/door_words.h"
#include "tracer/nccl.h"
#include "tracer/nvtx_abi.h"
#include "tracer/nvtx_range.h"
#include "tracer/nvtx_step.h"
#include "tracer/nvtx_text.h"

#define NOT_TRACKED (-2) /* what NVTX itself answers without a tool */
#define NCCL_OPEN   64u	 /* collectives by NCCL's ranges, of all threads */

static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
	uint32_t depth; /* ranges that are pushed, NCCL's apart */
	uint16_t nccl_depth;
	struct nvtx_steps steps;
} here;

/* Of which thread and depth, and what its end wants. Written by that thread alone. */
static struct {
	_Atomic uint64_t whose; /* 0: free */
	uint64_t collective;
} nccl_open[NCCL_OPEN];

static int push(const void *domain, struct nvtx_text *t)
{
	uint32_t depth = ++here.depth, id;

	if (depth == 1 || nvtx_step_named()) {
		struct nvtx_meaning m = nvtx_text_meaning(t);

		if (nvtx_step_begins(&here.steps, depth, nvtx_domain_name(domain), &m))
			return (int)depth - 1;
	}
	id = nvtx_text_id(t);
	lockstep_phase_begin(id, (enum lockstep_phase_kind)nvtx_meaning_of(id).kind);
	return (int)depth - 1;
}

static int pop(void)
{
	uint32_t depth = here.depth;

	if (!depth) {
		tracer_count(RING_END_WITHOUT_BEGIN, 1);
		return -1;
	}
	here.depth--;
	if (!nvtx_step_ends(&here.steps, depth)) {
		lockstep_phase_end();
		if (depth == 1)
			nvtx_step_after(&here.steps);
	}
	return (int)depth - 1;
}

static uint64_t start(const void *domain, struct nvtx_text *t)
{
	if (nvtx_step_named()) {
		struct nvtx_meaning m = nvtx_text_meaning(t);

		if (nvtx_step_is(nvtx_domain_name(domain), &m) && !tracer_steps_elsewhere()) {
			nvtx_step_begin_now(&m);
			return nvtx_range_start_step();
		}
	}
	uint32_t id = nvtx_text_id(t);

	return nvtx_range_start(id, nvtx_meaning_of(id).kind);
}

/* In order of enum nvtx_payload; false: it has none that is a number. */
static bool number_of(const struct nvtx_attributes *a, double *ret)
{
	switch (a->payload_type) {
	case NVTX_PAYLOAD_U64:
		*ret = (double)a->payload.u64;
		return true;
	case NVTX_PAYLOAD_I64:
		*ret = (double)a->payload.i64;
		return true;
	case NVTX_PAYLOAD_DOUBLE:
		*ret = a->payload.d;
		return true;
	case NVTX_PAYLOAD_U32:
		*ret = a->payload.u32;
		return true;
	case NVTX_PAYLOAD_I32:
		*ret = a->payload.i32;
		return true;
	case NVTX_PAYLOAD_FLOAT:
		*ret = (double)a->payload.f;
		return true;
	default:
		return false;
	}
}

/* What NCCL's payloads hold since 2.23, when the communicator's hash came to stand first: the size
   tells them from those before. Elsewhere the size of what was sent stands alone. */
static const uint8_t payload_bytes[] = {
	[LOCKSTEP_OP_ALL_REDUCE] = 24,	   [LOCKSTEP_OP_BROADCAST] = 24,
	[LOCKSTEP_OP_REDUCE] = 24,	   [LOCKSTEP_OP_ALL_GATHER] = 16,
	[LOCKSTEP_OP_GATHER] = 24,	   [LOCKSTEP_OP_SCATTER] = 24,
	[LOCKSTEP_OP_REDUCE_SCATTER] = 24, [LOCKSTEP_OP_ALL_TO_ALL] = 16,
	[LOCKSTEP_OP_SEND] = 24,	   [LOCKSTEP_OP_RECV] = 24,
};

/* A collective from one of NCCL's ranges; 0: it is none, or its payload is unknown. */
static uint64_t nccl_begin(const struct nvtx_attributes *a, struct nvtx_text *t)
{
	const struct nvtx_data *d;
	uint64_t told[2];
	uint8_t op;

	if (nccl_tells())
		return 0; /* the plugin tells the same, and more */
	op = t->s ? word_of_collective(t->s, t->len) : nvtx_meaning_of(t->id).op;
	if (!a || op == LOCKSTEP_OP_UNKNOWN || op >= sizeof(payload_bytes) ||
	    a->payload_type != NVTX_PAYLOAD_EXTENDED || a->reserved != 1)
		return 0;
	d = (const struct nvtx_data *)(uintptr_t)a->payload.u64;
	if (!d || !d->payload || !payload_bytes[op] || d->size != payload_bytes[op])
		return 0;
	memcpy(told, d->payload, sizeof(told));
	return lockstep_collective_begin(nccl_group_name(NULL, told[0]), (enum lockstep_op)op, -1,
					 told[1]);
}

static uint64_t nccl_key(uint16_t depth)
{
	return (uint64_t)(uintptr_t)&here << 16 | depth;
}

static bool nccl_keep(uint64_t key, uint64_t collective)
{
	for (uint32_t i = 0; i < NCCL_OPEN; i++) {
		uint64_t whose = 0;

		if (!atomic_compare_exchange_strong(&nccl_open[i].whose, &whose, key) &&
		    whose != key) /* of a thread that ended in the middle, and was here before */
			continue;
		nccl_open[i].collective = collective;
		return true;
	}
	return false;
}

static int nccl_push(const struct nvtx_attributes *a, struct nvtx_text *t)
{
	uint16_t depth = ++here.nccl_depth;
	uint64_t c = nccl_begin(a, t);

	if (!c || !nccl_keep(nccl_key(depth), c)) {
		tracer_count(RING_IGNORED, 1);
		lockstep_collective_end(c);
	}
	return depth - 1;
}

static int nccl_pop(void)
{
	uint64_t key = nccl_key(here.nccl_depth);

	if (!here.nccl_depth) {
		tracer_count(RING_END_WITHOUT_BEGIN, 1);
		return -1;
	}
	here.nccl_depth--;
	for (uint32_t i = 0; i < NCCL_OPEN; i++) {
		if (atomic_load_explicit(&nccl_open[i].whose, memory_order_relaxed) != key)
			continue;
		lockstep_collective_end(nccl_open[i].collective);
		atomic_store(&nccl_open[i].whose, 0);
		break;
	}
	return here.nccl_depth;
}

/* The calls, domain first as CORE2 has them. */

static int domain_push(const void *domain, const struct nvtx_attributes *a)
{
	struct nvtx_text t;

	if (!tracer_on())
		return NOT_TRACKED;
	if (!nvtx_text_of_attributes(&t, a))
		tracer_count(RING_IGNORED, 1); /* its name; it is a range all the same */
	return nvtx_domain_is_nccl(domain) ? nccl_push(a, &t) : push(domain, &t);
}

static int domain_pop(const void *domain)
{
	if (!tracer_on())
		return NOT_TRACKED;
	return nvtx_domain_is_nccl(domain) ? nccl_pop() : pop();
}

static uint64_t domain_start(const void *domain, const struct nvtx_attributes *a)
{
	struct nvtx_text t;

	if (!tracer_on())
		return 0;
	if (!nvtx_text_of_attributes(&t, a))
		tracer_count(RING_IGNORED, 1);
	return start(domain, &t);
}

static void domain_end(const void *domain, uint64_t id)
{
	(void)domain;
	if (tracer_on())
		nvtx_range_end(id);
}

static void domain_mark(const void *domain, const struct nvtx_attributes *a)
{
	struct nvtx_text t;
	double value;

	if (!tracer_on())
		return;
	if (!nvtx_text_of_attributes(&t, a) || nvtx_domain_is_nccl(domain)) {
		tracer_count(RING_IGNORED, 1);
		return;
	}
	if (number_of(a, &value))
		lockstep_counter(nvtx_text_id(&t), value);
	else
		lockstep_mark(nvtx_text_id(&t));
}

static const void *domain_create(const char *name)
{
	struct nvtx_text t;

	nvtx_text_of(&t, name);
	return nvtx_domain_handle(&t);
}

static const void *domain_create_w(const wchar_t *name)
{
	struct nvtx_text t;

	nvtx_text_of_wide(&t, name);
	return nvtx_domain_handle(&t);
}

static const void *string_a(const void *domain, const char *s)
{
	struct nvtx_text t;

	(void)domain;
	nvtx_text_of(&t, s);
	return nvtx_string_handle(nvtx_text_id(&t));
}

static const void *string_w(const void *domain, const wchar_t *s)
{
	struct nvtx_text t;

	(void)domain;
	nvtx_text_of_wide(&t, s);
	return nvtx_string_handle(nvtx_text_id(&t));
}

/* And those of CORE, which have no domain. */

static int push_ex(const struct nvtx_attributes *a)
{
	return domain_push(NULL, a);
}

static int push_a(const char *s)
{
	struct nvtx_text t;

	if (!tracer_on())
		return NOT_TRACKED;
	nvtx_text_of(&t, s);
	return push(NULL, &t);
}

static int push_w(const wchar_t *s)
{
	struct nvtx_text t;

	if (!tracer_on())
		return NOT_TRACKED;
	nvtx_text_of_wide(&t, s);
	return push(NULL, &t);
}

static int pop_plain(void)
{
	return domain_pop(NULL);
}

static uint64_t start_ex(const struct nvtx_attributes *a)
{
	return domain_start(NULL, a);
}

static uint64_t start_a(const char *s)
{
	struct nvtx_text t;

	if (!tracer_on())
		return 0;
	nvtx_text_of(&t, s);
	return start(NULL, &t);
}

static uint64_t start_w(const wchar_t *s)
{
	struct nvtx_text t;

	if (!tracer_on())
		return 0;
	nvtx_text_of_wide(&t, s);
	return start(NULL, &t);
}

static void end(uint64_t id)
{
	domain_end(NULL, id);
}

static void mark_ex(const struct nvtx_attributes *a)
{
	domain_mark(NULL, a);
}

static void mark_a(const char *s)
{
	struct nvtx_text t;

	if (!tracer_on())
		return;
	nvtx_text_of(&t, s);
	lockstep_mark(nvtx_text_id(&t));
}

static void mark_w(const wchar_t *s)
{
	struct nvtx_text t;

	if (!tracer_on())
		return;
	nvtx_text_of_wide(&t, s);
	lockstep_mark(nvtx_text_id(&t));
}

struct hook {
	unsigned id;
	nvtx_function f;
};

/* A cast between function types by way of the type that is for it. */
#define HOOK(id, f)                                                                                \
	{                                                                                          \
		id, (nvtx_function)(f)                                                             \
	}

static const struct hook core[] = {
	HOOK(NVTX_MARK_EX, mark_ex),   HOOK(NVTX_MARK_A, mark_a),   HOOK(NVTX_MARK_W, mark_w),
	HOOK(NVTX_START_EX, start_ex), HOOK(NVTX_START_A, start_a), HOOK(NVTX_START_W, start_w),
	HOOK(NVTX_END, end),	       HOOK(NVTX_PUSH_EX, push_ex), HOOK(NVTX_PUSH_A, push_a),
	HOOK(NVTX_PUSH_W, push_w),     HOOK(NVTX_POP, pop_plain),
};

static const struct hook core2[] = {
	HOOK(NVTX_DOMAIN_MARK_EX, domain_mark),
	HOOK(NVTX_DOMAIN_START_EX, domain_start),
	HOOK(NVTX_DOMAIN_END, domain_end),
	HOOK(NVTX_DOMAIN_PUSH_EX, domain_push),
	HOOK(NVTX_DOMAIN_POP, domain_pop),
	HOOK(NVTX_STRING_A, string_a),
	HOOK(NVTX_STRING_W, string_w),
	HOOK(NVTX_DOMAIN_CREATE_A, domain_create),
	HOOK(NVTX_DOMAIN_CREATE_W, domain_create_w),
};

static bool replace(const struct nvtx_callbacks *c, int module, const struct hook *hooks, size_t n)
{
	nvtx_function **table = NULL;
	unsigned size = 0;

	if (!c->module_table(module, &table, &size) || !table)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (hooks[i].id < size && table[hooks[i].id])
			*table[hooks[i].id] = hooks[i].f;
	}
	return true;
}

TRACER_EXPORT int InitializeInjectionNvtx2(nvtx_get_table get)
{
	const struct nvtx_callbacks *c = get ? get(NVTX_TABLE_CALLBACKS) : NULL;
	bool any;

	if (!c || c->size < sizeof(*c) || !c->module_table || !tracer_start(DOOR_NVTX))
		return 0;
	nvtx_step_setup();
	any = replace(c, NVTX_CORE, core, sizeof(core) / sizeof(*core));
	any |= replace(c, NVTX_CORE2, core2, sizeof(core2) / sizeof(*core2));
	return any;
}
