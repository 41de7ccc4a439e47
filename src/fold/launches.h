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
	uint32_t correlation;
	uint32_t mark;
	int64_t start, ready;
	uint32_t param, annotation; /* signatures of the ranges around it; NO_ID */
	uint32_t seq;		    /* + 1, of param */
	uint32_t older;		    /* how many puts before it the same slot's last one was; 0 */
};
struct launches {
	struct launch *ring;
	uint64_t *newest; /* by slot: position + 1 */
	uint64_t n;	  /* ever put */
};
void launches_put(struct launches *l, const struct launch *launch);
const struct launch *launches_find(const struct launches *l, uint32_t correlation);
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
