/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_fast.c - the fast way through sound JSON: 64 bytes at a time, as bit masks.
 *
 * The masks are after Langdale and Lemire, "Parsing Gigabytes of JSON per Second" (2019), with one
 * check added: a closing quote that is followed by neither white space nor one of , : } ] means
 * that quotes are not what they seem, and the careful way must look.
 */
#include "read/json_fast.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

struct block {
	uint64_t quote, backslash, open, close;
	uint64_t stop; /* what may follow a string */
};

#ifdef __x86_64__
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

#define AVX2 __attribute__((target("avx2,pclmul")))

AVX2 static inline uint64_t equal32(__m256i a, __m256i b, char c)
{
	const __m256i x = _mm256_set1_epi8(c);

	return (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, x)) |
	       (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(b, x)) << 32;
}

AVX2 static inline __m256i stops32(__m256i v)
{
	const __m256i space = _mm256_set1_epi8(' ');
	const __m256i low = _mm256_cmpeq_epi8(_mm256_max_epu8(v, space), space);
	const __m256i closing = _mm256_cmpeq_epi8(_mm256_or_si256(v, space), _mm256_set1_epi8('}'));
	const __m256i comma = _mm256_cmpeq_epi8(v, _mm256_set1_epi8(','));
	const __m256i colon = _mm256_cmpeq_epi8(v, _mm256_set1_epi8(':'));

	return _mm256_or_si256(_mm256_or_si256(low, closing), _mm256_or_si256(comma, colon));
}

AVX2 static inline struct block block_of_avx2(const char *p)
{
	__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)p);
	__m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(p + 32));

	return (struct block){
		.quote = equal32(a, b, '"'),
		.backslash = equal32(a, b, '\\'),
		.open = equal32(a, b, '{'),
		.close = equal32(a, b, '}'),
		.stop = (uint64_t)(uint32_t)_mm256_movemask_epi8(stops32(a)) |
			(uint64_t)(uint32_t)_mm256_movemask_epi8(stops32(b)) << 32,
	};
}

/* prefix_xor as one multiplication without carries. */
AVX2 static inline uint64_t parity_avx2(uint64_t x)
{
	const __m128i ones = _mm_set1_epi8((char)0xff);

	return (uint64_t)_mm_cvtsi128_si64(
	    _mm_clmulepi64_si128(_mm_set_epi64x(0, (int64_t)x), ones, 0));
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

/* What a scan of an object knows at the end of a block. */
struct scan {
	uint64_t in_string; /* all ones: the next character is inside a string */
	uint64_t escape;    /* 1: it is escaped */
	uint64_t closed;    /* 1: it follows a closing quote */
	unsigned depth;
};

enum scanned { SCAN_ON, SCAN_DONE, SCAN_ODD };

/* The quotes of a block that begin or end strings. */
static inline uint64_t scan_quotes(struct scan *s, const struct block *b)
{
	return b->quote & ~escaped_by(b->backslash, &s->escape);
}

/* One block, of which prefix_xor made `parity` from its quotes; *at: where the last object ends. */
static inline __attribute__((always_inline)) enum scanned scan_block(struct scan *s, struct block b,
								     uint64_t quote,
								     uint64_t parity, unsigned *at)
{
	uint64_t inside = parity ^ s->in_string;
	uint64_t ends = quote & ~inside;
	uint64_t odd = (ends << 1 | s->closed) & ~b.stop;
	uint64_t open = b.open & ~inside, close = b.close & ~inside;

	s->in_string = (uint64_t)((int64_t)inside >> 63);
	s->closed = ends >> 63;
	for (uint64_t both = open | close; both; both &= both - 1) {
		uint64_t bit = both & -both;

		if (open & bit) {
			s->depth++;
		} else if (!--s->depth) {
			*at = (unsigned)__builtin_ctzll(bit) + 1;
			return odd & (bit - 1) ? SCAN_ODD : SCAN_DONE;
		}
	}
	return odd ? SCAN_ODD : SCAN_ON;
}

const char *json_skip_object_plain(const char *p, const char *end, unsigned depth)
{
	struct scan s = { .depth = depth };

	for (; p < end; p += 64) {
		unsigned at = 0;
		struct block b = block_of(p);
		uint64_t quote = scan_quotes(&s, &b);
		enum scanned r = scan_block(&s, b, quote, prefix_xor(quote), &at);

		if (r != SCAN_ON)
			return r == SCAN_DONE && p + at <= end ? p + at : NULL;
	}
	return NULL;
}

#ifdef __x86_64__
AVX2 static const char *skip_object_avx2(const char *p, const char *end, unsigned depth)
{
	struct scan s = { .depth = depth };

	for (; p < end; p += 64) {
		unsigned at = 0;
		struct block b = block_of_avx2(p);
		uint64_t quote = scan_quotes(&s, &b);
		enum scanned r = scan_block(&s, b, quote, parity_avx2(quote), &at);

		if (r != SCAN_ON)
			return r == SCAN_DONE && p + at <= end ? p + at : NULL;
	}
	return NULL;
}

const char *json_skip_object(const char *p, const char *end, unsigned depth)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul")
		   ? skip_object_avx2(p, end, depth)
		   : json_skip_object_plain(p, end, depth);
}
#else
const char *json_skip_object(const char *p, const char *end, unsigned depth)
{
	return json_skip_object_plain(p, end, depth);
}
#endif

/* Behind the bracket that ends an array of numbers, which most arrays are, or NULL. */
static const char *skip_flat_array(const char *p, const char *end)
{
#ifdef __SSE2__
	const __m128i low = _mm_set1_epi8(0x20), close = _mm_set1_epi8('}');
	const __m128i open = _mm_set1_epi8('{'), quote = _mm_set1_epi8('"');

	for (; p < end; p += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
		__m128i either = _mm_or_si128(v, low); /* makes ] a } and [ a { */
		__m128i mark = _mm_or_si128(
		    _mm_cmpeq_epi8(v, quote),
		    _mm_or_si128(_mm_cmpeq_epi8(either, close), _mm_cmpeq_epi8(either, open)));
		unsigned at = (unsigned)_mm_movemask_epi8(mark);

		if (at) {
			p += __builtin_ctz(at);
			return *p == ']' ? p + 1 : NULL;
		}
	}
#else
	(void)p;
	(void)end;
#endif
	return NULL;
}

/* Any array, one character at a time. */
static const char *skip_array(const char *p, const char *end)
{
	const char *flat = skip_flat_array(p, end);
	unsigned depth = 1;
	bool plain;

	if (flat)
		return flat;
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

/* A number or a word, up to what may follow it. */
static const char *skip_bare(const char *p, const char *end)
{
#ifdef __SSE2__
	const __m128i low = _mm_set1_epi8(0x20), close = _mm_set1_epi8('}');
	const __m128i comma = _mm_set1_epi8(','), quote = _mm_set1_epi8('"');

	for (; p < end; p += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
		__m128i stop =
		    _mm_or_si128(_mm_cmpeq_epi8(_mm_or_si128(v, low), close),
				 _mm_or_si128(_mm_cmpeq_epi8(v, comma), _mm_cmpeq_epi8(v, quote)));
		unsigned at = (unsigned)_mm_movemask_epi8(stop);

		if (at) {
			p += __builtin_ctz(at);
			break;
		}
	}
#else
	while (p < end && *p != ',' && *p != '}' && *p != ']' && *p != '"')
		p++;
#endif
	return p < end && *p != '"' ? p : NULL;
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
		return skip_bare(p, end);
	}
}

/* --- numbers --- */

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
	for (; p < end && json_is_digit(*p); p++, any = true)
		decimal_digit(&d, (unsigned)(*p - '0'), false);
	if (p < end && *p == '.')
		for (p++; p < end && json_is_digit(*p); p++, any = true)
			decimal_digit(&d, (unsigned)(*p - '0'), true);
	if (!any)
		return JSON_NUMBER_NONE;
	if (p < end && (*p == 'e' || *p == 'E')) {
		bool down = p[1] == '-';
		int64_t e = 0;

		p += p[1] == '-' || p[1] == '+' ? 2 : 1;
		if (p >= end || !json_is_digit(*p))
			return JSON_NUMBER_NONE;
		for (; p < end && json_is_digit(*p); p++)
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

enum json_number json_number_slow(const char **at, const char *end, unsigned scale, int64_t *ret)
{
	const char *p = *at;
	enum json_number r;
	bool quoted = *p == '"';

	if (quoted)
		p = json_skip_space(p + 1, end);
	if (json_is_digit(*p) ||
	    ((*p == '-' || *p == '+' || *p == '.') && (json_is_digit(p[1]) || p[1] == '.')))
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
