/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_read.c - pieces of logs and of GPU readings, made into sights in the order of their lines.
 *
 * A line's stamp tells how much older it is than the piece's last one; when that was written is
 * known from the file. So stamps of another zone, or of a clock that is wrong, do no harm.
 */
#include "watch/watch_read.h"

#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "read/log.h"
#include "read/power.h"
#include "read/witness.h"

static ssize_t span_source(void *user, void *buf, size_t len)
{
	struct span *s = user;
	size_t n = MIN(len, span_left(s));

	memcpy(buf, s->p, n);
	s->p += n;
	return (ssize_t)n;
}

/* --- logs --- */

struct log_piece {
	struct watch *w;
	uint32_t source;
	const struct watch_piece *p;
	const struct testimony *t;
	int64_t newest_ns; /* stamp in it; -1 */
	bool saves, evaluates;
	size_t told;
};

/* A saying that counts several is told at its last line; saves also at their first. */
struct told {
	uint64_t line;
	const struct saying *say;
	const struct log_progress *steps;
};

static int by_line(const void *a, const void *b)
{
	const struct told *x = a, *y = b;

	return (x->line > y->line) - (x->line < y->line);
}

static int64_t time_of(const struct log_piece *l, int64_t stamp_ns)
{
	int64_t at = l->p->at_ms;

	if (stamp_ns > 0 && l->newest_ns > 0 && stamp_ns <= l->newest_ns)
		at -= (l->newest_ns - stamp_ns) / 1000000;
	return l->p->history ? at : MAX(at, l->p->before_ms);
}

static const char *name_of(const struct log_piece *l, uint32_t id)
{
	return id == NO_ID ? NULL : intern_get(&l->t->names, id);
}

/* What is said once by the sayings that end a job, or begin something in it. */
static const struct {
	uint8_t sight; /* + 1 */
	bool sure;
	const char *what;
} of_saying[SAY_KINDS] = {
	[SAY_TIMEOUT] = { SIGHT_TIMEOUT + 1, false, "collective time-out" },
	[SAY_EXCEPTION] = { SIGHT_FAILURE + 1, false, "exception" },
	[SAY_FATAL] = { SIGHT_FAILURE + 1, false, "fatal" },
	[SAY_EXIT] = { SIGHT_FAILURE + 1, true, "exit" },
	[SAY_FIRST_FAILURE] = { SIGHT_FAILURE + 1, true, "first failure" },
	[SAY_OUT_OF_MEMORY] = { SIGHT_FAILURE + 1, false, "out of memory" },
	[SAY_GPU_ERROR] = { SIGHT_FAILURE + 1, false, "GPU error" },
	[SAY_NETWORK_ERROR] = { SIGHT_FAILURE + 1, false, "network error" },
	[SAY_RENDEZVOUS] = { SIGHT_FAILURE + 1, false, "rendezvous" },
	[SAY_CONFIGURATION] = { SIGHT_FAILURE + 1, false, "configuration" },
	[SAY_CANCELLED] = { SIGHT_FAILURE + 1, true, "cancelled" },
	[SAY_NODE_FAILED] = { SIGHT_FAILURE + 1, true, "node failed" },
	[SAY_DUMP_LOCAL] = { SIGHT_DUMP + 1, false, NULL },
	[SAY_RESTART] = { SIGHT_RESTART + 1, false, NULL },
	[SAY_SAVE_BEGIN] = { SIGHT_SAVE_BEGIN + 1, false, NULL },
	[SAY_SAVE_END] = { SIGHT_SAVE_END + 1, false, NULL },
	[SAY_EVALUATION] = { SIGHT_EVALUATION + 1, false, NULL },
	[SAY_DATA_WORK] = { SIGHT_PREPARES + 1, false, NULL },
	[SAY_COMPILE] = { SIGHT_PREPARES + 1, false, NULL },
	[SAY_DONE] = { SIGHT_DONE + 1, false, NULL },
};

static void tell_saying(struct log_piece *l, const struct saying *say, uint64_t line)
{
	uint8_t sight = of_saying[say->kind].sight;
	bool last = line == say->last_line && say->last_line != say->line;
	struct watch_seen s;
	char ended[64];

	/* Megatron's, behind a barrier of all ranks; other farewells are one rank's */
	if (say->kind == SAY_LEFT && say->rank <= 0 && say->what != NO_ID &&
	    !strcmp(name_of(l, say->what), "exiting program"))
		sight = SIGHT_DONE + 1;
	if (!sight || (say->kind == SAY_EXIT && say->value == 0))
		return;
	s = watch_seen_of((enum watch_sight)(sight - 1), l->source,
			  time_of(l, last ? say->last_ns : say->time_ns));
	s.rank = say->rank;
	s.value = say->value;
	s.host = name_of(l, say->host);
	s.what = name_of(l, say->what);
	s.text = name_of(l, say->text);
	s.sure = of_saying[say->kind].sure;
	s.history = l->p->history;
	s.span_ms = MAX(say->duration_ns, 0) / 1000000;
	if (say->kind == SAY_EXIT && say->value != EXIT_UNSEEN &&
	    !s.what) { /* its text is a command line */
		snprintf(ended, sizeof(ended),
			 say->value < 0 ? "a process was ended by signal %" PRId64
					: "a process ended with status %" PRId64,
			 say->value < 0 ? -say->value : say->value);
		s.what = ended;
		s.text = NULL;
	}
	if (!s.what)
		s.what = of_saying[say->kind].what;
	if (s.sight == SIGHT_DUMP)
		s.value = 1;
	l->told++;
	watch_saw(l->w, &s);
}

static double usual_pause(const struct log_progress *p)
{
	double most = 0;

	for (uint32_t i = 0; i < p->n_gaps; i++)
		if (p->gaps[i].ms > most)
			most = p->gaps[i].ms;
	return p->stamped && isfinite(most) && most < 1e10 ? most : 0;
}

static void tell_steps(struct log_piece *l, const struct log_progress *p)
{
	struct watch_seen s = watch_seen_of(SIGHT_STEPS, l->source, time_of(l, p->last_ns));

	s.rank = p->rank;
	s.value = p->last_step;
	s.total = p->total_steps;
	s.lines = (int64_t)p->lines;
	s.first_ms = p->stamped || p->first_ns > 0 ? time_of(l, p->first_ns) : s.at_ms;
	if (p->usual_ms > 0 && p->timed > 0)
		s.line_ms = p->usual_ms;
	if (isfinite(p->last_step_ms) && p->last_step_ms > 0)
		s.step_ms = p->last_step_ms;
	else if (s.line_ms > 0 && p->line_steps > 0)
		s.step_ms = s.line_ms / (double)p->line_steps;
	s.pause_ms = (int64_t)usual_pause(p);
	s.paused_to_save = l->saves;
	s.paused_to_evaluate = l->evaluates;
	s.again = p->restarts > 0;
	s.history = l->p->history;
	l->told++;
	watch_saw(l->w, &s);
}

static int64_t newest(const struct testimony *t)
{
	int64_t ns = -1;

	for (size_t i = 0; i < t->sayings.n; i++)
		ns = MAX(ns, MAX(t->sayings.v[i].time_ns, t->sayings.v[i].last_ns));
	for (size_t i = 0; i < t->progress.n; i++)
		ns = MAX(ns, t->progress.v[i].last_ns);
	return ns;
}

static void tell_ranks(struct log_piece *l)
{
	watch_knows_ranks(l->w, MAX(l->t->world_size, l->t->rank + 1));
	for (size_t i = 0; i < l->t->sayings.n; i++) {
		const struct saying *s = &l->t->sayings.v[i];

		watch_knows_ranks(l->w, s->rank + 1);
		if (s->kind == SAY_HELLO)
			watch_knows_ranks(l->w, s->value);
	}
}

static void tell_all(struct log_piece *l)
{
	VEC(struct told) v = { 0 };

	tell_ranks(l);
	for (size_t i = 0; i < l->t->sayings.n; i++) {
		const struct saying *s = &l->t->sayings.v[i];

		l->saves |= s->kind == SAY_SAVE_BEGIN || s->kind == SAY_SAVE_END;
		l->evaluates |= s->kind == SAY_EVALUATION;
		*vec_push(&v) = (struct told){ s->line, s, NULL };
		if (s->last_line > s->line)
			*vec_push(&v) = (struct told){ s->last_line, s, NULL };
	}
	for (size_t i = 0; i < l->t->progress.n; i++)
		*vec_push(&v) =
		    (struct told){ l->t->progress.v[i].last_line, NULL, &l->t->progress.v[i] };
	if (v.n)
		qsort(v.v, v.n, sizeof(*v.v), by_line);
	for (size_t i = 0; i < v.n; i++)
		if (v.v[i].say)
			tell_saying(l, v.v[i].say, v.v[i].line);
		else
			tell_steps(l, v.v[i].steps);
	free(v.v);
}

static void tell_loss(struct log_piece *l)
{
	struct watch_seen s = watch_seen_of(SIGHT_LOSS, l->source, l->p->at_ms);
	int64_t bad;
	bool good;

	if (!watch_loss_of(l->p->text, l->p->len, &bad, &good))
		return;
	s.number = 0;
	if (good || !bad)
		watch_saw(l->w, &s);
	s.number = NAN;
	s.value = bad;
	if (bad)
		watch_saw(l->w, &s);
}

size_t watch_read_log(struct watch *w, uint32_t source, const struct watch_piece *p)
{
	struct span span = span_of(p->text, p->len);
	struct input *in = input_of_source(span_source, &span);
	struct log_piece l = { .w = w, .source = source, .p = p };
	struct read_stats stats = { 0 };
	struct testimony *t = NULL;
	struct error e = { "" };

	if (log_read(in, p->path, &t, &stats, &e) >= 0) {
		log_settle_years(&t, 1);
		l.t = t;
		l.newest_ns = newest(t);
		tell_all(&l);
		tell_loss(&l);
		if (p->skipped)
			*p->skipped += stats.skipped[SKIP_TOO_LONG];
	}
	testimony_free(t);
	input_free(in);
	return l.told;
}

/* --- losses that are no numbers --- */

/* nan, inf, -inf as a word of its own. */
static bool is_no_number(const char *p, const char *end)
{
	static const char *const words[] = { "nan", "inf", "-inf", "-nan", "infinity" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t n = strlen(words[i]);

		if ((size_t)(end - p) >= n && !strncasecmp(p, words[i], n) &&
		    (p + n == end || !((p[n] | 32) >= 'a' && (p[n] | 32) <= 'z')))
			return true;
	}
	return false;
}

bool watch_loss_of(const char *text, size_t len, int64_t *ret_bad, bool *ret_good_before)
{
	const char *p = text, *end = text + len;
	bool any = false, good = false;
	int64_t bad = 0;

	while ((p = memmem(p, (size_t)(end - p), "oss", 3))) {
		bool loss = p > text && (p[-1] == 'l' || p[-1] == 'L');

		p += 3;
		if (!loss)
			continue;
		for (size_t n = 0; p < end && n < 16 && strchr(" \t'\":=|(", *p); n++)
			p++;
		if (p < end && is_no_number(p, end)) {
			bad++;
			any = true;
		} else if (p < end && ((*p >= '0' && *p <= '9') ||
				       (*p == '-' && end - p > 1 && p[1] >= '0' && p[1] <= '9'))) {
			good = any = true;
			bad = 0;
		}
	}
	*ret_bad = bad;
	*ret_good_before = good;
	return any;
}

/* --- GPUs --- */

struct gpu_at {
	int64_t at_ms;
	const struct gpu_series *g;
	const struct gpu_sample *s;
};

static int by_time(const void *a, const void *b)
{
	const struct gpu_at *x = a, *y = b;

	if (x->at_ms != y->at_ms)
		return x->at_ms < y->at_ms ? -1 : 1;
	return (x->g > y->g) - (x->g < y->g);
}

static void tell_sample(struct watch *w, uint32_t source, const struct testimony *t,
			const struct gpu_at *a)
{
	struct watch_gpu_seen s = {
		.source = source,
		.host = a->g->host == NO_ID ? "" : intern_get(&t->names, a->g->host),
		.index = a->g->index,
		.rank = a->g->rank,
		.at_ms = a->at_ms,
		.power_w = (double)a->s->power_w,
		.limit_w = (double)a->s->limit_w,
		.utilization = (double)a->s->utilization,
		.sm_clock_mhz = (double)a->s->sm_clock_mhz,
		.xid = a->g->xid,
	};

	watch_saw_gpu(w, &s);
}

/* Several samples in one piece lie between the last look and this one. */
static int64_t tell_gpus(struct watch *w, uint32_t source, const struct watch_piece *p,
			 const struct testimony *t)
{
	VEC(struct gpu_at) v = { 0 };
	int64_t newest_ns = -1;
	size_t n;

	for (size_t i = 0; i < t->gpus.n; i++)
		if (t->gpus.v[i].n_samples)
			newest_ns = MAX(newest_ns,
					t->gpus.v[i].samples[t->gpus.v[i].n_samples - 1].time_ns);
	for (size_t i = 0; i < t->gpus.n; i++) {
		const struct gpu_series *g = &t->gpus.v[i];

		for (uint32_t k = 0; k < g->n_samples; k++) {
			int64_t ns = g->samples[k].time_ns, at = p->at_ms;

			if (ns > 0 && newest_ns > 0)
				at -= (newest_ns - ns) / 1000000;
			else
				at -= (p->at_ms - p->before_ms) * (g->n_samples - 1 - k) /
				      g->n_samples;
			if (at > p->before_ms || p->history || k + 1 == g->n_samples)
				*vec_push(&v) = (struct gpu_at){ at, g, &g->samples[k] };
		}
	}
	if (v.n)
		qsort(v.v, v.n, sizeof(*v.v), by_time);
	for (size_t i = 0; i < v.n; i++)
		tell_sample(w, source, t, &v.v[i]);
	n = v.n;
	free(v.v);
	if (n)
		w->sources.v[source].tells_gpus = true;
	return (int64_t)n;
}

static const char *const gpu_formats[] = { "gpu-json", "prometheus", "nvidia-smi-dmon", "gpu-table",
					   "gpu-csv" };

int64_t watch_read_gpus(struct watch *w, uint32_t source, const struct watch_piece *p)
{
	int format = p->len ? witness_find(p->text, MIN(p->len, (size_t)65536), p->path) : -1;
	struct span span = span_of(p->text, p->len);
	struct read_stats stats = { 0 };
	struct testimony *t = NULL;
	struct error e = { "" };
	struct input *in;
	int64_t n = -1;
	bool ours = false;

	for (size_t i = 0; format >= 0 && i < ARRAY_SIZE(gpu_formats); i++)
		ours |= !strcmp(witness_formats[format].name, gpu_formats[i]);
	if (!ours)
		return -1;
	in = input_of_source(span_source, &span);
	if (witness_formats[format].read(in, p->path, &t, &stats, &e) >= 0)
		n = tell_gpus(w, source, p, t);
	testimony_free(t);
	input_free(in);
	return n;
}

/* --- Prometheus text --- */

/* lockstep_step{job="..",rank="3"} 17 */
static bool step_line(const char *p, const char *end, int64_t *rank, int64_t *step)
{
	static const char name[] = "lockstep_step";
	const char *label, *value = memrchr(p, ' ', (size_t)(end - p));
	char digits[24];
	size_t n;
	double v;

	if ((size_t)(end - p) < sizeof(name) || memcmp(p, name, sizeof(name) - 1) || !value ||
	    (p[sizeof(name) - 1] != '{' && p[sizeof(name) - 1] != ' '))
		return false;
	n = MIN((size_t)(end - value - 1), sizeof(digits) - 1);
	memcpy(digits, value + 1, n);
	digits[n] = '\0';
	if (digits[0] < '0' || digits[0] > '9')
		return false;
	v = strtod(digits, NULL);
	if (!(v < 9e15))
		return false;
	*step = (int64_t)v;
	label = memmem(p, (size_t)(end - p), "rank=\"", 6);
	*rank = -1;
	if (label) {
		label += 6;
		for (*rank = 0; label < end && *label >= '0' && *label <= '9' && *rank < INT32_MAX;
		     label++)
			*rank = *rank * 10 + (*label - '0');
	}
	return true;
}

size_t watch_read_metrics(struct watch *w, uint32_t source, const struct watch_piece *p)
{
	const char *at = p->text, *end = p->text + p->len, *line;
	int64_t gpus = watch_read_gpus(w, source, p);
	size_t len, told = gpus > 0 ? (size_t)gpus : 0;

	while (text_line_in(&at, end, &line, &len)) {
		struct watch_seen s = watch_seen_of(SIGHT_STEPS, source, p->at_ms);

		if (!step_line(line, line + len, &s.rank, &s.value))
			continue;
		watch_saw(w, &s);
		told++;
	}
	return told;
}

/* --- the scheduler's words --- */

static const struct {
	const char *word;
	enum watch_job_state state;
} job_words[] = {
	/* Slurm */
	{ "PENDING", JOB_PENDING },
	{ "CONFIGURING", JOB_PENDING },
	{ "REQUEUED", JOB_PENDING },
	{ "REQUEUE_HOLD", JOB_PENDING },
	{ "SUSPENDED", JOB_PENDING },
	{ "STOPPED", JOB_PENDING },
	{ "RUNNING", JOB_RUNNING },
	{ "COMPLETING", JOB_RUNNING },
	{ "STAGE_OUT", JOB_RUNNING },
	{ "RESIZING", JOB_RUNNING },
	{ "COMPLETED", JOB_DONE },
	{ "FAILED", JOB_FAILED },
	{ "TIMEOUT", JOB_FAILED },
	{ "CANCELLED", JOB_FAILED },
	{ "NODE_FAIL", JOB_FAILED },
	{ "OUT_OF_MEMORY", JOB_FAILED },
	{ "OUT_OF_ME+", JOB_FAILED },
	{ "PREEMPTED", JOB_FAILED },
	{ "BOOT_FAIL", JOB_FAILED },
	{ "DEADLINE", JOB_FAILED },
	{ "REVOKED", JOB_FAILED },
	/* its short words */
	{ "PD", JOB_PENDING },
	{ "CF", JOB_PENDING },
	{ "S", JOB_PENDING },
	{ "R", JOB_RUNNING },
	{ "CG", JOB_RUNNING },
	{ "CD", JOB_DONE },
	{ "F", JOB_FAILED },
	{ "TO", JOB_FAILED },
	{ "CA", JOB_FAILED },
	{ "NF", JOB_FAILED },
	{ "OOM", JOB_FAILED },
	{ "PR", JOB_FAILED },
	{ "BF", JOB_FAILED },
	{ "DL", JOB_FAILED },
	/* Kubernetes, Volcano, Kubeflow */
	{ "Pending", JOB_PENDING },
	{ "ContainerCreating", JOB_PENDING },
	{ "Running", JOB_RUNNING },
	{ "Succeeded", JOB_DONE },
	{ "Completed", JOB_DONE },
	{ "Complete", JOB_DONE },
	{ "Failed", JOB_FAILED },
	{ "Error", JOB_FAILED },
	{ "OOMKilled", JOB_FAILED },
	{ "CrashLoopBackOff", JOB_FAILED },
	{ "Evicted", JOB_FAILED },
	{ "Aborted", JOB_FAILED },
	{ "Terminated", JOB_FAILED },
};

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '+';
}

enum watch_job_state watch_job_of(const char *text, size_t len, char *ret_word, size_t size)
{
	const char *p = text, *end = text + len, *from;

	while (p < end) {
		while (p < end && !is_word(*p))
			p++;
		for (from = p; p < end && is_word(*p); p++)
			;
		for (size_t i = 0; i < ARRAY_SIZE(job_words); i++)
			if (line_is(from, (size_t)(p - from), job_words[i].word)) {
				snprintf(ret_word, size, "%s", job_words[i].word);
				return job_words[i].state;
			}
	}
	snprintf(ret_word, size, "gone");
	if (memmem(text, len, "nvalid job id", 13) || memmem(text, len, "NotFound", 8))
		return JOB_GONE;
	for (p = text; p < end; p++)
		if ((unsigned char)*p > ' ')
			return JOB_UNKNOWN;
	return JOB_GONE; /* squeue says nothing of a job that it forgot */
}

bool watch_read_job(struct watch *w, uint32_t source, const struct watch_piece *p)
{
	struct watch_seen s = watch_seen_of(SIGHT_JOB, source, p->at_ms);
	char word[64];

	s.value = watch_job_of(p->text, p->len, word, sizeof(word));
	s.text = word;
	if (s.value == JOB_UNKNOWN)
		return false;
	watch_saw(w, &s);
	return true;
}
