/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_replay.c - the step again, with somebody's work replaced by its peers'.
 *
 * A row is a list of events in its own time (model/step.h): it arrives at a collective, or it
 * cannot go on before one is complete. A collective is complete one transfer after its last member
 * has arrived. With the measured work that gives back the step as it was; with the work of some
 * rows replaced by the middle of their peers', stretch by stretch, it gives the step as it would
 * have been. (What-if analysis after Lin et al., "Understanding Stragglers in Large Model Training
 * Using What-if Analysis", OSDI 2025.)
 */
#include "judge/judge_internal.h"

#include <math.h>

#define PEERS_MAX 33u /* of a role, whose middle replaces a row's work */

struct timed {
	int64_t at; /* wall time in the step: an order that was possible */
	struct replay_event e;
};

static int by_time(const void *a, const void *b)
{
	const struct timed *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return (int)y->e.block - (int)x->e.block; /* what blocked ends before the next one starts */
}

static size_t row_events(const struct step *s, const uint32_t *inst_of, struct timed *t)
{
	size_t n = 0;

	for (uint32_t i = 0; i < s->n_colls; i++) {
		const struct step_coll *c = &s->colls[i];

		t[n++] = (struct timed){ c->start_ns, { (double)c->own_arrive_ns, inst_of[i], 0 } };
		if (c->own_need_ns >= 0)
			t[n++] =
			    (struct timed){ c->end_ns, { (double)c->own_need_ns, inst_of[i], 1 } };
	}
	qsort(t, n, sizeof(*t), by_time);
	for (size_t i = 1; i < n; i++) /* own time never runs back */
		t[i].e.own = fmax(t[i].e.own, t[i - 1].e.own);
	return n;
}

static void fill_insts(struct replay *r, struct step *const *steps, const struct pairing *p)
{
	for (size_t i = 0; i < p->insts.n; i++) {
		const struct paired *in = &p->insts.v[i];

		r->insts[i] = (struct replay_inst){
			.transfer = in->members ? in->shortest : 0,
			.scale = 1,
			.unit = NO_ID,
			.members = in->members,
		};
	}
	/* A pairing that contradicts itself ties nobody: each member keeps the time it took. */
	for (size_t i = 0; i < p->insts.n; i++) {
		const struct paired *in = &p->insts.v[i];

		for (uint32_t k = 0; in->broken && k < in->members; k++) {
			const struct paired_member *m = &p->members.v[in->first_member + k];
			uint32_t at = r->n_insts++;

			r->insts[at] = (struct replay_inst){
				.transfer = coll_ns(&steps[m->row]->colls[m->coll]),
				.scale = 1,
				.unit = NO_ID,
				.members = 1,
			};
			for (uint32_t e = r->first[m->row]; e < r->first[m->row + 1]; e++)
				if (r->events[e].inst == i)
					r->events[e].inst = at;
		}
	}
}

struct replay *replay_build(struct judge *j, struct step *const *steps, const struct pairing *p)
{
	size_t n = 0, broken = 0, bytes;
	double first = INFINITY;
	VEC(struct timed) t = { 0 };
	struct replay *r;

	for (uint32_t row = 0; row < j->n_rows; row++)
		n += steps[row] ? 2 * (size_t)steps[row]->n_colls : 0;
	for (size_t i = 0; i < p->insts.n; i++)
		broken += p->insts.v[i].broken ? p->insts.v[i].members : 0;
	bytes = sizeof(*r) + (j->n_rows + 1) * (sizeof(uint32_t) + 2 * sizeof(double)) +
		n * sizeof(struct replay_event) +
		(p->insts.n + broken) * sizeof(struct replay_inst);
	r = xcalloc(1, sizeof(*r));
	*r =
	    (struct replay){ .n_rows = j->n_rows, .n_insts = (uint32_t)p->insts.n, .bytes = bytes };
	r->first = xcalloc(j->n_rows + 1, sizeof(*r->first));
	r->late = xcalloc(j->n_rows, sizeof(*r->late));
	r->end = xcalloc(j->n_rows, sizeof(*r->end));
	r->events = xcalloc(n, sizeof(*r->events));
	r->insts = xcalloc(p->insts.n + broken, sizeof(*r->insts));
	for (uint32_t row = 0; row < j->n_rows; row++) {
		const struct step *s = steps[row];
		size_t count = 0;

		r->first[row] = r->n_events;
		r->end[row] = s ? (double)s->own_ns : -1;
		if (s) {
			t.n = 0;
			vec_grow(&t, 2 * (size_t)s->n_colls);
			count = row_events(s, p->inst_of[row], t.v);
		}
		for (size_t i = 0; i < count; i++)
			r->events[r->n_events++] = t.v[i].e;
	}
	r->first[j->n_rows] = r->n_events;
	free(t.v);
	fill_insts(r, steps, p);
	for (uint32_t row = 0; row < j->n_rows; row++)
		if (steps[row] && !isnan(p->offset[row])) {
			r->late[row] = (double)steps[row]->start_ns - p->offset[row];
			first = fmin(first, r->late[row]);
		}
	for (uint32_t row = 0; row < j->n_rows; row++)
		r->late[row] = steps[row] && !isnan(p->offset[row]) ? r->late[row] - first : 0;
	return r;
}

static uint32_t count_of(const struct replay *r, uint32_t row)
{
	return r->first[row + 1] - r->first[row];
}

/* Up to PEERS_MAX rows of the same role with as many events, that are not mended if there are such.
 */
static uint32_t peers_of(const struct judge *j, const struct replay *r, uint32_t row,
			 const bool *mend, uint32_t *peers)
{
	uint32_t n = 0;

	for (int strict = 1; strict >= 0 && !n; strict--)
		for (uint32_t other = 0; other < r->n_rows && n < PEERS_MAX; other++)
			if (j->role[other] == j->role[row] && r->end[other] >= 0 &&
			    count_of(r, other) == count_of(r, row) && (!strict || !mend[other]))
				peers[n++] = other;
	return n;
}

/* The row's events in the own time of its peers. */
static void mend_row(const struct judge *j, const struct replay *r, uint32_t t, uint32_t row,
		     const bool *mend, double *own, double *end)
{
	uint32_t peers[PEERS_MAX], n = peers_of(j, r, row, mend, peers), events = count_of(r, row);
	const struct replay_event *e = &r->events[r->first[row]];
	double at = 0, x[PEERS_MAX];

	if (n < 2 && !(n == 1 && peers[0] != row)) { /* nobody to compare with: its own past */
		double want = ref_of(j, j->role[row], t)[BLAMES];
		double f = r->end[row] > 0 ? fmin(1, want / r->end[row]) : 1;

		for (uint32_t i = 0; i < events; i++)
			own[i] = e[i].own * f;
		*end = r->end[row] * f;
		return;
	}
	for (uint32_t i = 0; i <= events; i++) {
		for (uint32_t k = 0; k < n; k++) {
			const struct replay_event *pe = &r->events[r->first[peers[k]]];
			double now = i < events ? pe[i].own : r->end[peers[k]];

			x[k] = now - (i ? pe[i - 1].own : 0);
		}
		at += lower_median(x, n);
		if (i < events)
			own[i] = at;
		else
			*end = at;
	}
}

struct run {
	const struct replay *r;
	double *own;	   /* [events], mended */
	double *end;	   /* [rows], mended */
	double *now;	   /* [rows] */
	double *arrival;   /* [insts] latest so far */
	uint32_t *missing; /* [insts] members that have not arrived */
	uint32_t *at;	   /* [rows] next event */
	uint32_t *waiting; /* [insts] first row that waits, + 1 */
	uint32_t *next;	   /* [rows] next row that waits for the same, + 1 */
	uint32_t *ready;   /* stack of rows */
	uint32_t n_ready;
	const bool *mend_units;
};

static double completion(const struct run *u, uint32_t inst)
{
	const struct replay_inst *in = &u->r->insts[inst];
	bool mended = u->mend_units && in->unit != NO_ID && u->mend_units[in->unit];

	return u->arrival[inst] + in->transfer * (mended ? (double)in->scale : 1);
}

static void wake(struct run *u, uint32_t inst)
{
	for (uint32_t row = u->waiting[inst]; row; row = u->next[row - 1])
		u->ready[u->n_ready++] = row - 1;
	u->waiting[inst] = 0;
}

/* One row as far as it gets. */
static void advance(struct run *u, uint32_t row)
{
	const struct replay *r = u->r;

	for (; u->at[row] < r->first[row + 1]; u->at[row]++) {
		uint32_t i = u->at[row], inst = r->events[i].inst;
		double before = i > r->first[row] ? u->own[i - 1] : 0;
		double reach = u->now[row] + (u->own[i] - before);

		if (r->events[i].block) {
			if (u->missing[inst]) { /* comes back here when the last one has arrived */
				u->next[row] = u->waiting[inst];
				u->waiting[inst] = row + 1;
				return;
			}
			u->now[row] = fmax(reach, completion(u, inst));
			continue;
		}
		u->now[row] = reach;
		u->arrival[inst] = fmax(u->arrival[inst], reach);
		if (u->missing[inst] && !--u->missing[inst])
			wake(u, inst);
	}
}

static double run_all(struct run *u)
{
	const struct replay *r = u->r;
	double latest = 0;

	for (uint32_t row = r->n_rows; row-- > 0;)
		if (r->end[row] >= 0)
			u->ready[u->n_ready++] = row;
	for (uint32_t forced = 0;;) {
		while (u->n_ready)
			advance(u, u->ready[--u->n_ready]);
		/* Orders that contradict each other leave a circle of waits: let the first one go.
		 */
		while (forced < r->n_insts && !u->waiting[forced])
			forced++;
		if (forced == r->n_insts)
			break;
		u->missing[forced] = 0;
		wake(u, forced);
	}
	for (uint32_t row = 0; row < r->n_rows; row++) {
		double last = r->first[row + 1] > r->first[row] ? u->own[r->first[row + 1] - 1] : 0;

		if (r->end[row] >= 0)
			latest = fmax(latest, u->now[row] + fmax(0, u->end[row] - last));
	}
	return latest;
}

static void scale_row(struct run *u, uint32_t row, double scale)
{
	for (uint32_t i = u->r->first[row]; i < u->r->first[row + 1]; i++)
		u->own[i] *= scale;
	u->end[row] *= scale;
}

double replay_run(const struct judge *j, const struct replay *r, uint32_t t,
		  const struct what_if *w)
{
	struct arena arena = { 0 };
	struct run u = { .r = r, .mend_units = w->units };
	double result;

	u.own = arena_alloc(&arena, r->n_events * sizeof(*u.own) + 1);
	u.end = arena_alloc(&arena, r->n_rows * sizeof(*u.end));
	u.now = arena_alloc(&arena, r->n_rows * sizeof(*u.now));
	u.arrival = arena_alloc(&arena, r->n_insts * sizeof(*u.arrival) + 1);
	u.missing = arena_alloc(&arena, r->n_insts * sizeof(*u.missing) + 1);
	u.waiting = arena_alloc(&arena, r->n_insts * sizeof(*u.waiting) + 1);
	u.at = arena_alloc(&arena, r->n_rows * sizeof(*u.at));
	u.next = arena_alloc(&arena, r->n_rows * sizeof(*u.next));
	u.ready = arena_alloc(&arena, 2 * r->n_rows * sizeof(*u.ready));
	for (uint32_t i = 0; i < r->n_insts; i++)
		u.missing[i] = r->insts[i].members;
	for (uint32_t i = 0; i < r->n_events; i++)
		u.own[i] = r->events[i].own;
	for (uint32_t row = 0; row < r->n_rows; row++) {
		u.at[row] = r->first[row];
		u.end[row] = r->end[row];
		if (w->rows && w->rows[row] && r->end[row] >= 0)
			mend_row(j, r, t, row, w->rows, u.own + r->first[row], &u.end[row]);
		if (t == 0 && j->n_steps < 3 && !(w->rows && w->rows[row]))
			u.now[row] = r->late[row];
		if (w->scale)
			scale_row(&u, row, w->scale[row]);
	}
	result = run_all(&u);
	arena_done(&arena);
	return result;
}

void replay_free(struct replay *r)
{
	if (!r)
		return;
	free(r->first);
	free(r->late);
	free(r->end);
	free(r->events);
	free(r->insts);
	free(r);
}
