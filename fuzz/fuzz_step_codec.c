/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a step and as a rank's head: what decodes must encode and decode to itself. */
#include "model/step.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_step(const uint8_t *data, size_t size)
{
	struct arena arena = { 0 };
	struct span in = span_of(data, size);
	struct buf once = { 0 }, twice = { 0 };
	struct step step;

	if (step_decode(&in, &arena, &step, NULL) == 0) {
		step_encode(&once, &step);
		in = span_of(once.data, once.len);
		if (step_decode(&in, &arena, &step, NULL) < 0 || span_left(&in))
			abort();
		step_encode(&twice, &step);
		if (once.len != twice.len || memcmp(once.data, twice.data, once.len) != 0)
			abort();
	}
	buf_done(&once);
	buf_done(&twice);
	arena_done(&arena);
}

static void try_head(const uint8_t *data, size_t size)
{
	struct arena arena = { 0 };
	struct span in = span_of(data, size);
	struct buf once = { 0 }, twice = { 0 };
	struct rank_info info;

	if (rank_info_decode(&in, &arena, &info, NULL) == 0) {
		rank_info_encode(&once, &info);
		in = span_of(once.data, once.len);
		if (rank_info_decode(&in, &arena, &info, NULL) < 0 || span_left(&in))
			abort();
		rank_info_encode(&twice, &info);
		if (once.len != twice.len || memcmp(once.data, twice.data, once.len) != 0)
			abort();
	}
	buf_done(&once);
	buf_done(&twice);
	arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_step(data, size);
	try_head(data, size);
	return 0;
}
