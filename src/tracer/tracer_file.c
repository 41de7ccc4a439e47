/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracer_file.c - the ring's file: made once, whole, in a folder that is nobody else's.
 *
 * All of its room is taken before the first byte is written, and only where much stays free: the
 * job needs /dev/shm more than we do. A file that could not be made whole is removed again.
 *
 * Whoever cuts a mapped file short ends the process that writes into it (SIGBUS), and an ordinary
 * file cannot be sealed. So nobody may open this one to write: its mode is 0400, which its maker's
 * own descriptor outlives. Who overrides modes, root, could as well have sent a signal.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include "tracer/core.h"
#include "tracer/tracer_libc.h"

#define PATH_MOST  512
#define NAMES_MOST 64 /* rings that a process may leave, one an exec */

void ring_place(struct ring_place *ret)
{
	uint64_t at = (sizeof(struct ring_header) + 4095) & ~UINT64_C(4095);

	ret->slots_at = at;
	at += RING_SLOTS * sizeof(struct ring_slot);
	ret->pending_at = at;
	at += RING_PENDING * sizeof(struct ring_pending);
	ret->names_at = at;
	at = (at + RING_NAME_BYTES + 4095) & ~UINT64_C(4095);
	ret->rings_at = at;
	at +=
	    (RING_KERNELS + (uint64_t)(RING_SLOTS - 1) * RING_RECORDS) * sizeof(struct ring_record);
	ret->bytes = (at + 4095) & ~UINT64_C(4095);
}

/* The folder of this user's rings, made where there is none. */
static bool folder_path(char *path)
{
	const char *asked = getenv("LOCKSTEP_DIR");
	struct text t = text_in(path, PATH_MOST);
	size_t len;

	if (asked && *asked) {
		text_add(&t, asked);
	} else {
		text_add(&t, "/dev/shm/lockstep-");
		text_number(&t, geteuid());
	}
	len = strlen(path);
	while (len > 1 && path[len - 1] == '/')
		path[--len] = 0; /* a link with a slash behind it would be followed */
	return len < PATH_MOST - 1;
}

static int folder_open(const char **ret_why)
{
	char path[PATH_MOST];
	struct stat st;
	bool made;
	int fd;

	*ret_why = "the folder of the rings cannot be made or opened";
	if (!folder_path(path))
		return -ENAMETOOLONG;
	made = !mkdir(path, 0700);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (made)
		fchmod(fd, 0700); /* whatever the umask is */
	if (syscall(SYS_fstat, fd, &st) || st.st_uid != geteuid() || (st.st_mode & 022)) {
		*ret_why = "the folder of the rings belongs to others, or they may write there";
		close(fd);
		return -EPERM;
	}
	return fd;
}

/* BOOT-PIDNS-PID-START, and -N where this process has left a ring before an exec. */
static void file_name(char *out, size_t size, const struct ring_header *h, unsigned n)
{
	struct text t = text_in(out, size);

	text_add(&t, h->boot_id);
	text_add(&t, "-");
	text_number(&t, h->pid_namespace);
	text_add(&t, "-");
	text_number(&t, h->pid);
	text_add(&t, "-");
	text_number(&t, h->start_time);
	if (n) {
		text_add(&t, "-");
		text_number(&t, n);
	}
	text_add(&t, RING_SUFFIX);
}

/* Another copy of this library in the same process tells already: its ring is among our maps. */
static bool is_mapped(const char *name)
{
	char buf[4096 + 1];
	size_t kept = 0, len = strlen(name);
	bool found = false;
	ssize_t n;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	while (!found && (n = read(fd, buf + kept, sizeof(buf) - 1 - kept)) > 0) {
		kept += (size_t)n;
		buf[kept] = 0;
		found = strstr(buf, name) != NULL;
		if (kept > len) {
			memmove(buf, buf + kept - len, len);
			kept = len;
		}
	}
	close(fd);
	return found;
}

static int file_open(int folder, const struct ring_header *h, char *name, size_t size,
		     const char **ret_why)
{
	*ret_why = "the ring's file cannot be made";
	for (unsigned n = 0; n < NAMES_MOST; n++) {
		int fd;

		file_name(name, size, h, n);
		fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
		if (fd >= 0) {
			fchmod(fd, 0400);
			return fd;
		}
		if (errno != EEXIST)
			return -errno;
		if (is_mapped(name)) {
			*ret_why = "another copy of this library tells already";
			return -EALREADY;
		}
	}
	return -EEXIST;
}

/* A quarter of the file system must stay free; and no signal for a file that is too large. */
static int room_for(int fd, uint64_t bytes)
{
	struct rlimit most;
	struct statfs fs;

	if (!getrlimit(RLIMIT_FSIZE, &most) && most.rlim_cur != RLIM_INFINITY &&
	    most.rlim_cur < bytes)
		return -EFBIG;
	if (fstatfs(fd, &fs))
		return -errno;
	if (fs.f_blocks && ((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize < bytes ||
			    (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize - bytes <
				(uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize / RING_FREE_PARTS))
		return -ENOSPC;
	return 0;
}

static uint8_t *file_map(int fd, uint64_t bytes, int *ret_error)
{
	void *p;
	int r = room_for(fd, bytes);

	if (!r)
		r = -posix_fallocate(fd, 0, (off_t)bytes);
	if (r) {
		*ret_error = -r;
		return NULL;
	}
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED) {
		*ret_error = errno;
		return NULL;
	}
	return p;
}

uint8_t *ring_make(const struct ring_header *h, uint64_t bytes, int *ret_error,
		   const char **ret_why)
{
	char name[160];
	uint8_t *p = NULL;
	int folder = folder_open(ret_why), fd;

	if (folder < 0) {
		*ret_error = -folder;
		return NULL;
	}
	*ret_why = "too many rings are left by others";
	fd = rings_tidy(folder, h) ? file_open(folder, h, name, sizeof(name), ret_why) : -EMFILE;
	if (fd < 0) {
		*ret_error = -fd;
	} else {
		*ret_why = "no room for a ring";
		p = file_map(fd, bytes, ret_error);
		if (!p)
			unlinkat(folder, name, 0);
		close(fd);
	}
	close(folder);
	return p;
}
