/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard.c - one file of a data set: what it is, by its first bytes, and how much it holds.
 *
 * The table has a row a kind. Files are read with pread on one descriptor, so that the workers of a
 * large one share it; nothing is mapped, since a file that shrinks would end the process.
 */
#include "read/shard_inside.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct shard_format {
	const char *name;
	bool (*looks)(const struct shard_file *f);
	int (*count)(struct shard_file *f, struct shard *ret, struct error *reterr);
} formats[SHARD_KINDS] = {
	[SHARD_COUNTS] = { "counts", shard_looks_counts, shard_count_counts },
	[SHARD_LINES] = { "lines", shard_looks_lines, shard_count_lines },
	[SHARD_IDX] = { "megatron-idx", shard_looks_idx, shard_count_idx },
	[SHARD_NPY] = { "npy", shard_looks_npy, shard_count_npy },
	[SHARD_PARQUET] = { "parquet", shard_looks_parquet, shard_count_parquet },
	[SHARD_ARROW] = { "arrow", shard_looks_arrow, shard_count_arrow },
	[SHARD_INFO] = { "dataset-info", shard_looks_info, shard_count_info },
	[SHARD_TAR] = { "tar", shard_looks_tar, shard_count_tar },
};
/* Those that are surest first. */
static const enum shard_kind looks_order[] = {
	SHARD_IDX, SHARD_NPY,  SHARD_PARQUET, SHARD_ARROW,
	SHARD_TAR, SHARD_INFO, SHARD_COUNTS,  SHARD_LINES,
};

const char *shard_kind_name(enum shard_kind k)
{
	return k < SHARD_KINDS ? formats[k].name : "unknown";
}

ssize_t shard_pread(const struct shard_file *f, void *buf, size_t len, uint64_t at)
{
	size_t got = 0;

	while (got < len && at + got <= INT64_MAX) {
		ssize_t n = pread(f->fd, (char *)buf + got, len - got, (off_t)(at + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

void shard_progress(const struct shard_file *f, uint64_t bytes)
{
	if (f->progress)
		atomic_fetch_add_explicit(f->progress, bytes, memory_order_relaxed);
}

static ssize_t stream_source(void *user, void *buf, size_t len)
{
	struct shard_stream *s = user;
	ssize_t n = shard_pread(s->f, buf, len, s->at);

	if (n > 0) {
		s->at += (uint64_t)n;
		shard_progress(s->f, (uint64_t)n);
	}
	return n;
}

static ssize_t plain_source(void *user, void *buf, size_t len)
{
	struct shard_stream *s = user;
	uint8_t raw[8192];

	while (s->given == s->plain.len) {
		ssize_t n = input_read(s->marked, raw, sizeof(raw));

		if (n < 0)
			return n;
		s->given = s->plain.len = 0;
		buf_widen(&s->plain, wide_text_room(sizeof(raw)));
		s->plain.len = wide_text_decode(&s->wide, raw, (size_t)n, s->plain.data);
		if (!n && !s->plain.len)
			return 0;
	}
	len = MIN(len, s->plain.len - s->given);
	memcpy(buf, s->plain.data + s->given, len);
	s->given += len;
	return (ssize_t)len;
}

void shard_stream_open(struct shard_stream *s, const struct shard_file *f)
{
	*s = (struct shard_stream){ .f = f, .wide = f->wide };
	s->in = input_of_source(stream_source, s);
	if (!f->wide.name)
		return;
	s->marked = s->in;
	s->in = input_of_source(plain_source, s);
}

const char *shard_stream_problem(const struct shard_stream *s)
{
	const struct input *in = s->marked ? s->marked : s->in;

	return input_state(in) == INPUT_GOOD ? NULL : input_problem(in);
}

void shard_stream_close(struct shard_stream *s)
{
	s->in = input_free(s->in);
	s->marked = input_free(s->marked);
	buf_done(&s->plain);
}

static ssize_t read_head(struct shard_file *f, uint8_t *head, struct error *reterr)
{
	struct shard_stream s;
	ssize_t n;

	shard_stream_open(&s, f);
	n = input_read(s.in, head, SHARD_LOOK_BYTES);
	f->compressed = input_compressed(s.marked ? s.marked : s.in);
	if (n == 0 && shard_stream_problem(&s))
		n = error_set(reterr, -EBADMSG, "%s: %s", f->path, shard_stream_problem(&s));
	else if (n < 0)
		error_set(reterr, (int)n, "%s: %s", f->path, strerror((int)-n));
	shard_stream_close(&s);
	return n;
}

static int look(struct shard_file *f, uint8_t *head, struct error *reterr)
{
	_Atomic uint64_t *progress = f->progress;
	ssize_t n;

	f->progress = NULL;
	n = read_head(f, head, reterr);
	if (n > 0)
		f->wide = wide_text_of(head, (size_t)n);
	if (f->wide.name) {
		memset(head, 0, (size_t)n);
		n = read_head(f, head, reterr);
	}
	f->progress = progress;
	if (n < 0)
		return (int)n;
	f->head = head;
	f->head_len = (size_t)n;
	return 0;
}

static int open_file(struct shard_file *f, struct error *reterr)
{
	struct stat st;

	f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (f->fd < 0 || fstat(f->fd, &st) < 0)
		return error_set(reterr, -errno, "%s: %s", f->path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(reterr, -ENOTSUP, "%s: not a regular file", f->path);
	f->size = (uint64_t)st.st_size;
	return 0;
}

static int no_kind(const struct shard_file *f, struct error *reterr)
{
	const char *guess = wide_text_guess(f->head, f->head_len);

	if (guess)
		return error_set(reterr, -ENOTSUP,
				 "%s: text in %s without a byte order mark, as it seems; "
				 "iconv -f %s -t UTF-8 makes it readable",
				 f->path, guess, guess);
	return error_set(reterr, -ENOTSUP, "%s: a binary file of no kind that can be counted",
			 f->path);
}

int shard_open(const char *path, struct shard_file *ret, enum shard_kind *ret_kind,
	       struct error *reterr)
{
	uint8_t *head = xcalloc(1, SHARD_LOOK_BYTES + 64); /* JSON's fast way reads a little on */
	int r;

	*ret = (struct shard_file){ .path = path, .fd = -EBADF, .head = head };
	r = open_file(ret, reterr);
	if (!r)
		r = look(ret, head, reterr);
	for (size_t i = 0; !r && i < ARRAY_SIZE(looks_order); i++)
		if (formats[looks_order[i]].looks(ret)) {
			*ret_kind = looks_order[i];
			return 0;
		}
	if (!r)
		r = no_kind(ret, reterr);
	shard_close(ret);
	return r;
}

void shard_close(struct shard_file *f)
{
	cleanup_close(&f->fd);
	free((void *)(uintptr_t)f->head);
	f->head = NULL;
}

int shard_count_open(struct shard_file *f, enum shard_kind kind, struct shard *ret,
		     struct error *reterr)
{
	struct shard s = { .kind = kind, .records = -1, .tokens = -1, .bytes = (int64_t)f->size };
	int r = formats[kind].count(f, &s, reterr);

	if (!r)
		*ret = s;
	return r;
}

int shard_count_by(const char *path, const char *length_field, struct shard *ret,
		   struct error *reterr)
{
	struct shard_file f;
	enum shard_kind kind = SHARD_KINDS;
	int r = shard_open(path, &f, &kind, reterr);

	if (r < 0)
		return r;
	f.length_field = length_field;
	r = shard_count_open(&f, kind, ret, reterr);
	shard_close(&f);
	return r;
}

int shard_count(const char *path, struct shard *ret, struct error *reterr)
{
	return shard_count_by(path, NULL, ret, reterr);
}
