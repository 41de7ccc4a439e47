/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buf.h - growing bytes to write, and a span (pointer, end) to read them: the only way in which
 * bytes from outside are read. A read past the end sets `bad` and gives zeros, so that a decoder
 * checks once at its end.
 */
#pragma once
#include "base/base.h"

struct buf {
	uint8_t *data;
	size_t len, cap;
};

void buf_put(struct buf *b, const void *p, size_t len);
void buf_widen(struct buf *b, size_t more); /* room for so many bytes */
void buf_printf(struct buf *b, const char *format, ...) PRINTF_LIKE(2, 3); /* without a NUL */
void buf_put_varint_long(struct buf *b, uint64_t v);
static inline void buf_put_varint(struct buf *b, uint64_t v) /* LEB128, at most 10 bytes */
{
	if (v < 0x80 && b->len < b->cap)
		b->data[b->len++] = (uint8_t)v;
	else
		buf_put_varint_long(b, v);
}
static inline void buf_put_signed(struct buf *b, int64_t v) /* zigzag */
{
	buf_put_varint(b, ((uint64_t)v << 1) ^ (uint64_t)(v >> 63));
}
void buf_put_string(struct buf *b, const char *s, size_t len); /* varint length, bytes */
void buf_done(struct buf *b);

struct span {
	const uint8_t *p, *end;
	bool bad;
};

static inline struct span span_of(const void *p, size_t len)
{
	return (struct span){ .p = p, .end = len ? (const uint8_t *)p + len : p };
}
static inline size_t span_left(const struct span *s)
{
	return (size_t)(s->end - s->p);
}
uint64_t span_varint_long(struct span *s);
static inline uint64_t span_varint(struct span *s)
{
	return s->p < s->end && *s->p < 0x80 ? *s->p++ : span_varint_long(s);
}
static inline int64_t span_signed(struct span *s)
{
	uint64_t v = span_varint(s);

	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}
uint8_t span_u8(struct span *s);
const uint8_t *span_bytes(struct span *s, size_t len); /* NULL and bad if fewer are left */
const char *span_string(struct span *s, size_t *ret_len, size_t limit);
