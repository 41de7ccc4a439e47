/* SPDX-License-Identifier: Apache-2.0 */
/*
 * narrow.c - --ranks for hangs and crashes: all is judged, some is shown.
 *
 * Who broke the lockstep is seen only from where all ranks stand, so nothing is left out before the
 * judge. What is left out after it is said. The answer is never left out: if no finding is of the
 * ranks asked for, all stay.
 */
#include "cmd/narrow.h"
#include "base/ranges.h"

struct narrow {
	struct report *r;
	bool *wanted; /* by row */
	size_t n;
};

static size_t keep_rows(const struct narrow *w, uint32_t *rows, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (w->wanted[rows[i]])
			rows[kept++] = rows[i];
	return kept;
}

static void narrow_ranks(struct narrow *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->r->ranks.n; i++) {
		struct report_rank *rank = &w->r->ranks.v[i];

		if (w->wanted[rank->row])
			w->r->ranks.v[kept++] = *rank;
		else
			free(rank->steps.v);
	}
	w->r->ranks.n = kept;
}

static void narrow_groups(struct narrow *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->r->groups.n; i++) {
		struct report_group g = w->r->groups.v[i];
		size_t n = 0;

		for (size_t k = 0; k < g.ranks.n; k++)
			if (w->wanted[g.ranks.v[k].row])
				g.ranks.v[n++] = g.ranks.v[k];
		g.ranks.n = n;
		if (n)
			w->r->groups.v[kept++] = g;
		else
			free(g.ranks.v);
	}
	w->r->groups.n = kept;
}

static void narrow_stacks(struct narrow *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->r->stacks.n; i++) {
		struct report_stack s = w->r->stacks.v[i];
		size_t n = keep_rows(w, s.rows.v, s.rows.n);

		if (s.rows.n && !n) {
			free(s.rows.v);
			free(s.frames.v);
			continue;
		}
		if (n < s.rows.n)
			s.who = report_printf(w->r, "%s%s", n == 1 ? "rank " : "ranks ",
					      report_rank_set(w->r, s.rows.v, n));
		s.rows.n = n;
		w->r->stacks.v[kept++] = s;
	}
	w->r->stacks.n = kept;
}

static void narrow_gpus(struct narrow *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->r->gpus.n; i++)
		if (w->r->gpus.v[i].row == NO_ID || w->wanted[w->r->gpus.v[i].row])
			w->r->gpus.v[kept++] = w->r->gpus.v[i];
	w->r->gpus.n = kept;
}

/* Does it name one of them, or make one of them wait? A finding that says neither is of all. */
static bool is_of_them(const struct narrow *w, const struct option_ranks *ranks,
		       const struct finding *f)
{
	_cleanup_free_ int64_t *victims = NULL;
	size_t n = 0;
	struct error error;
	bool any = false;

	if ((f->kind != KIND_HANG && f->kind != KIND_CRASH) || !f->culprits.n)
		return true;
	for (size_t i = 0; i < f->culprits.n; i++)
		if (w->wanted[f->culprits.v[i]])
			return true;
	if (!f->victims || !*f->victims)
		return false;
	if (ranges_parse(f->victims, &victims, &n, &error) < 0)
		return true; /* ranks without a number are among them */
	for (size_t i = 0; i < n; i++)
		any |= ranges_has(ranks->v, ranks->n, victims[i]);
	return any;
}

static void narrow_findings(struct narrow *w, const struct option_ranks *ranks)
{
	size_t n = w->r->findings.n, kept = 0, of_them = 0;
	_cleanup_free_ bool *keep = xcalloc(n + 1, sizeof(*keep));

	for (size_t i = 0; i < n; i++) {
		const struct finding *f = &w->r->findings.v[i];

		keep[i] = is_of_them(w, ranks, f);
		of_them += keep[i] && f->severity != SEVERITY_NOTE;
	}
	if (!of_them)
		return;
	for (size_t i = 0; i < n; i++)
		if (keep[i])
			w->r->findings.v[kept++] = w->r->findings.v[i];
		else
			finding_done(&w->r->findings.v[i]);
	w->r->findings.n = kept;
	if (kept < n)
		*vec_push(&w->r->assumed) =
		    report_printf(w->r, "not shown: %zu finding%s of other ranks (--ranks)",
				  n - kept, n - kept == 1 ? "" : "s");
}

void narrow_report(struct report *report, const struct option_ranks *ranks)
{
	const struct job *job = report->job;
	_cleanup_free_ bool *wanted = xcalloc(job->n_ranks + 1, sizeof(*wanted));
	struct narrow w = { report, wanted, 0 };

	if (!ranks->n)
		return;
	for (uint32_t row = 0; row < job->n_ranks; row++) {
		wanted[row] = ranges_has(ranks->v, ranks->n, job->ranks[row].rank);
		w.n += wanted[row];
	}
	if (!w.n) {
		*vec_push(&report->assumed) = "none of the ranks asked for (--ranks) is in what "
					      "was given: what is said is of all";
		return;
	}
	narrow_ranks(&w);
	narrow_groups(&w);
	narrow_stacks(&w);
	narrow_gpus(&w);
	narrow_findings(&w, ranks);
}
