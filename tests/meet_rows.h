/* SPDX-License-Identifier: Apache-2.0 */
/* meet_rows.h - a judge whose verdict is its rows, one a line, fields parted by tabs. */
#pragma once
#include <stdio.h>

#include "meet/meet.h"

static inline int rows_judge(void *user, const struct meet_part *parts, size_t n,
			     struct buf *ret_verdict, struct error *reterr)
{
	static const char *const presences[MEET_PRESENCES] = { "came",	   "absent", "lost",
							       "impostor", "misfit", "stranger" };
	size_t more = user ? *(const size_t *)user : 0; /* filler behind the rows */

	(void)reterr;
	for (size_t i = 0; i < n; i++) {
		const struct meet_part *p = &parts[i];
		uint64_t sum = 0;
		char *line;

		for (size_t k = 0; k < p->part_len; k++)
			sum = sum * 31 + p->part[k];
		line =
		    xasprintf("%d\t%s\t%s\t%s\t%s\t%.3f\t%.3f\t%" PRId64 "\t%zu\t%" PRIu64 "\n",
			      (int)p->node, presences[p->presence], p->name,
			      p->address ? p->address : "-", p->why ? p->why : "-",
			      p->clock_ns == INT64_MIN ? -1e9 : (double)p->clock_ns / 1e6,
			      p->clock_doubt_ns == INT64_MIN ? -1 : (double)p->clock_doubt_ns / 1e6,
			      p->late_ms, p->part_len, sum);
		buf_put(ret_verdict, line, strlen(line));
		free(line);
	}
	buf_widen(ret_verdict, more);
	memset(ret_verdict->data + ret_verdict->len, '.', more);
	ret_verdict->len += more;
	return 0;
}
