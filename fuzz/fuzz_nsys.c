/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_nsys.c - whatever a database holds, the ranks in it have sane times and names that exist. */
#include "fuzz_source.h"

#include "read/nsys.h"

static int on_event(void *user, const struct trace_event *e)
{
	struct intern *names = user;

	fuzz_check(e->kind < EVENT_KINDS && e->name < names->n);
	fuzz_check(e->duration_ns >= 0 && e->start_ns <= INT64_MAX - e->duration_ns);
	return 0;
}

static int on_meta(void *user, const struct trace_meta *m)
{
	struct intern *names = user;

	fuzz_check(m->rank >= -1 && m->world_size >= -1 && m->base_time_ns >= 0);
	fuzz_check(m->host == NO_ID || m->host < names->n);
	fuzz_check(m->gpu_name == NO_ID || m->gpu_name < names->n);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span span = span_of(data, size);
	struct input *in = input_of_source(fuzz_read, &span);
	struct read_stats stats = { 0 };
	struct nsys *n = NULL;
	struct error e;

	if (nsys_read(in, "fuzz", false, size & 1 ? "step@torch" : NULL, &n, &stats, &e) >= 0)
		for (uint32_t i = 0; i < nsys_ranks(n) && i < 16; i++) {
			struct intern names = { 0 };
			struct trace_sink sink = {
				.names = &names, .user = &names, .event = on_event, .meta = on_meta
			};

			fuzz_check(nsys_give(n, i, &sink) == 0);
			intern_done(&names);
		}
	nsys_free(n);
	input_free(in);
	return 0;
}
