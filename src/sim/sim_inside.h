/* SPDX-License-Identifier: Apache-2.0 */
/* sim_inside.h - what the files of the simulator share. Nothing outside src/sim includes it. */
#pragma once
#include "base/arena.h"
#include "sim/sim_plan.h"

/* Operations that the host can launch ahead: a dozen kernels each, and the queue holds 1,024, but
   loops read a number back now and then. */
#define SIM_QUEUE 8u

/* A collective or a pair of send and receive, in one step. */
struct sim_inst {
	double latest; /* the last that has arrived; of a receiver and a sender, both */
	double done;   /* NAN until all have */
	float slow;    /* factor of faults */
	float crowd;   /* until when transfers of a member's own go on beside it, after latest */
	uint32_t arrived;
	uint32_t waiting;   /* rank + 1; 0: nobody */
	uint32_t first_bad; /* rank + 1 of a faulty pair of nodes; 0 */
};

/* A collective that the record keeps, as its rank met it. */
struct sim_kept {
	double arrive, end; /* end: NAN while it moves beside */
	double own_arrive, own_need, exposed;
	uint32_t inst;
	uint32_t op;
};

/* An operation of a rank that is traced. */
struct sim_span {
	double host; /* its launch ends */
	double start, end;
};

#define SIM_READ_NS  20e3		 /* the host reads the loss and begins the next step */
#define SIM_EPOCH_NS 1767225600000000000 /* 2026-01-01 */

struct sim_rank {
	uint32_t pc, next; /* next: of those that wait for the same, rank + 1 */
	bool arrived;	   /* at the collective at pc */
	double t;	   /* the compute stream is free */
	double host;	   /* the host launches the next at */
	double begin;	   /* of its step: the end of the work of the last */
	double step_host;  /* when its host began the step */
	double at;	   /* where it stands since */
	double blocked;	   /* time in which its own clock stood still */
	double moving; /* until when its own transfers go on beside the compute, as far as known */
	double pending[OWN_PARTS], pending_detail[HOST_DETAILS]; /* of the host, not yet felt */
	double own[OWN_PARTS], detail[HOST_DETAILS];
	double stall, stall_at;
	double lead, lead_most; /* of the host: the middle of the step, and the largest */
	double ends[SIM_QUEUE]; /* of the latest operations, by place */
	double comm, exposed;	/* of collectives */
	double phase_first[SIM_PHASES], phase_last[SIM_PHASES]; /* 0: not met */
	uint32_t last_post;					/* instance + 1 */
	uint32_t base[SIM_GROUPS]; /* its groups' first instances, of pairs its lane's */
	uint64_t noise;
	struct sim_kept *kept;		 /* [n_keep] of its program */
	struct sim_span *spans;		 /* [ops]; NULL: it is not traced */
	double stalled[HOST_DETAILS][2]; /* its host, from and to; equal: not at all */
	double saved[2];
	float *work_ns; /* [ops] duration of each; of posted ones the arrival - begin */
};

struct sim {
	struct sim_options options;
	struct sim_plan plan;	  /* of the step: one of these */
	struct sim_plan plans[2]; /* without and with an evaluation in front */
	struct sim_rank *ranks;
	struct sim_inst *insts;
	uint32_t n_insts;
	uint32_t *stack;
	uint32_t n_stack;
	uint32_t step;
	uint32_t latest;   /* the furthest it has come, in any run */
	uint32_t run;	   /* from 0; each restart begins one */
	uint32_t run_from; /* its first step */
	uint32_t renumber; /* is step 0 of it */
	float *lengths;	   /* [replica * micro_batches + micro] of this step */
	uint32_t *replica_of;
	bool spans[SIM_GROUPS]; /* groups of a kind reach over several nodes */
	const struct sim_fault **active;
	size_t n_active;
	double step_ns;
	/* traces */
	struct sim_trace *traces;
	size_t n_traces;
	const char *trace_folder;
	uint32_t trace_first, trace_last;
	struct sim_evidence *evidence; /* of a hang; NULL: not asked for */
	/* records */
	struct job job;
	struct arena arena; /* of a step */
	struct step *steps;
	struct step **step_of;
	uint32_t phase_ids[SIM_PHASES], kernel_ids[SIM_KERNELS], what_ids[HOST_DETAILS];
	double *offset, *drift;		/* of each rank's clock */
	uint32_t (*groups)[SIM_GROUPS]; /* [world] row of rank_info.groups; NO_ID */
};

/* A number in 0..1 and one about 0 with deviation 1, from the seed and what they are for. */
double sim_share(uint64_t seed, uint64_t a, uint64_t b);
double sim_normal(uint64_t seed, uint64_t a, uint64_t b);

bool sim_evaluates(const struct sim *s, uint32_t step);
/* Operations of a stage's longest step. */
size_t sim_ops_most(const struct sim *s, uint32_t stage);
/* Which of the step's instances a rank's collective is. */
uint32_t sim_inst_of(const struct sim *s, uint32_t rank, const struct sim_op *op);
/* sim_restart.c */
void sim_restart_due(struct sim *s);
/* Has the rank a record of this step? */
bool sim_recorded(const struct sim *s, uint32_t rank);
/* The number of the present step, as the run counts. */
static inline uint32_t sim_number(const struct sim *s)
{
	return s->step - s->renumber;
}
/* What noise is drawn for: a step that is done again has other noise. */
static inline uint64_t sim_moment(const struct sim *s)
{
	return (uint64_t)s->run << 32 | s->step;
}

/* What follows are the files of another run. */
void sim_trace_run(struct sim *s);
void sim_trace_step(struct sim *s);
void sim_past_step(struct sim *s);
void sim_evidence_free(struct sim *s);

void sim_record_init(struct sim *s);
void sim_record_step(struct sim *s);
void sim_record_done(struct sim *s);
