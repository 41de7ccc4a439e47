/* SPDX-License-Identifier: Apache-2.0 */
/* hang_look.c - what is known of each rank by its stack and its log, before anyone is compared. */
#include "judge/hang_internal.h"

#include <stdio.h>

bool waits_by_stack(const struct doing_found *d)
{
	return d->doing == DOING_COLLECTIVE || d->doing == DOING_BACKWARD ||
	       d->doing == DOING_GPU_WAIT || d->doing == DOING_RENDEZVOUS;
}

/* Of the main thread's frames. */
static uint64_t stack_hash(const struct scene_stack *k)
{
	const struct thread_stack *t = &k->of->threads.v[k->main_thread];
	uint64_t h = t->n_frames;

	for (uint32_t i = 0; i < t->n_frames; i++) {
		const struct frame *f = &k->of->frames.v[t->frame + i];
		const char *function = intern_get(&k->of->names, f->function);
		const char *file = intern_get(&k->of->names, f->file);

		h = hash_bytes(function, strlen(function), h);
		h = hash_bytes(file, strlen(file), h);
		h = hash_mix(h, (uint32_t)f->line);
	}
	return h;
}

static bool tells_nothing(enum doing d)
{
	return d == DOING_UNKNOWN || d == DOING_WORKER || d == DOING_LAUNCHER || d == DOING_MODEL ||
	       d == DOING_LOCK;
}

static bool waits_by_dump(const struct scene *s, uint32_t row)
{
	return s->ranks.v[row].wait_group != NO_ID;
}

/* Did it come to its wait, or leave it, between two moments? */
static bool moved_on(const struct scene_stack *before, const struct scene_stack *now,
		     const struct doing_found *doing)
{
	struct doing_found was =
	    doing_of_process(before->of, &before->of->stacks.v[before->process]);
	bool waited = waits_by_stack(&was);

	if (waited != waits_by_stack(doing))
		return true;
	return waited && was.caller.function != NO_ID && doing->caller.function != NO_ID &&
	       (was.caller.line != doing->caller.line ||
		strcmp(intern_get(&before->of->names, was.caller.function),
		       intern_get(&now->of->names, doing->caller.function)) != 0);
}

static void look_at_stacks(struct hang *h)
{
	struct intern places = { 0 };

	for (size_t i = 0; i < h->s->ranks.n; i++) {
		uint32_t row = h->s->ranks.v[i].stack;
		struct rank_look *l = &h->look[i];
		const struct scene_stack *k;
		char hash[17];

		if (row == NO_ID)
			continue;
		k = &h->s->stacks.v[row];
		l->doing = doing_of_process(k->of, &k->of->stacks.v[k->process]);
		if (h->s->ranks.v[i].stack_before != NO_ID)
			h->goes_on |=
			    moved_on(&h->s->stacks.v[h->s->ranks.v[i].stack_before], k, &l->doing);
		snprintf(hash, sizeof(hash), "%016" PRIx64, stack_hash(k));
		l->place = intern_str(&places, hash);
		l->has_stack = l->doing.doing != DOING_WORKER && l->doing.doing != DOING_LAUNCHER;
		h->n_stacks += l->has_stack;
		l->waiting_stack = l->has_stack && waits_by_stack(&l->doing);
		/* who waits in a collective by its dump is not busy, wherever its host stands */
		l->busy_stack = l->has_stack && !l->waiting_stack &&
				!tells_nothing(l->doing.doing) && !waits_by_dump(h->s, (uint32_t)i);
	}
	intern_done(&places);
}

/* Who stands where ranks stand that wait by their dumps, waits as well: the place hides it. */
static void look_at_equal_stacks(struct hang *h)
{
	const struct scene *s = h->s;
	struct shared {
		size_t all, waiting;
	};
	_cleanup_free_ struct shared *shared = xcalloc(s->ranks.n + 1, sizeof(*shared));

	for (int pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < s->ranks.n; i++) {
			struct rank_look *l = &h->look[i];
			struct shared *same = &shared[l->place];

			if (!l->has_stack || l->waiting_stack)
				continue;
			if (!pass) {
				same->all++;
				same->waiting += waits_by_dump(s, i);
			} else if (2 * same->waiting > same->all) {
				l->waiting_stack = true;
				l->busy_stack = false;
			}
		}
}

/* What a log is about at its end, by the first line of the kind that is of the rank or of all. */
static void look_at_topic(struct hang *h, enum saying_kind kind, bool *(*of)(struct rank_look *l))
{
	const struct scene *s = h->s;
	_cleanup_free_ uint64_t *last = xcalloc(s->files.n + 1, sizeof(*last));
	_cleanup_free_ bool *told = xcalloc(s->ranks.n + 1, sizeof(*told));

	for (size_t i = 0; i < s->progress.n; i++)
		last[s->progress.v[i].file] =
		    MAX(last[s->progress.v[i].file], s->progress.v[i].p.last_line);
	for (size_t i = 0; i < s->sayings.n; i++) {
		const struct scene_saying *y = &s->sayings.v[i];
		uint32_t from = y->row == NO_ID ? 0 : y->row;
		uint32_t to = y->row == NO_ID ? (uint32_t)s->ranks.n : y->row + 1;

		if (y->s.kind != kind)
			continue;
		for (uint32_t row = from; row < to; row++) {
			if (!told[row])
				*of(&h->look[row]) = last[y->file] <= y->s.last_line;
			told[row] = true;
		}
		if (y->row == NO_ID)
			return; /* it tells of all that were left */
	}
}

static bool *data_work_of(struct rank_look *l)
{
	return &l->data_work;
}

static bool *compile_of(struct rank_look *l)
{
	return &l->compile;
}

static void look_at_machines(struct hang *h)
{
	const struct scene *s = h->s;

	for (size_t i = 0; i < s->counts.n; i++) {
		const struct scene_count *c = &s->counts.v[i];

		if (c->row != NO_ID && c->latest &&
		    (c->c.dead || c->c.missing || c->c.unresponsive))
			h->look[c->row].unanswered = true;
	}
	for (size_t i = s->gpus.n; i-- > 0;)
		if (s->gpus.v[i].row != NO_ID && !s->gpus.v[i].assumed &&
		    s->gpus.v[i].series->xid > 0)
			h->look[s->gpus.v[i].row].xid = s->gpus.v[i].series->xid;
	for (size_t i = 0; i < s->sayings.n; i++)
		if (s->sayings.v[i].s.kind == SAY_NODE_FAILED)
			*vec_push(&h->nodes_failed) = (uint32_t)i;
}

static void look_at_farewells(struct hang *h)
{
	for (size_t i = 0; i < h->s->sayings.n; i++) {
		const struct scene_saying *y = &h->s->sayings.v[i];

		if (y->s.kind == SAY_LEFT && y->row != NO_ID) {
			if (!h->look[y->row].left) /* the first says why, the last only "bye" */
				h->look[y->row].left_said = y;
			h->look[y->row].left = true;
		}
		if (y->s.kind == SAY_DUMP_SIGNAL && y->row != NO_ID)
			h->look[y->row].told = true;
		if (y->s.kind == SAY_HEARTBEAT && y->row != NO_ID)
			h->look[y->row].monitored = true;
		if (y->s.kind == SAY_TIMEOUT || y->s.kind == SAY_DUMP_SIGNAL ||
		    y->s.kind == SAY_DESYNC_LAGGING || y->s.kind == SAY_NOT_JOINED)
			h->timed_out = true;
		if (y->s.kind == SAY_TIMEOUT)
			h->waited_ms = MAX(h->waited_ms, y->s.ran_ms);
	}
}

#define NEAR_END_SHARE	 0.01
#define STEPS_LEAST	 20 /* of a shorter run any step is near the end */
#define GOES_ON_LEAST_NS ((int64_t)1000000000)
#define GOES_ON_MOST_NS	 ((int64_t)600 * 1000000000)
#define ZONES_NS	 ((int64_t)27 * 3600 * 1000000000) /* no two clocks are so far apart */

static bool near(int64_t at, int64_t total)
{
	return total >= STEPS_LEAST && at <= total &&
	       (double)(total - at) <= NEAR_END_SHARE * (double)total;
}

static void look_at_progress(struct hang *h)
{
	h->last_step = h->total_steps = -1;
	for (size_t i = 0; i < h->s->progress.n; i++) {
		const struct scene_progress *p = &h->s->progress.v[i];

		if (p->p.last_step > h->last_step) {
			h->last_step = p->p.last_step;
			h->total_steps = p->p.total_steps;
		}
		h->near_end |=
		    near(p->p.last_step, p->p.total_steps) || near(p->p.epoch_at, p->p.epoch_steps);
		/* Stamps have whole seconds at worst; what is further off is another time zone, or
		   days later. */
		if (h->s->recorded_ns > 0 && p->p.last_ns > h->s->recorded_ns + GOES_ON_LEAST_NS &&
		    (p->p.last_ns < h->s->recorded_ns + GOES_ON_MOST_NS ||
		     p->p.last_ns > h->s->recorded_ns + ZONES_NS))
			h->goes_on = true;
	}
}

/* Where every rank prints its own steps, the end of an epoch is printed by all or it is not over.
 */
static void look_at_epochs(struct hang *h)
{
	const struct scene *s = h->s;
	_cleanup_free_ bool *over = xcalloc(s->ranks.n + 1, sizeof(bool));
	size_t print = 0, n = 0;

	for (uint32_t row = 0; row < s->ranks.n; row++)
		print += s->ranks.v[row].progress != NO_ID;
	for (size_t i = 0; i < s->sayings.n; i++) {
		const struct scene_saying *y = &s->sayings.v[i];
		const struct log_progress *p =
		    y->row == NO_ID || s->ranks.v[y->row].progress == NO_ID
			? NULL
			: &s->progress.v[s->ranks.v[y->row].progress].p;

		if (y->s.kind == SAY_EPOCH_END && p && y->s.last_line > p->last_line &&
		    !over[y->row]) {
			over[y->row] = true;
			n++;
		}
	}
	if (print < 3 || 2 * n >= print || print < s->ranks.n)
		return;
	for (uint32_t row = 0; row < s->ranks.n; row++)
		if (over[row])
			*vec_push(&h->early) = row;
}

void look_at_ranks(struct hang *h)
{
	h->look = xcalloc(h->s->ranks.n + 1, sizeof(*h->look));
	h->waited_ms = -1;
	for (size_t i = 0; i < h->s->ranks.n; i++) {
		h->look[i].doing.frame.function = h->look[i].doing.caller.function = NO_ID;
		h->look[i].xid = -1;
	}
	look_at_stacks(h);
	look_at_equal_stacks(h);
	look_at_now(h);
	look_at_saves(h);
	look_at_topic(h, SAY_DATA_WORK, data_work_of);
	look_at_topic(h, SAY_COMPILE, compile_of);
	look_at_machines(h);
	look_at_farewells(h);
	look_at_nodes(h);
	look_at_progress(h);
	look_at_epochs(h);
	look_at_power(h);
}
