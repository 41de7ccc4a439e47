/* SPDX-License-Identifier: Apache-2.0 */
/* spool.c - memory up to a limit, then an unlinked file in $TMPDIR; the file takes what came first.
 */
#include "fold/spool.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

void spool_init(struct spool *s, size_t limit_bytes)
{
	*s = (struct spool){ .fd = -EBADF, .limit_bytes = limit_bytes };
}

int spool_open_unlinked(struct error *reterr)
{
	const char *dir = getenv("TMPDIR");
	char path[4096];
	int fd;

	if (!dir || !*dir)
		dir = "/tmp";
	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	snprintf(path, sizeof(path), "%s/lockstep-XXXXXX", dir);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return error_set(reterr, -errno, "%s: no temporary file: %s", dir, strerror(errno));
	unlink(path);
	return fd;
}

int spool_pwrite(int fd, const void *p, size_t len, uint64_t offset, struct error *reterr)
{
	const uint8_t *b = p;

	while (len) {
		ssize_t n = pwrite(fd, b, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return error_set(reterr, n ? -errno : -EIO, "a temporary file: %s",
					 strerror(n ? errno : EIO));
		b += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

int spool_pread(int fd, void *p, size_t len, uint64_t offset, struct error *reterr)
{
	uint8_t *b = p;

	while (len) {
		ssize_t n = pread(fd, b, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return error_set(reterr, n ? -errno : -EIO, "a temporary file: %s",
					 strerror(n ? errno : EIO));
		b += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

int spool_write(struct spool *s, const void *p, size_t len, struct error *reterr)
{
	int r;

	if (s->mem.len && s->mem.len + len > s->limit_bytes) {
		if (s->fd < 0) {
			r = spool_open_unlinked(reterr);
			if (r == -EMFILE || r == -ENFILE)
				goto in_memory; /* many ranks: small ones are best kept here */
			if (r < 0)
				return r;
			s->fd = r;
		}
		r = spool_pwrite(s->fd, s->mem.data, s->mem.len, s->in_file, reterr);
		if (r < 0)
			return r;
		s->in_file += s->mem.len;
		s->mem.len = 0;
	}
in_memory:
	buf_put(&s->mem, p, len);
	s->len += len;
	return 0;
}

int spool_read(const struct spool *s, uint64_t offset, void *p, size_t len, struct error *reterr)
{
	size_t from_file;
	int r;

	if (offset > s->len || len > s->len - offset)
		return error_set(reterr, -EINVAL, "read past the end of a spool");
	if (offset < s->in_file) {
		from_file = (size_t)MIN((uint64_t)len, s->in_file - offset);
		r = spool_pread(s->fd, p, from_file, offset, reterr);
		if (r < 0)
			return r;
		p = (uint8_t *)p + from_file;
		offset += from_file;
		len -= from_file;
	}
	if (len)
		memcpy(p, s->mem.data + (offset - s->in_file), len);
	return 0;
}

void spool_done(struct spool *s)
{
	if (s->limit_bytes) /* a spool of zeros holds nothing, least of all descriptor 0 */
		cleanup_close(&s->fd);
	buf_done(&s->mem);
	spool_init(s, s->limit_bytes);
}
