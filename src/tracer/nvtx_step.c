/* SPDX-License-Identifier: Apache-2.0 */
#include "tracer/nvtx_step.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/door.h"

#define THIRD	   3
#define CANDIDATES 32 /* outermost names of all threads that may become the step */

enum rule { RULE_NONE, RULE_REPEATS, RULE_OPTIMIZER, RULE_WORD, RULE_NAMED };

static struct {
	char name[RING_NAME_MAX + 1], domain[RING_NAME_MAX + 1];
	char whole[RING_NAME_MAX + 1]; /* as it was given: a name may hold a slash */
	size_t name_len, whole_len;
	uint32_t domain_id;
} named;

static _Atomic int rule;
static const void *_Atomic owner; /* the thread's state that makes the steps */
static _Atomic uint32_t anchor;	  /* stem, of RULE_REPEATS */
static _Atomic int64_t last_number = -1;
/* Hash of thread and name << 32 | times that it came; 0: free. */
static _Atomic uint64_t seen[CANDIDATES];

void nvtx_step_setup(void)
{
	const char *v = getenv("LOCKSTEP_STEP_RANGE"), *slash;

	if (!v || !*v || strlen(v) > RING_NAME_MAX || atomic_load(&rule) == RULE_NAMED)
		return;
	named.whole_len = strlen(v);
	memcpy(named.whole, v, named.whole_len);
	slash = strrchr(v, '/');
	if (slash && slash > v && slash[1]) {
		memcpy(named.domain, v, (size_t)(slash - v));
		named.domain_id = tracer_name(named.domain, (size_t)(slash - v));
		v = slash + 1;
	}
	named.name_len = strlen(v);
	memcpy(named.name, v, named.name_len);
	atomic_store(&rule, RULE_NAMED);
}

bool nvtx_step_named(void)
{
	return atomic_load_explicit(&rule, memory_order_relaxed) == RULE_NAMED;
}

/* The same, or the same with a number behind it. */
static bool alike(const char *want, size_t want_len, const char *name, size_t len)
{
	if (len < want_len || memcmp(want, name, want_len) != 0)
		return false;
	while (len > want_len && strchr("0123456789 _-#:=.", name[len - 1]) && name[len - 1])
		len--;
	return len == want_len;
}

uint8_t nvtx_step_named_by(const char *name, size_t len)
{
	if (!nvtx_step_named())
		return 0;
	return (uint8_t)((alike(named.whole, named.whole_len, name, len) ? 1 : 0) |
			 (named.domain_id && alike(named.name, named.name_len, name, len) ? 2 : 0));
}

bool nvtx_step_is(uint32_t domain, const struct nvtx_meaning *m)
{
	return (m->named & 1) || ((m->named & 2) && domain == named.domain_id);
}

void nvtx_step_begin_now(const struct nvtx_meaning *m)
{
	int64_t number = m ? m->number : -1;
	bool grows = number > atomic_load(&last_number);

	if (grows)
		atomic_store(&last_number, number);
	tracer_step_guess(grows ? number : -1);
}

/* This thread makes steps by that rule, unless another or a better rule does. */
static bool take(struct nvtx_steps *s, int by)
{
	int now = atomic_load(&rule);

	if (now > by || tracer_steps_elsewhere())
		return false;
	if (now == by)
		return atomic_load(&owner) == s;
	/* the owner first: who sees the rule must not take itself for it */
	atomic_store(&owner, s);
	return atomic_compare_exchange_strong(&rule, &now, by);
}

static bool third_time(const struct nvtx_steps *s, const struct nvtx_meaning *m)
{
	uint64_t h = ((uint64_t)(uintptr_t)s * 0x9e3779b97f4a7c15ull ^ m->stem) << 32;

	if (m->kind >= RING_PHASE_DATA)
		return false;
	for (size_t i = 0; i < CANDIDATES; i++) {
		uint64_t there = atomic_load(&seen[i]);

		if (!there && atomic_compare_exchange_strong(&seen[i], &there, h | 1))
			return false;
		if (there >> 32 == h >> 32)
			return (uint32_t)atomic_fetch_add(&seen[i], 1) + 1 >= THIRD;
	}
	return false;
}

static void outermost(struct nvtx_steps *s, const struct nvtx_meaning *m)
{
	s->closer = m->kind == RING_PHASE_OPTIMIZER && take(s, RULE_OPTIMIZER);
	if (s->closer || atomic_load(&rule) > RULE_REPEATS)
		return;
	if (atomic_load(&rule) == RULE_NONE && third_time(s, m) && take(s, RULE_REPEATS))
		atomic_store(&anchor, m->stem);
	if (atomic_load(&rule) == RULE_REPEATS && atomic_load(&anchor) == m->stem &&
	    take(s, RULE_REPEATS))
		nvtx_step_begin_now(m);
}

bool nvtx_step_begins(struct nvtx_steps *s, uint32_t depth, uint32_t domain,
		      const struct nvtx_meaning *m)
{
	bool is;

	if (s->depth || depth > NVTX_STEP_DEEPEST)
		return false;
	if (nvtx_step_named())
		is = nvtx_step_is(domain, m) && !tracer_steps_elsewhere();
	else
		is = depth == 1 && m->step && take(s, RULE_WORD);
	if (is) {
		s->depth = depth & NVTX_STEP_DEEPEST;
		nvtx_step_begin_now(m);
	} else if (depth == 1 && !nvtx_step_named()) {
		outermost(s, m);
	}
	return is;
}

bool nvtx_step_ends(struct nvtx_steps *s, uint32_t depth)
{
	if (s->depth != depth)
		return false;
	s->depth = 0;
	if (!tracer_steps_elsewhere())
		lockstep_step_end();
	return true;
}

void nvtx_step_after(struct nvtx_steps *s)
{
	if (!s->closer)
		return;
	s->closer = 0;
	nvtx_step_begin_now(NULL); /* the one that is open ends there */
}
