/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_hang.h - the moment at which a job stands still: where each rank waits, what it has called.
 *
 * Nothing outside src/sim includes it. The steps before are those of sim_run.c; from the step in
 * which the first fault strikes that hangs a job, every rank walks on until it blocks. Who waits
 * for whom is what comes out of it.
 */
#pragma once
#include "sim/sim_inside.h"

#define SIM_WORLD      SIM_GROUPS /* the group of all ranks, default_pg */
#define SIM_HANG_STEPS 8u	  /* so many steps at most some ranks go on while others stand */

/* Where members meet. */
struct sim_meeting {
	double latest; /* arrival */
	double done;   /* NAN: not yet, or never */
	double dies;   /* the first of its members does */
	float ns;
	uint32_t arrived;
	uint32_t waiting; /* rank + 1; 0: nobody */
	uint32_t words;	  /* what the first brought; SIM_BROKEN: it never ends; 0: nobody came */
};
#define SIM_BROKEN UINT32_MAX

/* A collective or a transfer as a rank called it. */
struct sim_call {
	double created; /* its host enqueued it */
	double begun;	/* its kernel runs; NAN: not yet */
	double ended;	/* NAN: not yet */
	uint64_t bytes;
	uint32_t step, seq, peer; /* seq: of its group, from 1; transfers have their own count */
	uint8_t group, what, phase;
	bool barrier, backward;
	struct sim_meeting *meeting; /* of the steps that hang; NULL: it has not arrived */
};

enum sim_stand {
	SIM_RUNS,
	SIM_WAITS, /* a collective's kernel spins on its GPU */
	SIM_IDLE,  /* its host launches nothing, its GPU has nothing to do */
	SIM_GONE,  /* no process */
	SIM_ENDED, /* it came to the end of its program */
};

/* What a rank does in a step when something is wrong with it. */
struct sim_hang_op {
	struct sim_op op;
	enum comm_op what;
	bool barrier;
};
struct sim_hang_program {
	VEC(struct sim_hang_op) ops;
	const struct sim_fault *halts; /* its host launches nothing from `halt` on; NULL */
	uint32_t halt;
	bool dies; /* there, and its kernels with it */
};

struct sim_hang_rank {
	const struct sim_hang_program *program;
	uint32_t step, pc, next;
	bool arrived;
	double t, host, ends[SIM_QUEUE];
	double died; /* INFINITY: it lives */
	struct sim_meeting *last_post;
	uint32_t seq[SIM_GROUPS + 1];
	VEC(struct sim_call) calls; /* of the steps that hang */
	enum sim_stand stand;
	const struct sim_fault *fault; /* that stopped it; NULL */
};

struct sim_hang {
	struct sim *s;
	uint32_t step;			/* in which it strikes */
	uint32_t queue;			/* operations that a host runs ahead */
	struct sim_hang_rank *ranks;	/* [world] */
	struct sim_hang_program *plain; /* [stages] */
	struct sim_hang_program last;	/* when all steps are done */
	VEC(struct sim_hang_program *) altered;
	struct sim_meeting *blocks[SIM_HANG_STEPS];
	struct sim_meeting barrier[2]; /* of all ranks: before a save or at the end */
	uint32_t *stack;
	size_t n_stack;
	uint32_t (*before)[SIM_GROUPS]; /* [stages] and before the step that hangs */
	uint32_t (*counts)[SIM_GROUPS]; /* [stages] calls of a kind in a step */
	uint32_t *members[SIM_GROUPS], *local[SIM_GROUPS];
	double since; /* the last moment at which anything moved */
};

/* The step in which the first of the faults strikes that hang a job; UINT32_MAX: none does. */
uint32_t sim_hang_step(const struct sim_options *options);
/* After the steps before it. -EINVAL with a detail: a fault that cannot act on its rank, or does
   not make the job hang. */
int sim_hang_run(struct sim *s, bool gloo, struct sim_hang **ret, struct error *reterr);
struct sim_hang *sim_hang_free(struct sim_hang *h);
/* sim_past.c: what a rank of a stage has called in a kind of group before the step. */
uint32_t sim_called_before(const struct sim *s, uint32_t stage, uint32_t group, uint32_t step);
struct sim_hang_op sim_hang_barrier(uint32_t place);
/* Does its GPU spin in a collective? */
bool sim_hang_spins(const struct sim_hang_rank *r);
/* The pending call that was enqueued first; NULL: none. */
const struct sim_call *sim_hang_oldest(const struct sim_hang_rank *r);

/* sim_alter.c */
int sim_alter(struct sim_hang *h, uint32_t rank, const struct sim_fault *f,
	      struct sim_hang_program *p, struct error *reterr);
/* Which of a program's collectives a fault picks; NO_ID: none fits. */
uint32_t sim_alter_pick(const struct sim_hang *h, const struct sim_hang_program *p, uint32_t rank,
			const struct sim_fault *f, bool pairs);
