/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert_command.h - one command of the user's, run by /bin/sh: the body on its standard input, a
 * deadline, what it says bounded. It leads a process group, which is killed at the deadline.
 */
#pragma once
#include <sys/types.h>

#include "base/base.h"

#define COMMAND_SAYS_MOST 200u

struct command {
	pid_t pid;
	int file, says; /* pidfd, and its output */
	int64_t late_ms;
	bool killed;
	char said[COMMAND_SAYS_MOST]; /* first of it */
};
enum command_state {
	COMMAND_RUNS,
	COMMAND_GOOD,
	COMMAND_FAILED,
	COMMAND_LATE,
	COMMAND_STUCK /* killed, and does not die; its pid is still ours to wait for */
};

/* env: added to ours, "NAME=value", NULL-ended. */
int command_start(struct command *c, const char *line, const void *body, size_t len,
		  const char *const *env, unsigned limit_ms, struct error *reterr);
/* Other than COMMAND_RUNS: it is over, and why (may be empty) says how. */
enum command_state command_look(struct command *c, char *why, size_t size);
int64_t command_left_ms(const struct command *c); /* until its deadline */
void command_kill(struct command *c);		  /* and waits for a moment */
