/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_child.h - a shell command that is not waited for: what it writes is read as it comes.
 *
 * It leads a process group of its own, so that what it started ends with it. Past its deadline it
 * is killed; one that does not die of that is left behind, and reaped if it ever ends.
 */
#pragma once
#include <sys/types.h>

#include "base/buf.h"

#define CHILD_OUTPUT_MOST ((size_t)8 << 20)
#define CHILD_ERROR_MOST  2048u

struct child {
	pid_t pid; /* 0: none runs */
	int out, err;
	int64_t started_ms;
	struct buf text;  /* of stdout, not yet taken */
	uint64_t dropped; /* beyond the most */
	char why[CHILD_ERROR_MOST];
	size_t n_why;
	bool killed;
};
enum child_end { CHILD_RUNS, CHILD_GOOD, CHILD_FAILED, CHILD_LATE };

/* By /bin/sh; or fn in the forked child, whose return is its status. */
int child_start(struct child *c, const char *command, int (*fn)(void *user), void *user,
		int64_t now_ms, struct error *reterr);
/* Reads what is there; deadline_ms 0: it may run for ever. */
enum child_end child_look(struct child *c, int64_t now_ms, int64_t deadline_ms);
/* Its first words on stderr, or its status: one line. */
const char *child_why(const struct child *c);
void child_stop(struct child *c);
