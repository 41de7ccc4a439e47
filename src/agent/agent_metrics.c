/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_metrics.c - what the agent shows to Prometheus, as its text format 0.0.4.
 *
 * Words come from training processes: what could end a label or a line is replaced, and a rank
 * shows at most AGENT_PHASES phases, so that no job makes a page grow.
 */
#include "agent/agent_inside.h"
#include "base/exposition.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static void phases_note(struct shown *s, const struct step *step, const struct intern *names)
{
	s->n_phases = 0;
	for (uint32_t i = 0; i < step->n_phases && s->n_phases < AGENT_PHASES; i++) {
		struct shown_phase *p = &s->phases[s->n_phases++];

		exposition_label(p->name, sizeof(p->name), intern_get(names, step->phases[i].name));
		p->ns = step->phases[i].total_ns;
	}
}

void metrics_note(struct followed *f, const struct step *step, const struct intern *names)
{
	struct shown *s = &f->shown;

	s->steps++;
	s->step = step->number;
	s->wall_ns = step->wall_ns;
	s->own_ns = step->own_ns;
	s->comm_wait_ns = step->comm_exposed_ns;
	s->data_wait_ns = step->data_wait_ns;
	s->gc_ns = step->gc_ns;
	s->longest_ns = 0;
	for (uint32_t i = 0; i < step->n_kernels; i++) {
		if (step->kernels[i].sum_ns <= s->longest_ns)
			continue;
		s->longest_ns = step->kernels[i].sum_ns;
		exposition_label(s->longest, sizeof(s->longest),
				 intern_get(names, step->kernels[i].name));
	}
	for (uint32_t i = 0; i < step->n_phases && !step->n_kernels; i++) {
		if (step->phases[i].total_ns <= s->longest_ns)
			continue;
		s->longest_ns = step->phases[i].total_ns;
		exposition_label(s->longest, sizeof(s->longest),
				 intern_get(names, step->phases[i].name));
	}
	phases_note(s, step, names);
}

/* job="..",rank="N" of a ring, into text. */
static const char *labels(const struct followed *f, char text[128])
{
	const struct ring_header *h = &f->live->ring->h;
	char job[72];

	exposition_label(job, sizeof(job), h->job);
	snprintf(text, 128, "job=\"%s\",rank=\"%d\"", job, h->rank);
	return text;
}

static double seconds(int64_t ns)
{
	return (double)ns / 1e9;
}

/* Gauges of the last step, by how they are got. */
static const struct {
	const char *name, *help;
	size_t at;
} gauges[] = {
	{ "lockstep_step_seconds", "Duration of the last step.", offsetof(struct shown, wall_ns) },
	{ "lockstep_own_seconds", "Of it, what the rank itself needed.",
	  offsetof(struct shown, own_ns) },
	{ "lockstep_collective_wait_seconds", "Of it, waiting for collectives.",
	  offsetof(struct shown, comm_wait_ns) },
	{ "lockstep_data_wait_seconds", "Of it, waiting for data.",
	  offsetof(struct shown, data_wait_ns) },
	{ "lockstep_gc_seconds", "Of it, garbage collection.", offsetof(struct shown, gc_ns) },
};

static void ranks_put(const struct agent *a, struct buf *out)
{
	char text[128];

	for (size_t g = 0; g < ARRAY_SIZE(gauges); g++) {
		exposition_head(out, gauges[g].name, "gauge", gauges[g].help);
		for (size_t i = 0; i < a->rings.n; i++) {
			const struct followed *f = &a->rings.v[i];
			int64_t ns;

			if (!f->live || !f->shown.steps)
				continue;
			memcpy(&ns, (const char *)&f->shown + gauges[g].at, sizeof(ns));
			buf_printf(out, "%s{%s} %.9g\n", gauges[g].name, labels(f, text),
				   seconds(ns));
		}
	}
	exposition_head(out, "lockstep_step", "gauge", "Number of the last step.");
	for (size_t i = 0; i < a->rings.n; i++)
		if (a->rings.v[i].live && a->rings.v[i].shown.steps)
			buf_printf(out, "lockstep_step{%s} %" PRIu64 "\n",
				   labels(&a->rings.v[i], text), a->rings.v[i].shown.step);
	exposition_head(out, "lockstep_steps_total", "counter", "Steps that were recorded.");
	for (size_t i = 0; i < a->rings.n; i++)
		if (a->rings.v[i].live)
			buf_printf(out, "lockstep_steps_total{%s} %" PRIu64 "\n",
				   labels(&a->rings.v[i], text), a->rings.v[i].shown.steps);
}

static void phases_put(const struct agent *a, struct buf *out)
{
	char text[128];

	exposition_head(out, "lockstep_phase_seconds", "gauge",
			"Time in a phase of the last step.");
	for (size_t i = 0; i < a->rings.n; i++) {
		const struct followed *f = &a->rings.v[i];

		for (unsigned p = 0; f->live && p < f->shown.n_phases; p++)
			buf_printf(out, "lockstep_phase_seconds{%s,phase=\"%s\"} %.9g\n",
				   labels(f, text), f->shown.phases[p].name,
				   seconds(f->shown.phases[p].ns));
	}
	exposition_head(out, "lockstep_longest_seconds", "gauge",
			"The operator (or phase) with most time in the last step.");
	for (size_t i = 0; i < a->rings.n; i++) {
		const struct followed *f = &a->rings.v[i];

		if (f->live && f->shown.longest_ns)
			buf_printf(out, "lockstep_longest_seconds{%s,operator=\"%s\"} %.9g\n",
				   labels(f, text), f->shown.longest, seconds(f->shown.longest_ns));
	}
}

static const struct {
	enum ring_counter counter;
	const char *reason;
} losses[] = {
	{ RING_LOST_NO_SLOT, "no-slot" },
	{ RING_LOST_REENTRANT, "signal-handler" },
	{ RING_LOST_DEPTH, "too-deep" },
	{ RING_LOST_PENDING, "too-many-collectives" },
	{ RING_LOST_NAMES, "too-many-names" },
	{ RING_CUT_NAMES, "name-cut" },
	{ RING_END_WITHOUT_BEGIN, "end-without-begin" },
	{ RING_CUPTI_DROPPED, "cupti-dropped" },
	{ RING_CUPTI_FOREIGN, "cupti-foreign" },
	{ RING_HOOK_FAILED, "hook-failed" },
	{ RING_CLOCK_STEPS, "clock-step" },
	{ RING_IGNORED, "ignored" },
};

static void losses_put(const struct agent *a, struct buf *out)
{
	char text[128];

	exposition_head(out, "lockstep_lost_total", "counter", "What was not recorded, by reason.");
	for (size_t i = 0; i < a->rings.n; i++) {
		const struct followed *f = &a->rings.v[i];

		if (!f->live)
			continue;
		labels(f, text);
		buf_printf(out, "lockstep_lost_total{%s,reason=\"overtaken\"} %" PRIu64 "\n", text,
			   f->live->ring->overtaken);
		buf_printf(out, "lockstep_lost_total{%s,reason=\"strange\"} %" PRIu64 "\n", text,
			   f->live->strange + fold_stream_skipped(f->live->fold));
		for (size_t k = 0; k < ARRAY_SIZE(losses); k++)
			if (f->live->ring->h.counters[losses[k].counter])
				buf_printf(out,
					   "lockstep_lost_total{%s,reason=\"%s\"} %" PRIu64 "\n",
					   text, losses[k].reason,
					   f->live->ring->h.counters[losses[k].counter]);
	}
	exposition_head(out, "lockstep_tracer_on", "gauge", "1: the tracer of the rank is on.");
	for (size_t i = 0; i < a->rings.n; i++) {
		const struct followed *f = &a->rings.v[i];
		char why[161];

		if (!f->live)
			continue;
		exposition_label(why, sizeof(why), f->live->ring->h.off_text);
		buf_printf(out, "lockstep_tracer_on{%s,why=\"%s\"} %d\n", labels(f, text), why,
			   f->live->ring->h.state == RING_ON);
	}
}

/* "VmRSS:  1234 kB" of our own status. */
static uint64_t own_memory(void)
{
	char text[4096] = "", *p;
	FILE *f = fopen("/proc/self/status", "re");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (f)
		fclose(f);
	text[n] = '\0';
	p = strstr(text, "VmRSS:");
	return p ? strtoull(p + 6, NULL, 10) * 1024 : 0;
}

void metrics_put(const struct agent *a, struct buf *out)
{
	static const char *const troubles[] = { "ring-version", "ring-damaged", "foreign-owner",
						"write-failed" };
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	ranks_put(a, out);
	phases_put(a, out);
	losses_put(a, out);
	exposition_head(out, "lockstep_agent_cpu_seconds_total", "counter",
			"CPU time of the agent.");
	buf_printf(out, "lockstep_agent_cpu_seconds_total %.6f\n",
		   (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
		       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
	exposition_head(out, "lockstep_agent_memory_bytes", "gauge",
			"Resident memory of the agent.");
	buf_printf(out, "lockstep_agent_memory_bytes %" PRIu64 "\n", own_memory());
	exposition_head(out, "lockstep_agent_rings", "gauge", "Rings that are followed.");
	buf_printf(out, "lockstep_agent_rings %zu\n", a->rings.n);
	exposition_head(out, "lockstep_agent_trouble_total", "counter",
			"What was left alone, by reason.");
	for (size_t i = 0; i < TROUBLES; i++)
		buf_printf(out, "lockstep_agent_trouble_total{reason=\"%s\"} %" PRIu64 "\n",
			   troubles[i], a->trouble[i]);
}
