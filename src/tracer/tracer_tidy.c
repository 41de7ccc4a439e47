/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracer_tidy.c - rings of the dead, where no agent removes them.
 *
 * A job that restarts all night would leave a ring at each start until the file system is full. So
 * whoever starts and finds many removes those of processes that are certainly gone. Few are
 * left alone: they are the agent's to read.
 */
#include <fcntl.h>
#include <string.h>
#include "tracer/core.h"
#include "tracer/tracer_libc.h"

#define RINGS_KEPT 64  /* nobody's business yet */
#define RINGS_MOST 256 /* that nobody may remove: then there is no other one */
#define BOOT_BYTES 36

struct entry { /* as getdents64 has it */
	uint64_t inode;
	int64_t offset;
	uint16_t length;
	uint8_t type;
	char name[];
};

static bool is_ring(const char *name)
{
	size_t len = strlen(name), end = sizeof(RING_SUFFIX) - 1;

	return len > end && !strcmp(name + len - end, RING_SUFFIX);
}

static uint64_t take_number(const char **s)
{
	uint64_t n = 0;

	for (*s += **s == '-'; **s >= '0' && **s <= '9'; (*s)++)
		n = n * 10 + (uint64_t)(**s - '0');
	return n;
}

/* Of another boot; or of our PID namespace, and its process has ended. */
static bool is_of_dead(const char *name, const struct ring_header *mine)
{
	const char *s = name + BOOT_BYTES;
	uint64_t namespace, pid, start;
	char path[64];
	struct text t = text_in(path, sizeof(path));

	if (strlen(name) <= BOOT_BYTES || *s != '-')
		return false;
	if (strncmp(name, mine->boot_id, BOOT_BYTES) != 0)
		return true;
	namespace = take_number(&s), pid = take_number(&s), start = take_number(&s);
	if (namespace != mine->pid_namespace || !start)
		return false;
	text_add(&t, "/proc/");
	text_number(&t, pid);
	text_add(&t, "/stat");
	return process_start(path) != start;
}

/* Rings that are there; with remove, after those of the dead were removed. */
static unsigned walk(int folder, const struct ring_header *mine, bool remove)
{
	_Alignas(struct entry) char buf[2048];
	unsigned n = 0;
	long got;

	lseek(folder, 0, SEEK_SET);
	while ((got = syscall(SYS_getdents64, folder, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < got;) {
			const struct entry *e = (const struct entry *)(buf + at);

			at += e->length;
			if (!is_ring(e->name))
				continue;
			n++;
			if (remove && is_of_dead(e->name, mine) && !unlinkat(folder, e->name, 0))
				n--;
		}
	}
	return n;
}

bool rings_tidy(int folder, const struct ring_header *mine)
{
	return walk(folder, mine, false) < RINGS_KEPT || walk(folder, mine, true) < RINGS_MOST;
}
