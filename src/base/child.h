/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child.h - a process beside us, which nobody waits for: a command or a function of ours.
 *
 * It leads a process group, which ends with it: what it started and left behind too. It dies when
 * we do. At its deadline it is killed; one that does not die of that (it sleeps in the kernel) is
 * left behind, and reaped when it ends after all.
 */
#pragma once
#include <sys/types.h>

#include "base/base.h"

#define CHILD_NO_EXEC 127 /* exit status: the command could not be run */

struct child_plan {
	/* One of: */
	char *const *argv;     /* NULL-ended; found in PATH */
	const char *line;      /* for /bin/sh -c */
	int (*fn)(void *user); /* its return is the exit status */
	void *user;

	int in, out, err;	/* descriptors, not closed; 0: /dev/null */
	const char *const *env; /* "NAME=value" beside ours or instead, NULL-ended; NULL: ours */
	uint64_t file_most;	/* bytes of a file that it may write; 0: any */
	bool say_no_exec;	/* on err, why the command could not be run */
	unsigned limit_ms;	/* its deadline; 0: none */
};

struct child {
	pid_t pid; /* 0: there is none */
	int64_t began_ms;
	unsigned limit_ms;
	bool killed;
};

enum child_state {
	CHILD_RUNS,
	CHILD_ENDED,
	CHILD_LATE, /* killed at its deadline or by child_kill() */
	CHILD_STUCK /* likewise, and it does not even die */
};

/* Between fork and exec only that is called which a process with threads may call there. */
int child_begin(struct child *c, const struct child_plan *plan, struct error *reterr);
/* Other than CHILD_RUNS: it is over, and c->pid 0. ret_status, of CHILD_ENDED: waitpid's; -1 if
   another has reaped it. */
enum child_state child_look(struct child *c, int *ret_status);
/* It is ended now; child_look() tells when it is. */
void child_kill(struct child *c);
/* Kills it, waits for a moment; in any case there is none afterwards. */
void child_drop(struct child *c);
