/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight.h - the gate before a job: six invariants, each measured on every node, judged at one.
 *
 * A node's part is facts (JSON), never a verdict; the judge sees all parts and says of each
 * invariant what was measured, what the limit is, who is at odds, and what to do. Every probe runs
 * in a child with a deadline: one that hangs is a finding, not a hang.
 */
#pragma once
#include <jansson.h>
#include <stdio.h>

#include "meet/meet.h"

enum invariant {
	INVARIANT_BLOCKS,      /* every rank has work for the same number of steps, or is evened */
	INVARIANT_AGREEMENT,   /* world size, numbering, versions, configuration, code, data */
	INVARIANT_GPUS,	       /* count, memory, no strangers, no XID, ECC or throttling */
	INVARIANT_FABRIC,      /* address, port, interfaces, clock skew, NCCL's environment */
	INVARIANT_STORAGE,     /* checkpoints fit and can be written, /dev/shm, limits */
	INVARIANT_RECOVERABLE, /* periodic saves, Flight Recorder, watchdog, watcher */
	INVARIANTS
};
const char *invariant_name(enum invariant i); /* "blocks", "agreement", "gpus", .. */

enum strictness { STRICT_REFUSE, STRICT_WARN, STRICT_OFF };

/* What is measured against a number: a table of names, defaults and units stands behind it. */
enum preflight_limit {
	LIMIT_LATE_MS,
	LIMIT_SKEW_MS,
	LIMIT_GPU_USED_MIB,
	LIMIT_GPU_BUSY_PCT,
	LIMIT_XID_HOURS,
	LIMIT_WRITE_MS,
	LIMIT_INODES,
	LIMIT_SHM_MIB,
	LIMIT_OPEN_FILES,
	LIMIT_MEMLOCK_MIB,
	LIMIT_MEMORY_MIB,
	LIMIT_AT_RISK_GPU_HOURS,
	PREFLIGHT_LIMITS
};
struct preflight_limit_row {
	const char *name; /* "skew-ms" */
	int64_t value;	  /* default */
	const char *what;
};
const struct preflight_limit_row *preflight_limit_rows(void);

/* What was asked for; strings are the caller's. Unknown numbers are -1, unknown strings NULL. */
struct preflight_plan {
	enum strictness strict[INVARIANTS];
	bool asked[INVARIANTS];	   /* by name: what is not given then cannot be told */
	const char *strict_checks; /* of single checks, "fabric.clock=warn,..", NULL */
	int64_t limits[PREFLIGHT_LIMITS];
	uint32_t probe_ms; /* deadline of one probe; default 10,000; counting has ten times that */
	int64_t world_size, first_rank, ranks_here;
	int64_t gpus_here;  /* wanted; -1: not asked */
	int64_t nodes_said; /* by the launcher, wherever nodes meet; -1 */
	/* blocks */
	const char *const *blocks; /* counts files, shards, folders: src/read/shards.h */
	size_t n_blocks;
	int64_t sequence_length, blocks_per_step;
	const char *length_field; /* of a record; NULL */
	bool strided;		  /* shards are dealt to ranks in turn */
	bool evened;		  /* the job evens its steps itself */
	bool keep_last;		  /* a partial last step is run */
	/* agreement */
	const char *const *data, *const *config; /* files and folders */
	size_t n_data, n_config;
	const char *code;   /* a git work tree */
	bool hash_data;	    /* whole files, not their first and last MiB */
	const char *python; /* asked for versions; "python3" */
	/* fabric */
	const char *rendezvous; /* host:port of the job's own store */
	/* storage, recoverable */
	const char *checkpoints;  /* folder */
	int64_t checkpoint_bytes; /* of the next one; -1: as the newest */
	int64_t checkpoints_kept; /* room for so many; default 2 */
	int64_t save_steps;	  /* between saves; 0: only at the end; -1: not said */
	int64_t save_every_s;	  /* seconds between saves; -1: not said */
	int64_t step_ms;	  /* of one step; -1: not said */
	int64_t save_seconds;	  /* that one save takes */
	int64_t watchdog_seconds; /* collective time-out; -1: PyTorch's default by version */
	bool watched;		  /* a watcher is armed */
};
void preflight_plan_init(struct preflight_plan *p);
/*
 * Fills what is still unknown, of both plans, from what torchrun, Slurm and mpirun set; first_rank
 * and ranks_here follow from world_size and the node's number where all nodes have as many.
 */
void preflight_plan_environment(struct preflight_plan *p, struct meet_plan *m);
/* "gpus=warn,fabric.clock=off": of invariants and, with a dot, of checks. -EINVAL with detail. */
int preflight_strict(struct preflight_plan *p, const char *list, struct error *reterr);
/* "skew-ms=100,shm-mib=64". -EINVAL with detail. */
int preflight_limits(struct preflight_plan *p, const char *list, struct error *reterr);
/* "blocks,gpus": only these (true), or all but these. -EINVAL with detail. */
int preflight_choose(struct preflight_plan *p, const char *list, bool only, struct error *reterr);

/* This node's facts; always gives a part, a probe that failed is in it. The caller decrefs. */
json_t *preflight_part(const struct preflight_plan *p);
/* For a signal's handler: removes what a probe of preflight_part may leave behind. */
void preflight_tidy(void);
/* "" or the folder under which /sys and /proc stand (for tests: $LOCKSTEP_PREFLIGHT_ROOT). */
const char *preflight_root(void);
/*
 * The verdict of all parts, as docs/guard.md describes it: {"verdict": "ready" | "refused" |
 * "cannot-tell", "checks": [{"invariant", "name", "state": "ok" | "warn" | "refuse" | "unknown",
 * "measured", "limit", "hosts", "ranks", "remedy"}], ..}. A node that did not come refuses.
 */
json_t *preflight_judge(const struct preflight_plan *p, const struct meet_part *parts, size_t n);
/* For people, at most 100 columns. brief: of the checks only those that are not well. */
void preflight_print(FILE *out, const json_t *verdict, bool brief);
/* The verdict without the checks that are well; a new reference. */
json_t *preflight_brief(const json_t *verdict);
int preflight_status(const json_t *verdict); /* 0 ready, 1 refused, 2 cannot tell */

/* All of it: part, meeting, verdict. The verdict, or NULL with detail. */
json_t *preflight_run(const struct preflight_plan *p, const struct meet_plan *meet,
		      struct error *reterr);
