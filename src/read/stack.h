/* SPDX-License-Identifier: Apache-2.0 */
/* stack.h - files of stacks: py-spy, gdb, faulthandler, pystack, /proc, and grouped ones. */
#pragma once
#include "read/witness.h"

bool stack_sniff(const char *text, size_t len, const char *path);
int stack_read(struct input *in, const char *path, struct testimony **ret, struct read_stats *stats,
	       struct error *reterr);

bool stack_json_sniff(const char *text, size_t len, const char *path);
int stack_json_read(struct input *in, const char *path, struct testimony **ret,
		    struct read_stats *stats, struct error *reterr);

/* Rank, local rank, host and process as a file's name says them, where its content does not. */
struct stack_name {
	int64_t rank, local_rank, pid;
	const char *host;
	size_t host_len;
};
struct stack_name stack_name_of(const char *path);
