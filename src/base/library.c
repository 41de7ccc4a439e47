/* SPDX-License-Identifier: Apache-2.0 */
/* library.c - symbols found at run time, all or none. */
#include "base/library.h"

#include <dlfcn.h>
#include <stdio.h>

bool library_load(const char *file, const char *missing, const struct library_symbol *symbols,
		  size_t n, char why[256])
{
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		snprintf(why, 256, "%s", missing);
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		void *symbol = dlsym(library, symbols[i].name);

		if (!symbol) {
			snprintf(why, 256, "%s has no %s", file, symbols[i].name);
			return false;
		}
		memcpy(symbols[i].slot, &symbol, sizeof(symbol));
	}
	return true;
}
