/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_groups.c - groups with their members, and where each member stands in them by its dump.
 *
 * Behind is who has not begun what others wait in. Who lists an operation that another member has
 * finished merely has not noticed: its wait is the next one.
 */
#include "fold/scene_inside.h"

#include <stdio.h>

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

uint32_t signature_here(struct building *b, uint32_t of_table)
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

static void add_standing(struct building *b, uint32_t row, const struct dump_group *own)
{
	uint32_t group = group_here(b, own->group);
	struct scene_member *m = scene_member_add(&b->s->groups.v[group], row);

	m->source = MEMBER_DUMP;
	m->first = own->first < 0 ? -1 : POSITION_SEQ(own->first);
	m->enqueued = own->enqueued;
	m->completed = own->completed;
	m->n_pending = (uint32_t)MIN(own->n_pending, (uint64_t)UINT32_MAX);
	m->last_signature = signature_here(b, own->last_signature);
	m->left_here = own->left_here;
	if (own->pending.n) {
		m->waits = true;
		m->wait = op_here(b, &own->pending.v[0]);
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

const struct dump_group *same_group(const struct dump_view *v, uint32_t group)
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

/* What another member has finished, all have come to: who still lists it has merely not noticed. */
static int64_t passed_by_others(const struct scene *s, const struct scene_group *g)
{
	int64_t passed = -1;

	for (size_t i = 0; i < g->members.n; i++) {
		const struct scene_member *m = &g->members.v[i];

		if (m->source == MEMBER_DUMP && m->completed > passed &&
		    (m->last_signature == NO_ID ||
		     comm_op_leaves_together(s->signatures.v[m->last_signature].op)))
			passed = m->completed;
	}
	return passed;
}

static void skip_passed(struct building *b, uint32_t of_table, int64_t passed)
{
	struct scene_group *g = &b->s->groups.v[b->group[of_table]];

	for (size_t i = 0; i < g->members.n; i++) {
		struct scene_member *m = &g->members.v[i];
		const struct dump_view *v = b->view[m->row];
		const struct dump_group *own;

		if (!m->waits || m->wait.p2p || m->wait.seq > passed || !v)
			continue;
		own = same_group(v, of_table);
		m->waits = false;
		for (size_t k = 0; own && k < own->pending.n && !m->waits; k++)
			if (own->pending.v[k].p2p || POSITION_SEQ(own->pending.v[k].pos) > passed) {
				m->waits = true;
				m->wait = op_here(b, &own->pending.v[k]);
			}
	}
}

/* --- pairs of send and recv --- */

static const struct pending_op *counterpart(const struct building *b, uint32_t of_table,
					    const struct dump_view *peer,
					    const struct signature *of, int64_t self)
{
	const struct dump_group *g = same_group(peer, of_table);
	enum comm_op wanted = of->op == COMM_SEND ? COMM_RECV : COMM_SEND;

	for (size_t i = 0; g && i < g->pending.n; i++) {
		const struct signature *s = &b->st->signatures.v[g->pending.v[i].signature];
		int32_t back = wanted == COMM_SEND ? s->target : s->source;
		int64_t theirs = MAX(s->in_elements, s->out_elements);
		int64_t ours = MAX(of->in_elements, of->out_elements);

		if (g->pending.v[i].p2p && s->op == wanted && back == self &&
		    (theirs < 0 || ours < 0 || theirs == ours))
			return &g->pending.v[i];
	}
	return NULL;
}

static void meet_pairs(struct building *b, uint32_t of_table)
{
	struct scene_group *g = &b->s->groups.v[b->group[of_table]];

	for (size_t i = 0; i < g->members.n && g->members_known; i++) {
		struct scene_member *m = &g->members.v[i];
		const struct pending_op *other;
		const struct signature *s;
		int32_t peer;

		if (!m->waits || !m->wait.p2p || m->wait.signature == NO_ID)
			continue;
		s = &b->s->signatures.v[m->wait.signature];
		peer = s->op == COMM_SEND ? s->target : s->source;
		if (peer < 0 || (size_t)peer >= g->members.n || !b->view[g->members.v[peer].row])
			continue;
		other = counterpart(b, of_table, b->view[g->members.v[peer].row], s, (int64_t)i);
		m->met = other;
		m->met_order = other ? other->order : 0;
	}
}

/* A rank waits in what it began first and has not finished, whatever its group. */
static void find_first_waits(struct scene *s)
{
	_cleanup_free_ int64_t *order = xmalloc((s->ranks.n + 1) * sizeof(*order));

	for (size_t i = 0; i < s->ranks.n; i++) {
		order[i] = INT64_MAX;
		s->ranks.v[i].wait_group = NO_ID;
	}
	for (uint32_t k = 0; k < s->groups.n; k++)
		for (size_t i = 0; i < s->groups.v[k].members.n; i++) {
			const struct scene_member *m = &s->groups.v[k].members.v[i];

			if (!m->waits || m->source != MEMBER_DUMP || m->wait.order >= order[m->row])
				continue;
			order[m->row] = m->wait.order;
			s->ranks.v[m->row].wait_group = k;
			s->ranks.v[m->row].wait_seq = m->wait.seq;
		}
}

void build_groups(struct building *b)
{
	struct scene *s = b->s;
	size_t moved = 0, again = 0;

	for (size_t i = 0; i < b->chosen.n; i++) {
		struct dump_view *v = b->chosen.v[i];
		uint32_t row = scene_row(s, v->rank);
		struct scene_rank *r;

		if (row == NO_ID)
			continue;
		r = &s->ranks.v[row];
		b->view[row] = v;
		r->lived = true;
		r->cut = v->cut;
		r->witnesses |= 1u << WITNESS_DUMP;
		r->host = v->host == NO_ID ? r->host : scene_name(s, &b->st->names, v->host);
		r->left_step = v->left_step;
		r->habit = v->habit;
		r->habit_size = v->habit_size;
		r->usual = signature_here(b, v->usual);
		s->recorded_ns = MAX(s->recorded_ns, v->time_ns);
		for (size_t k = 0; k < v->groups.n; k++)
			add_standing(b, row, &v->groups.v[k]);
		if (b->earlier.v[i]) {
			again++;
			moved += dump_moved(b->earlier.v[i], v);
		}
	}
	/* the older files of a few ranks are no recording of the job */
	again = 2 * again > b->chosen.n ? again : 0;
	s->n_recordings = s->n_dumps ? 1 + (again > 0) : 0;
	s->moved = !again ? MOVED_UNKNOWN : moved ? MOVED_YES : MOVED_NO;
	for (size_t i = 0; i < b->st->signatures.n; i++) {
		const char *name = intern_get(&b->st->names, b->st->signatures.v[i].name);

		s->gloo |= !strncmp(name, "gloo:", 5);
	}
	complete_members(b);
	for (uint32_t i = 0; i < b->st->groups.n; i++)
		if (b->group[i] != NO_ID)
			skip_passed(b, i, passed_by_others(s, &s->groups.v[b->group[i]]));
	for (uint32_t i = 0; i < b->st->groups.n; i++)
		if (b->group[i] != NO_ID)
			meet_pairs(b, i);
	find_first_waits(s);
}
