/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_alone.c - who broke it where no sequence numbers tell: PyTorch's own report, NCCL's RAS,
 * or stacks alone.
 */
#include "judge/hang_internal.h"

/* --- named by PyTorch --- */

/* By row: it ran into a time-out of its own, so it waits for somebody, wherever it lags. */
static bool *who_waited_itself(const struct scene *s)
{
	bool *waited = xcalloc(s->ranks.n + 1, sizeof(bool));

	for (size_t i = 0; i < s->sayings.n; i++)
		if (s->sayings.v[i].s.kind == SAY_TIMEOUT && s->sayings.v[i].row != NO_ID)
			waited[s->sayings.v[i].row] = true;
	return waited;
}

void breach_of_reports(struct hang *h)
{
	struct breach *b = NULL;
	_cleanup_free_ bool *named = xcalloc(h->s->ranks.n + 1, sizeof(bool));
	_cleanup_free_ bool *waited = who_waited_itself(h->s);
	int64_t lowest = INT64_MAX;

	for (size_t i = 0; i < h->s->sayings.n; i++) {
		const struct scene_saying *y = &h->s->sayings.v[i];

		if ((y->s.kind != SAY_DESYNC_LAGGING && y->s.kind != SAY_NOT_JOINED) ||
		    y->peer_row == NO_ID || waited[y->peer_row])
			continue;
		if (!b)
			b = breach_new(h, GROUND_REPORTED);
		if (!named[y->peer_row])
			*vec_push(&b->culprits) = y->peer_row;
		named[y->peer_row] = true;
		if (y->s.kind == SAY_DESYNC_LAGGING)
			lowest = MIN(lowest, y->s.seq);
	}
	if (!b)
		return;
	b->confidence = 0.9;
	b->seq = lowest == INT64_MAX ? -1 : lowest + 1;
	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		if (!named[row] && h->s->ranks.v[row].lived)
			*vec_push(&b->victims) = row;
}

/* --- all others timed out --- */

#define SILENT_SHARE 8 /* one rank in so many may be silent */

/* Who has no watchdog line of its own: who failed says more than who is mute, and that more than
   who was told to dump, since what he waits in may only have begun later. */
enum silence { SPOKE, TOLD, MUTE, FAILED, SILENCES };

static enum silence *silence_of(const struct hang *h, size_t n[SILENCES])
{
	const struct scene *s = h->s;
	enum silence *of = xcalloc(s->ranks.n + 1, sizeof(*of));
	_cleanup_free_ bool *spoke = xcalloc(s->ranks.n + 1, sizeof(bool));

	for (size_t i = 0; i < s->sayings.n; i++)
		if (s->sayings.v[i].row != NO_ID &&
		    (s->sayings.v[i].s.kind == SAY_TIMEOUT || s->sayings.v[i].s.kind == SAY_STATUS))
			spoke[s->sayings.v[i].row] = true;
	for (uint32_t row = 0; row < s->ranks.n; row++) {
		/* by its dump it waits as well: unless nothing moves in it, its watchdog neither */
		bool waits = spoke[row] || h->look[row].lost_peer ||
			     (s->ranks.v[row].wait_group != NO_ID && !h->look[row].monitored);

		of[row] = waits			? SPOKE
			  : h->look[row].failed ? FAILED
			  : h->look[row].told	? TOLD
						: MUTE;
		n[of[row]] += s->ranks.v[row].rank >= 0;
	}
	return of;
}

static bool of_one_host(const struct hang *h, const enum silence *of, enum silence which)
{
	uint32_t first = NO_ID;

	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		if (of[row] != which || h->s->ranks.v[row].rank < 0)
			continue;
		if (first == NO_ID)
			first = row;
		if (h->s->ranks.v[row].host == NO_ID ||
		    h->s->ranks.v[row].host != h->s->ranks.v[first].host)
			return false;
	}
	return true;
}

static bool before(const struct failure *f, const struct scene_saying *timeout)
{
	if (f->time_ns > 0 && timeout->s.time_ns > 0)
		return f->time_ns <= timeout->s.time_ns;
	return f->said->file != timeout->file || f->said->s.line < timeout->s.line;
}

static bool before_time_outs(const struct hang *h, const struct failure *f)
{
	for (size_t i = 0; i < h->s->sayings.n; i++)
		if (h->s->sayings.v[i].s.kind == SAY_TIMEOUT && !before(f, &h->s->sayings.v[i]))
			return false;
	return true;
}

/* One rank says what broke it before any watchdog speaks: then those wait for it, however many
   are silent. */
void breach_of_one_failure(struct hang *h)
{
	struct breach *b;
	uint32_t failed = NO_ID;
	size_t n = 0;

	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		const struct failure *f = h->look[row].failed;

		if (!f || f->by_signal || f->said->s.kind == SAY_EXIT ||
		    f->said->s.kind == SAY_FIRST_FAILURE)
			continue;
		failed = row;
		n++;
	}
	if (n != 1 || !h->timed_out || h->s->ranks.v[failed].wait_group != NO_ID ||
	    !before_time_outs(h, h->look[failed].failed))
		return;
	b = breach_new(h, GROUND_ABSENT);
	b->confidence = 0.7;
	*vec_push(&b->culprits) = failed;
	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		if (row != failed && h->s->ranks.v[row].wait_group != NO_ID)
			*vec_push(&b->victims) = row;
}

/* In groups whose members nobody lists: the few that have no watchdog line where all others have.
 */
void breach_of_silence(struct hang *h)
{
	const struct scene *s = h->s;
	size_t n[SILENCES] = { 0 }, lived = 0, all;
	_cleanup_free_ enum silence *of = silence_of(h, n);
	enum silence which = n[FAILED] ? FAILED : n[MUTE] ? MUTE : TOLD;
	struct breach *b;

	if (s->unheard || !h->timed_out)
		return;
	all = n[SPOKE] + n[TOLD] + n[MUTE] + n[FAILED];
	for (uint32_t row = 0; row < s->ranks.n; row++)
		lived += s->ranks.v[row].rank >= 0 && of[row] == which && s->ranks.v[row].lived;
	/* of those that never lived the logs may not have been given: one of many is named */
	if (!n[which] || n[which] >= n[SPOKE] || all - n[SPOKE] > MAX(all / SILENT_SHARE, 1u) ||
	    (lived < n[which] && n[which] > 1) ||
	    (which == TOLD && n[TOLD] > 1 && !of_one_host(h, of, TOLD)))
		return;
	b = breach_new(h, GROUND_ABSENT);
	b->confidence = n[which] == 1 && lived ? 0.7 : 0.5;
	for (uint32_t row = 0; row < s->ranks.n; row++)
		if (s->ranks.v[row].rank >= 0)
			*vec_push(of[row] == which ? &b->culprits : &b->victims) = row;
}

/* --- heartbeat monitors --- */

/* A few processes were ended by their own monitors, because nothing in them moved any more. Where
   nothing is of the others, and how many they are is not said either, theirs may have spoken too.
 */
void breach_of_monitors(struct hang *h)
{
	struct breach *b;
	size_t n = 0, others = 0;

	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		n += h->look[row].monitored;
		others += !h->look[row].monitored && h->s->ranks.v[row].lived;
	}
	if (!n || 2 * n > h->s->ranks.n || (!others && h->s->world_assumed))
		return;
	h->ended = false; /* it hung before it was ended */
	b = breach_new(h, GROUND_REPORTED);
	b->confidence = 0.6;
	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		if (h->look[row].monitored)
			*vec_push(&b->culprits) = row;
		else if (h->s->ranks.v[row].witnesses)
			*vec_push(&b->victims) = row;
}

/* All that is known is that monitors ended their processes: it hung, and where is not told. */
void breach_of_all_monitors(struct hang *h)
{
	struct breach *b = breach_new(h, GROUND_REPORTED);

	h->ended = false;
	b->confidence = 0.5;
	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		if (h->look[row].monitored)
			*vec_push(&b->victims) = row;
}

/* --- a group that is not set up --- */

/* All wait for what one rank was to give them, and that one says nothing. The numbers in these
   lines are the group's: they are the job's if those who speak have the same in both. */
void breach_of_setup(struct hang *h)
{
	const struct scene *s = h->s;
	_cleanup_free_ bool *spoke = xcalloc(s->ranks.n + 1, sizeof(bool));
	uint32_t root = NO_ID;
	struct breach *b;

	for (size_t i = 0; i < s->sayings.n; i++) {
		const struct scene_saying *y = &s->sayings.v[i];

		if (y->s.kind != SAY_COMM_SETUP || y->row == NO_ID)
			continue;
		if (y->peer_row == NO_ID || y->s.local_rank != y->s.rank ||
		    (root != NO_ID && y->peer_row != root))
			return;
		root = y->peer_row;
		spoke[y->row] = true;
	}
	if (root == NO_ID || spoke[root] || h->look[root].failed)
		return;
	b = breach_new(h, GROUND_REPORTED);
	b->confidence = 0.6;
	b->seq = 0;
	*vec_push(&b->culprits) = root;
	for (uint32_t row = 0; row < s->ranks.n; row++)
		if (spoke[row])
			*vec_push(&b->victims) = row;
}

/* --- counted by RAS --- */

static int64_t launches(const struct comm_count *c)
{
	int64_t sum = 0;

	for (int op = 0; op < COMM_OPS; op++)
		sum += MAX(c->counts[op], 0);
	return sum;
}

static bool same_counts(const struct comm_count *a, const struct comm_count *b)
{
	return !memcmp(a->counts, b->counts, sizeof(a->counts));
}

/* Most ranks of a communicator have launched alike; who has launched other or fewer is odd. */
static void odd_counts(struct hang *h, size_t from, size_t to, struct breach *b)
{
	const struct scene_count *usual = NULL, *v = h->s->counts.v;
	size_t most = 0, all = 0;
	struct vote vote = { 0 };

	for (size_t i = from; i < to; i++) {
		if (!v[i].latest || v[i].c.missing)
			continue;
		all++;
		if (!vote_goes_on(&vote, usual && same_counts(&v[i].c, &usual->c)))
			usual = &v[i];
	}
	for (size_t i = from; usual && i < to; i++)
		most += v[i].latest && !v[i].c.missing && same_counts(&v[i].c, &usual->c);
	for (size_t i = from; usual && 2 * most > all && i < to; i++) {
		if (!v[i].latest || v[i].row == NO_ID)
			continue;
		if (v[i].c.missing ||
		    (!same_counts(&v[i].c, &usual->c) && launches(&v[i].c) <= launches(&usual->c)))
			*vec_push(&b->culprits) = v[i].row;
		else if (same_counts(&v[i].c, &usual->c))
			*vec_push(&b->victims) = v[i].row;
	}
}

/* RAS names processes that do not answer, or that it takes for dead. */
static bool breach_of_dead(struct hang *h)
{
	const struct scene *s = h->s;
	_cleanup_free_ bool *dead = xcalloc(s->ranks.n + 1, sizeof(bool));
	struct breach *b = NULL;

	for (size_t i = 0; i < s->counts.n; i++) {
		const struct comm_count *c = &s->counts.v[i].c;

		if (!s->counts.v[i].latest || s->counts.v[i].row == NO_ID ||
		    !(c->missing || c->dead || c->unresponsive) || dead[s->counts.v[i].row])
			continue;
		if (!b)
			b = breach_new(h, GROUND_REPORTED);
		dead[s->counts.v[i].row] = true;
		*vec_push(&b->culprits) = s->counts.v[i].row;
	}
	if (!b)
		return false;
	b->confidence = 0.9;
	for (uint32_t row = 0; row < s->ranks.n; row++)
		if (!dead[row] && s->ranks.v[row].witnesses)
			*vec_push(&b->victims) = row;
	return true;
}

void breach_of_counts(struct hang *h)
{
	const struct scene *s = h->s;
	bool moved = false, again = false, missing = false;
	struct breach *b;

	for (size_t i = 0; i < s->counts.n; i++) {
		const struct scene_count *c = &s->counts.v[i];
		const struct scene_count *old = c->before == NO_ID ? NULL : &s->counts.v[c->before];

		if (c->of->witness != WITNESS_RAS || !c->latest)
			continue;
		again |= old != NULL;
		h->counts_ns = MAX(h->counts_ns, old ? c->time_ns - old->time_ns : 0);
		moved |= old && !same_counts(&old->c, &c->c) && !c->c.missing && !old->c.missing;
		missing |= c->c.missing || c->c.unresponsive || c->c.dead;
	}
	h->goes_on |= again && moved;
	if (missing && breach_of_dead(h))
		return;
	for (size_t from = 0, to = 0; from < s->counts.n; from = to) {
		while (to < s->counts.n && s->counts.v[to].group == s->counts.v[from].group)
			to++;
		if (s->counts.v[from].of->witness != WITNESS_RAS)
			continue;
		b = breach_new(h, GROUND_REPORTED);
		b->group = s->counts.v[from].group;
		b->confidence = missing ? 0.9 : again ? 0.7 : 0.5;
		odd_counts(h, from, to, b);
		if (b->culprits.n) {
			return; /* the other communicators tell the same */
		}
		free(b->victims.v);
		h->breaches.n--;
	}
}

/* --- stacks alone --- */

static void stacks_busy(struct hang *h, size_t waiting)
{
	struct breach *b = breach_new(h, GROUND_STACK);

	b->confidence = waiting > 1 ? 0.7 : 0.5;
	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		if (h->look[row].busy_stack)
			*vec_push(&b->culprits) = row;
		else if (h->look[row].waiting_stack)
			*vec_push(&b->victims) = row;
	}
}

/* All wait, one of them in another operation than the rest. */
static uint64_t stack_key(const struct hang *h, uint32_t row, bool with_line)
{
	const struct doing_found *d = &h->look[row].doing;
	const struct scene_stack *k = &h->s->stacks.v[h->s->ranks.v[row].stack];
	const char *function = intern_get(&k->of->names, d->caller.function);

	if (with_line)
		return hash_mix(hash_bytes(function, strlen(function), 5),
				(uint32_t)d->caller.line);
	return (uint64_t)d->doing << 8 | d->op;
}

static bool paired(enum comm_op op)
{
	return op == COMM_SEND || op == COMM_RECV || op == COMM_SEND_RECV;
}

static size_t stack_sides(const struct hang *h, bool with_line, uint64_t *keys, uint32_t *sides,
			  size_t *count)
{
	size_t n = 0;

	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		uint64_t key;
		size_t at = 0;

		sides[row] = NO_ID;
		if (!h->look[row].waiting_stack || h->look[row].doing.doing != DOING_COLLECTIVE)
			continue;
		key = stack_key(h, row, with_line);
		while (at < n && keys[at] != key)
			at++;
		if (at == n) {
			keys[n] = key;
			count[n++] = 0;
		}
		count[at]++;
		sides[row] = (uint32_t)at;
	}
	return n;
}

/* Nothing of a step: a barrier, a save, an evaluation. */
static bool beside_the_step(const struct hang *h, uint32_t row)
{
	const struct doing_found *d = &h->look[row].doing;

	return d->op == COMM_BARRIER || d->inside == DOING_CHECKPOINT ||
	       d->inside == DOING_EVALUATION;
}

/* Which of the ranks apart from most are odd: those beside the step, if some are. Else several in
   another collective of the step are a group in which it hangs, and say nothing of who. */
static void keep_the_odd(const struct hang *h, struct breach *b)
{
	size_t beside = 0, kept = 0;

	for (size_t i = 0; i < b->culprits.n; i++)
		beside += beside_the_step(h, b->culprits.v[i]);
	for (size_t i = 0; i < b->culprits.n; i++)
		if (beside ? beside_the_step(h, b->culprits.v[i]) : b->culprits.n == 1)
			b->culprits.v[kept++] = b->culprits.v[i];
		else
			*vec_push(&b->victims) = b->culprits.v[i];
	b->culprits.n = kept;
}

static void name_minority(struct hang *h, const uint32_t *sides, const size_t *count, size_t n,
			  double confidence)
{
	size_t most = 0, all = 0;
	struct breach *b;

	for (size_t i = 0; i < n; i++) {
		most = count[i] > count[most] ? i : most;
		all += count[i];
	}
	if (n < 2 || 2 * count[most] <= all)
		return;
	b = breach_new(h, GROUND_STACK);
	b->confidence = confidence;
	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		if (sides[row] != NO_ID)
			*vec_push(sides[row] == most ? &b->victims : &b->culprits) = row;
	keep_the_odd(h, b);
	if (!b->culprits.n)
		breach_drop(h, h->breaches.n - 1);
}

/* In a pipeline each stage stands in a send or recv; who is still in an earlier part of the same
   function than all others has not come as far as they have. */
static void stacks_of_pipeline(struct hang *h)
{
	uint32_t function = NO_ID, lowest = NO_ID, second = NO_ID;
	int32_t highest = 0;
	size_t n = 0;
	const char *name = "";
	struct breach *b;

	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		const struct doing_found *d = &h->look[row].doing;
		const struct scene_stack *k;
		const char *own;

		if (!h->look[row].waiting_stack || d->caller.function == NO_ID)
			continue;
		k = &h->s->stacks.v[h->s->ranks.v[row].stack];
		own = intern_get(&k->of->names, d->caller.function);
		if (function != NO_ID && strcmp(own, name))
			return;
		function = d->caller.function;
		name = own;
		n++;
		highest = MAX(highest, d->caller.line);
		if (lowest == NO_ID || d->caller.line < h->look[lowest].doing.caller.line) {
			second = lowest;
			lowest = row;
		} else if (second == NO_ID || d->caller.line < h->look[second].doing.caller.line) {
			second = row;
		}
	}
	if (n < 3 || second == NO_ID)
		return;
	/* apart from the rest by more than the rest is apart */
	if (h->look[second].doing.caller.line - h->look[lowest].doing.caller.line <=
	    highest - h->look[second].doing.caller.line)
		return;
	b = breach_new(h, GROUND_STACK);
	b->confidence = 0.4;
	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		if (row == lowest)
			*vec_push(&b->culprits) = row;
		else if (h->look[row].waiting_stack)
			*vec_push(&b->victims) = row;
}

/* Another thread of the process may be in the collective for which the main one waits. */
static bool collective_elsewhere(const struct hang *h, uint32_t row)
{
	const struct scene_stack *k = &h->s->stacks.v[h->s->ranks.v[row].stack];
	const struct process_stack *p = &k->of->stacks.v[k->process];

	for (uint32_t i = 0; i < p->n_threads; i++) {
		const struct thread_stack *t = &k->of->threads.v[p->thread + i];
		struct doing_found f = doing_of(
		    &k->of->names, t->n_frames ? &k->of->frames.v[t->frame] : NULL, t->n_frames);

		if (f.doing == DOING_COLLECTIVE || f.doing == DOING_GPU_WAIT)
			return true;
	}
	return false;
}

/* All wait in collectives but for one, whose lock, queue or socket says nothing by itself. */
static bool stacks_locked(struct hang *h, size_t waiting)
{
	uint32_t locked = NO_ID;
	size_t n = 0;

	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		if (h->look[row].has_stack && h->look[row].doing.doing == DOING_LOCK) {
			locked = row;
			n++;
		}
	if (n != 1 || waiting < 2 || waiting + n != h->n_stacks || collective_elsewhere(h, locked))
		return false;
	stacks_busy(h, 0);
	*vec_push(&h->breaches.v[h->breaches.n - 1].culprits) = locked;
	return true;
}

void breach_of_stacks(struct hang *h)
{
	_cleanup_free_ uint64_t *keys = xcalloc(h->s->ranks.n + 1, sizeof(*keys));
	_cleanup_free_ uint32_t *sides = xcalloc(h->s->ranks.n + 1, sizeof(*sides));
	_cleanup_free_ size_t *count = xcalloc(h->s->ranks.n + 1, sizeof(*count));
	size_t waiting = 0, busy = 0, pairs = 0, known = 0, working = 0, n;

	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		waiting += h->look[row].waiting_stack;
		busy += h->look[row].busy_stack;
		working += h->look[row].has_stack && h->look[row].doing.doing == DOING_MODEL;
		known += h->look[row].has_stack && h->s->ranks.v[row].wait_group != NO_ID;
		pairs += h->look[row].waiting_stack && paired(h->look[row].doing.op);
	}
	if (!busy && known)
		return; /* where they wait is known, and stacks name nobody else */
	if (working > waiting)
		return; /* most compute: one moment of a job that runs */
	if (!busy && stacks_locked(h, waiting))
		return;
	if (waiting && busy && busy <= waiting) {
		stacks_busy(h, waiting);
	} else if (waiting && !busy && pairs == waiting) {
		stacks_of_pipeline(h);
	} else if (waiting > 2 && !busy && !pairs) {
		n = stack_sides(h, false, keys, sides, count);
		name_minority(h, sides, count, n, 0.5);
	}
}
