/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_name.c - what the name of a shard says about whose it is.
 *
 * Only words make a rank (rank3, dp_rank=3): a bare number is the number of a shard, which comes to
 * ranks by dealing.
 */
#include "read/shard_inside.h"

#include <strings.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The number behind the word in one component; the last place where it stands counts. */
static int64_t number_behind(const char *s, size_t len, const char *word)
{
	size_t n = strlen(word);
	int64_t found = -1;

	for (size_t i = 0; i + n < len; i++) {
		size_t at = i + n;
		int64_t v = 0;

		if (strncasecmp(s + i, word, n) || (i && is_letter(s[i - 1])))
			continue;
		if (i >= 6 && !strncasecmp(s + i - 6, "local", 5))
			continue;
		at += at < len && strchr("-_.=", s[at]) && s[at];
		if (at >= len || !is_digit(s[at]))
			continue;
		for (; at < len && is_digit(s[at]) && v < COUNT_RANKS_MOST; at++)
			v = v * 10 + (s[at] - '0');
		if (v < COUNT_RANKS_MOST)
			found = v;
	}
	return found;
}

int64_t shard_rank_of(const char *path, size_t from)
{
	static const char *const words[] = { "rank", "dp", "replica", "worker" };
	size_t end = strlen(path);

	while (end > from) {
		size_t begin = end;

		while (begin > from && path[begin - 1] != '/')
			begin--;
		for (size_t w = 0; w < ARRAY_SIZE(words); w++) {
			int64_t rank = number_behind(path + begin, end - begin, words[w]);

			if (rank >= 0)
				return rank;
		}
		end = begin > from ? begin - 1 : from;
	}
	return -1;
}

int shard_name_order(const char *a, const char *b)
{
	const char *x = a, *y = b;

	while (*x && *y) {
		if (is_digit(*x) && is_digit(*y)) {
			size_t n = 0, m = 0;
			int r;

			for (; *x == '0' && is_digit(x[1]); x++)
				;
			for (; *y == '0' && is_digit(y[1]); y++)
				;
			while (is_digit(x[n]))
				n++;
			while (is_digit(y[m]))
				m++;
			r = n != m ? (n < m ? -1 : 1) : strncmp(x, y, n);
			if (r)
				return r;
			x += n;
			y += m;
		} else if (*x != *y) {
			return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
		} else {
			x++;
			y++;
		}
	}
	return *x ? 1 : *y ? -1 : strcmp(a, b);
}

static int64_t last_number(const char *s, size_t len)
{
	size_t end = len, from;
	int64_t v = 0;

	while (end && !is_digit(s[end - 1]))
		end--;
	for (from = end; from && is_digit(s[from - 1]);)
		from--;
	if (from == end || end - from > 9)
		return -1;
	for (; from < end; from++)
		v = v * 10 + (s[from] - '0');
	return v;
}

int64_t shard_number_of(const char *name, size_t len)
{
	const char *dot = memchr(name, '.', len);
	int64_t v = dot ? last_number(name, (size_t)(dot - name)) : -1;

	return v >= 0 ? v : last_number(name, len);
}

bool shard_of_name(const char *path, int64_t *ret_index, int64_t *ret_of)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *of = base;

	while ((of = strstr(of, "-of-"))) {
		const char *p = of;
		int64_t index = 0, total = 0;

		while (p > base && is_digit(p[-1]))
			p--;
		if (p < of && of - p < 9 && is_digit(of[4])) {
			for (; p < of; p++)
				index = index * 10 + (*p - '0');
			for (p = of + 4; is_digit(*p) && total < COUNT_RANKS_MOST; p++)
				total = total * 10 + (*p - '0');
			*ret_index = index;
			*ret_of = total;
			return total > 0 && index < total;
		}
		of += 4;
	}
	return false;
}
