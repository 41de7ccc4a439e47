/* SPDX-License-Identifier: Apache-2.0 */
/*
 * print_checkpoints.c - for tests in Python: the checkpoints of a folder, checked; or one of them
 * with a file of it cut, or filled with zeros, from every length on.
 *
 *	print_checkpoints [--whole] FOLDER	JSON lines, newest first
 *	print_checkpoints --cut|--zero [--whole] FOLDER CHECKPOINT FILE [STEP]
 *		how many lengths were tried, and those that were taken for good; FILE is spent
 */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "read/checkpoint.h"

static const char *const states[] = { "unchecked", "good", "torn", "foreign" };

static int print_all(const char *folder, bool whole)
{
	struct checkpoints c;
	struct error e;

	if (checkpoints_find(folder, &c, &e) < 0) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	for (size_t i = 0; i < c.v.n; i++) {
		struct checkpoint *k = &c.v.v[i];
		json_t *row;

		if (checkpoints_check(&c, i, whole, &e) < 0)
			return 1;
		row = json_pack("{ss# ss ss sI sI sb ss*}", "path", k->path, (int)strlen(k->path),
				"kind", checkpoint_kind_name(k->kind), "state", states[k->state],
				"step", (json_int_t)k->step, "bytes", (json_int_t)k->bytes,
				"weights_only", (int)k->weights_only, "why", k->why);
		json_dumpf(row, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(row);
	}
	printf("{\"skipped\":%llu}\n", (unsigned long long)c.skipped);
	checkpoints_done(&c);
	return 0;
}

/* 1: nothing was changed. */
static int damage(int fd, bool cut, off_t at, off_t step)
{
	static const char zeros[4096];
	char was[4096];

	if (cut)
		return ftruncate(fd, at);
	if (pread(fd, was, (size_t)step, at) != (ssize_t)step)
		return -1;
	if (memcmp(was, zeros, (size_t)step) == 0)
		return 1;
	return pwrite(fd, zeros, (size_t)step, at) == (ssize_t)step ? 0 : -1;
}

static int sweep(char **arg, bool cut, bool whole, off_t step)
{
	int fd = open(arg[2], O_RDWR | O_CLOEXEC);
	unsigned long tried = 0, good = 0;
	struct checkpoint *k = NULL;
	struct checkpoints c;
	struct error e;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || checkpoints_find(arg[0], &c, &e) < 0)
		return 1;
	for (size_t i = 0; i < c.v.n; i++)
		if (strcmp(c.v.v[i].path, arg[1]) == 0)
			k = &c.v.v[i];
	if (!k || checkpoint_check(k, whole, &e) < 0 || k->state != CHECKPOINT_GOOD) {
		fprintf(stderr, "not good to begin with: %s\n", k && k->why ? k->why : "?");
		return 1;
	}
	for (off_t at = st.st_size - step; at >= 0; at -= step) {
		int r = damage(fd, cut, at, step);

		if (r > 0)
			continue;
		if (r < 0 || checkpoint_check(k, whole, &e) < 0)
			return 1;
		tried++;
		if (k->state == CHECKPOINT_GOOD && good++ < 10)
			printf("good at %lld\n", (long long)at);
	}
	printf("tried %lu good %lu\n", tried, good);
	checkpoints_done(&c);
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	bool whole = false, cut = false, zero = false;
	char **arg = argv + 1;

	for (; *arg && strncmp(*arg, "--", 2) == 0; arg++, argc--) {
		whole |= strcmp(*arg, "--whole") == 0;
		cut |= strcmp(*arg, "--cut") == 0;
		zero |= strcmp(*arg, "--zero") == 0;
	}
	if (argc < (cut || zero ? 4 : 2))
		return 64;
	return cut || zero ? sweep(arg, cut, whole, argc > 4 ? atoi(arg[3]) : 1)
			   : print_all(arg[0], whole);
}
