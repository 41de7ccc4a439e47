/* SPDX-License-Identifier: Apache-2.0 */
/* child.c - processes with deadlines; see child.h. */
#include "base/child.h"
#include "base/clock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GRACE_MS  500 /* from SIGKILL to "it does not die" */
#define LEFT_MOST 64u

static pid_t left[LEFT_MOST]; /* left behind, to be reaped; 0: none. Asked by one thread. */

static void leave(pid_t pid)
{
	for (unsigned i = 0; i < LEFT_MOST; i++)
		if (!left[i] || waitpid(left[i], NULL, WNOHANG) != 0) {
			left[i] = pid;
			return;
		}
}

static void reap_left(void)
{
	for (unsigned i = 0; i < LEFT_MOST; i++)
		if (left[i] && waitpid(left[i], NULL, WNOHANG) != 0)
			left[i] = 0;
}

static bool same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return !strncmp(a, b, n + 1);
}

/* Ours, without what env sets, and env. The strings are not copied. */
static char **environment(const char *const *env)
{
	VEC(char *) all = { 0 };

	for (char **e = environ; e && *e; e++) {
		bool set = false;

		for (size_t i = 0; env[i] && !set; i++)
			set = same_name(env[i], *e);
		if (!set)
			*vec_push(&all) = *e;
	}
	for (size_t i = 0; env[i]; i++)
		*vec_push(&all) = (char *)(uintptr_t)env[i];
	*vec_push(&all) = NULL;
	return all.v;
}

static bool become(const struct child_plan *p)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int from[3] = { p->in, p->out, p->err };

	for (int i = 0; i < 3; i++)
		if (null < 0 || dup2(from[i] ? from[i] : null, i) < 0)
			return false;
	return true;
}

static _Noreturn void in_child(const struct child_plan *p, char **env)
{
	char shell[] = "sh", option[] = "-c", *line = (char *)(uintptr_t)p->line;
	char *const of_line[] = { shell, option, line, NULL };
	sigset_t none;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	if (p->file_most)
		setrlimit(RLIMIT_FSIZE, &(struct rlimit){ p->file_most, p->file_most });
	signal(SIGPIPE, SIG_DFL);
	if (!p->fn)
		for (int s = 1; s < NSIG; s++)
			signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (!become(p))
		_exit(CHILD_NO_EXEC);
	if (p->fn)
		_exit(p->fn(p->user));
	closefrom(3);
	if (env)
		environ = env;
	if (p->line)
		execv("/bin/sh", of_line);
	else
		execvp(p->argv[0], p->argv);
	if (p->say_no_exec) {
		const char *why = strerrordesc_np(errno);
		ssize_t n = why ? write(2, why, strlen(why)) : 0;

		(void)n;
	}
	_exit(CHILD_NO_EXEC);
}

int child_begin(struct child *c, const struct child_plan *plan, struct error *reterr)
{
	_cleanup_free_ char **env = plan->env ? environment(plan->env) : NULL;

	reap_left();
	fflush(NULL);
	*c = (struct child){ .began_ms = clock_ms(), .limit_ms = plan->limit_ms };
	c->pid = fork();
	if (c->pid == 0)
		in_child(plan, env);
	if (c->pid < 0) {
		c->pid = 0;
		return error_set(reterr, -errno, "cannot start a command: %s", strerror(errno));
	}
	setpgid(c->pid, c->pid); /* both do it: whoever comes first */
	return 0;
}

void child_kill(struct child *c)
{
	if (!c->pid || c->killed)
		return;
	c->killed = true;
	c->limit_ms = (unsigned)MAX(clock_ms() - c->began_ms, 1);
	kill(-c->pid, SIGKILL);
}

enum child_state child_look(struct child *c, int *ret_status)
{
	int status = -1;
	pid_t r = waitpid(c->pid, &status, WNOHANG);

	if (r == c->pid && !c->killed)
		kill(-c->pid, SIGKILL); /* what it left behind in its group */
	if (r == c->pid || (r < 0 && errno == ECHILD)) {
		*ret_status = r > 0 ? status : -1;
		c->pid = 0;
		return c->killed ? CHILD_LATE : CHILD_ENDED;
	}
	if (!c->limit_ms)
		return CHILD_RUNS;
	if (clock_ms() - c->began_ms >= c->limit_ms)
		child_kill(c);
	if (clock_ms() - c->began_ms < (int64_t)c->limit_ms + GRACE_MS)
		return CHILD_RUNS;
	leave(c->pid);
	c->pid = 0;
	return CHILD_STUCK;
}

void child_drop(struct child *c)
{
	int status;

	child_kill(c);
	for (int i = 0; i < 100 && c->pid; i++)
		if (child_look(c, &status) == CHILD_RUNS)
			nanosleep(&(struct timespec){ 0, 2000000 }, NULL);
	if (c->pid)
		leave(c->pid);
	c->pid = 0;
}
