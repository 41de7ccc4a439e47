/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_parquet.c - rows of a Parquet file, from the Thrift structure at its end.
 *
 * FileMetaData: 1 version, 2 schema, 3 num_rows, 4 row groups. All but the row counts (and, for a
 * list column, its number of values) is passed over, by the types that the compact protocol writes
 * beside each field. Nothing is allocated by what the file says.
 */
#include "read/shard_inside.h"

#include <stdio.h>

#define FOOTER_MOST  ((uint64_t)64 << 20)
#define THRIFT_DEPTH 24u
#define ROWS_MOST    ((int64_t)1 << 50)

/* Types of the compact protocol. */
enum {
	T_STOP,
	T_TRUE,
	T_FALSE,
	T_BYTE,
	T_I16,
	T_I32,
	T_I64,
	T_DOUBLE,
	T_BINARY,
	T_LIST,
	T_SET,
	T_MAP,
	T_STRUCT
};

bool shard_looks_parquet(const struct shard_file *f)
{
	return !f->compressed && f->head_len >= 4 &&
	       (!memcmp(f->head, "PAR1", 4) || !memcmp(f->head, "PARE", 4));
}

/* The next field of a structure; false at its end. */
static bool field_next(struct span *s, unsigned *id, unsigned *type)
{
	uint8_t b = span_u8(s);

	*type = b & 15;
	if (s->bad || *type == T_STOP)
		return false;
	if (b >> 4)
		*id += b >> 4;
	else
		*id = (unsigned)(uint16_t)span_signed(s);
	return !s->bad;
}

static uint64_t list_head(struct span *s, unsigned *type)
{
	uint8_t b = span_u8(s);
	uint64_t n = b >> 4;

	*type = b & 15;
	if (n == 15)
		n = span_varint(s);
	if (n > span_left(s)) /* an element has a byte at least */
		s->bad = true;
	return s->bad ? 0 : n;
}

static void skip(struct span *s, unsigned type, unsigned depth);

static void skip_many(struct span *s, unsigned type, uint64_t n, unsigned depth)
{
	for (uint64_t i = 0; i < n && !s->bad; i++)
		if (type == T_TRUE || type == T_FALSE) /* a byte each, in a list */
			span_u8(s);
		else
			skip(s, type, depth + 1);
}

static void skip_map(struct span *s, unsigned depth)
{
	uint64_t n = span_varint(s);
	unsigned types;

	if (!n)
		return;
	if (n > span_left(s)) {
		s->bad = true;
		return;
	}
	types = span_u8(s);
	for (uint64_t i = 0; i < n && !s->bad; i++) {
		skip_many(s, types >> 4, 1, depth);
		skip_many(s, types & 15, 1, depth);
	}
}

static void skip(struct span *s, unsigned type, unsigned depth)
{
	unsigned id = 0, inner;
	uint64_t n;

	if (depth > THRIFT_DEPTH) {
		s->bad = true;
		return;
	}
	switch (type) {
	case T_TRUE:
	case T_FALSE:
		break;
	case T_BYTE:
		span_u8(s);
		break;
	case T_I16:
	case T_I32:
	case T_I64:
		span_varint(s);
		break;
	case T_DOUBLE:
		span_bytes(s, 8);
		break;
	case T_BINARY:
		n = span_varint(s);
		if (n > span_left(s))
			s->bad = true;
		else
			span_bytes(s, (size_t)n);
		break;
	case T_LIST:
	case T_SET:
		n = list_head(s, &inner);
		skip_many(s, inner, n, depth);
		break;
	case T_MAP:
		skip_map(s, depth);
		break;
	case T_STRUCT:
		while (field_next(s, &id, &inner))
			skip(s, inner, depth + 1);
		break;
	default:
		s->bad = true;
	}
}

struct parquet {
	const char *column; /* whose values are wanted; NULL */
	int64_t rows;	    /* of the file; -1 */
	int64_t group_rows, values;
	uint64_t groups, columns; /* of that name, in all groups */
};

/* ["input_ids", "list", "element"] begins with the column's name? */
static bool path_is(struct span *s, const char *column)
{
	unsigned type;
	uint64_t n = list_head(s, &type);
	bool is = false;

	for (uint64_t i = 0; i < n && !s->bad; i++) {
		uint64_t len = type == T_BINARY ? span_varint(s) : UINT64_MAX;
		const uint8_t *p = len <= span_left(s) ? span_bytes(s, (size_t)len) : NULL;

		if (!p) {
			s->bad = true;
			return false;
		}
		if (!i)
			is = len == strlen(column) && !memcmp(p, column, (size_t)len);
	}
	return is && n > 1; /* a list has levels below its name */
}

/* ColumnMetaData: 3 path_in_schema, 5 num_values. */
static void read_column(struct span *s, struct parquet *q)
{
	unsigned id = 0, type;
	int64_t values = 0;
	bool is = false;

	while (field_next(s, &id, &type)) {
		if (id == 3 && type == T_LIST)
			is = path_is(s, q->column);
		else if (id == 5 && type == T_I64)
			values = span_signed(s);
		else
			skip(s, type, 3);
	}
	if (!is)
		return;
	q->columns++;
	if (values < 0 || values > ROWS_MOST || q->values > ROWS_MOST)
		s->bad = true;
	else
		q->values += values;
}

static void read_chunk(struct span *s, struct parquet *q)
{
	unsigned id = 0, type;

	while (field_next(s, &id, &type)) /* ColumnChunk: 3 meta_data */
		if (id == 3 && type == T_STRUCT)
			read_column(s, q);
		else
			skip(s, type, 2);
}

/* RowGroup: 1 columns, 3 num_rows. */
static void read_group(struct span *s, struct parquet *q)
{
	unsigned id = 0, type, inner;

	while (field_next(s, &id, &type)) {
		if (id == 3 && type == T_I64) {
			int64_t rows = span_signed(s);

			if (rows < 0 || rows > ROWS_MOST || q->group_rows > ROWS_MOST)
				s->bad = true;
			else
				q->group_rows += rows;
		} else if (id == 1 && type == T_LIST && q->column) {
			uint64_t n = list_head(s, &inner);

			for (uint64_t i = 0; i < n && !s->bad && inner == T_STRUCT; i++)
				read_chunk(s, q);
			s->bad |= n && inner != T_STRUCT;
		} else {
			skip(s, type, 1);
		}
	}
	q->groups++;
}

static void read_footer(struct span *s, struct parquet *q)
{
	unsigned id = 0, type, inner;

	while (field_next(s, &id, &type)) {
		if (id == 3 && type == T_I64) {
			q->rows = span_signed(s);
		} else if (id == 4 && type == T_LIST) {
			uint64_t n = list_head(s, &inner);

			for (uint64_t i = 0; i < n && !s->bad && inner == T_STRUCT; i++)
				read_group(s, q);
			s->bad |= n && inner != T_STRUCT;
		} else {
			skip(s, type, 0);
		}
	}
}

/* The footer's text; its length is the last thing but the magic. */
static int load_footer(const struct shard_file *f, uint8_t **ret, uint64_t *ret_len,
		       struct error *reterr)
{
	uint8_t end[8];
	uint64_t len;

	if (f->size < 12 || shard_pread(f, end, 8, f->size - 8) != 8 ||
	    memcmp(end + 4, "PAR", 3) != 0)
		return error_set(reterr, -EBADMSG, "%s: cut off: a Parquet file without its end",
				 f->path);
	if (end[7] == 'E')
		return error_set(reterr, -ENOTSUP, "%s: its footer is encrypted", f->path);
	len = (uint64_t)end[0] | (uint64_t)end[1] << 8 | (uint64_t)end[2] << 16 |
	      (uint64_t)end[3] << 24;
	if (len > f->size - 12 || len > FOOTER_MOST)
		return error_set(reterr, -EBADMSG,
				 "%s: a footer of %" PRIu64 " bytes cannot be in it", f->path, len);
	*ret = xmalloc(len ? (size_t)len : 1);
	if (shard_pread(f, *ret, (size_t)len, f->size - 8 - len) != (ssize_t)len)
		return error_set(reterr, -EIO, "%s: its footer cannot be read", f->path);
	*ret_len = len;
	return 0;
}

int shard_count_parquet(struct shard_file *f, struct shard *ret, struct error *reterr)
{
	_cleanup_free_ uint8_t *footer = NULL;
	struct parquet q = { .column = f->length_field, .rows = -1 };
	struct span s;
	uint64_t len = 0;
	int r = load_footer(f, &footer, &len, reterr);

	if (r < 0)
		return r;
	s = span_of(footer, (size_t)len);
	read_footer(&s, &q);
	if (s.bad || q.rows < 0 || q.rows > ROWS_MOST)
		return error_set(reterr, -EBADMSG, "%s: a damaged Parquet footer", f->path);
	ret->records = q.rows;
	if (q.columns && q.columns == q.groups)
		ret->tokens = q.values;
	if (q.group_rows != q.rows)
		snprintf(ret->why, sizeof(ret->why),
			 "its footer says %" PRId64 " rows, its row groups %" PRId64, q.rows,
			 q.group_rows);
	return 0;
}
