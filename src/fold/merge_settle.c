/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_settle.c - which of the files given are of the one job to look at.
 *
 * People gather traces in one folder over months. Files are of one run of one job if their world
 * sizes agree and, for each rank, step numbers rise with time, no more than a week lies between one
 * trace and the next (a profiler's schedule writes steps 10-12 now and 100-102 hours later), and
 * the process groups do not contradict each other. Where a trace takes up within the hour at a step
 * that the run has had, but not at its first, the job was started again from a checkpoint. Clocks
 * of different ranks are not compared: one may be a year off. The run with most ranks stays, of
 * equals the latest; what is left out is said in one line a reason.
 */
#include "fold/merge_inside.h"

#include <stdio.h>

#define CONSECUTIVE_NS ((uint64_t)7 * 86400 * 1000000000)
#define EPOCH_NS       ((int64_t)1000000000 * 1000000000) /* below, times count from elsewhere */
#define LOOK_BACK      64   /* earlier traces or runs of a rank that a trace is compared with */
#define GROUPS_LOOK    1024 /* of a trace, when two are compared */
#define NAMES_SAID     3
#define RESTART_NS     ((uint64_t)3600 * 1000000000) /* a job that is down is soon up again */

/* How far b lies behind a; 0 if it does not. */
static uint64_t behind(int64_t a, int64_t b)
{
	return b <= a ? 0 : (uint64_t)b - (uint64_t)a;
}

/* How long there was no trace; 0 if that cannot be told: a trace whose end is lost has lost what
   its times count from. */
static uint64_t silence(int64_t last, int64_t first)
{
	return MIN(last, first) < EPOCH_NS ? 0 : behind(last, first);
}

static uint64_t last_number(const struct source *s)
{
	return s->steps[s->n_steps - 1].number;
}

static bool steps_meet(const struct source *a, const struct source *b)
{
	size_t i = 0, j = 0;

	while (i < a->n_steps && j < b->n_steps) {
		if (a->steps[i].number == b->steps[j].number)
			return true;
		if (a->steps[i].number < b->steps[j].number)
			i++;
		else
			j++;
	}
	return false;
}

static const char *host_of(const struct source *s)
{
	return intern_get(&s->s.names, s->s.info.host);
}

static bool hosts_agree(const struct source *a, const struct source *b)
{
	const char *x = host_of(a), *y = host_of(b);

	return !*x || !*y || !strcmp(x, y);
}

static bool same_name(const struct source *a, uint32_t x, const struct source *b, uint32_t y)
{
	return !strcmp(intern_get(&a->s.names, x), intern_get(&b->s.names, y));
}

/* Two traces of one rank: a process group has one name and one membership in both. They are listed
   in the order in which they were made, which a run of the same program repeats. */
static bool groups_agree(const struct source *a, const struct source *b)
{
	uint32_t n = MIN(MIN(a->s.info.n_groups, b->s.info.n_groups), (uint32_t)GROUPS_LOOK);

	for (uint32_t i = 0; i < n; i++) {
		const struct rank_group *g = &a->s.info.groups[i], *h = &b->s.info.groups[i];

		if (!g->ranks || !h->ranks || !same_name(a, g->name, b, h->name) ||
		    !same_name(a, g->desc, b, h->desc))
			continue;
		if (g->n_ranks != h->n_ranks ||
		    memcmp(g->ranks, h->ranks, g->n_ranks * sizeof(*g->ranks)) != 0)
			return false;
	}
	return true;
}

struct item {
	int64_t order; /* sorted by this first, */
	int64_t time;  /* then by this, then by place */
	size_t source;
};

static int item_order(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->order != y->order)
		return x->order < y->order ? -1 : 1;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->source < y->source ? -1 : x->source > y->source;
}

/* The kept files by rank and time; the caller frees. */
static struct item *items_by_rank(const struct merge *m, size_t *ret_n)
{
	struct item *list = xmalloc((m->sources.n + 1) * sizeof(*list));
	size_t n = 0;

	for (size_t i = 0; i < m->sources.n; i++) {
		const struct rank_info *info = &m->sources.v[i].s.info;

		if (!m->sources.v[i].left)
			list[n++] =
			    (struct item){ MAX(info->rank, (int64_t)-1), info->first_ns, i };
	}
	qsort(list, n, sizeof(*list), item_order);
	*ret_n = n;
	return list;
}

/* --- several world sizes --- */

struct world {
	int64_t size, last_ns;
	size_t ranks;
};

static bool world_better(const struct world *a, const struct world *b)
{
	return a->ranks != b->ranks ? a->ranks > b->ranks : a->last_ns > b->last_ns;
}

static void settle_world(struct merge *m)
{
	struct item *list = xmalloc((m->sources.n + 1) * sizeof(*list));
	struct world best = { .size = -1 }, now = { .size = -1 };
	size_t n = 0;

	for (size_t i = 0; i < m->sources.n; i++) {
		const struct rank_info *info = &m->sources.v[i].s.info;

		if (!m->sources.v[i].left && info->world_size >= 0)
			list[n++] = (struct item){ info->world_size, info->rank, i };
	}
	qsort(list, n, sizeof(*list), item_order);
	for (size_t i = 0; i < n; i++) {
		const struct rank_info *info = &m->sources.v[list[i].source].s.info;

		if (list[i].order != now.size)
			now = (struct world){ list[i].order, INT64_MIN, 0 };
		now.last_ns = MAX(now.last_ns, info->last_ns);
		now.ranks += !now.ranks || info->rank < 0 || list[i - 1].time != info->rank;
		if (best.size < 0 || now.size == best.size || world_better(&now, &best))
			best = now;
	}
	for (size_t i = 0; i < n; i++)
		if (list[i].order != best.size)
			m->sources.v[list[i].source].left = LEFT_OTHER_WORLD;
	free(list);
	m->job.world_size = best.size;
}

/* --- one rank twice at one time --- */

static bool is_copy(const struct source *a, const struct source *b)
{
	const struct rank_info *x = &a->s.info, *y = &b->s.info;

	return a->n_steps == b->n_steps && x->first_ns == y->first_ns && x->last_ns == y->last_ns &&
	       x->kernels == y->kernels && x->kernel_ns == y->kernel_ns &&
	       x->collectives == y->collectives && x->collective_ns == y->collective_ns &&
	       x->kernels + x->collectives && steps_meet(a, b);
}

static bool is_doubled(const struct source *a, const struct source *b)
{
	return a->s.info.first_ns <= b->s.info.last_ns && b->s.info.first_ns <= a->s.info.last_ns &&
	       steps_meet(a, b);
}

static size_t folder_len(const char *path)
{
	const char *slash = strrchr(path, '/'), *colon = strrchr(path, ':');
	const char *end = !slash || (colon && colon > slash) ? colon : slash;

	return end ? (size_t)(end - path) : 0;
}

static int folder_order(const void *a, const void *b)
{
	const struct source *const *x = a, *const *y = b;
	size_t n = folder_len((*x)->path), k = folder_len((*y)->path);
	int order = memcmp((*x)->path, (*y)->path, MIN(n, k));

	return order ? order : n < k ? -1 : n > k;
}

/* How many files lie beside each: of two jobs at one time, in a folder each, the larger stays. */
static void folders_count(struct merge *m)
{
	struct source **list = xmalloc((m->sources.n + 1) * sizeof(*list));

	for (size_t i = 0; i < m->sources.n; i++)
		list[i] = &m->sources.v[i];
	qsort(list, m->sources.n, sizeof(*list), folder_order);
	for (size_t i = 0, end; i < m->sources.n; i = end) {
		for (end = i + 1; end < m->sources.n && !folder_order(&list[i], &list[end]); end++)
			;
		for (size_t k = i; k < end; k++)
			list[k]->beside = end - i;
	}
	free(list);
}

static void settle_pair(struct merge *m, size_t a, size_t b)
{
	struct source *x = &m->sources.v[a], *y = &m->sources.v[b], *loser;
	bool copy = is_copy(x, y);

	if (!copy && (x->s.info.rank < 0 || !is_doubled(x, y)))
		return;
	if (!x->beside)
		folders_count(m);
	if (x->beside != y->beside)
		loser = x->beside < y->beside ? x : y;
	else
		loser = a < b ? y : x;
	loser->left = copy ? LEFT_COPY : LEFT_DOUBLED;
	loser->other = loser == x ? b : a;
}

static void settle_doubles(struct merge *m)
{
	size_t n;
	struct item *list = items_by_rank(m, &n);

	for (size_t i = 1; i < n; i++) {
		struct source *s = &m->sources.v[list[i].source];
		size_t looked = 0;

		for (size_t k = i; k-- && looked < LOOK_BACK && !s->left;) {
			if (list[k].order != list[i].order)
				break;
			if (m->sources.v[list[k].source].left)
				continue;
			looked++;
			settle_pair(m, list[k].source, list[i].source);
		}
	}
	free(list);
}

/* --- runs --- */

struct run {
	int64_t first_ns, last_ns;
	uint64_t first_step, last_step;
	size_t ranks;
};
struct rank_run { /* the last trace of a rank in a run */
	uint32_t run;
	size_t source;
};
struct rank_runs {
	struct rank_run *v;
	size_t n, cap;
};
struct sorting {
	struct merge *m;
	VEC(struct run) runs;
	struct rank_runs *of_rank; /* by place of the rank among all */
	uint32_t current;	   /* the run of the last file in time */
};

static bool goes_on(const struct source *before, const struct source *s, bool same_host)
{
	return s->steps[0].number > last_number(before) &&
	       silence(before->s.info.last_ns, s->s.info.first_ns) <= CONSECUTIVE_NS &&
	       (!same_host || hosts_agree(before, s)) && groups_agree(before, s);
}

/* From a checkpoint: at a step that the run has had, but not at its first. */
static bool starts_again(const struct run *run, const struct source *before, const struct source *s)
{
	uint64_t first = s->steps[0].number;

	return first > run->first_step && first <= last_number(before) &&
	       s->s.info.first_ns > before->s.info.last_ns &&
	       silence(before->s.info.last_ns, s->s.info.first_ns) <= RESTART_NS &&
	       groups_agree(before, s);
}

/* May the first file of a rank be of this run? Not if it has other steps, another week. */
static bool is_near(const struct run *run, const struct source *s)
{
	return s->s.no_marks || silence(run->last_ns, s->s.info.first_ns) <= CONSECUTIVE_NS ||
	       (s->steps[0].number <= run->last_step && last_number(s) >= run->first_step);
}

static struct rank_run *rank_run_find(const struct rank_runs *of, uint32_t run)
{
	for (size_t i = of->n, looked = 0; i-- && looked < LOOK_BACK; looked++)
		if (of->v[i].run == run)
			return &of->v[i];
	return NULL;
}

/* The run that the file goes on with; NO_ID: none. */
static uint32_t run_choose(const struct sorting *t, const struct rank_runs *of,
			   const struct source *s)
{
	const struct source *all = t->m->sources.v;
	const struct rank_run *now = rank_run_find(of, t->current);

	if (t->current == NO_ID)
		return NO_ID;
	if (!now && is_near(&t->runs.v[t->current], s))
		return t->current;
	if (now && starts_again(&t->runs.v[t->current], &all[now->source], s)) {
		t->m->restarted = true;
		return t->current;
	}
	for (int same_host = 1; same_host >= 0; same_host--) {
		if (now && goes_on(&all[now->source], s, same_host))
			return t->current;
		for (size_t i = of->n, looked = 0; i-- && looked < LOOK_BACK; looked++)
			if (goes_on(&all[of->v[i].source], s, same_host))
				return of->v[i].run;
	}
	return NO_ID;
}

static void run_take(struct sorting *t, struct rank_runs *of, size_t source)
{
	struct source *s = &t->m->sources.v[source];
	uint32_t at = run_choose(t, of, s);
	struct rank_run *of_rank;
	struct run *run;

	if (at == NO_ID) {
		at = (uint32_t)t->runs.n;
		*vec_push(&t->runs) =
		    (struct run){ s->s.info.first_ns, s->s.info.last_ns, UINT64_MAX, 0, 0 };
	}
	run = &t->runs.v[at];
	run->last_ns = MAX(run->last_ns, s->s.info.last_ns);
	run->first_step = MIN(run->first_step, s->steps[0].number);
	run->last_step = MAX(run->last_step, last_number(s));
	of_rank = rank_run_find(of, at);
	if (s->s.info.rank < 0) {
		run->ranks++;
	} else if (of_rank) {
		of_rank->source = source;
	} else {
		run->ranks++;
		*vec_push(of) = (struct rank_run){ at, source };
	}
	s->run = t->current = at;
}

/* All kept files to their runs, in order of time. */
static void runs_sort(struct sorting *t)
{
	size_t n;
	struct item *list = items_by_rank(t->m, &n);
	int64_t place = -1, last = INT64_MIN;

	for (size_t i = 0; i < n; i++) {
		place += list[i].order != last;
		last = list[i].order;
		list[i].order = list[i].time;
		list[i].time = place;
	}
	t->of_rank = xcalloc((size_t)(place + 2), sizeof(*t->of_rank));
	qsort(list, n, sizeof(*list), item_order);
	for (size_t i = 0; i < n; i++)
		run_take(t, &t->of_rank[list[i].time], list[i].source);
	for (int64_t i = 0; i <= place; i++)
		free(t->of_rank[i].v);
	free(t->of_rank);
	free(list);
}

static char *run_words(const struct run *kept, const struct run *other, size_t others)
{
	static const struct {
		uint64_t ns;
		const char *name;
	} units[] = { { 86400, "days" }, { 3600, "hours" }, { 60, "minutes" }, { 1, "seconds" } };
	bool later = other->first_ns > kept->first_ns;
	uint64_t s = (later ? behind(kept->first_ns, other->first_ns)
			    : behind(other->first_ns, kept->first_ns)) /
		     1000000000;
	size_t u = 0;

	if (others > 1)
		return xasprintf("%zu other runs of the same ranks", others);
	while (u + 1 < ARRAY_SIZE(units) && s < 2 * units[u].ns)
		u++;
	return xasprintf("another run of the same ranks, recorded %" PRIu64 " %s %s",
			 s / units[u].ns, units[u].name, later ? "later" : "earlier");
}

/* Returns what the other runs are, in words, or NULL if there is one run. */
static char *settle_runs(struct merge *m)
{
	struct sorting t = { .m = m, .current = NO_ID };
	uint32_t best = 0;
	char *words = NULL;

	runs_sort(&t);
	for (uint32_t i = 1; i < t.runs.n; i++) {
		const struct run *a = &t.runs.v[i], *b = &t.runs.v[best];

		if (a->ranks > b->ranks || (a->ranks == b->ranks && a->last_ns > b->last_ns))
			best = i;
	}
	for (size_t i = 0; i < m->sources.n && t.runs.n > 1; i++)
		if (!m->sources.v[i].left && m->sources.v[i].run != best)
			m->sources.v[i].left = LEFT_OTHER_RUN;
	if (t.runs.n > 1)
		words = run_words(&t.runs.v[best], &t.runs.v[best ? 0 : 1], t.runs.n - 1);
	free(t.runs.v);
	return words;
}

/* --- what is said --- */

/* "a, b, c, .." of the files left out for a reason; *ret_n: how many files. */
static char *files_left(const struct merge *m, enum left_out left, size_t *ret_n)
{
	struct buf out = { 0 };
	const char *last = NULL;
	size_t n = 0;

	for (size_t i = 0; i < m->sources.n; i++) {
		const struct source *s = &m->sources.v[i];
		_cleanup_free_ char *text = NULL;
		char rank[32] = "";

		if (s->left != left || (last && !strcmp(last, s->path))) /* ranks of one file */
			continue;
		last = s->path;
		if (n++ > NAMES_SAID)
			continue;
		if (s->s.info.rank >= 0)
			snprintf(rank, sizeof(rank), "rank %" PRId64 ", ", s->s.info.rank);
		if (n > NAMES_SAID)
			text = xstrdup(", ..");
		else if (left == LEFT_COPY || left == LEFT_DOUBLED)
			text = xasprintf("%s%s (%sas %s)", n > 1 ? ", " : "", s->path, rank,
					 m->sources.v[s->other].path);
		else
			text = xasprintf("%s%s", n > 1 ? ", " : "", s->path);
		buf_put(&out, text, strlen(text));
	}
	buf_put(&out, "", 1);
	*ret_n = n;
	return (char *)out.data;
}

static void say(struct merge *m, enum left_out left, const char *what)
{
	size_t n;
	_cleanup_free_ char *files = files_left(m, left, &n);

	if (n)
		*vec_push(&m->warnings) =
		    xasprintf("left out %zu %s %s: %s", n, n == 1 ? "file" : "files", what, files);
}

static void say_world(struct merge *m)
{
	_cleanup_free_ char *world =
	    xasprintf("of another job (the one looked at has %" PRId64 " ranks, they another "
		      "number)",
		      m->job.world_size);

	say(m, LEFT_OTHER_WORLD, world);
}

void merge_settle(struct merge *m)
{
	_cleanup_free_ char *runs = NULL, *of_runs = NULL;

	for (size_t i = 0; i < m->sources.n; i++)
		if (!m->sources.v[i].n_steps)
			m->sources.v[i].left = LEFT_NO_STEPS;
	settle_world(m);
	settle_doubles(m);
	runs = settle_runs(m);
	of_runs = xasprintf("of %s", runs ? runs : "");
	say(m, LEFT_NO_STEPS, "with no step to look at");
	say_world(m);
	say(m, LEFT_OTHER_RUN, of_runs);
	say(m, LEFT_COPY, "copied from another");
	say(m, LEFT_DOUBLED, "of a rank that another file has at the same time and steps");
}

void merge_settle_world(struct merge *m)
{
	settle_world(m);
	say_world(m);
}
