/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_words.h - the anchors of all parts in one table, by the hash of their first four letters.
 *
 * The look-up of a word is the inner loop of the whole reader, so it stands here to be inlined.
 */
#pragma once
#include "read/log_internal.h"

#define WORD_BITS 11u
#define WORDS_MAX 1024u
#define CASE_8	  0x2020202020202020ull

struct log_words {
	uint64_t next_four[1u << WORD_BITS]; /* a bit each that may follow the first four */
	uint16_t first[1u << WORD_BITS];     /* row + 1 of the chain */
	struct word_row {
		uint64_t key, mask; /* the first eight letters, or as many as it has */
		const struct log_anchor *anchor;
		uint16_t len, next; /* row + 1 */
	} rows[WORDS_MAX];
	uint16_t digits[16]; /* rows of words that hold digits */
	unsigned n, n_digits;
};

/* Where a word stands in two lists, the first of them is asked first. */
struct log_words *log_words_new(void);
/* Does the word stand at p? A line's end stops it: no anchor holds one. */
bool log_word_stands(const char *p, const char *word, size_t len);
/* How many anchors begin from p to end; LOG_PAD bytes behind are read. */
unsigned log_known_words(const struct log *g, const char *p, const char *end);
/* None does, nor would one if its digits were others. */
bool log_holds_no_word(const struct log *g, const char *p, const char *end);

/* Four bytes without the bit that tells cases apart. */
static inline uint32_t word_key(const char *p)
{
	uint32_t w;

	memcpy(&w, p, sizeof(w));
	return w | 0x20202020u;
}

static inline uint32_t word_hash(uint32_t key)
{
	return key * 0x9e3779b1u >> (32 - WORD_BITS);
}

static inline unsigned next_four_bit(const char *p)
{
	return word_key(p + 4) * 0x9e3779b1u >> 26;
}

/* May an anchor stand at p? Seldom true where none does. */
static inline bool word_may_stand(const struct log_words *w, const char *p)
{
	return w->next_four[word_hash(word_key(p))] >> next_four_bit(p) & 1;
}

static inline uint64_t word_key_8(const char *p)
{
	uint64_t w;

	memcpy(&w, p, sizeof(w));
	return w | CASE_8;
}

/* The first row from `row` on whose word may stand at `at`; 0 if none does. */
static inline uint16_t word_row_at(const struct log_words *w, uint16_t row, const char *at)
{
	uint64_t key = word_key_8(at);

	while (row && (key & w->rows[row - 1].mask) != w->rows[row - 1].key)
		row = w->rows[row - 1].next;
	return row;
}
