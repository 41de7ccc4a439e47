/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_lines.h - stacks out of lines of text: whole files of them, or inside a log.
 *
 * Lines of several speakers (ranks, hosts) may be mixed line by line: each speaker has its own open
 * process, which goes to the testimony when it is complete. A log asks stack_word_begins() first
 * (stack_words.h), which costs a look at one character for nearly every line:
 *
 *	if ((stack_lines_open(s) || stack_word_begins(line, len)) && stack_lines_take(s, &from,
 *line, len)) the line belongs to a stack; at the end: stack_lines_end(s)
 */
#pragma once
#include "read/stack_words.h"

/* Who speaks: what the line's prefix says. */
struct stack_speaker {
	int64_t rank, local_rank; /* -1 */
	uint32_t host;		  /* NO_ID */
	uint32_t prefix;	  /* any other name of the stream; NO_ID */
};
struct stack_speaker stack_speaker_unknown(void);

struct stack_lines;

/* loose: the text is made of stacks, so that headings, bare frames and rules count as well. */
struct stack_lines *stack_lines_new(struct testimony *t, bool loose);
struct stack_lines *stack_lines_free(struct stack_lines *s); /* ends; NULL is fine; returns NULL */

/* True if the line, without its prefix and newline, belongs to a stack. */
bool stack_lines_take(struct stack_lines *s, const struct stack_speaker *from, const char *line,
		      size_t len);
/* Is a stack of any speaker being read? */
bool stack_lines_open(const struct stack_lines *s);
/* Gives all that is open to the testimony. */
void stack_lines_end(struct stack_lines *s);
/* Frames given so far. */
uint64_t stack_lines_frames(const struct stack_lines *s);
