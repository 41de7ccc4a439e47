/* SPDX-License-Identifier: Apache-2.0 */
/* run_child.c - helpers with deadlines, and the job's own processes as /proc shows them. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run/run_inside.h"

#define TREE_MOST   65536u
#define OUTPUT_MOST ((off_t)64 << 20) /* of a helper: a disk is soon full */

/* --- helpers --- */

static int begin(struct helper *h, const char *what, const struct child_plan *plan)
{
	struct error e;

	*h = (struct helper){ .what = what };
	if (child_begin(&h->child, plan, &e) == 0)
		return 0;
	*h = (struct helper){ .status = RUN_NO_START };
	return -1;
}

int helper_start(struct helper *h, const char *what, char *const *argv, const char *out, bool both,
		 unsigned limit_ms)
{
	struct child_plan plan = { .argv = argv, .limit_ms = limit_ms };

	if (out)
		plan.out = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	plan.err = both ? plan.out : 0;
	if (begin(h, what, &plan) < 0) {
		if (out)
			cleanup_close(&plan.out);
		return -1;
	}
	h->out = MAX(plan.out, 0);
	return 0;
}

int helper_call(struct helper *h, const char *what, int (*fn)(void *user), void *user,
		unsigned limit_ms)
{
	return begin(h, what,
		     &(struct child_plan){
			 .fn = fn, .user = user, .out = 1, .err = 2, .limit_ms = limit_ms });
}

static bool prints_without_end(const struct helper *h)
{
	struct stat st;

	return h->out && fstat(h->out, &st) == 0 && st.st_size > OUTPUT_MOST;
}

static bool is_over(struct helper *h, bool late, int status)
{
	h->late = late;
	h->status = status;
	if (h->out)
		close(h->out);
	h->out = 0;
	return true;
}

bool helper_look(struct helper *h)
{
	int status = 0;

	if (!h->child.pid)
		return true;
	if (prints_without_end(h))
		child_kill(&h->child);
	switch (child_look(&h->child, &status)) {
	case CHILD_RUNS:
		return false;
	case CHILD_ENDED:
		return is_over(h, false,
			       status == -1	     ? RUN_NO_START
			       : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
						     : WEXITSTATUS(status));
	case CHILD_LATE:
	case CHILD_STUCK:
		break;
	}
	return is_over(h, true, 128 + SIGKILL);
}

void helper_stop(struct helper *h)
{
	if (!h->child.pid)
		return;
	child_drop(&h->child);
	is_over(h, true, 128 + SIGKILL);
}

/* --- the tree --- */

struct row {
	pid_t pid, parent;
	uint64_t ticks;
	char state;
	bool ours;
};

/* "pid (name) S ppid pgrp session tty tpgid flags 4 faults utime stime": the name may hold any. */
static bool read_row(const char *pid, struct row *ret)
{
	char path[64], text[1024];
	unsigned long user, kernel;
	const char *p;
	ssize_t n;
	int fd, parent;

	snprintf(path, sizeof(path), "/proc/%.40s/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = 0;
	p = strrchr(text, ')');
	if (!p || sscanf(p + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &ret->state,
			 &parent, &user, &kernel) != 4)
		return false;
	ret->pid = (pid_t)atoi(pid);
	ret->parent = parent;
	ret->ticks = user + kernel;
	return true;
}

/* "rchar: N" and "wchar: N", of files and of sockets that are read and written like files. */
static uint64_t bytes_of(pid_t pid)
{
	char path[64];
	unsigned long long in = 0, out = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "rchar: %llu wchar: %llu", &in, &out) != 2)
		in = out = 0;
	fclose(f);
	return in + out;
}

static int by_pid(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static bool helping(pid_t pid, const struct helper *helpers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (helpers[i].child.pid == pid)
			return true;
	return false;
}

/* Children of ours first, then theirs, until nothing is added. */
static void mark(struct row *rows, size_t n, const struct helper *helpers, size_t n_helpers)
{
	pid_t self = getpid();
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; i < n; i++) {
			struct row key = { .pid = rows[i].parent }, *parent;

			if (rows[i].ours || helping(rows[i].pid, helpers, n_helpers))
				continue;
			parent = bsearch(&key, rows, n, sizeof(key), by_pid);
			if (rows[i].parent == self || (parent && parent->ours))
				rows[i].ours = more = true;
		}
	}
}

/* One of its threads is on a CPU or waits for one, however little it gets. */
static bool runs(pid_t pid)
{
	char path[64];
	bool any = false;
	struct dirent *d;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && !any && (d = readdir(dir))) {
		char name[64];
		struct row row = { 0 };

		snprintf(name, sizeof(name), "%d/task/%.20s", (int)pid, d->d_name);
		any = isdigit((unsigned char)d->d_name[0]) && read_row(name, &row) &&
		      row.state == 'R';
	}
	if (dir)
		closedir(dir);
	return any;
}

void tree_look(struct tree *t, const struct helper *helpers, size_t n)
{
	VEC(struct row) rows = { 0 };
	DIR *dir = opendir("/proc");
	struct dirent *d;

	t->v.n = 0;
	t->ticks = t->bytes = 0;
	t->waiting = t->runnable = false;
	while (dir && rows.n < TREE_MOST && (d = readdir(dir))) {
		struct row row = { 0 };

		if (isdigit((unsigned char)d->d_name[0]) && read_row(d->d_name, &row))
			*vec_push(&rows) = row;
	}
	if (dir)
		closedir(dir);
	if (rows.n)
		qsort(rows.v, rows.n, sizeof(*rows.v), by_pid);
	mark(rows.v, rows.n, helpers, n);
	for (size_t i = 0; i < rows.n; i++) {
		if (!rows.v[i].ours || rows.v[i].state == 'Z')
			continue;
		*vec_push(&t->v) = rows.v[i].pid;
		t->ticks += rows.v[i].ticks;
		t->bytes += bytes_of(rows.v[i].pid);
		t->waiting |= rows.v[i].state == 'D';
		t->runnable = t->runnable || runs(rows.v[i].pid);
	}
	free(rows.v);
}

void tree_signal(const struct tree *t, int number)
{
	for (size_t i = 0; i < t->v.n; i++)
		kill(t->v.v[i], number);
}

void tree_done(struct tree *t)
{
	free(t->v.v);
	*t = (struct tree){ 0 };
}
