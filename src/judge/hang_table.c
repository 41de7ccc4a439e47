/* SPDX-License-Identifier: Apache-2.0 */
/* hang_table.c - groups, stacks and what is missing, as the report shows them. */
#include "judge/hang_internal.h"

#include <stdio.h>

#define FRAMES_SHOWN 12u

static const char *keep(struct hang *h, uint32_t id)
{
	return id == NO_ID ? NULL : report_printf(h->r, "%s", intern_get(&h->s->names, id));
}

static void mark_named(struct hang *h)
{
	for (size_t i = 0; i < h->breaches.n; i++)
		for (size_t k = 0; k < h->breaches.v[i].culprits.n; k++) {
			struct rank_look *l = &h->look[h->breaches.v[i].culprits.v[k]];

			l->named = true;
			l->dead |= h->breaches.v[i].cause == CAUSE_DEAD_RANK;
		}
}

static const char *state_of(const struct hang *h, const struct scene_group *g,
			    const struct scene_member *m, int64_t lowest_wait)
{
	const struct scene_rank *r = &h->s->ranks.v[m->row];

	if (h->look[m->row].failed || h->look[m->row].dead)
		return "gone";
	if (m->source == MEMBER_ABSENT)
		return r->lived ? "silent" : "no evidence";
	if (m->waits)
		return "waiting";
	if (lowest_wait >= 0 && m->enqueued >= 0 && m->enqueued < lowest_wait)
		return r->wait_group != NO_ID && &h->s->groups.v[r->wait_group] != g ? "elsewhere"
										     : "behind";
	if (lowest_wait >= 0 && m->enqueued >= lowest_wait)
		return "past";
	return "done";
}

static void write_group(struct hang *h, const struct scene_group *g)
{
	struct report_group *out;
	int64_t lowest = -1;
	VEC(uint32_t) rows = { 0 };
	bool any = false;
	char buf[160];

	for (size_t i = 0; i < g->members.n; i++) {
		const struct scene_member *m = &g->members.v[i];

		any |= m->enqueued >= 0 || m->waits;
		if (m->waits && !m->wait.p2p && (lowest < 0 || m->wait.seq < lowest))
			lowest = m->wait.seq;
		*vec_push(&rows) = m->row;
	}
	if (!any) {
		free(rows.v);
		return;
	}
	out = vec_push(&h->r->groups);
	*out = (struct report_group){
		.group = keep(h, g->name) ? keep(h, g->name) : "default",
		.desc = keep(h, g->desc),
		.members = hang_ranks(h, rows.v, rows.n),
		.last_common = g->last_common,
	};
	for (size_t i = 0; i < g->members.n; i++) {
		const struct scene_member *m = &g->members.v[i];
		uint32_t signature = m->waits ? m->wait.signature : m->last_signature;

		out->stuck |= m->waits;
		*vec_push(&out->ranks) = (struct report_stand){
			.row = h->row[m->row],
			.state = state_of(h, g, m, lowest),
			.operation =
			    signature == NO_ID
				? NULL
				: report_printf(h->r, "%s",
						signature_words(&h->s->names,
								&h->s->signatures.v[signature], buf,
								sizeof(buf))),
			.last_enqueued = m->enqueued,
			.last_completed = m->completed,
		};
	}
	free(rows.v);
}

static int by_stuck(const void *a, const void *b)
{
	const struct report_group *x = a, *y = b;

	if (x->stuck != y->stuck)
		return x->stuck ? -1 : 1;
	if (x->ranks.n != y->ranks.n)
		return x->ranks.n > y->ranks.n ? -1 : 1;
	return strcmp(x->group, y->group);
}

/* --- stacks --- */

static void write_frames(struct hang *h, struct report_stack *out, const struct scene_stack *k)
{
	const struct thread_stack *t = &k->of->threads.v[k->main_thread];

	for (uint32_t i = 0; i < t->n_frames && i < FRAMES_SHOWN; i++) {
		const struct frame *f = &k->of->frames.v[t->frame + i];
		const char *function = intern_get(&k->of->names, f->function);
		const char *file = intern_get(&k->of->names, f->file);

		*vec_push(&out->frames) =
		    !*file ? report_printf(h->r, "%s", function)
		    : f->line < 0
			? report_printf(h->r, "%s (%s)", function, file)
			: report_printf(h->r, "%s (%s:%" PRId32 ")", function, file, f->line);
	}
	if (t->n_frames > FRAMES_SHOWN)
		*vec_push(&out->frames) =
		    report_printf(h->r, ".. and %u more", t->n_frames - FRAMES_SHOWN);
}

static int by_odd(const void *a, const void *b)
{
	const struct report_stack *x = a, *y = b;

	if (x->odd != y->odd)
		return x->odd ? -1 : 1;
	if (x->rows.n != y->rows.n)
		return x->rows.n > y->rows.n ? -1 : 1;
	return (x->rows.v[0] > y->rows.v[0]) - (x->rows.v[0] < y->rows.v[0]);
}

static void write_stacks(struct hang *h)
{
	_cleanup_free_ uint32_t *shown =
	    xmalloc((h->s->ranks.n + 1) * sizeof(*shown)); /* by place */
	char buf[240];

	memset(shown, 0xff, (h->s->ranks.n + 1) * sizeof(*shown));
	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		const struct scene_stack *k;
		uint32_t at;

		if (!h->look[row].has_stack)
			continue;
		k = &h->s->stacks.v[h->s->ranks.v[row].stack];
		at = shown[h->look[row].place];
		if (at == NO_ID) {
			struct report_stack *out = vec_push(&h->r->stacks);

			at = shown[h->look[row].place] = (uint32_t)h->r->stacks.n - 1;
			*out = (struct report_stack){
				.odd = true,
				.doing = report_printf(h->r, "%s",
						       doing_text(&h->look[row].doing,
								  &k->of->names, buf, sizeof(buf))),
			};
			write_frames(h, out, k);
		}
		*vec_push(&h->r->stacks.v[at].rows) = h->row[row];
		h->r->stacks.v[at].odd &= h->look[row].named;
	}
	for (size_t i = 0; i < h->r->stacks.n; i++) {
		struct report_stack *out = &h->r->stacks.v[i];

		out->who = report_printf(h->r, "%s%s", out->rows.n == 1 ? "rank " : "ranks ",
					 report_rank_set(h->r, out->rows.v, out->rows.n));
	}
	if (h->r->stacks.n)
		qsort(h->r->stacks.v, h->r->stacks.n, sizeof(*h->r->stacks.v), by_odd);
}

/* --- what would have helped --- */

static void write_missing(struct hang *h)
{
	VEC(uint32_t) no_dump = { 0 };
	bool stacks = false;

	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		stacks |= h->look[row].has_stack;
		if (h->s->ranks.v[row].rank >= 0 &&
		    !(h->s->ranks.v[row].witnesses & (1u << WITNESS_DUMP)))
			*vec_push(&no_dump) = row;
	}
	if (h->s->n_dumps && no_dump.n)
		*vec_push(&h->r->missing) = report_printf(h->r, "Flight Recorder dumps of %s %s",
							  no_dump.n == 1 ? "rank" : "ranks",
							  hang_ranks(h, no_dump.v, no_dump.n));
	else if (!h->s->n_dumps && (h->timed_out || h->breaches.n))
		*vec_push(&h->r->missing) = "Flight Recorder dumps (TORCH_FR_BUFFER_SIZE, "
					    "TORCH_NCCL_DUMP_ON_TIMEOUT)";
	if (!stacks && (h->timed_out || h->s->n_dumps))
		*vec_push(&h->r->missing) = "stacks of the ranks (py-spy dump)";
	if ((h->assumed_hang && h->s->n_dumps) ||
	    (!h->breaches.n && h->s->n_dumps && h->s->moved == MOVED_UNKNOWN))
		*vec_push(&h->r->open) = "take the dumps again after a minute, beside the first "
					 "ones in a folder of their own: "
					 "whether anything moved tells a hang from a slow step";
	free(no_dump.v);
}

/* A log ends; whether the job goes on is not in it. */
static void write_end_of_log(struct hang *h)
{
	bool done = false;

	for (size_t i = 0; i < h->s->sayings.n; i++)
		done |= h->s->sayings.v[i].s.kind == SAY_DONE;
	if (done || h->breaches.n || h->last_step < 0 || h->s->n_dumps ||
	    h->last_step == h->total_steps)
		return;
	*vec_push(&h->r->open) =
	    h->total_steps > 0
		? report_printf(h->r,
				"the log ends at step %" PRId64 " of %" PRId64
				": if that is more than a few steps ago, the job stands still, and "
				"dumps and stacks of all ranks would tell where",
				h->last_step, h->total_steps)
		: report_printf(h->r,
				"the log ends at step %" PRId64
				": if that is more than a few steps ago, the job stands still, and "
				"dumps and stacks of all ranks would tell where",
				h->last_step);
}

void write_tables(struct hang *h)
{
	mark_named(h);
	for (size_t i = 0; i < h->s->groups.n; i++)
		write_group(h, &h->s->groups.v[i]);
	if (h->r->groups.n)
		qsort(h->r->groups.v, h->r->groups.n, sizeof(*h->r->groups.v), by_stuck);
	write_stacks(h);
	write_missing(h);
	write_end_of_log(h);
	if (h->breaches.n)
		return;
	if (h->early.n) {
		h->r->headline =
		    report_printf(h->r,
				  "rank%s %s say%s that %s epoch is over, and no other rank does "
				  "though all print "
				  "their steps: if the job stands still, that is why",
				  h->early.n == 1 ? "" : "s", hang_ranks(h, h->early.v, h->early.n),
				  h->early.n == 1 ? "s" : "", h->early.n == 1 ? "its" : "their");
		return;
	}
	if (h->r->verdict == VERDICT_INSUFFICIENT && h->spins)
		h->r->headline =
		    "all GPUs run at full utilization and little power, as kernels do that wait, "
		    "and no step came for long: the job stands still, and only dumps or stacks can "
		    "tell for whom";
	else if (h->r->verdict == VERDICT_INSUFFICIENT && h->unseen.n)
		h->r->headline =
		    report_printf(h->r,
				  "others wait for %s, but Gloo records no send and receive: "
				  "who has nothing pending may wait in one for another rank, and "
				  "only stacks can tell",
				  hang_who(h, h->unseen.v, h->unseen.n));
	else if (h->r->verdict == VERDICT_INSUFFICIENT && words_of_lobby(h))
		h->r->headline = words_of_lobby(h);
	else if (h->r->verdict == VERDICT_INSUFFICIENT)
		h->r->headline =
		    h->s->n_dumps
			? "nobody is behind in what was given, and one recording shows no progress"
			: "what was given does not show who waits for whom";
	else if (h->r->verdict == VERDICT_HEALTHY && h->s->moved == MOVED_YES)
		h->r->headline = "it moves: operations were finished after the first recording";
	else if (h->r->verdict == VERDICT_HEALTHY && h->goes_on)
		h->r->headline = "it moves: steps or operations came after the first recording";
	else if (h->saves_now)
		h->r->headline =
		    "a checkpoint is being saved and the others wait for it, as they did in "
		    "earlier saves; if it lasts much longer than those, give dumps again";
	else if (h->r->verdict == VERDICT_HEALTHY && h->s->progress.n)
		h->r->headline =
		    "nothing wrong in what was given: steps go on, no failure is in the log";
}
