/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive.h - the members of a .tar (compressed or not) or .zip, one after the other, as byte
 * sources.
 *
 * Containers are libarchive's business. It is loaded when the first archive is met, so that nobody
 * else needs it; compression is ours (input.h), which is several times as fast.
 */
#pragma once
#include "read/input.h"

struct archive_client {
	void *user;
	/* A regular file inside; what is left unread of it is passed over. A negative errno stops.
	 */
	int (*member)(void *user, const char *name, input_source_fn source, void *source_user);
};

/*
 * in: the archive's bytes, decompressed for a tar. file: its path, with which a zip is opened again
 * because its table is at its end; NULL: read it as a stream. -ENOTSUP with the package's name if
 * libarchive is not installed; -EBADMSG if the archive is damaged, after the members in front of
 * the damage.
 */
int archive_read_members(struct input *in, const char *file, const struct archive_client *client,
			 struct error *reterr);
