/* SPDX-License-Identifier: Apache-2.0 */
/* dump_helpers.h - for the tests of dumps and their like: bytes in memory to a testimony. */
#pragma once
#include "read_helpers.h"
#include "read/witness.h"
#include "testimony_text.h"

struct heard {
	struct testimony *t;
	struct read_stats stats;
	struct error error;
	int status;
};

/* As the survey would: finds the format by the first bytes, then reads it in pieces of `step`. */
static inline void hear(struct heard *h, const void *bytes, size_t len, const char *path,
			size_t step)
{
	struct memory_source m = { .p = bytes, .len = len, .first = step, .step = step };
	struct input *in = input_of_source(memory_read, &m);
	int format = witness_find(bytes, MIN(len, (size_t)65536), path);

	*h = (struct heard){ .status = -ENOENT };
	if (format >= 0)
		h->status = witness_formats[format].read(in, path, &h->t, &h->stats, &h->error);
	input_free(in);
}

static inline void heard_done(struct heard *h)
{
	testimony_free(h->t);
}

/* The testimony as text; the caller frees. */
static inline char *heard_text(const struct heard *h, bool frames)
{
	struct buf b = { 0 };

	testimony_text(&b, h->t, frames);
	return (char *)b.data;
}
