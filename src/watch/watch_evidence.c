/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_evidence.c - what is kept of a job that hangs or has crashed, and what diagnose says of it.
 *
 * A child does all of it, within a time that the loop knows; the loop goes on. The folder holds the
 * ends of the logs, the last readings of the GPUs, the dumps, and what the collecting command gave;
 * beside it lies what `lockstep diagnose --json` said.
 */
#include "watch/watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/probe.h"
#include "watch/watch_keep.h"

#define TAIL_BYTES     ((off_t)4 << 20)
#define DUMPS_MOST     4096u
#define DUMPS_FRESH_S  10
#define DUMPS_WAIT_MS  2000
#define DUMPS_BYTES    ((int64_t)512 << 20)
#define DIAGNOSIS_MOST ((size_t)64 << 20)
#define COPY_SHARE     4 /* of the time, for copying */
#define DIAGNOSE_SHARE 2 /* of what is left, for the command; the rest is diagnose's */
#define COPY_TICK_MS   5

/* --- in the child --- */

static int64_t copy_file(const char *from, int dir, const char *name, bool tail)
{
	_cleanup_close_ int in = open(from, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	_cleanup_close_ int out = -EBADF;
	_cleanup_free_ char *buf = NULL;
	int64_t copied = 0;
	struct stat st;
	ssize_t n;

	if (in < 0 || fstat(in, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	out = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (out < 0)
		return 0;
	buf = xmalloc(1 << 20);
	if (tail && st.st_size > TAIL_BYTES) {
		const char *eol;

		n = pread(in, buf, 65536, st.st_size - TAIL_BYTES);
		eol = n > 0 ? memchr(buf, '\n', (size_t)n) : NULL;
		lseek(in, st.st_size - TAIL_BYTES + (eol ? eol - buf + 1 : 0), SEEK_SET);
	}
	while (copied < DUMPS_BYTES && (n = read(in, buf, 1 << 20)) > 0) {
		if (write(out, buf, (size_t)n) != n)
			break;
		copied += n;
	}
	return copied;
}

static int open_folder(const char *path)
{
	mkdir(path, 0700);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* logs/2/attempt_0/3/stdout.log: the last parts of a path may tell whose it is. */
static void copy_log(const struct watcher *r, const char *path, unsigned number)
{
	_cleanup_free_ char *to = xasprintf("%s/logs/%u", r->folder, number);
	_cleanup_close_ int dir = -EBADF;
	const char *base = strrchr(path, '/'), *from = base;
	char part[256];

	cleanup_close(&dir);
	dir = open_folder(to);
	for (unsigned i = 0; i < 1 && from && from > path; i++) {
		while (from > path && from[-1] != '/')
			from--;
		snprintf(part, sizeof(part), "%.*s", (int)MIN(base - from, 255), from);
		if (base > from && strcmp(part, "..") && strcmp(part, ".") && dir >= 0 &&
		    mkdirat(dir, part, 0700) == 0) {
			int inner = openat(dir, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

			cleanup_close(&dir);
			dir = inner;
		}
	}
	if (dir >= 0)
		copy_file(path, dir, base ? base + 1 : path, true);
}

/* Logs of one lane; NULL: what commands gave. Each has its number, whoever copies it. */
static void copy_logs(const struct watcher *r, const struct lane *lane)
{
	unsigned number = 0;

	for (size_t i = 0; i < r->sources.v.n; i++) {
		const struct source *v = &r->sources.v.v[i];
		bool mine = lane && v->kind == SOURCE_LOG && lane_has(lane, v);

		for (size_t k = 0; k < v->files.n; k++, number++)
			if (mine)
				copy_log(r, v->files.v[k].f.path, number);
		number += v->tail.len > 0;
		if (v->tail.len && !lane) {
			_cleanup_free_ char *to =
			    xasprintf("%s/logs/command%u.log", r->folder, number - 1);

			watch_write_file(to, v->tail.data, v->tail.len, false, NULL);
		}
	}
}

/* Ranks dump at about one moment: those that are late have one too. */
static void wait_for_dumps(const char *folder)
{
	struct stat st;

	if (stat(folder, &st) == 0 && time(NULL) - st.st_mtim.tv_sec < DUMPS_FRESH_S)
		poll(NULL, 0, DUMPS_WAIT_MS);
}

static void copy_dumps(const struct watcher *r, const char *from)
{
	_cleanup_free_ char *to = xasprintf("%s/dumps", r->folder);
	int dir = open_folder(to);
	DIR *d = opendir(from);
	const struct dirent *e;
	int64_t bytes = 0;

	for (unsigned n = 0;
	     d && dir >= 0 && n < DUMPS_MOST && bytes < DUMPS_BYTES && (e = readdir(d)); n++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", from, e->d_name);

		if (e->d_name[0] != '.')
			bytes += copy_file(path, dir, e->d_name, false);
	}
	if (d)
		closedir(d);
	cleanup_close(&dir);
}

static void put_number(FILE *f, double v, const char *unit)
{
	if (isfinite(v))
		fprintf(f, ", %.6g %s", v, unit);
	else
		fputs(", [N/A]", f);
}

static void put_gpu(const struct watcher *r, FILE *f, const struct watch_gpu *g)
{
	for (uint32_t i = 0; i < g->n_last; i++) {
		const struct watch_sample *s = &g->last[i];
		int64_t wall = s->at_ms + r->wall_offset_ms;
		time_t t = (time_t)(wall / 1000);
		struct tm tm;
		char text[32];

		gmtime_r(&t, &tm);
		strftime(text, sizeof(text), "%Y/%m/%d %H:%M:%S", &tm);
		fprintf(f, "%s.%03d, %" PRId64, text, (int)(wall % 1000), g->index);
		put_number(f, (double)s->power_w, "W");
		put_number(f, (double)s->limit_w, "W");
		put_number(f, (double)s->utilization * 100, "%");
		put_number(f, (double)s->sm_clock_mhz, "MHz");
		fputc('\n', f);
	}
}

/* One file a host, as nvidia-smi writes it. */
static void write_gpus(const struct watcher *r)
{
	_cleanup_free_ char *gpus = xasprintf("%s/gpus", r->folder);

	mkdir(gpus, 0700);
	for (size_t i = 0; i < r->w.gpus.n; i++) {
		const struct watch_gpu *g = &r->w.gpus.v[i];
		_cleanup_free_ char *path = NULL;
		char host[80];
		FILE *f;
		bool fresh;

		snprintf(host, sizeof(host), g->host[0] ? "%.70s" : "source%.0s%u", g->host,
			 g->source);
		for (char *p = host; *p; p++)
			if (*p == '/' || *p == ' ' || (unsigned char)*p < ' ')
				*p = '_';
		path = xasprintf("%s/gpu-%s.csv", gpus, host);
		fresh = access(path, F_OK) < 0;
		f = fopen(path, "ae");
		if (!f)
			continue;
		if (fresh)
			fputs("timestamp, index, power.draw [W], power.limit [W], utilization.gpu "
			      "[%], "
			      "clocks.sm [MHz]\n",
			      f);
		put_gpu(r, f, g);
		fclose(f);
	}
}

static void run_one(char **argv, char *file, int64_t limit_ms)
{
	struct probe p = { .what = "command",
			   .file = file,
			   .argv = argv,
			   .rank = -1,
			   .limit_ms = (unsigned)limit_ms };

	probes_run(&p, 1);
	if (p.state != PROBE_DONE && p.why[0])
		dprintf(2, "%s\n", p.why);
	probe_done(&p);
}

struct copying {
	const struct watcher *r;
	const struct lane *lane;
	struct child child;
};

static int copy_lane(void *user)
{
	const struct copying *c = user;
	const struct sources *s = &c->r->sources;

	copy_logs(c->r, c->lane);
	for (size_t i = 0; i < s->v.n; i++)
		if (s->v.v[i].kind == SOURCE_DUMPS && lane_has(c->lane, &s->v.v[i])) {
			wait_for_dumps(s->v.v[i].what);
			copy_dumps(c->r, s->v.v[i].what);
		}
	return 0;
}

/* Copying hangs with the file system that it reads from: each has a child, whom nobody waits for
   beyond its time, and one that does not answer already is not asked. */
static void copy_all(const struct watcher *r, int64_t limit_ms)
{
	size_t n = r->sources.lanes.n, running = 1;
	struct copying *all = xcalloc(n + 1, sizeof(*all));
	struct error e;
	int status;

	for (size_t i = 0; i < n; i++) {
		struct child_plan plan = { .fn = copy_lane,
					   .user = &all[i],
					   .out = 1,
					   .err = 2,
					   .limit_ms = (unsigned)limit_ms };

		all[i].r = r;
		all[i].lane = &r->sources.lanes.v[i];
		if (!all[i].lane->since_ms && child_begin(&all[i].child, &plan, &e) < 0)
			dprintf(2, "%s\n", e.text);
	}
	while (running) {
		running = 0;
		for (size_t i = 0; i < n; i++)
			running +=
			    all[i].child.pid && child_look(&all[i].child, &status) == CHILD_RUNS;
		if (running)
			poll(NULL, 0, COPY_TICK_MS);
	}
	free(all);
}

static int gather(void *user)
{
	const struct watcher *r = user;
	_cleanup_free_ char *logs = xasprintf("%s/logs", r->folder);
	int64_t end = clock_ms() + r->o->evidence_ms;
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	mkdir(logs, 0700);
	write_gpus(r);
	copy_logs(r, NULL);
	copy_all(r, r->o->evidence_ms / COPY_SHARE);
	setenv("LOCKSTEP_EVIDENCE", r->folder, 1);
	if (r->o->collect)
		run_one(probe_argv("/bin/sh", "-c", r->o->collect, NULL),
			xasprintf("%s/collected.txt", r->folder),
			(end - clock_ms()) / DIAGNOSE_SHARE);
	if (n <= 0)
		return 1;
	self[n] = '\0';
	run_one(probe_argv(self, "diagnose", "--json", r->folder, NULL),
		xasprintf("%s.diagnosis.json", r->folder), MAX(end - clock_ms(), 1));
	return 0;
}

/* --- in the loop --- */

int watch_evidence_begin(struct watcher *r, enum watch_matter m)
{
	time_t t = (time_t)((r->now_ms + r->wall_offset_ms) / 1000);
	struct error e = { "" };
	struct tm tm;
	char stamp[32];
	int made = -1;

	gmtime_r(&t, &tm);
	strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm);
	mkdir(r->o->evidence, 0700);
	for (unsigned i = 0; i < 100 && made < 0; i++) { /* of the same second */
		free(r->folder);
		r->folder =
		    i ? xasprintf("%s/%s-%s-%u", r->o->evidence, watch_matter_key(m), stamp, i)
		      : xasprintf("%s/%s-%s", r->o->evidence, watch_matter_key(m), stamp);
		made = mkdir(r->folder, 0700);
		if (made < 0 && errno != EEXIST)
			break;
	}
	if (made < 0) {
		r->o->say("watch: %s: %s; no evidence is kept", r->folder, strerror(errno));
		free(r->folder);
		r->folder = NULL;
		return -1;
	}
	if (tap_start(&r->evidence, NULL, gather, r, &e) < 0) {
		r->o->say("watch: %s", e.text);
		return -1;
	}
	r->evidence_of = m;
	return 0;
}

/* Of a report, what an alert says. One that finds no end of the job does not unsay what is seen. */
static json_t *diagnosis_of(const json_t *report)
{
	static const char *const kept[] = { "summary",	"cause",      "cause_detail", "action",
					    "culprits", "confidence", "kind",	      "severity" };
	const char *verdict = json_string_value(json_object_get(report, "verdict"));
	const json_t *f = json_array_get(json_object_get(report, "findings"), 0);
	json_t *d;

	if (!verdict || (strcmp(verdict, "hung") != 0 && strcmp(verdict, "crashed") != 0))
		return json_pack("{s:s, s:s}", "verdict", "insufficient", "summary",
				 "what could be collected does not say who");
	d = json_pack("{s:s}", "verdict", verdict);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (json_object_get(f, kept[i]))
			json_object_set(d, kept[i], json_object_get(f, kept[i]));
	return d;
}

static void read_diagnosis(struct watcher *r)
{
	_cleanup_free_ char *path = xasprintf("%s.diagnosis.json", r->folder);
	struct stat st;
	json_t *j;

	if (stat(path, &st) < 0 || (size_t)st.st_size > DIAGNOSIS_MOST)
		return;
	j = json_load_file(path, 0, NULL);
	if (!j)
		return;
	json_decref(r->diagnosis);
	r->diagnosis = diagnosis_of(j);
	json_decref(j);
}

void watch_evidence_look(struct watcher *r)
{
	enum tap_end end;

	if (r->evidence_of == MATTERS || !r->evidence.child.pid)
		return;
	end = tap_look(&r->evidence, r->o->evidence_ms);
	if (end == TAP_RUNS)
		return;
	if (end == TAP_LATE)
		r->o->say("watch: collecting evidence took more than %.3g s and was ended",
			  (double)r->o->evidence_ms / 1000);
	read_diagnosis(r);
}

void watch_evidence_words(const struct watcher *r, char *ret, size_t size)
{
	const char *summary = json_string_value(json_object_get(r->diagnosis, "summary"));
	const char *cause = json_string_value(json_object_get(r->diagnosis, "cause"));

	ret[0] = '\0';
	if (summary)
		snprintf(ret, size, "; diagnosis: %s%s%s%s", summary, cause ? " (" : "",
			 cause ? cause : "", cause ? ")" : "");
}
