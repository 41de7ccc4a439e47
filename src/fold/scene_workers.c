/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_workers.c - logs that are named by a worker's number, job-worker-3.log: is it a rank?
 *
 * Where each worker is one process the number is its rank, which is believed and said as assumed.
 * It is none where a master stands beside workers that count from 0, where the job has more ranks
 * than workers, or where a worker shows another GPU than its number's: then it is a machine's.
 */
#include <stdio.h>
#include <strings.h>

#include "fold/scene_inside.h"

static const char *name_of(const struct testimony *t)
{
	const char *path = t->path == NO_ID ? "" : intern_get(&t->names, t->path);
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* job-master-0.log */
static bool is_master(const struct testimony *t)
{
	return t->witness == WITNESS_LOG && t->rank < 0 && strcasestr(name_of(t), "master-0");
}

/* Processes of one rank each see one GPU, or use that of their number. */
static bool shows_other_gpu(const struct testimony *t)
{
	for (size_t i = 0; i < t->sayings.n; i++)
		if (t->sayings.v[i].gpu > 0 && t->sayings.v[i].gpu != t->rank)
			return true;
	return false;
}

void find_workers(struct building *b, int64_t stated_world)
{
	const struct testimony *first = NULL;
	bool master = false, from_zero = false, other = false;
	int64_t n = 0;

	for (size_t i = 0; i < b->n; i++) {
		const struct testimony *t = b->parts[i].t;

		master |= is_master(t);
		if (!t->worker)
			continue;
		first = first ? first : t;
		n++;
		from_zero |= t->rank == 0;
		other |= shows_other_gpu(t);
	}
	b->s->workers_are_nodes =
	    n && ((master && from_zero) || other || stated_world > n + master);
	if (n && !b->s->workers_are_nodes)
		*vec_push(&b->s->said) = scene_printf(
		    b->s, "that a worker's number is its rank, as in the name of %.80s",
		    name_of(first));
}

int64_t rank_of_file(const struct building *b, const struct testimony *t)
{
	return t->worker && b->s->workers_are_nodes ? -1 : t->rank;
}

/* "job-worker-3" of job-worker-3.log */
static uint32_t worker_host(struct scene *s, const struct testimony *t)
{
	const char *name = name_of(t), *point = strchr(name, '.');
	int len = point ? (int)(point - name) : (int)strlen(name);

	return intern_str(&s->names, scene_printf(s, "%.*s", len, name));
}

void forget_worker(struct scene *s, const struct testimony *t, size_t first_saying,
		   size_t first_progress)
{
	uint32_t host = worker_host(s, t);

	for (size_t i = first_saying; i < s->sayings.n; i++) {
		struct saying *y = &s->sayings.v[i].s;

		y->rank = y->rank == t->rank ? -1 : y->rank;
		y->host = y->host == NO_ID ? host : y->host;
	}
	for (size_t i = first_progress; i < s->progress.n; i++)
		if (s->progress.v[i].p.rank == t->rank) {
			s->progress.v[i].p.rank = -1;
			s->progress.v[i].row = NO_ID;
		}
}
