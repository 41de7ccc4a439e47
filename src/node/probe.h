/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.h - a question to the machine, asked by a child with a deadline.
 *
 * On a node where a job hangs anything may hang: nvidia-smi, a file of /proc, a file system. So the
 * one who asks never touches it: a child does. A child that passes its deadline is killed, and one
 * that does not die of that (it sleeps in the kernel) is left behind and said to be abandoned.
 */
#pragma once
#include "base/child.h"

enum probe_state {
	PROBE_WAITING,
	PROBE_RUNNING,
	PROBE_DONE,	 /* and gave something */
	PROBE_EMPTY,	 /* ended well, with nothing */
	PROBE_FAILED,	 /* ended with an error; what it gave is kept */
	PROBE_ABSENT,	 /* no such command, file or device here */
	PROBE_LATE,	 /* killed at its deadline; what it gave is kept */
	PROBE_ABANDONED, /* did not even die */
	PROBE_STATES
};
const char *probe_state_name(enum probe_state s); /* "done", .. */

struct probe {
	const char *what; /* "py-spy dump" */
	char *file;	  /* where its output goes, owned; removed again if it stays empty */
	/* A command (execvp), or a function that runs in the child and writes to fd: 0, or a
	   negative errno, with a line about it in why. */
	char **argv; /* owned, NULL-ended, its strings too */
	int (*run)(void *user, int fd, struct error *why);
	void *user;
	int64_t rank;	   /* it is about; -1: the node */
	unsigned limit_ms; /* its deadline */
	unsigned stop_ms;  /* a command that goes on by itself is ended after this; 0 */

	enum probe_state state;
	char why[200]; /* of PROBE_FAILED and the like: one line */
	unsigned took_ms;
	uint64_t bytes;
	/* inside */
	struct child child;
	int err; /* what it says on stderr */
	bool stopped;
};

#define PROBE_PARALLEL	 16u
#define PROBE_OUTPUT_MAX ((uint64_t)256 << 20) /* of one file */

/* Runs all, several at a time; returns when each is settled. */
void probes_run(struct probe *probes, size_t n);
void probe_done(struct probe *p);
/* argv of these words; NULL ends them. */
char **probe_argv(const char *first, ...) __attribute__((sentinel));
