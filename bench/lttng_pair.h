/* SPDX-License-Identifier: Apache-2.0 */
/* lttng_pair.h - events of lttng-ust that carry what ours carry, for bench_tracer.c alone. */
#undef TRACEPOINT_PROVIDER
#define TRACEPOINT_PROVIDER lockstep_bench
#undef TRACEPOINT_INCLUDE
#define TRACEPOINT_INCLUDE "lttng_pair.h"

#if !defined(LTTNG_PAIR_H) || defined(TRACEPOINT_HEADER_MULTI_READ)
#define LTTNG_PAIR_H
#include <stdint.h>
#include <lttng/tracepoint.h>

TRACEPOINT_EVENT(lockstep_bench, begin, TP_ARGS(uint32_t, name, uint16_t, kind),
		 TP_FIELDS(ctf_integer(uint32_t, name, name) ctf_integer(uint16_t, kind, kind)))
TRACEPOINT_EVENT(lockstep_bench, end, TP_ARGS(uint32_t, name),
		 TP_FIELDS(ctf_integer(uint32_t, name, name)))
TRACEPOINT_EVENT(lockstep_bench, counter, TP_ARGS(uint32_t, name, double, value),
		 TP_FIELDS(ctf_integer(uint32_t, name, name) ctf_float(double, value, value)))
#endif

#include <lttng/tracepoint-event.h>
