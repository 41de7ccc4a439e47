/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_tar.c - samples of a WebDataset tar: runs of members that share all of their name up to the
 * first dot of its last part.
 *
 * Of a plain file only the headers are read, the members are jumped over; so it is as fast as the
 * disk can seek. A compressed one goes through the decompressor whole.
 */
#include "read/shard_inside.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/intern.h"

#define BLOCK	     512u
#define NAME_MOST    ((size_t)64 << 10) /* of long names and of pax records */
#define WINDOW_BYTES ((size_t)256 << 10)
#define PEEK_BYTES   ((size_t)4 << 10) /* where members are large */
#define LARGE_MEMBER ((uint64_t)64 << 10)
#define AHEAD_BYTES  ((uint64_t)4 << 20)
#define ENDINGS_MOST 64u

static bool all_zero(const uint8_t *p)
{
	for (unsigned i = 0; i < BLOCK; i++)
		if (p[i])
			return false;
	return true;
}

/* Octal, or base 256 for what does not fit; false: no number. */
static bool tar_number(const uint8_t *p, unsigned len, uint64_t *ret)
{
	uint64_t v = 0;
	unsigned i = 0;

	if (*p & 0x80) {
		v = *p & 0x3f;
		for (i = 1; i < len; i++) {
			if (v >> 55)
				return false;
			v = v << 8 | p[i];
		}
		*ret = v;
		return !(*p & 0x40);
	}
	while (i < len && p[i] == ' ')
		i++;
	for (; i < len && p[i] >= '0' && p[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(p[i] - '0'); /* 12 digits at most */
	*ret = v;
	return i == len || !p[i] || p[i] == ' ';
}

static bool sum_is_right(const uint8_t *p)
{
	uint64_t said;
	uint32_t sum = 8 * ' ', odd = 8 * ' '; /* some old ones took characters as signed */

	for (unsigned i = 0; i < BLOCK; i++) {
		if (i >= 148 && i < 156)
			continue;
		sum += p[i];
		odd += p[i] - (p[i] >= 128 ? 256u : 0);
	}
	return tar_number(p + 148, 8, &said) && (said == sum || said == odd);
}

bool shard_looks_tar(const struct shard_file *f)
{
	return f->head_len >= BLOCK && f->head[0] && sum_is_right(f->head);
}

/* --- bytes: jumped over in a file, read away in a stream --- */

struct tar {
	const struct shard_file *f;
	struct shard_stream stream;
	uint8_t *buf;
	size_t from, len; /* of buf: what was read and not used */
	uint64_t at;	  /* in the archive: of buf[from] */
	uint64_t ahead;	  /* the disk was asked for what lies in front of it */
	bool large;	  /* the last member was */
	int error;

	/* of the next member */
	char *name;   /* of long names; NULL */
	int64_t size; /* that pax says; -1 */

	uint64_t key, samples, without, doubled;
	bool behind;			/* there is more behind the end */
	uint64_t endings[ENDINGS_MOST]; /* of the sample that is open */
	unsigned n_endings;
};

/* The disk goes on while headers are read. */
static void read_ahead(struct tar *t)
{
	uint64_t from = t->at + t->len;

	if (t->large || t->f->compressed || from + AHEAD_BYTES / 2 < t->ahead)
		return;
	t->ahead = from + AHEAD_BYTES;
	posix_fadvise(t->f->fd, (off_t)from, (off_t)AHEAD_BYTES, POSIX_FADV_WILLNEED);
}

static const uint8_t *tar_block(struct tar *t)
{
	ssize_t n;

	if (t->len < BLOCK) {
		size_t want = t->f->compressed || !t->large ? WINDOW_BYTES : PEEK_BYTES;

		memmove(t->buf, t->buf + t->from, t->len);
		t->from = 0;
		read_ahead(t);
		n = t->f->compressed
			? input_read(t->stream.in, t->buf + t->len, want - t->len)
			: shard_pread(t->f, t->buf + t->len, want - t->len, t->at + t->len);
		if (n < 0)
			t->error = (int)n;
		t->len += (size_t)MAX(n, 0);
		if (t->len < BLOCK)
			return NULL;
	}
	t->from += BLOCK;
	t->len -= BLOCK;
	t->at += BLOCK;
	return t->buf + t->from - BLOCK;
}

static bool tar_skip(struct tar *t, uint64_t bytes)
{
	uint64_t inside = MIN(bytes, t->len);

	t->from += (size_t)inside;
	t->len -= (size_t)inside;
	t->at += inside;
	bytes -= inside;
	t->large = bytes > LARGE_MEMBER;
	if (!t->f->compressed) {
		if (t->at > t->f->size || bytes > t->f->size - t->at)
			return false;
		shard_progress(t->f, bytes);
		t->at += bytes;
		return true;
	}
	while (bytes) {
		ssize_t n = input_read(t->stream.in, t->buf, (size_t)MIN(bytes, WINDOW_BYTES));

		if (n <= 0)
			return false;
		bytes -= (uint64_t)n;
		t->at += (uint64_t)n;
	}
	return true;
}

static uint64_t rounded(uint64_t size)
{
	return (size + BLOCK - 1) & ~(uint64_t)(BLOCK - 1);
}

/* The contents of a member that tells of the next one; NUL-ended. */
static char *tar_text(struct tar *t, uint64_t size)
{
	char *text;

	if (size > NAME_MOST)
		return NULL;
	text = xmalloc((size_t)rounded(size) + 1);
	for (uint64_t got = 0; got < size; got += BLOCK) {
		const uint8_t *block = tar_block(t);

		if (!block) {
			free(text);
			return NULL;
		}
		memcpy(text + got, block, BLOCK);
	}
	text[size] = 0;
	return text;
}

/* "30 path=some/long/name\n" records. */
static void read_pax(struct tar *t, const char *text, size_t len)
{
	for (size_t at = 0; at < len;) {
		size_t n = 0, digits = at;
		const char *record, *end;

		while (digits < len && text[digits] >= '0' && text[digits] <= '9' && n < len)
			n = n * 10 + (size_t)(text[digits++] - '0');
		if (n <= digits - at + 1 || n > len - at || text[digits] != ' ')
			return;
		record = text + digits + 1;
		end = text + at + n - 1; /* the newline */
		if (end - record > 5 && !memcmp(record, "path=", 5)) {
			free(t->name);
			t->name = xasprintf("%.*s", (int)(end - record - 5), record + 5);
		} else if (end - record > 5 && !memcmp(record, "size=", 5)) {
			int64_t v;

			if (!count_of_text(record + 5, (size_t)(end - record - 5), &v))
				t->size = v;
		}
		at += n;
	}
}

/* --- samples --- */

static void open_sample(struct tar *t, uint64_t key)
{
	if (!t->samples || t->key != key) {
		t->samples++;
		t->key = key;
		t->n_endings = 0;
	}
}

/* The same ending twice in one sample is what a reader of WebDataset stops at. */
static void add_ending(struct tar *t, uint64_t ending)
{
	for (unsigned i = 0; i < t->n_endings; i++)
		if (t->endings[i] == ending) {
			t->doubled++;
			return;
		}
	if (t->n_endings < ENDINGS_MOST)
		t->endings[t->n_endings++] = ending;
}

static void add_member(struct tar *t, const char *name, size_t len)
{
	const char *slash = memrchr(name, '/', len);
	const char *base = slash ? slash + 1 : name, *end = name + len;
	const char *dot = memchr(base, '.', (size_t)(end - base));

	if (!slash && len > 4 && !memcmp(name, "__", 2) && !memcmp(end - 2, "__", 2))
		return; /* about the archive */
	if (!dot || dot == base) {
		t->without++;
		return;
	}
	open_sample(t, hash_bytes(name, (size_t)(dot - name), 1));
	add_ending(t, hash_bytes(dot, (size_t)(end - dot), 2));
}

static void add_header(struct tar *t, const uint8_t *h)
{
	char name[BLOCK];
	size_t len = strnlen((const char *)h, 100), prefix = 0;

	if (t->name) {
		add_member(t, t->name, strlen(t->name));
		return;
	}
	if (!memcmp(h + 257, "ustar\0", 6))
		prefix = strnlen((const char *)h + 345, 155);
	memcpy(name, h + 345, prefix);
	if (prefix)
		name[prefix++] = '/';
	memcpy(name + prefix, h, len);
	add_member(t, name, prefix + len);
}

enum tar_step { TAR_MORE, TAR_END, TAR_CUT, TAR_DAMAGED };

/* GNU's map of holes goes on in blocks of its own. */
static bool pass_sparse(struct tar *t, const uint8_t *h)
{
	bool more = h[482];

	while (more) {
		h = tar_block(t);
		if (!h)
			return false;
		more = h[504];
	}
	return true;
}

static enum tar_step tell_of_next(struct tar *t, char type, uint64_t size)
{
	char *text = tar_text(t, size);

	if (!text)
		return size > NAME_MOST ? TAR_DAMAGED : TAR_CUT;
	if (type == 'L') {
		free(t->name);
		t->name = text;
		return TAR_MORE;
	}
	read_pax(t, text, (size_t)size);
	free(text);
	return TAR_MORE;
}

static enum tar_step next_member(struct tar *t)
{
	const uint8_t *h = tar_block(t);
	uint64_t size;
	char type;

	if (!h)
		return t->len ? TAR_CUT : TAR_END;
	if (!h[0] && all_zero(h)) {
		for (size_t i = 0; i < t->len && !t->behind; i++)
			t->behind = t->buf[t->from + i];
		return TAR_END;
	}
	if (!sum_is_right(h) || !tar_number(h + 124, 12, &size))
		return TAR_DAMAGED;
	type = (char)h[156];
	if (type == 'L' || type == 'x')
		return tell_of_next(t, type, size);
	if (type != 'K' && type != 'g') {
		size_t len = strnlen((const char *)h, 100);

		if (t->size >= 0)
			size = (uint64_t)t->size;
		if (type == '0' || type == '7' || type == 'S' ||
		    (!type && !(len && h[len - 1] == '/')))
			add_header(t, h);
		else if (type && strchr("12345", type))
			size = 0; /* links, devices, folders have no contents */
		if (type == 'S' && !pass_sparse(t, h))
			return TAR_CUT;
		free(t->name);
		t->name = NULL;
		t->size = -1;
	}
	return size > INT64_MAX - BLOCK || !tar_skip(t, rounded(size)) ? TAR_CUT : TAR_MORE;
}

static void say(const struct tar *t, enum tar_step end, const char *problem, char why[160])
{
	if (problem[0])
		snprintf(why, 160, "%s; counted what lies in front of it", problem);
	else if (end == TAR_CUT)
		snprintf(why, 160, "cut off in its last member, after %" PRIu64 " samples begun",
			 t->samples);
	else if (end == TAR_DAMAGED)
		snprintf(why, 160, "damaged at byte %" PRIu64 ", after %" PRIu64 " samples",
			 t->at - BLOCK, t->samples);
	else if (t->behind)
		snprintf(why, 160, "more behind its end, which readers of tar do not see");
	else if (t->doubled)
		snprintf(why, 160,
			 "%" PRIu64 " members have the ending of another one of their sample: a "
			 "reader of WebDataset stops there",
			 t->doubled);
	else if (t->without)
		snprintf(why, 160, "%" PRIu64 " members have no ending and are in no sample",
			 t->without);
}

int shard_count_tar(struct shard_file *f, struct shard *ret, struct error *reterr)
{
	struct tar t = { .f = f, .size = -1 };
	enum tar_step step;

	t.buf = xmalloc(WINDOW_BYTES);
	shard_stream_open(&t.stream, f);
	while ((step = next_member(&t)) == TAR_MORE)
		;
	if (!t.error)
		say(&t, step, input_problem(t.stream.in), ret->why);
	ret->records = (int64_t)t.samples;
	shard_stream_close(&t.stream);
	free(t.name);
	free(t.buf);
	if (t.error)
		return error_set(reterr, t.error, "%s: %s", f->path, strerror(-t.error));
	return 0;
}
