/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_fr_json.c - a dump's JSON, sound or not, gives sound entries. */
#include "fuzz_witness.h"

#include "read/fr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_witness(fr_read, "node03/fr_rank3.json", data, size);
	return 0;
}
