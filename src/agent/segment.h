/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.h - what the agent writes: the step records of one job on one node, as .lks segments of
 * bounded size and age.
 *
 * A segment is complete at every moment but for a torn last block, which readers cut: blocks are
 * written whole, and never again. A rank that comes back as another process begins a new one.
 */
#pragma once
#include "store/lks.h"

struct segment_limits {
	uint64_t bytes; /* of one */
	int64_t age_ns; /* of one */
	uint64_t keep;	/* segments in the folder; the oldest are removed; 0: all */
};

struct recording;
/* job: its name, "" if it has none; host: of the node. All of it is copied. */
struct recording *recording_new(int folder, const char *folder_path, const char *job,
				const char *host, int64_t world_size,
				const struct segment_limits *limits);
struct recording *recording_free(struct recording *r); /* closes; NULL is fine; returns NULL */
bool recording_is(const struct recording *r, const char *job, int64_t world_size);

/* A rank's process joins: its number, for what follows. */
size_t recording_join(struct recording *r, int64_t rank);
void recording_leave(struct recording *r, size_t who);
/* Names of info and step are of *names; afterwards those of the step are the segment's. */
int recording_step(struct recording *r, size_t who, const struct rank_info *info,
		   const struct intern *names, const struct step *step, int64_t now,
		   struct error *reterr);
/* Where a process stands; names are of *names, s->row is filled. A process without a step so far
   gets a head. */
int recording_standing(struct recording *r, size_t who, struct rank_standing *s,
		       const struct intern *names, const struct rank_info *info, int64_t now,
		       struct error *reterr);
int recording_flush(struct recording *r, struct error *reterr);
/* The file that is being written, and the row of a process in it; NULL: none yet. */
const char *recording_file(const struct recording *r, size_t who, uint32_t *ret_row);

/* Cuts the torn tail of a segment that a killed agent left, and calls back for each step in it. */
typedef void (*segment_step_fn)(void *user, uint64_t row, uint64_t number, int64_t end_ns);
int segment_recover(int folder, const char *name, segment_step_fn fn, void *user,
		    struct error *reterr);
