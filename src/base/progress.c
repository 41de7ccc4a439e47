/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - drawn over itself on one line of the terminal, and gone when the work is done. */
#include "base/progress.h"
#include "base/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define QUIET_NS  1000000000u
#define BAR_WIDTH 30

void progress_begin(struct progress *p, const char *what, uint64_t total_bytes)
{
	const char *term = getenv("TERM");

	*p = (struct progress){ .total = total_bytes, .what = what };
	p->enabled = isatty(STDERR_FILENO) && total_bytes && term && strcmp(term, "dumb");
	p->begun_ns = (uint64_t)clock_ns();
}

bool progress_wanted(const struct progress *p)
{
	return p->enabled;
}

void progress_draw(void *progress)
{
	struct progress *p = progress;
	uint64_t done = atomic_load(&p->done);
	double part = (double)MIN(done, p->total) / (double)p->total;
	double seconds = (double)((uint64_t)clock_ns() - p->begun_ns) / 1e9;
	char bar[BAR_WIDTH + 1];

	if (!p->enabled || seconds * 1e9 < QUIET_NS)
		return;
	for (int i = 0; i < BAR_WIDTH; i++)
		bar[i] = i < (int)(part * BAR_WIDTH) ? '#' : '.';
	bar[BAR_WIDTH] = 0;
	fprintf(stderr, "\r%s [%s] %3.0f %% of %.1f MB, %.0f MB/s ", p->what, bar, part * 100,
		(double)p->total / 1e6, (double)done / 1e6 / seconds);
	fflush(stderr);
	p->shown = true;
}

void progress_end(struct progress *p)
{
	if (p->shown)
		fprintf(stderr, "\r%78s\r", "");
	p->shown = false;
}
