/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline_lanes.c - who is who in a timeline: from the names of its processes and threads, "DP
 * rank [0]" and "PP rank 3, TP rank 0, compute", to lanes with a place in the layout.
 *
 * Lanes are numbered as Megatron numbers ranks, TP fastest, then DP, then PP. Where all lanes are
 * of one TP rank, each may stand for several ranks; thread numbers tell for how many, if they count
 * all ranks' threads in just this order.
 */
#include "read/timeline_inside.h"

#include <strings.h>

#define COORD_MAX 65535u
#define LANES_MAX (1u << 20)

static const char *const dim_words[TIMELINE_DIMS] = { "dp", "pp", "tp" };

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The number behind "DP rank", "dp_rank=", "PP", ..; false if the name has none. */
static bool coord_in(const char *name, const char *word, uint32_t *ret)
{
	static const char rank[] = "rank";

	for (const char *p = name; *p; p++) {
		const char *at = p + 2;
		uint32_t v = 0;

		if (strncasecmp(p, word, 2) || (p > name && is_letter(p[-1])))
			continue;
		at += strspn(at, " _-");
		if (!strncasecmp(at, rank, sizeof(rank) - 1))
			at += sizeof(rank) - 1;
		at += strspn(at, " _-=:#[(");
		if (*at < '0' || *at > '9')
			continue;
		for (; *at >= '0' && *at <= '9' && v <= COORD_MAX; at++)
			v = v * 10 + (uint32_t)(*at - '0');
		if (v > COORD_MAX)
			continue;
		*ret = v;
		return true;
	}
	return false;
}

static bool shows_communication(const char *name)
{
	for (const char *p = name; *p; p++)
		if (!strncasecmp(p, "comm", 4))
			return true;
	return false;
}

static const char *process_name(const struct timeline *t, uint64_t pid)
{
	for (size_t i = t->processes.n; i-- > 0;)
		if (t->processes.v[i].pid == pid)
			return intern_get(&t->names, t->processes.v[i].name);
	return "";
}

struct placed {
	uint32_t coord[TIMELINE_DIMS];
	uint32_t thread;
	bool used; /* something happened there: names alone tell of no rank */
};

/* The place of a thread: its own name counts before that of its process. */
static bool place(const struct timeline *t, uint32_t thread, struct placed *ret)
{
	const char *own = intern_get(&t->names, t->threads.v[thread].name);
	const char *of = process_name(t, t->threads.v[thread].pid);
	bool known[TIMELINE_DIMS];

	*ret = (struct placed){ .thread = thread };
	for (int d = 0; d < TIMELINE_DIMS; d++)
		known[d] = coord_in(own, dim_words[d], &ret->coord[d]) ||
			   coord_in(of, dim_words[d], &ret->coord[d]);
	return known[TIMELINE_DP] || known[TIMELINE_PP];
}

static void find_lanes(struct timeline *t, const struct placed *placed, size_t n)
{
	uint64_t numbers =
	    (uint64_t)t->size[TIMELINE_DP] * t->size[TIMELINE_PP] * t->size[TIMELINE_TP];

	t->lane_at = xmalloc((numbers + 1) * sizeof(*t->lane_at));
	memset(t->lane_at, 0xff, (numbers + 1) * sizeof(*t->lane_at));
	for (size_t i = 0; i < n; i++)
		if (placed[i].used)
			t->lane_at[timeline_number(t, placed[i].coord)] = 0;
	for (size_t k = 0; k < numbers; k++) {
		struct timeline_lane lane = { 0 };
		uint32_t rest = (uint32_t)k;

		if (t->lane_at[k] == NO_ID)
			continue;
		t->lane_at[k] = (uint32_t)t->lanes.n;
		lane.coord[TIMELINE_TP] = rest % t->size[TIMELINE_TP];
		rest /= t->size[TIMELINE_TP];
		lane.coord[TIMELINE_DP] = rest % t->size[TIMELINE_DP];
		lane.coord[TIMELINE_PP] = rest / t->size[TIMELINE_DP];
		*vec_push(&t->lanes) = lane;
	}
	for (size_t i = 0; i < n; i++) {
		struct timeline_thread *thread = &t->threads.v[placed[i].thread];
		bool inside = true;

		for (int d = 0; d < TIMELINE_DIMS; d++)
			inside &= placed[i].coord[d] < t->size[d];
		if (!inside)
			continue;
		thread->lane = t->lane_at[timeline_number(t, placed[i].coord)];
		thread->comm = shows_communication(intern_get(&t->names, thread->name));
	}
}

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Ranks a lane, from thread numbers that count the threads of all ranks; 0 if they do not. */
static uint32_t find_folds(const struct timeline *t)
{
	uint32_t n = (uint32_t)t->lanes.n, rows = 0, folds = 0;
	_cleanup_free_ uint64_t *least = xmalloc((n + 1) * sizeof(*least));
	_cleanup_free_ uint32_t *of = xcalloc(n + 1, sizeof(*of));

	memset(least, 0xff, (n + 1) * sizeof(*least));
	for (size_t i = 0; i < t->threads.n; i++) {
		const struct timeline_thread *thread = &t->threads.v[i];

		if (thread->lane == NO_ID)
			continue;
		if (!thread->number)
			return 0;
		least[thread->lane] = MIN(least[thread->lane], thread->tid);
		of[thread->lane]++;
		rows = MAX(rows, of[thread->lane]);
	}
	if (n < 2 || !rows)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		if (of[i] != rows || least[i] % rows || least[i] / rows > UINT32_MAX)
			return 0;
		folds = common_divisor(folds, (uint32_t)(least[i] / rows));
	}
	for (uint32_t i = 0; i < n; i++)
		if (least[i] / rows != (uint64_t)folds * timeline_number(t, t->lanes.v[i].coord))
			return 0;
	return folds;
}

int timeline_settle_lanes(struct timeline *t, struct error *reterr)
{
	_cleanup_free_ struct placed *placed = xmalloc((t->threads.n + 1) * sizeof(*placed));
	_cleanup_free_ bool *used = xcalloc(t->threads.n + 1, 1);
	size_t n = 0;
	bool any = false;

	for (size_t i = 0; i < t->events.n; i++)
		used[t->events.v[i].thread] = true;
	for (uint32_t i = 0; i < t->threads.n; i++)
		if (place(t, i, &placed[n])) {
			any |= used[i];
			placed[n++].used = used[i];
		}
	if (!any)
		return error_set(reterr, -EBADMSG,
				 t->events.n ? "no timeline of a job: no thread is named by its "
					       "place (\"DP rank 0\", \"PP rank 0\")"
					     : "no timeline: it has no event with a step");
	for (int d = 0; d < TIMELINE_DIMS; d++)
		t->size[d] = 1;
	for (size_t i = 0; i < n; i++)
		for (int d = 0; placed[i].used && d < TIMELINE_DIMS; d++)
			t->size[d] = MAX(t->size[d], placed[i].coord[d] + 1);
	if ((uint64_t)t->size[0] * t->size[1] > LANES_MAX ||
	    (uint64_t)t->size[0] * t->size[1] * t->size[2] > LANES_MAX)
		return error_set(reterr, -EBADMSG,
				 "a timeline of %u x %u x %u ranks (dp, pp, tp): more "
				 "than %u are not believed",
				 t->size[TIMELINE_DP], t->size[TIMELINE_PP], t->size[TIMELINE_TP],
				 LANES_MAX);
	find_lanes(t, placed, n);
	t->folds = t->size[TIMELINE_TP] > 1 ? 1 : find_folds(t);
	return 0;
}
