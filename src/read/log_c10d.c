/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_c10d.c - what PyTorch's process groups say of operations: time-outs, counters, dumps,
 * desyncs.
 *
 * The texts are those of torch 1.9 to 2.13 and are told by their words. Three kinds of numbers meet
 * in them and are kept apart: [rankN]: is a rank of the job, "Rank N" in a tag is one of the group
 * that the tag names, and "[Rank N]" in front of "Watchdog" is one of the first group that the
 * process ever used.
 */
#include "read/log_internal.h"

/* A counter beyond it was never set. */
#define SEQ_MAX 1000000000000ll

static int64_t sane_seq(int64_t v)
{
	return v < 0 || v > SEQ_MAX ? -1 : v;
}

/* --- tags --- */

/* Behind "[PG ": "ID 0 PG GUID 0(default_pg) Rank 3]", "0 (default_pg) Rank 3]", "1 Rank 0]" */
static bool tag_of(struct log *g, struct scan q, uint32_t *group, int64_t *local_rank)
{
	const char *close = memchr(q.p, ']', MIN(scan_left(&q), 400)), *rank, *name, *paren;
	uint32_t desc = NO_ID;
	struct scan n;

	if (!close)
		return false;
	q.end = close;
	scan_to(&q, "GUID ");
	rank = NULL;
	for (n = q; scan_to(&n, " Rank ");)
		rank = n.p;
	if (!rank)
		return false;
	n = scan_of(rank, close);
	if (!scan_digits(&n, local_rank))
		return false;
	name = q.p;
	rank -= strlen(" Rank ");
	paren = memchr(name, '(', (size_t)(rank - name));
	if (paren && rank[-1] == ')') {
		desc = testimony_name(g->t, paren + 1, (size_t)(rank - 2 - paren));
		rank = paren;
	}
	while (rank > name && rank[-1] == ' ')
		rank--;
	*group = testimony_group(g->t, testimony_name(g->t, name, (size_t)(rank - name)), desc);
	return true;
}

bool log_c10d_tag(struct log *g, const char *start, const char *at, uint32_t *group,
		  int64_t *local_rank)
{
	struct scan s = scan_of(start, at), last = { 0 };

	while (scan_to(&s, "[PG "))
		last = s;
	return last.p && tag_of(g, scan_of(last.p, at), group, local_rank);
}

/* "[Rank 3]" or, in some, "[Rank 3]:"; the last in front of at. */
static int64_t bracket_rank_before(const char *start, const char *at)
{
	struct scan s = scan_of(start, at);
	int64_t rank = -1, v;

	while (scan_to(&s, "[Rank "))
		if (scan_digits(&s, &v) && scan_at(&s, "]"))
			rank = v;
	return rank;
}

static bool is_default_group(const struct log *g, uint32_t group)
{
	const struct op_group *og = &g->t->groups.v[group];
	const char *desc = intern_get(&g->t->names, og->desc);

	return !strcmp(desc, "default_pg") ||
	       (og->desc == NO_ID && !strcmp(intern_get(&g->t->names, og->name), "0"));
}

void log_c10d_speaker(struct log *g, const char *start, const char *at, struct saying *s)
{
	if (log_c10d_tag(g, start, at, &s->group, &s->local_rank) && is_default_group(g, s->group))
		s->rank = s->local_rank;
}

/* Who speaks: the rank of the job where that is sure, that of the group, the group. */
static struct saying speaker(struct log *g, struct log_line *l, const char *at,
			     enum saying_kind kind)
{
	struct saying s = saying_of(kind);

	if (!l->ranked || at > l->text + 200)
		log_prefix_before(g, l, at);
	s.rank = l->rank;
	if (!log_c10d_tag(g, l->text, at, &s.group, &s.local_rank))
		s.local_rank = bracket_rank_before(l->text, at);
	else if (s.rank < 0 && is_default_group(g, s.group))
		s.rank = s.local_rank;
	return s;
}

/* --- time-outs --- */

static uint32_t timeout_hash(int64_t rank, int64_t local_rank, int64_t seq)
{
	return (uint32_t)hash_mix(hash_mix(hash_mix(3, (uint64_t)rank), (uint64_t)local_rank),
				  (uint64_t)seq);
}

/* The slot of this time-out, or the empty one for it; NULL if there are too many. */
static struct log_timeout *timeout_slot(struct log *g, int64_t rank, int64_t local_rank,
					int64_t seq, uint32_t signature)
{
	uint32_t mask = LOG_TIMEOUTS_MAX - 1, at = timeout_hash(rank, local_rank, seq) & mask;

	if (!g->timeouts)
		g->timeouts = xcalloc(LOG_TIMEOUTS_MAX, sizeof(*g->timeouts));
	for (uint32_t tries = 0; tries < 64; tries++, at = (at + 1) & mask) {
		struct log_timeout *o = &g->timeouts[at];

		if (!o->row)
			return g->n_timeouts < LOG_TIMEOUTS_MAX / 2 ? o : NULL;
		if (o->rank == rank && o->local_rank == local_rank && o->seq == seq &&
		    (signature == NO_ID || o->signature == NO_ID || o->signature == signature))
			return o;
	}
	return NULL;
}

/*
 * A time-out's own line names no group; the status line behind it, of the same rank and number,
 * does. Texts of the same time-out are repeated when the watchdog thread ends.
 */
static enum log_took say_timeout(struct log *g, struct log_line *l, struct saying *s)
{
	struct log_timeout *o;
	struct saying *row;

	o = timeout_slot(g, s->rank, s->rank < 0 ? s->local_rank : -1, s->seq, s->signature);
	if (o && o->row) {
		row = &g->t->sayings.v[o->row - 1];
		row->count++;
		row->last_line = l->number;
		if (o->signature == NO_ID) { /* the first said no more than that it timed out */
			o->signature = row->signature = s->signature;
			row->timeout_ms = s->timeout_ms;
		}
		if (row->ran_ms < 0)
			row->ran_ms = s->ran_ms;
		g->again.saying = o->row - 1;
		g->again.counted = false;
		return row->ran_ms < 0 ? LOG_TOOK : LOG_AGAIN;
	}
	row = log_say(g, l, s);
	if (!row || !o)
		return LOG_TOOK;
	*o = (struct log_timeout){
		.rank = s->rank,
		.local_rank = s->rank < 0 ? s->local_rank : -1,
		.seq = s->seq,
		.signature = s->signature,
		.row = (uint32_t)(row - g->t->sayings.v) + 1,
	};
	g->n_timeouts++;
	return LOG_TOOK;
}

/* False: it may do more when it is called again. */
static bool timeout_in_group(struct log *g, const struct saying *status, int64_t seq)
{
	struct log_timeout *o;
	struct saying *row;

	if (status->group == NO_ID || seq < 0)
		return true;
	if (!g->timeouts)
		return false;
	o = timeout_slot(g, status->rank, status->rank < 0 ? status->local_rank : -1, seq, NO_ID);
	if (!o || !o->row)
		return false;
	row = &g->t->sayings.v[o->row - 1];
	if (row->group != NO_ID)
		return true;
	row->group = status->group;
	row->local_rank = status->local_rank;
	return true;
}

/* "Timeout at NCCL work: 6075, ..", where the line that says of which operation is not there. */
static void say_timeout_of(struct log *g, struct log_line *l, const struct saying *status,
			   int64_t seq)
{
	struct saying t = *status;

	t.kind = SAY_TIMEOUT;
	t.seq = seq;
	t.value = -1;
	say_timeout(g, l, &t);
}

/* A count of elements; -1 for what C++ prints where it does not know. */
static int64_t elements_at(struct scan *s)
{
	uint64_t v = 0;
	bool any = false, over = false;

	for (; s->p < s->end && is_digit(*s->p); s->p++) {
		over = over || v > (UINT64_MAX - 9) / 10;
		v = over ? 0 : 10 * v + (uint64_t)(*s->p - '0');
		any = true;
	}
	return any && !over && v <= INT64_MAX ? (int64_t)v : -1;
}

static int64_t int_after(struct scan s, const char *key)
{
	int64_t v;

	return scan_to(&s, key) && scan_int(&s, &v) ? v : -1;
}

/* "OpType=ALLREDUCE", "SeqNumber=5", ..: what the brackets of a work hold, up to where they close.
 */
struct work {
	int64_t seq, timeout_ms;
	struct signature signature;
	bool closed, op;
};

static void work_field(struct log *g, struct scan *s, struct work *w)
{
	const char *name;

	if (scan_eat(s, "SeqNum=") || scan_eat(s, "SequenceNumber=")) {
		scan_int(s, &w->seq);
	} else if (scan_eat(s, "TensorShape=")) {
		name = s->p;
		while (s->p < s->end && *s->p != ']')
			s->p++;
		s->p += s->p < s->end;
		w->signature.in_sizes = testimony_name(g->t, name, (size_t)(s->p - name));
	} else if (scan_eat(s, "NumelIn=")) {
		w->signature.in_elements = elements_at(s);
	} else if (scan_eat(s, "NumelOut=")) {
		w->signature.out_elements = elements_at(s);
	} else if (scan_eat(s, "Timeout(ms)=")) {
		scan_int(s, &w->timeout_ms);
	} else if (scan_eat(s, "OpType=")) {
		for (name = s->p;
		     s->p < s->end && (is_alpha(*s->p) || *s->p == '_' || is_digit(*s->p)); s->p++)
			;
		if (s->p == name)
			return;
		w->op = true;
		w->signature.name = testimony_name(g->t, name, (size_t)(s->p - name));
		w->signature.op = comm_op_of(name, (size_t)(s->p - name));
		if (w->signature.op == COMM_NONE)
			w->signature.op = COMM_OTHER;
	}
}

/* Behind the opening bracket; s is moved behind the closing one. */
static struct work work_of(struct log *g, struct scan *s)
{
	struct work w = { .seq = -1, .timeout_ms = -1, .signature = signature_unknown() };
	unsigned depth = 0;

	for (;;) {
		scan_blanks(s);
		work_field(g, s, &w);
		for (; s->p < s->end && (*s->p != ',' || depth); s->p++) {
			depth += *s->p == '(' || *s->p == '[';
			if (*s->p == ')' && !depth) {
				w.closed = true;
				s->p++;
				return w;
			}
			depth -= depth && (*s->p == ')' || *s->p == ']');
		}
		if (s->p == s->end)
			return w;
		s->p++;
	}
}

/* WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for .. */
static enum log_took on_work(struct log *g, struct log_line *l, const char *at,
			     const struct log_anchor *a)
{
	struct scan s = scan_of(at + strlen(a->word), l->end);
	struct work w = work_of(g, &s);
	enum log_took took;
	struct saying t;

	scan_blanks(&s);
	if (s.p == s.end && log_hold(g, l))
		return LOG_TOOK;
	if (!w.closed || !w.op)
		return LOG_GO_ON;
	t = speaker(g, l, at, SAY_TIMEOUT);
	g->again.ran.p = NULL;
	if (scan_eat(&s, "ran for ")) {
		g->again.ran = s;
		scan_int(&s, &t.ran_ms);
		g->again.ran.end = s.p;
	} else if (!text_has(s.p, l->end, "timed out") && !text_has(l->text, at, "timeout")) {
		return LOG_GO_ON;
	}
	t.seq = sane_seq(w.seq);
	t.signature = testimony_signature(g->t, &w.signature);
	t.timeout_ms = w.timeout_ms;
	took = say_timeout(g, l, &t);
	return log_joins_lines(s.p, l->end) ? LOG_GO_ON : took;
}

/* --- counters and dumps --- */

/* .. last enqueued NCCL work: 220, last completed NCCL work: 215. */
static enum log_took on_enqueued(struct log *g, struct log_line *l, const char *at,
				 const struct log_anchor *a)
{
	struct scan s = scan_of(at, l->end), from = scan_of(l->text, at);
	enum saying_kind kind = SAY_STATUS;
	struct saying t;
	int64_t seq = -1;
	bool settled = true;

	(void)a;
	if (text_has(l->text, at, "this local rank") || text_has(l->text, at, "timeout signal"))
		kind = SAY_DUMP_LOCAL;
	else if (text_has(l->text, at, "dump signal") || text_has(l->text, at, "another rank"))
		kind = SAY_DUMP_SIGNAL;
	t = speaker(g, l, at, kind);
	if (!scan_to(&s, "work: ") || !scan_int(&s, &t.seq))
		return log_hold(g, l) ? LOG_TOOK : LOG_GO_ON;
	if (scan_to(&s, "completed") && scan_to(&s, "work: "))
		scan_int(&s, &t.value);
	t.seq = sane_seq(t.seq);
	t.value = sane_seq(t.value);
	if (kind == SAY_DUMP_SIGNAL && scan_to(&from, "from ")) {
		scan_blanks(&from);
		if (scan_eat(&from, "rank "))
			scan_int(&from, &t.peer);
	}
	if (kind == SAY_STATUS &&
	    (scan_to(&from, "work sequence id: ") || scan_to(&from, "work: ")))
		scan_int(&from, &seq);
	if (kind == SAY_STATUS)
		settled = timeout_in_group(g, &t, sane_seq(seq));
	if (!settled && sane_seq(seq) >= 0 && text_has(l->text, at, "imeout at NCCL work"))
		say_timeout_of(g, l, &t, seq);
	log_say(g, l, &t);
	return settled ? LOG_SAID : LOG_TOOK;
}

/* Words that others must follow: "failure detected by watchdog at work sequence id: 3 PG status:"
 */
static enum log_took on_beginning(struct log *g, struct log_line *l, const char *at,
				  const struct log_anchor *a)
{
	if (text_has(at, l->end, a->what))
		return LOG_PLAIN;
	return log_hold(g, l) ? LOG_TOOK : LOG_GO_ON;
}

/* Words that say it all: the row's kind. */
static enum log_took on_words(struct log *g, struct log_line *l, const char *at,
			      const struct log_anchor *a)
{
	struct saying t;

	/* The counters behind it say the same and more. */
	if (text_has(at, l->end, "ast enqueued NCCL work:"))
		return LOG_PLAIN;
	t = speaker(g, l, at, a->kind);
	if (a->what)
		t.what = log_name(g, a->what);
	log_say(g, l, &t);
	return LOG_SAID;
}

/* "[3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via .." */
static enum log_took on_setup(struct log *g, struct log_line *l, const char *at,
			      const struct log_anchor *a)
{
	struct saying t = speaker(g, l, at, SAY_COMM_SETUP);
	struct scan s = scan_of(at, l->end);
	const char *p = at;

	(void)a;
	while (p > l->text && p[-1] != '[')
		p--;
	if (p > l->text) {
		struct scan n = scan_of(p, l->end);

		scan_int(&n, &t.local_rank);
	}
	if (scan_to(&s, "from ["))
		scan_int(&s, &t.peer);
	log_say(g, l, &t);
	return LOG_TOOK;
}

/* "NCCL communicator was aborted on rank 3.  Original reason for failure was: .." */
static enum log_took on_aborted(struct log *g, struct log_line *l, const char *at,
				const struct log_anchor *a)
{
	struct saying t = speaker(g, l, at, SAY_ABORTED);
	struct scan s = scan_of(at, l->end);

	(void)a;
	if (scan_to(&s, "on rank "))
		scan_int(&s, &t.local_rank);
	log_say(g, l, &t);
	return LOG_GO_ON; /* the reason may be a time-out's text */
}

/* --- desync report --- */

/* Its lines have no prefix but the first: who reports is who spoke last in it. */
static bool desync_whole(struct log *g, const struct log_line *l)
{
	int64_t rank = l->rank;

	if (rank >= 0 && rank != g->desync.rank) {
		g->desync.rank = rank;
		g->desync.reports++;
	}
	return g->desync.reports <= LOG_DESYNC_REPORTS_MAX;
}

/* The list "[0, 1]" that ends in front of at. */
static size_t ranks_before(const struct log_line *l, const char *at, int64_t *ret, size_t max)
{
	const char *p = at;
	struct scan s;

	while (p > l->start && p[-1] != '[')
		p--;
	s = scan_of(p, at);
	return p > l->start ? scan_ranks(&s, ret, max) : 0;
}

static void say_desync(struct log *g, struct log_line *l, enum saying_kind kind, int64_t peer,
		       int64_t seq, int64_t value, uint32_t signature)
{
	struct saying t = saying_of(kind);

	t.rank = l->rank >= 0 ? l->rank : g->desync.rank;
	t.peer = peer;
	t.seq = seq;
	t.value = value;
	t.signature = signature;
	log_say(g, l, &t);
}

#define DESYNC_RANKS_MAX 1024u

/* "[7] finished collective #182, but didn't join collective #183 (count from 1)" */
static enum log_took on_finished(struct log *g, struct log_line *l, const char *at,
				 const struct log_anchor *a)
{
	static _Thread_local int64_t ranks[DESYNC_RANKS_MAX];
	size_t n = ranks_before(l, at, ranks, DESYNC_RANKS_MAX);
	int64_t seq = int_after(scan_of(at, l->end), "#");

	desync_whole(g, l);
	for (size_t i = 0; i < n; i++)
		say_desync(g, l, a->kind, ranks[i], seq, a->value, NO_ID);
	return n ? LOG_TOOK : LOG_GO_ON;
}

/* "ranks [1, 2] are the lagging ranks that caused this timeout. They never joined any collectives"
 */
static enum log_took on_never(struct log *g, struct log_line *l, const char *at,
			      const struct log_anchor *a)
{
	static _Thread_local int64_t ranks[DESYNC_RANKS_MAX];
	struct scan s = scan_of(l->start, at);
	size_t n = 0;

	(void)a;
	if (scan_to(&s, "["))
		n = scan_ranks(&s, ranks, DESYNC_RANKS_MAX);
	desync_whole(g, l);
	for (size_t i = 0; i < n; i++)
		say_desync(g, l, SAY_DESYNC_LAGGING, ranks[i], 0, -1, NO_ID);
	return n ? LOG_TOOK : LOG_GO_ON;
}

static uint32_t op_signature(struct log *g, struct scan s)
{
	struct signature sig = signature_unknown();
	const char *name;

	scan_blanks(&s);
	for (name = s.p; s.p < s.end && (is_alpha(*s.p) || *s.p == '_'); s.p++)
		;
	sig.op = comm_op_of(name, (size_t)(s.p - name));
	if (sig.op == COMM_NONE)
		return NO_ID;
	sig.name = testimony_name(g->t, name, (size_t)(s.p - name));
	return testimony_signature(g->t, &sig);
}

/* " - [0] Timeout at collective: ALLREDUCE, #315", in its first line the reporter. */
static enum log_took on_timeout_at(struct log *g, struct log_line *l, const char *at,
				   const struct log_anchor *a)
{
	struct scan s = scan_of(at, l->end);
	int64_t rank = -1, seq = int_after(s, "#");
	uint32_t sig = NO_ID;

	(void)a;
	if (!ranks_before(l, at, &rank, 1) || seq < 0)
		return LOG_GO_ON;
	if (!g->saw_ranked && rank != g->desync.rank) {
		g->desync.rank = rank;
		g->desync.reports++;
	}
	if (!desync_whole(g, l))
		return LOG_TOOK;
	if (scan_to(&s, "collective:"))
		sig = op_signature(g, s);
	say_desync(g, l, SAY_DESYNC_STATE, rank, seq, 1, sig);
	return LOG_TOOK;
}

/* "  #315 started ranks:" and below it "    [0, 1, 2] started ALLREDUCE" */
static enum log_took on_state(struct log *g, struct log_line *l, const char *at,
			      const struct log_anchor *a)
{
	static _Thread_local int64_t ranks[DESYNC_RANKS_MAX];
	struct scan s = scan_of(at + strlen(a->word), l->end);
	struct scan head = scan_of(l->text, at);
	size_t n;
	uint32_t sig;

	scan_blanks(&head);
	if (scan_eat(&head, "#")) {
		if (scan_digits(&head, &g->desync.seq))
			g->desync.finished = a->value == 0;
		else
			g->desync.seq = -1;
		return LOG_TOOK;
	}
	if (g->desync.reports == 0 || !scan_at(&head, "[") || !desync_whole(g, l))
		return LOG_GO_ON;
	n = ranks_before(l, at, ranks, DESYNC_RANKS_MAX);
	sig = op_signature(g, s);
	if (sig == NO_ID)
		return LOG_GO_ON;
	for (size_t i = 0; i < n; i++)
		say_desync(g, l, SAY_DESYNC_STATE, ranks[i], g->desync.seq, a->value, sig);
	return LOG_TOOK;
}

/* The line that a desync report hangs on: "[rank0]:[E514 .. ProcessGroupNCCL.cpp:1937] Rank 0". */
static enum log_took on_source(struct log *g, struct log_line *l, const char *at,
			       const struct log_anchor *a)
{
	struct scan s = scan_of(l->text, l->end);

	(void)a;
	(void)at;
	if (!scan_eat(&s, "Rank ") || l->rank < 0)
		return LOG_PLAIN;
	desync_whole(g, l);
	return LOG_GO_ON;
}

/* --- barriers and mismatches --- */

/* "[Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 60000 ms" */
static enum log_took on_barrier(struct log *g, struct log_line *l, const char *at,
				const struct log_anchor *a)
{
	int64_t ranks[256];
	struct scan s = scan_of(l->text, at), last = { 0 };
	size_t n;

	(void)a;
	while (scan_to(&s, "Rank"))
		if (scan_at(&s, " ") || scan_at(&s, "s "))
			last = s;
	if (!last.p)
		return LOG_GO_ON;
	scan_eat(&last, "s");
	n = scan_ranks(&last, ranks, ARRAY_SIZE(ranks));
	for (size_t i = 0; i < n; i++) {
		struct saying t = speaker(g, l, last.p, SAY_NOT_JOINED);

		t.peer = ranks[i];
		t.timeout_ms = int_after(scan_of(at, l->end), " in ");
		log_say(g, l, &t);
	}
	return n ? LOG_TOOK : LOG_GO_ON;
}

/*
 * "Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=5, OpType=ALLREDUCE, ..),
 * but Rank 1 is running collective: .."
 */
static enum log_took on_mismatch(struct log *g, struct log_line *l, const char *at,
				 const struct log_anchor *a)
{
	struct scan s = scan_of(at, l->end);
	struct saying t = speaker(g, l, at, SAY_FATAL);
	int64_t reporter = t.rank;

	(void)a;
	t.what = log_name(g, "collective mismatch");
	while (scan_to(&s, "ank ")) {
		struct saying state = saying_of(SAY_DESYNC_STATE);
		struct work w;

		if (!scan_digits(&s, &state.peer) || !scan_eat(&s, " is running collective: ") ||
		    !scan_to(&s, "("))
			continue;
		w = work_of(g, &s);
		state.rank = reporter;
		state.seq = sane_seq(w.seq);
		state.value = 1;
		if (w.op)
			state.signature = testimony_signature(g->t, &w.signature);
		log_say(g, l, &state);
	}
	log_say(g, l, &t);
	return LOG_TOOK;
}

const struct log_anchor log_c10d_anchors[] = {
	{ "worknccl(", on_work, 0, NULL, 0 },
	{ "workhccl(", on_work, 0, NULL, 0 },
	{ "workxccl(", on_work, 0, NULL, 0 },
	{ "workrccl(", on_work, 0, NULL, 0 },
	{ "workmccl(", on_work, 0, NULL, 0 },
	{ "workeccl(", on_work, 0, NULL, 0 },
	{ "watchdog caught collective operation timeout:", on_beginning, 0, "Work", 0 },
	{ "detected by watchdog at work", on_beginning, 0, "last enqueued", 0 },
	{ "timeout at nccl work:", on_beginning, 0, "last enqueued", 0 },
	{ "last enqueued", on_enqueued, 0, NULL, 0 },
	{ "observed flight recorder dump signal", on_words, SAY_DUMP_SIGNAL, NULL, 0 },
	{ "detected a collective timeout from another rank", on_words, SAY_DUMP_SIGNAL, NULL, 0 },
	{ "received a global timeout from another rank", on_words, SAY_DUMP_SIGNAL, NULL, 0 },
	{ "due to a collective timeout from this local rank", on_words, SAY_DUMP_LOCAL, NULL, 0 },
	{ "first pg on this rank to signal dumping", on_words, SAY_DUMP_LOCAL, NULL, 0 },
	{ "heartbeat monitor timed out", on_words, SAY_HEARTBEAT, NULL, 0 },
	{ "watchdog got stuck for", on_words, SAY_HEARTBEAT, NULL, 0 },
	{ "due to processgroupnccl watchdog hang", on_words, SAY_HEARTBEAT, NULL, 0 },
	{ "did not get subsequent heartbeat", on_words, SAY_HEARTBEAT, NULL, 0 },
	{ "could not acquire gil", on_words, SAY_HEARTBEAT, "GIL", 0 },
	{ "is setting up nccl communicator", on_setup, 0, NULL, 0 },
	{ "nccl communicator was aborted", on_aborted, 0, NULL, 0 },
	{ "failed to check the \"should dump\" flag", on_words, SAY_STORE_LOST, NULL, 0 },
	{ "recvvalue failed", on_words, SAY_STORE_LOST, NULL, 0 },
	{ "recvvector failed", on_words, SAY_STORE_LOST, NULL, 0 },
	{ "sendbytes failed", on_words, SAY_STORE_LOST, NULL, 0 },
	{ "failed to recv, got 0 bytes", on_words, SAY_STORE_LOST, NULL, 0 },
	{ "finished collective #", on_finished, SAY_DESYNC_LAGGING, NULL, -1 },
	{ "joined but didn't finish collective", on_finished, SAY_DESYNC_STATE, NULL, 1 },
	{ "they never joined any collectives", on_never, 0, NULL, 0 },
	{ "timeout at collective:", on_timeout_at, 0, NULL, 0 },
	{ "started ranks:", on_state, 0, NULL, 1 },
	{ "finished ranks:", on_state, 0, NULL, 0 },
	{ "started ", on_state, 0, NULL, 1 },
	{ "finished ", on_state, 0, NULL, 0 },
	{ "processgroupnccl.cpp", on_source, 0, NULL, 0 },
	{ "failed to pass monitoredbarrier", on_barrier, 0, NULL, 0 },
	{ "detected mismatch between collectives", on_mismatch, 0, NULL, 0 },
	{ NULL, NULL, 0, NULL, 0 },
};

/*
 * Up to torch 2.1 the only rank in a line is "[Rank N]". It is taken for the job's if no line
 * has [rankN]: and no group is named: the first group that a process used was then the default.
 */
void log_c10d_done(struct log *g)
{
	if (g->saw_ranked)
		return;
	for (size_t i = 0; i < g->t->sayings.n; i++) {
		struct saying *s = &g->t->sayings.v[i];

		if (s->rank < 0 && s->local_rank >= 0 && s->group == NO_ID &&
		    (s->kind == SAY_TIMEOUT || s->kind == SAY_ABORTED || s->kind == SAY_FATAL ||
		     s->kind == SAY_NOT_JOINED || s->kind == SAY_COMM_SETUP))
			s->rank = s->local_rank;
	}
}
