/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.h - a whole job in one Chrome trace: a process a data-parallel rank, threads of a
 * pipeline stage, the step in the arguments of each event, as what-if analysers write it.
 *
 * One file holds many ranks, or lanes that stand for several ranks each (tensor parallelism folded
 * into one). It is read whole and then given lane by lane, each as the trace of one rank.
 */
#pragma once
#include "model/event.h"
#include "read/input.h"

struct timeline;

/* Do these first bytes of a file, from its bracket on, look like one? */
bool timeline_looks(const char *text, size_t len);
/*
 * Reads the file to its end. What is damaged is read through and counted in stats. -EBADMSG with
 * detail if it holds no timeline. reterr->text may also hold a line beside success: what was left
 * out.
 */
int timeline_read(struct input *in, struct timeline **ret, struct read_stats *stats,
		  struct error *reterr);
/* Lanes in order of their numbers; each is given to a sink of its own, as often as wanted. */
uint32_t timeline_lanes(const struct timeline *t);
int timeline_give(struct timeline *t, uint32_t lane, struct trace_sink *sink);
struct timeline *timeline_free(struct timeline *t); /* NULL is fine; returns NULL */
