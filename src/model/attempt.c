/* SPDX-License-Identifier: Apache-2.0 */
#include "model/attempt.h"

static bool digits(const char **p, int64_t *ret)
{
	const char *from = *p;

	for (*ret = 0; **p >= '0' && **p <= '9' && *ret < INT32_MAX; (*p)++)
		*ret = 10 * *ret + (**p - '0');
	return *p > from;
}

bool attempt_of_path(const char *path, struct attempt *ret)
{
	const char *at = path, *p;
	bool found = false;

	for (; (at = strstr(at, "attempt_")); at += 8) {
		struct attempt a = { .run_len = (size_t)(at - path), .local_rank = -1 };

		p = at + 8;
		if ((at > path && at[-1] != '/') || !digits(&p, &a.number))
			continue;
		if (*p != '/' || (p++, !digits(&p, &a.local_rank)) || *p != '/')
			a.local_rank = -1;
		*ret = a;
		found = true;
	}
	return found;
}
