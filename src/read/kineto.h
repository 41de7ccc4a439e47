/* SPDX-License-Identifier: Apache-2.0 */
/* kineto.h - the events of a PyTorch profiler trace, as torch wrote them from 2021 on. */
#pragma once
#include "model/event.h"
#include "read/input.h"

struct kineto_options {
	size_t window_bytes; /* of text held at once; 0: JSON_WINDOW_BYTES */
};

/*
 * Reads the trace to its end. What is damaged is read through and counted in stats. -EBADMSG with
 * detail if it is no trace at all, another negative errno if it cannot be read or the sink stops.
 */
int kineto_read(struct input *in, const struct kineto_options *options, struct trace_sink *sink,
		struct read_stats *stats, struct error *reterr);
