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
/* Of a sentence that quotes an error, which stands whole in the evidence; and of a path in it. */
#define SUMMARY_COLUMNS 260
#define WORD_COLUMNS	40

bool text_is_stopped(const struct finding *f)
{
	return f->kind == KIND_HANG || f->kind == KIND_CRASH;
}

/* Whom an act is for, by its cause where that tells more than the act. */
static const char *action_words(const struct finding *f)
{
	static const struct {
		enum cause cause; /* CAUSES: any */
		const char *action, *words;
	} rows[] = {
		{ CAUSE_PREEMPTED, "wait", "nothing is broken" },
		{ CAUSE_CHECKPOINT, "wait",
		  "for whoever owns the storage, if the save does not end" },
		{ CAUSE_UNEVEN_STEPS, "fix-data", "for whoever splits the data among the ranks" },
		{ CAUSES, "wait", "nothing is broken" },
		{ CAUSES, "replace-node", "for whoever runs the machines" },
		{ CAUSES, "check-link", "for whoever runs the network" },
		{ CAUSES, "fix-code", "for whoever wrote the program" },
		{ CAUSES, "fix-data", "for whoever owns the data" },
		{ CAUSES, "fix-config", "for whoever set the job up" },
	};

	for (size_t i = 0; f->action && i < ARRAY_SIZE(rows); i++)
		if ((rows[i].cause == CAUSES || rows[i].cause == f->cause) &&
		    !strcmp(rows[i].action, f->action))
			return rows[i].words;
	return NULL;
}

/* The host that all culprits are on; NULL. */
static const char *host_of_all(const struct text *t, const struct finding *f)
{
	const char *host = f->hosts.n == 1 ? f->hosts.v[0] : NULL;

	if (f->hosts.n || !f->culprits.n)
		return host;
	for (size_t i = 1; i < f->culprits.n; i++)
		if (t->job->ranks[f->culprits.v[i]].host != t->job->ranks[f->culprits.v[0]].host)
			return NULL;
	return coverage_host(t->job, f->culprits.v[0]);
}

/* The same if it says where to go: every machine is its own localhost. */
static const char *only_host(const struct text *t, const struct finding *f)
{
	const char *host = host_of_all(t, f);

	return host && strcmp(host, "localhost") && strncmp(host, "127.", 4) ? host : NULL;
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
			line_add(l, f->cause == CAUSE_PREEMPTED ? "no rank broke it"
								: "nobody can be named");
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
	bool hang = f->kind == KIND_HANG;
	/* of those who went down with a process of no known rank it may be one */
	bool victims = f->victims && *f->victims && (hang || f->culprits.n || !f->hosts.n);
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
		line_add(&l, " went down%s",
			 !f->culprits.n	     ? ""
			 : f->culprits.n > 1 ? " with them"
					     : " with it");
	line_name(&l, hang ? " in " : ", in ", f->where_collective, OP_COLUMNS);
	if (f->windows.n && f->windows.v[0].first_step >= 0)
		line_add(&l, ", at step %" PRId64, f->windows.v[0].first_step);
	page_text(&t->page, style, hang ? "HUNG: " : "CRASHED: ", 6, line_end(&l));
	line_done(&l);
}

/* An error's words without the length of its paths, and no more than three lines of it. */
static void add_summary(struct line *l, const char *summary)
{
	_cleanup_free_ char *words = xstrdup(summary);
	struct line all = { 0 };
	char *rest = words;

	for (char *word; (word = strsep(&rest, " "));)
		line_name(&all, all.b.len ? " " : "", word, WORD_COLUMNS);
	line_name(l, ": ", line_end(&all), SUMMARY_COLUMNS);
	line_done(&all);
}

static void line_cause(const struct text *t, const struct finding *f)
{
	const char *name = cause_info(f->cause)->name;
	struct line l = { 0 };

	line_add(&l, "%s", name);
	if (f->cause_detail && strcmp(f->cause_detail, name))
		line_add(&l, " (%s)", f->cause_detail);
	if (isfinite(f->confidence) && f->cause != CAUSE_UNKNOWN)
		line_add(&l, ", %.0f %% sure", f->confidence * 100);
	if (f->summary && *f->summary)
		add_summary(&l, f->summary);
	page_text(&t->page, PAGE_HEAD, "Cause: ", 7, line_end(&l));
	line_done(&l);
}

/* Where nothing tells what to change, the first act is to look, while there is something to see. */
static void add_look(struct line *l, const struct text *t, const struct finding *f)
{
	_cleanup_free_ char *set = NULL;
	struct line ranks = { 0 };

	if (!f->culprits.n) {
		line_add(l, "gather what is not given (below) before the job is restarted");
		return;
	}
	line_ranks(&ranks, t->job, f->culprits.v, f->culprits.n);
	set = set_name(line_end(&ranks), SET_COLUMNS);
	line_add(l, "find out what %s %s, before the job is restarted", set,
		 f->culprits.n == 1 ? "does" : "do");
	line_done(&ranks);
}

static void line_act(const struct text *t, const struct finding *f)
{
	const struct window *w = f->windows.n ? &f->windows.v[0] : NULL;
	const char *words = action_words(f), *whose = t->job->cpu_job ? "rank" : "GPU";
	bool lost = isfinite(f->lost_gpu_hours) && f->lost_gpu_hours > 0;
	struct line l = { 0 };
	char n[32];

	if (words)
		line_add(&l, "%s: %s", f->action, words);
	else
		add_look(&l, t, f);
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
