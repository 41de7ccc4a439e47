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
	uint32_t seq; /* + 1; of a kernel that is no communication: its blocks. 0: unknown */
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
/* Returns the duration as it is kept. */
static inline int64_t item_set(struct item *it, enum item_kind kind, int64_t duration)
{
	if ((uint64_t)duration > ITEM_LONGEST)
		duration = duration < 0 ? 0 : ITEM_LONGEST;
	it->duration_low = (uint32_t)duration;
	it->duration_high_kind = (uint16_t)(((uint64_t)duration >> 32 << 4) | (unsigned)kind);
	return duration;
}

/* Spans of the host, or of the GPU, as they came: files hold each of the two nearly in order. */
struct item_list {
	size_t n;
	int64_t last;	/* the latest start; INT64_MAX without any */
	size_t moved;	/* how many places items were moved to keep the list in order */
	bool unsorted;	/* that would have cost too much */
	uint64_t *keys; /* then: (time, position) in order */
	size_t next;	/* reading */
};

#define RUNS_BATCH 128

struct runs {
	struct item *items; /* spans of the host from the bottom up, of the GPU from the top down */
	struct item *bottom, *top; /* between them is room */
	size_t cap, limit;
	struct item_list lists[2]; /* [on the GPU] */
	int fd;
	uint64_t in_file; /* items */
	struct run {
		uint64_t next, end; /* items of the file */
		struct item *window;
		uint32_t at, have;
		bool in_memory; /* its items are those of the lists */
	} * run;
	size_t n_runs, cap_runs;
	size_t *heap; /* runs by their first item */
	size_t n_heap;
};

void runs_init(struct runs *r, size_t limit_bytes);
int runs_make_room(struct runs *r, struct error *reterr);
void runs_nudge(struct item_list *l, struct item *last, ptrdiff_t back);
/* Room for one more item, to be filled and then given to runs_add; NULL: no room, *ret_status says
   why. */
static inline struct item *runs_room(struct runs *r, bool gpu, int *ret_status,
				     struct error *reterr)
{
	if (r->bottom == r->top) {
		*ret_status = runs_make_room(r, reterr);
		if (*ret_status < 0)
			return NULL;
	}
	return gpu ? r->top - 1 : r->bottom;
}
static inline void runs_add(struct runs *r, struct item *it, bool gpu)
{
	struct item_list *l = &r->lists[gpu];

	l->n++;
	if (gpu)
		r->top--;
	else
		r->bottom++;
	if (l->n == 1 || it->start > l->last)
		l->last = it->start;
	else
		runs_nudge(l, it, gpu ? 1 : -1);
}
/* Room for an item that follows others in order, counted already; NULL: it does not, or there is no
   room. */
static inline struct item *runs_room_plain(struct runs *r, bool gpu, int64_t start)
{
	struct item_list *l = &r->lists[gpu];

	if (start <= l->last || r->bottom == r->top)
		return NULL;
	l->last = start;
	l->n++;
	return gpu ? --r->top : r->bottom++;
}
/* After the last item, once. */
int runs_start(struct runs *r, struct error *reterr);
/* How many of the next items, at most RUNS_BATCH, that stay until the next call; 0 at the end. */
int runs_next(struct runs *r, const struct item **batch, struct error *reterr);
void runs_done(struct runs *r);
/* After all were given out: empty once more, the memory kept. */
void runs_again(struct runs *r);
/* Instead: the last n of the batch that was given last, and all that would follow them, stay where
   they are for the next runs_start. False where they do not lie in order in memory: nothing is
   done. */
bool runs_keep(struct runs *r, const struct item *const *left, size_t n);
