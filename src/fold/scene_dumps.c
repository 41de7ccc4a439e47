/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_dumps.c - which dumps make the last recording, and where each rank stands by it.
 *
 * One folder may hold a pickle and its JSON twin, dumps of two moments, or of two jobs. Twins
 * count once; of a rank's dumps the latest counts and the one before it tells whether anything
 * moved; of two jobs the one with more ranks is judged, and the rest is said.
 */
#include "fold/scene_inside.h"

#include <stdio.h>

#include "base/stats.h"

#define STALE_NS ((int64_t)3600 * 1000000000)

/* --- which dumps --- */

static bool states_no_ranks(const char *text)
{
	return !*text || !strcmp(text, "[]");
}

/* The members of the default group as the dump states them: the same in all dumps of a job. */
static uint32_t job_of(const struct building *b, const struct dump_view *v)
{
	for (size_t i = 0; i < v->groups.n; i++) {
		const struct standing_group *g = &b->st->groups.v[v->groups.v[i].group];
		const char *desc = intern_get(&b->st->names, g->desc);

		if (g->ranks != NO_ID && (!strcmp(desc, "default_pg") || !*desc) &&
		    !states_no_ranks(intern_get(&b->st->names, g->ranks)))
			return g->ranks;
	}
	return NO_ID;
}

static uint32_t largest_job(const struct building *b)
{
	uint32_t best = NO_ID;
	size_t most = 0;

	for (size_t i = 0; i < b->n; i++) {
		uint32_t job = b->parts[i].view ? job_of(b, b->parts[i].view) : NO_ID;
		size_t count = 0;

		if (job == NO_ID || job == best)
			continue;
		for (size_t k = i; k < b->n; k++)
			count += b->parts[k].view && job_of(b, b->parts[k].view) == job;
		if (count > most) {
			most = count;
			best = job;
		}
	}
	return best;
}

static int by_rank_and_time(const void *a, const void *b, void *names)
{
	const struct dump_view *x = *(struct dump_view *const *)a,
			       *y = *(struct dump_view *const *)b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return strcmp(intern_get(names, x->path), intern_get(names, y->path));
}

/* Dumps of a much earlier time than most are of another moment: an old hang's files. */
static int64_t oldest_allowed(struct dump_view *const *v, size_t n)
{
	_cleanup_free_ double *seconds = xmalloc((n + 1) * sizeof(*seconds));
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		if (v[i]->time_ns > 0)
			seconds[count++] = (double)v[i]->time_ns / 1e9;
	return count < 2 ? INT64_MIN : (int64_t)(stats_median(seconds, count) * 1e9) - STALE_NS;
}

static void say_left_out(struct building *b, size_t other_job, size_t stale, size_t nameless)
{
	struct scene *s = b->s;

	if (other_job)
		*vec_push(&s->said) = scene_printf(
		    s, "%zu dump%s of another job (other members of its default group) %s left out",
		    other_job, other_job == 1 ? "" : "s", other_job == 1 ? "is" : "are");
	if (stale)
		*vec_push(&s->said) =
		    scene_printf(s, "%zu dump%s of more than an hour before the others %s left out",
				 stale, stale == 1 ? "" : "s", stale == 1 ? "is" : "are");
	if (nameless)
		*vec_push(&s->said) = scene_printf(
		    s, "%zu dump%s whose rank neither name nor content tells %s left out", nameless,
		    nameless == 1 ? "" : "s", nameless == 1 ? "is" : "are");
}

void choose_dumps(struct building *b)
{
	VEC(struct dump_view *) all = { 0 };
	uint32_t job = largest_job(b);
	size_t other = 0, stale = 0, nameless = 0, kept = 0;
	int64_t oldest;

	for (size_t i = 0; i < b->n; i++) {
		struct dump_view *v = b->parts[i].view;
		uint32_t of = v ? job_of(b, v) : NO_ID;

		if (!v)
			continue;
		if (v->rank < 0)
			nameless++;
		else if (of != NO_ID && of != job)
			other++;
		else
			*vec_push(&all) = v;
	}
	if (all.n)
		qsort_r(all.v, all.n, sizeof(*all.v), by_rank_and_time,
			(void *)(uintptr_t)&b->st->names);
	for (size_t i = 0; i < all.n; i++) /* twins count once, the pickle or the first by path */
		if (!kept || all.v[kept - 1]->rank != all.v[i]->rank ||
		    all.v[kept - 1]->fingerprint != all.v[i]->fingerprint)
			all.v[kept++] = all.v[i];
	oldest = oldest_allowed(all.v, kept);
	for (size_t i = 0; i < kept; i++) {
		bool last = i + 1 == kept || all.v[i + 1]->rank != all.v[i]->rank;
		bool has_earlier = i && all.v[i - 1]->rank == all.v[i]->rank;

		if (!last)
			continue;
		if (all.v[i]->time_ns > 0 && all.v[i]->time_ns < oldest) {
			stale++;
			continue;
		}
		*vec_push(&b->chosen) = all.v[i];
		*vec_push(&b->earlier) = has_earlier ? all.v[i - 1] : NULL;
	}
	b->s->n_dumps = (uint32_t)b->chosen.n;
	say_left_out(b, other, stale, nameless);
	free(all.v);
}

/* --- groups and members --- */

uint32_t scene_group_row(struct building *b, uint32_t name, uint32_t desc, uint32_t ranks)
{
	char key[64];
	uint32_t row;

	snprintf(key, sizeof(key), "%" PRIx32 ",%" PRIx32 ",%" PRIx32, name, desc, ranks);
	row = intern_str(&b->group_keys, key);
	if (row == b->s->groups.n)
		*vec_push(&b->s->groups) = (struct scene_group){
			.name = name, .desc = desc, .size = -1, .last_common = -1
		};
	return row;
}

static size_t member_place(const struct scene_group *g, uint32_t row)
{
	size_t low = 0, high = g->members.n;

	if (high && g->members.v[high - 1].row < row)
		return high;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (g->members.v[middle].row < row)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct scene_member *scene_member_of(struct scene_group *g, uint32_t row)
{
	size_t at = member_place(g, row);

	return at < g->members.n && g->members.v[at].row == row ? &g->members.v[at] : NULL;
}

struct scene_member *scene_member_add(struct scene_group *g, uint32_t row)
{
	size_t at = member_place(g, row);

	if (at < g->members.n && g->members.v[at].row == row)
		return &g->members.v[at];
	vec_push(&g->members);
	memmove(&g->members.v[at + 1], &g->members.v[at],
		(g->members.n - 1 - at) * sizeof(*g->members.v));
	g->members.v[at] = (struct scene_member){
		.row = row,
		.first = -1,
		.enqueued = -1,
		.completed = -1,
		.last_signature = NO_ID,
		.wait = { .seq = -1, .signature = NO_ID, .frames = NO_ID, .order = -1 },
	};
	return &g->members.v[at];
}

static uint32_t signature_here(struct building *b, uint32_t of_table)
{
	if (of_table == NO_ID)
		return NO_ID;
	if (b->signature[of_table] == NO_ID)
		b->signature[of_table] =
		    scene_signature(b, &b->st->names, &b->st->signatures.v[of_table]);
	return b->signature[of_table];
}

static uint32_t group_here(struct building *b, uint32_t of_table)
{
	const struct standing_group *g = &b->st->groups.v[of_table];

	if (b->group[of_table] == NO_ID) {
		const char *stated = g->ranks == NO_ID ? "" : intern_get(&b->st->names, g->ranks);
		bool none = states_no_ranks(stated);
		uint32_t name = scene_name(b->s, &b->st->names, g->name);
		uint32_t desc = scene_name(b->s, &b->st->names, g->desc);
		uint32_t row = scene_group_row(
		    b, name, desc, none ? NO_ID : scene_name(b->s, &b->st->names, g->ranks));
		struct scene_group *to = &b->s->groups.v[row];
		size_t n = 0;
		_cleanup_free_ int64_t *ranks = none ? NULL : ranks_of_text(stated, &n);

		b->group[of_table] = row;
		to->size = g->size >= 0 ? g->size : n ? (int64_t)n : to->size;
		for (size_t i = 0; i < n; i++)
			if (scene_row(b->s, ranks[i]) != NO_ID)
				scene_member_add(to, scene_row(b->s, ranks[i]));
		to->members_known |= n > 0;
	}
	return b->group[of_table];
}

static struct scene_op op_here(struct building *b, const struct pending_op *p)
{
	return (struct scene_op){
		.seq = POSITION_SEQ(p->pos),
		.place = (uint32_t)(p->pos & 255),
		.signature = signature_here(b, p->signature),
		.frames = scene_name(b->s, &b->st->names, p->frames),
		.order = p->order,
		.created_ns = p->created_ns,
		.timeout_ms = p->timeout_ms,
		.state = p->state,
		.p2p = p->p2p,
	};
}

static void add_standing(struct building *b, const struct dump_view *v, uint32_t row,
			 const struct dump_group *own)
{
	uint32_t group = group_here(b, own->group);
	struct scene_member *m = scene_member_add(&b->s->groups.v[group], row);

	m->source = MEMBER_DUMP;
	m->first = own->first < 0 ? -1 : POSITION_SEQ(own->first);
	m->enqueued = own->enqueued;
	m->completed = own->completed;
	m->n_pending = (uint32_t)MIN(own->n_pending, (uint64_t)UINT32_MAX);
	m->last_signature = signature_here(b, own->last_signature);
	if (own->pending.n) {
		m->waits = true;
		m->wait = op_here(b, &own->pending.v[0]);
	}
	if (v->first_wait != NO_ID && &v->groups.v[v->first_wait] == own) {
		b->s->ranks.v[row].wait_group = group;
		b->s->ranks.v[row].wait_seq = m->wait.seq;
	}
}

/* Groups that state no members have those ranks that were seen in them; the default group has all.
 */
static void complete_members(struct building *b)
{
	struct scene *s = b->s;

	for (size_t i = 0; i < s->groups.n; i++) {
		struct scene_group *g = &s->groups.v[i];
		const char *desc = intern_get(&s->names, g->desc);

		if (g->members_known || strcmp(desc, "default_pg") || s->world_assumed)
			continue;
		for (uint32_t row = 0; row < s->ranks.n && s->ranks.v[row].rank >= 0; row++)
			scene_member_add(g, row);
		g->members_known = true;
	}
}

static const struct dump_group *same_group(const struct dump_view *v, uint32_t group)
{
	for (size_t i = 0; i < v->groups.n; i++)
		if (v->groups.v[i].group == group)
			return &v->groups.v[i];
	return NULL;
}

/* Between a rank's last two dumps: did it finish or begin anything? */
static bool dump_moved(const struct dump_view *before, const struct dump_view *now)
{
	for (size_t i = 0; i < now->groups.n; i++) {
		const struct dump_group *g = &now->groups.v[i];
		const struct dump_group *old = same_group(before, g->group);

		if (!old ? g->enqueued >= 0
			 : g->enqueued > old->enqueued || g->completed > old->completed)
			return true;
	}
	return false;
}

void build_groups(struct building *b)
{
	struct scene *s = b->s;
	bool moved = false, again = false;

	for (size_t i = 0; i < b->chosen.n; i++) {
		struct dump_view *v = b->chosen.v[i];
		uint32_t row = scene_row(s, v->rank);
		struct scene_rank *r;

		if (row == NO_ID)
			continue;
		r = &s->ranks.v[row];
		b->view[row] = v;
		r->lived = true;
		r->witnesses |= 1u << WITNESS_DUMP;
		r->host = v->host == NO_ID ? r->host : scene_name(s, &b->st->names, v->host);
		r->habit = (enum scene_habit)v->habit;
		r->habit_size = (enum scene_habit)v->habit_size;
		r->usual = signature_here(b, v->usual);
		r->last_op_ns = v->time_ns;
		s->recorded_ns = MAX(s->recorded_ns, v->time_ns);
		for (size_t k = 0; k < v->groups.n; k++)
			add_standing(b, v, row, &v->groups.v[k]);
		if (b->earlier.v[i]) {
			again = true;
			moved |= dump_moved(b->earlier.v[i], v);
		}
	}
	s->n_recordings = s->n_dumps ? 1 + again : 0;
	s->moved = !again ? MOVED_UNKNOWN : moved ? MOVED_YES : MOVED_NO;
	for (size_t i = 0; i < b->st->signatures.n; i++) {
		const char *name = intern_get(&b->st->names, b->st->signatures.v[i].name);

		s->gloo |= !strncmp(name, "gloo:", 5);
	}
	complete_members(b);
}

/* --- who called what differently --- */

static uint32_t called_with(const struct building *b, const struct scene_group *g, size_t member,
			    uint32_t of_table, int64_t pos)
{
	const struct dump_view *v = b->view[g->members.v[member].row];
	const struct dump_group *own = v ? same_group(v, of_table) : NULL;

	return own ? dump_variant(own, pos) : NO_ID;
}

static bool sides_alike(const struct scene *s, uint32_t a, uint32_t b, enum mismatch *ret)
{
	*ret = signature_compare(&s->names, &s->signatures.v[a], &s->signatures.v[b]);
	return *ret == MISMATCH_NONE;
}

static void side_add(struct building *b, struct scene_conflict *c, uint32_t signature, uint32_t row)
{
	enum mismatch kind;

	for (size_t i = 0; i < c->sides.n; i++)
		if (sides_alike(b->s, c->sides.v[i].signature, signature, &kind)) {
			*vec_push(&c->sides.v[i].rows) = row;
			return;
		}
	*vec_push(&c->sides) = (struct scene_side){ .signature = signature };
	*vec_push(&c->sides.v[c->sides.n - 1].rows) = row;
}

static int by_side_size(const void *a, const void *b)
{
	const struct scene_side *x = a, *y = b;

	if (x->rows.n != y->rows.n)
		return x->rows.n > y->rows.n ? -1 : 1;
	return (x->rows.v[0] > y->rows.v[0]) - (x->rows.v[0] < y->rows.v[0]);
}

static void conflict_add(struct building *b, struct scene_group *g, struct scene_conflict *c)
{
	size_t at = g->conflicts.n;

	if (c->sides.n < 2) {
		for (size_t i = 0; i < c->sides.n; i++)
			free(c->sides.v[i].rows.v);
		free(c->sides.v);
		return;
	}
	qsort(c->sides.v, c->sides.n, sizeof(*c->sides.v), by_side_size);
	sides_alike(b->s, c->sides.v[0].signature, c->sides.v[1].signature, &c->kind);
	c->finished = true;
	for (size_t i = 0; i < g->members.n; i++)
		if (g->members.v[i].waits && !g->members.v[i].wait.p2p &&
		    g->members.v[i].wait.seq <= c->seq)
			c->finished = false;
	vec_push(&g->conflicts);
	for (; at && g->conflicts.v[at - 1].seq > c->seq; at--)
		g->conflicts.v[at] = g->conflicts.v[at - 1];
	g->conflicts.v[at] = *c;
}

static int by_position(const void *a, const void *b, void *st)
{
	const struct standing_slot *slots = ((const struct standings *)st)->slots;
	int64_t x = slots[*(const uint32_t *)a].pos, y = slots[*(const uint32_t *)b].pos;

	return (x > y) - (x < y);
}

static bool slot_differs(struct building *b, const struct standing_slot *slot)
{
	enum mismatch kind;

	for (uint32_t i = 1; i < slot->n_variants; i++)
		if (!sides_alike(b->s, signature_here(b, slot_variant(slot, 0)),
				 signature_here(b, slot_variant(slot, i)), &kind))
			return true;
	return false;
}

static void conflicts_of_dumps(struct building *b, uint32_t of_table)
{
	const struct standing_group *from = &b->st->groups.v[of_table];
	struct scene_group *g = &b->s->groups.v[b->group[of_table]];
	_cleanup_free_ uint32_t *slots = xmalloc((from->differing.n + 1) * sizeof(*slots));

	if (!from->differing.n)
		return;
	memcpy(slots, from->differing.v, from->differing.n * sizeof(*slots));
	qsort_r(slots, from->differing.n, sizeof(*slots), by_position, (void *)(uintptr_t)b->st);
	for (size_t i = 0; i < from->differing.n; i++) {
		const struct standing_slot *slot = &b->st->slots[slots[i]];
		struct scene_conflict c = { .seq = POSITION_SEQ(slot->pos),
					    .place = (uint32_t)(slot->pos & 255) };

		if (g->conflicts.n >= SCENE_CONFLICTS_MAX)
			return;
		if (!slot_differs(b, slot))
			continue;
		for (size_t m = 0; m < g->members.n; m++) {
			uint32_t variant = called_with(b, g, m, of_table, slot->pos);

			if (variant != NO_ID)
				side_add(b, &c, signature_here(b, slot_variant(slot, variant)),
					 g->members.v[m].row);
		}
		conflict_add(b, g, &c);
	}
}

/* What a log's watchdogs name at one sequence number. */
static void conflicts_of_waits(struct building *b, struct scene_group *g)
{
	struct scene_conflict c = { .seq = -1 };

	for (size_t i = 0; i < g->members.n; i++)
		if (g->members.v[i].waits && g->members.v[i].source == MEMBER_LOG &&
		    g->members.v[i].wait.seq >= 0 &&
		    (c.seq < 0 || g->members.v[i].wait.seq < c.seq))
			c.seq = g->members.v[i].wait.seq;
	if (c.seq < 0)
		return;
	for (size_t i = 0; i < g->members.n; i++) {
		const struct scene_member *m = &g->members.v[i];

		if (m->waits && m->wait.seq == c.seq && m->wait.signature != NO_ID && !m->wait.p2p)
			side_add(b, &c, m->wait.signature, m->row);
	}
	conflict_add(b, g, &c);
}

static void find_last_common(struct scene_group *g)
{
	int64_t common = INT64_MAX;

	for (size_t i = 0; i < g->members.n; i++)
		if (g->members.v[i].source == MEMBER_DUMP && g->members.v[i].enqueued >= 0)
			common = MIN(common, g->members.v[i].enqueued);
	if (g->conflicts.n)
		common = MIN(common, g->conflicts.v[0].seq - 1);
	g->last_common = common == INT64_MAX ? -1 : common;
}

void find_conflicts(struct building *b)
{
	for (uint32_t i = 0; i < b->st->groups.n; i++)
		if (b->group[i] != NO_ID)
			conflicts_of_dumps(b, i);
	for (size_t i = 0; i < b->s->groups.n; i++) {
		struct scene_group *g = &b->s->groups.v[i];

		if (!g->conflicts.n)
			pair_conflicts(b, g);
		if (!g->conflicts.n)
			conflicts_of_waits(b, g);
		find_last_common(g);
	}
}
