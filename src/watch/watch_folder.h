/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_folder.h - folders in which checkpoints and Flight Recorder dumps appear.
 *
 * A look reads at most SOURCE_ENTRIES_MOST entries of a folder, and of the newest one's inside; 1
 * with detail: there are more.
 */
#pragma once
#include "watch/watch_source.h"

/* A save begins when something in the folder changes, and ends when it changes no more. */
int folder_look_at_saves(struct sources *s, struct source *v, struct error *reterr);
int folder_look_at_dumps(struct sources *s, struct source *v, struct error *reterr);
