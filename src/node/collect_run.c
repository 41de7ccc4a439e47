/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect_run.c - the plan of what is asked, its running, and what is written about it.
 *
 * Ranks are found first; then all probes run side by side, each with its deadline, so that the
 * whole takes as long as the slowest of them and never longer than its limit.
 */
#include "node/collect_run.h"

#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "node/collect_probes.h"
#include "node/redact.h"

#define LIMIT_PROC_MS	  5000
#define LIMIT_COMMAND_MS  10000
#define LIMIT_RECORDER_MS 20000
#define SMI_RUN_MS	  3500 /* nvidia-smi in a loop: a few samples show whether power moves */

struct plan {
	struct collect *c;
	struct collect_node node;
	struct collect_rank *ranks; /* as many as c->ranks */
	char **folders;		    /* relative to c->folder, as many */
	char *node_folder;
};

/* --- the plan --- */

static struct probe *add(struct plan *p, const char *what, int64_t rank, const char *folder,
			 const char *file, unsigned limit_ms)
{
	struct probe *q = vec_push(&p->c->probes);

	*q = (struct probe){ .what = what, .rank = rank, .limit_ms = limit_ms };
	q->file = xasprintf("%s/%s/%s", p->c->folder, folder, file);
	return q;
}

static void add_function(struct plan *p, const char *what, int64_t rank, const char *folder,
			 const char *file, unsigned limit_ms,
			 int (*run)(void *user, int fd, struct error *why), void *user)
{
	struct probe *q = add(p, what, rank, folder, file, limit_ms);

	q->run = run;
	q->user = user;
}

/* py-spy lies in the rank's own environment more often than on PATH; run it only as its owner. */
static char *pyspy_of(const struct rank_process *r)
{
	char link[64], exe[PATH_MAX], *slash, *path;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)r->pid);
	n = readlink(link, exe, sizeof(exe) - 1);
	exe[MAX(n, 0)] = 0;
	slash = strrchr(exe, '/');
	if (n > 0 && slash && r->uid == geteuid()) {
		path = xasprintf("%.*s/py-spy", (int)(slash - exe), exe);
		if (access(path, X_OK) == 0)
			return path;
		free(path);
	}
	return xstrdup("py-spy");
}

static void plan_rank(struct plan *p, size_t i)
{
	struct rank_process *r = &p->c->ranks.v.v[i];
	struct collect_rank *user = &p->ranks[i];
	const char *folder = p->folders[i];
	_cleanup_free_ char *pid = xasprintf("%d", (int)r->pid);
	_cleanup_free_ char *pyspy = pyspy_of(r);
	_cleanup_free_ char *dump = xasprintf("nccl_trace_rank_%" PRId64, MAX(r->rank, (int64_t)0));
	struct probe *q;

	*user = (struct collect_rank){ .proc = "/proc", .host = p->c->host, .p = r };
	user->earlier = xasprintf("%s/earlier/%s/%s", p->c->folder, folder, dump);
	add_function(p, "threads and limits", r->rank, folder, "process.json", LIMIT_PROC_MS,
		     probe_process, user);
	add_function(p, "kernel stacks", r->rank, folder, "kernel-stacks.txt", LIMIT_PROC_MS,
		     probe_kernel_stacks, user);
	add_function(p, "command and environment", r->rank, folder, "command.json", LIMIT_PROC_MS,
		     probe_command, user);
	q = add(p, "py-spy dump", r->rank, folder, "pyspy.txt", LIMIT_COMMAND_MS);
	q->argv = probe_argv(pyspy, "dump", "--nonblocking", "--pid", pid, NULL);
	if (r->rank >= 0)
		add_function(p, "Flight Recorder", r->rank, folder, dump, LIMIT_RECORDER_MS,
			     probe_flight_recorder, user);
}

static void plan_node(struct plan *p)
{
	const char *folder = p->node_folder;
	struct probe *q;

	q = add(p, "nvidia-smi", -1, folder, "nvidia-smi.csv", LIMIT_COMMAND_MS);
	q->argv =
	    probe_argv("nvidia-smi",
		       "--query-gpu=timestamp,index,uuid,pci.bus_id,name,power.draw,power.limit,"
		       "utilization.gpu,utilization.memory,clocks.sm,temperature.gpu,memory.used,"
		       "clocks_throttle_reasons.active",
		       "--format=csv", "-lms", "1000", NULL);
	q->stop_ms = SMI_RUN_MS;
	q = add(p, "nvidia-smi -q", -1, folder, "nvidia-smi-q.txt", LIMIT_COMMAND_MS);
	q->argv = probe_argv("nvidia-smi", "-q", NULL);
	q = add(p, "rocm-smi", -1, folder, "rocm-smi.json", LIMIT_COMMAND_MS);
	q->argv = probe_argv("rocm-smi", "--showpower", "--showuse", "--showtemp", "--showclocks",
			     "--showmeminfo", "vram", "--showmaxpower", "--json", NULL);
	q = add(p, "ncclras", -1, folder, "ncclras.json", LIMIT_COMMAND_MS);
	q->argv = probe_argv("ncclras", "-v", "-f", "json", NULL);
	add_function(p, "port counters", -1, folder, "counters.txt", LIMIT_COMMAND_MS,
		     probe_counters, &p->node);
	add_function(p, "kernel log", -1, folder, "kernel.log", LIMIT_PROC_MS, probe_kernel_log,
		     &p->node);
	add_function(p, "output of the ranks", -1, folder, "outputs.json", LIMIT_COMMAND_MS,
		     probe_outputs, &p->node);
}

/* --- folders --- */

static int make_folder(const char *path, struct error *reterr)
{
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return error_set(reterr, -errno, "%s: %s", path, strerror(errno));
	return 0;
}

/* "rank3"; of a second job on this node "job2/rank3"; without a rank "pid1234". */
static char *folder_of(const struct rank_process *r)
{
	if (r->rank < 0)
		return xasprintf("pid%d", (int)r->pid);
	return r->job > 1 ? xasprintf("job%u/rank%" PRId64, r->job, r->rank)
			  : xasprintf("rank%" PRId64, r->rank);
}

/* Makes folder/part/part.. for each part of a relative path. */
static int make_below(const char *folder, const char *relative, struct error *reterr)
{
	for (const char *p = relative; p; p = strchr(p + 1, '/')) {
		const char *end = strchr(p + 1, '/');
		_cleanup_free_ char *path =
		    xasprintf("%s/%.*s", folder,
			      (int)(end ? end - relative : (ptrdiff_t)strlen(relative)), relative);
		int status = make_folder(path, reterr);

		if (status < 0)
			return status;
		if (!end)
			break;
	}
	return 0;
}

static int make_folders(struct plan *p, struct error *reterr)
{
	int status = make_below(p->c->folder, p->node_folder, reterr);

	for (size_t i = 0; i < p->c->ranks.v.n && status >= 0; i++) {
		_cleanup_free_ char *earlier = xasprintf("earlier/%s", p->folders[i]);

		status = make_below(p->c->folder, p->folders[i], reterr);
		if (status >= 0)
			status = make_below(p->c->folder, earlier, reterr);
	}
	return status;
}

/* Folders in which nothing was put; those above follow. */
static void drop_empty(struct plan *p)
{
	for (size_t i = 0; i < p->c->ranks.v.n; i++) {
		_cleanup_free_ char *earlier =
		    xasprintf("%s/earlier/%s", p->c->folder, p->folders[i]);
		_cleanup_free_ char *own = xasprintf("%s/%s", p->c->folder, p->folders[i]);

		rmdir(earlier);
		rmdir(own);
	}
	{
		_cleanup_free_ char *earlier = xasprintf("%s/earlier", p->c->folder);
		_cleanup_free_ char *node = xasprintf("%s/%s", p->c->folder, p->node_folder);

		rmdir(earlier);
		rmdir(node);
	}
}

/* --- what is written about it --- */

/* Which GPU a rank uses, as its environment says: the local rank's place among the visible ones. */
static int64_t gpu_of(const struct rank_process *r)
{
	const char *p = r->visible;
	int64_t nth = r->local_rank;

	if (r->local_rank < 0)
		return -1;
	if (!*p)
		return r->local_rank;
	/* One that each rank sees alone. */
	if (!strchr(p, ','))
		nth = 0;
	for (; nth > 0 && (p = strchr(p, ',')); nth--)
		p++;
	return p && *p >= '0' && *p <= '9' ? strtol(p, NULL, 10) : -1;
}

static void put_number(json_t *to, const char *key, int64_t v)
{
	json_object_set_new(to, key, v >= 0 ? json_integer(v) : json_null());
}

static json_t *rank_json(const struct rank_process *r, const char *folder)
{
	json_t *j = json_object();
	char state[2] = { r->state ? r->state : '?', 0 };

	put_number(j, "rank", r->rank);
	put_number(j, "local_rank", r->local_rank);
	put_number(j, "world_size", r->world_size);
	put_number(j, "gpu", gpu_of(r));
	put_number(j, "pid", r->pid);
	json_object_set_new(j, "command", json_string(r->comm));
	json_object_set_new(j, "state", json_string(state));
	json_object_set_new(j, "workers", json_integer(r->workers));
	json_object_set_new(j, "folder", json_string(folder));
	if (r->started_ns) {
		char text[32];

		snprintf(text, sizeof(text), "%" PRIu64, r->started_ns);
		json_object_set_new(j, "started_ns", json_string(text));
	}
	if (*r->run_id)
		json_object_set_new(j, "job", json_string(r->run_id));
	if (r->stuck)
		json_object_set_new(j, "stuck", json_true());
	if (r->denied)
		json_object_set_new(j, "denied", json_true());
	return j;
}

static json_t *probe_json(const struct collect *c, const struct probe *q)
{
	size_t n = strlen(c->folder) + 1;
	json_t *j = json_object(), *why = json_string(q->why);

	json_object_set_new(j, "what", json_string(q->what));
	put_number(j, "rank", q->rank);
	json_object_set_new(j, "state", json_string(probe_state_name(q->state)));
	json_object_set_new(j, "took_ms", json_integer(q->took_ms));
	json_object_set_new(j, "bytes", json_integer((json_int_t)q->bytes));
	json_object_set_new(j, "file", q->bytes ? json_string(q->file + n) : json_null());
	json_object_set_new(j, "why", q->why[0] && why ? json_incref(why) : json_null());
	json_decref(why);
	return j;
}

static json_t *report_json(const struct plan *p, bool redacted)
{
	const struct collect *c = p->c;
	json_t *j = json_object(), *ranks = json_array(), *probes = json_array();
	json_t *left_out = json_array();
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64, c->time_ns);
	json_object_set_new(j, "lockstep_collect", json_integer(1));
	json_object_set_new(j, "lockstep", json_string(LOCKSTEP_VERSION));
	json_object_set_new(j, "host", json_string(c->host));
	json_object_set_new(j, "time_ns", json_string(text));
	json_object_set_new(j, "redacted", json_boolean(redacted));
	json_object_set_new(j, "denied", json_integer(c->ranks.denied));
	json_object_set_new(j, "stuck", json_integer(c->ranks.stuck));
	for (size_t i = 0; i < c->ranks.v.n; i++)
		json_array_append_new(ranks, rank_json(&c->ranks.v.v[i], p->folders[i]));
	for (size_t i = 0; i < c->probes.n; i++)
		json_array_append_new(probes, probe_json(c, &c->probes.v[i]));
	for (size_t i = 0; i < c->left_out.n; i++)
		json_array_append_new(left_out, json_string(c->left_out.v[i]));
	json_object_set_new(j, "ranks", ranks);
	json_object_set_new(j, "probes", probes);
	json_object_set_new(j, "left_out", left_out);
	return j;
}

/* collect.json; beside another node's in a shared folder collect-HOST.json. */
static int write_report(const struct plan *p, struct redact *redact, struct error *reterr)
{
	json_t *j = report_json(p, redact != NULL);
	char *text = json_dumps(j, JSON_INDENT(1));
	_cleanup_free_ char *path = xasprintf("%s/collect.json", p->c->folder);
	_cleanup_free_ char *second =
	    xasprintf("%s/collect-%s-%d.json", p->c->folder, p->c->shown, (int)getpid());
	_cleanup_close_ int fd = -EBADF;
	int status = 0;

	json_decref(j);
	if (!text)
		return error_set(reterr, -EIO, "collect.json: a name is no UTF-8");
	if (redact)
		redact_bytes(redact, text, strlen(text));
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST)
		fd = open(second, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || dprintf(fd, "%s\n", text) < 0)
		status = error_set(reterr, -errno, "%s: %s", path, strerror(errno));
	free(text);
	return status;
}

/* --- redaction --- */

static void redact_known(struct redact *r, const struct collect *c)
{
	redact_host(r, c->host);
	for (size_t i = 0; i < c->ranks.v.n; i++) {
		const struct rank_process *p = &c->ranks.v.v[i];
		const struct passwd *user = getpwuid(p->uid);
		const char *home = strrchr(p->home, '/');

		if (user)
			redact_user(r, user->pw_name);
		if (home)
			redact_user(r, home + 1);
		if (*p->master)
			redact_host(r, p->master);
	}
	if (getenv("USER"))
		redact_user(r, getenv("USER"));
	if (getenv("SUDO_USER"))
		redact_user(r, getenv("SUDO_USER"));
}

static void redact_one(struct collect *c, struct redact *r, const char *path)
{
	if (access(path, F_OK) < 0 || redact_file(r, path) >= 0)
		return;
	*vec_push(&c->left_out) = xstrdup(path + strlen(c->folder) + 1);
	unlink(path);
}

/* Every file that a probe may have made; one that cannot be rewritten safely is not kept. */
static void redact_all(struct plan *p, struct redact *r)
{
	struct collect *c = p->c;

	for (size_t i = 0; i < c->probes.n; i++) {
		struct probe *q = &c->probes.v[i];

		if (q->state == PROBE_ABANDONED) { /* its child may still write */
			if (unlink(q->file) == 0)
				*vec_push(&c->left_out) = xstrdup(q->file + strlen(c->folder) + 1);
			q->bytes = 0;
			continue;
		}
		redact_one(c, r, q->file);
		if (access(q->file, F_OK) < 0)
			q->bytes = 0;
	}
	for (size_t i = 0; i < c->ranks.v.n; i++)
		redact_one(c, r, p->ranks[i].earlier);
	for (unsigned n = 1; n <= 2 * c->ranks.v.n; n++) {
		_cleanup_free_ char *shared =
		    xasprintf("%s/%s/output-%u.log", c->folder, p->node_folder, n);

		redact_one(c, r, shared);
		for (size_t i = 0; i < c->ranks.v.n; i++) {
			_cleanup_free_ char *own =
			    xasprintf("%s/%s/output-%u.log", c->folder, p->folders[i], n);

			redact_one(c, r, own);
		}
	}
}

/* --- all of it --- */

static char *host_name(void)
{
	char name[256] = "";

	gethostname(name, sizeof(name) - 1);
	for (char *p = name; *p; p++)
		if (*p == '/' || (unsigned char)*p <= ' ')
			*p = '_';
	return xstrdup(*name ? name : "unknown");
}

static char *default_folder(const char *host, time_t now)
{
	char when[32];
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", &tm);
	return xasprintf("lockstep-evidence-%s-%s", host, when);
}

static uint64_t bytes_of(const struct collect *c)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < c->probes.n; i++)
		sum += c->probes.v[i].bytes;
	return sum;
}

static void plan_done(struct plan *p)
{
	for (size_t i = 0; i < p->c->ranks.v.n; i++) {
		if (p->folders)
			free(p->folders[i]);
		if (p->ranks)
			free(p->ranks[i].earlier);
	}
	free(p->folders);
	free(p->ranks);
	free(p->node_folder);
	free(p->node.folder);
	for (size_t i = 0; p->node.folders && i < p->c->ranks.v.n; i++)
		free(p->node.folders[i]);
	free(p->node.folders);
}

static void plan_all(struct plan *p)
{
	struct collect *c = p->c;
	size_t n = c->ranks.v.n;

	p->ranks = xcalloc(n + 1, sizeof(*p->ranks));
	p->folders = xcalloc(n + 1, sizeof(*p->folders));
	p->node.folders = xcalloc(n + 1, sizeof(*p->node.folders));
	p->node_folder = xasprintf("host_%s", c->shown);
	p->node.folder = xasprintf("%s/%s", c->folder, p->node_folder);
	p->node.proc = "/proc";
	p->node.sys = "/sys";
	p->node.host = c->host;
	p->node.ranks = &c->ranks;
	for (size_t i = 0; i < n; i++) {
		p->folders[i] = folder_of(&c->ranks.v.v[i]);
		p->node.folders[i] = xasprintf("%s/%s", c->folder, p->folders[i]);
	}
	for (size_t i = 0; i < n; i++)
		plan_rank(p, i);
	plan_node(p);
}

int collect_run(const struct collect_options *o, struct collect *ret, struct error *reterr)
{
	struct redact *redact = o->redact ? redact_new() : NULL;
	struct plan plan = { .c = ret };
	struct timespec now;
	int status = 0;

	*ret = (struct collect){ 0 };
	clock_gettime(CLOCK_REALTIME, &now);
	ret->time_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
	ret->host = host_name();
	ret->shown = xstrdup(ret->host);
	ranks_find("/proc", o->pids, o->n_pids, &ret->ranks);
	if (redact) {
		redact_known(redact, ret);
		redact_bytes(redact, ret->shown, strlen(ret->shown));
	}
	ret->folder = o->out ? xstrdup(o->out) : default_folder(ret->shown, now.tv_sec);
	if (o->below) {
		char *whole = ret->folder;

		ret->folder = xasprintf("%s/%s", whole, o->below);
		status = make_folder(whole, reterr);
		free(whole);
	}
	plan_all(&plan);
	if (status >= 0)
		status = make_folder(ret->folder, reterr);
	if (status >= 0)
		status = make_folders(&plan, reterr);
	if (status >= 0) {
		probes_run(ret->probes.v, ret->probes.n);
		if (redact)
			redact_all(&plan, redact);
		drop_empty(&plan);
		ret->bytes = bytes_of(ret);
		status = write_report(&plan, redact, reterr);
		ret->names_replaced = redact ? redact_count(redact) : 0;
	}
	plan_done(&plan);
	redact_free(redact);
	return status;
}

void collect_done(struct collect *c)
{
	for (size_t i = 0; i < c->probes.n; i++)
		probe_done(&c->probes.v[i]);
	for (size_t i = 0; i < c->left_out.n; i++)
		free(c->left_out.v[i]);
	free(c->probes.v);
	free(c->left_out.v);
	ranks_done(&c->ranks);
	free(c->folder);
	free(c->host);
	free(c->shown);
	*c = (struct collect){ 0 };
}
