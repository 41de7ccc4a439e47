/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door_told.h - a ring that keeps what the doors tell, call by call, for tests of the doors alone.
 *
 * It stands in for the library's core. Calls of all threads join one list.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracer/door.h"

enum told_kind {
	TOLD_PHASE_BEGIN, /* name, arg: kind */
	TOLD_PHASE_END,
	TOLD_STEP_BEGIN, /* value */
	TOLD_STEP_END,
	TOLD_COUNTER, /* name, value: bits */
	TOLD_MARK,
	TOLD_COLL_BEGIN, /* name: group, arg: op, value: sequence, more: bytes; t: its id; algorithm
			  */
	TOLD_COLL_END,	 /* t: its id */
	TOLD_RECORD,	 /* r, of a thread's ring */
	TOLD_KERNEL,	 /* r, of that of kernels */
};

struct told {
	enum told_kind kind;
	uint32_t name, arg;
	int64_t value;
	uint64_t t, more;
	const char *algorithm;
	const void *thread;
	struct ring_record r;
};

extern struct told *told;
extern _Atomic size_t n_told;
extern _Atomic uint64_t told_counts[RING_COUNTERS];
extern _Atomic size_t told_kernels; /* all, whether kept or not */
extern bool told_off;		    /* the process tells nothing */
extern bool told_elsewhere;	    /* steps come from the program */
extern _Atomic bool told_profiled;
extern _Atomic uint64_t told_steps;
extern char told_why[160]; /* of the kernels' channel being off */
extern uint32_t told_code;
extern void (*_Atomic told_each)(const struct ring_record *r,
				 unsigned n); /* kernels, instead of keeping */

#define TOLD_MAX (1u << 20)

/* Forgets all but the names. */
void told_reset(void);
const char *told_name(uint32_t id);
size_t told_count(enum told_kind kind);
/* The nth of that kind; NULL: there are fewer. */
const struct told *told_nth(enum told_kind kind, size_t n);
