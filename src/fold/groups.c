/* SPDX-License-Identifier: Apache-2.0 */
/*
 * groups.c - the process groups of one rank: what pg_config lists first, then what the collectives
 * themselves name. Collectives that name no group share one without a name.
 */
#include "fold/inside.h"

static int rank_order(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* "[0, 1, 2]"; NULL when it is shortened ("...") or no list. */
static uint32_t *members_parse(struct arena *arena, const char *text, uint32_t *ret_n)
{
	uint32_t *ranks, n = 0;

	*ret_n = 0;
	if (text[0] != '[' || strstr(text, ".."))
		return NULL;
	ranks = arena_alloc(arena, (strlen(text) / 2 + 1) * sizeof(*ranks));
	for (const char *p = text + 1; *p && *p != ']';) {
		char *end;
		unsigned long v = strtoul(p, &end, 10);

		if (end == p || v > INT32_MAX)
			return NULL;
		ranks[n++] = (uint32_t)v;
		p = end + strspn(end, ", ");
	}
	if (n)
		qsort(ranks, n, sizeof(*ranks), rank_order);
	*ret_n = n;
	return n ? ranks : NULL;
}

static void row_add(struct groups *g, const struct rank_group *row)
{
	uint32_t name = row->name + 1, at = (uint32_t)g->rows.n;

	if (name >= g->n_named) {
		uint32_t n = MAX(name + 1, g->n_named * 2);

		g->named = xrealloc(g->named, n * sizeof(*g->named));
		for (; g->n_named < n; g->n_named++)
			g->named[g->n_named].first = g->named[g->n_named].last = NO_ID;
	}
	if (g->named[name].first == NO_ID)
		g->named[name].first = at;
	else
		g->next.v[g->named[name].last] = at;
	g->named[name].last = at;
	*vec_push(&g->next) = NO_ID;
	*vec_push(&g->rows) = *row;
}

void groups_init(struct groups *g, struct fold *f, struct arena *arena)
{
	*g = (struct groups){ .arena = arena };
	for (uint32_t i = 0; i < f->meta.n_groups; i++) {
		const struct trace_group *t = &f->meta.groups[i];
		struct rank_group row = { .name = t->name, .desc = t->desc, .size = t->size };

		if (t->ranks && t->n_ranks && (!t->size || t->n_ranks == t->size)) {
			row.ranks = arena_alloc(arena, t->n_ranks * sizeof(*row.ranks));
			memcpy(row.ranks, t->ranks, t->n_ranks * sizeof(*row.ranks));
			qsort(row.ranks, t->n_ranks, sizeof(*row.ranks), rank_order);
			row.n_ranks = t->n_ranks;
			row.size = t->n_ranks;
		}
		row_add(g, &row);
	}
}

static bool ids_agree(uint32_t a, uint32_t b)
{
	return a == b || a == NO_ID || b == NO_ID;
}

static bool group_is(const struct rank_group *row, const struct rank_group *want)
{
	if (row->name != want->name || !ids_agree(row->desc, want->desc))
		return false;
	if (row->size && want->size && row->size != want->size)
		return false;
	if (row->ranks && want->ranks)
		return row->n_ranks == want->n_ranks &&
		       !memcmp(row->ranks, want->ranks, want->n_ranks * sizeof(*want->ranks));
	return true;
}

uint32_t groups_of(struct groups *g, struct fold *f, uint32_t comm)
{
	const struct comm_args *a = &f->comms[comm];
	struct rank_group want = { .name = a->group, .desc = a->group_desc, .size = a->group_size };
	uint32_t i;

	if (g->n_of_comm < f->n_comms) {
		g->of_comm = xrealloc(g->of_comm, f->n_comms * sizeof(*g->of_comm));
		for (; g->n_of_comm < f->n_comms; g->n_of_comm++)
			g->of_comm[g->n_of_comm] = NO_ID;
	}
	if (g->of_comm[comm] != NO_ID)
		return g->of_comm[comm];
	/* What names no group is of the only one there is. */
	if (f->meta.n_groups == 1 && want.name == NO_ID && want.desc == NO_ID &&
	    a->ranks == NO_ID && (!want.size || want.size == g->rows.v[0].size))
		return g->of_comm[comm] = 0;
	if (a->ranks != NO_ID)
		want.ranks =
		    members_parse(g->arena, intern_get(&f->names, a->ranks), &want.n_ranks);
	i = want.name + 1 < g->n_named ? g->named[want.name + 1].first : NO_ID;
	while (i != NO_ID && !group_is(&g->rows.v[i], &want))
		i = g->next.v[i];
	if (i == NO_ID) {
		i = (uint32_t)g->rows.n;
		if (want.ranks)
			want.size = want.n_ranks;
		row_add(g, &want);
	} else if (!g->rows.v[i].ranks && want.ranks) {
		g->rows.v[i].ranks = want.ranks;
		g->rows.v[i].size = g->rows.v[i].n_ranks = want.n_ranks;
	}
	return g->of_comm[comm] = i;
}

void groups_done(struct groups *g)
{
	free(g->rows.v);
	free(g->next.v);
	free(g->named);
	free(g->of_comm);
	*g = (struct groups){ 0 };
}
