/* SPDX-License-Identifier: Apache-2.0 */
/* diagnose.c - `lockstep diagnose PATH...`: from what people already have to what is wrong. */
#include "cmd/cmd.h"
#include "cmd/join.h"
#include "cmd/narrow.h"
#include "judge/hang.h"
#include "judge/judge.h"
#include "model/layout.h"
#include "show/show.h"

#include <glob.h>
#include <unistd.h>

struct diagnose_args {
	bool json, all_ranks;
	const char *layout, *events, *step_range;
	struct option_ranks ranks;
	struct option_steps steps;
	double min_impact;
};

#define FIELD(name) offsetof(struct diagnose_args, name)
static const struct option_row diagnose_options[] = {
	{ "json", 0, OPTION_FLAG, FIELD(json), NULL, "print the report as JSON (schema 1)" },
	{ "layout", 'l', OPTION_LAYOUT, FIELD(layout), "SPEC",
	  "parallel layout, fastest first: \"tp=4 dp=4 pp=4\"" },
	{ "ranks", 'r', OPTION_RANKS, FIELD(ranks), "LIST", "look at these ranks only: 0-7,9" },
	{ "all-ranks", 'a', OPTION_FLAG, FIELD(all_ranks), NULL,
	  "list every rank in the JSON, not the suspects and a few peers" },
	{ "steps", 's', OPTION_STEPS, FIELD(steps), "A-B", "look at these steps only" },
	{ "step-range", 0, OPTION_TEXT, FIELD(step_range), "NAME",
	  "the NVTX range that is a step in Nsight recordings: NAME or NAME@DOMAIN" },
	{ "min-impact", 'm', OPTION_PCT, FIELD(min_impact), "PCT",
	  "smallest slowdown that is a finding, in percent (default 5)" },
	{ "events", 'e', OPTION_PATH, FIELD(events), "FILE",
	  "what the monitoring said: JSON lines of time, host, text" },
	{ 0 },
};
const struct option_spec diagnose_spec = {
	.command = "diagnose",
	.operands = "PATH...",
	.purpose = "say which rank makes the others wait, or broke the job, and why",
	.rows = diagnose_options,
	.more =
	    "PATH is a file or a folder, plain, compressed or archived, of any of these, mixed:\n"
	    "  slow    PyTorch profiler traces, step records (.lks)\n"
	    "  hung    Flight Recorder dumps, job logs, stacks (py-spy, gdb, faulthandler, "
	    "/proc),\n"
	    "          nvidia-smi, rocm-smi and Prometheus output, ncclras and NCCL Inspector\n"
	    "What a file is is told from its content. \"-\" reads step records from a pipe.\n\n"
	    "Exit status: 0 nothing wrong, 1 findings, 2 cannot tell or nothing usable, 64 bad "
	    "usage,\n"
	    "70 a fault of lockstep itself.\n",
};

static int judge_one(void *user, uint64_t number, struct step *const *steps)
{
	return judge_step(user, number, steps);
}

/* 1: to be joined again, not live. */
static int judge_all(struct join *j, const struct diagnose_args *args)
{
	const struct judge_options options = { args->min_impact };
	struct judge *judge;
	struct error error = { "" };
	int status;

	if (!j->usable) {
		j->report.verdict = VERDICT_INSUFFICIENT;
		return 0;
	}
	judge = judge_new(j->job, &options);
	status = join_steps(j, judge_one, judge, &error);
	if (status > 0) {
		judge_free(judge);
		return status;
	}
	if (status < 0)
		complain("%s", *error.text ? error.text : strerror(-status));
	else
		status = judge_finish(judge, &j->report);
	judge_free(judge);
	return status;
}

/* What hangs is judged by all that was given, whatever of it is shown. */
static void judge_stopped(struct join *j, const struct diagnose_args *args)
{
	if (!j->scene.any)
		return;
	judge_hang(&j->scene, args->min_impact, &j->report);
	narrow_report(&j->report, &args->ranks);
}

/* A layout that is not of as many ranks as the job has would compare the wrong ones. */
static bool layout_fits(const struct job *job, const char *spec)
{
	struct layout layout;
	struct error error;

	if (!spec || (layout_parse(spec, &layout, &error) >= 0 &&
		      (job->world_size < 0 || layout_check(&layout, job->world_size, &error) >= 0)))
		return true;
	complain("diagnose: --layout: %s", error.text);
	return false;
}

static int exit_status(const struct report *r)
{
	for (size_t i = 0; i < r->findings.n; i++)
		if (r->findings.v[i].severity != SEVERITY_NOTE)
			return EXIT_FINDINGS;
	switch (r->verdict) {
	case VERDICT_INSUFFICIENT:
		return EXIT_CANNOT_TELL;
	case VERDICT_HEALTHY:
		return EXIT_HEALTHY;
	default:
		return EXIT_FINDINGS;
	}
}

/* The paths as a shell would take them again. */
static char *paths_quoted(char *const *paths, size_t n)
{
	struct buf out = { 0 };

	for (size_t i = 0; i < n; i++) {
		const char *p = paths[i];
		bool plain = *p && !p[strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"
						"YZ0123456789_./-+=:,@%")];

		if (i)
			buf_put(&out, " ", 1);
		if (plain) {
			buf_put(&out, p, strlen(p));
			continue;
		}
		buf_put(&out, "'", 1);
		for (; *p; p++)
			buf_put(&out, *p == '\'' ? "'\\''" : p, *p == '\'' ? 4 : 1);
		buf_put(&out, "'", 1);
	}
	buf_put(&out, "", 1);
	return (char *)out.data;
}

static int show(struct join *j, const struct diagnose_args *args, char *const *paths, size_t n)
{
	_cleanup_free_ char *given = paths_quoted(paths, n);
	const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
	struct show_options options = {
		.colour = isatty(STDOUT_FILENO) && !(no_colour && *no_colour) && term &&
			  strcmp(term, "dumb"),
		.all_ranks = args->all_ranks,
		.given = given,
	};

	if (args->json)
		return show_json(stdout, &j->report, &options);
	show_text(stdout, &j->report, &options);
	return fflush(stdout) ? -EIO : 0;
}

/* The events are one path more: what they are is told from their content too. */
static size_t paths_given(char **operands, size_t n, const char *events, char ***ret)
{
	char **paths = xcalloc(n + 2, sizeof(*paths));

	for (size_t i = 0; i < n; i++)
		paths[i] = operands[i];
	if (events)
		paths[n++] = (char *)(uintptr_t)events;
	*ret = paths;
	return n;
}

/* Reads and judges what the paths hold; a file of records that turns out not to be in order is read
   again. 0, or the exit status. */
static int join_and_judge(struct join *j, char *const *paths, size_t n,
			  const struct diagnose_args *args)
{
	struct join_options options = { args->steps, args->ranks, args->layout, args->step_range,
					.live = true };

	for (;;) {
		int status;

		join_paths(j, paths, n, &options);
		if (!layout_fits(j->job, args->layout))
			return EXIT_USAGE;
		status = judge_all(j, args);
		if (status <= 0)
			return status < 0 ? EXIT_CANNOT_TELL : 0;
		join_done(j);
		options.live = false;
		options.again = true;
	}
}

/* How many folders of different names hold what was found; their paths lose their last part. */
static size_t distinct_folders(glob_t *found)
{
	size_t n = 0;

	for (size_t i = 0; i < found->gl_pathc; i++)
		*strrchr(found->gl_pathv[i], '/') = '\0';
	for (size_t i = 0; i < found->gl_pathc; i++) {
		size_t k = 0;

		while (strcmp(strrchr(found->gl_pathv[k], '/'), strrchr(found->gl_pathv[i], '/')))
			k++;
		n += k == i;
	}
	return n;
}

/* What `lockstep collect` keeps of several jobs of a node is said of each on its own. */
static bool of_one_job(char *const *paths, size_t n)
{
	static const char *const below[] = { "job-*", "*/job-*" }; /* the second: by node */
	size_t jobs = 0;

	for (size_t i = 0; i < n * ARRAY_SIZE(below) && jobs < 2; i++) {
		const char *path = paths[i / ARRAY_SIZE(below)], *part = below[i % 2];
		_cleanup_free_ char *pattern = xasprintf("%s/%s/collect.json", path, part);
		glob_t found = { 0 };

		if (glob(pattern, 0, NULL, &found) == 0)
			jobs = distinct_folders(&found);
		if (jobs > 1)
			complain("%s: evidence of %zu jobs; ask of each: lockstep diagnose %s",
				 path, jobs, found.gl_pathv[0]);
		globfree(&found);
	}
	return jobs < 2;
}

int diagnose_main(int argc, char **argv)
{
	struct diagnose_args args = { .steps = { -1, -1 }, .min_impact = 0.05 };
	struct join join;
	_cleanup_free_ char **paths = NULL;
	int operands, status = command_line(&diagnose_spec, argc, argv, &args, &operands);
	size_t n;

	if (status >= 0)
		goto out;
	n = paths_given(argv + operands, (size_t)(argc - operands), args.events, &paths);
	if (!n) {
		complain("diagnose: of what? Give files or folders; see lockstep diagnose --help");
		status = EXIT_USAGE;
		goto out;
	}
	if (!of_one_job(paths, n)) {
		status = EXIT_CANNOT_TELL;
		goto out;
	}
	status = join_and_judge(&join, paths, n, &args);
	if (status) {
		/* said already */
	} else if (judge_stopped(&join, &args), show(&join, &args, paths, n) < 0) {
		complain("standard output: %s", strerror(errno));
		status = EXIT_CANNOT_TELL;
	} else {
		status = exit_status(&join.report);
	}
	join_done(&join);
out:
	free(args.ranks.v);
	return status;
}
