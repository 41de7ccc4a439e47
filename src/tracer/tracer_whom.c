/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracer_whom.c - which processes are traced, and what they say of themselves.
 *
 * A job's environment reaches all that it starts: launchers, loaders of data, compilers. Only the
 * processes that train tell: those that have a rank, by the environment or by lockstep_identity,
 * or a CUDA context, and whose command line is none of a helper. LOCKSTEP=1 means any process,
 * LOCKSTEP=0 none.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include "tracer/core.h"
#include "tracer/tracer_libc.h"

#define ARGS_MOST 32 /* of a command line that are looked at */

/* In this order: what starts a process last knows it best. */
static const struct rank_names {
	const char *rank, *local, *world;
} rank_names[] = {
	{ "RANK", "LOCAL_RANK", "WORLD_SIZE" },
	{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE" },
	{ "PMIX_RANK", NULL, NULL },
	{ "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE" },
	{ "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE" },
	{ "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS" },
};

/* A helper by any of its arguments. */
static const char *const helper_words[] = {
	"--multiprocessing-fork", /* a process started by multiprocessing's "spawn" */
	"from multiprocessing.forkserver import main",
	"from multiprocessing.resource_tracker import main",
	"from multiprocessing.semaphore_tracker import main",
	"torch/_inductor/compile_worker/",
};
/* A launcher by its script, or the module behind -m. */
static const char *const launchers[] = {
	"torchrun",
	"torch.distributed.run",
	"torch.distributed.launch",
	"accelerate",
	"accelerate.commands.launch",
	"accelerate.commands.accelerate_cli",
	"deepspeed",
	"deepspeed.launcher.runner",
	"deepspeed.launcher.launch",
	"torch._inductor.compile_worker",
	"horovodrun",
	"mpirun",
	"mpiexec",
	"srun",
};

static int32_t env_number(const char *name)
{
	int64_t n;

	return name && number_of(getenv(name), &n) && n <= INT32_MAX ? (int32_t)n : -1;
}

void whom_identity(struct whom *ret)
{
	*ret = (struct whom){ .rank = -1, .local_rank = -1, .world_size = -1 };
	for (size_t i = 0; i < sizeof(rank_names) / sizeof(rank_names[0]); i++) {
		const struct rank_names *n = &rank_names[i];

		ret->rank = env_number(n->rank);
		if (ret->rank < 0)
			continue;
		ret->local_rank = env_number(n->local);
		ret->world_size = env_number(n->world);
		break;
	}
	if (ret->local_rank < 0)
		ret->local_rank = env_number("LOCAL_RANK");
	ret->ranked = ret->rank >= 0 || ret->local_rank >= 0;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static size_t split(const char *args, size_t len, const char **ret)
{
	size_t n = 0;

	for (size_t i = 0; i < len && n < ARGS_MOST; i += strnlen(args + i, len - i) + 1)
		ret[n++] = args + i;
	return n;
}

/* What this process runs: the script of a Python, the module behind -m, else the program. */
static const char *what_runs(const char **arg, size_t n)
{
	const char *program = n ? base_of(arg[0]) : "";

	if (strncmp(program, "python", 6) != 0)
		return program;
	for (size_t i = 1; i < n; i++) {
		if (arg[i][0] != '-')
			return base_of(arg[i]);
		if (arg[i][1] == '-')
			continue;
		if (strchr(arg[i], 'c'))
			return program;
		if (arg[i][strlen(arg[i]) - 1] == 'm')
			return i + 1 < n ? arg[i + 1] : program;
		if (!strcmp(arg[i], "-X") || !strcmp(arg[i], "-W"))
			i++;
	}
	return program;
}

bool whom_is_helper(const char *args, size_t len)
{
	const char *arg[ARGS_MOST];
	size_t n = split(args, len, arg);
	const char *runs = what_runs(arg, n);

	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		if (!strcmp(runs, launchers[i]))
			return true;
	}
	for (size_t i = 1; i < n; i++) {
		for (size_t j = 0; j < sizeof(helper_words) / sizeof(helper_words[0]); j++) {
			if (strstr(arg[i], helper_words[j]))
				return true;
		}
	}
	return false;
}

void whom_program(const char *args, size_t len, char *out, size_t size)
{
	const char *arg[ARGS_MOST];
	struct text t = text_in(out, size);

	text_add(&t, what_runs(arg, split(args, len, arg)));
}

bool whom_traced(const struct whom *w, enum tracer_door door)
{
	const char *wish = getenv("LOCKSTEP");
	char args[4096];
	long len;

	if (wish && !strcmp(wish, "0"))
		return false;
	if ((wish && !strcmp(wish, "1")) || load_relaxed(&core.rank) >= 0)
		return true;
	len = file_read("/proc/self/cmdline", args, sizeof(args));
	if (len > 0 && whom_is_helper(args, (size_t)len))
		return false;
	return w->ranked || door == DOOR_CUDA;
}

void whom_describe(struct ring_header *h)
{
	static const char *const jobs[] = { "LOCKSTEP_JOB", "SLURM_JOB_ID", "PBS_JOBID",
					    "LSB_JOBID", "TORCHELASTIC_RUN_ID" };
	struct text job = text_in(h->job, sizeof(h->job));
	struct text host = text_in(h->host, sizeof(h->host));
	struct utsname machine;
	char args[4096];
	long len;

	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]) && !h->job[0]; i++) {
		const char *s = getenv(jobs[i]);

		if (s && strcmp(s, "none") != 0)
			text_add(&job, s);
	}
	if (!uname(&machine))
		text_add(&host, machine.nodename);
	len = file_read("/proc/self/cmdline", args, sizeof(args));
	whom_program(args, len > 0 ? (size_t)len : 0, h->program, sizeof(h->program));
}
