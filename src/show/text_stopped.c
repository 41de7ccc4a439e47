/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_stopped.c - the first three lines of a job that stands or has died: who broke it and in what
 * the others wait, why, and what to do at what loss.
 */
#include <math.h>

#include "show/coverage.h"
#include "show/text_inside.h"

#define SET_COLUMNS 28 /* of a set of ranks or a host in the first line */
#define OP_COLUMNS  40

bool text_is_stopped(const struct finding *f)
{
	return f->kind == KIND_HANG || f->kind == KIND_CRASH;
}

static const char *action_words(const char *action)
{
	static const struct {
		const char *action, *words;
	} rows[] = {
		{ "replace-node", "take the machine out, start again from the last checkpoint" },
		{ "check-link", "have the network of these ranks looked at" },
		{ "fix-code", "for whoever wrote the program" },
		{ "fix-data", "for whoever owns the data and its storage" },
		{ "fix-config", "for whoever set the job up" },
		{ "wait", "nothing is broken" },
	};

	for (size_t i = 0; action && i < ARRAY_SIZE(rows); i++)
		if (!strcmp(rows[i].action, action))
			return rows[i].words;
	return NULL;
}

/* The host that all culprits are on; NULL. */
static const char *only_host(const struct text *t, const struct finding *f)
{
	const char *host = f->hosts.n == 1 ? f->hosts.v[0] : NULL;

	if (f->hosts.n || !f->culprits.n)
		return host;
	for (size_t i = 1; i < f->culprits.n; i++)
		if (t->job->ranks[f->culprits.v[i]].host != t->job->ranks[f->culprits.v[0]].host)
			return NULL;
	return coverage_host(t->job, f->culprits.v[0]);
}

static void add_culprits(struct line *l, const struct text *t, const struct finding *f)
{
	const char *host = only_host(t, f);
	_cleanup_free_ char *set = NULL;
	struct line ranks = { 0 };
	int gpu;

	if (!f->culprits.n) {
		if (f->hosts.n)
			line_name(l, "host ", f->hosts.v[0], SET_COLUMNS);
		if (f->hosts.n > 1)
			line_add(l, " and %zu more", f->hosts.n - 1);
		if (!f->hosts.n)
			line_add(l, "nobody can be named");
		return;
	}
	line_ranks(&ranks, t->job, f->culprits.v, f->culprits.n);
	set = set_name(line_end(&ranks), SET_COLUMNS);
	line_add(l, "%s", set);
	line_done(&ranks);
	gpu = f->culprits.n == 1 ? (int)t->job->ranks[f->culprits.v[0]].gpu_index : -1;
	if (!host && gpu < 0)
		return;
	line_add(l, " (");
	if (host)
		line_name(l, "host ", host, SET_COLUMNS);
	if (gpu >= 0)
		line_add(l, "%sGPU %d", host ? ", " : "", gpu);
	line_add(l, ")");
}

static void line_who(const struct text *t, const struct finding *f, enum page_style style)
{
	bool victims = f->victims && *f->victims, hang = f->kind == KIND_HANG;
	bool many = victims && strpbrk(f->victims, ",-") && strncmp(f->victims, "unknown", 7);
	const char *ranks = many ? "ranks " : victims && *f->victims == 'u' ? "" : "rank ";
	struct line l = { 0 };

	add_culprits(&l, t, f);
	if (hang && victims && f->culprits.n + f->hosts.n)
		line_add(&l, f->culprits.n > 1 ? " make " : " makes ");
	else if (victims)
		line_add(&l, hang ? ": " : f->culprits.n ? " broke first; " : "; ");
	else if (!hang && f->culprits.n)
		line_add(&l, " broke");
	if (victims) {
		_cleanup_free_ char *set = set_name(f->victims, SET_COLUMNS);

		line_add(&l, "%s%s", ranks, set);
	}
	if (victims && hang)
		line_add(&l, f->culprits.n + f->hosts.n || many ? " wait" : " waits");
	else if (victims)
		line_add(&l, " went down with %s", f->culprits.n > 1 ? "them" : "it");
	line_name(&l, hang ? " in " : ", in ", f->where_collective, OP_COLUMNS);
	if (f->windows.n && f->windows.v[0].first_step >= 0)
		line_add(&l, ", at step %" PRId64, f->windows.v[0].first_step);
	page_text(&t->page, style, hang ? "HUNG: " : "CRASHED: ", 6, line_end(&l));
	line_done(&l);
}

static void line_cause(const struct text *t, const struct finding *f)
{
	struct line l = { 0 };

	line_add(&l, "%s", cause_info(f->cause)->name);
	if (f->cause_detail)
		line_add(&l, " (%s)", f->cause_detail);
	if (isfinite(f->confidence))
		line_add(&l, ", %.0f %% sure", f->confidence * 100);
	if (f->summary && *f->summary)
		line_add(&l, ": %s", f->summary);
	page_text(&t->page, PAGE_HEAD, "Cause: ", 7, line_end(&l));
	line_done(&l);
}

static void line_act(const struct text *t, const struct finding *f)
{
	const struct window *w = f->windows.n ? &f->windows.v[0] : NULL;
	const char *words = action_words(f->action), *whose = t->job->cpu_job ? "rank" : "GPU";
	bool lost = isfinite(f->lost_gpu_hours) && f->lost_gpu_hours > 0;
	struct line l = { 0 };
	char n[32];

	if (words)
		line_add(&l, "%s: %s", f->action, words);
	else
		line_add(&l, "nothing to be done by what was given");
	if (w && w->first_time_ns >= 0) {
		line_add(&l, f->kind == KIND_HANG ? "; since " : "; at ");
		line_time(&l, w->first_time_ns);
	}
	if (w && f->kind == KIND_HANG && w->first_time_ns >= 0 &&
	    w->last_time_ns > w->first_time_ns) {
		line_add(&l, " (");
		line_duration(&l, w->last_time_ns - w->first_time_ns);
		line_add(&l, ")");
	}
	if (lost)
		line_add(&l, "%s %s %s hours lost", w && w->first_time_ns >= 0 ? "," : ";",
			 page_number(f->lost_gpu_hours, n), whose);
	page_text(&t->page, PAGE_HEAD, "Act: ", 5, line_end(&l));
	line_done(&l);
}

void text_stopped(const struct text *t, const struct finding *f, enum page_style style)
{
	line_who(t, f, style);
	line_cause(t, f);
	line_act(t, f);
}
