/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracer_loads.c - loads and unloads the library again and again, without being linked to it; then
 * a copy of it from another path, which must stay off.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Two copies have every global twice: that is meant here. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_odr_violation=0";
}

static unsigned count(const char *folder)
{
	DIR *d = opendir(folder);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static unsigned maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[4096];
	unsigned n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, "lockstep") || strstr(line, ".ring");
	if (f)
		fclose(f);
	return n;
}

static int started(const char *path, int flags)
{
	void *lib = dlopen(path, RTLD_NOW | flags);
	int (*start)(void), on;

	if (!lib) {
		puts(dlerror());
		return -1;
	}
	*(void **)&start = dlsym(lib, "lockstep_start");
	on = start ? start() : -1;
	dlclose(lib);
	return on;
}

int main(int argc, char **argv)
{
	unsigned fds = count("/proc/self/fd"), mapped = 0;

	for (unsigned i = 0; argc > 1 && i < 1000; i++) {
		if (started(argv[1], i % 2 ? RTLD_LOCAL : RTLD_GLOBAL) != 1)
			return 2;
		if (!i)
			mapped = maps();
	}
	if (maps() != mapped || count("/proc/self/fd") != fds)
		return 3;
	return argc > 2 && started(argv[2], RTLD_LOCAL) != 0 ? 4 : 0;
}
