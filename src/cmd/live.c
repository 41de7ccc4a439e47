/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.c - from the bytes of step records straight to who judges them, step after step.
 *
 * Records wait as bytes, by the number of their step, in a window of three steps. When the third
 * begins the first is closed: which records it has does not depend on when it is given on, while
 * nothing comes, or at the latest when a fourth begins. One step is decoded at a time.
 *
 * A number that falls while the rank's time goes on is of another run. The job was started again
 * when more than half of its ranks show that; until then what they bring is held. If the others go
 * on instead, those few count anew alone, and are left out.
 */
#include "cmd/live.h"
#include "cmd/records.h"
#include "base/ranges.h"
#include "store/lks.h"

#include <poll.h>
#include <unistd.h>

#define OPEN_STEPS 3u	  /* that records are taken for at one time */
#define READ_BYTES 65536u /* what a pipe holds */
#define IDLE_MS	   3	  /* a writer that is silent for longer works on its next step */

/* Which step of which run of the job. */
struct place {
	uint32_t run;
	uint64_t number;
};
/* Records of one step, each behind its length. */
struct waiting {
	struct place at;
	struct buf bytes;
};
struct live_rank {
	struct rank_stream stream; /* given to merge when the first step comes */
	int64_t rank;
	uint32_t unknown;
	bool wanted, seen;
	bool goes_on;		/* while it is not known whether the job was started again */
	bool alone;		/* it counts anew, the others do not */
	uint32_t run;		/* that its latest record is of */
	uint64_t number, first; /* of its latest step; of the first one of its run */
	int64_t start, first_start;
};
/* Ranks whose numbers fell, while it is not known whether the job was started again. */
struct ahead {
	VEC(struct waiting) steps; /* their records since */
	uint32_t ranks, on;	   /* on: that go on at that time with numbers that rise */
	int64_t before, after;	   /* they fell in between */
	uint32_t opened;	   /* steps that the others have begun since */
};
struct live {
	struct input *in;
	const char *path;
	struct live_options options;
	struct merge *merge;
	struct job *job;
	struct lks_reader *reader;
	struct intern names;   /* of the file */
	VEC(uint32_t) name_of; /* id of the file -> of the job */
	VEC(struct live_rank) ranks;
	VEC(uint32_t) rank_of; /* row of the file -> ranks; NO_ID */
	int64_t highest;       /* rank so far */
	bool begun, ended;

	VEC(struct waiting) open; /* n_open of them; the others lend their memory */
	uint32_t n_open;
	bool any_closed;
	struct place last_closed; /* no more is taken for steps up to this one */
	uint32_t run;		  /* of the job */
	struct ahead ahead;
	struct arena arena;
	int status;	     /* of who takes the steps */
	struct step **steps; /* [row] */
	bool any;	     /* of them is there */
	merge_step_fn fn;
	void *user;
	struct live_stats stats;
	struct error error;
};

/* --- heads --- */

static uint32_t rank_known(const struct live *l, const struct rank_info *info)
{
	for (size_t i = 0; info->rank <= l->highest && i < l->ranks.n; i++)
		if (l->ranks.v[i].rank == info->rank &&
		    (info->rank >= 0 || l->ranks.v[i].unknown == info->unknown))
			return (uint32_t)i;
	return NO_ID;
}

static int take_head(void *user, uint64_t row, const struct rank_info *info)
{
	struct live *l = user;
	uint32_t at = rank_known(l, info);

	if (at == NO_ID && !l->begun) {
		at = (uint32_t)l->ranks.n;
		*vec_push(&l->ranks) = (struct live_rank){
			.rank = info->rank,
			.unknown = info->unknown,
			.wanted = !l->options.ranks.n ||
				  ranges_has(l->options.ranks.v, l->options.ranks.n, info->rank),
		};
		spool_init(&l->ranks.v[at].stream.steps, SIZE_MAX);
		l->highest = MAX(l->highest, info->rank);
	}
	while (l->rank_of.n <= row)
		*vec_push(&l->rank_of) = NO_ID;
	l->rank_of.v[row] = at;
	if (!l->begun)
		records_take_head(&l->ranks.v[at].stream, &l->names, info);
	return 0;
}

/* All heads are there: the job. */
static void begin(struct live *l)
{
	bool any = false;

	l->begun = true;
	for (size_t i = 0; i < l->ranks.n; i++) {
		struct live_rank *r = &l->ranks.v[i];

		any |= r->wanted;
		if (r->wanted)
			merge_add(l->merge, i, l->path, &r->stream);
		else
			rank_stream_done(&r->stream);
	}
	if (any)
		l->job = merge_job_live(l->merge, &l->error);
	else
		error_set(&l->error, -ENODATA, "none of the ranks asked for is in what was given");
	if (l->job)
		l->steps = xcalloc(l->job->n_ranks, sizeof(struct step *));
}

/* --- steps --- */

static uint32_t job_name(struct live *l, uint32_t id)
{
	if (id == NO_ID)
		return NO_ID;
	while (l->name_of.n <= id) {
		uint32_t next = (uint32_t)l->name_of.n;

		*vec_push(&l->name_of) = intern(&l->job->names, intern_get(&l->names, next),
						intern_len(&l->names, next));
	}
	return l->name_of.v[id];
}

/* What has lost its name is left out: nothing can be compared with it. */
static void rename_step(struct live *l, struct step *s)
{
	uint32_t n = 0;

	s->host_what = job_name(l, s->host_what);
	for (uint32_t i = 0; i < s->n_phases; i++) {
		s->phases[n] = s->phases[i];
		s->phases[n].name = job_name(l, s->phases[i].name);
		n += s->phases[n].name != NO_ID;
	}
	s->n_phases = n;
	n = 0;
	for (uint32_t i = 0; i < s->n_kernels; i++) {
		s->kernels[n] = s->kernels[i];
		s->kernels[n].name = job_name(l, s->kernels[i].name);
		n += s->kernels[n].name != NO_ID;
	}
	s->n_kernels = n;
}

static void take_record(struct live *l, uint64_t number, struct span record)
{
	struct step *step = arena_alloc(&l->arena, sizeof(*step));
	uint32_t rank;

	if (lks_decode(l->reader, number, record, &l->arena, step) < 0) {
		l->stats.read.skipped[SKIP_MALFORMED]++;
		return;
	}
	rank = step->rank_row < l->rank_of.n ? l->rank_of.v[step->rank_row] : NO_ID;
	if (rank == NO_ID) {
		l->stats.unknown++;
		return;
	}
	l->stats.steps++;
	if (!l->ranks.v[rank].wanted || !merge_live_step(l->merge, rank, step))
		return;
	if (l->steps[step->rank_row]) {
		l->stats.doubled++;
		return;
	}
	rename_step(l, step);
	l->steps[step->rank_row] = step;
	l->any = true;
}

static int place_order(struct place a, struct place b)
{
	if (a.run != b.run)
		return a.run < b.run ? -1 : 1;
	return a.number < b.number ? -1 : a.number > b.number;
}

static void close_to(struct live *l, struct place at)
{
	if (!l->any_closed || place_order(at, l->last_closed) > 0)
		l->last_closed = at;
	l->any_closed = true;
}

/* The lowest open step goes on. */
static int give(struct live *l)
{
	struct waiting first = l->open.v[0];
	struct span in = span_of(first.bytes.data, first.bytes.len);
	int status = 0;

	l->any = false;
	memset(l->steps, 0, l->job->n_ranks * sizeof(struct step *));
	while (span_left(&in) && !in.bad) {
		size_t len;
		const char *p = span_string(&in, &len, SIZE_MAX);

		take_record(l, first.at.number, span_of(p, len));
	}
	if (l->any) {
		int64_t number = (int64_t)first.at.number;

		if (l->job->first_step < 0 || number < l->job->first_step)
			l->job->first_step = number;
		l->job->last_step = MAX(l->job->last_step, number);
		status = l->fn(l->user, first.at.number, l->steps);
	}
	arena_reset(&l->arena);
	close_to(l, first.at);
	l->n_open--;
	memmove(l->open.v, l->open.v + 1, l->n_open * sizeof(*l->open.v));
	first.bytes.len = 0;
	l->open.v[l->n_open] = first; /* its memory is used again */
	return status;
}

/* The place of a step in the window, in order of numbers; NULL: it came too late. Before anybody
   takes the steps the window is as wide as the first piece that was read. */
static struct waiting *open_step(struct live *l, struct place p, int *status)
{
	struct waiting one;
	uint32_t at = 0;

	if (l->any_closed && place_order(p, l->last_closed) <= 0)
		return NULL;
	while (at < l->n_open && place_order(l->open.v[at].at, p) < 0)
		at++;
	if (at < l->n_open && !place_order(l->open.v[at].at, p))
		return &l->open.v[at];
	l->ahead.opened++;
	if (l->fn && l->n_open >= OPEN_STEPS) {
		*status = give(l);
		at--;
	}
	if (l->n_open == l->open.n)
		*vec_push(&l->open) = (struct waiting){ 0 };
	one = l->open.v[l->n_open];
	one.at = p;
	memmove(l->open.v + at + 1, l->open.v + at, (l->n_open - at) * sizeof(*l->open.v));
	l->open.v[at] = one;
	l->n_open++;
	if (l->n_open >= OPEN_STEPS) {
		close_to(l, l->open.v[l->n_open - OPEN_STEPS].at);
		if (place_order(p, l->last_closed) <= 0)
			return NULL;
	}
	return &l->open.v[at];
}

/* --- runs --- */

static int take_at(struct live *l, struct place at, struct span record)
{
	int status = 0;
	struct waiting *w = open_step(l, at, &status);

	if (w)
		buf_put_string(&w->bytes, (const char *)record.p, span_left(&record));
	else
		l->stats.late++;
	return status;
}

/* No longer held: what fell is given to the run that has begun, or left out; what did not is of
   that run too, or of the one that goes on. */
static int ahead_end(struct live *l, bool begins)
{
	struct ahead *a = &l->ahead;
	int status = 0;

	l->run += begins;
	for (size_t i = 0; i < l->ranks.n; i++) {
		struct live_rank *r = &l->ranks.v[i];

		r->alone = begins ? r->alone && r->run != l->run && !r->goes_on
				  : r->alone || r->run > l->run;
		r->run = begins && r->goes_on ? l->run : MIN(r->run, l->run);
		r->goes_on = false;
	}
	for (size_t i = 0; i < a->steps.n; i++) {
		struct waiting *w = &a->steps.v[i];
		struct span in = span_of(w->bytes.data, w->bytes.len);
		bool fell = w->at.run == l->run + !begins;

		w->at.run = l->run;
		while (span_left(&in) && status >= 0) {
			size_t len;
			const char *p = span_string(&in, &len, SIZE_MAX);

			if (begins || !fell)
				status = take_at(l, w->at, span_of(p, len));
			else
				l->stats.alone++;
		}
		buf_done(&w->bytes);
	}
	a->steps.n = 0;
	a->ranks = a->on = 0;
	return status;
}

static int hold(struct live *l, struct place at, struct span record)
{
	struct ahead *a = &l->ahead;
	size_t i = 0;

	while (i < a->steps.n && place_order(a->steps.v[i].at, at))
		i++;
	if (i == a->steps.n)
		*vec_push(&a->steps) = (struct waiting){ .at = at };
	buf_put_string(&a->steps.v[i].bytes, (const char *)record.p, span_left(&record));
	if (2 * (size_t)a->ranks > l->ranks.n)
		return ahead_end(l, true);
	return 2 * (size_t)a->on >= l->ranks.n ? ahead_end(l, false) : 0;
}

/* Its numbers fell: the rank was started again, and perhaps the job. */
static void note_fall(struct live *l, struct live_rank *r, const struct step *s)
{
	struct ahead *a = &l->ahead;

	r->first = s->number;
	r->first_start = s->start_ns;
	if (r->run < l->run) { /* it comes after the others */
		r->run = l->run;
		r->alone = false;
		return;
	}
	r->run = l->run + 1;
	if (!a->ranks++) {
		a->before = r->start;
		a->after = s->start_ns;
		a->opened = 0;
	}
	a->before = MAX(a->before, r->start);
	a->after = MIN(a->after, s->start_ns);
}

/* Is it of the run that has begun for others, by its time? Of clocks that differ by more than the
   job was down nothing can be told. */
static bool is_behind(const struct live *l, int64_t start)
{
	return start > l->ahead.before + (l->ahead.after - l->ahead.before) / 2;
}

/* The run that a record is of. */
static uint32_t run_of(struct live *l, struct live_rank *r, const struct step *s)
{
	uint32_t run;

	if (!r->seen) { /* it joins */
		r->first = s->number;
		r->first_start = s->start_ns;
		r->run = l->run + (l->ahead.ranks && is_behind(l, s->start_ns));
	} else if (s->number <= r->number && s->start_ns > r->start) {
		note_fall(l, r, s);
	} else if ((r->run < l->run || r->alone) && l->run && is_behind(l, s->start_ns) &&
		   !l->ahead.ranks) {
		r->run = l->run; /* its steps before the restart are not all there */
		r->alone = false;
	}
	run = r->run;
	if (s->start_ns < r->first_start && s->number > r->first && run)
		return run - 1; /* out of order: of the run before */
	if (s->start_ns < r->first_start) {
		r->first = MIN(r->first, s->number);
		r->first_start = s->start_ns;
	}
	if (!r->seen || s->start_ns >= r->start) {
		r->number = s->number;
		r->start = s->start_ns;
	}
	r->seen = true;
	return run;
}

static int take_bytes(void *user, uint64_t number, const uint8_t *bytes, size_t len)
{
	struct live *l = user;
	const struct option_steps *wanted = &l->options.steps;
	struct span record = span_of(bytes, len);
	struct live_rank *r = NULL;
	struct place at = { l->run, number };
	struct step head;
	int status;

	if (!l->begun)
		begin(l);
	if (!l->job)
		return 0;
	if (step_peek(record, &head) && head.rank_row < l->rank_of.n &&
	    l->rank_of.v[head.rank_row] != NO_ID)
		r = &l->ranks.v[l->rank_of.v[head.rank_row]];
	if (r)
		at.run = run_of(l, r, &head);
	if ((wanted->first >= 0 && number < (uint64_t)wanted->first) ||
	    (wanted->last >= 0 && number > (uint64_t)wanted->last))
		return 0;
	l->stats.read.events++;
	if (r && r->alone) {
		l->stats.alone++;
		return 0;
	}
	if (r && !r->goes_on && l->ahead.ranks && at.run == l->run && is_behind(l, head.start_ns)) {
		r->goes_on = true;
		l->ahead.on++;
	}
	if (at.run > l->run || (r && r->goes_on))
		return hold(l, at, record);
	status = take_at(l, at, record);
	if (status >= 0 && l->ahead.ranks && l->ahead.opened > OPEN_STEPS)
		status = ahead_end(l, false);
	return status;
}

/* --- from the outside --- */

ssize_t live_stdin(void *user, void *buf, size_t len)
{
	struct live *l = user;
	struct pollfd in = { STDIN_FILENO, POLLIN, 0 };
	ssize_t n;

	while (l && l->fn && l->status >= 0 && l->n_open >= OPEN_STEPS &&
	       poll(&in, 1, IDLE_MS) == 0)
		l->status = give(l);
	do
		n = read(STDIN_FILENO, buf, len);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static void end(struct live *l, ssize_t n)
{
	uint64_t torn = 0, bad = 0;

	l->ended = true;
	lks_reader_end(l->reader, &torn, &bad, *l->error.text ? NULL : &l->error);
	l->stats.read.skipped[SKIP_TRUNCATED] = torn > 0 || input_state(l->in) == INPUT_TRUNCATED;
	l->stats.read.skipped[SKIP_MALFORMED] += bad;
	l->stats.read.lost_bytes = torn;
	if (l->ahead.ranks)
		ahead_end(l, false);
	if (*l->error.text)
		return;
	if (n < 0)
		error_set(&l->error, 0, "%s", strerror((int)-n));
	else if (input_state(l->in) != INPUT_GOOD)
		error_set(&l->error, 0, "%s", input_problem(l->in));
	else if (torn || bad)
		error_set(&l->error, 0,
			  "cut %" PRIu64 " bytes of a torn tail and left out %" PRIu64
			  " damaged blocks",
			  torn, bad);
}

/* One piece more; 0: there are none. */
static int feed(struct live *l)
{
	char bytes[READ_BYTES];
	ssize_t n = input_read(l->in, bytes, sizeof(bytes));
	int status = 0;

	if (l->status < 0)
		return l->status;
	if (n > 0) {
		l->stats.read.bytes += (uint64_t)n;
		status = lks_reader_feed(l->reader, bytes, (size_t)n, &l->error);
		if (status >= 0)
			return 1;
	}
	end(l, n);
	return status;
}

struct live *live_open(struct input *in, const char *path, const struct live_options *options,
		       struct merge *merge, struct job **ret_job, struct error *reterr)
{
	struct live *l = xcalloc(1, sizeof(*l));
	const struct lks_client client = {
		.user = l,
		.names = &l->names,
		.rank = take_head,
		.record = take_bytes,
	};
	int status = 1;

	l->in = in ? in : input_of_source(live_stdin, l);
	l->path = path;
	l->options = *options;
	l->merge = merge;
	l->highest = -1;
	l->reader = lks_reader_new(&client);
	while (status > 0 && !l->begun)
		status = feed(l);
	if (!l->job)
		error_set(reterr, -ENODATA, "%s",
			  *l->error.text ? l->error.text : "no step in what was given");
	*ret_job = l->job;
	return l;
}

int live_run(struct live *l, merge_step_fn fn, void *user, struct error *reterr)
{
	int status;

	l->fn = fn;
	l->user = user;
	while (l->n_open > OPEN_STEPS)
		if ((status = give(l)) < 0)
			return error_set(reterr, status, "%s", strerror(-status));
	status = l->ended ? 0 : 1;
	while (status > 0)
		status = feed(l);
	if (l->status < 0)
		return error_set(reterr, l->status, "%s", strerror(-l->status));
	/* what cannot be read any further does not undo what was */
	while (l->n_open)
		if ((status = give(l)) < 0)
			return error_set(reterr, status, "%s", strerror(-status));
	return 0;
}

struct live_stats live_stats(const struct live *l)
{
	struct live_stats s = l->stats;

	s.in_order = !s.late && !s.unknown && !s.alone;
	s.problem = l->error.text;
	return s;
}

size_t live_ranks(const struct live *l)
{
	return l->ranks.n;
}

uint32_t live_row(const struct live *l, size_t i)
{
	return l->ranks.v[i].wanted ? merge_row_of(l->merge, i) : NO_ID;
}

struct live *live_free(struct live *l)
{
	if (!l)
		return NULL;
	input_free(l->in);
	lks_reader_free(l->reader);
	for (size_t i = 0; i < l->ranks.n; i++)
		rank_stream_done(&l->ranks.v[i].stream);
	for (size_t i = 0; i < l->open.n; i++)
		buf_done(&l->open.v[i].bytes);
	for (size_t i = 0; i < l->ahead.steps.n; i++)
		buf_done(&l->ahead.steps.v[i].bytes);
	free(l->ahead.steps.v);
	free(l->open.v);
	free(l->ranks.v);
	free(l->rank_of.v);
	free(l->name_of.v);
	free(l->steps);
	intern_done(&l->names);
	arena_done(&l->arena);
	free(l);
	return NULL;
}
