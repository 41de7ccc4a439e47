/* SPDX-License-Identifier: Apache-2.0 */
/* watch_tap.c - commands beside the loop; see watch_tap.h. */
#include "watch/watch_tap.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int tap_start(struct tap *t, const char *line, int (*fn)(void *user), void *user,
	      struct error *reterr)
{
	int out[2] = { -1, -1 }, err[2] = { -1, -1 }, r;
	struct child_plan plan = { .line = line, .fn = fn, .user = user };

	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0) {
		r = error_set(reterr, -errno, "cannot start a command: %s", strerror(errno));
		goto failed;
	}
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	fcntl(err[0], F_SETFL, O_NONBLOCK);
	plan.out = out[1];
	plan.err = err[1];
	r = child_begin(&t->child, &plan, reterr);
	if (r < 0)
		goto failed;
	close(out[1]);
	close(err[1]);
	t->out = out[0];
	t->err = err[0];
	t->text.len = t->n_why = 0;
	t->why[0] = '\0';
	return 0;
failed:
	for (int i = 0; i < 2; i++) {
		cleanup_close(&out[i]);
		cleanup_close(&err[i]);
	}
	return r;
}

static void drain_out(struct tap *t)
{
	for (;;) {
		char scrap[4096];
		bool full = t->text.len >= TAP_OUTPUT_MOST;
		ssize_t n;

		if (!full)
			buf_widen(&t->text, 65536);
		n = full ? read(t->out, scrap, sizeof(scrap))
			 : read(t->out, t->text.data + t->text.len, 65536);
		if (n <= 0)
			return;
		if (full)
			t->dropped += (uint64_t)n;
		else
			t->text.len += (size_t)n;
		if (full) /* the rest at the next look: it shall not hold us */
			return;
	}
}

static void drain_err(struct tap *t)
{
	for (unsigned i = 0; i < 64; i++) {
		char scrap[1024];
		size_t room = sizeof(t->why) - 1 - t->n_why;
		ssize_t n = read(t->err, scrap, sizeof(scrap));

		if (n <= 0)
			return;
		room = MIN(room, (size_t)n);
		memcpy(t->why + t->n_why, scrap, room);
		t->n_why += room;
		t->why[t->n_why] = '\0';
	}
}

static void closed(struct tap *t)
{
	cleanup_close(&t->out);
	cleanup_close(&t->err);
}

static void say_status(struct tap *t, int status)
{
	char *eol = strpbrk(t->why, "\r\n");

	if (eol)
		*eol = '\0';
	for (char *p = t->why; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
	if (t->why[0])
		return;
	if (WIFSIGNALED(status))
		snprintf(t->why, sizeof(t->why), "ended by signal %d", WTERMSIG(status));
	else
		snprintf(t->why, sizeof(t->why), "exit status %d", WEXITSTATUS(status));
}

enum tap_end tap_look(struct tap *t, int64_t limit_ms)
{
	enum child_state state;
	int status = 0;

	drain_out(t);
	drain_err(t);
	if (!t->child.killed)
		t->child.limit_ms = (unsigned)limit_ms;
	state = child_look(&t->child, &status);
	if (state == CHILD_RUNS)
		return TAP_RUNS;
	drain_out(t);
	drain_err(t);
	closed(t);
	if (state != CHILD_ENDED) {
		snprintf(t->why, sizeof(t->why), "no answer in %.3g s%s", (double)limit_ms / 1000,
			 state == CHILD_STUCK ? ", and it does not even die" : "");
		return TAP_LATE;
	}
	if (status == 0)
		return TAP_GOOD;
	say_status(t, MAX(status, 0));
	return TAP_FAILED;
}

const char *tap_why(const struct tap *t)
{
	return t->why;
}

void tap_stop(struct tap *t)
{
	if (t->child.pid) {
		child_drop(&t->child);
		closed(t);
	}
	buf_done(&t->text);
}
