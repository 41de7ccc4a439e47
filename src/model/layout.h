/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h - the parallel layout of a job, "tp=4 dp=4 pp=4", the dimension that varies fastest
 * first.
 *
 * The world is the product of tp, cp, dp and pp. ep subdivides dp x cp in runs of the fastest and
 * is no factor of the world.
 */
#pragma once
#include "model/job.h"

enum layout_dim { LAYOUT_TP, LAYOUT_CP, LAYOUT_DP, LAYOUT_PP, LAYOUT_EP, LAYOUT_DIMS };

struct layout {
	uint32_t size[LAYOUT_DIMS]; /* 1 where not stated */
	enum layout_dim order[4];   /* the factors of the world, fastest first */
	uint32_t n_order;
};

/* Parses "tp=4 dp=4 pp=4" (blanks or commas between). -EINVAL with detail. */
int layout_parse(const char *text, struct layout *ret, struct error *reterr);
int64_t layout_world(const struct layout *l);
/* 0, or -EINVAL with a detail that shows the product, if the layout is not of so many ranks. */
int layout_check(const struct layout *l, int64_t world_size, struct error *reterr);
/* The coordinate of a rank in tp, cp, dp or pp. */
uint32_t layout_coord(const struct layout *l, int64_t rank, enum layout_dim dim);
/* From the descriptions of the job's groups (Megatron's, device meshes'): sizes and strides. false
   if they do not give a layout of the whole world. */
bool layout_of_groups(const struct job *job, struct layout *ret);
/* Which dimension a group's description names; LAYOUT_DIMS if none. */
enum layout_dim layout_dim_of(const char *desc);
/* "dp=0 pp=3", the place of a row in the layout that the job's groups give; "" if they give none.
 */
const char *layout_place(const struct job *job, uint32_t row, char buf[64]);
/* "tp=4 dp=4 pp=4", malloc'd. */
char *layout_format(const struct layout *l);
