/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect_run.h - evidence of this node's live ranks, gathered into a folder.
 *
 * The folder is what `lockstep diagnose` reads: rank3/pyspy.txt, rank3/nccl_trace_rank_3,
 * host_NAME/nvidia-smi.csv, and collect.json, which says who stood where and what every probe gave.
 */
#pragma once
#include "node/probe.h"
#include "node/rank_find.h"

struct collect_options {
	const char *out; /* NULL: lockstep-evidence-HOST-TIME in the working folder */
	const pid_t *pids;
	size_t n_pids;
	const char *below; /* a folder in out, of one of several jobs; NULL: out itself */
	bool redact;
};

struct collect {
	char *folder;	    /* where it lies */
	char *host, *shown; /* shown: as it is called in what is written */
	int64_t time_ns;
	struct rank_list ranks;
	VEC(struct probe) probes;
	VEC(char *) left_out; /* files that could not be redacted: not kept */
	size_t names_replaced;
	uint64_t bytes;
};

/* 0, or a negative errno with detail when nothing could be written. */
int collect_run(const struct collect_options *o, struct collect *ret, struct error *reterr);
void collect_done(struct collect *c);
