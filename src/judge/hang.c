/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang.c - in what order the evidence of a hang or crash is believed.
 *
 * A failure of a rank's own explains all that follows it. Else who waits for whom decides, by
 * sequence numbers; PyTorch's and NCCL's own reports next; stacks, and power last. Progress after
 * the dumps means that nothing hangs, whoever is late. Nobody is named where the evidence leaves it
 * open.
 */
#include "judge/hang_internal.h"

#include <math.h>

struct breach *breach_new(struct hang *h, enum ground ground)
{
	struct breach *b = vec_push(&h->breaches);

	*b = (struct breach){
		.ground = ground, .group = NO_ID, .seq = -1, .signature = NO_ID, .confidence = 0.5
	};
	return b;
}

static void breach_done(struct breach *b)
{
	free(b->culprits.v);
	free(b->victims.v);
	free(b->groups.v);
}

void breach_drop(struct hang *h, size_t i)
{
	breach_done(&h->breaches.v[i]);
	h->breaches.n--;
	memmove(&h->breaches.v[i], &h->breaches.v[i + 1],
		(h->breaches.n - i) * sizeof(*h->breaches.v));
}

void rows_append(struct row_list *to, const struct row_list *from)
{
	for (size_t i = 0; i < from->n; i++)
		*vec_push(to) = from->v[i];
}

static void drop_every(struct hang *h)
{
	while (h->breaches.n)
		breach_drop(h, h->breaches.n - 1);
}

static bool names_someone(const struct hang *h)
{
	for (size_t i = 0; i < h->breaches.n; i++)
		if (h->breaches.v[i].culprits.n)
			return true;
	return false;
}

static void drop_all(struct hang *h, enum ground ground)
{
	for (size_t i = h->breaches.n; i-- > 0;)
		if (h->breaches.v[i].ground == ground)
			breach_drop(h, i);
}

static bool has(const struct hang *h, enum ground ground)
{
	for (size_t i = 0; i < h->breaches.n; i++)
		if (h->breaches.v[i].ground == ground)
			return true;
	return false;
}

/* Whoever has a dump that shows it behind explains the wait; the absent may be anything. */
static void prefer_what_is_seen(struct hang *h)
{
	if (has(h, GROUND_DIFFERS) || has(h, GROUND_ORDER)) {
		drop_all(h, GROUND_STUCK);
		if (!h->timed_out)
			drop_all(h, GROUND_ABSENT);
	}
	for (size_t i = h->breaches.n; i-- > 0;) {
		struct breach *b = &h->breaches.v[i];
		bool lived = false, seen = false;

		if (b->ground != GROUND_ABSENT)
			continue;
		for (size_t k = 0; k < b->culprits.n; k++)
			lived |= h->s->ranks.v[b->culprits.v[k]].lived;
		for (size_t k = 0; k < h->breaches.n; k++)
			seen |= h->breaches.v[k].ground == GROUND_BEHIND;
		if (seen && !lived)
			breach_drop(h, i);
	}
	if (has(h, GROUND_BEHIND) || has(h, GROUND_ABSENT))
		drop_all(h, GROUND_STUCK);
}

/* In one recording a few ranks that are ahead of all others prove nothing. */
static void weigh_majorities(struct hang *h)
{
	for (size_t i = h->breaches.n; i-- > 0;) {
		const struct breach *b = &h->breaches.v[i];
		size_t busy = 0;

		if (b->ground != GROUND_BEHIND || b->culprits.n <= b->victims.n)
			continue;
		for (size_t k = 0; k < b->culprits.n; k++)
			busy += h->look[b->culprits.v[k]].busy_stack;
		if (!busy && !h->timed_out && h->s->moved != MOVED_NO)
			breach_drop(h, i);
	}
}

/* A rank that its stack shows waiting in a collective is not the one to wait for: it is in
   something that dumps do not show (Gloo records no send and recv). In the backward pass it may be
   either. */
static void believe_stacks(struct hang *h)
{
	bool others = false;

	for (size_t i = 0; i < h->breaches.n; i++)
		for (size_t k = 0;
		     h->breaches.v[i].ground == GROUND_BEHIND && k < h->breaches.v[i].culprits.n;
		     k++)
			others |= !h->look[h->breaches.v[i].culprits.v[k]].waiting_stack;
	others |= has(h, GROUND_ABSENT) || has(h, GROUND_DIFFERS) || has(h, GROUND_ORDER);
	for (size_t i = h->breaches.n; i-- > 0;) {
		struct breach *b = &h->breaches.v[i];
		size_t kept = 0;

		if (b->ground != GROUND_BEHIND)
			continue;
		for (size_t k = 0; k < b->culprits.n; k++) {
			const struct rank_look *l = &h->look[b->culprits.v[k]];

			if (!l->waiting_stack || (!others && l->doing.doing != DOING_COLLECTIVE))
				b->culprits.v[kept++] = b->culprits.v[k];
		}
		b->culprits.n = kept;
		if (!kept)
			breach_drop(h, i);
	}
}

static bool names_odd_one(const struct hang *h)
{
	for (size_t i = 0; i < h->breaches.n; i++)
		if (h->breaches.v[i].culprits.n && !h->breaches.v[i].tie)
			return true;
	return false;
}

/* Dumps get lost: a rank that nothing is of counts only if those that were seen explain nothing. */
static void judge_waits(struct hang *h)
{
	for (int with_unseen = 0; with_unseen < 2; with_unseen++) {
		drop_every(h);
		breach_of_waits(h, with_unseen);
		weigh_absence(h);
		believe_stacks(h);
		prefer_what_is_seen(h);
		weigh_majorities(h);
		doubt_unseen(h);
		if (names_odd_one(h))
			return;
	}
}

/* --- what it is --- */

static bool own_failure(enum cause c)
{
	return c == CAUSE_OUT_OF_MEMORY || c == CAUSE_EXCEPTION || c == CAUSE_GPU_ERROR ||
	       c == CAUSE_NETWORK_ERROR || c == CAUSE_RENDEZVOUS || c == CAUSE_CONFIGURATION;
}

static bool ties_only(const struct hang *h)
{
	for (size_t i = 0; i < h->breaches.n; i++)
		if (!h->breaches.v[i].tie)
			return false;
	return true;
}

/* A failure of a rank's own comes first: unless the dumps show the difference that it ran into. */
static void judge_crash(struct hang *h)
{
	bool somebody = false;

	if (h->timed_out || (!h->failures.n && !h->ended))
		return;
	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		somebody |= h->look[row].failed != NULL;
	judge_waits(h);
	if (!somebody && h->failures.n && names_someone(h))
		return; /* words that name no rank: whoever is missing has said them */
	drop_all(h, GROUND_STUCK);
	drop_all(h, GROUND_BEHIND);
	drop_all(h, GROUND_ABSENT);
	if (has(h, GROUND_DIFFERS) && !ties_only(h))
		return;
	drop_every(h);
	if (breach_of_start(h))
		return;
	breach_of_failures(h);
	if (!h->breaches.n && !h->cancelled)
		breach_of_echoes(h);
}

static void judge_cancelled(struct hang *h)
{
	struct breach *b;

	if (h->breaches.n || !h->cancelled)
		return;
	b = breach_new(h, GROUND_FAILED);
	b->cause = CAUSE_PREEMPTED;
	b->detail = h->cancelled->s.what == NO_ID
			? NULL
			: report_printf(h->r, "%s", intern_get(&h->s->names, h->cancelled->s.what));
	if (b->detail && !strcmp(b->detail, "preempted"))
		b->detail = NULL; /* the cause says it */
	b->confidence = 0.9;
	h->ended = true;
}

/* Most hangs end by the time limit, or by somebody who cancels the job: what was seen before
   counts. A preemption needs no hang. */
static bool hung_before_the_end(const struct hang *h)
{
	const char *what = h->cancelled ? hang_name(h, h->cancelled->s.what) : "";

	return h->timed_out || ((h->s->n_dumps || h->n_stacks) &&
				(!strcmp(what, "time limit") || !strcmp(what, "cancelled")));
}

/* The launcher was told to end, and nothing that was given says why. */
static void judge_stopped(struct hang *h)
{
	struct breach *b;

	if (h->breaches.n || !h->stopped || h->timed_out)
		return;
	b = breach_new(h, GROUND_FAILED);
	b->cause = CAUSE_PREEMPTED;
	b->detail = "by a signal to the launcher";
	b->confidence = 0.5;
	h->ended = true;
}

static void judge_standstill(struct hang *h)
{
	/* who is behind by PyTorch's report may wait elsewhere: dumps know better */
	if (!h->s->n_dumps)
		breach_of_reports(h);
	if (names_someone(h))
		return;
	judge_waits(h);
	if (names_someone(h))
		return;
	if (h->s->n_dumps)
		breach_of_reports(h);
	if (!names_someone(h))
		breach_of_one_failure(h);
	if (!names_someone(h))
		breach_of_silence(h);
	if (!names_someone(h))
		breach_of_setup(h);
	if (!names_someone(h) && !h->timed_out)
		breach_of_monitors(h);
	if (!names_someone(h))
		breach_of_places(h);
	if (names_someone(h)) {
		drop_all(h, GROUND_STUCK);
		return;
	}
	breach_of_counts(h);
	if (names_someone(h))
		return;
	breach_of_stacks(h);
	if (names_someone(h))
		return;
	breach_of_power(h);
	if (!names_someone(h))
		breach_of_lobby(h);
}

static bool writes_a_usual_save(const struct hang *h, const struct breach *b)
{
	uint32_t row = b->culprits.n == 1 ? b->culprits.v[0] : NO_ID;
	const struct rank_look *l = row == NO_ID ? NULL : &h->look[row];

	return l && l->saving && !l->failed &&
	       (!l->busy_stack || l->doing.doing == DOING_CHECKPOINT ||
		l->doing.inside == DOING_CHECKPOINT) &&
	       save_is_usual(h);
}

/* Watchdogs spoke, so it hung, and nobody can be named: say at least where it stood. */
static void judge_unnamed(struct hang *h)
{
	const struct scene *s = h->s;
	size_t most = 0;
	uint32_t at = NO_ID;
	struct breach *b;

	for (uint32_t i = 0; i < s->groups.n; i++) {
		size_t n = 0;

		for (size_t k = 0; k < s->groups.v[i].members.n; k++)
			n += s->groups.v[i].members.v[k].waits;
		if (n > most) {
			most = n;
			at = i;
		}
	}
	if (at == NO_ID)
		return;
	b = breach_new(h, GROUND_STUCK);
	b->group = at;
	b->confidence = 0.5;
	for (size_t k = 0; k < s->groups.v[at].members.n; k++) {
		const struct scene_member *m = &s->groups.v[at].members.v[k];

		if (!m->waits)
			continue;
		*vec_push(&b->victims) = m->row;
		b->seq = b->seq < 0 ? m->wait.seq : MIN(b->seq, m->wait.seq);
		if (m->wait.signature != NO_ID)
			b->signature = m->wait.signature;
	}
}

#define COUNTS_STAND_NS                                                                            \
	(20ll * 1000000000) /* two readings of ncclras tell a hang from a slow step */

/* One recording and nothing that went wrong by itself: that it hangs is assumed, and said. */
static void weigh_time(struct hang *h)
{
	bool moves = h->s->moved == MOVED_YES || h->goes_on;

	if (h->timed_out || h->s->moved == MOVED_NO)
		return;
	if (moves) {
		drop_every(h);
		return;
	}
	drop_all(h, GROUND_STUCK);
	for (size_t i = h->breaches.n; i-- > 0;)
		if (h->breaches.v[i].on_gpu) /* so does a GPU that still computes */
			breach_drop(h, i);
	for (size_t i = h->breaches.n; i-- > 0;)
		if (writes_a_usual_save(h, &h->breaches.v[i])) {
			h->saves_now = true;
			breach_drop(h, i);
		}
	/* Counts that go on were dropped above. */
	h->assumed_hang |= h->breaches.n > 0 && h->counts_ns < COUNTS_STAND_NS;
}

/* The kernel ended one process; the job itself had no error and waits. */
static bool killed_by_host(const struct breach *b)
{
	return b->cause == CAUSE_OUT_OF_MEMORY && b->ground != GROUND_FAILED &&
	       (!b->failure || b->failure->said->s.value == 1);
}

static void verdict(struct hang *h)
{
	bool crash = h->ended && !h->timed_out;

	if (!h->breaches.n) {
		bool late = h->s->moved == MOVED_YES || h->goes_on;
		bool steps_only = !h->s->n_dumps && !h->s->stacks.n && scene_has_steps(h->s);
		bool stopped =
		    h->timed_out || h->early.n || h->monitors || (h->spins && !h->saves_now);
		bool good = steps_only || h->saves_now ||
			    (h->r->verdict == VERDICT_HEALTHY && h->r->ranks.n);

		if (h->r->verdict == VERDICT_SLOW)
			return;
		h->r->verdict = late || (good && !stopped) ? VERDICT_HEALTHY : VERDICT_INSUFFICIENT;
		return;
	}
	for (size_t i = 0; i < h->breaches.n; i++)
		crash |= own_failure(h->breaches.v[i].cause) && h->breaches.v[i].failure &&
			 !killed_by_host(&h->breaches.v[i]) &&
			 h->breaches.v[i].ground != GROUND_STUCK &&
			 h->breaches.v[i].ground != GROUND_STACK;
	h->r->verdict = crash ? VERDICT_CRASHED : VERDICT_HUNG;
}

/* Places in which all stand and nobody is named are one finding. */
static void join_stuck(struct hang *h)
{
	size_t first = SIZE_MAX;

	for (size_t i = 0; i < h->breaches.n; i++) {
		struct breach *b = &h->breaches.v[i];

		if (b->ground != GROUND_STUCK || b->culprits.n)
			continue;
		if (first == SIZE_MAX) {
			first = i;
			*vec_push(&b->groups) = b->group;
			continue;
		}
		*vec_push(&h->breaches.v[first].groups) = b->group;
		rows_append(&h->breaches.v[first].victims, &b->victims);
		breach_drop(h, i--);
	}
}

static int by_row(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* In order, each once. */
static void rows_settle(struct row_list *rows)
{
	size_t kept = 0;

	if (rows->n)
		qsort(rows->v, rows->n, sizeof(*rows->v), by_row);
	for (size_t i = 0; i < rows->n; i++)
		if (!kept || rows->v[kept - 1] != rows->v[i])
			rows->v[kept++] = rows->v[i];
	rows->n = kept;
}

/* Ranks that are gone for one reason, each waited for in a group of its own, are one finding. */
static void join_absent(struct hang *h)
{
	size_t first = SIZE_MAX;

	for (size_t i = 0; i < h->breaches.n; i++) {
		struct breach *b = &h->breaches.v[i], *to;

		if (b->ground != GROUND_ABSENT || b->cause != CAUSE_DEAD_RANK)
			continue;
		if (first == SIZE_MAX) {
			first = i;
			continue;
		}
		to = &h->breaches.v[first];
		if (b->failure != to->failure)
			continue;
		rows_append(&to->culprits, &b->culprits);
		rows_append(&to->victims, &b->victims);
		to->confidence = fmin(to->confidence, b->confidence);
		breach_drop(h, i--);
	}
}

/* That a rank is gone is less sure where nothing but its absence tells so. */
static void weigh_proof(struct hang *h)
{
	for (size_t i = 0; i < h->breaches.n; i++) {
		struct breach *b = &h->breaches.v[i];

		if (b->cause == CAUSE_DEAD_RANK && b->ground == GROUND_ABSENT && !b->failure)
			b->confidence = fmin(b->confidence, 0.7);
		if (b->ground == GROUND_ABSENT && h->s->cut_off)
			b->confidence = fmin(b->confidence, 0.6);
	}
}

void judge_hang(const struct scene *scene, double min_impact, struct report *report)
{
	struct hang h = { .s = scene, .r = report, .counts_ns = -1 };

	if (!scene->any)
		return;
	if (!report->job->n_ranks)
		report->headline = NULL; /* that there is no trace is no news now */
	h.row = xcalloc(scene->ranks.n + 1, sizeof(*h.row));
	rows_join(&h);
	look_at_ranks(&h);
	look_at_failures(&h);
	judge_crash(&h);
	if (!hung_before_the_end(&h))
		judge_cancelled(&h);
	if (!h.breaches.n) {
		judge_standstill(&h);
		weigh_time(&h);
		if (h.timed_out && !h.breaches.n)
			judge_unnamed(&h);
		if ((h.monitors || h.timed_out) && !h.breaches.n && !h.goes_on &&
		    h.s->moved != MOVED_YES)
			breach_of_all_monitors(&h);
		h.ended &= !h.cancelled || !h.breaches.n;
	}
	judge_cancelled(&h);
	judge_stopped(&h);
	split_by_cause(&h);
	for (size_t i = 0; i < h.breaches.n; i++)
		find_cause(&h, &h.breaches.v[i]);
	join_stuck(&h);
	join_absent(&h);
	for (size_t i = 0; i < h.breaches.n; i++) {
		rows_settle(&h.breaches.v[i].culprits);
		rows_settle(&h.breaches.v[i].victims);
	}
	weigh_proof(&h);
	verdict(&h);
	write_findings(&h);
	judge_freezes(&h, min_impact);
	write_tables(&h);
	for (size_t i = 0; i < h.breaches.n; i++)
		breach_done(&h.breaches.v[i]);
	free(h.breaches.v);
	free(h.failures.v);
	free(h.early.v);
	free(h.unseen.v);
	free(h.nodes_failed.v);
	free(h.look);
	free(h.row);
}
