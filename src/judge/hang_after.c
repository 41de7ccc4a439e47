/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_after.c - what became of the other ranks once the first had failed: who raised the same,
 * whom the launcher ended and how much later, who lost a peer. A reader of the log sees these lines
 * too, and the last of them first; the evidence says that they are echoes, and why.
 */
#include "judge/hang_internal.h"

#include <signal.h>
#include <stdio.h>

/* The moment at which the launcher saw it end, else of its own line; -1: not stamped. */
static int64_t end_of(const struct hang *h, uint32_t row)
{
	const struct rank_look *l = &h->look[row];

	if (l->end && l->end->s.time_ns > 0)
		return l->end->s.time_ns;
	return l->failed && l->failed->time_ns > 0 ? l->failed->time_ns : -1;
}

/* "13:02:58", as the log has it */
static const char *clock_words(struct hang *h, int64_t ns)
{
	int64_t s = ns / 1000000000 % 86400;

	return report_printf(h->r, "%02d:%02d:%02d", (int)(s / 3600), (int)(s / 60 % 60),
			     (int)(s % 60));
}

/* ", 31 s later"; "" where one of the two is not stamped, or they are of one second */
static const char *later_words(struct hang *h, int64_t first, int64_t then)
{
	int64_t s = first > 0 && then > first ? (then - first) / 1000000000 : 0;

	if (s < 1)
		return "";
	return s < 120 ? report_printf(h->r, ", %" PRId64 " s later", s)
		       : report_printf(h->r, ", %" PRId64 " min later", s / 60);
}

/* Who raised the same, and what then tells the first from them. */
static void prove_alike(struct hang *h, struct finding *f, uint32_t first)
{
	struct row_list rows = { 0 };
	int64_t began = end_of(h, first), last = began;
	const char *when = "";

	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		const struct failure *own = h->look[row].failed;

		if (row == first || !own || !same_failure(own, h->look[first].failed))
			continue;
		*vec_push(&rows) = row;
		last = end_of(h, row) < 0 || last < 0 ? -1 : MAX(last, end_of(h, row));
	}
	if (began > 0 && last > 0) {
		when = later_words(h, began, last);
		if (!*when)
			when =
			    report_printf(h->r, " in the same second (%s)", clock_words(h, began));
	}
	if (rows.n)
		prove(h, f, "log",
		      report_printf(h->r, "%s failed by the same words%s%s",
				    hang_who(h, rows.v, rows.n), when,
				    h->look[first].failed->first
					? report_printf(h->r, "; the launcher names %s the first",
							hang_who(h, &first, 1))
					: ""));
	free(rows.v);
}

/* " (SIGTERM, SIGKILL)", each once */
static const char *signals_of(struct hang *h, const struct row_list *rows)
{
	static const struct {
		int number;
		const char *name;
	} asked[] = { { SIGTERM, "SIGTERM" },
		      { SIGINT, "SIGINT" },
		      { SIGHUP, "SIGHUP" },
		      { SIGKILL, "SIGKILL" },
		      { SIGABRT, "SIGABRT" } };
	const char *names = "";

	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		bool seen = false;

		for (size_t k = 0; k < rows->n && !seen; k++) {
			const struct scene_saying *end = h->look[rows->v[k]].end;

			seen = end && (end->s.value == -asked[i].number ||
				       end->s.value == 128 + asked[i].number);
		}
		if (seen)
			names =
			    report_printf(h->r, "%s%s%s", names, *names ? ", " : "", asked[i].name);
	}
	return *names ? report_printf(h->r, " (%s)", names) : "";
}

/* Whom the launcher ended: a SIGKILL of its own looks like the kernel's for want of memory. */
static void prove_ended(struct hang *h, struct finding *f, uint32_t first)
{
	struct row_list rows = { 0 };
	int64_t last = -1;

	for (uint32_t row = 0; row < h->s->ranks.n; row++) {
		if (!h->look[row].echo || !h->look[row].stopped)
			continue;
		*vec_push(&rows) = row;
		last = MAX(last, end_of(h, row));
	}
	if (rows.n)
		prove(h, f, "log",
		      report_printf(h->r,
				    "the launcher ended %s afterwards%s%s: an echo, no failure of "
				    "%s own",
				    hang_who(h, rows.v, rows.n), signals_of(h, &rows),
				    later_words(h, end_of(h, first), last),
				    rows.n == 1 ? "its" : "their"));
	free(rows.v);
}

static void prove_lost(struct hang *h, struct finding *f)
{
	struct row_list rows = { 0 };

	for (uint32_t row = 0; row < h->s->ranks.n; row++)
		if (h->look[row].lost_peer && !h->look[row].stopped)
			*vec_push(&rows) = row;
	if (rows.n)
		prove(h, f, "log",
		      report_printf(h->r, "%s lost %s connection to a peer: an echo",
				    hang_who(h, rows.v, rows.n), rows.n == 1 ? "its" : "their"));
	free(rows.v);
}

void prove_after(struct hang *h, struct finding *f, const struct breach *b)
{
	uint32_t first = b->culprits.n ? b->culprits.v[0] : NO_ID;

	if (b->ground != GROUND_FAILED || first == NO_ID || !h->look[first].failed)
		return;
	if (b->culprits.n == 1)
		prove_alike(h, f, first);
	prove_ended(h, f, first);
	prove_lost(h, f);
}
