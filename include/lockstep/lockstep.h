/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lockstep.h - what a program may tell Lockstep of what it does.
 *
 * Every call is safe from any thread and from a signal handler, never blocks, never allocates,
 * never fails the program: where nothing can be told, it does nothing. Names are made ids once, at
 * start; lockstep_name alone costs a look-up, all else is some tens of nanoseconds.
 *
 * A program links liblockstep.so, or loads it, or is built with -DLOCKSTEP_NONE: then every call
 * here is an empty inline function and nothing is needed.
 */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a phase is, whatever its name. */
enum lockstep_phase_kind {
	LOCKSTEP_PHASE_USER,
	LOCKSTEP_PHASE_FORWARD,
	LOCKSTEP_PHASE_BACKWARD,
	LOCKSTEP_PHASE_OPTIMIZER,
	LOCKSTEP_PHASE_DATA,
	LOCKSTEP_PHASE_CHECKPOINT,
	LOCKSTEP_PHASE_EVALUATION,
	LOCKSTEP_PHASE_COMPILE,
	LOCKSTEP_PHASE_GC
};

/* Operations of collectives, as in torch.distributed and NCCL. */
enum lockstep_op {
	LOCKSTEP_OP_UNKNOWN,
	LOCKSTEP_OP_ALL_REDUCE,
	LOCKSTEP_OP_BROADCAST,
	LOCKSTEP_OP_REDUCE,
	LOCKSTEP_OP_ALL_GATHER,
	LOCKSTEP_OP_REDUCE_SCATTER,
	LOCKSTEP_OP_ALL_TO_ALL,
	LOCKSTEP_OP_GATHER,
	LOCKSTEP_OP_SCATTER,
	LOCKSTEP_OP_BARRIER,
	LOCKSTEP_OP_SEND,
	LOCKSTEP_OP_RECV
};

#ifndef LOCKSTEP_NONE

#pragma GCC visibility push(default)

/*
 * Begins to tell. 1: told from now on, or before; 0: not, since the process is none that trains
 * (no RANK, LOCAL_RANK or their like, or a loader's worker, and not asked for by LOCKSTEP=1), there
 * is no room, or LOCKSTEP=0 is set. The other calls do nothing until it was called, by the program
 * or by the first of Lockstep's doors (CUDA, NVTX, NCCL, Python) that was loaded.
 */
int lockstep_start(void);
/* Tells no more, for good. */
void lockstep_stop(void);
/* Are we telling? */
int lockstep_on(void);
/* Rank, rank on its node and number of ranks; -1 leaves what is known, by the environment (RANK,
   WORLD_SIZE and their like) or an earlier call. Told before the start, a rank makes this a process
   that trains, whatever its environment. */
void lockstep_identity(int rank, int local_rank, int world_size);

/* The id of a name of at most 1,023 bytes, the same for the same bytes; 0: no room, which all calls
   take. Ids hold until the process ends. */
uint32_t lockstep_name(const char *name);

/* A step: one step of the optimizer and all that belongs to it; number: -1 counts by itself. A
   step that is open when another begins ends there. */
void lockstep_step_begin(int64_t number);
void lockstep_step_end(void);

/* A part of the step, on this thread, inside the one that was begun last. */
void lockstep_phase_begin(uint32_t name, enum lockstep_phase_kind kind);
void lockstep_phase_end(void);

/* A value at this moment, in units that its name tells (tokens, loss, bytes). */
void lockstep_counter(uint32_t name, double value);
void lockstep_mark(uint32_t name);

/*
 * A collective from here to lockstep_collective_end, which may come on another thread. group: the
 * id of the process group's name; sequence: its number in that group, -1: unknown; bytes: of the
 * input on this rank. Gives what its end wants; 0: there was no room.
 */
uint64_t lockstep_collective_begin(uint32_t group, enum lockstep_op op, int64_t sequence,
				   uint64_t bytes);
void lockstep_collective_end(uint64_t collective);

#pragma GCC visibility pop

#else /* LOCKSTEP_NONE */

static inline int lockstep_start(void)
{
	return 0;
}
static inline void lockstep_stop(void)
{
}
static inline int lockstep_on(void)
{
	return 0;
}
static inline void lockstep_identity(int rank, int local_rank, int world_size)
{
	(void)rank, (void)local_rank, (void)world_size;
}
static inline uint32_t lockstep_name(const char *name)
{
	(void)name;
	return 0;
}
static inline void lockstep_step_begin(int64_t number)
{
	(void)number;
}
static inline void lockstep_step_end(void)
{
}
static inline void lockstep_phase_begin(uint32_t name, enum lockstep_phase_kind kind)
{
	(void)name, (void)kind;
}
static inline void lockstep_phase_end(void)
{
}
static inline void lockstep_counter(uint32_t name, double value)
{
	(void)name, (void)value;
}
static inline void lockstep_mark(uint32_t name)
{
	(void)name;
}
static inline uint64_t lockstep_collective_begin(uint32_t group, enum lockstep_op op,
						 int64_t sequence, uint64_t bytes)
{
	(void)group, (void)op, (void)sequence, (void)bytes;
	return 0;
}
static inline void lockstep_collective_end(uint64_t collective)
{
	(void)collective;
}

#endif

#ifdef __cplusplus
}
#endif
#endif
