/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent.h - the process beside the job: finds rings, folds them, writes segments, answers
 * Prometheus. It never touches the job but for removing the rings of the dead.
 */
#pragma once
#include "agent/segment.h"

struct agent_options {
	const char *const *rings; /* folders; n_rings 0: the user's own, or all as root */
	size_t n_rings;
	const char *out;
	const char *listen; /* HOST:PORT on a loopback address, or the path of a socket; NULL: the
			       socket in out */
	struct segment_limits limits;
	bool once;	   /* take what the rings hold, and end */
	bool while_traced; /* end when no `lockstep trace` holds the folder any more */
	void (*say)(const char *format, ...) PRINTF_LIKE(1, 2); /* one line for people */
};
/* 0; -EBUSY: another agent has the folder; any other negative errno with detail. */
int agent_run(const struct agent_options *options, struct error *reterr);

#define AGENT_LOCK   ".lockstep-agent"	/* in out: held by its one agent */
#define AGENT_TRACES ".lockstep-traces" /* in out: shared by each `lockstep trace` */
#define AGENT_STATE  ".lockstep-state"
#define AGENT_SOCKET ".lockstep-metrics"
