/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_prometheus.c - exposition text, whatever its labels, gives sane samples and counters. */
#include "fuzz_gpus.h"

#include "read/power.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_sniff(prometheus_sniff, data, size);
	fuzz_gpus(prometheus_read, "dcgm.prom", data, size);
	return 0;
}
