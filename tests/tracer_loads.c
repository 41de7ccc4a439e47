/* SPDX-License-Identifier: Apache-2.0 */
/* tracer_loads.c - loads and unloads the library again and again, without being linked to it. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

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

int main(int argc, char **argv)
{
	unsigned fds = count("/proc/self/fd"), mapped = 0;

	for (unsigned i = 0; argc > 1 && i < 1000; i++) {
		void *lib = dlopen(argv[1], RTLD_NOW | (i % 2 ? RTLD_LOCAL : RTLD_GLOBAL));
		int (*start)(void);

		if (!lib) {
			puts(dlerror());
			return 1;
		}
		*(void **)&start = dlsym(lib, "lockstep_start");
		if (!start || !start())
			return 2;
		dlclose(lib);
		if (!i)
			mapped = maps();
	}
	return maps() == mapped && count("/proc/self/fd") == fds ? 0 : 3;
}
