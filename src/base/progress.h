/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - a bar on stderr, for people who wait: only on a terminal, only after a second. */
#pragma once
#include "base/base.h"

struct progress {
	_Atomic uint64_t done; /* raised by workers */
	uint64_t total;
	const char *what; /* "reading" */
	bool shown, enabled;
	uint64_t begun_ns;
};

void progress_begin(struct progress *p, const char *what, uint64_t total_bytes);
bool progress_wanted(const struct progress *p); /* false: stderr is no terminal; draw nothing */
void progress_draw(void *progress);		/* called now and then, by one thread */
void progress_end(struct progress *p);		/* takes the bar away */
