/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert_command.h - one command of the user's, run by /bin/sh: the body on its standard input, a
 * deadline, what it says bounded. It leads a process group, which is killed at the deadline.
 */
#pragma once
#include "base/child.h"

#define COMMAND_SAYS_MOST 200u

struct command {
	struct child child;
	int file, says;		      /* pidfd, and its output */
	char said[COMMAND_SAYS_MOST]; /* first of it */
};
enum command_state {
	COMMAND_RUNS,
	COMMAND_GOOD,
	COMMAND_FAILED,
	COMMAND_LATE /* killed at its deadline, whether it dies of that or not */
};

/* env: added to ours, "NAME=value", NULL-ended. */
int command_start(struct command *c, const char *line, const void *body, size_t len,
		  const char *const *env, unsigned limit_ms, struct error *reterr);
/* Other than COMMAND_RUNS: it is over, and why (may be empty) says how. */
enum command_state command_look(struct command *c, char *why, size_t size);
int64_t command_left_ms(const struct command *c); /* until its deadline */
void command_kill(struct command *c);		  /* and waits for a moment */
