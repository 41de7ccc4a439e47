/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_record.c - what the ranks went through in a step, as the record that fold would make of it.
 *
 * A record keeps 16 collectives of a group and operation; which ones is the program's choice, the
 * same for all members (sim_plan.c).
 */
#include "sim/sim_inside.h"
#include "sim/sim_words.h"

#include <math.h>
#include <stdio.h>

#define OFFSET_NS 5e6  /* clocks differ by about this .. */
#define DRIFT	  2e-6 /* .. and drift apart by this */
#define LISTED	  64u /* members of a group that the head of a rank lists; beyond, its name tells */
#define BINS	  1200u

/* --- the job --- */

static void make_groups(struct sim *s)
{
	struct sim_plan *p = &s->plan;
	struct job *job = &s->job;

	s->groups = xmalloc(p->world * sizeof(*s->groups));
	memset(s->groups, 0xff, p->world * sizeof(*s->groups));
	for (uint32_t r = 0; r < p->world; r++)
		job->ranks[r].groups =
		    arena_alloc(&job->arena, SIM_GROUPS * sizeof(struct rank_group));
	for (int g = 0; g < SIM_GROUPS; g++) {
		uint32_t **members = xcalloc(p->groups[g], sizeof(*members));
		uint32_t *n = xcalloc(p->groups[g], sizeof(*n)), *ids;
		bool listed = p->members[g] <= LISTED;

		ids = xmalloc(p->groups[g] * sizeof(*ids));
		for (uint32_t i = 0; i < p->groups[g] && p->members[g] > 1; i++) {
			char name[32];

			snprintf(name, sizeof(name), "%s_%" PRIu32, sim_group_names[g], i);
			ids[i] = intern_str(&job->names, name);
			if (listed)
				members[i] =
				    arena_alloc(&job->arena, p->members[g] * sizeof(uint32_t));
		}
		for (uint32_t r = 0; r < p->world && listed && p->members[g] > 1; r++)
			members[p->group_of[g][r]][n[p->group_of[g][r]]++] = r;
		for (uint32_t r = 0; r < p->world && p->members[g] > 1; r++) {
			struct rank_info *info = &job->ranks[r];
			uint32_t at = p->group_of[g][r];

			s->groups[r][g] = info->n_groups;
			info->groups[info->n_groups++] = (struct rank_group){
				.name = ids[at],
				.desc = intern_str(&job->names, sim_group_descs[g]),
				.size = p->members[g],
				.ranks = members[at],
				.n_ranks = listed ? p->members[g] : 0,
			};
		}
		free(members);
		free(ids);
		free(n);
	}
}

void sim_record_init(struct sim *s)
{
	uint32_t world = s->plan.world, node = s->options.gpus_per_node;
	struct job *job = &s->job;

	job->n_ranks = world;
	job->world_size = world;
	job->first_step = 0;
	job->last_step = (int64_t)s->options.steps - 1;
	job->ranks = arena_alloc(&job->arena, world * sizeof(*job->ranks));
	s->offset = xmalloc(world * sizeof(*s->offset));
	s->drift = xmalloc(world * sizeof(*s->drift));
	for (uint32_t r = 0; r < world; r++) {
		char host[32];

		snprintf(host, sizeof(host), "node%05" PRIu32, r / node);
		job->ranks[r] = (struct rank_info){
			.rank = r,
			.world_size = world,
			.host = intern_str(&job->names, host),
			.gpu_name = intern_str(&job->names, "simulated"),
			.backend = intern_str(&job->names, "nccl"),
			.gpu_index = (int32_t)(r % node),
			.first_ns = SIM_EPOCH_NS,
			.last_ns = SIM_EPOCH_NS,
		};
		s->offset[r] = OFFSET_NS * sim_normal(s->options.seed ^ 0x636c, r / node, 0);
		s->drift[r] = DRIFT * sim_normal(s->options.seed ^ 0x6472, r / node, 0);
	}
	make_groups(s);
	for (int i = 0; i < SIM_PHASES; i++)
		s->phase_ids[i] = intern_str(&job->names, sim_phase_names[i]);
	for (int i = 0; i < SIM_KERNELS; i++)
		s->kernel_ids[i] = intern_str(&job->names, sim_kernel_names[i]);
	for (int i = 0; i < HOST_DETAILS; i++)
		s->what_ids[i] = i ? intern_str(&job->names, sim_detail_words[i]) : NO_ID;
	s->steps = xcalloc(world, sizeof(*s->steps));
	s->step_of = xcalloc(world, sizeof(*s->step_of));
}

void sim_record_done(struct sim *s)
{
	intern_done(&s->job.names);
	arena_done(&s->job.arena);
	arena_done(&s->arena);
	free(s->groups);
	free(s->steps);
	free(s->step_of);
	free(s->offset);
	free(s->drift);
}

const struct job *sim_job(const struct sim *s)
{
	return &s->job;
}

/* --- a step of one rank --- */

static int64_t whole(double ns)
{
	return (int64_t)(ns < 0 ? ns - 0.5 : ns + 0.5);
}

static void put_phases(struct sim *s, const struct sim_rank *r, const struct sim_program *p,
		       struct step *step)
{
	struct step_phase phases[SIM_PHASES] = { 0 };

	for (size_t i = 0; i < p->ops.n; i++) {
		const struct sim_op *op = &p->ops.v[i];
		struct step_phase *f = &phases[MIN(op->phase, SIM_PHASES - 1)];
		int64_t ns = whole((double)r->work_ns[i]);

		if (op->phase >= SIM_PHASES || (op->kind != SIM_WORK && op->kind != SIM_MEET))
			continue;
		f->count++;
		f->total_ns += ns;
		f->longest_ns = MAX(f->longest_ns, ns);
		if (op->kind == SIM_WORK) {
			f->gpu_ns += ns;
			f->exposed_ns += ns;
		}
	}
	step->phases = arena_alloc(&s->arena, SIM_PHASES * sizeof(*step->phases));
	for (int i = 0; i < SIM_PHASES; i++) {
		struct step_phase *f = &phases[i];

		if (!f->count || r->phase_first[i] <= 0)
			continue;
		f->name = s->phase_ids[i];
		f->first_start_ns = whole(r->phase_first[i] - r->begin);
		f->last_end_ns = whole(r->phase_last[i] - r->begin);
		step->phases[step->n_phases++] = *f;
	}
}

static void put_kernels(struct sim *s, const struct sim_rank *r, const struct sim_program *p,
			struct step *step)
{
	static _Thread_local uint32_t counts[SIM_KERNELS][BINS];
	uint16_t low[SIM_KERNELS], high[SIM_KERNELS] = { 0 };
	struct step_kernel kernels[SIM_KERNELS] = { 0 };

	hist_prepare();
	memset(low, 0xff, sizeof(low));
	for (size_t i = 0; i < p->ops.n; i++) {
		const struct sim_op *op = &p->ops.v[i];
		struct step_kernel *k = &kernels[op->kernel];
		int64_t ns = whole((double)r->work_ns[i]);
		uint16_t bin;

		if (op->kind != SIM_WORK || op->phase == SIM_DATA_PHASE)
			continue;
		bin = MIN(ns > HIST_QUICK_NS ? hist_bin_of(ns) : hist_bin_quick(ns), BINS - 1);
		counts[op->kernel][bin]++;
		low[op->kernel] = MIN(low[op->kernel], bin);
		high[op->kernel] = MAX(high[op->kernel], bin);
		k->count++;
		k->sum_ns += ns;
		k->max_ns = MAX(k->max_ns, ns);
	}
	step->kernels = arena_alloc(&s->arena, SIM_KERNELS * sizeof(*step->kernels));
	for (int i = 0; i < SIM_KERNELS; i++) {
		struct step_kernel *k = &kernels[i];

		if (!k->count)
			continue;
		k->name = s->kernel_ids[i];
		k->hist.count = k->count;
		k->hist.bins =
		    arena_alloc(&s->arena, MIN(k->count, (uint32_t)(high[i] - low[i]) + 1) *
					       sizeof(*k->hist.bins));
		for (uint32_t b = low[i]; b <= high[i]; b++) {
			if (counts[i][b])
				k->hist.bins[k->hist.n++] =
				    (struct hist_bin){ (uint16_t)b, counts[i][b] };
			counts[i][b] = 0;
		}
		step->kernels[step->n_kernels++] = *k;
	}
}

/* How long the rank's part of a collective took. */
static double duration_of(const struct sim *s, uint32_t rank, const struct sim_rank *r,
			  const struct sim_op *op, size_t i)
{
	if (op->kind == SIM_MEET || op->kind == SIM_RECV)
		return (double)r->work_ns[i];
	return s->insts[sim_inst_of(s, rank, op)].done - r->begin - (double)r->work_ns[i];
}

static void put_comms(struct sim *s, uint32_t rank, const struct sim_rank *r,
		      const struct sim_program *p, struct step *step)
{
	step->n_comms = p->n_rows;
	step->comms = arena_alloc(&s->arena, (p->n_rows + 1) * sizeof(*step->comms));
	for (uint32_t i = 0; i < p->n_rows; i++) {
		const struct sim_row *row = &p->rows[i];
		uint64_t before = (uint64_t)(s->step - s->run_from) * row->count;

		step->comms[i] = (struct step_comm){
			.group = s->groups[rank][row->group],
			.op = row->op,
			.count = row->count,
			.first_seq = row->group == SIM_PP ? -1 : (int64_t)before,
			.last_seq = row->group == SIM_PP ? -1 : (int64_t)before + row->count - 1,
			.bytes = row->bytes * row->count,
			.min_ns = INT64_MAX,
			.order_hash = hash_mix(hash_mix(row->op, row->bytes), row->count),
		};
	}
	for (size_t i = 0; i < p->ops.n; i++) {
		const struct sim_op *op = &p->ops.v[i];
		struct step_comm *c = &step->comms[op->row];
		int64_t ns;

		if (op->kind == SIM_WORK || op->kind == SIM_AWAIT)
			continue;
		ns = whole(fmax(duration_of(s, rank, r, op, i), 0));
		c->sum_ns += ns;
		c->min_ns = MIN(c->min_ns, ns);
		c->max_ns = MAX(c->max_ns, ns);
		if (op->kind == SIM_POST)
			step->comm_ns += ns;
	}
}

static void put_colls(struct sim *s, uint32_t rank, const struct sim_rank *r,
		      const struct sim_program *p, struct step *step)
{
	const struct sim_plan *plan = &s->plan;
	uint64_t since = s->step - s->run_from;

	step->colls = arena_alloc(&s->arena, (p->n_keep + 1) * sizeof(*step->colls));
	for (uint32_t i = 0; i < p->n_keep; i++) {
		const struct sim_kept *k = &r->kept[i];
		const struct sim_op *op = &p->ops.v[k->op];
		bool pair = op->group == SIM_PP;
		double end = isnan(k->end) ? s->insts[k->inst].done : k->end;
		uint32_t stage =
		    (plan->stage_of[rank] + plan->stages + (op->by > 0 ? 1 : plan->stages - 1)) %
		    plan->stages;

		step->colls[step->n_colls++] = (struct step_coll){
			.comm = op->row,
			.seq = pair ? (int64_t)(since * plan->of_kind[SIM_PP] + op->place)
				    : (int64_t)(since * plan->of_kind[op->group] + op->place),
			.bytes = op->bytes,
			.peer =
			    pair ? (int32_t)plan->rank_at[stage * plan->lanes + plan->lane_of[rank]]
				 : -1,
			.start_ns = whole(k->arrive - r->begin),
			.end_ns = whole(fmax(end, k->arrive) - r->begin),
			.call_ns = INT64_MIN,
			.own_arrive_ns = whole(k->own_arrive),
			.own_need_ns = k->own_need < 0 ? -1 : whole(k->own_need),
			.exposed_ns = whole(k->exposed),
		};
	}
}

static void put_step(struct sim *s, uint32_t rank)
{
	const struct sim_rank *r = &s->ranks[rank];
	const struct sim_program *p = &s->plan.programs[s->plan.stage_of[rank]];
	struct step *step = &s->steps[rank];
	int worst = HOST_UNKNOWN;

	*step = (struct step){
		.rank_row = rank,
		.number = sim_number(s),
		.start_ns =
		    SIM_EPOCH_NS + whole(r->begin + s->offset[rank] + s->drift[rank] * r->begin),
		.wall_ns = whole(r->t - r->begin),
		.host_what = NO_ID,
		.longest_stall_ns = whole(r->stall),
		.longest_stall_at_ns = r->stall > 0 ? whole(r->stall_at - r->begin) : 0,
		.compute_ns = whole(r->own[OWN_COMPUTE]),
		.comm_ns = whole(r->comm),
		.comm_exposed_ns = whole(r->exposed),
		.launch_delay_p50_ns = whole(r->lead),
		.launch_delay_p99_ns = whole(r->lead_most),
		.gc_ns = whole(r->detail[HOST_GC]),
		.data_wait_ns = whole(r->own[OWN_DATA]),
	};
	step->mark_ns = step->wall_ns;
	if (sim_evaluates(s, s->step))
		step->flags |= STEP_EVALUATION;
	if (r->own[OWN_SAVE] > 0)
		step->flags |= STEP_CHECKPOINT;
	for (int i = 0; i < OWN_PARTS; i++) {
		step->own[i] = whole(r->own[i]);
		step->own_ns += step->own[i];
	}
	for (int i = 0; i < HOST_DETAILS; i++) {
		step->host_detail_ns[i] = whole(r->detail[i]);
		if (i != HOST_UNKNOWN && r->detail[i] > r->detail[worst])
			worst = i;
	}
	step->host_what = r->detail[worst] > 0 ? s->what_ids[worst] : NO_ID;
	put_phases(s, r, p, step);
	put_kernels(s, r, p, step);
	put_comms(s, rank, r, p, step);
	put_colls(s, rank, r, p, step);
	s->step_of[rank] = step;
}

void sim_record_step(struct sim *s)
{
	arena_reset(&s->arena);
	for (uint32_t r = 0; r < s->plan.world; r++)
		if (sim_recorded(s, r))
			put_step(s, r);
		else
			s->step_of[r] = NULL;
}
