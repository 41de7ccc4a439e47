/* SPDX-License-Identifier: Apache-2.0 */
/*
 * judge.c - takes steps in, one number at a time, and gives findings at the end.
 *
 * Memory is bounded: one point a row and step for a limited number of steps (older ones go,
 * counted), replays within a budget, and what grows only with ranks, groups and kernel names.
 */
#include "base/stats.h"
#include "judge/judge_internal.h"

#include <math.h>

#define DETAIL_SHARE                                                                               \
	0.025 /* of a step: from this excess on a row's kernels and phases are compared */
#define DETAIL_PEERS	 33u
#define ARRIVAL_SCATTERS 3.0 /* arrivals closer than this to the ends' scatter mean nothing */
#define ARRIVAL_LEAST_NS 2e3

struct judge *judge_new(struct job *job, const struct judge_options *options)
{
	struct judge *j = xcalloc(1, sizeof(*j));
	uint32_t n = MAX(job->n_ranks, 1u);

	j->job = j->past.job = job;
	j->options = *options;
	j->n_rows = job->n_ranks;
	j->history = MAX(MIN(POINTS_MAX / n, HISTORY_MAX), HISTORY_MIN);
	j->role = xcalloc(n, sizeof(*j->role));
	j->node = xcalloc(n, sizeof(*j->node));
	j->moments = xcalloc(j->history, sizeof(*j->moments));
	j->points = xcalloc((size_t)n * j->history, sizeof(*j->points));
	j->kernels = xcalloc(KERNELS_MAX, sizeof(*j->kernels));
	j->details = xcalloc(n, sizeof(*j->details));
	j->ranks = xcalloc(n, sizeof(*j->ranks));
	j->caused = xcalloc(n, sizeof(*j->caused));
	j->local_peers = xcalloc(job->n_groups + 1, sizeof(*j->local_peers));
	j->useless_numbers = xcalloc(job->n_groups + 1, sizeof(*j->useless_numbers));
	for (uint32_t row = 0; row < j->n_rows; row++) {
		j->ranks[row].row = row;
		j->details[row].w1_kernel = j->details[row].host_what = NO_ID;
	}
	j->n_roles = 1;
	nodes_find(j);
	return j;
}

/* Steps of ranks are listed as long as there is room for all of them. */
static void forget_report_steps(struct judge *j, uint32_t keep)
{
	if ((j->dropped_steps + j->n_steps) * j->n_rows <= POINTS_MAX)
		return;
	for (uint32_t row = 0; row < j->n_rows; row++) {
		struct report_rank *r = &j->ranks[row];
		size_t n = MIN(r->steps.n, (size_t)keep);

		memmove(r->steps.v, r->steps.v + (r->steps.n - n), n * sizeof(*r->steps.v));
		r->steps.n = n;
	}
}

/* Of operations that few steps have: those steps are gone. */
static void forget_ops(struct judge *j, uint64_t first_kept)
{
	for (size_t i = 0; i < j->ops.n; i++) {
		struct op_seen *o = &j->ops.v[i];
		uint32_t known = MIN(o->steps, OP_MOMENTS), n = 0;
		uint64_t at[OP_MOMENTS] = { 0 };

		for (uint32_t k = o->steps - known; k < o->steps; k++)
			if (o->at[k % OP_MOMENTS] >= first_kept)
				at[n++] = o->at[k % OP_MOMENTS];
		if (n == OP_MOMENTS) /* many steps have it */
			continue;
		memcpy(o->at, at, n * sizeof(*at));
		o->steps = n;
	}
}

/* Forgets the older half of the history, once it was judged. */
static void forget(struct judge *j)
{
	uint32_t half = j->history / 2, keep = j->n_steps - half;

	past_take(j);
	forget_report_steps(j, keep);
	forget_ops(j, j->dropped_steps + half);
	for (uint32_t t = 0; t < half; t++)
		if (j->moments[t].replay) {
			j->replay_bytes -= j->moments[t].replay->bytes;
			replay_free(j->moments[t].replay);
		}
	memmove(j->moments, j->moments + half, keep * sizeof(*j->moments));
	for (uint32_t row = 0; row < j->n_rows; row++)
		memmove(point_of(j, row, 0), point_of(j, row, half), keep * sizeof(struct point));
	for (uint32_t k = 0; k < j->n_kernels; k++) {
		float *all[] = { j->kernels[k].typical, j->kernels[k].total, j->kernels[k].spread };

		for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
			memmove(all[i], all[i] + half, keep * sizeof(float));
			memset(all[i] + keep, 0, half * sizeof(float));
		}
	}
	for (size_t u = 0; u < j->links.n; u++) {
		struct link_time *at = j->links.v[u].at;

		memmove(at, at + half, keep * sizeof(*at));
		memset(at + keep, 0, half * sizeof(*at));
	}
	for (size_t i = 0; i < j->waits.n; i++) {
		memmove(j->waits.v[i].ns, j->waits.v[i].ns + half, keep * sizeof(float));
		memset(j->waits.v[i].ns + keep, 0, half * sizeof(float));
	}
	j->dropped_steps += half;
	j->n_steps = keep;
}

static void take_points(struct judge *j, struct step *const *steps, uint32_t t)
{
	struct moment *m = &j->moments[t];
	_cleanup_free_ double *walls = xmalloc((j->n_rows + 1) * sizeof(*walls));

	for (uint32_t row = 0; row < j->n_rows; row++) {
		const struct step *s = steps[row];
		struct point *p = point_of(j, row, t);

		if (!s) {
			*p = (struct point){ .own = -1 };
			continue;
		}
		*p = (struct point){
			.own = (float)s->own_ns,
			.wall = (float)s->wall_ns,
			.stall = (float)s->longest_stall_ns,
			.busy = s->mark_ns > 0 ? (float)(s->mark_ns - s->sync_ns) : -1,
			.part = { [BLAME_COMPUTE] = (float)(s->own[OWN_COMPUTE] + s->own[OWN_COPY]),
				  [BLAME_HOST] = (float)(s->own[OWN_HOST] + s->own[OWN_LAUNCH]),
				  [BLAME_DATA] = (float)s->own[OWN_DATA],
				  [BLAME_SAVE] = (float)s->own[OWN_SAVE] },
		};
		m->flags |= s->flags;
		m->start_ns = m->n_rows ? MIN(m->start_ns, s->start_ns) : s->start_ns;
		walls[m->n_rows++] = (double)s->wall_ns;
		*vec_push(&j->ranks[row].steps) =
		    (struct report_step){ s->number, s->mark_ns ? s->mark_ns : s->wall_ns };
	}
	m->wall = m->n_rows ? lower_median(walls, m->n_rows) : 0;
}

/* NULL: there are too many kinds already. */
static struct op_seen *op_of(struct judge *j, uint64_t key, enum comm_op op)
{
	uint32_t *slot;

	if (!j->op_slots)
		j->op_slots = xcalloc(2 * OPS_MAX, sizeof(*j->op_slots));
	for (uint64_t at = key;; at++) {
		slot = &j->op_slots[at % (2 * OPS_MAX)];
		if (!*slot || j->ops.v[*slot - 1].key == key)
			break;
	}
	if (!*slot) {
		if (j->ops.n == OPS_MAX) /* groups without end: this sign is not for them */
			return NULL;
		*vec_push(&j->ops) = (struct op_seen){ .key = key, .op = op };
		*slot = (uint32_t)j->ops.n;
	}
	return &j->ops.v[*slot - 1];
}

static void take_ops(struct judge *j, struct step *const *steps, uint64_t at)
{
	for (uint32_t row = 0; row < j->n_rows; row++)
		for (uint32_t i = 0; steps[row] && i < steps[row]->n_comms; i++) {
			const struct step_comm *c = &steps[row]->comms[i];
			bool small = c->bytes <= 64 * (uint64_t)c->count;
			uint64_t key =
			    hash_mix(hash_mix(j->job->group_of[row][c->group], c->op), small);
			struct op_seen *seen = op_of(j, key, c->op);

			if (!seen ||
			    (seen->steps && seen->at[(seen->steps - 1) % OP_MOMENTS] == at))
				continue;
			seen->at[seen->steps++ % OP_MOMENTS] = at;
		}
}

static uint32_t waited_of(struct judge *j, const struct paired *in)
{
	uint32_t desc = j->job->groups[in->group].desc;
	size_t i = 0;

	while (i < j->waits.n && (j->waits.v[i].op != in->op || j->waits.v[i].desc != desc))
		i++;
	if (i == j->waits.n)
		*vec_push(&j->waits) = (struct waited){
			.desc = desc,
			.op = in->op,
			.ns = xcalloc(j->history, sizeof(float)),
			.of_row = xcalloc(j->n_rows, sizeof(float)),
		};
	return (uint32_t)i;
}

/* Which collectives somebody waited in: the last to arrive has the shortest duration, the others'
   extra is waiting. Who and how long is taken row by row while the replay is built. */
static void find_waits(struct judge *j, struct pairing *p)
{
	double least = fmax(ARRIVAL_LEAST_NS, ARRIVAL_SCATTERS * p->scatter);

	for (size_t i = 0; i < p->insts.n; i++) {
		struct paired *in = &p->insts.v[i];
		bool apart = in->together && !in->broken && in->members >= 2 &&
			     in->longest - in->shortest >= least;

		in->waited = apart ? 0 : -1;
		in->last_row = NO_ID;
		if (apart)
			in->waited_at = waited_of(j, in);
	}
}

static void take_waits(struct judge *j, const struct pairing *p, uint32_t t)
{
	for (size_t i = 0; i < p->insts.n; i++) {
		const struct paired *in = &p->insts.v[i];

		if (in->waited < 0 || in->last_row == NO_ID)
			continue;
		j->ranks[in->last_row].arrived_last++;
		j->caused[in->last_row] += in->waited;
		j->waits.v[in->waited_at].ns[t] += (float)in->waited;
	}
}

/* Compares kernels and phases of rows that look slow at this step, with a first, rough reference.
 */
static void take_details(struct judge *j, struct step *const *steps, uint32_t t)
{
	_cleanup_free_ double *x = xmalloc((j->n_rows + 1) * sizeof(*x));
	uint32_t peers[DETAIL_PEERS];

	for (uint32_t role = 0; role < j->n_roles; role++) {
		const uint32_t *rows = role_rows(j, role), *end = role_end(j, role);
		double own, limit = DETAIL_SHARE * j->moments[t].wall;
		size_t n = 0, n_peers = 0;

		for (const uint32_t *row = rows; row < end; row++)
			if (steps[*row])
				x[n++] = (double)point_of(j, *row, t)->own;
		if (n < 2)
			continue;
		own = robust_reference(x, n);
		for (const uint32_t *row = rows; row < end && n_peers < DETAIL_PEERS; row++)
			if (steps[*row] && (double)point_of(j, *row, t)->own <= own + limit / 2)
				peers[n_peers++] = *row;
		for (const uint32_t *row = rows; row < end; row++)
			if (steps[*row] && (double)point_of(j, *row, t)->own > own + limit)
				kernel_details(j, steps, *row, peers, n_peers);
	}
}

int judge_step(struct judge *j, uint64_t number, struct step *const *steps)
{
	struct pairing *p = &j->pairing;
	struct moment *m;
	uint32_t t;

	if (j->n_steps == j->history)
		forget(j);
	t = j->n_steps;
	m = &j->moments[t];
	*m = (struct moment){ .number = number };
	take_points(j, steps, t);
	if (!m->n_rows)
		return 0;
	if (m->n_rows > j->roles_of) { /* not all ranks need have the first steps */
		roles_find(j, steps);
		j->roles_of = m->n_rows;
	}
	restart_step(j, t);
	j->n_steps++;
	take_ops(j, steps, j->dropped_steps + t);
	pair_step(j, steps, p);
	find_waits(j, p);
	m->replay = replay_build(j, steps, p);
	take_waits(j, p, t);
	link_step(j, p, m->replay, t);
	for (uint32_t row = 0; row < j->n_rows && !t; row++)
		if (steps[row])
			point_of(j, row, t)->part[BLAME_LATE] = (float)m->replay->late[row];
	j->replay_bytes += m->replay->bytes;
	for (uint32_t old = 0; j->replay_bytes > REPLAY_BYTES_MAX && old < t; old++)
		if (j->moments[old].replay) { /* the oldest goes first */
			j->replay_bytes -= j->moments[old].replay->bytes;
			replay_free(j->spare);
			j->spare = j->moments[old].replay;
			j->moments[old].replay = NULL;
		}
	kernel_step(j, steps, t);
	take_details(j, steps, t);
	return 0;
}

static void report_ranks(struct judge *j, struct report *report)
{
	VEC(double) ms = { 0 };

	for (uint32_t row = 0; row < j->n_rows; row++) {
		for (size_t i = 0; i < j->ranks[row].steps.n; i++)
			*vec_push(&ms) = (double)j->ranks[row].steps.v[i].mark_ns / 1e6;
		*vec_push(&report->ranks) = j->ranks[row];
		j->ranks[row].steps.v = NULL;
	}
	report->step_ms_median = ms.n ? stats_median(ms.v, ms.n) : NAN;
	report->step_ms_p99 = ms.n ? stats_quantile(ms.v, ms.n, 0.99) : NAN;
	report->unpaired = j->unpaired;
	free(ms.v);
}

static int by_severity(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;
	double lx = isnan(x->step_ms_lost) ? 0 : x->step_ms_lost * MAX(x->lost_gpu_hours, 1e-12);
	double ly = isnan(y->step_ms_lost) ? 0 : y->step_ms_lost * MAX(y->lost_gpu_hours, 1e-12);

	if (x->severity != y->severity)
		return x->severity < y->severity ? -1 : 1;
	if (x->lost_gpu_hours > y->lost_gpu_hours || x->lost_gpu_hours < y->lost_gpu_hours)
		return x->lost_gpu_hours > y->lost_gpu_hours ? -1 : 1;
	if (lx > ly || lx < ly)
		return lx > ly ? -1 : 1;
	return strcmp(x->id, y->id);
}

/* What traces of some ranks cannot tell. */
static void say_what_is_missing(const struct judge *j, struct report *report)
{
	double wall = 0, exposed = 0;

	if (!j->ops.n || j->job->world_size <= (int64_t)j->n_rows)
		return;
	for (uint32_t row = 0; row < j->n_rows; row++)
		for (uint32_t t = 0; t < j->n_steps; t++) {
			const struct point *p = point_of(j, row, t);

			if (p->own < 0)
				continue;
			wall += (double)p->wall;
			exposed += (double)(p->wall - p->own);
		}
	if (wall <= 0)
		return;
	*vec_push(&report->assumed) =
	    report_printf(report,
			  "%s spend%s %.0f %% of the time in communication with nothing else to "
			  "do; a rank that was "
			  "not given may be what is waited for there, and cannot be named",
			  j->n_rows > 1 ? "the ranks given" : "the rank given",
			  j->n_rows > 1 ? "" : "s", 100 * exposed / wall);
}

/* What the rows of a timeline are. */
static void say_lanes(const struct judge *j, struct report *report)
{
	const struct rank_info *first = &j->job->ranks[0];

	if (!j->n_rows || !first->lane)
		return;
	*vec_push(&report->assumed) =
	    job_is_folded(j->job, 0)
		? report_printf(report,
				"the timeline has one lane for %s; the numbers of ranks here are "
				"those of lanes, data-parallel first, then pipeline stages",
				first->folds ? report_printf(report, "%u ranks each", first->folds)
					     : "one or several ranks each")
		: "the timeline names no ranks: they are numbered by place, tensor-parallel "
		  "first, then data-parallel, then pipeline stages";
}

int judge_finish(struct judge *j, struct report *report)
{
	report->verdict = j->n_steps ? VERDICT_HEALTHY : VERDICT_INSUFFICIENT;
	if (j->dropped_steps)
		*vec_push(&report->assumed) =
		    report_printf(report,
				  "%" PRIu64 " steps are more than can be looked at together: they "
				  "were judged %u at a time",
				  j->dropped_steps + j->n_steps, j->history);
	say_lanes(j, report);
	if (j->n_steps) {
		say_what_is_missing(j, report);
		job_findings(j, report);
		past_report(j, report);
		restart_report(j, report);
	}
	if (report->findings.n)
		qsort(report->findings.v, report->findings.n, sizeof(*report->findings.v),
		      by_severity);
	if (report->findings.n && report->findings.v[0].severity != SEVERITY_NOTE)
		report->verdict = VERDICT_SLOW;
	for (size_t i = 0; i < report->findings.n; i++)
		for (size_t k = 0; k < report->findings.v[i].culprits.n; k++)
			j->ranks[report->findings.v[i].culprits.v[k]].suspect = true;
	report_ranks(j, report);
	return 0;
}

void entries_drop(struct judge *j, bool (*drop)(const struct judge *j, const struct entry *e))
{
	size_t n = 0;

	for (size_t i = 0; i < j->entries.n; i++) {
		struct entry *e = &j->entries.v[i];

		if (!drop(j, e)) {
			j->entries.v[n++] = *e;
			continue;
		}
		free(e->rows.v);
		free(e->units.v);
	}
	j->entries.n = n;
}

static bool any_entry(const struct judge *j, const struct entry *e)
{
	(void)j;
	(void)e;
	return true;
}

void entries_forget(struct judge *j)
{
	entries_drop(j, any_entry);
	free(j->ref);
	j->ref = NULL;
	arena_reset(&j->scratch);
}

struct judge *judge_free(struct judge *j)
{
	if (!j)
		return NULL;
	pair_done(&j->pairing);
	replay_free(j->spare);
	for (uint32_t t = 0; t < j->n_steps; t++)
		replay_free(j->moments[t].replay);
	for (uint32_t k = 0; k < j->n_kernels; k++) {
		free(j->kernels[k].typical);
		free(j->kernels[k].spread);
		free(j->kernels[k].total);
	}
	for (size_t u = 0; u < j->links.n; u++) {
		free(j->links.v[u].at);
	}
	for (uint32_t row = 0; row < j->n_rows; row++) {
		free(j->details[row].kernels.v);
		free(j->details[row].phases.v);
		free(j->ranks[row].steps.v);
	}
	entries_forget(j);
	arena_done(&j->scratch);
	report_done(&j->past);
	intern_done(&j->link_ids);
	free(j->entries.v);
	free(j->links.v);
	free(j->ops.v);
	free(j->op_slots);
	for (size_t i = 0; i < j->waits.n; i++) {
		free(j->waits.v[i].ns);
		free(j->waits.v[i].of_row);
	}
	free(j->waits.v);
	free(j->restarts.v);
	free(j->role);
	free(j->by_role);
	free(j->first_of_role);
	free(j->node);
	free(j->moments);
	free(j->points);
	free(j->kernels);
	free(j->kernel_of_name);
	free(j->details);
	free(j->ranks);
	free(j->caused);
	free(j->local_peers);
	free(j->useless_numbers);
	free(j);
	return NULL;
}
