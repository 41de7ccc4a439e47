/* SPDX-License-Identifier: Apache-2.0 */
/*
 * testimony.h - what one file says about where ranks stand: Flight Recorder dumps, logs, stacks,
 * power. The record of hangs before the files are put together.
 *
 * A reader fills one testimony per file; it decides nothing. Its size is bounded whatever the
 * file's: lines that say the same are counted, series are thinned, what exceeds a limit is counted
 * in `dropped`. Only entries of dumps grow with the dump (a ring of a few thousand).
 *
 * Strings are ids in names, NO_ID where unknown; numbers are -1 where unknown; times are epoch
 * nanoseconds, -1 where unknown. A rank is a global rank, unless its field says otherwise.
 */
#pragma once
#include "base/arena.h"
#include "model/event.h"

enum witness {
	WITNESS_DUMP,	   /* Flight Recorder: one rank */
	WITNESS_LOG,	   /* lines of text: any number of ranks */
	WITNESS_RAS,	   /* ncclras: counts of all ranks of a job */
	WITNESS_INSPECTOR, /* NCCL Inspector: completed operations of one rank */
	WITNESS_STACKS,	   /* where threads stand */
	WITNESS_POWER,	   /* power and utilization of GPUs */
	WITNESS_COUNTERS,  /* of network ports */
	WITNESS_EVENTS,	   /* what the monitoring said */
	WITNESSES
};
const char *witness_name(enum witness w); /* "dump", "log", .. */

/* --- dumps --- */

/* An operation as a rank called it. Two ranks called the same if signature_match says so. */
struct signature {
	enum comm_op op;
	uint32_t name;			/* as written: "nccl:all_reduce", "ALLREDUCE" */
	uint32_t in_sizes, out_sizes;	/* as written, canonical: "[[8, 32], [4]]"; "[]" is none */
	uint32_t in_dtypes, out_dtypes; /* "Float, Float" */
	int64_t in_elements, out_elements; /* of all tensors; -1: unknown; 0: none */
	int32_t source, target;		   /* send and recv: group-local ranks; -1 */
};

enum op_state { OP_SCHEDULED, OP_STARTED, OP_COMPLETED, OP_STATE_UNKNOWN };

struct op_entry {
	uint32_t group;	    /* row of groups */
	uint32_t signature; /* row of signatures */
	uint32_t frames;    /* interned "function (file:line)\n..", innermost first; NO_ID */
	int64_t seq;	    /* collective_seq_id, or p2p_seq_id if p2p; -1 */
	int64_t op_id;
	int64_t record; /* position in the rank's own counting */
	int64_t created_ns, started_ns, completed_ns;
	int64_t timeout_ms;
	uint8_t state; /* enum op_state, as written */
	bool retired, p2p;
};

struct op_group {
	uint32_t name, desc; /* "0", "default_pg"; NO_ID */
	uint32_t ranks;	     /* members as written, "[0, 1]"; NO_ID: not stated */
	int64_t size;	     /* stated without members; -1 */
};
/* From pg_status, or a rank's own log lines. */
struct op_status {
	uint32_t group;
	int64_t rank; /* testimony.rank for dumps */
	int64_t enqueued, started, completed;
};

/* A rank of a communicator as RAS or Inspector counts it. */
struct comm_count {
	uint32_t group;		  /* row of groups: the communicator, by its hash */
	int64_t rank;		  /* in the communicator */
	uint32_t host;		  /* */
	int64_t pid, gpu;	  /* gpu: index on its host */
	int64_t counts[COMM_OPS]; /* operations launched (RAS) or completed (Inspector) */
	bool missing, unresponsive, dead, failed, finalized, aborted;
};

/* --- logs and events --- */

enum saying_kind {
	/* hangs, as c10d and NCCL say them */
	SAY_TIMEOUT,	    /* rank's operation (group, seq, signature) ran into its time-out */
	SAY_STATUS,	    /* of rank in group: seq last enqueued, value last completed */
	SAY_DUMP_SIGNAL,    /* rank was told to dump by peer (-1: some other) and had not timed out
			       itself; seq, value as in SAY_STATUS if stated */
	SAY_DUMP_LOCAL,	    /* rank dumps because of itself */
	SAY_HEARTBEAT,	    /* rank's own watchdog thread is stuck */
	SAY_DESYNC_LAGGING, /* PyTorch's report by rank: peer finished #seq and never joined the
			       next (seq 0: none at all) */
	SAY_DESYNC_STATE,   /* PyTorch's report by rank: peer started (value 1) or finished (0) #seq
			     */
	SAY_NOT_JOINED,	    /* monitored_barrier: peer did not come */
	SAY_COMM_SETUP,	    /* rank waits for the group to be set up */
	/* failures */
	SAY_EXCEPTION,	   /* rank raised; what: type, text: message */
	SAY_FATAL,	   /* rank's native code gave up: an abort's words, a segfault */
	SAY_EXIT,	   /* rank (or pid, host) ended; value: exit code, -N for signal N */
	SAY_FIRST_FAILURE, /* the launcher's "root cause": as SAY_EXIT */
	SAY_STOPPED,	   /* the launcher ends pid or rank; value: the signal */
	SAY_OUT_OF_MEMORY, /* value 0: of the GPU, 1: of the host */
	SAY_GPU_ERROR,	   /* XID (value), ECC, "CUDA error"; by rank or host and gpu */
	SAY_NETWORK_ERROR, /* a port, a completion with error: own trouble of rank or host */
	SAY_PEER_LOST,	   /* rank lost a connection: an echo of a peer's end */
	SAY_STORE_LOST,	   /* rank lost the store on rank 0: an echo */
	SAY_ABORTED,	   /* rank's communicator was aborted after an error elsewhere: an echo */
	SAY_RENDEZVOUS,	   /* ranks did not come together at the start */
	SAY_CONFIGURATION, /* settings that cannot work, said by a library */
	SAY_CANCELLED, /* the scheduler or a person ended the job; what: "time limit", "preempted",
			  "cancelled", "node failure" */
	SAY_NODE_FAILED, /* host is gone, says the scheduler */
	/* life */
	SAY_HELLO,	/* rank announces itself: host, pid, gpu, value: world size */
	SAY_RESTART,	/* the launcher starts the workers again; value 1: it is itself a new one */
	SAY_SAVE_BEGIN, /* rank (or all) begins a checkpoint; value: its step */
	SAY_SAVE_END,	/* value: step, duration_ns if said */
	SAY_EPOCH_END,	/* also "end of data" */
	SAY_EVALUATION,
	SAY_DATA_WORK, /* a bar over samples or files, no steps: tokenizing, building an index;
			  seq of value done */
	SAY_COMPILE,
	SAY_DONE,    /* training ended as it should */
	SAY_LEFT,    /* rank says that it leaves: "bye", "destroy process group", sys.exit */
	SAY_WARNING, /* any other line at warning level or above that names trouble */
	/* about the log */
	SAY_FOLDED, /* equal lines of several ranks were folded: absence proves nothing */
	SAY_EVENT,  /* the monitoring's words (--events) */
	SAY_KINDS
};
#define RESTART_OF_ALL 1
#define EXIT_UNSEEN    INT64_MIN /* of SAY_EXIT: the process is gone, and nobody saw how */
const char *saying_name(enum saying_kind k);

struct saying {
	enum saying_kind kind;
	int64_t rank;	    /* who speaks, or of whom; -1: unknown */
	int64_t local_rank; /* in its group ([Rank N], [PG .. Rank N]); for SAY_EXIT in its node */
	int64_t peer;	    /* another rank that is named */
	uint32_t group;	    /* row of groups; NO_ID */
	uint32_t signature; /* row of signatures; NO_ID */
	int64_t seq, value;
	int64_t timeout_ms, ran_ms;
	int64_t pid, gpu;
	uint32_t host;
	uint32_t what;	 /* a short name: an exception's type, a cause's word */
	uint32_t text;	 /* the line's own words, cut at SAYING_TEXT_MAX, without prefix */
	int64_t time_ns; /* as stamped, taken as UTC if it names no zone; -1: not stamped */
	int64_t last_ns; /* of the last of its kind */
	int64_t duration_ns;
	int64_t steps_at; /* testimony.steps when it was said last; -1 */
	uint64_t line;	  /* of the first of its kind, from 1 */
	uint64_t last_line, count;
};
#define SAYING_TEXT_MAX 240u

/* Steps that a log shows, by rank (-1: lines that name none): a few hundred bytes a rank, more only
   for one that stands still again and again. What is pointed to is the testimony's. */
#define PROGRESS_GAPS	8u
#define PROGRESS_STALLS 24u
struct log_progress {
	int64_t rank;
	int64_t first_step, last_step, total_steps; /* total: "n/TOTAL"; -1 */
	int64_t first_epoch, last_epoch;
	int64_t epoch_at, epoch_steps;	 /* of the last line: [epoch_at/epoch_steps] in the epoch */
	uint64_t lines, line, last_line; /* how many, the first, the last */
	uint64_t restarts;		 /* times the step went back */
	int64_t first_ns, last_ns;	 /* stamps of the first and last line */
	double last_step_ms, last_tokens_per_s, last_loss; /* NAN; as printed, else from stamps */
	struct log_gap {
		int64_t step; /* the step that took long */
		double ms;
	} * gaps; /* the longest, longest first; PROGRESS_GAPS at most */
	/* What passes between one line and the next: by stamps where both have one, else by the
	   step time as printed. */
	int64_t line_steps; /* steps between lines, mostly; 0 */
	uint32_t line_votes, n_gaps;
	double usual_ms;	      /* about the median */
	uint64_t timed;		      /* how many */
	bool stamped;		      /* the last was told by stamps */
	double walked_ms, stalled_ms; /* all in sum; what of it is beyond the usual in stalls */
	int64_t walked_steps;
	/* The job stood still and went on: the last ones in order; of many the small are left out.
	 */
	struct log_stall {
		int64_t step;	 /* of the line behind it */
		int64_t time_ns; /* of that line */
		double ms;	 /* beyond the usual */
	} * stalls;		 /* PROGRESS_STALLS at most */
	uint32_t n_stalls, stall_run;
	uint64_t stalls_seen;
};

/* --- stacks --- */

enum stack_tool { STACK_PYSPY, STACK_GDB, STACK_FAULTHANDLER, STACK_KERNEL, STACK_OTHER };
struct frame {
	uint32_t function, file; /* file as written, NO_ID */
	int32_t line;		 /* -1 */
};
struct thread_stack {
	uint32_t name;		  /* "MainThread"; NO_ID */
	bool main, active, gil;	  /* active: on the CPU, as the tool says */
	uint32_t frame, n_frames; /* in frames, innermost first */
};
struct process_stack {
	int64_t rank, local_rank;
	uint32_t ranks; /* "0-3,5": more than one rank stands like this; NO_ID */
	int64_t pid;
	uint32_t host, command;
	enum stack_tool tool;
	uint32_t thread, n_threads; /* in threads */
	uint32_t processes;	    /* how many are shown by this one: 1, more where grouped */
};

/* --- power --- */

struct gpu_sample {
	int64_t time_ns; /* -1: order only */
	float power_w;	 /* NAN where unknown, as all below */
	float limit_w;
	float utilization; /* 0..1 */
	float memory_util; /* 0..1: share of time memory was read or written */
	float memory_used_mib;
	float sm_clock_mhz, temperature_c;
	float tensor_active, sm_active; /* 0..1, DCGM PROF ratios */
};
#define GPU_SAMPLES 256u
struct gpu_series {
	uint32_t host; /* NO_ID */
	int64_t index; /* on its host; -1 */
	uint32_t uuid, model;
	int64_t rank;		    /* if the source says it; -1 */
	struct gpu_sample *samples; /* thinned evenly, the last one always last */
	uint32_t n_samples, stride;
	uint64_t seen;	   /* samples before thinning */
	int64_t xid;	   /* last one; -1: none or unknown */
	uint32_t throttle; /* reasons as written; NO_ID */
	int64_t processes; /* on it; -1 */
};

struct counter { /* of a network port, or any other that is known to mean trouble */
	uint32_t host, device, name; /* "mlx5_0/1", "symbol_error" */
	double first, last;	     /* equal if seen once */
	uint64_t seen;
};

/* --- all of it --- */

struct testimony {
	struct arena arena;
	struct intern names;
	enum witness witness;
	const char *format; /* "flight-recorder", "log", "py-spy", .. as in read[].format */
	uint32_t path;
	int64_t rank; /* the one that all of it is of; -1 */
	bool worker;  /* by a worker's number in its name, which may be a machine's */
	int64_t pid;
	uint32_t host;
	int64_t world_size;
	int64_t time_ns; /* of the evidence as the file states it; -1 */
	int64_t steps;	 /* how often the file showed a step beyond those before it */
	bool broken_off; /* text that ends amid a line */
	bool present; /* that there is such a file says something: an empty dump, its rank lived */
	int32_t version_major, version_minor;
	VEC(struct signature) signatures;
	VEC(struct op_group) groups;
	VEC(struct op_entry) entries;
	VEC(struct op_status) status;
	VEC(struct comm_count) counts;
	VEC(struct saying) sayings;
	VEC(struct log_progress) progress;
	VEC(struct frame) frames;
	VEC(struct thread_stack) threads;
	VEC(struct process_stack) stacks;
	VEC(struct gpu_series) gpus;
	VEC(struct counter) counters;
	uint64_t lines;	  /* of text */
	uint64_t dropped; /* beyond the limits below */
	struct testimony_index {
		uint32_t *slots; /* row + 1 */
		uint32_t mask, n;
	} by_signature, by_group, by_saying, by_rank, by_gpu, by_counter;
	uint32_t progress_last; /* the row of it that was looked up last */
};
#define TESTIMONY_TRACED      "standing" /* the format of what our tracer saw last of a rank */
#define TESTIMONY_SAYINGS_MAX 262144u
#define TESTIMONY_STACKS_MAX  131072u
#define TESTIMONY_GPUS_MAX    131072u

struct testimony *testimony_new(enum witness w, const char *format);
struct testimony *testimony_free(struct testimony *t); /* NULL is fine; returns NULL */
/* Frees all of a dump's tables once somebody took them over; format and numbers stay. */
void testimony_strip(struct testimony *t);
bool testimony_empty(const struct testimony *t); /* it says nothing about anything */

uint32_t testimony_name(struct testimony *t, const char *s, size_t len); /* interned */
/* The row of the group of this name and description, new if need be. */
uint32_t testimony_group(struct testimony *t, uint32_t name, uint32_t desc);
/* The row of an equal signature, new if need be. */
uint32_t testimony_signature(struct testimony *t, const struct signature *s);
struct signature signature_unknown(void);
/* A saying of which nothing is known but its kind. */
struct saying saying_of(enum saying_kind kind);
/* Adds it, or counts it to an equal one (all but text, times, line and count the same). */
struct saying *testimony_say(struct testimony *t, const struct saying *s);
/* One line of progress; step >= 0; what is unknown -1 or NAN. */
struct progress_line {
	int64_t rank, step, total, epoch, epoch_at, epoch_steps, time_ns;
	double step_ms, tokens_per_s, loss;
	uint64_t line;
};
struct progress_line progress_line_unknown(void);
void testimony_progress(struct testimony *t, const struct progress_line *l);
/* What the last line of this rank also says; NAN: nothing. */
void testimony_progress_more(struct testimony *t, int64_t rank, double tokens_per_s, double loss);
/* The series of a GPU, new if need be: by host and index, or uuid; NULL beyond the limit. */
struct gpu_series *testimony_gpu(struct testimony *t, uint32_t host, int64_t index, uint32_t uuid);
struct gpu_sample gpu_sample_unknown(void);
void gpu_series_add(struct testimony *t, struct gpu_series *g, const struct gpu_sample *s);
void testimony_counter(struct testimony *t, uint32_t host, uint32_t device, uint32_t name,
		       double value);
/* Begins a process; then its threads, each followed by its frames. */
struct process_stack *testimony_stack(struct testimony *t);
struct thread_stack *testimony_thread(struct testimony *t);
void testimony_frame(struct testimony *t, uint32_t function, uint32_t file, int32_t line);
/* Empties stacks and GPUs: they were of an earlier moment. Rows of GPUs stay, without samples. */
void testimony_forget_things(struct testimony *t);
