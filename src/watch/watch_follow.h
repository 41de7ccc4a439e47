/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_follow.h - a growing log, read on from where it was left, through rotation, truncation and
 * replacement, by polling: on network file systems nothing else is told.
 *
 * Lines are given whole; of one longer than FOLLOW_PIECE its beginning is given and the rest
 * dropped and counted. What lay there before the first look is given from FOLLOW_HISTORY bytes
 * before its end on, and is said to be history. Memory is one piece, while it is read.
 */
#pragma once
#include "base/base.h"

#define FOLLOW_PIECE   ((size_t)1 << 20)
#define FOLLOW_HISTORY ((size_t)4 << 20)
#define FOLLOW_BUDGET  ((size_t)64 << 20) /* at one look; the rest at the next */
#define FOLLOW_PRINT   32u

struct follow {
	char *path;
	int fd; /* of the file followed, so that its end is read after it was moved away; -1 */
	bool known;
	uint64_t dev, ino, offset;
	uint8_t print[FOLLOW_PRINT]; /* what lies before offset: is it still the same text? */
	uint32_t n_print;
	bool dropping;		     /* in a line too long */
	uint64_t partial;	     /* bytes of a line without an end at the last look */
	uint64_t held;		     /* a traceback was left there to become whole, + 1 */
	uint64_t dropped, rotations; /* bytes of lines too long; files that followed */
};
/* age_ms: how long ago the file was written last. */
typedef void (*follow_fn)(void *user, const char *text, size_t len, bool history, int64_t age_ms);

void follow_init(struct follow *f, const char *path);
void follow_done(struct follow *f);
/* Gives what is new. 1: there is more, look again at once; 0; -ENOENT and others with detail. */
int follow_look(struct follow *f, follow_fn fn, void *user, struct error *reterr);
