/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.h - a training job of any size as a model of its timing: what every rank would have recorded.
 *
 * A rank is a host that launches work and runs ahead of its GPU, a stream of compute, and transfers
 * beside it. What each stage does in a step is one program (sim_plan.h); the ranks walk through it,
 * and a collective moves when its last member has arrived. Noise is drawn from the seed, the rank,
 * the step and the place in the program, never from the faults: the same job without them differs
 * in nothing else, which gives the impact. Times are nanoseconds.
 */
#pragma once
#include "model/job.h"
#include "model/layout.h"
#include "sim/sim_fault.h"
#include "sim/sim_restart.h"

#define SIM_RANKS_MAX 131072

struct sim_options {
	struct layout layout;
	const char *layout_text;
	uint64_t seed;
	uint32_t steps;
	uint32_t micro_batches;	 /* 0: twice the stages, at least 4 */
	uint32_t chunks;	 /* virtual stages a rank holds; 1: plain 1F1B */
	uint32_t layers;	 /* of a chunk */
	uint32_t gpus_per_node;	 /* 0: 8 */
	uint32_t evaluate;	 /* every so many steps forward passes alone come first; 0: never */
	double step_ms;		 /* about how long a healthy step is */
	double noise;		 /* standard deviation of a kernel's duration, as a share */
	double lengths, routing; /* the same of sequence lengths and of tokens an expert gets */
	bool all_reduce;	 /* gradients by all-reduce; else reduce-scatter and all-gather */
	struct sim_faults faults;
	struct sim_restarts restarts;
};

struct sim;
/* 0, or -EINVAL with a detail: a layout or fault that does not fit the job. */
int sim_new(const struct sim_options *options, struct sim **ret, struct error *reterr);
struct sim *sim_free(struct sim *s); /* NULL is fine; returns NULL */
/* The job of its records: ranks, hosts, groups. Lives as long as the simulation. */
const struct job *sim_job(const struct sim *s);
/* The next step of all ranks, by row, valid until the next call; NULL: there are no more. */
struct step *const *sim_next(struct sim *s, uint64_t *ret_number);
/*
 * Traces (Kineto JSON) of these ranks, folder/rankN.json, of steps first to last (-1: no bound); to
 * be asked for before the first step. sim_trace_end completes the files. -EINVAL, or what the
 * system says.
 */
#define SIM_TRACES_MAX 256u
int sim_trace(struct sim *s, const int64_t *ranks, size_t n, const char *folder, int64_t first,
	      int64_t last, struct error *reterr);
int sim_trace_end(struct sim *s, struct error *reterr);
/*
 * What people have of a job that stands still: dumps of these ranks (none: all), its log, power,
 * stacks, the kernels' log; to be asked for before the first step. Where sim_next gives no more
 * steps, sim_evidence_write lets every rank run until it blocks, and writes. -EINVAL, or what the
 * system says.
 */
enum sim_part { SIM_DUMPS, SIM_LOG, SIM_POWER, SIM_STACKS, SIM_KERNEL_LOG, SIM_PARTS };
extern const char *const sim_part_names[SIM_PARTS];
struct sim_evidence_options {
	const char *folder;
	const int64_t *ranks;
	size_t n_ranks;
	bool gloo;   /* the dialect: else NCCL's */
	bool json;   /* else pickles */
	bool timing; /* TORCH_NCCL_ENABLE_TIMING was on: `started` is known */
	uint32_t ring;
	double timeout_s; /* of the watchdogs */
	uint32_t without; /* of enum sim_part, a bit each */
};
#define SIM_EVIDENCE_RANKS_MAX 16384u
#define SIM_EVIDENCE_CALLS_MAX (32u << 20) /* kept of the past, over all ranks dumped */
int sim_evidence(struct sim *s, const struct sim_evidence_options *options, struct error *reterr);
int sim_evidence_write(struct sim *s, struct error *reterr);
/* After it: did the job end, or does it stand? Did this fault of the options strike? */
bool sim_crashed(const struct sim *s);
bool sim_struck(const struct sim *s, size_t fault);
/* Of the step that sim_next gave last: its mean duration over the ranks; its run, from 0; does it
   lie between the first and the last step of a fault? */
double sim_step_ns(const struct sim *s);
uint32_t sim_run(const struct sim *s);
bool sim_reaches(const struct sim *s, const struct sim_fault *f);
/* When its ranks began it, the last of them; and when they ended it. */
void sim_step_span(const struct sim *s, double *ret_begin, double *ret_end);
