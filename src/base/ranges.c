/* SPDX-License-Identifier: Apache-2.0 */
/* ranges.c - "0-7,9" to numbers and back. */
#include "base/ranges.h"
#include "base/buf.h"

#include <stdio.h>

#define RANGES_LIMIT ((int64_t)1 << 24)

char *ranges_format(const int64_t *values, size_t n)
{
	struct buf out = { 0 };
	char text[48];

	for (size_t i = 0, last; i < n; i = last + 1) {
		int len;

		for (last = i; last + 1 < n && values[last + 1] == values[last] + 1; last++)
			;
		if (last == i)
			len = snprintf(text, sizeof(text), "%s%" PRId64, i ? "," : "", values[i]);
		else /* "3,4" and "3-4" are equally long; the second reads as a run */
			len = snprintf(text, sizeof(text), "%s%" PRId64 "-%" PRId64, i ? "," : "",
				       values[i], values[last]);
		buf_put(&out, text, (size_t)len);
	}
	buf_put(&out, "", 1);
	return (char *)out.data;
}

/* Digits only: no sign, no blank before, as strtoll would allow. */
static bool parse_number(const char **text, int64_t *ret)
{
	const char *p = *text;
	int64_t v = 0;

	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++) {
		if (v > (INT64_MAX - 9) / 10)
			return false;
		v = v * 10 + (*p - '0');
	}
	*text = p;
	*ret = v;
	return true;
}

int ranges_compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

int ranges_parse(const char *text, int64_t **ret, size_t *ret_n, struct error *reterr)
{
	VEC(int64_t) all = { 0 };
	size_t distinct = 0;
	const char *p = text;

	for (;;) {
		int64_t first, last;

		if (!parse_number(&p, &first))
			goto bad;
		last = first;
		if (*p == '-') {
			p++;
			if (!parse_number(&p, &last) || last < first)
				goto bad;
		}
		if (last - first >= RANGES_LIMIT - (int64_t)all.n) {
			free(all.v);
			return error_set(reterr, -EINVAL, "\"%.60s\": more than %" PRId64 " values",
					 text, RANGES_LIMIT);
		}
		for (int64_t v = first; v <= last; v++)
			*vec_push(&all) = v;
		if (!*p)
			break;
		if (*p++ != ',')
			goto bad;
	}
	qsort(all.v, all.n, sizeof(*all.v), ranges_compare);
	for (size_t i = 0; i < all.n; i++)
		if (!distinct || all.v[i] != all.v[distinct - 1])
			all.v[distinct++] = all.v[i];
	*ret = all.v;
	*ret_n = distinct;
	return 0;
bad:
	free(all.v);
	return error_set(reterr, -EINVAL, "\"%.60s\" is no set of numbers such as 0-7,9", text);
}

size_t ranges_lower(const int64_t *values, size_t n, int64_t value)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (values[middle] < value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool ranges_has(const int64_t *values, size_t n, int64_t value)
{
	size_t at = ranges_lower(values, n, value);

	return at < n && values[at] == value;
}
