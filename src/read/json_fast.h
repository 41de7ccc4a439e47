/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_fast.h - the inline half of the fast way: white space, strings and numbers, 8 or 16 bytes at
 * a time. Every function may read JSON_PAD bytes behind `end`, and none gives a place behind it.
 */
#pragma once
#include "read/json_scan.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* The eight bytes at p as little-endian, whatever the machine. */
static inline uint64_t json_load64(const char *p)
{
	uint64_t w;

	memcpy(&w, p, sizeof(w));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	w = __builtin_bswap64(w);
#endif
	return w;
}

/* The next character that is no white space; `end`, where a zero stands, if there is none. */
static inline const char *json_skip_space(const char *p, const char *end)
{
	if ((unsigned char)p[0] > ' ')
		return p;
	if ((unsigned char)p[1] > ' ')
		return p + 1;
#ifdef __SSE2__
	const __m128i space = _mm_set1_epi8(' ');

	for (; p < end; p += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
		__m128i white = _mm_cmpeq_epi8(_mm_max_epu8(v, space), space);
		unsigned text = ~(unsigned)_mm_movemask_epi8(white) & 0xffff;

		if (text)
			return p + __builtin_ctz(text);
	}
#else
	for (; p < end; p++)
		if ((unsigned char)*p > ' ')
			return p;
#endif
	return end;
}

/* The closing quote of the string whose text begins at p; or NULL. ret_plain: its text has no
   escape, no control character and no byte beyond ASCII. */
static inline const char *json_string_end(const char *p, const char *end, bool *ret_plain)
{
	bool plain = true;

#ifdef __SSE2__
	const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
	const __m128i control = _mm_set1_epi8(0x1f);

	while (p < end) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
		unsigned q = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(v, quote));
		unsigned b = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(v, backslash));
		/* Signed: bytes beyond ASCII are negative, so they count as odd like controls. */
		unsigned odd = ~(unsigned)_mm_movemask_epi8(_mm_cmpgt_epi8(v, control)) & 0xffff;
		unsigned before = (q & -q) - 1; /* all ones if there is no quote */

		if (b & before) {
			plain = false;
			p += __builtin_ctz(b) + 2;
			continue;
		}
		if (odd & before)
			plain = false;
		if (q) {
			p += __builtin_ctz(q);
			*ret_plain = plain;
			return p < end ? p : NULL;
		}
		p += 16;
	}
#else
	for (; p < end; p++) {
		unsigned char c = (unsigned char)*p;

		if (c == '"') {
			*ret_plain = plain;
			return p;
		}
		if (c < ' ' || c >= 0x80 || c == '\\')
			plain = false;
		if (c == '\\')
			p++;
	}
#endif
	return NULL;
}

/* How many characters from p on are neither quote, backslash nor control character. */
static inline size_t json_plain_run(const char *p, const char *end)
{
	const char *q = p;

#ifdef __SSE2__
	const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
	const __m128i control = _mm_set1_epi8(0x1f);

	for (; q < end; q += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)q);
		__m128i odd = _mm_or_si128(
		    _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, backslash)),
		    _mm_cmpeq_epi8(_mm_max_epu8(v, control), control));
		unsigned mask = (unsigned)_mm_movemask_epi8(odd);

		if (mask) {
			q += __builtin_ctz(mask);
			break;
		}
	}
	return (size_t)(MIN(q, end) - p);
#else
	while (q < end && *q != '"' && *q != '\\' && (unsigned char)*q >= ' ')
		q++;
	return (size_t)(q - p);
#endif
}

static inline bool json_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* How many of the eight characters, from the first, are digits. */
static inline unsigned json_digits_in(uint64_t w)
{
	uint64_t x = w ^ 0x3030303030303030u; /* a digit's byte is now 0..9 */
	uint64_t bad = ((x + 0x7676767676767676u) | x) & 0x8080808080808080u;

	return bad ? (unsigned)__builtin_ctzll(bad) / 8 : 8;
}

/* The value of the first n (1..8) characters, all digits. */
static inline uint64_t json_digits_value(uint64_t w, unsigned n)
{
	w = (w ^ 0x3030303030303030u) << (64 - 8 * n); /* leading zeros in front */
	w = w * 10 + (w >> 8);
	return (((w & 0x000000ff000000ffu) * 0x000f424000000064u) +
		(((w >> 16) & 0x000000ff000000ffu) * 0x0000271000000001u)) >>
	       32;
}

/* What json_number does not take itself. */
enum json_number json_number_slow(const char **p, const char *end, unsigned scale, int64_t *ret);

/*
 * A number times 10^scale (0 or 3) as an integer, rounded half away from zero; quotes around it are
 * accepted. Never goes through a double. Moves *p behind the value, or leaves it if no number is
 * there.
 */
static inline enum json_number json_number(const char **at, const char *end, unsigned scale,
					   int64_t *ret)
{
	static const uint64_t power10[] = { 1,	    10,	     100,      1000,	 10000,
					    100000, 1000000, 10000000, 100000000 };
	const char *p = *at;
	uint64_t w = json_load64(p), v;
	unsigned n = json_digits_in(w);

	if (!n)
		return json_number_slow(at, end, scale, ret);
	v = json_digits_value(w, n);
	p += n;
	if (n == 8) {
		w = json_load64(p);
		n = json_digits_in(w);
		if (n)
			v = v * power10[n] + json_digits_value(w, n);
		p += n;
		if (n == 8 && (json_is_digit(*p) || v > 9000000000000000u))
			return json_number_slow(at, end, scale, ret);
	}
	v *= power10[scale];
	if (*p == '.') {
		w = json_load64(p + 1);
		n = json_digits_in(w);
		if (n - 1 > 2 || scale != 3)
			return json_number_slow(at, end, scale, ret);
		v += json_digits_value(w, n) * power10[3 - n];
		p += 1 + n;
	}
	if ((*p | 0x20) == 'e')
		return json_number_slow(at, end, scale, ret);
	*at = p;
	*ret = (int64_t)v;
	return JSON_NUMBER_GOOD;
}

/* Microseconds as nanoseconds. */
static inline enum json_number json_time_ns(const char **p, const char *end, int64_t *ret)
{
	return json_number(p, end, 3, ret);
}
