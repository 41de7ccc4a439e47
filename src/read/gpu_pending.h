/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_pending.h - readings whose values come on different lines: by metric first, by GPU second.
 *
 * A reading is complete when the same metric of the same GPU comes again: then a new scrape has
 * begun. What is left at the end is flushed in order of appearance.
 */
#pragma once
#include "read/gpu_metric.h"

struct gpu_pending {
	struct testimony *t;
	VEC(struct gpu_waiting) rows;
	uint32_t *slots; /* open addressing, row + 1 */
	uint32_t mask;
	uint64_t stored;
};
struct gpu_waiting {
	struct gpu_reading r;
	uint64_t seen; /* a bit for each metric and weight: two names of one metric are no repeat */
};

/* The reading of a GPU that has not got this metric yet (name may be NULL: any will do); its host,
   index and uuid are set. NULL beyond the limit of GPUs. Another time begins a new reading too. */
struct gpu_reading *gpu_pending_get(struct gpu_pending *p, uint32_t host, int64_t index,
				    uint32_t uuid, const struct gpu_metric_name *name,
				    int64_t time_ns);
void gpu_pending_flush(struct gpu_pending *p); /* stores what is there */
void gpu_pending_done(struct gpu_pending *p);  /* flushes and frees */
