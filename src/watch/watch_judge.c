/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_judge.c - what is to be thought of a job at a moment.
 *
 * A hang is the absence of progress for longer than the job's own pauses: by its steps where a
 * source shows them, else by its GPUs. The power signature, a time-out's words and dumps make it
 * certain sooner; without them it takes longer. A save looks like a deadlock, so the limit knows
 * how long saves last, whether the job announces them, and who rests in them.
 *
 * Invariant: nothing is called healthy that no source has shown lately.
 */
#include "watch/watch_core.h"

#include <math.h>
#include <stdio.h>

#define MARGIN		   2   /* times the longest pause of its own */
#define MARGIN_STRANGERS   1.5 /* where somebody rests who never does */
#define LEARNT_LEAST	   3u  /* so many pauses are a habit */
#define WARM_UP_LINES	   5u
#define FIRST_SAVE_MS	   (10 * 60000)
#define PREPARE_MS	   (30 * 60000)
#define SIGNATURE_LEAST_MS 60000
#define ROUNDS_LEAST	   3u
#define FAILURE_GRACE_MS   60000
#define DONE_GRACE_MS	   10000
#define LOSS_BAD_LEAST	   2
#define STEPS_NOW_LEAST	   10u
#define NOW_COUNTED	   9u
#define LONGER_WHERE_WORK  3 /* GPUs compute, but no step is shown: output may be held back */
#define WORKED_LATELY_MS   120000

struct look {
	struct watch *w;
	struct watch_judgement *out;
	int64_t now, quiet, suspect, hung, signature;
	int64_t finished;		/* since when there is nothing left to do; -1 */
	const struct watch_rank *alone; /* who made his last step, and nobody knows of the others */
	bool by_steps, by_gpus;		/* what tells of progress */
	size_t silent, asked;
};

static void say(struct look *l, enum watch_matter m, const char *format, ...) PRINTF_LIKE(3, 4);
static void say(struct look *l, enum watch_matter m, const char *format, ...)
{
	struct watch_matter_now *to = &l->out->matters[m];
	va_list ap;

	to->raised = true;
	va_start(ap, format);
	vsnprintf(to->summary, sizeof(to->summary), format, ap);
	va_end(ap);
}

const char *watch_span(int64_t ms, char ret[32])
{
	int64_t s = ms / 1000;

	if (s < 120)
		snprintf(ret, 32, "%" PRId64 " s", s);
	else if (s < 7200)
		snprintf(ret, 32, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
	else
		snprintf(ret, 32, "%" PRId64 " h %" PRId64 " min", s / 3600, s / 60 % 60);
	return ret;
}

/* --- the limits as they hold now --- */

/* The longest pause that would be normal now. */
static int64_t own_pause(const struct watch *w)
{
	bool announces_saves = w->save_begins >= LEARNT_LEAST;
	int64_t most = watch_ring_most(&w->pause);

	if (w->phase == PHASE_SAVE || !announces_saves)
		most = MAX(most, watch_ring_most(&w->save));
	return MAX(most, watch_ring_most(&w->evaluation));
}

/* What it says that it does now has its time. */
static int64_t own_doing(const struct watch *w)
{
	switch (w->phase) {
	case PHASE_START:
		return w->limits.start_ms / 2;
	case PHASE_SAVE:
		return w->save.n < LEARNT_LEAST ? FIRST_SAVE_MS : 0;
	case PHASE_EVALUATION:
		return w->evaluation.n < LEARNT_LEAST ? FIRST_SAVE_MS : 0;
	case PHASE_PREPARE:
		return PREPARE_MS;
	default:
		return 0;
	}
}

/* With steps shown: since when they are late. A limit that a person gave is raised only by what
   the job taught, and by what it says that it does. */
static void limits_by_steps(struct look *l)
{
	const struct watch *w = l->w;
	int64_t line = watch_ring_median(&w->line), step = watch_ring_median(&w->step_us) / 1000;
	int64_t least = MAX(MARGIN * own_pause(w), own_doing(w)), s;

	least = MAX(least, (int64_t)(w->limits.steps * (double)step));
	least = MAX(least, 3 * line);
	s = MAX(w->limits.suspect_ms, least);
	if (w->steps_seen < WARM_UP_LINES && !w->limits.suspect_given)
		s = MAX(s, 3 * w->limits.suspect_ms);
	l->suspect = s;
	l->hung = MAX(w->limits.hung_ms, w->limits.hung_given ? least : 2 * s);
	/* A save that nobody announced looks like a deadlock; but who rests in it is always the
	 * same.
	 */
	l->signature = watch_gpus_strangers(w) ? s : 2 * s;
}

/* By the GPUs alone: for how long nobody works. */
static void limits_by_gpus(struct look *l)
{
	const struct watch *w = l->w;
	int64_t own = MAX(watch_ring_most(&w->still), watch_ring_most(&w->save));
	bool learnt = w->still.n >= LEARNT_LEAST;
	double margin = watch_gpus_strangers(w) ? MARGIN_STRANGERS : MARGIN;

	l->suspect = MAX(w->limits.suspect_ms, (int64_t)(margin * (double)own));
	l->hung = MAX(w->limits.hung_ms,
		      w->limits.hung_given ? (int64_t)(margin * (double)own) : 2 * l->suspect);
	l->signature = learnt ? l->suspect : 2 * l->suspect;
	if (w->pattern == PATTERN_FEW && learnt) /* length alone tells */
		l->hung = MAX(w->limits.suspect_ms * 2, 3 * own);
}

static void find_progress(struct look *l)
{
	const struct watch *w = l->w;
	bool tells = false;

	for (size_t i = 0; i < w->sources.n; i++) {
		const struct watch_source_seen *s = &w->sources.v[i];

		tells |=
		    s->tells_steps && (!s->why[0] || l->now - s->heard_ms <= w->limits.blind_ms);
	}
	l->by_steps = tells && w->progress_ms >= 0;
	l->by_gpus = !l->by_steps && watch_gpus_known(w) && w->worked;
	l->quiet = -1;
	if (l->by_steps) {
		l->quiet = l->now - w->progress_ms;
		limits_by_steps(l);
	} else if (l->by_gpus) {
		l->quiet = w->still_ms >= 0 ? l->now - w->still_ms : 0;
		limits_by_gpus(l);
	} else {
		l->suspect = w->limits.start_ms / 2;
		l->hung = l->signature = w->limits.start_ms;
	}
}

/* --- its end --- */

/*
 * Every rank that shows steps made the last one, and nothing ever came behind it. A total may be a
 * rank's own: where one rank shows one, or ranks show different ones, and the job has ranks that
 * show none, those may be in the step that he does not have. *ret_alone: one of those who show it.
 */
static bool made_the_last(const struct watch *w, const struct watch_rank **ret_alone)
{
	const struct watch_rank *named = NULL;
	int64_t n = 0;
	bool differ = false, whole = false;

	if (w->total <= 0 || w->beyond)
		return false;
	for (size_t i = 0; i < w->ranks.n; i++) {
		const struct watch_rank *r = &w->ranks.v[i];

		if (r->step < r->total || (r->rank >= 0 && !r->total && r->step < w->total))
			return false;
		whole |= r->rank < 0 && r->total > 0; /* of no rank: it speaks for the job */
		if (r->rank < 0 || r->total <= 0)
			continue;
		differ |= named && named->total != r->total;
		named = r;
		n++;
	}
	if (!whole && named && (n == 1 || differ) && n < w->ranks_known)
		*ret_alone = named;
	return true;
}

static void find_the_end(struct look *l)
{
	const struct watch *w = l->w;

	l->finished = -1;
	if (w->done_ms >= 0)
		l->finished = w->done_ms;
	else if (l->by_steps && made_the_last(w, &l->alone))
		l->finished = w->progress_ms;
}

/* Its end was said or shown; does something else show that it runs? */
static bool runs_on(const struct look *l)
{
	const struct watch *w = l->w;

	return w->job == JOB_RUNNING || w->job == JOB_PENDING ||
	       (watch_gpus_known(w) && w->pattern != PATTERN_RESTS && w->pattern != PATTERN_NONE);
}

/* Behind its end: whoever does not go is a suspicion first, and a hang only after long. */
static void look_behind_the_end(struct look *l)
{
	struct watch *w = l->w;
	int64_t since = l->now - l->finished;
	char span[32], why[96];

	w->hung = false;
	if (l->alone && l->quiet >= l->suspect && !runs_on(l) && w->job != JOB_PENDING) {
		say(l, MATTER_SUSPECT,
		    "rank %" PRId64 " made the last of its %" PRId64 " steps %s ago, and no source "
		    "shows the other ranks: they have ended too, or wait",
		    l->alone->rank, l->alone->total, watch_span(since, span));
		return;
	}
	if (!runs_on(l) || since < l->hung || w->job == JOB_PENDING)
		return;
	snprintf(why, sizeof(why), "%s",
		 w->job == JOB_RUNNING ? "the job still runs, says the scheduler"
				       : "the GPUs are still busy");
	if (since < LONGER_WHERE_WORK * l->hung && !l->alone) {
		say(l, MATTER_SUSPECT, "training ended %s ago, and %s", watch_span(since, span),
		    why);
		return;
	}
	w->hung = true;
	if (l->alone)
		say(l, MATTER_HUNG,
		    "rank %" PRId64 " made the last of its %" PRId64 " steps %s ago, and %s",
		    l->alone->rank, l->alone->total, watch_span(since, span), why);
	else
		say(l, MATTER_HUNG, "training ended %s ago, and %s", watch_span(since, span), why);
}

/* --- hung --- */

static bool signature_holds(const struct look *l)
{
	const struct watch *w = l->w;

	return watch_gpus_signature(w) && w->signature_ms >= 0 &&
	       w->signature_rounds >= ROUNDS_LEAST &&
	       l->now - w->signature_ms >= SIGNATURE_LEAST_MS;
}

static bool gpus_work(const struct look *l)
{
	return watch_gpus_known(l->w) && l->w->pattern == PATTERN_WORKS &&
	       l->now - l->w->pattern_ms >= 0;
}

/* The ranks that show a step less than the others, where several show theirs. */
static void who_lags(const struct look *l, char *ret, size_t size)
{
	const struct watch *w = l->w;
	int64_t least = INT64_MAX, most = -1, rank = -1;
	size_t n = 0, named = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < w->ranks.n; i++) {
		if (w->ranks.v[i].rank < 0)
			continue;
		named++;
		most = MAX(most, w->ranks.v[i].step);
		if (w->ranks.v[i].step < least) {
			least = w->ranks.v[i].step;
			rank = w->ranks.v[i].rank;
			n = 0;
		}
		n += w->ranks.v[i].step == least;
	}
	if (named > 1 && most > least && n == 1)
		snprintf(ret, size,
			 "; rank %" PRId64 " shows step %" PRId64 ", others up to %" PRId64, rank,
			 least, most);
}

static void say_hung(struct look *l, const char *because)
{
	char span[32], rest[128], lags[128];

	watch_gpus_resting(l->w, rest, sizeof(rest));
	who_lags(l, lags, sizeof(lags));
	if (l->by_steps && l->w->step >= 0)
		say(l, MATTER_HUNG, "hung: no step for %s since step %" PRId64 "; %s%s%s%s",
		    watch_span(l->quiet, span), l->w->step, because,
		    rest[0] && watch_gpus_signature(l->w) ? "; at 0 %: " : "",
		    watch_gpus_signature(l->w) ? rest : "", lags);
	else
		say(l, MATTER_HUNG, "hung: no GPU has worked for %s; %s%s%s",
		    watch_span(l->quiet, span), because,
		    rest[0] && watch_gpus_signature(l->w) ? "; at 0 %: " : "",
		    watch_gpus_signature(l->w) ? rest : "");
}

static const char *signature_words(const struct watch *w)
{
	return w->pattern == PATTERN_SPLIT
		   ? "the GPUs spin at few watts and some rest, as in a deadlock"
		   : "all GPUs are busy at few watts, as in a deadlock";
}

/* What was looked at, and no more than that. */
static const char *who_is_silent(const struct look *l, char *ret, size_t size)
{
	const char *name = "";
	size_t n = 0;

	for (size_t i = 0; i < l->w->sources.n; i++) {
		if (!l->w->sources.v[i].tells_steps)
			continue;
		name = l->w->sources.v[i].name;
		n++;
	}
	if (n == 1)
		snprintf(ret, size, "\"%.100s\" shows no more", name);
	else
		snprintf(ret, size, "none of the %zu sources that show its steps shows more", n);
	return ret;
}

static void look_for_hang(struct look *l)
{
	struct watch *w = l->w;
	int64_t hung = l->hung;
	const char *because = NULL;
	char silent[160];

	if (l->quiet < 0 || w->job == JOB_PENDING ||
	    l->now - w->began_ms < MIN(w->limits.settle_ms, w->limits.suspect_ms))
		return;
	if (l->by_steps && gpus_work(l))
		hung *= LONGER_WHERE_WORK;
	if (w->timeout_ms >= 0 && w->timeout_ms >= w->progress_ms)
		because = "a collective ran into its time-out";
	else if (w->dump_ms >= 0 && w->dump_ms >= w->progress_ms && l->quiet >= l->suspect / 2)
		because = "a Flight Recorder dump was written";
	else if (signature_holds(l) && l->quiet >= l->signature)
		because = signature_words(w);
	else if (l->finished >= 0) {
		look_behind_the_end(l);
		return;
	} else if (l->quiet >= hung && l->by_steps)
		because = gpus_work(l) ? "the GPUs do something, but no step is shown"
				       : who_is_silent(l, silent, sizeof(silent));
	else if (l->quiet >= hung && w->pattern == PATTERN_FEW)
		because = "few watts everywhere";
	/* it goes on being hung until something moves */
	if (!because && w->hung && l->quiet >= l->suspect)
		because = l->by_steps ? who_is_silent(l, silent, sizeof(silent)) : "none works";
	w->hung = because != NULL;
	if (because)
		say_hung(l, because);
	else if (l->quiet >= l->suspect) {
		char span[32], limit[32];

		say(l, MATTER_SUSPECT,
		    "%s for %s; called hung after %s, or %s with the power signature",
		    l->by_steps ? "no step" : "no GPU has worked", watch_span(l->quiet, span),
		    watch_span(hung, limit), watch_span(l->signature, (char[32]){ 0 }));
	}
	if (!l->by_steps && w->pattern == PATTERN_RESTS && l->quiet >= hung) {
		char span[32];

		w->hung = false;
		l->out->matters[MATTER_HUNG].raised = false;
		say(l, MATTER_IDLE,
		    "all GPUs are idle for %s: the job has ended or stands, and no source says "
		    "which",
		    watch_span(l->quiet, span));
	}
}

/* --- ends --- */

/* Its end was said and no save is under way; or the last step was made, and nothing follows. */
static bool is_done(const struct look *l)
{
	const struct watch *w = l->w;
	int64_t grace = MIN(DONE_GRACE_MS, w->limits.suspect_ms);

	if (l->finished < 0)
		return false;
	if (w->done_ms < 0)
		return !l->alone && l->quiet >= l->suspect;
	if (w->save_begun_ms >= 0)
		grace = MAX(FIRST_SAVE_MS, MARGIN * watch_ring_most(&w->save));
	return l->now - MAX(w->done_ms, w->progress_ms) >= grace;
}

static bool by_time_limit(const struct watch_failure *f)
{
	return f->known && !strcmp(f->what, "time limit");
}

static void say_crashed(struct look *l)
{
	const struct watch_failure *f = &l->w->failure;
	size_t n = strlen(f->what);
	bool twice = n && !strncmp(f->text, f->what, n);
	char who[96] = "";

	if (f->rank >= 0)
		snprintf(who, sizeof(who), "rank %" PRId64 "%s%s", f->rank,
			 f->host[0] ? " on " : "", f->host);
	else if (f->host[0])
		snprintf(who, sizeof(who), "%s", f->host);
	if (by_time_limit(f)) {
		say(l, MATTER_CRASHED, "ended by the time limit%s%s", f->text[0] ? ": " : "",
		    f->text);
		l->out->matters[MATTER_CRASHED].mild = true;
		return;
	}
	say(l, MATTER_CRASHED, "crashed: %s%s%s%s%s", who, who[0] ? " first: " : "",
	    twice ? "" : f->what, !twice && n && f->text[0] ? ": " : "", f->text);
}

static void look_for_end(struct look *l)
{
	struct watch *w = l->w;
	const struct watch_failure *f = &w->failure;
	bool over = w->job == JOB_FAILED || (w->job == JOB_GONE && w->gone >= 2);
	bool quiet =
	    f->known && l->now - f->at_ms >= MAX(FAILURE_GRACE_MS, 3 * watch_ring_median(&w->line));
	bool done = is_done(l);

	if (w->job == JOB_DONE ||
	    (done && !l->out->matters[MATTER_HUNG].raised && !runs_on(l) &&
	     !(f->known && (f->sure || w->done_ms < 0))) ||
	    (l->finished >= 0 && w->job == JOB_GONE)) {
		if (w->job == JOB_DONE)
			say(l, MATTER_COMPLETED, "completed, says the scheduler");
		else if (w->done_ms >= 0)
			say(l, MATTER_COMPLETED, "completed");
		else
			say(l, MATTER_COMPLETED,
			    "completed: the last of %" PRId64 " steps was made", w->total);
		return;
	}
	if (f->known && (f->sure || quiet || over)) {
		say_crashed(l);
		return;
	}
	if (w->job == JOB_FAILED &&
	    (!strcmp(w->job_word, "TIMEOUT") || !strcmp(w->job_word, "TO"))) {
		say(l, MATTER_CRASHED, "ended by the time limit, says the scheduler");
		l->out->matters[MATTER_CRASHED].mild = true;
	} else if (over)
		say(l, MATTER_CRASHED,
		    w->job == JOB_GONE ? "the scheduler knows the job no longer, and nothing said "
					 "that it completed"
				       : "the scheduler says %s",
		    w->job_word);
}

/* --- lesser matters --- */

static void look_at_pace(struct look *l)
{
	struct watch *w = l->w;
	struct watch_ring now = { .n = 0 };
	int64_t usual = watch_ring_median(&w->step_us), recent;
	uint64_t n = w->step_now.n;

	if (!(w->limits.floor > 0) || n < STEPS_NOW_LEAST || w->step_us.n < 2 * STEPS_NOW_LEAST)
		return;
	for (uint64_t i = n - NOW_COUNTED; i < n; i++)
		watch_ring_add(&now, w->step_now.v[i % WATCH_RING]);
	recent = watch_ring_median(&now);
	if ((double)recent * w->limits.floor <= (double)usual) {
		w->slow_since_ms = -1;
		return;
	}
	if (w->slow_since_ms < 0)
		w->slow_since_ms = l->now;
	if (l->now - w->slow_since_ms >= w->limits.slow_ms)
		say(l, MATTER_SLOW,
		    "steps take %.3g s, %.3g s was usual: %.0f %% of its throughput",
		    (double)recent / 1e6, (double)usual / 1e6,
		    100.0 * (double)usual / (double)recent);
}

static bool lasts(struct look *l, bool is, int64_t *since)
{
	if (!is) {
		*since = -1;
		return false;
	}
	if (*since < 0)
		*since = l->now;
	return l->now - *since >= l->w->limits.slow_ms;
}

static void look_at_gpus(struct look *l)
{
	struct watch *w = l->w;
	uint32_t n = watch_gpus_throttled(w);
	char span[32];

	if (lasts(l, watch_gpus_starved(w), &w->starved_since_ms))
		say(l, MATTER_STARVED,
		    "starved for %s: most GPUs are less than half busy, and wait for data",
		    watch_span(l->now - w->starved_since_ms, span));
	if (lasts(l, n > 0, &w->throttled_since_ms))
		say(l, MATTER_THROTTLED, "%u of %u GPUs clock below 80 %% of what they did for %s",
		    n, watch_gpus_known(w), watch_span(l->now - w->throttled_since_ms, span));
}

static void look_at_saves(struct look *l)
{
	const struct watch *w = l->w;
	int64_t period = w->limits.save_every_ms, limit, since;
	bool stands =
	    w->stands_ms >= 0 &&
	    l->now - w->stands_ms >= MAX(FIRST_SAVE_MS, MARGIN * watch_ring_most(&w->save));
	char a[32], b[32];

	if (stands) /* whether or not it is over: a last save that is torn is worth a word */
		say(l, MATTER_OVERDUE, "a save stands for %s and has not ended, %s",
		    watch_span(l->now - w->stands_ms, a), w->stands);
	if (l->finished >= 0) /* none will come */
		return;
	if (!period && w->save_period.n >= 2)
		period = watch_ring_median(&w->save_period);
	if (!period)
		return;
	limit = w->limits.save_every_ms ? period + period / 10 + watch_ring_most(&w->save)
					: 2 * period + watch_ring_most(&w->save);
	since = l->now - (w->saved_ms >= 0 ? w->saved_ms : w->began_ms);
	if (since > limit)
		say(l, MATTER_OVERDUE, "no checkpoint for %s; one is due every %s%s%s",
		    watch_span(since, a), watch_span(period, b),
		    w->stands_ms >= 0 ? "; the last save has not ended, " : "",
		    w->stands_ms >= 0 ? w->stands : "");
}

static void look_at_loss(struct look *l)
{
	if (l->w->loss_bad >= LOSS_BAD_LEAST)
		say(l, MATTER_LOSS, "the loss is not a number, %" PRId64 " times in a row",
		    l->w->loss_bad);
}

/* --- blind --- */

static bool is_silent(const struct look *l, const struct watch_source_seen *s)
{
	int64_t since = s->heard_ms >= 0 ? s->heard_ms : l->w->began_ms;

	return s->why[0] && (l->w->limits.once || l->now - since >= l->w->limits.blind_ms);
}

static void look_for_blindness(struct look *l)
{
	const struct watch *w = l->w;
	const struct watch_source_seen *first = NULL;
	bool starts = l->now - w->began_ms < w->limits.start_ms, speaks = false;
	bool ended =
	    l->out->matters[MATTER_COMPLETED].raised || l->out->matters[MATTER_CRASHED].raised;

	for (size_t i = 0; i < w->sources.n; i++)
		speaks |= !w->sources.v[i].why[0] && w->sources.v[i].heard_ms >= 0;
	for (size_t i = 0; i < w->sources.n; i++) {
		const struct watch_source_seen *s = &w->sources.v[i];

		if (!is_silent(l, s))
			continue;
		/* what is not there yet may come, as long as something tells that it starts */
		if (starts && speaks && s->heard_ms < 0 && (l->quiet < 0 || s->absent))
			continue;
		first = first ? first : &w->sources.v[i];
		l->silent++;
	}
	if (ended) /* a job that ended may be silent */
		return;
	if (!w->sources.n)
		say(l, MATTER_BLIND, "blind: no source was given");
	else if (first && l->silent == 1)
		say(l, MATTER_BLIND, "%s: \"%.100s\" is silent: %.200s",
		    l->silent == w->sources.n ? "blind" : "partly blind", first->name, first->why);
	else if (first)
		say(l, MATTER_BLIND, "%s: %zu of %zu sources are silent, \"%.100s\" first: %.200s",
		    l->silent == w->sources.n ? "blind" : "partly blind", l->silent, w->sources.n,
		    first->name, first->why);
	else if (l->quiet < 0 && w->job != JOB_PENDING &&
		 l->now - w->began_ms >= w->limits.start_ms)
		say(l, MATTER_BLIND,
		    "blind: the sources answer, but none has shown a step or a GPU that works");
}

/* --- all of it --- */

static enum watch_state state_of(const struct look *l)
{
	const struct watch_matter_now *m = l->out->matters;

	if (m[MATTER_COMPLETED].raised)
		return WATCH_COMPLETED;
	if (m[MATTER_CRASHED].raised)
		return WATCH_CRASHED;
	if (m[MATTER_HUNG].raised)
		return WATCH_HUNG;
	if (m[MATTER_BLIND].raised && (l->quiet < 0 || l->silent == l->w->sources.n))
		return WATCH_BLIND;
	if (m[MATTER_SUSPECT].raised || m[MATTER_IDLE].raised)
		return WATCH_SUSPECT;
	return l->quiet < 0 || l->w->job == JOB_PENDING ? WATCH_STARTING : WATCH_HEALTHY;
}

static void summarize(struct look *l)
{
	static const enum watch_matter order[] = {
		MATTER_COMPLETED, MATTER_CRASHED,   MATTER_HUNG,    MATTER_BLIND,
		MATTER_SUSPECT,	  MATTER_IDLE,	    MATTER_LOSS,    MATTER_SLOW,
		MATTER_STARVED,	  MATTER_THROTTLED, MATTER_OVERDUE,
	};
	char span[32];

	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		if (!l->out->matters[order[i]].raised)
			continue;
		snprintf(l->out->summary, sizeof(l->out->summary), "%s",
			 l->out->matters[order[i]].summary);
		return;
	}
	if (l->by_steps)
		snprintf(l->out->summary, sizeof(l->out->summary), "step %" PRId64 ", %s ago",
			 l->w->step, watch_span(l->quiet, span));
	else
		snprintf(l->out->summary, sizeof(l->out->summary), "%s",
			 l->by_gpus ? "the GPUs work" : "nothing is known yet");
}

void watch_judge(struct watch *w, int64_t now_ms, struct watch_judgement *ret)
{
	struct look l = { .w = w, .out = ret, .now = now_ms };

	memset(ret, 0, sizeof(*ret));
	watch_gpus_settle(w, now_ms);
	find_progress(&l);
	find_the_end(&l);
	look_for_hang(&l);
	look_for_end(&l);
	if (ret->matters[MATTER_COMPLETED].raised || ret->matters[MATTER_CRASHED].raised) {
		ret->matters[MATTER_HUNG].raised = ret->matters[MATTER_SUSPECT].raised = false;
		ret->matters[MATTER_IDLE].raised = false;
		w->hung = false;
	} else {
		look_at_pace(&l);
		look_at_gpus(&l);
		look_at_saves(&l);
		look_at_loss(&l);
	}
	look_for_blindness(&l);
	if (ret->matters[MATTER_HUNG].raised && w->hung_ms < 0)
		w->hung_ms = now_ms - MAX(l.quiet, 0);
	if (!ret->matters[MATTER_HUNG].raised)
		w->hung_ms = -1;
	ret->state = state_of(&l);
	ret->quiet_ms = l.quiet;
	ret->suspect_ms = l.suspect;
	ret->hung_ms = l.hung;
	for (unsigned m = 0; m < MATTERS; m++)
		watch_clean(ret->matters[m].summary);
	ret->by = l.by_steps ? "steps" : l.by_gpus ? "gpus" : "nothing";
	summarize(&l);
	watch_clean(ret->summary);
}
