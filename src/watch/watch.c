/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.c - the loop: look, take what came, judge, report, keep, wait.
 *
 * Whatever a source does, the loop goes round: files are read in pieces, commands and endpoints
 * have deadlines, and alerts are steps of the same loop. It judges only when all that was asked
 * has answered or is late, so that a watcher that slept does not call its own sleep a hang.
 */
#include "watch/watch.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "watch/watch_keep.h"
#include "base/clock.h"

#define KEEP_MS		60000
#define STATE_MOST	((size_t)64 << 20)
#define FILES_MOST	256u
#define TICK_MS		50
#define FINISH_MS	20000
#define FINISH_SLICE_MS 250
#define SAY_AGAIN_MS	3600000 /* that alerts fail */
#define LOCK_TRIES	40
#define LATE_MS		1000 /* what does not even die is settled then */

static int wake_fds[2] = { -1, -1 };

static void on_signal(int number)
{
	char c = (char)number;
	int was = errno;

	(void)!write(wake_fds[1], &c, 1);
	errno = was;
}

static int signals_begin(void)
{
	struct sigaction end = { .sa_handler = on_signal };

	if (pipe2(wake_fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	sigaction(SIGTERM, &end, NULL);
	sigaction(SIGINT, &end, NULL);
	sigaction(SIGHUP, &end, NULL);
	signal(SIGPIPE, SIG_IGN);
	return 0;
}

/* Tells systemd, where it asked. */
static void tell_manager(const char *format, ...) PRINTF_LIKE(1, 2);
static void tell_manager(const char *format, ...)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -EBADF;
	char text[1024];
	va_list ap;
	int n;

	if (!path || !*path || strlen(path) >= sizeof(at.sun_path))
		return;
	strcpy(at.sun_path, path);
	if (at.sun_path[0] == '@')
		at.sun_path[0] = '\0';
	va_start(ap, format);
	n = vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && n > 0)
		sendto(fd, text, MIN((size_t)n, sizeof(text) - 1), MSG_NOSIGNAL,
		       (struct sockaddr *)&at,
		       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)));
}

/* --- the state --- */

static char *state_path(const struct watcher *r)
{
	return xasprintf("%s/watch.json", r->o->state);
}

static json_t *flags_json(const bool *flags)
{
	json_t *a = json_array();

	for (unsigned m = 0; m < MATTERS; m++)
		if (flags[m])
			json_array_append_new(a, json_string(watch_matter_key(m)));
	return a;
}

static void flags_from(bool *flags, const json_t *a)
{
	const json_t *v;
	size_t i;

	json_array_foreach(a, i, v) for (unsigned m = 0; m < MATTERS; m++) flags[m] |=
	    json_is_string(v) && !strcmp(json_string_value(v), watch_matter_key(m));
}

static void keep(struct watcher *r, bool sync)
{
	struct watch_clock clock = watch_clock_now();
	_cleanup_free_ char *path = NULL, *text = NULL;
	struct error e = { "" };
	json_t *j;

	if (!r->o->state)
		return;
	j = json_object();
	json_object_set_new(j, "watch", watch_to_json(&r->w, &clock));
	json_object_set_new(j, "cursors", sources_to_json(&r->sources));
	json_object_set_new(j, "raised", flags_json(r->raised));
	json_object_set_new(j, "collected", flags_json(r->collected));
	json_object_set_new(j, "state", json_integer(r->state));
	json_object_set_new(j, "since_ms", json_integer(r->since_ms));
	if (r->folder)
		json_object_set_new(j, "folder",
				    json_stringn_nocheck(r->folder, strlen(r->folder)));
	if (r->diagnosis)
		json_object_set(j, "diagnosis", r->diagnosis);
	text = json_dumps(j, JSON_COMPACT);
	json_decref(j);
	path = state_path(r);
	if (!text || watch_write_file(path, text, strlen(text), sync, &e) < 0)
		r->o->say("watch: the state is not kept: %s", e.text);
	r->saved_ms = r->now_ms;
}

static void restore(struct watcher *r)
{
	_cleanup_free_ char *path = state_path(r);
	struct watch_clock clock = watch_clock_now();
	struct error e = { "" };
	json_error_t where;
	struct stat st;
	const char *folder;
	json_t *j;

	if (stat(path, &st) < 0)
		return;
	j = S_ISREG(st.st_mode) && (size_t)st.st_size <= STATE_MOST
		? json_load_file(path, 0, &where)
		: NULL;
	if (!j || watch_from_json(&r->w, json_object_get(j, "watch"), &clock, &e) < 0) {
		r->o->say("watch: %s: %s; beginning anew", path,
			  j ? e.text : "it is no state of a watcher");
		json_decref(j);
		return;
	}
	sources_from_json(&r->sources, json_object_get(j, "cursors"));
	flags_from(r->raised, json_object_get(j, "raised"));
	flags_from(r->collected, json_object_get(j, "collected"));
	r->state = (enum watch_state)json_integer_value(json_object_get(j, "state"));
	if (r->state >= WATCH_STATES)
		r->state = WATCH_STARTING;
	r->since_ms = json_integer_value(json_object_get(j, "since_ms"));
	folder = json_string_value(json_object_get(j, "folder"));
	r->folder = folder ? xstrdup(folder) : NULL;
	r->diagnosis = json_incref(json_object_get(j, "diagnosis"));
	json_decref(j);
}

static int state_open(struct watcher *r, int *ret_lock, struct error *reterr)
{
	_cleanup_free_ char *lock = NULL;
	int code;

	if (!r->o->state)
		return 0;
	if (mkdir(r->o->state, 0700) < 0 && errno != EEXIST)
		return error_set(reterr, -errno, "--state %s: %s", r->o->state, strerror(errno));
	lock = xasprintf("%s/watch.lock", r->o->state);
	*ret_lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (*ret_lock < 0)
		return error_set(reterr, -errno, "%s: %s", lock, strerror(errno));
	/* the children of one that was killed hold it for a moment */
	for (unsigned i = 0; (code = flock(*ret_lock, LOCK_EX | LOCK_NB)) < 0 && i < LOCK_TRIES;
	     i++)
		poll(NULL, 0, TICK_MS);
	if (code < 0)
		return error_set(reterr, -EBUSY, "--state %s: another watcher uses it",
				 r->o->state);
	restore(r);
	return 0;
}

/* --- the loop --- */

static int64_t now_of(struct watcher *r)
{
	r->now_ms = WATCH_EPOCH_MS + clock_ms();
	r->wall_offset_ms = r->sources.wall_offset_ms = clock_wall_ms() - r->now_ms;
	return r->now_ms;
}

static void judge(struct watcher *r)
{
	struct buf page = { 0 };
	struct error e = { "" };
	bool news;

	watch_judge(&r->w, r->now_ms, &r->now);
	news = watch_report(r);
	if (r->alerts)
		alerts_alive(r->alerts, r->now.state != WATCH_BLIND);
	tell_manager("WATCHDOG=1\nSTATUS=%s", r->now.summary);
	if (news || r->now_ms - r->saved_ms >= KEEP_MS)
		keep(r, news);
	if (!r->o->metrics)
		return;
	watch_metrics(r, &page);
	if (watch_write_file(r->o->metrics, page.data, page.len, false, &e) < 0)
		r->o->say("watch: %s", e.text);
	buf_done(&page);
}

static int status_of(const struct watcher *r)
{
	static const int of_state[WATCH_STATES] = {
		[WATCH_STARTING] = 2, [WATCH_HEALTHY] = 0,   [WATCH_SUSPECT] = 1, [WATCH_HUNG] = 1,
		[WATCH_CRASHED] = 1,  [WATCH_COMPLETED] = 0, [WATCH_BLIND] = 2,
	};
	int status = of_state[r->now.state];

	for (unsigned m = 0; m < MATTERS && !status; m++)
		if (r->now.matters[m].raised && m != MATTER_COMPLETED && m != MATTER_BLIND)
			status = 1;
	/* one look: what it was told to look at and did not see is not well */
	if (r->o->once && !status && r->now.matters[MATTER_BLIND].raised)
		status = 2;
	return status;
}

/* Waits for what was asked, for what is due, or for a signal. True: it is to end. */
static bool wait_a_while(struct watcher *r, int64_t until)
{
	struct pollfd files[FILES_MOST + 3];
	int64_t left = MAX(MIN(until - now_of(r), r->o->interval_ms), 1);
	size_t n = 3;
	char c;

	files[0] = (struct pollfd){ wake_fds[0], POLLIN, 0 };
	files[1] = (struct pollfd){ r->answer.fd, POLLIN, 0 };
	files[2] = (struct pollfd){ r->evidence.child.pid ? r->evidence.out : -1, POLLIN, 0 };
	n += sources_files(&r->sources, files + n, FILES_MOST);
	if (sources_wait(&r->sources))
		left = MIN(left, TICK_MS);
	if (r->evidence.child.pid)
		left = MIN(left, 4 * TICK_MS);
	if (r->sources.web)
		web_step(r->sources.web, (unsigned)left, files, n);
	else
		poll(files, n, (int)left);
	if (files[1].revents)
		answer_one(&r->answer, watch_metrics, r);
	/* a child that closed its output but lives on shall not make us spin */
	if (n > 3 || r->evidence.child.pid)
		poll(NULL, 0, 2);
	return read(wake_fds[0], &c, 1) == 1;
}

/* Is there something whose evidence is being collected? Then it is looked at often. */
static bool reports_soon(const struct watcher *r)
{
	return r->evidence_of != MATTERS;
}

static bool is_over(const struct watcher *r)
{
	bool told = r->now.state == WATCH_COMPLETED ? r->raised[MATTER_COMPLETED]
						    : r->raised[MATTER_CRASHED];

	if (r->evidence_of != MATTERS)
		return false;
	if (r->o->once)
		return true;
	return r->o->until_end && told &&
	       (r->now.state == WATCH_COMPLETED || r->now.state == WATCH_CRASHED);
}

/* At its first failure, and then seldom. */
static void say_failures(struct watcher *r)
{
	struct alert_counts c = alerts_counts(r->alerts);
	uint64_t failed = c.failed + c.heartbeats_failed + c.refused;

	if (failed <= r->failed || (r->failed_ms && r->now_ms - r->failed_ms < SAY_AGAIN_MS))
		return;
	r->o->say("watch: an alert or heartbeat was not delivered%s: %s",
		  c.waiting ? ", and is tried again" : "",
		  c.last_error[0] ? c.last_error : "no answer");
	r->failed = failed;
	r->failed_ms = r->now_ms;
}

/* The job is over and nobody begins us again: what is to be told is told before we go. */
static void alerts_end(struct watcher *r)
{
	int64_t until = now_of(r) + FINISH_MS;
	uint64_t left = is_over(r);
	char c;

	/* A second signal, or one that comes meanwhile, ends that too. */
	while (left && now_of(r) < until) {
		left = alerts_finish(r->alerts, watch_wall(r), FINISH_SLICE_MS);
		say_failures(r);
		if (read(wake_fds[0], &c, 1) == 1)
			break;
	}
	if (left)
		r->o->say("watch: not delivered: %" PRIu64 "; it lies in %s, and goes out when a "
			  "watcher works there again",
			  left, r->o->state);
}

static void run(struct watcher *r)
{
	/* A source that answers late, or never, while others are asked anew, holds up no judgement.
	 */
	const int64_t late_ms = r->o->deadline_ms + LATE_MS;
	const int64_t most_ms = r->o->once ? late_ms : MIN(late_ms, r->o->interval_ms);
	int64_t asked_ms = now_of(r), next_alert = INT64_MAX;
	bool due = false, end = false;

	tell_manager("READY=1");
	if (!r->o->once)
		watch_say_beginning(r);
	while (!end) {
		int64_t now = now_of(r), until;

		if (now >= sources_next(&r->sources) || !r->sources.v.n) {
			sources_look(&r->sources, now);
			if (!due)
				asked_ms = now;
			due = true;
		}
		sources_take(&r->sources, now);
		if (due && (!sources_wait(&r->sources) || now - asked_ms > most_ms)) {
			judge(r);
			due = false;
			end = is_over(r);
		} else if (reports_soon(r)) {
			watch_evidence_look(r);
			if (!r->evidence.child.pid) {
				judge(r);
				end = is_over(r);
			}
		}
		if (r->alerts) {
			alerts_step(r->alerts, watch_wall(r), 0, &next_alert);
			say_failures(r);
		}
		until = sources_next(&r->sources);
		if (r->alerts && next_alert < INT64_MAX)
			until = MIN(until, next_alert - r->wall_offset_ms);
		if (!end)
			end = wait_a_while(r, until);
	}
	keep(r, true);
	tell_manager("STOPPING=1");
	if (r->alerts)
		alerts_end(r);
}

static int alerts_begin(struct watcher *r, struct error *reterr)
{
	_cleanup_free_ char *state = xasprintf("%s/alerts", r->o->state ? r->o->state : ".");
	struct alert_plan plan = {
		.state = state,
		.job = r->job,
		.host = r->host,
		.targets = r->o->targets,
		.n_targets = r->o->n_targets,
		.heartbeat = r->o->heartbeat,
		.heartbeat_ms = (unsigned)r->o->heartbeat_ms,
		.heartbeat_template = r->o->heartbeat_template,
		.heartbeat_ca_file = r->o->ca_file,
		.heartbeat_token_file = r->o->token_file,
		.escalate_ms = (unsigned)r->o->escalate_ms,
	};
	int code;

	if (!r->o->n_targets && !r->o->heartbeat)
		return 0;
	if (!r->o->state)
		return error_set(reterr, -EINVAL, "alerts need a --state DIR to be kept in");
	r->sources.web = plan.web = web_new();
	now_of(r);
	code = alerts_open(&plan, watch_wall(r), &r->alerts, reterr);
	if (code > 0)
		r->o->say("watch: %s", reterr->text);
	/* One of us may have been killed between an alert and its note: what is raised is what was
	   told, else it would never be cleared, or never told when it begins again. */
	for (unsigned m = 0; m < MATTERS && code >= 0; m++)
		r->raised[m] = alert_is_raised(r->alerts, watch_matter_key(m));
	return MIN(code, 0);
}

int watch_run(const struct watch_options *o, struct error *reterr)
{
	struct watcher r = {
		.o = o,
		.evidence_of = MATTERS,
		.evidence = { .out = -1, .err = -1 },
		.answer = { .fd = -1 },
	};
	_cleanup_free_ char *job = xstrdup(o->job ? o->job : "");
	_cleanup_close_ int lock = -EBADF;
	int code;

	watch_clean(job);
	r.job = job;
	if (gethostname(r.host, sizeof(r.host) - 1) < 0)
		strcpy(r.host, "unknown");
	watch_init(&r.w, &o->limits, now_of(&r));
	sources_init(&r.sources, &r.w, o->interval_ms, o->deadline_ms);
	for (size_t i = 0; i < o->n_sources; i++)
		sources_add(&r.sources, o->sources[i].kind, o->sources[i].what);
	if (o->replay) {
		code = watch_replay(&r, reterr);
	} else {
		now_of(&r);
		code = signals_begin();
		if (!code)
			code = state_open(&r, &lock, reterr);
		if (!code && o->listen)
			code = answer_open(&r.answer, o->listen, reterr);
		if (!code && o->listen && r.answer.fd < 0)
			code = error_set(reterr, -EINVAL, "--listen %.60s..: too long for a socket",
					 o->listen);
		if (!code)
			code = alerts_begin(&r, reterr);
		if (!code)
			run(&r);
	}
	if (!code)
		code = status_of(&r);
	if (o->once && code >= 0 && !o->replay && !r.told)
		watch_say_state(&r);
	r.alerts = alerts_close(r.alerts);
	tap_stop(&r.evidence);
	answer_close(&r.answer);
	json_decref(r.diagnosis);
	free(r.folder);
	sources_done(&r.sources);
	watch_done(&r.w);
	return code;
}
