/* SPDX-License-Identifier: Apache-2.0 */
/* cause.h - the closed list of causes, with what `lockstep explain CAUSE` says of each. */
#pragma once
#include "base/base.h"

enum cause {
	CAUSE_UNKNOWN,
	CAUSE_COMPUTE_STRAGGLER,
	CAUSE_THROTTLING,
	CAUSE_COMM_LINK,
	CAUSE_HOST_STALL,
	CAUSE_DATA_STARVED,
	CAUSE_PIPELINE_IMBALANCE,
	CAUSE_WORKLOAD_IMBALANCE,
	CAUSE_KERNEL_REGRESSION,
	CAUSE_CHECKPOINT,
	CAUSE_UNEVEN_STEPS,
	CAUSE_COLLECTIVE_DESYNC,
	CAUSE_MISSING_RANK,
	CAUSE_DEAD_RANK,
	CAUSE_COLLECTIVE_STUCK,
	CAUSE_OUT_OF_MEMORY,
	CAUSE_EXCEPTION,
	CAUSE_GPU_ERROR,
	CAUSE_NETWORK_ERROR,
	CAUSE_RENDEZVOUS,
	CAUSE_PREEMPTED,
	CAUSE_CONFIGURATION,
	CAUSES,
};

struct cause_info {
	const char *name;	   /* "compute-straggler" */
	const char *when;	   /* the rule, one sentence */
	const char *confused_with; /* what looks alike */
	const char *settles;	   /* what tells them apart */
	const char *action;	   /* default action of a finding: "replace-node", .. */
	const char *then;	   /* what to do about it, in words */
};
const struct cause_info *cause_info(enum cause cause);
enum cause cause_find(const char *name); /* CAUSE_UNKNOWN for any value that is not known */
