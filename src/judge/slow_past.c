/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_past.c - what was found in steps that had to be forgotten.
 *
 * The history is short where there are many ranks. Before its older half goes it is judged as it
 * stands, and the faults and risks found are kept. Each window shares half of its steps with the
 * one before, so that no fault lies across an edge; the same fault found twice is one, and its cost
 * is counted once for each step.
 */
#include "judge/judge_internal.h"

static bool is_past(const struct judge *j, const struct finding *f, const struct entry *e)
{
	if (f->cause != e->cause || f->culprits.n != e->rows.n || !f->windows.n)
		return false;
	for (size_t i = 0; i < e->rows.n; i++)
		if (f->culprits.v[i] != e->rows.v[i])
			return false;
	return j->n_steps > 0;
}

/* Does the window end at the step or beside it? */
static bool reaches(const struct window *w, const struct moment *m)
{
	return w->run == m->run ? w->last_step >= (int64_t)m->number - 1 : w->run > m->run;
}

int64_t past_start(const struct judge *j, const struct entry *e)
{
	for (size_t i = 0; e->on[0] && i < j->past.findings.n; i++) {
		const struct finding *f = &j->past.findings.v[i];

		if (is_past(j, f, e) && reaches(&f->windows.v[f->windows.n - 1], &j->moments[0]))
			return f->windows.v[f->windows.n - 1].first_step;
	}
	return -1;
}

static int64_t steps_of(const struct finding *f)
{
	int64_t n = 0;

	for (size_t i = 0; i < f->windows.n; i++)
		n += f->windows.v[i].last_step - f->windows.v[i].first_step + 1;
	return n;
}

/* Adds the windows of b, which begin no earlier, to those of a. */
static void join_windows(struct finding *a, const struct finding *b)
{
	for (size_t i = 0; i < b->windows.n; i++) {
		const struct window *w = &b->windows.v[i];
		struct window *last = a->windows.n ? &a->windows.v[a->windows.n - 1] : NULL;

		if (last && (w->run < last->run ||
			     (w->run == last->run && w->last_step <= last->last_step)))
			continue;
		if (last && w->run == last->run && w->first_step <= last->last_step + 1) {
			last->last_step = w->last_step;
			last->last_time_ns = w->last_time_ns;
		} else {
			*vec_push(&a->windows) = *w;
		}
	}
}

/* The part of the steps, and of the cost, of b that a has not. */
static void join_finding(struct finding *a, const struct finding *b)
{
	double own = (double)steps_of(a), more;

	join_windows(a, b);
	more = (double)steps_of(a) - own;
	if (more <= 0)
		return;
	a->lost_gpu_hours += b->lost_gpu_hours * more / (double)MAX(steps_of(b), 1);
	a->step_ms_lost = (a->step_ms_lost * own + b->step_ms_lost * more) / (own + more);
	a->slowdown = (a->slowdown * own + b->slowdown * more) / (own + more);
	a->severity = MIN(a->severity, b->severity);
}

static struct finding *same_finding(const struct report *r, size_t n, const struct finding *f)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(r->findings.v[i].id, f->id))
			return &r->findings.v[i];
	return NULL;
}

/* What is found and is new is kept, with the memory of its words; the rest goes, so that memory
   does not grow with the steps. */
void past_take(struct judge *j)
{
	struct report now = { .job = j->job };
	size_t n = j->past.findings.n;

	j->more_to_come = true;
	job_findings(j, &now);
	j->more_to_come = false;
	for (size_t i = 0; i < now.findings.n; i++) {
		struct finding *f = &now.findings.v[i];
		struct finding *old = same_finding(&j->past, n, f);

		if (old) {
			join_finding(old, f);
		} else if (f->severity != SEVERITY_NOTE) {
			*vec_push(&j->past.findings) = *f;
			*f = (struct finding){ 0 };
		}
	}
	if (j->past.findings.n > n)
		arena_join(&j->past.arena, &now.arena);
	report_done(&now);
	entries_forget(j);
}

/* A fault that is still there is told as it is now, with all its windows. */
void past_report(struct judge *j, struct report *report)
{
	size_t n = report->findings.n;

	for (size_t i = 0; i < j->past.findings.n; i++) {
		struct finding *old = &j->past.findings.v[i], one;
		struct finding *now = same_finding(report, n, old);

		if (!now) {
			*vec_push(&report->findings) = *old;
			continue;
		}
		join_finding(old, now);
		one = *now;
		one.windows = old->windows;
		one.severity = old->severity;
		one.slowdown = old->slowdown;
		one.step_ms_lost = old->step_ms_lost;
		one.lost_gpu_hours = old->lost_gpu_hours;
		old->windows = now->windows;
		*now = one;
		finding_done(old);
	}
	j->past.findings.n = 0;
	arena_join(&report->arena, &j->past.arena);
}
