/* SPDX-License-Identifier: Apache-2.0 */
/* cmd.h - the subcommands of lockstep, and the statuses they exit with. */
#pragma once
#include "base/options.h"

enum {
	EXIT_HEALTHY = 0,
	EXIT_FINDINGS = 1,    /* a fault or a risk */
	EXIT_CANNOT_TELL = 2, /* or nothing usable was given */
	EXIT_USAGE = 64,
	EXIT_OUR_BUG = 70,
};

struct command {
	const struct option_spec *spec;
	int (*run)(int argc, char **argv); /* argv[0] is the subcommand's name */
};
extern const struct option_spec diagnose_spec, collect_spec, export_spec, explain_spec, sim_spec;
extern const struct option_spec trace_spec, agent_spec, even_spec, preflight_spec, watch_spec,
    run_spec;
int diagnose_main(int argc, char **argv);
int collect_main(int argc, char **argv);
int export_main(int argc, char **argv);
int explain_main(int argc, char **argv);
int sim_main(int argc, char **argv);
int trace_main(int argc, char **argv);
int agent_main(int argc, char **argv);
int even_main(int argc, char **argv);
int preflight_main(int argc, char **argv);
int watch_main(int argc, char **argv);
int run_main(int argc, char **argv);

/* Where CMD begins, with "--" taken out of argv; 0: there is none. */
int command_begin(int *argc, char **argv);
/* One line on stderr: what, where, what next. */
void complain(const char *format, ...) PRINTF_LIKE(1, 2);
/* Parses for a subcommand: -1 to go on, else the status to exit with. */
int command_line(const struct option_spec *spec, int argc, char **argv, void *args,
		 int *ret_operands);
