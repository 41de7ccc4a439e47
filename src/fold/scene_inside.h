/* SPDX-License-Identifier: Apache-2.0 */
/* scene_inside.h - between the files that build a scene. */
#pragma once
#include "fold/scene_build.h"

#define SCENE_WORLD_MAX ((int64_t)1 << 20)

struct building {
	struct scene *s;
	const struct standings *st;
	const struct scene_part *parts;
	size_t n;
	/* dumps chosen for the last recording, by row; NULL */
	struct dump_view **view;
	uint32_t
	    *signature;	 /* of the table's signatures: row of scene.signatures; NO_ID: not yet */
	uint32_t *group; /* of the table's groups: row of scene.groups */
	VEC(struct dump_view *) chosen;	 /* the latest of each rank */
	VEC(struct dump_view *) earlier; /* the one before it, beside chosen; NULL */
	struct intern group_keys;
};

uint32_t scene_name(struct scene *s, const struct intern *from, uint32_t id);
const char *scene_printf(struct scene *s, const char *format, ...) PRINTF_LIKE(2, 3);
/* The row of the group; a new one if there is none of that name and description. */
uint32_t scene_group_row(struct building *b, uint32_t name, uint32_t desc, uint32_t ranks);
struct scene_member *scene_member_add(struct scene_group *g, uint32_t row);
uint32_t scene_signature(struct building *b, const struct intern *from, const struct signature *s);
/* "[0, 1, 5]" as numbers, ascending; malloc'd. Shortened by "..": *ret_n is 0. */
int64_t *ranks_of_text(const char *text, size_t *ret_n);

/* scene_dumps.c */
void choose_dumps(struct building *b);
bool states_no_ranks(const char *text); /* "", "[]" */
/* scene_groups.c */
void build_groups(struct building *b);
uint32_t signature_here(struct building *b, uint32_t of_table); /* row of scene.signatures */
const struct dump_group *same_group(const struct dump_view *v, uint32_t group); /* NULL */
/* scene_members.c */
void infer_members(struct building *b);
/* scene_conflicts.c */
void find_conflicts(struct building *b);
/* scene_pairs.c: an all_to_all whose pieces do not fit */
void pair_conflicts(struct building *b, struct scene_group *g);
/* scene_lines.c */
void build_lines(struct building *b);
void settle_lines(struct building *b);
/* scene_workers.c */
void find_workers(struct building *b, int64_t stated_world);
int64_t rank_of_file(const struct building *b, const struct testimony *t); /* -1: none */
/* Takes back what the name of a machine's log says of the rank, from these rows on. */
void forget_worker(struct scene *s, const struct testimony *t, size_t first_saying,
		   size_t first_progress);
/* scene_past.c */
void drop_past(struct building *b);
/* scene_things.c */
void build_stacks(struct building *b);
void settle_stacks(struct building *b);
void build_gpus(struct building *b);
void build_counts(struct building *b);
void build_counters(struct building *b);
