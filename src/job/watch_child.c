/* SPDX-License-Identifier: Apache-2.0 */
/* watch_child.c - commands beside the loop; see watch_child.h. */
#include "job/watch_child.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_MS 500 /* from SIGKILL to "it does not die" */

static _Noreturn void in_child(const char *command, int (*fn)(void *user), void *user, int out,
			       int err)
{
	int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGABRT, SIG_DFL);
	if (in < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
		_exit(127);
	if (fn)
		_exit(fn(user));
	closefrom(3);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

int child_start(struct child *c, const char *command, int (*fn)(void *user), void *user,
		int64_t now_ms, struct error *reterr)
{
	int out[2] = { -1, -1 }, err[2] = { -1, -1 }, r;

	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0) {
		r = -errno;
		goto failed;
	}
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	fcntl(err[0], F_SETFL, O_NONBLOCK);
	fflush(NULL);
	c->pid = fork();
	r = -errno;
	if (c->pid == 0)
		in_child(command, fn, user, out[1], err[1]);
	if (c->pid < 0)
		goto failed;
	setpgid(c->pid, c->pid); /* both do it: whoever comes first */
	close(out[1]);
	close(err[1]);
	c->out = out[0];
	c->err = err[0];
	c->started_ms = now_ms;
	c->text.len = c->n_why = 0;
	c->why[0] = '\0';
	c->killed = false;
	return 0;
failed:
	c->pid = 0;
	for (int i = 0; i < 2; i++) {
		cleanup_close(&out[i]);
		cleanup_close(&err[i]);
	}
	return error_set(reterr, r, "cannot start a command: %s", strerror(-r));
}

static void drain_out(struct child *c)
{
	for (;;) {
		char scrap[4096];
		bool full = c->text.len >= CHILD_OUTPUT_MOST;
		ssize_t n;

		if (!full)
			buf_widen(&c->text, 65536);
		n = full ? read(c->out, scrap, sizeof(scrap))
			 : read(c->out, c->text.data + c->text.len, 65536);
		if (n <= 0)
			return;
		if (full)
			c->dropped += (uint64_t)n;
		else
			c->text.len += (size_t)n;
		if (full) /* the rest at the next look: it shall not hold us */
			return;
	}
}

static void drain_err(struct child *c)
{
	for (unsigned i = 0; i < 64; i++) {
		char scrap[1024];
		size_t room = sizeof(c->why) - 1 - c->n_why;
		ssize_t n = read(c->err, scrap, sizeof(scrap));

		if (n <= 0)
			return;
		room = MIN(room, (size_t)n);
		memcpy(c->why + c->n_why, scrap, room);
		c->n_why += room;
		c->why[c->n_why] = '\0';
	}
}

static void closed(struct child *c)
{
	cleanup_close(&c->out);
	cleanup_close(&c->err);
	c->pid = 0;
}

static void say_status(struct child *c, int status)
{
	char *eol = strpbrk(c->why, "\r\n");

	if (eol)
		*eol = '\0';
	for (char *p = c->why; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
	if (c->why[0])
		return;
	if (WIFSIGNALED(status))
		snprintf(c->why, sizeof(c->why), "ended by signal %d", WTERMSIG(status));
	else
		snprintf(c->why, sizeof(c->why), "exit status %d", WEXITSTATUS(status));
}

enum child_end child_look(struct child *c, int64_t now_ms, int64_t deadline_ms)
{
	int64_t ran = now_ms - c->started_ms;
	int status;
	pid_t r;

	drain_out(c);
	drain_err(c);
	r = waitpid(c->pid, &status, WNOHANG);
	if (r == c->pid || (r < 0 && errno == ECHILD)) {
		if (!c->killed)
			kill(-c->pid, SIGKILL); /* what it left behind in its group */
		drain_out(c);
		drain_err(c);
		closed(c);
		if (c->killed) {
			snprintf(c->why, sizeof(c->why), "no answer in %.3g s",
				 (double)deadline_ms / 1000);
			return CHILD_LATE;
		}
		if (r > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
			return CHILD_GOOD;
		say_status(c, r > 0 ? status : 0);
		return CHILD_FAILED;
	}
	if (!deadline_ms)
		return CHILD_RUNS;
	if (ran >= deadline_ms && !c->killed) {
		c->killed = true;
		kill(-c->pid, SIGKILL);
	}
	if (ran < deadline_ms + GRACE_MS)
		return CHILD_RUNS;
	closed(c);
	snprintf(c->why, sizeof(c->why), "no answer in %.3g s, and it does not even die",
		 (double)deadline_ms / 1000);
	return CHILD_LATE;
}

const char *child_why(const struct child *c)
{
	return c->why;
}

void child_stop(struct child *c)
{
	if (c->pid > 0) {
		kill(-c->pid, SIGKILL);
		waitpid(c->pid, NULL, WNOHANG);
		closed(c);
	}
	buf_done(&c->text);
}
