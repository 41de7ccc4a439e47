/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvtx_abi.h - what NVTX v3 hands to an injection library, declared anew: the header-only library
 * of whoever calls it is no dependency of ours. Numbers are those of its nvtxTypes.h and
 * nvToolsExt.h; a test compares them where these headers are installed.
 */
#pragma once
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

typedef void (*nvtx_function)(void);

/* get(NVTX_TABLE_CALLBACKS) gives this; it gives a table of pointers to function pointers. */
#define NVTX_TABLE_CALLBACKS 1u
struct nvtx_callbacks {
	size_t size;
	int (*module_table)(int module, nvtx_function ***ret_table, unsigned *ret_n);
};
typedef const void *(*nvtx_get_table)(uint32_t id);

enum nvtx_module { NVTX_CORE = 1, NVTX_CORE2 = 5 };

enum nvtx_core {
	NVTX_MARK_EX = 1,
	NVTX_MARK_A,
	NVTX_MARK_W,
	NVTX_START_EX,
	NVTX_START_A,
	NVTX_START_W,
	NVTX_END,
	NVTX_PUSH_EX,
	NVTX_PUSH_A,
	NVTX_PUSH_W,
	NVTX_POP,
};

enum nvtx_core2 {
	NVTX_DOMAIN_MARK_EX = 1,
	NVTX_DOMAIN_START_EX,
	NVTX_DOMAIN_END,
	NVTX_DOMAIN_PUSH_EX,
	NVTX_DOMAIN_POP,
	NVTX_STRING_A = 10,
	NVTX_STRING_W,
	NVTX_DOMAIN_CREATE_A,
	NVTX_DOMAIN_CREATE_W,
};

enum nvtx_message { NVTX_MESSAGE_NONE, NVTX_MESSAGE_A, NVTX_MESSAGE_W, NVTX_MESSAGE_STRING };

enum nvtx_payload {
	NVTX_PAYLOAD_NONE,
	NVTX_PAYLOAD_U64,
	NVTX_PAYLOAD_I64,
	NVTX_PAYLOAD_DOUBLE,
	NVTX_PAYLOAD_U32,
	NVTX_PAYLOAD_I32,
	NVTX_PAYLOAD_FLOAT,
};
#define NVTX_PAYLOAD_EXTENDED ((int32_t)0xDFBD0009u) /* reserved: how many nvtx_data */

struct nvtx_attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	union {
		uint64_t u64;
		int64_t i64;
		double d;
		uint32_t u32;
		int32_t i32;
		float f;
	} payload;
	int32_t message_type;
	union {
		const char *a;
		const wchar_t *w;
		const void *string;
	} message;
};
static_assert(sizeof(struct nvtx_attributes) == 48, "nvtxEventAttributes_t");
static_assert(offsetof(struct nvtx_attributes, payload) == 24, "nvtxEventAttributes_t");
static_assert(offsetof(struct nvtx_attributes, message_type) == 32, "nvtxEventAttributes_t");
static_assert(offsetof(struct nvtx_attributes, message) == 40, "nvtxEventAttributes_t");

/* One of the payloads of NVTX_PAYLOAD_EXTENDED. */
struct nvtx_data {
	uint64_t schema;
	size_t size;
	const void *payload;
};
static_assert(sizeof(struct nvtx_data) == 24, "nvtxPayloadData_t");
