/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_storage.c - can this node save: the checkpoint folder written to, synced and read back,
 * the room in it, and the limits that jobs run into.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "preflight/preflight_inside.h"
#include "read/checkpoint.h"
#include "base/clock.h"

#define TRIAL_BYTES ((size_t)1 << 20)
#define TRIAL_NAME  ".lockstep-preflight-"
#define STALE_S	    7200 /* longer than any probe has */
#define NAMES_MOST  65536u
#define MOUNTS_MOST ((size_t)4 << 20)

/* What is written. */
static void fill(uint8_t *bytes)
{
	for (size_t i = 0; i < TRIAL_BYTES; i++)
		bytes[i] = (uint8_t)(i * 2654435761u >> 13);
}

/* Writes, syncs, reads back past the cache where that can be. 0 or -errno. */
static int try_file(int fd, const uint8_t *bytes, uint8_t *back)
{
	size_t done = 0;
	ssize_t n = 0;

	while (done < TRIAL_BYTES && (n = write(fd, bytes + done, TRIAL_BYTES - done)) > 0)
		done += (size_t)n;
	if (done < TRIAL_BYTES)
		return n < 0 ? -errno : -ENOSPC;
	if (fsync(fd) < 0)
		return -errno;
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	for (done = 0; done < TRIAL_BYTES; done += (size_t)n)
		if ((n = pread(fd, back + done, TRIAL_BYTES - done, (off_t)done)) <= 0)
			return n < 0 ? -errno : -EIO;
	return memcmp(bytes, back, TRIAL_BYTES) ? -EILSEQ : 0;
}

/*
 * A file that goes when we do, however we end: without a name where the file system can, else its
 * name is taken at once. *ret_path: one that could not be unlinked while it is open; the caller
 * frees.
 */
static int open_trial(const char *folder, char **ret_path)
{
	char *path;
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), r;

	if (fd >= 0)
		return fd;
	path = xasprintf("%s/" TRIAL_NAME "XXXXXX", folder);
	fd = mkostemp(path, O_CLOEXEC);
	r = fd < 0 ? -errno : fd;
	if (fd >= 0 && unlink(path) < 0)
		*ret_path = path;
	else
		free(path);
	return r;
}

/* Those before us were killed while their trial had a name still: what is ours, old, and holds
   what we write is removed. */
static void remove_stale(const char *folder, const uint8_t *bytes, uint8_t *back)
{
	static const size_t name_len = sizeof(TRIAL_NAME "XXXXXX") - 1;
	DIR *d = opendir(folder);
	const struct dirent *e;
	struct stat st;

	for (unsigned n = 0; d && n < NAMES_MOST && (e = readdir(d)); n++) {
		_cleanup_close_ int fd = -EBADF;

		if (strncmp(e->d_name, TRIAL_NAME, sizeof(TRIAL_NAME) - 1) ||
		    strlen(e->d_name) != name_len)
			continue;
		fd = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
		    st.st_uid == geteuid() && st.st_size <= (off_t)TRIAL_BYTES &&
		    time(NULL) - st.st_mtime > STALE_S &&
		    read(fd, back, TRIAL_BYTES) == (ssize_t)st.st_size &&
		    !memcmp(back, bytes, (size_t)st.st_size))
			unlinkat(dirfd(d), e->d_name, 0);
	}
	if (d)
		closedir(d);
}

static void put_trial(const char *folder, json_t *facts)
{
	_cleanup_free_ uint8_t *bytes = xmalloc(TRIAL_BYTES), *back = xmalloc(TRIAL_BYTES);
	_cleanup_free_ char *path = NULL;
	int64_t begun = clock_ms();
	int fd = open_trial(folder, &path), r = MIN(fd, 0);

	fill(bytes);
	if (fd >= 0) {
		r = try_file(fd, bytes, back);
		close(fd);
		if (path && unlink(path) < 0 && !r)
			r = -errno;
	}
	json_object_set_new(facts, "writable", json_boolean(r == 0));
	json_object_set_new(facts, "write_ms", json_integer(clock_ms() - begun));
	if (r < 0)
		json_object_set_new(facts, "why",
				    text_json(r == -EILSEQ
						  ? "other bytes came back than were written"
						  : strerror(-r)));
	remove_stale(folder, bytes, back);
}

/* --- which file system it is --- */

/* Not seen by other machines, however alike the names are. */
static bool is_local(const char *type)
{
	static const char *const local[] = { "ext2",  "ext3", "ext4",	 "xfs",	 "btrfs",
					     "tmpfs", "zfs",  "overlay", "f2fs", "ramfs" };

	for (size_t i = 0; i < ARRAY_SIZE(local); i++)
		if (!strcmp(type, local[i]))
			return true;
	return false;
}

/* Its mount's source and type: "server:/export nfs4". The device number finds the line. */
static char *file_system(const char *folder)
{
	_cleanup_free_ char *machine = system_text("/proc/sys/kernel/random/boot_id", 64);
	char *text = system_text("/proc/self/mountinfo", MOUNTS_MOST), *save = NULL, *found = NULL;
	struct stat st;
	char device[32];

	if (!text || stat(folder, &st) < 0) {
		free(text);
		return NULL;
	}
	snprintf(device, sizeof(device), "%u:%u", major(st.st_dev), minor(st.st_dev));
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		char number[32], type[64], source[256], *dash = strstr(l, " - ");

		if (sscanf(l, "%*d %*d %31s", number) == 1 && !strcmp(number, device) && dash &&
		    sscanf(dash + 3, "%63s %255s", type, source) == 2) {
			free(found); /* the last mount on top counts */
			found = is_local(type) ? xasprintf("%s %s of machine %.8s", source, type,
							   machine ? machine : "?")
					       : xasprintf("%s %s", source, type);
		}
	}
	free(text);
	return found;
}

static void put_room(const char *folder, json_t *facts)
{
	_cleanup_free_ char *system = file_system(folder);
	struct statvfs v;

	if (system)
		json_object_set_new(facts_group(facts, "storage"), folder, text_json(system));
	if (statvfs(folder, &v) < 0)
		return;
	json_object_set_new(facts, "free_bytes",
			    json_integer((json_int_t)(v.f_bavail * v.f_frsize & INT64_MAX)));
	json_object_set_new(facts, "total_bytes",
			    json_integer((json_int_t)(v.f_blocks * v.f_frsize & INT64_MAX)));
	if (v.f_files)
		json_object_set_new(facts, "free_inodes",
				    json_integer((json_int_t)(v.f_favail & INT64_MAX)));
}

static void put_newest(const char *folder, json_t *facts)
{
	struct checkpoints c = { 0 };
	struct error ignored;

	if (checkpoints_find(folder, &c, &ignored) < 0)
		return;
	json_object_set_new(facts, "checkpoints", json_integer((json_int_t)c.v.n));
	if (c.v.n) {
		json_object_set_new(facts, "newest_bytes", json_integer(c.v.v[0].bytes));
		json_object_set_new(facts, "newest", text_json(c.v.v[0].path));
	}
	checkpoints_done(&c);
}

/* A folder that is to be made by the job: the one above it is tried. */
static char *standing_folder(const char *folder)
{
	char *at = xstrdup(folder), *slash;
	struct stat st;

	while (stat(at, &st) < 0 && errno == ENOENT) {
		slash = strrchr(at, '/');
		if (!slash || slash == at) {
			strcpy(at, slash ? "/" : ".");
			break;
		}
		*slash = 0;
	}
	return at;
}

/* --- limits --- */

static void put_limit(json_t *facts, const char *key, int which, int64_t unit)
{
	struct rlimit r;

	if (getrlimit((__rlimit_resource_t)which, &r) == 0)
		json_object_set_new(
		    facts, key,
		    json_integer(r.rlim_cur == RLIM_INFINITY ? -1 : (json_int_t)r.rlim_cur / unit));
}

/* "MemAvailable:   12345 kB"; -1. */
static int64_t free_memory_mib(void)
{
	_cleanup_free_ char *text = system_text("/proc/meminfo", 65536);
	const char *at = text ? strstr(text, "MemAvailable:") : NULL;

	return at ? strtoll(at + 13, NULL, 10) / 1024 : -1;
}

static int64_t cgroup_number(const char *folder, const char *name)
{
	_cleanup_free_ char *path = xasprintf("/sys/fs/cgroup%s/%s", folder, name);
	_cleanup_free_ char *text = system_text(path, 64);

	return text && *text >= '0' && *text <= '9' ? strtoll(text, NULL, 10) : -1;
}

/* What is left below the tightest limit of our cgroup and those above it; -1: no limit. */
static int64_t cgroup_free_mib(void)
{
	_cleanup_free_ char *text = system_text("/proc/self/cgroup", 65536);
	char *at = text ? strstr(text, "0::/") : NULL, *slash;
	int64_t least = -1;

	if (!at)
		return -1;
	at += 3;
	at[strcspn(at, "\n")] = 0;
	for (;;) {
		const char *folder = strcmp(at, "/") ? at : "";
		int64_t most = cgroup_number(folder, "memory.max");
		int64_t used = cgroup_number(folder, "memory.current");

		if (most >= 0 && used >= 0 && (least < 0 || most - used < least))
			least = MAX(most - used, 0);
		slash = strrchr(at, '/');
		if (!*folder || !slash)
			break;
		slash[slash == at] = 0;
	}
	return least < 0 ? -1 : least >> 20;
}

int facts_of_storage(const struct preflight_plan *p, json_t **ret, struct error *reterr)
{
	json_t *facts = json_object();
	int64_t cgroup = cgroup_free_mib(), memory = free_memory_mib();
	struct statvfs v;

	(void)reterr;
	facts_group(facts, "storage");
	if (p->checkpoints) {
		_cleanup_free_ char *folder = standing_folder(p->checkpoints);

		json_object_set_new(facts, "folder", text_json(p->checkpoints));
		if (strcmp(folder, p->checkpoints))
			json_object_set_new(facts, "made_in", text_json(folder));
		put_room(folder, facts);
		if (!strcmp(folder, p->checkpoints)) /* what lies above it is another's */
			put_newest(folder, facts);
		put_trial(folder, facts);
	}
	if (statvfs("/dev/shm", &v) == 0)
		json_object_set_new(facts, "shm_free_mib",
				    json_integer((json_int_t)(v.f_bavail * v.f_frsize >> 20)));
	put_limit(facts, "open_files", RLIMIT_NOFILE, 1);
	put_limit(facts, "memlock_mib", RLIMIT_MEMLOCK, 1 << 20);
	if (memory >= 0)
		json_object_set_new(facts, "free_memory_mib", json_integer(memory));
	if (cgroup >= 0)
		json_object_set_new(facts, "free_cgroup_mib", json_integer(cgroup));
	*ret = facts;
	return 0;
}
