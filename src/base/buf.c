/* SPDX-License-Identifier: Apache-2.0 */
/* buf.c - growing bytes, and bounded reading of them. */
#include "base/buf.h"

#include <endian.h>
#include <stdio.h>

void buf_put(struct buf *b, const void *p, size_t len)
{
	b->data = vec_reserve(b->data, &b->cap, b->len + len, 1);
	if (len)
		memcpy(b->data + b->len, p, len);
	b->len += len;
}

void buf_widen(struct buf *b, size_t more)
{
	b->data = vec_reserve(b->data, &b->cap, b->len + more, 1);
}

void buf_printf(struct buf *b, const char *format, ...)
{
	va_list ap, again;
	int n;

	va_start(ap, format);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, format, ap);
	va_end(ap);
	if (n > 0) {
		buf_widen(b, (size_t)n + 1);
		vsnprintf((char *)b->data + b->len, (size_t)n + 1, format, again);
		b->len += (size_t)n;
	}
	va_end(again);
}

/* Up to 8 bytes are made at once, without a branch for their number: groups of seven bits are moved
   apart, and all but the last get the bit that says so. */
void buf_put_varint_long(struct buf *b, uint64_t v)
{
	uint64_t word = v, more;
	unsigned n;

	if (b->cap - b->len < 10)
		buf_widen(b, 10);
	for (; v >> 56; v >>= 7, word = v)
		b->data[b->len++] = (uint8_t)(v | 0x80);
	n = (70 - (unsigned)__builtin_clzll(word | 1)) / 7;
	word = (word & 0x000000000fffffffu) | (word & 0x00fffffff0000000u) << 4;
	word = (word & 0x00003fff00003fffu) | (word & 0x0fffc0000fffc000u) << 2;
	word = (word & 0x007f007f007f007fu) | (word & 0x3f803f803f803f80u) << 1;
	more = 0x8080808080808080u & (((uint64_t)1 << 8 * (n - 1)) - 1);
	word = htole64(word | more);
	memcpy(b->data + b->len, &word, sizeof(word));
	b->len += n;
}

void buf_put_string(struct buf *b, const char *s, size_t len)
{
	buf_put_varint(b, len);
	buf_put(b, s, len);
}

void buf_done(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ 0 };
}

/* Eight bytes are looked at in one: their continuation bits tell how long the varint is. */
uint64_t span_varint_long(struct span *s)
{
	uint64_t v = 0;

	if (span_left(s) >= 8) {
		uint64_t word, more;
		unsigned n;

		memcpy(&word, s->p, sizeof(word));
		word = le64toh(word);
		more = ~word & 0x8080808080808080u;
		if (more) {
			n = (unsigned)__builtin_ctzll(more) / 8 + 1;
			word &= n == 8 ? UINT64_MAX : (1ull << (8 * n)) - 1;
			word &= 0x7f7f7f7f7f7f7f7fu;
			word = (word & 0x007f007f007f007fu) | (word & 0x7f007f007f007f00u) >> 1;
			word = (word & 0x00003fff00003fffu) | (word & 0x3fff00003fff0000u) >> 2;
			word = (word & 0x000000000fffffffu) | (word & 0x0fffffff00000000u) >> 4;
			s->p += n;
			return word;
		}
	}
	for (unsigned shift = 0; shift < 64 && s->p < s->end; shift += 7) {
		uint8_t byte = *s->p++;

		v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return v;
	}
	s->bad = true;
	s->p = s->end;
	return 0;
}

uint8_t span_u8(struct span *s)
{
	const uint8_t *p = span_bytes(s, 1);

	return p ? *p : 0;
}

const uint8_t *span_bytes(struct span *s, size_t len)
{
	const uint8_t *p = s->p;

	if (s->bad || span_left(s) < len) {
		s->bad = true;
		s->p = s->end;
		return NULL;
	}
	s->p += len;
	return p;
}

const char *span_string(struct span *s, size_t *ret_len, size_t limit)
{
	uint64_t len = span_varint(s);

	*ret_len = 0;
	if (len > limit) {
		s->bad = true;
		return "";
	}
	const uint8_t *p = span_bytes(s, (size_t)len);

	if (!p)
		return "";
	*ret_len = (size_t)len;
	return (const char *)p;
}
