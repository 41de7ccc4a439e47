/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_keep.h - a watcher's state as JSON, to go on from behind a restart.
 *
 * Times are kept as they are on the clock of this boot, beside the boot's name and the date; read
 * under another boot they are moved by what passed on the calendar.
 */
#pragma once
#include <jansson.h>

#include "watch/watch_core.h"

struct watch_clock {
	int64_t mono_ms, wall_ms;
	char boot[40];
};
struct watch_clock watch_clock_now(void);

json_t *watch_to_json(const struct watch *w, const struct watch_clock *clock);
/* Into one of watch_init; sources are added by their names. -EBADMSG with detail. */
int watch_from_json(struct watch *w, const json_t *j, const struct watch_clock *clock,
		    struct error *reterr);
/* Written beside and renamed. */
int watch_write_file(const char *path, const void *bytes, size_t len, bool sync,
		     struct error *reterr);
