/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_freeze.c - a job that stands still again and again, and goes on each time.
 *
 * The log shows where its lines came late. One such gap tells nothing and neither do gaps at
 * random: only a rhythm that chance would not make, in steps or in time, is a finding. What the log
 * itself states to be a save or an evaluation is no part of it, and a save is named as what it is.
 */
#include "base/ranges.h"
#include "base/stats.h"
#include "judge/hang_internal.h"

#include <math.h>

#define HITS_LEAST   4u /* beats of a rhythm */
#define SAVES_LEAST  3u
#define SHARE_LEAST  0.8  /* of the gaps are on the beat, and of the beats have a gap */
#define CHANCE_LEAST 1e4  /* one in so many such series would have this rhythm by chance */
#define TIME_GRAIN   0.05 /* of the period: what a rhythm in time may be off */
#define TIME_PLACES  10.0 /* 1 / (2 * TIME_GRAIN) */
#define STOOD_MOST   0.9  /* of all time: then the lines were written late, not the steps made */
#define NOTE_LEAST   0.01 /* of the time: less is not worth a word */

struct steps {
	int64_t *v;
	size_t n, cap;
};

/* What the log states about itself; plain: how often without a step. */
struct stated {
	struct steps saves, evaluations;
	uint64_t plain_saves, plain_evaluations;
};

struct rhythm {
	double period; /* steps, or seconds */
	bool in_time;
	bool exact; /* to the step */
	size_t n;
	size_t at[PROGRESS_STALLS]; /* stalls on the beat */
};

struct freeze {
	const struct scene_progress *p;
	struct log_stall stalls[PROGRESS_STALLS]; /* of one kind */
	size_t n;
	struct rhythm rhythm;
	double stall_ms;  /* the middle one */
	double beat_ms;	  /* from one to the next */
	double lost;	  /* share of the time, at least */
	bool in_time_too; /* steps are about even: either may be the rhythm */
	bool whole_line; /* stall_ms is of all of its steps; else it may be of one, taken for all */
};

static void look_at_stated(const struct scene *s, struct stated *st)
{
	for (size_t i = 0; i < s->sayings.n; i++) {
		const struct saying *y = &s->sayings.v[i].s;
		bool save = y->kind == SAY_SAVE_BEGIN || y->kind == SAY_SAVE_END;
		uint64_t *plain = save ? &st->plain_saves : &st->plain_evaluations;

		if (!save && y->kind != SAY_EVALUATION)
			continue;
		if (y->value >= 0)
			*vec_push(save ? &st->saves : &st->evaluations) = y->value;
		else
			*plain = MAX(*plain, y->count);
	}
	if (st->saves.n)
		qsort(st->saves.v, st->saves.n, sizeof(int64_t), ranges_compare);
	if (st->evaluations.n)
		qsort(st->evaluations.v, st->evaluations.n, sizeof(int64_t), ranges_compare);
}

/* Was one stated between the line before the stall and the one behind it? */
static bool stated_at(const struct steps *v, const struct log_stall *g, int64_t line_steps)
{
	size_t at = ranges_lower(v->v, v->n, g->step - line_steps - 1);

	return at < v->n && v->v[at] <= g->step + 1;
}

enum stall_kind { STALL_OPEN, STALL_SAVE, STALL_EVALUATION };

static enum stall_kind stall_kind_of(const struct stated *st, const struct log_progress *p,
				     const struct log_stall *g)
{
	if (stated_at(&st->evaluations, g, p->line_steps))
		return STALL_EVALUATION;
	return stated_at(&st->saves, g, p->line_steps) ? STALL_SAVE : STALL_OPEN;
}

/* Those of one kind; small ones beside large ones are of another. */
static void take_stalls(struct freeze *z, const struct stated *st, enum stall_kind kind)
{
	const struct log_progress *p = &z->p->p;
	double ms[PROGRESS_STALLS], middle;
	size_t kept = 0;

	z->n = 0;
	for (uint32_t i = 0; i < p->n_stalls; i++)
		if (stall_kind_of(st, p, &p->stalls[i]) == kind) {
			ms[z->n] = p->stalls[i].ms;
			z->stalls[z->n++] = p->stalls[i];
		}
	if (!z->n)
		return;
	middle = stats_quantile(ms, z->n, 0.75);
	for (size_t i = 0; i < z->n; i++)
		if (z->stalls[i].ms >= middle / 4)
			z->stalls[kept++] = z->stalls[i];
	z->n = kept;
	for (size_t i = 0; i < z->n; i++)
		ms[i] = z->stalls[i].ms;
	z->stall_ms = stats_median(ms, z->n);
}

/* --- rhythm --- */

/* The chain that begins at `first`: each a whole number of periods behind the one before. */
static size_t chain_of(const double *at, size_t n, size_t first, double period, double grain,
		       struct rhythm *r)
{
	size_t beats = 1, last = first;

	r->n = 0;
	r->at[r->n++] = first;
	for (size_t i = first + 1; i < n; i++) {
		double d = at[i] - at[last], times = round(d / period);

		if (times < 1 || fabs(d - times * period) > grain)
			continue;
		beats += (size_t)times;
		r->at[r->n++] = i;
		last = i;
	}
	return beats;
}

/* A chain that holds nearly all of them and misses nearly no beat. */
static bool beats(const double *at, size_t n, double grain, struct rhythm *r)
{
	double distances[PROGRESS_STALLS];

	for (size_t i = 1; i < n; i++)
		distances[i - 1] = at[i] - at[i - 1];
	r->period = stats_median(distances, n - 1);
	for (size_t first = 0; r->period > 0 && first < 3; first++) {
		size_t all = chain_of(at, n, first, r->period, grain, r);

		if (r->n >= HITS_LEAST && (double)r->n >= SHARE_LEAST * (double)n &&
		    (double)r->n >= SHARE_LEAST * (double)all) {
			r->period = (at[r->at[r->n - 1]] - at[first]) / (double)(all - 1);
			return true;
		}
	}
	return false;
}

/* Chance has to meet one of so many places each time, after the two that set the period. */
static bool no_chance(double places, size_t n)
{
	return pow(places, (double)n - 2) >= CHANCE_LEAST;
}

static bool beats_in_steps(const struct freeze *z, struct rhythm *r)
{
	double at[PROGRESS_STALLS], line = (double)MAX(z->p->p.line_steps, 1);

	for (size_t i = 0; i < z->n; i++)
		at[i] = (double)z->stalls[i].step;
	r->exact = beats(at, z->n, 0, r) && no_chance(r->period / line, r->n);
	if (r->exact)
		return true;
	/* lines every few steps show it up to a line too late */
	return beats(at, z->n, line, r) && no_chance(r->period / line / 3, r->n);
}

static bool beats_in_time(const struct freeze *z, struct rhythm *r)
{
	double at[PROGRESS_STALLS], distances[PROGRESS_STALLS];

	for (size_t i = 0; i < z->n; i++) {
		if (z->stalls[i].time_ns < 0)
			return false;
		at[i] = (double)(z->stalls[i].time_ns - z->stalls[0].time_ns) / 1e9 -
			z->stalls[i].ms / 1e3;
		if (i)
			distances[i - 1] = at[i] - at[i - 1];
	}
	r->in_time = true;
	return beats(at, z->n, TIME_GRAIN * stats_median(distances, z->n - 1), r) &&
	       no_chance(TIME_PLACES, r->n);
}

/* What the stalls on the beat cost, and how often they come. */
static bool weigh_freeze(struct freeze *z)
{
	const struct log_progress *p = &z->p->p;
	double step_ms, stall_ms = z->stall_ms, steps;

	/* the times of single steps, one a line, have a rhythm of whole lines, exactly */
	z->whole_line = p->stamped || p->line_steps <= 1 || !z->rhythm.exact;
	if (!(p->walked_ms > 0) || p->walked_steps < 1 ||
	    p->stalled_ms >= STOOD_MOST * p->walked_ms)
		return false;
	step_ms = (p->walked_ms - p->stalled_ms) / (double)p->walked_steps;
	if (z->rhythm.in_time)
		z->beat_ms = z->rhythm.period * 1e3;
	else
		z->beat_ms = z->rhythm.period * step_ms + z->stall_ms;
	steps = z->beat_ms - z->stall_ms;
	if (!z->whole_line)
		stall_ms /= (double)p->line_steps;
	z->lost = steps > 0 ? stall_ms / (steps + stall_ms) : 1;
	return z->lost >= NOTE_LEAST && z->lost < STOOD_MOST;
}

/* The same without a rhythm that must be proved: saves come as the log states them. */
static bool saves_of(struct freeze *z, const struct stated *st)
{
	double distances[PROGRESS_STALLS];

	take_stalls(z, st, STALL_SAVE);
	if (z->n < SAVES_LEAST)
		return false;
	z->rhythm = (struct rhythm){ .n = z->n, .exact = true };
	for (size_t i = 0; i < z->n; i++) {
		z->rhythm.at[i] = i;
		if (i)
			distances[i - 1] = (double)(z->stalls[i].step - z->stalls[i - 1].step);
	}
	z->rhythm.period = stats_median(distances, z->n - 1);
	for (size_t i = 1; i < z->n; i++)
		z->rhythm.exact &=
		    distances[i - 1] <= z->rhythm.period && distances[i - 1] >= z->rhythm.period;
	return z->rhythm.period > 0 && weigh_freeze(z);
}

static bool freeze_of(struct freeze *z, const struct stated *st)
{
	uint64_t plain = st->saves.n ? 0 : st->plain_saves;
	struct rhythm time = { 0 };
	bool in_steps;

	take_stalls(z, st, STALL_OPEN);
	plain = MAX(plain, st->plain_evaluations);
	if (z->n < HITS_LEAST || 2 * plain >= z->n)
		return false; /* the log states as many of its own, without their steps */
	in_steps = beats_in_steps(z, &z->rhythm);
	z->in_time_too = beats_in_time(z, &time);
	if (!in_steps && !z->in_time_too)
		return false;
	if (!in_steps)
		z->rhythm = time;
	return weigh_freeze(z);
}

/* --- why --- */

/* Lines of this kind while the steps went on. */
static uint64_t said_between(const struct hang *h, const struct freeze *z, enum saying_kind kind)
{
	uint64_t n = 0;

	for (size_t i = 0; i < h->s->sayings.n; i++) {
		const struct scene_saying *y = &h->s->sayings.v[i];

		if (y->s.kind == kind && y->file == z->p->file &&
		    (y->row == NO_ID || y->row == z->p->row) && y->s.last_line > z->p->p.line &&
		    y->s.line < z->p->p.last_line)
			n += kind == SAY_COMPILE ? y->s.count : 1;
	}
	return n;
}

struct why {
	enum cause cause;
	const char *detail, *words;
	double confidence;
};

static struct why why_of(const struct hang *h, const struct freeze *z)
{
	const struct log_progress *p = &z->p->p;
	uint64_t epochs = said_between(h, z, SAY_EPOCH_END), n = z->rhythm.n;
	bool epoch = p->epoch_steps > 0 && !z->rhythm.in_time &&
		     fabs(z->rhythm.period - (double)p->epoch_steps) <= (double)p->line_steps;

	if (epoch || (2 * epochs >= n && epochs <= 2 * n))
		return (struct why){ CAUSE_DATA_STARVED, "epoch",
				     "once an epoch: the data loader begins anew, or the log does "
				     "not say what else is done there",
				     0.5 };
	if (2 * said_between(h, z, SAY_DATA_WORK) >= n)
		return (struct why){ CAUSE_DATA_STARVED, NULL,
				     "the log shows work on data as often", 0.5 };
	if (2 * said_between(h, z, SAY_COMPILE) >= n)
		return (struct why){ CAUSE_HOST_STALL, "compile",
				     "the log speaks of compiling as often", 0.5 };
	return (struct why){ CAUSE_UNKNOWN, NULL, "nothing in the log says why", 0.4 };
}

/* --- words --- */

static const char *span(struct hang *h, double ms)
{
	double s = ms / 1e3;

	return s < 9.95	  ? report_printf(h->r, "%.1f s", s)
	       : s < 120  ? report_printf(h->r, "%.0f s", s)
	       : s < 7200 ? report_printf(h->r, "%.0f min", s / 60)
			  : report_printf(h->r, "%.1f h", s / 3600);
}

static const char *how_often(struct hang *h, const struct freeze *z)
{
	const char *time = span(h, z->beat_ms);

	if (z->rhythm.in_time)
		return time;
	if (!z->whole_line)
		return report_printf(h->r, "%.0f steps", z->rhythm.period);
	return report_printf(h->r, "%.0f steps (%s)", z->rhythm.period, time);
}

static void add_beats(struct finding *f, const struct freeze *z)
{
	for (size_t i = 0; i < z->rhythm.n; i++) {
		const struct log_stall *g = &z->stalls[z->rhythm.at[i]];

		*vec_push(&f->windows) = (struct window){
			.first_step = g->step,
			.last_step = g->step,
			.first_time_ns = g->time_ns < 0 ? -1 : g->time_ns - (int64_t)(g->ms * 1e6),
			.last_time_ns = g->time_ns,
		};
	}
}

static void add_proof(struct hang *h, struct finding *f, const struct freeze *z)
{
	const struct log_progress *p = &z->p->p;
	const char *from = p->stamped ? "by the time stamps" : "by the step times it prints";

	*vec_push(&f->evidence) = (struct evidence){
		.text = report_printf(h->r, "how late the line behind such a gap is, %s (median)",
				      from),
		.value = z->stall_ms / 1e3,
		.expected = NAN,
		.unit = "s",
		.source = "log",
	};
	*vec_push(&f->evidence) = (struct evidence){
		.text = p->line_steps > 1
			    ? report_printf(h->r, "otherwise a line, of %" PRId64 " steps, takes",
					    p->line_steps)
			    : "otherwise a line takes",
		.value = (p->walked_ms - p->stalled_ms) / (double)p->walked_steps *
			 (double)MAX(p->line_steps, 1) / 1e3,
		.expected = NAN,
		.unit = "s",
		.source = "log",
	};
	*vec_push(&f->evidence) = (struct evidence){
		.text = report_printf(
		    h->r, "%zu of %zu such gaps are on that beat%s", z->rhythm.n, z->n,
		    p->stalls_seen > p->n_stalls ? ", of the last that were kept" : ""),
		.value = NAN,
		.expected = NAN,
		.source = "log",
	};
	if (!z->whole_line)
		*vec_push(&f->evidence) = (struct evidence){
			.text = report_printf(h->r,
					      "the cost is the least: if the time that is printed "
					      "is the mean of the %" PRId64 " steps of a line and "
					      "not of one, it is that many times as much",
					      p->line_steps),
			.value = NAN,
			.expected = NAN,
			.source = "log",
		};
}

static void add_cost(struct hang *h, struct finding *f, const struct freeze *z)
{
	const struct log_progress *p = &z->p->p;
	double all_ms = (p->walked_ms - p->stalled_ms) / (1 - z->lost);
	double world = h->s->world_size > 0 ? (double)h->s->world_size : NAN;

	f->slowdown = 1 / (1 - z->lost);
	f->step_ms_lost = z->lost * all_ms / (double)p->walked_steps;
	f->lost_gpu_hours = z->lost * all_ms / 3.6e6 * world;
	f->gpu_hours_per_day = z->lost * 24 * world;
}

static void add_next(struct hang *h, struct finding *f, const struct freeze *z)
{
	const struct log_stall *last = &z->stalls[z->rhythm.at[z->rhythm.n - 1]];

	if (!z->rhythm.in_time)
		*vec_push(&f->next) = report_printf(
		    h->r,
		    "look for what the program does every %.0f steps and does not log: an "
		    "evaluation, a save, a new shard of data, garbage collection",
		    z->rhythm.period);
	if (z->in_time_too)
		*vec_push(&f->next) = report_printf(
		    h->r,
		    "look for what runs every %s on the hosts or on their storage: cron, "
		    "monitoring, snapshots, another job",
		    span(h, z->beat_ms));
	*vec_push(&f->next) = report_printf(
	    h->r,
	    "be there the next time (%s) and gather on every node what the ranks do while it "
	    "stands still:",
	    z->rhythm.in_time
		? report_printf(h->r, "%s after the last", span(h, z->beat_ms))
		: report_printf(h->r, "step %.0f", (double)last->step + z->rhythm.period));
	*vec_push(&f->next) = "lockstep collect --out evidence";
}

/* Behind the last that is at least as severe. */
static struct finding *finding_at(struct report *r, enum severity severity)
{
	size_t at = r->findings.n;

	vec_push(&r->findings);
	while (at && r->findings.v[at - 1].severity > severity)
		at--;
	memmove(&r->findings.v[at + 1], &r->findings.v[at],
		(r->findings.n - 1 - at) * sizeof(*r->findings.v));
	return &r->findings.v[at];
}

static const char *freeze_words(struct hang *h, const struct freeze *z, const char *why)
{
	const struct log_stall *first = &z->stalls[z->rhythm.at[0]];
	const struct log_stall *last = &z->stalls[z->rhythm.at[z->rhythm.n - 1]];
	bool cut = z->p->p.stalls_seen > z->p->p.n_stalls;

	return report_printf(h->r,
			     "%s %s the job stands still for %s and goes on, %s%zu times from step "
			     "%" PRId64 " to %" PRId64 ", %s%.0f %% of its time; %s",
			     z->rhythm.in_time || z->rhythm.exact ? "every" : "about every",
			     how_often(h, z), span(h, z->stall_ms), cut ? "the last " : "",
			     z->rhythm.n, first->step, last->step, z->whole_line ? "" : "at least ",
			     100 * z->lost, why);
}

static struct finding *write_freeze(struct hang *h, const struct freeze *z, enum severity severity,
				    const struct why *why)
{
	struct finding *f = finding_at(h->r, severity);

	*f = (struct finding){
		.severity = severity,
		.kind = KIND_SLOW,
		.level = "L1",
		.cause = why->cause,
		.cause_detail = why->detail,
		.action = cause_info(why->cause)->action,
		.confidence = why->confidence,
	};
	f->summary = freeze_words(h, z, why->words);
	add_beats(f, z);
	add_proof(h, f, z);
	add_cost(h, f, z);
	finding_set_id(f, h->r->job);
	return f;
}

static void write_rhythm(struct hang *h, const struct freeze *z, const struct stated *st,
			 double min_impact)
{
	bool alarm = !h->breaches.n && !h->timed_out && !h->ended;
	enum severity severity =
	    alarm && z->lost / (1 - z->lost) >= min_impact ? SEVERITY_FAULT : SEVERITY_NOTE;
	struct why why = why_of(h, z);
	struct finding *f = write_freeze(h, z, severity, &why);

	add_next(h, f, z);
	if (st->saves.n)
		*vec_push(&f->excluded) =
		    (struct exclusion){ CAUSE_CHECKPOINT,
					"the saves that the log states are elsewhere" };
	if (severity == SEVERITY_FAULT)
		h->r->verdict = VERDICT_SLOW;
}

void judge_freezes(struct hang *h, double min_impact)
{
	static const struct why save = { CAUSE_CHECKPOINT, NULL, "that is its own save", 0.9 };
	struct stated st = { 0 };
	struct freeze rhythm = { .lost = 0 }, saves = { .lost = 0 };

	look_at_stated(h->s, &st);
	for (size_t i = 0; i < h->s->progress.n; i++) {
		struct freeze z = { .p = &h->s->progress.v[i] };

		/* ranks stand still together: the one whose log shows most speaks for all */
		if (z.p->p.n_stalls >= SAVES_LEAST && saves_of(&z, &st) && z.lost > saves.lost)
			saves = z;
		if (z.p->p.n_stalls >= HITS_LEAST && freeze_of(&z, &st) && z.lost > rhythm.lost)
			rhythm = z;
	}
	if (rhythm.lost > 0)
		write_rhythm(h, &rhythm, &st, min_impact);
	if (saves.lost > 0)
		write_freeze(h, &saves, SEVERITY_NOTE, &save);
	free(st.saves.v);
	free(st.evaluations.v);
}
