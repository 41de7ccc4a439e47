/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti_abi.h - the part of CUPTI's first activity interface that is used here, declared anew: the
 * library is loaded at run time, of whichever version the job has (11.8 to 13).
 *
 * Between versions fields of records were only ever appended, so one declaration of the first of
 * them reads all layouts; how long a record is, CUPTI alone knows, and its own function walks from
 * one to the next. A test compares all of it with the real headers where they are installed.
 */
#pragma once
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define CUPTI_OLDEST	18u	/* 11.8: what cuptiGetVersion gives */
#define CUPTI_NULL_SAFE 27u	/* 12.9: a request may be left without a buffer */
#define CUPTI_UNKNOWN	140000u /* what is newer than this was never looked at */
#define CUPTI_CUSTOM_2	5	/* kind of external correlation; 3 and 4 are Kineto's */
#define CUPTI_END	12	/* of a buffer's records */

enum cupti_kind {
	CUPTI_MEMCPY = 1,
	CUPTI_MEMSET = 2,
	CUPTI_DRIVER = 4,
	CUPTI_RUNTIME = 5,
	CUPTI_KERNEL = 10, /* concurrent: the other one makes kernels wait for each other */
	CUPTI_MEMCPY_PEER = 22,
	CUPTI_SYNC = 38,
	CUPTI_CORRELATION = 39,
};

enum cupti_attribute {
	CUPTI_DEVICE_BUFFERS = 2, /* size_t: at most so many a context */
	CUPTI_ZEROED = 5,	  /* u8: buffers come zeroed */
	CUPTI_PER_THREAD = 9,	  /* u8: a buffer for each thread */
};

struct cupti_kernel { /* CUpti_ActivityKernel5 to 13 */
	uint32_t kind;
	uint8_t skip_1[12];
	uint64_t start, end;
	uint64_t completed;
	uint32_t device, context, stream;
	uint8_t skip_2[40];
	uint32_t correlation;
	int64_t grid;
	const char *name;
	uint8_t skip_3[32];
	uint64_t graph_node;
	uint8_t skip_4[4];
	uint32_t graph;
};
static_assert(offsetof(struct cupti_kernel, start) == 16, "CUpti_ActivityKernel");
static_assert(offsetof(struct cupti_kernel, stream) == 48, "CUpti_ActivityKernel");
static_assert(offsetof(struct cupti_kernel, correlation) == 92, "CUpti_ActivityKernel");
static_assert(offsetof(struct cupti_kernel, name) == 104, "CUpti_ActivityKernel");
static_assert(offsetof(struct cupti_kernel, graph_node) == 144, "CUpti_ActivityKernel");
static_assert(offsetof(struct cupti_kernel, graph) == 156, "CUpti_ActivityKernel");

struct cupti_memcpy { /* CUpti_ActivityMemcpy 3 to 7 */
	uint32_t kind;
	uint8_t copy_kind, source, target, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint8_t skip[16];
	uint64_t graph_node;
	uint32_t graph;
};
static_assert(offsetof(struct cupti_memcpy, stream) == 40, "CUpti_ActivityMemcpy");
static_assert(offsetof(struct cupti_memcpy, graph) == 72, "CUpti_ActivityMemcpy");

struct cupti_memset { /* CUpti_ActivityMemset 2 to 5; memory_kind, flags: before graph_node */
	uint32_t kind, value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
};
static_assert(offsetof(struct cupti_memset, correlation) == 44, "CUpti_ActivityMemset");

struct cupti_peer { /* CUpti_ActivityMemcpyPtoP 2 to 4 */
	uint32_t kind;
	uint8_t copy_kind, source, target, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream;
	uint8_t skip[16];
	uint32_t correlation;
};
static_assert(offsetof(struct cupti_peer, correlation) == 60, "CUpti_ActivityMemcpyPtoP");

struct cupti_sync { /* CUpti_ActivitySynchronization, and 2 */
	uint32_t kind, type;
	uint64_t start, end;
	uint32_t correlation, context, stream, event;
};
static_assert(offsetof(struct cupti_sync, stream) == 32, "CUpti_ActivitySynchronization");

struct cupti_correlation { /* CUpti_ActivityExternalCorrelation */
	uint32_t kind, external_kind;
	uint64_t id;
	uint32_t correlation, reserved;
};
static_assert(sizeof(struct cupti_correlation) == 24, "CUpti_ActivityExternalCorrelation");

typedef void (*cupti_request)(uint8_t **buffer, size_t *size, size_t *records);
typedef void (*cupti_complete)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
			       size_t valid);
typedef uint64_t (*cupti_clock)(void);

/* Results are CUptiResult: 0 is success. */
struct cupti_api {
	int (*version)(uint32_t *ret);
	int (*timestamp)(uint64_t *ret);
	int (*callbacks)(cupti_request request, cupti_complete complete);
	int (*enable)(int kind);
	int (*disable)(int kind);
	int (*next)(uint8_t *buffer, size_t valid, void **record);
	int (*flush)(uint32_t flags);
	int (*dropped)(void *context, uint32_t stream, size_t *ret);
	int (*set)(int attribute, size_t *size, void *value);
	/* NULL where the version has none */
	int (*clock)(cupti_clock f);
	int (*push)(int kind, uint64_t id);
	int (*pop)(int kind, uint64_t *last);
	int (*runtime_api)(uint32_t call, uint8_t on);
	int (*driver_api)(uint32_t call, uint8_t on);
	int (*words)(int result, const char **ret);
};
