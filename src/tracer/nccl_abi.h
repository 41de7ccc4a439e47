/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_abi.h - the profiler plugin's interface of NCCL, versions 2 (NCCL 2.24) to 6 (2.29),
 * declared anew. Of the events only what this library asks for: collectives, and sends and
 * receives.
 *
 * All versions have the same five functions and differ in what init takes and in where an event
 * keeps what: nccl_shapes. Sizes and offsets were read from NVIDIA's example headers; a test
 * compares them with these where it is told their folder.
 */
#pragma once
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_OK 0

enum nccl_event { NCCL_EVENT_GROUP = 1, NCCL_EVENT_COLL = 2, NCCL_EVENT_P2P = 4 };

struct nccl_event_4 {
	uint8_t type; /* a u64 from version 5 on */
	void *parent;
	int rank;
	union {
		struct {
			uint64_t seq;
			const char *func;
			const void *send;
			void *recv;
			size_t count;
			int root;
			const char *datatype;
			uint8_t n_channels, n_warps;
			const char *algo, *proto;
		} coll;
		struct {
			const char *func;
			void *buff;
			const char *datatype;
			size_t count;
			int peer;
			uint8_t n_channels;
		} p2p;
	};
};

struct nccl_event_5 { /* and 6 */
	uint64_t type;
	void *parent;
	int rank;
	union {
		struct {
			uint64_t seq;
			const char *func;
			const void *send;
			void *recv;
			size_t count;
			int root;
			const char *datatype;
			uint8_t n_channels, n_warps;
			const char *algo, *proto;
			void *parent_group;
		} coll;
		struct {
			const char *func;
			void *buff;
			const char *datatype;
			size_t count;
			int peer;
			uint8_t n_channels;
			void *parent_group;
		} p2p;
	};
};

struct nccl_event_3 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t hash, seq;
			const char *func;
			const void *send;
			void *recv;
			size_t count;
			int root;
			const char *datatype;
			uint8_t n_max_channels, n_warps;
			const char *algo, *proto;
		} coll;
		struct {
			const char *name;
			uint64_t hash;
			const char *func;
			void *buff;
			const char *datatype;
			size_t count;
			int peer;
		} p2p;
	};
};

struct nccl_event_2 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t hash, seq;
			const char *func;
			const void *send;
			void *recv;
			size_t count;
			int root;
			const char *datatype;
			size_t traffic;
			uint8_t n_max_channels, n_warps;
			const char *algo, *proto;
		} coll;
		struct {
			const char *name;
			uint64_t hash;
			const char *func;
			void *buff;
			const char *datatype;
			size_t count;
			int peer;
		} p2p;
	};
};

static_assert(sizeof(struct nccl_event_2) == 128, "ncclProfilerEventDescr_v2_t");
static_assert(sizeof(struct nccl_event_3) == 120, "ncclProfilerEventDescr_v3_t");
static_assert(sizeof(struct nccl_event_4) == 104, "ncclProfilerEventDescr_v4_t");
static_assert(sizeof(struct nccl_event_5) == 112, "ncclProfilerEventDescr_v5_t");

struct nccl_shape {
	uint8_t coll_name, coll_hash, coll_seq, coll_func, coll_count, coll_type, coll_algo;
	uint8_t p2p_name, p2p_hash, p2p_func, p2p_count, p2p_type;
	bool wide; /* type is a u64 */
};

#define NCCL_AT(version, member) (uint8_t) offsetof(struct nccl_event_##version, member)
#define NCCL_SHAPE_NAMED(v)                                                                        \
	{                                                                                          \
		NCCL_AT(v, coll.name), NCCL_AT(v, coll.hash), NCCL_AT(v, coll.seq),                \
		    NCCL_AT(v, coll.func), NCCL_AT(v, coll.count), NCCL_AT(v, coll.datatype),      \
		    NCCL_AT(v, coll.algo), NCCL_AT(v, p2p.name), NCCL_AT(v, p2p.hash),             \
		    NCCL_AT(v, p2p.func), NCCL_AT(v, p2p.count), NCCL_AT(v, p2p.datatype), false   \
	}
#define NCCL_SHAPE(v, wide)                                                                        \
	{                                                                                          \
		0, 0, NCCL_AT(v, coll.seq), NCCL_AT(v, coll.func), NCCL_AT(v, coll.count),         \
		    NCCL_AT(v, coll.datatype), NCCL_AT(v, coll.algo), 0, 0, NCCL_AT(v, p2p.func),  \
		    NCCL_AT(v, p2p.count), NCCL_AT(v, p2p.datatype), wide                          \
	}

/* By version; the name and the hash stand in the events to version 3, in init from then on. */
static const struct nccl_shape nccl_shapes[] = {
	[2] = NCCL_SHAPE_NAMED(2), [3] = NCCL_SHAPE_NAMED(3), [4] = NCCL_SHAPE(4, false),
	[5] = NCCL_SHAPE(5, true), [6] = NCCL_SHAPE(5, true),
};

static_assert(offsetof(struct nccl_event_2, coll.seq) == 40, "v2");
static_assert(offsetof(struct nccl_event_2, coll.func) == 48, "v2");
static_assert(offsetof(struct nccl_event_2, coll.count) == 72, "v2");
static_assert(offsetof(struct nccl_event_2, coll.datatype) == 88, "v2");
static_assert(offsetof(struct nccl_event_2, coll.algo) == 112, "v2");
static_assert(offsetof(struct nccl_event_3, coll.datatype) == 88, "v3");
static_assert(offsetof(struct nccl_event_3, coll.algo) == 104, "v3");
static_assert(offsetof(struct nccl_event_3, p2p.func) == 40, "v3");
static_assert(offsetof(struct nccl_event_3, p2p.count) == 64, "v3");
static_assert(offsetof(struct nccl_event_4, coll.seq) == 24, "v4");
static_assert(offsetof(struct nccl_event_4, coll.count) == 56, "v4");
static_assert(offsetof(struct nccl_event_4, coll.datatype) == 72, "v4");
static_assert(offsetof(struct nccl_event_4, coll.algo) == 88, "v4");
static_assert(offsetof(struct nccl_event_4, p2p.count) == 48, "v4");
static_assert(offsetof(struct nccl_event_5, coll.seq) == 24, "v5");
static_assert(offsetof(struct nccl_event_5, coll.algo) == 88, "v5");
static_assert(offsetof(struct nccl_event_5, coll.parent_group) == 104, "v5");
static_assert(offsetof(struct nccl_event_5, p2p.parent_group) == 64, "v5");

/* Functions of which the door only says yes take what they are given. */
struct nccl_plugin_3 { /* and 2 */
	const char *name;
	int (*init)(void **context, int *mask);
	int (*start)(void *context, void **handle, const void *event);
	int (*stop)(void *handle);
	int (*state)(void *handle, int state, void *args);
	int (*finalize)(void *context);
};

struct nccl_plugin_4 {
	const char *name;
	int (*init)(void **context, int *mask, const char *name, uint64_t hash, int nodes,
		    int ranks, int rank, void *log);
	int (*start)(void *context, void **handle, const void *event);
	int (*stop)(void *handle);
	int (*state)(void *handle, int state, void *args);
	int (*finalize)(void *context);
};

struct nccl_plugin_5 { /* and 6 */
	const char *name;
	int (*init)(void **context, uint64_t hash, int *mask, const char *name, int nodes,
		    int ranks, int rank, void *log);
	int (*start)(void *context, void **handle, const void *event);
	int (*stop)(void *handle);
	int (*state)(void *handle, int state, void *args);
	int (*finalize)(void *context);
};
static_assert(sizeof(struct nccl_plugin_3) == 48, "ncclProfiler_v3_t");
static_assert(sizeof(struct nccl_plugin_4) == 48, "ncclProfiler_v4_t");
static_assert(sizeof(struct nccl_plugin_5) == 48, "ncclProfiler_v5_t");
