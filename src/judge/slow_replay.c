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

#define SIBLINGS_MAX 64u /* rows of a role that are looked at in the place of a missing one */

struct timed {
	int64_t at; /* wall time in the step: an order that was possible */
	struct replay_event e;
};

static int by_time(const void *a, const void *b)
{
	const struct timed *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	if (x->e.block != y->e.block) /* what blocked ends before the next one starts */
		return x->e.block ? -1 : 1;
	return x->e.coll < y->e.coll ? -1 : x->e.coll > y->e.coll;
}

/* Moves this many places at most while a row is sorted by insertion: rows come almost in order. */
#define MOVES_EACH 16u

static void sort_timed(struct timed *t, size_t n)
{
	size_t moves = 0;

	for (size_t i = 1; i < n; i++) {
		struct timed one = t[i];
		size_t at = i;

		for (; at && by_time(&one, &t[at - 1]) < 0; at--)
			t[at] = t[at - 1];
		t[at] = one;
		moves += i - at;
		if (moves > MOVES_EACH * n) {
			qsort(t, n, sizeof(*t), by_time);
			return;
		}
	}
}

static size_t row_events(const struct step *s, const uint32_t *slot, struct timed *t)
{
	size_t n = 0;

	for (uint32_t i = 0; i < s->n_colls; i++) {
		const struct step_coll *c = &s->colls[i];

		t[n++] = (struct timed){ c->start_ns, { (double)c->own_arrive_ns, slot[i], 0 } };
		if (c->own_need_ns >= 0)
			t[n++] = (struct timed){ MAX(c->end_ns, c->start_ns + 1),
						 { (double)c->own_need_ns, slot[i], 1 } };
	}
	sort_timed(t, n);
	for (size_t i = 1; i < n; i++) /* own time never runs back */
		t[i].e.own = MAX(t[i].e.own, t[i - 1].e.own);
	return n;
}

struct slot {
	uint64_t kind;
	uint32_t coll;
};

static int by_slot(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->coll < y->coll ? -1 : x->coll > y->coll;
}

/* Gives each collective of a row its slot: by kind (operation, size of group), then by start.
   Streams run beside each other, so the order of starts over all kinds differs between a fast rank
   and a slow one; the order within a kind does not. Returns a hash of the kinds: rows that have the
   same can do each other's work. */
static uint64_t row_slots(const struct judge *j, uint32_t row, const struct step *s,
			  struct slot *sorted, uint32_t *slot)
{
	uint64_t all = s->n_colls;

	for (uint32_t i = 0; i < s->n_colls; i++) {
		const struct step_comm *m = &s->comms[s->colls[i].comm];
		uint32_t size = j->job->groups[j->job->group_of[row][m->group]].size;

		sorted[i] = (struct slot){ (uint64_t)m->op << 32 | size, i };
	}
	if (s->n_colls)
		qsort(sorted, s->n_colls, sizeof(*sorted), by_slot);
	for (uint32_t i = 0; i < s->n_colls; i++) {
		slot[sorted[i].coll] = i;
		all = hash_mix(all, sorted[i].kind);
	}
	return all;
}

/* A pairing that contradicts itself ties nobody: each member keeps the time it took. */
static void fill_insts(struct replay *r, struct step *const *steps, const struct pairing *p)
{
	for (size_t i = 0; i < p->insts.n; i++) {
		const struct paired *in = &p->insts.v[i];

		r->insts[i] =
		    (struct replay_inst){ in->members ? in->shortest : 0, 1, NO_ID, in->members };
		for (uint32_t k = 0; in->broken && k < in->members; k++) {
			const struct paired_member *m = &p->members.v[in->first_member + k];

			r->inst_of[r->first_coll[m->row] + p->slot_of[m->row][m->coll]] =
			    r->n_insts;
			r->insts[r->n_insts++] =
			    (struct replay_inst){ coll_ns(&steps[m->row]->colls[m->coll]), 1, NO_ID,
						  1 };
		}
	}
}

/* Where the other end of a collective was not given, the missing rank is taken to behave like the
   others of its role: the row waits for what a row of its own role waits for at the same place. */
static void adopt(const struct judge *j, struct replay *r, uint32_t row, uint32_t slot)
{
	uint32_t *inst = &r->inst_of[r->first_coll[row] + slot], looked = 0;

	for (uint32_t other = 0; other < r->n_rows && looked < SIBLINGS_MAX; other++) {
		uint32_t theirs;

		if (other == row || j->role[other] != j->role[row] ||
		    r->kinds[other] != r->kinds[row])
			continue;
		looked++;
		theirs = r->inst_of[r->first_coll[other] + slot];
		if (r->insts[theirs].members < 2)
			continue;
		r->insts[*inst].members = 0;
		*inst = theirs;
		r->insts[theirs].members++;
		return;
	}
}

static void adopt_orphans(const struct judge *j, struct replay *r, struct step *const *steps,
			  const struct pairing *p)
{
	for (uint32_t row = 0; row < r->n_rows; row++)
		for (uint32_t i = 0; steps[row] && i < steps[row]->n_colls; i++) {
			const struct paired *in = &p->insts.v[p->inst_of[row][i]];
			uint32_t size = j->job->groups[in->group].size;

			if (in->members == 1 && !in->broken && size != 1)
				adopt(j, r, row, p->slot_of[row][i]);
		}
}

/* The slots of all rows; they are the same in all steps that are paired alike. */
static void find_slots(const struct judge *j, struct step *const *steps, struct pairing *p,
		       size_t most)
{
	_cleanup_free_ struct slot *sorted = xmalloc((most + 1) * sizeof(*sorted));

	p->slot_of = arena_alloc(&p->arena, (j->n_rows + 1) * sizeof(*p->slot_of));
	p->kinds = arena_alloc(&p->arena, (j->n_rows + 1) * sizeof(*p->kinds));
	for (uint32_t row = 0; row < j->n_rows; row++) {
		if (!steps[row])
			continue;
		p->slot_of[row] =
		    arena_alloc(&p->arena, (steps[row]->n_colls + 1) * sizeof(uint32_t));
		p->kinds[row] = row_slots(j, row, steps[row], sorted, p->slot_of[row]);
	}
}

/* How long the row waited for others, and where it was the last. */
static void row_waits(struct judge *j, uint32_t row, const struct step *s, struct pairing *p)
{
	for (uint32_t i = 0; i < s->n_colls; i++) {
		struct paired *in = &p->insts.v[p->inst_of[row][i]];
		double d = coll_ns(&s->colls[i]);

		if (in->waited < 0)
			continue;
		in->waited += d - in->shortest;
		j->waits.v[in->waited_at].of_row[row] += (float)(d - in->shortest);
		j->ranks[row].wait_ns += (int64_t)(d - in->shortest);
		if (d <= in->shortest)
			in->last_row = row;
	}
}

static void fill_rows(struct judge *j, struct replay *r, struct step *const *steps,
		      struct pairing *p, size_t most)
{
	_cleanup_free_ struct timed *t = xmalloc((2 * most + 1) * sizeof(*t));
	double first = INFINITY;

	for (uint32_t row = 0; row < r->n_rows; row++) {
		const struct step *s = steps[row];
		size_t count = 0;

		r->first[row] = r->n_events;
		r->first_coll[row] = r->n_colls;
		r->end[row] = s ? (double)s->own_ns : -1;
		if (!s)
			continue;
		count = row_events(s, p->slot_of[row], t);
		for (size_t i = 0; i < count; i++)
			r->events[r->n_events++] = t[i].e;
		for (uint32_t i = 0; i < s->n_colls; i++)
			r->inst_of[r->n_colls + p->slot_of[row][i]] = p->inst_of[row][i];
		r->n_colls += s->n_colls;
		row_waits(j, row, s, p);
		r->late[row] = 0;
		if (!isnan(p->offset[row])) {
			r->late[row] = (double)steps[row]->start_ns - p->offset[row];
			first = fmin(first, r->late[row]);
		}
	}
	r->first[r->n_rows] = r->n_events;
	r->first_coll[r->n_rows] = r->n_colls;
	for (uint32_t row = 0; row < r->n_rows; row++)
		r->late[row] = steps[row] && !isnan(p->offset[row]) ? r->late[row] - first : 0;
}

/* Room for a step: that of one that was dropped, if it has enough. */
static struct replay *replay_new(struct judge *j, size_t colls, size_t insts)
{
	struct replay *r = j->spare;

	if (r && r->cap_colls >= colls && r->cap_insts >= insts && r->n_rows == j->n_rows) {
		j->spare = NULL;
		r->n_events = r->n_colls = 0;
		return r;
	}
	r = xcalloc(1, sizeof(*r));
	r->n_rows = j->n_rows;
	r->cap_colls = colls;
	r->cap_insts = insts;
	r->first = xcalloc(j->n_rows + 1, sizeof(*r->first));
	r->first_coll = xcalloc(j->n_rows + 1, sizeof(*r->first_coll));
	r->late = xcalloc(j->n_rows, sizeof(*r->late));
	r->end = xcalloc(j->n_rows, sizeof(*r->end));
	r->events = xmalloc((2 * colls + 1) * sizeof(*r->events));
	r->inst_of = xmalloc((colls + 1) * sizeof(*r->inst_of));
	r->insts = xmalloc((insts + 1) * sizeof(*r->insts));
	r->kinds = xcalloc(j->n_rows, sizeof(*r->kinds));
	return r;
}

struct replay *replay_build(struct judge *j, struct step *const *steps, struct pairing *p)
{
	size_t n = 0, most = 0, insts = p->insts.n;
	struct replay *r;

	for (uint32_t row = 0; row < j->n_rows; row++) {
		n += steps[row] ? (size_t)steps[row]->n_colls : 0;
		most = MAX(most, steps[row] ? (size_t)steps[row]->n_colls : 0);
	}
	for (size_t i = 0; i < p->insts.n; i++)
		insts += p->insts.v[i].broken ? p->insts.v[i].members : 0;
	r = replay_new(j, n, insts);
	r->bytes = sizeof(*r) + (j->n_rows + 1) * 2 * (2 * sizeof(uint32_t) + sizeof(double)) +
		   n * (2 * sizeof(struct replay_event) + sizeof(uint32_t)) +
		   insts * sizeof(struct replay_inst);
	r->n_insts = (uint32_t)p->insts.n;
	if (!p->slot_of)
		find_slots(j, steps, p, most);
	memcpy(r->kinds, p->kinds, j->n_rows * sizeof(*r->kinds));
	fill_rows(j, r, steps, p, most);
	fill_insts(r, steps, p);
	if (p->orphans)
		adopt_orphans(j, r, steps, p);
	return r;
}

static bool is_peer(const struct judge *j, const struct replay *r, uint32_t row, uint32_t other)
{
	return j->role[other] == j->role[row] && r->end[other] >= 0 &&
	       r->kinds[other] == r->kinds[row];
}

/* A row of the same role with the same kinds of collectives that is not mended itself, with the
   middle own time of such; NO_ID if all are mended or the row is the only one of its kind. */
static uint32_t middling_peer(const struct judge *j, const struct replay *r, uint32_t row,
			      const bool *mend)
{
	VEC(double) ends = { 0 };
	uint32_t found = NO_ID;
	double middle;

	for (uint32_t other = 0; other < r->n_rows; other++)
		if (is_peer(j, r, row, other) && !mend[other])
			*vec_push(&ends) = r->end[other];
	middle = ends.n ? lower_median(ends.v, ends.n) : 0;
	for (uint32_t other = 0; ends.n && other < r->n_rows && found == NO_ID; other++)
		if (is_peer(j, r, row, other) && !mend[other] && !(r->end[other] < middle) &&
		    !(r->end[other] > middle))
			found = other;
	free(ends.v);
	return found;
}

struct run {
	const struct replay *r;
	uint32_t *source;  /* [rows] whose work the row does */
	double *factor;	   /* [rows] times this */
	double *cut;	   /* [rows] without this much .. */
	uint32_t *cut_at;  /* [rows] .. before this event of the source */
	double *now;	   /* [rows] */
	double *own;	   /* [rows] own time so far */
	double *arrival;   /* [insts] latest so far */
	uint32_t *missing; /* [insts] members that have not arrived */
	uint32_t *at;	   /* [rows] next event of the source */
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

	for (; u->at[row] < r->first[u->source[row] + 1]; u->at[row]++) {
		const struct replay_event *e = &r->events[u->at[row]];
		uint32_t inst = r->inst_of[r->first_coll[row] + e->coll];
		double own =
		    e->own * u->factor[row] - (u->at[row] >= u->cut_at[row] ? u->cut[row] : 0);
		double reach = u->now[row] + (own - u->own[row]);

		if (e->block && u->missing[inst]) { /* comes back when the last one has arrived */
			u->next[row] = u->waiting[inst];
			u->waiting[inst] = row + 1;
			return;
		}
		u->own[row] = own;
		u->now[row] = e->block ? fmax(reach, completion(u, inst)) : reach;
		if (e->block)
			continue;
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
	for (uint32_t row = 0; row < r->n_rows; row++)
		if (r->end[row] >= 0)
			latest =
			    fmax(latest, u->now[row] + r->end[u->source[row]] * u->factor[row] -
					     u->cut[row] - u->own[row]);
	return latest;
}

/* A row without peers does what its role needs: a long stall is cut out where it is, other excess
   is spread over all its work. */
static void assume_past(struct run *u, const struct judge *j, uint32_t t, uint32_t row)
{
	const struct replay *r = u->r;
	double want = (double)ref_of(j, j->role[row], t)[BLAMES], excess = r->end[row] - want;
	double before = 0, widest = 0;
	uint32_t at = r->first[row + 1];

	if (excess <= 0)
		return;
	if ((double)point_of(j, row, t)->stall < 0.5 * excess) {
		u->factor[row] *= want / r->end[row];
		return;
	}
	for (uint32_t i = r->first[row]; i < r->first[row + 1]; i++) {
		if (r->events[i].own - before > widest) {
			widest = r->events[i].own - before;
			at = i;
		}
		before = r->events[i].own;
	}
	if (r->end[row] - before > widest) {
		widest = r->end[row] - before;
		at = r->first[row + 1];
	}
	u->cut_at[row] = at;
	u->cut[row] = fmin(excess, widest);
}

static void assume(struct run *u, const struct judge *j, uint32_t t, const struct what_if *w,
		   uint32_t row)
{
	const struct replay *r = u->r;
	uint32_t peer;

	u->source[row] = w->source ? w->source[row] : row;
	u->factor[row] = w->scale ? w->scale[row] : 1;
	if (w->rows && w->rows[row] && r->end[row] >= 0) {
		peer = middling_peer(j, r, row, w->rows);
		if (peer != NO_ID)
			u->source[row] = peer;
		else
			assume_past(u, j, t, row);
	} else if (t == 0 && j->n_steps < 3) {
		u->now[row] = r->late[row];
	}
	u->at[row] = r->first[u->source[row]];
}

double replay_run(const struct judge *j, const struct replay *r, uint32_t t,
		  const struct what_if *w)
{
	struct arena arena = { 0 };
	struct run u = { .r = r, .mend_units = w->units };
	double result;

	u.source = arena_alloc(&arena, r->n_rows * sizeof(*u.source));
	u.factor = arena_alloc(&arena, r->n_rows * sizeof(*u.factor));
	u.cut = arena_alloc(&arena, r->n_rows * sizeof(*u.cut));
	u.cut_at = arena_alloc(&arena, r->n_rows * sizeof(*u.cut_at));
	u.now = arena_alloc(&arena, r->n_rows * sizeof(*u.now));
	u.own = arena_alloc(&arena, r->n_rows * sizeof(*u.own));
	u.arrival = arena_alloc(&arena, r->n_insts * sizeof(*u.arrival) + 1);
	u.missing = arena_alloc(&arena, r->n_insts * sizeof(*u.missing) + 1);
	u.waiting = arena_alloc(&arena, r->n_insts * sizeof(*u.waiting) + 1);
	u.at = arena_alloc(&arena, r->n_rows * sizeof(*u.at));
	u.next = arena_alloc(&arena, r->n_rows * sizeof(*u.next));
	u.ready = arena_alloc(&arena, 2 * r->n_rows * sizeof(*u.ready));
	for (uint32_t i = 0; i < r->n_insts; i++)
		u.missing[i] = r->insts[i].members;
	for (uint32_t row = 0; row < r->n_rows; row++)
		assume(&u, j, t, w, row);
	result = run_all(&u);
	arena_done(&arena);
	return result;
}

void replay_free(struct replay *r)
{
	if (!r)
		return;
	free(r->first);
	free(r->first_coll);
	free(r->inst_of);
	free(r->kinds);
	free(r->late);
	free(r->end);
	free(r->events);
	free(r->insts);
	free(r);
}
