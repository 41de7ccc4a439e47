/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h - is the process that a ring names still there? By its number in its own PID namespace
 * and its start time, since numbers are used again.
 */
#pragma once
#include "base/base.h"
#include "model/ring_layout.h"
#include <sys/types.h>

enum process_state { PROCESS_LIVES, PROCESS_GONE, PROCESS_HIDDEN /* cannot be told */ };
/* *cache: its number in our namespace as it was found last; 0 at first. */
enum process_state process_state(const struct ring_header *h, pid_t *cache);
