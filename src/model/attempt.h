/* SPDX-License-Identifier: Apache-2.0 */
/* attempt.h - where torchrun puts what a process writes: RUN/attempt_1/3/stderr.log. */
#pragma once
#include "base/base.h"

struct attempt {
	size_t run_len; /* of path: RUN with its slash, of one start of the launcher on one node */
	int64_t number; /* how often it was started again */
	int64_t local_rank; /* the process, counted within its node; -1: path names none */
};

/* The last such folder in the path; false: there is none. */
bool attempt_of_path(const char *path, struct attempt *ret);
