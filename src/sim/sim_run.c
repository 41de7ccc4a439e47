/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_run.c - the ranks walk through the programs of their stages.
 *
 * Nothing here needs a clock that all share: a rank goes on until it stands before a collective
 * that somebody has not reached; whoever comes last says when it is done and sets the others going.
 * Times follow from what they wait for (the largest of several), so the order in which ranks are
 * taken up does not matter.
 */
#include "sim/sim_hang.h"

#include <math.h>

#define START_LATENCY_NS 4000.0
#define SCATTER_NS	 3000.0 /* members leave within this */
#define DATA_NS		 250e3	/* a batch that is there already */
#define CROWDED		 0.3	/* a transfer beside another of its rank's takes longer by this */
#define BESIDE		 0.06	/* compute while transfers move beside it */
#define WARM_UP		 1.5	/* the first step */
#define HOST_NOISE	 0.3
#define GC_EVERY	 40  /* steps, on the average, a rank collects garbage .. */
#define GC_NS		 6e6 /* .. for about this */

double sim_share(uint64_t seed, uint64_t a, uint64_t b)
{
	return (double)(hash_mix(hash_mix(seed, a), b) >> 11) * 0x1p-53;
}

static double normal_of(uint64_t bits)
{
	double sum = (double)(bits & 0xffff) + (double)(bits >> 16 & 0xffff) +
		     (double)(bits >> 32 & 0xffff) + (double)(bits >> 48);

	return (sum / 65536 - 2) * 1.7320508; /* of four uniform ones */
}

double sim_normal(uint64_t seed, uint64_t a, uint64_t b)
{
	return normal_of(hash_mix(hash_mix(seed, a), b));
}

/* The next of a rank's own noise in this step: as many are drawn whatever the faults do. */
static uint64_t bits_next(struct sim_rank *r)
{
	uint64_t z = (r->noise += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	return z ^ (z >> 31);
}

static double noise_next(struct sim_rank *r)
{
	return normal_of(bits_next(r));
}

/* --- faults --- */

static bool has(const struct sim_fault *f, uint32_t rank)
{
	return !f->has || f->has[rank];
}

static bool of_phase(const struct sim_op *op, int phase)
{
	return phase < 0 || op->phase == phase || (phase == SIM_FORWARD && op->forward) ||
	       (phase == SIM_BACKWARD && op->backward);
}

static double compute_factor(const struct sim *s, uint32_t rank, const struct sim_op *op)
{
	double factor = 1;

	for (size_t i = 0; i < s->n_active; i++) {
		const struct sim_fault *f = s->active[i];

		bool slower = false;

		if (f->kind == SIM_COMPUTE || f->kind == SIM_THROTTLING)
			slower = has(f, rank) && of_phase(op, f->phase);
		else if (f->kind == SIM_KERNEL)
			slower = of_phase(op, f->phase) && op->slowed;
		else if (f->kind == SIM_STAGE)
			slower = (uint32_t)f->stage == s->plan.stage_of[rank] &&
				 op->phase != SIM_OPTIMIZER;
		factor *= slower ? sim_fault_factor(f, s->latest) : 1;
	}
	return factor;
}

/* What a member's port does to a transfer. */
static void link_fault(struct sim *s, uint32_t rank, const struct sim_op *op, struct sim_inst *inst)
{
	uint32_t node = s->options.gpus_per_node;

	for (size_t i = 0; i < s->n_active; i++) {
		const struct sim_fault *f = s->active[i];

		if (f->kind != SIM_LINK || !has(f, rank) ||
		    (f->rail >= 0 && (int)(rank % node) != f->rail) ||
		    (!s->spans[op->group] && s->plan.world > node))
			continue;
		if (!f->pair || (inst->first_bad && (inst->first_bad - 1) / node != rank / node))
			inst->slow = MAX(inst->slow, (float)sim_fault_factor(f, s->latest));
		else
			inst->first_bad = rank + 1;
	}
}

/* The host's stalls come in the middle of the step's launches, loads and saves at its beginning. */
static void host_faults(struct sim *s, uint32_t rank, struct sim_rank *r, bool middle)
{
	for (size_t i = 0; i < s->n_active; i++) {
		const struct sim_fault *f = s->active[i];
		double ns = f->ms * 1e6;

		if (!has(f, rank))
			continue;
		if (middle && f->kind == SIM_HOST) {
			r->host += ns;
			r->pending[OWN_HOST] += ns;
			r->pending_detail[f->detail] += ns;
			r->stalled[f->detail][0] = r->host - ns;
			r->stalled[f->detail][1] = r->host;
		} else if (!middle && f->kind == SIM_DATA) {
			r->host += ns;
			r->pending[OWN_DATA] += ns;
		} else if (!middle && f->kind == SIM_SAVE) {
			r->host += ns;
			r->pending[OWN_SAVE] += ns;
			r->saved[0] = r->host - ns;
			r->saved[1] = r->host;
		}
	}
}

/* --- a rank's streams --- */

/* Nothing runs from r->t to `until`: because of what the host did. */
static void idle(struct sim_rank *r, double until)
{
	static const enum own_part parts[] = { OWN_DATA, OWN_SAVE, OWN_HOST };
	double left = until - r->t, part;

	if (left <= 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		part = MIN(left, r->pending[parts[i]]);
		r->pending[parts[i]] -= part;
		r->own[parts[i]] += part;
		left -= part;
		if (part > r->stall) {
			r->stall = part;
			r->stall_at = r->t;
		}
		for (int d = 0; parts[i] == OWN_HOST && d < HOST_DETAILS; d++) {
			double of = MIN(part, r->pending_detail[d]);

			r->pending_detail[d] -= of;
			r->detail[d] += of;
			part -= of;
		}
	}
	if (left <= 2 * START_LATENCY_NS) {
		r->own[OWN_LAUNCH] += left;
	} else {
		r->own[OWN_HOST] += left;
		r->detail[HOST_UNKNOWN] += left;
	}
	r->t = until;
}

/* The stream takes up the next operation: when. */
static double take_up(struct sim_rank *r, const struct sim_op *op, uint32_t n_ops)
{
	double lead;

	r->host = MAX(r->host, r->ends[r->pc % SIM_QUEUE]) + op->launch_ns;
	lead = r->t - r->host;
	if (r->pc == n_ops / 2)
		r->lead = MAX(lead, 0);
	r->lead_most = MAX(r->lead_most, lead);
	if (r->host + START_LATENCY_NS > r->t)
		idle(r, r->host + START_LATENCY_NS);
	else if (lead > 0 && r->pending[OWN_HOST] + r->pending[OWN_DATA] > 0) {
		/* what the run-ahead hid is not felt later */
		memset(r->pending, 0, sizeof(r->pending));
		memset(r->pending_detail, 0, sizeof(r->pending_detail));
	}
	if (r->spans)
		r->spans[r->pc] = (struct sim_span){ r->host, r->t, r->t };
	return r->t;
}

static void in_phase(struct sim_rank *r, const struct sim_op *op, double start, double end)
{
	if (op->phase == SIM_PHASES)
		return;
	if (r->phase_first[op->phase] <= 0)
		r->phase_first[op->phase] = start;
	r->phase_last[op->phase] = end;
}

static double own_at(const struct sim_rank *r, double t)
{
	return t - r->begin - r->blocked;
}

/* --- collectives --- */

static void find_bases(const struct sim *s, uint32_t rank, uint32_t *base)
{
	const struct sim_plan *p = &s->plan;

	for (int g = 0; g < SIM_GROUPS; g++)
		base[g] = p->first_inst[g] +
			  (g == SIM_PP ? p->lane_of[rank] : p->group_of[g][rank] * p->of_kind[g]);
}

uint32_t sim_inst_of(const struct sim *s, uint32_t rank, const struct sim_op *op)
{
	return s->ranks[rank].base[op->group] +
	       op->place * (op->group == SIM_PP ? s->plan.lanes : 1);
}

static void wake(struct sim *s, struct sim_inst *inst)
{
	while (inst->waiting) {
		uint32_t rank = inst->waiting - 1;

		inst->waiting = s->ranks[rank].next;
		s->stack[s->n_stack++] = rank;
	}
}

/* All have come: it moves. */
static void complete(struct sim *s, uint32_t at, const struct sim_op *op)
{
	struct sim_inst *inst = &s->insts[at];
	double ns = op->ns * (double)inst->slow, from = inst->latest;

	if (op->kind == SIM_POST && op->place > 0) /* one after the other on their stream */
		from = MAX(from, s->insts[at - 1].done);
	if (op->with_tokens)
		ns *= 1 + s->options.routing *
			      fabs(sim_normal(s->options.seed ^ 0x70, at, sim_moment(s)));
	ns *= 1 + 0.02 * sim_normal(s->options.seed ^ 0x6e, at, sim_moment(s));
	if (inst->crowd > 0 && op->kind != SIM_POST)
		ns += CROWDED * MIN((double)inst->crowd, ns);
	inst->done = from + ns;
	wake(s, inst);
}

static void arrive(struct sim *s, uint32_t rank, struct sim_rank *r, const struct sim_op *op,
		   uint32_t at, double t)
{
	struct sim_inst *inst = &s->insts[at];
	uint32_t members = op->group == SIM_PP ? 2 : s->plan.members[op->group];

	if (!inst->arrived)
		inst->slow = 1;
	if (!inst->arrived || t > inst->latest) {
		inst->latest = t;
		inst->crowd = (float)MAX(r->moving - t, 0);
	}
	link_fault(s, rank, op, inst);
	if (++inst->arrived == members)
		complete(s, at, op);
}

static struct sim_kept *keep(struct sim_rank *r, const struct sim_op *op, uint32_t at, double t)
{
	struct sim_kept *k = op->keep < 0 ? NULL : &r->kept[op->keep];

	if (k)
		*k = (struct sim_kept){ .arrive = t,
					.end = NAN,
					.own_arrive = own_at(r, t),
					.own_need = -1,
					.inst = at,
					.op = r->pc };
	return k;
}

/* It stands before what is not done: is it, by now? */
static bool stands(uint32_t rank, struct sim_rank *r, struct sim_inst *inst)
{
	if (!isnan(inst->done))
		return false;
	r->next = inst->waiting;
	inst->waiting = rank + 1;
	return true;
}

/* A collective that the rank needs before it goes on. False: it has to wait for others. */
static bool meet(struct sim *s, uint32_t rank, struct sim_rank *r, const struct sim_op *op,
		 uint32_t n_ops)
{
	uint32_t at = sim_inst_of(s, rank, op);
	struct sim_inst *inst = &s->insts[at];
	struct sim_kept *k;
	double end;

	if (!r->arrived) {
		r->at = take_up(r, op, n_ops);
		r->arrived = true;
		arrive(s, rank, r, op, at, r->at);
	}
	if (stands(rank, r, inst))
		return false;
	r->arrived = false;
	end = inst->done + SCATTER_NS * (double)(bits_next(r) >> 40) * 0x1p-24;
	k = keep(r, op, at, r->at);
	if (k) {
		k->end = end;
		k->own_need = k->own_arrive;
		k->exposed = end - r->at;
	}
	r->comm += end - r->at;
	r->exposed += end - r->at;
	r->work_ns[r->pc] = (float)(end - r->at);
	r->blocked += end - r->at;
	r->t = end;
	if (r->spans)
		r->spans[r->pc].end = end;
	in_phase(r, op, r->at, end);
	return true;
}

static void post(struct sim *s, uint32_t rank, struct sim_rank *r, const struct sim_op *op,
		 uint32_t n_ops)
{
	uint32_t at = sim_inst_of(s, rank, op);
	double t = take_up(r, op, n_ops);

	keep(r, op, at, t);
	r->work_ns[r->pc] = (float)(t - r->begin);
	if (op->kind == SIM_POST) {
		r->last_post = at + 1;
		r->moving = MAX(r->moving, t) + op->ns;
	}
	arrive(s, rank, r, op, at, t);
}

static bool await(struct sim *s, uint32_t rank, struct sim_rank *r)
{
	struct sim_inst *inst = r->last_post ? &s->insts[r->last_post - 1] : NULL;

	if (!inst)
		return true;
	if (stands(rank, r, inst))
		return false;
	if (inst->done > r->t) {
		for (uint32_t i = r->pc; i-- > 0;) {
			const struct sim_op *op =
			    &s->plan.programs[s->plan.stage_of[rank]].ops.v[i];

			if (op->kind != SIM_POST)
				continue;
			if (op->keep >= 0) {
				r->kept[op->keep].own_need = own_at(r, r->t);
				r->kept[op->keep].exposed = inst->done - r->t;
			}
			break;
		}
		r->exposed += inst->done - r->t;
		r->blocked += inst->done - r->t;
		r->t = inst->done;
	}
	return true;
}

/* --- compute --- */

static void data(struct sim *s, uint32_t rank, struct sim_rank *r)
{
	double from = r->host, load = DATA_NS * (1 + HOST_NOISE * fabs(noise_next(r)));
	double gc = GC_NS * (1 + 0.5 * fabs(noise_next(r)));

	r->host += load;
	r->pending[OWN_DATA] += load;
	host_faults(s, rank, r, false);
	if (r->spans)
		r->spans[r->pc] = (struct sim_span){ from, from, r->host };
	if (sim_share(s->options.seed ^ 0x6c, rank, sim_moment(s)) * GC_EVERY < 1) {
		r->host += gc;
		r->pending[OWN_HOST] += gc;
		r->pending_detail[HOST_GC] += gc;
		r->stalled[HOST_GC][0] = r->host - gc;
		r->stalled[HOST_GC][1] = r->host;
	}
}

static void work(struct sim *s, uint32_t rank, struct sim_rank *r, const struct sim_op *op,
		 uint32_t n_ops)
{
	const struct sim_plan *p = &s->plan;
	double ns = op->ns * (1 + s->options.noise * noise_next(r)), start, length, tokens;

	if (op->with_length) {
		length = s->lengths[s->replica_of[rank] * p->micro_batches +
				    op->micro % p->micro_batches];
		ns *= op->phase == SIM_ATTENTION ? length * length : length;
	}
	if (op->with_tokens && p->members[SIM_EP] > 1) {
		tokens = 1 + s->options.routing * noise_next(r);
		ns *= MAX(0.2, tokens);
	}
	ns *= compute_factor(s, rank, op);
	if (s->step == s->run_from)
		ns *= WARM_UP;
	start = take_up(r, op, n_ops);
	if (r->moving > start)
		ns += BESIDE * MIN(ns, r->moving - start);
	r->own[OWN_COMPUTE] += ns;
	r->work_ns[r->pc] = (float)ns;
	r->t = start + ns;
	if (r->spans)
		r->spans[r->pc].end = r->t;
	in_phase(r, op, start, r->t);
}

/* Until the end of the step, or until it waits for somebody. */
static void walk(struct sim *s, uint32_t rank)
{
	const struct sim_program *program = &s->plan.programs[s->plan.stage_of[rank]];
	struct sim_rank *r = &s->ranks[rank];
	uint32_t n = (uint32_t)program->ops.n;

	for (; r->pc < n; r->pc++) {
		const struct sim_op *op = &program->ops.v[r->pc];

		if (r->pc == n * 5 / 8 && !r->arrived)
			host_faults(s, rank, r, true);
		if (op->kind == SIM_WORK && op->phase == SIM_DATA_PHASE)
			data(s, rank, r);
		else if (op->kind == SIM_WORK)
			work(s, rank, r, op, n);
		else if (op->kind == SIM_POST || op->kind == SIM_SEND)
			post(s, rank, r, op, n);
		else if (op->kind == SIM_AWAIT ? !await(s, rank, r) : !meet(s, rank, r, op, n))
			return;
		r->ends[r->pc % SIM_QUEUE] = r->t;
	}
}

/* --- a step --- */

static void rank_begin(struct sim *s, uint32_t rank)
{
	struct sim_rank *r = &s->ranks[rank];
	struct sim_rank old = *r;

	*r = (struct sim_rank){
		.t = old.t,
		.begin = old.t,
		.host = old.t + SIM_READ_NS,
		.kept = old.kept,
		.work_ns = old.work_ns,
		.spans = old.spans,
		.noise = hash_mix(hash_mix(s->options.seed, rank), sim_moment(s)),
	};
	r->step_host = r->host;
	find_bases(s, rank, r->base);
	s->stack[s->n_stack++] = rank;
}

static void draw_lengths(struct sim *s)
{
	uint32_t replicas =
	    s->plan.world / s->plan.stages / s->plan.members[SIM_TP] / s->plan.members[SIM_CP];

	for (uint32_t i = 0; i < replicas; i++)
		for (uint32_t m = 0; m < s->plan.micro_batches; m++) {
			uint32_t at = i * s->plan.micro_batches + m;
			double x = 1 + s->options.lengths *
					   sim_normal(s->options.seed ^ 0x6c656e, at, s->step);

			for (size_t k = 0; k < s->n_active; k++)
				if (s->active[k]->kind == SIM_WORKLOAD &&
				    sim_share(s->options.seed ^ 0x77, i, s->step) < 0.25)
					x *= sim_fault_factor(s->active[k], s->latest);
			s->lengths[at] = (float)MAX(x, 0.1);
		}
}

bool sim_evaluates(const struct sim *s, uint32_t step)
{
	return s->options.evaluate && step && !(step % s->options.evaluate);
}

size_t sim_ops_most(const struct sim *s, uint32_t stage)
{
	return s->plans[s->options.evaluate > 0].programs[stage].ops.n;
}

struct step *const *sim_next(struct sim *s, uint64_t *ret_number)
{
	double sum = 0;

	if (s->step == MIN(s->options.steps, sim_hang_step(&s->options)))
		return NULL;
	sim_restart_due(s);
	s->latest = MAX(s->latest, s->step);
	s->plan = s->plans[sim_evaluates(s, s->step)];
	s->n_active = 0;
	for (size_t i = 0; i < s->options.faults.n; i++)
		if (sim_fault_on(&s->options.faults.v[i], s->step, s->latest, s->run))
			s->active[s->n_active++] = &s->options.faults.v[i];
	draw_lengths(s);
	for (uint32_t i = 0; i < s->n_insts; i++)
		s->insts[i] = (struct sim_inst){ .done = NAN };
	for (uint32_t r = s->plan.world; r-- > 0;)
		rank_begin(s, r);
	while (s->n_stack)
		walk(s, s->stack[--s->n_stack]);
	for (uint32_t r = 0; r < s->plan.world; r++)
		sum += s->ranks[r].t - s->ranks[r].begin;
	s->step_ns = sum / s->plan.world;
	sim_record_step(s);
	sim_trace_step(s);
	sim_past_step(s);
	*ret_number = sim_number(s);
	s->step++;
	return s->step_of;
}

double sim_step_ns(const struct sim *s)
{
	return s->step_ns;
}

uint32_t sim_run(const struct sim *s)
{
	return s->run;
}

bool sim_reaches(const struct sim *s, const struct sim_fault *f)
{
	return sim_fault_reaches(f, s->latest, s->run);
}

void sim_step_span(const struct sim *s, double *ret_begin, double *ret_end)
{
	*ret_begin = *ret_end = 0;
	for (uint32_t r = 0; r < s->plan.world; r++) {
		*ret_begin = MAX(*ret_begin, s->ranks[r].begin);
		*ret_end = MAX(*ret_end, s->ranks[r].t);
	}
}

/* --- beginning and end --- */

/* Phases in which a layer, or the step, computes. */
static bool computes(int phase)
{
	return phase == SIM_EMBEDDING || phase == SIM_ATTENTION || phase == SIM_MLP ||
	       phase == SIM_HEAD || phase == SIM_OPTIMIZER || phase == SIM_FORWARD ||
	       phase == SIM_BACKWARD;
}

/* Of faults with which the job never begins. */
static int check_start(const struct sim_fault *f, int64_t world, struct error *reterr)
{
	if (f->from)
		return error_set(reterr, -EINVAL, "%s: such a job never begins: from= must be 0",
				 sim_fault_infos[f->kind].name);
	if (f->kind == SIM_CONFIGURATION && f->how == SIM_PORT && (f->n_ranks != 1 || f->ranks[0]))
		return error_set(reterr, -EINVAL, "configuration: the port is rank 0's: ranks=0");
	if ((int64_t)f->n_ranks >= world)
		return error_set(reterr, -EINVAL, "%s: some ranks must be without it",
				 sim_fault_infos[f->kind].name);
	return 0;
}

static int check(const struct sim_options *o, struct error *reterr)
{
	int64_t world = layout_world(&o->layout),
		dp = (int64_t)o->layout.size[LAYOUT_DP] * o->layout.size[LAYOUT_CP];
	uint32_t pp = o->layout.size[LAYOUT_PP];

	if (world < 1 || world > SIM_RANKS_MAX)
		return error_set(reterr, -EINVAL,
				 "%s is a job of %" PRId64 " ranks; 1 to %d can be simulated",
				 o->layout_text, world, SIM_RANKS_MAX);
	if (dp % o->layout.size[LAYOUT_EP])
		return error_set(reterr, -EINVAL,
				 "%s: ep=%" PRIu32 " does not divide dp x cp = %" PRId64,
				 o->layout_text, o->layout.size[LAYOUT_EP], dp);
	if (o->chunks > 1 && (pp < 2 || o->micro_batches % pp))
		return error_set(reterr, -EINVAL,
				 "interleaved stages need pp of 2 or more, and micro-batches that "
				 "it divides: pp=%" PRIu32 ", %" PRIu32 " micro-batches",
				 pp, o->micro_batches);
	if (sim_restarts_check(&o->restarts, o->steps, world, reterr) < 0)
		return -EINVAL;
	for (size_t i = 0; i < o->faults.n; i++) {
		const struct sim_fault *f = &o->faults.v[i];

		if (f->run > (int64_t)o->restarts.n || (f->run >= 0 && sim_fault_hangs(f)))
			return error_set(reterr, -EINVAL,
					 "%s: run= is one of 0 to %zu (with --restart), and of no "
					 "fault that is for ever",
					 sim_fault_infos[f->kind].name, o->restarts.n);
		if (f->n_ranks && f->ranks[f->n_ranks - 1] >= world)
			return error_set(reterr, -EINVAL,
					 "%s: there is no rank %" PRId64 " in a job of %" PRId64,
					 sim_fault_infos[f->kind].name, f->ranks[f->n_ranks - 1],
					 world);
		if (f->phase >= 0 && !computes(f->phase))
			return error_set(reterr, -EINVAL,
					 "%s: phase=%s computes nothing: it never acts",
					 sim_fault_infos[f->kind].name, sim_phase_names[f->phase]);
		if (f->from > f->to)
			return error_set(reterr, -EINVAL,
					 "%s: from=%" PRId64 " lies behind to=%" PRId64,
					 sim_fault_infos[f->kind].name, f->from, f->to);
		if (sim_fault_hangs(f) && (sim_fault_step(f, o->steps) < 0 ||
					   sim_fault_step(f, o->steps) >= (int64_t)o->steps))
			return error_set(reterr, -EINVAL,
					 "%s: the job has the steps 0 to %" PRIu32
					 " only: it never acts",
					 sim_fault_infos[f->kind].name, o->steps - 1);
		if (sim_fault_starts(f) && check_start(f, world, reterr) < 0)
			return -EINVAL;
		if (f->rail >= 0 && (uint32_t)f->rail >= o->gpus_per_node)
			return error_set(reterr, -EINVAL,
					 "comm-link: rail= must be one of 0 to %" PRIu32,
					 o->gpus_per_node - 1);
		if (f->kind == SIM_STAGE && (f->stage < 0 || (uint32_t)f->stage >= pp))
			return error_set(reterr, -EINVAL,
					 "pipeline-imbalance: stage= must be one of 0 to %" PRIu32,
					 pp - 1);
		if (f->kind != SIM_SAVE && f->kind != SIM_STAGE && f->kind != SIM_WORKLOAD &&
		    f->kind != SIM_KERNEL && f->kind != SIM_STUCK && f->kind != SIM_PREEMPTED &&
		    !f->n_ranks && f->rail < 0)
			return error_set(reterr, -EINVAL, "%s: ranks= is missing",
					 sim_fault_infos[f->kind].name);
	}
	return 0;
}

/* Replicas in order of their dp coordinate: ranks of one share their sequences. */
static void find_replicas(struct sim *s)
{
	s->replica_of = xmalloc((size_t)s->plan.world * sizeof(uint32_t));
	for (uint32_t r = 0; r < s->plan.world; r++)
		s->replica_of[r] = layout_coord(&s->options.layout, r, LAYOUT_DP);
}

static void find_spans(struct sim *s)
{
	uint32_t node = s->options.gpus_per_node;

	for (int g = 0; g < SIM_PP; g++) {
		uint32_t *first = xmalloc(s->plan.groups[g] * sizeof(*first));

		memset(first, 0xff, s->plan.groups[g] * sizeof(*first));
		for (uint32_t r = 0; r < s->plan.world; r++) {
			uint32_t *f = &first[s->plan.group_of[g][r]];

			*f = *f == NO_ID ? r / node : *f;
			s->spans[g] |= *f != r / node;
		}
		free(first);
	}
	s->spans[SIM_PP] = s->plan.stages > 1 && s->plan.world > node;
}

int sim_new(const struct sim_options *options, struct sim **ret, struct error *reterr)
{
	struct sim *s = xcalloc(1, sizeof(*s));
	struct sim_options *o = &s->options;
	int r;

	*o = *options;
	o->gpus_per_node = o->gpus_per_node ? o->gpus_per_node : 8;
	o->chunks = MAX(o->chunks, 1u);
	o->layers = MAX(o->layers, 1u);
	if (!o->micro_batches)
		o->micro_batches = MAX(2 * o->layout.size[LAYOUT_PP], 4u);
	r = check(o, reterr);
	if (r < 0) {
		free(s);
		return r;
	}
	sim_plan_make(&s->plans[0], o, false);
	if (o->evaluate)
		sim_plan_make(&s->plans[1], o, true);
	s->plan = s->plans[0];
	for (size_t i = 0; i < o->faults.n; i++) {
		struct sim_fault *f = &o->faults.v[i];

		if (!f->n_ranks || f->has)
			continue;
		f->has = xcalloc(s->plan.world, 1);
		for (size_t k = 0; k < f->n_ranks; k++)
			f->has[f->ranks[k]] = 1;
	}
	find_replicas(s);
	find_spans(s);
	s->n_insts = s->plans[o->evaluate > 0].first_inst[SIM_GROUPS];
	s->insts = xmalloc((s->n_insts + 1) * sizeof(*s->insts));
	s->stack = xmalloc((size_t)s->plan.world * sizeof(*s->stack));
	s->active = xcalloc(o->faults.n + 1, sizeof(*s->active));
	s->lengths =
	    xmalloc((size_t)o->layout.size[LAYOUT_DP] * s->plan.micro_batches * sizeof(float));
	s->ranks = xcalloc(s->plan.world, sizeof(*s->ranks));
	for (uint32_t k = 0; k < s->plan.world; k++) {
		const struct sim_plan *p = &s->plans[o->evaluate > 0];
		uint32_t keep = MAX(p->programs[p->stage_of[k]].n_keep,
				    s->plan.programs[p->stage_of[k]].n_keep);

		s->ranks[k].kept = xcalloc(keep + 1, sizeof(*s->ranks[k].kept));
		s->ranks[k].work_ns = xcalloc(sim_ops_most(s, p->stage_of[k]), sizeof(float));
	}
	sim_record_init(s);
	*ret = s;
	return 0;
}

struct sim *sim_free(struct sim *s)
{
	if (!s)
		return NULL;
	for (uint32_t r = 0; r < s->plan.world; r++) {
		free(s->ranks[r].kept);
		free(s->ranks[r].work_ns);
		free(s->ranks[r].spans);
	}
	sim_record_done(s);
	sim_plan_done(&s->plans[0]);
	if (s->options.evaluate)
		sim_plan_done(&s->plans[1]);
	free(s->ranks);
	free(s->insts);
	free(s->stack);
	free(s->active);
	free(s->lengths);
	free(s->replica_of);
	sim_trace_end(s, NULL);
	sim_evidence_free(s);
	free(s->traces);
	free(s);
	return NULL;
}
