/* SPDX-License-Identifier: Apache-2.0 */
/* A job's output of any bytes, in pieces: progress counts what is new and nothing runs over. */
#include "run/run_inside.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stream s = { 0 };
	struct progress p;
	size_t piece = size ? 1u + data[0] : 1;
	int64_t now = 1;

	progress_init(&p);
	for (size_t at = 0; at < size; at += piece)
		tee_words(&s, &p, data + at, MIN(piece, size - at), now += 1000);
	if (progress_median_ms(&p) < 0 || p.step < -1 || p.n > size)
		abort();
	return 0;
}
