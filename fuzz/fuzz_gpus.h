/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_gpus.h - what must hold of series and counters, whatever bytes they were read from. */
#pragma once
#include "fuzz_witness.h"

#include <math.h>

static inline void fuzz_share(float v)
{
	fuzz_check(isnan(v) || (v >= 0 && v <= 1.06f));
}

static inline void fuzz_series(const struct testimony *t)
{
	for (size_t i = 0; i < t->gpus.n; i++) {
		const struct gpu_series *g = &t->gpus.v[i];

		fuzz_name(t, g->host);
		fuzz_name(t, g->uuid);
		fuzz_name(t, g->model);
		fuzz_name(t, g->throttle);
		fuzz_check(g->index >= -1 && g->rank >= -1 && g->n_samples <= GPU_SAMPLES);
		fuzz_check(g->n_samples <= g->seen);
		for (uint32_t k = 0; k < g->n_samples; k++) {
			const struct gpu_sample *s = &g->samples[k];

			fuzz_check(s->time_ns >= -1);
			fuzz_check(isnan(s->power_w) || (s->power_w >= 0 && s->power_w < 1e5f));
			fuzz_check(isnan(s->limit_w) || s->limit_w > 0);
			fuzz_share(s->utilization);
			fuzz_share(s->memory_util);
			fuzz_share(s->tensor_active);
			fuzz_share(s->sm_active);
		}
	}
	for (size_t i = 0; i < t->counters.n; i++) {
		fuzz_name(t, t->counters.v[i].host);
		fuzz_name(t, t->counters.v[i].device);
		fuzz_name(t, t->counters.v[i].name);
		fuzz_check(isfinite(t->counters.v[i].first) && isfinite(t->counters.v[i].last));
	}
}

static inline void fuzz_gpus(fuzz_reader read, const char *path, const uint8_t *data, size_t size)
{
	struct span span = span_of(data, size);
	struct input *in = input_of_source(fuzz_read, &span);
	struct testimony *t = NULL;
	struct read_stats stats = { 0 };
	struct error e = { 0 };
	int r = read(in, path, &t, &stats, &e);

	fuzz_check(r < 0 ? !t && e.text[0] : t != NULL);
	if (t) {
		fuzz_series(t);
		fuzz_sayings(t);
	}
	testimony_free(t);
	input_free(in);
}

/* The sniff sees at most 64 KB, from a block that ends where they do. */
static inline void fuzz_sniff(bool (*sniff)(const char *text, size_t len, const char *path),
			      const uint8_t *data, size_t size)
{
	size_t len = MIN(size, (size_t)65536);
	char *copy = xmalloc(len + 1);

	if (len)
		memcpy(copy, data, len);
	copy = xrealloc(copy, MAX(len, (size_t)1));
	sniff(copy, len, "h01/sys/class/infiniband/mlx5_0/ports/1/counters/x");
	free(copy);
}
