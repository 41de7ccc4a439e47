/* SPDX-License-Identifier: Apache-2.0 */
/* scene.h - from the testimonies of all files to the one scene that judge reads. */
#pragma once
#include "fold/standings.h"
#include "model/scene.h"

struct scene_part {
	const struct testimony *t; /* must outlive the scene */
	struct dump_view *view;	   /* of a dump; else NULL */
};
/* parts in the order of the survey; the same parts give the same scene. */
void scene_build(struct scene *s, const struct standings *st, const struct scene_part *parts,
		 size_t n);
