/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_groups.c - which groups of which ranks are one.
 *
 * Names are unique only within a rank in some versions, so a group is its name, description and
 * members; ranks that state no members join the group of that name that has them, or all who use
 * the name without members are one group. What names nothing is the group of all.
 */
#include "fold/merge_inside.h"

static bool members_same(const struct rank_group *a, const struct rank_group *b)
{
	return a->n_ranks == b->n_ranks && !!a->ranks == !!b->ranks &&
	       (!a->ranks || !memcmp(a->ranks, b->ranks, a->n_ranks * sizeof(*a->ranks)));
}

/* The groups of the sources of one row, each once. */
static void row_groups(struct merge *m, uint32_t row)
{
	struct rank_info *info = &m->job.ranks[row];
	size_t n = 0;

	for (size_t i = 0; i < m->sources.n; i++)
		if (m->sources.v[i].row == row)
			n += m->sources.v[i].s.info.n_groups;
	info->groups = arena_alloc(&m->job.arena, (n + 1) * sizeof(*info->groups));
	info->n_groups = 0;
	for (size_t i = 0; i < m->sources.n; i++) {
		struct source *s = &m->sources.v[i];

		if (s->row != row)
			continue;
		s->groups =
		    arena_alloc(&m->job.arena, (s->s.info.n_groups + 1) * sizeof(*s->groups));
		for (uint32_t g = 0; g < s->s.info.n_groups; g++) {
			struct rank_group group = s->s.info.groups[g];
			uint32_t k;

			group.name = merge_name(s, group.name);
			group.desc = merge_name(s, group.desc);
			for (k = 0; k < info->n_groups; k++)
				if (info->groups[k].name == group.name &&
				    info->groups[k].desc == group.desc &&
				    info->groups[k].size == group.size &&
				    members_same(&info->groups[k], &group))
					break;
			if (k == info->n_groups) {
				if (group.ranks) {
					uint32_t *copy = arena_alloc(&m->job.arena,
								     group.n_ranks * sizeof(*copy));

					memcpy(copy, group.ranks, group.n_ranks * sizeof(*copy));
					group.ranks = copy;
				}
				info->groups[info->n_groups++] = group;
			}
			s->groups[g] = k;
		}
	}
}

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

static bool has_member(const struct job_group *g, int64_t rank)
{
	for (uint32_t i = 0; i < g->n_ranks; i++)
		if (g->ranks[i] == rank)
			return true;
	return false;
}

/* For a rank that names a group without its members: the one of that name that it is a member of.
   NO_ID if there is none or more than one. */
static uint32_t stated_group(const struct group_table *t, const struct rank_group *key,
			     int64_t rank)
{
	uint32_t found = NO_ID;

	for (uint32_t i = 0; i < t->groups.n; i++) {
		const struct job_group *g = &t->groups.v[i];

		if (!g->ranks || g->name != key->name ||
		    (key->desc != NO_ID && g->desc != NO_ID && g->desc != key->desc) ||
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
	for (uint32_t row = 0; row < job->n_ranks; row++) {
		row_groups(m, row);
		job->group_of[row] = arena_alloc(&job->arena, (job->ranks[row].n_groups + 1) *
								  sizeof(**job->group_of));
	}
	rows_join(&t, true);
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
		free(t.rows[i].v);
		group_settle(job, g);
	}
	free(t.rows);
	free(t.groups.v);
	free(t.slots);
}
