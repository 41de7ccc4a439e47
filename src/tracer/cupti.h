/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti.h - the door for CUDA: CUDA_INJECTION64_PATH names this library, and what the GPU did comes
 * by CUPTI's activity records.
 *
 * Who does what: CUPTI takes buffers on the program's threads and gives them back full on those of
 * its own; both only move a buffer from one state to another. One thread of ours reads them, turns
 * them into records of the ring, and looks each second whether CUPTI still is ours.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracer/cupti_abi.h"

extern struct cupti_api cupti;

/* CUDA calls it inside cuInit; by hand it does the same. Always 1. */
int InitializeInjection(void);
/* Another tool profiles from now (1) to then (0), as its own hooks say: better than what we notice.
 */
void lockstep_profiler(int on);

/* cupti_load.c: false: *ret_code and *ret_why say why. */
bool cupti_load(uint32_t *ret_code, const char **ret_why);
uint32_t cupti_version(void);

/* cupti_buffers.c */
#define CUPTI_BUFFER_BYTES (256u << 10)
#define CUPTI_BUFFERS	   64u /* at most; CUPTI_BUFFERS_SOFT where a request may be refused */
#define CUPTI_BUFFERS_SOFT 16u
#define CUPTI_BUFFERS_WAKE 4u  /* full ones do not wait for the next second */
#define CUPTI_ABANDONED	   64u /* at most; then no more seats are taken */
void cupti_buffers_request(uint8_t **buffer, size_t *size, size_t *records);
void cupti_buffers_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
			    size_t valid);
/*
 * Phases and kernels come in different buffers. What is full is marked; CUPTI is told to flush;
 * then all are read by pass 0, which looks for phases, and those that were marked by pass 1, and
 * freed: whatever was launched in them, its phase was flushed by then. Returns how many were freed.
 */
void cupti_buffers_mark(void);
unsigned cupti_buffers_drain(void (*read)(uint8_t *at, size_t valid, int pass));
/* Those that somebody else has got are given up; false: too many by now. */
bool cupti_buffers_abandon(void);
/* The thread that drains is to be woken before its time. */
void cupti_wake(void);

/* cupti_records.c */
void cupti_records_start(void);
void cupti_records_read(uint8_t *at, size_t valid, int pass);
void cupti_records_end(void); /* of a round */

/* cupti_names.c: of one thread only */
uint32_t cupti_name(const char *name);
void cupti_names_forget(void);

/* cupti_phases.c: external correlation; one way of several, behind these. */
/* Kinds and calls are turned on; false: phases do not reach kernels. */
bool cupti_phases_arm(void);
void cupti_phases_disarm(void);
/* Nothing more is pushed, and no call or kind is touched: they are another's. */
void cupti_phases_pause(void);
void cupti_phases_learn(const struct cupti_correlation *c);
uint32_t cupti_phases_of(uint32_t correlation);
bool cupti_phases_on(void);
