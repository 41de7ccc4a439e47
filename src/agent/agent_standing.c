/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_standing.c - where ranks stand when one of them is gone, or when nothing moves.
 *
 * The process that was gone first, in the middle of a phase or a collective, is what the others
 * wait for; those that go after it are ended by their launcher. So the order is kept, and the
 * standings of those that still live are told for a while, since they run into their waits later.
 */
#include "agent/agent_inside.h"

#define SECOND	    ((int64_t)1000000000)
#define TOGETHER_NS (SECOND / 10) /* gone within: at about one time */
#define FOLLOW_NS   (30 * SECOND) /* how long the others are looked at */
#define HUNG_NS	    (10 * SECOND) /* .. so long when the job was ended: it hung */
#define STALL_NS    (60 * SECOND) /* a collective under way so long: nothing moves */

static void standing_write(struct agent *a, struct followed *f, enum rank_state state, int64_t now)
{
	const struct intern *names;
	struct error error = { "" };
	struct rank_standing s;
	struct rank_info info;

	if (!rank_standing(f->live, &s, &names) && !s.n_done)
		return;
	s.state = state;
	s.time_ns = now;
	fold_stream_head(f->live->fold, &info);
	agent_recording_of(a, f);
	if (recording_standing(f->recording, f->who, &s, names, &info, now, &error) < 0 &&
	    !a->trouble[TROUBLE_WRITE]++)
		a->options->say("%s", error.text);
	a->dirty = true;
}

static bool is_of(const struct agent *a, const struct followed *f, size_t recording)
{
	return f->live && recording_is(a->recordings.v[recording].r, f->live->ring->h.job,
				       f->live->ring->h.world_size);
}

/* A collective is under way that began before. */
static bool is_stalled(const struct followed *f, int64_t before)
{
	const struct ring_file *r = f->live->ring;

	for (uint32_t i = 0; i < r->h.n_pending; i++)
		if (r->pending[i].id && ring_time(r, r->pending[i].r.t) < before)
			return true;
	return false;
}

static bool any_stalled(const struct agent *a, size_t recording, int64_t before)
{
	for (size_t i = 0; i < a->rings.n; i++)
		if (is_of(a, &a->rings.v[i], recording) && is_stalled(&a->rings.v[i], before))
			return true;
	return false;
}

static void living_write(struct agent *a, size_t recording, int64_t now)
{
	for (size_t i = 0; i < a->rings.n; i++)
		if (is_of(a, &a->rings.v[i], recording) && !a->rings.v[i].gone)
			standing_write(a, &a->rings.v[i], RANK_LIVES, now);
	a->recordings.v[recording].standings_at = now;
}

static bool has_ended(const struct followed *f)
{
	return f->live->ring->h.state == RING_ENDED;
}

/* Another process ended by itself before this one was gone: that one was first. */
static bool ended_before(const struct agent *a, size_t recording, const struct followed *gone)
{
	for (size_t i = 0; i < a->rings.n; i++) {
		const struct followed *f = &a->rings.v[i];

		if (is_of(a, f, recording) && f->gone && has_ended(f) && f->gone_at < gone->gone_at)
			return true;
	}
	return false;
}

static int64_t last_call(const struct rank_standing *s, const struct intern *names,
			 const char *group)
{
	int64_t last = -1;

	for (uint32_t i = 0; i < s->n_done; i++)
		if (!strcmp(intern_get(names, s->done[i].group), group))
			last = MAX(last, s->done[i].seq);
	for (uint32_t i = 0; i < s->n_pending; i++)
		if (!strcmp(intern_get(names, s->pending[i].group), group))
			last = MAX(last, s->pending[i].seq);
	return last;
}

/* Another rank has called a collective that this one never came to. */
static bool left_behind(const struct agent *a, size_t recording, const struct followed *gone,
			const struct rank_standing *own, const struct intern *own_names)
{
	for (size_t i = 0; i < a->rings.n; i++) {
		const struct followed *f = &a->rings.v[i];
		const struct intern *names;
		struct rank_standing s;

		if (f == gone || !is_of(a, f, recording))
			continue;
		rank_standing(f->live, &s, &names);
		for (uint32_t k = 0; k < own->n_done; k++) {
			const char *group = intern_get(own_names, own->done[k].group);

			if (last_call(&s, names, group) > last_call(own, own_names, group))
				return true;
		}
	}
	return false;
}

static bool any_lives(const struct agent *a, size_t recording)
{
	for (size_t i = 0; i < a->rings.n; i++)
		if (is_of(a, &a->rings.v[i], recording) && !a->rings.v[i].gone)
			return true;
	return false;
}

/* Of the processes that were gone: were there others that outlived them? A job that is ended from
   outside loses all at about one time, and none of them was first. */
static bool outlived(const struct agent *a, size_t recording, int64_t gone_at)
{
	size_t members = 0;

	for (size_t i = 0; i < a->rings.n; i++) {
		const struct followed *f = &a->rings.v[i];

		if (!is_of(a, f, recording))
			continue;
		members++;
		if (!f->gone || has_ended(f) || f->gone_at > gone_at + TOGETHER_NS)
			return true;
	}
	return members == 1;
}

/* false: it is too early to tell. */
static bool gone_tell(struct agent *a, size_t recording, struct followed *f, int64_t now, bool last)
{
	int64_t *gone_at = &a->recordings.v[recording].gone_at;
	const struct intern *names;
	struct rank_standing s;
	bool first, others, cut;

	if (has_ended(f))
		return true;
	/* Between two phases there is nothing to see of it, but others miss it, or will. */
	if (!rank_standing(f->live, &s, &names) && !left_behind(a, recording, f, &s, names))
		return last || !s.n_done || now - f->gone_at > FOLLOW_NS ||
		       !any_lives(a, recording);
	if (!*gone_at)
		*gone_at = f->gone_at;
	if (now - *gone_at < TOGETHER_NS && !last)
		return false;
	others = outlived(a, recording, *gone_at) && !ended_before(a, recording, f);
	/* Who waited so long was no cause: a time-out of its own ended it. */
	first = others && f->gone_at <= *gone_at + TOGETHER_NS / 10 &&
		!is_stalled(f, f->gone_at - HUNG_NS);
	/* A job that was ended while it went on stood nowhere in particular. */
	cut = !others && !any_stalled(a, recording, *gone_at - HUNG_NS);
	standing_write(a, f, cut ? RANK_CUT : first ? RANK_GONE : RANK_GONE_AFTER, now);
	return true;
}

static void recording_look(struct agent *a, size_t k, int64_t now, bool last)
{
	bool stalled = false;

	for (size_t i = 0; i < a->rings.n; i++) {
		struct followed *f = &a->rings.v[i];

		if (!is_of(a, f, k))
			continue;
		if (f->gone && !f->told)
			f->told = gone_tell(a, k, f, now, last);
		stalled |= !f->gone && is_stalled(f, now - STALL_NS);
	}
	if (now - a->recordings.v[k].standings_at <
	    (a->recordings.v[k].gone_at ? SECOND / 2 : STALL_NS))
		return;
	if (stalled || (a->recordings.v[k].gone_at && now - a->recordings.v[k].gone_at < FOLLOW_NS))
		living_write(a, k, now);
}

void standings_look(struct agent *a, int64_t now, bool last)
{
	/* A process that never ended a step is of a recording too. */
	for (size_t i = 0; i < a->rings.n; i++)
		if (a->rings.v[i].live && a->rings.v[i].live->ring->h.n_names)
			agent_recording_of(a, &a->rings.v[i]);
	for (size_t k = 0; k < a->recordings.n; k++)
		recording_look(a, k, now, last);
	/* Of those that are of no recording there is nothing to tell. */
	for (size_t i = 0; i < a->rings.n; i++)
		a->rings.v[i].told |= a->rings.v[i].gone && !a->rings.v[i].recording;
}
