/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_inner.c - stacks and tables of GPUs that stand inside a log.
 *
 * What crashed, what a signal asked, or what somebody ran beside the job is printed between the
 * job's own lines: faulthandler's stacks, a py-spy dump, nvidia-smi's table. Their first line is
 * found by its words as everything is; the lines below it go to their own readers until one is not
 * theirs.
 *
 * Invariant: they are of the moment at which they stand. If the job goes on behind them, they tell
 * nothing about its end and are dropped; so is a table above everything else, which shows the GPUs
 * before the job ran. A stack that nothing ties to a process is dropped as well: in a log that
 * several ranks wrote at a time its lines may be of several.
 */
#include <stdio.h>

#include "read/gpu_metric.h"
#include "read/log_internal.h"
#include "read/power.h"
#include "read/power_table.h"
#include "read/stack_lines.h"

#define INNER_IDLE_LINES 256u /* of other speakers, before a stack or table counts as complete */

struct log_inner {
	struct stack_lines *stacks; /* NULL: none yet */
	struct power_table *tables;
	bool table_open, query; /* query: of nvidia-smi -q, whose lines are known by their indent */
	bool any;		/* something was taken since the job went on last */
	unsigned idle;		/* lines since the last that was taken */
};

static struct log_inner *inner_of(struct log *g)
{
	if (!g->inner)
		g->inner = xcalloc(1, sizeof(*g->inner));
	return g->inner;
}

/* Tasks of srun --label stand for hosts, as in files of stacks and tables. */
static uint32_t host_of(struct log *g, const struct log_line *l)
{
	if (l->host.p)
		return testimony_name(g->t, l->host.p, scan_left(&l->host));
	return l->task.p ? power_label_host(g->t, l->task.p, scan_left(&l->task)) : NO_ID;
}

static struct stack_speaker speaker_of(struct log *g, const struct log_line *l)
{
	struct stack_speaker from = stack_speaker_unknown();
	char text[32];
	int n;

	from.rank = l->rank;
	from.local_rank = l->local_rank;
	from.host = host_of(g, l);
	if (l->pid >= 0) {
		n = snprintf(text, sizeof(text), "pid %" PRId64, l->pid);
		from.prefix = testimony_name(g->t, text, (size_t)n);
	}
	return from;
}

/* --- lines --- */

static bool take_stack(struct log *g, const struct log_line *l)
{
	struct stack_speaker from = speaker_of(g, l);
	struct scan s = scan_of(l->text, l->end);

	/* an exception's, which is another part's */
	if (scan_at(&s, "Traceback (most recent call last)")) {
		stack_lines_end(g->inner->stacks);
		return false;
	}
	if (!stack_lines_take(g->inner->stacks, &from, l->text, scan_left(&s)))
		return false;
	return g->inner->any = true;
}

static bool blank(const struct log_line *l)
{
	struct scan s = scan_of(l->text, l->end);

	scan_blanks(&s);
	return s.p == s.end;
}

/* "GPU 00000000:3B:00.0", "Timestamp : ..", or indented below them. */
static bool of_query(const struct log_line *l)
{
	static const char *const words[] = {
		"=", "<", "GPU 0", "Timestamp", "Driver Version", "CUDA Version", "Attached GPUs"
	};
	struct scan s = scan_of(l->text, l->end);

	if (s.p < s.end && (*s.p == ' ' || *s.p == '\t'))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (scan_at(&s, words[i]))
			return true;
	return false;
}

static bool take_table(struct log *g, const struct log_line *l)
{
	struct log_inner *in = g->inner;

	return (!in->query || of_query(l)) &&
	       power_table_line(in->tables, l->text, (size_t)(l->end - l->text), host_of(g, l),
				l->time_ns);
}

bool log_inner_open(const struct log *g)
{
	return g->inner &&
	       (g->inner->table_open || (g->inner->stacks && stack_lines_open(g->inner->stacks)));
}

static void table_end(struct log_inner *in)
{
	in->tables = power_table_free(in->tables);
	in->table_open = in->query = false;
}

static void end_all(struct log *g)
{
	if (g->inner->stacks)
		stack_lines_end(g->inner->stacks);
	table_end(g->inner);
	g->inner->idle = 0;
}

bool log_inner_continues(struct log *g, const struct log_line *l)
{
	struct log_inner *in = g->inner;

	if (in->table_open ? take_table(g, l) : take_stack(g, l)) {
		in->idle = 0;
		return true;
	}
	if (blank(l))
		return false;
	/* A table has no gaps, unless others print at the same time. */
	if (in->query || ++in->idle > INNER_IDLE_LINES)
		end_all(g);
	return false;
}

static enum log_took on_stack(struct log *g, struct log_line *l, const char *at,
			      const struct log_anchor *a)
{
	(void)a;
	if (at != l->text || !stack_word_begins(l->text, (size_t)(l->end - l->text)))
		return LOG_PLAIN;
	if (inner_of(g)->table_open)
		table_end(g->inner);
	if (!g->inner->stacks)
		g->inner->stacks = stack_lines_new(g->t, false);
	return take_stack(g, l) ? LOG_TOOK : LOG_GO_ON;
}

static enum log_took on_table(struct log *g, struct log_line *l, const char *at,
			      const struct log_anchor *a)
{
	if (at < l->text || memchr(a->what, *l->text, strlen(a->what)) == NULL)
		return LOG_PLAIN;
	if (!g->stats->events)
		return LOG_GO_ON;
	if (log_inner_open(g))
		end_all(g);
	if (!inner_of(g)->tables)
		g->inner->tables = power_table_new(g->t);
	g->inner->table_open = take_table(g, l);
	g->inner->query = a->value;
	g->inner->any = true;
	if (!g->inner->table_open)
		table_end(g->inner);
	return LOG_GO_ON;
}

/* what: with what the line begins; value: its lines go on by their indent */
const struct log_anchor log_inner_anchors[] = {
	{ "process ", on_stack, 0, NULL, 0 },
	{ "thread ", on_stack, 0, NULL, 0 },
	{ "current thread ", on_stack, 0, NULL, 0 },
	{ "stack (most recent call first)", on_stack, 0, NULL, 0 },
	{ "traceback for thread ", on_stack, 0, NULL, 0 },
	{ "nvidia-smi ", on_table, 0, "|", 0 },
	{ "nvsmi log", on_table, 0, "=", 1 },
	{ "rocm system management interface", on_table, 0, "=", 0 },
	{ "gpu[", on_table, 0, "G", 0 },
	{ NULL, NULL, 0, NULL, 0 },
};

/* --- what came of it --- */

void log_inner_outdated(struct log *g)
{
	if (!g->inner->any)
		return;
	end_all(g);
	testimony_forget_things(g->t);
	g->inner->any = false;
}

static bool tied(const struct testimony *t, const struct process_stack *p)
{
	return t->rank >= 0 || p->rank >= 0 || p->ranks != NO_ID || p->pid >= 0 || p->host != NO_ID;
}

void log_inner_done(struct log *g)
{
	struct testimony *t = g->t;
	size_t kept = 0;

	if (!g->inner)
		return;
	end_all(g);
	stack_lines_free(g->inner->stacks);
	free(g->inner);
	g->inner = NULL;
	for (size_t i = 0; i < t->stacks.n; i++)
		if (tied(t, &t->stacks.v[i]))
			t->stacks.v[kept++] = t->stacks.v[i];
	t->dropped += t->stacks.n - kept;
	t->stacks.n = kept;
	kept = 0;
	for (size_t i = 0; i < t->gpus.n; i++)
		if (t->gpus.v[i].n_samples)
			t->gpus.v[kept++] = t->gpus.v[i];
	t->gpus.n = kept;
	gpu_series_settle(t);
	g->stats->events += t->stacks.n + t->gpus.n;
}
