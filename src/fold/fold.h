/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fold.h - from the events of one trace, in any order, to its steps.
 *
 * A file has no time order (time stamps run back by seconds; step marks and the base time come
 * last). So fold keeps a small span of what matters, spills sorted runs to an unlinked file beyond
 * a limit, sorts at the end and sweeps once. The memory held is bounded by the limit and one step's
 * spans.
 */
#pragma once
#include "model/job.h"
#include "model/event.h"
#include "fold/spool.h"

struct fold;

struct fold_options {
	size_t spill_bytes;	       /* 0: 32 MiB of spans before a sorted run goes to disk */
	int64_t first_step, last_step; /* --steps; -1: no bound */
};

/* A fold owns its names (an interner) until rank_stream takes them. */
struct fold *fold_new(const struct fold_options *options);
struct trace_sink *fold_sink(struct fold *f);

/* One rank's trace, folded: its head, and its encoded steps in a spool, in order of time. */
struct rank_stream {
	struct intern names;
	struct arena arena;
	struct rank_info info;
	struct spool steps; /* records of step_encode, each behind a varint length */
	uint64_t n_steps;
	uint64_t skipped[SKIP_REASONS];
	uint64_t gpu_kernels, collectives; /* as rank_info, for the report */
	bool no_marks;			   /* no step marks: the file is one window */
};
/* What is known of a file beside its content: used where the content is silent. */
struct fold_hint {
	int64_t rank;	  /* from its name, survey_rank_of_name; -1: none */
	const char *host; /* from its name, survey_host_of_name; NULL: none */
	size_t host_len;
};
/* hint may be NULL. Call once; f holds nothing but memory to free afterwards. */
int fold_finish(struct fold *f, const struct fold_hint *hint, struct rank_stream *ret,
		struct error *reterr);
struct fold *fold_free(struct fold *f); /* NULL is fine; returns NULL */
void rank_stream_done(struct rank_stream *s);
