/* SPDX-License-Identifier: Apache-2.0 */
/* text_inside.h - what the files of the text report share. */
#pragma once
#include "show/line.h"
#include "show/page.h"
#include "show/show.h"

struct text {
	struct page page;
	const struct report *r;
	const struct job *job;
	const struct show_options *options;
};

/* A command to copy, or advice. */
void text_next(const struct text *t, const char *next);

/* Lines one to three of a hang or a crash. */
void text_stopped(const struct text *t, const struct finding *f, enum page_style style);
bool text_is_stopped(const struct finding *f);
/* Where the ranks stand: groups, stacks, power. */
void text_scene(const struct text *t);
/* What was not given, and what would settle what is open. */
void text_gaps(const struct text *t);
