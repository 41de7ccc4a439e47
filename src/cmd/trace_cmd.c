/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_cmd.c - `lockstep trace [--out DIR] -- CMD`: the tracer in CMD, an agent beside it, and at
 * the end what diagnose says.
 *
 * CMD's standard streams, signals and exit status are its own; what we have to say goes to standard
 * error. Ranks that are started apart with one --out share one agent: each trace holds a lock on
 * the folder while its CMD runs, and the agent ends when nobody holds it.
 */
#include "cmd/cmd.h"
#include "cmd/tracing.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATUS_FAILED 125 /* of ours, before CMD */

struct trace_args {
	const char *out;
	bool quiet;
};
static const struct option_row trace_rows[] = {
	{ "out", 'o', OPTION_PATH, offsetof(struct trace_args, out), "DIR",
	  "record into this folder (default lockstep-out)" },
	{ "quiet", 'q', OPTION_FLAG, offsetof(struct trace_args, quiet), NULL,
	  "do not diagnose at the end" },
	{ 0 },
};
const struct option_spec trace_spec = {
	.command = "trace",
	.operands = "[--out DIR] -- CMD [ARGUMENT...]",
	.purpose = "run a job traced, and say at the end which rank was at fault",
	.rows = trace_rows,
	.more = "Ranks started apart with the same --out become one recording. Variables that are\n"
		"set already are left as they are.\n\n"
		"Exit status: that of CMD, 128 + N if signal N ended it; 125 if it could not be\n"
		"traced, 126 if it could not be run, 127 if it was not found.\n",
};

struct trace {
	struct tracing tracing;
	pid_t cmd;
};

/* --- CMD --- */

static volatile pid_t signal_to;

/* What the terminal sends, it sends to CMD as well. */
static void pass_on(int number, siginfo_t *info, void *context)
{
	int kept = errno;

	(void)context;
	if (signal_to > 0 &&
	    !(info->si_code == SI_KERNEL && (number == SIGINT || number == SIGQUIT)))
		kill(signal_to, number);
	errno = kept;
}

static const int passed[] = {
	SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH
};

static void cmd_exec(char **argv, int report)
{
	int e;

	execvp(argv[0], argv);
	e = errno;
	(void)!write(report, &e, sizeof(e));
	_exit(e == ENOENT || e == ENOTDIR ? 127 : 126);
}

static int cmd_run(struct trace *t, char **argv)
{
	struct sigaction action = { .sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigaction before[ARRAY_SIZE(passed)];
	sigset_t all, old;
	int pipes[2], e = 0, status = 0;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return STATUS_FAILED;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	for (size_t i = 0; i < ARRAY_SIZE(passed); i++) {
		sigaction(passed[i], NULL, &before[i]);
		if (before[i].sa_handler != SIG_IGN)
			sigaction(passed[i], &action, NULL);
	}
	t->cmd = fork();
	if (!t->cmd) {
		for (size_t i = 0; i < ARRAY_SIZE(passed); i++)
			sigaction(passed[i], &before[i], NULL);
		signal(SIGABRT, SIG_DFL);
		signal(SIGXFSZ, SIG_DFL);
		sigprocmask(SIG_SETMASK, &old, NULL);
		cmd_exec(argv, pipes[1]);
	}
	signal_to = t->cmd;
	sigprocmask(SIG_SETMASK, &old, NULL);
	close(pipes[1]);
	if (t->cmd < 0) {
		complain("trace: %s", strerror(errno));
		close(pipes[0]);
		return STATUS_FAILED;
	}
	if (read(pipes[0], &e, sizeof(e)) == (ssize_t)sizeof(e))
		complain("trace: %s: %s", argv[0], strerror(e));
	close(pipes[0]);
	while (waitpid(t->cmd, &status, 0) < 0 && errno == EINTR)
		;
	signal_to = 0;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* --- the end --- */

static void say_verdict(const struct trace *t)
{
	char command[] = "diagnose";
	char *argv[] = { command, t->tracing.out, NULL };

	fflush(stdout);
	if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return;
	fprintf(stderr, "\nlockstep: recorded in %s\n\n", t->tracing.out);
	diagnose_main(2, argv);
	fflush(stdout);
}

int trace_main(int argc, char **argv)
{
	struct trace_args args = { .out = "lockstep-out" };
	struct trace t = { .tracing = { .traces = -EBADF } };
	int begin = command_begin(&argc, argv), operands, status;
	bool last;

	status = command_line(&trace_spec, argc, argv, &args, &operands);
	if (status >= 0)
		return status;
	if (!begin || operands < argc) {
		complain("trace: run what? lockstep trace [--out DIR] -- CMD [ARGUMENT...]");
		return EXIT_USAGE;
	}
	status = STATUS_FAILED;
	if (tracing_begin(&t.tracing, "trace", args.out) < 0)
		goto out;
	if (tracing_agent_start(&t.tracing) < 0)
		complain("trace: no agent could be started; %s/%s says why", t.tracing.out,
			 TRACING_LOG);
	status = cmd_run(&t, argv + begin);
	last = tracing_finish(&t.tracing);
	if (!last)
		complain("trace: others still record into %s; lockstep diagnose %s says more",
			 t.tracing.out, t.tracing.out);
	else if (!args.quiet)
		say_verdict(&t);
out:
	tracing_done(&t.tracing);
	return status;
}
