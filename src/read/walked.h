/* SPDX-License-Identifier: Apache-2.0 */
/* walked.h - folders of a walk, each once, in an order that no file system decides. */
#pragma once
#include <dirent.h>
#include <sys/stat.h>

#include "base/base.h"

struct walked {
	VEC(struct walked_folder {
		dev_t dev;
		ino_t ino;
	})
	folders;
};

/* Was it walked before? It is from now on. */
bool walked_already(struct walked *w, const struct stat *st);
void walked_done(struct walked *w);
/* For scandir(): by the bytes of the names, whatever the locale. */
int walked_by_name(const struct dirent **a, const struct dirent **b);
