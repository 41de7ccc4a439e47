/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - a job run guarded: launched, its output kept, looked after, and launched again where that
 * can help, from the newest checkpoint that is whole.
 *
 * CMD's output, signals and status are its own. No job that hangs is ended before its
 * evidence lies in the run's folder, and none is launched again without a reason from a table.
 */
#pragma once
#include "meet/meet.h"

#define RUN_NO_START	  125 /* we failed before CMD */
#define RUN_NO_EXEC	  126
#define RUN_NOT_FOUND	  127
#define RUN_ATTEMPTS_MOST 1000u

enum run_on_hang { RUN_HANG_NOTIFY, RUN_HANG_RESTART, RUN_HANG_IGNORE, RUN_HANGS };

struct run_plan {
	char **argv;	    /* CMD */
	const char *folder; /* of this run, there already */
	const char *self;   /* this program, for diagnose and collect */
	const char *job;    /* its name, for who is notified */
	void (*say)(const char *line);
	/* Around each attempt: the tracer. folder: the attempt's. */
	void *user;
	void (*begin)(void *user, const char *folder);
	void (*end)(void *user);

	const char *checkpoints, *resume_args; /* NULL */
	bool fresh;			       /* the first attempt begins anew */
	bool whole;			       /* checksums of all data too */
	bool weights_only;
	enum run_on_hang on_hang;
	const char *notify;	      /* by /bin/sh; NULL */
	int64_t hang_ms;	      /* without a new step; 0: learnt */
	int64_t start_ms;	      /* until the first steps */
	int64_t look_ms;	      /* between the two looks at a hang; 0: learnt */
	int64_t grace_ms;	      /* from TERM to KILL */
	int64_t retries, delay_ms;    /* -1: the table's */
	int64_t storm, storm_ms;      /* so many failures in so long */
	int64_t unsaved_ms;	      /* warn when nothing was saved for so long */
	int64_t gpus;		      /* of this node; 0: not known */
	int64_t collective_s;	      /* LOCKSTEP_COLLECTIVE_TIMEOUT; 0: not set */
	const struct meet_plan *meet; /* NULL: one node */
};

/* A {field} of --resume-args that is none: true, and it in ret. */
bool run_field_unknown(const char *text, char *ret, size_t size);
/* Runs it to its end; the status to exit with. */
int run_job(const struct run_plan *p);
