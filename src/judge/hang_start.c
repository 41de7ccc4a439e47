/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_start.c - a job that never began: who did not come to the others, or was started as if of
 * another job.
 *
 * Whoever waited for the others is the first to fail, and the least to blame. Ranks that count
 * another number of ranks than the rest come first; then those who could not reach the store that
 * others reached; then those who never said a word, if the store counted just as many too few.
 */
#include "judge/hang_internal.h"

#include <stdio.h>

static bool said_of_start(const struct failure *f)
{
	return f->cause == CAUSE_RENDEZVOUS || f->cause == CAUSE_CONFIGURATION ||
	       f->said->s.kind == SAY_EXIT || f->said->s.kind == SAY_FIRST_FAILURE;
}

/* Nothing but trouble of the start, and no step. */
static bool never_began(const struct hang *h)
{
	if (h->s->n_dumps || scene_has_steps(h->s))
		return false;
	for (size_t i = 0; i < h->failures.n; i++)
		if (!said_of_start(&h->failures.v[i]))
			return false;
	return true;
}

static const struct failure *failure_of(const struct hang *h, enum cause cause)
{
	for (size_t i = 0; i < h->failures.n; i++)
		if (h->failures.v[i].cause == cause)
			return &h->failures.v[i];
	return h->n_untied && h->untied->cause == cause ? h->untied : NULL;
}

static struct breach *start_breach(struct hang *h, enum start start, const struct row_list *rows)
{
	struct breach *b = breach_new(h, GROUND_FAILED);

	b->start = start;
	b->cause = start == START_OTHER_WORLD ? CAUSE_CONFIGURATION : CAUSE_RENDEZVOUS;
	b->failure = rows->n ? h->look[rows->v[0]].failed : NULL;
	if (!b->failure || b->failure->cause != b->cause)
		b->failure = failure_of(h, b->cause);
	if (!b->failure)
		b->failure = failure_of(h, CAUSE_RENDEZVOUS);
	b->confidence = 0.85;
	rows_append(&b->culprits, rows);
	for (uint32_t row = 0, k = 0; row < h->s->ranks.n; row++) {
		if (k < rows->n && rows->v[k] == row)
			k++;
		else if (h->s->ranks.v[row].witnesses)
			*vec_push(&b->victims) = row;
	}
	return b;
}

/* --- the number of ranks --- */

/* What each row says; 0: nothing, -1: not always the same. */
static int64_t *stated_worlds(const struct hang *h)
{
	int64_t *world = xcalloc(h->s->ranks.n + 1, sizeof(*world));

	for (size_t i = 0; i < h->s->sayings.n; i++) {
		const struct scene_saying *y = &h->s->sayings.v[i];

		if (y->s.kind != SAY_HELLO || y->row == NO_ID || y->s.value <= 0)
			continue;
		world[y->row] = !world[y->row] || world[y->row] == y->s.value ? y->s.value : -1;
	}
	return world;
}

/* Two numbers, each said by some; of them the one that fewer say, or that is not how many there
   are. false: they agree. */
static bool find_other_world(const struct hang *h, const int64_t *world, int64_t *ret)
{
	int64_t value[2] = { 0 };
	size_t n[2] = { 0 }, all;

	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		int k = world[row] == value[0] || !value[0] ? 0 : 1;

		if (!world[row])
			continue;
		if (world[row] < 0 || (k && value[1] && value[1] != world[row]))
			return false;
		value[k] = world[row];
		n[k]++;
	}
	all = n[0] + n[1];
	if (!n[1])
		return false;
	if (n[0] != n[1])
		*ret = value[n[1] < n[0]];
	else
		*ret = value[value[0] == (int64_t)all];
	return true;
}

static bool breach_of_worlds(struct hang *h)
{
	_cleanup_free_ int64_t *world = stated_worlds(h);
	struct row_list rows = { 0 };
	struct breach *b;
	int64_t other, right = 0;

	if (!find_other_world(h, world, &other))
		return false;
	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		if (world[row] == other)
			*vec_push(&rows) = row;
		else
			right = MAX(right, world[row]);
	b = start_breach(h, START_OTHER_WORLD, &rows);
	b->detail = "world size";
	b->seq = other;
	b->counted = right;
	free(rows.v);
	return true;
}

/* --- the store --- */

static bool found_no_way(const struct hang *h, const struct scene_saying *y)
{
	const char *text = hang_name(h, y->s.text);

	return y->s.kind == SAY_RENDEZVOUS &&
	       (strstr(text, "trying to connect to") || strstr(text, "has failed to connect"));
}

/* "8/16 clients joined" */
static bool counted_by_store(const struct hang *h, int64_t *ret_came, int64_t *ret_all)
{
	for (size_t i = 0; i < h->s->sayings.n; i++) {
		const char *text = hang_name(h, h->s->sayings.v[i].s.text);
		const char *at = strstr(text, "waiting for clients. ");

		if (h->s->sayings.v[i].s.kind == SAY_RENDEZVOUS && at &&
		    sscanf(at, "waiting for clients. %9" SCNd64 "/%9" SCNd64 " clients", ret_came,
			   ret_all) == 2)
			return true;
	}
	return false;
}

static void breach_of_no_way(struct hang *h, const bool *no_way, bool counted)
{
	struct row_list rows = { 0 };
	bool reached = counted;

	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		if (no_way[row])
			*vec_push(&rows) = row;
		reached |= !no_way[row] && h->look[row].echo;
	}
	if (!reached) /* nobody: the fault is the store's, whoever has it */
		rows.n = 0;
	start_breach(h, reached ? START_NO_WAY : START_NO_STORE, &rows);
	free(rows.v);
}

/* Those who left nothing, if they are as many as the store missed. */
static bool breach_of_unseen(struct hang *h, int64_t came, int64_t all)
{
	struct row_list rows = { 0 };
	struct breach *b;

	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		if (!h->s->ranks.v[row].lived)
			*vec_push(&rows) = row;
	if (all != (int64_t)h->s->ranks.n || (int64_t)rows.n != all - came || h->s->folded ||
	    h->s->cut_off)
		rows.n = 0;
	b = rows.n ? start_breach(h, START_NEVER_CAME, &rows) : NULL;
	if (b) {
		b->seq = came;
		b->counted = all;
		b->confidence = 0.8;
	}
	free(rows.v);
	return b != NULL;
}

bool breach_of_start(struct hang *h)
{
	_cleanup_free_ bool *no_way = xcalloc(h->s->ranks.n + 1, sizeof(*no_way));
	int64_t came = 0, all = 0;
	bool counted, any = false;

	if (!never_began(h))
		return false;
	counted = counted_by_store(h, &came, &all);
	if (breach_of_worlds(h))
		return true;
	for (size_t i = 0; i < h->s->sayings.n; i++) {
		const struct scene_saying *y = &h->s->sayings.v[i];

		if (y->row != NO_ID && found_no_way(h, y))
			any = no_way[y->row] = true;
	}
	if (any)
		breach_of_no_way(h, no_way, counted);
	return any || (counted && breach_of_unseen(h, came, all));
}

/* All whose stacks were given wait for the group to be set up; *ret: of whom there is nothing. */
static bool in_lobby(const struct hang *h, struct row_list *ret)
{
	size_t waiting = 0;

	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		const struct rank_look *l = &h->look[row];

		waiting += l->has_stack && l->doing.doing == DOING_RENDEZVOUS;
		if (!h->s->ranks.v[row].lived)
			*vec_push(ret) = row;
	}
	return waiting > 1 && waiting == h->n_stacks && ret->n && never_began(h);
}

/* Who is not there, although others of its machine are. One moment of a job that begins looks
   alike. */
void breach_of_lobby(struct hang *h)
{
	struct row_list rows = { 0 };
	bool gathered = true;
	struct breach *b;

	if (in_lobby(h, &rows)) {
		for (size_t i = 0; i < rows.n; i++)
			gathered &= !h->look[rows.v[i]].not_gathered;
		b = gathered ? start_breach(h, START_IN_LOBBY, &rows) : NULL;
		if (b) {
			b->ground = GROUND_ABSENT;
			b->confidence = 0.6;
		}
	}
	free(rows.v);
}

const char *words_of_lobby(struct hang *h)
{
	struct row_list rows = { 0 };
	const char *text = NULL;

	if (in_lobby(h, &rows))
		text = report_printf(h->r,
				     "all whose stacks were given wait for the group to be set up; "
				     "of %s, and of their machines, nothing was given",
				     hang_who(h, rows.v, rows.n));
	free(rows.v);
	return text;
}

const char *sentence_of_start(struct hang *h, const struct breach *b)
{
	const char *who = b->culprits.n ? hang_who(h, b->culprits.v, b->culprits.n) : "";
	const char *were = b->culprits.n == 1 ? "was" : "were";

	switch (b->start) {
	case START_OTHER_WORLD:
		return report_printf(h->r,
				     "%s %s started as of a job of %" PRId64
				     " ranks, the others as of one of %" PRId64,
				     who, were, b->seq, b->counted);
	case START_NO_WAY:
		return report_printf(h->r, "%s could not reach the store, which others reached: %s",
				     who, hang_name(h, b->failure->said->s.text));
	case START_NO_STORE:
		return report_printf(h->r, "nobody could reach the store of rank 0: %s",
				     hang_name(h, b->failure->said->s.text));
	case START_NEVER_CAME:
		return report_printf(h->r,
				     "%s never came: the store waited for %" PRId64
				     " ranks, %" PRId64 " came, and all others left a word",
				     who, b->counted, b->seq);
	case START_IN_LOBBY:
		return report_printf(h->r,
				     "%s left nothing, and all whose stacks were given wait for "
				     "the group to be set up",
				     who);
	case START_BEGAN:
		break;
	}
	return "";
}
