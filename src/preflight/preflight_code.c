/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_code.c - which code and which configuration this node would run.
 *
 * Code: the commit of its git work tree and every file that differs from it; without git the files
 * themselves. Configuration: each file's digest, and its keys and values where it is JSON, YAML,
 * TOML or ini of the simple kind, so that the judge can name the key.
 */
#include "preflight/preflight_inside.h"
#include "base/wide_text.h"

#include <ctype.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHANGED_MOST ((size_t)4 << 20)
#define CHANGES_MOST 256u
#define CONFIG_MOST  ((size_t)1 << 20)
#define KEYS_MOST    2048u
#define DEPTH_MOST   16u
#define KEY_MOST     256u

/* --- code --- */

static char *git(const char *folder, const char *first, const char *second, const char *third,
		 size_t max, struct error *reterr)
{
	char *argv[] = { (char *)"git",
			 (char *)"-C",
			 (char *)(uintptr_t)folder,
			 (char *)"--no-optional-locks",
			 (char *)"-c",
			 (char *)"core.fsmonitor=false",
			 (char *)(uintptr_t)first,
			 (char *)(uintptr_t)second,
			 (char *)(uintptr_t)third,
			 NULL };

	return command_text(argv, max, reterr);
}

static bool has_git(const char *folder)
{
	_cleanup_free_ char *dot = xasprintf("%s/.git", folder);
	struct stat st;

	return stat(dot, &st) == 0;
}

/* The work tree around a folder, or "". */
static void work_tree(const char *from, char ret[4096])
{
	char *real = realpath(from, NULL);

	snprintf(ret, 4096, "%s", real ? real : "");
	free(real);
	while (*ret && !has_git(ret)) {
		char *slash = strrchr(ret, '/');

		*(slash ? slash : ret) = 0;
	}
}

/* Of files that git does not know only these matter: outputs lie in work trees too. */
static bool is_code(const char *path)
{
	static const char *const ends[] = { ".py",   ".sh",  ".json", ".yaml", ".yml",
					    ".toml", ".cfg", ".ini",  ".cu",   ".cpp",
					    ".c",    ".h",   ".cuh",  ".pyx" };
	const char *dot = strrchr(path, '.');

	for (size_t i = 0; dot && i < ARRAY_SIZE(ends); i++)
		if (!strcmp(dot, ends[i]))
			return true;
	return false;
}

/* Each path of `git status --porcelain -z`: "XY path", of a rename the old one follows. */
static void put_changes(const char *tree, const char *status, size_t len, json_t *items)
{
	unsigned n = 0;

	for (size_t at = 0; at + 3 < len; at += strlen(status + at) + 1) {
		const char *path = status + at + 3;
		_cleanup_free_ char *full = xasprintf("%s/%s", tree, path);
		bool renamed = status[at] == 'R' || status[at] == 'C';
		char digest[17] = "gone";
		size_t size = 0;
		char *text;

		if (status[at] == '?' && !is_code(path))
			continue;
		if (++n > CHANGES_MOST) {
			json_object_set_new(items, "more changes", json_string("not compared"));
			return;
		}
		text = file_whole(full, CHANGED_MOST, &size);
		if (text)
			short_digest(text, size, digest);
		else if (errno != ENOENT)
			snprintf(digest, sizeof(digest), "not read");
		free(text);
		json_object_set_new(items, path, json_sprintf("changed: %s", digest));
		if (renamed)
			at += strlen(status + at) + 1;
		if (at >= len)
			break;
	}
}

/* The output of git with its zeros; its length is what counts. */
static char *git_status(const char *tree, size_t *ret_len, struct error *reterr)
{
	char *text = git(tree, "status", "--porcelain", "-z", CHANGED_MOST, reterr);

	if (!text)
		return NULL;
	/* Entries end in 0, and two zeros end them all, since command_text adds one. */
	*ret_len = 0;
	while (text[*ret_len])
		*ret_len += strlen(text + *ret_len) + 1;
	return text;
}

static int put_tree(const char *tree, json_t *items, struct error *reterr)
{
	char *commit = git(tree, "rev-parse", "--verify", "HEAD", 256, reterr), *status;
	size_t len;

	if (!commit)
		return error_set(reterr, -EIO,
				 "%.300s: git rev-parse HEAD failed there (not "
				 "installed, no commit, or a tree of another user?)",
				 tree);
	commit[strcspn(commit, "\n")] = 0;
	json_object_set_new(items, "commit", text_json(commit));
	free(commit);
	status = git_status(tree, &len, reterr);
	if (!status)
		return error_set(reterr, -EIO, "%.300s: git status failed there", tree);
	put_changes(tree, status, len, items);
	free(status);
	return 0;
}

int facts_of_code(const struct preflight_plan *p, json_t **ret, struct error *reterr)
{
	json_t *facts = json_object(), *items;
	char tree[4096];
	int r = 0;

	work_tree(p->code ? p->code : ".", tree);
	if (*tree) {
		items = facts_group(facts, "code");
		r = put_tree(tree, items, reterr);
		/* Nobody asked for it: a tree without a commit is no failure. */
		if (r < 0 && !p->code) {
			json_object_clear(facts);
			r = 0;
		}
	} else if (p->code) {
		facts_of_files(&p->code, 1, false, facts_group(facts, "code"), NULL);
	}
	if (r < 0)
		json_decref(facts);
	else
		*ret = facts;
	return r;
}

/* --- configuration --- */

struct flat {
	json_t *items;
	const char *file;
	unsigned n;
};

static void put_key(struct flat *f, const char *key, const char *value)
{
	if (f->n++ >= KEYS_MOST)
		return;
	_cleanup_free_ char *full = xasprintf("%s: %.200s", f->file, key);

	json_object_set_new(f->items, full, told_value(key, value));
}

static void flatten(struct flat *f, const json_t *j, const char *at, unsigned depth)
{
	const char *key;
	json_t *v;
	size_t i;

	if (json_is_object(j) && depth < DEPTH_MOST) {
		void *iter = json_object_iter((json_t *)(uintptr_t)j);

		for (; iter; iter = json_object_iter_next((json_t *)(uintptr_t)j, iter)) {
			_cleanup_free_ char *below = NULL;

			key = json_object_iter_key(iter);
			below = xasprintf("%s%s%s", at, *at ? "." : "", key);
			flatten(f, json_object_iter_value(iter), below, depth + 1);
		}
	} else if (json_is_array(j) && json_array_size(j) <= 64 && depth < DEPTH_MOST) {
		json_array_foreach(j, i, v)
		{
			_cleanup_free_ char *below = xasprintf("%s[%zu]", at, i);

			flatten(f, v, below, depth + 1);
		}
	} else {
		char *text =
		    json_is_string(j)
			? xstrdup(json_string_value(j))
			: json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));

		put_key(f, at, text ? text : "?");
		free(text);
	}
}

/* The keys of the lines above that are less indented, as far as a value goes. */
struct above {
	char keys[DEPTH_MOST][KEY_MOST];
	size_t indents[DEPTH_MOST];
	unsigned depth;
	char section[KEY_MOST]; /* of ini and TOML */
};

static void trim(char **from, char *to)
{
	while (**from == ' ' || **from == '\t')
		(*from)++;
	while (to > *from && isspace((unsigned char)to[-1]))
		to--;
	*to = 0;
}

/* "  key: value", "key = value"; anything else (lists, blocks of text) is left to the digest. */
static void take_line(struct flat *f, struct above *a, char *line)
{
	size_t indent = strspn(line, " ");
	char *key = line + indent, *value = key + strcspn(key, ":="), path[4 * KEY_MOST];
	size_t at = 0;

	if (*key == '[') {
		snprintf(a->section, sizeof(a->section), "%.*s.",
			 (int)MIN(strcspn(key + 1, "]"), 200u), key + 1);
		a->depth = 0;
		return;
	}
	if (!*key || strchr("#;-", *key) || !*value || value == key)
		return;
	*value++ = 0;
	trim(&key, key + strlen(key));
	trim(&value, value + strlen(value));
	if (strlen(key) >= KEY_MOST || strchr(key, ' '))
		return;
	while (a->depth && a->indents[a->depth - 1] >= indent)
		a->depth--;
	if (!*value && a->depth < DEPTH_MOST) {
		strcpy(a->keys[a->depth], key);
		a->indents[a->depth++] = indent;
		return;
	}
	at = (size_t)snprintf(path, sizeof(path), "%s", a->section);
	for (unsigned i = 0; i < a->depth && at < sizeof(path) - KEY_MOST - 2; i++)
		at += (size_t)snprintf(path + at, sizeof(path) - at, "%s.", a->keys[i]);
	if (at < sizeof(path))
		snprintf(path + at, sizeof(path) - at, "%s", key);
	put_key(f, path, value);
}

void facts_of_config_text(const char *file, char *text, size_t len, json_t *items)
{
	_cleanup_free_ char *plain = NULL;
	struct flat f = { items, file, 0 };
	json_error_t wrong;
	struct above *a;
	char *save = NULL;
	json_t *j;

	if (wide_text_of(text, len).name) {
		plain = wide_text_plain(text, &len);
		text = plain;
	}
	j = json_loadb(text, len, 0, &wrong);
	if (j) {
		flatten(&f, j, "", 0);
		json_decref(j);
	} else if (strlen(text) == len && len && text[0] != '{') {
		a = xcalloc(1, sizeof(*a));
		for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
			take_line(&f, a, l);
		free(a);
	}
	if (f.n > KEYS_MOST)
		json_object_set_new(items, "keys beyond the limit", json_string("not compared"));
}

int facts_of_config(const struct preflight_plan *p, json_t **ret, struct error *reterr)
{
	json_t *facts = json_object(), *items = facts_group(facts, "config");

	(void)reterr;
	for (size_t i = 0; i < p->n_config; i++) {
		const char *path = p->config[i];
		size_t len = 0;
		char *text = file_whole(path, CONFIG_MOST, &len), digest[17];

		if (!text && (errno == EFBIG || errno == EINVAL)) {
			facts_of_files(&path, 1, true, items, NULL);
			continue;
		}
		if (!text) {
			json_object_set_new(items, path,
					    json_sprintf(FACT_UNREAD "%s", strerror(errno)));
			continue;
		}
		short_digest(text, len, digest);
		json_object_set_new(items, path, json_sprintf("%zu bytes, %s..", len, digest));
		facts_of_config_text(path, text, len, items);
		free(text);
	}
	*ret = facts;
	return 0;
}
