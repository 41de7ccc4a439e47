/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_rank.c - whose a whole file is: by its name, its folder, or what its process says of itself.
 *
 * A name is believed unless lines in the file are of other ranks; a number that counts within a
 * node is told by the rank under which the process introduces itself.
 */
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

/* torchrun's logs lie in RUN/attempt_0/3/stderr.log. */
static int64_t rank_of_folder(const char *path)
{
	const char *at = path, *next;
	int64_t rank = -1, attempt;
	struct scan s;

	for (; (next = strstr(at, "attempt_")); at = next + 8) {
		s = scan_of(next + 8, next + strlen(next));
		if (!scan_digits(&s, &attempt) || !scan_eat(&s, "/") || !scan_digits(&s, &rank) ||
		    !scan_at(&s, "/"))
			rank = -1;
	}
	return rank;
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
void log_rank_of_file(struct testimony *t, const char *path)
{
	const char *slash = strrchr(path, '/');
	int64_t rank = survey_rank_of_name(path), own = rank_of_hello(t);
	bool sure = rank >= 0 && strcasestr(slash ? slash : path, "rank");
	struct stack_name name = stack_name_of(path);

	if (rank < 0)
		rank = rank_of_folder(path);
	if (rank >= 0 && own >= 0 && own != rank) {
		rank = own; /* the name counts within its node */
		sure = false;
	}
	for (size_t i = 0; i < t->sayings.n && rank >= 0 && !sure; i++)
		if (said_by_rank(t->sayings.v[i].kind) && t->sayings.v[i].rank >= 0 &&
		    t->sayings.v[i].rank != rank)
			rank = -1;
	for (size_t i = 0; i < t->progress.n && rank >= 0 && !sure; i++)
		if (t->progress.v[i].rank >= 0 && t->progress.v[i].rank != rank)
			rank = -1;
	t->rank = rank;
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
