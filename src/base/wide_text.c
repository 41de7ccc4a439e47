/* SPDX-License-Identifier: Apache-2.0 */
/* wide_text.c - text with a byte order mark made plain; see wide_text.h. */
#include "base/wide_text.h"

#define NO_CHARACTER 0xfffdu
#define GUESS_BYTES  512u

static const struct {
	const char *name, *bytes;
	unsigned mark, unit;
	bool big;
} marks[] = {
	/* UTF-32's holds UTF-16's */
	{ "UTF-32LE", "\xff\xfe\0\0", 4, 4, false }, { "UTF-32BE", "\0\0\xfe\xff", 4, 4, true },
	{ "UTF-8", "\xef\xbb\xbf", 3, 1, false },    { "UTF-16LE", "\xff\xfe", 2, 2, false },
	{ "UTF-16BE", "\xfe\xff", 2, 2, true },
};

struct wide_text wide_text_of(const void *head, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (len >= marks[i].mark && !memcmp(head, marks[i].bytes, marks[i].mark))
			return (struct wide_text){ .name = marks[i].name,
						   .mark = marks[i].mark,
						   .unit = marks[i].unit,
						   .big = marks[i].big };
	return (struct wide_text){ 0 };
}

size_t wide_text_room(size_t len)
{
	return len + len / 2 + 16; /* two bytes become three at most, and something was held */
}

static uint8_t *put(uint8_t *to, uint32_t c)
{
	unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
	static const uint8_t first[] = { 0, 0xc0, 0xe0, 0xf0 };

	*to++ = (uint8_t)(first[more] | c >> 6 * more);
	while (more--)
		*to++ = (uint8_t)(0x80 | (c >> 6 * more & 0x3f));
	return to;
}

static uint8_t *put_unit(struct wide_text *w, uint8_t *to, uint32_t c)
{
	uint32_t high = w->high;

	w->high = 0;
	if (w->unit == 2 && (c & 0xfc00) == 0xdc00 && high)
		return put(to, 0x10000 + ((high & 0x3ff) << 10) + (c & 0x3ff));
	if (high)
		to = put(to, NO_CHARACTER);
	if (w->unit == 2 && (c & 0xfc00) == 0xd800) {
		w->high = c;
		return to;
	}
	return put(to, c > 0x10ffff || (c & ~0x7ffu) == 0xd800 ? NO_CHARACTER : c);
}

static uint32_t unit_of(const struct wide_text *w, const uint8_t *p)
{
	uint32_t c = 0;

	for (unsigned i = 0; i < w->unit; i++)
		c |= (uint32_t)p[i] << 8 * (w->big ? w->unit - 1 - i : i);
	return c;
}

size_t wide_text_decode(struct wide_text *w, const void *from, size_t len, void *ret)
{
	const uint8_t *p = from, *end;
	uint8_t *to = ret;

	if (!len) { /* something was cut off */
		if (w->n_held || w->high)
			to = put(to, NO_CHARACTER);
		w->n_held = w->high = 0;
		return (size_t)(to - (uint8_t *)ret);
	}
	end = p + len;
	for (; p < end && w->at < w->mark; p++)
		w->at++;
	w->at += (uint64_t)(end - p);
	if (w->unit == 1) {
		if (p < end)
			memcpy(to, p, (size_t)(end - p));
		return (size_t)(end - p);
	}
	while (p < end && w->n_held) {
		w->held[w->n_held++] = *p++;
		if (w->n_held == w->unit) {
			to = put_unit(w, to, unit_of(w, w->held));
			w->n_held = 0;
		}
	}
	for (; end - p >= (ptrdiff_t)w->unit; p += w->unit)
		to = put_unit(w, to, unit_of(w, p));
	while (p < end)
		w->held[w->n_held++] = *p++;
	return (size_t)(to - (uint8_t *)ret);
}

char *wide_text_plain(const char *text, size_t *len)
{
	struct wide_text w = wide_text_of(text, *len);
	char *plain = xmalloc(wide_text_room(*len) + 1);
	size_t n = *len;

	if (w.name)
		n = wide_text_decode(&w, text, *len, plain);
	else
		memcpy(plain, text, n);
	if (w.unit > 1)
		n += wide_text_decode(&w, NULL, 0, plain + n);
	plain[n] = '\0';
	*len = n;
	return plain;
}

const char *wide_text_guess(const void *head, size_t len)
{
	const uint8_t *p = head;
	size_t zeros[2] = { 0 }, words[2] = { 0 };

	len = MIN(len, GUESS_BYTES) & ~(size_t)1;
	for (size_t i = 0; i < len; i++) {
		zeros[i & 1] += !p[i];
		words[i & 1] += (p[i] >= ' ' && p[i] < 0x7f) || (p[i] >= '\t' && p[i] <= '\r');
	}
	for (unsigned low = 0; low < 2; low++)
		if (len >= 4 && words[low] == len / 2 && zeros[!low] == len / 2)
			return low ? "UTF-16BE" : "UTF-16LE";
	return NULL;
}
