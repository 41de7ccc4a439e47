/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert_journal.c - append, sync, rename.
 *
 * Invariant: nothing is appended behind a torn line. After a failed write the file counts as not
 * whole, and the next change writes all of it anew.
 */
#include "alert/alert_journal.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "alerts.log"

/* Failures that concern writing, and may pass. */
static bool may_pass(int code)
{
	static const int codes[] = { EROFS, ENOSPC, EDQUOT, EACCES, EPERM, EIO,
				     EFBIG, EMFILE, ENFILE, ESTALE, ENOLCK };

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (code == -codes[i])
			return true;
	return false;
}

static int failed(const struct journal *j, const char *what, struct error *reterr)
{
	int code = errno ? errno : EIO;

	return error_set(reterr, -code,
			 "%.300s: %s: %s; alerts are in memory only, and a restart would lose them",
			 j->folder, what, strerror(code));
}

static int folder_make(const struct journal *j, struct error *reterr)
{
	struct stat st;

	if (mkdir(j->folder, 0700) < 0 && errno != EEXIST) {
		if (may_pass(-errno))
			return failed(j, "cannot be made", reterr);
		return error_set(reterr, -errno, "state folder %.300s: %s", j->folder,
				 strerror(errno));
	}
	if (stat(j->folder, &st) < 0 || !S_ISDIR(st.st_mode))
		return error_set(reterr, -ENOTDIR, "state folder %.300s: it is no folder",
				 j->folder);
	if (st.st_uid != geteuid() || st.st_mode & 0022)
		return error_set(reterr, -ENOTSUP,
				 "state folder %.300s: others may write to it, or own it; give a "
				 "folder of mode 0700",
				 j->folder);
	return 0;
}

static char *path_of(const struct journal *j, const char *suffix)
{
	return xasprintf("%s/" FILE_NAME "%s", j->folder, suffix);
}

static int lock(struct journal *j, struct error *reterr)
{
	_cleanup_free_ char *path = path_of(j, ".lock");

	if (j->lock >= 0)
		return 0;
	j->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (j->lock < 0)
		return failed(j, "cannot be written", reterr);
	if (flock(j->lock, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
		cleanup_close(&j->lock);
		j->lock = -EBADF;
		return error_set(reterr, -EBUSY, "state folder %.300s: another watcher works in it",
				 j->folder);
	}
	return 0;
}

/* What lies there. No file is an empty one. */
static int read_file(struct journal *j, struct ledger *l, struct error *reterr)
{
	_cleanup_free_ char *path = path_of(j, "");
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct buf all = { 0 };
	struct stat st;
	ssize_t n = 0;

	if (fd < 0 && errno != ENOENT)
		return error_set(reterr, -errno, "%.400s: %s", path, strerror(errno));
	if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
		return error_set(reterr, -EINVAL, "%.400s: no regular file", path);
	while (fd >= 0 && all.len < JOURNAL_BYTES_MOST) {
		buf_widen(&all, 65536);
		n = read(fd, all.data + all.len, 65536);
		if (n <= 0)
			break;
		all.len += (size_t)n;
	}
	if (n < 0) {
		buf_done(&all);
		return error_set(reterr, -errno, "%.400s: %s", path, strerror(errno));
	}
	ledger_read(l, all.data, all.len);
	if (all.len >= JOURNAL_BYTES_MOST)
		l->damaged++;
	buf_done(&all);
	j->read = true;
	return 0;
}

int journal_open(struct journal *j, const char *folder, struct ledger *l, struct error *reterr)
{
	int r, writable;

	*j = (struct journal){ .folder = xstrdup(folder), .lock = -EBADF, .file = -EBADF };
	r = folder_make(j, reterr);
	if (r < 0)
		return may_pass(r) ? 1 : r;
	writable = lock(j, reterr);
	if (writable < 0 && !may_pass(writable))
		return writable;
	r = read_file(j, l, reterr);
	return r < 0 ? r : writable < 0 ? 1 : 0;
}

static int write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n == 0 ? ENOSPC : errno;
			return -1;
		}
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

/* A file that nobody read, since the folder could not be reached before, is not written over. */
static int set_aside(const struct journal *j, const char *path)
{
	_cleanup_free_ char *aside = path_of(j, ".before");

	return j->read || rename(path, aside) == 0 || errno == ENOENT ? 0 : -1;
}

static bool no_room(int code)
{
	return code == ENOSPC || code == EDQUOT;
}

/* Only where there is room for it. */
static void reserve_make(const struct journal *j)
{
	_cleanup_free_ char *path = path_of(j, ".reserve");
	_cleanup_close_ int fd =
	    open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

	if (fd >= 0 && posix_fallocate(fd, 0, JOURNAL_RESERVE) != 0)
		unlink(path);
}

/* True: there was one, and it is worth another try. */
static bool reserve_spend(const struct journal *j)
{
	_cleanup_free_ char *path = path_of(j, ".reserve");
	int code = errno;
	bool was = unlink(path) == 0;

	errno = code;
	return was;
}

static int put_anew(struct journal *j, const struct buf *all, int *ret)
{
	_cleanup_free_ char *path = path_of(j, ""), *beside = path_of(j, ".new");
	_cleanup_close_ int fd = -EBADF, folder = -EBADF;

	unlink(beside);
	fd = open(beside, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND | O_NOFOLLOW, 0600);
	if (fd < 0 || write_all(fd, all->data, all->len) < 0 || fsync(fd) < 0 ||
	    set_aside(j, path) < 0 || rename(beside, path) < 0) {
		int code = errno;

		if (fd >= 0)
			unlink(beside);
		errno = code;
		return -1;
	}
	folder = open(j->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder >= 0)
		fsync(folder); /* not all file systems have it for folders */
	*ret = take_fd(&fd);
	return 0;
}

int journal_rewrite(struct journal *j, const struct ledger *l, struct error *reterr)
{
	struct buf all = { 0 };
	int fd, r;

	r = folder_make(j, reterr);
	if (r >= 0)
		r = lock(j, reterr);
	if (r < 0)
		return r;
	ledger_put_all(l, &all);
	r = put_anew(j, &all, &fd);
	if (r < 0 && no_room(errno) && reserve_spend(j))
		r = put_anew(j, &all, &fd);
	if (r < 0) {
		r = failed(j, "cannot be written", reterr);
	} else {
		cleanup_close(&j->file);
		j->file = fd;
		j->bytes = j->bytes_anew = all.len;
		j->whole = j->read = true;
		reserve_make(j);
	}
	buf_done(&all);
	return r;
}

int journal_append(struct journal *j, const struct ledger *l, const struct buf *lines,
		   struct error *reterr)
{
	if (!j->whole)
		return journal_rewrite(j, l, reterr);
	if (j->bytes > 2 * j->bytes_anew + JOURNAL_ROOM && journal_rewrite(j, l, NULL) >= 0)
		return 0; /* otherwise there may still be room for the lines */
	if (write_all(j->file, lines->data, lines->len) < 0 || fdatasync(j->file) < 0) {
		int code = errno;

		j->whole = false;
		if (no_room(code))
			return journal_rewrite(j, l, reterr);
		errno = code;
		return failed(j, "cannot be written", reterr);
	}
	j->bytes += lines->len;
	return 0;
}

void journal_close(struct journal *j)
{
	cleanup_close(&j->file);
	cleanup_close(&j->lock);
	free(j->folder);
	*j = (struct journal){ .lock = -EBADF, .file = -EBADF };
}
