/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.h - the record of slowness: one rank, one step. What fold gives, .lks keeps and judge reads.
 *
 * The rank's own clock is its central idea. It runs while the rank works or its host dawdles, and
 * stands still while the rank waits for a collective with nothing else to do. Where collectives
 * hide a slow rank's delay by making everybody's step equally long, own clocks still differ: the
 * rank whose own clock advances furthest in a step is the one the others wait for. Each collective
 * carries the own time of its arrival, and of the moment at which the rank began to need it, so
 * that judge can replay the step with any rank's work replaced by its peers'.
 *
 * Times inside a step are nanoseconds since step.start_ns. Strings are ids in a struct intern.
 */
#pragma once
#include "base/arena.h"
#include "model/event.h"
#include "base/buf.h"
#include "model/hist.h"

enum step_flag {
	STEP_WARM_UP = 1 << 0,
	STEP_CHECKPOINT = 1 << 1,
	STEP_EVALUATION = 1 << 2,
	STEP_KERNELS_UNKNOWN = 1 << 3, /* the host's side alone was traced */
	STEP_WHOLE_FILE = 1 << 4,      /* no step marks: the file is one window */
	STEP_PARTIAL = 1 << 5,	       /* the recording began or ended inside it */
	STEP_NO_LAUNCHES = 1 << 6,     /* kernels without their launches: idle reasons unknown */
	STEP_PROFILED = 1 << 7,	       /* another tool profiled it: slower than others */
};

/* Where the rank's own time went. The parts add up to own_ns. */
enum own_part {
	OWN_COMPUTE, /* kernels (CPU jobs: operators) ran */
	OWN_COPY,    /* only memory copies or sets ran */
	OWN_HOST,    /* nothing ran: the host had not launched */
	OWN_DATA,    /* nothing ran: the host was in its data loader */
	OWN_SAVE,    /* nothing ran: the host was in a checkpoint's range */
	OWN_LAUNCH, /* nothing ran, but the next work was launched: latency between launch and start
		     */
	OWN_PARTS,
};
const char *own_part_name(enum own_part part);

/* What the host was in while OWN_HOST ran, as far as the trace says. */
enum host_detail {
	HOST_UNKNOWN,
	HOST_COMPILE,
	HOST_GC,
	HOST_PYTHON,
	HOST_IO,
	HOST_SYNC,
	HOST_DETAILS
};
const char *host_detail_name(enum host_detail detail);

/* A named range of the host, in order of first start; nested ranges are counted in each. */
struct step_phase {
	uint32_t name;
	uint32_t count;
	int64_t first_start_ns, last_end_ns;
	int64_t total_ns, longest_ns;
	int64_t exposed_ns; /* of total, what the rank's own clock ran */
	int64_t gpu_ns;	    /* union of the compute kernels launched inside it; 0 on CPU jobs */
};

/* One kernel name on one class of stream. Collective kernels are in colls, not here. */
struct step_kernel {
	uint32_t name;
	uint32_t stream_class; /* 0: the stream with most compute; 1..: others in order of work */
	uint32_t count;
	int64_t sum_ns, max_ns;
	uint64_t blocks;  /* of a launch's grid, mean; 0: unknown */
	struct hist hist; /* of durations */
};

/* All collectives of one operation, group and size class that the step started. */
struct step_comm {
	uint32_t group; /* row of rank_info.groups */
	enum comm_op op;
	uint32_t count;
	int64_t first_seq, last_seq; /* -1: unknown */
	uint64_t bytes;		     /* summed; elements x size of dtype, 0: unknown */
	int64_t sum_ns, min_ns, max_ns;
	uint64_t order_hash; /* over operations and sizes in order */
};

/* One collective. From traces all of them, live up to 16 a row, chosen by sequence number. */
struct step_coll {
	uint32_t comm;	/* row of step.comms */
	int32_t peer;	/* send and recv; -1: none */
	int64_t seq;	/* -1: unknown; then the order within (group, op, bytes) pairs them */
	uint64_t bytes; /* 0: unknown */
	int64_t start_ns, end_ns;
	int64_t call_ns; /* when the host called it; INT64_MIN: unknown. May lie before the step */
	int64_t own_arrive_ns; /* own clock at start_ns */
	int64_t own_need_ns; /* own clock at which the rank stood still for it; -1: it never did */
	int64_t exposed_ns;  /* of its duration, while the own clock stood still because of it */
};

struct step {
	uint32_t rank_row; /* row of the job's ranks */
	uint64_t number;
	uint32_t flags;
	int64_t start_ns; /* epoch or trace time of the step's window */
	int64_t
	    mark_ns; /* duration of the step mark on the host (ProfilerStep): what people know */
	int64_t wall_ns; /* duration of the window: on GPUs from the end of the last step's work to
			    the end of this one's, on CPU jobs the mark */
	int64_t own_ns;	 /* the own clock at the window's end = sum of own[] */
	int64_t own[OWN_PARTS];
	int64_t host_detail_ns[HOST_DETAILS]; /* of own[OWN_HOST] */
	uint32_t host_what;	  /* the range or function that held most of it; NO_ID */
	int64_t longest_stall_ns; /* the longest single stretch of OWN_HOST + OWN_DATA + OWN_SAVE */
	int64_t longest_stall_at_ns;
	int64_t compute_ns, comm_ns, copy_ns; /* unions, each of its own kind */
	int64_t comm_exposed_ns;	      /* comm_ns without what compute or copies covered */
	int64_t launch_delay_p50_ns, launch_delay_p99_ns; /* launch to start, compute only; -1 */
	int64_t gc_ns, data_wait_ns, sync_ns;		  /* of the host, hidden or not */
	uint64_t tokens;				  /* 0: unknown */
	uint64_t dropped;				  /* events lost before they were counted */

	struct step_phase *phases;
	struct step_kernel *kernels;
	struct step_comm *comms;
	struct step_coll *colls; /* by start_ns */
	uint32_t n_phases, n_kernels, n_comms, n_colls;
};

/* What is known of one rank beside its steps: the head of its records. */
struct rank_group {
	uint32_t name, desc; /* interned; NO_ID: unknown */
	uint32_t size;	     /* 0: unknown */
	uint32_t *ranks;     /* sorted; NULL: unknown */
	uint32_t n_ranks;
};

struct rank_info {
	int64_t rank; /* -1: unknown, then `unknown` is its number for people (unknown-1) */
	uint32_t unknown;
	int64_t world_size; /* -1 */
	uint32_t host, gpu_name, backend;
	int32_t gpu_index; /* -1 */
	bool cpu_job;	   /* no GPU work at all */
	bool absent;	   /* nothing is of it: others name it */
	bool lane;	   /* of a timeline: named by its place in the layout .. */
	uint32_t folds;	   /* .. and stands for so many ranks; 0: not known */
	struct rank_group *groups;
	uint32_t n_groups;
	/* whole-file totals, steps or not */
	uint64_t kernels, collectives;
	int64_t kernel_ns, collective_ns;
	int64_t first_ns, last_ns;
};

/*
 * The codec: a record is self-contained but for its strings and times, which are deltas to a base.
 * step_encode appends; step_decode takes exactly one record and allocates from the arena. Names are
 * ids in whatever table the container of the records keeps. See docs/lks.md for the byte layout.
 * Errors: -EBADMSG with detail for bytes that are no record.
 */
void step_encode(struct buf *out, const struct step *step);
int step_decode(struct span *in, struct arena *arena, struct step *ret, struct error *reterr);
/* The front of a record: number, rank_row, flags and start_ns; the rest is zero. false: too short.
 */
bool step_peek(struct span in, struct step *ret);
void rank_info_encode(struct buf *out, const struct rank_info *info);
int rank_info_decode(struct span *in, struct arena *arena, struct rank_info *ret,
		     struct error *reterr);
