/* SPDX-License-Identifier: Apache-2.0 */
/* sim_words.h - how groups, collectives and host work are called in what is written out. */
#pragma once
#include "sim/sim_plan.h"

extern const char *const sim_group_descs[SIM_GROUPS + 1]; /* the last: of all ranks */
extern const char *const sim_detail_words[HOST_DETAILS];

struct sim_comm_words {
	const char *name, *kernel;   /* of a Kineto trace */
	const char *recorder, *gloo; /* of the Flight Recorder; NULL: Gloo records none */
	const char *watchdog;	     /* OpType of the watchdog's lines */
	const char *function;	     /* of torch.distributed */
	uint32_t line;		     /* where it is in distributed_c10d.py */
};
extern const struct sim_comm_words sim_comm_words[COMM_OPS];
