/* SPDX-License-Identifier: Apache-2.0 */
/*
 * input.c - a byte source behind a decompressor.
 *
 * A filter turns raw bytes into text; the table at the end of this file has one for each format.
 * The raw side is one reused buffer, the text goes straight into the caller's, so no byte is copied
 * but by the decompressor.
 */
#include "read/input.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <isa-l/igzip_lib.h>
#include <zstd.h>

#define INPUT_RAW_BYTES	  ((size_t)256 << 10)
#define INPUT_MAGIC_BYTES 4u
#define INPUT_TEXT_MAX	  ((uint64_t)1 << 40) /* a trace of 1 TiB is no trace */
/* Deflate cannot exceed 1,032:1. What zstd packs tighter than this, beyond the first GiB, is a
   bomb: real traces pack 10 to 100:1, a file of one repeated event about 5,000:1. */
#define INPUT_RATIO_MAX	      20000u
#define INPUT_RATIO_FREE      ((uint64_t)1 << 30)
#define INPUT_ZSTD_WINDOW_LOG 27 /* 128 MiB, what the zstd command accepts too */

struct input_filter {
	const char *name;
	int (*begin)(struct input *in);
	/* Decodes from in->raw into buf; > 0 bytes, 0 at the end (or when the state went bad). */
	ssize_t (*read)(struct input *in, uint8_t *buf, size_t len);
};

struct input {
	input_source_fn source;
	void *user;
	int fd; /* of input_open; -EBADF otherwise */
	const struct input_filter *filter;
	uint8_t *raw;
	size_t raw_at, raw_len;
	bool raw_end;
	int raw_error;
	uint64_t bytes_raw, bytes_text;
	_Atomic uint64_t *progress;
	struct inflate_state *gzip;
	ZSTD_DStream *zstd;
	bool in_member; /* inside a gzip member or zstd frame: an end here is a truncation */
	enum input_state state;
	char problem[160];
};

static void input_fail(struct input *in, enum input_state state, const char *what)
{
	in->state = state;
	snprintf(in->problem, sizeof(in->problem), "%s at byte %" PRIu64 " of the file", what,
		 in->bytes_raw - (in->raw_len - in->raw_at));
}

static ssize_t source_file(void *user, void *buf, size_t len)
{
	struct input *in = user;
	ssize_t n;

	do
		n = read(in->fd, buf, len);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* More raw bytes behind those that are left; false at the end or on an error. */
static bool raw_refill(struct input *in)
{
	ssize_t n;

	if (in->raw_end)
		return false;
	if (in->raw_at) {
		memmove(in->raw, in->raw + in->raw_at, in->raw_len - in->raw_at);
		in->raw_len -= in->raw_at;
		in->raw_at = 0;
	}
	if (in->raw_len == INPUT_RAW_BYTES)
		return true;
	n = in->source(in->user, in->raw + in->raw_len, INPUT_RAW_BYTES - in->raw_len);
	if (n <= 0) {
		in->raw_end = true;
		in->raw_error = (int)n;
		return false;
	}
	in->raw_len += (size_t)n;
	in->bytes_raw += (uint64_t)n;
	if (in->progress)
		atomic_fetch_add_explicit(in->progress, (uint64_t)n, memory_order_relaxed);
	return true;
}

/* Up to len raw bytes are there to look at, fewer only at the end. */
static size_t raw_need(struct input *in, size_t len)
{
	while (in->raw_len - in->raw_at < len && raw_refill(in))
		;
	return in->raw_len - in->raw_at;
}

static ssize_t plain_read(struct input *in, uint8_t *buf, size_t len)
{
	size_t left = in->raw_len - in->raw_at;
	ssize_t n;

	if (left) {
		n = (ssize_t)MIN(left, len);
		memcpy(buf, in->raw + in->raw_at, (size_t)n);
		in->raw_at += (size_t)n;
		return n;
	}
	if (in->raw_end)
		return in->raw_error;
	n = in->source(in->user, buf, len);
	if (n <= 0) {
		in->raw_end = true;
		in->raw_error = (int)n;
		return n;
	}
	in->bytes_raw += (uint64_t)n;
	if (in->progress)
		atomic_fetch_add_explicit(in->progress, (uint64_t)n, memory_order_relaxed);
	return n;
}

static bool is_gzip(const uint8_t *p, size_t len)
{
	return len >= 3 && p[0] == 0x1f && p[1] == 0x8b && p[2] == 8;
}

static int gzip_begin(struct input *in)
{
	in->gzip = xmalloc(sizeof(*in->gzip));
	isal_inflate_init(in->gzip);
	in->gzip->crc_flag = ISAL_GZIP;
	in->in_member = true;
	return 0;
}

/* A member ended: another one may follow. Zeros and rubbish behind the last are left unread. */
static bool gzip_next_member(struct input *in)
{
	size_t left = raw_need(in, 3);

	if (!is_gzip(in->raw + in->raw_at, left))
		return false;
	isal_inflate_reset(in->gzip);
	in->gzip->crc_flag = ISAL_GZIP;
	in->in_member = true;
	return true;
}

static ssize_t gzip_read(struct input *in, uint8_t *buf, size_t len)
{
	struct inflate_state *z = in->gzip;
	int r;

	z->next_out = buf;
	z->avail_out = (uint32_t)MIN(len, (size_t)1 << 30);
	len = z->avail_out;
	while (z->avail_out == len) {
		if (!in->in_member && !gzip_next_member(in))
			break;
		if (in->raw_at == in->raw_len)
			raw_refill(in);
		z->next_in = in->raw + in->raw_at;
		z->avail_in = (uint32_t)(in->raw_len - in->raw_at);
		r = isal_inflate(z);
		in->raw_at = in->raw_len - z->avail_in;
		if (r == ISAL_INCORRECT_CHECKSUM) {
			input_fail(in, INPUT_DAMAGED, "gzip checksum is wrong");
			break;
		}
		if (r != ISAL_DECOMP_OK && r != ISAL_END_INPUT) {
			input_fail(in, INPUT_DAMAGED, "gzip stream is damaged");
			break;
		}
		if (z->block_state == ISAL_BLOCK_FINISH) {
			in->in_member = false;
		} else if (z->avail_out == len && in->raw_at == in->raw_len && in->raw_end) {
			if (!in->raw_error)
				input_fail(in, INPUT_TRUNCATED, "gzip stream ends in the middle");
			break;
		}
	}
	if (z->avail_out == len && in->raw_error)
		return in->raw_error;
	return (ssize_t)(len - z->avail_out);
}

static int zstd_begin(struct input *in)
{
	in->zstd = ZSTD_createDStream();
	if (!in->zstd)
		return -ENOMEM;
	ZSTD_DCtx_setParameter(in->zstd, ZSTD_d_windowLogMax, INPUT_ZSTD_WINDOW_LOG);
	in->in_member = true;
	return 0;
}

static ssize_t zstd_read(struct input *in, uint8_t *buf, size_t len)
{
	ZSTD_outBuffer out = { .dst = buf, .size = len };

	while (!out.pos) {
		ZSTD_inBuffer raw;
		size_t r;

		if (in->raw_at == in->raw_len && !raw_refill(in) && !in->in_member)
			break;
		raw = (ZSTD_inBuffer){ in->raw + in->raw_at, in->raw_len - in->raw_at, 0 };
		r = ZSTD_decompressStream(in->zstd, &out, &raw);
		in->raw_at += raw.pos;
		if (ZSTD_isError(r)) {
			char what[96];

			snprintf(what, sizeof(what), "zstd: %s", ZSTD_getErrorName(r));
			input_fail(in, INPUT_DAMAGED, what);
			break;
		}
		in->in_member = r != 0;
		if (in->in_member && !out.pos && in->raw_at == in->raw_len && in->raw_end) {
			if (!in->raw_error)
				input_fail(in, INPUT_TRUNCATED, "zstd stream ends in the middle");
			break;
		}
	}
	if (!out.pos && in->raw_error)
		return in->raw_error;
	return (ssize_t)out.pos;
}

static const struct input_filter filter_plain = { "plain", NULL, plain_read };
static const struct input_filter filter_gzip = { "gzip", gzip_begin, gzip_read };
static const struct input_filter filter_zstd = { "zstd", zstd_begin, zstd_read };

/* The first bytes decide, once. */
static int input_begin(struct input *in)
{
	static const uint8_t zstd_magic[] = { 0x28, 0xb5, 0x2f, 0xfd };
	size_t len = raw_need(in, INPUT_MAGIC_BYTES);

	if (is_gzip(in->raw, len))
		in->filter = &filter_gzip;
	else if (len >= sizeof(zstd_magic) && !memcmp(in->raw, zstd_magic, sizeof(zstd_magic)))
		in->filter = &filter_zstd;
	else
		in->filter = &filter_plain;
	return in->filter->begin ? in->filter->begin(in) : 0;
}

static bool input_is_bomb(const struct input *in)
{
	return in->bytes_text > INPUT_TEXT_MAX ||
	       (in->bytes_text > INPUT_RATIO_FREE &&
		in->bytes_text / INPUT_RATIO_MAX > in->bytes_raw);
}

ssize_t input_read(struct input *in, void *buf, size_t len)
{
	size_t got = 0;

	if (!in->filter) {
		int r = input_begin(in);

		if (r < 0)
			return r;
	}
	while (got < len && in->state == INPUT_GOOD) {
		ssize_t n = in->filter->read(in, (uint8_t *)buf + got, len - got);

		if (n < 0)
			return got ? (ssize_t)got : n;
		if (!n)
			break;
		got += (size_t)n;
		in->bytes_text += (uint64_t)n;
		if (in->filter != &filter_plain && input_is_bomb(in))
			input_fail(in, INPUT_BOMB, "expands to more than any trace has, stopped");
	}
	return (ssize_t)got;
}

ssize_t input_peek(struct input *in, void *buf, size_t len)
{
	size_t n = raw_need(in, len);

	if (n < len && in->raw_error)
		return in->raw_error;
	n = MIN(n, len);
	memcpy(buf, in->raw + in->raw_at, n);
	return (ssize_t)n;
}

int input_open(const char *path, struct input **ret, struct error *reterr)
{
	_cleanup_close_ int fd = -EBADF;
	struct input *in;
	struct stat st;

	/* O_NONBLOCK: a FIFO put in the file's place since the survey must not hang us. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return error_set(reterr, -errno, "%s: %s", path, strerror(errno));
	if (fstat(fd, &st) < 0)
		return error_set(reterr, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(reterr, -ENOTSUP, "%s: not a regular file", path);
	posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	in = input_of_source(source_file, NULL);
	in->user = in;
	in->fd = take_fd(&fd);
	*ret = in;
	return 0;
}

struct input *input_of_source(input_source_fn source, void *user)
{
	struct input *in = xcalloc(1, sizeof(*in));

	in->source = source;
	in->user = user;
	in->fd = -EBADF;
	in->raw = xmalloc(INPUT_RAW_BYTES);
	return in;
}

struct input *input_free(struct input *in)
{
	if (!in)
		return NULL;
	cleanup_close(&in->fd);
	ZSTD_freeDStream(in->zstd);
	free(in->gzip);
	free(in->raw);
	free(in);
	return NULL;
}

enum input_state input_state(const struct input *in)
{
	return in->state;
}

const char *input_problem(const struct input *in)
{
	return in->problem;
}

bool input_compressed(const struct input *in)
{
	return in->filter && in->filter != &filter_plain;
}

uint64_t input_bytes_raw(const struct input *in)
{
	return in->bytes_raw;
}

uint64_t input_bytes_text(const struct input *in)
{
	return in->bytes_text;
}

void input_set_progress(struct input *in, _Atomic uint64_t *progress)
{
	in->progress = progress;
}
