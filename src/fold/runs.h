/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runs.h - spans in any order in, spans by time out, in bounded memory.
 *
 * What exceeds the limit is sorted and written to an unlinked file as one run; reading merges the
 * runs. Ties are broken by content, so that the order in which spans came never shows.
 */
#pragma once
#include "base/base.h"

enum item_kind {
	ITEM_KERNEL,
	ITEM_COLL_KERNEL, /* a kernel that is communication */
	ITEM_UNSEEN,	  /* a wait for what is not in the file */
	ITEM_COPY,
	ITEM_SET,
	ITEM_GLOO,	 /* a collective on the host */
	ITEM_COMM_RANGE, /* host: record_param_comms or nccl:*, tells of the launches inside */
	ITEM_LAUNCH,
	ITEM_SYNC,
	ITEM_RANGE,   /* host: an annotation, a phase */
	ITEM_DETAIL,  /* host: a function or compile range that may explain a stall */
	ITEM_OP,      /* host: cover of operators */
	ITEM_CALL,    /* host: the call of a collective (c10d::*) */
	ITEM_WAITING, /* host: an operator that only waits */
	ITEM_KINDS,
};

/* 32 bytes. Durations beyond 2^44 ns (4.9 hours) are cut to that. */
struct item {
	int64_t start;
	uint32_t duration_low;
	uint16_t duration_high_kind; /* 12 bits of duration, 4 of kind */
	uint16_t lane;
	uint32_t name;
	uint32_t correlation; /* 0: none */
	uint32_t comm;	      /* row of the signatures; NO_ID */
	uint32_t seq;	      /* + 1; 0: unknown */
};
#define ITEM_LONGEST (((int64_t)1 << 44) - 1)

static inline enum item_kind item_kind(const struct item *it)
{
	return (enum item_kind)(it->duration_high_kind & 15);
}
static inline bool item_on_gpu(const struct item *it)
{
	return item_kind(it) <= ITEM_SET;
}
static inline int64_t item_duration(const struct item *it)
{
	return ((int64_t)(it->duration_high_kind >> 4) << 32) | it->duration_low;
}
static inline void item_set(struct item *it, enum item_kind kind, int64_t duration)
{
	if (duration < 0)
		duration = 0;
	if (duration > ITEM_LONGEST)
		duration = ITEM_LONGEST;
	it->duration_low = (uint32_t)duration;
	it->duration_high_kind = (uint16_t)(((uint64_t)duration >> 32 << 4) | (unsigned)kind);
}

struct runs {
	struct item *items; /* not yet in the file */
	size_t n, cap, limit;
	uint64_t *keys, *spare; /* (time, position), of the items in memory */
	size_t keys_cap;
	int fd;
	uint64_t in_file; /* items */
	struct run {
		uint64_t next, end; /* items of the file */
		struct item *window;
		uint32_t at, have;
	} * run;
	size_t n_runs, cap_runs;
	size_t *heap; /* runs by their first item */
	size_t n_heap;
	size_t next; /* reading from memory alone */
};

void runs_init(struct runs *r, size_t limit_bytes);
int runs_push_slow(struct runs *r, const struct item *it, struct error *reterr);
static inline int runs_push(struct runs *r, const struct item *it, struct error *reterr)
{
	if (r->n == r->cap)
		return runs_push_slow(r, it, reterr);
	r->items[r->n++] = *it;
	return 0;
}
/* After the last push, once. Then runs_next gives 1 and an item, 0 at the end, or an error. */
int runs_start(struct runs *r, struct error *reterr);
int runs_next(struct runs *r, struct item *ret, struct error *reterr);
void runs_done(struct runs *r);
