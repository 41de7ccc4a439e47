/* SPDX-License-Identifier: Apache-2.0 */
/* walked.c - a folder is known by its device and inode: links make no circle. */
#include "read/walked.h"

bool walked_already(struct walked *w, const struct stat *st)
{
	for (size_t i = 0; i < w->folders.n; i++)
		if (w->folders.v[i].dev == st->st_dev && w->folders.v[i].ino == st->st_ino)
			return true;
	*vec_push(&w->folders) = (struct walked_folder){ st->st_dev, st->st_ino };
	return false;
}

void walked_done(struct walked *w)
{
	free(w->folders.v);
	*w = (struct walked){ 0 };
}

int walked_by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}
