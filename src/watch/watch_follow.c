/* SPDX-License-Identifier: Apache-2.0 */
/* watch_follow.c - following one log; see watch_follow.h. */
#include "watch/watch_follow.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAMES_MOST	10000u /* of a folder, looked through for a file that was moved */
#define TRACEBACK_NEAR	((size_t)16 << 10)
#define TRACEBACK_FRESH 3000 /* ms */
#define PARTIAL_MS	(10 * 60000)

void follow_init(struct follow *f, const char *path)
{
	*f = (struct follow){ .path = xstrdup(path), .fd = -1 };
}

void follow_done(struct follow *f)
{
	cleanup_close(&f->fd);
	free(f->path);
	*f = (struct follow){ .fd = -1 };
}

static int64_t age_ms(const struct stat *st)
{
	struct timespec now;
	int64_t age;

	clock_gettime(CLOCK_REALTIME, &now);
	age = ((int64_t)now.tv_sec - st->st_mtim.tv_sec) * 1000 +
	      (now.tv_nsec - st->st_mtim.tv_nsec) / 1000000;
	return MAX(age, 0);
}

/* Behind the last end of a line; 0: there is none. */
static size_t whole_lines(const char *p, size_t len)
{
	const char *lf = memrchr(p, '\n', len), *cr;
	size_t at = lf ? (size_t)(lf - p) + 1 : 0;

	cr = memrchr(p + at, '\r', len - at);
	return cr ? (size_t)(cr - p) + 1 : at;
}

static void print_take(struct follow *f, int fd)
{
	size_t n = MIN((uint64_t)FOLLOW_PRINT, f->offset);
	ssize_t got = pread(fd, f->print, n, (off_t)(f->offset - n));

	f->n_print = got == (ssize_t)n ? (uint32_t)n : 0;
}

/* Does the text before the cursor still stand there? */
static bool print_same(const struct follow *f, int fd)
{
	uint8_t now[FOLLOW_PRINT];
	ssize_t got;

	if (!f->n_print)
		return true;
	got = pread(fd, now, f->n_print, (off_t)(f->offset - f->n_print));
	return got == (ssize_t)f->n_print && !memcmp(now, f->print, f->n_print);
}

/* A traceback that is being written: its exception is its last line, so it waits a moment. */
static size_t hold_traceback(struct follow *f, const char *p, size_t len, int64_t age)
{
	static const char word[] = "Traceback (most recent call last)";
	size_t from = len > TRACEBACK_NEAR ? len - TRACEBACK_NEAR : 0;
	const char *at = NULL, *next = p + from;

	if (age > TRACEBACK_FRESH)
		return len;
	while ((next = memmem(next, len - (size_t)(next - p), word, sizeof(word) - 1)))
		at = next++;
	if (!at)
		return len;
	while (at > p && at[-1] != '\n')
		at--;
	if (f->held == f->offset + (uint64_t)(at - p) + 1)
		return len;
	f->held = f->offset + (uint64_t)(at - p) + 1;
	return (size_t)(at - p);
}

/* How much of p[0..len) is to be given now; *ret_skip: to be dropped before it. */
static size_t cut(struct follow *f, const char *p, size_t len, bool full, int64_t age,
		  bool *ret_long)
{
	size_t whole = whole_lines(p, len);

	*ret_long = false;
	if (whole)
		return whole;
	if (full) {
		*ret_long = true;
		return len;
	}
	if (len && f->partial == len && age > PARTIAL_MS) /* a last word without its end */
		return len;
	f->partial = len;
	return 0;
}

static void drop_line(struct follow *f, const char *p, size_t len, size_t *skip)
{
	const char *eol = memchr(p, '\n', len);

	*skip = eol ? (size_t)(eol - p) + 1 : len;
	f->dropping = !eol;
	f->dropped += *skip;
}

/* From the cursor to the end of fd. final: nothing will be added to it. */
static int read_on(struct follow *f, int fd, bool final, bool history, follow_fn fn, void *user)
{
	size_t size = history ? FOLLOW_HISTORY + 1 : FOLLOW_PIECE, given = 0;
	_cleanup_free_ char *buf = NULL;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size <= f->offset)
		return 0;
	size = (size_t)MIN((uint64_t)size, (uint64_t)st.st_size - f->offset);
	buf = xmalloc(size);
	while (given < FOLLOW_BUDGET) {
		ssize_t n = pread(fd, buf, size, (off_t)f->offset);
		size_t skip = 0, len, held;
		bool too_long;

		if (n < 0)
			return -errno;
		if (!n)
			break;
		if (f->dropping)
			drop_line(f, buf, (size_t)n, &skip);
		len = cut(f, buf + skip, (size_t)n - skip, (size_t)n >= FOLLOW_PIECE, age_ms(&st),
			  &too_long);
		if (final && !len)
			len = (size_t)n - skip;
		held = final || too_long ? len : hold_traceback(f, buf + skip, len, age_ms(&st));
		if (held)
			fn(user, buf + skip, held, history, age_ms(&st));
		f->dropping |= too_long;
		f->offset += skip + held;
		given += skip + held;
		if (held)
			f->partial = 0;
		if (held < len)
			return 1;
		if (!skip && !held)
			break;
	}
	return given >= FOLLOW_BUDGET;
}

/* The file with this inode under another name of the folder: app.log.1 */
static int open_moved(const struct follow *f)
{
	const char *slash = strrchr(f->path, '/');
	_cleanup_free_ char *folder =
	    slash ? xasprintf("%.*s", (int)(slash - f->path) + 1, f->path) : xstrdup("./");
	DIR *d = opendir(folder);
	const struct dirent *e;
	int fd = -1;

	for (unsigned n = 0; d && fd < 0 && n < NAMES_MOST && (e = readdir(d)); n++)
		if (e->d_ino == f->ino)
			fd = openat(dirfd(d), e->d_name,
				    O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);
	if (d)
		closedir(d);
	return fd;
}

/* The file was moved away: its end is read, and the one in its place from its beginning. */
static void finish_old(struct follow *f, follow_fn fn, void *user)
{
	_cleanup_close_ int moved = -1;
	struct stat st;
	int fd = f->fd;

	if (fd < 0) {
		moved = open_moved(f);
		fd = moved;
	}
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == f->ino &&
	    print_same(f, fd))
		while (read_on(f, fd, true, false, fn, user) == 1)
			;
	cleanup_close(&f->fd);
	f->fd = -1;
	f->offset = f->partial = f->held = 0;
	f->n_print = 0;
	f->dropping = false;
	f->rotations++;
}

static void first_look(struct follow *f, int fd, const struct stat *st)
{
	char c = '\n';

	if ((uint64_t)st->st_size <= FOLLOW_HISTORY)
		return;
	f->offset = (uint64_t)st->st_size - FOLLOW_HISTORY;
	f->dropping = pread(fd, &c, 1, (off_t)f->offset - 1) == 1 && c != '\n';
}

int follow_look(struct follow *f, follow_fn fn, void *user, struct error *reterr)
{
	bool history = !f->known;
	struct stat st;
	int fd, r;

	fd = open(f->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0) {
		r = -errno;
		cleanup_close(&fd);
		if (r == -ENOENT && f->fd >= 0) /* moved away: who writes it may go on */
			read_on(f, f->fd, false, false, fn, user);
		return error_set(reterr, r, "%s: %s", f->path, strerror(-r));
	}
	if (!S_ISREG(st.st_mode)) {
		cleanup_close(&fd);
		return error_set(reterr, -ENOTSUP, "%s: no regular file", f->path);
	}
	if (f->known && (f->dev != (uint64_t)st.st_dev || f->ino != (uint64_t)st.st_ino))
		finish_old(f, fn, user);
	else if (f->known && ((uint64_t)st.st_size < f->offset || !print_same(f, fd))) {
		f->offset = f->partial = f->held = 0; /* truncated, or written anew */
		f->dropping = false;
		f->rotations++;
	}
	if (history)
		first_look(f, fd, &st);
	f->known = true;
	f->dev = (uint64_t)st.st_dev;
	f->ino = (uint64_t)st.st_ino;
	r = read_on(f, fd, false, history, fn, user);
	print_take(f, fd);
	cleanup_close(&f->fd);
	f->fd = fd;
	return r < 0 ? error_set(reterr, r, "%s: %s", f->path, strerror(-r)) : r;
}
