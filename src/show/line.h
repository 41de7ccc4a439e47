/* SPDX-License-Identifier: Apache-2.0 */
/* line.h - a sentence that grows, and the words that reports share. */
#pragma once
#include "base/buf.h"
#include "model/finding.h"

struct line {
	struct buf b;
};

void line_add(struct line *l, const char *format, ...) PRINTF_LIKE(2, 3);
const char *line_end(struct line *l); /* adds the NUL */
/* The sentence is printed and gone: buf_done(&l->b), to be used again. */
void line_done(struct line *l);

const char *plural(uint64_t n, const char *one, const char *many);
/* "rank 7", "ranks 3,7" or "unknown-1"; without known ranks the unknown ones' names alone. */
void line_ranks(struct line *l, const struct job *job, const uint32_t *rows, size_t n);
/* A set of ranks, at most `columns` wide: "0-3,5,.."; malloc'd. */
char *set_name(const char *set, size_t columns);
/* name, cut in its middle beyond `columns`. */
void line_name(struct line *l, const char *before, const char *name, size_t columns);
/* "2026-11-29 21:09:53 UTC" */
void line_time(struct line *l, int64_t epoch_ns);
/* "12 min", "3.2 h", "42 s" */
void line_duration(struct line *l, int64_t ns);
