/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather.c - `lockstep collect [--out DIR] [--redact] [PID...]`: evidence of this node's live
 * ranks.
 *
 * It says what it got of whom, what it did not get and why, and what to do with the folder.
 */
#include "cmd/cmd.h"
#include "node/collect_run.h"

#include <stdio.h>

struct collect_args {
	const char *out;
	bool redact;
};

static const struct option_row collect_rows[] = {
	{ "out", 'o', OPTION_PATH, offsetof(struct collect_args, out), "DIR",
	  "write into this folder" },
	{ "redact", 0, OPTION_FLAG, offsetof(struct collect_args, redact), NULL,
	  "replace the names of users, hosts and folders" },
	{ 0 },
};
const struct option_spec collect_spec = {
	.command = "collect",
	.operands = "[PID...]",
	.purpose = "gather evidence of this node's live ranks into a folder, for diagnose",
	.rows = collect_rows,
	.more =
	    "Run it on each node while the job hangs, gather the folders, and give them to\n"
	    "`lockstep diagnose`. Ranks are found by RANK in their environment; with PID only\n"
	    "these are asked. Nothing is stopped; what does not answer in time is left behind.\n",
};

static bool parse_pid(const char *text, pid_t *ret)
{
	char *end;
	long v = strtol(text, &end, 10);

	if (end == text || *end || v <= 0 || v > 4194304)
		return false;
	*ret = (pid_t)v;
	return true;
}

static bool is_bad(enum probe_state s)
{
	return s == PROBE_FAILED || s == PROBE_LATE || s == PROBE_ABANDONED;
}

/* A tool that this node does not have. */
static bool is_missing(const struct probe *q, size_t came, size_t bad)
{
	return !came && !bad && q->state == PROBE_ABSENT && !q->run;
}

/* What would have told more if it were installed. */
static void print_missing(const struct collect *c)
{
	const char *last = "";
	bool any = false;

	for (size_t i = 0; i < c->probes.n; i++) {
		const struct probe *q = &c->probes.v[i];

		if (!is_missing(q, q->bytes > 0, is_bad(q->state)) || !strcmp(last, q->what))
			continue;
		last = q->what;
		/* Of each rank the same is asked in the same order. */
		if (q->rank >= 0 && i && c->probes.v[0].rank >= 0 && q->rank != c->probes.v[0].rank)
			continue;
		printf("%s%s", any ? ", " : "  not installed here:     ", q->what);
		any = true;
	}
	if (any)
		putchar('\n');
}

/* One line a kind of probe: of how many ranks it came, and what was said by the others. */
static void print_probes(const struct collect *c)
{
	for (size_t i = 0; i < c->probes.n; i++) {
		const struct probe *q = &c->probes.v[i], *trouble = NULL;
		size_t came = 0, of = 0, bad = 0;
		bool before = false;

		for (size_t k = 0; k < i; k++)
			before |= !strcmp(c->probes.v[k].what, q->what);
		if (before)
			continue;
		for (size_t k = i; k < c->probes.n; k++) {
			const struct probe *o = &c->probes.v[k];

			if (strcmp(o->what, q->what))
				continue;
			of++;
			came += o->bytes > 0;
			bad += is_bad(o->state);
			if (!trouble && (is_bad(o->state) || (!o->bytes && o->why[0])))
				trouble = o;
		}
		if (is_missing(q, came, bad))
			continue;
		printf("  %-24s", q->what);
		if (of > 1 || q->rank >= 0)
			printf(" %zu of %zu", came, of);
		else
			printf(" %s", came ? "yes" : "no");
		if (trouble && trouble->rank >= 0)
			printf("; rank %" PRId64 ": %s", trouble->rank, trouble->why);
		else if (trouble)
			printf("; %s", trouble->why);
		if (trouble && trouble->state == PROBE_ABANDONED)
			printf(", and it cannot be killed");
		putchar('\n');
	}
}

static void print_summary(const struct collect *c, bool redacted)
{
	size_t shown = 0;

	printf("%s: %zu rank%s of %s", c->folder, c->ranks.v.n, c->ranks.v.n == 1 ? "" : "s",
	       c->shown);
	for (size_t i = 0; i < c->ranks.v.n && shown < 16; i++, shown++)
		if (c->ranks.v.v[i].rank >= 0)
			printf("%s%" PRId64, shown ? "," : ": ", c->ranks.v.v[i].rank);
		else
			printf("%spid %d", shown ? "," : ": ", (int)c->ranks.v.v[i].pid);
	printf("%s\n", shown < c->ranks.v.n ? ",.." : "");
	print_probes(c);
	print_missing(c);
	if (redacted)
		printf("  %zu names of users, hosts and folders were replaced\n",
		       c->names_replaced);
	for (size_t i = 0; i < c->left_out.n; i++)
		printf("  left out, since it cannot be rewritten safely: %s\n", c->left_out.v[i]);
	printf("Next: lockstep diagnose %s\n", c->folder);
}

static int collect_one(const struct collect_options *options)
{
	struct error error = { "" };
	struct collect c = { 0 };
	int status = EXIT_CANNOT_TELL;

	if (collect_run(options, &c, &error) < 0) {
		complain("collect: %s", error.text);
	} else {
		print_summary(&c, options->redact);
		if (c.ranks.denied && !c.ranks.v.n)
			complain(
			    "collect: no rank found; %u processes are not ours to read: run it as "
			    "the job's user or as root",
			    c.ranks.denied);
		else if (!c.ranks.v.n)
			complain("collect: no rank found on this node: no process has RANK in its "
				 "environment; name the processes: lockstep collect PID...");
		if (c.ranks.stuck)
			complain(
			    "collect: %u processes could not be read: they sleep in the kernel",
			    c.ranks.stuck);
		if (fflush(stdout))
			complain("standard output: %s", strerror(errno));
		else if (c.ranks.v.n)
			status = EXIT_HEALTHY;
	}
	collect_done(&c);
	return status;
}

static const struct rank_process *first_of(const struct rank_list *l, unsigned job)
{
	size_t i = 0;

	while (l->v.v[i].job != job)
		i++;
	return &l->v.v[i];
}

/* By what other nodes call the job too: its id, where no other job has it, else where it meets. */
static char *job_folder(const struct rank_list *l, unsigned job, unsigned jobs)
{
	const struct rank_process *r = first_of(l, job);
	bool named = *r->run_id && strcmp(r->run_id, "none") != 0 && strlen(r->run_id) < 64;
	char *name;

	for (unsigned other = 1; other <= jobs; other++)
		named &= other == job || strcmp(first_of(l, other)->run_id, r->run_id) != 0;
	name = named		     ? xasprintf("job-%s", r->run_id)
	       : r->master_port >= 0 ? xasprintf("job-port%" PRId64, r->master_port)
				     : xasprintf("job-%u", job);
	for (char *p = name; *p; p++)
		if (*p == '/' || (unsigned char)*p <= ' ')
			*p = '_';
	return name;
}

/* Each of several jobs on its own, in a folder of its own: together their ranks would be mixed. */
static int collect_jobs(struct collect_options *options, const struct rank_list *ranks,
			unsigned jobs)
{
	VEC(pid_t) pids = { 0 };
	int status = EXIT_HEALTHY;

	printf("%u jobs have ranks here; each gets a folder\n", jobs);
	for (unsigned job = 1; job <= jobs; job++) {
		_cleanup_free_ char *folder = job_folder(ranks, job, jobs);

		pids.n = 0;
		for (size_t i = 0; i < ranks->v.n; i++)
			if (ranks->v.v[i].job == job)
				*vec_push(&pids) = ranks->v.v[i].pid;
		options->pids = pids.v;
		options->n_pids = pids.n;
		options->below = folder;
		status = MAX(status, collect_one(options));
	}
	free(pids.v);
	return status;
}

int collect_main(int argc, char **argv)
{
	struct collect_args args = { 0 };
	struct collect_options options;
	struct rank_list ranks = { 0 };
	VEC(pid_t) pids = { 0 };
	unsigned jobs = 0;
	int operands, status = command_line(&collect_spec, argc, argv, &args, &operands);

	if (status >= 0)
		return status;
	for (int i = operands; i < argc; i++)
		if (!parse_pid(argv[i], vec_push(&pids))) {
			complain(
			    "collect: \"%.60s\" is no process number; see lockstep collect --help",
			    argv[i]);
			free(pids.v);
			return EXIT_USAGE;
		}
	options = (struct collect_options){
		.out = args.out, .pids = pids.v, .n_pids = pids.n, .redact = args.redact
	};
	if (!pids.n)
		ranks_find("/proc", NULL, 0, &ranks);
	for (size_t i = 0; i < ranks.v.n; i++)
		jobs = MAX(jobs, ranks.v.v[i].job);
	status = jobs > 1 ? collect_jobs(&options, &ranks, jobs) : collect_one(&options);
	ranks_done(&ranks);
	free(pids.v);
	return status;
}
