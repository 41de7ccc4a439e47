/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti_names.c - names of kernels made ids, by their addresses.
 *
 * CUPTI gives the same address for a kernel each time, until a module is unloaded and another name
 * comes to stand there. So an address only says where to look: the name itself is compared with the
 * copy that is kept, byte by byte.
 */
#include <string.h>

#include "tracer/cupti.h"
#include "tracer/door.h"

#define ENTRIES	   4096u /* a power of two */
#define TEXT_BYTES (512u << 10)

static struct {
	const char *address;
	uint32_t id, at;
} cache[ENTRIES];
static char text[TEXT_BYTES];
static uint32_t used;

void cupti_names_forget(void)
{
	memset(cache, 0, sizeof(cache));
	used = 0;
}

uint32_t cupti_name(const char *name)
{
	uint32_t i = (uint32_t)(((uint64_t)(uintptr_t)name * 0x9e3779b97f4a7c15ull) >> 52);
	size_t len;

	if (!name)
		return 0;
	/* a name that was cut has no end in the copy, and is as long as any can be */
	if (cache[i].address == name && !strncmp(name, text + cache[i].at, RING_NAME_MAX))
		return cache[i].id;
	len = strnlen(name, RING_NAME_MAX + 1);
	if (used + len + 1 > TEXT_BYTES)
		cupti_names_forget();
	cache[i].address = name;
	cache[i].at = used;
	cache[i].id = tracer_name(name, len);
	memcpy(text + used, name, len);
	text[used + len] = 0;
	used += (uint32_t)len + 1;
	return cache[i].id;
}
