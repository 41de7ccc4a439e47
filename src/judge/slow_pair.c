/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_pair.c - which collectives of different ranks are one and the same.
 *
 * By group and sequence number where the trace has them, else by order within (group, operation,
 * size), where all members of an operation move the same. Members of an all-to-all-kind collective
 * leave it together, so collectives give the offsets between the ranks' clocks; a pairing whose
 * members then do not even overlap contradicts itself and is not used.
 */
#include "judge/judge_internal.h"

#include <math.h>

struct key {
	uint64_t kind;	/* group, operation, size; or sender, receiver, size */
	uint64_t order; /* sequence number, or how many of this kind came before on the row */
	uint32_t row, coll;
};

/* Rows stand in order of rank, those of unknown ranks (-1) behind them. */
static uint32_t row_of_rank(const struct judge *j, int64_t rank)
{
	uint32_t low = 0, high = j->n_rows;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		int64_t at = j->job->ranks[middle].rank;

		if (at >= 0 && at < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low < j->n_rows && rank >= 0 && j->job->ranks[low].rank == rank ? low : NO_ID;
}

static bool group_has(const struct job_group *g, int64_t rank)
{
	uint32_t low = 0, high = g->n_ranks;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if ((int64_t)g->ranks[middle] < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low < g->n_ranks && (int64_t)g->ranks[low] == rank;
}

/* Do the peers of a group's sends and receives count in the group (some versions) or in the job
   (others)? One that is no member, or the rank itself, settles it for the whole group. */
static void note_local_peers(struct judge *j, struct step *const *steps)
{
	for (uint32_t row = 0; row < j->n_rows; row++)
		for (uint32_t i = 0; steps[row] && i < steps[row]->n_colls; i++) {
			const struct step_coll *c = &steps[row]->colls[i];
			const struct step_comm *m = &steps[row]->comms[c->comm];
			uint32_t gid = j->job->group_of[row][m->group];
			const struct job_group *g = &j->job->groups[gid];

			if (is_p2p(m->op) && c->peer >= 0 && g->n_ranks &&
			    (c->peer == j->job->ranks[row].rank || !group_has(g, c->peer)))
				j->local_peers[gid] = true;
		}
}

/* The numbers that a group's collectives have in a step. */
struct numbers {
	int64_t low;	     /* the largest first number of a row */
	int64_t high;	     /* the smallest last one */
	int64_t base;	     /* the first that came */
	int64_t first, last; /* of the row that is looked at */
	uint32_t row;	     /* that was looked at last, + 1 */
};

static void number_take(struct numbers *of, int64_t seq, uint32_t row)
{
	if (!of->row)
		of->base = seq;
	if (of->row != row + 1) {
		of->row = row + 1;
		of->first = of->last = seq;
	}
	of->first = MIN(of->first, seq);
	of->last = MAX(of->last, seq);
}

/* What members of one collective agree on; each of an all-to-all sends as much as it has (the
   tokens that its experts were chosen for). */
static uint64_t common_bytes(enum comm_op op, uint64_t bytes)
{
	return op == COMM_ALL_TO_ALL ? 0 : bytes;
}

/* All of a row's collectives that their pairing depends on: rows that look as they did in the step
   before are paired as they were. */
static uint64_t shape_of(const struct judge *j, uint32_t row, const struct step *s,
			 struct numbers *numbers, uint64_t *bytes)
{
	const uint32_t *group_of = j->job->group_of[row];
	uint64_t h = s->n_colls + 1, moved = 0;

	for (uint32_t i = 0; i < s->n_colls; i++) {
		const struct step_coll *c = &s->colls[i];
		const struct step_comm *m = &s->comms[c->comm];
		uint32_t gid = group_of[m->group];
		uint64_t which = (uint64_t)gid << 8 | (uint64_t)m->op, more;

		if (is_p2p(m->op)) {
			more = (uint64_t)(int64_t)c->peer;
		} else {
			if (c->seq >= 0)
				number_take(&numbers[gid], c->seq, row);
			more = c->seq < 0 || j->useless_numbers[gid]
				   ? ~common_bytes(m->op, c->bytes)
				   : (uint64_t)(c->seq - numbers[gid].base);
		}
		h = hash_mix(h ^ which << 20, more);
		moved = moved * 0x9e3779b97f4a7c15u + c->bytes;
	}
	for (uint32_t i = 0; i < s->n_comms; i++) {
		struct numbers *of = &numbers[group_of[s->comms[i].group]];

		if (of->row != row + 1)
			continue;
		of->low = MAX(of->low, of->first);
		of->high = MIN(of->high, of->last);
	}
	*bytes = hash_mix(*bytes, moved);
	return h;
}

/* Shapes of all rows; returns whether they are as before. */
static bool take_shapes(const struct judge *j, struct step *const *steps, struct pairing *p,
			struct numbers *numbers)
{
	bool same = true;

	p->bytes = 1;
	for (uint32_t g = 0; g < j->job->n_groups; g++)
		numbers[g] = (struct numbers){ .low = INT64_MIN, .high = INT64_MAX };
	for (uint32_t row = 0; row < j->n_rows; row++) {
		uint64_t shape = steps[row] ? shape_of(j, row, steps[row], numbers, &p->bytes) : 0;

		same &= shape == p->shape[row];
		p->shape[row] = shape;
	}
	return same;
}

/* Sequence numbers of a group pair its members only if their ranges of one step overlap. Where they
   do not (a counter that a rank shares with other calls), the order has to do. Returns whether a
   group's numbers are of another use than in the step before. */
static bool note_useless_numbers(struct judge *j, const struct numbers *numbers)
{
	bool changed = false;

	for (uint32_t g = 0; g < j->job->n_groups; g++) {
		bool useless = numbers[g].low > numbers[g].high;

		changed |= useless != j->useless_numbers[g];
		j->useless_numbers[g] = useless;
	}
	return changed;
}

/* The row at the other end of a send or receive; NO_ID if the trace does not tell. */
static uint32_t peer_row(const struct judge *j, uint32_t row, uint32_t gid, int32_t peer)
{
	const struct job_group *g = &j->job->groups[gid];

	if (g->size == 2 && g->n_rows == 2)
		return g->rows[0] == row ? g->rows[1] : g->rows[0];
	if (peer < 0)
		return NO_ID;
	if (!j->local_peers[gid] && group_has(g, peer))
		return row_of_rank(j, peer);
	if ((uint32_t)peer < g->n_ranks)
		return row_of_rank(j, g->ranks[peer]);
	if (!g->n_ranks && (uint32_t)peer < g->n_rows && g->n_rows == g->size)
		return g->rows[peer];
	return NO_ID;
}

/* The key of one collective; its own row and number if nothing can pair it. */
static struct key key_of(const struct judge *j, uint32_t row, const struct step *s, uint32_t i)
{
	const struct step_coll *c = &s->colls[i];
	const struct step_comm *m = &s->comms[c->comm];
	uint32_t gid = j->job->group_of[row][m->group];
	struct key k = { .row = row, .coll = i };
	uint64_t h = hash_mix(7, gid);

	if (is_p2p(m->op)) {
		uint32_t peer = peer_row(j, row, gid, c->peer);

		if (peer == NO_ID || peer == row || m->op == COMM_SEND_RECV) {
			k.kind = hash_mix(hash_mix(hash_mix(3, gid), row), i);
			return k;
		}
		h = hash_mix(hash_mix(11, m->op == COMM_SEND ? row : peer),
			     m->op == COMM_SEND ? peer : row);
		k.kind = h; /* the n-th sent is the n-th received, whatever sizes the trace gives */
		return k;
	}
	if (c->seq >= 0 && !j->useless_numbers[gid]) {
		k.kind = hash_mix(h, 1);
		k.order = (uint64_t)c->seq;
		return k;
	}
	k.kind = hash_mix(hash_mix(h, (uint64_t)m->op + 2), common_bytes(m->op, c->bytes));
	return k;
}

/* Places by a hash, as many as a power of two beyond twice of what comes. */
struct places {
	struct place {
		uint64_t a, b;
		uint32_t value; /* 0: free */
	} * v;
	uint64_t mask;
};

static void places_size(struct places *p, size_t n)
{
	uint64_t size = 16;

	while (size < 2 * n)
		size *= 2;
	if (!p->v || p->mask + 1 < size)
		p->v = xrealloc(p->v, size * sizeof(*p->v));
	p->mask = size - 1;
	memset(p->v, 0, size * sizeof(*p->v));
}

static struct place *place_of(struct places *p, uint64_t a, uint64_t b)
{
	uint64_t at = hash_mix(a, b);

	while (p->v[at & p->mask].value && (p->v[at & p->mask].a != a || p->v[at & p->mask].b != b))
		at++;
	p->v[at & p->mask].a = a;
	p->v[at & p->mask].b = b;
	return &p->v[at & p->mask];
}

/* Where there are no numbers, the order within a kind on each row; keys stand row by row. */
static void number_in_order(const struct judge *j, struct step *const *steps, struct key *keys,
			    size_t n)
{
	struct places counts = { 0 };

	for (size_t i = 0; i < n; i++) {
		const struct step *s = steps[keys[i].row];
		const struct step_coll *c = &s->colls[keys[i].coll];
		uint32_t gid = j->job->group_of[keys[i].row][s->comms[c->comm].group];

		if (!i || keys[i - 1].row != keys[i].row)
			places_size(&counts, s->n_colls);
		if (c->seq < 0 || j->useless_numbers[gid] || is_p2p(s->comms[c->comm].op))
			keys[i].order = place_of(&counts, keys[i].kind, 0)->value++;
	}
	free(counts.v);
}

/* Puts keys of one collective beside each other, in order of their rows; first[]: where each
   begins. Returns how many there are. */
static size_t gather_alike(struct key *keys, size_t n, size_t **ret_first)
{
	_cleanup_free_ uint32_t *of = xmalloc((n + 1) * sizeof(*of));
	_cleanup_free_ struct key *sorted = xmalloc((n + 1) * sizeof(*sorted));
	struct places places = { 0 };
	size_t *first, kinds = 0;

	places_size(&places, n);
	for (size_t i = 0; i < n; i++) {
		struct place *p = place_of(&places, keys[i].kind, keys[i].order);

		if (!p->value)
			p->value = (uint32_t)++kinds;
		of[i] = p->value - 1;
	}
	free(places.v);
	first = xcalloc(kinds + 2, sizeof(*first));
	for (size_t i = 0; i < n; i++)
		first[of[i] + 2]++;
	for (size_t k = 2; k < kinds + 2; k++)
		first[k] += first[k - 1];
	for (size_t i = 0; i < n; i++)
		sorted[first[of[i] + 1]++] = keys[i];
	memcpy(keys, sorted, n * sizeof(*keys));
	*ret_first = first;
	return kinds;
}

/* One collective from keys[0..n), all alike; a row that comes twice is taken once. */
static void add_instance(const struct judge *j, struct step *const *steps, const struct key *keys,
			 size_t n, struct pairing *p)
{
	const struct step *s0 = steps[keys[0].row];
	const struct step_comm *m0 = &s0->comms[s0->colls[keys[0].coll].comm];
	struct paired inst = {
		.group = j->job->group_of[keys[0].row][m0->group],
		.op = m0->op,
		.first_member = (uint32_t)p->members.n,
		.together = comm_op_leaves_together(m0->op),
	};

	for (size_t i = 0; i < n; i++) {
		const struct step *s = steps[keys[i].row];
		const struct step_coll *c = &s->colls[keys[i].coll];

		p->inst_of[keys[i].row][keys[i].coll] = (uint32_t)p->insts.n;
		if (i && keys[i].row == keys[i - 1].row) { /* numbered twice: of no use as a pair */
			inst.odd = true;
			continue;
		}
		inst.odd |= s->comms[c->comm].op != inst.op && !is_p2p(inst.op);
		inst.members++;
		*vec_push(&p->members) = (struct paired_member){ keys[i].row, keys[i].coll };
	}
	p->orphans |= inst.members == 1 && j->job->groups[inst.group].size != 1;
	p->loose |= inst.members == 1 && is_p2p(inst.op);
	*vec_push(&p->insts) = inst;
}

static void pair_anew(struct judge *j, struct step *const *steps, struct pairing *p)
{
	_cleanup_free_ struct key *keys = NULL;
	_cleanup_free_ size_t *first = NULL;
	size_t n = 0, at = 0, kinds;

	for (uint32_t row = 0; row < j->n_rows; row++)
		n += steps[row] ? steps[row]->n_colls : 0;
	keys = xcalloc(n, sizeof(*keys));
	p->inst_of = arena_alloc(&p->arena, j->n_rows * sizeof(*p->inst_of));
	for (uint32_t row = 0; row < j->n_rows; row++) {
		const struct step *s = steps[row];

		if (!s)
			continue;
		p->inst_of[row] = arena_alloc(&p->arena, (s->n_colls + 1) * sizeof(uint32_t));
		for (uint32_t i = 0; i < s->n_colls; i++)
			keys[at++] = key_of(j, row, s, i);
	}
	number_in_order(j, steps, keys, n);
	kinds = gather_alike(keys, n, &first);
	for (size_t k = 0; k < kinds; k++)
		add_instance(j, steps, keys + first[k], first[k + 1] - first[k], p);
}

/* Is all as it was in the step before, but for the times? */
static bool same_shape(struct judge *j, struct step *const *steps, struct pairing *p)
{
	_cleanup_free_ struct numbers *numbers = xmalloc((j->job->n_groups + 1) * sizeof(*numbers));
	bool known = p->shape && !p->once, same;

	if (!p->shape)
		p->shape = xcalloc(j->n_rows, sizeof(*p->shape));
	same = take_shapes(j, steps, p, numbers);
	if (!note_useless_numbers(j, numbers))
		return same && known;
	take_shapes(j, steps, p, numbers);
	return false;
}

static void pair_forget(struct pairing *p)
{
	p->insts.n = p->members.n = 0;
	p->once = p->orphans = p->loose = false;
	p->slot_of = NULL;
	p->samples = NULL;
	p->hops = NULL;
	arena_reset(&p->arena);
}

/* When its members were in each collective, by their own clocks and by all together. */
static void take_times(const struct judge *j, struct step *const *steps, struct pairing *p)
{
	for (size_t i = 0; i < p->insts.n; i++) {
		struct paired *inst = &p->insts.v[i];

		inst->broken = inst->odd;
		inst->known = 0;
		inst->last_row = NO_ID;
		inst->shortest = inst->first_end = INFINITY;
		inst->last_start = inst->last_end = -INFINITY;
		inst->longest = 0;
	}
	for (uint32_t row = 0; row < j->n_rows; row++) {
		const struct step *s = steps[row];
		double at = s ? (double)(s->start_ns - p->base_ns) - p->offset[row] : 0;
		bool known = !isnan(at);

		for (uint32_t i = 0; s && i < s->n_colls; i++) {
			const struct step_coll *c = &s->colls[i];
			struct paired *inst = &p->insts.v[p->inst_of[row][i]];
			double d = coll_ns(c);

			if (inst->last_row == row)
				continue;
			if (inst->last_row == NO_ID ||
			    (inst->op == COMM_ALL_TO_ALL && c->bytes > inst->bytes))
				inst->bytes = c->bytes; /* the most that one has to move */
			inst->last_row = row;
			inst->shortest = d < inst->shortest ? d : inst->shortest;
			inst->longest = d > inst->longest ? d : inst->longest;
			if (!known)
				continue;
			inst->known++;
			inst->last_start = MAX(inst->last_start, at + (double)c->start_ns);
			inst->first_end = MIN(inst->first_end, at + (double)c->end_ns);
			inst->last_end = MAX(inst->last_end, at + (double)c->end_ns);
		}
	}
}

/* Send and receive kernels without arguments: the rows at one place of neighbouring stages that end
   together are one transfer. Only where stages are known and of one width. */
static void pair_by_end(struct judge *j, struct step *const *steps, struct pairing *p);

void pair_step(struct judge *j, struct step *const *steps, struct pairing *p)
{
	if (!same_shape(j, steps, p)) {
		pair_forget(p);
		note_local_peers(j, steps);
		pair_anew(j, steps, p);
	}
	p->base_ns = INT64_MAX;
	for (uint32_t row = 0; row < j->n_rows; row++)
		if (steps[row])
			p->base_ns = MIN(p->base_ns, steps[row]->start_ns);
	clock_offsets(j, steps, p);
	if (p->loose && j->staged && j->n_roles > 1)
		pair_by_end(j, steps, p);
	take_times(j, steps, p);
	clock_contradictions(j, p);
}

void pair_done(struct pairing *p)
{
	free(p->insts.v);
	free(p->members.v);
	free(p->shape);
	free(p->spreads);
	arena_done(&p->arena);
	*p = (struct pairing){ 0 };
}

struct loose {
	double end;
	uint32_t inst, row, place; /* place in its stage */
	bool taken;
};

static int by_end(const void *a, const void *b)
{
	const struct loose *x = a, *y = b;

	return x->end < y->end ? -1 : x->end > y->end;
}

static void join_pair(struct pairing *p, struct loose *a, struct loose *b)
{
	struct paired inst = p->insts.v[a->inst];
	struct paired_member ma = p->members.v[inst.first_member];
	struct paired_member mb = p->members.v[p->insts.v[b->inst].first_member];

	inst.first_member = (uint32_t)p->members.n;
	inst.members = 2;
	*vec_push(&p->members) = ma;
	*vec_push(&p->members) = mb;
	p->inst_of[ma.row][ma.coll] = (uint32_t)p->insts.n;
	p->inst_of[mb.row][mb.coll] = (uint32_t)p->insts.n;
	*vec_push(&p->insts) = inst;
	p->insts.v[a->inst].members = p->insts.v[b->inst].members = 0;
	a->taken = b->taken = true;
}

static void pair_by_end(struct judge *j, struct step *const *steps, struct pairing *p)
{
	static const double slacks[] = { 2e3, 10e3, OVERLAP_SLACK_NS };
	VEC(struct loose) loose = { 0 };
	_cleanup_free_ uint32_t *place = xcalloc(j->n_rows, sizeof(*place));
	_cleanup_free_ uint32_t *next = xcalloc(j->n_roles + 1, sizeof(*next));

	p->once = true;
	for (uint32_t row = 0; row < j->n_rows; row++)
		place[row] = next[j->role[row]]++;
	for (size_t i = 0; i < p->insts.n; i++) {
		const struct paired *inst = &p->insts.v[i];
		const struct paired_member *m = &p->members.v[inst->first_member];

		if (inst->members != 1 || !is_p2p(inst->op) || isnan(p->offset[m->row]))
			continue;
		*vec_push(&loose) = (struct loose){
			.end = (double)(steps[m->row]->start_ns - p->base_ns +
					steps[m->row]->colls[m->coll].end_ns) -
			       p->offset[m->row],
			.inst = (uint32_t)i,
			.row = m->row,
			.place = place[m->row],
		};
	}
	if (loose.n)
		qsort(loose.v, loose.n, sizeof(*loose.v), by_end);
	for (size_t pass = 0; pass < ARRAY_SIZE(slacks); pass++) /* the closest ends first */
		for (size_t i = 0; i < loose.n; i++)
			for (size_t k = i + 1; k < loose.n && !loose.v[i].taken; k++) {
				struct loose *a = &loose.v[i], *b = &loose.v[k];
				uint32_t ra = j->role[a->row], rb = j->role[b->row];

				if (b->end - a->end > slacks[pass])
					break;
				if (!b->taken && a->place == b->place &&
				    (ra == rb + 1 || rb == ra + 1))
					join_pair(p, a, b);
			}
	free(loose.v);
}
