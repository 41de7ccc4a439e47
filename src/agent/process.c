/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - see process.h. */
#include "agent/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static ssize_t file_get(const char *path, char *to, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, to, size - 1);

	if (n >= 0)
		to[n] = '\0';
	return n;
}

/* The start time of a process of our namespace; 0: there is none, or it is a zombie. */
static uint64_t start_of(pid_t pid)
{
	char path[64], text[1024], *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (file_get(path, text, sizeof(text)) <= 0)
		return 0;
	p = strrchr(text, ')'); /* the name may hold anything */
	if (!p || p[1] != ' ' || p[2] == 'Z' || p[2] == 'X')
		return 0;
	p += 2;
	for (int field = 3; field < 22 && p; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

/* Its number in the innermost namespace that it is in. */
static long inner_pid(const char *pid)
{
	char path[300], text[4096], *p, *end;
	long v = -1;

	snprintf(path, sizeof(path), "/proc/%s/status", pid);
	if (file_get(path, text, sizeof(text)) <= 0)
		return -1;
	p = strstr(text, "\nNSpid:");
	if (!p)
		return -1;
	p += strlen("\nNSpid:");
	for (end = p + strcspn(p, "\n"); p < end;) {
		char *next;
		long n = strtol(p, &next, 10);

		if (next == p)
			break;
		v = n;
		p = next;
	}
	return v;
}

static bool same_boot(const struct ring_header *h)
{
	char own[64];

	if (file_get("/proc/sys/kernel/random/boot_id", own, sizeof(own)) <= 0)
		return true;
	own[strcspn(own, "\n")] = '\0';
	return !*h->boot_id || !strcmp(own, h->boot_id);
}

static pid_t find(const struct ring_header *h)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	pid_t found = 0;

	while (d && !found && (e = readdir(d))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

		if (pid > 0 && inner_pid(e->d_name) == (long)h->pid &&
		    start_of(pid) == h->start_time)
			found = pid;
	}
	if (d)
		closedir(d);
	return found;
}

enum process_state process_state(const struct ring_header *h, pid_t *cache)
{
	struct stat own;

	if (*cache > 0)
		return start_of(*cache) == h->start_time ? PROCESS_LIVES : PROCESS_GONE;
	if (!same_boot(h))
		return PROCESS_GONE;
	if (stat("/proc/self/ns/pid", &own) == 0 && own.st_ino == h->pid_namespace) {
		*cache = (pid_t)h->pid;
		return start_of(*cache) == h->start_time ? PROCESS_LIVES : PROCESS_GONE;
	}
	*cache = find(h);
	if (*cache)
		return PROCESS_LIVES;
	/* Root of the first namespace sees all: what it does not see is gone. */
	return geteuid() == 0 && inner_pid("self") == (long)getpid() &&
		       access("/proc/1/ns/pid", R_OK) == 0
		   ? PROCESS_GONE
		   : PROCESS_HIDDEN;
}
