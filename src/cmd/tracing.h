/* SPDX-License-Identifier: Apache-2.0 */
/* tracing.h - the tracer in a job's environment, and an agent beside it. */
#pragma once
#include "base/base.h"

#define TRACING_LOG ".lockstep-agent.log"

struct tracing {
	const char *who;    /* "trace", before each line on stderr */
	const char *job;    /* its name; NULL: as the folder is called */
	char *out;	    /* absolute */
	char *rings;	    /* folder */
	char *self;	    /* our program */
	char *folder;	    /* .. and where it lies */
	int traces;	    /* lock */
	const char *set[8]; /* variables that were ours to set */
	unsigned n_set;
};
char *self_path(void); /* of this program; NULL */
/* Makes out and sets the environment: 0, or a negative errno that was said. */
int tracing_begin(struct tracing *t, const char *who, const char *out);
int tracing_agent_start(const struct tracing *t);
/* Lets go of the folder. true: we were the last, and the agent has written all. */
bool tracing_finish(struct tracing *t);
void tracing_done(struct tracing *t);
