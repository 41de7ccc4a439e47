/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_files.c - fingerprints of data: size, time of change, first and last MiB of each file,
 * or all of it.
 *
 * Few files are items by themselves, so that the odd one is named; of many each folder is one, and
 * of many folders each path that was given: the part of a node stays small whatever lies there.
 */
#include "preflight/preflight_inside.h"
#include "base/clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "meet/digest.h"

#define END_BYTES    ((int64_t)1 << 20)
#define FILES_MOST   200000u
#define DEPTH_MOST   32u
#define ITEMS_MOST   512u
#define READ_AT_ONCE ((size_t)1 << 18)

struct file {
	char *path;
	size_t folder; /* length of its folder in path */
	size_t given;  /* row of the path that it was found by */
	int64_t bytes, mtime_ns;
	int error;
	bool asked; /* it is a given path itself */
	char digest[17];
};
struct files {
	VEC(struct file) v;
	size_t given;
	bool cut;
};

static void add_file(struct files *f, const char *path, const struct stat *st, int error,
		     bool asked)
{
	const char *slash = strrchr(path, '/');

	if (f->v.n >= FILES_MOST) {
		f->cut = true;
		return;
	}
	*vec_push(&f->v) = (struct file){
		.path = xstrdup(path),
		.folder = slash ? (size_t)(slash - path) : 0,
		.given = f->given,
		.bytes = st ? st->st_size : -1,
		.mtime_ns = st ? timespec_ns(st->st_mtim) : -1,
		.error = error,
		.asked = asked,
	};
}

static void walk(struct files *f, const char *path, unsigned depth)
{
	struct dirent *e;
	struct stat st;
	DIR *dir;

	if (stat(path, &st) < 0) {
		add_file(f, path, NULL, errno, !depth);
		return;
	}
	if (!S_ISDIR(st.st_mode)) {
		add_file(f, path, S_ISREG(st.st_mode) ? &st : NULL,
			 S_ISREG(st.st_mode) ? 0 : EINVAL, !depth);
		return;
	}
	dir = depth < DEPTH_MOST ? opendir(path) : NULL;
	if (!dir)
		add_file(f, path, NULL, depth < DEPTH_MOST ? errno : ELOOP, !depth);
	while (dir && !f->cut && (e = readdir(dir))) {
		_cleanup_free_ char *below = NULL;

		/* What tools keep for themselves differs, and does not matter. */
		if (e->d_name[0] == '.' || !strcmp(e->d_name, "__pycache__"))
			continue;
		below = xasprintf("%s/%s", path, e->d_name);
		walk(f, below, depth + 1);
	}
	if (dir)
		closedir(dir);
}

static int add_range(struct digest *d, int fd, int64_t from, int64_t to, uint8_t *buf)
{
	while (from < to) {
		size_t want = (size_t)MIN((int64_t)READ_AT_ONCE, to - from);
		ssize_t n = pread(fd, buf, want, from);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		digest_add(d, buf, (size_t)n);
		from += n;
	}
	return 0;
}

static void digest_file(struct file *f, bool whole, uint8_t *buf)
{
	_cleanup_close_ int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	bool ends = !whole && f->bytes > 2 * END_BYTES;
	uint8_t digest[DIGEST_BYTES];
	char hex[DIGEST_HEX];
	struct error ignored;
	struct digest *d;
	int r;

	strcpy(f->digest, "?");
	if (fd < 0) {
		f->error = errno;
		return;
	}
	if (digest_open(NULL, 0, &d, &ignored) < 0)
		return;
	r = add_range(d, fd, 0, ends ? END_BYTES : f->bytes, buf);
	if (r >= 0 && ends)
		r = add_range(d, fd, f->bytes - END_BYTES, f->bytes, buf);
	digest_end(d, digest);
	digest_hex(digest, hex);
	if (r < 0)
		f->error = -r;
	snprintf(f->digest, sizeof(f->digest), "%.16s", hex);
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

static void put_each(const struct files *f, json_t *items, json_t *times)
{
	for (size_t i = 0; i < f->v.n; i++) {
		const struct file *x = &f->v.v[i];
		_cleanup_free_ char *value =
		    x->error ? xasprintf("%s%s",
					 x->asked ? FACT_UNREAD : "not read: ", strerror(x->error))
			     : xasprintf("%s bytes, %s..", thousands(x->bytes), x->digest);
		_cleanup_free_ char *when =
		    xasprintf("changed at %" PRId64 ".%09" PRId64, x->mtime_ns / 1000000000,
			      x->mtime_ns % 1000000000);

		json_object_set_new(items, x->path, text_json(value));
		if (times && x->mtime_ns >= 0)
			json_object_set_new(times, x->path, json_string(when));
	}
}

/* Files from one that begins a folder (or a given path) to those that no longer share it. */
static size_t together(const struct files *f, size_t from, bool by_folder)
{
	const struct file *a = &f->v.v[from];
	size_t n = 1;

	for (; from + n < f->v.n; n++) {
		const struct file *b = &f->v.v[from + n];

		if (by_folder ? a->folder != b->folder || memcmp(a->path, b->path, a->folder)
			      : a->given != b->given)
			break;
	}
	return n;
}

static int by_folder_then_path(const void *a, const void *b)
{
	const struct file *x = a, *y = b;
	int c = memcmp(x->path, y->path, MIN(x->folder, y->folder));

	if (!c)
		c = (x->folder > y->folder) - (x->folder < y->folder);
	return c ? c : strcmp(x->path, y->path);
}

static int by_given_then_path(const void *a, const void *b)
{
	const struct file *x = a, *y = b;

	return x->given != y->given ? (x->given > y->given) - (x->given < y->given) : by_path(a, b);
}

static void put_together(struct files *f, const char *const *given, json_t *items)
{
	size_t folders = 0;
	bool by_folder;

	qsort(f->v.v, f->v.n, sizeof(*f->v.v), by_folder_then_path);
	for (size_t i = 0; i < f->v.n; i += together(f, i, true))
		folders++;
	by_folder = folders <= ITEMS_MOST;
	if (!by_folder)
		qsort(f->v.v, f->v.n, sizeof(*f->v.v), by_given_then_path);
	for (size_t i = 0, n; i < f->v.n; i += n) {
		const struct file *x = &f->v.v[i];
		struct buf all = { 0 };
		char digest[17];
		int64_t bytes = 0;

		n = together(f, i, by_folder);
		for (size_t k = i; k < i + n; k++) {
			buf_put(&all, f->v.v[k].path, strlen(f->v.v[k].path) + 1);
			buf_put(&all, &f->v.v[k].bytes, sizeof(f->v.v[k].bytes));
			buf_put(&all, f->v.v[k].digest, strlen(f->v.v[k].digest) + 1);
			bytes += MAX(f->v.v[k].bytes, 0);
		}
		short_digest(all.data, all.len, digest);
		buf_done(&all);
		_cleanup_free_ char *key = by_folder ? xasprintf("%.*s/", (int)x->folder, x->path)
						     : xstrdup(given[x->given]);
		json_object_set_new(
		    items, key,
		    json_sprintf("%zu files, %s bytes, %s..", n, thousands(bytes), digest));
	}
}

void facts_of_files(const char *const *paths, size_t n, bool whole, json_t *items, json_t *times)
{
	uint8_t *buf = xmalloc(READ_AT_ONCE);
	struct files f = { 0 };

	for (f.given = 0; f.given < n; f.given++)
		walk(&f, paths[f.given], 0);
	for (size_t i = 0; i < f.v.n; i++)
		if (!f.v.v[i].error)
			digest_file(&f.v.v[i], whole, buf);
	free(buf);
	if (f.v.n <= ITEMS_MOST)
		put_each(&f, items, times);
	else
		put_together(&f, paths, items);
	if (f.cut)
		json_object_set_new(
		    items, "files beyond the limit",
		    json_sprintf("more than %u files: the rest is not compared", FILES_MOST));
	for (size_t i = 0; i < f.v.n; i++)
		free(f.v.v[i].path);
	free(f.v.v);
}

int facts_of_data(const struct preflight_plan *p, json_t **ret, struct error *reterr)
{
	json_t *facts = json_object();

	(void)reterr;
	if (p->n_data)
		facts_of_files(p->data, p->n_data, p->hash_data, facts_group(facts, "data"),
			       facts_group(facts, "data times"));
	*ret = facts;
	return 0;
}
