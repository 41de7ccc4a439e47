/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_groups.c - which groups of which ranks are one.
 *
 * Names are unique only within a rank in some versions, so a group is its name, description and
 * members; ranks that state no members join the group of that name that has them, or all who use
 * the name without members are one group. What names nothing is the group of all.
 */
#include "fold/merge_inside.h"

struct group_table {
	struct merge *m;
	uint32_t *slots;
	uint32_t mask;
	struct {
		struct job_group *v;
		size_t n, cap;
	} groups;
	struct {
		uint32_t *v;
		size_t n, cap;
	} * rows; /* by group, grown with groups */
	size_t rows_cap;
	uint32_t *first_named,
	    *next_named; /* groups with members by name, NO_ID ends; see name_index */
};

static uint64_t group_hash(const struct rank_group *g)
{
	uint64_t h = hash_mix(hash_mix(g->name, g->desc), g->size);

	return g->ranks ? hash_bytes(g->ranks, g->n_ranks * sizeof(*g->ranks), h) : h;
}

static bool job_group_is(const struct job_group *a, const struct rank_group *b)
{
	return a->name == b->name && a->desc == b->desc && a->size == b->size &&
	       a->n_ranks == b->n_ranks && !!a->ranks == !!b->ranks &&
	       (!a->ranks || !memcmp(a->ranks, b->ranks, a->n_ranks * sizeof(*a->ranks)));
}

static void table_grow(struct group_table *t)
{
	uint32_t size = t->slots ? (t->mask + 1) * 2 : 256;

	free(t->slots);
	t->slots = xcalloc(size, sizeof(*t->slots));
	t->mask = size - 1;
	for (uint32_t i = 0; i < t->groups.n; i++) {
		const struct job_group *g = &t->groups.v[i];
		struct rank_group key = { g->name, g->desc, g->size, g->ranks, g->n_ranks };
		uint32_t slot = (uint32_t)group_hash(&key) & t->mask;

		while (t->slots[slot])
			slot = (slot + 1) & t->mask;
		t->slots[slot] = i + 1;
	}
}

static uint32_t table_group(struct group_table *t, const struct rank_group *key)
{
	uint32_t slot;
	size_t old = t->rows_cap;

	if (!t->slots || t->groups.n * 2 >= t->mask)
		table_grow(t);
	slot = (uint32_t)group_hash(key) & t->mask;
	for (; t->slots[slot]; slot = (slot + 1) & t->mask)
		if (job_group_is(&t->groups.v[t->slots[slot] - 1], key))
			return t->slots[slot] - 1;
	t->rows = vec_reserve(t->rows, &t->rows_cap, t->groups.n + 1, sizeof(*t->rows));
	memset(t->rows + old, 0, (t->rows_cap - old) * sizeof(*t->rows));
	*vec_push(&t->groups) = (struct job_group){
		.name = key->name,
		.desc = key->desc,
		.size = key->size,
		.ranks = key->ranks,
		.n_ranks = key->n_ranks,
	};
	t->slots[slot] = (uint32_t)t->groups.n;
	return (uint32_t)t->groups.n - 1;
}

static void table_done(struct group_table *t)
{
	for (size_t i = 0; i < t->groups.n; i++)
		free(t->rows[i].v);
	free(t->rows);
	free(t->groups.v);
	free(t->slots);
	free(t->first_named);
	free(t->next_named);
}

/* The groups of several sources of one row, each once. */
static void groups_join(struct merge *m, struct rank_info *info, struct source *const *sources,
			size_t n)
{
	struct group_table t = { .m = m };

	for (size_t i = 0; i < n; i++)
		for (uint32_t g = 0; g < sources[i]->s.info.n_groups; g++) {
			struct rank_group key = sources[i]->s.info.groups[g];

			key.name = merge_name(sources[i], key.name);
			key.desc = merge_name(sources[i], key.desc);
			sources[i]->groups[g] = table_group(&t, &key);
		}
	info->n_groups = (uint32_t)t.groups.n;
	info->groups = arena_alloc(&m->job.arena, (t.groups.n + 1) * sizeof(*info->groups));
	for (uint32_t i = 0; i < info->n_groups; i++) {
		const struct job_group *g = &t.groups.v[i];

		info->groups[i] =
		    (struct rank_group){ g->name, g->desc, g->size, g->ranks, g->n_ranks };
	}
	table_done(&t);
}

/* The groups of a rank, and where each of its sources' groups is among them. Those of one source
   differ already. Members lie in the sources, which live as long as the job. */
static void row_groups(struct merge *m, struct source *const *sources, size_t n)
{
	struct rank_info *info = &m->job.ranks[sources[0]->row];
	struct source *s = sources[0];

	for (size_t i = 0; i < n; i++)
		sources[i]->groups = arena_alloc(
		    &m->job.arena, ((size_t)sources[i]->s.info.n_groups + 1) * sizeof(*s->groups));
	if (n > 1) {
		groups_join(m, info, sources, n);
		return;
	}
	info->n_groups = s->s.info.n_groups;
	info->groups =
	    arena_alloc(&m->job.arena, ((size_t)info->n_groups + 1) * sizeof(*info->groups));
	for (uint32_t g = 0; g < info->n_groups; g++) {
		info->groups[g] = s->s.info.groups[g];
		info->groups[g].name = merge_name(s, info->groups[g].name);
		info->groups[g].desc = merge_name(s, info->groups[g].desc);
		s->groups[g] = g;
	}
}

static int source_row_order(const void *a, const void *b)
{
	const struct source *const *x = a, *const *y = b;

	if ((*x)->row != (*y)->row)
		return (*x)->row < (*y)->row ? -1 : 1;
	return (*x)->key < (*y)->key ? -1 : (*x)->key > (*y)->key;
}

static void all_row_groups(struct merge *m)
{
	struct source **list = xmalloc((m->sources.n + 1) * sizeof(*list));
	size_t n = 0;

	for (size_t i = 0; i < m->sources.n; i++)
		if (m->sources.v[i].row != NO_ID)
			list[n++] = &m->sources.v[i];
	qsort(list, n, sizeof(*list), source_row_order);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && list[end]->row == list[i]->row; end++)
			;
		row_groups(m, list + i, end - i);
	}
	free(list);
}

static bool has_member(const struct job_group *g, int64_t rank)
{
	uint32_t low = 0, high = g->n_ranks;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (g->ranks[middle] < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low < g->n_ranks && g->ranks[low] == rank;
}

static void name_index(struct group_table *t)
{
	uint32_t n_names = t->m->job.names.n;

	t->first_named = xmalloc(((size_t)n_names + 1) * sizeof(*t->first_named));
	t->next_named = xmalloc((t->groups.n + 1) * sizeof(*t->next_named));
	for (uint32_t i = 0; i < n_names; i++)
		t->first_named[i] = NO_ID;
	for (uint32_t i = 0; i < t->groups.n; i++) {
		uint32_t name = t->groups.v[i].name;

		if (name == NO_ID)
			continue;
		t->next_named[i] = t->first_named[name];
		t->first_named[name] = i;
	}
}

/* For a rank that names a group without its members: the one of that name that it is a member of.
   NO_ID if there is none or more than one. */
static uint32_t stated_group(const struct group_table *t, const struct rank_group *key,
			     int64_t rank)
{
	uint32_t found = NO_ID;

	for (uint32_t i = t->first_named[key->name]; i != NO_ID; i = t->next_named[i]) {
		const struct job_group *g = &t->groups.v[i];

		if ((key->desc != NO_ID && g->desc != NO_ID && g->desc != key->desc) ||
		    (key->size && g->size != key->size) || !has_member(g, rank))
			continue;
		if (found != NO_ID)
			return NO_ID;
		found = i;
	}
	return found;
}

static void table_join(struct group_table *t, uint32_t group, uint32_t row)
{
	if (t->rows[group].n && t->rows[group].v[t->rows[group].n - 1] == row)
		return;
	*vec_push(&t->rows[group]) = row;
}

/* Two passes, those with members first, so that those without can find them. */
static void rows_join(struct group_table *t, bool stated)
{
	struct job *job = &t->m->job;

	for (uint32_t row = 0; row < job->n_ranks; row++) {
		const struct rank_info *info = &job->ranks[row];

		for (uint32_t g = 0; g < info->n_groups; g++) {
			const struct rank_group *key = &info->groups[g];
			uint32_t at = NO_ID;

			if (!!key->ranks != stated)
				continue;
			if (!stated && key->name != NO_ID)
				at = stated_group(t, key, info->rank);
			if (at == NO_ID)
				at = table_group(t, key);
			job->group_of[row][g] = at;
			table_join(t, at, row);
		}
	}
}

static int row_order(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* More users than the group is wide: the name stands for several groups that nothing tells apart.
   Its width is then unknown. */
static void group_settle(struct job *job, struct job_group *g)
{
	bool nameless = g->name == NO_ID && g->desc == NO_ID && !g->ranks;

	if (nameless && !g->size && job->world_size > 0)
		g->size = (uint32_t)job->world_size;
	if (!g->ranks && g->size && g->n_rows > g->size)
		g->size = 0;
}

void merge_groups(struct merge *m)
{
	struct group_table t = { .m = m };
	struct job *job = &m->job;

	job->group_of = arena_alloc(&job->arena, (job->n_ranks + 1) * sizeof(*job->group_of));
	all_row_groups(m);
	for (uint32_t row = 0; row < job->n_ranks; row++)
		job->group_of[row] = arena_alloc(
		    &job->arena, ((size_t)job->ranks[row].n_groups + 1) * sizeof(**job->group_of));
	rows_join(&t, true);
	name_index(&t);
	rows_join(&t, false);
	job->n_groups = (uint32_t)t.groups.n;
	job->groups = arena_alloc(&job->arena, (t.groups.n + 1) * sizeof(*job->groups));
	for (uint32_t i = 0; i < job->n_groups; i++) {
		struct job_group *g = &job->groups[i];
		uint32_t n = 0;

		*g = t.groups.v[i];
		qsort(t.rows[i].v, t.rows[i].n, sizeof(uint32_t), row_order);
		g->rows = arena_alloc(&job->arena, (t.rows[i].n + 1) * sizeof(uint32_t));
		for (size_t k = 0; k < t.rows[i].n; k++)
			if (!n || g->rows[n - 1] != t.rows[i].v[k])
				g->rows[n++] = t.rows[i].v[k];
		g->n_rows = n;
		group_settle(job, g);
	}
	table_done(&t);
}
