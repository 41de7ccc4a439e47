/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracing.c - the tracer in a job's environment, and an agent beside it; for `trace` and `run`.
 *
 * Each tracing holds a lock on its folder, and the agent ends when nobody holds it.
 */
#include "cmd/tracing.h"
#include "cmd/cmd.h"
#include "agent/agent.h"
#include "base/buf.h"
#include "model/ring_layout.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DRAIN_MS 10000
#define START_MS 10000

/* --- places --- */

char *self_path(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0)
		return NULL;
	path[n] = '\0';
	return xstrdup(path);
}

/* The first of these beside our program that is there; NULL: none. */
static char *beside(const struct tracing *t, const char *const *places)
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

static char *library_path(const struct tracing *t)
{
	static const char *const places[] = { "liblockstep.so",
					      "../lib/liblockstep.so",
					      "../lib64/liblockstep.so",
					      "../lib/x86_64-linux-gnu/liblockstep.so",
					      "../lib/aarch64-linux-gnu/liblockstep.so",
					      NULL };

	return beside(t, places);
}

static char *python_path(const struct tracing *t)
{
	static const char *const places[] = { "../python/site", "../share/lockstep/python/site",
					      "../lib/lockstep/python/site", NULL };
	char *named = getenv("LOCKSTEP_PYTHON");

	return named && *named ? xstrdup(named) : beside(t, places);
}

/* --- environment --- */

static void env_set(struct tracing *t, const char *name, const char *value, struct buf *left)
{
	const char *was = getenv(name);

	if (!was || !*was) {
		setenv(name, value, 1);
		if (t->n_set < ARRAY_SIZE(t->set))
			t->set[t->n_set++] = name;
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

/* A rank that finds no room keeps off and has no ring to say so in. */
static void say_if_full(const struct tracing *t)
{
	_cleanup_free_ char *above = xstrdup(t->rings);
	char *slash = strrchr(above, '/');
	struct statvfs fs;

	if (statvfs(t->rings, &fs) < 0) {
		if (!slash || slash == above)
			return;
		*slash = '\0';
		if (statvfs(above, &fs) < 0)
			return;
	}
	if (fs.f_blocks && fs.f_bavail < fs.f_blocks / RING_FREE_PARTS)
		complain("%s: %s is on a file system of which less than one part in %u is free: "
			 "ranks keep off it and nothing is recorded; LOCKSTEP_DIR names another "
			 "folder",
			 t->who, t->rings, RING_FREE_PARTS);
}

static int environment(struct tracing *t)
{
	_cleanup_free_ char *library = library_path(t), *site = python_path(t);
	const char *rings = getenv("LOCKSTEP_DIR"), *slash = strrchr(t->out, '/');
	struct buf left = { 0 };

	if (!library) {
		complain("%s: no liblockstep.so beside %s or in its lib", t->who, t->self);
		return -ENOENT;
	}
	t->rings = rings && *rings ? xstrdup(rings) : rings_folder(t->out);
	say_if_full(t);
	env_set(t, "LOCKSTEP_DIR", t->rings, &left);
	env_set(t, "LOCKSTEP_JOB", t->job ? t->job : slash && slash[1] ? slash + 1 : t->out, &left);
	env_set(t, "LOCKSTEP_LIBRARY", library, &left);
	env_set(t, "CUDA_INJECTION64_PATH", library, &left);
	env_set(t, "NVTX_INJECTION64_PATH", library, &left);
	env_set(t, "NCCL_PROFILER_PLUGIN", library, &left);
	if (site)
		env_python(site);
	else
		complain("%s: no Python hooks beside %s: of a job in Python only what it tells "
			 "itself is recorded; LOCKSTEP_PYTHON names their folder",
			 t->who, t->self);
	if (left.len) {
		buf_put(&left, "", 1);
		complain("%s: set already and left as it is: %s", t->who, (char *)left.data);
	}
	buf_done(&left);
	return 0;
}

/* --- the agent --- */

static bool agent_runs(const struct tracing *t)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", t->out, AGENT_LOCK);
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

/* It is nobody's child, so that no wait of CMD's launcher meets it. */
static void agent_exec(const struct tracing *t)
{
	_cleanup_free_ char *log = xasprintf("%s/%s", t->out, TRACING_LOG);
	int null = open("/dev/null", O_RDWR);
	sigset_t none;
	int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(fd < 0 ? null : fd, STDERR_FILENO);
	for (int i = STDERR_FILENO + 1; i < 1024; i++)
		close(i);
	execl(t->self, "lockstep", "agent", "--while-traced", "--rings", t->rings, "--out", t->out,
	      (char *)NULL);
	_exit(125);
}

static void nap(int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&ts, NULL);
}

int tracing_agent_start(const struct tracing *t)
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
bool tracing_finish(struct tracing *t)
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

int tracing_begin(struct tracing *t, const char *who, const char *out)
{
	_cleanup_free_ char *lock = NULL;
	char *slash;

	t->who = who;
	if (mkdir(out, 0777) < 0 && errno != EEXIST) {
		complain("%s: %s: %s", who, out, strerror(errno));
		return -errno;
	}
	t->out = realpath(out, NULL);
	t->self = self_path();
	if (!t->out || !t->self) {
		complain("%s: %s: %s", who, out, strerror(errno));
		return -EIO;
	}
	t->folder = xstrdup(t->self);
	slash = strrchr(t->folder, '/');
	*slash = '\0';
	lock = xasprintf("%s/%s", t->out, AGENT_TRACES);
	t->traces = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	/* An agent that is about to end holds it until it has ended. */
	if (t->traces < 0 || flock(t->traces, LOCK_SH) < 0) {
		complain("%s: %s: %s", who, lock, strerror(errno));
		return -errno;
	}
	return environment(t);
}

void tracing_done(struct tracing *t)
{
	/* What was not set before is not set for the next one. */
	while (t->n_set)
		unsetenv(t->set[--t->n_set]);
	cleanup_close(&t->traces);
	free(t->out);
	free(t->rings);
	free(t->self);
	free(t->folder);
	*t = (struct tracing){ .traces = -EBADF };
}
