/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_cmd.c - `lockstep run [OPTION...] -- CMD`: the gate first, then CMD guarded (src/run/run.h).
 */
#include "cmd/cmd.h"
#include "cmd/tracing.h"
#include "run/run.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOLDERS_MOST 10000u
#define COLUMNS	     100u

struct run_args {
	const char *out, *checkpoints, *resume_args, *on_hang, *notify, *preflight_args;
	const char *meet_folder, *meet, *secret, *job;
	bool fresh, whole, weights_only, no_trace, no_preflight;
	int64_t hang_after, start_after, look_after, grace, retries, retry_delay, storm;
	int64_t storm_minutes, unsaved_after, gpus, collective, node, nodes, wait;
};
#define AT(field) offsetof(struct run_args, field)

static const struct option_row run_rows[] = {
	{ "out", 'o', OPTION_PATH, AT(out), "DIR",
	  "keep logs, evidence and run.json there (default lockstep-run)" },
	{ "checkpoints", 'c', OPTION_PATH, AT(checkpoints), "DIR",
	  "begin at the newest whole checkpoint in this folder" },
	{ "resume-args", 0, OPTION_TEXT, AT(resume_args), "ARGS",
	  "added to CMD with a checkpoint; {checkpoint} and {step} are filled in" },
	{ "fresh", 0, OPTION_FLAG, AT(fresh), NULL, "the first attempt begins anew" },
	{ "whole", 0, OPTION_FLAG, AT(whole), NULL,
	  "check all data of checkpoints, not their structure alone" },
	{ "weights-only", 0, OPTION_FLAG, AT(weights_only), NULL, "begin without optimizer state" },
	{ "on-hang", 0, OPTION_TEXT, AT(on_hang), "WHAT", "notify (default), restart, or ignore" },
	{ "notify-command", 0, OPTION_TEXT, AT(notify), "CMD",
	  "run by /bin/sh on a hang and on a failure" },
	{ "hang-after", 0, OPTION_NUMBER, AT(hang_after), "SECONDS",
	  "without a new step; else learnt from the job's steps" },
	{ "start-after", 0, OPTION_NUMBER, AT(start_after), "SECONDS",
	  "until the third step; 0: for ever (default 1800)" },
	{ "look-after", 0, OPTION_NUMBER, AT(look_after), "SECONDS",
	  "between the two looks at a hang" },
	{ "grace", 0, OPTION_NUMBER, AT(grace), "SECONDS",
	  "from TERM, ours or passed on, to KILL (default 30)" },
	{ "retries", 0, OPTION_NUMBER, AT(retries), "N",
	  "attempts after a failure; 0: none; else as the cause deserves" },
	{ "retry-delay", 0, OPTION_NUMBER, AT(retry_delay), "SECONDS",
	  "before the first retry, doubled for each that follows" },
	{ "storm", 0, OPTION_NUMBER, AT(storm), "N",
	  "stop after so many failures without gain (default 5)" },
	{ "storm-minutes", 0, OPTION_NUMBER, AT(storm_minutes), "N",
	  "within so many minutes (default 60)" },
	{ "unsaved-after", 0, OPTION_NUMBER, AT(unsaved_after), "SECONDS",
	  "warn when nothing was saved for so long; 0: never (default 3600)" },
	{ "gpus", 'g', OPTION_NUMBER, AT(gpus), "N", "this node's GPUs, to count what is lost" },
	{ "collective-timeout", 0, OPTION_NUMBER, AT(collective), "SECONDS",
	  "of the job's collectives, by Lockstep's Python package" },
	{ "no-trace", 0, OPTION_FLAG, AT(no_trace), NULL, "without the tracer" },
	{ "no-preflight", 0, OPTION_FLAG, AT(no_preflight), NULL, "without the gate" },
	{ "preflight-args", 0, OPTION_TEXT, AT(preflight_args), "ARGS",
	  "options of lockstep preflight" },
	{ "node", 0, OPTION_NUMBER, AT(node), "N", "number of this node, from 0" },
	{ "nodes", 'n', OPTION_NUMBER, AT(nodes), "N", "nodes of the job, one run on each" },
	{ "meet-folder", 0, OPTION_PATH, AT(meet_folder), "DIR", "nodes meet in this folder" },
	{ "meet", 'm', OPTION_TEXT, AT(meet), "HOST:PORT",
	  "nodes meet there: node 0 listens, the others come" },
	{ "secret-file", 0, OPTION_PATH, AT(secret), "FILE",
	  "the secret that all nodes of the job share" },
	{ "job", 'j', OPTION_TEXT, AT(job), "NAME", "of this job, alike on all nodes" },
	{ "wait", 0, OPTION_NUMBER, AT(wait), "SECONDS",
	  "for the other nodes before each attempt (default 600)" },
	{ 0 },
};
#undef AT
const struct option_spec run_spec = {
	.command = "run",
	.operands = "-- CMD [ARGUMENT...]",
	.purpose = "run a job guarded: gate, evidence, retries that can help, resume",
	.rows = run_rows,
	.more =
	    "CMD's output, signals and status are its own. On a hang evidence is collected and\n"
	    "named; --on-hang=restart also ends the job and begins again at the newest whole\n"
	    "checkpoint, which CMD finds in LOCKSTEP_RESUME or by --resume-args.\n\n"
	    "Exit status: that of CMD, 128 + N if signal N ended it; 125 if it was not begun\n"
	    "(the gate refused, or we failed), 126 if it could not be run, 127 if not found.\n",
};

/* --- words --- */

/* In lines of COLUMNS at most, parted at blanks: each says whose it is. */
static void say(const char *line)
{
	size_t room = COLUMNS - (sizeof("lockstep: run: ") - 1);
	const char *more = "";

	while (*line) {
		size_t cut = 0, at = 0, wide = strlen(more);

		for (; line[at] && (wide < room || !cut); at++) {
			wide += ((unsigned char)line[at] & 0xc0) != 0x80;
			if (at && line[at] == ' ' && (wide <= room + 1 || !cut))
				cut = at;
		}
		if (!line[at] && (wide <= room || !cut))
			cut = at;
		complain("run: %s%.*s", more, (int)cut, line);
		line += cut;
		line += strspn(line, " ");
		more = "  ";
	}
}

static void PRINTF_LIKE(1, 2) tell(const char *format, ...)
{
	char text[4096];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	say(text);
}

/* --- around an attempt --- */

struct traced {
	struct tracing tracing;
	bool off, on, said;
	int64_t collective_s; /* -1 */
	const char *job;
};

/* The Python package sets the time-out where it is on the path; else the user has to. */
static void say_collective(struct traced *t)
{
	if (t->collective_s > 0 && !t->said && (t->off || !getenv("LOCKSTEP_AUTO")))
		tell("Lockstep's Python package is not in it, so the time-out is the "
		     "job's own: torch.distributed.init_process_group(..., "
		     "timeout=datetime.timedelta(seconds=%" PRId64 "))",
		     t->collective_s);
	t->said = true;
}

static void trace_begin(void *user, const char *folder)
{
	struct traced *t = user;

	if (t->off) {
		say_collective(t);
		return;
	}
	t->tracing.job = t->job; /* an attempt's folder is no job's name */
	t->on = tracing_begin(&t->tracing, "run", folder) == 0;
	if (!t->on) {
		tell("it goes on without the tracer");
		t->off = true;
		tracing_done(&t->tracing);
	} else if (tracing_agent_start(&t->tracing) < 0) {
		tell("no agent could be started; %s/%s says why", folder, TRACING_LOG);
	}
	say_collective(t);
}

static void trace_end(void *user)
{
	struct traced *t = user;

	if (!t->on)
		return;
	tracing_finish(&t->tracing);
	tracing_done(&t->tracing);
	t->on = false;
}

/* --- the gate --- */

struct words {
	VEC(char *) v;
};

static void add(struct words *w, const char *option, const char *value)
{
	if (!value)
		return;
	*vec_push(&w->v) = xstrdup(option);
	if (*value)
		*vec_push(&w->v) = xstrdup(value);
}

static void add_number(struct words *w, const char *option, int64_t n)
{
	_cleanup_free_ char *text = n < 0 ? NULL : xasprintf("%" PRId64, n);

	add(w, option, text);
}

static struct words preflight_words(const struct run_args *a, const char *self, const char *report)
{
	struct words w = { 0 };
	char *rest = a->preflight_args ? xstrdup(a->preflight_args) : NULL, *keep = NULL;

	add(&w, self, "preflight");
	add(&w, "--report", report);
	add(&w, "--checkpoints", a->checkpoints);
	add_number(&w, "--gpus", a->gpus);
	add_number(&w, "--watchdog-seconds", a->collective);
	if (a->nodes > 1) {
		_cleanup_free_ char *job = xasprintf("%s.preflight", a->job);

		add_number(&w, "--nodes", a->nodes);
		add_number(&w, "--node", a->node);
		add(&w, "--meet-folder", a->meet_folder);
		add(&w, "--meet", a->meet);
		add(&w, "--secret-file", a->secret);
		add(&w, "--job", job);
	}
	for (char *p = rest ? strtok_r(rest, " \t", &keep) : NULL; p;
	     p = strtok_r(NULL, " \t", &keep))
		*vec_push(&w.v) = xstrdup(p);
	free(rest);
	*vec_push(&w.v) = NULL;
	return w;
}

/* Its status; what it prints, which is brief, is ours to say: standard output is CMD's. The
   recorder will be on when CMD runs. */
static int preflight(const struct run_args *a, const char *self, const char *report)
{
	struct words w = preflight_words(a, self, report);
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		setenv("TORCH_FR_BUFFER_SIZE", "2000", 0);
		setenv("TORCH_NCCL_TRACE_BUFFER_SIZE", "2000", 0);
		setenv("TORCH_NCCL_DUMP_ON_TIMEOUT", "1", 0);
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execv(self, w.v.v);
		_exit(RUN_NO_EXEC);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	for (size_t i = 0; i < w.v.n; i++)
		free(w.v.v[i]);
	free(w.v.v);
	if (pid < 0)
		return -1;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static bool gate_opens(const struct run_args *a, const char *self, const char *folder)
{
	_cleanup_free_ char *report = xasprintf("%s/preflight.txt", folder);
	int status;

	if (a->no_preflight)
		return true;
	unlink(report); /* an earlier gate's */
	status = preflight(a, self, report);
	if (status == EXIT_HEALTHY)
		return true;
	tell("preflight's options are given as --preflight-args 'OPTION...'");
	if (status == EXIT_CANNOT_TELL) {
		tell("preflight cannot tell; it goes on");
		return true;
	}
	if (status == EXIT_FINDINGS)
		tell("preflight refuses: nothing was begun (--no-preflight begins all the same)");
	else
		tell("preflight ended with status %d: nothing was begun", status);
	return false;
}

/* --- the plan --- */

/* The folder, or the next free one beside it: a job that is begun again keeps what was. */
static char *make_folder(const char *out)
{
	for (unsigned i = 1; i <= FOLDERS_MOST; i++) {
		char *path = i == 1 ? xstrdup(out) : xasprintf("%s.%u", out, i), *real;
		_cleanup_free_ char *taken = xasprintf("%s/attempt-1", path);
		bool made = mkdir(path, 0777) == 0 || errno == EEXIST;

		if (made && access(taken, F_OK) < 0 && errno == ENOENT) {
			real = realpath(path, NULL);
			if (!real || access(real, W_OK) < 0)
				tell("%s: %s", path, strerror(errno));
			else if (i > 1)
				tell("%s is taken, this one is kept in %s", out, path);
			free(path);
			return real;
		}
		if (!made || access(taken, F_OK) < 0) {
			tell("--out %s: no folder can be made: %s", path, strerror(errno));
			free(path);
			return NULL;
		}
		free(path);
	}
	tell("no folder %s.N is free", out);
	return NULL;
}

/* CMD may work elsewhere, and the folder may come to be only then. */
static char *absolute(const char *path)
{
	_cleanup_free_ char *here = NULL;
	char *real = realpath(path, NULL);

	if (real || path[0] == '/')
		return real ? real : xstrdup(path);
	here = getcwd(NULL, 0);
	return here ? xasprintf("%s/%s", here, path) : xstrdup(path);
}

static int64_t environment_number(const char *name, int64_t otherwise)
{
	const char *v = getenv(name);

	return v && *v >= '0' && *v <= '9' ? atoll(v) : otherwise;
}

static int64_t gpus_here(void)
{
	char path[32];
	int64_t n = 0;

	for (;; n++) {
		snprintf(path, sizeof(path), "/dev/nvidia%d", (int)n);
		if (access(path, F_OK) < 0)
			return n;
	}
}

static int on_hang(const char *word)
{
	static const char *const words[RUN_HANGS] = { "notify", "restart", "ignore" };

	for (int i = 0; i < RUN_HANGS; i++)
		if (!word || strcmp(word, words[i]) == 0)
			return i;
	tell("--on-hang %s: notify, restart or ignore", word);
	return -1;
}

/* Where the nodes meet: false if that cannot be. */
static bool plan_meeting(struct run_args *a, struct meet_plan *m)
{
	if (a->nodes > 1 && !a->meet_folder && !a->meet) {
		tell("%" PRId64 " nodes need a place to meet: --meet-folder DIR, or "
		     "--meet HOST:PORT with --secret-file FILE",
		     a->nodes);
		return false;
	}
	if (a->nodes < 0)
		a->nodes = environment_number("SLURM_NNODES", 1);
	if (a->node < 0)
		a->node = environment_number("SLURM_NODEID", 0);
	if (!a->job)
		a->job = getenv("SLURM_JOB_ID");
	if (!a->meet_folder && !a->meet)
		a->nodes = 1; /* a launcher's number: each by itself */
	if (a->nodes <= 1)
		return true;
	if (a->node >= a->nodes || a->nodes > MEET_NODES_MOST || !a->job) {
		tell("%s", a->job ? "--node must be below --nodes"
				  : "--job NAME tells this job from others, alike on all nodes");
		return false;
	}
	*m = (struct meet_plan){ .folder = a->meet_folder,
				 .address = a->meet,
				 .secret_file = a->secret,
				 .node = (uint32_t)a->node,
				 .nodes = (uint32_t)a->nodes,
				 .limit_ms = (unsigned)MIN(a->wait * 1000, INT32_MAX) };
	return true;
}

static void fill_plan(const struct run_args *a, struct run_plan *p)
{
	p->checkpoints = a->checkpoints;
	p->resume_args = a->resume_args;
	p->fresh = a->fresh;
	p->whole = a->whole;
	p->weights_only = a->weights_only;
	p->notify = a->notify;
	p->hang_ms = a->hang_after * 1000;
	p->start_ms = a->start_after * 1000;
	p->look_ms = a->look_after * 1000;
	p->grace_ms = a->grace * 1000;
	p->retries = a->retries;
	p->delay_ms = a->retry_delay < 0 ? -1 : a->retry_delay * 1000;
	p->storm = a->storm;
	p->storm_ms = a->storm_minutes * 60000;
	p->unsaved_ms = a->unsaved_after * 1000;
	p->gpus = a->gpus >= 0 ? a->gpus : gpus_here();
	p->collective_s = a->collective > 0 ? a->collective : 0;
	p->say = say;
	p->begin = trace_begin;
	p->end = trace_end;
}

/* As it is named, or by its launcher, or as the folder is. */
static const char *job_name(const struct run_args *a, const char *folder)
{
	const char *slash = strrchr(folder, '/');

	return a->job && *a->job ? a->job : slash && slash[1] ? slash + 1 : folder;
}

int run_main(int argc, char **argv)
{
	struct run_args args = { .out = "lockstep-run",
				 .hang_after = 0,
				 .start_after = 1800,
				 .grace = 30,
				 .retries = -1,
				 .retry_delay = -1,
				 .storm = 5,
				 .storm_minutes = 60,
				 .unsaved_after = 3600,
				 .gpus = -1,
				 .collective = -1,
				 .node = -1,
				 .nodes = -1,
				 .wait = 600 };
	struct traced traced = { .tracing = { .traces = -EBADF } };
	_cleanup_free_ char *self = self_path(), *folder = NULL, *checkpoints = NULL, *job = NULL;
	struct meet_plan meet = { 0 };
	struct run_plan plan = { .user = &traced, .self = self };
	char field[64];
	int begin = command_begin(&argc, argv), operands, status, hang;

	status = command_line(&run_spec, argc, argv, &args, &operands);
	if (status >= 0)
		return status;
	if (!begin || operands < argc) {
		tell("run what? lockstep run [OPTION...] -- CMD [ARGUMENT...]");
		return EXIT_USAGE;
	}
	if (!*args.out) {
		tell("--out: an empty name is no folder");
		return EXIT_USAGE;
	}
	hang = on_hang(args.on_hang);
	if (hang < 0 || !plan_meeting(&args, &meet))
		return EXIT_USAGE;
	if (args.resume_args && run_field_unknown(args.resume_args, field, sizeof(field))) {
		tell("--resume-args: %s is no field: {checkpoint} and {step} are", field);
		return EXIT_USAGE;
	}
	folder = make_folder(args.out);
	if (!self || !folder || !gate_opens(&args, self, folder))
		return RUN_NO_START;
	if (args.checkpoints) {
		checkpoints = absolute(args.checkpoints);
		args.checkpoints = checkpoints;
	}
	traced.off = args.no_trace;
	traced.collective_s = args.collective;
	fill_plan(&args, &plan);
	plan.argv = argv + begin;
	plan.folder = folder;
	plan.job = traced.job = job_name(&args, folder);
	plan.on_hang = (enum run_on_hang)hang;
	if (args.nodes > 1) {
		job = xasprintf("%s.run", args.job);
		meet.job = job;
		plan.meet = &meet;
	}
	return run_job(&plan);
}
