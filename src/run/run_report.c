/* SPDX-License-Identifier: Apache-2.0 */
/* run_report.c - what a run says while it goes, at its end, and in run.json. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "run/run_inside.h"

#define NOTIFY_MS 60000u

void run_say(struct run *r, const char *format, ...)
{
	char line[1024], stamp[32];
	time_t now = time(NULL);
	struct tm tm;
	va_list ap;

	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	for (char *p = line; *p; p++) /* names hold anything */
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
	r->p->say(line);
	if (!r->log)
		return;
	strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	if (fprintf(r->log, "%s %s\n", stamp, line) < 0 || fflush(r->log) != 0) {
		int e = errno;

		fclose(r->log);
		r->log = NULL;
		run_say(r, "%s/lockstep.log ends here: %s", r->p->folder, strerror(e));
	}
}

char *run_path(const struct attempt *a, const char *name)
{
	return xasprintf("%s/%s", a->folder, name);
}

char *run_beside(const struct attempt *a, const char *name)
{
	return xasprintf("%s.%s", a->folder, name);
}

/* The user's command, told by its environment: what, which attempt, why, and where to look. */
void run_notify(struct run *r, const struct attempt *a, const char *event, struct helper *h)
{
	_cleanup_free_ char *out = run_beside(a, "notify.log");
	char shell[] = "/bin/sh", option[] = "-c", *command;
	const char *const told[][2] = {
		{ "LOCKSTEP_EVENT", event },
		{ "LOCKSTEP_JOB", r->p->job },
		{ "LOCKSTEP_SUMMARY", a->summary[0] ? a->summary : a->quiet },
		{ "LOCKSTEP_CAUSE", a->cause_name[0] ? a->cause_name : "unknown" },
		{ "LOCKSTEP_EVIDENCE", a->folder }
	};
	char *was[ARRAY_SIZE(told)];

	if (!r->p->notify)
		return;
	command = xstrdup(r->p->notify);
	for (size_t i = 0; i < ARRAY_SIZE(told); i++) {
		was[i] = getenv(told[i][0]) ? xstrdup(getenv(told[i][0])) : NULL;
		setenv(told[i][0], told[i][1], 1);
	}
	helper_start(h, "notify", (char *[]){ shell, option, command, NULL }, out, true, NOTIFY_MS);
	for (size_t i = 0; i < ARRAY_SIZE(told); i++) {
		if (was[i])
			setenv(told[i][0], was[i], 1);
		else
			unsetenv(told[i][0]);
		free(was[i]);
	}
	free(command);
}

static json_t *or_null(int64_t v)
{
	return v < 0 ? json_null() : json_integer(v);
}

static json_t *text_or_null(const char *text)
{
	json_t *v = text && *text ? json_string(text) : NULL;

	return v ? v : json_null();
}

static json_t *gpu_hours(const struct run *r, double hours)
{
	return r->p->gpus > 0 ? json_real(hours * (double)r->p->gpus) : json_null();
}

static json_t *from_json(const struct chosen *c)
{
	json_t *torn = json_array();

	for (size_t i = 0; i < c->torn.n; i++)
		json_array_append_new(torn,
				      json_pack("{so so}", "path", text_or_null(c->torn.v[i].path),
						"why", text_or_null(c->torn.v[i].why)));
	return json_pack("{so so sb so}", "path", text_or_null(c->path), "step",
			 or_null(c->path ? c->step : -1), "weights_only", (int)c->weights_only,
			 "passed_over", torn);
}

static json_t *attempt_json(const struct run *r, const struct attempt *a)
{
	bool failed = a->status || a->hung;

	return json_pack(
	    "{si so sI sf si sb sb so so so so so so so sb so sf so so}", "number", (int)a->number,
	    "folder", text_or_null(a->folder), "started", (json_int_t)a->started_s, "seconds",
	    (double)(a->ended_ms - a->started_ms) / 1000, "status", a->status, "hung", (int)a->hung,
	    "ended_by_us", (int)a->killed, "asked_to_end", or_null(a->asked ? a->asked : -1),
	    "first_step", or_null(a->progress.first_step), "last_step", or_null(a->progress.step),
	    "from", from_json(&a->from), "saved_step", or_null(a->saved_after), "cause",
	    text_or_null(failed ? a->cause_name : ""), "summary",
	    text_or_null(failed ? a->summary : ""), "again", (int)a->again, "why",
	    text_or_null(a->why), "delay_seconds", (double)a->delay_ms / 1000, "lost_hours",
	    failed ? json_real(a->lost_hours) : json_real(0), "lost_gpu_hours",
	    gpu_hours(r, failed ? a->lost_hours : 0));
}

static int dump(const json_t *doc, const char *path)
{
	FILE *f = fopen(path, "we");
	int r = f ? json_dumpf(doc, f, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : -1;

	if (!f)
		return -1;
	if (r == 0)
		r = fputc('\n', f) == EOF ? -1 : 0;
	return fclose(f) == 0 ? r : -1;
}

void run_write(struct run *r, int status, bool ended)
{
	_cleanup_free_ char *path = xasprintf("%s/run.json", r->p->folder);
	_cleanup_free_ char *half = xasprintf("%s/.run.json.tmp", r->p->folder);
	json_t *argv = json_array(), *attempts = json_array(), *doc;
	double lost = 0;

	for (char **w = r->p->argv; *w; w++)
		json_array_append_new(argv, text_or_null(*w));
	for (size_t i = 0; i < r->attempts.n; i++) {
		lost += r->attempts.v[i].lost_hours;
		json_array_append_new(attempts, attempt_json(r, &r->attempts.v[i]));
	}
	doc = json_pack("{ss si so sI so so so so so}", "lockstep", LOCKSTEP_VERSION, "schema", 1,
			"command", argv, "started", (json_int_t)r->started_s, "ended",
			or_null(ended ? (int64_t)time(NULL) : -1), "status",
			ended ? json_integer(status) : json_null(), "attempts", attempts,
			"lost_hours", json_real(lost), "lost_gpu_hours", gpu_hours(r, lost));
	r->unwritten = !doc || dump(doc, half) < 0 || rename(half, path) < 0;
	if (r->unwritten) {
		run_say(r, "%s could not be written: %s", path, strerror(errno));
		unlink(half);
	}
	json_decref(doc);
}

/* "less than 1 s", "12 s", "34 min", "5.6 h" */
static const char *span(char *ret, size_t size, double seconds)
{
	if (seconds < 1)
		snprintf(ret, size, "less than 1 s");
	else if (seconds < 120)
		snprintf(ret, size, "%.0f s", seconds);
	else if (seconds < 7200)
		snprintf(ret, size, "%.0f min", seconds / 60);
	else
		snprintf(ret, size, "%.1f h", seconds / 3600);
	return ret;
}

/* One line an attempt, when there were several. */
void run_summary(struct run *r)
{
	_cleanup_free_ char *all = r->unwritten
				       ? xstrdup("run.json could not be written")
				       : xasprintf("%s/run.json has all of it", r->p->folder);
	char text[32];
	double lost = 0;

	if (r->attempts.n < 2) /* it was said already */
		return;
	for (size_t i = 0; i < r->attempts.n; i++) {
		const struct attempt *a = &r->attempts.v[i];

		span(text, sizeof(text), (double)(a->ended_ms - a->started_ms) / 1000);
		lost += a->lost_hours;
		if (a->status || a->hung)
			run_say(r, "attempt %u: %s after %s, status %d: %s", a->number,
				a->hung ? "hung" : "failed", text, a->status, a->summary);
		else
			run_say(r, "attempt %u: ended well after %s", a->number, text);
	}
	if (r->p->gpus > 0)
		run_say(r, "lost: %s of this node's %" PRId64 " GPUs, %.*f GPU hours; %s",
			span(text, sizeof(text), lost * 3600), r->p->gpus, lost < 1 ? 3 : 1,
			lost * (double)r->p->gpus, all);
	else
		run_say(r, "lost: %s; %s", span(text, sizeof(text), lost * 3600), all);
}
