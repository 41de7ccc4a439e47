/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_fault.h - what is wrong with a simulated job: "compute-straggler ranks=8-15 factor=2
 * from=10".
 *
 * The first word is a cause; the others say where, how much and when. --list-faults explains each.
 */
#pragma once
#include "base/base.h"
#include "model/cause.h"
#include "model/step.h"

enum sim_fault_kind {
	SIM_COMPUTE,	/* ranks compute slower */
	SIM_THROTTLING, /* the same in waves */
	SIM_LINK,	/* transfers of ranks, of a pair of nodes or of a rail are slower */
	SIM_HOST,	/* the host stands still before it launches */
	SIM_DATA,	/* the data loader is late */
	SIM_SAVE,	/* a checkpoint's save */
	SIM_STAGE,	/* a stage has more work */
	SIM_WORKLOAD,	/* replicas get longer sequences, now these, now those */
	SIM_KERNEL,	/* one kernel is slower on all ranks */
	SIM_FAULT_KINDS
};

struct sim_fault {
	enum sim_fault_kind kind;
	int64_t *ranks; /* ascending; none: all */
	size_t n_ranks;
	uint8_t *has;	  /* [world] of ranks; set by sim_new */
	int phase;	  /* enum sim_phase; -1: all */
	int stage;	  /* -1 */
	int rail;	  /* -1 */
	bool pair;	  /* transfers between the ranks only: a pair of nodes */
	double factor;	  /* of durations */
	double ms;	  /* of stalls */
	int64_t from, to; /* steps, both included */
	int64_t every;	  /* steps between waves or events; 1: each */
	int64_t last;	  /* steps that a wave lasts */
	enum host_detail detail;
};

struct sim_faults {
	struct sim_fault *v; /* malloc'd */
	size_t n;
};

struct sim_fault_info {
	const char *name;
	enum cause cause;
	const char *words; /* what it does, and its keys */
};
extern const struct sim_fault_info sim_fault_infos[SIM_FAULT_KINDS];

/* Adds one. -EINVAL with a detail that names the word that is wrong. */
int sim_fault_parse(struct sim_faults *faults, const char *text, struct error *reterr);
void sim_faults_done(struct sim_faults *faults);
/* Does the fault act in this step? */
bool sim_fault_on(const struct sim_fault *f, int64_t step);
