/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_rounds.c - the nodes of a job agree before each launch: all go on, from the same checkpoint,
 * or none does.
 */
#include <stdio.h>
#include <unistd.h>

#include "run/run_inside.h"

#define MEET_SLACK_MS 30000u

static const char *const goes[] = { "go", "stop", "done" };

/* A checkpoint that every node found whole; nodes list theirs newest first. */
static bool all_have(const struct meet_part *parts, size_t n, json_t **docs, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		bool has = false;
		json_t *v;
		size_t k;

		if (parts[i].presence != MEET_CAME)
			continue;
		json_array_foreach(json_object_get(docs[i], "checkpoints"), k, v)
		{
			const char *own = json_string_value(json_object_get(v, "name"));

			has |= own && json_boolean_value(json_object_get(v, "good")) &&
			       strcmp(own, name) == 0;
		}
		if (!has)
			return false;
	}
	return true;
}

static const char *newest_of_all(const struct meet_part *parts, size_t n, json_t **docs)
{
	const char *best = NULL;
	json_int_t best_step = -2;
	json_t *v;
	size_t k;

	json_array_foreach(json_object_get(n ? docs[0] : NULL, "checkpoints"), k, v)
	{
		const char *name = json_string_value(json_object_get(v, "name"));
		json_int_t step = json_integer_value(json_object_get(v, "step"));

		if (name && step > best_step && all_have(parts, n, docs, name)) {
			best = name;
			best_step = step;
		}
	}
	return best;
}

static int judge(void *user, const struct meet_part *parts, size_t n, struct buf *ret,
		 struct error *reterr)
{
	json_t **docs = xcalloc(n + 1, sizeof(*docs)), *verdict;
	enum run_go go = RUN_DONE;
	char why[300] = "";
	char *text;

	(void)user;
	(void)reterr;
	for (size_t i = 0; i < n; i++) {
		const char *own;

		if (parts[i].presence == MEET_ABSENT || parts[i].presence == MEET_LOST) {
			go = RUN_STOP;
			snprintf(why, sizeof(why), "%s did not come", parts[i].name);
		}
		if (parts[i].presence != MEET_CAME)
			continue;
		docs[i] = json_loadb((const char *)parts[i].part, parts[i].part_len, 0, NULL);
		own = json_string_value(json_object_get(docs[i], "go"));
		if (!own || strcmp(own, goes[RUN_STOP]) == 0) {
			go = RUN_STOP;
			snprintf(why, sizeof(why), "%s stops", parts[i].name);
		} else if (strcmp(own, goes[RUN_GO_ON]) == 0 && go == RUN_DONE) {
			go = RUN_GO_ON;
		}
	}
	verdict = json_pack("{ss ss ss?}", "go", goes[go], "why", why, "checkpoint",
			    newest_of_all(parts, n, docs));
	text = json_dumps(verdict, JSON_COMPACT);
	buf_put(ret, text, strlen(text));
	free(text);
	json_decref(verdict);
	for (size_t i = 0; i < n; i++)
		json_decref(docs[i]);
	free(docs);
	return 0;
}

/* The meeting is a child's: it may wait for minutes, and signals are served meanwhile. */
struct meeting {
	struct meet_plan plan;
	const char *text, *out;
};

static int hold(void *user)
{
	const struct meeting *m = user;
	struct error e = { "" };
	struct buf b = { 0 };
	FILE *f;

	if (meet(&m->plan, m->text, strlen(m->text), judge, NULL, &b, &e) < 0) {
		json_t *why = json_pack("{ss}", "trouble", e.text);
		char *text = json_dumps(why, JSON_COMPACT);

		b.len = 0;
		buf_put(&b, text, strlen(text));
	}
	f = fopen(m->out, "we");
	if (f && (fwrite(b.data, 1, b.len, f) != b.len || fclose(f) != 0))
		unlink(m->out);
	return 0;
}

static enum run_go take_verdict(struct run *r, const json_t *verdict, enum run_go own,
				char **ret_name)
{
	const char *said = json_string_value(json_object_get(verdict, "go"));
	const char *name = json_string_value(json_object_get(verdict, "checkpoint"));
	const char *why = json_string_value(json_object_get(verdict, "why"));
	const char *trouble = json_string_value(json_object_get(verdict, "trouble"));
	enum run_go go = RUN_STOP;

	for (unsigned i = 0; said && i < ARRAY_SIZE(goes); i++)
		if (strcmp(said, goes[i]) == 0)
			go = (enum run_go)i;
	if (!said)
		run_say(r, "the nodes do not agree to go on: %s",
			trouble ? trouble : "the meeting gave no verdict");
	else if (go == RUN_STOP && own != RUN_STOP)
		run_say(r, "all nodes stop: %s", why ? why : "");
	*ret_name = name ? xstrdup(name) : NULL;
	return go;
}

enum run_go run_meet(struct run *r, unsigned round, enum run_go own, json_t *found, char **ret_name)
{
	_cleanup_free_ char *job = xasprintf("%s.round-%u", r->p->meet->job, round);
	_cleanup_free_ char *out = xasprintf("%s/.meeting.json", r->p->folder);
	json_t *part = json_pack("{ss sO?}", "go", goes[own], "checkpoints", found), *verdict;
	char *text = json_dumps(part, JSON_COMPACT);
	struct meeting m = { *r->p->meet, text, out };
	enum run_go go = RUN_STOP;
	struct helper h;

	m.plan.job = job;
	unlink(out);
	if (helper_call(&h, "meet", hold, &m, m.plan.limit_ms + MEET_SLACK_MS) == 0) {
		run_wait(r, &h);
		verdict = json_load_file(out, 0, NULL);
		go = take_verdict(r, verdict, own, ret_name);
		json_decref(verdict);
		unlink(out);
	}
	free(text);
	json_decref(part);
	return go;
}
