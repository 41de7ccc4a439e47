/* SPDX-License-Identifier: Apache-2.0 */
/* spool.h - bytes that are written once and read back in order: memory first, an unlinked file
 * beyond. */
#pragma once
#include "base/buf.h"

struct spool {
	struct buf mem;
	int fd;		    /* -EBADF while all is in memory */
	uint64_t len;	    /* all bytes written */
	uint64_t in_file;   /* of them in the file */
	size_t limit_bytes; /* of memory */
};
void spool_init(struct spool *s, size_t limit_bytes);
int spool_write(struct spool *s, const void *p, size_t len, struct error *reterr);
/* Reads len bytes at offset; 0 or a negative errno. */
int spool_read(const struct spool *s, uint64_t offset, void *p, size_t len, struct error *reterr);
void spool_done(struct spool *s);

/* The unlinked file alone, for who lays it out himself: a descriptor or a negative errno. */
int spool_open_unlinked(struct error *reterr);
int spool_pwrite(int fd, const void *p, size_t len, uint64_t offset, struct error *reterr);
int spool_pread(int fd, void *p, size_t len, uint64_t offset, struct error *reterr);
