/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - parallel layouts: from text to the coordinates of a rank. */
#include "model/layout.h"

#include <stdio.h>
#include <strings.h>

#define SIZE_LIMIT (1u << 20)

static const char *const dim_names[LAYOUT_DIMS] = { "tp", "cp", "dp", "pp", "ep" };

static int find_dim(const char *s, size_t len)
{
	for (int d = 0; d < LAYOUT_DIMS; d++)
		if (len == strlen(dim_names[d]) && !strncmp(s, dim_names[d], len))
			return d;
	return -1;
}

int layout_parse(const char *text, struct layout *ret, struct error *reterr)
{
	struct layout l = { .size = { 1, 1, 1, 1, 1 } };
	bool seen[LAYOUT_DIMS] = { false };
	const char *s = text;

	while (*(s += strspn(s, " ,\t"))) {
		size_t len = strcspn(s, "= ,\t");
		int dim = find_dim(s, len);
		unsigned long size;
		char *end;

		if (dim < 0)
			return error_set(reterr, -EINVAL,
					 "layout: \"%.*s\" is none of tp, cp, dp, pp, ep",
					 (int)MIN(len, (size_t)32), s);
		if (seen[dim])
			return error_set(reterr, -EINVAL, "layout: %s is given twice",
					 dim_names[dim]);
		size = s[len] == '=' && s[len + 1] >= '0' && s[len + 1] <= '9'
			   ? strtoul(s + len + 1, &end, 10)
			   : 0;
		if (!size || size > SIZE_LIMIT || (*end && !strchr(" ,\t", *end)))
			return error_set(reterr, -EINVAL, "layout: %s needs a size, as in %s=4",
					 dim_names[dim], dim_names[dim]);
		seen[dim] = true;
		l.size[dim] = (uint32_t)size;
		if (dim != LAYOUT_EP)
			l.order[l.n_order++] = (enum layout_dim)dim;
		s = end;
	}
	if (!l.n_order)
		return error_set(reterr, -EINVAL,
				 "layout: empty; give it as in \"tp=4 dp=4 pp=4\"");
	if ((uint64_t)l.size[LAYOUT_DP] * l.size[LAYOUT_CP] % l.size[LAYOUT_EP])
		return error_set(reterr, -EINVAL, "layout: ep=%u does not divide dp x cp = %u",
				 l.size[LAYOUT_EP], l.size[LAYOUT_DP] * l.size[LAYOUT_CP]);
	*ret = l;
	return 0;
}

int64_t layout_world(const struct layout *l)
{
	int64_t world = 1;

	for (uint32_t i = 0; i < l->n_order; i++)
		world *= l->size[l->order[i]];
	return world;
}

int layout_check(const struct layout *l, int64_t world_size, struct error *reterr)
{
	_cleanup_free_ char *text = layout_format(l);

	if (world_size < 0 || layout_world(l) == world_size)
		return 0;
	return error_set(reterr, -EINVAL,
			 "layout: %s is %" PRId64 " ranks, but the job has %" PRId64, text,
			 layout_world(l), world_size);
}

uint32_t layout_coord(const struct layout *l, int64_t rank, enum layout_dim dim)
{
	for (uint32_t i = 0; i < l->n_order; i++) {
		uint32_t size = l->size[l->order[i]];

		if (l->order[i] == dim)
			return (uint32_t)(rank % size);
		rank /= size;
	}
	return 0;
}

static const struct {
	const char *desc;
	enum layout_dim dim;
} group_names[] = {
	{ "TENSOR_MODEL_PARALLEL_GROUP", LAYOUT_TP },	{ "TENSOR_PARALLEL_GROUP", LAYOUT_TP },
	{ "CONTEXT_PARALLEL_GROUP", LAYOUT_CP },	{ "DATA_PARALLEL_GROUP", LAYOUT_DP },
	{ "PIPELINE_MODEL_PARALLEL_GROUP", LAYOUT_PP }, { "PIPELINE_PARALLEL_GROUP", LAYOUT_PP },
	{ "EXPERT_MODEL_PARALLEL_GROUP", LAYOUT_EP },	{ "EXPERT_PARALLEL_GROUP", LAYOUT_EP },
};

enum layout_dim layout_dim_of(const char *desc)
{
	const char *last = strrchr(desc, '_');

	for (size_t i = 0; i < ARRAY_SIZE(group_names); i++)
		if (!strcasecmp(desc, group_names[i].desc))
			return group_names[i].dim;
	for (int d = 0; d < LAYOUT_DIMS; d++) /* a device mesh: "mesh_tp", "tp" */
		if (!strcmp(desc, dim_names[d]) || (last && !strcmp(last + 1, dim_names[d])))
			return (enum layout_dim)d;
	return LAYOUT_DIMS;
}

/* The distance between neighbours of a group, if it is one distance. */
static int64_t stride_of(const struct job *job, const struct job_group *g)
{
	int64_t stride = 0, before = 0;
	uint32_t n = g->ranks ? g->n_ranks : g->n_rows;

	for (uint32_t i = 0; i < n; i++) {
		int64_t rank = g->ranks ? (int64_t)g->ranks[i] : job->ranks[g->rows[i]].rank;

		if (i == 1)
			stride = rank - before;
		if (i && rank - before != stride)
			return 0;
		before = rank;
	}
	return stride;
}

bool layout_of_groups(const struct job *job, struct layout *ret)
{
	struct layout l = { .size = { 1, 1, 1, 1, 1 } };
	int64_t strides[LAYOUT_DIMS] = { 0 };

	for (uint32_t g = 0; g < job->n_groups; g++) {
		const struct job_group *group = &job->groups[g];
		enum layout_dim dim = layout_dim_of(intern_get(&job->names, group->desc));
		bool whole =
		    group->ranks ? group->n_ranks == group->size : group->n_rows == group->size;
		int64_t stride;

		if (dim == LAYOUT_DIMS || group->size < 2 || !whole)
			continue;
		stride = stride_of(job, group);
		if (stride <= 0 || (strides[dim] && dim != LAYOUT_EP && strides[dim] != stride))
			return false;
		strides[dim] = stride;
		l.size[dim] = group->size;
	}
	for (int d = 0; d < LAYOUT_EP; d++) { /* by stride, the smallest varies fastest */
		uint32_t at = l.n_order;

		if (!strides[d])
			continue;
		for (; at > 0 && strides[l.order[at - 1]] > strides[d]; at--)
			l.order[at] = l.order[at - 1];
		l.order[at] = (enum layout_dim)d;
		l.n_order++;
	}
	for (int64_t i = 0, next = 1; i < (int64_t)l.n_order; i++) {
		if (strides[l.order[i]] != next)
			return false;
		next *= l.size[l.order[i]];
	}
	if (!l.n_order || layout_world(&l) != MAX(job->world_size, (int64_t)job->n_ranks))
		return false;
	*ret = l;
	return true;
}

char *layout_format(const struct layout *l)
{
	char text[128];
	size_t n = 0;

	text[0] = 0;
	for (uint32_t i = 0; i < l->n_order; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s=%u", i ? " " : "",
				      dim_names[l->order[i]], l->size[l->order[i]]);
	if (l->size[LAYOUT_EP] > 1)
		snprintf(text + n, sizeof(text) - n, " ep=%u", l->size[LAYOUT_EP]);
	return xstrdup(text);
}

const char *layout_place(const struct job *job, uint32_t row, char buf[64])
{
	static const enum layout_dim always[] = { LAYOUT_DP, LAYOUT_PP };
	int64_t rank = job->ranks[row].rank;
	struct layout l;
	size_t n = 0;

	buf[0] = 0;
	if (rank < 0 || !layout_of_groups(job, &l) || rank >= layout_world(&l))
		return buf;
	for (uint32_t i = 0; i < l.n_order; i++)
		if (l.order[i] != LAYOUT_DP && l.order[i] != LAYOUT_PP)
			n += (size_t)snprintf(buf + n, 64 - n, "%s=%u ", dim_names[l.order[i]],
					      layout_coord(&l, rank, l.order[i]));
	for (size_t i = 0; i < ARRAY_SIZE(always); i++)
		n += (size_t)snprintf(buf + n, 64 - n, "%s%s=%u", i ? " " : "",
				      dim_names[always[i]], layout_coord(&l, rank, always[i]));
	return buf;
}
