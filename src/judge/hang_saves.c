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

/* One file's lines of saves and steps, by who speaks: by row, those of no rank in the last place.
 */
struct file_saves {
	const struct scene *s;
	size_t from, to;       /* its sayings */
	size_t first, n_steps; /* its progress */
	uint64_t *ended;       /* the last line that ends a save */
	uint64_t ended_any;
	uint32_t *steps;    /* row of scene.progress */
	uint32_t *end;	    /* the next saying that ends a save of the same, from `from` on */
	uint32_t *next_end; /* by saying: the same behind it */
};

/* Where no rank of its own tells how long a save took, so many others are asked: they all wait. */
#define STEPS_ASKED 64u

static uint32_t place_of(const struct file_saves *f, uint32_t row)
{
	return row == NO_ID ? (uint32_t)f->s->ranks.n : row;
}

static bool ends_save(const struct scene_saying *y)
{
	return y->s.kind == SAY_SAVE_END;
}

/* The file's own entries of the tables, set or cleared. */
static void file_lines(struct file_saves *f, bool set)
{
	f->ended_any = 0;
	for (size_t i = f->to; i-- > f->from;) {
		const struct scene_saying *y = &f->s->sayings.v[i];
		uint32_t place = place_of(f, y->row);

		if (!ends_save(y))
			continue;
		f->next_end[i] = set ? f->end[place] : NO_ID;
		f->end[place] = set ? (uint32_t)i : NO_ID;
		f->ended[place] = set ? MAX(f->ended[place], y->s.last_line) : 0;
		f->ended_any = MAX(f->ended_any, f->ended[place]);
	}
	for (size_t i = f->first + f->n_steps; i-- > f->first;)
		f->steps[place_of(f, f->s->progress.v[i].row)] = set ? (uint32_t)i : NO_ID;
}

static bool steps_behind(const struct file_saves *f, uint32_t i, const struct scene_saying *y)
{
	const struct log_progress *p = i == NO_ID ? NULL : &f->s->progress.v[i].p;

	return p && p->last_line > y->s.last_line && (y->s.value < 0 || p->last_step > y->s.value);
}

/* Did steps go on behind the line? Then the save that it begins is over. */
static bool went_on(const struct file_saves *f, const struct scene_saying *y)
{
	if (y->row != NO_ID)
		return steps_behind(f, f->steps[y->row], y) ||
		       steps_behind(f, f->steps[f->s->ranks.n], y);
	for (size_t i = f->first; i < f->first + f->n_steps; i++)
		if (steps_behind(f, (uint32_t)i, y))
			return true;
	return false;
}

static double gap_behind(const struct file_saves *f, uint32_t i, const struct scene_saying *y)
{
	const struct log_progress *p = i == NO_ID ? NULL : &f->s->progress.v[i].p;

	for (uint32_t g = 0; p && y->s.value >= 0 && g < p->n_gaps; g++)
		if (p->gaps[g].step == y->s.value + 1)
			return p->gaps[g].ms;
	return NAN;
}

static double gap_of_any(const struct file_saves *f, const struct scene_saying *y)
{
	double ms = NAN;

	if (y->row != NO_ID) {
		ms = gap_behind(f, f->steps[y->row], y);
		return isnan(ms) ? gap_behind(f, f->steps[f->s->ranks.n], y) : ms;
	}
	for (size_t i = f->first; isnan(ms) && i < f->first + MIN(f->n_steps, STEPS_ASKED); i++)
		ms = gap_behind(f, (uint32_t)i, y);
	return ms;
}

/* How long the save took that began with this line: as said, else the long step behind it. */
static double save_ms(const struct file_saves *f, const struct scene_saying *y)
{
	for (uint32_t i = f->end[place_of(f, y->row)]; i != NO_ID; i = f->next_end[i]) {
		const struct saying *end = &f->s->sayings.v[i].s;

		if (end->line < y->s.line ||
		    (y->s.value >= 0 && end->value >= 0 && end->value != y->s.value))
			continue;
		if (end->duration_ns > 0)
			return (double)end->duration_ns / 1e6;
		if (end->time_ns > 0 && y->s.time_ns > 0)
			return (double)(end->time_ns - y->s.time_ns) / 1e6;
	}
	return gap_of_any(f, y);
}

static bool was_ended(const struct file_saves *f, const struct scene_saying *y)
{
	uint64_t last =
	    y->row == NO_ID ? f->ended_any : MAX(f->ended[y->row], f->ended[f->s->ranks.n]);

	return last > y->s.last_line;
}

static void note_save(struct hang *h, const struct file_saves *f, const struct scene_saying *y)
{
	/* who names no rank speaks for all; by custom rank 0 writes */
	uint32_t row = y->row != NO_ID ? y->row : 0;
	double ms;

	if (row >= h->s->ranks.n)
		return;
	if (!went_on(f, y) && !was_ended(f, y)) {
		h->look[row].saving = true;
		h->save_began_ns = MAX(h->save_began_ns, y->s.last_ns);
		return;
	}
	h->saves_before++;
	ms = save_ms(f, y);
	h->longest_save_ms = isnan(ms) ? h->longest_save_ms : fmax(h->longest_save_ms, ms);
}

static void look_at_file(struct hang *h, struct file_saves *f)
{
	file_lines(f, true);
	for (size_t i = f->from; i < f->to; i++) {
		const struct scene_saying *y = &f->s->sayings.v[i];

		/* what ended before the next line is none of its ends */
		if (y->s.kind == SAY_SAVE_BEGIN)
			note_save(h, f, y);
		else if (ends_save(y))
			f->end[place_of(f, y->row)] = f->next_end[i];
	}
	file_lines(f, false);
}

/* Files come one after the other, in sayings and in progress alike. */
void look_at_saves(struct hang *h)
{
	const struct scene *s = h->s;
	size_t places = s->ranks.n + 1;
	_cleanup_free_ uint64_t *ended = xcalloc(places, sizeof(*ended));
	_cleanup_free_ uint32_t *steps = xmalloc(places * sizeof(*steps));
	_cleanup_free_ uint32_t *end = xmalloc(places * sizeof(*end));
	_cleanup_free_ uint32_t *next = xcalloc(s->sayings.n + 1, sizeof(*next));
	struct file_saves f = {
		.s = s, .ended = ended, .steps = steps, .end = end, .next_end = next
	};

	h->save_began_ns = -1;
	memset(steps, 0xff, places * sizeof(*steps));
	memset(end, 0xff, places * sizeof(*end));
	while (f.from < s->sayings.n) {
		uint32_t file = s->sayings.v[f.from].file;

		for (f.to = f.from; f.to < s->sayings.n && s->sayings.v[f.to].file == file; f.to++)
			;
		for (f.first += f.n_steps;
		     f.first < s->progress.n && s->progress.v[f.first].file < file;)
			f.first++;
		for (f.n_steps = 0; f.first + f.n_steps < s->progress.n &&
				    s->progress.v[f.first + f.n_steps].file == file;)
			f.n_steps++;
		look_at_file(h, &f);
		f.from = f.to;
	}
}

/* The latest moment of what is sampled again and again. The last line of a log is no such moment.
 */
void look_at_now(struct hang *h)
{
	h->now_ns = gpus_read_ns(h);
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
