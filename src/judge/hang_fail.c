/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_fail.c - who failed first, by its own words, and who merely followed.
 *
 * A rank that lost a peer, the store or its communicator, that was ended by its launcher, or that
 * its own watchdog took down after a time-out, is an echo. What remains is ordered by what the
 * launcher calls the first failure, by the words' weight (the kernel and the scheduler know why a
 * process died; the process does not), then by time and place in the log.
 */
#include "judge/hang_internal.h"

#include <signal.h>

#define REPORTED_MISMATCH "collective mismatch" /* by TORCH_DISTRIBUTED_DEBUG=DETAIL */

struct meaning {
	enum saying_kind kind;
	enum cause cause;
	int weight; /* of two sayings about one rank the heavier tells the cause */
};

static const struct meaning meanings[] = {
	{ SAY_OUT_OF_MEMORY, CAUSE_OUT_OF_MEMORY, 9 },
	{ SAY_GPU_ERROR, CAUSE_GPU_ERROR, 8 },
	{ SAY_NODE_FAILED, CAUSE_DEAD_RANK, 7 },
	{ SAY_NETWORK_ERROR, CAUSE_NETWORK_ERROR, 4 },
	{ SAY_CONFIGURATION, CAUSE_CONFIGURATION, 5 },
	{ SAY_RENDEZVOUS, CAUSE_RENDEZVOUS, 5 },
	{ SAY_EXCEPTION, CAUSE_EXCEPTION, 6 },
	{ SAY_FATAL, CAUSE_EXCEPTION, 6 },
	{ SAY_EXIT, CAUSE_DEAD_RANK, 2 },
	{ SAY_FIRST_FAILURE, CAUSE_DEAD_RANK, 2 },
};

/* A process that its own watchdog ends after a time-out has no failure of its own. */
static bool is_watchdogs_end(const struct hang *h, const struct scene_saying *y)
{
	const char *text = hang_name(h, y->s.text);

	return (y->s.kind == SAY_FATAL || y->s.kind == SAY_EXCEPTION) &&
	       strstr(text, "watchdog thread terminated") &&
	       (strstr(text, "timeout") || strstr(text, "timed out"));
}

static const struct meaning *meaning_of(enum saying_kind kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
		if (meanings[i].kind == kind)
			return &meanings[i];
	return NULL;
}

static bool is_echo(enum saying_kind k)
{
	return k == SAY_PEER_LOST || k == SAY_STORE_LOST || k == SAY_ABORTED;
}

/* Signals that launchers and watchdogs send; the kernel's own tell of the process. */
static bool ended_from_outside(int64_t exit)
{
	return exit == -SIGTERM || exit == -SIGINT || exit == -SIGHUP || exit == 128 + SIGTERM;
}

/* When the first watchdog spoke; what ends after that ends because of it. */
static int64_t first_timeout_ns(const struct hang *h)
{
	int64_t first = INT64_MAX;

	for (size_t i = 0; i < h->s->sayings.n; i++) {
		const struct scene_saying *y = &h->s->sayings.v[i];

		if (y->s.kind == SAY_TIMEOUT && y->s.time_ns > 0)
			first = MIN(first, y->s.time_ns);
	}
	return first;
}

/* By rank: what the launcher did to it, and whether its watchdog had spoken. */
struct fate {
	bool stopped, timed_out;
	uint64_t stopped_at;
	const struct scene_saying *best, *exit, *first;
	const struct scene_saying *end;	 /* of the lines of its exit the earliest by its stamp */
	const struct scene_saying *echo; /* the first that it lost a peer */
	int weight;
};

static uint64_t order_of(const struct scene_saying *y)
{
	return (uint64_t)y->file << 40 | MIN(y->s.line, ((uint64_t)1 << 40) - 1);
}

static bool earlier(const struct scene_saying *a, const struct scene_saying *b)
{
	if (a->s.time_ns > 0 && b->s.time_ns > 0 && a->s.time_ns != b->s.time_ns)
		return a->s.time_ns < b->s.time_ns;
	return order_of(a) < order_of(b);
}

/* The same words of an unknown rank, with the host. */
static bool tells_where(const struct scene_saying *a, const struct scene_saying *b)
{
	return a->row == NO_ID && b->row == NO_ID && a->s.kind == b->s.kind &&
	       a->s.what == b->s.what && a->s.host != NO_ID && b->s.host == NO_ID;
}

static void note_fate(const struct hang *h, struct fate *f, const struct scene_saying *y)
{
	const struct meaning *m = is_watchdogs_end(h, y) ? NULL : meaning_of(y->s.kind);

	if (is_echo(y->s.kind) && (!f->echo || earlier(y, f->echo)))
		f->echo = y;
	f->timed_out |= y->s.kind == SAY_TIMEOUT || y->s.kind == SAY_DUMP_LOCAL ||
			y->s.kind == SAY_DUMP_SIGNAL || y->s.kind == SAY_HEARTBEAT ||
			is_watchdogs_end(h, y);
	if (y->s.kind == SAY_STOPPED && !f->stopped) {
		f->stopped = true;
		f->stopped_at = order_of(y);
	}
	if (y->s.kind == SAY_EXIT || y->s.kind == SAY_FIRST_FAILURE) {
		f->exit = f->exit ? f->exit : y;
		if (!f->end || (y->s.time_ns > 0 && earlier(y, f->end)))
			f->end = y;
	}
	if (y->s.kind == SAY_FIRST_FAILURE)
		f->first = y;
	if (!m || (y->s.kind == SAY_EXIT && (y->s.value == 0 || ended_from_outside(y->s.value))))
		return;
	if (!f->best || m->weight > f->weight ||
	    (m->weight == f->weight && (earlier(y, f->best) || tells_where(y, f->best)))) {
		f->best = y;
		f->weight = m->weight;
	}
}

static bool any_waits(const struct hang *h)
{
	for (size_t i = 0; i < h->s->ranks.n; i++)
		if (h->s->ranks.v[i].wait_group != NO_ID)
			return true;
	return false;
}

/* It lived when dumps were written in which ranks wait: its exit code came after that. */
static bool outlived_a_hang(const struct hang *h, uint32_t row, int64_t exit)
{
	return exit > 0 && exit < 128 && row != NO_ID && h->s->ranks.v[row].lived &&
	       h->s->ranks.v[row].witnesses & 1u << WITNESS_DUMP && h->someone_waits;
}

/* Ended by somebody else's doing: by its launcher, its own watchdog, or a lost peer.
   timeout_ns: when the first watchdog spoke */
static bool followed(const struct hang *h, uint32_t row, const struct fate *f, int64_t timeout_ns)
{
	const struct meaning *m = f->best ? meaning_of(f->best->s.kind) : NULL;
	int64_t exit = f->exit ? f->exit->s.value : 0;

	if (!m)
		return true;
	if (m->weight > 2) { /* words of its own: unless they came as a reaction */
		if (f->stopped && order_of(f->best) > f->stopped_at && !f->first)
			return true;
		if (m->kind == SAY_OUT_OF_MEMORY || m->kind == SAY_GPU_ERROR)
			return false;
		return f->timed_out ||
		       (f->echo && m->kind != SAY_FATAL && earlier(f->echo, f->best));
	}
	if (f->stopped || ended_from_outside(exit) || outlived_a_hang(h, row, exit))
		return true;
	if (h->timed_out && exit == -SIGABRT)
		return true; /* what a watchdog does after a time-out */
	if (h->timed_out && f->exit->s.time_ns > 0 && f->exit->s.time_ns >= timeout_ns)
		return true;
	return f->timed_out || f->echo;
}

static bool mismatch_words(const struct hang *h, const struct scene_saying *y)
{
	return y->s.kind == SAY_FATAL && (strstr(hang_name(h, y->s.what), "size mismatch") ||
					  !strcmp(hang_name(h, y->s.what), REPORTED_MISMATCH));
}

static void add_failure(struct hang *h, const struct fate *f)
{
	const struct meaning *m = meaning_of(f->best->s.kind);
	struct failure *own = vec_push(&h->failures);

	*own = (struct failure){
		.cause = mismatch_words(h, f->best) ? CAUSE_COLLECTIVE_DESYNC : m->cause,
		.said = f->best,
		.time_ns = f->best->s.time_ns,
		.order = order_of(f->best),
		.first = f->first != NULL,
		.by_signal = m->weight <= 2 && f->exit && f->exit->s.value < 0 &&
			     f->exit->s.value != EXIT_UNSEEN,
	};
}

static bool in_same_second(const struct failure *a, const struct failure *b)
{
	return a->time_ns > 0 && b->time_ns > 0 &&
	       a->time_ns / 1000000000 == b->time_ns / 1000000000;
}

static int by_weight_of_proof(const void *a, const void *b)
{
	const struct failure *x = a, *y = b;

	if (x->first != y->first)
		return x->first ? -1 : 1;
	if (x->time_ns > 0 && y->time_ns > 0 && !in_same_second(x, y))
		return x->time_ns < y->time_ns ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

/* Words that name a host or GPU and no rank go to the rank that has it, if one does. */
static uint32_t row_of_place(const struct hang *h, const struct scene_saying *y)
{
	for (uint32_t i = 0; i < h->s->ranks.n && y->s.gpu >= 0; i++)
		if (h->s->ranks.v[i].gpu == y->s.gpu && y->s.host != NO_ID &&
		    h->s->ranks.v[i].host == y->s.host)
			return i;
	return NO_ID;
}

static void note_ends(struct hang *h)
{
	for (size_t i = 0; i < h->s->sayings.n; i++) {
		const struct scene_saying *y = &h->s->sayings.v[i];
		const struct meaning *m = meaning_of(y->s.kind);

		if (is_watchdogs_end(h, y)) {
			h->timed_out = true;
			continue;
		}
		h->monitors |= y->s.kind == SAY_HEARTBEAT;
		h->peer_lost |= is_echo(y->s.kind);
		if (y->s.kind == SAY_STOPPED && !strcmp(hang_name(h, y->s.what), "agent"))
			h->stopped = y;
		if (y->s.kind == SAY_CANCELLED &&
		    (!h->cancelled || !strcmp(hang_name(h, h->cancelled->s.what), "cancelled")))
			h->cancelled = y; /* the first that says why */
		if ((m && m->weight > 2 && y->s.kind != SAY_NETWORK_ERROR) ||
		    ((y->s.kind == SAY_EXIT || y->s.kind == SAY_FIRST_FAILURE) &&
		     y->s.value != 0) ||
		    is_echo(y->s.kind))
			h->ended = true;
	}
}

void look_at_failures(struct hang *h)
{
	struct fate *fate = xcalloc(h->s->ranks.n + 1, sizeof(*fate));
	struct fate nobody = { 0 };
	VEC(uint32_t) rows = { 0 };
	int64_t timeout_ns = first_timeout_ns(h);

	h->someone_waits = any_waits(h);
	note_ends(h);
	for (size_t i = 0; i < h->s->sayings.n; i++) {
		const struct scene_saying *y = &h->s->sayings.v[i];
		uint32_t row = y->row != NO_ID ? y->row : row_of_place(h, y);

		note_fate(h, row == NO_ID ? &nobody : &fate[row], y);
	}
	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		const struct fate *f = &fate[row];
		bool echo = followed(h, row, f, timeout_ns);

		h->look[row].echo = echo && (f->best || f->exit || f->echo);
		h->look[row].lost_peer = echo && f->echo && f->echo->s.kind == SAY_PEER_LOST;
		h->look[row].end = f->end;
		h->look[row].stopped = f->stopped;
		if (echo)
			continue;
		add_failure(h, f);
		*vec_push(&rows) = row;
	}
	/* an exit code alone says less than what any rank says */
	if (nobody.best && (nobody.weight > 2 || (!rows.n && !h->timed_out)))
		add_failure(h, &nobody);
	h->n_untied = h->failures.n - rows.n;
	h->untied = h->n_untied ? &h->failures.v[rows.n] : NULL;
	/* pointers only now: the table does not grow any more */
	for (size_t i = 0; i < rows.n; i++)
		h->look[rows.v[i]].failed = &h->failures.v[i];
	free(rows.v);
	free(fate);
}

static uint32_t row_of_failure(const struct hang *h, const struct failure *f)
{
	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		if (h->look[row].failed == f)
			return row;
	return NO_ID;
}

/* An exit code is one, whether the launcher calls it the first or not. */
bool same_failure(const struct failure *a, const struct failure *b)
{
	if (meaning_of(a->said->s.kind)->weight <= 2 && meaning_of(b->said->s.kind)->weight <= 2)
		return a->said->s.value == b->said->s.value;
	return a->said->s.kind == b->said->s.kind && a->said->s.what == b->said->s.what;
}

/* All others lost a peer and nobody says how it ended: the one that lost none is gone. If all did,
   or most were not given, nobody can be named. */
void breach_of_echoes(struct hang *h)
{
	struct breach *b;
	size_t echoes = 0, silent = 0;
	bool named;

	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		echoes += h->look[row].echo;
		silent += !h->look[row].echo;
	}
	if (!h->peer_lost)
		return;
	named = echoes > 1 && silent && silent < echoes;
	b = breach_new(h, GROUND_FAILED);
	b->cause = CAUSE_DEAD_RANK;
	b->confidence = !named ? 0.4 : silent == 1 ? 0.7 : 0.5;
	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		if (h->look[row].echo)
			*vec_push(&b->victims) = row;
		else if (named)
			*vec_push(&b->culprits) = row;
}

/* Somebody's process ended, and neither its rank nor a reason is told. */
static bool is_bare_exit(const struct failure *f)
{
	return f->said->s.kind == SAY_EXIT || f->said->s.kind == SAY_FIRST_FAILURE;
}

/* Who lost a peer tells more than that some process ended. */
static bool echoes_name_someone(struct hang *h)
{
	size_t n = h->breaches.n;

	breach_of_echoes(h);
	if (h->breaches.n > n && h->breaches.v[n].culprits.n)
		return true;
	if (h->breaches.n > n)
		breach_drop(h, n);
	return false;
}

static bool on_one_host(const struct failure *a, const struct failure *b)
{
	return a->said->s.host == NO_ID || b->said->s.host == NO_ID ||
	       a->said->s.host == b->said->s.host || a->said->file == b->said->file;
}

/* Who merely ended by an exit code said why somewhere that was not given; ranks that failed beside
   it and said why speak for it. */
static const struct failure *with_words(const struct hang *h, const struct failure *first)
{
	const struct failure *best = NULL;

	if (meaning_of(first->said->s.kind)->weight > 2)
		return first;
	if (h->n_untied && (first == h->untied || on_one_host(first, h->untied)))
		return h->untied;
	if (first->by_signal)
		return first;
	for (size_t i = 0; i < h->failures.n; i++)
		if (meaning_of(h->failures.v[i].said->s.kind)->weight > 2 &&
		    (!best || by_weight_of_proof(&h->failures.v[i], best) < 0))
			best = &h->failures.v[i];
	return best && best->cause == CAUSE_RENDEZVOUS ? best : first;
}

/* Ranks that failed by the same words and make up one node of a larger job, in order. */
static bool is_one_node(const struct hang *h, const struct failure *first, struct row_list *ret)
{
	uint32_t from;

	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		if (h->look[row].failed && same_failure(h->look[row].failed, first))
			*vec_push(ret) = row;
	from = ret->n ? ret->v[0] : 0;
	return (ret->n == 4 || ret->n == 8) && 2 * ret->n <= h->s->ranks.n && !(from % ret->n) &&
	       ret->v[ret->n - 1] == from + ret->n - 1;
}

static void blame_node(struct breach *b, const struct row_list *rows)
{
	size_t kept = 0;

	b->culprits.n = 0;
	rows_append(&b->culprits, rows);
	for (size_t i = 0; i < b->victims.n; i++)
		if (b->victims.v[i] < rows->v[0] || b->victims.v[i] > rows->v[rows->n - 1])
			b->victims.v[kept++] = b->victims.v[i];
	b->victims.n = kept;
}

/* --- collectives that differ, by PyTorch's own check --- */

static bool same_state(const struct scene_saying *a, const struct scene_saying *b)
{
	return a->s.seq == b->s.seq && a->s.signature == b->s.signature;
}

/* What each row was running when it was compared; NULL: not told. */
static const struct scene_saying **states_of(const struct hang *h, size_t *ret_n)
{
	const struct scene_saying **of = xcalloc(h->s->ranks.n + 1, sizeof(*of));

	*ret_n = 0;
	for (size_t i = 0; i < h->s->sayings.n; i++) {
		const struct scene_saying *y = &h->s->sayings.v[i];

		if (y->s.kind != SAY_DESYNC_STATE || y->s.value != 1 || y->peer_row == NO_ID)
			continue;
		*ret_n += !of[y->peer_row];
		of[y->peer_row] = y;
	}
	return of;
}

/* Whoever reports the difference need not have made it: the few that differ from most are named,
   and all that are told of where there are no most. */
static void blame_the_odd(struct hang *h, struct breach *b)
{
	size_t n, alike = 0;
	_cleanup_free_ const struct scene_saying **of = states_of(h, &n);
	const struct scene_saying *usual = NULL;
	struct vote vote = { 0 };

	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		if (of[row] && !vote_goes_on(&vote, usual && same_state(of[row], usual)))
			usual = of[row];
	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		alike += of[row] && same_state(of[row], usual);
	b->tie = 2 * alike <= n;
	b->confidence = b->tie ? 0.4 : 0.8;
	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		if (of[row] && (b->tie || !same_state(of[row], usual)))
			*vec_push(&b->culprits) = row;
		else if (h->s->ranks.v[row].witnesses || of[row])
			*vec_push(&b->victims) = row;
}

static bool is_reported_mismatch(const struct hang *h, const struct failure *f)
{
	return f->said->s.kind == SAY_FATAL &&
	       !strcmp(hang_name(h, f->said->s.what), REPORTED_MISMATCH);
}

static bool all_but_few(size_t n, size_t all)
{
	return 10 * n >= 9 * all;
}

/* By the same words in the same second: neither is the other's echo. */
static bool at_once(const struct failure *f, const struct failure *first)
{
	return f && !first->first && meaning_of(first->said->s.kind)->weight > 2 &&
	       same_failure(f, first) && in_same_second(f, first);
}

#define SEVERAL 3 /* one process may say it twice */

/* Words without a rank that more processes said than could be meant by the launcher's choice. */
static bool by_several(const struct hang *h, const struct failure *words)
{
	return words == h->untied && words->said->s.count >= SEVERAL &&
	       2 * (int64_t)words->said->s.count > h->s->world_size;
}

/* All that ended as the first did, did so in one second: which the launcher saw first is chance. */
static bool in_one_second(const struct hang *h, const struct failure *first)
{
	for (size_t i = 0; i < h->failures.n; i++)
		if (same_failure(&h->failures.v[i], first) &&
		    !in_same_second(&h->failures.v[i], first))
			return false;
	return true;
}

/* That the kernel killed it for want of memory is what usually is so, and what nobody says. */
static bool killed_unsaid(const struct hang *h, const struct failure *f)
{
	return !strcmp(hang_name(h, f->said->s.what), "a loader's worker killed");
}

/* The first, and those who failed by the same words in the same second, before the launcher's
   choice between them means anything. */
void breach_of_failures(struct hang *h)
{
	const struct failure *first = NULL, *words;
	struct row_list node = { 0 };
	struct breach *b;
	size_t alike = 0;
	uint32_t row;

	for (size_t i = 0; i < h->failures.n; i++)
		if (!first || (&h->failures.v[i] != h->untied &&
			       by_weight_of_proof(&h->failures.v[i], first) < 0))
			first = &h->failures.v[i];
	if (!first || (first == h->untied && is_bare_exit(first) && echoes_name_someone(h)))
		return;
	words = with_words(h, first);
	row = words->cause == CAUSE_RENDEZVOUS ? NO_ID : row_of_failure(h, first);
	b = breach_new(h, GROUND_FAILED);
	b->failure = words;
	b->cause = words->cause;
	if (is_reported_mismatch(h, words)) {
		blame_the_odd(h, b);
		return;
	}
	b->confidence = first->first ? 0.9 : killed_unsaid(h, words) ? 0.6 : 0.8;
	for (size_t i = 0; i < h->failures.n; i++)
		alike += &h->failures.v[i] != first && same_failure(&h->failures.v[i], first);
	/* most ranks say the same: the code or the settings, no rank */
	b->alike = (alike && 2 * (alike + 1) > h->s->ranks.n) || by_several(h, words);
	/* the launcher's choice counts among most, and means nothing among all, nor among those
	   that ended in the second in which the others were ended */
	if (row != NO_ID && (!b->alike || (first->first && !all_but_few(alike + 1, h->s->ranks.n) &&
					   !by_several(h, words) && !in_one_second(h, first))))
		*vec_push(&b->culprits) = row;
	if (b->alike && !b->culprits.n)
		b->confidence = 0.7;
	for (uint32_t i = 0; i < h->s->ranks.n; i++)
		if (i != row && b->culprits.n && at_once(h->look[i].failed, first))
			*vec_push(&b->culprits) = i;
		else if ((i != row || !b->culprits.n) && h->s->ranks.v[i].witnesses)
			*vec_push(&b->victims) = i;
	if (is_one_node(h, first, &node))
		blame_node(b, &node);
	free(node.v);
}
