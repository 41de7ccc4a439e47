/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_link.c - transfers that are slow although everybody has arrived.
 *
 * The shortest duration of a collective is its transfer: the last member waited for nobody. Units
 * (groups, or pairs that send and receive) that move the same bytes in the same operation over as
 * many machines are alike; one that needs longer than its like has a slow link. Which rank or
 * machine it is follows from which units are slow and which are not: the one that is in all of the
 * slow and in none of the others.
 */
#include "base/stats.h"
#include "judge/judge_internal.h"

#include <math.h>

#define RATIO_MIN    1.15 /* below this a unit is as fast as its like */
#define RATIO_NOISES 6.0
#define SHARE_MIN                                                                                  \
	0.002 /* of the step, lost in one unit: latencies of tiny messages vary for free */
#define LATENCY_BYTES                                                                              \
	65536u	     /* transfers up to this size are latency, which tells nothing of a link */
#define LASTING	 0.7 /* of the steps from the first slow one to the last */
#define PIN_MIN	 0.8 /* how well a suspect must explain what is slow and what is not */
#define PIN_LEAD 0.1

struct sample {
	uint64_t kind;
	uint32_t unit, inst;
	double transfer;
};

static int by_kind_unit(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->unit < y->unit ? -1 : x->unit > y->unit;
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
	u->spent = xcalloc(j->history, sizeof(*u->spent));
	u->expected = xcalloc(j->history, sizeof(*u->expected));
	u->bytes = xcalloc(j->history, sizeof(*u->bytes));
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

	return !in->broken && in->members >= 2 && (in->together || pair) &&
	       (!in->bytes || in->bytes > LATENCY_BYTES);
}

/* What a transfer of this unit takes: of pairs the lower quartile, since a kernel that sends and
   receives at once waits for two; of collectives the middle. Reorders x. */
static double unit_speed(const struct link_unit *u, double *x, size_t n)
{
	return u->p2p ? stats_quantile(x, n, 0.25) : stats_median(x, n);
}

/* Samples of one kind, by unit: what a unit of this kind needs, and each unit's share of it. */
static void judge_kind(struct judge *j, const struct sample *s, size_t n, const struct pairing *p,
		       struct replay *r, uint32_t t)
{
	_cleanup_free_ double *x = xmalloc((n + 1) * sizeof(*x));
	VEC(double) speeds = { 0 };
	double reference;
	size_t at = 0;

	for (size_t i = 0, k; i < n; i = k) {
		for (k = i; k < n && s[k].unit == s[i].unit; k++)
			x[k - i] = s[k].transfer;
		*vec_push(&speeds) = unit_speed(&j->links.v[s[i].unit], x, k - i);
	}
	if (speeds.n)
		memcpy(x, speeds.v, speeds.n * sizeof(*x));
	reference = speeds.n > 1 ? robust_reference(x, speeds.n) : 0;
	for (size_t i = 0; i < n; i++) {
		struct link_unit *u = &j->links.v[s[i].unit];
		double speed;

		at += i && s[i].unit != s[i - 1].unit;
		speed = speeds.v[at];
		u->spent[t] += (float)speed;
		u->bytes[t] += (float)p->insts.v[s[i].inst].bytes;
		if (speeds.n < 2)
			continue;
		u->expected[t] += (float)reference;
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

void link_step(struct judge *j, const struct pairing *p, struct replay *r, uint32_t t)
{
	VEC(struct sample) samples = { 0 };

	for (size_t i = 0; i < p->insts.n; i++) {
		const struct paired *in = &p->insts.v[i];
		const struct link_unit *u;
		uint32_t unit;
		uint64_t kind;

		if (!usable(in))
			continue;
		unit = unit_of(j, p, in);
		u = &j->links.v[unit];
		if (r)
			r->insts[i].unit = unit;
		kind =
		    hash_mix(hash_mix(u->p2p ? 1 : (uint64_t)in->op + 2, in->bytes), in->members);
		kind = hash_mix(kind, stages_of(j, p, in));
		*vec_push(&samples) =
		    (struct sample){ hash_mix(kind, u->nodes), unit, (uint32_t)i, in->shortest };
	}
	if (samples.n)
		qsort(samples.v, samples.n, sizeof(*samples.v), by_kind_unit);
	for (size_t i = 0, k; i < samples.n; i = k) {
		for (k = i + 1; k < samples.n && samples.v[k].kind == samples.v[i].kind;)
			k++;
		judge_kind(j, samples.v + i, k - i, p, r, t);
	}
	free(samples.v);
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

			if (u->expected[t] > 0 && u->spent[t] < u->expected[t])
				*vec_push(&below) = 1 - (double)(u->spent[t] / u->expected[t]);
		}
	noise = below.n ? 1.4826 * stats_median(below.v, below.n) : 0;
	free(below.v);
	return noise;
}

static bool unit_is_slow(const struct judge *j, const struct link_unit *u, uint32_t t, double limit)
{
	double spent = (double)u->spent[t], expected = (double)u->expected[t];

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
		bool known = !j->moments[t].set_aside && u->expected[t] > 0;

		compared += known;
		since += known && n;
		if (!unit_is_slow(j, u, t, limit))
			continue;
		since += !n;
		n++;
		until = since;
		spent += (double)u->spent[t];
		expected += (double)u->expected[t];
	}
	*ratio = n ? spent / expected : 1;
	return n >= MIN(3u, compared) && n >= LASTING * until ? n : 0;
}

struct suspect {
	uint32_t row, node; /* one of them NO_ID */
	double fits;
};

/* How well slow transfers are explained by each row, and by each node: units that it is in, those
   of them that are slow, and all that are slow, as an F-measure. Where only transfers between nodes
   are slow, those inside a node say nothing of a port. fits[n_rows + node] */
static void find_fits(const struct judge *j, const bool *slow, const bool *compared, double *fits)
{
	size_t n = (size_t)j->n_rows + j->n_nodes;
	_cleanup_free_ double *its = xcalloc(n + 1, sizeof(*its));
	_cleanup_free_ double *its_slow = xcalloc(n + 1, sizeof(*its_slow));
	_cleanup_free_ size_t *seen = xcalloc(n + 1, sizeof(*seen));
	double all_slow = 0;
	bool inside = false;

	for (size_t i = 0; i < j->links.n; i++) {
		all_slow += compared[i] && slow[i];
		inside |= compared[i] && slow[i] && j->links.v[i].nodes < 2;
	}
	for (size_t i = 0; i < j->links.n; i++) {
		const struct link_unit *u = &j->links.v[i];

		for (uint32_t k = 0; compared[i] && k < u->n_rows; k++) {
			size_t node = (size_t)j->n_rows + j->node[u->rows[k]];

			if (inside || u->nodes > 1) {
				its[u->rows[k]]++;
				its_slow[u->rows[k]] += slow[i];
			}
			if (u->nodes < 2 || seen[node] == i + 1)
				continue;
			seen[node] = i + 1;
			its[node]++;
			its_slow[node] += slow[i];
		}
	}
	for (size_t k = 0; k < n; k++)
		fits[k] = its_slow[k] > 0 ? 2 * its_slow[k] / (its[k] + all_slow) : 0;
}

static int by_fit(const void *a, const void *b)
{
	const struct suspect *x = a, *y = b;

	if (x->fits != y->fits)
		return x->fits > y->fits ? -1 : 1;
	if ((x->node == NO_ID) !=
	    (y->node == NO_ID)) /* a rank before a machine that fits as well */
		return x->node == NO_ID ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* Fills e->rows with whom the slow units point to; nobody if several fit alike. */
static void pin(struct judge *j, struct entry *e, const bool *slow, const bool *compared)
{
	struct suspect *all = xcalloc(j->n_rows + j->n_nodes + 1, sizeof(*all));
	_cleanup_free_ double *fits = xcalloc((size_t)j->n_rows + j->n_nodes + 1, sizeof(*fits));
	size_t n = 0, same = 1;

	find_fits(j, slow, compared, fits);
	for (uint32_t row = 0; row < j->n_rows; row++)
		all[n++] = (struct suspect){ row, NO_ID, fits[row] };
	for (uint32_t node = 0; node < j->n_nodes && j->n_nodes > 1; node++)
		all[n++] = (struct suspect){ NO_ID, node, fits[j->n_rows + node] };
	qsort(all, n, sizeof(*all), by_fit);
	while (same < n && all[same].fits > all[0].fits - PIN_LEAD && all[same].node == all[0].node)
		same++;
	if (e->units.n == 1 &&
	    j->links.v[e->units.v[0]].n_rows == 2) { /* a pair is its own answer */
		const struct link_unit *u = &j->links.v[e->units.v[0]];

		for (uint32_t k = 0; k < u->n_rows; k++)
			if (same != 1 || all[0].fits < PIN_MIN || all[0].row == u->rows[k])
				*vec_push(&e->rows) = u->rows[k];
	} else if (all[0].fits >= PIN_MIN && same == 1) {
		e->node = all[0].node;
		for (uint32_t row = 0; row < j->n_rows; row++)
			if (row == all[0].row || (e->node != NO_ID && j->node[row] == e->node))
				*vec_push(&e->rows) = row;
	}
	e->strength = all[0].fits;
	free(all);
}

void link_entries(struct judge *j)
{
	double limit = fmax(RATIO_MIN, 1 + RATIO_NOISES * ratio_noise(j)), ratio;
	_cleanup_free_ bool *slow = xcalloc(j->links.n + 1, 1);
	_cleanup_free_ bool *compared = xcalloc(j->links.n + 1, 1);
	struct entry e = { .cause = CAUSE_COMM_LINK, .blame = BLAMES, .node = NO_ID };
	double worst = 0, spent = 0, expected = 0;

	e.on = arena_alloc(&j->job->arena, j->n_steps + 1);
	for (size_t i = 0; i < j->links.n; i++) {
		const struct link_unit *u = &j->links.v[i];
		bool any = false;

		for (uint32_t t = 0; t < j->n_steps; t++)
			any |= u->expected[t] > 0;
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
		for (uint32_t t = 0; t < j->n_steps; t++)
			if (unit_is_slow(j, u, t, limit)) {
				e.on[t] = true;
				spent += (double)u->spent[t];
				expected += (double)u->expected[t];
			}
	}
	if (!e.units.n)
		return;
	for (uint32_t t = 0; t < j->n_steps; t++)
		e.n_on += e.on[t];
	e.ratio = spent / expected;
	e.mass_ns = spent - expected;
	pin(j, &e, slow, compared);
	*vec_push(&j->entries) = e;
}
