/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - one program with subcommands: each is a row here and a file beside this one. */
#include "cmd/cmd.h"
#include "show/clean.h"
#include "base/buf.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static const struct command commands[] = {
	{ &diagnose_spec, diagnose_main },
	{ &collect_spec, collect_main },
	{ &export_spec, export_main },
	{ &explain_spec, explain_main },
	{ &sim_spec, sim_main },
	{ &trace_spec, trace_main },
	{ &agent_spec, agent_main },
	{ &even_spec, even_main },
	{ &preflight_spec, preflight_main },
	{ &watch_spec, watch_main },
	{ &run_spec, run_main },
};

void complain(const char *format, ...)
{
	_cleanup_free_ char *clean = NULL;
	char text[4096];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	clean = clean_text(text); /* what names hold stays one line, and no order to a terminal */
	fprintf(stderr, "lockstep: %s\n", clean);
}

int command_begin(int *argc, char **argv)
{
	for (int i = 1; i < *argc; i++) {
		if (strcmp(argv[i], "--") != 0)
			continue;
		if (i + 1 == *argc)
			return 0;
		*argc = i;
		return i + 1;
	}
	return 0;
}

int command_line(const struct option_spec *spec, int argc, char **argv, void *args,
		 int *ret_operands)
{
	struct error error;
	int status = options_parse(spec, argc, argv, args, ret_operands, &error);

	if (status == OPTIONS_HELP) {
		options_help(stdout, spec);
		return fflush(stdout) ? EXIT_CANNOT_TELL : EXIT_HEALTHY;
	}
	if (status < 0) {
		complain("%s", error.text);
		return EXIT_USAGE;
	}
	return -1;
}

static void usage(FILE *out)
{
	fputs("Usage: lockstep COMMAND [OPTION...] [ARGUMENT...]\n\n"
	      "Says which rank of a training job makes the others wait, in which operation, since\n"
	      "which step, why, what it costs, and what to do next.\n\nCommands:\n",
	      out);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(out, "  %-12s %s\n", commands[i].spec->command, commands[i].spec->purpose);
	fputs("\n  lockstep COMMAND --help   options of a command\n"
	      "  lockstep --version\n\n"
	      "Exit status: 0 nothing wrong, 1 findings, 2 cannot tell or nothing usable, 64 bad "
	      "usage,\n"
	      "70 a fault of lockstep itself.\n",
	      out);
}

static const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(name, commands[i].spec->command))
			return &commands[i];
	return NULL;
}

static int unknown_command(const char *name)
{
	const char *names[ARRAY_SIZE(commands) + 1], *near;

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		names[i] = commands[i].spec->command;
	names[ARRAY_SIZE(commands)] = "help";
	near = options_nearest(name, names, ARRAY_SIZE(names));
	if (near)
		complain("no command \"%.60s\"; did you mean \"%s\"?", name, near);
	else
		complain("no command \"%.60s\"; see lockstep help", name);
	return EXIT_USAGE;
}

/* help [COMMAND]; help --options: all option tables, for scripts/lint and the completion. */
static int help_main(int argc, char **argv)
{
	const struct command *command;

	if (argc < 2) {
		usage(stdout);
		return EXIT_HEALTHY;
	}
	if (!strcmp(argv[1], "--options")) {
		for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
			options_list(stdout, commands[i].spec);
		return EXIT_HEALTHY;
	}
	command = command_find(argv[1]);
	if (!command)
		return unknown_command(argv[1]);
	options_help(stdout, command->spec);
	return EXIT_HEALTHY;
}

/* A failed assertion has said what failed; the status says whose fault it is. */
static void our_bug(int signal_number)
{
	(void)signal_number;
	_exit(EXIT_OUR_BUG);
}

/* What we open must not become a standard stream: a report would end in a segment. The stand-in
   fails as a closed one does. */
static void streams_hold(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			(void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;
	const struct command *command;

	signal(SIGABRT, our_bug);
	signal(SIGCHLD, SIG_DFL); /* ignored by who began us, no child could be waited for */
	signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of the write */
	streams_hold();
	if (!name) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
		puts("lockstep " LOCKSTEP_VERSION);
		return EXIT_HEALTHY;
	}
	if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help"))
		return help_main(argc - 1, argv + 1);
	command = command_find(name);
	if (!command)
		return unknown_command(name);
	return command->run(argc - 1, argv + 1);
}
