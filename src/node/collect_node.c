/* SPDX-License-Identifier: Apache-2.0 */
/* collect_node.c - what the node tells: port counters, the kernel's log, what ranks print. */
#include "node/collect_probes.h"
#include "node/small_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/klog.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#define COUNTERS_APART_MS   1500
#define LINKS_MAX	    256u
#define KERNEL_LOG_MAX	    (1 << 20)
#define KERNEL_LINES_MAX    2000u
#define KERNEL_LOG_BEFORE_S 60
#define OUTPUT_TAIL_MAX	    ((off_t)8 << 20)
#define OUTPUTS_MAX	    1024u

static void print_now(int fd, const char *what, const char *host)
{
	struct timespec now;
	struct tm tm;
	char text[64];

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	dprintf(fd, "# lockstep %s of %s at %s\n", what, host, text);
}

/* --- counters --- */

static void print_file(int fd, const char *folder, const char *name, const char *title)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", folder, name);
	_cleanup_close_ int from = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char text[128];
	ssize_t len = from < 0 ? -1 : read(from, text, sizeof(text) - 1);

	if (len <= 0)
		return;
	text[len] = 0;
	text[strcspn(text, "\n")] = 0;
	dprintf(fd, "%s/%s %s\n", title, name, text);
}

static void print_files(int fd, const char *folder, const char *title)
{
	char *names[LINKS_MAX];
	size_t n = names_in(folder, names, LINKS_MAX);

	for (size_t i = 0; i < n; i++) {
		print_file(fd, folder, names[i], title);
		free(names[i]);
	}
}

static void print_port(int fd, const char *port, const char *title)
{
	static const char *const kinds[] = { "counters", "hw_counters" };
	static const char *const states[] = { "state", "phys_state", "rate" };

	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		print_file(fd, port, states[i], title);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		_cleanup_free_ char *folder = xasprintf("%s/%s", port, kinds[i]);

		print_files(fd, folder, title);
	}
}

static void print_counters(int fd, const char *sys)
{
	_cleanup_free_ char *root = xasprintf("%s/class/infiniband", sys);
	char *devices[LINKS_MAX], *ports[LINKS_MAX];
	size_t n = names_in(root, devices, LINKS_MAX);

	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *at = xasprintf("%s/%s/ports", root, devices[i]);
		size_t n_ports = names_in(at, ports, LINKS_MAX);

		for (size_t k = 0; k < n_ports; k++) {
			_cleanup_free_ char *port = xasprintf("%s/%s", at, ports[k]);
			_cleanup_free_ char *title = xasprintf("%s/%s", devices[i], ports[k]);

			print_port(fd, port, title);
			free(ports[k]);
		}
		free(devices[i]);
	}
}

int probe_counters(void *user, int fd, struct error *why)
{
	const struct collect_node *n = user;
	_cleanup_free_ char *root = xasprintf("%s/class/infiniband", n->sys);
	struct stat st;

	if (stat(root, &st) < 0)
		return error_set(why, -ENOENT, "no InfiniBand or RoCE device");
	for (unsigned i = 0; i < 2; i++) {
		print_now(fd, "counters", n->host);
		print_counters(fd, n->sys);
		if (!i)
			nanosleep(&(struct timespec){ COUNTERS_APART_MS / 1000,
						      COUNTERS_APART_MS % 1000 * 1000000 },
				  NULL);
	}
	return 0;
}

/* --- the kernel's log --- */

/* What the kernel said before the job began is of other jobs. */
static int64_t job_start_s(const struct rank_list *l)
{
	int64_t first = 0;

	for (size_t i = 0; i < l->v.n; i++) {
		int64_t s = (int64_t)(l->v.v[i].started_ns / 1000000000);

		first = s && (!first || s < first) ? s : first;
	}
	return first - KERNEL_LOG_BEFORE_S;
}

struct kernel_log {
	int fd;
	const char *host;
	int64_t boot_s, since_s;
	unsigned printed;
};

/* "<6>[ 1234.567890] text" as a line of syslog with its time of day. */
static void print_kernel_line(struct kernel_log *log, const char *line)
{
	const char *bracket = strchr(line, '['), *close = bracket ? strchr(bracket, ']') : NULL;
	time_t at = (time_t)(log->boot_s + (bracket ? strtoll(bracket + 1, NULL, 10) : 0));
	char when[64];
	struct tm tm;

	if (!close || *line != '<' || at < log->since_s)
		return;
	gmtime_r(&at, &tm);
	/* The year, which lines of syslog lack. */
	strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	if (!log->printed++)
		dprintf(log->fd, "%s the kernel's log of %s since the job began\n", when,
			log->host);
	strftime(when, sizeof(when), "%b %e %H:%M:%S", &tm);
	dprintf(log->fd, "%s %s kernel:%s\n", when, log->host, close + 1);
}

int probe_kernel_log(void *user, int fd, struct error *why)
{
	const struct collect_node *node = user;
	struct kernel_log log = { .fd = fd, .host = node->host };
	_cleanup_free_ char *text = xmalloc(KERNEL_LOG_MAX + 1);
	int len = klogctl(3 /* SYSLOG_ACTION_READ_ALL */, text, KERNEL_LOG_MAX);
	struct timespec now, up;
	char *from, *save = NULL;
	unsigned lines = 0;

	if (len < 0)
		return error_set(why, -errno, "%s (kernel.dmesg_restrict?)", strerror(errno));
	text[len] = 0;
	for (from = text + len; from > text; from--)
		if (from[-1] == '\n' && lines++ == KERNEL_LINES_MAX)
			break;
	clock_gettime(CLOCK_REALTIME, &now);
	clock_gettime(CLOCK_BOOTTIME, &up);
	log.boot_s = now.tv_sec - up.tv_sec;
	log.since_s = job_start_s(node->ranks);
	for (char *line = strtok_r(from, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		print_kernel_line(&log, line);
	return log.printed ? 0 : error_set(why, 0, "it said nothing since the job began");
}

/* --- what the ranks print --- */

struct output {
	dev_t dev;
	ino_t ino;
	size_t rank; /* row of the first that writes there */
	bool shared;
	char *path; /* /proc/PID/fd/N */
};

static void find_outputs(const struct collect_node *n, struct output *outputs, size_t *ret_n)
{
	size_t count = 0;

	for (size_t i = 0; i < n->ranks->v.n; i++)
		for (int fd = 1; fd <= 2 && count < OUTPUTS_MAX; fd++) {
			char *path =
			    xasprintf("%s/%d/fd/%d", n->proc, (int)n->ranks->v.v[i].pid, fd);
			struct stat st;
			size_t k = 0;

			if (stat(path, &st) < 0 || !S_ISREG(st.st_mode)) {
				free(path);
				continue;
			}
			while (k < count &&
			       (outputs[k].dev != st.st_dev || outputs[k].ino != st.st_ino))
				k++;
			if (k < count) {
				outputs[k].shared |= outputs[k].rank != i;
				free(path);
				continue;
			}
			outputs[count++] = (struct output){ st.st_dev, st.st_ino, i, false, path };
		}
	*ret_n = count;
}

/* The end of the file from a line's beginning on. */
static int copy_tail(const char *from_path, const char *to_path)
{
	_cleanup_close_ int from = open(from_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	_cleanup_close_ int to = -EBADF;
	char buf[65536];
	struct stat st;
	bool skip;
	off_t at;
	ssize_t n;

	if (from < 0 || fstat(from, &st) < 0 || !st.st_size)
		return -ENODATA;
	to = open(to_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (to < 0)
		return -errno;
	skip = st.st_size > OUTPUT_TAIL_MAX;
	at = skip ? st.st_size - OUTPUT_TAIL_MAX : 0;
	while (at < st.st_size && (n = pread(from, buf, sizeof(buf), at)) > 0) {
		char *p = buf, *line = skip ? memchr(buf, '\n', (size_t)n) : NULL;

		at += n;
		if (skip && line)
			p = line + 1;
		skip = false;
		if (write(to, p, (size_t)(buf + n - p)) != buf + n - p)
			return -EIO;
	}
	return 0;
}

static json_t *ranks_json(const struct rank_list *l)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->v.n; i++) {
		json_t *j = json_object();

		if (l->v.v[i].rank >= 0)
			json_object_set_new(j, "rank", json_integer(l->v.v[i].rank));
		json_object_set_new(j, "pid", json_integer(l->v.v[i].pid));
		json_array_append_new(list, j);
	}
	return list;
}

int probe_outputs(void *user, int fd, struct error *why)
{
	const struct collect_node *n = user;
	struct output *outputs = xcalloc(OUTPUTS_MAX, sizeof(*outputs));
	size_t count = 0, shared = 0, taken = 0;
	json_t *list = json_array(), *report = json_object();

	find_outputs(n, outputs, &count);
	for (size_t i = 0; i < count; i++) {
		const char *folder = outputs[i].shared ? n->folder : n->folders[outputs[i].rank];
		char *to = xasprintf("%s/output-%zu.log", folder, ++shared);
		char target[4096];
		ssize_t len = readlink(outputs[i].path, target, sizeof(target) - 1);

		if (copy_tail(outputs[i].path, to) >= 0) {
			json_t *j = json_object();

			target[MAX(len, 0)] = 0;
			json_object_set_new(j, "file", json_string(strrchr(to, '/') + 1));
			json_object_set_new(j, "of", json_string(target));
			json_array_append_new(list, j);
			taken++;
		}
		free(to);
		free(outputs[i].path);
	}
	free(outputs);
	json_object_set_new(report, "lockstep_collect", json_string("outputs"));
	json_object_set_new(report, "host", json_string(n->host));
	json_object_set_new(report, "files", list);
	json_object_set_new(report, "ranks", ranks_json(n->ranks));
	if (taken)
		json_dumpfd(report, fd, JSON_INDENT(1));
	json_decref(report);
	return taken ? 0 : error_set(why, -ENOENT, "the ranks print to no file");
}
