/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_restart.c - the runs of a job that is started again.
 *
 * A new run is new processes: clocks of hosts go on, numbers of collectives and the warm-up begin
 * anew. Its noise is its own, its data is what the first run had in these steps.
 */
#include "sim/sim_restart.h"

#include "base/ranges.h"
#include "sim/sim_inside.h"

#define SAVED_EVERY 10	/* steps, where from= does not say what the last save kept */
#define SKEW_NS	    2e6 /* ranks begin a run within this */

static bool take(struct sim_restart *r, const char *key, const char *value)
{
	int64_t v;

	if (!strcmp(key, "down"))
		return sim_number_in(value, 0, 1e7, &r->down_s);
	if (!strcmp(key, "late")) {
		free(r->late); /* the last one given counts */
		r->late = NULL;
		r->n_late = 0;
		return ranges_parse(value, &r->late, &r->n_late, NULL) >= 0;
	}
	if (!sim_whole_in(value, 0, INT32_MAX, &v))
		return false;
	if (!strcmp(key, "at"))
		r->at = v;
	else if (!strcmp(key, "from"))
		r->from = v;
	else if (!strcmp(key, "after"))
		r->after = v;
	else if (!strcmp(key, "anew"))
		r->anew = v != 0;
	else
		return false;
	return true;
}

int sim_restart_parse(struct sim_restarts *restarts, const char *text, struct error *reterr)
{
	struct sim_restart r = { .at = -1, .from = -1, .down_s = 90, .after = 3 };
	_cleanup_free_ char *copy = xstrdup(text);
	char *at = copy, *word;

	while ((word = strsep(&at, " "))) {
		char *value = strchr(word, '=');

		if (!*word)
			continue;
		if (value)
			*value++ = 0;
		if (!value || !take(&r, word, value)) {
			free(r.late);
			return error_set(reterr, -EINVAL,
					 "--restart: \"%s%s%s\" is not understood: it is "
					 "\"at=STEP from=STEP down=SECONDS anew=1 late=RANKS "
					 "after=STEPS\"",
					 word, value ? "=" : "", value ? value : "");
		}
	}
	if (r.from < 0)
		r.from = r.at - r.at % SAVED_EVERY;
	restarts->v = xrealloc(restarts->v, (restarts->n + 1) * sizeof(*restarts->v));
	restarts->v[restarts->n++] = r;
	return 0;
}

int sim_restarts_check(const struct sim_restarts *restarts, uint32_t steps, int64_t world,
		       struct error *reterr)
{
	int64_t begun = 0;

	for (size_t i = 0; i < restarts->n; i++) {
		const struct sim_restart *r = &restarts->v[i];

		if (r->at <= begun || r->at >= (int64_t)steps || r->from > r->at)
			return error_set(reterr, -EINVAL,
					 "--restart: at= is a step behind the run's first (%" PRId64
					 ") and below %" PRIu32 ", from= none behind it",
					 begun, steps);
		if (r->n_late && r->late[r->n_late - 1] >= world)
			return error_set(reterr, -EINVAL,
					 "--restart: there is no rank %" PRId64
					 " in a job of %" PRId64,
					 r->late[r->n_late - 1], world);
		begun = r->from;
	}
	return 0;
}

void sim_restarts_done(struct sim_restarts *restarts)
{
	for (size_t i = 0; i < restarts->n; i++)
		free(restarts->v[i].late);
	free(restarts->v);
	*restarts = (struct sim_restarts){ 0 };
}

/* The run ends where it stands if a restart is due; the next one begins. */
void sim_restart_due(struct sim *s)
{
	const struct sim_restarts *all = &s->options.restarts;
	const struct sim_restart *r = s->run < all->n ? &all->v[s->run] : NULL;
	double t = 0;

	if (!r || s->step != r->at)
		return;
	s->run++;
	s->step = s->run_from = (uint32_t)r->from;
	s->renumber = r->anew ? s->run_from : 0;
	for (uint32_t i = 0; i < s->plan.world; i++)
		t = MAX(t, s->ranks[i].t);
	for (uint32_t i = 0; i < s->plan.world; i++)
		s->ranks[i].t =
		    t + r->down_s * 1e9 + SKEW_NS * sim_share(s->options.seed ^ 0x7275, i, s->run);
	sim_trace_run(s);
}

bool sim_recorded(const struct sim *s, uint32_t rank)
{
	const struct sim_restart *r = s->run ? &s->options.restarts.v[s->run - 1] : NULL;

	if (!r || s->step >= s->run_from + r->after)
		return true;
	for (size_t i = 0; i < r->n_late; i++)
		if (r->late[i] == rank)
			return false;
	return true;
}
