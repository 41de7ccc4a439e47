/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launches.h - the launches that work may still come from: the last 32,768 of them, by correlation.
 *
 * A graph's launch starts many kernels, and some launches start none that is traced, so entries are
 * not taken out; the oldest is overwritten.
 */
#pragma once
#include "fold/inside.h"

struct launch {
	int64_t start;
	uint32_t correlation;
	uint32_t mark;
	uint32_t older; /* how many puts before it the same slot's last one was; 0 */
	bool more;	/* there is a launch_more of it */
};
/* What only launches of collectives and slow ones have. */
struct launch_more {
	int64_t ready;
	uint32_t param, annotation; /* signatures of the ranges around it; NO_ID */
	uint32_t seq;		    /* + 1, of param */
};
#define LAUNCHES ((uint64_t)1 << 15)

struct launches {
	struct launch *ring;
	struct launch_more *more; /* by place in the ring */
	uint32_t *newest;	  /* by slot: the low bits of position + 1 */
	uint64_t n;		  /* ever put */
};

/* Correlations count up, so neighbours in time are neighbours in memory. */
static inline uint64_t launch_slot(uint32_t correlation)
{
	return (correlation ^ correlation >> 15) % LAUNCHES;
}
void launches_begin(struct launches *l);
/* A place for the next one, filled but for its content. */
static inline struct launch *launches_put(struct launches *l, uint32_t correlation)
{
	uint32_t *newest, older;
	struct launch *at;

	if (!l->ring)
		launches_begin(l);
	newest = &l->newest[launch_slot(correlation)];
	at = &l->ring[l->n++ % LAUNCHES];
	at->correlation = correlation;
	older = (uint32_t)l->n - *newest;
	at->older = older < LAUNCHES ? older : 0;
	at->more = false;
	*newest = (uint32_t)l->n;
	return at;
}
static inline struct launch_more *launch_more(const struct launches *l, const struct launch *at)
{
	return &l->more[at - l->ring];
}
static inline uint32_t launch_wait(const struct launches *l, const struct launch *at)
{
	return at->more ? wait_of(launch_more(l, at)->ready - at->start) : 0;
}
static inline const struct launch *launches_find(const struct launches *l, uint32_t correlation)
{
	uint64_t age, filled = MIN(l->n, LAUNCHES);

	if (!l->ring || !correlation)
		return NULL;
	age = (uint32_t)l->n - l->newest[launch_slot(correlation)];
	while (age < filled) {
		const struct launch *launch = &l->ring[(l->n - age - 1) % LAUNCHES];

		if (launch->correlation == correlation)
			return launch;
		if (!launch->older)
			break;
		age += launch->older;
	}
	return NULL;
}
void launches_done(struct launches *l);

/* Calls of host collectives that wait for their event, in order of time. */
struct calls {
	struct call {
		int64_t start;
		enum comm_op op;
		int64_t elements; /* -1 */
	} v[1024];
	size_t n;
};
void calls_put(struct calls *c, const struct call *call);
/* The call that a host collective belongs to, taken out; TIME_UNKNOWN if there is none. */
int64_t calls_take(struct calls *c, const struct call *event);
