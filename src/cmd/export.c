/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export.c - `lockstep export --steps DIR PATH...`: step records where the traces are.
 *
 * Traces are large and stay on their node; what judge needs of them is a few kilobytes a step. The
 * segment is written beside its final name and renamed, so that a reader never meets half of one.
 */
#include "cmd/cmd.h"
#include "cmd/join.h"
#include "store/lks.h"

#include <ctype.h>
#include <sys/stat.h>
#include <unistd.h>

struct export_args {
	const char *steps, *step_range;
	struct option_ranks ranks;
};

static const struct option_row export_options[] = {
	{ "steps", 's', OPTION_PATH, offsetof(struct export_args, steps), "DIR",
	  "write step records (.lks) into this folder" },
	{ "step-range", 0, OPTION_TEXT, offsetof(struct export_args, step_range), "NAME",
	  "the NVTX range that is a step in Nsight recordings: NAME or NAME@DOMAIN" },
	{ "ranks", 'r', OPTION_RANKS, offsetof(struct export_args, ranks), "LIST",
	  "of these ranks only: 0-7,9" },
	{ 0 },
};
const struct option_spec export_spec = {
	.command = "export",
	.operands = "--steps DIR PATH...",
	.purpose = "write small step records of traces, for diagnose to read anywhere",
	.rows = export_options,
	.more = "Run it on each node beside its traces, gather the folders, and give them to\n"
		"`lockstep diagnose`: the answer is the same as from the traces.\n",
};

/* One segment a node: named after the host if all ranks share one, else after the ranks. */
static char *segment_name(const struct job *job)
{
	uint32_t host = job->ranks[0].host;
	char *name;

	for (uint32_t row = 1; row < job->n_ranks; row++)
		if (job->ranks[row].host != host)
			host = NO_ID;
	if (host != NO_ID && intern_len(&job->names, host))
		name = xasprintf("%s-%" PRId64, intern_get(&job->names, host), job->ranks[0].rank);
	else
		name = xasprintf("ranks-%" PRId64 "-%" PRIu32, job->ranks[0].rank, job->n_ranks);
	for (char *p = name; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '-' && *p != '.' && *p != '_')
			*p = '_';
	if (*name == '.')
		*name = '_';
	return name;
}

struct export_run {
	struct lks_writer *writer;
	uint64_t steps;
	struct error *error;
};

static int export_step(void *user, uint64_t number, struct step *const *steps)
{
	struct export_run *run = user;

	run->steps++;
	return lks_write_step(run->writer, number, steps, run->error);
}

static int export_write(struct join *j, const char *folder, struct error *reterr)
{
	_cleanup_free_ char *name = segment_name(j->job);
	_cleanup_free_ char *path = xasprintf("%s/%s.lks", folder, name);
	_cleanup_free_ char *part = xasprintf("%s/.%s.%d.part", folder, name, (int)getpid());
	struct export_run run = { .error = reterr };
	int status, closed;

	if (mkdir(folder, 0777) < 0 && errno != EEXIST)
		return error_set(reterr, -errno, "%s: %s", folder, strerror(errno));
	status = lks_create(part, j->job, &run.writer, reterr);
	if (status < 0)
		return status;
	status = merge_run(j->merge, export_step, &run, reterr);
	closed = lks_close(run.writer, status < 0 ? NULL : reterr);
	status = MIN(status, closed);
	if (status >= 0 && rename(part, path) < 0)
		status = error_set(reterr, -errno, "%s: %s", path, strerror(errno));
	if (status < 0) {
		unlink(part);
		return status;
	}
	printf("%s: %" PRIu32 " ranks, %" PRIu64 " steps\n", path, j->job->n_ranks, run.steps);
	return 0;
}

int export_main(int argc, char **argv)
{
	struct export_args args = { 0 };
	struct join_options options = { .steps = { -1, -1 } };
	struct error error = { "" };
	struct join join;
	int operands, status = command_line(&export_spec, argc, argv, &args, &operands);

	if (status >= 0)
		goto out;
	status = EXIT_USAGE;
	if (!args.steps) {
		complain("export: where to? Give --steps DIR; see lockstep export --help");
		goto out;
	}
	if (operands == argc) {
		complain("export: which traces? Give files or folders; see lockstep export --help");
		goto out;
	}
	options.ranks = args.ranks;
	options.step_range = args.step_range;
	join_paths(&join, argv + operands, (size_t)(argc - operands), &options);
	status = EXIT_CANNOT_TELL;
	if (!join.usable)
		complain("export: %s", join.report.headline);
	else if (export_write(&join, args.steps, &error) < 0)
		complain("%s", error.text);
	else if (fflush(stdout))
		complain("standard output: %s", strerror(errno));
	else
		status = EXIT_HEALTHY;
	join_done(&join);
out:
	free(args.ranks.v);
	return status;
}
