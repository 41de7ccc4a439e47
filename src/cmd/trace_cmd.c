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
#include "agent/agent.h"
#include "base/buf.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TRACE_LOG     ".lockstep-agent.log"
#define DRAIN_MS      10000
#define START_MS      3000
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
	char *out;    /* absolute */
	char *rings;  /* folder */
	char *self;   /* our program */
	char *folder; /* .. and where it lies */
	int traces;   /* lock */
	pid_t cmd;
};

/* --- places --- */

static char *self_path(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0)
		return NULL;
	path[n] = '\0';
	return xstrdup(path);
}

/* The first of these beside our program that is there; NULL: none. */
static char *beside(const struct trace *t, const char *const *places)
{
	for (; *places; places++) {
		char *path = xasprintf("%s/%s", t->folder, *places), *real;

		real = realpath(path, NULL);
		free(path);
		if (real)
			return real;
	}
	return NULL;
}

static char *library_path(const struct trace *t)
{
	static const char *const places[] = { "liblockstep.so",
					      "../lib/liblockstep.so",
					      "../lib64/liblockstep.so",
					      "../lib/x86_64-linux-gnu/liblockstep.so",
					      "../lib/aarch64-linux-gnu/liblockstep.so",
					      NULL };

	return beside(t, places);
}

static char *python_path(const struct trace *t)
{
	static const char *const places[] = { "../python/site", "../share/lockstep/python/site",
					      "../lib/lockstep/python/site", NULL };
	char *named = getenv("LOCKSTEP_PYTHON");

	return named && *named ? xstrdup(named) : beside(t, places);
}

/* --- environment --- */

static void env_set(const char *name, const char *value, struct buf *left)
{
	const char *was = getenv(name);

	if (!was || !*was) {
		setenv(name, value, 1);
	} else if (strcmp(was, value) != 0) {
		buf_put(left, left->len ? ", " : "", left->len ? 2 : 0);
		buf_put(left, name, strlen(name));
	}
}

static void env_python(const char *site)
{
	const char *was = getenv("PYTHONPATH");
	_cleanup_free_ char *path = NULL;

	if (was && (strstr(was, site)))
		return;
	path = was && *was ? xasprintf("%s:%s", site, was) : xstrdup(site);
	setenv("PYTHONPATH", path, 1);
	setenv("LOCKSTEP_AUTO", "1", 0);
}

/* Where the ranks of one --out meet: in memory, apart from those of others. */
static char *rings_folder(const char *out)
{
	uint64_t h = 14695981039346656037u;

	for (const char *p = out; *p; p++)
		h = (h ^ (uint8_t)*p) * 1099511628211u;
	return xasprintf("/dev/shm/lockstep-%u-%08x", (unsigned)geteuid(), (unsigned)(h ^ h >> 32));
}

static int environment(struct trace *t)
{
	_cleanup_free_ char *library = library_path(t), *site = python_path(t);
	const char *rings = getenv("LOCKSTEP_DIR"), *slash = strrchr(t->out, '/');
	struct buf left = { 0 };

	if (!library) {
		complain("trace: no liblockstep.so beside %s or in its lib", t->self);
		return -ENOENT;
	}
	t->rings = rings && *rings ? xstrdup(rings) : rings_folder(t->out);
	env_set("LOCKSTEP_DIR", t->rings, &left);
	env_set("LOCKSTEP_JOB", slash && slash[1] ? slash + 1 : t->out, &left);
	env_set("LOCKSTEP_LIBRARY", library, &left);
	env_set("CUDA_INJECTION64_PATH", library, &left);
	env_set("NVTX_INJECTION64_PATH", library, &left);
	env_set("NCCL_PROFILER_PLUGIN", library, &left);
	if (site)
		env_python(site);
	if (left.len) {
		buf_put(&left, "", 1);
		complain("trace: set already and left as it is: %s", (char *)left.data);
	}
	buf_done(&left);
	return 0;
}

/* --- the agent --- */

static bool agent_runs(const struct trace *t)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", t->out, AGENT_LOCK);
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

/* It is nobody's child, so that no wait of CMD's launcher meets it. */
static void agent_exec(const struct trace *t)
{
	_cleanup_free_ char *log = xasprintf("%s/%s", t->out, TRACE_LOG);
	int null = open("/dev/null", O_RDWR);
	int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);

	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(fd < 0 ? null : fd, STDERR_FILENO);
	for (int i = STDERR_FILENO + 1; i < 1024; i++)
		close(i);
	execl(t->self, "lockstep", "agent", "--while-traced", "--rings", t->rings, "--out", t->out,
	      (char *)NULL);
	_exit(STATUS_FAILED);
}

static void nap(int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&ts, NULL);
}

static int agent_start(const struct trace *t)
{
	pid_t pid;

	if (agent_runs(t))
		return 0;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid) {
		setsid();
		if (fork())
			_exit(0);
		agent_exec(t);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	/* It follows from its start on: a short CMD must not be over before. */
	for (int waited = 0; !agent_runs(t) && waited < START_MS; waited += 2)
		nap(2);
	return agent_runs(t) ? 0 : -ESRCH;
}

/* Lets go of the folder. true: we were the last, and the agent has written all. */
static bool agent_finish(struct trace *t)
{
	bool last;

	last = flock(t->traces, LOCK_EX | LOCK_NB) == 0;
	cleanup_close(&t->traces);
	for (int waited = 0; last && agent_runs(t); waited += 20) {
		if (waited > DRAIN_MS)
			return false;
		nap(20);
	}
	if (last)
		rmdir(t->rings); /* if nothing is in it */
	return last;
}

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
	char *argv[] = { command, t->out, NULL };

	fflush(stdout);
	if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return;
	fprintf(stderr, "\nlockstep: recorded in %s\n\n", t->out);
	diagnose_main(2, argv);
	fflush(stdout);
}

static int trace_prepare(struct trace *t, const char *out)
{
	_cleanup_free_ char *lock = NULL;
	char *slash;

	if (mkdir(out, 0777) < 0 && errno != EEXIST) {
		complain("trace: %s: %s", out, strerror(errno));
		return -errno;
	}
	t->out = realpath(out, NULL);
	t->self = self_path();
	if (!t->out || !t->self) {
		complain("trace: %s: %s", out, strerror(errno));
		return -EIO;
	}
	t->folder = xstrdup(t->self);
	slash = strrchr(t->folder, '/');
	*slash = '\0';
	lock = xasprintf("%s/%s", t->out, AGENT_TRACES);
	t->traces = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	/* An agent that is about to end holds it until it has ended. */
	if (t->traces < 0 || flock(t->traces, LOCK_SH) < 0) {
		complain("trace: %s: %s", lock, strerror(errno));
		return -errno;
	}
	return environment(t);
}

/* Where CMD begins, with "--" taken out of argv; 0: there is none. */
static int command_begin(int *argc, char **argv)
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

int trace_main(int argc, char **argv)
{
	struct trace_args args = { .out = "lockstep-out" };
	struct trace t = { .traces = -EBADF };
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
	if (trace_prepare(&t, args.out) < 0)
		goto out;
	if (agent_start(&t) < 0)
		complain("trace: no agent could be started; %s/%s says why", t.out, TRACE_LOG);
	status = cmd_run(&t, argv + begin);
	last = agent_finish(&t);
	if (!last)
		complain("trace: others still record into %s; lockstep diagnose %s says more",
			 t.out, t.out);
	else if (!args.quiet)
		say_verdict(&t);
out:
	cleanup_close(&t.traces);
	free(t.out);
	free(t.rings);
	free(t.self);
	free(t.folder);
	return status;
}
