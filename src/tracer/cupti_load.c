/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti_load.c - the CUPTI of this process.
 *
 * Two copies of it in one process get into each other's way, so one that is there already is taken,
 * whatever its version; else one that fits the CUDA runtime that is there.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "tracer/cupti.h"
#include "tracer/door.h"
#include "tracer/tracer_libc.h"

struct cupti_api cupti;
static uint32_t version;

static const struct {
	const char *runtime, *cupti, *path;
} libraries[] = {
	{ "libcudart.so.13", "libcupti.so.13", "/usr/local/cuda/lib64/libcupti.so.13" },
	{ "libcudart.so.12", "libcupti.so.12", "/usr/local/cuda/lib64/libcupti.so.12" },
	{ "libcudart.so.11.0", "libcupti.so.11.8", "/usr/local/cuda/lib64/libcupti.so.11.8" },
};
#define LIBRARIES (sizeof(libraries) / sizeof(*libraries))

#define SYMBOL(member, name, needed)                                                               \
	{                                                                                          \
		name, offsetof(struct cupti_api, member), needed                                   \
	}
static const struct {
	const char *name;
	size_t at;
	bool needed;
} symbols[] = {
	SYMBOL(version, "cuptiGetVersion", true),
	SYMBOL(timestamp, "cuptiGetTimestamp", true),
	SYMBOL(callbacks, "cuptiActivityRegisterCallbacks", true),
	SYMBOL(enable, "cuptiActivityEnable", true),
	SYMBOL(disable, "cuptiActivityDisable", true),
	SYMBOL(next, "cuptiActivityGetNextRecord", true),
	SYMBOL(flush, "cuptiActivityFlushAll", true),
	SYMBOL(dropped, "cuptiActivityGetNumDroppedRecords", true),
	SYMBOL(set, "cuptiActivitySetAttribute", true),
	SYMBOL(clock, "cuptiActivityRegisterTimestampCallback", false),
	SYMBOL(push, "cuptiActivityPushExternalCorrelationId", false),
	SYMBOL(pop, "cuptiActivityPopExternalCorrelationId", false),
	SYMBOL(runtime_api, "cuptiActivityEnableRuntimeApi", false),
	SYMBOL(driver_api, "cuptiActivityEnableDriverApi", false),
	SYMBOL(words, "cuptiGetResultString", false),
};

static void *open_fitting(void)
{
	void *l = NULL;

	for (size_t i = 0; !l && i < LIBRARIES; i++) {
		if (!tracer_dlopen(libraries[i].runtime, RTLD_NOW | RTLD_NOLOAD))
			continue;
		l = tracer_dlopen(libraries[i].cupti, RTLD_NOW | RTLD_LOCAL);
		if (!l)
			l = tracer_dlopen(libraries[i].path, RTLD_NOW | RTLD_LOCAL);
	}
	for (size_t i = 0; !l && i < LIBRARIES; i++)
		l = tracer_dlopen(libraries[i].cupti, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; !l && i < LIBRARIES; i++)
		l = tracer_dlopen(libraries[i].path, RTLD_NOW | RTLD_LOCAL);
	return l;
}

static void *open_any(void)
{
	const char *wish = getenv("LOCKSTEP_CUPTI");
	void *l = NULL;

	for (size_t i = 0; !l && i < LIBRARIES; i++)
		l = tracer_dlopen(libraries[i].cupti, RTLD_NOW | RTLD_NOLOAD);
	if (!l && wish && *wish)
		return tracer_dlopen(wish, RTLD_NOW | RTLD_LOCAL);
	return l ? l : open_fitting();
}

bool cupti_load(uint32_t *ret_code, const char **ret_why)
{
	void *l = open_any();
	int result;

	*ret_code = 0;
	*ret_why = "no libcupti in this process or where libraries are looked for";
	if (!l)
		return false;
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
		void *f = tracer_dlsym(l, symbols[i].name);

		if (!f && symbols[i].needed) {
			*ret_why = "this libcupti lacks a function";
			return false;
		}
		memcpy((char *)&cupti + symbols[i].at, &f, sizeof(f));
	}
	result = cupti.version(&version);
	*ret_code = (uint32_t)result;
	*ret_why = "libcupti gives no version";
	if (result)
		return false;
	*ret_code = version;
	*ret_why = version < CUPTI_OLDEST ? "a libcupti before 11.8"
					  : "a libcupti newer than any that is known here";
	return version >= CUPTI_OLDEST && version < CUPTI_UNKNOWN;
}

uint32_t cupti_version(void)
{
	return version;
}
