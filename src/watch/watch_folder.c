/* SPDX-License-Identifier: Apache-2.0 */
/* watch_folder.c - looking at folders; see watch_folder.h. */
#include "watch/watch_folder.h"
#include "base/clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "read/checkpoint.h"

/* Entries of an open folder; those below the first level count for the name `under`. */
static void walk(int fd, const char *under, unsigned depth, int64_t after_ns, void (*alive)(void),
		 struct folder_look *l)
{
	DIR *d = fdopendir(fd);
	const struct dirent *e;
	struct stat st;

	if (!d) {
		close(fd);
		return;
	}
	while (l->entries < SOURCE_ENTRIES_MOST && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		l->entries++;
		alive();
		l->newer += timespec_ns(st.st_mtim) > after_ns && S_ISREG(st.st_mode);
		l->bytes += S_ISREG(st.st_mode) ? (int64_t)st.st_size : 0;
		if (timespec_ns(st.st_mtim) > l->newest_ns) {
			l->newest_ns = timespec_ns(st.st_mtim);
			snprintf(l->newest, sizeof(l->newest), "%.127s", under ? under : e->d_name);
		}
		if (S_ISDIR(st.st_mode) && depth) {
			int inner = openat(dirfd(d), e->d_name,
					   O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

			if (inner >= 0)
				walk(inner, under ? under : e->d_name, depth - 1, after_ns, alive,
				     l);
		}
	}
	closedir(d);
}

/* The folder, and what is in the newest of its entries: saves of many shards stay bounded. */
int folder_look(const char *path, int64_t after_ns, void (*alive)(void), struct folder_look *ret,
		uint64_t *ret_dev, struct error *reterr)
{
	struct folder_look inside = { .newest_ns = -1 };
	_cleanup_free_ char *newest = NULL;
	struct stat st;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	*ret = (struct folder_look){ .newest_ns = -1 };
	if (fd < 0)
		return error_set(reterr, -errno, "%s: %s", path, strerror(errno));
	*ret_dev = fstat(fd, &st) == 0 ? (uint64_t)st.st_dev : 0;
	walk(fd, NULL, 0, after_ns, alive, ret);
	newest = xasprintf("%s/%s", path, ret->newest);
	fd = ret->newest[0] ? open(newest, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
	if (fd >= 0)
		walk(fd, ret->newest, 1, after_ns, alive, &inside);
	if (ret->newest[0]) {
		_cleanup_free_ char *lacks = checkpoint_lacks_end(path, ret->newest);

		snprintf(ret->lacks, sizeof(ret->lacks), "%s", lacks ? lacks : "");
	}
	ret->newest_ns = MAX(ret->newest_ns, inside.newest_ns);
	ret->bytes += inside.bytes;
	ret->newer += inside.newer;
	if (MAX(ret->entries, inside.entries) >= SOURCE_ENTRIES_MOST) {
		error_set(reterr, 0, "%s: more than %u entries: only so many are looked at", path,
			  SOURCE_ENTRIES_MOST);
		ret->cut = true;
	}
	ret->entries += inside.entries;
	return 0;
}

/* A time of a file, on the clock of the watch: never later than now. */
static int64_t at_of(const struct sources *s, int64_t ns)
{
	return MIN(ns / 1000000 - s->wall_offset_ms, s->now_ms);
}

/* "model" or "model-unfinished" and "model.ckpt" are of one. */
static bool same_save(const char *a, const char *b)
{
	size_t n = 0;

	while (a[n] && a[n] == b[n])
		n++;
	return (!a[n] || a[n] == '-' || a[n] == '.') && (!b[n] || b[n] == '-' || b[n] == '.');
}

int folder_take_saves(struct sources *s, struct source *v, const struct folder_look *now)
{
	struct source_folder *was = &v->folder;
	struct watch_seen seen;
	bool changed;

	changed = was->known && (now->newest_ns != was->newest_ns || now->entries != was->entries ||
				 (uint64_t)now->bytes != was->bytes);
	if (!was->known && now->lacks[0]) {
		was->busy = true; /* torn long ago, or under way */
	} else if (!was->known &&
		   now->newest_ns >= 0) { /* what lies there says when it saved last */
		seen = watch_seen_of(SIGHT_SAVED, v->row, at_of(s, now->newest_ns));
		seen.text = now->newest;
		seen.history = true;
		watch_saw(s->w, &seen);
		was->settled_ns = now->newest_ns;
	}
	/* one that stood still goes on, or another one is begun */
	if (changed && was->stands && now->lacks[0] && !same_save(was->newest, now->newest))
		was->busy = was->stands = false;
	if (changed && !was->busy && now->newest_ns > was->newest_ns) {
		seen = watch_seen_of(SIGHT_SAVE_BEGIN, v->row, at_of(s, now->newest_ns));
		watch_saw(s->w, &seen);
		was->busy = true;
	} else if (!changed && was->busy && now->lacks[0] && was->known) {
		was->stands = true;
		if (was->settled_ns != now->newest_ns) { /* it was begun while we watched */
			_cleanup_free_ char *text =
			    xasprintf("%.100s: %s", now->newest, now->lacks);

			seen = watch_seen_of(SIGHT_SAVE_STANDS, v->row, at_of(s, now->newest_ns));
			seen.text = text;
			watch_saw(s->w, &seen);
		}
	} else if (!changed && was->busy && !now->lacks[0]) {
		seen = watch_seen_of(SIGHT_SAVE_END, v->row, at_of(s, now->newest_ns));
		watch_saw(s->w, &seen);
		was->busy = was->stands = false;
		was->settled_ns = now->newest_ns;
	}
	if (!was->known)
		was->settled_ns = now->newest_ns;
	was->known = true;
	was->newest_ns = now->newest_ns;
	snprintf(was->newest, sizeof(was->newest), "%s", now->newest);
	was->entries = now->entries;
	was->bytes = (uint64_t)now->bytes;
	return now->cut;
}

/* Those older than the watcher's first look are of an earlier hang. */
int64_t folder_after(const struct source *v)
{
	return v->kind == SOURCE_DUMPS && v->folder.known ? v->folder.newest_ns : INT64_MAX;
}

int folder_take_dumps(struct sources *s, struct source *v, int r, const struct folder_look *now)
{
	struct source_folder *was = &v->folder;
	struct watch_seen seen;

	if (r == -ENOENT) { /* it is made with the first dump */
		was->known = true;
		return 0;
	}
	if (r < 0)
		return r;
	if (was->known && now->newer) {
		seen = watch_seen_of(SIGHT_DUMP, v->row, at_of(s, now->newest_ns));
		seen.value = (int64_t)now->newer;
		watch_saw(s->w, &seen);
	}
	was->known = true;
	was->newest_ns = MAX(was->newest_ns, now->newest_ns);
	return now->cut;
}
