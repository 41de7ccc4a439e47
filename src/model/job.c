/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - names of ranks, and the end of a job. */
#include "model/job.h"

#include <stdio.h>

const char *job_rank_name(const struct job *job, uint32_t row, char buf[32])
{
	const struct rank_info *info = &job->ranks[row];

	if (info->rank >= 0)
		snprintf(buf, 32, "rank %" PRId64, info->rank);
	else
		snprintf(buf, 32, "unknown-%" PRIu32, info->unknown);
	return buf;
}

bool job_is_folded(const struct job *job, uint32_t row)
{
	return job->ranks[row].lane && job->ranks[row].folds != 1;
}

struct job_place job_place(const struct job *job, uint32_t row, uint32_t run)
{
	for (uint32_t i = 0; i < job->n_moves; i++)
		if (job->moves[i].row == row && job->moves[i].run == run)
			return job->moves[i].place;
	return (struct job_place){ job->ranks[row].host, job->ranks[row].gpu_index };
}

void job_done(struct job *job)
{
	if (!job)
		return;
	intern_done(&job->names);
	arena_done(&job->arena);
	*job = (struct job){ 0 };
}
