/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_nvtx.c - whatever a program puts into its NVTX attributes and payloads, each begin has its
 * end, and what is not told is counted.
 *
 * The bytes are calls: which one, in which domain, 48 bytes of attributes, a name. Pointers in them
 * become ours: no injection library can tell a wrong one.
 */
#include <stdlib.h>
#include <string.h>

#include "../tests/door_told.h"
#include "fuzz_source.h"
#include "tracer/nvtx.h"

#define CALLS_MAX 4096

static nvtx_function core[16], core2[16], *core_at[16], *core2_at[16];
static const void *domains[3];
static const void *strings[3];

struct call {
	uint8_t what, domain, name_len, pad;
	struct nvtx_attributes a;
	struct nvtx_data data;
};

static int module_table(int module, nvtx_function ***ret_table, unsigned *ret_n)
{
	*ret_table = module == NVTX_CORE ? core_at : core2_at;
	*ret_n = 16;
	return module == NVTX_CORE || module == NVTX_CORE2;
}

static const struct nvtx_callbacks callbacks = { sizeof(callbacks), module_table };

static const void *get(uint32_t id)
{
	return id == NVTX_TABLE_CALLBACKS ? &callbacks : NULL;
}

static const void *of_name(nvtx_function f, const char *s)
{
	return ((const void *(*)(const char *))f)(s);
}

static const void *of_string(const char *s)
{
	return ((const void *(*)(const void *, const char *))core2[NVTX_STRING_A])(NULL, s);
}

static void load(void)
{
	for (size_t i = 1; i < 16; i++) {
		core_at[i] = &core[i];
		core2_at[i] = &core2[i];
	}
	fuzz_check(InitializeInjectionNvtx2(get) == 1);
	domains[1] = of_name(core2[NVTX_DOMAIN_CREATE_A], "app");
	domains[2] = of_name(core2[NVTX_DOMAIN_CREATE_A], "NCCL");
	strings[0] = of_string("ncclAllReduce");
	strings[1] = of_string("Iteration 3");
	strings[2] = (const void *)(uintptr_t)0x4c4b00000000ffffull; /* like ours, and is not */
}

/* Pointers that the program might have given. */
static void repair(struct call *c, const char *name, const wchar_t *wide, const uint8_t *payload)
{
	c->data.payload = c->pad & 1 ? payload : NULL;
	if (c->pad & 2)
		c->data.size = c->data.size % 2 ? 16 : 24;
	if (c->a.payload_type == NVTX_PAYLOAD_EXTENDED)
		c->a.payload.u64 = (uint64_t)(uintptr_t)&c->data;
	if (c->pad & 4)
		c->a.size = sizeof(c->a);
	if (c->a.message_type == NVTX_MESSAGE_A)
		c->a.message.a = c->pad & 8 ? NULL : name;
	else if (c->a.message_type == NVTX_MESSAGE_W)
		c->a.message.w = c->pad & 8 ? NULL : wide;
	else if (c->a.message_type == NVTX_MESSAGE_STRING && c->pad & 8)
		c->a.message.string = strings[c->pad >> 4 & 1];
	else if (c->a.message_type == NVTX_MESSAGE_STRING)
		c->a.message.string = strings[2];
}

static int make(const struct call *c, const void *d, uint64_t *ids, size_t *n)
{
	typedef int (*ex)(const void *, const struct nvtx_attributes *);

	switch (c->what % 5) {
	case 0:
		((ex)core2[NVTX_DOMAIN_PUSH_EX])(d, c->domain & 64 ? NULL : &c->a);
		return 1;
	case 1:
		return ((int (*)(const void *))core2[NVTX_DOMAIN_POP])(d) < 0 ? 0 : -1;
	case 2:
		if (*n < CALLS_MAX)
			ids[(*n)++] = ((uint64_t(*)(const void *, const struct nvtx_attributes *))
					   core2[NVTX_DOMAIN_START_EX])(d, &c->a);
		return 0;
	case 3:
		((void (*)(const void *, uint64_t))core2[NVTX_DOMAIN_END])(
		    d, *n ? ids[--*n] : c->a.payload.u64);
		return 0;
	default:
		((void (*)(const void *,
			   const struct nvtx_attributes *))core2[NVTX_DOMAIN_MARK_EX])(d, &c->a);
		return 0;
	}
}

static void play(const uint8_t *data, size_t size)
{
	static uint64_t ids[CALLS_MAX];
	int open[2] = { 0, 0 };
	size_t n = 0;

	for (size_t i = 0; i < CALLS_MAX && size >= sizeof(struct call); i++) {
		struct call c;
		char name[256];
		wchar_t wide[64];
		const void *d;

		memcpy(&c, data, sizeof(c));
		data += sizeof(c);
		size -= sizeof(c);
		c.name_len = (uint8_t)MIN((size_t)c.name_len, size);
		memcpy(name, data, c.name_len);
		name[c.name_len] = 0;
		memset(wide, 0, sizeof(wide));
		memcpy(wide, name, MIN((size_t)c.name_len, sizeof(wide) - sizeof(*wide)));
		data += c.name_len;
		size -= c.name_len;
		d = domains[c.domain % 3];
		repair(&c, name, wide, (const uint8_t *)&c.a);
		open[c.domain % 3 == 2] += make(&c, d, ids, &n);
	}
	while (open[0]-- > 0)
		((int (*)(const void *))core2[NVTX_DOMAIN_POP])(NULL);
	while (open[1]-- > 0)
		((int (*)(const void *))core2[NVTX_DOMAIN_POP])(domains[2]);
	while (n > 0)
		((void (*)(uint64_t))core[NVTX_END])(ids[--n]);
	fuzz_check(((int (*)(void))core[NVTX_POP])() < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	told_reset();
	if (!core[NVTX_POP])
		load();
	play(data, size);
	fuzz_check(told_count(TOLD_PHASE_BEGIN) == told_count(TOLD_PHASE_END));
	fuzz_check(told_count(TOLD_COLL_BEGIN) == told_count(TOLD_COLL_END));
	fuzz_check(told_count(TOLD_STEP_BEGIN) >= told_count(TOLD_STEP_END));
	return 0;
}
