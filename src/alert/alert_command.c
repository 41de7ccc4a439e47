/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert_command.c - starts it and looks at it, without waiting. The body lies in a memfd, so that a
 * command which does not read cannot hold us.
 */
#include "alert/alert_command.h"
#include "base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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
	struct child_plan plan = { .line = line, .in = in, .env = env, .limit_ms = limit_ms };
	int ends[2], r;

	*c = (struct command){ .file = -EBADF, .says = -EBADF };
	if (in < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return error_set(reterr, -errno, "cannot start: %s", strerror(errno));
	ours = ends[0];
	theirs = ends[1];
	fcntl(ours, F_SETFL, O_NONBLOCK);
	plan.out = plan.err = theirs;
	r = child_begin(&c->child, &plan, reterr);
	if (r < 0)
		return r;
	c->file = (int)syscall(SYS_pidfd_open, c->child.pid, 0);
	c->says = take_fd(&ours);
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

	for (len = strlen(c->said); len && c->said[len - 1] == ' '; len--)
		c->said[len - 1] = '\0';
	if (status == -1)
		snprintf(why, size, "how it ended is not known");
	else if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return COMMAND_GOOD;
	else if (WIFEXITED(status))
		snprintf(why, size, "it ended with %d%s%s", WEXITSTATUS(status),
			 c->said[0] ? ": " : "", c->said);
	else
		snprintf(why, size, "signal %d ended it", WTERMSIG(status));
	return COMMAND_FAILED;
}

enum command_state command_look(struct command *c, char *why, size_t size)
{
	enum child_state state;
	int status = -1;

	why[0] = '\0';
	listen_to(c);
	state = child_look(&c->child, &status);
	if (state == CHILD_RUNS)
		return COMMAND_RUNS;
	let_go(c);
	return state == CHILD_ENDED ? ended(c, status, why, size) : COMMAND_LATE;
}

int64_t command_left_ms(const struct command *c)
{
	int64_t left = c->child.began_ms + c->child.limit_ms - clock_ms();

	return MAX(left, c->child.killed ? 10 : 0);
}

void command_kill(struct command *c)
{
	child_drop(&c->child);
	let_go(c);
}
