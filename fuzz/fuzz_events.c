/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_events.c - JSON lines of events, and what collect wrote, give sound sayings. */
#include "fuzz_gpus.h"

#include "read/collected.h"
#include "read/events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_sniff(events_sniff, data, size);
	fuzz_sniff(collected_sniff, data, size);
	fuzz_witness(events_read, "events.jsonl", data, size);
	fuzz_witness(collected_read, "collect.json", data, size);
	return 0;
}
