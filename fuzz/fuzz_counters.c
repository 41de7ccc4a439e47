/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_counters.c - listings, one-number files and the tools' prints give finite counters. */
#include "fuzz_gpus.h"

#include "read/counters.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[256];
	size_t len = MIN(size, sizeof(path) - 1);

	fuzz_sniff(counters_sniff, data, size);
	fuzz_gpus(counters_read, "h01/sys/class/infiniband/mlx5_0/ports/1/counters/x", data, size);
	/* The path comes from outside too. */
	memcpy(path, data, len);
	path[len] = 0;
	fuzz_gpus(counters_read, path, data, size);
	return 0;
}
