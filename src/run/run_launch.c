/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_launch.c - one attempt: CMD from its start to the end of its last process.
 *
 * One loop serves its output, signals, the look-out for hangs and the end. On a terminal CMD stays
 * in our process group, so that the keys and job control work as without us; else it leads its own,
 * which gets what we are sent. We are the reaper of all that descend from it: whatever session they
 * are in, the tree is known and can be ended whole.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "run/run_inside.h"

#define TICK_MS		 250
#define FLUSH_MS	 1000
#define DRAIN_MS	 10000 /* from CMD's end: who still writes then is not listened to */
#define QUIET_MS	 200
#define KILL_MS		 10000 /* from KILL to "it does not die" */
#define UNSAVED_LIMIT_MS 60000u

static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

struct launch {
	struct run *r;
	struct attempt *a;
	struct tee tee;
	struct hang hang;
	struct helper saves; /* looks at what was saved */
	int64_t saves_ms;
	pid_t cmd; /* 0: ended */
	bool group;
	int64_t came_ms, ended_ms;
	int64_t term_ms, kill_ms; /* when it was done; 0 */
	int64_t asked_ms;	  /* when we were asked to end by TERM, and passed it on; 0 */
	bool told_log;
};

/* --- signals --- */

static void pass_on(pid_t pid, bool group, const struct signalfd_siginfo *s)
{
	int number = (int)s->ssi_signo;
	bool keys = s->ssi_code == SI_KERNEL && (number == SIGINT || number == SIGQUIT);

	/* What the terminal sends it sends to CMD as well, if that is in our group. */
	if (pid > 0 && (group || !keys))
		kill(group ? -pid : pid, number);
}

void run_signals(struct run *r, pid_t pid, bool group, const struct tee *t)
{
	struct signalfd_siginfo s;

	while (read(r->signals, &s, sizeof(s)) == (ssize_t)sizeof(s)) {
		if (s.ssi_signo == SIGCHLD)
			continue;
		if (s.ssi_signo == SIGWINCH && t)
			tee_resize(t);
		for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
			if ((int)s.ssi_signo == ends[i])
				r->asked = ends[i];
		pass_on(pid, group, &s);
	}
}

void run_wait(struct run *r, struct helper *h)
{
	while (!helper_look(h)) {
		struct pollfd p = { r->signals, POLLIN, 0 };

		poll(&p, 1, 20);
		run_signals(r, 0, false, NULL);
		if (r->asked)
			helper_stop(h);
	}
}

bool run_sleep(struct run *r, int64_t ms)
{
	int64_t until = clock_ms() + ms;

	for (int64_t left = ms; left > 0 && !r->asked; left = until - clock_ms()) {
		struct pollfd p = { r->signals, POLLIN, 0 };

		poll(&p, 1, (int)MIN(left, 1000));
		run_signals(r, 0, false, NULL);
	}
	return !r->asked;
}

/* --- the start --- */

static void child(struct launch *l, char **argv, int report)
{
	int e;

	if (l->group)
		setpgid(0, 0);
	tee_child(&l->tee);
	signal(SIGABRT, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	if (l->r->pipe_kills)
		signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, &l->r->before, NULL);
	execvp(argv[0], argv);
	e = errno;
	(void)!write(report, &e, sizeof(e));
	_exit(e == ENOENT || e == ENOTDIR ? RUN_NOT_FOUND : RUN_NO_EXEC);
}

static int start(struct launch *l, char **argv)
{
	struct attempt *a = l->a;
	int report[2], e = 0;
	_cleanup_free_ char *log = run_path(a, "output.log");
	struct error error = { "" };

	if (tee_open(&l->tee, log, &error) < 0 || pipe2(report, O_CLOEXEC) < 0) {
		run_say(l->r, "%s", *error.text ? error.text : strerror(errno));
		a->status = RUN_NO_START;
		return -1;
	}
	l->group = !isatty(0) && !isatty(1) && !isatty(2);
	l->cmd = fork();
	if (!l->cmd)
		child(l, argv, report[1]);
	if (l->cmd > 0 && l->group)
		setpgid(l->cmd, l->cmd);
	close(report[1]);
	tee_parent(&l->tee);
	if (l->cmd < 0 || read(report[0], &e, sizeof(e)) == (ssize_t)sizeof(e)) {
		a->error = l->cmd < 0 ? errno : e;
		a->status = l->cmd < 0 ? RUN_NO_START : RUN_NO_EXEC;
		run_say(l->r, "%s: %s", argv[0], strerror(a->error));
	}
	close(report[0]);
	return l->cmd < 0 ? -1 : 0;
}

/* --- the end --- */

static void reap(struct launch *l)
{
	int status;
	pid_t pid;

	if (l->cmd && waitpid(l->cmd, &status, WNOHANG) == l->cmd) {
		l->a->by_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
		l->a->status = l->a->by_signal ? 128 + l->a->by_signal : WEXITSTATUS(status);
		l->cmd = 0;
		l->ended_ms = clock_ms();
	}
	/* Orphans that were given to us; helpers are waited for by name. */
	for (;;) {
		siginfo_t info = { 0 };

		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || !info.si_pid)
			return;
		pid = info.si_pid;
		if (pid == l->cmd || pid == l->hang.helper.child.pid ||
		    pid == l->hang.notify.child.pid || pid == l->saves.child.pid)
			return;
		waitpid(pid, NULL, WNOHANG);
	}
}

static void look_at_tree(struct launch *l, struct tree *t)
{
	const struct helper helpers[] = { l->hang.helper, l->hang.notify, l->saves };

	tree_look(t, helpers, ARRAY_SIZE(helpers));
}

/* TERM, a while, KILL; true when nothing is left, or nothing more can be done. */
static bool end_tree(struct launch *l, int64_t now_ms)
{
	struct tree t = { 0 };
	bool over;

	look_at_tree(l, &t);
	over = !t.v.n;
	if (!over && !l->term_ms) {
		tree_signal(&t, SIGTERM);
		tree_signal(&t, SIGCONT);
		l->term_ms = now_ms;
	} else if (!over && (l->kill_ms || now_ms - l->term_ms >= l->r->p->grace_ms)) {
		tree_signal(&t, SIGKILL);
		if (!l->kill_ms)
			l->kill_ms = now_ms;
		if (now_ms - l->kill_ms > KILL_MS) {
			l->a->left = (unsigned)t.v.n;
			run_say(l->r, "%u processes do not die of KILL (first %d): they are left",
				l->a->left, (int)t.v.v[0]);
			over = true;
		}
	}
	tree_done(&t);
	return over;
}

/* --- saves --- */

static int newest_save(void *user)
{
	const struct launch *l = user;
	_cleanup_free_ char *path = run_beside(l->a, "newest-save");
	struct checkpoints c = { 0 };
	struct error e;
	int64_t newest = 0;
	FILE *f;

	if (checkpoints_find(l->r->p->checkpoints, &c, &e) < 0)
		return 1;
	for (size_t i = 0; i < c.v.n; i++)
		newest = MAX(newest, c.v.v[i].mtime_ns);
	f = fopen(path, "we");
	if (f) {
		fprintf(f, "%" PRId64 "\n", newest);
		fclose(f);
	}
	return 0;
}

static void warn_unsaved(struct launch *l, double hours)
{
	int64_t gpus = l->r->p->gpus;

	if (gpus > 0)
		run_say(l->r,
			"nothing was saved for %.1f h: %.0f GPU hours of this node are at risk",
			hours, hours * (double)gpus);
	else
		run_say(l->r, "nothing was saved for %.1f h, which a failure now would cost",
			hours);
}

/* Warns when nothing was saved for long, each time after twice as long. */
static void look_at_saves(struct launch *l, int64_t now_ms)
{
	int64_t unsaved = l->r->p->unsaved_ms, newest_s = l->a->started_s, ns;
	_cleanup_free_ char *path = NULL;
	FILE *f;

	if (!unsaved)
		return;
	if (!l->saves_ms)
		l->saves_ms = now_ms + unsaved;
	if (l->saves.what && helper_look(&l->saves)) {
		path = run_beside(l->a, "newest-save");
		f = fopen(path, "re");
		if (f && fscanf(f, "%" SCNd64, &ns) == 1)
			newest_s = MAX(newest_s, ns / 1000000000);
		if (f)
			fclose(f);
		unlink(path);
		l->saves.what = NULL;
		if ((time(NULL) - newest_s) * 1000 >= unsaved)
			warn_unsaved(l, (double)(time(NULL) - newest_s) / 3600);
	}
	if (l->saves.what || now_ms < l->saves_ms)
		return;
	l->saves_ms = now_ms + MAX(unsaved, (now_ms - l->a->started_ms));
	if (l->r->p->checkpoints)
		helper_call(&l->saves, "look at saves", newest_save, l, UNSAVED_LIMIT_MS);
	else
		warn_unsaved(l, (double)(now_ms - l->a->started_ms) / 3600e3);
}

/* --- the loop --- */

static void serve(struct launch *l, int timeout_ms)
{
	struct pollfd p[3] = { { l->r->signals, POLLIN, 0 } };
	struct stream *of[3] = { NULL };
	nfds_t n = 1;
	bool came = false;

	for (unsigned i = 0; i < l->tee.n; i++) {
		struct stream *s = &l->tee.streams[i];

		if (s->ended && !s->held_n)
			continue;
		p[n] = s->held_n ? (struct pollfd){ s->to, POLLOUT, 0 }
				 : (struct pollfd){ s->from, POLLIN, 0 };
		of[n++] = s;
	}
	if (poll(p, n, timeout_ms) < 0)
		return;
	for (nfds_t i = 1; i < n; i++) {
		if (!p[i].revents)
			continue;
		if (!of[i]->held_n)
			came |= tee_read(&l->tee, of[i], &l->a->progress);
		tee_write(of[i]);
	}
	if (p[0].revents)
		run_signals(l->r, l->cmd, l->group, &l->tee);
	if (came)
		l->came_ms = clock_ms();
	else if (l->came_ms && clock_ms() - l->came_ms > FLUSH_MS) {
		tee_flush(&l->tee);
		l->came_ms = 0;
	}
}

/* Nothing of the output is lost; what somebody else still holds open is not waited for. */
static bool drained(const struct launch *l, int64_t now_ms)
{
	for (unsigned i = 0; i < l->tee.n; i++) {
		const struct stream *s = &l->tee.streams[i];
		struct pollfd p = { s->from, POLLIN, 0 };

		if (s->held_n)
			return false;
		if (s->ended || now_ms - l->ended_ms > DRAIN_MS)
			continue;
		if (now_ms - l->ended_ms < QUIET_MS || poll(&p, 1, 0) > 0)
			return false;
	}
	return true;
}

static void say_log(struct launch *l)
{
	if (!l->tee.trouble || l->told_log)
		return;
	run_say(l->r, "%s/output.log is not whole: %s; the job goes on", l->a->folder,
		strerror(l->tee.trouble));
	l->told_log = true;
}

/* TERM came from outside and went on to CMD: after the grace what is left gets KILL. */
static void look_at_asked(struct launch *l, int64_t now_ms)
{
	int64_t grace_ms = l->r->p->grace_ms;

	if (l->r->asked != SIGTERM)
		return;
	if (!l->asked_ms) {
		l->asked_ms = now_ms;
		run_say(l->r, "TERM passed on; KILL in %" PRId64 " s (--grace) if it still runs",
			grace_ms / 1000);
	} else if (now_ms - l->asked_ms >= grace_ms) {
		run_say(l->r, "it still runs %" PRId64 " s after TERM: KILL", grace_ms / 1000);
		l->term_ms = l->asked_ms;
		l->a->killed = true;
	}
}

static void loop(struct launch *l)
{
	int64_t looked_ms = 0;
	bool over = false;

	while (!over) {
		int64_t now_ms;

		serve(l, l->cmd && !l->a->killed ? TICK_MS : 20);
		reap(l);
		now_ms = clock_ms();
		say_log(l);
		if (l->cmd && !l->a->killed) {
			if (now_ms - looked_ms < TICK_MS)
				continue;
			looked_ms = now_ms;
			look_at_asked(l, now_ms);
			look_at_saves(l, now_ms);
			if (hang_look(l->r, l->a, &l->hang, now_ms) && !l->r->asked) {
				l->a->killed = l->a->hung = true;
				run_say(l->r, "ending it: TERM, and KILL after %" PRId64 " s",
					l->r->p->grace_ms / 1000);
			}
			continue;
		}
		/* After success what CMD left running is its own business. */
		over = l->a->killed || l->a->status ? end_tree(l, now_ms) && !l->cmd : true;
		over = over && drained(l, now_ms);
	}
}

void run_launch(struct run *r, struct attempt *a, char **argv)
{
	struct launch l = { .r = r, .a = a };

	progress_init(&a->progress);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	a->started_s = time(NULL);
	a->started_ms = a->progress.at_ms = clock_ms();
	if (start(&l, argv) == 0)
		loop(&l);
	a->ended_ms = clock_ms();
	a->asked = r->asked;
	hang_done(&l.hang);
	helper_stop(&l.saves);
	tee_flush(&l.tee);
	say_log(&l);
	tee_close(&l.tee);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}
