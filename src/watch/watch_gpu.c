/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_gpu.c - the pattern of power and utilization over all GPUs of a job.
 *
 * A kernel that spins in a collective keeps utilization at 100 % and draws little: 8 to 25 % of
 * the board's limit. In a deadlock one or few rest at 0 % and the others spin, or all spin. A save
 * looks the same, so the pattern alone is no verdict: its length and who rests are held against the
 * pauses of the job that ended by themselves.
 *
 * Invariant: shapes[] counts the GPUs by their shape at any time.
 */
#include "watch/watch_core.h"

#include <math.h>
#include <stdio.h>

#define BUSY_LEAST	0.80
#define REST_MOST	0.10
#define OWN_SCALE_WIDER 1.8  /* most over least seen: then the most may stand for the limit */
#define OWN_BAND_MORE	0.05 /* since the most seen is below the limit */
#define ROUND_MS	500
#define STALE_PERIODS	4
#define STALE_LEAST_MS	90000
#define MEMORY_MS	120000.0
#define STILL_LEAST_MS	5000
#define STILL_MOST_MS	(30 * 60000) /* longer pauses are nothing to learn from */
#define STARVED_BUSY	0.50
#define STARVED_SHARE	0.45
#define THROTTLED_CLOCK 0.80
#define FEW		20u /* one in so many may differ */

const char *gpu_pattern_name(enum gpu_pattern p)
{
	static const char *const names[PATTERNS] = {
		[PATTERN_NONE] = "unknown",  [PATTERN_WORKS] = "works",
		[PATTERN_SPLIT] = "split",   [PATTERN_WAITS] = "all-wait",
		[PATTERN_FEW] = "few-watts", [PATTERN_RESTS] = "idle",
		[PATTERN_MIXED] = "no-work", [PATTERN_STARVED] = "starved",
	};

	return p < PATTERNS ? names[p] : "unknown";
}

/* The share of the limit; NAN: neither a limit nor a scale of its own. */
static double share_of(const struct watch_gpu *g, const struct watch_gpu_seen *s, double *band)
{
	if (!isfinite(s->power_w))
		return NAN;
	if (s->limit_w > 0)
		return s->power_w / s->limit_w;
	*band += OWN_BAND_MORE;
	return g->most_w > OWN_SCALE_WIDER * g->least_w ? s->power_w / g->most_w : NAN;
}

static enum gpu_shape shape_of(double share, double busy, double band)
{
	if (!isfinite(share) && !isfinite(busy))
		return SHAPE_NONE;
	if (!isfinite(share))
		return busy >= BUSY_LEAST  ? SHAPE_BUSY
		       : busy <= REST_MOST ? SHAPE_RESTS
					   : SHAPE_STARVED;
	if (share > band)
		return isfinite(busy) && busy <= REST_MOST ? SHAPE_RESTS : SHAPE_WORKS;
	if (!isfinite(busy))
		return SHAPE_FEW;
	return busy >= BUSY_LEAST ? SHAPE_WAITS : busy <= REST_MOST ? SHAPE_RESTS : SHAPE_STARVED;
}

uint32_t watch_gpus_known(const struct watch *w)
{
	return (uint32_t)w->gpus.n - w->shapes[SHAPE_NONE];
}

static enum gpu_pattern pattern_of(const struct watch *w)
{
	const uint32_t *n = w->shapes;
	uint32_t known = watch_gpus_known(w), few = known / FEW;
	uint32_t spin = n[SHAPE_WAITS] + n[SHAPE_BUSY], rest = n[SHAPE_RESTS];

	if (!known)
		return PATTERN_NONE;
	if (n[SHAPE_WORKS] > few || (n[SHAPE_BUSY] && !rest))
		return PATTERN_WORKS;
	if (rest >= known - few)
		return PATTERN_RESTS;
	if (known > 1 && spin + rest >= known - few && spin > rest)
		return rest ? PATTERN_SPLIT : PATTERN_WAITS;
	if (n[SHAPE_FEW] >= known - few)
		return PATTERN_FEW;
	return n[SHAPE_STARVED] * 4 >= known ? PATTERN_STARVED : PATTERN_MIXED;
}

bool watch_gpus_signature(const struct watch *w)
{
	return w->pattern == PATTERN_SPLIT || w->pattern == PATTERN_WAITS;
}

/* They go on: if they work, the pause teaches, and so does who rested in it. */
static void pause_ends(struct watch *w, int64_t at_ms, bool works)
{
	int64_t length = at_ms - w->still_ms;
	bool learn = works && !w->hung && w->still_ms >= 0 && w->worked &&
		     length >= STILL_LEAST_MS && length <= STILL_MOST_MS;

	if (learn)
		watch_ring_add(&w->still, length);
	for (size_t i = 0; i < w->gpus.n; i++) {
		struct watch_gpu *g = &w->gpus.v[i];

		g->rested += learn && g->rests_now;
		g->rests_now = false;
	}
	w->still_ms = w->signature_ms = -1;
	w->still_rounds = w->signature_rounds = 0;
	w->worked |= works;
}

/* What the GPUs looked like until at_ms. */
static void round_ends(struct watch *w)
{
	enum gpu_pattern p = pattern_of(w);
	int64_t at = w->round_ms;

	if (p != w->pattern)
		w->pattern_ms = at;
	w->pattern = p;
	if (p == PATTERN_WORKS) {
		if (w->still_ms >= 0 || !w->worked)
			pause_ends(w, at, true);
		return;
	}
	if (p == PATTERN_STARVED && w->still_ms >= 0) /* little is not nothing */
		pause_ends(w, at, false);
	if (p == PATTERN_NONE || p == PATTERN_STARVED)
		return;
	if (w->still_ms < 0)
		w->still_ms = at;
	w->still_rounds++;
	if (!watch_gpus_signature(w)) {
		w->signature_ms = -1;
		w->signature_rounds = 0;
		return;
	}
	if (w->signature_ms < 0)
		w->signature_ms = at;
	w->signature_rounds++;
}

/* Where it is filed, or would be. */
static uint32_t *gpu_slot(const struct watch *w, const char *host, int64_t index, uint32_t source)
{
	uint64_t hash = 0xcbf29ce484222325 ^ (uint64_t)index ^ (uint64_t)source << 32;
	size_t i;

	for (const char *p = host; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 0x100000001b3;
	hash *= 0x9e3779b97f4a7c15;
	for (i = (size_t)(hash >> 32) & (w->gpu_slots - 1); w->gpu_table[i];
	     i = (i + 1) & (w->gpu_slots - 1)) {
		const struct watch_gpu *g = &w->gpus.v[w->gpu_table[i] - 1];

		if (g->index == index && g->source == source && !strcmp(g->host, host))
			break;
	}
	return &w->gpu_table[i];
}

static void file_gpus(struct watch *w)
{
	if (w->gpu_slots < 2 * (w->gpus.n + 1)) {
		w->gpu_slots = MAX(w->gpu_slots, (size_t)8);
		while (w->gpu_slots < 4 * (w->gpus.n + 1))
			w->gpu_slots *= 2;
		free(w->gpu_table);
		w->gpu_table = xcalloc(w->gpu_slots, sizeof(*w->gpu_table));
		w->gpus_filed = 0;
	}
	for (; w->gpus_filed < w->gpus.n; w->gpus_filed++) {
		const struct watch_gpu *g = &w->gpus.v[w->gpus_filed];

		*gpu_slot(w, g->host, g->index, g->source) = (uint32_t)w->gpus_filed + 1;
	}
}

static struct watch_gpu *gpu_of(struct watch *w, const struct watch_gpu_seen *s)
{
	struct watch_gpu *g;
	uint32_t row;

	file_gpus(w);
	row = *gpu_slot(w, s->host, s->index, s->source);
	if (row)
		return &w->gpus.v[row - 1];
	if (w->gpus.n >= WATCH_GPUS_MOST)
		return NULL;
	g = vec_push(&w->gpus);
	*g = (struct watch_gpu){ .host = xstrdup(s->host),
				 .index = s->index,
				 .rank = s->rank,
				 .xid = -1,
				 .source = s->source,
				 .at_ms = -1,
				 .most_w = NAN,
				 .least_w = NAN,
				 .busy = NAN,
				 .share = NAN,
				 .busy_last = NAN,
				 .share_last = NAN,
				 .clock = NAN,
				 .clock_best = NAN };
	w->shapes[SHAPE_NONE]++;
	return g;
}

/* A mean that forgets. */
static void blend(double *mean, double v, double weight)
{
	if (isfinite(v))
		*mean = isfinite(*mean) ? *mean + weight * (v - *mean) : v;
}

static void gpu_note(struct watch_gpu *g, const struct watch_gpu_seen *s)
{
	struct watch_sample *to;

	if (g->n_last == WATCH_SAMPLES) {
		memmove(g->last, g->last + 1, (WATCH_SAMPLES - 1) * sizeof(*g->last));
		g->n_last--;
	}
	to = &g->last[g->n_last++];
	*to = (struct watch_sample){ s->at_ms, (float)s->power_w, (float)s->limit_w,
				     (float)s->utilization, (float)s->sm_clock_mhz };
	if (isfinite(s->power_w) && s->power_w > 0) {
		g->most_w = isfinite(g->most_w) ? fmax(g->most_w, s->power_w) : s->power_w;
		g->least_w = isfinite(g->least_w) ? fmin(g->least_w, s->power_w) : s->power_w;
	}
	if (s->xid > 0)
		g->xid = s->xid;
	if (s->rank >= 0)
		g->rank = s->rank;
}

void watch_saw_gpu(struct watch *w, const struct watch_gpu_seen *s)
{
	struct watch_gpu *g = gpu_of(w, s);
	double share, band = w->limits.band, weight;
	int64_t passed;

	if (!g || s->at_ms < g->at_ms)
		return;
	if (w->round_ms >= 0 && s->at_ms > w->round_ms + ROUND_MS) {
		round_ends(w);
		w->round_ms = s->at_ms;
	} else if (w->round_ms < 0) {
		w->round_ms = s->at_ms;
	}
	passed = g->at_ms < 0 ? 0 : s->at_ms - g->at_ms;
	if (passed)
		g->period_ms = g->period_ms ? (3 * g->period_ms + passed) / 4 : passed;
	weight = 1 - exp(-(double)MAX(passed, 1) / MEMORY_MS);
	/* A pause is no starvation; whether it was one is known when its round is over. */
	if (w->still_ms < 0 || w->still_ms > g->at_ms) {
		blend(&g->busy, g->busy_last, weight);
		blend(&g->share, g->share_last, weight);
	}
	g->at_ms = s->at_ms;
	gpu_note(g, s);
	share = share_of(g, s, &band);
	w->shapes[g->shape]--;
	g->shape = shape_of(share, s->utilization, band);
	w->shapes[g->shape]++;
	g->rests_now |= g->shape == SHAPE_RESTS && w->still_ms >= 0;
	g->busy_last = s->utilization;
	g->share_last = share;
	if (g->shape == SHAPE_WORKS) {
		blend(&g->clock, s->sm_clock_mhz, weight);
		if (isfinite(g->clock))
			g->clock_best =
			    isfinite(g->clock_best) ? fmax(g->clock_best, g->clock) : g->clock;
	}
}

void watch_gpus_settle(struct watch *w, int64_t now_ms)
{
	bool gone = false;

	if (w->round_ms >= 0 && now_ms > w->round_ms + ROUND_MS) {
		round_ends(w);
		w->round_ms = -1;
	}
	for (size_t i = 0; i < w->gpus.n; i++) {
		struct watch_gpu *g = &w->gpus.v[i];

		if (g->shape == SHAPE_NONE ||
		    now_ms - g->at_ms <= MAX(STALE_LEAST_MS, STALE_PERIODS * g->period_ms))
			continue;
		w->shapes[g->shape]--;
		g->shape = SHAPE_NONE;
		w->shapes[SHAPE_NONE]++;
		gone = true;
	}
	if (gone && !watch_gpus_known(w)) { /* what they do now is not known: nothing lasts */
		w->pattern = PATTERN_NONE;
		w->still_ms = w->signature_ms = -1;
		w->still_rounds = w->signature_rounds = 0;
	}
}

bool watch_gpus_strangers(const struct watch *w)
{
	bool rests = false;

	if (w->still.n < 3)
		return false;
	for (size_t i = 0; i < w->gpus.n; i++) {
		if (w->gpus.v[i].shape != SHAPE_RESTS)
			continue;
		if (w->gpus.v[i].rested)
			return false;
		rests = true;
	}
	return rests;
}

void watch_gpus_resting(const struct watch *w, char *ret, size_t size)
{
	uint32_t n = 0, sources = 0;
	size_t at = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < w->sources.n; i++)
		sources += w->sources.v[i].tells_gpus;
	for (size_t i = 0; i < w->gpus.n; i++) {
		const struct watch_gpu *g = &w->gpus.v[i];
		const char *where = g->host;
		int len = 0;

		if (!*where && sources > 1)
			where = w->sources.v[g->source].name;
		if (g->shape != SHAPE_RESTS || n++ >= 3)
			continue;
		if (g->rank >= 0)
			len = snprintf(ret + at, size - at, "%srank %" PRId64, at ? ", " : "",
				       g->rank);
		else
			len = snprintf(ret + at, size - at, "%s%.40s%sGPU %" PRId64, at ? ", " : "",
				       where, *where ? " " : "", g->index);
		at = MIN(at + (size_t)MAX(len, 0), size - 1);
	}
	if (n > 3)
		snprintf(ret + at, size - at, " and %u more", n - 3);
}

bool watch_gpus_starved(const struct watch *w)
{
	uint32_t known = watch_gpus_known(w), n = 0;

	for (size_t i = 0; i < w->gpus.n; i++) {
		const struct watch_gpu *g = &w->gpus.v[i];

		n += g->shape != SHAPE_NONE && g->busy < STARVED_BUSY && g->busy > REST_MOST / 2 &&
		     !(g->share > STARVED_SHARE);
	}
	return known && n * 2 > known && !watch_gpus_signature(w);
}

uint32_t watch_gpus_throttled(const struct watch *w)
{
	uint32_t n = 0;

	for (size_t i = 0; i < w->gpus.n; i++) {
		const struct watch_gpu *g = &w->gpus.v[i];

		n += g->shape == SHAPE_WORKS && g->busy >= BUSY_LEAST &&
		     g->clock < THROTTLED_CLOCK * g->clock_best;
	}
	return n;
}
