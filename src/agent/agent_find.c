/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_find.c - the folders of rings, and the rings in them.
 *
 * A folder is trusted if it belongs to us or, as root, to anybody, and nobody else may write there;
 * a ring if its owner is the folder's. Nothing on the way through another's /proc/PID/root is
 * followed if it is a link.
 */
#include "agent/agent_inside.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACES_MOST 1024u

static bool place_known(const struct agent *a, const struct stat *st)
{
	for (size_t i = 0; i < a->places.n; i++)
		if (a->places.v[i].fd >= 0 && a->places.v[i].device == st->st_dev &&
		    a->places.v[i].inode == st->st_ino)
			return true;
	return false;
}

/* Takes fd over. */
static void place_add(struct agent *a, int fd, const char *path)
{
	struct stat st;

	if (fd < 0)
		return;
	if (fstat(fd, &st) < 0 || place_known(a, &st) || a->places.n == PLACES_MOST) {
		close(fd);
		return;
	}
	if ((st.st_uid != geteuid() && geteuid() != 0) || (st.st_mode & 022)) {
		a->trouble[TROUBLE_FOREIGN]++;
		close(fd);
		return;
	}
	*vec_push(&a->places) = (struct place){ xstrdup(path), fd, st.st_dev, st.st_ino };
}

static int folder_at(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* All lockstep-* of a /dev/shm. Takes fd over. */
static void shm_look(struct agent *a, int fd, const char *path)
{
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d) {
		cleanup_close(&fd);
		return;
	}
	while ((e = readdir(d))) {
		_cleanup_free_ char *full = NULL;

		if (strncmp(e->d_name, "lockstep-", 9) != 0)
			continue;
		full = xasprintf("%s/%s", path, e->d_name);
		place_add(a, folder_at(dirfd(d), e->d_name), full);
	}
	closedir(d);
}

/* The /dev/shm of containers, as root. */
static void containers_look(struct agent *a)
{
	DIR *d = opendir("/proc");
	VEC(ino_t) seen = { 0 };
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char path[64];
		int root, dev, shm;
		struct stat st;
		bool known = false;

		if (e->d_name[0] < '1' || e->d_name[0] > '9' || strlen(e->d_name) > 10)
			continue;
		snprintf(path, sizeof(path), "/proc/%.10s/ns/mnt", e->d_name);
		if (stat(path, &st) < 0)
			continue;
		for (size_t i = 0; i < seen.n && !known; i++)
			known = seen.v[i] == st.st_ino;
		if (known)
			continue;
		*vec_push(&seen) = st.st_ino;
		snprintf(path, sizeof(path), "/proc/%.10s/root", e->d_name);
		root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		dev = root < 0 ? -1 : folder_at(root, "dev");
		shm = dev < 0 ? -1 : folder_at(dev, "shm");
		cleanup_close(&root);
		cleanup_close(&dev);
		snprintf(path, sizeof(path), "/proc/%.10s/root/dev/shm", e->d_name);
		shm_look(a, shm, path);
	}
	if (d)
		closedir(d);
	free(seen.v);
}

/* Folders that are there by now. */
static void places_look(struct agent *a)
{
	const struct agent_options *o = a->options;
	const char *asked = getenv("LOCKSTEP_DIR");

	for (size_t i = 0; i < o->n_rings; i++)
		place_add(a, open(o->rings[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC), o->rings[i]);
	if (o->n_rings)
		return;
	if (asked && *asked)
		place_add(a, open(asked, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), asked);
	if (geteuid() == 0) {
		containers_look(a);
	} else if (!asked || !*asked) {
		_cleanup_free_ char *own = xasprintf("/dev/shm/lockstep-%u", (unsigned)geteuid());

		place_add(a, open(own, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), own);
	}
}

static bool is_ring(const char *name)
{
	size_t len = strlen(name), suffix = strlen(RING_SUFFIX);

	return len > suffix && !strcmp(name + len - suffix, RING_SUFFIX) && name[0] != '.';
}

static void ring_take(struct agent *a, size_t place, const char *name, const struct stat *st)
{
	struct ring_file *ring;
	struct error error = { "" };
	int status = ring_open(a->places.v[place].fd, name, &ring, &error);
	struct followed *f;

	if (status == -EAGAIN || status == -ENOENT)
		return; /* not yet, or no more */
	f = vec_push(&a->rings);
	*f = (struct followed){
		.place = place,
		.name = xstrdup(name),
		.device = st->st_dev,
		.inode = st->st_ino,
		.pidfd = -1,
		.last_step = -1,
		.next_step = -1,
	};
	if (status < 0) {
		a->trouble[status == -ENOTSUP ? TROUBLE_VERSION : TROUBLE_RING]++;
		a->options->say("%s", error.text);
		return;
	}
	(void)flock(ring->fd, LOCK_SH | LOCK_NB); /* see ring_remove */
	f->live = rank_new(ring, a->scratch);
	state_apply(a, f);
}

static bool ring_known(const struct agent *a, const struct stat *st)
{
	for (size_t i = 0; i < a->rings.n; i++)
		if (a->rings.v[i].device == st->st_dev && a->rings.v[i].inode == st->st_ino)
			return true;
	return false;
}

static void place_scan(struct agent *a, size_t place)
{
	int fd = openat(a->places.v[place].fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	struct stat own;

	if (!d || fstat(fd, &own) < 0) {
		if (d)
			closedir(d);
		return;
	}
	while ((e = readdir(d)) && a->rings.n < AGENT_RINGS_MOST) {
		struct stat st;

		if (!is_ring(e->d_name) || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    ring_known(a, &st))
			continue;
		if (!S_ISREG(st.st_mode) || st.st_uid != own.st_uid)
			a->trouble[TROUBLE_FOREIGN]++;
		else
			ring_take(a, place, e->d_name, &st);
	}
	closedir(d);
}

/* Rings that are left alone are forgotten when their file is gone. */
static void forget_missing(struct agent *a)
{
	size_t n = 0;

	for (size_t i = 0; i < a->rings.n; i++) {
		struct followed *f = &a->rings.v[i];
		struct stat st;

		if (!f->live &&
		    (fstatat(a->places.v[f->place].fd, f->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		     st.st_ino != f->inode))
			free(f->name);
		else
			a->rings.v[n++] = *f;
	}
	a->rings.n = n;
}

void agent_scan(struct agent *a, bool folders)
{
	if (folders) {
		places_look(a);
		forget_missing(a);
	}
	for (size_t i = 0; i < a->places.n; i++)
		place_scan(a, i);
}
