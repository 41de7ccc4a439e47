/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_source.h - the fuzzer's bytes as an input's source, in uneven pieces. */
#pragma once
#include "base/buf.h"
#include "read/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline ssize_t fuzz_read(void *user, void *buf, size_t len)
{
	struct span *s = user;
	size_t n = MIN(MIN(len, span_left(s)), 1 + span_left(s) / 3);

	if (n)
		memcpy(buf, s->p, n);
	s->p += n;
	return (ssize_t)n;
}

/* What must hold whatever the bytes are. */
static inline void fuzz_check(bool holds)
{
	if (!holds)
		abort();
}
