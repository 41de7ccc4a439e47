/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_retry.c - why an attempt failed, and whether another can help.
 *
 * The cause is diagnose's, from what the attempt left. One table says what a cause is worth: some
 * pass by themselves, some are in the program and come again. Beside it stand three rules: the same
 * failure at the same step twice is no accident, attempts that gain nothing are a storm, and who
 * was asked to end is not begun again.
 */
#include <glob.h>
#include <signal.h>
#include <stdio.h>

#include "run/run_inside.h"

#define DIAGNOSE_MS   180000u
#define DELAY_MOST_MS 600000

static const struct retry_rule {
	uint8_t most;	  /* in a row, for this cause, without gain */
	uint16_t delay_s; /* before the first; doubled for each that follows */
	bool same_place;  /* comes again at the same step if it is the program's */
	const char *why;
} rules[CAUSES] = {
	[CAUSE_RENDEZVOUS] = { 5, 10, false, "nodes may come together the next time" },
	[CAUSE_NETWORK_ERROR] = { 5, 15, false, "links come back" },
	[CAUSE_PREEMPTED] = { 10, 30, false, "it was taken away, not at fault" },
	[CAUSE_GPU_ERROR] = { 1, 30, true, "a GPU's error may pass once; twice it is the GPU" },
	[CAUSE_DEAD_RANK] = { 2, 10, true, "what ended the process may not come again" },
	[CAUSE_MISSING_RANK] = { 2, 10, true, "the rank may come the next time" },
	[CAUSE_COLLECTIVE_STUCK] = { 3, 15, false, "it may move the next time" },
	[CAUSE_COMM_LINK] = { 2, 30, false, "links come back" },
	[CAUSE_HOST_STALL] = { 2, 10, true, "the host may not stand still again" },
	[CAUSE_DATA_STARVED] = { 2, 30, true, "storage may be faster again" },
	[CAUSE_CHECKPOINT] = { 2, 30, true, "storage may be faster again" },
	[CAUSE_UNEVEN_STEPS] = { 1, 5, true, "from a checkpoint the ranks may end together" },
	[CAUSE_COLLECTIVE_DESYNC] = { 1, 5, true, "from a checkpoint the ranks may agree" },
	[CAUSE_EXCEPTION] = { 2, 5, true, "it had trained before" },
	[CAUSE_UNKNOWN] = { 2, 30, true, "it may have been an accident" },
	[CAUSE_OUT_OF_MEMORY] = { 0, 0, true, "memory will not suffice the next time either" },
	[CAUSE_CONFIGURATION] = { 0, 0, true, "the configuration is wrong: it comes again" },
};

/* --- why --- */

struct words {
	char **v;
	size_t n, cap;
};

/*
 * Records of steps are looked at last: they tell of slowness, which is not why a job stops.
 */
static void add_files(const struct attempt *a, struct words *v, enum run_words of)
{
	static const struct {
		const char *pattern;
		enum run_words of;
	} files[] = { { "evidence-*", RUN_EVIDENCE },
		      { "nccl_trace_rank_*", RUN_EVIDENCE },
		      { "output.log", RUN_WITH_LOG } };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_free_ char *pattern = run_path(a, files[i].pattern);
		glob_t g;

		if (files[i].of <= of && glob(pattern, 0, NULL, &g) == 0) {
			for (size_t k = 0; k < g.gl_pathc; k++)
				*vec_push(v) = xstrdup(g.gl_pathv[k]);
			globfree(&g);
		}
	}
}

char **run_diagnose_argv(const struct run *r, const struct attempt *a, enum run_words of)
{
	struct words v = { 0 };

	*vec_push(&v) = xstrdup(r->p->self);
	*vec_push(&v) = xstrdup("diagnose");
	*vec_push(&v) = xstrdup("--json");
	if (of == RUN_ALL)
		*vec_push(&v) = xstrdup(a->folder);
	else
		add_files(a, &v, of);
	*vec_push(&v) = NULL;
	return v.v;
}

/* Does a finding say why a job stopped? */
static bool of_a_stop(const json_t *finding)
{
	static const char *const kinds[] = { "hang", "crash", "config" };
	const char *severity = json_string_value(json_object_get(finding, "severity"));
	const char *kind = json_string_value(json_object_get(finding, "kind"));

	for (size_t i = 0; severity && kind && i < ARRAY_SIZE(kinds); i++)
		if (strcmp(severity, "fault") == 0 && strcmp(kind, kinds[i]) == 0)
			return true;
	return false;
}

int run_report_read(const char *path, struct attempt *a)
{
	json_t *report = json_load_file(path, 0, NULL), *f;
	const char *verdict = json_string_value(json_object_get(report, "verdict"));
	size_t i;

	if (!verdict) {
		json_decref(report);
		return -EBADMSG;
	}
	snprintf(a->verdict, sizeof(a->verdict), "%s", verdict);
	json_array_foreach(json_object_get(report, "findings"), i, f)
	{
		const char *cause = json_string_value(json_object_get(f, "cause"));
		const char *summary = json_string_value(json_object_get(f, "summary"));

		if (!of_a_stop(f) || !cause)
			continue;
		a->cause = cause_find(cause);
		snprintf(a->cause_name, sizeof(a->cause_name), "%s", cause);
		snprintf(a->summary, sizeof(a->summary), "%s", summary ? summary : cause);
		break;
	}
	json_decref(report);
	return 0;
}

/* What our own TERM makes of a job's log is no reason of its hang. */
static bool made_by_us(enum cause c)
{
	return c == CAUSE_PREEMPTED || c == CAUSE_EXCEPTION || c == CAUSE_DEAD_RANK ||
	       c == CAUSE_RENDEZVOUS || c == CAUSE_CONFIGURATION;
}

static void set_unknown(struct attempt *a)
{
	a->cause = CAUSE_UNKNOWN;
	snprintf(a->cause_name, sizeof(a->cause_name), "unknown");
	a->summary[0] = 0;
}

static void ask(struct run *r, struct attempt *a, enum run_words of)
{
	_cleanup_free_ char *out = run_beside(a, "diagnose.json");
	char **argv = run_diagnose_argv(r, a, of);
	struct helper h;

	if (helper_start(&h, "diagnose", argv, out, false, DIAGNOSE_MS) == 0)
		run_wait(r, &h);
	run_report_read(out, a);
	if (a->hung && made_by_us(a->cause))
		set_unknown(a);
	argv_done(argv);
}

/* Nothing that it left says why: what is known of its end. */
static void say_how(struct attempt *a)
{
	int n = a->by_signal ? a->by_signal : a->status > 128 ? a->status - 128 : 0;
	const char *name = n ? sigabbrev_np(n) : NULL;

	if (a->hung)
		snprintf(a->summary, sizeof(a->summary), "%s; why is not known, we ended it",
			 a->quiet);
	else if (name)
		snprintf(a->summary, sizeof(a->summary), "killed by SIG%s%s%s", name,
			 n == SIGKILL && !a->asked
			     ? " (out of memory on the host? see the kernel's log)"
			     : "",
			 a->by_signal ? "" : ", says its status");
	else
		snprintf(a->summary, sizeof(a->summary),
			 "it ended with status %d, nothing says why", a->status);
}

void run_classify(struct run *r, struct attempt *a)
{
	if (!a->hung || !a->cause_name[0]) {
		set_unknown(a);
		ask(r, a, RUN_WITH_LOG);
		if (a->cause == CAUSE_UNKNOWN && !a->summary[0])
			ask(r, a, RUN_ALL);
	}
	if (a->error || a->status == RUN_NO_EXEC || a->status == RUN_NOT_FOUND) {
		a->cause = CAUSE_CONFIGURATION;
		snprintf(a->cause_name, sizeof(a->cause_name), "configuration");
		if (!a->summary[0])
			snprintf(a->summary, sizeof(a->summary), "the command could not be run");
	}
	if (!a->summary[0])
		say_how(a);
}

/* --- whether again --- */

/* Attempts in a row up to this one that gained nothing; of them those with the same cause. */
static unsigned fruitless(const struct run *r, const struct attempt *last, int64_t since_ms,
			  bool same_cause)
{
	unsigned n = 0;

	for (size_t i = r->attempts.n; i-- > 0;) {
		const struct attempt *a = &r->attempts.v[i];

		if (a->started_ms < since_ms || a->gained ||
		    (same_cause && a->cause != last->cause))
			break;
		n++;
	}
	return n;
}

/* It failed as the one before did, at the same step. */
static bool same_again(const struct run *r, const struct attempt *a)
{
	const struct attempt *b = r->attempts.n > 1 ? &r->attempts.v[r->attempts.n - 2] : NULL;

	return b && b->cause == a->cause && b->hung == a->hung &&
	       b->progress.step == a->progress.step && b->progress.epoch == a->progress.epoch;
}

#define NO(...) ((void)snprintf(a->why, sizeof(a->why), __VA_ARGS__))

static void settle(struct run *r, struct attempt *a)
{
	const struct retry_rule *rule = &rules[a->cause];
	const struct run_plan *p = r->p;
	int64_t most = p->retries >= 0 ? p->retries : rule->most;
	unsigned row = fruitless(r, a, INT64_MIN, true);
	int64_t delay;

	if (!rule->most) {
		NO("%s: %s", a->cause_name, rule->why ? rule->why : "another attempt cannot help");
	} else if (a->left) {
		NO("processes of it are still there");
	} else if (a->cause == CAUSE_EXCEPTION && a->progress.step < 0) {
		NO("an exception before the first step comes again");
	} else if (a->cause == CAUSE_UNKNOWN && a->progress.step < 0 && a->status < 128) {
		NO("it trained no step, and nothing says why");
	} else if (rule->same_place && same_again(r, a)) {
		if (a->progress.step >= 0)
			NO("%s at step %" PRId64 " twice is no accident", a->cause_name,
			   a->progress.step);
		else
			NO("%s before any step twice is no accident", a->cause_name);
	} else if (row > most) {
		NO("%u attempts with %s, and none got further", row, a->cause_name);
	} else if (fruitless(r, a, a->ended_ms - p->storm_ms, false) >= p->storm) {
		NO("%" PRId64 " failures in %" PRId64 " minutes, and none got further", p->storm,
		   p->storm_ms / 60000);
	} else if (r->attempts.n >= RUN_ATTEMPTS_MOST) {
		NO("%u attempts", RUN_ATTEMPTS_MOST);
	} else {
		a->again = true;
		NO("%s: %s", a->cause_name, rule->why);
		delay = p->delay_ms >= 0 ? p->delay_ms : rule->delay_s * INT64_C(1000);
		for (unsigned i = 1; i < row && delay < DELAY_MOST_MS; i++)
			delay *= 2;
		a->delay_ms = MIN(delay, DELAY_MOST_MS);
	}
}

void run_decide(struct run *r, struct attempt *a)
{
	if (a->asked)
		NO("signal %d asked it to end", a->asked);
	else if (r->p->retries == 0)
		NO("no retries were asked for");
	else
		settle(r, a);
}
