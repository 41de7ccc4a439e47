/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_past.c - trouble that the job outlived: it explains no end.
 *
 * Long jobs have seen much: an exception that was caught, a batch skipped for want of memory, a
 * port that flapped, a rank that failed before the launcher started all of them again. A job in
 * lockstep cannot make further steps without one of its ranks, so what is followed by steps was
 * survived, by the lines of the same log or else by its time. The same holds for what is left over
 * of earlier attempts, and for the noise of processes that leave after training is done.
 */
#include <signal.h>
#include <stdlib.h>

#include "base/ranges.h"
#include "fold/scene_inside.h"
#include "model/attempt.h"

#define OUTLIVED_STEPS 3   /* a rank ahead of the others may still show one or two */
#define BUFFERED_STEPS 200 /* lines that 8 KB of a buffer do not hold */
#define CAUGHT_STEPS   10  /* behind an exception in front of the first step */
#define OUTLIVED_NS    (60 * (int64_t)1000000000)
#define ZONE_NS	       (1800 * (int64_t)1000000000) /* clocks of one machine differ by these */
#define ZONE_MOST      28			    /* 14 hours */
#define ZONE_GRAIN_NS  (150 * (int64_t)1000000000)

static bool is_trouble(enum saying_kind k)
{
	return k < SAY_HELLO;
}

static void find_last_step(struct scene *s)
{
	for (size_t i = 0; i < s->progress.n; i++) {
		const struct log_progress *p = &s->progress.v[i].p;
		int64_t steps = p->last_step - p->first_step;

		if (p->last_ns <= s->last_step_ns || p->first_ns <= 0 || steps <= 0)
			continue;
		s->last_step_ns = p->last_ns;
		s->step_ns = (p->last_ns - p->first_ns) / steps;
	}
}

/* Do logs of ranks tell of any trouble? Then the kernel's clock may be of another zone. */
static bool any_trouble(const struct scene *s)
{
	for (size_t i = 0; i < s->sayings.n; i++)
		if (is_trouble(s->sayings.v[i].s.kind) &&
		    (s->files.v[s->sayings.v[i].file]->steps || s->sayings.v[i].s.rank >= 0))
			return true;
	return false;
}

/* What processes say that leave one after the other, when all is done; some with an exit code. */
static bool is_of_leaving(enum saying_kind k)
{
	return k == SAY_EXIT || k == SAY_PEER_LOST || k == SAY_STORE_LOST || k == SAY_ABORTED ||
	       k == SAY_CANCELLED || k == SAY_STOPPED;
}

/* May the two clocks be of different time zones? */
static bool zones_apart(int64_t ns)
{
	int64_t zones = (ns + ZONE_NS / 2) / ZONE_NS;

	return zones >= 1 && zones <= ZONE_MOST && llabs(ns - zones * ZONE_NS) < ZONE_GRAIN_NS;
}

/* By file. */
struct past {
	uint64_t restarted;	  /* the last line that says so; 0 */
	uint64_t launched;	  /* the last line with which a launcher begins; 0 */
	bool failed_again;	  /* behind that line something broke .. */
	bool hung_before;	  /* .. and in front of it watchdogs spoke */
	uint64_t done;		  /* the line at which the job says that it is done; 0 */
	int64_t begin_ns, end_ns; /* of its steps; 0: without stamps */
	bool old_attempt;	  /* a later attempt of the same run left a log as well */
	bool early;		  /* its last step is not the last of all */
	bool waits, waited;	  /* it has time-outs that count; that do not */
};

/* Said of a machine, by whoever watches it. */
static bool is_of_node(enum saying_kind k)
{
	return k == SAY_GPU_ERROR || k == SAY_NETWORK_ERROR || k == SAY_NODE_FAILED ||
	       k == SAY_CANCELLED || k == SAY_WARNING;
}

/* Further steps came behind its line. What a program prints may lie in a buffer until it ends, and
   then comes behind the words of its end: if no step came before, it must be more of them. */
static bool steps_behind(const struct testimony *t, const struct scene_saying *y)
{
	int64_t later = t->steps - y->s.steps_at;

	if (y->s.kind == SAY_RENDEZVOUS || y->s.kind == SAY_CONFIGURATION)
		return later > 0; /* else it would not have come to a step */
	if (y->s.steps_at || is_of_node(y->s.kind))
		return later >= OUTLIVED_STEPS;
	return later >= (y->s.kind == SAY_FATAL ? BUFFERED_STEPS : CAUGHT_STEPS);
}

static bool outlived(const struct scene *s, const struct past *past, const struct scene_saying *y,
		     bool trouble)
{
	const struct testimony *t = s->files.v[y->file];
	int64_t later;

	if (past[y->file].old_attempt || y->s.last_line < past[y->file].done)
		return true;
	if (past[y->file].restarted > y->s.last_line && t->steps > y->s.steps_at)
		return true;
	/* a launcher of another node may begin late, but not when steps were made */
	if (past[y->file].launched > y->s.last_line && past[y->file].failed_again &&
	    (y->s.steps_at > 0 || past[y->file].hung_before))
		return true;
	if (y->s.steps_at >= 0 && t->steps)
		return steps_behind(t, y);
	if (y->s.last_ns <= 0 || s->last_step_ns <= 0)
		return false;
	later = s->last_step_ns - y->s.last_ns;
	return later > MAX(OUTLIVED_STEPS * s->step_ns, OUTLIVED_NS) &&
	       (!zones_apart(later) || !trouble);
}

static bool is_end(const struct scene_saying *y)
{
	return (y->s.kind == SAY_EXIT || y->s.kind == SAY_FIRST_FAILURE) && y->s.value != 0 &&
	       y->s.value != -SIGTERM && y->s.value != 128 + SIGTERM;
}

/* Launchers speak when all is over: the words of who ended count, wherever its steps stand. */
struct ends {
	bool *rank; /* by rank */
	bool nameless;
};

static struct ends ends_of(const struct scene *s, const struct past *past, bool trouble)
{
	struct ends e = { xcalloc((size_t)MAX(s->world_size, 0) + 1, sizeof(bool)), false };

	for (size_t i = 0; i < s->sayings.n; i++) {
		const struct scene_saying *y = &s->sayings.v[i];

		if (!is_end(y) || outlived(s, past, y, trouble))
			continue;
		if (y->s.rank >= 0 && y->s.rank < s->world_size)
			e.rank[y->s.rank] = true;
		else
			e.nameless = true;
	}
	return e;
}

static bool ended(const struct ends *e, const struct past *past, const struct scene_saying *y)
{
	if (past[y->file].old_attempt || past[y->file].restarted > y->s.last_line)
		return false;
	return e->nameless || (y->s.rank >= 0 && e->rank[y->s.rank]);
}

/* --- attempts --- */

/* Of torchrun's folders a later attempt of the same run makes the earlier ones old. */
static void find_attempts(const struct scene *s, struct past *past)
{
	struct newest {
		const char *run;
		size_t head;
		int64_t attempt;
	};
	VEC(struct newest) runs = { 0 };

	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < s->files.n; i++) {
			const struct testimony *t = s->files.v[i];
			const char *path = t->path == NO_ID ? "" : intern_get(&t->names, t->path);
			struct attempt a;
			size_t at = 0;

			if (!attempt_of_path(path, &a))
				continue;
			while (at < runs.n && (runs.v[at].head != a.run_len ||
					       memcmp(runs.v[at].run, path, a.run_len)))
				at++;
			if (at == runs.n)
				*vec_push(&runs) = (struct newest){ path, a.run_len, a.number };
			if (!pass)
				runs.v[at].attempt = MAX(runs.v[at].attempt, a.number);
			else
				past[i].old_attempt = a.number < runs.v[at].attempt;
		}
	free(runs.v);
}

/* --- the end --- */

/* slurm-4711.out: the job's number; -1. */
static int64_t slurm_job(const struct testimony *t)
{
	const char *path = t->path == NO_ID ? "" : intern_get(&t->names, t->path);
	const char *slash = strrchr(path, '/'), *at = strstr(slash ? slash : path, "slurm-");

	return at && at[6] >= '0' && at[6] <= '9' ? strtoll(at + 6, NULL, 10) : -1;
}

/* One job by two clocks: it begins and ends by as many half hours apart. */
static bool is_shifted(const struct past *a, const struct past *b)
{
	int64_t end = b->end_ns - a->end_ns;

	return zones_apart(end) && llabs(b->begin_ns - a->begin_ns - end) < ZONE_GRAIN_NS;
}

/* Of logs of which one ends before the other begins the older is of another job, or of a run that
   was started again. */
static void find_old_runs(const struct scene *s, struct past *past)
{
	const struct past *newest = NULL;
	int64_t job = -1;

	for (size_t i = 0; i < s->progress.n; i++) {
		const struct log_progress *p = &s->progress.v[i].p;
		struct past *f = &past[s->progress.v[i].file];

		if (p->first_ns <= 0)
			continue;
		f->begin_ns = f->begin_ns ? MIN(f->begin_ns, p->first_ns) : p->first_ns;
		f->end_ns = MAX(f->end_ns, p->last_ns);
	}
	for (size_t i = 0; i < s->files.n; i++)
		if (past[i].end_ns && s->files.v[i]->steps >= OUTLIVED_STEPS &&
		    (!newest || past[i].end_ns > newest->end_ns)) {
			newest = &past[i];
			job = slurm_job(s->files.v[i]);
		}
	for (size_t i = 0; newest && i < s->files.n; i++) {
		int64_t other = slurm_job(s->files.v[i]);
		bool two_jobs = job >= 0 && other >= 0 && other != job;

		past[i].old_attempt |= past[i].end_ns &&
				       past[i].end_ns < newest->begin_ns - OUTLIVED_NS &&
				       (two_jobs || !is_shifted(&past[i], newest));
	}
}

static bool breaks_a_job(const struct scene_saying *y)
{
	return y->s.kind == SAY_TIMEOUT || y->s.kind == SAY_EXCEPTION || y->s.kind == SAY_FATAL ||
	       is_end(y);
}

static void find_turns(const struct scene *s, struct past *past)
{
	for (size_t i = 0; i < s->sayings.n; i++) {
		const struct scene_saying *y = &s->sayings.v[i];

		if (y->s.kind == SAY_RESTART)
			past[y->file].restarted = y->s.last_line;
		if (y->s.kind == SAY_RESTART && y->s.value == RESTART_OF_ALL)
			past[y->file].launched = y->s.last_line;
		if (y->s.kind == SAY_DONE && y->s.rank <= 0)
			past[y->file].done = y->s.line;
	}
	for (size_t i = 0; i < s->progress.n; i++)
		past[s->progress.v[i].file].early |=
		    s->progress.v[i].p.last_step + 1 < s->progress.v[i].p.total_steps;
	for (size_t i = 0; i < s->sayings.n; i++) {
		const struct scene_saying *y = &s->sayings.v[i];

		struct past *f = &past[y->file];

		f->hung_before |= y->s.kind == SAY_TIMEOUT && y->s.line < f->launched;
		f->failed_again |= f->launched && y->s.last_line > f->launched && breaks_a_job(y);
	}
	/* who ends in the middle while others break is not done, whatever it says */
	for (size_t i = 0; i < s->sayings.n; i++) {
		const struct scene_saying *y = &s->sayings.v[i];
		struct past *f = &past[y->file];

		if (f->early && y->s.last_line > f->done &&
		    (breaks_a_job(y) || y->s.kind == SAY_PEER_LOST))
			f->done = 0;
	}
}

/* --- all of it --- */

/* What the job went on after. */
struct survived {
	size_t lines;
	uint32_t first;	  /* words of the first of them */
	int64_t rank;	  /* who said it */
	VEC(int64_t) out; /* ranks whose watchdogs spoke */
};

static void survived_add(struct survived *v, const struct scene_saying *y)
{
	if (!v->lines++) {
		v->first = y->s.text;
		v->rank = y->s.rank;
	}
	if (y->s.kind == SAY_TIMEOUT && y->s.rank >= 0)
		*vec_push(&v->out) = y->s.rank;
}

/* " (it hung: ranks 0-2,4-7 timed out and rank 3 did not)" */
static const char *old_hang(struct scene *s, struct survived *v)
{
	VEC(int64_t) silent = { 0 };
	_cleanup_free_ char *out = NULL, *rest = NULL;
	size_t n = 0;

	qsort(v->out.v, v->out.n, sizeof(*v->out.v), ranges_compare);
	for (size_t i = 0; i < v->out.n; i++)
		if (!n || v->out.v[n - 1] != v->out.v[i])
			v->out.v[n++] = v->out.v[i];
	for (int64_t rank = 0; rank < s->world_size && 2 * (int64_t)n > s->world_size; rank++)
		if (!ranges_has(v->out.v, n, rank))
			*vec_push(&silent) = rank;
	out = ranges_format(v->out.v, n);
	rest = ranges_format(silent.v, silent.n);
	free(silent.v);
	return scene_printf(s, " (it hung: rank%s %s timed out%s%s%s%s)", n == 1 ? "" : "s", out,
			    silent.n ? " and rank" : "",
			    silent.n > 1 ? "s "
			    : silent.n	 ? " "
					 : "",
			    silent.n ? rest : "", silent.n ? " did not" : "");
}

static void say_past(struct scene *s, struct survived *v)
{
	const char *story = "";

	if (!v->lines)
		return;
	if (v->out.n)
		story = old_hang(s, v);
	else if (v->first != NO_ID && v->rank >= 0)
		story = scene_printf(s, " (the first, of rank %" PRId64 ": %.100s)", v->rank,
				     intern_get(&s->names, v->first));
	*vec_push(&s->said) = scene_printf(
	    s, "that %zu %s of failures mean nothing for the end: the job went on after %s%s",
	    v->lines, v->lines == 1 ? "line" : "lines", v->lines == 1 ? "it" : "them", story);
}

static bool is_past(const struct scene *s, const struct past *past, const struct ends *ends,
		    const struct scene_saying *y, bool trouble)
{
	const struct past *f = &past[y->file];

	if (is_of_leaving(y->s.kind) && f->done && y->s.line > f->done)
		return true;
	return is_trouble(y->s.kind) && outlived(s, past, y, trouble) && !ended(ends, past, y);
}

void drop_past(struct building *b)
{
	struct scene *s = b->s;
	bool trouble = any_trouble(s);
	_cleanup_free_ struct past *past = xcalloc(s->files.n + 1, sizeof(*past));
	struct survived survived = { .first = NO_ID };
	size_t kept = 0;
	struct ends ends;

	find_last_step(s);
	find_attempts(s, past);
	find_turns(s, past);
	find_old_runs(s, past);
	ends = ends_of(s, past, trouble);
	for (size_t i = 0; i < s->sayings.n; i++) {
		const struct scene_saying *y = &s->sayings.v[i];
		bool gone = is_past(s, past, &ends, y, trouble);

		if (y->s.kind == SAY_TIMEOUT)
			*(gone ? &past[y->file].waited : &past[y->file].waits) = true;
		if (gone)
			survived_add(&survived, y);
		else
			s->sayings.v[kept++] = *y;
	}
	s->sayings.n = kept;
	say_past(s, &survived);
	free(survived.out.v);
	/* what watchdogs said of their standing when they spoke */
	for (size_t i = kept = 0; i < s->sayings.n; i++) {
		const struct scene_saying *y = &s->sayings.v[i];

		if (y->s.kind != SAY_STATUS || past[y->file].waits || !past[y->file].waited)
			s->sayings.v[kept++] = *y;
	}
	s->sayings.n = kept;
	free(ends.rank);
}
