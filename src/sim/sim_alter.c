/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_alter.c - what a fault that hangs a job makes of the program of a rank that has it.
 *
 * A fault changes what the rank does, never where others end up.
 */
#include "sim/sim_hang.h"

#include <math.h>

#define EVALUATION_NS 50e6

static double share(const struct sim_hang *h, const struct sim_fault *f, uint32_t rank)
{
	/* The ranks of a fault do the same in the same place, as far as their programs agree. */
	uint32_t of = f->n_ranks ? (uint32_t)f->ranks[0] : rank;

	return sim_share(h->s->options.seed ^ 0x68616e67, of, (uint64_t)f->kind * 977 + 5);
}

static bool is_collective(const struct sim_hang_op *o, bool pairs)
{
	bool pair = o->op.kind == SIM_SEND || o->op.kind == SIM_RECV;

	return pair ? pairs : o->op.kind == SIM_MEET || o->op.kind == SIM_POST;
}

static uint32_t in_group(const struct sim_hang_program *p, int group, bool pairs, double at)
{
	uint32_t n = 0, want;

	for (size_t i = 0; i < p->ops.n; i++)
		n += is_collective(&p->ops.v[i], pairs) && p->ops.v[i].op.group == group;
	want = (uint32_t)(at * n);
	for (uint32_t i = 0; n && i < p->ops.n; i++)
		if (is_collective(&p->ops.v[i], pairs) && p->ops.v[i].op.group == group && !want--)
			return i;
	return NO_ID;
}

uint32_t sim_alter_pick(const struct sim_hang *h, const struct sim_hang_program *p, uint32_t rank,
			const struct sim_fault *f, bool pairs)
{
	static const enum sim_group order[] = { SIM_DP, SIM_TP, SIM_CP, SIM_EP, SIM_MP, SIM_PP };
	uint32_t at = NO_ID;

	if (f->group >= 0)
		return in_group(p, f->group, pairs, share(h, f, rank));
	for (size_t i = 0; i < ARRAY_SIZE(order) && at == NO_ID; i++)
		at = in_group(p, (int)order[i], pairs, share(h, f, rank));
	return at;
}

static void drop(struct sim_hang_program *p, uint32_t at)
{
	memmove(&p->ops.v[at], &p->ops.v[at + 1], (p->ops.n - at - 1) * sizeof(*p->ops.v));
	p->ops.n--;
}

static void insert(struct sim_hang_program *p, uint32_t at, struct sim_hang_op op)
{
	vec_push(&p->ops);
	memmove(&p->ops.v[at + 1], &p->ops.v[at], (p->ops.n - 1 - at) * sizeof(*p->ops.v));
	p->ops.v[at] = op;
}

static int desync(struct sim_hang *h, uint32_t rank, const struct sim_fault *f,
		  struct sim_hang_program *p, struct error *reterr)
{
	static const enum comm_op other[COMM_OPS] = {
		[COMM_ALL_REDUCE] = COMM_ALL_GATHER,
		[COMM_ALL_GATHER] = COMM_ALL_REDUCE,
		[COMM_REDUCE_SCATTER] = COMM_ALL_REDUCE,
		[COMM_ALL_TO_ALL] = COMM_ALL_GATHER,
		[COMM_SEND] = COMM_RECV,
		[COMM_RECV] = COMM_SEND,
	};
	uint32_t at = sim_alter_pick(h, p, rank, f, f->how != SIM_OTHER_OPERATION), members;
	struct sim_hang_op *o;

	if (at == NO_ID)
		return error_set(reterr, -EINVAL,
				 "collective-desync: rank %" PRIu32 " calls nothing %s%s", rank,
				 f->group < 0 ? "in any group" : "in the group ",
				 f->group < 0 ? "" : sim_group_names[f->group]);
	o = &p->ops.v[at];
	members = o->op.group < SIM_GROUPS ? h->s->plan.members[o->op.group] : h->s->plan.world;
	if (f->how == SIM_LEFT_OUT)
		drop(p, at);
	else if (f->how == SIM_OTHER_OPERATION)
		o->what = other[o->what];
	else if (o->op.bytes > (uint64_t)4096 * members)
		o->op.bytes -= (uint64_t)2 * members * (1 + (uint64_t)(share(h, f, rank) * 999));
	else
		o->op.bytes *= 2;
	return 0;
}

static bool share_another(const struct sim_hang *h, uint32_t rank, uint32_t a, uint32_t b)
{
	const struct sim_plan *p = &h->s->plan;

	for (uint32_t i = 0; i < p->members[a]; i++) {
		uint32_t other = h->members[a][(size_t)p->group_of[a][rank] * p->members[a] + i];

		if (other != rank && p->group_of[b][other] == p->group_of[b][rank])
			return true;
	}
	return false;
}

/* Two that follow one another, of groups that have another rank in common: else nobody minds. */
static int invert(struct sim_hang *h, uint32_t rank, const struct sim_fault *f,
		  struct sim_hang_program *p, struct error *reterr)
{
	uint32_t n = 0, want = UINT32_MAX, before = NO_ID;

	for (int pass = 0; pass < 2; pass++, before = NO_ID) {
		for (uint32_t i = 0; i < p->ops.n; i++) {
			struct sim_hang_op *o = &p->ops.v[i], *b, keep;

			if (o->op.kind != SIM_MEET || o->op.group >= SIM_GROUPS)
				continue;
			b = before == NO_ID ? NULL : &p->ops.v[before];
			before = i;
			if (!b || b->op.group == o->op.group ||
			    !share_another(h, rank, b->op.group, o->op.group))
				continue;
			if (!pass) {
				n++;
			} else if (!want--) {
				keep = *o;
				*o = *b;
				*b = keep;
				return 0;
			}
		}
		want = (uint32_t)(share(h, f, rank) * n);
	}
	return error_set(reterr, -EINVAL,
			 "order-inversion: no two groups of rank %" PRIu32
			 " that it uses one after the other have another rank in common; in "
			 "\"tp=2 dp=4\" they have",
			 rank);
}

static void leave(struct sim_hang *h, const struct sim_fault *f, struct sim_hang_program *p)
{
	struct sim_hang_op o = sim_hang_barrier(1);

	p->ops.n = 0;
	if (f->how == SIM_TO_EVALUATION) {
		insert(p, 0,
		       (struct sim_hang_op){ .op = { .kind = SIM_WORK,
						     .phase = SIM_PHASES,
						     .ns = (float)EVALUATION_NS,
						     .launch_ns = 60e3f } });
		o.barrier = false;
		o.op.bytes = 12;
		if (h->s->plan.members[SIM_DP] > 1)
			o.op.group = SIM_DP;
		insert(p, 1, o);
	} else if (f->how == SIM_TO_BARRIER) {
		insert(p, 0, o);
	} else {
		p->halts = f;
		p->halt = 0;
		p->dies = true;
	}
}

static void halt(struct sim_hang_program *p, const struct sim_fault *f, uint32_t at, bool dies)
{
	if (p->halts && p->halt <= at)
		return;
	p->halts = f;
	p->halt = at;
	p->dies = dies;
}

int sim_alter(struct sim_hang *h, uint32_t rank, const struct sim_fault *f,
	      struct sim_hang_program *p, struct error *reterr)
{
	uint32_t n = (uint32_t)p->ops.n, any = (uint32_t)(share(h, f, rank) * n);
	bool own = !f->has || f->has[rank];

	if (f->kind == SIM_SAVE) { /* all meet when the writer is done */
		insert(p, 0, sim_hang_barrier(0));
		if (own && (f->n_ranks || !rank))
			halt(p, f, 0, false);
		return 0;
	}
	if (sim_fault_starts(f)) { /* the others wait for them, and nobody begins */
		halt(p, f, 0, own && !(f->kind == SIM_CONFIGURATION && f->how == SIM_WORLD_SIZE));
		return 0;
	}
	if (!own)
		return 0;
	if (f->kind == SIM_DESYNC)
		return desync(h, rank, f, p, reterr);
	if (f->kind == SIM_INVERSION)
		return invert(h, rank, f, p, reterr);
	if (f->kind == SIM_UNEVEN)
		leave(h, f, p);
	else if (f->kind == SIM_DATA)
		halt(p, f, 0, false);
	else if (f->kind == SIM_HOST)
		halt(p, f, n * 5 / 8, false);
	else if (f->kind == SIM_MISSING)
		halt(p, f, f->from ? any : 0, false);
	else if (f->kind == SIM_DEAD || f->kind == SIM_GPU_ERROR || f->kind == SIM_PREEMPTED)
		halt(p, f, any, true);
	return 0;
}
