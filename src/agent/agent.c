/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent.c - the loop: look for rings, read them, write the steps that ended, answer who asks.
 *
 * Order against a kill at any moment: a new segment is named in the state before its first step is
 * written; a step is in the segment before the state says so. So the next agent finds each step
 * either in a segment, or still in the ring.
 */
#include "agent/agent_inside.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND	     ((int64_t)1000000000)
#define PERIOD_MOST  500 /* ms between readings of rings that fill slowly */
#define PERIOD_LEAST 20
#define FILL_HIGH    0.25 /* of a slot in one period: read more often */
#define FILL_LOW     0.06

static volatile sig_atomic_t stopping;

static void stop(int signal_number)
{
	(void)signal_number;
	stopping = 1;
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * SECOND + ts.tv_nsec;
}

/* --- one ring --- */

static void ring_say(struct agent *a, struct followed *f)
{
	const struct ring_header *h = &f->live->ring->h;

	if (f->said_off)
		return;
	if (h->state == RING_OFF) {
		a->options->say("rank %d (pid %u) tells nothing more: %s", h->rank, h->pid,
				*h->off_text ? h->off_text : "no reason given");
		f->said_off = true;
	}
}

void agent_recording_of(struct agent *a, struct followed *f)
{
	const struct ring_header *h = &f->live->ring->h;

	if (f->recording)
		return;
	for (size_t i = 0; i < a->recordings.n && !f->recording; i++)
		if (recording_is(a->recordings.v[i].r, h->job, h->world_size))
			f->recording = a->recordings.v[i].r;
	if (!f->recording) {
		f->recording = recording_new(a->out, a->options->out, h->job, h->host,
					     h->world_size, &a->options->limits);
		*vec_push(&a->recordings) = (struct agent_recording){ .r = f->recording };
	}
	f->who = recording_join(f->recording, h->rank);
}

static void ring_write(struct agent *a, struct followed *f, int64_t now)
{
	const struct intern *names;
	struct error error = { "" };
	struct rank_info info;
	struct step step;
	uint32_t row;

	while (rank_next(f->live, &step, &names)) {
		const char *before, *after;

		agent_recording_of(a, f);
		metrics_note(f, &step, names);
		before = recording_file(f->recording, f->who, &row);
		fold_stream_head(f->live->fold, &info);
		if (recording_step(f->recording, f->who, &info, names, &step, now, &error) < 0) {
			if (!a->trouble[TROUBLE_WRITE]++)
				a->options->say("%s", error.text);
			continue;
		}
		after = recording_file(f->recording, f->who, &row);
		a->dirty |= before != after;
		f->next_step = (int64_t)step.number;
		f->next_end = step.start_ns + MAX(step.mark_ns, (int64_t)0);
		a->steps++;
	}
}

/* After all that was written is in the files. */
static void rings_flush(struct agent *a)
{
	struct error error = { "" };

	if (a->dirty && state_save(a, &error) < 0)
		a->options->say("%s", error.text);
	a->dirty = false;
	for (size_t i = 0; i < a->recordings.n; i++)
		if (recording_flush(a->recordings.v[i].r, &error) < 0 &&
		    !a->trouble[TROUBLE_WRITE]++)
			a->options->say("%s", error.text);
	for (size_t i = 0; i < a->rings.n; i++) {
		a->rings.v[i].last_step = a->rings.v[i].next_step;
		a->rings.v[i].last_end = a->rings.v[i].next_end;
	}
}

/* The file of a dead process, once nobody reads it any more: each agent holds a lock on what it
   follows, so the last one removes it. */
static void ring_remove(struct agent *a, struct followed *f)
{
	int fd = f->live->ring->fd;
	struct stat st;

	if (flock(fd, LOCK_EX | LOCK_NB) == 0 &&
	    fstatat(a->places.v[f->place].fd, f->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_ino == f->inode && st.st_dev == f->device)
		unlinkat(a->places.v[f->place].fd, f->name, 0);
}

static void ring_forget(struct agent *a, struct followed *f)
{
	if (f->live)
		a->lost_of_gone += rank_lost(f->live);
	if (f->recording)
		recording_leave(f->recording, f->who);
	f->live = rank_free(f->live);
	cleanup_close(&f->pidfd);
	free(f->name);
}

/* By a descriptor of the process where there can be one: then at once, so that who was gone first
   is known. */
static bool process_gone(struct followed *f, bool look)
{
	struct pollfd p = { f->pidfd, POLLIN, 0 };

	if (f->pidfd >= 0 && !look && poll(&p, 1, 0) <= 0)
		return false;
	if (process_state(&f->live->ring->h, &f->pid) == PROCESS_GONE) {
		cleanup_close(&f->pidfd);
		f->pidfd = -1;
		return true;
	}
	if (f->pidfd < 0 && f->pid > 0)
		f->pidfd = (int)syscall(SYS_pidfd_open, f->pid, 0);
	return false;
}

/* false: it is done with. */
static bool ring_poll(struct agent *a, struct followed *f, int64_t now, bool look, bool last)
{
	struct error error = { "" };
	int status;

	if (!f->live)
		return true;
	if (!f->gone && (look || f->pidfd >= 0) && process_gone(f, look)) {
		f->gone = true;
		f->gone_at = now;
	}
	status = rank_poll(f->live, now, f->gone || last, &error);
	if (status == -EBADMSG) {
		a->trouble[TROUBLE_RING]++;
		a->options->say("%s", error.text);
		ring_write(a, f, now);
		if (f->recording)
			recording_leave(f->recording, f->who);
		f->recording = NULL;
		f->live = rank_free(f->live);
		return true; /* remembered as one that is left alone */
	}
	if (status < 0)
		a->options->say("%s", *error.text ? error.text : strerror(-status));
	ring_say(a, f);
	ring_write(a, f, now);
	return !f->gone;
}

/* --- the loop --- */

/* Does a `lockstep trace` use the folder? If not, the lock is kept until we have ended, so that one
   that comes now waits and then begins an agent of its own. */
static bool traced(struct agent *a)
{
	if (a->traces < 0)
		a->traces =
		    openat(a->out, AGENT_TRACES, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return a->traces < 0 || flock(a->traces, LOCK_EX | LOCK_NB) < 0;
}

static double pass(struct agent *a, int64_t now, bool look, bool last)
{
	double fill = 0;
	size_t n = 0;

	for (size_t i = 0; i < a->rings.n; i++) {
		struct followed *f = &a->rings.v[i];

		f->done = !ring_poll(a, f, now, look, last);
		if (f->live)
			fill = MAX(fill, f->live->fill);
	}
	standings_look(a, now, last);
	rings_flush(a);
	for (size_t i = 0; i < a->rings.n; i++) {
		struct followed *f = &a->rings.v[i];

		if (f->done && f->told) {
			ring_remove(a, f);
			ring_forget(a, f);
		} else {
			a->rings.v[n++] = *f;
		}
	}
	a->rings.n = n;
	return fill;
}

static void save_if_due(struct agent *a, int64_t now)
{
	struct error error = { "" };

	if (now - a->saved < SECOND)
		return;
	a->saved = now;
	if (state_save(a, &error) < 0)
		a->options->say("%s", error.text);
}

static void loop(struct agent *a)
{
	int period = PERIOD_MOST / 2;

	while (!stopping) {
		int64_t now = now_ns();
		bool look = now - a->scanned >= SECOND || now < a->scanned;
		double fill;

		agent_scan(a, look);
		if (look)
			a->scanned = now;
		fill = pass(a, now, look, a->options->once);
		save_if_due(a, now);
		if (a->options->once)
			return;
		if (a->options->while_traced && look && !a->rings.n && !traced(a))
			break;
		if (fill > FILL_HIGH)
			period = MAX(period / 2, PERIOD_LEAST);
		else if (fill < FILL_LOW)
			period = MIN(period + period / 4, PERIOD_MOST);
		serve_wait(a, period);
	}
	agent_scan(a, true);
	pass(a, now_ns(), true, true);
}

static int out_open(struct agent *a, struct error *reterr)
{
	const char *path = a->options->out;

	if (mkdir(path, 0777) < 0 && errno != EEXIST)
		return error_set(reterr, -errno, "%s: %s", path, strerror(errno));
	a->out = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (a->out < 0)
		return error_set(reterr, -errno, "%s: %s", path, strerror(errno));
	a->lock = openat(a->out, AGENT_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (a->lock < 0)
		return error_set(reterr, -errno, "%s/%s: %s", path, AGENT_LOCK, strerror(errno));
	if (flock(a->lock, LOCK_EX | LOCK_NB) < 0)
		return error_set(reterr, -EBUSY,
				 "%s: another agent writes there; give each its own --out", path);
	return 0;
}

static void agent_done(struct agent *a)
{
	serve_close(a);
	for (size_t i = 0; i < a->rings.n; i++)
		ring_forget(a, &a->rings.v[i]);
	for (size_t i = 0; i < a->recordings.n; i++)
		recording_free(a->recordings.v[i].r);
	for (size_t i = 0; i < a->places.n; i++) {
		cleanup_close(&a->places.v[i].fd);
		free(a->places.v[i].path);
	}
	for (size_t i = 0; i < a->remembered.n; i++) {
		free(a->remembered.v[i].name);
		free(a->remembered.v[i].segment);
	}
	free(a->remembered.v);
	free(a->rings.v);
	free(a->recordings.v);
	free(a->places.v);
	fold_scratch_free(a->scratch);
	cleanup_close(&a->lock);
	cleanup_close(&a->traces);
	cleanup_close(&a->out);
}

int agent_run(const struct agent_options *options, struct error *reterr)
{
	struct agent a = {
		.options = options,
		.out = -EBADF,
		.lock = -EBADF,
		.traces = -EBADF,
		.answer = { .fd = -EBADF },
	};
	struct sigaction on_stop = { .sa_handler = stop };
	int status;

	/* What a large step needed goes back to the system, however the allocator has learned. */
	mallopt(M_MMAP_THRESHOLD, 2 << 20);
	mallopt(M_TRIM_THRESHOLD, 16 << 20);
	stopping = 0;
	sigaction(SIGTERM, &on_stop, NULL);
	sigaction(SIGINT, &on_stop, NULL);
	sigaction(SIGHUP, &on_stop, NULL);
	signal(SIGPIPE, SIG_IGN);
	a.started = now_ns();
	a.scratch = fold_scratch_new();
	status = out_open(&a, reterr);
	if (status >= 0 && !options->once)
		status = serve_open(&a, reterr);
	if (status >= 0) {
		state_load(&a);
		loop(&a);
		status = state_save(&a, reterr);
	}
	agent_done(&a);
	return status;
}
