/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_ras.c - RAS's JSON and text give sound counts. */
#include "fuzz_witness.h"

#include "read/ras.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_witness(ras_json_read, "ras.json", data, size);
	fuzz_witness(ras_text_read, "ras.txt", data, size);
	return 0;
}
