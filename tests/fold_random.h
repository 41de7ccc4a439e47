/* SPDX-License-Identifier: Apache-2.0 */
/* fold_random.h - events of a GPU job by chance, from a seed: launches, kernels on two streams,
 * ranges. */
#pragma once
#include "fold_events.h"

struct random_event {
	enum event_kind kind;
	const char *name;
	int64_t start, duration;
	uint64_t thread, correlation;
	bool args;
};

static inline uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

#define RANDOM_WORK 4000

/* RANDOM_WORK launches, their kernels and some ranges around them, at most 3 each; `scale` ns stand
   for one. Returns how many. */
static inline size_t random_events(struct random_event *e, uint64_t seed, int64_t scale)
{
	static const char *const kernels[] = { "gemm", "add", "norm", NCCL_NAME };
	int64_t gpu[2] = { 50, 50 };
	size_t n = 0;

	for (unsigned i = 0; i < RANDOM_WORK; i++) {
		int64_t launch = i * 1000 + (int64_t)(random_next(&seed) % 400);
		unsigned which = random_next(&seed) % 4;
		int64_t start, length = 10 + (int64_t)(random_next(&seed) % 1500);

		start = MAX(gpu[which == 3], launch + 20);
		gpu[which == 3] = start + length;
		e[n++] =
		    (struct random_event){ EVENT_LAUNCH, "cudaLaunchKernel", launch, 7, 1, 100 + i,
					   false };
		e[n++] =
		    (struct random_event){ EVENT_KERNEL,	kernels[which], start,	   length,
					   which == 3 ? 20 : 7, 100 + i,	which == 3 };
		if (i % 5 == 0)
			e[n++] = (struct random_event){ EVENT_ANNOTATION,
							i % 2 ? "forward" : "backward",
							launch - 5,
							3000,
							1,
							0,
							false };
	}
	for (size_t i = 0; i < n; i++) {
		e[i].start *= scale;
		e[i].duration *= scale;
	}
	return n;
}
