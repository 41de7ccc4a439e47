/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.c - runs a fuzz target over the files of its corpus, under any compiler: what a fuzzer
 * found stays found. With this main() a target is an ordinary test.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int replay(const char *path)
{
	FILE *f = fopen(path, "rb");
	_cleanup_free_ uint8_t *data = NULL;
	size_t size = 0, cap = 0, n;

	if (!f) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return -1;
	}
	do {
		data = vec_reserve(data, &cap, size + 65536, 1);
		n = fread(data + size, 1, 65536, f);
		size += n;
	} while (n);
	fclose(f);
	return LLVMFuzzerTestOneInput(data, size);
}

int main(int argc, char **argv)
{
	struct dirent **names;
	int n = argc == 2 ? scandir(argv[1], &names, NULL, by_name) : -1, done = 0;

	if (n < 0) {
		fprintf(stderr, "usage: replay FOLDER\n");
		return 64;
	}
	for (int i = 0; i < n; i++) {
		if (names[i]->d_name[0] != '.') {
			_cleanup_free_ char *path = xasprintf("%s/%s", argv[1], names[i]->d_name);

			if (replay(path) < 0)
				return 1;
			done++;
		}
		free(names[i]);
	}
	free(names);
	printf("%d inputs replayed\n", done);
	return done ? 0 : 1;
}
