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
	/* Those of which the job never goes on. */
	SIM_UNEVEN,    /* ranks leave their loop early */
	SIM_DESYNC,    /* they call another operation or size, or leave one out */
	SIM_INVERSION, /* they call two groups' operations in the other order */
	SIM_DEAD,      /* their processes are gone */
	SIM_MISSING,   /* they live, and never come */
	SIM_STUCK,     /* all have come to a collective, and it does not move */
	SIM_GPU_ERROR,
	SIM_NETWORK_ERROR,
	SIM_PREEMPTED,
	/* Those with which it never begins. */
	SIM_RENDEZVOUS,	   /* ranks do not come to the store */
	SIM_CONFIGURATION, /* they are started with settings that cannot work */
	SIM_FAULT_KINDS
};

/* detail= of the faults of which the job never goes on, in the order of their words. */
enum sim_leaving { SIM_TO_BARRIER, SIM_TO_EVALUATION, SIM_TO_EXIT };
enum sim_difference { SIM_OTHER_SIZE, SIM_OTHER_OPERATION, SIM_LEFT_OUT };
enum sim_death { SIM_KILLED, SIM_EXCEPTION, SIM_OUT_OF_MEMORY };
enum sim_missing { SIM_ALIVE, SIM_SILENT };
enum sim_apart { SIM_NEVER_CAME, SIM_NO_WAY, SIM_STILL_WAITED };
enum sim_setting { SIM_DEVICE, SIM_PORT, SIM_WORLD_SIZE };

struct sim_fault {
	enum sim_fault_kind kind;
	int64_t *ranks; /* ascending; none: all */
	size_t n_ranks;
	uint8_t *has;  /* [world] of ranks; set by sim_new */
	int phase;     /* enum sim_phase; -1: all */
	int stage;     /* -1 */
	int rail;      /* -1 */
	bool pair;     /* transfers between the ranks only: a pair of nodes */
	double factor; /* of durations */
	double drift;  /* instead: 1 in the step before from, and so much more each step; 0: no */
	double ms;     /* of stalls */
	int64_t from, to; /* steps, both included */
	int64_t every;	  /* steps between waves or events; 1: each */
	int64_t last;	  /* steps that a wave lasts */
	enum host_detail detail;
	int how;       /* which of the words of detail= */
	int group;     /* enum sim_group; -1: the first that there is */
	int64_t fewer; /* steps that it leaves early */
	bool launcher; /* it notices the dead, and ends their nodes */
	int64_t run;   /* of a job that is started again, in which alone it acts; -1: any */
};

struct sim_faults {
	struct sim_fault *v; /* malloc'd */
	size_t n;
};

struct sim_fault_info {
	const char *name;
	enum cause cause;
	const char *words;   /* what it does, and its keys */
	const char *details; /* of detail=, "a|b"; NULL: none, or the host's */
};
extern const struct sim_fault_info sim_fault_infos[SIM_FAULT_KINDS];

/* Adds one. -EINVAL with a detail that names the word that is wrong. */
int sim_fault_parse(struct sim_faults *faults, const char *text, struct error *reterr);
void sim_faults_done(struct sim_faults *faults);
/* Does it keep the job from ever going on? */
bool sim_fault_hangs(const struct sim_fault *f);
/* Does it keep the job from ever beginning? */
bool sim_fault_starts(const struct sim_fault *f);
/* The cause that is the truth, since a death may have words. */
enum cause sim_fault_cause(const struct sim_fault *f);
/* The step in which it strikes, of a job of so many steps. */
int64_t sim_fault_step(const struct sim_fault *f, uint32_t steps);
/* What durations are multiplied by in this step. */
double sim_fault_factor(const struct sim_fault *f, int64_t step);
/*
 * Does the fault act in this step? latest: the furthest that the job has come, itself included. A
 * fault begins when its first step is come to, and ends when its last one was done, whatever steps
 * are done again after a restart.
 */
bool sim_fault_on(const struct sim_fault *f, int64_t step, int64_t latest, uint32_t run);
bool sim_fault_reaches(const struct sim_fault *f, int64_t latest, uint32_t run);
/* A number of a key=value between two bounds. */
bool sim_number_in(const char *value, double low, double high, double *ret);
bool sim_whole_in(const char *value, int64_t low, int64_t high, int64_t *ret);
