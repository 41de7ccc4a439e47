/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_plan.h - what the ranks of a stage do in one step, in order, and who meets whom in it.
 *
 * Every rank of a stage runs the same program. Its collectives are told by group kind and place:
 * the n-th of a kind is the same one for all members of a group.
 */
#pragma once
#include "sim/sim.h"

enum sim_phase {
	SIM_DATA_PHASE,
	SIM_EMBEDDING,
	SIM_ATTENTION,
	SIM_MLP,
	SIM_DISPATCH,
	SIM_COMBINE,
	SIM_HEAD,
	SIM_GRADIENTS,
	SIM_OPTIMIZER,
	SIM_PHASES,
	/* of faults only: all that a layer computes on its way */
	SIM_FORWARD = SIM_PHASES,
	SIM_BACKWARD,
	SIM_PHASE_WORDS
};
extern const char *const sim_phase_names[SIM_PHASE_WORDS];

enum sim_group { SIM_TP, SIM_CP, SIM_DP, SIM_EP, SIM_MP, SIM_PP, SIM_GROUPS };
extern const char *const sim_group_names[SIM_GROUPS];

enum sim_op_kind {
	SIM_WORK,  /* compute */
	SIM_MEET,  /* a collective that the compute behind it needs */
	SIM_POST,  /* one that moves beside the compute */
	SIM_AWAIT, /* the compute behind needs all posted ones */
	SIM_SEND,
	SIM_RECV,
};

struct sim_op {
	uint8_t kind, phase, group;
	uint8_t kernel; /* of SIM_WORK: row of sim_kernel_names */
	uint16_t row;	/* of collectives: row of the step's comms */
	int16_t keep;	/* of collectives: place among those that the record keeps; -1 */
	uint16_t micro;
	int8_t by;   /* send, recv: the neighbour, +1 or -1 stage (it wraps with chunks) */
	bool slowed; /* by the regression of a kernel of its phase */
	bool forward, backward;	       /* of a layer */
	bool with_length, with_tokens; /* its duration follows the sequence's, the expert's share */
	uint32_t place; /* among those of its group kind; of send and recv see sim_plan.c */
	float ns;	/* on a healthy rank, without noise; transfers: once all have arrived */
	float launch_ns;
	uint64_t bytes;
};

struct sim_row {
	uint8_t group;
	enum comm_op op;
	uint64_t bytes; /* of one */
	uint32_t count;
};
#define SIM_ROWS_MAX 24
#define SIM_KEEP     16 /* of a row; the record's limit */

struct sim_program {
	VEC(struct sim_op) ops;
	struct sim_row rows[SIM_ROWS_MAX];
	uint32_t n_rows, n_keep;
};

enum { SIM_KERNELS = 7 };
extern const char *const sim_kernel_names[SIM_KERNELS];

struct sim_plan {
	const struct sim_options *options;
	uint32_t world, stages, lanes; /* lanes: ranks of a stage */
	uint32_t micro_batches, chunks;
	uint32_t evaluation;		/* micro-batches of an evaluation in front; 0: none */
	struct sim_program *programs;	/* [stages] */
	uint32_t of_kind[SIM_GROUPS];	/* collectives of a kind in a step, over stages the most */
	uint32_t groups[SIM_GROUPS];	/* groups of a kind */
	uint32_t members[SIM_GROUPS];	/* of each */
	uint32_t spans[SIM_GROUPS];	/* ranks from the first to the last member of group 0 */
	uint32_t *group_of[SIM_GROUPS]; /* [world] */
	uint32_t *stage_of, *lane_of;	/* [world] */
	uint32_t *rank_at;		/* [stage * lanes + lane] */
	uint32_t first_inst[SIM_GROUPS + 1]; /* where a kind's instances begin */
};

/* evaluates: of the steps that an evaluation comes before. */
void sim_plan_make(struct sim_plan *p, const struct sim_options *options, bool evaluates);
void sim_plan_done(struct sim_plan *p);
