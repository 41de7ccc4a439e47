/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doing.h - what a stack is doing, told from its frames: the innermost frame that is known decides,
 * generic waits (locks, queues, polls, sleeps) and wrappers passed over.
 *
 * A frame is known by its function and a part of its file's path; line numbers never count. Ask
 * once for each group of equal stacks.
 */
#pragma once
#include "model/testimony.h"

enum doing {
	DOING_UNKNOWN,
	DOING_COLLECTIVE, /* op: which, COMM_OTHER if it does not say */
	DOING_BACKWARD,	  /* autograd: maybe in a collective that no Python frame shows */
	DOING_GPU_WAIT,	  /* waits for its GPU: most likely in a collective as well */
	DOING_MODEL,	  /* the model's or the optimizer's own work */
	DOING_DATA,	  /* waits for, or makes, the next batch */
	DOING_CHECKPOINT,
	DOING_EVALUATION,
	DOING_GC,
	DOING_COMPILE,
	DOING_EXIT,
	DOING_EXCEPTION,  /* handles or reports one */
	DOING_DEBUGGER,	  /* at a prompt */
	DOING_RENDEZVOUS, /* waits for the group or its store to be set up */
	DOING_SERVICE,	  /* a remote service: HTTP, experiment tracking */
	DOING_STORAGE,	  /* in the kernel, on a file system or a device */
	DOING_MEMORY,	  /* in the kernel, for memory */
	DOING_SUBPROCESS, /* waits for a process that it started */
	DOING_SLEEP,
	DOING_LOCK,	/* a lock, a queue, a socket, and nothing says what for */
	DOING_PYTHON,	/* code of the user's that none of the above is called by */
	DOING_WORKER,	/* no rank: a data loader's or compiler's worker process */
	DOING_LAUNCHER, /* no rank: torchrun and its like */
	DOINGS
};
const char *doing_name(enum doing d); /* "collective", "data", .. */

struct doing_found {
	enum doing doing;
	enum comm_op op;     /* COMM_NONE where it is no collective */
	enum doing inside;   /* what called it: a barrier inside a checkpoint; DOING_UNKNOWN */
	const char *words;   /* what it is, for people: "in the data loader"; never NULL */
	struct frame frame;  /* the one that tells; function NO_ID: none */
	struct frame caller; /* the innermost of the user's own code; function NO_ID: none */
	bool off_cpu;	     /* PYTHON: the tool saw it wait in there, not run */
};

/* Of one thread's frames, innermost first. */
struct doing_found doing_of(const struct intern *names, const struct frame *frames, size_t n);
/* Of a process: its main thread, and where that one says little its other threads. */
struct doing_found doing_of_process(const struct testimony *t, const struct process_stack *p);
/* "in a collective (barrier), inside a checkpoint: save_checkpoint (train.py:16)" into buf. */
const char *doing_text(const struct doing_found *f, const struct intern *names, char *buf,
		       size_t size);
