/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_resume.c - where an attempt begins: the newest checkpoint that is whole, given to CMD by its
 * environment and by the arguments that the user wrote for it.
 *
 * Storage may hang, so a child looks, with a deadline, and writes what it found as JSON.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/run_inside.h"

#define CHOOSE_MS   600000u
#define GOOD_LISTED 5u /* for the other nodes to choose from */

struct choosing {
	const struct run *r;
	char *out;
};

static const char *name_of(const struct run *r, const char *path)
{
	size_t len = strlen(r->p->checkpoints);

	return strncmp(path, r->p->checkpoints, len) == 0 && path[len] == '/' ? path + len + 1 : "";
}

static json_t *row(const struct run *r, const struct checkpoint *c)
{
	return json_pack("{ss? ss? sI sI sI sb ss* sb}", "path", c->path, "name",
			 name_of(r, c->path), "step", (json_int_t)c->step, "kind",
			 (json_int_t)c->kind, "mtime_ns", (json_int_t)c->mtime_ns, "weights_only",
			 (int)c->weights_only, "why", c->why, "good",
			 (int)(c->state == CHECKPOINT_GOOD));
}

/* In the child: the newest ones, checked until enough are good. */
static int look(void *user)
{
	const struct choosing *w = user;
	unsigned enough = w->r->p->meet ? GOOD_LISTED : 1, good = 0;
	json_t *all = json_array(), *doc = json_pack("{so}", "checkpoints", all);
	struct checkpoints c = { 0 };
	struct error e = { "" };

	int r = checkpoints_find(w->r->p->checkpoints, &c, &e);

	if (access(w->r->p->checkpoints, F_OK) < 0 && errno == ENOENT) /* the job may make it */
		json_object_set_new(doc, "missing", json_true());
	else if (r < 0 && r != -ENOENT)
		json_object_set_new(doc, "trouble", json_string(e.text));
	for (size_t i = 0; i < c.v.n && good < enough; i++) {
		struct checkpoint *k = &c.v.v[i];

		if (checkpoints_check(&c, i, w->r->p->whole, &e) < 0) {
			k->state = CHECKPOINT_FOREIGN;
			k->why = xstrdup(e.text);
		}
		good += k->state == CHECKPOINT_GOOD;
		json_array_append_new(all, row(w->r, k));
	}
	json_dump_file(doc, w->out, JSON_COMPACT);
	json_decref(doc);
	checkpoints_done(&c);
	return 0;
}

static void take(struct chosen *c, json_t *row)
{
	c->path = xstrdup(json_string_value(json_object_get(row, "path")));
	c->name = xstrdup(json_string_value(json_object_get(row, "name")));
	c->step = json_integer_value(json_object_get(row, "step"));
	c->mtime_ns = json_integer_value(json_object_get(row, "mtime_ns"));
	c->kind = (enum checkpoint_kind)json_integer_value(json_object_get(row, "kind"));
	c->weights_only = json_boolean_value(json_object_get(row, "weights_only"));
}

/* What the child found; name: the one that the nodes agreed on. */
static void choose(json_t *doc, const char *name, struct chosen *ret)
{
	const char *trouble = json_string_value(json_object_get(doc, "trouble"));
	json_t *v;
	size_t i;

	if (trouble)
		ret->trouble = xstrdup(trouble);
	ret->missing = json_is_true(json_object_get(doc, "missing"));
	json_array_foreach(json_object_get(doc, "checkpoints"), i, v)
	{
		const char *path = json_string_value(json_object_get(v, "path"));
		const char *why = json_string_value(json_object_get(v, "why"));
		const char *own = json_string_value(json_object_get(v, "name"));

		if (!path || !own)
			continue;
		if (!json_boolean_value(json_object_get(v, "good")))
			*vec_push(&ret->torn) =
			    (struct passed_over){ xstrdup(path), xstrdup(why ? why : "not whole") };
		else if (!ret->path && (!name || strcmp(name, own) == 0))
			take(ret, v);
	}
}

void run_choose(struct run *r, const char *name, struct chosen *ret, json_t **ret_found)
{
	struct choosing w = { r, xasprintf("%s/.checkpoints.json", r->p->folder) };
	struct helper h;
	json_t *doc;

	*ret = (struct chosen){ .step = -1 };
	if (ret_found)
		*ret_found = NULL;
	if (!r->p->checkpoints)
		goto out;
	unlink(w.out);
	if (helper_call(&h, "check checkpoints", look, &w, CHOOSE_MS) < 0)
		goto out;
	run_wait(r, &h);
	doc = json_load_file(w.out, 0, NULL);
	unlink(w.out);
	if (!doc)
		ret->trouble = xasprintf("%s: %s", r->p->checkpoints,
					 h.late ? "it could not be looked through in 10 minutes"
						: "the look at its checkpoints failed");
	choose(doc, name, ret);
	if (ret_found && doc)
		*ret_found = json_incref(json_object_get(doc, "checkpoints"));
	json_decref(doc);
out:
	free(w.out);
}

void chosen_done(struct chosen *c)
{
	for (size_t i = 0; i < c->torn.n; i++) {
		free(c->torn.v[i].path);
		free(c->torn.v[i].why);
	}
	free(c->torn.v);
	free(c->path);
	free(c->name);
	free(c->trouble);
	*c = (struct chosen){ .step = -1 };
}

/* --- a copy without optimizer state: links to all else --- */

/* Links to what is not an optimizer's; how many were left out, or -1. */
static int link_weights(const char *from, const char *to)
{
	DIR *dir = opendir(from);
	struct dirent *d;
	int left_out = 0;

	if (!dir || mkdir(to, 0777) < 0) {
		if (dir)
			closedir(dir);
		return -1;
	}
	while ((d = readdir(dir))) {
		_cleanup_free_ char *of = xasprintf("%s/%s", from, d->d_name);
		_cleanup_free_ char *as = xasprintf("%s/%s", to, d->d_name);

		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (strstr(d->d_name, "optim") || strcmp(d->d_name, "scheduler.pt") == 0)
			left_out++;
		else if (symlink(of, as) < 0)
			left_out = -1;
		if (left_out < 0)
			break;
	}
	closedir(dir);
	return left_out;
}

/* Only these forms load without the files that are left out. */
static bool can_leave_out(const struct chosen *c)
{
	return c->kind == CHECKPOINT_TRAINER || c->kind == CHECKPOINT_DEEPSPEED;
}

static void write_latest(const char *folder, const char *name)
{
	_cleanup_free_ char *path = xasprintf("%s/latest", folder);
	FILE *f = fopen(path, "we");

	if (f) {
		fputs(name, f);
		fclose(f);
	}
}

static void leave_out_optimizer(struct run *r, struct attempt *a)
{
	struct chosen *c = &a->from;
	const char *slash = strrchr(c->path, '/');
	_cleanup_free_ char *folder = run_path(a, "weights-only");
	char *to = xasprintf("%s/%s", folder, slash ? slash + 1 : c->path);
	int left_out;

	setenv("LOCKSTEP_RESUME_WEIGHTS_ONLY", "1", 1);
	if (c->weights_only) {
		free(to);
		return;
	}
	mkdir(folder, 0777);
	left_out = can_leave_out(c) ? link_weights(c->path, to) : -1;
	if (left_out <= 0) {
		run_say(r,
			"%s keeps optimizer state with the weights: leaving it out is the job's "
			"own (LOCKSTEP_RESUME_WEIGHTS_ONLY=1)",
			c->path);
		free(to);
		return;
	}
	run_say(r, "without optimizer state: %s, %d files of %s left out", to, left_out, c->path);
	if (c->kind == CHECKPOINT_DEEPSPEED)
		write_latest(folder, slash ? slash + 1 : c->path);
	free(c->path);
	c->path = to;
	c->weights_only = true;
}

/* --- arguments --- */

/* The next word of a shell's line, quotes taken off; NULL at the end. */
static char *next_word(const char **p)
{
	struct buf b = { 0 };
	char quote = 0;

	while (isspace((unsigned char)**p))
		(*p)++;
	if (!**p)
		return NULL;
	for (; **p && (quote || !isspace((unsigned char)**p)); (*p)++) {
		if (quote ? **p == quote : **p == '\'' || **p == '"')
			quote = quote ? 0 : **p;
		else if (**p == '\\' && quote != '\'' && (*p)[1])
			buf_put(&b, ++*p, 1);
		else
			buf_put(&b, *p, 1);
	}
	buf_put(&b, "", 1);
	return (char *)b.data;
}

static char *fill(const char *word, const struct chosen *c)
{
	char step[32];
	struct buf b = { 0 };

	snprintf(step, sizeof(step), "%" PRId64, c->step);
	while (*word) {
		static const char path_field[] = "{checkpoint}", step_field[] = "{step}";

		if (strncmp(word, path_field, sizeof(path_field) - 1) == 0) {
			buf_put(&b, c->path, strlen(c->path));
			word += sizeof(path_field) - 1;
		} else if (strncmp(word, step_field, sizeof(step_field) - 1) == 0) {
			buf_put(&b, step, strlen(step));
			word += sizeof(step_field) - 1;
		} else {
			buf_put(&b, word++, 1);
		}
	}
	buf_put(&b, "", 1);
	return (char *)b.data;
}

static char **arguments(const struct run_plan *p, const struct chosen *c)
{
	VEC(char *) v = { 0 };
	const char *rest = p->resume_args;
	char *word;

	for (char **w = p->argv; *w; w++)
		*vec_push(&v) = xstrdup(*w);
	while (c->path && rest && (word = next_word(&rest))) {
		*vec_push(&v) = fill(word, c);
		free(word);
	}
	*vec_push(&v) = NULL;
	return v.v;
}

void argv_done(char **argv)
{
	for (char **w = argv; w && *w; w++)
		free(*w);
	free(argv);
}

/* A variable that the user set is his for the first attempt; later ones begin elsewhere. */
static void tell_by_environment(struct run *r, const struct attempt *a)
{
	static bool users;
	char step[32];

	if (a->number == 1 && getenv("LOCKSTEP_RESUME")) {
		users = true;
		run_say(r, "LOCKSTEP_RESUME is set already and left as it is");
		return;
	}
	if (!a->from.path) {
		if (!users) {
			unsetenv("LOCKSTEP_RESUME");
			unsetenv("LOCKSTEP_RESUME_STEP");
		}
		return;
	}
	setenv("LOCKSTEP_RESUME", a->from.path, 1);
	snprintf(step, sizeof(step), "%" PRId64, a->from.step);
	if (a->from.step >= 0)
		setenv("LOCKSTEP_RESUME_STEP", step, 1);
	else
		unsetenv("LOCKSTEP_RESUME_STEP");
}

void run_resume(struct run *r, struct attempt *a, char ***ret_argv)
{
	struct chosen *c = &a->from;

	if (c->trouble)
		run_say(r, "%s", c->trouble);
	for (size_t i = 0; i < c->torn.n; i++)
		run_say(r, "passed over %s: %s", c->torn.v[i].path, c->torn.v[i].why);
	if (c->path && r->p->fresh && a->number == 1) {
		free(c->path);
		c->path = NULL;
	}
	if (c->path && r->p->weights_only)
		leave_out_optimizer(r, a);
	if (c->path && c->step >= 0)
		run_say(r, "begins at step %" PRId64 ", %s", c->step, c->path);
	else if (c->path)
		run_say(r, "begins at %s", c->path);
	else if (c->missing)
		run_say(r,
			"warning: there is no folder %s: it begins anew (if the job does not make "
			"that folder, --checkpoints names the wrong one)",
			r->p->checkpoints);
	else if (r->p->checkpoints && (!r->p->fresh || a->number > 1))
		run_say(r, "no whole checkpoint in %s: it begins anew", r->p->checkpoints);
	tell_by_environment(r, a);
	*ret_argv = arguments(r->p, c);
}

/* A field that we do not fill in would reach CMD as it stands: "${name}" is a shell's. */
bool run_field_unknown(const char *text, char *ret, size_t size)
{
	static const char *const known[] = { "checkpoint", "step" };

	for (const char *p = strchr(text, '{'); p; p = strchr(p + 1, '{')) {
		size_t n = strspn(p + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
		bool ours = false;

		if (!n || p[1 + n] != '}' || (p > text && p[-1] == '$'))
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(known); i++)
			ours |= strlen(known[i]) == n && memcmp(p + 1, known[i], n) == 0;
		if (!ours) {
			snprintf(ret, size, "%.*s", (int)MIN(n + 2, size - 1), p);
			return true;
		}
	}
	return false;
}
