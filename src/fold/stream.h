/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h - the same fold, on line: events of one rank as they come, its steps as they end.
 *
 * Events are held only until the moment up to which all is known, then played as fold.h plays those
 * of a file; the memory held is that of about one step. Steps are told by marks and not by names,
 * since a name a step would never end.
 */
#pragma once
#include "fold/fold.h"

struct fold_stream;
struct fold_scratch; /* what closing a step needs: many streams of one thread share it */
struct fold_scratch *fold_scratch_new(void);
struct fold_scratch *fold_scratch_free(struct fold_scratch *s);

struct fold_stream *fold_stream_new(struct fold_scratch *shared);
struct fold_stream *fold_stream_free(struct fold_stream *s); /* NULL is fine; returns NULL */
struct intern *fold_stream_names(struct fold_stream *s);     /* of events */

/* What the ranges of a name are, where whoever made them says so. */
enum stream_name {
	STREAM_NAME_DATA,
	STREAM_NAME_SAVE,
	STREAM_NAME_EVALUATION,
	STREAM_NAME_COMPILE,
	STREAM_NAME_GC,
	STREAM_NAME_WAITING,
};
void fold_stream_name_is(struct fold_stream *s, uint32_t name, enum stream_name what);

int fold_stream_event(struct fold_stream *s, const struct trace_event *e);
bool fold_stream_gpu(const struct fold_stream *s);    /* GPU work was seen */
size_t fold_stream_held(const struct fold_stream *s); /* events that wait to be played */

struct stream_mark {
	uint64_t number;
	int64_t start, end; /* end: INT64_MAX while it is open */
	uint32_t flags;	    /* enum step_flag, of the whole step */
	uint64_t tokens, dropped;
};
/* A step that began, or ended; in order of time. false: its number or times run backwards. */
bool fold_stream_mark(struct fold_stream *s, const struct stream_mark *mark);

/*
 * Plays what began before `until`; closes steps that ended before `settled`, of which nothing more
 * is to come. all: the process is gone; everything is played, and ended steps are closed.
 */
int fold_stream_play(struct fold_stream *s, int64_t until, int64_t settled, bool all,
		     struct error *reterr);
/*
 * The next closed step: names are ids of *ret_names, groups rows of the head; valid until the next
 * call of any kind. false: there is none.
 */
bool fold_stream_next(struct fold_stream *s, struct step *ret, const struct intern **ret_names);
/* What is known of the rank: its groups (names as above), its sums. Valid until the next call. */
void fold_stream_head(struct fold_stream *s, struct rank_info *ret);
/* A name of events as one of steps. */
uint32_t fold_stream_name_out(struct fold_stream *s, uint32_t name,
			      const struct intern **ret_names);
uint64_t fold_stream_skipped(const struct fold_stream *s); /* events and records, all reasons */
