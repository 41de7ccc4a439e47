/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.h - what a trace reader gives, one event at a time, in file order, which is no order.
 *
 * Strings are ids in the interner that reader and sink of one file share (sink->names). Times are
 * integer nanoseconds; a base time that the file states only at its end is added by the sink.
 */
#pragma once
#include "base/intern.h"

enum event_kind {
	EVENT_KERNEL, /* GPU work: a kernel, collective kernels among them */
	EVENT_COPY,   /* GPU work: a memory copy */
	EVENT_SET,    /* GPU work: a memory set */
	EVENT_TASK,   /* GPU work that its profiler calls no kernel (MTIA): busy, not counted */
	EVENT_UNSEEN, /* nothing: it waits for what the file does not show, on others' account */
	EVENT_LAUNCH, /* host: a runtime or driver call that starts GPU work */
	EVENT_SYNC,   /* host: a runtime or driver call that waits for the GPU */
	EVENT_ANNOTATION,     /* host: a named range (user_annotation), step marks among them */
	EVENT_GPU_ANNOTATION, /* the same range as it spans the GPU's work */
	EVENT_OP,	      /* host: an operator (cpu_op) */
	EVENT_PYTHON,	      /* host: a Python function */
	EVENT_COLLECTIVE,     /* a collective that runs on the host (gloo:*), waiting included */
	EVENT_KINDS,
};

/* The kinds of communication, whatever name the library gives them. */
enum comm_op {
	COMM_NONE, /* not communication */
	COMM_ALL_REDUCE,
	COMM_ALL_GATHER,
	COMM_REDUCE_SCATTER,
	COMM_ALL_TO_ALL,
	COMM_BROADCAST,
	COMM_REDUCE,
	COMM_GATHER,
	COMM_SCATTER,
	COMM_BARRIER,
	COMM_SEND,
	COMM_RECV,
	COMM_SEND_RECV, /* a SendRecv kernel without arguments: any of send, recv, all-to-all */
	COMM_OTHER,	/* communication of a kind that we do not know */
	COMM_OPS,
};

const char *comm_op_name(enum comm_op op); /* "all_reduce"; never NULL */
/*
 * The operation in a collective's name as libraries write it: "allreduce", "_allgather_base",
 * "nccl:all_reduce", "gloo:barrier", "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL",
 * "c10d::barrier". COMM_NONE if the name is of no communication.
 */
enum comm_op comm_op_of(const char *name, size_t len);
/* The same for the name of a GPU kernel, of which only those of communication libraries count: a
   kernel called "reduce" or "gather" is none. */
enum comm_op comm_op_of_kernel(const char *name, size_t len);
/* Do all members leave together, so that the last to arrive has the shortest duration? */
bool comm_op_leaves_together(enum comm_op op);

/* Arguments of a collective as far as the trace has them; NO_ID, 0 or -1 where it has not. */
struct comm_args {
	enum comm_op op;
	uint32_t group;	     /* interned "Process Group Name" */
	uint32_t group_desc; /* interned "Process Group Description" */
	uint32_t ranks; /* interned "Process Group Ranks", "[0, 1, 2]", may be shortened by "..." */
	uint32_t dtype; /* interned */
	uint32_t group_size;
	int64_t seq;	      /* -1: unknown */
	int64_t in_elements;  /* -1: unknown; Gloo's from "Input Dims" */
	int64_t out_elements; /* -1: unknown */
	int32_t peer;	      /* of send and recv: "Src Rank" / "Dst Rank"; -1: unknown */
	int32_t self;	      /* "Rank" of record_param_comms; -1: unknown */
};

/* Arguments of which nothing is known; inline, since a reader starts each event with them. */
static inline struct comm_args comm_args_unknown(void)
{
	return (struct comm_args){
		.group = NO_ID,
		.group_desc = NO_ID,
		.ranks = NO_ID,
		.dtype = NO_ID,
		.seq = -1,
		.in_elements = -1,
		.out_elements = -1,
		.peer = -1,
		.self = -1,
	};
}

struct trace_event {
	enum event_kind kind;
	uint32_t name;		      /* interned */
	int64_t start_ns;	      /* since the file's base time */
	int64_t duration_ns;	      /* >= 0, repaired by the reader where the file was damaged */
	uint64_t thread;	      /* host: identity of pid and tid; GPU: stream */
	uint32_t device;	      /* GPU events */
	uint64_t correlation;	      /* launch <-> GPU work; 0: none */
	uint64_t bytes;		      /* copies; 0: unknown */
	uint64_t blocks;	      /* kernels: of its grid; 0: unknown */
	const struct comm_args *comm; /* NULL: the event has no communication arguments */
};

/* What a file says of its rank and job; strings are interned, NO_ID where unknown. */
struct trace_group {
	uint32_t name, desc;
	uint32_t size;
	uint32_t *ranks; /* n_ranks of them; NULL: members not stated */
	uint32_t n_ranks;
};
struct trace_meta {
	int64_t rank;	    /* -1: unknown */
	int64_t world_size; /* -1: unknown */
	uint32_t host, backend, gpu_name, trace_id;
	int64_t base_time_ns; /* 0: times are epoch already or have no base */
	bool lane;	      /* rank is the number of a lane, known by its place in the layout */
	uint32_t folds;	      /* ranks that the lane stands for; 0: not known */
	struct trace_group *groups;
	uint32_t n_groups;
};

/* Where events of one file go. Each callback returns 0, or a negative errno that stops reading. */
struct trace_sink {
	struct intern *names;
	void *user;
	int (*event)(void *user, const struct trace_event *event);
	int (*meta)(void *user, const struct trace_meta *meta); /* once, at the end of the file */
};

/* What reading one file gave and lost. */
enum skip_reason {
	SKIP_TRUNCATED,	   /* the file ends in the middle: whole events were kept */
	SKIP_MALFORMED,	   /* an event that could not be parsed */
	SKIP_BAD_TIME,	   /* an event without a usable time (ts 0, missing, out of range) */
	SKIP_BAD_DURATION, /* a duration that was negative or absurd, clipped */
	SKIP_BAD_NUMBER,   /* inf, NaN or beyond 64 bits where a number was needed */
	SKIP_BAD_TEXT,	   /* bytes that are no UTF-8, bare control characters, bad escapes: kept */
	SKIP_TOO_DEEP,	   /* nesting beyond the limit */
	SKIP_TOO_LONG,	   /* a string beyond the limit, cut */
	SKIP_UNPAIRED,	   /* a collective whose members contradict each other */
	SKIP_NO_STEP,	   /* work outside every step mark */
	SKIP_LATE,	   /* a step that came after its window */
	SKIP_REASONS,
};
const char *skip_reason_text(enum skip_reason reason); /* "truncated", .. as in the JSON */

struct read_stats {
	uint64_t bytes;	     /* of the text, decompressed */
	uint64_t bytes_file; /* on disk */
	uint64_t events;     /* members of traceEvents, of any phase letter */
	uint64_t skipped[SKIP_REASONS];
	uint64_t lost_bytes; /* behind the last whole event of a truncated file */
};
