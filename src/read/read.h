/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read.h - from one surveyed input to the events of the traces in it.
 *
 * One worker reads one input from its first byte to its last; nothing is held whole. An archive is
 * a series of members, each read like a file of its own with the path "archive:member".
 */
#pragma once
#include "model/event.h"
#include "model/testimony.h"
#include "read/survey.h"

struct read_client {
	void *user;
	/* A trace begins, or another rank of the one before: then path and kind are the same. Give
	 * the sink for its events, or a negative errno to leave it unread. */
	int (*begin)(void *user, const char *path, enum input_kind kind, struct trace_sink **ret);
	/* It ended. status: 0, or what stopped it; then `why` says it in one line (path, offset,
	   what). A truncated or damaged file that gave events ends with 0 and its skips counted in
	   stats. */
	void (*end)(void *user, const struct read_stats *stats, int status, const char *why);
	/* A member of an archive that is no trace, or could not be read. */
	void (*other)(void *user, const char *path, const char *why, bool said);
	/* The bytes of a step-record file or member, whole blocks or less at a time; NULL: not
	 * wanted. */
	int (*records)(void *user, const void *bytes, size_t len);
	/* What a dump, a log, stacks or power samples say: t is the client's now. why as in end. */
	void (*witness)(void *user, const char *path, struct testimony *t,
			const struct read_stats *stats, const char *why);
	/* A witness that nothing could be taken from; why in one line with its path. */
	void (*mute)(void *user, const char *path, const char *why);
	const char *step_range;	    /* NVTX range that is a step in Nsight recordings; NULL */
	_Atomic uint64_t *progress; /* bytes of files consumed; NULL: not wanted */
};

/* 0, or a negative errno with detail when nothing could be read from it. Thread-safe over inputs.
 */
int read_input(const struct survey_input *input, const struct read_client *client,
	       struct error *reterr);
