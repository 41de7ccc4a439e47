/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_past.c - what the ranks that are dumped had called before the step that hangs: as much as a
 * ring holds, and of no more steps than fill it.
 */
#include "sim/sim_evidence.h"

static uint32_t calls_of(const struct sim_program *p)
{
	uint32_t n = 0;

	for (size_t i = 0; i < p->ops.n; i++)
		n += p->ops.v[i].kind != SIM_WORK && p->ops.v[i].kind != SIM_AWAIT;
	return n;
}

static uint32_t calls_in(const struct sim_program *p, uint32_t group)
{
	uint32_t n = 0;

	for (size_t i = 0; i < p->ops.n; i++)
		n += p->ops.v[i].kind != SIM_WORK && p->ops.v[i].kind != SIM_AWAIT &&
		     p->ops.v[i].group == group;
	return n;
}

/* In the steps before, of any run. */
static uint32_t called_before(const struct sim *s, uint32_t stage, uint32_t group, uint32_t step)
{
	uint32_t every = s->options.evaluate, evaluations = every && step ? (step - 1) / every : 0;
	uint32_t n = (step - evaluations) * calls_in(&s->plans[0].programs[stage], group);

	if (evaluations)
		n += evaluations * calls_in(&s->plans[1].programs[stage], group);
	return n;
}

uint32_t sim_called_before(const struct sim *s, uint32_t stage, uint32_t group, uint32_t step)
{
	return called_before(s, stage, group, step) - called_before(s, stage, group, s->run_from);
}

void sim_past_begin(struct sim *s)
{
	struct sim_evidence *e = s->evidence;
	uint32_t hang = sim_hang_step(&s->options), least = UINT32_MAX, steps;

	for (uint32_t i = 0; i < s->plan.stages; i++)
		least = MIN(least, calls_of(&s->plan.programs[i]));
	steps = e->o.ring / MAX(least, 1u) + 2;
	e->past_from = hang > steps ? hang - steps : 0;
	e->past = xcalloc(e->n_ranks + 1, sizeof(*e->past));
	for (size_t i = 0; i < e->n_ranks; i++) {
		struct sim_rank *r = &s->ranks[e->ranks[i]];

		e->past[i].v = xmalloc(e->o.ring * sizeof(struct sim_call));
		if (!r->spans)
			r->spans = xcalloc(sim_ops_most(s, s->plan.stage_of[e->ranks[i]]),
					   sizeof(*r->spans));
	}
}

static void keep_calls(const struct sim *s, uint32_t rank, uint32_t ring, struct sim_past *past)
{
	const struct sim_plan *p = &s->plan;
	const struct sim_program *program = &p->programs[p->stage_of[rank]];
	const struct sim_rank *r = &s->ranks[rank];
	uint32_t n[SIM_GROUPS] = { 0 }, before[SIM_GROUPS];

	for (uint32_t g = 0; g < SIM_GROUPS; g++)
		before[g] = sim_called_before(s, p->stage_of[rank], g, s->step);
	for (size_t i = 0; i < program->ops.n; i++) {
		const struct sim_op *op = &program->ops.v[i];
		bool late = op->kind == SIM_POST || op->kind == SIM_SEND;
		uint32_t stage =
		    (p->stage_of[rank] + p->stages + (op->by > 0 ? 1 : p->stages - 1)) % p->stages;

		if (op->kind == SIM_WORK || op->kind == SIM_AWAIT)
			continue;
		past->v[past->n++ % ring] = (struct sim_call){
			.created = r->spans[i].host,
			.begun = r->spans[i].start,
			.ended = late ? s->insts[sim_inst_of(s, rank, op)].done : r->spans[i].end,
			.bytes = op->bytes,
			.step = s->step,
			.seq = before[op->group] + ++n[op->group],
			.peer = op->group == SIM_PP
				    ? p->rank_at[stage * p->lanes + p->lane_of[rank]]
				    : rank,
			.group = op->group,
			.what = (uint8_t)program->rows[op->row].op,
			.phase = op->phase,
			.backward = op->group == SIM_PP && op->place % 2,
		};
	}
}

void sim_past_step(struct sim *s)
{
	struct sim_evidence *e = s->evidence;

	if (!e)
		return;
	if (s->step == s->run_from) /* new processes, empty rings */
		for (size_t i = 0; i < e->n_ranks; i++)
			e->past[i].n = 0;
	*vec_push(&e->ends) =
	    (struct sim_ended){ s->ranks[0].begin, s->ranks[0].t, sim_number(s), s->run };
	for (size_t i = 0; i < e->n_ranks && s->step >= e->past_from; i++)
		keep_calls(s, e->ranks[i], e->o.ring, &e->past[i]);
}
