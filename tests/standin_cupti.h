/* SPDX-License-Identifier: Apache-2.0 */
/* standin_cupti.h - by what the stand-in for CUPTI is played. All from any thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct standin {
	/* Before it is loaded by the tracer: as which version; a result that enabling gives. */
	void (*version)(uint32_t version, int refuses);
	/* A call that launches: its correlation record, if asked for; the kernel comes at `finish`.
	 */
	uint32_t (*launch)(const char *name, uint32_t stream, uint64_t start, uint64_t end,
			   uint32_t graph);
	uint32_t (*copy)(uint8_t kind, uint32_t stream, uint64_t start, uint64_t end);
	uint32_t (*peer)(uint32_t stream, uint64_t start, uint64_t end);
	uint32_t (*set)(uint32_t stream, uint64_t start, uint64_t end);
	uint32_t (*sync)(uint32_t type, uint32_t stream, uint64_t start, uint64_t end);
	/* The GPU has done all of it; its records come in another order if that is asked for. */
	void (*finish)(bool shuffle);
	void (*drop)(size_t n);
	/* torch.profiler takes the seat, and leaves it as it does. */
	void (*profiler)(bool on);
	size_t (*profilers_kernels)(void); /* records that it got */
	size_t (*profilers_unknown)(void); /* buffers that it got and did not give */
	bool (*enabled)(int kind);
	size_t (*buffers_out)(void);
	size_t (*pushed)(void); /* external correlations on the stack of this thread */
};

extern const struct standin standin; /* of the library: by dlsym */
