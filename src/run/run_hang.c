/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_hang.c - does the job hang, and what does its evidence say?
 *
 * The first sign is no new step for longer than its own steps and pauses teach, in two looks with
 * evidence collected at each. The second must not come from the same words: what diagnose makes of
 * the evidence without the log, or processes that spend no CPU time between the looks. Only both
 * together end a job, and only where that was asked for.
 */
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "run/run_inside.h"

#define LEAST_MS      120000
#define TIMES_MEDIAN  10
#define TIMES_LONGEST 2
#define PAUSE_MOST_MS 3600000 /* a pause that was seen once excuses no more than this */
#define LOOK_LEAST_MS 30000
#define EVIDENCE_MOST 20u
#define COLLECT_MS    120000u
#define DIAGNOSE_MS   120000u
#define STILL_BYTES   1048576u
#define STILL_SHARE   0.02 /* of one CPU, all processes together */

/* After how long without a new step. */
static int64_t limit_ms(const struct run_plan *p, const struct progress *g)
{
	int64_t median = progress_median_ms(g);

	if (g->n < 3)
		return p->start_ms;
	if (p->hang_ms)
		return p->hang_ms;
	if (!median)
		return p->start_ms;
	return MAX(MAX(TIMES_MEDIAN * median, TIMES_LONGEST * MIN(g->longest_ms, PAUSE_MOST_MS)),
		   LEAST_MS);
}

static int64_t look_ms(const struct run_plan *p, int64_t limit)
{
	return p->look_ms ? p->look_ms : MAX(limit / 4, LOOK_LEAST_MS);
}

/* --- evidence --- */

static char **collect_argv(const struct run *r, const struct attempt *a, const struct tree *t)
{
	VEC(char *) v = { 0 };

	*vec_push(&v) = xstrdup(r->p->self);
	*vec_push(&v) = xstrdup("collect");
	*vec_push(&v) = xstrdup("--out");
	*vec_push(&v) = xasprintf("%s/evidence-%u", a->folder, a->evidence + 1);
	for (size_t i = 0; i < t->v.n; i++) {
		_cleanup_free_ char *path = xasprintf("/proc/%d/environ", (int)t->v.v[i]);
		char text[65536];
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text));

		if (fd >= 0)
			close(fd);
		if (n > 6 && (memmem(text, (size_t)n, "\0RANK=", 6) || !memcmp(text, "RANK=", 5)))
			*vec_push(&v) = xasprintf("%d", (int)t->v.v[i]);
	}
	if (v.n == 4) /* no launcher that numbers ranks: all of it */
		for (size_t i = 0; i < t->v.n && i < 64; i++)
			*vec_push(&v) = xasprintf("%d", (int)t->v.v[i]);
	*vec_push(&v) = NULL;
	return v.v;
}

static void collect(struct run *r, struct attempt *a, struct hang *h)
{
	_cleanup_free_ char *out = run_beside(a, "collect.log");
	const struct helper helpers[] = { h->helper, h->notify };
	struct tree t = { 0 };
	char **argv;

	if (a->evidence >= EVIDENCE_MOST)
		return; /* what pauses so often is known by now */
	tree_look(&t, helpers, ARRAY_SIZE(helpers));
	argv = collect_argv(r, a, &t);
	helper_start(&h->helper, "collect", argv, out, true, COLLECT_MS);
	argv_done(argv);
	tree_done(&t);
	a->evidence++;
}

static void diagnose(struct run *r, struct attempt *a, struct hang *h, bool with_log)
{
	_cleanup_free_ char *out = run_beside(a, with_log ? "hang.json" : "hang-without-log.json");
	char **argv = run_diagnose_argv(r, a, with_log ? RUN_WITH_LOG : RUN_EVIDENCE);

	helper_start(&h->helper, "diagnose", argv, out, false, DIAGNOSE_MS);
	argv_done(argv);
}

/* --- steps of the look-out --- */

/* Did the tracer's agent write steps in the last half of the limit? */
static bool records_grow(const struct attempt *a, int64_t limit)
{
	_cleanup_free_ char *pattern = run_path(a, "*.lks");
	bool grow = false;
	struct stat st;
	glob_t g;

	if (glob(pattern, 0, NULL, &g) == 0)
		for (size_t i = 0; i < g.gl_pathc; i++)
			grow |= stat(g.gl_pathv[i], &st) == 0 &&
				(time(NULL) - st.st_mtim.tv_sec) * 1000 < limit / 2;
	globfree(&g);
	return grow;
}

static void to(struct hang *h, enum hang_state state, int64_t now_ms)
{
	h->state = state;
	h->since_ms = now_ms;
}

static void tree_of(struct hang *h, struct tree *t)
{
	const struct helper helpers[] = { h->helper, h->notify };

	tree_look(t, helpers, ARRAY_SIZE(helpers));
}

/* In each of three looks: a sleeper that woke is asleep again, one that gets no CPU is not. */
static bool is_starved(struct hang *h, struct tree *now)
{
	for (int i = 0; i < 2 && now->runnable; i++) {
		usleep(20000);
		tree_of(h, now);
	}
	return now->runnable;
}

/* Hardly any CPU time or bytes between the looks; nobody waits for a disk or for a CPU. */
static bool stood_still(struct hang *h, int64_t now_ms)
{
	double seconds = (double)(now_ms - h->since_ms) / 1000;
	struct tree now = { 0 };
	bool still;

	tree_of(h, &now);
	still = now.bytes - h->before.bytes < STILL_BYTES && now.v.n && !now.waiting &&
		!h->before.waiting && now.ticks >= h->before.ticks &&
		(double)(now.ticks - h->before.ticks) / (double)sysconf(_SC_CLK_TCK) <
		    STILL_SHARE * seconds &&
		!is_starved(h, &now);
	tree_done(&now);
	return still;
}

static void tell(struct run *r, struct attempt *a, struct hang *h)
{
	int64_t quiet_s = (clock_ms() - a->progress.at_ms) / 1000;
	char since[64] = "";

	if (a->progress.step >= 0)
		snprintf(since, sizeof(since), " since step %" PRId64, a->progress.step);
	snprintf(a->quiet, sizeof(a->quiet), "no %s for %" PRId64 " s%s%s",
		 *since ? "new step" : "step in its output", quiet_s, since,
		 h->still ? ", and its processes stand still" : "");
	run_say(r, "%s: %s", a->quiet,
		a->summary[0] ? a->summary : "the evidence does not say why");
	run_say(r, "evidence lies in %s", a->folder);
	run_notify(r, a, "hang", &h->notify);
}

static void read_report(struct attempt *a, struct hang *h, bool with_log)
{
	_cleanup_free_ char *path = run_beside(a, with_log ? "hang.json" : "hang-without-log.json");
	struct attempt found = { .cause = CAUSE_UNKNOWN };

	if (run_report_read(path, with_log ? a : &found) == 0 && !with_log)
		h->shown = strcmp(found.verdict, "hung") == 0;
}

static bool decide(struct run *r, struct attempt *a, struct hang *h)
{
	tell(r, a, h);
	if (r->p->on_hang != RUN_HANG_RESTART)
		return false;
	if (h->still || h->shown)
		return true;
	run_say(r, "it is left running: no second sign (%s) beside the missing steps",
		"a diagnosis from evidence, or processes that stand still");
	return false;
}

/* --- the states; each true: it is to be ended --- */

#define STATE(name)                                                                                \
	static bool name(struct run *r, struct attempt *a, struct hang *h, int64_t now_ms)

STATE(at_watching)
{
	int64_t limit = limit_ms(r->p, &a->progress);

	if (now_ms - a->progress.at_ms < limit)
		return false;
	if (a->progress.n < 3 && records_grow(a, limit)) {
		a->progress.at_ms = now_ms; /* no words, but its tracer tells of steps */
		return false;
	}
	h->steps = a->progress.n;
	h->look_ms = look_ms(r->p, limit);
	collect(r, a, h);
	to(h, HANG_FIRST, now_ms);
	return false;
}

STATE(at_first)
{
	(void)r;
	(void)a;
	tree_of(h, &h->before);
	to(h, HANG_BETWEEN, now_ms);
	return false;
}

STATE(at_between)
{
	if (now_ms - h->since_ms < h->look_ms)
		return false;
	h->still = stood_still(h, now_ms);
	collect(r, a, h);
	to(h, HANG_SECOND, now_ms);
	return false;
}

STATE(at_second)
{
	diagnose(r, a, h, false);
	to(h, HANG_JUDGING, now_ms);
	return false;
}

STATE(at_judging)
{
	read_report(a, h, false);
	diagnose(r, a, h, true);
	to(h, HANG_NAMING, now_ms);
	return false;
}

STATE(at_naming)
{
	read_report(a, h, true);
	to(h, HANG_TOLD, now_ms);
	return decide(r, a, h);
}

STATE(at_told)
{
	(void)r;
	(void)a;
	(void)h;
	(void)now_ms;
	return false;
}

bool hang_look(struct run *r, struct attempt *a, struct hang *h, int64_t now_ms)
{
	static bool (*const states[HANG_STATES])(struct run *, struct attempt *, struct hang *,
						 int64_t) = {
		[HANG_WATCHING] = at_watching, [HANG_FIRST] = at_first,
		[HANG_BETWEEN] = at_between,   [HANG_SECOND] = at_second,
		[HANG_JUDGING] = at_judging,   [HANG_NAMING] = at_naming,
		[HANG_TOLD] = at_told,
	};

	helper_look(&h->notify);
	if (r->p->on_hang == RUN_HANG_IGNORE || !limit_ms(r->p, &a->progress))
		return false;
	if (h->state != HANG_WATCHING && a->progress.n != h->steps) {
		if (h->state == HANG_TOLD)
			run_say(r, "it goes on: step %" PRId64, a->progress.step);
		helper_stop(&h->helper);
		to(h, HANG_WATCHING, now_ms);
	}
	return helper_look(&h->helper) && states[h->state](r, a, h, now_ms);
}

void hang_done(struct hang *h)
{
	helper_stop(&h->helper);
	/* What people are told is told to its end, within its own limit. */
	while (!helper_look(&h->notify))
		usleep(20000);
	tree_done(&h->before);
}
