/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_cause.c - why the rank that is waited for does not come.
 *
 * Its own words first, then its stack, then what its log was last about, then what is missing
 * of it. What nothing tells stays missing-rank, with the command that would tell.
 */
#include "judge/hang_internal.h"

struct doing_cause {
	enum doing doing;
	enum cause cause;
	const char *detail;
};

static const struct doing_cause doing_causes[] = {
	{ DOING_DATA, CAUSE_DATA_STARVED, NULL },
	{ DOING_CHECKPOINT, CAUSE_CHECKPOINT, NULL },
	{ DOING_EVALUATION, CAUSE_UNEVEN_STEPS, "evaluation" },
	{ DOING_GC, CAUSE_HOST_STALL, "gc" },
	{ DOING_COMPILE, CAUSE_HOST_STALL, "compile" },
	{ DOING_EXIT, CAUSE_MISSING_RANK, "exit" },
	{ DOING_EXCEPTION, CAUSE_EXCEPTION, NULL },
	{ DOING_DEBUGGER, CAUSE_HOST_STALL, "debugger" },
	{ DOING_RENDEZVOUS, CAUSE_RENDEZVOUS, NULL },
	{ DOING_SERVICE, CAUSE_HOST_STALL, "io" },
	{ DOING_STORAGE, CAUSE_HOST_STALL, "io" },
	{ DOING_MEMORY, CAUSE_HOST_STALL, "memory" },
	{ DOING_SUBPROCESS, CAUSE_HOST_STALL, "subprocess" },
	{ DOING_SLEEP, CAUSE_HOST_STALL, "sleep" },
	{ DOING_LOCK, CAUSE_HOST_STALL, "lock" },
	{ DOING_PYTHON, CAUSE_HOST_STALL, "python" },
	{ DOING_MODEL, CAUSE_HOST_STALL, "model" },
};

static const struct doing_cause *cause_of_doing(enum doing doing)
{
	for (size_t i = 0; i < ARRAY_SIZE(doing_causes); i++)
		if (doing_causes[i].doing == doing)
			return &doing_causes[i];
	return NULL;
}

/* Generic waits get their meaning from who called them: storage inside the data loader. */
static const struct doing_cause *cause_of_stack(const struct rank_look *l)
{
	bool generic = l->doing.doing == DOING_STORAGE || l->doing.doing == DOING_SUBPROCESS ||
		       l->doing.doing == DOING_SLEEP || l->doing.doing == DOING_LOCK ||
		       l->doing.doing == DOING_MEMORY || l->doing.doing == DOING_PYTHON;

	if (!l->has_stack)
		return NULL;
	if (generic && (l->doing.inside == DOING_DATA || l->doing.inside == DOING_CHECKPOINT ||
			l->doing.inside == DOING_EVALUATION || l->doing.inside == DOING_COMPILE))
		return cause_of_doing(l->doing.inside);
	return l->busy_stack || l->doing.doing == DOING_LOCK || l->doing.doing == DOING_MODEL
		   ? cause_of_doing(l->doing.doing)
		   : NULL;
}

/* Live processes of others were looked at, and there was none of this rank. */
static bool no_process(const struct hang *h, uint32_t row)
{
	return !h->look[row].has_stack && 2 * (h->n_stacks + 1) > h->s->ranks.n;
}

/* The node's own words, about a process that no line ties to a rank. */
static bool on_its_host(const struct hang *h, uint32_t row, const struct failure *f)
{
	uint32_t host = h->s->ranks.v[row].host;

	return host == NO_ID || f->said->s.host == NO_ID || host == f->said->s.host;
}

static enum cause cause_of_rank(const struct hang *h, const struct breach *b, uint32_t row,
				const char **detail)
{
	const struct rank_look *l = &h->look[row];
	const struct doing_cause *doing = cause_of_stack(l);

	*detail = NULL;
	if (l->failed)
		return l->failed->cause;
	if (doing) {
		*detail = doing->detail;
		return doing->cause;
	}
	if (l->monitored) { /* held in the driver, or by whoever has the interpreter's lock */
		*detail = "driver or interpreter lock";
		return CAUSE_HOST_STALL;
	}
	if (l->left)
		return CAUSE_MISSING_RANK;
	if (l->saving)
		return CAUSE_CHECKPOINT;
	if (l->unanswered)
		return CAUSE_DEAD_RANK;
	if (l->data_work)
		return CAUSE_DATA_STARVED;
	if (b->ground == GROUND_ABSENT && !h->s->ranks.v[row].lived && node_failed(h, row))
		return CAUSE_DEAD_RANK;
	if (b->ground == GROUND_ABSENT && h->n_untied && on_its_host(h, row, h->untied))
		return h->untied->cause;
	if (b->ground == GROUND_ABSENT && !l->told && no_process(h, row))
		return CAUSE_DEAD_RANK;
	if (l->compile) {
		*detail = "compile";
		return CAUSE_HOST_STALL;
	}
	if (l->xid > 0)
		return CAUSE_GPU_ERROR;
	if (h->near_end)
		return CAUSE_UNEVEN_STEPS;
	return CAUSE_MISSING_RANK;
}

/* Somebody left the loop: the others are at the end of an epoch or of the run, and what the odd
   ones called is no size of the same operation. */
static enum cause cause_of_difference(const struct hang *h, const struct breach *b)
{
	bool other_operation = !b->conflict || b->conflict->kind == MISMATCH_OPERATION;

	for (size_t i = 0; i < b->culprits.n; i++)
		if (h->look[b->culprits.v[i]].failed &&
		    h->look[b->culprits.v[i]].failed->cause != CAUSE_DEAD_RANK &&
		    h->look[b->culprits.v[i]].failed->cause != CAUSE_EXCEPTION)
			return h->look[b->culprits.v[i]].failed->cause;
	return h->near_end && other_operation ? CAUSE_UNEVEN_STEPS : CAUSE_COLLECTIVE_DESYNC;
}

static const struct scene_saying *first_of(const struct hang *h, enum saying_kind kind)
{
	for (size_t i = 0; i < h->s->sayings.n; i++)
		if (h->s->sayings.v[i].s.kind == kind)
			return &h->s->sayings.v[i];
	return NULL;
}

/* A job has as many ranks as its machines have GPUs: 3, 5 or 7 are rather the part of a log that
   somebody cut out. */
static bool is_usual_world(size_t n)
{
	return n == 2 || n == 6 || !(n % 4);
}

/* Nobody waits for himself alone: of a group of one the rest was not given. */
static bool all_have_come(const struct hang *h, const struct breach *b)
{
	const struct scene_group *g = &h->s->groups.v[b->group];

	if (g->members.n < 2)
		return false;
	if (h->s->world_assumed && !h->s->n_dumps && !is_usual_world(g->members.n))
		return false;
	for (size_t i = 0; i < g->members.n; i++)
		if (g->members.v[i].source == MEMBER_ABSENT)
			return false;
	return g->members_known && !h->s->unheard;
}

/* Errors of a port rose between two readings. */
static bool port_errors(const struct hang *h)
{
	for (size_t i = 0; i < h->s->counters.n; i++)
		if (!h->s->counters.v[i].once && h->s->counters.v[i].rise > 0)
			return true;
	return false;
}

static void cause_of_stuck(const struct hang *h, struct breach *b)
{
	const struct scene_saying *gpu = first_of(h, SAY_GPU_ERROR);
	const struct scene_saying *net = first_of(h, SAY_NETWORK_ERROR);
	const struct scene_saying *said = gpu ? gpu : net;

	b->cause = gpu			   ? CAUSE_GPU_ERROR
		   : net || port_errors(h) ? CAUSE_NETWORK_ERROR
		   : all_have_come(h, b)   ? CAUSE_COLLECTIVE_STUCK
					   : CAUSE_UNKNOWN;
	if (gpu && said->row != NO_ID)
		*vec_push(&b->culprits) = said->row;
}

void find_cause(struct hang *h, struct breach *b)
{
	if (b->start)
		return; /* told with it */
	switch (b->ground) {
	case GROUND_FAILED:
		return; /* as its words say */
	case GROUND_STUCK:
		cause_of_stuck(h, b);
		return;
	case GROUND_DIFFERS:
	case GROUND_ORDER:
		b->cause = cause_of_difference(h, b);
		return;
	case GROUND_BEHIND:
	case GROUND_ABSENT:
	case GROUND_REPORTED:
	case GROUND_STACK:
	case GROUND_POWER:
		if (!b->culprits.n)
			return;
		b->cause = cause_of_rank(h, b, b->culprits.v[0], &b->detail);
		b->failure = h->look[b->culprits.v[0]].failed;
		if (h->n_untied && b->cause == h->untied->cause && !b->failure)
			b->failure = h->untied;
		if (b->ground == GROUND_STACK && b->cause == CAUSE_MISSING_RANK &&
		    h->look[b->culprits.v[0]].waiting_stack)
			b->cause = CAUSE_COLLECTIVE_DESYNC;
		return;
	}
}

/* Those who are behind in one place need not be so for one reason. */
void split_by_cause(struct hang *h)
{
	for (size_t i = 0; i < h->breaches.n; i++) {
		struct breach *b = &h->breaches.v[i];
		struct breach rest;
		size_t kept = 0;
		const char *detail;
		enum cause cause;

		if (b->culprits.n < 2 ||
		    (b->ground != GROUND_BEHIND && b->ground != GROUND_ABSENT &&
		     b->ground != GROUND_STACK && b->ground != GROUND_REPORTED))
			continue;
		cause = cause_of_rank(h, b, b->culprits.v[0], &detail);
		rest = *b;
		rest.culprits = rest.victims = (struct row_list){ 0 };
		for (size_t k = 0; k < b->culprits.n; k++) {
			uint32_t row = b->culprits.v[k];

			if (cause_of_rank(h, b, row, &detail) == cause)
				b->culprits.v[kept++] = row;
			else
				*vec_push(&rest.culprits) = row;
		}
		b->culprits.n = kept;
		if (!rest.culprits.n)
			continue;
		for (size_t k = 0; k < b->victims.n; k++)
			*vec_push(&rest.victims) = b->victims.v[k];
		*vec_push(&h->breaches) = rest; /* b is not used after this: the table may move */
	}
}
