/* SPDX-License-Identifier: Apache-2.0 */
/* watch_tap.h - a child whose words are read as they come; nobody waits for it. */
#pragma once
#include "base/buf.h"
#include "base/child.h"

#define TAP_OUTPUT_MOST ((size_t)8 << 20)
#define TAP_ERROR_MOST	2048u

struct tap {
	struct child child; /* its pid is 0: none runs */
	int out, err;
	struct buf text;  /* of stdout, not yet taken */
	uint64_t dropped; /* beyond the most */
	char why[TAP_ERROR_MOST];
	size_t n_why;
};
enum tap_end { TAP_RUNS, TAP_GOOD, TAP_FAILED, TAP_LATE };

/* A line for /bin/sh, or fn in the forked child, whose return is its status. */
int tap_start(struct tap *t, const char *line, int (*fn)(void *user), void *user,
	      struct error *reterr);
/* Reads what is there; limit_ms 0: it may run for ever. */
enum tap_end tap_look(struct tap *t, int64_t limit_ms);
/* Its first words on stderr, or its status: one line. */
const char *tap_why(const struct tap *t);
void tap_stop(struct tap *t);
