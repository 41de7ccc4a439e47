/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_build.c - the order in which a scene comes about: which dumps count, which ranks there are,
 * groups with their members, then what logs, stacks and power add to them.
 */
#include "fold/scene_inside.h"
#include "base/ranges.h"

#include <stdio.h>

#define SAID_MOST 64u /* numbers of ranks that lines state */

uint32_t scene_name(struct scene *s, const struct intern *from, uint32_t id)
{
	return id == NO_ID ? NO_ID : intern(&s->names, intern_get(from, id), intern_len(from, id));
}

const char *scene_printf(struct scene *s, const char *format, ...)
{
	va_list ap, again;
	char *text;
	int n;

	va_start(ap, format);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, format, ap);
	va_end(ap);
	n = MAX(n, 0);
	text = arena_alloc(&s->arena, (size_t)n + 1);
	vsnprintf(text, (size_t)n + 1, format, again);
	va_end(again);
	return text;
}

uint32_t scene_signature(struct building *b, const struct intern *from, const struct signature *own)
{
	struct scene *s = b->s;
	struct signature g = *own;

	g.name = scene_name(s, from, own->name);
	g.in_sizes = scene_name(s, from, own->in_sizes);
	g.out_sizes = scene_name(s, from, own->out_sizes);
	g.in_dtypes = scene_name(s, from, own->in_dtypes);
	g.out_dtypes = scene_name(s, from, own->out_dtypes);
	for (size_t i = s->signatures.n; i-- > 0 && s->signatures.n - i < 64;)
		if (!memcmp(&s->signatures.v[i], &g, sizeof(g)))
			return (uint32_t)i;
	*vec_push(&s->signatures) = g;
	return (uint32_t)s->signatures.n - 1;
}

int64_t *ranks_of_text(const char *text, size_t *ret_n)
{
	VEC(int64_t) v = { 0 };
	size_t kept = 0;

	*ret_n = 0;
	if (strstr(text, ".."))
		return NULL;
	for (const char *p = text; *p;) {
		int64_t r = 0;

		if (*p < '0' || *p > '9') {
			p++;
			continue;
		}
		for (; *p >= '0' && *p <= '9' && r < SCENE_WORLD_MAX; p++)
			r = r * 10 + (*p - '0');
		while (*p >= '0' && *p <= '9')
			p++;
		if (r < SCENE_WORLD_MAX)
			*vec_push(&v) = r;
	}
	if (v.n)
		qsort(v.v, v.n, sizeof(*v.v), ranges_compare);
	for (size_t i = 0; i < v.n; i++)
		if (!kept || v.v[kept - 1] != v.v[i])
			v.v[kept++] = v.v[i];
	*ret_n = kept;
	return v.v;
}

/* --- which ranks there are --- */

struct rank_set {
	VEC(int64_t) v;
};

static void note_rank(struct rank_set *set, int64_t rank)
{
	if (rank >= 0 && rank < SCENE_WORLD_MAX && (!set->v.n || set->v.v[set->v.n - 1] != rank))
		*vec_push(&set->v) = rank;
}

static void note_stated(struct rank_set *set, const char *text)
{
	size_t n;
	_cleanup_free_ int64_t *ranks = ranks_of_text(text, &n);

	for (size_t i = 0; i < n; i++)
		note_rank(set, ranks[i]);
}

/* own: what the file's name says is no rank, here or in its lines. */
static void note_but(struct rank_set *set, int64_t rank, int64_t own)
{
	if (rank != own)
		note_rank(set, rank);
}

static void note_testimony(const struct building *b, struct rank_set *set,
			   const struct testimony *t)
{
	int64_t own = rank_of_file(b, t) < 0 ? t->rank : -1;

	note_but(set, t->rank, own);
	for (size_t i = 0; i < t->sayings.n; i++) {
		note_but(set, t->sayings.v[i].rank, own);
		note_rank(set, t->sayings.v[i].peer);
	}
	for (size_t i = 0; i < t->progress.n; i++)
		note_but(set, t->progress.v[i].rank, own);
	for (size_t i = 0; i < t->status.n; i++)
		note_rank(set, t->status.v[i].rank);
	for (size_t i = 0; i < t->stacks.n; i++) {
		note_rank(set, t->stacks.v[i].rank);
		if (t->stacks.v[i].ranks != NO_ID)
			note_stated(set, intern_get(&t->names, t->stacks.v[i].ranks));
	}
	for (size_t i = 0; i < t->gpus.n; i++)
		note_rank(set, t->gpus.v[i].rank);
}

/* What most say when they start; of two that as many say the smaller, since ranks beyond it show.
 */
static int64_t greeted_world(const struct building *b)
{
	VEC(struct said_world {
		int64_t world;
		size_t n;
	})
	said = { 0 };
	int64_t world = -1;
	size_t most = 0;

	for (size_t i = 0; i < b->n; i++) {
		const struct testimony *t = b->parts[i].t;

		for (size_t k = 0; k < t->sayings.n; k++) {
			const struct saying *y = &t->sayings.v[k];
			size_t at = 0;

			if (y->kind != SAY_HELLO || y->value <= 0 || y->value >= SCENE_WORLD_MAX)
				continue;
			while (at < said.n && said.v[at].world != y->value)
				at++;
			if (at == SAID_MOST)
				continue;
			if (at == said.n)
				*vec_push(&said) = (struct said_world){ y->value, 0 };
			said.v[at].n++;
		}
	}
	for (size_t i = 0; i < said.n; i++)
		if (said.v[i].n > most || (said.v[i].n == most && said.v[i].world < world)) {
			most = said.v[i].n;
			world = said.v[i].world;
		}
	free(said.v);
	return world;
}

static int64_t stated_world(const struct building *b)
{
	int64_t world = -1;

	for (size_t i = 0; i < b->n; i++)
		if (b->parts[i].t->world_size > 0 && b->parts[i].t->world_size < SCENE_WORLD_MAX)
			world = MAX(world, b->parts[i].t->world_size);
	return MAX(world, greeted_world(b));
}

/* GPUs with distinct places, or the largest communicator: no fewer ranks than that. */
static int64_t counted_world(const struct building *b)
{
	struct intern places = { 0 };
	int64_t n, largest = -1;

	for (size_t i = 0; i < b->n; i++) {
		const struct testimony *t = b->parts[i].t;

		for (size_t k = 0; k < t->gpus.n; k++) {
			const struct gpu_series *g = &t->gpus.v[k];
			uint32_t host = g->host != NO_ID   ? g->host
					: t->host != NO_ID ? t->host
							   : t->path;
			char place[320];

			snprintf(place, sizeof(place), "%.255s:%" PRId64,
				 intern_get(&t->names, host), g->index);
			intern_str(&places, place);
		}
		for (size_t k = 0; k < t->counts.n; k++)
			largest = MAX(largest, t->groups.v[t->counts.v[k].group].size);
	}
	n = places.n;
	intern_done(&places);
	n = MAX(n, largest);
	return n > 0 ? MIN(n, SCENE_WORLD_MAX) : -1;
}

/* A default group, or one whose members nobody describes but that holds all ranks. */
static bool names_the_world(const char *name, const char *desc)
{
	return !strcmp(desc, "default_pg") || (!*name && !*desc) ||
	       (!strcmp(name, "0") && (!*desc || !strcmp(desc, "undefined")));
}

static void build_ranks(struct building *b)
{
	struct scene *s = b->s;
	_cleanup_free_ bool *seen = xcalloc(b->st->groups.n + 1, sizeof(bool));
	struct rank_set set = { 0 };
	int64_t world = stated_world(b);

	find_workers(b, world);
	for (size_t i = 0; i < b->n; i++)
		note_testimony(b, &set, b->parts[i].t);
	for (size_t i = 0; i < b->chosen.n; i++)
		for (size_t k = 0; k < b->chosen.v[i]->groups.n; k++) {
			uint32_t row = b->chosen.v[i]->groups.v[k].group;
			const struct standing_group *g = &b->st->groups.v[row];
			size_t n;
			int64_t *ranks;

			if (g->ranks == NO_ID || seen[row])
				continue;
			seen[row] = true;
			ranks = ranks_of_text(intern_get(&b->st->names, g->ranks), &n);
			if (n && names_the_world(intern_get(&b->st->names, g->name),
						 intern_get(&b->st->names, g->desc)))
				world = MAX(world, ranks[n - 1] + 1);
			for (size_t r = 0; r < n; r++)
				note_rank(&set, ranks[r]);
			free(ranks);
		}
	if (set.v.n)
		qsort(set.v.v, set.v.n, sizeof(*set.v.v), ranges_compare);
	if (world < 0 && set.v.n) {
		world = MAX(set.v.v[set.v.n - 1] + 1, counted_world(b));
		s->world_assumed = true;
	} else if (world < 0) {
		world = counted_world(b);
		s->world_assumed = world > 0;
	} else if (set.v.n && world <= set.v.v[set.v.n - 1]) {
		world = set.v.v[set.v.n - 1] + 1;
	}
	s->world_size = world;
	for (int64_t rank = 0; rank < world; rank++)
		*vec_push(&s->ranks) = (struct scene_rank){
			.rank = rank,
			.host = NO_ID,
			.gpu = -1,
			.pid = -1,
			.wait_group = NO_ID,
			.wait_seq = -1,
			.usual = NO_ID,
			.stack = NO_ID,
			.stack_before = NO_ID,
			.progress = NO_ID,
		};
	free(set.v.v);
}

void scene_build(struct scene *s, const struct standings *st, const struct scene_part *parts,
		 size_t n)
{
	struct building b = { .s = s, .st = st, .parts = parts, .n = n };

	*s = (struct scene){ .world_size = -1, .last_step_ns = -1, .recorded_ns = -1 };
	b.signature = xmalloc((st->signatures.n + 1) * sizeof(*b.signature));
	b.group = xmalloc((st->groups.n + 1) * sizeof(*b.group));
	memset(b.signature, 0xff, (st->signatures.n + 1) * sizeof(*b.signature));
	memset(b.group, 0xff, (st->groups.n + 1) * sizeof(*b.group));
	choose_dumps(&b);
	build_ranks(&b);
	b.view = xcalloc(s->ranks.n + 1, sizeof(*b.view));
	build_groups(&b);
	infer_members(&b);
	build_lines(&b);
	drop_past(&b);
	build_stacks(&b);
	build_counts(&b);
	settle_lines(&b);
	build_gpus(&b); /* by what lines and counters say of ranks */
	settle_stacks(&b);
	build_counters(&b);
	find_conflicts(&b);
	s->any = s->n_dumps || s->stacks.n || s->sayings.n || s->gpus.n || s->counts.n ||
		 s->counters.n || scene_has_steps(s);
	free(b.signature);
	free(b.group);
	free(b.view);
	free(b.chosen.v);
	free(b.earlier.v);
	intern_done(&b.group_keys);
}
