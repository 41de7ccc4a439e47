/* SPDX-License-Identifier: Apache-2.0 */
/* play.h - the pass over a trace's items by time: play.c gathers them by step, close.c closes
 * steps. */
#pragma once
#include "fold/launches.h"

#define MARKS_APART_NS ((int64_t)1000000) /* marks further apart do not touch */

struct open_step {
	struct works work;
	struct ranges ranges;
};

struct player {
	struct fold *f;
	struct rank_stream *out;
	struct closing closing;
	struct groups groups;
	struct launches launches;
	struct calls calls;
	bool gpu_job;
	uint32_t host_mark; /* of the last host item */
	int64_t host_mark_from, host_mark_to;
	uint32_t mark; /* that was last found for work without a launch, and from when to when */
	int64_t mark_from, mark_to;
	uint32_t base;		/* first open mark */
	struct open_step *open; /* a ring: mark m is at m % cap_open, a power of two */
	size_t n_open, cap_open;
	int64_t lead;	     /* the most by which work of a mark starts before the mark */
	struct works strays; /* outside every mark, or of closed steps: still busy */
	struct ranges stray_ranges;
	int64_t window_end; /* of the last closed step; TIME_UNKNOWN */
	uint32_t *name_map;
	size_t n_name_map;
	struct buf record, record_head;
};

void marks_settle(struct fold *f);
int play_all(struct player *p, struct error *reterr);
int play_item(struct player *p, const struct item *it, struct error *reterr); /* stream.c */
void open_widen(struct player *p, size_t n);
void player_done(struct player *p); /* its memory, but for that of closing */
static inline struct open_step *open_at(const struct player *p, uint32_t mark)
{
	return &p->open[mark & (p->cap_open - 1)];
}
static inline struct open_step *open_of(struct player *p, uint32_t mark)
{
	size_t n = mark - p->base + (size_t)1;

	if (n > p->n_open)
		open_widen(p, n);
	return open_at(p, mark);
}
/* What was just put at the end of a list. */
static inline void works_settle(struct works *to, bool gpu)
{
	const struct work *w = &to->v[to->n - 1];

	if (to->n == 1) {
		to->end = TIME_UNKNOWN;
		to->unordered = to->loose = false;
	} else if (work_compare(w - 1, w) > 0) {
		to->unordered = true;
	}
	to->end = MAX(to->end, w->end);
	to->loose |= !gpu;
}
int step_close(struct player *p, struct error *reterr); /* the first open one */
uint32_t name_out(struct player *p, uint32_t name);	/* id of the trace -> id of the stream */
