/* SPDX-License-Identifier: Apache-2.0 */
/*
 * standings.c - dumps into the one table of operations.
 *
 * Ranks of a group call the same operations in the same order, so that a dump is followed along
 * `next` links from slot to slot, and an entry costs no look-up by hash unless the order changes.
 * Nothing depends on the order in which dumps come but the numbering of rows, which nobody prints.
 */
#include "fold/standings.h"

#include <stdio.h>

#include "base/buf.h"

struct standings *standings_new(void)
{
	return xcalloc(1, sizeof(struct standings));
}

struct standings *standings_free(struct standings *s)
{
	if (!s)
		return NULL;
	for (uint32_t i = 0; i < s->n_slots; i++)
		free(s->slots[i].more.v);
	for (size_t i = 0; i < s->groups.n; i++)
		free(s->groups.v[i].differing.v);
	free(s->slots);
	free(s->index);
	free(s->groups.v);
	free(s->signatures.v);
	intern_done(&s->names);
	intern_done(&s->signature_keys);
	intern_done(&s->group_keys);
	free(s);
	return NULL;
}

struct dump_view *dump_view_free(struct dump_view *v)
{
	if (!v)
		return NULL;
	for (size_t i = 0; i < v->groups.n; i++) {
		for (size_t k = 0; k < STANDING_PLACES; k++)
			free(v->groups.v[i].runs[k].v);
		free(v->groups.v[i].pending.v);
	}
	free(v->groups.v);
	free(v);
	return NULL;
}

/* --- a dump's names, signatures and groups as rows of the table --- */

struct taking {
	struct standings *s;
	struct testimony *t;
	struct dump_view *v;
	uint32_t *signature; /* by the dump's own rows */
	uint32_t *compared;  /* the same without what members may differ in */
	uint32_t *group;     /* row of s->groups */
	uint32_t *view;	     /* row of v->groups; NO_ID: none yet */
	uint32_t *last_slot; /* by row of v->groups */
	int64_t *last_seq;
	int64_t *cut_seq; /* the number at which a ring that has wrapped begins: not whole */
	bool wrapped;
	uint32_t *place; /* among entries of the same number */
};

static uint32_t name_of(struct taking *k, uint32_t id)
{
	if (id == NO_ID)
		return NO_ID;
	return intern(&k->s->names, intern_get(&k->t->names, id), intern_len(&k->t->names, id));
}

/* A key of numbers, as text: interners keep no zero bytes. */
static void key_add(struct buf *key, uint64_t v)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%" PRIx64 ",", v);

	buf_put(key, text, (size_t)n);
}

static uint32_t signature_row(struct taking *k, const struct signature *own, struct buf *key)
{
	struct signature g = *own;
	uint32_t row;

	g.name = name_of(k, own->name);
	g.in_sizes = name_of(k, own->in_sizes);
	g.out_sizes = name_of(k, own->out_sizes);
	g.in_dtypes = name_of(k, own->in_dtypes);
	g.out_dtypes = name_of(k, own->out_dtypes);
	key->len = 0;
	key_add(key, g.op);
	key_add(key, g.name);
	key_add(key, g.in_sizes);
	key_add(key, g.out_sizes);
	key_add(key, g.in_dtypes);
	key_add(key, g.out_dtypes);
	key_add(key, (uint64_t)g.in_elements);
	key_add(key, (uint64_t)g.out_elements);
	key_add(key, (uint32_t)g.source);
	key_add(key, (uint32_t)g.target);
	row = intern(&k->s->signature_keys, (const char *)key->data, key->len);
	if (row == k->s->signatures.n)
		*vec_push(&k->s->signatures) = g;
	return row;
}

static uint32_t group_row(struct taking *k, const struct op_group *own, struct buf *key)
{
	struct standing_group g = {
		.name = name_of(k, own->name),
		.desc = name_of(k, own->desc),
		.ranks = name_of(k, own->ranks),
		.size = own->size,
	};
	uint32_t row;

	key->len = 0;
	key_add(key, g.name);
	key_add(key, g.desc);
	key_add(key, g.ranks);
	row = intern(&k->s->group_keys, (const char *)key->data, key->len);
	if (row == k->s->groups.n)
		*vec_push(&k->s->groups) = g;
	return row;
}

static struct dump_group *view_group(struct taking *k, uint32_t own)
{
	if (k->view[own] == NO_ID) {
		k->view[own] = (uint32_t)k->v->groups.n;
		*vec_push(&k->v->groups) = (struct dump_group){
			.group = k->group[own],
			.first = -1,
			.last = -1,
			.enqueued = -1,
			.started = -1,
			.completed = -1,
			.last_signature = NO_ID,
		};
	}
	return &k->v->groups.v[k->view[own]];
}

/* --- slots --- */

static uint32_t hash_slot(uint32_t group, int64_t pos)
{
	return (uint32_t)hash_mix(hash_mix(17, group), (uint64_t)pos);
}

static void index_grow(struct standings *s)
{
	uint32_t size = s->index ? 2 * (s->index_mask + 1) : 4096;

	free(s->index);
	s->index = xcalloc(size, sizeof(*s->index));
	s->index_mask = size - 1;
	for (uint32_t i = 0; i < s->n_slots; i++) {
		uint32_t at = hash_slot(s->slots[i].group, s->slots[i].pos) & s->index_mask;

		while (s->index[at])
			at = (at + 1) & s->index_mask;
		s->index[at] = i + 1;
	}
}

/* The slot, new if need be; NO_ID if there are too many. */
static uint32_t slot_of(struct standings *s, uint32_t group, int64_t pos)
{
	uint32_t at;

	if (!s->index || 4 * (uint64_t)s->n_slots > 3 * (uint64_t)s->index_mask)
		index_grow(s);
	for (at = hash_slot(group, pos) & s->index_mask; s->index[at];
	     at = (at + 1) & s->index_mask) {
		const struct standing_slot *slot = &s->slots[s->index[at] - 1];

		if (slot->group == group && slot->pos == pos)
			return s->index[at] - 1;
	}
	if (s->n_slots >= STANDING_SLOTS_MAX)
		return NO_ID;
	if (s->n_slots == s->cap_slots) {
		s->cap_slots = s->cap_slots ? 2 * s->cap_slots : 4096;
		s->slots = xrealloc(s->slots, s->cap_slots * sizeof(*s->slots));
	}
	s->slots[s->n_slots] = (struct standing_slot){ .pos = pos, .group = group, .next = NO_ID };
	s->index[at] = ++s->n_slots;
	return s->n_slots - 1;
}

const struct standing_slot *standings_slot(const struct standings *s, uint32_t group, int64_t pos)
{
	if (!s->index)
		return NULL;
	for (uint32_t at = hash_slot(group, pos) & s->index_mask; s->index[at];
	     at = (at + 1) & s->index_mask) {
		const struct standing_slot *slot = &s->slots[s->index[at] - 1];

		if (slot->group == group && slot->pos == pos)
			return slot;
	}
	return NULL;
}

uint32_t slot_variant(const struct standing_slot *slot, uint32_t i)
{
	return i < ARRAY_SIZE(slot->variants) ? slot->variants[i]
					      : slot->more.v[i - ARRAY_SIZE(slot->variants)];
}

static uint32_t variant_of(struct standings *s, uint32_t row, uint32_t signature)
{
	struct standing_slot *slot = &s->slots[row];

	for (uint32_t i = 0; i < slot->n_variants; i++)
		if (slot_variant(slot, i) == signature)
			return i;
	if (slot->n_variants == STANDING_VARIANTS_MAX)
		return STANDING_VARIANTS_MAX - 1;
	if (slot->n_variants < ARRAY_SIZE(slot->variants))
		slot->variants[slot->n_variants] = signature;
	else
		*vec_push(&slot->more) = signature;
	if (slot->n_variants == 1)
		*vec_push(&s->groups.v[slot->group].differing) = row;
	return slot->n_variants++;
}

uint32_t dump_variant(const struct dump_group *g, int64_t pos)
{
	const struct variant_runs *runs = &g->runs[MIN(pos & 255, STANDING_PLACES - 1)];
	size_t low = 0, high = runs->n;

	if (pos < g->first || pos > g->last || !high)
		return NO_ID;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (runs->v[middle].from <= pos)
			low = middle;
		else
			high = middle;
	}
	return pos >= runs->v[low].from && pos <= runs->v[low].last &&
		       !((pos ^ runs->v[low].from) & 255)
		   ? runs->v[low].variant
		   : NO_ID;
}

/* --- entries --- */

static bool entry_done(const struct op_entry *e)
{
	return e->retired || e->state == OP_COMPLETED;
}

static int by_record(const void *a, const void *b)
{
	const struct op_entry *x = a, *y = b;

	if (x->record != y->record)
		return x->record < y->record ? -1 : 1;
	return (x->created_ns > y->created_ns) - (x->created_ns < y->created_ns);
}

/* Entries of no group or signature of the dump: no reader gives any. */
static void drop_loose_entries(struct testimony *t)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->entries.n; i++)
		if (t->entries.v[i].group < t->groups.n &&
		    t->entries.v[i].signature < t->signatures.n)
			t->entries.v[kept++] = t->entries.v[i];
	t->entries.n = kept;
}

static void sort_entries(struct testimony *t)
{
	for (size_t i = 1; i < t->entries.n; i++)
		if (by_record(&t->entries.v[i - 1], &t->entries.v[i]) > 0) {
			qsort(t->entries.v, t->entries.n, sizeof(*t->entries.v), by_record);
			return;
		}
}

static bool later_pending(const struct pending_op *a, const struct pending_op *b)
{
	if (a->p2p != b->p2p)
		return a->p2p;
	return a->p2p ? a->order > b->order : a->pos > b->pos;
}

static void add_pending(struct taking *k, struct dump_group *g, const struct op_entry *e,
			int64_t pos, int64_t order)
{
	struct pending_op p = {
		.pos = pos,
		.signature = k->signature[e->signature],
		.frames = name_of(k, e->frames),
		.order = order,
		.created_ns = e->created_ns,
		.timeout_ms = e->timeout_ms,
		.state = e->state,
		.p2p = e->p2p,
	};
	size_t at;

	g->n_pending++;
	if (g->pending.n == STANDING_PENDING_MAX) {
		if (!later_pending(&g->pending.v[g->pending.n - 1], &p))
			return;
		g->pending.n--;
	}
	vec_push(&g->pending);
	for (at = g->pending.n - 1; at && later_pending(&g->pending.v[at - 1], &p); at--)
		g->pending.v[at] = g->pending.v[at - 1];
	g->pending.v[at] = p;
}

/* Runs are of one place: the parts of coalesced calls would else break each other's. */
static void add_to_run(struct dump_group *g, int64_t pos, uint32_t variant)
{
	struct variant_runs *runs = &g->runs[MIN(pos & 255, STANDING_PLACES - 1)];
	struct variant_run *r = runs->n ? &runs->v[runs->n - 1] : NULL;

	if (r && r->variant == variant && pos == r->last + POSITION(1))
		r->last = pos;
	else
		*vec_push(runs) = (struct variant_run){ pos, pos, variant };
}

static void add_to_table(struct taking *k, struct dump_group *g, uint32_t view, int64_t pos,
			 uint32_t signature)
{
	struct standings *s = k->s;
	uint32_t before = k->last_slot[view], row = NO_ID, variant;

	if (before != NO_ID) {
		uint32_t next = s->slots[before].next;

		if (next != NO_ID && s->slots[next].pos == pos)
			row = next;
	}
	if (row == NO_ID) {
		row = slot_of(s, g->group, pos);
		if (row == NO_ID) {
			s->dropped++;
			return;
		}
		if (before != NO_ID)
			s->slots[before].next = row;
	}
	k->last_slot[view] = row;
	variant = variant_of(s, row, signature);
	if (g->first < 0)
		g->first = pos;
	add_to_run(g, pos, variant);
	g->last = MAX(g->last, pos);
}

static void take_entry(struct taking *k, const struct op_entry *e, int64_t order)
{
	struct dump_group *g = view_group(k, e->group);
	uint32_t view = k->view[e->group], signature = k->signature[e->signature];
	uint64_t *print = &k->v->fingerprint;
	int64_t pos;

	*print = hash_mix(hash_mix(*print, (uint64_t)e->seq), (uint64_t)e->record);
	*print = hash_mix(hash_mix(*print, signature), (uint64_t)entry_done(e) << 1 | e->p2p);
	k->v->entries++;
	if (e->seq < 0 || e->seq > STANDING_SEQ_MAX)
		return;
	if (e->p2p) {
		if (!entry_done(e))
			add_pending(k, g, e, POSITION(e->seq), order);
		return;
	}
	if (e->seq == k->last_seq[view] && g->last >= 0)
		k->place[view] = MIN(k->place[view] + 1, 255u);
	else
		k->place[view] = 0;
	/* Numbers only rise; a lower one behind a higher one is of another counting. */
	if (e->seq < k->last_seq[view])
		return;
	/* the parts of a coalesced call follow one another: only what the ring begins with is cut
	 */
	if (k->last_seq[view] < 0 && k->wrapped && e == k->t->entries.v)
		k->cut_seq[view] = e->seq;
	k->last_seq[view] = e->seq;
	pos = POSITION(e->seq) + k->place[view];
	if (e->seq != k->cut_seq[view])
		add_to_table(k, g, view, pos, k->compared[e->signature]);
	g->enqueued = MAX(g->enqueued, e->seq);
	g->last_signature = signature;
	if (e->state == OP_STARTED || e->state == OP_COMPLETED)
		g->started = MAX(g->started, e->seq);
	if (!entry_done(e))
		add_pending(k, g, e, pos, order);
	else
		g->completed = MAX(g->completed, e->seq);
}

/* --- did the rank do what it used to do? --- */

struct habit_found {
	enum habit habit;
	size_t usual; /* entry */
};

static uint64_t habit_key(const struct testimony *t, const struct op_entry *e, bool sizes)
{
	const struct signature *s = &t->signatures.v[e->signature];

	return hash_mix(hash_mix(e->group, s->op), sizes ? e->signature + 1u : 0);
}

/* What came before after the same `length` operations: the longest context that was seen twice
   decides. */
static struct habit_found habit_of(const struct testimony *t, size_t at, bool sizes)
{
	struct habit_found none = { HABIT_UNKNOWN, SIZE_MAX };

	for (size_t length = 3; length; length--) {
		uint64_t context[3], own = habit_key(t, &t->entries.v[at], sizes);
		size_t seen = 0, same = 0, usual = SIZE_MAX;

		if (at < length)
			continue;
		for (size_t i = 0; i < length; i++)
			context[i] = habit_key(t, &t->entries.v[at - length + i], sizes);
		for (size_t i = length; i < at; i++) {
			bool alike = true;

			for (size_t c = 0; alike && c < length; c++)
				alike = habit_key(t, &t->entries.v[i - length + c], sizes) ==
					context[c];
			if (!alike)
				continue;
			seen++;
			if (habit_key(t, &t->entries.v[i], sizes) == own)
				same++;
			else
				usual = i;
		}
		if (same)
			return (struct habit_found){ HABIT_KEPT, usual };
		if (seen >= 2)
			return (struct habit_found){ HABIT_BROKEN, usual };
	}
	return none;
}

static bool between_two(const struct testimony *t, const struct op_entry *e)
{
	enum comm_op op = t->signatures.v[e->signature].op;

	return op == COMM_SEND || op == COMM_RECV || op == COMM_SEND_RECV;
}

/* What marks a step: the operation that came least often of those that came again; and of those
   that came three times. */
struct marks {
	struct mark {
		uint64_t key; /* 0: none */
		size_t n;
	} twice, thrice;
};

static void fewest(struct mark *best, const struct mark *m, size_t times)
{
	if (m->n >= times && (!best->key || m->n < best->n))
		*best = *m;
}

static struct marks marks_of(const struct testimony *t, size_t end)
{
	VEC(struct mark) marks = { 0 };
	struct marks ret = { 0 };

	for (size_t i = 0; i < end; i++) {
		uint64_t key = habit_key(t, &t->entries.v[i], false);
		size_t at = 0;

		if (t->entries.v[i].p2p || between_two(t, &t->entries.v[i]))
			continue;
		while (at < marks.n && marks.v[at].key != key)
			at++;
		if (at == marks.n) {
			if (marks.n == 256)
				continue;
			*vec_push(&marks) = (struct mark){ .key = key };
		}
		marks.v[at].n++;
	}
	for (size_t i = 0; i < marks.n; i++) {
		fewest(&ret.twice, &marks.v[i], 2);
		fewest(&ret.thrice, &marks.v[i], 3);
	}
	free(marks.v);
	return ret;
}

static bool came_once(const struct testimony *t, size_t at)
{
	uint64_t own = habit_key(t, &t->entries.v[at], false);
	size_t n = 0;

	for (size_t i = 0; i < at; i++)
		n += habit_key(t, &t->entries.v[i], false) == own;
	return n == 1;
}

/* A send or recv more than any whole step before had? */
static enum habit habit_of_p2p(const struct testimony *t, size_t at)
{
	uint64_t mark = marks_of(t, at).twice.key, own = habit_key(t, &t->entries.v[at], true);
	size_t count = 0, most = 0, steps = 0;

	if (!mark)
		return HABIT_UNKNOWN;
	for (size_t i = 0; i < at; i++) {
		if (!t->entries.v[i].p2p && habit_key(t, &t->entries.v[i], false) == mark) {
			/* what comes before the first mark is no whole step */
			most = steps ? MAX(most, count) : most;
			steps++;
			count = 0;
		}
		count += t->entries.v[i].p2p && habit_key(t, &t->entries.v[i], true) == own;
	}
	if (steps < 2)
		return HABIT_UNKNOWN;
	return count + 1 > most ? HABIT_BROKEN : HABIT_KEPT;
}

/* A step: the operations behind one mark, up to the next one, which is part of it. */
struct span_of_ops {
	size_t from, n;
};

static bool is_mark(const struct testimony *t, size_t at, uint64_t mark)
{
	const struct op_entry *e = &t->entries.v[at];

	return !e->p2p && habit_key(t, e, false) == mark;
}

/* The step of an operation, whole or not, and those before it; how many. What comes before the
   first mark is no step: the ring may have lost its begin, and a job sets up its groups there. */
static size_t steps_up_to(const struct testimony *t, size_t at, uint64_t mark,
			  struct span_of_ops *ret, size_t most)
{
	size_t end = at, found = 0;

	while (end < t->entries.n && !is_mark(t, end, mark))
		end++;
	end = MIN(end + 1, t->entries.n);
	for (size_t i = at; i-- && found < most;) {
		if (!is_mark(t, i, mark))
			continue;
		ret[found++] = (struct span_of_ops){ i + 1, end - (i + 1) };
		end = i + 1;
	}
	return found;
}

/* What came twice may be a save, or the job's begin and end. */
static uint64_t mark_of_steps(const struct testimony *t)
{
	struct marks m = marks_of(t, t->entries.n);

	return m.thrice.key && m.thrice.n <= 2 * m.twice.n ? m.thrice.key : m.twice.key;
}

/* How many operations two steps have alike from their begins. */
static size_t alike_from_begin(const struct testimony *t, struct span_of_ops a,
			       struct span_of_ops b)
{
	size_t n = 0;

	for (; n < MIN(a.n, b.n); n++) {
		const struct op_entry *x = &t->entries.v[a.from + n];
		const struct op_entry *y = &t->entries.v[b.from + n];

		if (habit_key(t, x, x->p2p) != habit_key(t, y, y->p2p))
			break;
	}
	return n;
}

/* Did the rank call, in the step in which it stands, something else than in the step before, where
   the steps before were alike? One that left out a call goes on with calls that come as usual, each
   for itself. Then *ret_usual and *ret_called are where they part; a step that begins otherwise is
   another kind of step. */
static bool leaves_the_step(const struct testimony *t, size_t at, size_t *ret_usual,
			    size_t *ret_called)
{
	uint64_t mark = mark_of_steps(t);
	struct span_of_ops step[3];
	size_t n = mark ? steps_up_to(t, at, mark, step, ARRAY_SIZE(step)) : 0, alike;

	if (n < 2)
		return false;
	if (n == 3 &&
	    (step[1].n != step[2].n || alike_from_begin(t, step[1], step[2]) != step[1].n))
		return false;
	alike = alike_from_begin(t, step[0], step[1]);
	if (!alike || alike == step[0].n)
		return false;
	*ret_called = step[0].from + alike;
	*ret_usual = step[1].from + MIN(alike, step[1].n - 1);
	return true;
}

/* The groups in which the last step parts from those before: of what came there, and used to. */
static void find_left_step(struct taking *k, size_t at)
{
	size_t parts[2];

	k->v->left_step = leaves_the_step(k->t, at, &parts[0], &parts[1]);
	for (size_t i = 0; k->v->left_step && i < ARRAY_SIZE(parts); i++)
		k->v->groups.v[k->view[k->t->entries.v[parts[i]].group]].left_here = true;
}

static void find_habit(struct taking *k)
{
	const struct testimony *t = k->t;
	struct habit_found found;
	size_t at = 0;

	while (at < t->entries.n && entry_done(&t->entries.v[at]))
		at++;
	if (at == t->entries.n)
		return;
	k->v->first_wait = k->view[t->entries.v[at].group];
	find_left_step(k, at);
	if (t->entries.v[at].p2p) {
		k->v->habit = k->v->habit_size = habit_of_p2p(t, at);
		return;
	}
	found = habit_of(t, at, false);
	/* less than two steps are there, or too little of what came before this one */
	if (found.habit == HABIT_BROKEN && (!marks_of(t, at).twice.key || came_once(t, at)))
		return;
	k->v->habit = found.habit;
	if (found.habit == HABIT_BROKEN && found.usual != SIZE_MAX)
		k->v->usual = k->signature[t->entries.v[found.usual].signature];
	k->v->habit_size = found.habit == HABIT_KEPT ? habit_of(t, at, true).habit : found.habit;
}

static void take_status(struct taking *k)
{
	for (size_t i = 0; i < k->t->status.n; i++) {
		const struct op_status *st = &k->t->status.v[i];
		struct dump_group *g;

		if (st->group >= k->t->groups.n)
			continue;
		g = view_group(k, st->group);
		g->enqueued = MAX(g->enqueued, st->enqueued);
		g->started = MAX(g->started, st->started);
		if (st->completed <= STANDING_SEQ_MAX)
			g->completed = MAX(g->completed, st->completed);
	}
}

struct dump_view *standings_take(struct standings *s, struct testimony *t, bool cut)
{
	struct taking k = { .s = s, .t = t, .v = xcalloc(1, sizeof(struct dump_view)) };
	struct buf key = { 0 };
	size_t groups = t->groups.n + 1;

	k.v->rank = t->rank;
	k.v->cut = cut;
	k.v->traced = t->format && !strcmp(t->format, TESTIMONY_TRACED);
	k.v->time_ns = t->time_ns;
	k.v->world_size = t->world_size;
	k.v->host = name_of(&k, t->host);
	k.v->path = name_of(&k, t->path);
	k.v->first_wait = k.v->usual = NO_ID;
	k.signature = xcalloc(t->signatures.n + 1, sizeof(*k.signature));
	k.group = xcalloc(groups, sizeof(*k.group));
	k.view = xmalloc(groups * sizeof(*k.view));
	k.last_slot = xmalloc(groups * sizeof(*k.last_slot));
	k.last_seq = xmalloc(groups * sizeof(*k.last_seq));
	k.cut_seq = xmalloc(groups * sizeof(*k.cut_seq));
	k.place = xcalloc(groups, sizeof(*k.place));
	memset(k.cut_seq, 0xff, groups * sizeof(*k.cut_seq));
	memset(k.view, 0xff, groups * sizeof(*k.view));
	memset(k.last_slot, 0xff, groups * sizeof(*k.last_slot));
	memset(k.last_seq, 0xff, groups * sizeof(*k.last_seq));
	k.compared = xcalloc(t->signatures.n + 1, sizeof(*k.compared));
	for (size_t i = 0; i < t->signatures.n; i++) {
		struct signature alike = t->signatures.v[i];

		k.signature[i] = signature_row(&k, &alike, &key);
		if (alike.op == COMM_ALL_TO_ALL) { /* else each rank has a variant of its own */
			alike.in_sizes = alike.out_sizes = NO_ID;
			alike.in_elements = alike.out_elements = -1;
		}
		k.compared[i] = signature_row(&k, &alike, &key);
	}
	for (uint32_t i = 0; i < t->groups.n; i++) {
		k.group[i] = group_row(&k, &t->groups.v[i], &key);
		view_group(&k, i);
	}
	drop_loose_entries(t);
	sort_entries(t);
	k.wrapped = t->entries.n && t->entries.v[0].record > 0;
	for (size_t i = 0; i < t->entries.n; i++)
		take_entry(&k, &t->entries.v[i], (int64_t)i);
	take_status(&k);
	find_habit(&k);
	testimony_strip(t);
	free(k.signature);
	free(k.compared);
	free(k.group);
	free(k.view);
	free(k.last_slot);
	free(k.last_seq);
	free(k.cut_seq);
	free(k.place);
	buf_done(&key);
	return k.v;
}
