/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_runs.c - the runs of a job that was started again.
 *
 * After a restart numbers of steps go back while time goes on; records that merely lie out of order
 * go back in both. The ranks of a job are started again together: a restart is one if more than
 * half of them show it, in the same stretch of time. A rank that alone counts anew is of no use
 * from there on, since nobody's steps are called like its own; it is left out and said. Nothing of
 * this is looked at where numbers only rise.
 */
#include "base/ranges.h"
#include "fold/merge_inside.h"

#define RUNS_MOST 64u /* of a rank; more are no restarts but clocks that jump */

struct timed {
	int64_t start;
	uint64_t number;
	struct source_step *step;
};
/* A rank was started again between two of its steps. */
struct fall {
	uint32_t row;
	int64_t before, after; /* starts */
};
/* The restarts of the job, by time. */
struct restart_at {
	int64_t before, after; /* all fall in between */
	uint32_t rows;
};
struct runs {
	struct merge *m;
	struct timed *all; /* by row, in order of time */
	size_t *first;	   /* [rows + 1] into all */
	VEC(struct fall) falls;
	VEC(struct restart_at) restarts;
	uint64_t doubled, alone;
	VEC(int64_t) alone_ranks;
};

static int64_t start_of(struct source *s, const struct source_step *at)
{
	uint8_t head[64]; /* more than the front of a record has */
	size_t n = MIN((size_t)at->len, sizeof(head));
	struct step step;

	if (spool_read(&s->s.steps, at->offset, head, n, NULL) < 0 ||
	    !step_peek(span_of(head, n), &step))
		return 0;
	return step.start_ns;
}

static int in_time(const void *a, const void *b)
{
	const struct timed *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static void gather(struct runs *t)
{
	struct merge *m = t->m;
	size_t *n, total = 0;

	t->first = xcalloc(m->job.n_ranks + 2, sizeof(*t->first));
	n = t->first + 1;
	for (size_t i = 0; i < m->sources.n; i++)
		if (m->sources.v[i].row != NO_ID)
			n[m->sources.v[i].row] += m->sources.v[i].n_steps;
	for (uint32_t row = 0; row < m->job.n_ranks; row++) {
		size_t of = n[row];

		n[row] = total;
		total += of;
	}
	t->all = xmalloc((total + 1) * sizeof(*t->all));
	for (size_t i = 0; i < m->sources.n; i++) {
		struct source *s = &m->sources.v[i];

		for (size_t k = 0; s->row != NO_ID && k < s->n_steps; k++)
			t->all[n[s->row]++] = (struct timed){ start_of(s, &s->steps[k]),
							      s->steps[k].number, &s->steps[k] };
	}
	for (uint32_t row = 0; row < m->job.n_ranks; row++)
		qsort(t->all + t->first[row], t->first[row + 1] - t->first[row], sizeof(*t->all),
		      in_time);
}

static bool is_fall(const struct timed *before, const struct timed *now)
{
	return now->number <= before->number && now->start > before->start;
}

static void find_falls(struct runs *t, uint32_t row)
{
	size_t had = t->falls.n;

	for (size_t i = t->first[row] + 1; i < t->first[row + 1]; i++) {
		if (is_fall(&t->all[i - 1], &t->all[i]))
			*vec_push(&t->falls) =
			    (struct fall){ row, t->all[i - 1].start, t->all[i].start };
		else
			t->doubled += t->all[i].number == t->all[i - 1].number;
	}
	if (t->falls.n - had >= RUNS_MOST)
		t->falls.n = had;
}

static int fall_order(const void *a, const void *b)
{
	const struct fall *x = a, *y = b;

	if (x->before != y->before)
		return x->before < y->before ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* Falls whose stretches of time overlap are one restart, if so many ranks have it. */
static void find_restarts(struct runs *t)
{
	for (size_t i = 0, end; i < t->falls.n; i = end) {
		struct restart_at r = { t->falls.v[i].before, t->falls.v[i].after, 1 };

		for (end = i + 1; end < t->falls.n && t->falls.v[end].before < r.after; end++) {
			r.before = t->falls.v[end].before; /* they rise */
			r.after = MIN(r.after, t->falls.v[end].after);
			r.rows++;
		}
		if (2 * r.rows > t->m->job.n_ranks)
			*vec_push(&t->restarts) = r;
	}
}

static uint32_t run_by_time(const struct runs *t, int64_t start)
{
	uint32_t run = 0;

	for (size_t i = 0; i < t->restarts.n; i++) {
		const struct restart_at *r = &t->restarts.v[i];

		run += start > r->before + (r->after - r->before) / 2;
	}
	return run;
}

/* Clocks are not asked where a rank has as many restarts as the job. */
static void settle_row(struct runs *t, uint32_t row)
{
	size_t first = t->first[row], end = t->first[row + 1], own = 0;
	uint32_t run = 0, before = 0;
	bool alone = false;

	for (size_t i = first + 1; i < end; i++)
		own += is_fall(&t->all[i - 1], &t->all[i]);
	if (own >= RUNS_MOST)
		return;
	for (size_t i = first; i < end; i++) {
		bool falls = i > first && is_fall(&t->all[i - 1], &t->all[i]);

		run = own == t->restarts.n ? run + falls : run_by_time(t, t->all[i].start);
		alone = run == before && (alone || falls);
		before = run;
		t->all[i].step->run = alone ? RUN_NONE : run;
		if (!alone)
			continue;
		if (!t->alone_ranks.n ||
		    t->alone_ranks.v[t->alone_ranks.n - 1] != t->m->job.ranks[row].rank)
			*vec_push(&t->alone_ranks) = t->m->job.ranks[row].rank;
		t->alone++;
	}
}

static void say(struct runs *t)
{
	_cleanup_free_ char *ranks = ranges_format(t->alone_ranks.v, t->alone_ranks.n);
	bool one = t->alone_ranks.n == 1;

	if (t->doubled)
		*vec_push(&t->m->warnings) =
		    xasprintf("left out %" PRIu64 " %s that a rank has twice", t->doubled,
			      t->doubled == 1 ? "step" : "steps");
	if (t->alone)
		*vec_push(&t->m->warnings) =
		    xasprintf("left out %" PRIu64 " steps of rank%s %s, which count%s steps "
			      "anew while the others go on",
			      t->alone, one ? "" : "s", ranks, one ? "s" : "");
}

static int move_order(const void *a, const void *b)
{
	const struct job_move *x = a, *y = b;

	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	return x->run < y->run ? -1 : x->run > y->run;
}

/* Started again, a rank may be on another machine: which one a fault is on depends on its steps. */
static void note_moves(struct merge *m)
{
	VEC(struct job_move) moves = { 0 };

	for (size_t i = 0; i < m->sources.n; i++) {
		const struct source *s = &m->sources.v[i];
		struct job_place at = { merge_name(s, s->s.info.host), s->s.info.gpu_index };
		uint32_t last = RUN_NONE;

		if (s->row == NO_ID || at.host == NO_ID ||
		    (at.host == m->job.ranks[s->row].host &&
		     at.gpu_index == m->job.ranks[s->row].gpu_index))
			continue;
		for (size_t k = 0; k < s->n_steps; k++) { /* in order of runs */
			if (s->steps[k].run != last && s->steps[k].run != RUN_NONE)
				*vec_push(&moves) =
				    (struct job_move){ s->row, s->steps[k].run, at };
			last = s->steps[k].run;
		}
	}
	if (moves.n) {
		qsort(moves.v, moves.n, sizeof(*moves.v), move_order);
		m->job.moves = arena_alloc(&m->job.arena, moves.n * sizeof(*moves.v));
		memcpy(m->job.moves, moves.v, moves.n * sizeof(*moves.v));
		m->job.n_moves = (uint32_t)moves.n;
	}
	free(moves.v);
}

void merge_runs(struct merge *m)
{
	struct runs t = { .m = m };
	bool any = m->restarted;

	for (size_t i = 0; i < m->sources.n; i++)
		any |= m->sources.v[i].falls && m->sources.v[i].row != NO_ID;
	if (!any)
		return;
	gather(&t);
	for (uint32_t row = 0; row < m->job.n_ranks; row++)
		find_falls(&t, row);
	if (t.falls.n)
		qsort(t.falls.v, t.falls.n, sizeof(*t.falls.v), fall_order);
	find_restarts(&t);
	for (uint32_t row = 0; row < m->job.n_ranks; row++)
		settle_row(&t, row);
	for (size_t i = 0; i < m->sources.n; i++)
		merge_sort_steps(&m->sources.v[i]);
	note_moves(m);
	say(&t);
	free(t.all);
	free(t.first);
	free(t.falls.v);
	free(t.restarts.v);
	free(t.alone_ranks.v);
}
