/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_walk.c - which files of the given paths are data.
 *
 * A file that was given by name is taken as it is. In folders, what people keep beside data (cards,
 * scripts, locks, checksums) is passed over by its name, and a text only counts as data if it is
 * called like data.
 */
#include "read/shard_inside.h"

#include <dirent.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/pool.h"
#include "read/walked.h"

#define DEPTH_MOST 16u
#define FILES_MOST ((size_t)4 << 20)

struct walk {
	struct shard_entries *e;
	struct walked walked;
	size_t name_from, inside;
	const struct block_options *o;
	struct error *reterr;
};

static bool ends_with(const char *s, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && !strncasecmp(s + len - n, end, n);
}

/* Names that are no data whatever is inside. */
static bool is_stranger(const char *name)
{
	static const char *const ends[] = {
		".md",	   ".py",  ".yaml",	   ".yml",	  ".toml", ".lock",
		".crc",	   ".bin", ".log",	   ".sh",	  ".html", ".pkl",
		".pt",	   ".tmp", ".safetensors", ".json.index", ".ini",  ".cfg",
		".sha256", ".md5", ".model",	   ".ipynb",
	};
	size_t len = strlen(name);

	if (*name == '.' || *name == '_' || !strncasecmp(name, "readme", 6) ||
	    !strncasecmp(name, "license", 7))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (ends_with(name, len, ends[i]))
			return true;
	return false;
}

/* Texts whose lines are records, by their name. */
static bool is_called_like_lines(const char *path)
{
	static const char *const packs[] = { ".gz", ".zst", ".zstd" };
	static const char *const ends[] = { ".jsonl", ".ndjson", ".txt", ".text", ".csv", ".tsv" };
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t len = strlen(name);

	for (size_t i = 0; i < ARRAY_SIZE(packs); i++)
		if (ends_with(name, len, packs[i]))
			len -= strlen(packs[i]);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (ends_with(name, len, ends[i]))
			return true;
	return !memchr(name, '.', len); /* Spark's part-00000 */
}

/* .json: an array of records, or JSON lines; a single object is a configuration. */
static bool is_json_data(const struct shard_file *f)
{
	struct strict_json j = strict_json_of((const char *)f->head, f->head_len);
	char c = strict_json_peek(&j);

	if (c == '[') {
		j.p++;
		return strict_json_peek(&j) == '{';
	}
	if (c != '{')
		return false;
	if (!strict_json_skip(&j)) /* beyond the look: a long record of one line? */
		return j.p == j.end && j.line == 1;
	return strict_json_peek(&j) == '{';
}

static int add_file(struct walk *w, const char *path, const struct stat *st)
{
	struct shard_entry *e;
	int64_t rank = shard_rank_of(path, w->name_from);

	/* Other nodes count those of other ranks; of a rank that there is not nobody would tell. */
	if (rank >= 0 && w->o->ranks_here > 0 &&
	    (w->o->world_size <= 0 || rank < w->o->world_size) &&
	    (rank < w->o->first_rank || rank >= w->o->first_rank + w->o->ranks_here)) {
		w->e->others++;
		return 0;
	}
	if (w->e->v.n >= FILES_MOST)
		return error_set(w->reterr, -E2BIG, "%s: more than %zu files", path, FILES_MOST);
	e = vec_push(&w->e->v);
	*e = (struct shard_entry){
		.path = xstrdup(path), .inside = w->inside, .name_from = w->name_from, .rank = rank
	};
	e->s.bytes = (int64_t)st->st_size;
	return 0;
}

static int visit(struct walk *w, const char *path, unsigned depth);

static int visit_folder(struct walk *w, const char *path, unsigned depth)
{
	struct dirent **names;
	size_t len = strlen(path);
	int n, r = 0;

	if (depth >= DEPTH_MOST)
		return error_set(w->reterr, -ELOOP, "%s: folders nested too deep", path);
	n = scandir(path, &names, NULL, walked_by_name);
	if (n < 0)
		return error_set(w->reterr, -errno, "%s: %s", path, strerror(errno));
	while (len > 1 && path[len - 1] == '/')
		len--;
	for (int i = 0; i < n; i++) {
		_cleanup_free_ char *child = NULL;

		if (!r && is_stranger(names[i]->d_name)) {
			w->e->strangers += *names[i]->d_name != '.';
		} else if (!r) {
			child = xasprintf("%.*s%s%s", (int)len, path,
					  path[len - 1] == '/' ? "" : "/", names[i]->d_name);
			r = visit(w, child, depth + 1);
		}
		free(names[i]);
	}
	free(names);
	return r;
}

static int visit(struct walk *w, const char *path, unsigned depth)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		if (depth && errno == ENOENT) /* a link that leads nowhere */
			return 0;
		return error_set(w->reterr, -errno, "%s: %s", path, strerror(errno));
	}
	if (S_ISDIR(st.st_mode))
		return walked_already(&w->walked, &st) ? 0 : visit_folder(w, path, depth);
	if (S_ISREG(st.st_mode))
		return add_file(w, path, &st);
	return depth ? 0 : error_set(w->reterr, -ENOTSUP, "%s: not a regular file", path);
}

/* Where in a given path the last name begins. */
static size_t last_name(const char *path)
{
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		len--;
	while (len && path[len - 1] != '/')
		len--;
	return len;
}

static void look_at(void *user, size_t i)
{
	struct shard_entry *e = &((struct shard_entries *)user)->v.v[i];
	struct shard_file f;

	e->status = shard_open(e->path, &f, &e->kind, &e->error);
	if (e->status)
		return;
	/* state.json names its shards and counts nothing. */
	if (e->inside && e->kind == SHARD_INFO)
		e->left_out = !memmem(f.head, f.head_len, "\"splits\"", 8) &&
			      memmem(f.head, f.head_len, "\"_data_files\"", 13);
	if (e->inside && e->kind == SHARD_LINES) {
		size_t len = strlen(e->path);

		e->left_out = ends_with(e->path, len, ".json") ? !is_json_data(&f)
							       : !is_called_like_lines(e->path);
	}
	shard_close(&f);
}

/* What cannot be data goes; a file that was given by name is an error instead. */
static int keep_data(struct shard_entries *e, struct error *reterr)
{
	size_t kept = 0;

	for (size_t i = 0; i < e->v.n; i++) {
		struct shard_entry *x = &e->v.v[i];

		if (x->status && (!x->inside || x->status != -ENOTSUP)) {
			if (reterr)
				*reterr = x->error;
			return x->status;
		}
		if (x->status || x->left_out) {
			e->strangers++;
			free(x->path);
			x->path = NULL;
			continue;
		}
		e->bytes += (uint64_t)x->s.bytes;
		if (kept != i) {
			e->v.v[kept] = *x;
			x->path = NULL;
		}
		kept++;
	}
	e->v.n = kept;
	return 0;
}

static int by_path(const void *a, const void *b)
{
	return strcmp((*(struct shard_entry *const *)a)->path,
		      (*(struct shard_entry *const *)b)->path);
}

/* A path that was given twice, or by name and in its folder, counts once. */
static void drop_doubles(struct shard_entries *e)
{
	struct shard_entry **v = xcalloc(e->v.n + 1, sizeof(*v));
	size_t kept = 0;

	for (size_t i = 0; i < e->v.n; i++)
		v[i] = &e->v.v[i];
	qsort(v, e->v.n, sizeof(*v), by_path);
	for (size_t i = 1; i < e->v.n; i++)
		v[i]->left_out = !strcmp(v[i]->path, v[i - 1]->path);
	free(v);
	for (size_t i = 0; i < e->v.n; i++) {
		if (e->v.v[i].left_out)
			free(e->v.v[i].path);
		else
			e->v.v[kept++] = e->v.v[i];
	}
	e->v.n = kept;
}

int shard_walk(const char *const *paths, size_t n, const struct block_options *o,
	       struct shard_entries *ret, struct error *reterr)
{
	struct walk w = { .e = ret, .o = o, .reterr = reterr };
	int r = 0;

	*ret = (struct shard_entries){ 0 };
	for (size_t i = 0; i < n && !r; i++) {
		struct stat st;
		bool folder = !stat(paths[i], &st) && S_ISDIR(st.st_mode);

		w.inside = folder ? strlen(paths[i]) : 0;
		/* One folder for all says nothing about a rank. */
		w.name_from = folder && n == 1 ? w.inside : last_name(paths[i]);
		r = visit(&w, paths[i], 0);
	}
	walked_done(&w.walked);
	if (!r) {
		if (n > 1)
			drop_doubles(ret);
		pool_run(0, ret->v.n, look_at, ret);
		r = keep_data(ret, reterr);
	}
	if (r)
		shard_entries_done(ret);
	return r;
}

void shard_entries_done(struct shard_entries *e)
{
	for (size_t i = 0; i < e->v.n; i++)
		free(e->v.v[i].path);
	free(e->v.v);
	*e = (struct shard_entries){ 0 };
}

static uint64_t bytes_below(const char *path, unsigned depth)
{
	struct dirent **names;
	struct stat st;
	uint64_t sum = 0;
	int n;

	if (stat(path, &st) < 0)
		return 0;
	if (!S_ISDIR(st.st_mode))
		return S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	n = depth < DEPTH_MOST ? scandir(path, &names, NULL, NULL) : -1;
	for (int i = 0; i < n; i++) {
		if (!is_stranger(names[i]->d_name)) {
			_cleanup_free_ char *child = xasprintf("%s/%s", path, names[i]->d_name);

			sum += bytes_below(child, depth + 1);
		}
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return sum;
}

uint64_t block_paths_bytes(const char *const *paths, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += bytes_below(paths[i], 0);
	return sum;
}
