/* SPDX-License-Identifier: Apache-2.0 */
/* log_words.c - the table of all anchors, and what a text holds of them. */
#include "read/log_words.h"

#include <assert.h>

static void words_add(struct log_words *w, const struct log_anchor *anchors)
{
	for (; anchors->word; anchors++) {
		size_t len = strlen(anchors->word);
		uint32_t hash = word_hash(word_key(anchors->word));
		uint16_t *first = &w->first[hash];
		struct word_row *row = &w->rows[w->n];
		char word[8] = { 0 }, mask[8] = { 0 };

		if (w->n == WORDS_MAX)
			return;
		memcpy(word, anchors->word, MIN(len, sizeof(word)));
		memset(mask, 0xff, MIN(len, sizeof(mask)));
		memcpy(&row->mask, mask, sizeof(mask));
		row->key = word_key_8(word) & row->mask;
		row->anchor = anchors;
		row->len = (uint16_t)len;
		w->next_four[hash] |=
		    len >= 8 ? (uint64_t)1 << next_four_bit(anchors->word) : ~(uint64_t)0;
		while (*first)
			first = &w->rows[*first - 1].next;
		if (strpbrk(anchors->word, "0123456789")) {
			assert(w->n_digits < ARRAY_SIZE(w->digits));
			w->digits[w->n_digits++] = (uint16_t)w->n;
		}
		*first = (uint16_t)++w->n;
	}
}

struct log_words *log_words_new(void)
{
	static const struct log_anchor *const lists[] = {
		log_inner_anchors, log_save_anchors,  log_train_anchors,
		log_host_anchors,  log_crash_anchors, log_launch_anchors,
		log_nccl_anchors,  log_c10d_anchors,  log_stall_anchors,
	};
	struct log_words *w = xcalloc(1, sizeof(*w));

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		words_add(w, lists[i]);
	return w;
}

bool log_word_stands(const char *p, const char *word, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (to_lower(p[i]) != word[i])
			return false;
	return true;
}

/* Begins a word at p? An m that ends a colour, as the pass over the text takes it, is no letter. */
static bool word_begins(const char *start, const char *p, bool *letter)
{
	bool was = *letter;

	*letter = is_alpha(*p) && !(*p == 'm' && p > start && (is_digit(p[-1]) || p[-1] == '['));
	return *letter && !was;
}

static bool is_known_word(const struct log_words *w, const char *p)
{
	uint16_t row = word_row_at(w, w->first[word_hash(word_key(p))], p);

	for (; row; row = word_row_at(w, w->rows[row - 1].next, p))
		if (log_word_stands(p, w->rows[row - 1].anchor->word, w->rows[row - 1].len))
			return true;
	return false;
}

unsigned log_known_words(const struct log *g, const char *p, const char *end)
{
	const char *start = p;
	unsigned n = 0;

	for (bool letter = false; p < end; p++)
		n += word_begins(start, p, &letter) && is_known_word(g->words, p);
	return n;
}

/* Does a word that has digits stand at p, whichever these are? */
static bool is_word_of_digits(const struct log_words *w, const char *p)
{
	for (unsigned i = 0; i < w->n_digits; i++) {
		const char *word = w->rows[w->digits[i]].anchor->word;
		size_t n = 0;

		while (word[n] && (is_digit(word[n]) ? is_digit(p[n]) : to_lower(p[n]) == word[n]))
			n++;
		if (!word[n])
			return true;
	}
	return false;
}

bool log_holds_no_word(const struct log *g, const char *p, const char *end)
{
	const char *start = p;

	for (bool letter = false; p < end; p++)
		if (word_begins(start, p, &letter) &&
		    (is_known_word(g->words, p) || is_word_of_digits(g->words, p)))
			return false;
	return true;
}
