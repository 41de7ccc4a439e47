/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_saves.c - is a checkpoint being saved, and for longer than saves take here?
 *
 * All ranks but the writer stand in a barrier at little power during a save, as in a hang. What
 * tells the two apart is time, held against the job's own earlier saves.
 */
#include "judge/hang_internal.h"

#include <math.h>

/* Where nothing tells how long this one lasts: dumps that are taken by hand at some moment meet a
   long save easily, one that is over in seconds hardly ever. */
#define LONG_SAVE_MS 20e3
#define USUAL_TIMES  2.0 /* longer than this many of its longest save so far: no usual one */

static bool is_line_of(const struct scene_progress *p, const struct scene_saying *y)
{
	return p->file == y->file && (p->row == y->row || p->row == NO_ID || y->row == NO_ID);
}

/* Did steps go on behind the line? Then the save that it begins is over. */
static bool went_on(const struct scene *s, const struct scene_saying *y)
{
	for (size_t i = 0; i < s->progress.n; i++)
		if (is_line_of(&s->progress.v[i], y) &&
		    s->progress.v[i].p.last_line > y->s.last_line &&
		    (y->s.value < 0 || s->progress.v[i].p.last_step > y->s.value))
			return true;
	return false;
}

/* How long the save took that began with this line: as said, else the long step behind it. */
static double save_ms(const struct scene *s, const struct scene_saying *y)
{
	for (size_t i = 0; i < s->sayings.n; i++) {
		const struct scene_saying *end = &s->sayings.v[i];

		if (end->s.kind != SAY_SAVE_END || end->file != y->file || end->row != y->row ||
		    end->s.line < y->s.line ||
		    (y->s.value >= 0 && end->s.value >= 0 && end->s.value != y->s.value))
			continue;
		if (end->s.duration_ns > 0)
			return (double)end->s.duration_ns / 1e6;
		if (end->s.time_ns > 0 && y->s.time_ns > 0)
			return (double)(end->s.time_ns - y->s.time_ns) / 1e6;
	}
	for (size_t i = 0; i < s->progress.n; i++)
		for (uint32_t g = 0; g < s->progress.v[i].p.n_gaps; g++)
			if (is_line_of(&s->progress.v[i], y) && y->s.value >= 0 &&
			    s->progress.v[i].p.gaps[g].step == y->s.value + 1)
				return s->progress.v[i].p.gaps[g].ms;
	return NAN;
}

static bool was_ended(const struct scene *s, const struct scene_saying *y)
{
	for (size_t i = 0; i < s->sayings.n; i++)
		if (s->sayings.v[i].s.kind == SAY_SAVE_END && s->sayings.v[i].file == y->file &&
		    (s->sayings.v[i].row == y->row || y->row == NO_ID ||
		     s->sayings.v[i].row == NO_ID) &&
		    s->sayings.v[i].s.last_line > y->s.last_line)
			return true;
	return false;
}

static void note_save(struct hang *h, const struct scene_saying *y)
{
	/* who names no rank speaks for all; by custom rank 0 writes */
	uint32_t row = y->row != NO_ID ? y->row : 0;
	double ms;

	if (row >= h->s->ranks.n)
		return;
	if (y->s.kind == SAY_SAVE_END)
		return;
	if (!went_on(h->s, y) && !was_ended(h->s, y)) {
		h->look[row].saving = true;
		h->save_began_ns = MAX(h->save_began_ns, y->s.last_ns);
		return;
	}
	h->saves_before++;
	ms = save_ms(h->s, y);
	h->longest_save_ms = isnan(ms) ? h->longest_save_ms : fmax(h->longest_save_ms, ms);
}

void look_at_saves(struct hang *h)
{
	h->save_began_ns = -1;
	for (size_t i = 0; i < h->s->sayings.n; i++) {
		const struct scene_saying *y = &h->s->sayings.v[i];

		if (y->s.kind == SAY_SAVE_BEGIN || y->s.kind == SAY_SAVE_END)
			note_save(h, y);
	}
}

/* The latest moment of what is sampled again and again. The last line of a log is no such moment.
 */
void look_at_now(struct hang *h)
{
	h->now_ns = -1;
	for (size_t i = 0; i < h->s->gpus.n; i++) {
		const struct gpu_series *g = h->s->gpus.v[i].series;

		if (g->n_samples)
			h->now_ns = MAX(h->now_ns, g->samples[g->n_samples - 1].time_ns);
	}
	for (size_t i = 0; i < h->s->counts.n; i++)
		h->now_ns = MAX(h->now_ns, h->s->counts.v[i].time_ns);
}

bool save_is_usual(const struct hang *h)
{
	double since;

	if (!h->saves_before || h->timed_out || h->s->moved == MOVED_NO)
		return false;
	if (h->save_began_ns < 0 || h->now_ns < h->save_began_ns || !(h->longest_save_ms > 0))
		return h->longest_save_ms >= LONG_SAVE_MS;
	since = (double)(h->now_ns - h->save_began_ns) / 1e6;
	return since <= USUAL_TIMES * h->longest_save_ms + 1000.0;
}
