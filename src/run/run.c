/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - attempts one after the other, each with its folder, until one ends well or none can. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "run/run_inside.h"

static const int passed[] = {
	SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH
};

/* Signals become bytes of one descriptor; what we were started to ignore stays ignored. */
static int take_signals(struct run *r)
{
	sigemptyset(&r->mask);
	sigaddset(&r->mask, SIGCHLD);
	for (size_t i = 0; i < ARRAY_SIZE(passed); i++) {
		struct sigaction was;

		if (sigaction(passed[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
			sigaddset(&r->mask, passed[i]);
	}
	r->pipe_kills = signal(SIGPIPE, SIG_IGN) != SIG_IGN;
	sigprocmask(SIG_BLOCK, &r->mask, &r->before);
	r->signals = signalfd(-1, &r->mask, SFD_NONBLOCK | SFD_CLOEXEC);
	return r->signals;
}

static struct attempt *begin(struct run *r)
{
	struct attempt *a = vec_push(&r->attempts);

	*a = (struct attempt){ .number = (unsigned)r->attempts.n,
			       .from = { .step = -1 },
			       .saved_before = -1,
			       .saved_after = -1 };
	a->folder = xasprintf("%s/attempt-%u", r->p->folder, a->number);
	if (mkdir(a->folder, 0777) < 0 && errno != EEXIST) {
		run_say(r, "%s: %s", a->folder, strerror(errno));
		a->status = RUN_NO_START;
		return NULL;
	}
	return a;
}

/* What was saved by now, and what the failure cost: the time since then. */
static void count_loss(struct run *r, struct attempt *a, const struct chosen *now)
{
	int64_t since_s = a->started_s;

	a->saved_after = now->path ? now->step : -1;
	if (now->path && now->mtime_ns / 1000000000 > since_s)
		since_s = now->mtime_ns / 1000000000;
	a->lost_hours = (double)MAX(time(NULL) - since_s, 0) / 3600;
	if (r->p->checkpoints)
		a->gained = a->saved_after > a->saved_before ||
			    (now->path && now->mtime_ns > a->from.mtime_ns && a->saved_after < 0);
	else
		a->gained = a->progress.step > r->best_step;
	r->best_step = MAX(r->best_step, a->progress.step);
}

/* Before a launch: the nodes agree, the checkpoint is chosen. */
static enum run_go agree(struct run *r, unsigned round, enum run_go own, struct chosen *from)
{
	_cleanup_free_ char *name = NULL;
	json_t *found;
	enum run_go go;

	run_choose(r, NULL, from, &found);
	if (!r->p->meet) {
		json_decref(found);
		return own;
	}
	go = run_meet(r, round, own, found, &name);
	json_decref(found);
	if (go == RUN_GO_ON && from->path && (!name || strcmp(name, from->name) != 0)) {
		chosen_done(from);
		if (name)
			run_choose(r, name, from, NULL);
	}
	return go;
}

static void launch(struct run *r, struct attempt *a)
{
	char **argv;

	a->saved_before = a->from.path ? a->from.step : -1;
	run_environment(r, a);
	run_resume(r, a, &argv);
	if (r->p->begin)
		r->p->begin(r->p->user, a->folder);
	run_launch(r, a, argv);
	if (a->hung && !a->status)
		a->status = 128 + SIGTERM; /* it took our end for its own */
	if (r->p->end)
		r->p->end(r->p->user);
	argv_done(argv);
}

/* After a failure: why, and whether again. from: where the next one would begin. */
static enum run_go after(struct run *r, struct attempt *a, unsigned round, struct chosen *from)
{
	struct helper notify = { 0 };
	enum run_go own = RUN_DONE;

	*from = (struct chosen){ .step = -1 };
	if (a->status || a->hung) {
		run_classify(r, a);
		run_choose(r, NULL, from, NULL);
		count_loss(r, a, from);
		chosen_done(from);
		run_decide(r, a);
		run_say(r, "attempt %u: %s, status %d: %s", a->number, a->hung ? "hung" : "failed",
			a->status, a->summary);
		own = a->again ? RUN_GO_ON : RUN_STOP;
		if (!a->again)
			run_say(r, "not again: %s", a->why);
		else
			run_say(r, "again in %.0f s: %s", (double)a->delay_ms / 1000, a->why);
		run_notify(r, a, a->again ? "again" : "failed", &notify);
	}
	run_write(r, 0, false);
	while (!helper_look(&notify))
		usleep(20000);
	if (own == RUN_GO_ON && !run_sleep(r, a->delay_ms))
		own = RUN_STOP;
	if (own != RUN_GO_ON && !r->p->meet)
		return own;
	return agree(r, round, own, from);
}

static int attempts(struct run *r)
{
	struct chosen from;
	unsigned round = 0;
	enum run_go go = agree(r, round++, RUN_GO_ON, &from);
	struct attempt *a = NULL;
	int status = RUN_NO_START;

	while (go == RUN_GO_ON && !r->asked) {
		a = begin(r);
		if (!a)
			break;
		a->from = from;
		from = (struct chosen){ .step = -1 };
		launch(r, a);
		status = a->status;
		go = after(r, a, round++, &from);
	}
	chosen_done(&from);
	if (!a && r->asked)
		status = 128 + r->asked;
	return status;
}

static void done(struct run *r)
{
	for (size_t i = 0; i < r->attempts.n; i++) {
		free(r->attempts.v[i].folder);
		chosen_done(&r->attempts.v[i].from);
	}
	free(r->attempts.v);
	if (r->log)
		fclose(r->log);
	if (r->signals >= 0)
		close(r->signals);
	sigprocmask(SIG_SETMASK, &r->before, NULL);
}

int run_job(const struct run_plan *p)
{
	struct run r = { .p = p, .signals = -1, .started_s = time(NULL), .best_step = -1 };
	_cleanup_free_ char *log = xasprintf("%s/lockstep.log", p->folder);
	int status = RUN_NO_START;

	r.log = fopen(log, "ae");
	if (!r.log)
		run_say(&r, "%s cannot be written: %s", log, strerror(errno));
	if (take_signals(&r) < 0) {
		run_say(&r, "no signals can be taken: %s", strerror(errno));
	} else {
		if (!p->checkpoints)
			run_say(&r, "no --checkpoints: a failure costs all that was trained");
		status = attempts(&r);
		run_write(&r, status, true);
		run_summary(&r);
	}
	done(&r);
	return status;
}
