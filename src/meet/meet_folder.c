/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet_folder.c - the folder of a meeting, and what a node does there that does not judge.
 *
 * Every file is written under a name that nobody reads, synced, and renamed; the folder is opened
 * anew for every look. Nothing is asked of the file system that NFS would not keep.
 */
#include "meet/meet_folder.h"
#include "base/clock.h"
#include "meet/meet_wire.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define SLICE_MS       200 /* between looks at the stop flag */
#define LOOK_PART      24  /* of the time left, at most */
#define CLOCK_TRIES    3
#define CLOCK_GRAIN_NS 10000000 /* of file times: the kernel's tick */
#define VERDICT_FILE_MOST                                                                          \
	(MEET_VERDICT_MOST + MEET_FILE_SMALL + 2 * (size_t)MEET_NODES_MOST * INSTANCE_BYTES)
#define ENTRIES_MOST 65536u

int64_t place_pulse_ms(const struct meet_plan *plan)
{
	return PULSE_MS + (int64_t)plan->nodes / 2;
}

int place_open_dir(const struct meet_place *p)
{
	int fd = open(p->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int write_all(int fd, const uint8_t *p, size_t len)
{
	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			p += n;
			len -= (size_t)n;
		}
	}
	return fsync(fd) < 0 ? -errno : 0;
}

static void temp_name(const struct meet_place *p, char ret[FILE_NAME_MOST])
{
	snprintf(ret, FILE_NAME_MOST, ".tmp-%s", p->part_file + strlen(FILE_PART_PREFIX));
}

int place_write(const struct meet_place *p, const char *name, const struct buf *text)
{
	_cleanup_close_ int dir = place_open_dir(p), fd = -EBADF;
	char temp[FILE_NAME_MOST];
	int r;

	if (dir < 0)
		return dir;
	temp_name(p, temp);
	unlinkat(dir, temp, 0);
	fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = write_all(fd, text->data, text->len);
	if (r >= 0 && renameat(dir, temp, dir, name) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dir, temp, 0);
	else
		fsync(dir);
	return r;
}

int place_open_file(int dir, const char *name, size_t most, struct stat *ret_st)
{
	_cleanup_close_ int fd =
	    openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ELOOP;
	if (st.st_uid != geteuid())
		return -EPERM;
	if (st.st_size < 0 || (uint64_t)st.st_size > most)
		return -EFBIG;
	*ret_st = st;
	return take_fd(&fd);
}

int place_read_file(int fd, size_t size, struct buf *ret_text)
{
	struct buf b = { 0 };
	ssize_t n = 1;

	buf_widen(&b, size + 1);
	while (b.len < size && n > 0) {
		n = read(fd, b.data + b.len, size - b.len);
		b.len += n > 0 ? (size_t)n : 0;
	}
	if (n < 0) {
		n = -errno;
		buf_done(&b);
		return (int)n;
	}
	*ret_text = b;
	return 0;
}

int place_read(int dir, const char *name, size_t most, struct buf *ret_text)
{
	struct stat st = { 0 };
	_cleanup_close_ int fd = place_open_file(dir, name, most, &st);

	return fd < 0 ? fd : place_read_file(fd, (size_t)st.st_size, ret_text);
}

void place_remove(const struct meet_place *p, const char *name)
{
	_cleanup_close_ int dir = place_open_dir(p);

	if (dir >= 0)
		unlinkat(dir, name, 0);
}

void place_pause(struct meet_place *p, bool moved, int64_t until_ms)
{
	int64_t now = clock_ms(), left = p->m->until_ms - now, pause;

	p->pause_ms = moved || !p->pause_ms ? LOOK_FIRST_MS
					    : MIN(p->pause_ms + p->pause_ms / 2, LOOK_MOST_MS);
	pause = MIN(p->pause_ms, MAX(left / LOOK_PART, LOOK_FIRST_MS));
	until_ms = MIN(until_ms, now + pause);
	while ((left = until_ms - clock_ms()) > 0 && !meet_stopped(p->m))
		poll(NULL, 0, (int)MIN(left, SLICE_MS));
}

/* --- the folder itself --- */

/* Readable where it can be, and apart from every other job by the digest. */
static char *folder_name(const struct meet_plan *plan)
{
	uint8_t digest[DIGEST_BYTES];
	char hex[DIGEST_HEX], word[49] = "";
	struct digest *d;

	for (size_t i = 0; plan->job[i] && i + 1 < sizeof(word); i++)
		word[i] = plan->job[i] > 0 && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqr"
						     "stuvwxyz0123456789._-",
						     plan->job[i])
			      ? plan->job[i]
			      : '_';
	if (digest_open(NULL, 0, &d, NULL) < 0)
		abort(); /* it was tried before */
	digest_add(d, plan->job, strlen(plan->job));
	digest_end(d, digest);
	digest_hex(digest, hex);
	return xasprintf("%s/lockstep-meeting-%s-%.16s", plan->folder, word, hex);
}

static int folder_make(const struct meet_place *p, struct error *reterr)
{
	struct stat st;

	if (mkdir(p->path, 0700) < 0 && errno != EEXIST)
		return error_set(reterr, -errno, "%s: %s%s", p->path, strerror(errno),
				 errno == ENOENT ? "; is the folder there on this node?" : "");
	if (lstat(p->path, &st) < 0)
		return error_set(reterr, -errno, "%s: %s", p->path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return error_set(reterr, -ENOTDIR, "%s is no folder: take it away", p->path);
	if (st.st_uid != geteuid())
		return error_set(reterr, -EPERM, "%s belongs to user %u, not to us (%u)", p->path,
				 st.st_uid, geteuid());
	if (st.st_mode & 022)
		return error_set(reterr, -EPERM, "others can write in %s (mode %03o): chmod 700 it",
				 p->path, st.st_mode & 0777);
	return 0;
}

/* Our clock when a byte of ours was written, against the time that the folder gave it. */
static void clock_look(struct meet_place *p)
{
	_cleanup_close_ int dir = place_open_dir(p), fd = -EBADF;
	char temp[FILE_NAME_MOST];
	struct stat st;

	p->clock_ns = p->clock_doubt_ns = INT64_MIN;
	temp_name(p, temp);
	if (dir >= 0)
		fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	for (int i = 0; i < CLOCK_TRIES && fd >= 0; i++) {
		int64_t before = meet_clock_ns(p->m->plan), after, doubt, file;

		if (pwrite(fd, "t", 1, i) != 1 || fsync(fd) < 0 || fstat(fd, &st) < 0)
			break;
		after = meet_clock_ns(p->m->plan);
		file = timespec_ns(st.st_mtim);
		doubt = (after - before) / 2 + (st.st_mtim.tv_nsec ? CLOCK_GRAIN_NS : 1000000000);
		if (p->clock_doubt_ns == INT64_MIN || doubt < p->clock_doubt_ns) {
			p->clock_doubt_ns = doubt;
			p->clock_ns = before + (after - before) / 2 - file;
		}
	}
	if (fd >= 0)
		unlinkat(dir, temp, 0);
}

int meet_folder(struct meeting *m, struct buf *ret_verdict, struct error *reterr)
{
	struct meet_place p = { .m = m, .why = "node 0 has not called" };
	char hex[DIGEST_HEX];
	uint8_t wide[DIGEST_BYTES] = { 0 };
	int r = wire_usable(reterr);

	if (r < 0)
		return r;
	memcpy(wide, m->instance, INSTANCE_BYTES);
	digest_hex(wide, hex);
	snprintf(p.part_file, sizeof(p.part_file), FILE_PART_PREFIX "%u-%.*s", m->plan->node,
		 (int)(2 * INSTANCE_BYTES), hex);
	p.path = folder_name(m->plan);
	r = folder_make(&p, reterr);
	if (r >= 0) {
		clock_look(&p);
		r = m->plan->node ? place_wait(&p, ret_verdict, reterr)
				  : place_judge(&p, ret_verdict, reterr);
	}
	free(p.path);
	return r;
}

/* --- as a node --- */

static int give_part(struct meet_place *p)
{
	struct meet_file f = { .kind = FILE_PART,
			       .clock_ns = p->clock_ns,
			       .clock_doubt_ns = p->clock_doubt_ns,
			       .bytes = p->m->part,
			       .len = p->m->part_len };
	struct buf b = { 0 };
	int r;

	memcpy(f.instance, p->m->instance, INSTANCE_BYTES);
	memcpy(f.call, p->call, INSTANCE_BYTES);
	meet_file_put(&b, p->m, &f);
	r = place_write(p, p->part_file, &b);
	buf_done(&b);
	p->answered = r >= 0;
	p->pulse_ms = clock_ms() + place_pulse_ms(p->m->plan);
	return r;
}

/* A new call is answered. 1: it was, 0: there is none, or an error of writing. */
static int look_for_call(struct meet_place *p, int dir)
{
	struct buf text = { 0 };
	struct meet_file f = { 0 };
	int r = place_read(dir, FILE_CALL_NAME, MEET_FILE_SMALL, &text);

	if (r == -ENOENT)
		return 0;
	if (r >= 0)
		r = meet_file_get(p->m, text.data, text.len, &f);
	if (r < 0 || f.kind != FILE_CALL || f.job_len != strlen(p->m->plan->job) ||
	    memcmp(f.job, p->m->plan->job, f.job_len) != 0) {
		snprintf(p->why, sizeof(p->why), "its file %s cannot be used: %s", FILE_CALL_NAME,
			 r == -EACCES		 ? "it is of another secret"
			 : r == -EPROTONOSUPPORT ? "it is of another version of lockstep"
			 : r == -EPERM		 ? "it belongs to another user"
			 : r < 0		 ? strerror(-r)
						 : "it is of another job");
		buf_done(&text);
		return 0;
	}
	if (!p->answered || memcmp(f.call, p->call, INSTANCE_BYTES) != 0) {
		memcpy(p->call, f.call, INSTANCE_BYTES);
		snprintf(p->why, sizeof(p->why), "%.*s called, and gave no verdict",
			 (int)f.name_len, f.name);
		r = give_part(p);
		r = r < 0 ? r : 1;
	}
	buf_done(&text);
	return r;
}

/* One that is not for us is not read again and again: it may be large, and of an earlier attempt.
 */
static bool look_for_verdict(struct meet_place *p, int dir, struct buf *ret_verdict)
{
	struct buf text = { 0 };
	struct meet_file f = { 0 };
	struct stat st = { 0 };
	_cleanup_close_ int fd = place_open_file(dir, FILE_VERDICT_NAME, VERDICT_FILE_MOST, &st);
	bool ours = false;
	int r = fd;

	if (fd >= 0 && st.st_ino == p->seen.st_ino && st.st_size == p->seen.st_size &&
	    !memcmp(&st.st_mtim, &p->seen.st_mtim, sizeof(st.st_mtim)) &&
	    !memcmp(p->seen_call, p->call, INSTANCE_BYTES))
		return false;
	if (r >= 0)
		r = place_read_file(fd, (size_t)st.st_size, &text);
	if (r >= 0)
		r = meet_file_get(p->m, text.data, text.len, &f);
	if (r >= 0 && f.kind == FILE_VERDICT && !memcmp(f.call, p->call, INSTANCE_BYTES)) {
		ours = meet_file_lists(&f, p->m->instance);
		snprintf(p->why, sizeof(p->why), "the verdict was made without us");
	}
	if (ours)
		buf_put(ret_verdict, f.bytes, f.len);
	if (fd >= 0) {
		p->seen = st;
		memcpy(p->seen_call, p->call, INSTANCE_BYTES);
	}
	buf_done(&text);
	return ours;
}

/* Our file's time is set anew, by the server's clock: we are here yet. */
static void pulse(struct meet_place *p, int dir)
{
	if (clock_ms() < p->pulse_ms)
		return;
	utimensat(dir, p->part_file, NULL, AT_SYMLINK_NOFOLLOW);
	p->pulse_ms = clock_ms() + place_pulse_ms(p->m->plan);
}

/* Who has left no file here, as far as a node can tell from names. */
static char *missing_here(struct meet_place *p)
{
	int fd = place_open_dir(p);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct roster r;
	struct dirent *e;
	unsigned looked = 0;
	char *text;

	roster_open(&r, p->m->plan);
	while (dir && looked++ < ENTRIES_MOST && (e = readdir(dir))) {
		unsigned node;

		if (sscanf(e->d_name, FILE_PART_PREFIX "%u-", &node) == 1 && node < r.nodes)
			roster_seat(&r, node, NULL, NULL, NULL, 0, 0);
		if (!strcmp(e->d_name, FILE_CALL_NAME))
			roster_seat(&r, 0, NULL, NULL, NULL, 0, 0);
	}
	roster_seat(&r, p->m->plan->node, NULL, NULL, NULL, 0, 0);
	text = roster_missing(&r, 160);
	roster_done(&r);
	if (dir)
		closedir(dir);
	return text;
}

static int give_up(struct meet_place *p, struct error *reterr)
{
	const struct meet_plan *plan = p->m->plan;
	_cleanup_free_ char *missing = missing_here(p);

	if (meet_stopped(p->m))
		return error_set(reterr, -EINTR, "the meeting in %.200s was stopped", plan->folder);
	return error_set(reterr, -ETIMEDOUT,
			 "no verdict in %.120s within %u ms, as node %u: %.120s%s%.160s", p->path,
			 plan->limit_ms ? plan->limit_ms : MEET_LIMIT_MS, plan->node, p->why,
			 *missing ? "; no file of: " : "", missing);
}

/* Can writing succeed later? The folder was taken away under us, or its server was started anew. */
static bool passes(int r)
{
	return r == -ENOENT || r == -ESTALE || r == -EINTR || r == -ETIMEDOUT;
}

int place_wait(struct meet_place *p, struct buf *ret_verdict, struct error *reterr)
{
	while (clock_ms() < p->m->until_ms && !meet_stopped(p->m)) {
		int dir = place_open_dir(p), r = 0;

		if (dir == -ENOENT)
			mkdir(p->path, 0700);
		if (dir >= 0)
			r = look_for_call(p, dir);
		if (r < 0 && !passes(r)) {
			close(dir);
			return error_set(reterr, r, "%s/%s: %s", p->path, p->part_file,
					 strerror(-r));
		}
		if (dir >= 0 && p->answered && look_for_verdict(p, dir, ret_verdict)) {
			unlinkat(dir, p->part_file, 0); /* which tells node 0 that we have it */
			close(dir);
			return 0;
		}
		if (dir >= 0 && p->answered)
			pulse(p, dir);
		cleanup_close(&dir);
		place_pause(p, r > 0, p->m->until_ms);
	}
	place_remove(p, p->part_file);
	rmdir(p->path);
	return give_up(p, reterr);
}
