/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - children whose output goes to a file directly: nothing here waits for a pipe. */
#include "node/probe.h"
#include "base/clock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROBE_TICK_MS 5

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

static int ask(void *probe)
{
	const struct probe *p = probe;
	struct error why = { "" };
	int r = p->run(p->user, 1, &why);

	dprintf(2, "%s", r < 0 && !why.text[0] ? strerror(-r) : why.text);
	return r == -ENOENT || r == -ENODEV ? CHILD_NO_EXEC : r < 0;
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
	_cleanup_close_ int out =
	    open(p->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct child_plan plan = {
		.argv = p->argv,
		.fn = p->argv ? NULL : ask,
		.user = p,
		.out = out,
		.file_most = PROBE_OUTPUT_MAX,
		.say_no_exec = true,
		.limit_ms = p->limit_ms,
	};
	struct error e;

	p->child.began_ms = clock_ms();
	p->state = PROBE_FAILED;
	p->err = out < 0 ? -EBADF : memfd_create("lockstep-probe", MFD_CLOEXEC);
	if (p->err < 0) {
		set_why(p, strerror(errno));
		return;
	}
	plan.err = p->err;
	if (child_begin(&p->child, &plan, &e) < 0)
		set_why(p, e.text);
	else
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

	p->took_ms = (unsigned)(clock_ms() - p->child.began_ms);
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
	if (p->stopped || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
		settle(p, PROBE_DONE);
	else if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_NO_EXEC)
		settle(p, PROBE_ABSENT);
	else
		settle(p, PROBE_FAILED);
	if (p->state == PROBE_FAILED && WIFSIGNALED(status) && !p->why[0])
		snprintf(p->why, sizeof(p->why), "ended by signal %d", WTERMSIG(status));
}

/* Looks at a running probe; true: it still runs. */
static bool look(struct probe *p)
{
	int status = 0;

	if (p->stop_ms && !p->stopped && clock_ms() - p->child.began_ms >= p->stop_ms) {
		p->stopped = true;
		kill(-p->child.pid, SIGTERM);
	}
	switch (child_look(&p->child, &status)) {
	case CHILD_RUNS:
		return true;
	case CHILD_ENDED:
		ended(p, status);
		break;
	case CHILD_LATE:
		settle(p, PROBE_LATE);
		break;
	case CHILD_STUCK:
		settle(p, PROBE_ABANDONED);
		break;
	}
	return false;
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
