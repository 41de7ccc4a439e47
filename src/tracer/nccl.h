/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl.h - the door for NCCL: NCCL_PROFILER_PLUGIN names this library, which tells each collective
 * and each send and receive from when it is enqueued to when that is done.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Has NCCL given us its events, so that its NVTX ranges would tell them twice? */
bool nccl_tells(void);
/* The id of a communicator's name, the same on all of its ranks: `NAME:0xHASH`, or the hash alone.
 */
uint32_t nccl_group_name(const char *name, uint64_t hash);
