/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_link.c - transfers that are slow although everybody has arrived.
 *
 * The shortest duration of a collective is its transfer: the last member waited for nobody. Units
 * (groups, or pairs that send and receive) that move the same bytes in the same operation over as
 * many machines are alike; one that needs longer than its like has a slow link. Which rank or
 * machine it is follows from which units are slow and which are not (slow_pin.c).
 */
#include "base/stats.h"
#include "judge/judge_internal.h"

#include <math.h>

#define RATIO_MIN    1.15 /* below this a unit is as fast as its like */
#define RATIO_NOISES 6.0
#define SHARE_MIN                                                                                  \
	0.002 /* of the step, lost in one unit: latencies of tiny messages vary for free */
#define LATENCY_BYTES                                                                              \
	65536u		/* transfers up to this size are latency, which tells nothing of a link */
#define PAST_MIN   1.3	/* over its own past, where no like is any faster */
#define PAST_FEW   3u	/* steps that a past must have, .. */
#define PAST_TIGHT 1.15 /* .. this near to the fastest of them */
#define LASTING	   0.7	/* of the steps from the first slow one to the last */

/* A transfer that can be compared with those of its kind. */
struct link_sample {
	uint64_t kind;
	uint32_t unit, inst;
};

static int by_kind_unit(const void *a, const void *b)
{
	const struct link_sample *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->unit != y->unit)
		return x->unit < y->unit ? -1 : 1;
	return x->inst < y->inst ? -1 : x->inst > y->inst;
}

static uint32_t nodes_of(const struct judge *j, const uint32_t *rows, uint32_t n)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = 0;

		while (k < i && j->node[rows[k]] != j->node[rows[i]])
			k++;
		count += k == i;
	}
	return count;
}

static void unit_add(struct judge *j, const struct pairing *p, const struct paired *in)
{
	const struct job_group *g = &j->job->groups[in->group];
	struct link_unit *u = vec_push(&j->links);

	*u = (struct link_unit){ .group = in->group, .p2p = !in->together, .n_rows = in->members };
	u->rows = arena_alloc(&j->job->arena, in->members * sizeof(*u->rows));
	for (uint32_t i = 0; i < in->members; i++)
		u->rows[i] = p->members.v[in->first_member + i].row;
	qsort(u->rows, u->n_rows, sizeof(*u->rows), by_row);
	u->nodes = nodes_of(j, u->rows, u->n_rows);
	u->complete = u->p2p || !g->size || in->members >= g->size;
	u->at = xcalloc(j->history, sizeof(*u->at));
}

/* The same ranks are the same links, whatever groups they form. */
static uint32_t unit_of(struct judge *j, const struct pairing *p, const struct paired *in)
{
	uint64_t key = !in->together;
	uint32_t n = j->link_ids.n, id;

	for (uint32_t i = 0; i < in->members; i++)
		key += hash_mix(17, p->members.v[in->first_member + i].row);
	id = intern(&j->link_ids, (const char *)&key, sizeof(key));
	if (id == n)
		unit_add(j, p, in);
	return id;
}

static bool usable(const struct paired *in)
{
	bool pair = is_p2p(in->op) && in->members == 2;

	return !in->odd && in->members >= 2 && (in->together || pair) &&
	       (!in->bytes || in->bytes > LATENCY_BYTES);
}

/* What a transfer of this unit takes: of pairs the lower quartile, since a kernel that sends and
   receives at once waits for two; of collectives the middle. Reorders x. */
static double unit_speed(const struct link_unit *u, double *x, size_t n)
{
	return u->p2p ? stats_quantile(x, n, 0.25) : stats_median(x, n);
}

/* Samples of one kind, by unit: what a unit of this kind needs, and each unit's share of it. */
static void judge_kind(struct judge *j, const struct link_sample *s, size_t n,
		       const struct pairing *p, struct replay *r, uint32_t t)
{
	_cleanup_free_ double *x = xmalloc((n + 1) * sizeof(*x));
	VEC(double) speeds = { 0 };
	double reference;
	size_t at = 0;

	for (size_t i = 0, k; i < n; i = k) {
		for (k = i; k < n && s[k].unit == s[i].unit; k++)
			x[k - i] = p->insts.v[s[k].inst].shortest;
		*vec_push(&speeds) = unit_speed(&j->links.v[s[i].unit], x, k - i);
	}
	if (speeds.n)
		memcpy(x, speeds.v, speeds.n * sizeof(*x));
	reference = speeds.n > 1 ? robust_reference(x, speeds.n) : 0;
	for (size_t i = 0; i < n; i++) {
		const struct paired *in = &p->insts.v[s[i].inst];
		struct link_unit *u = &j->links.v[s[i].unit];
		double speed;

		at += i && s[i].unit != s[i - 1].unit;
		speed = speeds.v[at];
		if (speeds.n < 2 && in->op == COMM_ALL_TO_ALL) /* its members' bytes differ */
			continue;
		u->at[t].bytes += (float)in->bytes;
		if (speeds.n < 2) {
			u->at[t].alone += (float)speed;
			continue;
		}
		u->at[t].spent += (float)speed;
		u->at[t].expected += (float)reference;
		if (r && speed > reference)
			r->insts[s[i].inst].scale = (float)(reference / speed);
	}
	free(speeds.v);
}

/* Of collectives without sizes only those of the same stages carry alike: an embedding is large. */
static uint64_t stages_of(const struct judge *j, const struct pairing *p, const struct paired *in)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; !in->bytes && in->together && i < in->members; i++)
		sum += hash_mix(19, j->role[p->members.v[in->first_member + i].row]);
	return sum;
}

/* All that can be compared, by kind and unit; the same in all steps that are paired alike and move
   the same bytes. */
static void find_samples(struct judge *j, struct pairing *p)
{
	p->samples = arena_alloc(&p->arena, (p->insts.n + 1) * sizeof(*p->samples));
	p->n_samples = 0;
	for (size_t i = 0; i < p->insts.n; i++) {
		const struct paired *in = &p->insts.v[i];
		const struct link_unit *u;
		uint32_t unit;
		uint64_t kind;

		if (!usable(in))
			continue;
		unit = unit_of(j, p, in);
		u = &j->links.v[unit];
		kind =
		    hash_mix(hash_mix(u->p2p ? 1 : (uint64_t)in->op + 2, in->bytes), in->members);
		kind = hash_mix(kind, stages_of(j, p, in));
		p->samples[p->n_samples++] =
		    (struct link_sample){ hash_mix(kind, u->nodes), unit, (uint32_t)i };
	}
	qsort(p->samples, p->n_samples, sizeof(*p->samples), by_kind_unit);
}

void link_step(struct judge *j, struct pairing *p, struct replay *r, uint32_t t)
{
	_cleanup_free_ struct link_sample *now = NULL;
	size_t n = 0;

	if (!p->samples || p->samples_bytes != p->bytes)
		find_samples(j, p);
	p->samples_bytes = p->bytes;
	now = xmalloc((p->n_samples + 1) * sizeof(*now));
	for (size_t i = 0; i < p->n_samples; i++) {
		if (p->insts.v[p->samples[i].inst].broken)
			continue;
		now[n++] = p->samples[i];
		if (r)
			r->insts[p->samples[i].inst].unit = p->samples[i].unit;
	}
	for (size_t i = 0, k; i < n; i = k) {
		for (k = i + 1; k < n && now[k].kind == now[i].kind;)
			k++;
		judge_kind(j, now + i, k - i, p, r, t);
	}
}

/* How far the ratios of healthy units scatter: one and a half MADs of all that are below the
 * middle. */
static double ratio_noise(const struct judge *j)
{
	VEC(double) below = { 0 };
	double noise;

	for (size_t i = 0; i < j->links.n; i++)
		for (uint32_t t = 0; t < j->n_steps; t++) {
			const struct link_unit *u = &j->links.v[i];

			if (u->at[t].expected > 0 && u->at[t].spent < u->at[t].expected)
				*vec_push(&below) =
				    1 - (double)(u->at[t].spent / u->at[t].expected);
		}
	noise = below.n ? 1.4826 * stats_median(below.v, below.n) : 0;
	free(below.v);
	return noise;
}

static bool unit_is_slow(const struct judge *j, const struct link_unit *u, uint32_t t, double limit)
{
	double spent = (double)u->at[t].spent, expected = (double)u->at[t].expected;

	return !j->moments[t].set_aside && expected > 0 && spent > limit * expected &&
	       spent - expected > SHARE_MIN * j->moments[t].wall;
}

/* How many steps a unit is slow in, and by how much; 0 if it comes and goes: a link that is slow
   stays so for a while, what all-to-alls carry does not. */
static uint32_t slow_steps(const struct judge *j, const struct link_unit *u, double limit,
			   double *ratio)
{
	double spent = 0, expected = 0;
	uint32_t n = 0, compared = 0, since = 0, until = 0;

	for (uint32_t t = 0; t < j->n_steps; t++) {
		bool known = !j->moments[t].set_aside && u->at[t].expected > 0;

		compared += known;
		since += known && n;
		if (!unit_is_slow(j, u, t, limit))
			continue;
		since += !n;
		n++;
		until = since;
		spent += (double)u->at[t].spent;
		expected += (double)u->at[t].expected;
	}
	*ratio = n ? spent / expected : 1;
	return n >= MIN(3u, compared) && n >= LASTING * until ? n : 0;
}

/* What the bytes of a unit took in its fast steps, ns a byte; 0 if there is no such level, or it
   never was much slower. x: [n_steps]. */
static double own_past(const struct judge *j, const struct link_unit *u, double *x)
{
	double least = INFINITY, most = 0, fast;
	size_t n = 0, near = 0;

	for (uint32_t t = 0; t < j->n_steps; t++) {
		double spent = (double)(u->at[t].spent + u->at[t].alone);
		double speed = spent / (double)fmaxf(u->at[t].bytes, 1);

		if (j->moments[t].set_aside || spent <= 0 || u->at[t].bytes <= 0)
			continue;
		least = fmin(least, speed);
		most = fmax(most, speed);
		x[n++] = speed;
	}
	if (n < 2 * PAST_FEW || most < PAST_MIN * least)
		return 0;
	fast = stats_quantile(x, n, 0.1);
	for (size_t i = 0; i < n; i++)
		if (x[i] <= PAST_TIGHT * fast)
			x[near++] = x[i];
	return near >= PAST_FEW ? stats_median(x, near) : 0;
}

/* Where all that are alike have a slow link in common (one machine is in all groups), none of them
   is any faster: then each is measured against what it took before. */
static void compare_with_past(struct judge *j)
{
	_cleanup_free_ double *x = xmalloc((j->n_steps + 1) * sizeof(*x));
	_cleanup_free_ double *past = xcalloc(j->links.n + 1, sizeof(*past));
	bool any = false;

	for (size_t i = 0; i < j->links.n && !j->job->cpu_job; i++) {
		struct link_unit *u = &j->links.v[i];

		past[i] = u->p2p || !u->complete ? 0 : own_past(j, u, x);
		any |= past[i] > 0;
		for (uint32_t t = 0; past[i] > 0 && t < j->n_steps; t++) {
			float then = (float)past[i] * u->at[t].bytes;

			if (u->at[t].expected <= 0 || then < u->at[t].expected / (float)RATIO_MIN) {
				u->at[t].spent += u->at[t].alone; /* its past is like all of it */
				u->at[t].alone = 0;
				u->by_past |= u->at[t].spent > (float)PAST_MIN * then;
				u->at[t].expected = then;
			}
		}
	}
	for (uint32_t t = 0; any && t < j->n_steps; t++) {
		struct replay *r = j->moments[t].replay;

		for (uint32_t i = 0; r && i < r->n_insts; i++) {
			uint32_t unit = r->insts[i].unit;
			const struct link_unit *u = unit == NO_ID ? NULL : &j->links.v[unit];

			if (u && past[unit] > 0 && u->at[t].spent > u->at[t].expected)
				r->insts[i].scale =
				    fminf(r->insts[i].scale, u->at[t].expected / u->at[t].spent);
		}
	}
}

void link_entries(struct judge *j)
{
	double limit = fmax(RATIO_MIN, 1 + RATIO_NOISES * ratio_noise(j)), ratio;
	_cleanup_free_ bool *slow = xcalloc(j->links.n + 1, 1);
	_cleanup_free_ bool *compared = xcalloc(j->links.n + 1, 1);
	struct entry e = { .cause = CAUSE_COMM_LINK, .blame = BLAMES, .node = NO_ID };
	double worst = 0, spent = 0, expected = 0;

	e.on = arena_alloc(&j->scratch, j->n_steps + 1);
	compare_with_past(j);
	for (size_t i = 0; i < j->links.n; i++) {
		const struct link_unit *u = &j->links.v[i];
		bool any = false;

		for (uint32_t t = 0; t < j->n_steps; t++)
			any |= u->at[t].expected > 0;
		compared[i] = any && u->complete;
		slow[i] = compared[i] && slow_steps(j, u, limit, &ratio);
		worst = slow[i] ? fmax(worst, ratio) : worst;
	}
	for (size_t i = 0; i < j->links.n;
	     i++) { /* units a fraction as slow as the worst share a link with it */
		const struct link_unit *u = &j->links.v[i];

		if (!slow[i])
			continue;
		slow_steps(j, u, limit, &ratio);
		if (ratio - 1 < 0.25 * (worst - 1)) {
			slow[i] = false;
			continue;
		}
		*vec_push(&e.units) = (uint32_t)i;
		e.by_past |= u->by_past;
		for (uint32_t t = 0; t < j->n_steps; t++)
			if (unit_is_slow(j, u, t, limit)) {
				e.on[t] = true;
				spent += (double)u->at[t].spent;
				expected += (double)u->at[t].expected;
			}
	}
	if (!e.units.n)
		return;
	for (uint32_t t = 0; t < j->n_steps; t++)
		e.n_on += e.on[t];
	e.ratio = spent / expected;
	e.mass_ns = spent - expected;
	link_pin(j, &e, slow, compared);
	*vec_push(&j->entries) = e;
}
