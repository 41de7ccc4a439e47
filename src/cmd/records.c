/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records.c - step records that somebody exported, on their way to merge.
 *
 * A file holds many ranks under one table of names; merge takes a stream a rank, each with names of
 * its own. So each step is encoded once more under the names of its rank, which keeps what follows
 * the same as for traces.
 */
#include "cmd/records.h"
#include "base/ranges.h"
#include "cmd/standing_witness.h"
#include "store/lks.h"

#define MEMORY_OF_FEW ((size_t)8 << 20) /* a rank's spool, before it goes to disk */
#define FEW_RANKS     64		/* beyond, one descriptor a rank would be too many */

struct record_rank {
	struct rank_stream stream;
	bool taken;	 /* the stream is another's */
	bool stands;	 /* it was told where it stood, and the job did not go on behind it */
	bool early_head; /* written before its steps were known */
	struct rank_standing standing;
	struct arena standing_arena;
	struct rank_info info; /* names are those of the file */
};
struct records {
	struct lks_reader *reader;
	struct intern names; /* of the file */
	struct option_steps steps;
	VEC(struct record_rank) ranks;
	size_t next; /* where the next record's rank is likely to be */
	struct buf encoded;
	size_t told;	 /* testimonies given */
	int64_t highest; /* rank so far */
	uint64_t bytes, n_steps;
	int status;
	struct error error;
};

static void *arena_copy(struct arena *arena, const void *p, size_t size)
{
	return size ? memcpy(arena_alloc(arena, size), p, size) : NULL;
}

static uint32_t head_name(struct rank_stream *stream, const struct intern *names, uint32_t id)
{
	return id == NO_ID ? NO_ID
			   : intern(&stream->names, intern_get(names, id), intern_len(names, id));
}

void records_take_head(struct rank_stream *stream, const struct intern *names,
		       const struct rank_info *info)
{
	struct rank_info *own = &stream->info;

	*own = *info;
	own->host = head_name(stream, names, info->host);
	own->gpu_name = head_name(stream, names, info->gpu_name);
	own->backend = head_name(stream, names, info->backend);
	own->groups =
	    arena_copy(&stream->arena, info->groups, info->n_groups * sizeof(*info->groups));
	for (uint32_t g = 0; g < info->n_groups; g++) {
		struct rank_group *group = &own->groups[g];

		group->name = head_name(stream, names, group->name);
		group->desc = head_name(stream, names, group->desc);
		if (group->ranks)
			group->ranks = arena_copy(&stream->arena, group->ranks,
						  group->n_ranks * sizeof(*group->ranks));
	}
	stream->gpu_kernels = info->kernels;
	stream->collectives = info->collectives;
}

/* Records come in the order of heads, step after step: the search begins behind the last one. */
static struct record_rank *rank_find(struct records *r, const struct rank_info *info)
{
	for (size_t i = 0; i < r->ranks.n; i++) {
		size_t at = (r->next + i) % r->ranks.n;
		const struct rank_info *own = &r->ranks.v[at].stream.info;

		if (own->rank == info->rank && (own->rank >= 0 || own->unknown == info->unknown)) {
			r->next = at + 1;
			return &r->ranks.v[at];
		}
	}
	return NULL;
}

static int records_rank(void *user, uint64_t row, const struct rank_info *info)
{
	struct records *r = user;
	struct record_rank *rank = NULL;

	(void)row;
	/* heads lie in order of rank: what is beyond the last one need not be looked for */
	if (info->rank <= r->highest)
		rank = rank_find(r, info);
	r->highest = MAX(r->highest, info->rank);
	if (!rank) {
		rank = vec_push(&r->ranks);
		*rank = (struct record_rank){ 0 };
		spool_init(&rank->stream.steps, r->ranks.n <= FEW_RANKS ? MEMORY_OF_FEW : SIZE_MAX);
	}
	records_take_head(&rank->stream, &r->names, info);
	rank->info = *info;
	rank->info.groups = NULL;
	return 0;
}

/* The step under its rank's names; arrays that hold no names are shared with the original. Phases
   and kernels whose names lay in a lost block are left out: nothing can be compared with them. */
static struct step step_renamed(struct records *r, struct record_rank *rank, struct arena *arena,
				const struct step *step)
{
	struct step own = *step;

	own.host_what = head_name(&rank->stream, &r->names, step->host_what);
	own.phases = arena_copy(arena, step->phases, step->n_phases * sizeof(*step->phases));
	own.kernels = arena_copy(arena, step->kernels, step->n_kernels * sizeof(*step->kernels));
	own.n_phases = own.n_kernels = 0;
	for (uint32_t i = 0; i < step->n_phases; i++) {
		own.phases[own.n_phases] = step->phases[i];
		own.phases[own.n_phases].name =
		    head_name(&rank->stream, &r->names, step->phases[i].name);
		own.n_phases += step->phases[i].name != NO_ID;
	}
	for (uint32_t i = 0; i < step->n_kernels; i++) {
		own.kernels[own.n_kernels] = step->kernels[i];
		own.kernels[own.n_kernels].name =
		    head_name(&rank->stream, &r->names, step->kernels[i].name);
		own.n_kernels += step->kernels[i].name != NO_ID;
	}
	return own;
}

static int records_step(void *user, const struct rank_info *info, const struct step *step)
{
	struct records *r = user;
	struct record_rank *rank = rank_find(r, info);
	struct buf head = { 0 };
	struct arena arena = { 0 };
	struct step own;
	int status;

	if (!rank || (r->steps.first >= 0 && step->number < (uint64_t)r->steps.first) ||
	    (r->steps.last >= 0 && step->number > (uint64_t)r->steps.last))
		return 0;
	own = step_renamed(r, rank, &arena, step);
	r->encoded.len = 0;
	step_encode(&r->encoded, &own);
	buf_put_varint(&head, r->encoded.len);
	status = spool_write(&rank->stream.steps, head.data, head.len, &r->error);
	if (status >= 0)
		status =
		    spool_write(&rank->stream.steps, r->encoded.data, r->encoded.len, &r->error);
	/* A head that was written before its steps does not know their times. */
	if (!rank->stream.n_steps)
		rank->early_head = step->start_ns >= rank->stream.info.last_ns;
	if (rank->early_head)
		rank->stream.info.last_ns =
		    MAX(rank->stream.info.last_ns, step->start_ns + MAX(step->wall_ns, (int64_t)0));
	rank->stream.no_marks |= (step->flags & STEP_WHOLE_FILE) != 0;
	rank->stream.n_steps++;
	r->n_steps++;
	buf_done(&head);
	arena_done(&arena);
	return status;
}

static struct standing_coll *colls_copy(struct arena *arena, const struct standing_coll *c,
					uint32_t n)
{
	return arena_copy(arena, c, n * sizeof(*c));
}

static int records_standing(void *user, const struct rank_info *info, const struct rank_standing *s)
{
	struct records *r = user;
	struct record_rank *rank = rank_find(r, info);

	if (!rank)
		return 0;
	arena_reset(&rank->standing_arena);
	rank->stands = true;
	rank->standing = *s;
	rank->standing.open =
	    arena_copy(&rank->standing_arena, s->open, s->n_open * sizeof(*s->open));
	rank->standing.pending = colls_copy(&rank->standing_arena, s->pending, s->n_pending);
	rank->standing.done = colls_copy(&rank->standing_arena, s->done, s->n_done);
	return 0;
}

struct records *records_new(const struct option_steps *steps)
{
	struct records *r = xcalloc(1, sizeof(*r));
	const struct lks_client client = {
		.user = r,
		.names = &r->names,
		.rank = records_rank,
		.step = records_step,
		.standing = records_standing,
	};

	r->steps = *steps;
	r->highest = -1;
	r->reader = lks_reader_new(&client);
	return r;
}

int records_feed(struct records *r, const void *bytes, size_t len)
{
	if (r->status < 0)
		return r->status;
	r->bytes += len;
	r->status = lks_reader_feed(r->reader, bytes, len, &r->error);
	return r->status;
}

/* What the job outlived is no standing any more. */
static void standings_settle(struct records *r)
{
	int64_t last = INT64_MIN;

	for (size_t i = 0; i < r->ranks.n; i++)
		if (r->ranks.v[i].stream.n_steps)
			last = MAX(last, r->ranks.v[i].stream.info.last_ns);
	for (size_t i = 0; i < r->ranks.n; i++)
		r->ranks.v[i].stands &= r->ranks.v[i].standing.time_ns >= last;
}

struct testimony *records_testimony(struct records *r)
{
	while (r->told < 2 * r->ranks.n) {
		const struct record_rank *rank = &r->ranks.v[r->told / 2];
		bool exit = r->told++ % 2;

		if (!rank->stands || rank->standing.state == RANK_CUT ||
		    (exit && rank->standing.state != RANK_GONE))
			continue;
		return exit ? standing_exit(&rank->standing, &rank->info, &r->names)
			    : standing_dump(&rank->standing, &rank->info, &r->names);
	}
	return NULL;
}

char *records_cut(const struct records *r)
{
	VEC(int64_t) ranks = { 0 };
	_cleanup_free_ char *set = NULL;
	int64_t step = -1;
	size_t n;

	for (size_t i = 0; i < r->ranks.n; i++) {
		const struct record_rank *rank = &r->ranks.v[i];

		if (!rank->stands || rank->standing.state != RANK_CUT)
			continue;
		*vec_push(&ranks) = rank->info.rank;
		step = MAX(step, rank->standing.step);
	}
	n = ranks.n;
	if (n) {
		qsort(ranks.v, n, sizeof(*ranks.v), ranges_compare);
		set = ranges_format(ranks.v, n);
	}
	free(ranks.v);
	return !n ? NULL
		  : xasprintf("the process%s of rank%s %s %s gone in the middle of step %" PRId64
			      ": the job was ended from outside, or broke; its log tells which",
			      n == 1 ? "" : "es", n == 1 ? "" : "s", set, n == 1 ? "was" : "were",
			      step);
}

int records_end(struct records *r, struct rank_stream **ret, size_t *ret_n,
		struct read_stats *ret_stats, struct error *reterr)
{
	uint64_t torn = 0, bad = 0;

	if (r->status >= 0)
		r->status = lks_reader_end(r->reader, &torn, &bad, &r->error);
	*ret_stats = (struct read_stats){ .bytes = r->bytes, .events = r->n_steps };
	ret_stats->skipped[SKIP_TRUNCATED] = torn > 0;
	ret_stats->skipped[SKIP_MALFORMED] = bad;
	ret_stats->lost_bytes = torn;
	*ret = xcalloc(r->ranks.n, sizeof(**ret));
	for (size_t i = 0; i < r->ranks.n; i++) {
		(*ret)[i] = r->ranks.v[i].stream;
		r->ranks.v[i].taken = true;
	}
	*ret_n = r->ranks.n;
	standings_settle(r);
	if (r->status < 0)
		error_set(reterr, r->status, "%s", r->error.text);
	else if (torn || bad)
		error_set(reterr, 0,
			  "cut %" PRIu64 " bytes of a torn tail and left out %" PRIu64
			  " damaged blocks",
			  torn, bad);
	return *ret_n ? 0 : r->status;
}

struct records *records_free(struct records *r)
{
	if (!r)
		return NULL;
	lks_reader_free(r->reader);
	for (size_t i = 0; i < r->ranks.n; i++) {
		if (!r->ranks.v[i].taken)
			rank_stream_done(&r->ranks.v[i].stream);
		arena_done(&r->ranks.v[i].standing_arena);
	}
	free(r->ranks.v);
	intern_done(&r->names);
	buf_done(&r->encoded);
	free(r);
	return NULL;
}
