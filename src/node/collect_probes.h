/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect_probes.h - what is asked of a rank and of its node, as functions that run in a probe's
 * child: each writes what it found to fd. All of them only read, but for the byte that asks PyTorch
 * for a dump through the pipe it made for that.
 */
#pragma once
#include "node/rank_find.h"

struct collect_rank {		 /* user of the probes of a rank */
	const char *proc, *host; /* "/proc" */
	const struct rank_process *p;
	char *earlier; /* where a dump goes that was there before */
	char *dump;    /* where this one goes: its name */
};
int probe_process(void *user, int fd, struct error *why); /* threads, limits, memory, sockets */
int probe_command(void *user, int fd, struct error *why); /* command line, environment */
int probe_kernel_stacks(void *user, int fd, struct error *why);
int probe_flight_recorder(void *user, int fd, struct error *why);

struct collect_node { /* user of the probes of the node */
	const char *proc, *sys;
	const char *host;
	const struct rank_list *ranks;
	char **folders; /* of each rank */
	char *folder;	/* of the node */
};
int probe_counters(void *user, int fd, struct error *why);
int probe_kernel_log(void *user, int fd, struct error *why);
int probe_outputs(void *user, int fd, struct error *why); /* what the ranks print, if to files */

/* Names of secrets: nothing called so is ever copied. */
bool is_secret_name(const char *name, size_t len);
bool may_copy_variable(const char *name, size_t len);
