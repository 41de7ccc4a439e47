/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet_folder.h - a folder of one meeting, by means that every network file system has: files
 * appear whole by rename, are never locked, and are looked for, not waited for.
 */
#pragma once
#include <sys/stat.h>

#include "meet/meet_file.h"

#define FILE_CALL_NAME	  "call"
#define FILE_VERDICT_NAME "verdict"
#define FILE_PART_PREFIX  "part-" /* part-NODE-INSTANCE */
#define FILE_NAME_MOST	  64u
#define LOOK_FIRST_MS	  10
#define LOOK_MOST_MS	  500
#define PULSE_MS	  1000 /* a node that waits renews its file so often; more with many nodes */

struct meet_place {
	struct meeting *m;
	char *path; /* FOLDER/JOB-HASH */
	char part_file[FILE_NAME_MOST];
	int64_t clock_ns, clock_doubt_ns; /* ours against the folder's */
	int64_t pause_ms;
	uint8_t call[INSTANCE_BYTES]; /* that our part answers */
	bool answered;
	int64_t pulse_ms; /* when it is due */
	struct stat seen; /* the last verdict that was not for us, while we answered seen_call */
	uint8_t seen_call[INSTANCE_BYTES];
	char why[MEET_WHY_MOST];
};
/* Opened anew for each look, since that is when a network file system asks its server. */
int place_open_dir(const struct meet_place *p);
int64_t place_pulse_ms(const struct meet_plan *plan);
/* Writes a file whole or not at all. 0 or a negative errno. */
int place_write(const struct meet_place *p, const char *name, const struct buf *text);
/* A regular file of ours of at most most bytes: its descriptor. -ELOOP: a link or no regular file,
   -EPERM: another user's, -EFBIG, or what open() says. */
int place_open_file(int dir, const char *name, size_t most, struct stat *ret_st);
int place_read_file(int fd, size_t size, struct buf *ret_text); /* size: at most */
int place_read(int dir, const char *name, size_t most, struct buf *ret_text);
void place_remove(const struct meet_place *p, const char *name);
/* Before the next look; not beyond until_ms, and shorter the nearer the limit is. */
void place_pause(struct meet_place *p, bool moved, int64_t until_ms);

/* As a node that does not judge: gives our part to whoever calls, until a verdict lists it. */
int place_wait(struct meet_place *p, struct buf *ret_verdict, struct error *reterr);
/* As node 0. */
int place_judge(struct meet_place *p, struct buf *ret_verdict, struct error *reterr);
