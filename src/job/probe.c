/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.c - children with deadlines.
 *
 * Each child leads a process group of its own, so that what it started dies with it, and dies too
 * when we do. Its output goes to a file directly: nothing here waits for a pipe.
 */
#include "job/probe.h"
#include "base/clock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROBE_TICK_MS  5
#define PROBE_GRACE_MS 300 /* from SIGKILL to "it does not die" */
#define EXIT_NO_EXEC   127

const char *probe_state_name(enum probe_state s)
{
	static const char *const names[PROBE_STATES] = {
		[PROBE_WAITING] = "waiting",   [PROBE_RUNNING] = "running",
		[PROBE_DONE] = "done",	       [PROBE_EMPTY] = "empty",
		[PROBE_FAILED] = "failed",     [PROBE_ABSENT] = "absent",
		[PROBE_LATE] = "late, killed", [PROBE_ABANDONED] = "hangs, abandoned",
	};

	return s < PROBE_STATES ? names[s] : "unknown";
}

char **probe_argv(const char *first, ...)
{
	VEC(char *) words = { 0 };
	va_list ap;

	va_start(ap, first);
	for (const char *w = first; w; w = va_arg(ap, const char *))
		*vec_push(&words) = xstrdup(w);
	va_end(ap);
	*vec_push(&words) = NULL;
	return words.v;
}

/* --- in the child --- */

static _Noreturn void child(const struct probe *p, int out)
{
	struct rlimit size = { PROBE_OUTPUT_MAX, PROBE_OUTPUT_MAX };
	int in = open("/dev/null", O_RDONLY);
	struct error why = { "" };
	sigset_t none;
	int r;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_FSIZE, &size);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (in < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(p->err, 2) < 0)
		_exit(EXIT_NO_EXEC);
	if (p->argv) {
		signal(SIGABRT, SIG_DFL);
		closefrom(3);
		execvp(p->argv[0], p->argv);
		dprintf(2, "%s", strerror(errno));
		_exit(EXIT_NO_EXEC);
	}
	r = p->run(p->user, 1, &why);
	dprintf(2, "%s", r < 0 && !why.text[0] ? strerror(-r) : why.text);
	_exit(r == -ENOENT || r == -ENODEV ? EXIT_NO_EXEC : r < 0);
}

/* --- in the parent --- */

static void set_why(struct probe *p, const char *text)
{
	size_t n = 0;

	for (; text[n] && text[n] != '\n' && n + 1 < sizeof(p->why); n++)
		p->why[n] = (unsigned char)text[n] < ' ' ? ' ' : text[n];
	p->why[n] = 0;
}

static void start(struct probe *p)
{
	_cleanup_close_ int out = -EBADF;

	p->started_ms = clock_ms();
	p->state = PROBE_FAILED;
	p->err = -EBADF;
	out = open(p->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (out < 0) {
		set_why(p, strerror(errno));
		return;
	}
	p->err = memfd_create("lockstep-probe", MFD_CLOEXEC);
	if (p->err < 0) {
		set_why(p, strerror(errno));
		return;
	}
	fflush(NULL);
	p->pid = fork();
	if (p->pid == 0)
		child(p, out);
	if (p->pid < 0) {
		set_why(p, strerror(errno));
		return;
	}
	setpgid(p->pid, p->pid); /* both do it: whoever comes first */
	p->state = PROBE_RUNNING;
}

/* What it said on stderr: its first line. */
static void read_why(struct probe *p)
{
	char text[sizeof(p->why)];
	ssize_t n = p->err >= 0 ? pread(p->err, text, sizeof(text) - 1, 0) : 0;

	text[n > 0 ? n : 0] = 0;
	set_why(p, text);
}

static void settle(struct probe *p, enum probe_state state)
{
	struct stat st;

	p->took_ms = (unsigned)(clock_ms() - p->started_ms);
	p->bytes = stat(p->file, &st) == 0 ? (uint64_t)st.st_size : 0;
	if (state != PROBE_DONE || !p->bytes)
		read_why(p);
	if (state == PROBE_DONE && !p->bytes)
		state = PROBE_EMPTY;
	if (!p->bytes)
		unlink(p->file);
	if (state == PROBE_LATE || state == PROBE_ABANDONED)
		snprintf(p->why, sizeof(p->why), "no answer in %.1f s", p->limit_ms / 1000.0);
	p->state = state;
	cleanup_close(&p->err);
	p->err = -EBADF;
}

static void ended(struct probe *p, int status)
{
	if (p->killed && !p->stopped)
		settle(p, PROBE_LATE);
	else if (p->stopped || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
		settle(p, PROBE_DONE);
	else if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_EXEC)
		settle(p, PROBE_ABSENT);
	else
		settle(p, PROBE_FAILED);
	if (p->state == PROBE_FAILED && WIFSIGNALED(status) && !p->why[0])
		snprintf(p->why, sizeof(p->why), "ended by signal %d", WTERMSIG(status));
}

/* Looks at a running probe; true: it still runs. */
static bool look(struct probe *p)
{
	int64_t ran = clock_ms() - p->started_ms;
	int status;

	if (waitpid(p->pid, &status, WNOHANG) == p->pid) {
		if (!p->killed)
			kill(-p->pid, SIGKILL); /* what it left behind in its group */
		ended(p, status);
		return false;
	}
	if (p->stop_ms && !p->stopped && ran >= p->stop_ms) {
		p->stopped = true;
		kill(-p->pid, SIGTERM);
	}
	if (!p->killed && ran >= p->limit_ms) {
		p->killed = true;
		p->stopped = false;
		kill(-p->pid, SIGKILL);
	}
	if (ran >= p->limit_ms + PROBE_GRACE_MS) {
		settle(p, PROBE_ABANDONED);
		return false;
	}
	return true;
}

void probes_run(struct probe *probes, size_t n)
{
	size_t next = 0, running;

	do {
		running = 0;
		for (size_t i = 0; i < next; i++)
			running += probes[i].state == PROBE_RUNNING && look(&probes[i]);
		for (; running < PROBE_PARALLEL && next < n; next++) {
			start(&probes[next]);
			if (probes[next].state == PROBE_RUNNING)
				running++;
			else
				settle(&probes[next], PROBE_FAILED);
		}
		if (running)
			nanosleep(&(struct timespec){ 0, PROBE_TICK_MS * 1000000 }, NULL);
	} while (running || next < n);
}

void probe_done(struct probe *p)
{
	free(p->file);
	for (size_t i = 0; p->argv && p->argv[i]; i++)
		free(p->argv[i]);
	free(p->argv);
	*p = (struct probe){ 0 };
}
