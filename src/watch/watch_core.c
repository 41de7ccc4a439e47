/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_core.c - takes what is seen of a job, and learns from it what is normal.
 *
 * Pauses are learnt only when they end by themselves: one behind which the job was started again
 * teaches nothing. What is learnt is a ring of the last lengths, so that it can be forgotten.
 */
#include "watch/watch_core.h"
#include "base/ranges.h"

#include <math.h>
#include <stdio.h>

#define PAUSE_MOST_MS	    (2 * 3600 * 1000) /* longer ones are nothing to learn from */
#define PAUSE_PLAIN_MOST_MS (30 * 60 * 1000)
#define PAUSE_LEAST_MS	    2000
#define STEP_NOW	    15u
#define SAVE_SAME_MS	    1000

const char *watch_state_name(enum watch_state s)
{
	static const char *const names[WATCH_STATES] = {
		[WATCH_STARTING] = "starting", [WATCH_HEALTHY] = "healthy",
		[WATCH_SUSPECT] = "suspect",   [WATCH_HUNG] = "hung",
		[WATCH_CRASHED] = "crashed",   [WATCH_COMPLETED] = "completed",
		[WATCH_BLIND] = "blind",
	};

	return s < WATCH_STATES ? names[s] : "unknown";
}

const char *watch_matter_key(enum watch_matter m)
{
	static const char *const keys[MATTERS] = {
		[MATTER_HUNG] = "hung",
		[MATTER_CRASHED] = "crashed",
		[MATTER_COMPLETED] = "completed",
		[MATTER_SUSPECT] = "suspect",
		[MATTER_IDLE] = "idle",
		[MATTER_STARVED] = "starved",
		[MATTER_THROTTLED] = "throttled",
		[MATTER_SLOW] = "slow",
		[MATTER_OVERDUE] = "checkpoint-overdue",
		[MATTER_LOSS] = "loss",
		[MATTER_BLIND] = "blind",
	};

	return m < MATTERS ? keys[m] : "unknown";
}

struct watch_limits watch_limits_usual(void)
{
	return (struct watch_limits){
		.suspect_ms = 2 * 60000,
		.hung_ms = 10 * 60000,
		.steps = 10,
		.start_ms = 60 * 60000,
		.blind_ms = 90000,
		.slow_ms = 5 * 60000,
		.settle_ms = 60000,
		.floor = 0.7,
		.band = 0.30,
	};
}

/* --- what is learnt --- */

void watch_ring_add(struct watch_ring *r, int64_t ms)
{
	r->v[r->n++ % WATCH_RING] = ms;
}

int64_t watch_ring_most(const struct watch_ring *r)
{
	int64_t most = 0;

	for (size_t i = 0; i < MIN(r->n, WATCH_RING); i++)
		most = MAX(most, r->v[i]);
	return most;
}

int64_t watch_ring_median(const struct watch_ring *r)
{
	size_t n = MIN(r->n, WATCH_RING);
	int64_t v[WATCH_RING];

	if (!n)
		return 0;
	memcpy(v, r->v, n * sizeof(*v));
	qsort(v, n, sizeof(*v), ranges_compare);
	return v[n / 2];
}

/* The length of the well-formed character at s; 0: none is. */
static size_t character(const unsigned char *s)
{
	size_t n = *s < 0x80 ? 1 : *s >= 0xc2 && *s < 0xe0 ? 2 : (*s & 0xf0) == 0xe0 ? 3 : 0;

	if (*s >= 0xf0 && *s < 0xf5)
		n = 4;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] >= 0xa0) ||
	    (*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] >= 0x90))
		return 0;
	return n;
}

void watch_clean(char *s)
{
	while (*s) {
		size_t n = character((const unsigned char *)s);

		if (!n)
			*s = '?';
		s += MAX(n, 1);
	}
}

static void text_copy(char *to, size_t size, const char *from)
{
	size_t n = 0;

	for (; from && *from && n + 1 < size; from++)
		if ((unsigned char)*from >= ' ' && *from != 0x7f)
			to[n++] = *from;
	to[n] = '\0';
	watch_clean(to);
}

/* --- the state --- */

void watch_init(struct watch *w, const struct watch_limits *limits, int64_t now_ms)
{
	*w = (struct watch){
		.limits = *limits,
		.began_ms = now_ms,
		.phase_ms = now_ms,
		.progress_ms = -1,
		.step = -1,
		.total = -1,
		.slow_since_ms = -1,
		.starved_since_ms = -1,
		.throttled_since_ms = -1,
		.save_begun_ms = -1,
		.saved_ms = -1,
		.stands_ms = -1,
		.done_ms = -1,
		.timeout_ms = -1,
		.dump_ms = -1,
		.job_ms = -1,
		.round_ms = -1,
		.pattern_ms = now_ms,
		.signature_ms = -1,
		.still_ms = -1,
		.hung_ms = -1,
	};
}

void watch_done(struct watch *w)
{
	for (size_t i = 0; i < w->sources.n; i++)
		free(w->sources.v[i].name);
	for (size_t i = 0; i < w->gpus.n; i++)
		free(w->gpus.v[i].host);
	free(w->sources.v);
	free(w->gpus.v);
	free(w->gpu_table);
	free(w->ranks.v);
	*w = (struct watch){ 0 };
}

uint32_t watch_add_source(struct watch *w, const char *name)
{
	char *clean = xstrdup(name);

	watch_clean(clean);
	for (size_t i = 0; i < w->sources.n; i++)
		if (!strcmp(w->sources.v[i].name, clean)) {
			free(clean);
			return (uint32_t)i;
		}
	*vec_push(&w->sources) =
	    (struct watch_source_seen){ .name = clean, .heard_ms = -1, .asked_ms = -1 };
	return (uint32_t)w->sources.n - 1;
}

struct watch_seen watch_seen_of(enum watch_sight sight, uint32_t source, int64_t at_ms)
{
	return (struct watch_seen){
		.sight = sight,
		.source = source,
		.at_ms = at_ms,
		.rank = -1,
		.value = -1,
		.number = NAN,
		.first_ms = at_ms,
		.lines = 1,
		.total = -1,
		.line_ms = NAN,
		.step_ms = NAN,
	};
}

static void set_phase(struct watch *w, enum watch_phase p, int64_t at_ms)
{
	w->phase = p;
	w->phase_ms = at_ms;
}

/* It runs again, or for the first time: what was wrong with it is over. */
static void attempt_begins(struct watch *w, int64_t at_ms)
{
	w->attempt++;
	w->steps_seen = 0;
	w->total = -1;
	w->failure = (struct watch_failure){ 0 };
	w->done_ms = w->timeout_ms = w->dump_ms = -1;
	w->save_begun_ms = -1;
	w->dumps = 0;
	w->loss_bad = 0;
	w->saves_since = w->evaluates_since = false;
	w->step_now.n = 0;
	w->slow_since_ms = -1;
	w->progress_ms = MAX(w->progress_ms, at_ms);
	set_phase(w, PHASE_START, at_ms);
}

/* Ranks come in the same order every time: the next one is looked at first. */
static struct watch_rank *rank_of(struct watch *w, uint32_t source, int64_t rank)
{
	struct watch_rank *r;

	for (size_t k = 0; k < w->ranks.n; k++) {
		size_t i = (w->rank_next + k) % w->ranks.n;

		r = &w->ranks.v[i];
		if (r->rank != rank || r->source != source)
			continue;
		w->rank_next = i + 1;
		return r;
	}
	if (w->ranks.n >= WATCH_RANKS)
		return NULL;
	r = vec_push(&w->ranks);
	*r = (struct watch_rank){ .rank = rank, .source = source, .step = -1, .at_ms = -1 };
	return r;
}

static void pause_learn(struct watch *w, int64_t ms, bool save, bool evaluation)
{
	int64_t most = save || evaluation ? PAUSE_MOST_MS : PAUSE_PLAIN_MOST_MS;

	if (ms < PAUSE_LEAST_MS || ms > most)
		return;
	watch_ring_add(save ? &w->save : evaluation ? &w->evaluation : &w->pause, ms);
}

/* How long its steps take: one row is asked, the one that speaks most. */
static void pace_learn(struct watch *w, const struct watch_seen *s, int64_t steps, int64_t gap)
{
	double line = s->line_ms, step = s->step_ms;

	if (!(line > 0) && gap > 0)
		line = (double)gap / (double)MAX(s->lines, 1);
	if (line > 0 && line < PAUSE_MOST_MS)
		watch_ring_add(&w->line, (int64_t)line);
	if (!(step > 0) && line > 0 && steps > 0)
		step = line * (double)MAX(s->lines, 1) / (double)steps;
	if (!(step > 0) || step > PAUSE_MOST_MS)
		return;
	watch_ring_add(&w->step_now, (int64_t)(step * 1000));
	/* all of the job: of the many only some, so that the ring reaches far back */
	if (w->step_us.n < WATCH_RING || w->step_now.n % (1 + w->step_now.n / WATCH_RING) == 0)
		watch_ring_add(&w->step_us, (int64_t)(step * 1000));
}

static void saw_steps(struct watch *w, const struct watch_seen *s)
{
	struct watch_rank *r = rank_of(w, s->source, s->rank);
	bool back = r && r->step >= 0 && s->value < r->step, first = r && r->at_ms < 0;
	int64_t gap = w->progress_ms >= 0 ? s->first_ms - w->progress_ms : 0;
	int64_t steps = r && r->step >= 0 ? s->value - r->step : 0;
	bool paused;

	w->sources.v[s->source].tells_steps = true;
	watch_knows_ranks(w, s->rank + 1);
	if (!r || (s->value == r->step && !s->again))
		return;
	/* ranks may have totals of their own: the job's is the most of them */
	if (r->total > 0 && r->step >= r->total && s->total == r->total && w->done_ms < 0 &&
	    w->steps_seen)
		w->beyond = true;
	r->step = s->value;
	r->at_ms = s->at_ms;
	r->total = MAX(back || s->again || r->total < 0 ? 0 : r->total, s->total);
	/* A rank that tells of an older step beside others only lags; one that goes back was
	   started again. */
	if (back || s->again) {
		attempt_begins(w, s->at_ms);
		w->step = s->value;
		gap = 0;
	}
	/* What was called a hang is no habit, but a save may be long. */
	if (!s->history && w->steps_seen && gap > 0 && !first &&
	    (!w->hung || w->saves_since || w->evaluates_since))
		pause_learn(w, gap, w->saves_since, w->evaluates_since);
	if (s->pause_ms > 0 && !s->again)
		pause_learn(w, s->pause_ms, s->paused_to_save, s->paused_to_evaluate);
	/* what passed since the last line says nothing of the pace if it was a pause */
	paused = w->hung || w->saves_since || w->evaluates_since || back || first;
	if (!paused || isfinite(s->line_ms))
		pace_learn(w, s, back || first ? 0 : steps,
			   paused ? 0 : MAX(s->at_ms - w->progress_ms, 0));
	w->steps_seen += (uint64_t)MAX(s->lines, 1);
	w->step = MAX(w->step, s->value);
	w->total = MAX(w->total, s->total);
	w->progress_ms = MAX(w->progress_ms, s->at_ms);
	w->saves_since = w->evaluates_since = w->hung = false;
	w->failure = (struct watch_failure){ 0 }; /* it outlived it */
	w->timeout_ms = w->dump_ms = w->done_ms = -1;
	w->dumps = 0;
	w->save_begun_ms = -1;
	if (w->phase != PHASE_STEPS)
		set_phase(w, PHASE_STEPS, s->at_ms);
}

static void sign_of_life(struct watch *w, int64_t at_ms)
{
	if (w->progress_ms >= 0)
		w->progress_ms = MAX(w->progress_ms, at_ms);
}

static void saw_save_begin(struct watch *w, const struct watch_seen *s)
{
	w->save_begins++;
	w->stands_ms = -1;
	w->saves_since = true;
	w->save_begun_ms = s->at_ms;
	sign_of_life(w, s->at_ms);
	set_phase(w, PHASE_SAVE, s->at_ms);
}

static void saved(struct watch *w, int64_t at_ms)
{
	w->stands_ms = -1;
	if (w->saved_ms >= 0 && at_ms - w->saved_ms > SAVE_SAME_MS)
		watch_ring_add(&w->save_period, at_ms - w->saved_ms);
	if (w->saved_ms < 0 || at_ms - w->saved_ms > SAVE_SAME_MS)
		w->saved_ms = at_ms;
}

static void saw_save_end(struct watch *w, const struct watch_seen *s)
{
	w->sources.v[s->source].tells_saves = true;
	w->saves_since = true;
	if (s->span_ms > 0)
		pause_learn(w, s->span_ms, true, false);
	else if (w->save_begun_ms >= 0)
		pause_learn(w, s->at_ms - w->save_begun_ms, true, false);
	w->save_begun_ms = -1;
	saved(w, s->at_ms);
	sign_of_life(w, s->at_ms);
	if (w->phase == PHASE_SAVE)
		set_phase(w, w->steps_seen ? PHASE_STEPS : PHASE_START, s->at_ms);
}

static void saw_save_stand(struct watch *w, const struct watch_seen *s)
{
	w->stands_ms = s->at_ms;
	text_copy(w->stands, sizeof(w->stands), s->text);
}

static void saw_saved(struct watch *w, const struct watch_seen *s)
{
	w->sources.v[s->source].tells_saves = true;
	if (!strcmp(w->saved_name, s->text ? s->text : ""))
		return;
	text_copy(w->saved_name, sizeof(w->saved_name), s->text);
	w->saves_since = true;
	saved(w, s->at_ms);
	sign_of_life(w, s->at_ms);
}

static void saw_evaluation(struct watch *w, const struct watch_seen *s)
{
	w->evaluations++;
	w->evaluates_since = true;
	sign_of_life(w, s->at_ms);
	set_phase(w, PHASE_EVALUATION, s->at_ms);
}

static void saw_preparation(struct watch *w, const struct watch_seen *s)
{
	sign_of_life(w, s->at_ms);
	set_phase(w, PHASE_PREPARE, s->at_ms);
}

static void saw_restart(struct watch *w, const struct watch_seen *s)
{
	attempt_begins(w, s->at_ms);
}

/* The first one counts; one that the launcher or the scheduler is sure of makes it sure. */
static void saw_failure(struct watch *w, const struct watch_seen *s)
{
	struct watch_failure *f = &w->failure;

	if (f->known) {
		f->sure |= s->sure;
		if (f->rank < 0 && s->rank >= 0)
			f->rank = s->rank;
		return;
	}
	*f = (struct watch_failure){
		.known = true, .sure = s->sure, .rank = s->rank, .at_ms = s->at_ms
	};
	text_copy(f->host, sizeof(f->host), s->host);
	text_copy(f->what, sizeof(f->what), s->what);
	text_copy(f->text, sizeof(f->text), s->text);
}

static void saw_timeout(struct watch *w, const struct watch_seen *s)
{
	w->timeout_ms = s->at_ms;
	saw_failure(w, s);
}

static void saw_dump(struct watch *w, const struct watch_seen *s)
{
	w->dump_ms = s->at_ms;
	w->dumps += s->value > 0 ? (uint64_t)s->value : 1;
}

static void saw_done(struct watch *w, const struct watch_seen *s)
{
	w->done_ms = s->at_ms;
	sign_of_life(w, s->at_ms);
}

static void saw_job(struct watch *w, const struct watch_seen *s)
{
	enum watch_job_state to = (enum watch_job_state)s->value;

	w->sources.v[s->source].tells_job = true;
	w->gone = to == JOB_GONE ? w->gone + 1 : 0;
	if (to == JOB_RUNNING && w->job != JOB_RUNNING && w->job != JOB_UNKNOWN)
		attempt_begins(w, s->at_ms);
	if (to != w->job)
		w->job_ms = s->at_ms;
	w->job = to;
	text_copy(w->job_word, sizeof(w->job_word), s->text);
}

static void saw_loss(struct watch *w, const struct watch_seen *s)
{
	w->loss_bad = isnan(s->number) ? w->loss_bad + MAX(s->value, 1) : 0;
}

static void saw_heard(struct watch *w, const struct watch_seen *s)
{
	struct watch_source_seen *src = &w->sources.v[s->source];

	src->heard_ms = src->asked_ms = s->at_ms;
	src->why[0] = '\0';
	src->absent = false;
}

static void saw_silence(struct watch *w, const struct watch_seen *s)
{
	struct watch_source_seen *src = &w->sources.v[s->source];

	src->asked_ms = s->at_ms;
	src->absent = s->value == ENOENT;
	text_copy(src->why, sizeof(src->why), s->text && *s->text ? s->text : "no answer");
}

void watch_knows_ranks(struct watch *w, int64_t n)
{
	w->ranks_known = MAX(w->ranks_known, n);
}

void watch_saw(struct watch *w, const struct watch_seen *s)
{
	static void (*const takers[SIGHTS])(struct watch *, const struct watch_seen *) = {
		[SIGHT_STEPS] = saw_steps,
		[SIGHT_SAVE_BEGIN] = saw_save_begin,
		[SIGHT_SAVE_END] = saw_save_end,
		[SIGHT_SAVE_STANDS] = saw_save_stand,
		[SIGHT_SAVED] = saw_saved,
		[SIGHT_EVALUATION] = saw_evaluation,
		[SIGHT_PREPARES] = saw_preparation,
		[SIGHT_RESTART] = saw_restart,
		[SIGHT_FAILURE] = saw_failure,
		[SIGHT_TIMEOUT] = saw_timeout,
		[SIGHT_DUMP] = saw_dump,
		[SIGHT_DONE] = saw_done,
		[SIGHT_JOB] = saw_job,
		[SIGHT_LOSS] = saw_loss,
		[SIGHT_HEARD] = saw_heard,
		[SIGHT_SILENT] = saw_silence,
	};

	if (s->sight < SIGHTS && s->source < w->sources.n)
		takers[s->sight](w, s);
}
