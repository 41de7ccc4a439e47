/* SPDX-License-Identifier: Apache-2.0 */
/* witness_helpers.h - for tests of witnesses: a text as a file of some name, told as lines. */
#pragma once
#include "read_helpers.h"

#include <math.h>

#include "read/witness.h"

struct witnessed {
	struct testimony *t; /* NULL: nothing could be taken */
	const char *format;  /* the row's name; "none" */
	struct read_stats stats;
	struct error error;
	int status;
};

static inline void witness_text_step(struct witnessed *w, const char *path, const char *text,
				     size_t len, size_t step)
{
	struct memory_source m = { .p = text, .len = len, .first = step, .step = step };
	struct input *in = input_of_source(memory_read, &m);
	int row = witness_find(text, MIN(len, (size_t)65536), path);

	*w = (struct witnessed){ .format = "none", .status = -ENOTSUP };
	if (row >= 0) {
		w->format = witness_formats[row].name;
		w->status = witness_formats[row].read(in, path, &w->t, &w->stats, &w->error);
	}
	input_free(in);
}

static inline void witness_text(struct witnessed *w, const char *path, const char *text)
{
	witness_text_step(w, path, text, strlen(text), 0);
}

static inline void witness_done(struct witnessed *w)
{
	testimony_free(w->t);
	w->t = NULL;
}

/* The format of a text in a file of that name. */
static inline const char *witness_format_of(const char *path, const char *text)
{
	int row = witness_find(text, strlen(text), path);

	return row < 0 ? "none" : witness_formats[row].name;
}

static inline int told_value(char *dst, size_t size, const char *name, double v)
{
	return isnan(v) ? 0 : snprintf(dst, size, " %s=%.6g", name, v);
}

/* "h01 3: t=.. power=69.75 .." a line a kept sample, a GPU after the other. */
static inline const char *told_gpus(const struct testimony *t)
{
	static char text[32768];
	size_t n = 0;

	text[0] = 0;
	for (size_t i = 0; t && i < t->gpus.n; i++) {
		const struct gpu_series *g = &t->gpus.v[i];

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s %d",
				      intern_get(&t->names, g->host), (int)g->index);
		if (g->uuid != NO_ID)
			n += (size_t)snprintf(text + n, sizeof(text) - n, " %s",
					      intern_get(&t->names, g->uuid));
		if (g->rank >= 0)
			n += (size_t)snprintf(text + n, sizeof(text) - n, " rank %d", (int)g->rank);
		if (g->xid > 0)
			n += (size_t)snprintf(text + n, sizeof(text) - n, " xid %d", (int)g->xid);
		if (g->throttle != NO_ID)
			n += (size_t)snprintf(text + n, sizeof(text) - n, " [%s]",
					      intern_get(&t->names, g->throttle));
		if (g->processes >= 0)
			n += (size_t)snprintf(text + n, sizeof(text) - n, " processes %d",
					      (int)g->processes);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "\n");
		for (uint32_t k = 0; k < g->n_samples; k++) {
			const struct gpu_sample *s = &g->samples[k];

			if (s->time_ns >= 0)
				n += (size_t)snprintf(text + n, sizeof(text) - n, "  @%.3f",
						      (double)(s->time_ns / 1000000) / 1000);
			else
				n += (size_t)snprintf(text + n, sizeof(text) - n, "  ");
			n += (size_t)told_value(text + n, sizeof(text) - n, "power", s->power_w);
			n += (size_t)told_value(text + n, sizeof(text) - n, "limit", s->limit_w);
			n += (size_t)told_value(text + n, sizeof(text) - n, "util", s->utilization);
			n += (size_t)told_value(text + n, sizeof(text) - n, "memutil",
						s->memory_util);
			n += (size_t)told_value(text + n, sizeof(text) - n, "mib",
						s->memory_used_mib);
			n += (size_t)told_value(text + n, sizeof(text) - n, "mhz", s->sm_clock_mhz);
			n += (size_t)told_value(text + n, sizeof(text) - n, "c", s->temperature_c);
			n += (size_t)told_value(text + n, sizeof(text) - n, "tensor",
						s->tensor_active);
			n += (size_t)snprintf(text + n, sizeof(text) - n, "\n");
		}
	}
	return text;
}

/* "h01 mlx5_0/1 symbol_error 0 9" a line a counter: first and last value. */
static inline const char *told_counters(const struct testimony *t)
{
	static char text[8192];
	size_t n = 0;

	text[0] = 0;
	for (size_t i = 0; t && i < t->counters.n; i++) {
		const struct counter *c = &t->counters.v[i];

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s %s %s %g %g\n",
				      intern_get(&t->names, c->host),
				      intern_get(&t->names, c->device),
				      intern_get(&t->names, c->name), c->first, c->last);
	}
	return text;
}

/* "gpu-error h01 rank -1 @1705416256.000: text" */
static inline const char *told_sayings(const struct testimony *t)
{
	static char text[16384];
	size_t n = 0;

	text[0] = 0;
	for (size_t i = 0; t && i < t->sayings.n; i++) {
		const struct saying *s = &t->sayings.v[i];

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s %s rank %d @%.3f: %s\n",
				      saying_name(s->kind), intern_get(&t->names, s->host),
				      (int)s->rank, (double)(s->time_ns / 1000000) / 1000,
				      intern_get(&t->names, s->text));
	}
	return text;
}

/* The format, and what told_gpus says, however the bytes come: at once, or a few at a time. */
static inline void expect_gpus(const char *path, const char *format, const char *text,
			       const char *gpus)
{
	static const size_t steps[] = { 0, 7 };

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct witnessed w;

		witness_text_step(&w, path, text, strlen(text), steps[i]);
		assert_string_equal(w.format, format);
		assert_int_equal(w.status, 0);
		assert_string_equal(told_gpus(w.t), gpus);
		witness_done(&w);
	}
}

/* A file of the shared test inputs; the test is skipped where there are none. */
static inline char *shared_file(const char *name, size_t *ret_len)
{
	const char *root = getenv("LOCKSTEP_SHARED");
	char path[1024];
	FILE *f;
	char *text;

	snprintf(path, sizeof(path), "%s/data/%s", root ? root : "", name);
	f = fopen(path, "rb");
	if (!f) {
		print_message("skipped: no shared data\n");
		skip();
	}
	text = xmalloc(1 << 20);
	*ret_len = fread(text, 1, 1 << 20, f);
	fclose(f);
	return text;
}
