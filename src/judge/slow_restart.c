/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_restart.c - the runs of a job that was started again, and what that cost.
 *
 * Where the number of a step does not rise, another run has begun. All runs are one history: who
 * was slow before and is slow after is one fault. Each run begins with a warm-up.
 */
#include "judge/judge_internal.h"

#include <math.h>

#define DOWN_MOST_NS (30 * 86400e9) /* longer: the clocks are not of one kind */

/* The steps of the run that ended which the new one does again, as far as the history has them. */
static void take_again(struct judge *j, uint32_t t, struct restart *r)
{
	uint64_t looked = 0, first = j->moments[t].number;

	for (uint32_t k = t; k-- && j->moments[k].run == j->moments[t - 1].run;) {
		if (j->moments[k].number < first)
			break;
		r->again_ns += j->moments[k].wall;
		looked++;
	}
	r->again = looked;
	if (looked && looked == t && j->dropped_steps) { /* some were forgotten */
		r->again = r->last - r->first + 1;
		r->again_ns *= (double)r->again / (double)looked;
	}
}

void restart_step(struct judge *j, uint32_t t)
{
	struct moment *m = &j->moments[t];
	const struct moment *before = t ? m - 1 : NULL;
	struct restart r;
	double down;

	m->run = (uint32_t)j->restarts.n;
	m->begins = !t && !j->dropped_steps;
	if (m->begins)
		j->run_first = m->number;
	if (!before || m->number > before->number)
		return;
	m->run++;
	m->begins = true;
	down = (double)m->start_ns - (double)before->start_ns - before->wall;
	r = (struct restart){
		.last = before->number,
		.first = m->number,
		.down_ns = down > DOWN_MOST_NS ? -1 : fmax(down, -1),
		.start_ns = m->start_ns,
	};
	r.anew = m->number <= j->run_first;
	if (!r.anew)
		take_again(j, t, &r);
	j->run_first = m->number;
	*vec_push(&j->restarts) = r;
}

static const char *seconds(struct report *report, double ns)
{
	double s = ns / 1e9;

	return s < 600	   ? report_printf(report, s < 10 ? "%.1f s" : "%.0f s", s)
	       : s < 36000 ? report_printf(report, "%.0f min", s / 60)
			   : report_printf(report, "%.1f h", s / 3600);
}

void restart_report(struct judge *j, struct report *report)
{
	struct finding f = { .severity = SEVERITY_NOTE,
			     .kind = KIND_SLOW,
			     .level = "L1",
			     .cause = CAUSE_UNKNOWN,
			     .action = "none",
			     .where_phase = "restart",
			     .slowdown = NAN,
			     .step_ms_lost = NAN,
			     .gpu_hours_per_day = NAN,
			     .confidence = 0.9 };
	double gpus = (double)MAX(j->job->world_size, (int64_t)j->n_rows), again_ns = 0, down = 0;
	const struct restart *last = j->restarts.n ? &j->restarts.v[j->restarts.n - 1] : NULL;
	const char *times = "", *lost;
	uint64_t again = 0;
	bool anew = false;

	if (!last)
		return;
	for (size_t i = 0; i < j->restarts.n; i++) {
		const struct restart *r = &j->restarts.v[i];

		again += r->again;
		again_ns += r->again_ns;
		down += fmax(r->down_ns, 0);
		anew |= r->anew;
		*vec_push(&f.windows) =
		    (struct window){ (int64_t)r->first, (int64_t)MAX(r->last, r->first),
				     r->start_ns,	r->start_ns,
				     (uint32_t)i + 1,	false };
	}
	if (j->restarts.n > 1)
		times = report_printf(report, " %zu times, the last time", j->restarts.n);
	lost = again || !anew ? report_printf(report, "%" PRIu64 " steps were done twice (%s)",
					      again, seconds(report, again_ns))
			      : "whether steps were done twice its numbers do not tell";
	if (down > 0)
		lost = report_printf(report, "%s, and no step ran for %s", lost,
				     seconds(report, down));
	f.summary = report_printf(report,
				  "the job was started again%s at step %" PRIu64
				  ", after step %" PRIu64 ": %s; why it ended, its log tells",
				  times, last->first, last->last, lost);
	f.lost_gpu_hours = (again_ns + down) / 3.6e12 * gpus;
	*vec_push(&f.evidence) =
	    (struct evidence){ "steps that were done twice", (double)again, NAN, NULL, "steps" };
	*vec_push(&f.evidence) =
	    (struct evidence){ "time in which no step ran", down / 1e6, NAN, "ms", "steps" };
	finding_set_id(&f, j->job);
	*vec_push(&report->findings) = f;
}
