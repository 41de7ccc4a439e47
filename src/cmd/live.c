/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.c - from the bytes of step records straight to who judges them, step after step.
 *
 * Records wait as bytes, by the number of their step, in a window of three steps. When the third
 * begins the first is closed: which records it has does not depend on when it is given on, while
 * nothing comes, or at the latest when a fourth begins. One step is decoded at a time.
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

/* Records of one step, each behind its length. */
struct waiting {
	uint64_t number;
	struct buf bytes;
};
struct live_rank {
	struct rank_stream stream; /* given to merge when the first step comes */
	int64_t rank;
	uint32_t unknown;
	bool wanted;
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
	uint64_t last_closed; /* number: no more is taken for steps up to this one */
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
	if (!l->ranks.v[rank].wanted || !merge_live_step(l->merge, rank, step) ||
	    l->steps[step->rank_row])
		return;
	rename_step(l, step);
	l->steps[step->rank_row] = step;
	l->any = true;
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

		take_record(l, first.number, span_of(p, len));
	}
	if (l->any) {
		if (l->job->first_step < 0)
			l->job->first_step = (int64_t)first.number;
		l->job->last_step = (int64_t)first.number;
		status = l->fn(l->user, first.number, l->steps);
	}
	arena_reset(&l->arena);
	l->any_closed = true;
	l->last_closed = MAX(l->last_closed, first.number);
	l->n_open--;
	memmove(l->open.v, l->open.v + 1, l->n_open * sizeof(*l->open.v));
	first.bytes.len = 0;
	l->open.v[l->n_open] = first; /* its memory is used again */
	return status;
}

/* The place of a step in the window, in order of numbers; NULL: it came too late. Before anybody
   takes the steps the window is as wide as the first piece that was read. */
static struct waiting *open_step(struct live *l, uint64_t number, int *status)
{
	struct waiting one;
	uint32_t at = 0;

	if (l->any_closed && number <= l->last_closed)
		return NULL;
	while (at < l->n_open && l->open.v[at].number < number)
		at++;
	if (at < l->n_open && l->open.v[at].number == number)
		return &l->open.v[at];
	if (l->fn && l->n_open >= OPEN_STEPS) {
		*status = give(l);
		at--;
	}
	if (l->n_open == l->open.n)
		*vec_push(&l->open) = (struct waiting){ 0 };
	one = l->open.v[l->n_open];
	one.number = number;
	memmove(l->open.v + at + 1, l->open.v + at, (l->n_open - at) * sizeof(*l->open.v));
	l->open.v[at] = one;
	l->n_open++;
	if (l->n_open >= OPEN_STEPS) {
		l->any_closed = true;
		l->last_closed = l->open.v[l->n_open - OPEN_STEPS].number;
		if (number <= l->last_closed)
			return NULL;
	}
	return &l->open.v[at];
}

static int take_bytes(void *user, uint64_t number, const uint8_t *bytes, size_t len)
{
	struct live *l = user;
	const struct option_steps *wanted = &l->options.steps;
	struct waiting *w;
	int status = 0;

	if (!l->begun)
		begin(l);
	if (!l->job || (wanted->first >= 0 && number < (uint64_t)wanted->first) ||
	    (wanted->last >= 0 && number > (uint64_t)wanted->last))
		return 0;
	l->stats.read.events++;
	w = open_step(l, number, &status);
	if (w)
		buf_put_string(&w->bytes, (const char *)bytes, len);
	else
		l->stats.late++;
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

	s.in_order = !s.late && !s.unknown;
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
