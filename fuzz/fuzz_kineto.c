/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_kineto.c - whatever a trace holds, events have sane times and names that exist. */
#include "fuzz_source.h"

#include "read/json_scan.h"
#include "read/kineto.h"

static int on_event(void *user, const struct trace_event *e)
{
	struct intern *names = user;

	fuzz_check(e->kind < EVENT_KINDS && e->name < names->n);
	fuzz_check(e->start_ns > 0 && e->duration_ns >= 0);
	fuzz_check(e->start_ns <= INT64_MAX - e->duration_ns);
	if (e->comm) {
		fuzz_check(e->comm->op > COMM_NONE && e->comm->op < COMM_OPS);
		fuzz_check(e->comm->group == NO_ID || e->comm->group < names->n);
		fuzz_check(e->comm->seq >= -1 && e->comm->in_elements >= -1);
	}
	return 0;
}

static int on_meta(void *user, const struct trace_meta *m)
{
	struct intern *names = user;

	fuzz_check(m->rank >= -1 && m->world_size >= -1 && m->base_time_ns >= 0);
	for (uint32_t i = 0; i < m->n_groups; i++)
		fuzz_check(m->groups[i].name == NO_ID || m->groups[i].name < names->n);
	return 0;
}

static void read_in(const uint8_t *data, size_t size, size_t window)
{
	struct kineto_options options = { .window_bytes = window };
	struct span span = span_of(data, size);
	struct input *in = input_of_source(fuzz_read, &span);
	struct intern names = { 0 };
	struct trace_sink sink = {
		.names = &names, .user = &names, .event = on_event, .meta = on_meta
	};
	struct read_stats stats = { 0 };
	struct error e;

	kineto_read(in, &options, &sink, &stats, &e);
	fuzz_check(stats.lost_bytes <= stats.bytes);
	input_free(in);
	intern_done(&names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_in(data, size, JSON_WINDOW_MIN);
	read_in(data, size, (size_t)64 << 10);
	return 0;
}
