/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_hang.c - every rank walks on until it blocks.
 *
 * A communicator takes its operations in the order in which each member calls them: the n-th of
 * all members are one, and it ends if they are alike. The host runs ahead by the queue's length (on
 * Gloo not at all), so more has been called than runs. A rank that finishes the step goes on to the
 * next, until it meets those that do not.
 */
#include "sim/sim_hang.h"

#include <math.h>

#define START_NS 4000.0
#define FOREVER	 INFINITY
#define BASE(h)	 ((h)->s->plan)

uint32_t sim_hang_step(const struct sim_options *o)
{
	int64_t first = UINT32_MAX;

	for (size_t i = 0; i < o->faults.n; i++)
		if (sim_fault_hangs(&o->faults.v[i]))
			first = MIN(first, sim_fault_step(&o->faults.v[i], o->steps));
	return (uint32_t)first;
}

/* --- where they meet --- */

/* What a member brings; members whose words differ never meet. */
static uint32_t signature_of(const struct sim_hang_op *o)
{
	uint64_t what = o->op.group == SIM_PP ? COMM_SEND : o->what;
	uint32_t mix = (uint32_t)hash_mix(hash_mix(0x5167, what), o->op.bytes);

	return MIN(MAX(mix, 1u), SIM_BROKEN - 1);
}

static struct sim_meeting *in_block(struct sim_hang *h, uint32_t step, uint32_t at)
{
	struct sim_meeting **b = &h->blocks[MIN(step, SIM_HANG_STEPS - 1)];

	if (!*b) {
		*b = xmalloc((h->s->n_insts + 1) * sizeof(**b));
		for (uint32_t i = 0; i < h->s->n_insts; i++)
			(*b)[i] = (struct sim_meeting){ .done = NAN };
	}
	return &(*b)[at];
}

/* The n-th (from 0, since the step that hangs) of a rank's group. */
static struct sim_meeting *nth(struct sim_hang *h, uint32_t rank, uint32_t group, uint32_t n)
{
	const struct sim_plan *p = &BASE(h);
	uint32_t per = MAX(h->counts[p->stage_of[rank]][group], 1u);

	return in_block(h, n / per,
			p->first_inst[group] + p->group_of[group][rank] * p->of_kind[group] +
			    n % per);
}

static uint32_t base_seq(const struct sim_hang *h, uint32_t rank, uint32_t group)
{
	return h->before[BASE(h).stage_of[rank]][group];
}

static struct sim_meeting *meeting_of(struct sim_hang *h, uint32_t rank,
				      const struct sim_hang_op *o)
{
	struct sim_hang_rank *r = &h->ranks[rank];

	if (o->op.group == SIM_WORLD)
		return &h->barrier[o->op.place];
	if (o->op.group == SIM_PP)
		return in_block(h, r->step - h->step,
				BASE(h).first_inst[SIM_PP] + o->op.place * BASE(h).lanes +
				    BASE(h).lane_of[rank]);
	return nth(h, rank, o->op.group, r->seq[o->op.group] - base_seq(h, rank, o->op.group));
}

static void wake(struct sim_hang *h, struct sim_meeting *m)
{
	while (m->waiting) {
		uint32_t rank = m->waiting - 1;

		m->waiting = h->ranks[rank].next;
		h->stack[h->n_stack++] = rank;
	}
}

static bool complete(struct sim_hang *h, struct sim_meeting *m, const struct sim_meeting *before)
{
	double from = m->latest;

	if (m->words == SIM_BROKEN || (before && isnan(before->done)))
		return false;
	if (before)
		from = MAX(from, before->done);
	m->done = from + (double)m->ns;
	if (m->done > m->dies) {
		m->done = NAN; /* a member died in it */
		m->words = SIM_BROKEN;
		return false;
	}
	h->since = MAX(h->since, m->done);
	wake(h, m);
	return true;
}

/* One after the other in a communicator: those that waited for this one only may be done as well.
 */
static void complete_from(struct sim_hang *h, uint32_t rank, const struct sim_hang_op *o,
			  struct sim_meeting *m, uint32_t n)
{
	uint32_t members;
	struct sim_meeting *before;

	if (o->op.group >= SIM_PP) {
		complete(h, m, NULL);
		return;
	}
	members = BASE(h).members[o->op.group];
	before = n ? nth(h, rank, o->op.group, n - 1) : NULL;
	while (m->arrived == members && isnan(m->done) && complete(h, m, before)) {
		before = m;
		m = nth(h, rank, o->op.group, ++n);
	}
}

static void arrive(struct sim_hang *h, uint32_t rank, const struct sim_hang_op *o,
		   struct sim_meeting *m, double t)
{
	uint32_t members = o->op.group == SIM_PP      ? 2
			   : o->op.group == SIM_WORLD ? BASE(h).world
						      : BASE(h).members[o->op.group];
	uint32_t words = signature_of(o);

	if (!m->arrived) {
		m->dies = FOREVER; /* until the first member dies */
		m->ns = (float)o->op.ns;
	}
	if (m->words && m->words != words)
		m->words = SIM_BROKEN;
	else
		m->words = words;
	m->latest = m->arrived ? MAX(m->latest, t) : t;
	m->dies = MIN(m->dies, h->ranks[rank].died);
	if (++m->arrived == members)
		complete_from(h, rank, o, m,
			      o->op.group < SIM_PP
				  ? h->ranks[rank].seq[o->op.group] - base_seq(h, rank, o->op.group)
				  : 0);
}

/* --- a rank --- */

static double launched(const struct sim_hang *h, const struct sim_hang_rank *r, double host,
		       uint32_t at)
{
	return MAX(host, r->ends[at % h->queue]) + (double)r->program->ops.v[at].op.launch_ns;
}

/* Known as soon as the host has come to where it dies. */
static void find_death(const struct sim_hang *h, struct sim_hang_rank *r)
{
	const struct sim_hang_program *p = r->program;
	double host = r->host;

	if (!p->halts || !p->dies || isfinite(r->died) || r->pc + h->queue <= p->halt)
		return;
	for (uint32_t i = r->pc; i < MIN(p->halt, (uint32_t)p->ops.n); i++)
		host = launched(h, r, host, i);
	r->died = host;
}

static double take_up(const struct sim_hang *h, struct sim_hang_rank *r)
{
	r->host = launched(h, r, r->host, r->pc);
	return MAX(r->t, r->host + START_NS);
}

static uint32_t peer_of(const struct sim_hang *h, uint32_t rank, const struct sim_op *op)
{
	const struct sim_plan *p = &BASE(h);
	uint32_t stage =
	    (p->stage_of[rank] + p->stages + (op->by > 0 ? 1 : p->stages - 1)) % p->stages;

	return p->rank_at[stage * p->lanes + p->lane_of[rank]];
}

static void note_call(struct sim_hang *h, uint32_t rank, const struct sim_hang_op *o,
		      double created, double begun, struct sim_meeting *m)
{
	struct sim_hang_rank *r = &h->ranks[rank];

	*vec_push(&r->calls) = (struct sim_call){
		.created = created,
		.begun = begun,
		.ended = NAN,
		.bytes = o->op.bytes,
		.step = r->step,
		.seq = ++r->seq[o->op.group],
		.peer = o->op.group == SIM_PP ? peer_of(h, rank, &o->op) : rank,
		.group = o->op.group,
		.what = (uint8_t)o->what,
		.phase = o->op.phase,
		.barrier = o->barrier,
		.backward = o->op.group == SIM_PP && o->op.place % 2,
		.meeting = m,
	};
}

/* It stands before what is not done. */
static bool stands(struct sim_hang_rank *r, uint32_t rank, struct sim_meeting *m)
{
	if (!isnan(m->done))
		return false;
	r->stand = SIM_WAITS;
	r->next = m->waiting;
	m->waiting = rank + 1;
	return true;
}

static bool communicate(struct sim_hang *h, uint32_t rank, struct sim_hang_rank *r,
			const struct sim_hang_op *o)
{
	bool meets = o->op.kind == SIM_MEET || o->op.kind == SIM_RECV;
	struct sim_meeting *m;

	if (!r->arrived) {
		double t = take_up(h, r);

		if (t >= r->died)
			return false;
		m = meeting_of(h, rank, o);
		arrive(h, rank, o, m, t);
		note_call(h, rank, o, r->host, t, m);
		r->t = t;
		if (o->op.kind == SIM_POST)
			r->last_post = m;
	} else {
		m = r->calls.v[r->calls.n - 1].meeting;
	}
	r->arrived = meets;
	if (!meets)
		return true;
	if (stands(r, rank, m))
		return false;
	r->arrived = false;
	r->t = m->done;
	return r->t < r->died;
}

static bool compute(struct sim_hang *h, uint32_t rank, struct sim_hang_rank *r,
		    const struct sim_hang_op *o)
{
	uint64_t place = (uint64_t)r->step << 20 | r->pc;
	double noise = h->s->options.noise * sim_normal(h->s->options.seed ^ 0x6877, rank, place);

	r->t = take_up(h, r) + (double)o->op.ns * (1 + noise);
	return r->t < r->died;
}

static bool awaits(struct sim_hang_rank *r, uint32_t rank)
{
	if (!r->last_post)
		return true;
	if (stands(r, rank, r->last_post))
		return false;
	r->t = MAX(r->t, r->last_post->done);
	return r->t < r->died;
}

/* Until the end of the step, or until it blocks. */
static void walk(struct sim_hang *h, uint32_t rank)
{
	struct sim_hang_rank *r = &h->ranks[rank];
	const struct sim_hang_program *p = r->program;

	r->stand = SIM_RUNS;
	for (; r->pc < p->ops.n && r->stand == SIM_RUNS; r->pc++) {
		const struct sim_hang_op *o = &p->ops.v[r->pc];
		bool on;

		find_death(h, r);
		if (p->halts && r->pc >= p->halt) {
			r->stand = SIM_IDLE;
			break;
		}
		if (o->op.kind == SIM_WORK)
			on = compute(h, rank, r, o);
		else if (o->op.kind == SIM_AWAIT)
			on = awaits(r, rank);
		else
			on = communicate(h, rank, r, o);
		if (!on) {
			r->stand = r->stand == SIM_WAITS ? SIM_WAITS : SIM_GONE;
			break;
		}
		r->ends[r->pc % h->queue] = r->t;
		h->since = MAX(h->since, r->t);
	}
	if (r->stand == SIM_RUNS && p->halts && p->dies) {
		r->stand = SIM_GONE; /* at the very end of its program */
		r->died = MIN(r->died, r->t);
	}
}

/* --- programs --- */

struct sim_hang_op sim_hang_barrier(uint32_t place)
{
	return (struct sim_hang_op){
		.op = { .kind = SIM_MEET,
			.phase = SIM_PHASES,
			.group = SIM_WORLD,
			.place = place,
			.ns = 60e3f,
			.launch_ns = 20e3f,
			.bytes = 4 },
		.what = COMM_ALL_REDUCE,
		.barrier = true,
	};
}

static void plain_program(struct sim_hang *h, uint32_t stage)
{
	const struct sim_program *from = &BASE(h).programs[stage];
	struct sim_hang_program *p = &h->plain[stage];

	for (size_t i = 0; i < from->ops.n; i++) {
		const struct sim_op *op = &from->ops.v[i];
		bool talks = op->kind != SIM_WORK && op->kind != SIM_AWAIT;

		*vec_push(&p->ops) =
		    (struct sim_hang_op){ .op = *op,
					  .what = talks ? from->rows[op->row].op : COMM_OTHER };
		h->counts[stage][op->group] += talks;
	}
}

static int choose_program(struct sim_hang *h, uint32_t rank, struct error *reterr)
{
	const struct sim_options *o = &h->s->options;
	struct sim_hang_rank *r = &h->ranks[rank];
	const struct sim_hang_program *plain = &h->plain[BASE(h).stage_of[rank]];
	struct sim_hang_program *own = NULL;

	r->program = r->step < o->steps ? plain : &h->last;
	for (size_t i = 0; i < o->faults.n; i++) {
		const struct sim_fault *f = &o->faults.v[i];
		int status;

		if (!sim_fault_hangs(f) || sim_fault_step(f, o->steps) != r->step ||
		    r->step >= o->steps ||
		    (f->kind != SIM_SAVE && !sim_fault_starts(f) && f->has && !f->has[rank]))
			continue;
		if (!own) {
			own = xcalloc(1, sizeof(*own));
			vec_grow(&own->ops, plain->ops.n);
			memcpy(own->ops.v, plain->ops.v, plain->ops.n * sizeof(*own->ops.v));
			own->ops.n = plain->ops.n;
			*vec_push(&h->altered) = own;
		}
		status = sim_alter(h, rank, f, own, reterr);
		if (status < 0)
			return status;
	}
	if (own)
		r->program = own;
	return 0;
}

/* A collective that does not move although all come: its words fit nobody's. */
static int stick(struct sim_hang *h, const struct sim_fault *f, struct error *reterr)
{
	uint32_t rank = f->n_ranks ? (uint32_t)f->ranks[0] : 0;
	const struct sim_hang_program *p = &h->plain[BASE(h).stage_of[rank]];
	uint32_t at = sim_alter_pick(h, p, rank, f, false), n = 0, group;

	if (at == NO_ID)
		return error_set(reterr, -EINVAL, "%s: rank %" PRIu32 " has no such group",
				 sim_fault_infos[f->kind].name, rank);
	group = p->ops.v[at].op.group;
	for (uint32_t i = 0; i < at; i++)
		n += p->ops.v[i].op.group == group && p->ops.v[i].what != COMM_OTHER;
	n += (uint32_t)(sim_fault_step(f, UINT32_MAX) - h->step) *
	     h->counts[BASE(h).stage_of[rank]][group];
	if (n / MAX(h->counts[BASE(h).stage_of[rank]][group], 1u) < SIM_HANG_STEPS)
		nth(h, rank, group, n)->words = SIM_BROKEN;
	return 0;
}

static void begin(struct sim_hang *h, uint32_t rank)
{
	struct sim_hang_rank *r = &h->ranks[rank];

	r->pc = 0;
	r->last_post = NULL;
	r->host = MAX(r->host, r->t + SIM_READ_NS);
	memset(r->ends, 0, sizeof(r->ends));
	h->stack[h->n_stack++] = rank;
}

static void index_members(struct sim_hang *h)
{
	const struct sim_plan *p = &BASE(h);

	for (uint32_t g = 0; g < SIM_GROUPS; g++) {
		uint32_t *n = xcalloc(p->groups[g], sizeof(*n));

		h->members[g] = xmalloc(p->world * sizeof(uint32_t));
		h->local[g] = xmalloc(p->world * sizeof(uint32_t));
		for (uint32_t r = 0; r < p->world; r++) {
			uint32_t of = p->group_of[g][r];

			h->local[g][r] = n[of]++;
			h->members[g][(size_t)of * p->members[g] + h->local[g][r]] = r;
		}
		free(n);
	}
}

static struct sim_hang *hang_new(struct sim *s, bool gloo)
{
	struct sim_hang *h = xcalloc(1, sizeof(*h));
	const struct sim_plan *p = &s->plan;

	h->s = s;
	h->step = sim_hang_step(&s->options);
	h->queue = gloo ? 1 : SIM_QUEUE;
	h->ranks = xcalloc(p->world, sizeof(*h->ranks));
	h->stack = xmalloc((size_t)p->world * sizeof(*h->stack));
	h->plain = xcalloc(p->stages, sizeof(*h->plain));
	h->counts = xcalloc(p->stages, sizeof(*h->counts));
	h->before = xcalloc(p->stages, sizeof(*h->before));
	for (uint32_t i = 0; i < p->stages; i++)
		for (uint32_t g = 0; g < SIM_GROUPS; g++)
			h->before[i][g] = sim_called_before(s, i, g, h->step);
	for (uint32_t i = 0; i < p->stages; i++)
		plain_program(h, i);
	*vec_push(&h->last.ops) = sim_hang_barrier(1);
	h->barrier[0].done = h->barrier[1].done = NAN;
	index_members(h);
	for (uint32_t r = 0; r < p->world; r++) {
		h->ranks[r] =
		    (struct sim_hang_rank){ .step = h->step, .t = s->ranks[r].t, .died = FOREVER };
		for (uint32_t g = 0; g < SIM_GROUPS; g++)
			h->ranks[r].seq[g] = base_seq(h, r, g);
	}
	return h;
}

/* Those that finish a step go on to the next, all of them before anybody a step further. */
static int go_on(struct sim_hang *h, struct error *reterr)
{
	uint32_t world = BASE(h).world;
	bool first = true;

	for (uint32_t step = 0; step < SIM_HANG_STEPS; step++, first = false) {
		for (uint32_t i = world; i-- > 0;) {
			struct sim_hang_rank *r = &h->ranks[i];
			bool ended = r->program == &h->last;
			int status;

			if (!first && (r->stand != SIM_RUNS || ended)) {
				r->stand = ended && r->stand == SIM_RUNS ? SIM_ENDED : r->stand;
				continue;
			}
			r->step += !first;
			status = choose_program(h, i, reterr);
			if (status < 0)
				return status;
			begin(h, i);
		}
		if (!h->n_stack)
			break;
		while (h->n_stack)
			walk(h, h->stack[--h->n_stack]);
	}
	return 0;
}

/* What its host had called beyond where its GPU stands. */
static void run_ahead(struct sim_hang *h, uint32_t rank)
{
	struct sim_hang_rank *r = &h->ranks[rank];
	const struct sim_hang_program *p = r->program;
	uint32_t n = (uint32_t)p->ops.n, to = MIN(r->pc + h->queue, p->halts ? p->halt : n);
	double host = r->host;

	if (r->stand != SIM_WAITS || p->ops.v[r->pc].barrier) /* a barrier holds the host up */
		return;
	for (uint32_t i = r->pc + 1; i < MIN(to, n); i++) {
		const struct sim_hang_op *o = &p->ops.v[i];

		host = MAX(host, r->ends[i % h->queue]) + (double)o->op.launch_ns;
		if (host > r->died)
			return;
		if (o->op.kind != SIM_WORK && o->op.kind != SIM_AWAIT)
			note_call(h, rank, o, host, NAN, NULL);
	}
}

static void settle(struct sim_hang *h, uint32_t rank)
{
	struct sim_hang_rank *r = &h->ranks[rank];

	run_ahead(h, rank);
	for (size_t i = 0; i < r->calls.n; i++) {
		struct sim_call *c = &r->calls.v[i];

		if (c->meeting && !isnan(c->meeting->done) && c->meeting->done < r->died)
			c->ended = c->meeting->done;
	}
	if (r->program->halts)
		r->fault = r->program->halts;
	if (r->program->halts && r->program->dies) {
		if (!isfinite(r->died))
			find_death(h, r);
		r->stand = isfinite(r->died) ? SIM_GONE : r->stand;
	}
}

int sim_hang_run(struct sim *s, bool gloo, struct sim_hang **ret, struct error *reterr)
{
	struct sim_hang *h;
	uint32_t standing = 0, running = 0;
	int r = 0;

	s->plan = s->plans[sim_evaluates(s, sim_hang_step(&s->options))];
	h = hang_new(s, gloo);

	for (size_t i = 0; i < s->options.faults.n && r >= 0; i++)
		if (s->options.faults.v[i].kind == SIM_STUCK ||
		    s->options.faults.v[i].kind == SIM_NETWORK_ERROR)
			r = stick(h, &s->options.faults.v[i], reterr);
	if (r >= 0)
		r = go_on(h, reterr);
	for (uint32_t i = 0; i < s->plan.world && r >= 0; i++) {
		settle(h, i);
		standing += h->ranks[i].stand != SIM_RUNS && h->ranks[i].stand != SIM_ENDED;
		running += h->ranks[i].stand == SIM_RUNS;
	}
	if (r >= 0 && (!standing || running))
		r = error_set(reterr, -EINVAL,
			      "the job does not hang, or not within %u steps: what the fault "
			      "changes holds nobody up",
			      SIM_HANG_STEPS);
	if (r < 0)
		h = sim_hang_free(h);
	*ret = h;
	return r;
}

struct sim_hang *sim_hang_free(struct sim_hang *h)
{
	if (!h)
		return NULL;
	for (uint32_t r = 0; r < BASE(h).world; r++)
		free(h->ranks[r].calls.v);
	for (uint32_t i = 0; i < BASE(h).stages; i++)
		free(h->plain[i].ops.v);
	for (size_t i = 0; i < h->altered.n; i++) {
		free(h->altered.v[i]->ops.v);
		free(h->altered.v[i]);
	}
	for (size_t i = 0; i < SIM_HANG_STEPS; i++)
		free(h->blocks[i]);
	for (size_t g = 0; g < SIM_GROUPS; g++) {
		free(h->members[g]);
		free(h->local[g]);
	}
	free(h->altered.v);
	free(h->last.ops.v);
	free(h->plain);
	free(h->counts);
	free(h->before);
	free(h->ranks);
	free(h->stack);
	free(h);
	return NULL;
}

bool sim_hang_spins(const struct sim_hang_rank *r)
{
	for (size_t i = 0; i < r->calls.n && r->stand != SIM_GONE; i++)
		if (!isnan(r->calls.v[i].begun) && isnan(r->calls.v[i].ended))
			return true;
	return false;
}

const struct sim_call *sim_hang_oldest(const struct sim_hang_rank *r)
{
	for (size_t i = 0; i < r->calls.n; i++)
		if (isnan(r->calls.v[i].ended))
			return &r->calls.v[i];
	return NULL;
}
