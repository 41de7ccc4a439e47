/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_role.c - which ranks should look alike, and which share a machine.
 *
 * With send and receive between ranks the job is a pipeline: ranks of one stage do the same work,
 * ranks of different stages do not. A stage is what the collectives of groups smaller than the job
 * tie together, as long as no group ties together what a pipeline keeps apart; where the groups are
 * not known, ranks that run the same kernels are one role. Without a pipeline all ranks are one
 * role.
 */
#include "judge/judge_internal.h"
#include "model/layout.h"

#define KINDS_MAX 64u /* of ranks, by their kernels */
#define USE_MIXED 4   /* of a group: its members run different kernels */

static uint32_t find(uint32_t *parent, uint32_t i)
{
	while (parent[i] != i)
		i = parent[i] = parent[parent[i]];
	return i;
}

/* Per job group: 1 if ranks send and receive in it, 2 if they meet in collectives. */
static void group_uses(const struct judge *j, struct step *const *steps, uint8_t *uses)
{
	for (uint32_t row = 0; row < j->n_rows; row++)
		for (uint32_t i = 0; steps[row] && i < steps[row]->n_comms; i++) {
			const struct step_comm *m = &steps[row]->comms[i];

			uses[j->job->group_of[row][m->group]] |= is_p2p(m->op) ? 1 : 2;
		}
}

static uint64_t kernels_hash(const struct step *s)
{
	uint64_t h = 0;

	for (uint32_t i = 0; i < s->n_kernels; i++)
		h += hash_mix(hash_mix(5, s->kernels[i].name), s->kernels[i].count);
	return h;
}

/* Numbers the classes that parent[] makes, in order of their first row. */
static uint32_t number_roles(struct judge *j, uint32_t *parent)
{
	uint32_t n = 0;
	_cleanup_free_ uint32_t *id = xmalloc(j->n_rows * sizeof(*id));

	for (uint32_t row = 0; row < j->n_rows; row++)
		id[row] = NO_ID;
	for (uint32_t row = 0; row < j->n_rows; row++) {
		uint32_t top = find(parent, row);

		if (id[top] == NO_ID)
			id[top] = n++;
		j->role[row] = id[top];
	}
	return n;
}

/* Does a role hold two rows of one pipeline group, or rows that run different kernels? */
static bool roles_contradict(const struct judge *j, struct step *const *steps, const uint8_t *uses)
{
	_cleanup_free_ uint64_t *hash = xcalloc(j->n_roles, sizeof(*hash));
	_cleanup_free_ uint32_t *seen = xcalloc(j->n_roles, sizeof(*seen));
	uint32_t differ = 0;

	for (uint32_t g = 0; g < j->job->n_groups; g++) {
		const struct job_group *group = &j->job->groups[g];

		if (uses[g] != 1 || group->name == NO_ID) /* nameless: nobody knows who is in it */
			continue;
		for (uint32_t i = 0; i < group->n_rows && group->n_rows > 1; i++) {
			if (seen[j->role[group->rows[i]]] == g + 1)
				return true;
			seen[j->role[group->rows[i]]] = g + 1;
		}
	}
	for (uint32_t row = 0; row < j->n_rows; row++) {
		uint64_t h = steps[row] ? kernels_hash(steps[row]) : 0;

		if (!h)
			continue;
		differ += hash[j->role[row]] && hash[j->role[row]] != h;
		hash[j->role[row]] = h;
	}
	return differ > j->n_rows / 4;
}

static void roles_by_kernels(struct judge *j, struct step *const *steps, uint32_t *parent)
{
	VEC(uint32_t) firsts = { 0 }; /* of each class */
	_cleanup_free_ uint64_t *hash = xcalloc(j->n_rows, sizeof(*hash));

	for (uint32_t row = 0; row < j->n_rows; row++) {
		size_t i = 0;

		parent[row] = row;
		if (!steps[row])
			continue;
		hash[row] = kernels_hash(steps[row]);
		while (i < firsts.n && hash[firsts.v[i]] != hash[row])
			i++;
		if (i < firsts.n)
			parent[row] = firsts.v[i];
		else
			*vec_push(&firsts) = row;
	}
	free(firsts.v);
}

/* Does the group hold two rows that a pipeline group keeps apart? line_of[row]: one pipeline group
 * it is in. */
static bool crosses_stages(const struct job_group *group, const uint32_t *line_of)
{
	for (uint32_t i = 0; i < group->n_rows; i++)
		for (uint32_t k = 0; k < i && line_of[group->rows[i]] != NO_ID; k++)
			if (line_of[group->rows[k]] == line_of[group->rows[i]])
				return true;
	return false;
}

/* Ranks of one stage run the same kernels the same number of times: a group whose members do not is
   no group of one stage. Only where kernels tell stages apart at all: few kinds of ranks, and each
   of them often. */
static void note_mixed_groups(const struct judge *j, struct step *const *steps, uint8_t *uses)
{
	_cleanup_free_ uint64_t *hash = xcalloc(j->n_rows + 1, sizeof(*hash));
	uint32_t kinds = 0;

	for (uint32_t row = 0; row < j->n_rows; row++) {
		uint32_t other = 0;

		hash[row] = steps[row] ? kernels_hash(steps[row]) : 0;
		while (other < row && hash[other] != hash[row] && kinds <= KINDS_MAX)
			other++;
		kinds += other == row;
	}
	if (kinds < 2 || kinds > KINDS_MAX || 2 * kinds > j->n_rows)
		return;
	for (uint32_t g = 0; g < j->job->n_groups; g++) {
		const struct job_group *group = &j->job->groups[g];

		for (uint32_t i = 1; uses[g] == 2 && i < group->n_rows; i++)
			if (hash[group->rows[i]] != hash[group->rows[0]])
				uses[g] |= USE_MIXED;
	}
}

/* Stages from the groups of at most `largest` members. */
static bool roles_by_groups(struct judge *j, struct step *const *steps, const uint8_t *uses,
			    const uint32_t *line_of, uint32_t largest, uint32_t *parent)
{
	for (uint32_t row = 0; row < j->n_rows; row++)
		parent[row] = row;
	for (uint32_t g = 0; g < j->job->n_groups; g++) {
		const struct job_group *group = &j->job->groups[g];

		if (uses[g] != 2 || MAX(group->size, group->n_rows) > largest ||
		    crosses_stages(group, line_of))
			continue;
		for (uint32_t i = 1; i < group->n_rows; i++)
			parent[find(parent, group->rows[i])] = find(parent, group->rows[0]);
	}
	j->n_roles = number_roles(j, parent);
	j->staged = j->n_roles > 1 && !roles_contradict(j, steps, uses);
	return j->staged;
}

/* The largest group smaller than `below`; 1 if there is none. */
static uint32_t next_size(const struct judge *j, const uint8_t *uses, uint32_t below)
{
	uint32_t size = 1;

	for (uint32_t g = 0; g < j->job->n_groups; g++) {
		const struct job_group *group = &j->job->groups[g];
		uint32_t its = MAX(group->size, group->n_rows);

		if (uses[g] == 2 && its < below)
			size = MAX(size, its);
	}
	return size;
}

/* By the layout, given or found in the groups, where every rank's number is known. */
static bool roles_by_layout(struct judge *j)
{
	struct layout l;

	if (j->job->layout_spec ? layout_parse(j->job->layout_spec, &l, NULL) < 0
				: !layout_of_groups(j->job, &l))
		return false;
	for (uint32_t row = 0; row < j->n_rows; row++)
		if (j->job->ranks[row].rank < 0 || j->job->ranks[row].rank >= layout_world(&l))
			return false;
	for (uint32_t row = 0; row < j->n_rows; row++)
		j->role[row] = layout_coord(&l, j->job->ranks[row].rank, LAYOUT_PP);
	j->n_roles = l.size[LAYOUT_PP];
	j->staged = j->n_roles > 1;
	return true;
}

static void roles_settle(struct judge *j, struct step *const *steps)
{
	_cleanup_free_ uint32_t *parent = xcalloc(j->n_rows + 1, sizeof(*parent));
	_cleanup_free_ uint32_t *line_of = xcalloc(j->n_rows + 1, sizeof(*line_of));
	_cleanup_free_ uint8_t *uses = xcalloc(j->job->n_groups + 1, 1);
	uint32_t size = (uint32_t)MAX(j->job->world_size, (int64_t)j->n_rows);
	bool pipeline = false, named = false;

	if (roles_by_layout(j))
		return;
	group_uses(j, steps, uses);
	for (uint32_t row = 0; row < j->n_rows; row++)
		line_of[row] = NO_ID;
	for (uint32_t g = 0; g < j->job->n_groups; g++) {
		const struct job_group *group = &j->job->groups[g];

		if (layout_dim_of(intern_get(&j->job->names, group->desc)) == LAYOUT_PP &&
		    group->size > 1)
			uses[g] |= 1;
		pipeline |= uses[g] & 1;
		for (uint32_t i = 0; (uses[g] & 1) && group->name != NO_ID && i < group->n_rows;
		     i++)
			line_of[group->rows[i]] = g;
		named |= (uses[g] & 1) && group->name != NO_ID;
	}
	j->n_roles = 1;
	j->staged = false;
	memset(j->role, 0, j->n_rows * sizeof(*j->role));
	if (!pipeline || j->n_rows < 2)
		return;
	roles_by_kernels(j, steps, parent);
	if (!named && number_roles(j, parent) < 2) { /* no group says so, and all run the same */
		memset(j->role, 0, j->n_rows * sizeof(*j->role));
		return;
	}
	note_mixed_groups(j, steps, uses);
	do { /* large groups may tie stages together: try without them */
		size = next_size(j, uses, size);
		if ((size > 1 || named) && roles_by_groups(j, steps, uses, line_of, size, parent))
			return;
	} while (size > 1);
	roles_by_kernels(j, steps, parent);
	j->n_roles = number_roles(j, parent);
	j->staged = j->n_roles > 1 && !roles_contradict(j, steps, uses);
	if (!j->staged) {
		j->n_roles = 1;
		memset(j->role, 0, j->n_rows * sizeof(*j->role));
	}
}

void roles_find(struct judge *j, struct step *const *steps)
{
	uint32_t *at;

	roles_settle(j, steps);
	free(j->by_role);
	free(j->first_of_role);
	j->by_role = xmalloc((j->n_rows + 1) * sizeof(*j->by_role));
	j->first_of_role = at = xcalloc(j->n_roles + 2, sizeof(*at));
	for (uint32_t row = 0; row < j->n_rows; row++)
		at[j->role[row] + 2]++;
	for (uint32_t role = 2; role < j->n_roles + 2; role++)
		at[role] += at[role - 1];
	for (uint32_t row = 0; row < j->n_rows; row++)
		j->by_role[at[j->role[row] + 1]++] = row;
}

struct node_key {
	int64_t key; /* alike on one machine */
	uint32_t row;
};

static int by_key(const void *a, const void *b)
{
	const struct node_key *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* By host name where names differ or repeat, else by the GPU's index on its machine. */
void nodes_find(struct judge *j)
{
	_cleanup_free_ struct node_key *keys = xcalloc(j->n_rows + 1, sizeof(*keys));
	_cleanup_free_ uint32_t *first = xcalloc(j->n_rows + 1, sizeof(*first));
	const struct job *job = j->job;
	int64_t per_node = 0;
	bool hosts = true;

	for (uint32_t row = 0; row < j->n_rows; row++) {
		hosts &= job->ranks[row].host != NO_ID;
		per_node = MAX(per_node, (int64_t)job->ranks[row].gpu_index + 1);
	}
	for (uint32_t row = 0; row < j->n_rows; row++) {
		const struct rank_info *info = &job->ranks[row];

		keys[row].row = row;
		keys[row].key = hosts				  ? (int64_t)info->host
				: per_node > 1 && info->rank >= 0 ? info->rank / per_node
								  : -1 - (int64_t)row;
	}
	qsort(keys, j->n_rows, sizeof(*keys), by_key);
	for (uint32_t i = 0; i < j->n_rows; i++)
		first[keys[i].row] =
		    i && keys[i].key == keys[i - 1].key ? first[keys[i - 1].row] : keys[i].row;
	j->n_nodes = 0;
	for (uint32_t row = 0; row < j->n_rows; row++)
		j->node[row] = first[row] == row ? j->n_nodes++ : j->node[first[row]];
	j->nodes_known = hosts || per_node > 1;
	if (!j->nodes_known) {
		j->n_nodes = 1;
		memset(j->node, 0, j->n_rows * sizeof(*j->node));
	}
}
