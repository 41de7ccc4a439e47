/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_inspector.c - any JSON gives sound counts. */
#include "fuzz_witness.h"

#include "read/inspector.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_witness(inspector_read, "inspector.log", data, size);
	return 0;
}
