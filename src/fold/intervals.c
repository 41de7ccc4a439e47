/* SPDX-License-Identifier: Apache-2.0 */
/* intervals.c - disjoint stretches of time in order. */
#include "fold/inside.h"

int64_t intervals_sum(const struct intervals *l)
{
	int64_t sum = 0;

	for (size_t i = 0; i < l->n; i++)
		sum += l->v[i].b - l->v[i].a;
	return sum;
}

int64_t intervals_subtract(const struct intervals *from, const struct intervals *what,
			   struct intervals *ret)
{
	int64_t taken = 0;
	size_t j = 0;

	ret->n = 0;
	for (size_t i = 0; i < from->n; i++) {
		int64_t a = from->v[i].a, b = from->v[i].b;

		while (j < what->n && what->v[j].b <= a)
			j++;
		for (size_t k = j; k < what->n && what->v[k].a < b; k++) {
			int64_t cut = MAX(what->v[k].a, a);
			int64_t end = MIN(what->v[k].b, b);

			intervals_add(ret, a, cut);
			taken += end - cut;
			a = end;
		}
		intervals_add(ret, a, b);
	}
	return taken;
}
