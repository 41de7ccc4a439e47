/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wide_text.h - text that begins with a byte order mark, as Excel and PowerShell write it: UTF-8,
 * UTF-16 and UTF-32 in both orders, made plain UTF-8.
 *
 * Only a mark is believed: small numbers of two bytes look like UTF-16 too.
 */
#pragma once
#include "base/base.h"

#define WIDE_MARK_MOST 4u /* bytes of a file that tell its form */

struct wide_text {
	const char *name; /* "UTF-16LE", as iconv calls it; NULL: no mark, nothing to do */
	unsigned mark;	  /* bytes of the mark */
	unsigned unit;	  /* bytes: 1, 2, 4 */
	bool big;	  /* the greater byte first */
	uint8_t held[4];  /* of a unit that is cut */
	unsigned n_held;
	uint32_t high; /* half of a pair, that the other half follows; 0 */
	uint64_t at;   /* bytes seen */
};
/* By the first bytes of a file. */
struct wide_text wide_text_of(const void *head, size_t len);
/* Room that len bytes may need. */
size_t wide_text_room(size_t len);
/* The next bytes of the file, the mark too; len 0 is the end. Gives the length of what is in ret.
   What is no character becomes U+FFFD. */
size_t wide_text_decode(struct wide_text *w, const void *from, size_t len, void *ret);
/* The whole of a text, plain and with a NUL at its end, malloc'd; a copy if it has no mark. */
char *wide_text_plain(const char *text, size_t *len);
/* Text of two bytes a letter, but without a mark? NULL, or what iconv calls it. For words only. */
const char *wide_text_guess(const void *head, size_t len);
