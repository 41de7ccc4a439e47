/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_events.c - JSON lines of events, what collect wrote, and torchelastic's error files give
 * sound sayings. */
#include "fuzz_gpus.h"

#include "read/collected.h"
#include "read/error_file.h"
#include "read/events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_sniff(events_sniff, data, size);
	fuzz_sniff(collected_sniff, data, size);
	fuzz_sniff(error_file_sniff, data, size);
	fuzz_witness(error_file_read, "attempt_0/3/error.json", data, size);
	fuzz_witness(events_read, "events.jsonl", data, size);
	fuzz_witness(collected_read, "collect.json", data, size);
	return 0;
}
