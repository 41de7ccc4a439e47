/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_bytes.h - a log's bytes by sixteen: where words, digits and lines end, and lines of one
 * shape, which is a text with every digit made a 0. Behind what is asked for LOG_PAD bytes are
 * readable.
 */
#pragma once
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "read/log_internal.h"

struct masks {
	uint64_t letter, em, digit; /* em: m, that ends a colour; digit: or [ */
	uint64_t lf, end;	    /* end: LF or CR */
};

static inline bool is_line_end(char c)
{
	return c == '\n' || c == '\r';
}

#ifdef __SSE2__
static inline __m128i load16(const char *p)
{
	return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static inline __m128i is_byte(__m128i v, char c)
{
	return _mm_cmpeq_epi8(v, _mm_set1_epi8(c));
}

static inline uint64_t join(__m128i a, __m128i b, __m128i c, __m128i d)
{
	return (uint64_t)(unsigned)_mm_movemask_epi8(a) |
	       (uint64_t)(unsigned)_mm_movemask_epi8(b) << 16 |
	       (uint64_t)(unsigned)_mm_movemask_epi8(c) << 32 |
	       (uint64_t)(unsigned)_mm_movemask_epi8(d) << 48;
}

/* Bytes in low..low+n-1: as signed numbers, those that are small once low is moved to the bottom.
 */
static inline __m128i in_range(__m128i v, char low, int n)
{
	return _mm_cmplt_epi8(_mm_add_epi8(v, _mm_set1_epi8((char)(-128 - low))),
			      _mm_set1_epi8((char)(-128 + n)));
}

static inline __m128i letters_in(__m128i v)
{
	return in_range(_mm_or_si128(v, _mm_set1_epi8(0x20)), 'a', 26);
}

static inline __m128i digits_in(__m128i v)
{
	return _mm_or_si128(in_range(v, '0', 10), is_byte(v, '['));
}

static inline struct masks masks_of(const char *p)
{
	__m128i a = load16(p), b = load16(p + 16), c = load16(p + 32), d = load16(p + 48);
	struct masks m = {
		.letter = join(letters_in(a), letters_in(b), letters_in(c), letters_in(d)),
		.em = join(is_byte(a, 'm'), is_byte(b, 'm'), is_byte(c, 'm'), is_byte(d, 'm')),
		.digit = join(digits_in(a), digits_in(b), digits_in(c), digits_in(d)),
		.lf = join(is_byte(a, '\n'), is_byte(b, '\n'), is_byte(c, '\n'), is_byte(d, '\n')),
		.end = join(is_byte(a, '\r'), is_byte(b, '\r'), is_byte(c, '\r'), is_byte(d, '\r')),
	};

	m.end |= m.lf;
	return m;
}

static inline const char *line_end(const char *p, const char *end)
{
	for (; p < end; p += 16) {
		__m128i v = load16(p);
		int ends = _mm_movemask_epi8(_mm_or_si128(is_byte(v, '\n'), is_byte(v, '\r')));

		if (ends)
			return MIN(p + __builtin_ctz((unsigned)ends), end);
	}
	return end;
}

static inline __m128i zeroed(const char *p)
{
	__m128i v = load16(p), digit = in_range(v, '0', 10);

	return _mm_or_si128(_mm_andnot_si128(digit, v), _mm_and_si128(digit, _mm_set1_epi8('0')));
}

static inline void shape16(const char *p, uint64_t ret[2])
{
	_mm_storeu_si128((__m128i *)(void *)ret, zeroed(p));
}

/* Not 0: what of 16 bytes is no digit where the shape has one, nor the same elsewhere. */
static inline __m128i unlike16(const char *line, const char *shape)
{
	__m128i s = load16(shape), most = _mm_and_si128(is_byte(s, '0'), _mm_set1_epi8(9));

	return _mm_subs_epu8(_mm_xor_si128(load16(line), s), most);
}

/* The same of fewer than 16 bytes. */
static inline bool same_few(const char *line, const char *shape, size_t len)
{
	__m128i like = _mm_cmpeq_epi8(unlike16(line, shape), _mm_setzero_si128());

	return !(~_mm_movemask_epi8(like) & ((1 << len) - 1));
}

/* At least 16 bytes. */
static inline bool same_shape(const char *line, const char *shape, size_t len)
{
	__m128i unlike = unlike16(line + len - 16, shape + len - 16);

	for (size_t i = 0; i + 16 < len; i += 16)
		unlike = _mm_or_si128(unlike, unlike16(line + i, shape + i));
	return _mm_movemask_epi8(_mm_cmpeq_epi8(unlike, _mm_setzero_si128())) == 0xffff;
}
#else
static inline struct masks masks_of(const char *p)
{
	struct masks m = { 0 };

	for (unsigned i = 0; i < 64; i++) {
		uint64_t bit = (uint64_t)1 << i;

		m.letter |= is_alpha(p[i]) ? bit : 0;
		m.em |= p[i] == 'm' ? bit : 0;
		m.digit |= is_digit(p[i]) || p[i] == '[' ? bit : 0;
		m.lf |= p[i] == '\n' ? bit : 0;
		m.end |= is_line_end(p[i]) ? bit : 0;
	}
	return m;
}

static inline const char *line_end(const char *p, const char *end)
{
	while (p < end && !is_line_end(*p))
		p++;
	return p;
}

static inline void shape16(const char *p, uint64_t ret[2])
{
	char shape[16];

	for (unsigned i = 0; i < 16; i++)
		shape[i] = is_digit(p[i]) ? '0' : p[i];
	memcpy(ret, shape, sizeof(shape));
}

static inline bool same_shape(const char *line, const char *shape, size_t len)
{
	unsigned unlike = 0;

	for (size_t i = 0; i < len; i++)
		unlike |= (unsigned char)(line[i] ^ shape[i]) > (shape[i] == '0' ? 9 : 0);
	return !unlike;
}

static inline bool same_few(const char *line, const char *shape, size_t len)
{
	return same_shape(line, shape, len);
}
#endif
