/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_fast.c - the fast way through sound JSON: 64 bytes at a time, as bit masks.
 *
 * The masks are after Langdale and Lemire, "Parsing Gigabytes of JSON per Second" (2019), with one
 * check added: a closing quote that is followed by neither white space nor one of , : } ] means
 * that quotes are not what they seem, and the careful way must look.
 */
#include "read/json_scan.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

struct block {
	uint64_t quote, backslash, open, close;
	uint64_t stop; /* what may follow a string */
};

#ifdef __SSE2__
static inline uint64_t join(__m128i a, __m128i b, __m128i c, __m128i d)
{
	return (uint64_t)(unsigned)_mm_movemask_epi8(a) |
	       (uint64_t)(unsigned)_mm_movemask_epi8(b) << 16 |
	       (uint64_t)(unsigned)_mm_movemask_epi8(c) << 32 |
	       (uint64_t)(unsigned)_mm_movemask_epi8(d) << 48;
}

static inline uint64_t equal(const __m128i v[4], char c)
{
	const __m128i x = _mm_set1_epi8(c);

	return join(_mm_cmpeq_epi8(v[0], x), _mm_cmpeq_epi8(v[1], x), _mm_cmpeq_epi8(v[2], x),
		    _mm_cmpeq_epi8(v[3], x));
}

/* , : } ] or at most a space: ',' = 2c, ':' = 3a, ']' = 5d, '}' = 7d, so bit 5 joins ] and }. */
static inline __m128i stops(__m128i v)
{
	const __m128i low = _mm_cmpeq_epi8(_mm_max_epu8(v, _mm_set1_epi8(' ')), _mm_set1_epi8(' '));
	const __m128i closing =
	    _mm_cmpeq_epi8(_mm_or_si128(v, _mm_set1_epi8(0x20)), _mm_set1_epi8('}'));
	const __m128i comma = _mm_cmpeq_epi8(v, _mm_set1_epi8(','));
	const __m128i colon = _mm_cmpeq_epi8(v, _mm_set1_epi8(':'));

	return _mm_or_si128(_mm_or_si128(low, closing), _mm_or_si128(comma, colon));
}

static inline struct block block_of(const char *p)
{
	__m128i v[4];

	for (int i = 0; i < 4; i++)
		v[i] = _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i));
	return (struct block){
		.quote = equal(v, '"'),
		.backslash = equal(v, '\\'),
		.open = equal(v, '{'),
		.close = equal(v, '}'),
		.stop = join(stops(v[0]), stops(v[1]), stops(v[2]), stops(v[3])),
	};
}
#else
static inline struct block block_of(const char *p)
{
	struct block b = { 0 };

	for (unsigned i = 0; i < 64; i++) {
		unsigned char c = (unsigned char)p[i];
		uint64_t bit = (uint64_t)1 << i;

		b.quote |= c == '"' ? bit : 0;
		b.backslash |= c == '\\' ? bit : 0;
		b.open |= c == '{' ? bit : 0;
		b.close |= c == '}' ? bit : 0;
		b.stop |= c <= ' ' || c == ',' || c == ':' || c == '}' || c == ']' ? bit : 0;
	}
	return b;
}
#endif

/* Each bit becomes the parity of itself and all below it. */
static inline uint64_t prefix_xor(uint64_t x)
{
	x ^= x << 1;
	x ^= x << 2;
	x ^= x << 4;
	x ^= x << 8;
	x ^= x << 16;
	return x ^ x << 32;
}

/* The characters that a backslash escapes. *carry: the first one is escaped from before. */
static inline uint64_t escaped_by(uint64_t backslash, uint64_t *carry)
{
	const uint64_t even = 0x5555555555555555u;
	uint64_t follows, odd_starts, sum;

	if (!backslash) {
		follows = *carry;
		*carry = 0;
		return follows;
	}
	backslash &= ~*carry;
	follows = backslash << 1 | *carry;
	odd_starts = backslash & ~even & ~follows;
	*carry = __builtin_add_overflow(odd_starts, backslash, &sum);
	return (even ^ sum << 1) & follows;
}

const char *json_skip_object(const char *p, const char *end, unsigned depth)
{
	uint64_t in_string = 0, escape = 0, closed = 0;

	for (; p < end; p += 64) {
		struct block b = block_of(p);
		uint64_t quote = b.quote & ~escaped_by(b.backslash, &escape);
		uint64_t inside = prefix_xor(quote) ^ in_string;
		uint64_t ends = quote & ~inside;
		uint64_t odd = (ends << 1 | closed) & ~b.stop;
		uint64_t open = b.open & ~inside, close = b.close & ~inside;

		in_string = (uint64_t)((int64_t)inside >> 63);
		closed = ends >> 63;
		for (uint64_t both = open | close; both; both &= both - 1) {
			uint64_t bit = both & -both;

			if (open & bit) {
				depth++;
			} else if (!--depth) {
				const char *q = p + __builtin_ctzll(bit) + 1;

				return !(odd & (bit - 1)) && q <= end ? q : NULL;
			}
		}
		if (odd)
			return NULL;
	}
	return NULL;
}

#ifdef __SSE2__
const char *json_string_end(const char *p, const char *end, bool *ret_plain)
{
	const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
	const __m128i printable = _mm_set1_epi8(0x1f);
	bool plain = true;

	while (p < end) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
		unsigned q = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(v, quote));
		unsigned b = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(v, backslash));
		/* Signed: bytes beyond ASCII are negative, so they count as odd like controls. */
		unsigned odd = ~(unsigned)_mm_movemask_epi8(_mm_cmpgt_epi8(v, printable)) & 0xffff;
		unsigned before = (q & -q) - 1; /* all ones if there is no quote */

		if (b & before) {
			unsigned at = (unsigned)__builtin_ctz(b);

			plain = false;
			p += at + 2;
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
	return NULL;
}

const char *json_skip_space_far(const char *p, const char *end)
{
	const __m128i space = _mm_set1_epi8(' ');

	for (; p < end; p += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
		__m128i white = _mm_cmpeq_epi8(_mm_max_epu8(v, space), space);
		unsigned text = ~(unsigned)_mm_movemask_epi8(white) & 0xffff;

		if (text)
			return p + __builtin_ctz(text);
	}
	return end;
}
#else
const char *json_string_end(const char *p, const char *end, bool *ret_plain)
{
	bool plain = true;

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
	return NULL;
}

const char *json_skip_space_far(const char *p, const char *end)
{
	while (p < end && (unsigned char)*p <= ' ')
		p++;
	return p;
}
#endif

/* Arrays are rare among what is skipped and short: one character at a time. */
static const char *skip_array(const char *p, const char *end)
{
	unsigned depth = 1;
	bool plain;

	while (p < end) {
		switch (*p++) {
		case '[':
			depth++;
			break;
		case ']':
			if (!--depth)
				return p;
			break;
		case '{':
			p = json_skip_object(p, end, 1);
			if (!p)
				return NULL;
			break;
		case '}':
			return NULL;
		case '"':
			p = json_string_end(p, end, &plain);
			if (!p)
				return NULL;
			p = json_skip_space(p + 1, end);
			if (*p != ',' && *p != ']')
				return NULL;
			break;
		default:
			break;
		}
	}
	return NULL;
}

const char *json_skip_value(const char *p, const char *end)
{
	bool plain;

	switch (*p) {
	case '{':
		return json_skip_object(p + 1, end, 1);
	case '[':
		return skip_array(p + 1, end);
	case '"':
		p = json_string_end(p + 1, end, &plain);
		return p ? p + 1 : NULL;
	default:
		while (p < end && *p != ',' && *p != '}' && *p != ']' && *p != '"')
			p++;
		return p < end && *p != '"' ? p : NULL;
	}
}

/* --- numbers --- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The eight bytes at p as little-endian, whatever the machine. */
static inline uint64_t load_le64(const char *p)
{
	uint64_t w;

	memcpy(&w, p, sizeof(w));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	w = __builtin_bswap64(w);
#endif
	return w;
}

/* How many of the eight characters, from the first, are digits. */
static inline unsigned digits_in(uint64_t w)
{
	uint64_t x = w ^ 0x3030303030303030u; /* a digit's byte is now 0..9 */
	uint64_t bad = ((x + 0x7676767676767676u) | x) & 0x8080808080808080u;

	return bad ? (unsigned)__builtin_ctzll(bad) / 8 : 8;
}

/* The value of the first n (1..8) characters, all digits. */
static inline uint64_t digits_value(uint64_t w, unsigned n)
{
	w = (w ^ 0x3030303030303030u) << (64 - 8 * n); /* leading zeros in front */
	w = w * 10 + (w >> 8);
	return (((w & 0x000000ff000000ffu) * 0x000f424000000064u) +
		(((w >> 16) & 0x000000ff000000ffu) * 0x0000271000000001u)) >>
	       32;
}

static const uint64_t power10[] = { 1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000 };

/* A number as its digits and the place of its point: value = digits * 10^exponent. */
struct decimal {
	unsigned __int128 digits;
	unsigned n; /* of them, leading zeros apart; what comes behind DECIMAL_DIGITS is dropped */
	int64_t exponent;
};
#define DECIMAL_DIGITS 36u /* 64 bits and a long fraction; times ten still fits in 128 bits */

static void decimal_digit(struct decimal *d, unsigned digit, bool fraction)
{
	if (d->n >= DECIMAL_DIGITS) {
		d->exponent += !fraction;
		return;
	}
	d->digits = d->digits * 10 + digit;
	d->n += d->digits != 0;
	d->exponent -= fraction;
}

/* digits * 10^(exponent + scale), rounded; false if beyond 63 bits. */
static bool decimal_scaled(const struct decimal *d, unsigned scale, int64_t *ret)
{
	int64_t e = d->exponent + (int64_t)scale;
	unsigned __int128 v = d->digits, divisor = 1;

	for (; e > 0 && v && v <= INT64_MAX; e--)
		v *= 10;
	if (e < -(int64_t)DECIMAL_DIGITS - 1)
		v = 0;
	else if (e < 0) {
		for (; e < 0; e++)
			divisor *= 10;
		v = (v + divisor / 2) / divisor;
	}
	if (v > INT64_MAX)
		return false;
	*ret = (int64_t)v;
	return true;
}

/* A whole number in full: sign, fraction of any length, exponent. p is at its first character. */
static enum json_number number_in_full(const char **at, const char *end, unsigned scale,
				       int64_t *ret)
{
	const char *p = *at;
	bool negative = *p == '-', any = false;
	struct decimal d = { 0 };
	int64_t v;

	if (*p == '-' || *p == '+')
		p++;
	for (; p < end && is_digit(*p); p++, any = true)
		decimal_digit(&d, (unsigned)(*p - '0'), false);
	if (p < end && *p == '.')
		for (p++; p < end && is_digit(*p); p++, any = true)
			decimal_digit(&d, (unsigned)(*p - '0'), true);
	if (!any)
		return JSON_NUMBER_NONE;
	if (p < end && (*p == 'e' || *p == 'E')) {
		bool down = p[1] == '-';
		int64_t e = 0;

		p += p[1] == '-' || p[1] == '+' ? 2 : 1;
		if (p >= end || !is_digit(*p))
			return JSON_NUMBER_NONE;
		for (; p < end && is_digit(*p); p++)
			e = MIN(e * 10 + (*p - '0'), INT32_MAX);
		d.exponent += down ? -e : e;
	}
	*at = p;
	if (!decimal_scaled(&d, scale, &v))
		return JSON_NUMBER_BAD;
	*ret = negative ? -v : v;
	return JSON_NUMBER_GOOD;
}

/* Words that stand where a number should: null, and what other writers make of no number. */
static enum json_number number_word(const char **at, const char *end)
{
	const char *p = *at;

	if (end - p >= 4 && !memcmp(p, "null", 4)) {
		*at = p + 4;
		return JSON_NUMBER_NONE;
	}
	if (*p == '-' || *p == '+')
		p++;
	for (size_t i = 0; i < 2; i++) {
		static const char words[2][9] = { "infinity", "nan" };
		size_t n = 0;

		while (n < strlen(words[i]) && p + n < end && (p[n] | 0x20) == words[i][n])
			n++;
		if (n == strlen(words[i]) || (i == 0 && n == 3)) {
			*at = p + n;
			return JSON_NUMBER_BAD;
		}
	}
	return JSON_NUMBER_NONE;
}

/* What the fast way does not cover. */
static __attribute__((noinline)) enum json_number number_slow(const char **at, const char *end,
							      unsigned scale, int64_t *ret)
{
	const char *p = *at;
	enum json_number r;
	bool quoted = *p == '"';

	if (quoted)
		p = json_skip_space(p + 1, end);
	if (is_digit(*p) ||
	    ((*p == '-' || *p == '+' || *p == '.') && (is_digit(p[1]) || p[1] == '.')))
		r = number_in_full(&p, end, scale, ret);
	else
		r = number_word(&p, end);
	if (quoted) {
		p = json_skip_space(p, end);
		if (*p != '"')
			return JSON_NUMBER_NONE; /* text; *at stays, the caller skips the string */
		p++;
	}
	*at = p;
	return r;
}

enum json_number json_number(const char **at, const char *end, unsigned scale, int64_t *ret)
{
	const char *p = *at;
	uint64_t w = load_le64(p), v;
	unsigned n = digits_in(w);

	if (!n)
		return number_slow(at, end, scale, ret);
	v = digits_value(w, n);
	p += n;
	if (n == 8) {
		w = load_le64(p);
		n = digits_in(w);
		if (n)
			v = v * power10[n] + digits_value(w, n);
		p += n;
		if (n == 8 && (is_digit(*p) || v > (uint64_t)INT64_MAX / power10[scale] - 1))
			return number_slow(at, end, scale, ret);
	}
	v *= power10[scale];
	if (*p == '.') {
		w = load_le64(p + 1);
		n = digits_in(w);
		if (n != scale) {
			if (n < 1 || n > 7)
				return number_slow(at, end, scale, ret);
			/* To `scale` digits: fill up, or cut and round. */
			if (n < scale)
				v += digits_value(w, n) * power10[scale - n];
			else
				v += (digits_value(w, n) + power10[n - scale] / 2) /
				     power10[n - scale];
		} else if (n) {
			v += digits_value(w, n);
		}
		p += 1 + n;
	}
	if ((*p | 0x20) == 'e')
		return number_slow(at, end, scale, ret);
	*at = p;
	*ret = (int64_t)v;
	return JSON_NUMBER_GOOD;
}
