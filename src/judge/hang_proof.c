/* SPDX-License-Identifier: Apache-2.0 */
/* hang_proof.c - the evidence of a finding: each a sentence, with the kind of file that says it. */
#include "judge/hang_internal.h"

#include <math.h>

void prove(struct hang *h, struct finding *f, const char *source, const char *text)
{
	(void)h;
	*vec_push(&f->evidence) = (struct evidence){
		.text = text, .value = NAN, .expected = NAN, .unit = NULL, .source = source
	};
}

/* --- what the others wait in --- */

/* With NCCL's timing on: who has launched it, but its GPU has not begun. */
static void prove_not_started(struct hang *h, struct finding *f, const struct breach *b)
{
	const struct scene_group *g = &h->s->groups.v[b->group];
	VEC(uint32_t) held = { 0 };
	size_t started = 0;

	for (size_t i = 0; i < g->members.n; i++) {
		const struct scene_member *m = &g->members.v[i];

		if (!m->waits || m->wait.seq != b->seq || m->source != MEMBER_DUMP)
			continue;
		started += m->wait.state == OP_STARTED;
		if (m->wait.state == OP_SCHEDULED)
			*vec_push(&held) = m->row;
	}
	if (held.n && held.n < started)
		prove(h, f, "flight-recorder",
		      report_printf(
			  h->r,
			  "the GPU%s of %s %s not started it, the others' have: something before "
			  "it in the stream keeps it",
			  held.n == 1 ? "" : "s", hang_who(h, held.v, held.n),
			  held.n == 1 ? "has" : "have"));
	free(held.v);
}

static void prove_place(struct hang *h, struct finding *f, const struct breach *b)
{
	const struct scene_group *g = &h->s->groups.v[b->group];
	VEC(uint32_t) waiting = { 0 };
	const char *source = "log";

	for (size_t i = 0; i < g->members.n; i++)
		if (g->members.v[i].waits && g->members.v[i].wait.seq == b->seq) {
			*vec_push(&waiting) = g->members.v[i].row;
			source = g->members.v[i].source == MEMBER_DUMP ? "flight-recorder" : source;
		}
	if (waiting.n)
		prove(h, f, source,
		      report_printf(h->r, "%s wait%s in %s, sequence number %" PRId64 " of %s",
				    hang_who(h, waiting.v, waiting.n), waiting.n == 1 ? "s" : "",
				    hang_op(h, b->signature), b->seq, hang_group(h, b->group)));
	free(waiting.v);
}

/* The first tensor's shape, where an all_to_all has one for each peer. */
static const char *pieces_of(struct hang *h, uint32_t signature)
{
	const struct signature *s = signature == NO_ID ? NULL : &h->s->signatures.v[signature];
	const char *sizes = !s || s->op != COMM_ALL_TO_ALL ? "" : hang_name(h, s->in_sizes);
	const char *end = strchr(sizes, ']');

	if (strncmp(sizes, "[[", 2) || !end || end - sizes > 60)
		return "";
	return report_printf(h->r, " in pieces of %.*s", (int)(end - sizes), sizes + 1);
}

static void prove_sides(struct hang *h, struct finding *f, const struct breach *b)
{
	const struct scene_conflict *c = b->conflict;

	for (size_t i = 0; i < c->sides.n && i < 6; i++)
		prove(h, f, "flight-recorder",
		      report_printf(h->r, "%s called %s%s as number %" PRId64 " of %s",
				    hang_who(h, c->sides.v[i].rows.v, c->sides.v[i].rows.n),
				    hang_op(h, c->sides.v[i].signature),
				    pieces_of(h, c->sides.v[i].signature), c->seq,
				    hang_group(h, b->group)));
}

static bool others_kept_theirs(const struct hang *h, const struct breach *b)
{
	size_t kept = 0, broken = 0;

	for (size_t i = 0; i < b->victims.n; i++) {
		kept += h->s->ranks.v[b->victims.v[i]].habit == HABIT_KEPT;
		broken += h->s->ranks.v[b->victims.v[i]].habit == HABIT_BROKEN;
	}
	return kept > broken;
}

static void prove_standing(struct hang *h, struct finding *f, const struct breach *b, uint32_t row)
{
	const struct scene_member *m =
	    b->group == NO_ID ? NULL : scene_member(&h->s->groups.v[b->group], row);
	const struct scene_rank *r = &h->s->ranks.v[row];

	if (m && m->source != MEMBER_ABSENT && m->enqueued >= 0 && m->enqueued < b->seq)
		prove(h, f, m->source == MEMBER_DUMP ? "flight-recorder" : "log",
		      report_printf(
			  h->r, "%s had begun only number %" PRId64 " there%s%s%s",
			  hang_who(h, &row, 1), m->enqueued,
			  m->signalled ? ", and was told to dump by another rank: it had not "
					 "timed out itself"
				       : "",
			  m->last_signature != NO_ID ? ", its last: " : "",
			  m->last_signature != NO_ID ? hang_op(h, m->last_signature) : ""));
	if (r->wait_group != NO_ID && r->wait_group != b->group) {
		const struct scene_member *w = scene_member(&h->s->groups.v[r->wait_group], row);

		if (w && w->waits)
			prove(h, f, "flight-recorder",
			      report_printf(h->r, "%s waits in %s, number %" PRId64 " of %s%s",
					    hang_who(h, &row, 1), hang_op(h, w->wait.signature),
					    w->wait.seq, hang_group(h, r->wait_group),
					    r->habit == HABIT_BROKEN
						? ", which never came at this point of a step "
						  "before"
						: ""));
	}
	if (r->left_step && b->ground == GROUND_ORDER)
		prove(h, f, "flight-recorder",
		      report_printf(h->r,
				    "the calls of %s in its last step are not those of the steps "
				    "before",
				    hang_who(h, &row, 1)));
	if (r->habit == HABIT_BROKEN && r->usual != NO_ID && others_kept_theirs(h, b))
		prove(h, f, "flight-recorder",
		      report_printf(h->r, "until then %s called %s at that point",
				    hang_who(h, &row, 1), hang_op(h, r->usual)));
}

static const char *source_of_stack(const struct scene_stack *k)
{
	static const char *const tools[] = {
		[STACK_PYSPY] = "py-spy",
		[STACK_GDB] = "gdb",
		[STACK_FAULTHANDLER] = "faulthandler",
		[STACK_KERNEL] = "kernel",
		[STACK_OTHER] = "stacks",
	};

	return tools[k->tool];
}

static void prove_idle(struct hang *h, struct finding *f, uint32_t row)
{
	for (size_t i = 0; i < h->r->gpus.n; i++) {
		const struct report_gpu *g = &h->r->gpus.v[i];

		if (g->row != h->row[row])
			continue;
		if (isfinite(g->power_w) && isfinite(g->utilization))
			prove(h, f, "power",
			      report_printf(h->r, "the GPU of %s is idle: %.0f %% busy, %.0f W",
					    hang_who(h, &row, 1), 100 * g->utilization,
					    g->power_w));
		else
			prove(h, f, "power",
			      report_printf(h->r, "the GPU of %s is idle", hang_who(h, &row, 1)));
		return;
	}
}

static void prove_failure(struct hang *h, struct finding *f, const struct failure *failed,
			  uint32_t row)
{
	const struct saying *s = &failed->said->s;
	const char *who = hang_who(h, &row, 1);
	bool ended = s->kind == SAY_EXIT || s->kind == SAY_FIRST_FAILURE;

	if (*hang_name(h, s->text))
		prove(h, f, "log", report_printf(h->r, "%s said: %s", who, hang_name(h, s->text)));
	else if (ended && s->value < -1)
		prove(h, f, "log",
		      report_printf(h->r, "%s was ended by signal %" PRId64, who, -s->value));
	else if (ended && s->value >= 0)
		prove(h, f, "log",
		      report_printf(h->r, "%s ended with status %" PRId64, who, s->value));
	else
		prove(h, f, "log", report_printf(h->r, "a line about %s says that it failed", who));
}

static void prove_rank(struct hang *h, struct finding *f, const struct breach *b, uint32_t row)
{
	const struct rank_look *l = &h->look[row];
	const struct scene_rank *r = &h->s->ranks.v[row];

	prove_standing(h, f, b, row);
	if (l->has_stack)
		prove(h, f, source_of_stack(&h->s->stacks.v[r->stack]),
		      report_printf(h->r, "%s is %s", hang_who(h, &row, 1), hang_doing(h, row)));
	if (l->failed)
		prove_failure(h, f, l->failed, row);
	if (l->left_said)
		prove(h, f, "log",
		      report_printf(h->r, "%s said: %s", hang_who(h, &row, 1),
				    hang_name(h, l->left_said->s.text)));
	if (l->xid > 0)
		prove(h, f, "power",
		      report_printf(h->r, "the GPU of %s reports XID %" PRId64,
				    hang_who(h, &row, 1), l->xid));
	if (l->shape == SHAPE_IDLE)
		prove_idle(h, f, row);
	if (!r->witnesses)
		prove(h, f, "absence",
		      report_printf(h->r, "nothing that was given is of %s", hang_who(h, &row, 1)));
	else if (b->cause == CAUSE_DEAD_RANK && b->ground == GROUND_ABSENT && !l->failed)
		prove(h, f, "absence",
		      report_printf(
			  h->r,
			  "there is no dump and no stack of %s, though live processes of the "
			  "others gave theirs",
			  hang_who(h, &row, 1)));
	else if (b->ground == GROUND_ABSENT)
		prove(h, f, "absence",
		      report_printf(h->r,
				    "%s gave no dump and no watchdog line, though the others did",
				    hang_who(h, &row, 1)));
}

static bool said_already(const struct finding *f, const char *text)
{
	for (size_t i = 0; i < f->evidence.n; i++)
		if (!strcmp(f->evidence.v[i].text, text))
			return true;
	return false;
}

static void prove_once(struct hang *h, struct finding *f, const char *text)
{
	if (*text && !said_already(f, text))
		prove(h, f, "log", text);
}

static bool has_row(const uint32_t *rows, size_t n, uint32_t row)
{
	for (size_t i = 0; i < n; i++)
		if (rows[i] == row)
			return true;
	return false;
}

/* PyTorch's own report, each sentence once. */
static void prove_reports(struct hang *h, struct finding *f)
{
	size_t before = f->evidence.n;

	for (size_t i = 0; i < h->s->sayings.n && f->evidence.n < before + 3; i++) {
		const struct scene_saying *y = &h->s->sayings.v[i];

		if (y->s.kind == SAY_DESYNC_LAGGING && y->peer_row != NO_ID)
			prove_once(h, f,
				   report_printf(h->r,
						 "PyTorch's desync report: rank %" PRId64
						 " finished collective %" PRId64
						 " and never joined the next",
						 y->s.peer, y->s.seq));
		else if (y->s.kind == SAY_NOT_JOINED)
			prove_once(h, f, hang_name(h, y->s.text));
	}
}

/* Where the others stand by the same report: its numbers count on their own. */
static void prove_report_states(struct hang *h, struct finding *f)
{
	const struct scene *s = h->s;
	int64_t done = -1;

	for (int n = 0; n < 4; n++) {
		VEC(uint32_t) rows = { 0 };
		const struct scene_saying *of = NULL;

		for (size_t i = 0; i < s->sayings.n; i++) {
			const struct scene_saying *y = &s->sayings.v[i];

			if (y->s.kind == SAY_DESYNC_STATE && y->s.value == 1 && y->s.seq > done &&
			    (!of || y->s.seq < of->s.seq))
				of = y;
		}
		for (size_t i = 0; of && i < s->sayings.n; i++)
			if (s->sayings.v[i].s.kind == SAY_DESYNC_STATE &&
			    s->sayings.v[i].s.value == 1 && s->sayings.v[i].s.seq == of->s.seq &&
			    s->sayings.v[i].peer_row != NO_ID &&
			    !has_row(rows.v, rows.n, s->sayings.v[i].peer_row))
				*vec_push(&rows) = s->sayings.v[i].peer_row;
		if (rows.n)
			prove(h, f, "log",
			      report_printf(
				  h->r,
				  "by the same report %s had started collective %" PRId64 "%s%s",
				  hang_who(h, rows.v, rows.n), of->s.seq,
				  of->s.signature == NO_ID ? "" : ", ",
				  of->s.signature == NO_ID ? "" : hang_op(h, of->s.signature)));
		free(rows.v);
		if (!of)
			return;
		done = of->s.seq;
	}
}

static void prove_line(struct hang *h, struct finding *f, const char *line)
{
	if (*line)
		prove_once(h, f, report_printf(h->r, "the log: %s", line));
}

/* The last line of the kind that the cause is about. */
static void prove_last(struct hang *h, struct finding *f, enum saying_kind kind)
{
	prove_line(h, f, hang_last_words(h, kind));
}

static void prove_log(struct hang *h, struct finding *f, const struct breach *b)
{
	prove_reports(h, f);
	if (b->ground == GROUND_REPORTED)
		prove_report_states(h, f);
	if (b->cause == CAUSE_CHECKPOINT)
		prove_last(h, f, SAY_SAVE_BEGIN);
	if (b->cause == CAUSE_DATA_STARVED && !h->look[b->culprits.v[0]].has_stack)
		prove_last(h, f, SAY_DATA_WORK);
	if (b->cause == CAUSE_UNEVEN_STEPS)
		prove_last(h, f, SAY_EPOCH_END);
	if (b->cause == CAUSE_PREEMPTED)
		prove_last(h, f, SAY_CANCELLED);
	if (b->ground == GROUND_FAILED && !b->culprits.n && b->failure)
		prove_line(h, f, hang_name(h, b->failure->said->s.text));
	if (h->near_end && h->total_steps > 0 && h->last_step > 0 && b->ground != GROUND_FAILED)
		prove(h, f, "log",
		      report_printf(h->r,
				    "it stopped at step %" PRId64 " of %" PRId64 ", near the end",
				    h->last_step, h->total_steps));
}

static void prove_ports(struct hang *h, struct finding *f)
{
	for (size_t i = 0; i < h->s->counters.n && i < 8; i++) {
		const struct scene_counter *c = &h->s->counters.v[i];

		prove(h, f, "counters",
		      report_printf(h->r, "%s%s%s %s: %.0f%s", hang_name(h, c->host),
				    c->host == NO_ID ? "" : " ", hang_name(h, c->device),
				    hang_name(h, c->name), c->rise,
				    c->once ? ", read once: nothing tells since when"
					    : " more in the second reading"));
	}
}

/* What is waited in in a further group: the lowest that somebody waits in. */
static void prove_group(struct hang *h, struct finding *f, uint32_t group)
{
	struct breach there = { .group = group, .seq = -1, .signature = NO_ID };

	for (size_t i = 0; i < h->s->groups.v[group].members.n; i++) {
		const struct scene_member *m = &h->s->groups.v[group].members.v[i];

		if (!m->waits || (there.seq >= 0 && m->wait.seq >= there.seq))
			continue;
		there.seq = m->wait.seq;
		there.signature = m->wait.signature;
	}
	if (there.seq >= 0)
		prove_place(h, f, &there);
}

/* --- what NCCL's RAS counts --- */

static const char *ras_state(const struct comm_count *c)
{
	return c->dead ? "taken for dead" : c->unresponsive ? "unresponsive" : "missing";
}

static void prove_unreached(struct hang *h, struct finding *f, const struct scene_count *c)
{
	const struct scene_count *old = c->before == NO_ID ? NULL : &h->s->counts.v[c->before];
	bool worse = old && (old->c.missing || old->c.dead || old->c.unresponsive) &&
		     strcmp(ras_state(&old->c), ras_state(&c->c)) && c->time_ns > old->time_ns;

	if (!worse)
		prove(h, f, "ncclras",
		      report_printf(h->r, "%s is %s", hang_who(h, &c->row, 1), ras_state(&c->c)));
	else
		prove(h, f, "ncclras",
		      report_printf(h->r, "%s is %s, and was %s %.0f s before",
				    hang_who(h, &c->row, 1), ras_state(&c->c), ras_state(&old->c),
				    (double)(c->time_ns - old->time_ns) / 1e9));
}

/* "all_gather 5120, all_reduce 903" */
static const char *launched(struct hang *h, const struct comm_count *c)
{
	const char *text = "";

	for (int op = 0; op < COMM_OPS; op++)
		if (c->counts[op] > 0)
			text = report_printf(h->r, "%s%s%s %" PRId64, text, *text ? ", " : "",
					     comm_op_name((enum comm_op)op), c->counts[op]);
	return *text ? text : "nothing";
}

/* Whether those who answer have launched alike, and any more since the reading before. */
static void prove_launches(struct hang *h, struct finding *f, const struct breach *b)
{
	const struct scene_count *first = NULL;
	VEC(uint32_t) alike = { 0 };

	for (size_t i = 0; i < h->s->counts.n; i++) {
		const struct scene_count *c = &h->s->counts.v[i];

		if (c->of->witness != WITNESS_RAS || !c->latest || c->row == NO_ID ||
		    c->c.missing || has_row(b->culprits.v, b->culprits.n, c->row) ||
		    (first && c->group != first->group))
			continue;
		first = first ? first : c;
		if (!memcmp(c->c.counts, first->c.counts, sizeof(c->c.counts)) &&
		    (!alike.n || alike.v[alike.n - 1] != c->row)) /* given twice */
			*vec_push(&alike) = c->row;
	}
	if (alike.n > 1)
		prove(h, f, "ncclras",
		      report_printf(h->r, "%s have launched alike: %s%s",
				    hang_who(h, alike.v, alike.n), launched(h, &first->c),
				    h->counts_ns <= 0 || h->goes_on
					? ""
					: report_printf(h->r, "; none more within %.0f s",
							(double)h->counts_ns / 1e9)));
	free(alike.v);
}

static void prove_counts(struct hang *h, struct finding *f, const struct breach *b)
{
	uint32_t told = NO_ID;
	size_t n = 0;

	for (size_t i = 0; i < h->s->counts.n && n < 8; i++) {
		const struct scene_count *c = &h->s->counts.v[i];

		if (c->of->witness != WITNESS_RAS || !c->latest || c->row == NO_ID ||
		    c->row == told || !has_row(b->culprits.v, b->culprits.n, c->row))
			continue;
		told = c->row;
		n++;
		if (c->c.missing || c->c.dead || c->c.unresponsive)
			prove_unreached(h, f, c);
		else
			prove(h, f, "ncclras",
			      report_printf(h->r, "%s has launched %s", hang_who(h, &c->row, 1),
					    launched(h, &c->c)));
	}
	prove_launches(h, f, b);
}

void prove_breach(struct hang *h, struct finding *f, const struct breach *b)
{
	for (size_t i = 1; i < b->groups.n && i < 12; i++)
		prove_group(h, f, b->groups.v[i]);
	if (b->conflict)
		prove_sides(h, f, b);
	else if (b->group != NO_ID && b->seq >= 0)
		prove_place(h, f, b);
	if (b->group != NO_ID && b->seq >= 0 && (b->ground == GROUND_STUCK || b->on_gpu))
		prove_not_started(h, f, b);
	for (size_t i = 0; i < b->culprits.n && i < 8; i++)
		prove_rank(h, f, b, b->culprits.v[i]);
	prove_after(h, f, b);
	if (h->counts_ns >= 0 && b->ground == GROUND_REPORTED)
		prove_counts(h, f, b);
	prove_log(h, f, b);
	if (b->ground == GROUND_STUCK || b->cause == CAUSE_NETWORK_ERROR)
		prove_ports(h, f);
}
