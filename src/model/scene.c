/* SPDX-License-Identifier: Apache-2.0 */
/* scene.c - see scene.h */
#include "model/scene.h"

uint32_t scene_row(const struct scene *s, int64_t rank)
{
	size_t low = 0, high = s->ranks.n;

	if (rank < 0)
		return NO_ID;
	while (low < high) { /* unknown ones are last */
		size_t middle = low + (high - low) / 2;
		int64_t at = s->ranks.v[middle].rank;

		if (at == rank)
			return (uint32_t)middle;
		if (at >= 0 && at < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return NO_ID;
}

bool scene_group_is_world(const struct scene *s, const struct scene_group *g)
{
	const char *name = intern_get(&s->names, g->name), *desc = intern_get(&s->names, g->desc);

	return !strcmp(desc, "default_pg") ||
	       (!strcmp(name, "0") && (!*desc || !strcmp(desc, "undefined")));
}

const struct scene_member *scene_member(const struct scene_group *g, uint32_t row)
{
	size_t low = 0, high = g->members.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (g->members.v[middle].row == row)
			return &g->members.v[middle];
		if (g->members.v[middle].row < row)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

bool scene_has_steps(const struct scene *s)
{
	bool any = s->progress.n > 0;

	for (size_t i = 0; i < s->files.n && !any; i++)
		any = s->files.v[i]->steps > 1;
	return any;
}

void scene_done(struct scene *s)
{
	for (size_t i = 0; i < s->groups.n; i++) {
		struct scene_group *g = &s->groups.v[i];

		for (size_t k = 0; k < g->conflicts.n; k++) {
			for (size_t m = 0; m < g->conflicts.v[k].sides.n; m++)
				free(g->conflicts.v[k].sides.v[m].rows.v);
			free(g->conflicts.v[k].sides.v);
		}
		free(g->conflicts.v);
		free(g->members.v);
	}
	free(s->ranks.v);
	free(s->groups.v);
	free(s->signatures.v);
	free(s->stacks.v);
	free(s->sayings.v);
	free(s->progress.v);
	free(s->gpus.v);
	free(s->counts.v);
	free(s->counters.v);
	free(s->files.v);
	free(s->said.v);
	intern_done(&s->names);
	arena_done(&s->arena);
	*s = (struct scene){ 0 };
}
