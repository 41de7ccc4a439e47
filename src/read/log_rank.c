/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_rank.c - whose a whole file is: by its name, its folder, or what its process says of itself.
 *
 * A name is believed unless lines in the file are of other ranks; a number that counts within a
 * node is told by the rank under which the process introduces itself.
 */
#include "model/attempt.h"
#include "read/log_internal.h"
#include "read/stack.h"
#include "read/survey.h"

/* Sayings of which the file's own rank is the speaker, if the line names none. */
static bool said_by_rank(enum saying_kind k)
{
	static const bool others[SAY_KINDS] = {
		[SAY_EXIT] = true,	[SAY_FIRST_FAILURE] = true, [SAY_STOPPED] = true,
		[SAY_CANCELLED] = true, [SAY_NODE_FAILED] = true,   [SAY_RESTART] = true,
		[SAY_FOLDED] = true,	[SAY_EVENT] = true,
	};

	return !others[k];
}

/* The only rank that introduces itself in the file; -1: none or several. */
static int64_t rank_of_hello(const struct testimony *t)
{
	int64_t rank = -1;

	for (size_t i = 0; i < t->sayings.n; i++) {
		if (t->sayings.v[i].kind != SAY_HELLO || t->sayings.v[i].rank < 0)
			continue;
		if (rank >= 0 && t->sayings.v[i].rank != rank)
			return -1;
		rank = t->sayings.v[i].rank;
	}
	return rank;
}

/* A file is of the rank in its name, if no line in it is of another: worker1.log may be a host's.
 */
void log_rank_of_file(struct log *g, const char *path)
{
	struct testimony *t = g->t;
	const char *slash = strrchr(path, '/');
	int64_t rank = survey_rank_of_name(path), own = rank_of_hello(t);
	bool sure = rank >= 0 && strcasestr(slash ? slash : path, "rank");
	struct stack_name name = stack_name_of(path);
	struct attempt attempt;

	if (rank < 0 && attempt_of_path(path, &attempt))
		rank = attempt.local_rank;
	if (rank >= 0 && own >= 0 && own != rank) {
		rank = own; /* the name counts within its node */
		sure = false;
	}
	for (size_t i = 0; i < ARRAY_SIZE(g->labels) && !sure; i++)
		if (g->labels[i] >= 0 && g->labels[i] != rank)
			rank = -1;
	for (size_t i = 0; i < t->sayings.n && rank >= 0 && !sure; i++)
		if (said_by_rank(t->sayings.v[i].kind) && t->sayings.v[i].rank >= 0 &&
		    t->sayings.v[i].rank != rank)
			rank = -1;
	for (size_t i = 0; i < t->progress.n && rank >= 0 && !sure; i++)
		if (t->progress.v[i].rank >= 0 && t->progress.v[i].rank != rank)
			rank = -1;
	t->rank = rank;
	t->worker = rank >= 0 && !sure && own < 0 && survey_rank_of_name(path) == rank;
	if (rank < 0)
		return;
	if (name.host && own < 0)
		t->host = testimony_name(t, name.host, name.host_len);
	for (size_t i = 0; i < t->sayings.n; i++)
		if (said_by_rank(t->sayings.v[i].kind) && t->sayings.v[i].rank < 0)
			t->sayings.v[i].rank = rank;
	for (size_t i = 0; i < t->progress.n; i++)
		if (t->progress.v[i].rank < 0)
			t->progress.v[i].rank = rank;
	for (size_t i = 0; i < t->status.n; i++)
		t->status.v[i].rank = t->status.v[i].rank < 0 ? rank : t->status.v[i].rank;
}
