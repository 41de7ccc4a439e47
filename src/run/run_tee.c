/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_tee.c - CMD's output: passed on byte for byte, and kept.
 *
 * Where ours is a terminal CMD gets a terminal too, one that leaves its bytes as they are. Where
 * standard output and error are one file they stay one, in order; else the log gets whole lines of
 * each. A reader that does not read holds CMD back, as it would without us; signals and looks at
 * the job go on meanwhile.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "run/run_inside.h"

#define LINE_MOST ((size_t)64 << 10) /* of a begun line, before the log gets it in pieces */

static bool same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

static int open_terminal(int like, int *ret_master, int *ret_slave)
{
	char name[128];
	struct termios t;
	struct winsize size;
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave;

	if (master < 0)
		return -errno;
	if (grantpt(master) < 0 || unlockpt(master) < 0 ||
	    ptsname_r(master, name, sizeof(name)) != 0 ||
	    (slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0) {
		close(master);
		return -EIO;
	}
	if (tcgetattr(slave, &t) == 0) {
		t.c_oflag &= ~(tcflag_t)OPOST;
		tcsetattr(slave, TCSANOW, &t);
	}
	if (ioctl(like, TIOCGWINSZ, &size) == 0)
		ioctl(slave, TIOCSWINSZ, &size);
	*ret_master = master;
	*ret_slave = slave;
	return 0;
}

static int open_stream(struct tee *t, int to)
{
	struct stream *s = &t->streams[t->n];
	int ends[2] = { -1, -1 };

	*s = (struct stream){ .to = to };
	if (!isatty(to) || open_terminal(to, &ends[0], &ends[1]) < 0) {
		if (pipe2(ends, O_CLOEXEC) < 0)
			return -errno;
		fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
	} else {
		t->masters[t->n] = ends[0];
	}
	s->from = ends[0];
	fcntl(s->from, F_SETFL, O_NONBLOCK);
	s->held = xmalloc(TEE_HELD);
	t->slaves[to] = ends[1];
	t->n++;
	return 0;
}

int tee_open(struct tee *t, const char *log, struct error *reterr)
{
	*t = (struct tee){ .log = -1, .slaves = { -1, -1, -1 }, .masters = { -1, -1 } };
	t->log = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (t->log < 0)
		return error_set(reterr, -errno, "%s: %s", log, strerror(errno));
	if (open_stream(t, STDOUT_FILENO) < 0)
		return error_set(reterr, -errno, "no pipe: %s", strerror(errno));
	if (same_file(STDOUT_FILENO, STDERR_FILENO))
		t->slaves[STDERR_FILENO] = t->slaves[STDOUT_FILENO];
	else if (open_stream(t, STDERR_FILENO) < 0)
		return error_set(reterr, -errno, "no pipe: %s", strerror(errno));
	return 0;
}

void tee_child(struct tee *t)
{
	dup2(t->slaves[STDOUT_FILENO], STDOUT_FILENO);
	dup2(t->slaves[STDERR_FILENO], STDERR_FILENO);
}

void tee_parent(struct tee *t)
{
	if (t->slaves[STDERR_FILENO] != t->slaves[STDOUT_FILENO])
		close(t->slaves[STDERR_FILENO]);
	close(t->slaves[STDOUT_FILENO]);
}

void tee_resize(const struct tee *t)
{
	struct winsize size;

	for (unsigned i = 0; i < t->n; i++)
		if (t->masters[i] >= 0 && ioctl(t->streams[i].to, TIOCGWINSZ, &size) == 0)
			ioctl(t->masters[i], TIOCSWINSZ, &size);
}

static void keep(struct tee *t, const void *p, size_t len)
{
	const uint8_t *at = p;

	while (len) {
		ssize_t n = write(t->log, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) { /* a full disk must not end the job */
			t->trouble = n < 0 ? errno : EIO;
			return;
		}
		at += n;
		len -= (size_t)n;
	}
}

static void log_lines(struct tee *t, struct stream *s, const uint8_t *p, size_t len)
{
	const uint8_t *end = t->n < 2 ? p + len : memrchr(p, '\n', len);
	size_t whole = !end ? 0 : t->n < 2 ? len : (size_t)(end - p) + 1;

	if (whole) {
		keep(t, s->line.data, s->line.len);
		keep(t, p, whole);
		s->line.len = 0;
	}
	buf_put(&s->line, p + whole, len - whole);
	if (s->line.len >= LINE_MOST) {
		keep(t, s->line.data, s->line.len);
		s->line.len = 0;
	}
}

void tee_flush(struct tee *t)
{
	for (unsigned i = 0; i < t->n; i++) {
		keep(t, t->streams[i].line.data, t->streams[i].line.len);
		t->streams[i].line.len = 0;
	}
}

bool tee_read(struct tee *t, struct stream *s, struct progress *p)
{
	ssize_t n = read(s->from, s->held, TEE_HELD);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return false;
	if (n <= 0) { /* a terminal's end is EIO */
		s->ended = true;
		return false;
	}
	s->held_at = 0;
	s->held_n = (size_t)n;
	t->bytes += (uint64_t)n;
	log_lines(t, s, s->held, s->held_n);
	tee_words(s, p, s->held, s->held_n, clock_ms());
	return true;
}

/* No more than can be written without waiting: a pipe has that much room when it says so. */
void tee_write(struct stream *s)
{
	struct pollfd ready = { s->to, POLLOUT, 0 };

	while (s->held_n) {
		size_t len = MIN(s->held_n, (size_t)4096);
		ssize_t n;

		if (s->deaf) {
			s->held_n = 0;
			return;
		}
		if (poll(&ready, 1, 0) < 1)
			return;
		n = write(s->to, s->held + s->held_at, len);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			return;
		if (n < 0) {
			s->deaf = true;
			continue;
		}
		s->held_at += (size_t)n;
		s->held_n -= (size_t)n;
	}
}

void tee_close(struct tee *t)
{
	tee_flush(t);
	for (unsigned i = 0; i < t->n; i++) {
		close(t->streams[i].from);
		free(t->streams[i].held);
		buf_done(&t->streams[i].line);
	}
	if (t->log >= 0)
		close(t->log);
	*t = (struct tee){ .log = -1 };
}
