/* SPDX-License-Identifier: Apache-2.0 */
/* nvtx_range.h - ranges that may end on another thread: a fixed table of those that are open. */
#pragma once
#include <stdint.h>

#define NVTX_OPEN 256u /* at a time */

/* Gives what its end wants; a full table is counted, and so are its ends' beginnings. */
uint64_t nvtx_range_start(uint32_t name, uint8_t kind);
void nvtx_range_end(uint64_t id);
/* A range that is the step. */
uint64_t nvtx_range_start_step(void);
