/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_arrow.c - rows of Arrow IPC files and streams (Hugging Face's .arrow are streams).
 *
 * A walk from message to message: only the metadata is read, and of it the few numbers that say
 * what the message is, how many rows it has and how long its body is. Flatbuffers are read through
 * one function that checks every offset against the metadata's end.
 */
#include "read/shard_inside.h"

#include <stdio.h>

#define METADATA_MOST ((uint32_t)16 << 20)
#define ROWS_MOST     ((int64_t)1 << 50)
#define FIELDS_MOST   4096u
#define FIELDS_DEPTH  16u

enum { HEADER_SCHEMA = 1, HEADER_DICTIONARY = 2, HEADER_BATCH = 3, HEADER_MOST = 5 };

struct flat {
	const uint8_t *p;
	size_t len;
	bool bad;
};

static uint64_t flat_at(struct flat *b, uint64_t at, unsigned bytes)
{
	uint64_t v = 0;

	if (at > b->len || bytes > b->len - at) {
		b->bad = true;
		return 0;
	}
	while (bytes--)
		v = v << 8 | b->p[at + bytes];
	return v;
}

/* The place that the offset at `at` leads to. */
static uint64_t flat_follow(struct flat *b, uint64_t at)
{
	uint64_t to = at + flat_at(b, at, 4);

	b->bad |= to > b->len || to == at;
	return b->bad ? 0 : to;
}

/* Where field n of a table lies; 0: it is not there. */
static uint64_t flat_field(struct flat *b, uint64_t table, unsigned n)
{
	int64_t vtable = (int64_t)table - (int32_t)flat_at(b, table, 4);
	uint64_t size, offset;

	if (b->bad || vtable < 0)
		return b->bad = true, 0;
	size = flat_at(b, (uint64_t)vtable, 2);
	if (4 + 2 * (uint64_t)n + 2 > size)
		return 0;
	offset = flat_at(b, (uint64_t)vtable + 4 + 2 * (uint64_t)n, 2);
	return b->bad || !offset ? 0 : table + offset;
}

static int64_t flat_number(struct flat *b, uint64_t table, unsigned n, unsigned bytes)
{
	uint64_t at = flat_field(b, table, n);

	return at ? (int64_t)flat_at(b, at, bytes) : 0;
}

struct arrow {
	int64_t rows, values;
	uint64_t batches;
	const char *column;
	int node;	/* of the wanted list's elements, in depth-first order; -1 */
	unsigned nodes; /* counted so far, while the schema is walked */
};

static bool name_is(struct flat *b, uint64_t field, const char *name)
{
	uint64_t at = flat_field(b, field, 0), len;

	at = at ? flat_follow(b, at) : 0;
	len = at ? flat_at(b, at, 4) : 0;
	return at && !b->bad && len == strlen(name) && len <= b->len - at - 4 &&
	       !memcmp(b->p + at + 4, name, (size_t)len);
}

/* Field: 0 name, 5 children. Each field has a node; so its first child's is the next one. */
static void walk_field(struct flat *b, uint64_t field, struct arrow *a, unsigned depth)
{
	uint64_t list = flat_field(b, field, 5), n;

	list = list ? flat_follow(b, list) : 0;
	n = list ? flat_at(b, list, 4) : 0;
	if (!depth && n == 1 && name_is(b, field, a->column))
		a->node = (int)a->nodes + 1;
	if (++a->nodes > FIELDS_MOST || depth > FIELDS_DEPTH)
		b->bad = true;
	for (uint64_t i = 0; i < n && !b->bad; i++)
		walk_field(b, flat_follow(b, list + 4 + 4 * i), a, depth + 1);
}

/* Schema: 1 fields. */
static void read_schema(struct flat b, uint64_t schema, struct arrow *a)
{
	uint64_t list = flat_field(&b, schema, 1), n;

	a->node = -1;
	a->nodes = 0;
	list = list ? flat_follow(&b, list) : 0;
	n = list ? flat_at(&b, list, 4) : 0;
	for (uint64_t i = 0; i < n && !b.bad; i++)
		walk_field(&b, flat_follow(&b, list + 4 + 4 * i), a, 0);
	if (b.bad) /* rows can be counted without it */
		a->node = -1;
}

/* RecordBatch: 0 length, 1 nodes (16 bytes each: length, nulls). */
static void read_batch(struct flat *b, uint64_t batch, struct arrow *a)
{
	int64_t rows = flat_number(b, batch, 0, 8), values = 0;

	if (a->node >= 0) {
		uint64_t list = flat_field(b, batch, 1), n;

		list = list ? flat_follow(b, list) : 0;
		n = list ? flat_at(b, list, 4) : 0;
		if ((uint64_t)a->node < n)
			values = (int64_t)flat_at(b, list + 4 + 16 * (uint64_t)a->node, 8);
		else
			b->bad = true;
	}
	if (rows < 0 || rows > ROWS_MOST - a->rows || values < 0 || values > ROWS_MOST - a->values)
		b->bad = true;
	if (b->bad)
		return;
	a->rows += rows;
	a->values += values;
	a->batches++;
}

/* Message: 0 version, 1 header's type, 2 header, 3 body's length. */
static bool read_message(struct flat *b, struct arrow *a, int64_t *ret_body)
{
	uint64_t message = flat_follow(b, 0), header;
	int64_t type = message ? flat_number(b, message, 1, 1) : 0;

	*ret_body = message ? flat_number(b, message, 3, 8) : 0;
	header = message ? flat_field(b, message, 2) : 0;
	header = header ? flat_follow(b, header) : 0;
	if (b->bad || !header || type < HEADER_SCHEMA || type > HEADER_MOST || *ret_body < 0)
		return false;
	if (type == HEADER_SCHEMA && a->column)
		read_schema(*b, header, a);
	if (type == HEADER_BATCH)
		read_batch(b, header, a);
	return !b->bad;
}

static uint32_t word_at(const struct shard_file *f, uint64_t at)
{
	uint8_t w[4] = { 0 };

	if (shard_pread(f, w, 4, at) != 4)
		return 0;
	return (uint32_t)w[0] | (uint32_t)w[1] << 8 | (uint32_t)w[2] << 16 | (uint32_t)w[3] << 24;
}

static bool is_file(const struct shard_file *f)
{
	return f->head_len >= 8 && !memcmp(f->head, "ARROW1\0\0", 8);
}

/* A stream begins with its schema's message. */
bool shard_looks_arrow(const struct shard_file *f)
{
	struct flat b = { .p = f->head + 8 };
	struct arrow a = { .node = -1 };
	uint64_t len;
	int64_t body;

	if (f->compressed || f->head_len < 16)
		return false;
	if (is_file(f))
		return true;
	if (memcmp(f->head, "\xff\xff\xff\xff", 4) != 0)
		b.p = f->head + 4; /* before 0.15 */
	len = (uint64_t)b.p[-4] | (uint64_t)b.p[-3] << 8 | (uint64_t)b.p[-2] << 16 |
	      (uint64_t)b.p[-1] << 24;
	if (len < 16 || len > METADATA_MOST)
		return false;
	b.len = (size_t)MIN(len, f->head_len - (size_t)(b.p - f->head));
	return read_message(&b, &a, &body) && !body && !a.batches;
}

/* One message; 1: another may follow, 0: the end, -1: damaged or cut off. */
static int next_message(const struct shard_file *f, uint64_t *at, struct buf *meta, struct arrow *a)
{
	uint32_t len = word_at(f, *at);
	uint64_t begin = *at + 4;
	struct arrow tried = *a;
	struct flat b;
	int64_t body;

	if (*at >= f->size || f->size - *at < 4)
		return *at == f->size ? 0 : -1;
	if (len == UINT32_MAX) {
		len = word_at(f, *at + 4);
		begin += 4;
	}
	if (!len) /* the end of the stream */
		return 0;
	if (len > METADATA_MOST || begin > f->size || len > f->size - begin)
		return -1;
	meta->len = 0;
	buf_widen(meta, len);
	if (shard_pread(f, meta->data, len, begin) != (ssize_t)len)
		return -1;
	b = (struct flat){ .p = meta->data, .len = len };
	/* A batch whose body is cut off cannot be read by anyone. */
	if (!read_message(&b, &tried, &body) || (uint64_t)body > f->size - begin - len)
		return -1;
	*a = tried;
	*at = MIN(f->size, begin + len + (((uint64_t)body + 7) & ~(uint64_t)7));
	return 1;
}

int shard_count_arrow(struct shard_file *f, struct shard *ret, struct error *reterr)
{
	struct arrow a = { .column = f->length_field, .node = -1 };
	struct buf meta = { 0 };
	uint64_t at = is_file(f) ? 8 : 0;
	int r;

	while ((r = next_message(f, &at, &meta, &a)) > 0)
		;
	buf_done(&meta);
	if (r < 0 && !a.batches)
		return error_set(reterr, -EBADMSG, "%s: a damaged Arrow file, at byte %" PRIu64,
				 f->path, at);
	ret->records = a.rows;
	if (a.node >= 0)
		ret->tokens = a.values;
	if (r < 0)
		snprintf(ret->why, sizeof(ret->why),
			 "damaged or cut off at byte %" PRIu64 ", after %" PRId64 " rows", at,
			 a.rows);
	return 0;
}
