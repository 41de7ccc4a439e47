/* SPDX-License-Identifier: Apache-2.0 */
/* agent_cmd.c - `lockstep agent`: follows the rings of this node and writes step records. */
#include "cmd/cmd.h"
#include "agent/agent.h"

#include <stdio.h>

struct agent_args {
	struct option_texts rings;
	const char *out, *listen;
	int64_t size, age, keep;
	bool once, while_traced;
};

#define FIELD(name) offsetof(struct agent_args, name)
static const struct option_row agent_rows[] = {
	{ "out", 'o', OPTION_PATH, FIELD(out), "DIR",
	  "write step records (.lks) into this folder (default lockstep-out)" },
	{ "rings", 0, OPTION_TEXTS, FIELD(rings), "DIR",
	  "a folder of rings, once for each (default: the user's own; as root, all)" },
	{ "listen", 0, OPTION_TEXT, FIELD(listen), "WHERE",
	  "answer Prometheus on this loopback HOST:PORT, or this socket" },
	{ "size", 0, OPTION_NUMBER, FIELD(size), "MIB",
	  "begin a new segment at this size (default 64)" },
	{ "age", 0, OPTION_NUMBER, FIELD(age), "MINUTES",
	  "begin a new segment at this age (default 60)" },
	{ "keep", 0, OPTION_NUMBER, FIELD(keep), "N",
	  "keep so many segments, remove the oldest (default 48; 0 keeps all)" },
	{ "once", 0, OPTION_FLAG, FIELD(once), NULL, "take what the rings hold now, and end" },
	{ "while-traced", 0, OPTION_FLAG, FIELD(while_traced), NULL,
	  "end when no lockstep trace uses the folder any more" },
	{ 0 },
};
const struct option_spec agent_spec = {
	.command = "agent",
	.operands = "[--out DIR]",
	.purpose = "follow the traced jobs of this node and write their step records",
	.rows = agent_rows,
	.more = "It reads the rings that liblockstep.so leaves in memory, of its user's jobs (as\n"
		"root, of all, containers included), and never touches a job. Give the folder to\n"
		"`lockstep diagnose` at any time.\n",
};

int agent_main(int argc, char **argv)
{
	struct agent_args args = { .size = 64, .age = 60, .keep = 48, .out = "lockstep-out" };
	struct agent_options options = { .say = complain };
	struct error error = { "" };
	int operands, status = command_line(&agent_spec, argc, argv, &args, &operands);

	if (status >= 0)
		goto out;
	status = EXIT_USAGE;
	if (operands < argc) {
		complain("agent: what is \"%.60s\"? See lockstep agent --help", argv[operands]);
		goto out;
	}
	if (args.size < 1 || args.size > 65536 || args.age < 1 || args.age > 1000000) {
		complain("agent: --size is 1 to 65536 MiB, --age 1 to 1000000 minutes");
		goto out;
	}
	options.rings = args.rings.v;
	options.n_rings = args.rings.n;
	options.out = args.out;
	options.listen = args.listen;
	options.once = args.once;
	options.while_traced = args.while_traced;
	options.limits = (struct segment_limits){
		.bytes = (uint64_t)args.size << 20,
		.age_ns = args.age * 60 * 1000000000,
		.keep = (uint64_t)args.keep,
	};
	status = agent_run(&options, &error);
	if (status < 0)
		complain("agent: %s", *error.text ? error.text : strerror(-status));
	status = status == -EINVAL ? EXIT_USAGE : status < 0 ? EXIT_CANNOT_TELL : EXIT_HEALTHY;
out:
	free(args.rings.v);
	return status;
}
