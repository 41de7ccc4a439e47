/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_power.c - what GPUs draw tells what they do: a kernel that spins in a collective keeps
 * utilization at 100 % and draws little.
 *
 * Shares of the board's limit carry over between boards, absolute watts do not: a hang is at 10 %
 * of an H100, 17 % of a B300, 22 % of a V100. Where the limit is not stated, the most that the
 * board was seen to draw stands for it.
 */
#include "judge/hang_internal.h"

#include "base/stats.h"

#include <math.h>

#define LATEST		   5u	/* samples that say what is now */
#define WAITING_MOST	   0.40 /* of the limit */
#define COMPUTE_LEAST	   0.60
#define BUSY_LEAST	   0.90 /* utilization */
#define IDLE_MOST	   0.05
#define WAIT_SAMPLES_LEAST 3u
#define SPIN_STEPS	   20 /* as long as so many steps take */
#define SPIN_NS		   (120 * (int64_t)1000000000)
#define SPIN_MOST_NS	   (12 * 3600 * (int64_t)1000000000) /* two clocks, or two jobs */

struct level {
	double power, utilization, limit, before;
};

const char *power_shape_name(enum power_shape s)
{
	static const char *const names[SHAPES] = {
		[SHAPE_UNKNOWN] = NULL,
		[SHAPE_COMPUTE] = "compute",
		[SHAPE_COMMUNICATION] = "communication",
		[SHAPE_WAITING] = "waiting",
		[SHAPE_STARVED] = "starved",
		[SHAPE_IDLE] = "idle",
	};

	return names[s];
}

static double median_of(const struct gpu_series *g, size_t from, size_t to, size_t field)
{
	_cleanup_free_ double *v = xmalloc((to - from + 1) * sizeof(*v));
	size_t n = 0;

	for (size_t i = from; i < to; i++) {
		float x;

		memcpy(&x, (const char *)&g->samples[i] + field, sizeof(x));
		if (isfinite(x))
			v[n++] = (double)x;
	}
	return n ? stats_median(v, n) : NAN;
}

/* As many of the latest samples as are like the last one, at most LATEST. */
static size_t latest_from(const struct gpu_series *g)
{
	size_t from = g->n_samples - 1;
	float last = g->samples[from].power_w;

	while (from && g->n_samples - from < LATEST && isfinite(last) &&
	       fabsf(g->samples[from - 1].power_w - last) <= 0.25f * last)
		from--;
	return from;
}

static struct level level_of(const struct gpu_series *g)
{
	struct level l = { NAN, NAN, NAN, NAN };
	size_t from = latest_from(g);

	l.power = median_of(g, from, g->n_samples, offsetof(struct gpu_sample, power_w));
	l.utilization = median_of(g, from, g->n_samples, offsetof(struct gpu_sample, utilization));
	l.limit = median_of(g, from, g->n_samples, offsetof(struct gpu_sample, limit_w));
	for (size_t i = 0; i < g->n_samples; i++) {
		double p = (double)g->samples[i].power_w;

		if (isfinite(p) && !(l.before >= p))
			l.before = p; /* for now the most; see below */
	}
	if (!(l.limit > 0))
		l.limit = l.before;
	if (from)
		l.before = median_of(g, 0, from, offsetof(struct gpu_sample, power_w));
	else
		l.before = NAN;
	return l;
}

static enum power_shape shape_of(const struct level *l, const struct gpu_series *g)
{
	double share = l->power / l->limit;
	bool own_scale = !(g->samples[g->n_samples - 1].limit_w > 0);

	if (l->utilization <= IDLE_MOST)
		return SHAPE_IDLE;
	if (!isfinite(share))
		return SHAPE_UNKNOWN;
	/* one level only, and no limit to hold it against */
	if (own_scale && !isfinite(l->before))
		return SHAPE_UNKNOWN;
	if (share >= COMPUTE_LEAST)
		return SHAPE_COMPUTE;
	if (l->utilization >= BUSY_LEAST)
		return share < WAITING_MOST ? SHAPE_WAITING : SHAPE_COMMUNICATION;
	if (!isfinite(l->utilization))
		return SHAPE_UNKNOWN;
	return SHAPE_STARVED;
}

void look_at_power(struct hang *h)
{
	for (size_t i = 0; i < h->s->gpus.n; i++) {
		const struct scene_gpu *g = &h->s->gpus.v[i];
		struct level l;
		struct report_gpu *out;
		enum power_shape shape;

		if (!g->series->n_samples)
			continue;
		l = level_of(g->series);
		shape = shape_of(&l, g->series);
		out = vec_push(&h->r->gpus);
		*out = (struct report_gpu){
			.row = g->row == NO_ID ? NO_ID : h->row[g->row],
			.host = g->host == NO_ID
				    ? NULL
				    : report_printf(h->r, "%s", intern_get(&h->s->names, g->host)),
			.index = g->series->index,
			.shape = power_shape_name(shape),
			.power_w = l.power,
			.limit_w = g->series->samples[g->series->n_samples - 1].limit_w > 0
				       ? l.limit
				       : NAN,
			.utilization = l.utilization,
			.power_w_before = l.before,
		};
		if (g->row != NO_ID)
			h->look[g->row].shape = shape;
	}
}

int64_t gpus_read_ns(const struct hang *h)
{
	int64_t read = -1;

	for (size_t i = 0; i < h->s->gpus.n; i++) {
		const struct gpu_series *g = h->s->gpus.v[i].series;

		if (g->n_samples)
			read = MAX(read, g->samples[g->n_samples - 1].time_ns);
	}
	return read;
}

/* The GPUs were read long after the last step of which the log gives the time. */
static bool no_step_since(const struct hang *h)
{
	int64_t read = gpus_read_ns(h), since = read - h->s->last_step_ns;

	return h->s->last_step_ns > 0 && read > 0 &&
	       since > MAX(SPIN_STEPS * h->s->step_ns, SPIN_NS) && since < SPIN_MOST_NS;
}

void breach_of_power(struct hang *h)
{
	size_t waiting = 0, idle = 0, known = 0, samples = SIZE_MAX;
	struct breach *b;

	for (uint32_t i = 0; i < h->s->ranks.n; i++) {
		waiting += h->look[i].shape == SHAPE_WAITING;
		idle += h->look[i].shape == SHAPE_IDLE;
		known += h->look[i].shape != SHAPE_UNKNOWN;
	}
	for (size_t i = 0; i < h->s->gpus.n; i++)
		samples = MIN(samples, h->s->gpus.v[i].series->seen);
	if (waiting < 2 || waiting + idle < known || idle >= waiting)
		return;
	if (!idle) { /* all spin: somebody's CPU, or the network */
		h->spins = no_step_since(h);
		return;
	}
	b = breach_new(h, GROUND_POWER);
	b->confidence = samples >= WAIT_SAMPLES_LEAST ? 0.6 : 0.4;
	for (uint32_t i = 0; i < h->s->ranks.n; i++) {
		if (h->look[i].shape == SHAPE_IDLE)
			*vec_push(&b->culprits) = i;
		else if (h->look[i].shape == SHAPE_WAITING)
			*vec_push(&b->victims) = i;
	}
}
