/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_pair.c - which collectives of different ranks are one and the same.
 *
 * By group and sequence number where the trace has them, else by order within (group, operation,
 * size). Members of an all-to-all-kind collective leave it together, so collectives give the
 * offsets between the ranks' clocks; a pairing whose members then do not even overlap contradicts
 * itself and is not used.
 */
#include "base/stats.h"
#include "judge/judge_internal.h"

#include <math.h>

#define OVERLAP_SLACK_NS 50e3 /* clocks drift inside a step, and time stamps are rounded */
#define OVERLAP_SCATTERS 8.0  /* of the step's own scatter */

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

/* Sequence numbers of a group pair its members only if their ranges of one step overlap. Where they
   do not (a counter that a rank shares with other calls), the order has to do. */
static void note_useless_numbers(struct judge *j, struct step *const *steps, struct arena *arena)
{
	uint32_t n = j->job->n_groups;
	int64_t *low =
	    arena_alloc(arena, (n + 1) * sizeof(*low)); /* the largest first number of a row */
	int64_t *high = arena_alloc(arena, (n + 1) * sizeof(*high)); /* the smallest last one */
	int64_t *first = arena_alloc(arena, (n + 1) * sizeof(*first));
	int64_t *last = arena_alloc(arena, (n + 1) * sizeof(*last));

	for (uint32_t g = 0; g < n; g++) {
		low[g] = INT64_MIN;
		high[g] = INT64_MAX;
	}
	for (uint32_t row = 0; row < j->n_rows; row++) {
		const struct step *s = steps[row];

		for (int pass = 0; pass < 3; pass++)
			for (uint32_t i = 0; s && i < s->n_colls; i++) {
				const struct step_coll *c = &s->colls[i];
				uint32_t g = j->job->group_of[row][s->comms[c->comm].group];

				if (c->seq < 0 || is_p2p(s->comms[c->comm].op))
					continue;
				if (pass == 0) {
					first[g] = INT64_MAX;
					last[g] = INT64_MIN;
				} else if (pass == 1) {
					first[g] = MIN(first[g], c->seq);
					last[g] = MAX(last[g], c->seq);
				} else {
					low[g] = MAX(low[g], first[g]);
					high[g] = MIN(high[g], last[g]);
				}
			}
	}
	for (uint32_t g = 0; g < n; g++)
		j->useless_numbers[g] = low[g] > high[g];
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
	k.kind = hash_mix(hash_mix(h, (uint64_t)m->op + 2), c->bytes);
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
	const struct step_coll *c0 = &s0->colls[keys[0].coll];
	const struct step_comm *m0 = &s0->comms[c0->comm];
	struct paired inst = {
		.group = j->job->group_of[keys[0].row][m0->group],
		.op = m0->op,
		.bytes = c0->bytes,
		.first_member = (uint32_t)p->members.n,
		.shortest = INFINITY,
		.together = comm_op_leaves_together(m0->op),
	};

	for (size_t i = 0; i < n; i++) {
		const struct step *s = steps[keys[i].row];
		const struct step_coll *c = &s->colls[keys[i].coll];
		double d = coll_ns(c);

		if (i && keys[i].row == keys[i - 1].row) { /* numbered twice: of no use as a pair */
			inst.broken = true;
			p->inst_of[keys[i].row][keys[i].coll] = (uint32_t)p->insts.n;
			continue;
		}
		if (s->comms[c->comm].op != inst.op && !is_p2p(inst.op))
			inst.broken = true;
		inst.shortest = fmin(inst.shortest, d);
		inst.longest = fmax(inst.longest, d);
		inst.members++;
		*vec_push(&p->members) = (struct paired_member){ keys[i].row, keys[i].coll };
		p->inst_of[keys[i].row][keys[i].coll] = (uint32_t)p->insts.n;
	}
	*vec_push(&p->insts) = inst;
}

struct edge {
	uint32_t from, to;
	double difference;
};

static int by_edge(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	return x->difference < y->difference ? -1 : x->difference > y->difference;
}

static const struct step_coll *member_coll(struct step *const *steps, const struct paired_member *m)
{
	return &steps[m->row]->colls[m->coll];
}

/* Edges between the first member and each other one, medians over the step, each pair once. */
static size_t clock_edges(struct step *const *steps, const struct pairing *p, int64_t base,
			  struct edge **ret)
{
	VEC(struct edge) edges = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < p->insts.n; i++) {
		const struct paired *inst = &p->insts.v[i];
		const struct paired_member *m = &p->members.v[inst->first_member];
		double end0;

		if (!inst->together || inst->broken || inst->members < 2)
			continue;
		end0 = (double)(steps[m->row]->start_ns - base + member_coll(steps, m)->end_ns);
		for (uint32_t k = 1; k < inst->members; k++) {
			const struct step_coll *c = member_coll(steps, &m[k]);
			double end = (double)(steps[m[k].row]->start_ns - base + c->end_ns);

			*vec_push(&edges) = (struct edge){ m->row, m[k].row, end - end0 };
		}
	}
	if (edges.n)
		qsort(edges.v, edges.n, sizeof(*edges.v), by_edge);
	for (size_t i = 0, k; i < edges.n; i = k) {
		for (k = i; k < edges.n && edges.v[k].from == edges.v[i].from &&
			    edges.v[k].to == edges.v[i].to;)
			k++;
		edges.v[n++] = edges.v[i + (k - i) / 2];
	}
	*ret = edges.v;
	return n;
}

/* Carries known offsets over all edges until nothing new is reached. */
static bool walk_edges(double *offset, const struct edge *edges, size_t n)
{
	bool more = true, any = false;

	for (; more; any |= more) {
		more = false;
		for (size_t i = 0; i < n; i++) {
			double *from = &offset[edges[i].from], *to = &offset[edges[i].to];

			if (!isnan(*from) && isnan(*to))
				*to = *from + edges[i].difference;
			else if (isnan(*from) && !isnan(*to))
				*from = *to - edges[i].difference;
			else
				continue;
			more = true;
		}
	}
	return any;
}

/* Each row's clock against the first row of its connected part. */
static void clock_offsets(struct judge *j, struct step *const *steps, struct pairing *p,
			  int64_t base)
{
	_cleanup_free_ struct edge *edges = NULL;
	size_t n = clock_edges(steps, p, base, &edges);
	bool more = true;

	p->offset = arena_alloc(&p->arena, j->n_rows * sizeof(*p->offset));
	for (uint32_t row = 0; row < j->n_rows; row++)
		p->offset[row] = NAN;
	while (more) {
		more = false;
		for (size_t i = 0; i < n && !more; i++) /* a part that no edge has reached yet */
			if (isnan(p->offset[edges[i].from]) && isnan(p->offset[edges[i].to])) {
				p->offset[edges[i].from] = 0;
				more = true;
			}
		more |= walk_edges(p->offset, edges, n);
	}
}

struct extent {
	double last_start, first_end, last_end;
	uint32_t known;
};

static struct extent extent_of(struct step *const *steps, const struct pairing *p,
			       const struct paired *inst, int64_t base)
{
	struct extent e = { -INFINITY, INFINITY, -INFINITY, 0 };

	for (uint32_t k = 0; k < inst->members; k++) {
		const struct paired_member *m = &p->members.v[inst->first_member + k];
		const struct step_coll *c = member_coll(steps, m);
		double at = (double)(steps[m->row]->start_ns - base) - p->offset[m->row];

		if (isnan(at))
			continue;
		e.known++;
		e.last_start = fmax(e.last_start, at + (double)c->start_ns);
		e.first_end = fmin(e.first_end, at + (double)c->end_ns);
		e.last_end = fmax(e.last_end, at + (double)c->end_ns);
	}
	return e;
}

/* The scatter of ends within a collective; then those whose members were never in it at one time.
 */
static void find_contradictions(struct judge *j, struct step *const *steps, struct pairing *p,
				int64_t base)
{
	VEC(double) spreads = { 0 };
	double slack;

	for (size_t i = 0; i < p->insts.n; i++) {
		const struct paired *inst = &p->insts.v[i];
		struct extent e;

		if (!inst->together || inst->broken || inst->members < 2)
			continue;
		e = extent_of(steps, p, inst, base);
		if (e.known >= 2)
			*vec_push(&spreads) = e.last_end - e.first_end;
	}
	p->scatter = spreads.n ? stats_median(spreads.v, spreads.n) : 0;
	free(spreads.v);
	slack = fmax(OVERLAP_SLACK_NS, OVERLAP_SCATTERS * p->scatter);
	for (size_t i = 0; i < p->insts.n; i++) {
		struct paired *inst = &p->insts.v[i];

		if (!inst->together || inst->members < 2)
			continue;
		if (!inst->broken) {
			struct extent e = extent_of(steps, p, inst, base);

			inst->broken = e.known >= 2 && e.last_start > e.first_end + slack;
		}
		j->paired++;
		j->unpaired += inst->broken;
	}
}

/* Send and receive kernels without arguments: the rows at one place of neighbouring stages that end
   together are one transfer. Only where stages are known and of one width. */
static void pair_by_end(struct judge *j, struct step *const *steps, struct pairing *p,
			int64_t base);

void pair_step(struct judge *j, struct step *const *steps, struct pairing *ret)
{
	_cleanup_free_ struct key *keys = NULL;
	_cleanup_free_ size_t *first = NULL;
	int64_t base = INT64_MAX;
	size_t n = 0, at = 0, kinds;

	*ret = (struct pairing){ 0 };
	note_local_peers(j, steps);
	note_useless_numbers(j, steps, &ret->arena);
	for (uint32_t row = 0; row < j->n_rows; row++)
		n += steps[row] ? steps[row]->n_colls : 0;
	keys = xcalloc(n, sizeof(*keys));
	ret->inst_of = arena_alloc(&ret->arena, j->n_rows * sizeof(*ret->inst_of));
	for (uint32_t row = 0; row < j->n_rows; row++) {
		const struct step *s = steps[row];

		if (!s)
			continue;
		base = MIN(base, s->start_ns);
		ret->inst_of[row] = arena_alloc(&ret->arena, (s->n_colls + 1) * sizeof(uint32_t));
		for (uint32_t i = 0; i < s->n_colls; i++)
			keys[at++] = key_of(j, row, s, i);
	}
	number_in_order(j, steps, keys, n);
	kinds = gather_alike(keys, n, &first);
	for (size_t k = 0; k < kinds; k++)
		add_instance(j, steps, keys + first[k], first[k + 1] - first[k], ret);
	clock_offsets(j, steps, ret, base);
	pair_by_end(j, steps, ret, base);
	find_contradictions(j, steps, ret, base);
}

void pair_done(struct pairing *p)
{
	free(p->insts.v);
	free(p->members.v);
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

static void join_pair(struct step *const *steps, struct pairing *p, struct loose *a,
		      struct loose *b)
{
	struct paired inst = p->insts.v[a->inst];
	struct paired_member ma = p->members.v[inst.first_member];
	struct paired_member mb = p->members.v[p->insts.v[b->inst].first_member];

	inst.first_member = (uint32_t)p->members.n;
	inst.members = 2;
	inst.shortest = fmin(coll_ns(member_coll(steps, &ma)), coll_ns(member_coll(steps, &mb)));
	inst.longest = fmax(coll_ns(member_coll(steps, &ma)), coll_ns(member_coll(steps, &mb)));
	*vec_push(&p->members) = ma;
	*vec_push(&p->members) = mb;
	p->inst_of[ma.row][ma.coll] = (uint32_t)p->insts.n;
	p->inst_of[mb.row][mb.coll] = (uint32_t)p->insts.n;
	*vec_push(&p->insts) = inst;
	p->insts.v[a->inst].members = p->insts.v[b->inst].members = 0;
	a->taken = b->taken = true;
}

static void pair_by_end(struct judge *j, struct step *const *steps, struct pairing *p, int64_t base)
{
	static const double slacks[] = { 2e3, 10e3, OVERLAP_SLACK_NS };
	VEC(struct loose) loose = { 0 };
	_cleanup_free_ uint32_t *place = xcalloc(j->n_rows, sizeof(*place));
	_cleanup_free_ uint32_t *next = xcalloc(j->n_roles + 1, sizeof(*next));

	if (!j->staged || j->n_roles < 2)
		return;
	for (uint32_t row = 0; row < j->n_rows; row++)
		place[row] = next[j->role[row]]++;
	for (size_t i = 0; i < p->insts.n; i++) {
		const struct paired *inst = &p->insts.v[i];
		const struct paired_member *m = &p->members.v[inst->first_member];

		if (inst->members != 1 || !is_p2p(inst->op) || isnan(p->offset[m->row]))
			continue;
		*vec_push(&loose) = (struct loose){
			.end = (double)(steps[m->row]->start_ns - base +
					member_coll(steps, m)->end_ns) -
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
					join_pair(steps, p, a, b);
			}
	free(loose.v);
}
