/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect_recorder.c - PyTorch's Flight Recorder, asked through its pipe.
 *
 * With TORCH_NCCL_DEBUG_INFO_PIPE_FILE set every rank has a FIFO; any byte in it makes the rank
 * write a dump and go on. That dump overwrites the one that a time-out may have left, so that one
 * is copied first. Paths are those of the rank's own mount namespace.
 */
#include "node/collect_probes.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DUMP_BYTES_MAX ((uint64_t)256 << 20)
#define DUMP_WAIT_MS   12000
#define DUMP_POLL_MS   100
#define DUMP_QUIET_MS  400 /* unchanged for so long: written */

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

/* A path of the rank's, as we see it. */
static char *rank_path(const struct collect_rank *r, const char *prefix, const char *suffix)
{
	return xasprintf("%s/%d/%s%s%s%" PRId64 "%s", r->proc, (int)r->p->pid,
			 *prefix == '/' ? "root" : "cwd", *prefix == '/' ? "" : "/", prefix,
			 r->p->rank, suffix);
}

/* The dump if it is there: a regular file of the rank's owner, written in the rank's life. */
static int open_dump(const struct collect_rank *r, const char *path, struct stat *st)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);

	if (fd < 0 || fstat(fd, st) < 0 || !S_ISREG(st->st_mode) || st->st_uid != r->p->uid ||
	    (uint64_t)st->st_mtim.tv_sec < r->p->started_ns / 1000000000)
		return -ENOENT;
	return take_fd(&fd);
}

/* Where torch puts it: as set, else as its versions have it. */
static char *dump_path(const struct collect_rank *r, struct stat *st)
{
	_cleanup_free_ char *cache = xasprintf("%s/torch/comm_lib_trace_rank_", r->p->cache);
	_cleanup_free_ char *home = xasprintf("%s/.cache/torch/comm_lib_trace_rank_", r->p->home);
	const char *const prefixes[] = { r->p->dump_prefix, *r->p->cache ? cache : "",
					 *r->p->home ? home : "", "/tmp/nccl_trace_rank_" };

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		char *path;
		int fd;

		if (!*prefixes[i])
			continue;
		path = rank_path(r, prefixes[i], "");
		fd = open_dump(r, path, st);
		if (fd >= 0) {
			close(fd);
			return path;
		}
		free(path);
	}
	return NULL;
}

static int copy_dump(const struct collect_rank *r, const char *path, int to)
{
	struct stat st;
	_cleanup_close_ int from = open_dump(r, path, &st);
	char buf[65536];
	uint64_t total = 0;
	ssize_t n;

	if (from < 0)
		return from;
	while (total < DUMP_BYTES_MAX && (n = read(from, buf, sizeof(buf))) > 0) {
		if (write(to, buf, (size_t)n) != n)
			return -errno;
		total += (uint64_t)n;
	}
	return 0;
}

static int ask(const struct collect_rank *r, struct error *why)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -EBADF;
	struct stat st;

	if (!*r->p->pipe_prefix)
		return error_set(why, -ENOENT,
				 "TORCH_NCCL_DEBUG_INFO_PIPE_FILE is not set in the job");
	path = rank_path(r, r->p->pipe_prefix, ".pipe");
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0)
		return error_set(why, -errno, "%s%" PRId64 ".pipe: %s", r->p->pipe_prefix,
				 r->p->rank, errno == ENXIO ? "nobody reads it" : strerror(errno));
	if (fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode))
		return error_set(why, -ENOENT, "%s%" PRId64 ".pipe is no pipe", r->p->pipe_prefix,
				 r->p->rank);
	if (write(fd, "1", 1) != 1)
		return error_set(why, -errno, "%s", strerror(errno));
	return 0;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Waits for a dump other than `before` that no longer changes; its path, or NULL. */
static char *wait_dump(const struct collect_rank *r, const struct stat *before)
{
	struct stat last = *before, now;
	int quiet = 0;

	for (int ms = 0; ms < DUMP_WAIT_MS; ms += DUMP_POLL_MS) {
		_cleanup_free_ char *path = dump_path(r, &now);

		if (path && now.st_size && !same_file(&now, before)) {
			quiet = same_file(&now, &last) ? quiet + DUMP_POLL_MS : 0;
			last = now;
			if (quiet >= DUMP_QUIET_MS)
				return xstrdup(path);
		}
		sleep_ms(DUMP_POLL_MS);
	}
	return NULL;
}

/* The former dump is kept beside the new one: two moments show what moves. */
static void keep_earlier(const struct collect_rank *r, const char *path)
{
	int to = open(r->earlier, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (to < 0)
		return;
	if (copy_dump(r, path, to) < 0)
		unlink(r->earlier);
	close(to);
}

int probe_flight_recorder(void *user, int fd, struct error *why)
{
	const struct collect_rank *r = user;
	_cleanup_free_ char *former = NULL, *path = NULL;
	struct stat before = { 0 };
	struct error asked = { "" };
	int status;

	if (r->p->rank < 0)
		return error_set(why, -ENOENT, "its rank is not known");
	former = dump_path(r, &before);
	if (*r->p->pipe_prefix && former)
		keep_earlier(r, former);
	status = ask(r, &asked);
	if (status >= 0) {
		path = wait_dump(r, &before);
		if (path)
			return copy_dump(r, path, fd);
		return error_set(why, -ETIMEDOUT,
				 "asked through its pipe, but no dump came in %d s",
				 DUMP_WAIT_MS / 1000);
	}
	if (!former)
		return error_set(why, status, "no dump there, and %s", asked.text);
	unlink(r->earlier);
	status = copy_dump(r, former, fd);
	if (status >= 0)
		error_set(why, 0, "the dump that was there; %s", asked.text);
	return status;
}
