/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_layout.h - the file by which a training process tells what it does, as bytes.
 *
 * One file a process: a header, the slots' table, collectives under way, names, and one ring of
 * records a slot. A thread that tells something owns a slot; nothing else writes into its ring. The
 * writer never waits: it overwrites the oldest record, and reads nothing that another process can
 * write. A reader copies with pread, keeps its own cursor, and looks at the head again behind the
 * copy: of `capacity` records those up to head - capacity are gone or being overwritten. All
 * numbers are little-endian, as the machines are that this runs on; readers take every field for
 * what a stranger wrote.
 *
 * A minor version adds fields where zeroes stood; a reader refuses another major one.
 */
#pragma once
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define RING_MAGIC	 "LKRING1\n"
#define RING_MAJOR	 1u
#define RING_MINOR	 0u
#define RING_SUFFIX	 ".ring"
#define RING_SLOTS	 24u	 /* threads at a time; the first is of kernels */
#define RING_KERNEL_SLOT 0u	 /* that of GPU work, written by whoever completes its buffers */
#define RING_KERNELS	 32768u	 /* records in it: 1 MiB */
#define RING_RECORDS	 2048u	 /* records in any other: 64 KiB; both are powers of two */
#define RING_OPEN_MAX	 24u	 /* open phases kept a slot; deeper ones are counted only */
#define RING_PENDING	 64u	 /* collectives under way at a time */
#define RING_NAMES	 8192u	 /* names of a process */
#define RING_NAME_BYTES	 393216u /* of all of them, with their lengths */
#define RING_FREE_PARTS	 4u    /* one part in so many of its file system stays free behind a ring */
#define RING_NAME_MAX	 1023u /* bytes of one; longer ones are cut, and counted */

enum ring_kind {
	RING_NONE,
	RING_PHASE,   /* name; arg: enum ring_phase */
	RING_STEP,    /* value: the step's number; arg: enum ring_step flags */
	RING_COUNTER, /* name; value: bits of a double; duration 0 */
	RING_MARK,    /* name; duration 0 */
	RING_COLL,    /* name: the group's; arg: enum lockstep_op; value: sequence number, -1:
			 unknown; RING_MORE follows */
	RING_MORE,    /* of the record before: value: bytes of a collective; name: its algorithm */
	RING_KERNEL,  /* name; arg: stream; value: correlation << 32 | phase's name; depth: 1 in a
			 CUDA graph, whose phase is that of its launch */
	RING_COPY,    /* arg: stream; value: as of RING_KERNEL; name: that of what it does */
	RING_SET,     /* a memset; as RING_COPY */
	RING_SYNC,    /* the host waited for the GPU; as RING_COPY */
	RING_LAUNCH,  /* correlation as in value of RING_KERNEL: when the host launched it */
	RING_GAP,     /* value: records lost here, told by CUPTI; arg: 1 while others profile */
	RING_KINDS
};

/* What a phase is to everybody, whatever its name. */
enum ring_phase {
	RING_PHASE_USER,
	RING_PHASE_FORWARD,
	RING_PHASE_BACKWARD,
	RING_PHASE_OPTIMIZER,
	RING_PHASE_DATA,
	RING_PHASE_CHECKPOINT,
	RING_PHASE_EVALUATION,
	RING_PHASE_COMPILE,
	RING_PHASE_GC,
	RING_PHASES
};

enum ring_step { RING_STEP_EVALUATION = 1, RING_STEP_PROFILED = 2 /* by another tool */ };

/* One unit. Times of the host are ticks of ring_header.clock; those of GPU work (RING_KERNEL to
   RING_SYNC) are ns of CLOCK_REALTIME, and so are their durations. */
struct ring_record {
	uint64_t t; /* its begin */
	uint64_t duration;
	uint32_t name; /* id; 0: none */
	uint8_t kind;
	uint8_t depth; /* phases around it; 255: more */
	uint16_t arg;
	uint64_t value;
};
static_assert(sizeof(struct ring_record) == 32, "a record is half a cache line");

enum ring_clock_kind { RING_CLOCK_MONOTONIC = 1, RING_CLOCK_TSC = 2 };

struct ring_clock_pair {
	uint64_t ticks, monotonic_ns, realtime_ns;
};

enum ring_counter {
	RING_LOST_NO_SLOT,   /* records of threads for which no slot was free */
	RING_LOST_REENTRANT, /* records of a signal handler that met its own thread telling */
	RING_LOST_DEPTH,     /* phases too deep to be kept while open */
	RING_LOST_PENDING,   /* collectives for which no place was free */
	RING_LOST_NAMES,     /* names for which no room was */
	RING_CUT_NAMES,	     /* names that were too long */
	RING_END_WITHOUT_BEGIN,
	RING_CUPTI_DROPPED, /* records, as CUPTI tells it */
	RING_CUPTI_FOREIGN, /* buffers of somebody else */
	RING_HOOK_FAILED,   /* hooks that failed and were turned off */
	RING_CLOCK_STEPS,   /* durations that would have been below 0 */
	RING_IGNORED,	    /* of NVTX, NCCL and CUPTI: what tells nothing here, or is unreadable */
	RING_COUNTERS = 32
};

/* Why nothing is told any more; the words stand in off_text. */
enum ring_state { RING_STARTING, RING_ON, RING_OFF, RING_ENDED };

struct ring_header {
	char magic[8];
	uint16_t major, minor;
	uint32_t header_bytes; /* up to the slots' table */
	uint64_t file_bytes;
	uint32_t n_slots, slot_bytes; /* the table behind the header */
	uint64_t slots_at, pending_at, names_at;
	uint32_t n_pending, pending_bytes;
	uint32_t names_bytes;
	uint32_t state; /* enum ring_state; atomic */
	/* identity; under identity_seq, which is odd while it changes */
	uint32_t identity_seq;
	int32_t rank, local_rank, world_size; /* -1: unknown */
	uint32_t pid;			      /* in its own PID namespace */
	uint32_t uid;
	uint64_t start_time; /* of the process, ticks since boot: field 22 of /proc/PID/stat */
	uint64_t pid_namespace;
	char boot_id[40], host[72], job[72], program[72];
	/* clock */
	uint32_t clock; /* enum ring_clock_kind */
	uint32_t clock_seq;
	struct ring_clock_pair first, last; /* last: under clock_seq, at the end of each step */
	/* what is going on */
	uint64_t step;	     /* number of the one under way or ended last; atomic */
	uint64_t steps_done; /* atomic */
	uint64_t beat;	     /* ticks at the last record of any thread, about; atomic */
	uint64_t counters[RING_COUNTERS]; /* atomic */
	uint32_t n_names;		  /* atomic: published behind their bytes */
	uint32_t names_used;		  /* bytes; written by whoever adds one */
	uint32_t doors;			  /* bits of enum tracer_door: who has started it */
	uint32_t off_code;		  /* an errno, or a CUPTI result; 0 */
	char off_text[160];
	char left_text[160]; /* variables that were set by others and left: said once */
};

/* A collective or another thing that is under way and may end on another thread. */
struct ring_pending {
	uint64_t id;	      /* 0: free; atomic, written last */
	struct ring_record r; /* as it will be told; duration 0 */
	uint64_t bytes;
	uint64_t spare[2];
};
static_assert(sizeof(struct ring_pending) == 64, "one cache line");

struct ring_slot {
	uint64_t head;	   /* units written since the file was made; atomic, written last */
	uint64_t at;	   /* of its ring in the file */
	uint32_t capacity; /* units, a power of two */
	uint32_t tid;	   /* of its thread in its own PID namespace; 0: free; atomic */
	uint32_t depth;	   /* open phases; atomic, written behind what it counts */
	uint32_t claims;   /* how often it changed its thread */
	char thread[16];   /* its name */
	uint64_t spare[2];
	struct ring_record open[RING_OPEN_MAX]; /* their begins; duration 0 */
};
static_assert(sizeof(struct ring_slot) % 64 == 0, "slots share no cache line");

/* A name in the file: u16 length, then its bytes, without an end. Ids count from 1. */
