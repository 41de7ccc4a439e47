/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_lines.h - the lines of an input, one at a time, whatever their length: constant memory.
 *
 * A line is given without its end (LF, CR LF, or CR before LF). What exceeds TEXT_LINE_MAX is
 * skipped and counted in `cut`. TEXT_LINE_PAD zeros lie behind each line, so that the readers of
 * JSON may look there.
 */
#pragma once
#include "read/input.h"

#define TEXT_LINE_MAX ((size_t)64 << 10)
#define TEXT_LINE_PAD 64u

struct text_lines {
	struct input *in;
	char *buf, *copy; /* copy: the line with its zeros */
	size_t at, len;
	bool eof;
	int error;     /* of reading; what came before it was given */
	uint64_t line; /* the number of the one given last, from 1 */
	uint64_t cut;
};

void text_lines_init(struct text_lines *l, struct input *in);
void text_lines_done(struct text_lines *l);
/* The next line, valid until the next call; false at the end. */
bool text_lines_next(struct text_lines *l, const char **ret, size_t *ret_len);

/* A line of text in memory: moves *p behind it. False at the end. */
bool text_line_in(const char **p, const char *end, const char **ret, size_t *ret_len);
/* Moves *p and *len to what is neither white space nor a control character at both ends. */
void line_trim(const char **p, size_t *len);
bool line_is(const char *p, size_t len, const char *word);     /* case matters */
bool line_starts(const char *p, size_t len, const char *word); /* case matters */
bool line_has(const char *p, size_t len, const char *word);    /* case matters */
