/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_files.h - what logs and folders hold: looked at in a helper (watch_lane.h), which sends
 * words of what it finds, and taken in the loop.
 */
#pragma once
#include "watch/watch_folder.h"

enum files_word {
	WORD_ALIVE,  /* it goes on, slowly */
	WORD_FOUND,  /* a: files that the pattern finds */
	WORD_FILE,   /* text: the path that the next words are of */
	WORD_HEADER, /* text: of readings, their columns */
	WORD_TEXT,   /* a: history, b: age in ms */
	WORD_CURSOR, /* struct files_cursor: that file is done */
	WORD_FOLDER, /* struct files_folder */
	WORD_END,    /* a: the device, b: it is known */
	WORDS
};
struct files_cursor {
	struct follow f; /* without path and descriptor */
	int result;
	char why[256];
};
struct files_folder {
	struct folder_look look;
	int result;
	char why[256];
};

/* In the helper: serves until the loop is gone. user: the struct sources. */
int files_serve(void *user);
/* In the loop: a word of source v, all but WORD_END. text is NUL-ended behind len. */
void files_take(struct sources *s, struct source *v, const struct lane_word *w, const char *text);
