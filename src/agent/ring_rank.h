/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_rank.h - one training process as the agent follows it: its ring, and the fold of what that
 * tells.
 */
#pragma once
#include "agent/ring_read.h"
#include "fold/stream.h"
#include "model/rank_standing.h"

#define RANK_SNAPSHOTS 64u

/* Steps of a rank rise. A program that counts anew, as in every epoch, is counted on: `more` is
   what its numbers lack. */
struct rank_count {
	uint64_t last, more; /* last: as it is told */
	bool any;
};

/* Where the ring had been read up to at a moment: who begins again there misses nothing that ended
   later. */
struct rank_snapshot {
	int64_t time;
	struct rank_count count;
	uint64_t cursor[RING_READ_SLOTS];
};

struct rank_name {
	uint32_t id; /* in the fold's names; NO_ID: not looked up */
	uint16_t kinds;
	bool comm; /* a kernel of a communication library */
};

struct rank_span {
	int64_t start, end;
	uint32_t slot;
	uint8_t kind, depth, phase; /* enum ring_kind, ring_phase */
	bool done;
};

struct rank_value {
	int64_t time;
	double value;
};

/* Kernels that ran one after another for one phase. */
struct rank_run {
	int64_t start, end, busy;
	uint32_t phase; /* its name in the fold */
};

struct rank_live {
	struct ring_file *ring;
	struct fold_stream *fold;
	struct rank_name *names; /* by id */
	size_t n_names, cap_names;
	uint64_t cursor_seen[RING_READ_SLOTS];
	VEC(struct rank_span) spans;   /* of CPU jobs, the latest: what a thread waited for */
	VEC(struct stream_mark) marks; /* read, and not yet told to the fold */
	VEC(struct rank_value) tokens;
	VEC(struct rank_run) runs; /* where no launch tells which phase a kernel is of */
	bool launches;
	struct rank_count count;
	bool comm_kernels, opened;
	bool tells_waits;	/* by phases of RANK_WAIT_NAME */
	int64_t last_mark_end;	/* before the first mark: when the process began */
	int64_t polled, marked; /* time of the last reading, of the last that gave marks */
	int64_t partial_until; /* records before are missing: steps that began before are partial */
	uint64_t overtaken_seen;
	int64_t gpu_until, gpu_moved; /* the latest start of GPU work, and when it was news */
	uint64_t lost_before, lost;   /* records: told with the next step */
	uint64_t strange;
	bool profiled;
	VEC(struct rank_snapshot) snapshots;
	int64_t skip_until;	/* number of the last step that is on disk already; -1 */
	int64_t floor, horizon; /* what begins before the process, or in the future, is not believed
				 */
	VEC(struct standing_coll) done; /* the last of each group; groups by name in the ring */
	struct arena arena;
	double fill; /* the fullest slot at the last reading, of its capacity */
};
/* Where the process stands by its ring; names are of *ret_names. false: nothing is open or under
   way. Valid until the next call. */
bool rank_standing(struct rank_live *r, struct rank_standing *ret, const struct intern **ret_names);

/* Takes the ring over. */
struct rank_live *rank_new(struct ring_file *ring, struct fold_scratch *scratch);
struct rank_live *rank_free(struct rank_live *r); /* NULL is fine; returns NULL */

/* Reads what came and plays it. now: epoch ns; dead: nothing more is to come. -EBADMSG: the ring is
   to be given up. */
int rank_poll(struct rank_live *r, int64_t now, bool dead, struct error *reterr);
/* The next step that ended; as fold_stream_next. */
bool rank_next(struct rank_live *r, struct step *ret, const struct intern **ret_names);
/* Where to begin again so that no step after the one that ended at `end` is missed. */
const struct rank_snapshot *rank_resume(const struct rank_live *r, int64_t end);
uint64_t rank_lost(const struct rank_live *r); /* all records that were lost, for any reason */
