/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_log.c - whatever a log holds, its testimony is within its limits and its names exist. */
#include <math.h>

#include "fuzz_witness.h"
#include "../tests/log_same.h"

#include "read/log.h"

static void check_sayings(const struct testimony *t)
{
	fuzz_check(t->sayings.n <= TESTIMONY_SAYINGS_MAX);
	for (size_t i = 0; i < t->sayings.n; i++) {
		const struct saying *s = &t->sayings.v[i];

		fuzz_check(intern_len(&t->names, s->text) <= SAYING_TEXT_MAX);
		fuzz_check(s->rank >= -1 && s->peer >= -1 && s->time_ns >= -1);
		fuzz_check(s->line >= 1 && s->line <= s->last_line);
	}
}

static void check_progress(const struct testimony *t)
{
	for (size_t i = 0; i < t->progress.n; i++) {
		const struct log_progress *p = &t->progress.v[i];

		fuzz_check(p->rank >= -1 && p->first_step >= 0 && p->last_step >= 0);
		fuzz_check(p->lines > 0 && p->line <= p->last_line);
		fuzz_check(p->n_gaps <= PROGRESS_GAPS && p->n_stalls <= PROGRESS_STALLS);
		fuzz_check(isnan(p->last_step_ms) || p->last_step_ms >= 0);
	}
}

/* Lines that are alike are taken for what they are. */
static void check_each(const uint8_t *data, size_t size, const struct testimony *t)
{
	struct span span = span_of(data, size);
	struct input *in = input_of_source(fuzz_read, &span);
	struct read_stats stats = { 0 };
	struct testimony *each = NULL;
	struct error e = { 0 };

	log_read_each(in, "fuzz.log", &each, &stats, &e);
	fuzz_check(each != NULL);
	if (each)
		log_settle_years(&each, 1);
	fuzz_check(!log_differs(t, each));
	testimony_free(each);
	input_free(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span span = span_of(data, size);
	struct input *in = input_of_source(fuzz_read, &span);
	struct read_stats stats = { 0 };
	struct testimony *t = NULL;
	struct error e = { 0 };
	int r;

	log_sniff((const char *)data, size, "fuzz.log");
	r = log_read(in, "fuzz.log", &t, &stats, &e);
	fuzz_check((r >= 0) == (t != NULL));
	if (t) {
		log_settle_years(&t, 1);
		fuzz_entries(t);
		fuzz_sayings(t);
		check_sayings(t);
		check_progress(t);
		check_each(data, size, t);
	}
	testimony_free(t);
	input_free(in);
	return 0;
}
