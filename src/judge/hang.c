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
}

static void drop(struct hang *h, size_t i)
{
	breach_done(&h->breaches.v[i]);
	h->breaches.n--;
	memmove(&h->breaches.v[i], &h->breaches.v[i + 1],
		(h->breaches.n - i) * sizeof(*h->breaches.v));
}

static size_t drop_all(struct hang *h, enum ground ground)
{
	size_t dropped = 0;

	for (size_t i = h->breaches.n; i-- > 0;)
		if (h->breaches.v[i].ground == ground) {
			drop(h, i);
			dropped++;
		}
	return dropped;
}

static bool has(const struct hang *h, enum ground ground)
{
	for (size_t i = 0; i < h->breaches.n; i++)
		if (h->breaches.v[i].ground == ground)
			return true;
	return false;
}

/* --- absence is evidence, within bounds --- */

#define NODE_RANKS 8

static bool others_of_its_host(const struct hang *h, uint32_t row)
{
	for (uint32_t i = 0; i < h->s->ranks.n; i++)
		if (i != row && h->s->ranks.v[i].host == h->s->ranks.v[row].host &&
		    h->s->ranks.v[i].lived)
			return true;
	return false;
}

/* Nothing of a whole node, by its host's name or, without one, by the usual eight ranks. */
static bool whole_node_absent(const struct hang *h, const struct breach *b, uint32_t row)
{
	int64_t first = h->s->ranks.v[row].rank / NODE_RANKS * NODE_RANKS;
	size_t absent = 0;

	if (h->s->ranks.v[row].host != NO_ID)
		return !others_of_its_host(h, row);
	if (h->s->world_size <= NODE_RANKS)
		return false;
	for (size_t i = 0; i < b->culprits.n; i++) {
		int64_t rank = h->s->ranks.v[b->culprits.v[i]].rank;

		absent += rank >= first && rank < first + NODE_RANKS;
	}
	return absent == NODE_RANKS;
}

static void weigh_absence(struct hang *h)
{
	for (size_t i = h->breaches.n; i-- > 0;) {
		struct breach *b = &h->breaches.v[i];
		size_t kept = 0, unseen = 0;

		if (b->ground != GROUND_ABSENT)
			continue;
		for (size_t k = 0; k < b->culprits.n; k++) {
			uint32_t row = b->culprits.v[k];
			bool lived = h->s->ranks.v[row].lived;

			if (!lived && (h->s->folded || whole_node_absent(h, b, row))) {
				unseen++;
				continue;
			}
			b->culprits.v[kept++] = row;
		}
		b->culprits.n = kept;
		if (unseen && !h->s->folded)
			*vec_push(&h->r->missing) = report_printf(
			    h->r,
			    "nothing was given of %zu ranks that make up whole nodes: they are "
			    "waited for, but not blamed",
			    unseen);
		if (!kept || 2 * kept > b->victims.n + kept + 1)
			drop(h, i);
		else if (kept > 1)
			b->confidence = 0.6;
	}
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
			seen |= h->breaches.v[k].ground == GROUND_BEHIND &&
				h->breaches.v[k].group == b->group &&
				h->breaches.v[k].seq == b->seq;
		if (seen && !lived)
			drop(h, i);
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
			drop(h, i);
	}
}

/* A rank that its stack shows waiting in a collective is not the one to wait for. */
static void believe_stacks(struct hang *h)
{
	for (size_t i = h->breaches.n; i-- > 0;) {
		struct breach *b = &h->breaches.v[i];
		size_t kept = 0, busy = 0;

		if (b->ground != GROUND_BEHIND)
			continue;
		for (size_t k = 0; k < b->culprits.n; k++)
			busy += !h->look[b->culprits.v[k]].waiting_stack;
		for (size_t k = 0; busy && k < b->culprits.n; k++)
			if (!h->look[b->culprits.v[k]].waiting_stack)
				b->culprits.v[kept++] = b->culprits.v[k];
		if (busy)
			b->culprits.n = kept;
	}
}

/* --- what it is --- */

static bool own_failure(enum cause c)
{
	return c == CAUSE_OUT_OF_MEMORY || c == CAUSE_EXCEPTION || c == CAUSE_GPU_ERROR ||
	       c == CAUSE_NETWORK_ERROR || c == CAUSE_RENDEZVOUS || c == CAUSE_CONFIGURATION;
}

static bool names_someone(const struct hang *h)
{
	for (size_t i = 0; i < h->breaches.n; i++)
		if (h->breaches.v[i].culprits.n)
			return true;
	return false;
}

/* Failures first: unless the dumps show the difference that the failing rank ran into. */
static void judge_crash(struct hang *h)
{
	struct breach *b;

	if (h->timed_out || (!h->failures.n && !h->ended))
		return;
	breach_of_waits(h);
	drop_all(h, GROUND_STUCK);
	drop_all(h, GROUND_BEHIND);
	drop_all(h, GROUND_ABSENT);
	for (size_t i = h->breaches.n; i-- > 0;)
		if (h->breaches.v[i].tie)
			drop(h, i);
	if (has(h, GROUND_DIFFERS))
		return;
	drop_all(h, GROUND_ORDER);
	breach_of_failures(h);
	if (!h->breaches.n)
		breach_of_echoes(h);
	if (!h->breaches.n)
		return;
	b = &h->breaches.v[0];
	if (!b->culprits.n)
		return;
	if (b->cause == CAUSE_EXCEPTION || b->cause == CAUSE_DEAD_RANK)
		return;
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
	b->confidence = 0.9;
	h->ended = true;
}

static void judge_standstill(struct hang *h)
{
	breach_of_reports(h);
	if (names_someone(h))
		return;
	breach_of_waits(h);
	weigh_absence(h);
	prefer_what_is_seen(h);
	believe_stacks(h);
	weigh_majorities(h);
	if (names_someone(h))
		return;
	breach_of_counts(h);
	if (names_someone(h))
		return;
	breach_of_stacks(h);
	if (names_someone(h))
		return;
	breach_of_power(h);
}

/* One recording and nothing that went wrong by itself: that it hangs is assumed, and said. */
static void weigh_time(struct hang *h)
{
	bool moves = h->s->moved == MOVED_YES || h->goes_on;

	if (h->timed_out || h->s->moved == MOVED_NO)
		return;
	if (moves) {
		while (h->breaches.n)
			drop(h, h->breaches.n - 1);
		return;
	}
	drop_all(h, GROUND_STUCK);
	h->assumed_hang |= h->breaches.n > 0;
}

static void verdict(struct hang *h)
{
	bool crash = h->ended && !h->timed_out;

	if (!h->breaches.n) {
		bool late = h->s->moved == MOVED_YES || h->goes_on;
		bool steps_only = !h->s->n_dumps && !h->s->stacks.n && h->s->progress.n;

		if (h->r->verdict == VERDICT_SLOW)
			return;
		if (late || steps_only || (h->r->verdict == VERDICT_HEALTHY && h->r->ranks.n))
			h->r->verdict = VERDICT_HEALTHY;
		else
			h->r->verdict = VERDICT_INSUFFICIENT;
		return;
	}
	for (size_t i = 0; i < h->breaches.n; i++)
		crash |= own_failure(h->breaches.v[i].cause) &&
			 h->breaches.v[i].ground != GROUND_STUCK &&
			 h->breaches.v[i].ground != GROUND_STACK;
	h->r->verdict = crash ? VERDICT_CRASHED : VERDICT_HUNG;
}

void judge_hang(const struct scene *scene, struct report *report)
{
	struct hang h = { .s = scene, .r = report };

	if (!scene->any)
		return;
	h.row = xcalloc(scene->ranks.n + 1, sizeof(*h.row));
	rows_join(&h);
	look_at_ranks(&h);
	look_at_failures(&h);
	judge_crash(&h);
	judge_cancelled(&h);
	if (!h.breaches.n) {
		judge_standstill(&h);
		weigh_time(&h);
	}
	split_by_cause(&h);
	for (size_t i = 0; i < h.breaches.n; i++)
		find_cause(&h, &h.breaches.v[i]);
	h.hangs = h.breaches.n > 0;
	verdict(&h);
	write_findings(&h);
	write_tables(&h);
	for (size_t i = 0; i < h.breaches.n; i++)
		breach_done(&h.breaches.v[i]);
	free(h.breaches.v);
	free(h.failures.v);
	free(h.look);
	free(h.row);
}
