/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_witness.h - whatever a file of dumps, logs, stacks or power holds, its testimony is sound.
 */
#pragma once
#include "fuzz_source.h"

#include "read/log.h"
#include "read/witness.h"

static inline void fuzz_name(const struct testimony *t, uint32_t id)
{
	fuzz_check(id == NO_ID || id < t->names.n);
}

static inline void fuzz_entries(const struct testimony *t)
{
	for (size_t i = 0; i < t->signatures.n; i++) {
		const struct signature *s = &t->signatures.v[i];

		fuzz_check(s->op < COMM_OPS && s->in_elements >= -1 && s->out_elements >= -1);
		fuzz_name(t, s->name);
		fuzz_name(t, s->in_sizes);
		fuzz_name(t, s->out_sizes);
		fuzz_name(t, s->in_dtypes);
		fuzz_name(t, s->out_dtypes);
	}
	for (size_t i = 0; i < t->groups.n; i++) {
		fuzz_name(t, t->groups.v[i].name);
		fuzz_name(t, t->groups.v[i].desc);
		fuzz_name(t, t->groups.v[i].ranks);
		fuzz_check(t->groups.v[i].size >= -1);
	}
	for (size_t i = 0; i < t->entries.n; i++) {
		const struct op_entry *e = &t->entries.v[i];

		fuzz_check(e->group < t->groups.n && e->signature < t->signatures.n);
		fuzz_check(e->state <= OP_STATE_UNKNOWN);
		fuzz_name(t, e->frames);
	}
	for (size_t i = 0; i < t->status.n; i++)
		fuzz_check(t->status.v[i].group < t->groups.n && t->status.v[i].enqueued >= -1);
	for (size_t i = 0; i < t->counts.n; i++) {
		fuzz_check(t->counts.v[i].group < t->groups.n);
		fuzz_name(t, t->counts.v[i].host);
	}
}

static inline void fuzz_sayings(const struct testimony *t)
{
	for (size_t i = 0; i < t->sayings.n; i++) {
		const struct saying *s = &t->sayings.v[i];

		fuzz_check(s->kind < SAY_KINDS && s->count >= 1);
		fuzz_check(s->group == NO_ID || s->group < t->groups.n);
		fuzz_check(s->signature == NO_ID || s->signature < t->signatures.n);
		fuzz_name(t, s->host);
		fuzz_name(t, s->what);
		fuzz_name(t, s->text);
	}
}

typedef int (*fuzz_reader)(struct input *in, const char *path, struct testimony **ret,
			   struct read_stats *stats, struct error *reterr);

static inline void fuzz_witness(fuzz_reader read, const char *path, const uint8_t *data,
				size_t size)
{
	struct span span = span_of(data, size);
	struct input *in = input_of_source(fuzz_read, &span);
	struct testimony *t = NULL;
	struct read_stats stats = { 0 };
	struct error e = { 0 };
	int r = read(in, path, &t, &stats, &e);

	fuzz_check(r < 0 ? !t && e.text[0] : t != NULL);
	if (t) {
		log_settle_years(&t, 1);
		fuzz_entries(t);
		fuzz_sayings(t);
	}
	testimony_free(t);
	input_free(in);
}
