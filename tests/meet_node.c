/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One node of a meeting, or many as processes, for tests and the benchmark:
 *
 *	meet_node KEY=VALUE..   address= folder= secret= job= name= node= nodes= limit= (ms)
 *				part= (bytes) verdict= (more bytes) offset= (ms, of its clock)
 *				count= (so many from node on, a process each) quiet=
 *
 * Prints the return code and the verdict, or the error. With count: how many had the same verdict.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "meet/digest.h"
#include "meet_rows.h"

static int64_t offset_ns;
static size_t part_bytes = 100, verdict_more;
static int count = 1, quiet;

static int64_t odd_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec + offset_ns;
}

static int one(const struct meet_plan *plan, uint8_t ret_digest[DIGEST_BYTES])
{
	uint8_t *part = xmalloc(part_bytes + 1);
	struct buf verdict = { 0 };
	struct error error = { "" };
	struct digest *d;
	int r;

	memset(part, (int)(plan->node % 250), part_bytes);
	r = meet(plan, part, part_bytes, rows_judge, &verdict_more, &verdict, &error);
	free(part);
	if (!quiet) {
		printf("%d\n", r);
		if (r < 0)
			printf("%s\n", error.text);
		else
			fwrite(verdict.data, 1, verdict.len - verdict_more * (plan->node == 0),
			       stdout);
		fflush(stdout);
	}
	if (r >= 0 && digest_open(NULL, 0, &d, NULL) >= 0) {
		digest_add(d, verdict.data, verdict.len);
		digest_end(d, ret_digest);
	}
	buf_done(&verdict);
	return r;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A node's process, which begins when the last one is there: when go ends. */
static _Noreturn void child(struct meet_plan *plan, const int go[2], const int told[2])
{
	uint8_t digest[DIGEST_BYTES];
	char nothing;

	close(go[1]);
	close(told[0]);
	if (read(go[0], &nothing, 1) == 0 && one(plan, digest) >= 0 &&
	    write(told[1], digest, sizeof(digest)) == sizeof(digest))
		_exit(0);
	_exit(1);
}

static int many(struct meet_plan *plan)
{
	uint8_t first[DIGEST_BYTES], got[DIGEST_BYTES];
	uint32_t from = plan->node;
	int go[2], told[2], same = 0, n = 0;
	double began;

	if (pipe(go) < 0 || pipe(told) < 0)
		return 1;
	for (int i = 0; i < count; i++) {
		plan->node = from + (uint32_t)i;
		if (!fork())
			child(plan, go, told);
	}
	close(told[1]);
	began = seconds();
	close(go[1]);
	while (read(told[0], got, sizeof(got)) == (ssize_t)sizeof(got)) {
		if (!n++)
			memcpy(first, got, sizeof(first));
		same += digest_same(first, got);
	}
	while (wait(NULL) > 0)
		;
	printf("%d same of %d in %.3f s\n", same, count, seconds() - began);
	return same != count;
}

int main(int argc, char **argv)
{
	struct meet_plan plan = { .job = "test.0", .nodes = 1 };
	uint8_t digest[DIGEST_BYTES];

	for (int i = 1; i < argc; i++) {
		char *value = strchr(argv[i], '=');
		const struct {
			const char *name;
			const char **text;
			uint32_t *number;
		} rows[] = {
			{ "address", &plan.address, NULL },    { "folder", &plan.folder, NULL },
			{ "secret", &plan.secret_file, NULL }, { "job", &plan.job, NULL },
			{ "name", &plan.name, NULL },	       { "node", NULL, &plan.node },
			{ "nodes", NULL, &plan.nodes },	       { "limit", NULL, &plan.limit_ms },
		};

		if (!value)
			return 64;
		*value++ = '\0';
		for (size_t k = 0; k < ARRAY_SIZE(rows); k++) {
			if (strcmp(rows[k].name, argv[i]) != 0)
				continue;
			if (rows[k].text)
				*rows[k].text = value;
			else
				*rows[k].number = (uint32_t)strtoul(value, NULL, 10);
		}
		if (!strcmp(argv[i], "part"))
			part_bytes = strtoul(value, NULL, 10);
		if (!strcmp(argv[i], "verdict"))
			verdict_more = strtoul(value, NULL, 10);
		if (!strcmp(argv[i], "offset"))
			offset_ns = strtoll(value, NULL, 10) * 1000000;
		if (!strcmp(argv[i], "count"))
			count = atoi(value);
		if (!strcmp(argv[i], "quiet"))
			quiet = 1;
	}
	plan.clock_ns = odd_clock;
	if (count > 1)
		return many(&plan);
	return one(&plan, digest) < 0;
}
