/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_report.c - what changed is said once: a line on stdout, an alert, and gauges for
 * Prometheus.
 *
 * A hang or a crash is reported when its evidence is there, or the time for it is over, so that the
 * alert names the culprit. What was reported is part of the state: a restart repeats nothing.
 */
#include "watch/watch.h"
#include "base/exposition.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const enum alert_severity severities[MATTERS] = {
	[MATTER_HUNG] = ALERT_CRITICAL,	    [MATTER_CRASHED] = ALERT_CRITICAL,
	[MATTER_COMPLETED] = ALERT_INFO,    [MATTER_SUSPECT] = ALERT_INFO,
	[MATTER_IDLE] = ALERT_WARNING,	    [MATTER_STARVED] = ALERT_WARNING,
	[MATTER_THROTTLED] = ALERT_WARNING, [MATTER_SLOW] = ALERT_WARNING,
	[MATTER_OVERDUE] = ALERT_WARNING,   [MATTER_LOSS] = ALERT_CRITICAL,
	[MATTER_BLIND] = ALERT_WARNING,
};
static const char *const severity_names[ALERT_SEVERITIES] = { "info", "warning", "critical" };

static void stamp(const struct watcher *r, int64_t at_ms, char ret[32])
{
	int64_t wall = at_ms + r->wall_offset_ms;
	time_t t = (time_t)(wall / 1000);
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(ret, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static enum alert_severity severity_of(const struct watcher *r, enum watch_matter m)
{
	return r->now.matters[m].raised && r->now.matters[m].mild ? ALERT_WARNING : severities[m];
}

/* A summary may begin with what stands before it already. */
static const char *bare(const char *summary, const char *key)
{
	size_t n = strlen(key);

	if (strncmp(summary, key, n))
		return summary;
	return !strncmp(summary + n, ": ", 2)	? summary + n + 2
	       : !strncmp(summary + n, ", ", 2) ? summary + n + 2
	       : !summary[n]			? ""
						: summary;
}

static json_t *number_or_null(int64_t v)
{
	return v >= 0 ? json_integer(v) : json_null();
}

static json_t *detail_of(const struct watcher *r, enum watch_matter m)
{
	json_t *d = json_object();
	bool told = r->diagnosis && (m == MATTER_HUNG || m == MATTER_CRASHED);

	json_object_set_new(d, "state", json_string(watch_state_name(r->now.state)));
	json_object_set_new(d, "step", number_or_null(r->w.step));
	json_object_set_new(d, "quiet_s",
			    r->now.quiet_ms >= 0 ? json_integer(r->now.quiet_ms / 1000)
						 : json_null());
	json_object_set_new(d, "told_by", json_string(r->now.by));
	json_object_set_new(d, "gpus", json_string(gpu_pattern_name(r->w.pattern)));
	if (m == MATTER_CRASHED && r->w.failure.known)
		json_object_set_new(d, "rank", number_or_null(r->w.failure.rank));
	if (told)
		json_object_set(d, "diagnosis", r->diagnosis);
	if (r->folder && (m == MATTER_HUNG || m == MATTER_CRASHED))
		json_object_set_new(d, "evidence", json_string(r->folder));
	return d;
}

static void print_change(const struct watcher *r, enum watch_matter m, bool raised,
			 const char *summary, json_t *detail)
{
	char when[32];

	stamp(r, r->now_ms, when);
	if (!r->o->json) {
		const char *key = watch_matter_key(m), *rest = bare(summary, key);

		/* "partly blind: ..", "ended by the time limit: .." say it in words of their own */
		if (raised &&
		    (r->now.matters[m].mild || strstr(summary, "partly blind") == summary))
			key = "";
		printf("%s %s%s%s%s\n", when, raised ? "" : "over: ", key,
		       *rest && *key ? ": " : "", rest);
		fflush(stdout);
		return;
	}
	json_t *j =
	    json_pack("{s:s,s:s,s:s,s:s,s:b,s:s,s:s%,s:O}", "time", when, "job", r->job, "state",
		      watch_state_name(r->now.state), "matter", watch_matter_key(m), "raised",
		      raised, "severity", severity_names[severity_of(r, m)], "summary", summary,
		      strlen(summary), "detail", detail);
	if (r->o->replay)
		json_object_set_new(j, "t", json_real((double)(r->now_ms - WATCH_EPOCH_MS) / 1000));
	json_dumpf(j, stdout, JSON_COMPACT);
	putchar('\n');
	fflush(stdout);
	json_decref(j);
}

void watch_say_beginning(const struct watcher *r)
{
	const struct watch_options *o = r->o;
	char text[512], when[32];

	snprintf(text, sizeof(text), "watching %zu source%s, every %g s%s%.300s", o->n_sources,
		 o->n_sources == 1 ? "" : "s", (double)o->interval_ms / 1000,
		 o->state ? "; state in " : "", o->state ? o->state : "");
	watch_clean(text);
	if (o->json) { /* its lines are changes */
		o->say("watch: %s", text);
		return;
	}
	stamp(r, r->now_ms, when);
	printf("%s %s\n", when, text);
	fflush(stdout);
}

void watch_say_state(const struct watcher *r)
{
	const char *state = watch_state_name(r->now.state), *why = "", *name = "";
	char when[32], summary[4 * WATCH_TEXT];

	for (size_t i = 0; i < r->w.sources.n && !*why; i++) {
		why = r->w.sources.v[i].why;
		name = r->w.sources.v[i].name;
	}
	stamp(r, r->now_ms, when);
	snprintf(summary, sizeof(summary), "%s%s%s%s%s", r->now.summary, *why ? "; \"" : "",
		 *why ? name : "", *why ? "\": " : "", why);
	watch_clean(summary);
	if (r->o->json) {
		json_t *j = json_pack("{s:s,s:s,s:s,s:s%}", "time", when, "job", r->job, "state",
				      state, "summary", summary, strlen(summary));

		json_dumpf(j, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(j);
	} else {
		const char *rest = bare(summary, state);

		printf("%s %s%s%s\n", when, state, *rest ? ": " : "", rest);
	}
	fflush(stdout);
}

/* Does the diagnosis say of a crash what the summary says already? */
static bool diagnosis_repeats(const struct watcher *r)
{
	const char *told = json_string_value(json_object_get(r->diagnosis, "summary"));
	const struct watch_failure *f = &r->w.failure;

	return told && f->known && f->what[0] && strstr(told, f->what) != NULL;
}

static void begins(struct watcher *r, enum watch_matter m)
{
	char summary[WATCH_TEXT * 4], more[WATCH_TEXT + 64] = "";
	json_t *detail = detail_of(r, m);
	struct alert a = { .key = watch_matter_key(m), .severity = severity_of(r, m) };
	struct error e = { "" };

	if (m == MATTER_HUNG || (m == MATTER_CRASHED && !diagnosis_repeats(r)))
		watch_evidence_words(r, more, sizeof(more));
	snprintf(summary, sizeof(summary), "%s%s", r->now.matters[m].summary, more);
	watch_clean(summary);
	a.summary = summary;
	a.detail = detail;
	print_change(r, m, true, summary, detail);
	if (r->alerts)
		alert_raise(r->alerts, &a, watch_wall(r), &e);
	if (e.text[0]) /* it is kept in memory, and goes out */
		r->o->say("watch: an alert is not on disk: %s", e.text);
	r->raised[m] = r->told = true;
	json_decref(detail);
}

static void goes_on(const struct watcher *r, enum watch_matter m, char *ret, size_t size)
{
	int64_t since = r->quiet_since_ms[m], moved = r->w.progress_ms;
	bool by_steps = !strcmp(r->now.by, "steps");
	char span[32], step[48] = "";

	if (!by_steps)
		moved = r->now_ms - MAX(r->now.quiet_ms, 0);
	else if (r->w.step >= 0)
		snprintf(step, sizeof(step), " at step %" PRId64, r->w.step);
	snprintf(ret, size, "%s%s%s%s", by_steps ? "goes on again" : "the GPUs work again", step,
		 since > 0 && moved > since ? " after " : "",
		 since > 0 && moved > since ? watch_span(moved - since, span) : "");
}

/* Why it is over: of this matter, whatever else holds now. */
static void why_over(const struct watcher *r, enum watch_matter m, char *ret, size_t size)
{
	static const char *const words[MATTERS] = {
		[MATTER_CRASHED] = "it runs again",
		[MATTER_COMPLETED] = "it goes on",
		[MATTER_STARVED] = "the GPUs are busy again",
		[MATTER_THROTTLED] = "the clocks are what they were",
		[MATTER_SLOW] = "its steps take no longer than usual",
		[MATTER_OVERDUE] = "a checkpoint was written",
		[MATTER_LOSS] = "the loss is a number again",
		[MATTER_BLIND] = "every source answers",
	};
	const char *end = r->now.state == WATCH_COMPLETED ? "the job has completed"
			  : r->now.state == WATCH_CRASHED ? "the job has crashed"
							  : NULL;

	if (end && m != MATTER_CRASHED && m != MATTER_COMPLETED)
		snprintf(ret, size, "%s", end);
	else if (words[m])
		snprintf(ret, size, "%s", words[m]);
	else if (r->now.state == WATCH_HUNG)
		snprintf(ret, size, "it is taken for a hang now");
	else if (r->now.state == WATCH_HEALTHY)
		goes_on(r, m, ret, size);
	else
		snprintf(ret, size, "it is %s now", watch_state_name(r->now.state));
}

static void ends(struct watcher *r, enum watch_matter m)
{
	json_t *detail = detail_of(r, m);
	struct error e = { "" };
	char why[160];

	why_over(r, m, why, sizeof(why));

	/* a suspicion that came true is not over */
	if (!(m == MATTER_SUSPECT && r->now.state != WATCH_HEALTHY))
		print_change(r, m, false, why, detail);
	json_decref(detail);
	if (r->alerts)
		alert_clear(r->alerts, watch_matter_key(m), why, watch_wall(r), &e);
	if (e.text[0])
		r->o->say("watch: an alert is not on disk: %s", e.text);
	r->raised[m] = false;
	r->collected[m] = false;
}

/* Is the matter to wait for its evidence? Begins to collect it if need be. */
static bool waits(struct watcher *r, enum watch_matter m)
{
	if (!r->o->evidence || r->collected[m] || (m != MATTER_HUNG && m != MATTER_CRASHED))
		return false;
	if (r->evidence_of == m) {
		if (r->evidence.child.pid)
			return true;
		r->evidence_of = MATTERS;
		r->collected[m] = true;
		return false;
	}
	if (r->evidence_of != MATTERS) /* another one's is being collected */
		return r->evidence.child.pid != 0;
	json_decref(r->diagnosis);
	r->diagnosis = NULL;
	r->collected[m] = watch_evidence_begin(r, m) < 0;
	return !r->collected[m];
}

bool watch_report(struct watcher *r)
{
	bool news = r->now.state != r->state;

	watch_evidence_look(r);
	for (unsigned m = 0; m < MATTERS; m++) {
		if (r->now.matters[m].raised && r->now.quiet_ms >= 0)
			r->quiet_since_ms[m] = r->now_ms - r->now.quiet_ms;
		if (r->now.matters[m].raised == r->raised[m])
			continue;
		if (r->now.matters[m].raised && waits(r, m))
			continue;
		if (r->now.matters[m].raised)
			begins(r, m);
		else
			ends(r, m);
		news = true;
	}
	/* what was being collected for is over */
	if (r->evidence_of != MATTERS && !r->evidence.child.pid &&
	    !r->now.matters[r->evidence_of].raised)
		r->evidence_of = MATTERS;
	if (r->now.state != r->state)
		r->since_ms = r->now_ms;
	r->state = r->now.state;
	return news;
}

/* --- Prometheus --- */

static void put_gauge(struct buf *out, const char *job, const char *name, const char *help,
		      double v)
{
	exposition_head(out, name, "gauge", help);
	buf_printf(out, "%s{job=\"%s\"} %.9g\n", name, job, v);
}

static void put_alerts(const struct watcher *r, struct buf *out, const char *job)
{
	struct alert_counts c;

	if (!r->alerts)
		return;
	c = alerts_counts(r->alerts);
	put_gauge(out, job, "lockstep_watch_alerts_waiting", "Alerts not delivered yet.",
		  (double)c.waiting);
	exposition_head(out, "lockstep_watch_alerts_total", "counter",
			"Alerts, by what became of them.");
	buf_printf(out,
		   "lockstep_watch_alerts_total{job=\"%s\",result=\"delivered\"} %" PRIu64 "\n",
		   job, c.delivered);
	buf_printf(out,
		   "lockstep_watch_alerts_total{job=\"%s\",result=\"failed-try\"} %" PRIu64 "\n",
		   job, c.failed);
	buf_printf(out, "lockstep_watch_alerts_total{job=\"%s\",result=\"given-up\"} %" PRIu64 "\n",
		   job, c.refused + c.dropped);
}

static double own_memory(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long all = 0, resident = 0;

	if (f && fscanf(f, "%lu %lu", &all, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

void watch_metrics(const void *watcher, struct buf *out)
{
	const struct watcher *r = watcher;
	char job[200], name[200];
	struct rusage u;

	exposition_label(job, sizeof(job), r->job);
	exposition_head(out, "lockstep_watch_state", "gauge", "1: the job is in this state.");
	for (unsigned s = 0; s < WATCH_STATES; s++)
		buf_printf(out, "lockstep_watch_state{job=\"%s\",state=\"%s\"} %d\n", job,
			   watch_state_name(s), r->now.state == s);
	exposition_head(out, "lockstep_watch_raised", "gauge", "1: the matter holds.");
	for (unsigned m = 0; m < MATTERS; m++)
		buf_printf(out, "lockstep_watch_raised{job=\"%s\",matter=\"%s\"} %d\n", job,
			   watch_matter_key(m), r->now.matters[m].raised);
	exposition_head(out, "lockstep_watch_source_silent", "gauge",
			"1: the source does not answer.");
	for (size_t i = 0; i < r->w.sources.n; i++) {
		exposition_label(name, sizeof(name), r->w.sources.v[i].name);
		buf_printf(out, "lockstep_watch_source_silent{job=\"%s\",source=\"%s\"} %d\n", job,
			   name, r->w.sources.v[i].why[0] != '\0');
	}
	if (r->now.quiet_ms >= 0)
		put_gauge(out, job, "lockstep_watch_quiet_seconds",
			  "Since the last sign of progress.", (double)r->now.quiet_ms / 1000);
	put_gauge(out, job, "lockstep_watch_suspect_seconds",
		  "Without progress for so long it would be suspect.",
		  (double)r->now.suspect_ms / 1000);
	put_gauge(out, job, "lockstep_watch_hung_seconds", "The same, and it would be hung.",
		  (double)r->now.hung_ms / 1000);
	if (r->w.step >= 0)
		put_gauge(out, job, "lockstep_watch_step", "The last step that was shown.",
			  (double)r->w.step);
	put_alerts(r, out, job);
	getrusage(RUSAGE_SELF, &u);
	exposition_head(out, "lockstep_watch_cpu_seconds_total", "counter",
			"CPU time of the watcher.");
	buf_printf(out, "lockstep_watch_cpu_seconds_total{job=\"%s\"} %.6f\n", job,
		   (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
		       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
	put_gauge(out, job, "lockstep_watch_memory_bytes", "Resident memory of the watcher.",
		  own_memory());
	put_gauge(out, job, "lockstep_watch_looked_seconds",
		  "When it judged last, in seconds since 1970.",
		  (double)(r->now_ms + r->wall_offset_ms) / 1000);
}
