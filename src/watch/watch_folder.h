/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_folder.h - folders in which checkpoints and Flight Recorder dumps appear.
 *
 * A look reads at most SOURCE_ENTRIES_MOST entries of a folder, and of the newest one's inside.
 */
#pragma once
#include "watch/watch_source.h"

struct folder_look {
	uint64_t entries;
	int64_t newest_ns, bytes;
	char newest[128]; /* the entry of the folder itself */
	uint64_t newer;	  /* than some time */
	char lacks[96];	  /* what tells that the newest has not ended; "" */
	bool cut;	  /* there was more */
};
/* 0, with detail if it was cut; or a negative errno with detail. alive: called for each entry. */
int folder_look(const char *path, int64_t after_ns, void (*alive)(void), struct folder_look *ret,
		uint64_t *ret_dev, struct error *reterr);
/* What newer dumps are newer than. */
int64_t folder_after(const struct source *v);

/* What a look means; 1: it was cut. A save begins when something in the folder changes, and ends
   when it changes no more and lacks nothing that is written at a save's end. */
int folder_take_saves(struct sources *s, struct source *v, const struct folder_look *now);
/* result: of the look. */
int folder_take_dumps(struct sources *s, struct source *v, int result,
		      const struct folder_look *now);
