/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nsys.h - an Nsight Systems recording as `nsys export --type sqlite` writes it, schema 3.13 and
 * on.
 *
 * One file holds one machine: each process's GPU in it is a rank, and is given as the trace of one.
 */
#pragma once
#include "model/event.h"
#include "read/input.h"

struct nsys;

/*
 * Reads the file, which `path` names; plain: it lies there uncompressed. -ENODATA if it is a
 * database of something else, -ENOTSUP if SQLite is not installed, -EBADMSG with detail if nothing
 * could be read. reterr->text may also hold a line beside success: what was lost, or that no range
 * is called step_range. That is the NVTX range which is a step, "NAME" or "NAME@DOMAIN"; NULL: told
 * by names and by what repeats.
 */
int nsys_read(struct input *in, const char *path, bool plain, const char *step_range,
	      struct nsys **ret, struct read_stats *stats, struct error *reterr);
uint32_t nsys_ranks(const struct nsys *n);
int nsys_give(struct nsys *n, uint32_t rank, struct trace_sink *sink);
struct nsys *nsys_free(struct nsys *n); /* NULL is fine; returns NULL */
