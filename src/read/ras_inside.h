/* SPDX-License-Identifier: Apache-2.0 */
/* ras_inside.h - what RAS's two forms share. */
#pragma once
#include "model/testimony.h"

#define RAS_ROWS_MAX (1u << 19) /* ranks of all communicators */
#define RAS_SIZE_MAX (1u << 20) /* ranks of one; more are no size */

/* A rank of a communicator of which nothing is known yet. */
struct comm_count comm_count_unknown(void);
/* The group of a communicator's hash, written "0x5e37.." whatever form it came in. */
uint32_t ras_group(struct testimony *t, const char *hash, int64_t size);
/* What the monitor saw, as a saying. */
void ras_event(struct testimony *t, const char *event, const char *details, const char *host,
	       int64_t pid, int64_t gpu, int64_t time_ns);
