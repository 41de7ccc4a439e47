/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvtx_program.c - a program with NVTX ranges through NVIDIA's header, twice: as a program and,
 * built with -DPART, as a shared object of its own, which meets NVTX by itself.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "nvtx3/nvToolsExt.h"

#ifdef PART
void part_run(void);
void part_run(void)
{
	nvtxDomainHandle_t d = nvtxDomainCreateA("part");
	nvtxStringHandle_t s = nvtxDomainRegisterStringA(d, "attention");
	nvtxEventAttributes_t a = { .version = NVTX_VERSION,
				    .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE };

	a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	a.message.registered = s;
	nvtxDomainRangePushEx(d, &a);
	nvtxDomainRangePop(d);
	nvtxDomainDestroy(d);
}
#else
static void *end_there(void *id)
{
	nvtxRangeEnd(*(nvtxRangeId_t *)id);
	return NULL;
}

int main(int argc, char **argv)
{
	void *part = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	void (*run)(void) = part ? (void (*)(void))dlsym(part, "part_run") : NULL;

	for (int i = 0; i < 5; i++) {
		nvtxRangeId_t id = nvtxRangeStartA("prefetch");
		char name[24];
		pthread_t t;

		snprintf(name, sizeof(name), "iteration %d", 40 + i);
		nvtxRangePushA(name);
		nvtxRangePushW(L"forward");
		if (run)
			run();
		nvtxRangePop();
		nvtxRangePushA("backward");
		nvtxRangePop();
		nvtxMarkA("here");
		nvtxRangePop();
		pthread_create(&t, NULL, end_there, &id);
		pthread_join(t, NULL);
	}
	nvtxRangePop(); /* one too many */
	return 0;
}
#endif
