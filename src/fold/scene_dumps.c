/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_dumps.c - which dumps make the last recording, and where each rank stands by it.
 *
 * One folder may hold a pickle and its JSON twin, dumps of two moments, or of two jobs. Twins
 * count once; of a rank's dumps the latest counts and the one before it tells whether anything
 * moved; of two jobs the one with more ranks is judged, and the rest is said.
 */
#include "fold/scene_inside.h"

#include "base/ranges.h"
#include "base/stats.h"

#define STALE_NS ((int64_t)3600 * 1000000000)

/* --- which dumps --- */

bool states_no_ranks(const char *text)
{
	return !*text || !strcmp(text, "[]");
}

/* The members of the default group as the dump states them: the same in all dumps of a job. */
static uint32_t job_of(const struct building *b, const struct dump_view *v)
{
	for (size_t i = 0; i < v->groups.n; i++) {
		const struct standing_group *g = &b->st->groups.v[v->groups.v[i].group];
		const char *desc = intern_get(&b->st->names, g->desc);

		if (g->ranks != NO_ID && (!strcmp(desc, "default_pg") || !*desc) &&
		    !states_no_ranks(intern_get(&b->st->names, g->ranks)))
			return g->ranks;
	}
	return NO_ID;
}

static uint32_t largest_job(const struct building *b)
{
	uint32_t best = NO_ID;
	size_t most = 0;

	for (size_t i = 0; i < b->n; i++) {
		uint32_t job = b->parts[i].view ? job_of(b, b->parts[i].view) : NO_ID;
		size_t count = 0;

		if (job == NO_ID || job == best)
			continue;
		for (size_t k = i; k < b->n; k++)
			count += b->parts[k].view && job_of(b, b->parts[k].view) == job;
		if (count > most) {
			most = count;
			best = job;
		}
	}
	return best;
}

static int by_rank_and_time(const void *a, const void *b, void *names)
{
	const struct dump_view *x = *(struct dump_view *const *)a,
			       *y = *(struct dump_view *const *)b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return strcmp(intern_get(names, x->path), intern_get(names, y->path));
}

/* Dumps of a much earlier time than most are of another moment: an old hang's files. */
static int64_t oldest_allowed(struct dump_view *const *v, size_t n)
{
	_cleanup_free_ double *seconds = xmalloc((n + 1) * sizeof(*seconds));
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		if (v[i]->time_ns > 0)
			seconds[count++] = (double)v[i]->time_ns / 1e9;
	return count < 2 ? INT64_MIN : (int64_t)(stats_median(seconds, count) * 1e9) - STALE_NS;
}

static bool is_json(const char *path)
{
	size_t len = strlen(path);

	return len > 5 && !strcmp(path + len - 5, ".json");
}

static size_t folder_len(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) : 0;
}

/* One dump in two files: side by side, or as pickle and as JSON. The same words in another folder
   are a later recording in which nothing had moved. */
static bool are_twins(const struct intern *names, const struct dump_view *a,
		      const struct dump_view *b)
{
	const char *x = intern_get(names, a->path), *y = intern_get(names, b->path);
	size_t len = folder_len(x);

	return a->rank == b->rank && a->fingerprint == b->fingerprint &&
	       (is_json(x) != is_json(y) || (folder_len(y) == len && !memcmp(x, y, len)));
}

static void say_left_out(struct building *b, size_t other_job, size_t stale, size_t nameless)
{
	struct scene *s = b->s;

	if (other_job)
		*vec_push(&s->said) = scene_printf(
		    s, "%zu dump%s of another job (other members of its default group) %s left out",
		    other_job, other_job == 1 ? "" : "s", other_job == 1 ? "is" : "are");
	if (stale)
		*vec_push(&s->said) =
		    scene_printf(s, "%zu dump%s of more than an hour before the others %s left out",
				 stale, stale == 1 ? "" : "s", stale == 1 ? "is" : "are");
	if (nameless)
		*vec_push(&s->said) = scene_printf(
		    s, "%zu dump%s whose rank neither name nor content tells %s left out", nameless,
		    nameless == 1 ? "" : "s", nameless == 1 ? "is" : "are");
}

/* Ranks with several dumps that differ: said where they are few, else they are a recording. */
static void say_doubled(struct building *b)
{
	VEC(int64_t) ranks = { 0 };
	_cleanup_free_ char *set = NULL;

	for (size_t i = 0; i < b->chosen.n; i++)
		if (b->earlier.v[i])
			*vec_push(&ranks) = b->chosen.v[i]->rank;
	if (ranks.n && 2 * ranks.n <= b->chosen.n) {
		set = ranges_format(ranks.v, ranks.n);
		*vec_push(&b->s->said) =
		    scene_printf(b->s, "of rank%s %s several dumps were given: the latest counts",
				 ranks.n == 1 ? "" : "s", set);
	}
	free(ranks.v);
}

/* The Flight Recorder and our tracer count a rank's collectives each in its own way: of one job one
   of them is taken, the recorder if it tells of half as many ranks. */
static bool takes_recorder(const struct building *b, uint32_t job)
{
	size_t recorder = 0, traced = 0;

	for (size_t i = 0; i < b->n; i++) {
		const struct dump_view *v = b->parts[i].view;
		uint32_t of = v ? job_of(b, v) : NO_ID;

		if (!v || v->rank < 0 || (of != NO_ID && of != job))
			continue;
		traced += v->traced;
		recorder += !v->traced;
	}
	return recorder && 2 * recorder >= traced;
}

void choose_dumps(struct building *b)
{
	VEC(struct dump_view *) all = { 0 };
	uint32_t job = largest_job(b);
	const bool recorder = takes_recorder(b, job);
	size_t other = 0, stale = 0, nameless = 0, kept = 0;
	int64_t oldest;

	for (size_t i = 0; i < b->n; i++) {
		struct dump_view *v = b->parts[i].view;
		uint32_t of = v ? job_of(b, v) : NO_ID;

		if (!v || v->traced == recorder)
			continue;
		if (v->rank < 0)
			nameless++;
		else if (of != NO_ID && of != job)
			other++;
		else
			*vec_push(&all) = v;
	}
	if (all.n)
		qsort_r(all.v, all.n, sizeof(*all.v), by_rank_and_time,
			(void *)(uintptr_t)&b->st->names);
	for (size_t i = 0; i < all.n; i++) /* twins count once, the first by path */
		if (!kept || !are_twins(&b->st->names, all.v[kept - 1], all.v[i]))
			all.v[kept++] = all.v[i];
	oldest = oldest_allowed(all.v, kept);
	for (size_t i = 0; i < kept; i++) {
		bool last = i + 1 == kept || all.v[i + 1]->rank != all.v[i]->rank;
		bool has_earlier = i && all.v[i - 1]->rank == all.v[i]->rank;

		if (!last)
			continue;
		if (all.v[i]->time_ns > 0 && all.v[i]->time_ns < oldest) {
			stale++;
			continue;
		}
		*vec_push(&b->chosen) = all.v[i];
		*vec_push(&b->earlier) = has_earlier ? all.v[i - 1] : NULL;
	}
	b->s->n_dumps = (uint32_t)b->chosen.n;
	say_doubled(b);
	say_left_out(b, other, stale, nameless);
	free(all.v);
}
