/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door.h - what the doors for CUDA, NVTX and NCCL need of the ring beyond what everybody may call.
 *
 * A door guesses where others know: its steps give way to those that the program or Python tells.
 */
#pragma once
#include "tracer/tracer.h"

#define TRACER_EXPORT __attribute__((visibility("default")))

/* A step as a door takes it; nothing once lockstep_step_begin() was called by somebody. */
void tracer_step_guess(int64_t number);
/* Was it? */
bool tracer_steps_elsewhere(void);

uint64_t tracer_steps_done(void);
/* As lockstep_collective_begin(), with the name of its algorithm; NULL: unknown. */
uint64_t tracer_collective(uint32_t group, uint8_t op, int64_t sequence, uint64_t bytes,
			   const char *algorithm);

/* Steps that are told from now on say so while another tool profiles. */
void tracer_profiled(bool on);
/* The kernels' channel alone is off, for that reason, which the agent is to say; all else goes on.
 */
void tracer_kernels_off(uint32_t code, const char *why);

/* Called at each begin and end of a phase, on its thread; name: of the phase that begins. Set once;
   NULL: nobody. */
typedef void (*tracer_edge)(bool begin, uint32_t name);
void tracer_on_edges(tracer_edge f);
