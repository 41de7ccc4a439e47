/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvtx_step.h - which of a program's NVTX ranges is the step.
 *
 * Decided while the ranges come, best rule first; a better one takes over when it is met, and steps
 * count on:
 *   1. LOCKSTEP_STEP_RANGE names it: `name` or `domain/name`, at any depth. Then nothing else is.
 *   2. An outermost range with a step's name (step, iteration, train_step, ... and their like, with
 * a number or without) is one step.
 *   3. An outermost range of the optimizer's ends a step, and begins the next.
 *   4. An outermost range that comes for the third time on its thread, and is none of data loading,
 *      checkpoints, evaluation, compilation, garbage collection, begins a step each time.
 * Only one thread makes steps: the one that was first by the rule in force. Where something else
 * tells steps (the C API, Python), no range does.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracer/nvtx_text.h"

/* Of a thread, by whose address it is known; zeroes at first. Few bytes: a library that is loaded
   late finds little room for what is a thread's own. */
struct nvtx_steps {
	uint16_t depth : 15; /* of the range that is the step; 0: none is open */
	uint16_t closer : 1; /* the outermost range that is open ends a step */
};
#define NVTX_STEP_DEEPEST 0x7fff /* no deeper range is a step */

/* Reads the environment; once, before any name is given. */
void nvtx_step_setup(void);
/* Is it configured, so that inner ranges matter too? */
bool nvtx_step_named(void);
/* How a name is the configured one: 1: all of it, whatever the domain; 2: in the configured domain;
   0: not. A number behind it does not matter. */
uint8_t nvtx_step_named_by(const char *name, size_t len);
/* Is a range the configured one? domain: id of its name. */
bool nvtx_step_is(uint32_t domain, const struct nvtx_meaning *m);
/* A step begins, with the name's number if that grows. */
void nvtx_step_begin_now(const struct nvtx_meaning *m);
/* A range begins at that depth (1: outermost). true: it is a step, and has begun one. */
bool nvtx_step_begins(struct nvtx_steps *s, uint32_t depth, uint32_t domain,
		      const struct nvtx_meaning *m);
/* The range at that depth ends. true: it was a step, which ends. */
bool nvtx_step_ends(struct nvtx_steps *s, uint32_t depth);
/* Behind the end of an outermost range that was none. */
void nvtx_step_after(struct nvtx_steps *s);
