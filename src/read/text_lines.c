/* SPDX-License-Identifier: Apache-2.0 */
/* text_lines.c - lines out of a window that is refilled: no line is ever held beyond its limit. */
#include "read/text_lines.h"

#define TEXT_WINDOW ((size_t)256 << 10)

void text_lines_init(struct text_lines *l, struct input *in)
{
	*l = (struct text_lines){ .in = in };
	l->buf = xmalloc(TEXT_WINDOW);
	l->copy = xmalloc(TEXT_LINE_MAX + TEXT_LINE_PAD);
}

void text_lines_done(struct text_lines *l)
{
	free(l->buf);
	free(l->copy);
	*l = (struct text_lines){ 0 };
}

static bool lines_fill(struct text_lines *l)
{
	ssize_t n;

	if (l->eof)
		return false;
	if (l->at) {
		memmove(l->buf, l->buf + l->at, l->len - l->at);
		l->len -= l->at;
		l->at = 0;
	}
	n = input_read(l->in, l->buf + l->len, TEXT_WINDOW - l->len);
	if (n <= 0) {
		l->eof = true;
		l->error = (int)n;
		return false;
	}
	l->len += (size_t)n;
	return true;
}

/* What follows up to the next end of line is dropped. */
static void lines_skip_rest(struct text_lines *l)
{
	for (;;) {
		const char *end = memchr(l->buf + l->at, '\n', l->len - l->at);

		if (end) {
			l->at = (size_t)(end - l->buf) + 1;
			return;
		}
		l->at = l->len;
		if (!lines_fill(l))
			return;
	}
}

bool text_lines_next(struct text_lines *l, const char **ret, size_t *ret_len)
{
	const char *end = NULL;
	size_t len, seen = 0;

	while (!end) {
		size_t have = l->len - l->at;

		end = memchr(l->buf + l->at + seen, '\n', have - seen);
		seen = have;
		if (!end && (have > TEXT_LINE_MAX || !lines_fill(l)))
			break;
	}
	len = end ? (size_t)(end - l->buf) - l->at : l->len - l->at;
	if (!len && !end)
		return false;
	l->line++;
	memcpy(l->copy, l->buf + l->at, MIN(len, TEXT_LINE_MAX));
	l->at += len + (end != NULL);
	if (len > TEXT_LINE_MAX) {
		l->cut++;
		len = TEXT_LINE_MAX;
		if (!end)
			lines_skip_rest(l);
	}
	while (len && l->copy[len - 1] == '\r')
		len--;
	memset(l->copy + len, 0, TEXT_LINE_PAD);
	*ret = l->copy;
	*ret_len = len;
	return true;
}

bool text_line_in(const char **p, const char *end, const char **ret, size_t *ret_len)
{
	const char *nl;

	if (*p >= end)
		return false;
	nl = memchr(*p, '\n', (size_t)(end - *p));
	*ret = *p;
	*ret_len = (size_t)((nl ? nl : end) - *p);
	*p = nl ? nl + 1 : end;
	while (*ret_len && (*ret)[*ret_len - 1] == '\r')
		--*ret_len;
	return true;
}

void line_trim(const char **p, size_t *len)
{
	while (*len && (unsigned char)**p <= ' ') {
		++*p;
		--*len;
	}
	while (*len && (unsigned char)(*p)[*len - 1] <= ' ')
		--*len;
}

bool line_is(const char *p, size_t len, const char *word)
{
	return len == strlen(word) && !memcmp(p, word, len);
}

bool line_starts(const char *p, size_t len, const char *word)
{
	size_t n = strlen(word);

	return len >= n && !memcmp(p, word, n);
}

bool line_has(const char *p, size_t len, const char *word)
{
	return len && memmem(p, len, word, strlen(word)) != NULL;
}
