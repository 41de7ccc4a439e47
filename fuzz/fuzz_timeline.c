/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_timeline.c - whatever a timeline holds, its lanes have sane times, groups and peers. */
#include "fuzz_source.h"

#include "read/timeline.h"

struct heard {
	struct intern names;
};

static int on_event(void *user, const struct trace_event *e)
{
	struct heard *h = user;

	fuzz_check(e->kind < EVENT_KINDS && e->name < h->names.n);
	fuzz_check(e->duration_ns >= 0 && e->start_ns <= INT64_MAX - e->duration_ns);
	if (e->comm) {
		fuzz_check(e->comm->op > COMM_NONE && e->comm->op < COMM_OPS);
		fuzz_check(e->comm->group < h->names.n && e->comm->group_size > 0);
		fuzz_check(e->comm->peer >= -1);
	}
	return 0;
}

static int on_meta(void *user, const struct trace_meta *m)
{
	(void)user;
	fuzz_check(m->lane && m->rank >= 0 && m->rank < m->world_size);
	for (uint32_t i = 0; i < m->n_groups; i++)
		for (uint32_t k = 0; k < m->groups[i].n_ranks; k++)
			fuzz_check(m->groups[i].ranks[k] < m->world_size);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span span = span_of(data, size);
	struct input *in = input_of_source(fuzz_read, &span);
	struct read_stats stats = { 0 };
	struct timeline *t = NULL;
	struct error e;

	timeline_looks((const char *)data, size);
	if (timeline_read(in, &t, &stats, &e) >= 0)
		for (uint32_t i = 0; i < timeline_lanes(t) && i < 64; i++) {
			struct heard h = { 0 };
			struct trace_sink sink = {
				.names = &h.names, .user = &h, .event = on_event, .meta = on_meta
			};

			fuzz_check(timeline_give(t, i, &sink) == 0);
			intern_done(&h.names);
		}
	fuzz_check(stats.lost_bytes <= stats.bytes);
	timeline_free(t);
	input_free(in);
	return 0;
}
