/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert_command.c - starts it and looks at it, without waiting.
 *
 * The body lies in a memfd, so that a command which does not read cannot hold us. Between fork and
 * exec only calls are made that a process with threads (libcurl's, for names) may make there.
 */
#include "job/alert_command.h"
#include "base/clock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GRACE_MS 1000 /* from SIGKILL to "it does not die" */

static bool same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return !strncmp(a, b, n + 1);
}

/* Ours, without what env sets, and env. The strings are not copied. */
static const char **environment(const char *const *env)
{
	VEC(const char *) all = { 0 };

	for (char **e = environ; e && *e; e++) {
		bool set = false;

		for (size_t i = 0; env[i] && !set; i++)
			set = same_name(env[i], *e);
		if (!set)
			*vec_push(&all) = *e;
	}
	for (size_t i = 0; env[i]; i++)
		*vec_push(&all) = env[i];
	*vec_push(&all) = NULL;
	return all.v;
}

static _Noreturn void child(const char *line, int in, int out, const char **env)
{
	char *argv[] = { "sh", "-c", NULL, NULL };
	sigset_t none;

	memcpy(&argv[2], &line, sizeof(line));
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(out, 2) == 2) {
		closefrom(3);
		execve("/bin/sh", argv, (char **)(uintptr_t)env);
	}
	_exit(127);
}

static int body_file(const void *body, size_t len)
{
	_cleanup_close_ int fd = memfd_create("lockstep-alert", MFD_CLOEXEC);
	const char *p = body;

	if (fd < 0)
		return -1;
	while (len) {
		ssize_t n = write(fd, p, len);

		if (n <= 0)
			return -1;
		p += n;
		len -= (size_t)n;
	}
	return lseek(fd, 0, SEEK_SET) < 0 ? -1 : take_fd(&fd);
}

int command_start(struct command *c, const char *line, const void *body, size_t len,
		  const char *const *env, unsigned limit_ms, struct error *reterr)
{
	_cleanup_close_ int in = body_file(body, len), ours = -EBADF, theirs = -EBADF;
	_cleanup_free_ const char **full = environment(env);
	int ends[2];

	*c = (struct command){ .pid = -1, .file = -EBADF, .says = -EBADF };
	if (in < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return error_set(reterr, -errno, "cannot start: %s", strerror(errno));
	ours = ends[0];
	theirs = ends[1];
	fcntl(ours, F_SETFL, O_NONBLOCK);
	c->pid = fork();
	if (c->pid == 0)
		child(line, in, theirs, full);
	if (c->pid < 0)
		return error_set(reterr, -errno, "cannot start: %s", strerror(errno));
	setpgid(c->pid, c->pid); /* both do it: whoever comes first */
	c->file = (int)syscall(SYS_pidfd_open, c->pid, 0);
	c->says = take_fd(&ours);
	c->late_ms = clock_ms() + limit_ms;
	return 0;
}

/* Its first words are kept, the rest is read away. */
static void listen_to(struct command *c)
{
	char block[4096];
	ssize_t n;

	for (int i = 0; i < 64 && c->says >= 0 && (n = read(c->says, block, sizeof(block))) > 0;
	     i++)
		for (ssize_t k = 0; k < n && strlen(c->said) + 1 < sizeof(c->said); k++) {
			size_t at = strlen(c->said);

			if (at || (unsigned char)block[k] > ' ')
				c->said[at] = block[k] > ' ' && block[k] < 0x7f ? block[k] : ' ';
		}
}

static void let_go(struct command *c)
{
	listen_to(c);
	cleanup_close(&c->file);
	cleanup_close(&c->says);
	c->file = c->says = -EBADF;
}

static enum command_state ended(struct command *c, int status, char *why, size_t size)
{
	size_t len;

	let_go(c);
	for (len = strlen(c->said); len && c->said[len - 1] == ' '; len--)
		c->said[len - 1] = '\0';
	if (c->killed)
		return COMMAND_LATE;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return COMMAND_GOOD;
	if (WIFEXITED(status))
		snprintf(why, size, "it ended with %d%s%s", WEXITSTATUS(status),
			 c->said[0] ? ": " : "", c->said);
	else
		snprintf(why, size, "signal %d ended it", WTERMSIG(status));
	return COMMAND_FAILED;
}

enum command_state command_look(struct command *c, char *why, size_t size)
{
	int64_t late = clock_ms() - c->late_ms;
	int status = -1;
	pid_t r;

	why[0] = '\0';
	listen_to(c);
	r = waitpid(c->pid, &status, WNOHANG);
	if (r == c->pid)
		return ended(c, status, why, size);
	if (r < 0 && errno == ECHILD) {
		let_go(c);
		snprintf(why, size, "how it ended is not known");
		return COMMAND_FAILED;
	}
	if (late >= 0 && !c->killed) {
		c->killed = true;
		kill(-c->pid, SIGKILL);
	}
	if (late < GRACE_MS)
		return COMMAND_RUNS;
	let_go(c);
	return COMMAND_STUCK;
}

int64_t command_left_ms(const struct command *c)
{
	return MAX(c->late_ms - clock_ms(), c->killed ? 10 : 0);
}

void command_kill(struct command *c)
{
	kill(-c->pid, SIGKILL);
	for (int i = 0; i < 100 && waitpid(c->pid, NULL, WNOHANG) == 0; i++)
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	let_go(c);
}
