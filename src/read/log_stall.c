/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_stall.c - what frameworks beside PyTorch say of ranks that do not come: Horovod's inspector
 * of stalls, the coordination service of JAX.
 *
 * Horovod lists operations, and with each who has called it or who has not, over many lines and
 * again every minute. Who has called none of them is missing; if everybody has called one, the
 * few who are not where most are. The number of a JAX task is that of its process in the job.
 */
#include "read/log_internal.h"

#define STALL_RANKS_MAX 4096u
#define STALL_WORDS	(STALL_RANKS_MAX / 64)
#define STALL_LIST_MAX	1024u

struct rank_bits {
	uint64_t word[STALL_WORDS];
};

/* One stall: the lists since steps were made last. */
struct log_missing {
	struct rank_bits missing; /* in each list so far */
	struct rank_bits fewest;  /* in the shortest of them */
	struct saying say;	  /* who, where and when */
	size_t n_fewest;
	int64_t world; /* as many as the lists name */
	bool any, tie; /* tie: another list is as short as the shortest */
	bool table;    /* "6: [op, op]" follows line by line */
};

static size_t bits_count(const struct rank_bits *b)
{
	size_t n = 0;

	for (size_t i = 0; i < STALL_WORDS; i++)
		for (uint64_t v = b->word[i]; v; v &= v - 1)
			n++;
	return n;
}

static void bit_set(struct rank_bits *b, int64_t rank)
{
	if (rank >= 0 && rank < (int64_t)STALL_RANKS_MAX)
		b->word[rank / 64] |= (uint64_t)1 << rank % 64;
}

static bool bit_get(const struct rank_bits *b, int64_t rank)
{
	return b->word[rank / 64] >> rank % 64 & 1;
}

static void say_missing(struct log *g, struct log_missing *t, int64_t rank)
{
	struct saying s = t->say;

	s.kind = SAY_NOT_JOINED;
	s.peer = rank;
	g->stats->events++;
	testimony_say(g->t, &s);
}

void log_stall_done(struct log *g)
{
	struct log_missing *t = g->stall;
	const struct rank_bits *who;

	if (t && t->any) {
		who = bits_count(&t->missing) ? &t->missing : &t->fewest;
		if (who == &t->fewest && (t->tie || 2 * (int64_t)t->n_fewest >= t->world))
			say_missing(g, t, -1); /* it stands still, and nobody is odd */
		else
			for (int64_t rank = 0; rank < (int64_t)STALL_RANKS_MAX; rank++)
				if (bit_get(who, rank))
					say_missing(g, t, rank);
	}
	free(t);
	g->stall = NULL;
}

/* The stall that the line is of: a new one if steps were made since the last, which is over. */
static struct log_missing *stall_of(struct log *g, const struct log_line *l, const char *text)
{
	if (!g->stall)
		g->stall = xcalloc(1, sizeof(*g->stall));
	if (g->stall->any && g->stall->say.steps_at != g->t->steps)
		*g->stall = (struct log_missing){ 0 };
	if (!g->stall->any) {
		g->stall->say = saying_of(SAY_NOT_JOINED);
		log_fill(g, l, &g->stall->say);
		g->stall->say.text = log_text(g, text, l->end);
	}
	g->stall->say.last_line = l->number;
	return g->stall;
}

static void stall_list(struct log_missing *t, const struct rank_bits *missing)
{
	size_t n = bits_count(missing);

	for (size_t i = 0; i < STALL_WORDS; i++)
		t->missing.word[i] = missing->word[i] & (t->any ? t->missing.word[i] : UINT64_MAX);
	if (!t->any || n < t->n_fewest) {
		t->fewest = *missing;
		t->n_fewest = n;
		t->tie = false;
	} else if (n == t->n_fewest) {
		t->tie |= memcmp(&t->fewest, missing, sizeof(*missing)) != 0;
	}
	t->any = true;
}

/* The lists of a line: "op [missing ranks: 0, 3]", "op [ready ranks: 1, 2], op [ready ..". */
static enum log_took on_list(struct log *g, struct log_line *l, const char *at,
			     const struct log_anchor *a)
{
	static _Thread_local int64_t ranks[STALL_LIST_MAX];
	struct scan s = scan_of(at, l->end), head = scan_of(l->text, at);
	const char *text = scan_to(&head, "Stalled ops:") ? head.p : l->text;
	bool is_missing = text_has(l->start, at, "[missing ");
	struct log_missing *t;

	(void)a;
	if (!is_missing && !text_has(l->start, at, "[ready "))
		return LOG_GO_ON;
	t = stall_of(g, l, text);
	while (scan_to(&s, "ranks: ")) {
		struct rank_bits named = { 0 }, rest = { 0 };
		size_t n = scan_ranks(&s, ranks, STALL_LIST_MAX);

		for (size_t i = 0; i < n; i++) {
			bit_set(&named, ranks[i]);
			t->world = MAX(t->world, MIN(ranks[i] + 1, (int64_t)STALL_RANKS_MAX));
		}
		t->world = MAX(t->world, MIN(g->t->world_size, (int64_t)STALL_RANKS_MAX));
		for (int64_t rank = 0; rank < t->world; rank++)
			if (!bit_get(&named, rank))
				bit_set(&rest, rank);
		if (n)
			stall_list(t, is_missing ? &named : &rest);
	}
	return LOG_TOOK;
}

/* "Stalled ranks:", and below it "6: [op, op ..]": who has not called what others have. */
static enum log_took on_table(struct log *g, struct log_line *l, const char *at,
			      const struct log_anchor *a)
{
	struct scan s = scan_of(at + strlen(a->word), l->end);

	scan_blanks(&s);
	if (s.p < s.end || (at > l->start && at[-1] == '['))
		return LOG_GO_ON;
	stall_of(g, l, l->text)->table = true;
	return LOG_TOOK;
}

bool log_stall_waits(const struct log *g)
{
	return g->stall && g->stall->table;
}

bool log_stall_continues(struct log *g, const struct log_line *l)
{
	/* the number may have been taken for a task */
	struct scan s = scan_of(l->task.p ? l->task.p : l->text, l->end);
	struct log_missing *t = g->stall;
	struct rank_bits row = { 0 };
	int64_t rank;

	scan_blanks(&s);
	if (s.p == s.end)
		return true;
	if (!scan_digits(&s, &rank) || !scan_eat(&s, ": [")) {
		t->table = false;
		return false;
	}
	if (!t->any)
		t->say.text = log_text(g, l->task.p ? l->task.p : l->text, l->end);
	bit_set(&row, rank);
	for (size_t i = 0; i < STALL_WORDS; i++)
		t->missing.word[i] |= row.word[i];
	t->any = true;
	return true;
}

/* --- JAX --- */

/* "/job:jax_worker/replica:0/task:3": the last in front of end. */
static int64_t task_before(const char *p, const char *end)
{
	struct scan s = scan_of(p, end);
	int64_t task = -1;

	while (scan_to(&s, "/task:"))
		scan_digits(&s, &task);
	return task;
}

/* "Task /job:jax_worker/replica:0/task:3 heartbeat timeout" */
static enum log_took on_heartbeat(struct log *g, struct log_line *l, const char *at,
				  const struct log_anchor *a)
{
	struct saying t = saying_of(SAY_EXIT);

	(void)a;
	t.rank = task_before(l->text, at);
	t.value = EXIT_UNSEEN;
	if (t.rank < 0)
		return LOG_GO_ON;
	log_say(g, l, &t);
	return LOG_SAID;
}

/* "The following tasks are unhealthy (stopped sending heartbeats):", "Some timed out task names:"
   and behind it, or in the next line, the tasks */
static enum log_took on_tasks(struct log *g, struct log_line *l, const char *at,
			      const struct log_anchor *a)
{
	struct scan s = scan_of(at, l->end);
	int64_t task;
	size_t n = 0;

	while (scan_to(&s, "/task:") && scan_digits(&s, &task)) {
		struct saying t = saying_of(a->kind);

		if (a->kind == SAY_EXIT)
			t.rank = task;
		else
			t.peer = task;
		t.value = EXIT_UNSEEN;
		log_say(g, l, &t);
		n++;
	}
	return n || log_hold(g, l) ? LOG_TOOK : LOG_GO_ON;
}

/* "Terminating process because the JAX distributed service detected fatal errors. .." */
static enum log_took on_terminating(struct log *g, struct log_line *l, const char *at,
				    const struct log_anchor *a)
{
	bool leader = text_has(at, l->end, "leader task was preempted");
	struct saying t = saying_of(leader ? SAY_STORE_LOST : SAY_PEER_LOST);

	(void)a;
	if (text_has(at, l->end, "heartbeat timeout"))
		return LOG_GO_ON;
	log_say(g, l, &t);
	return LOG_SAID;
}

const struct log_anchor log_stall_anchors[] = {
	{ "missing ranks:", on_table, 0, NULL, 0 },
	{ "stalled ranks:", on_table, 0, NULL, 0 },
	/* an m behind a bracket begins no word: it may end a colour */
	{ "ranks: ", on_list, 0, NULL, 0 },
	{ "heartbeat timeout", on_heartbeat, 0, NULL, 0 },
	{ "stopped sending heartbeats", on_tasks, SAY_EXIT, NULL, 0 },
	{ "some timed out task names:", on_tasks, SAY_NOT_JOINED, NULL, 0 },
	{ "terminating process because the jax distributed service", on_terminating, 0, NULL, 0 },
	{ "terminating process because the coordinator", on_terminating, 0, NULL, 0 },
	{ NULL, NULL, 0, NULL, 0 },
};
