/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_scene.c - groups, stacks and GPUs for programs.
 *
 * Of many ranks those that stand where few do are listed, and a few of each of the others, unless
 * all are asked for; sets of ranks are always whole.
 */
#include "show/json_scene.h"

#include "base/ranges.h"

/* How often a state or shape was listed already. */
struct seen {
	const char *name;
	size_t n;
};

/* May one more of this name be listed? names holds what was listed so far. */
static bool list_one(struct seen *v, size_t *n, size_t max, const char *name, size_t limit)
{
	for (size_t i = 0; i < *n; i++)
		if (!strcmp(v[i].name, name))
			return v[i].n++ < limit;
	if (*n == max)
		return false;
	v[(*n)++] = (struct seen){ name, 1 };
	return true;
}

static json_t *json_stand(const struct job *job, const struct report_stand *s)
{
	json_t *o = json_object();

	json_object_set_new(o, "rank", json_rank_of(job, s->row));
	json_object_set_new(o, "state", json_text(s->state));
	json_object_set_new(o, "operation", json_text(s->operation));
	json_object_set_new(o, "last_enqueued", json_count_or_null(s->last_enqueued));
	json_object_set_new(o, "last_completed", json_count_or_null(s->last_completed));
	return o;
}

json_t *json_groups(const struct report *r, bool all)
{
	json_t *a = json_array();

	for (size_t i = 0; i < r->groups.n; i++) {
		const struct report_group *g = &r->groups.v[i];
		json_t *o = json_object(), *ranks = json_array();
		bool every = all || g->ranks.n <= RANKS_SHOWN;
		struct seen seen[16];
		size_t n = 0;

		for (size_t k = 0; k < g->ranks.n; k++) {
			const struct report_stand *s = &g->ranks.v[k];
			bool waits = !strcmp(s->state, "waiting") || !strcmp(s->state, "done");

			if (every || list_one(seen, &n, ARRAY_SIZE(seen), s->state,
					      waits ? PEERS_SHOWN : RANKS_SHOWN))
				json_array_append_new(ranks, json_stand(r->job, s));
		}
		json_object_set_new(o, "group", json_text(g->group ? g->group : ""));
		json_object_set_new(o, "desc", json_text(g->desc));
		json_object_set_new(o, "members", json_text(g->members));
		json_object_set_new(o, "last_common", json_count_or_null(g->last_common));
		json_object_set_new(o, "stuck", json_boolean(g->stuck));
		json_object_set_new(o, "ranks", ranks);
		json_array_append_new(a, o);
	}
	return a;
}

/* "0-6,9" of all of them, whatever is listed. */
static json_t *rank_set(const struct job *job, const uint32_t *rows, size_t n)
{
	_cleanup_free_ int64_t *known = xmalloc((n + 1) * sizeof(*known));
	_cleanup_free_ char *set = NULL;
	size_t n_known = 0;

	for (size_t i = 0; i < n; i++)
		if (job->ranks[rows[i]].rank >= 0)
			known[n_known++] = job->ranks[rows[i]].rank;
	set = ranges_format(known, n_known);
	return json_text(set);
}

json_t *json_stacks(const struct report *r, bool all)
{
	json_t *a = json_array();

	for (size_t i = 0; i < r->stacks.n; i++) {
		const struct report_stack *s = &r->stacks.v[i];
		json_t *o = json_object(), *ranks = json_array();

		for (size_t k = 0; k < s->rows.n && (all || k < RANKS_SHOWN); k++)
			json_array_append_new(ranks, json_rank_of(r->job, s->rows.v[k]));
		json_object_set_new(o, "ranks", ranks);
		json_object_set_new(o, "rank_set", rank_set(r->job, s->rows.v, s->rows.n));
		json_object_set_new(o, "who", json_text(s->who));
		json_object_set_new(o, "doing", json_text(s->doing));
		json_object_set_new(o, "odd", json_boolean(s->odd));
		json_object_set_new(o, "frames", json_texts(s->frames.v, s->frames.n));
		json_array_append_new(a, o);
	}
	return a;
}

json_t *json_gpus(const struct report *r, bool all)
{
	json_t *a = json_array();
	struct seen seen[16];
	size_t n = 0;

	all |= r->gpus.n <= RANKS_SHOWN;
	for (size_t i = 0; i < r->gpus.n; i++) {
		const struct report_gpu *g = &r->gpus.v[i];
		json_t *o;

		if (!all && !list_one(seen, &n, ARRAY_SIZE(seen), g->shape ? g->shape : "",
				      RANKS_SHOWN / 8))
			continue;
		o = json_object();
		json_object_set_new(o, "rank",
				    g->row == NO_ID ? json_null() : json_rank_of(r->job, g->row));
		json_object_set_new(o, "host", json_text(g->host));
		json_object_set_new(o, "index", json_count_or_null(g->index));
		json_object_set_new(o, "shape", json_text(g->shape));
		json_object_set_new(o, "power_w", json_number(g->power_w, 1));
		json_object_set_new(o, "limit_w", json_number(g->limit_w, 1));
		json_object_set_new(o, "utilization", json_number(g->utilization, 3));
		json_object_set_new(o, "power_w_before", json_number(g->power_w_before, 1));
		json_array_append_new(a, o);
	}
	return a;
}
