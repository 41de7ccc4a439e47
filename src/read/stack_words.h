/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_words.h - what one line of a stack dump is: the grammars of py-spy, gdb, faulthandler,
 * pystack, eu-stack, the kernel, and of what people make of them.
 *
 * Each line is read alone, without memory; stack_lines.c puts them together. Texts point into the
 * line.
 */
#pragma once
#include "base/base.h"
#include "model/testimony.h"

struct text {
	const char *p, *end;
};
static inline size_t text_len(struct text t)
{
	return (size_t)(t.end - t.p);
}

enum stack_word_kind {
	WORD_NONE,    /* of no stack */
	WORD_BLANK,   /* nothing but white space */
	WORD_RULE,    /* "----": what follows is of another process */
	WORD_PROCESS, /* "Process 123: python train.py" */
	WORD_THREAD,  /* "Thread 123 (idle): "MainThread"" */
	WORD_FRAME,
	WORD_LOST_FRAME, /* a frame that its tool could not name */
	WORD_NOTE,	 /* of a stack, but says nothing: versions, locals, banners */
	WORD_ORDER,	 /* "Traceback (most recent call first):" of a thread that is open */
	WORD_FATAL,	 /* "Fatal Python error: Segmentation fault" */
	WORD_TIMEOUT,	 /* "Timeout (0:00:05)!" */
	WORD_PLACE,	 /* "=== rank 3 (node1) ===": whose stacks follow */
};

struct stack_word {
	enum stack_word_kind kind;
	enum stack_tool tool;
	int64_t pid, tid;  /* -1; tid is the system's, not pthread's */
	int64_t number;	   /* gdb's number of the thread; -1 */
	struct text name;  /* of the thread, or the process's command, or the fatal error */
	struct text ranks; /* PLACE: "0-3,5" */
	struct text host;  /* PLACE; THREAD and PROCESS: empty */
	struct text function, file;
	int32_t line;
	unsigned indent; /* of a frame */
	bool active, gil, collecting;
	bool main;    /* said to be the main one */
	bool alone;   /* the only thread that the tool shows */
	bool parent;  /* PROCESS: the parent of the one before */
	bool outward; /* THREAD, ORDER: the most recent call comes last */
};

/* `open`: a thread is being read, so that bare frames and notes belong to it. */
struct stack_word stack_word_of(const char *line, size_t len, bool open);
/* Could a stack begin with this line, in a text that is not made of stacks? */
bool stack_word_begins(const char *line, size_t len);
