/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_fr_pickle.c - a pickle's opcodes make data and nothing else. */
#include "fuzz_witness.h"

#include "read/fr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t proto[] = { 0x80, 2 };
	uint8_t *bytes;

	fuzz_witness(fr_read, "nccl_trace_rank_3", data, size);
	/* The same behind a beginning that is known as a pickle. */
	bytes = xmalloc(size + sizeof(proto));
	memcpy(bytes, proto, sizeof(proto));
	if (size)
		memcpy(bytes + sizeof(proto), data, size);
	fuzz_witness(fr_read, "nccl_trace_rank_3", bytes, size + sizeof(proto));
	free(bytes);
	return 0;
}
