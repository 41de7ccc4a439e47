/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect_probes.c - what /proc tells of a rank.
 *
 * What is here cannot stop or change the process that it asks about. What can make the asker sleep
 * (command line and environment) is in a probe of its own.
 */
#include "node/collect_probes.h"
#include "node/small_files.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#include <jansson.h>

#define SMALL_FILE_MAX ((size_t)64 << 10)
#define ENVIRON_MAX    ((size_t)1 << 20)
#define THREADS_MAX    8192u
#define SOCKETS_MAX    65536u

static char *proc_text(const struct collect_rank *r, const char *name, size_t max, size_t *ret_len)
{
	_cleanup_free_ char *path = xasprintf("%s/%d/%s", r->proc, (int)r->p->pid, name);

	return file_text(path, max, ret_len);
}

static void put_text(json_t *to, const char *key, char *text)
{
	if (text)
		json_object_set_new(to, key, text_json(text));
	free(text);
}

/* The first member says what the file is: the reader of such files goes by it. */
static void put_whose(json_t *to, const struct collect_rank *r, const char *what)
{
	json_object_set_new(to, "lockstep_collect", json_string(what));
	json_object_set_new(to, "host", text_json(r->host));
	json_object_set_new(to, "pid", json_integer(r->p->pid));
	if (r->p->rank >= 0)
		json_object_set_new(to, "rank", json_integer(r->p->rank));
}

static int write_json(json_t *j, int fd)
{
	int r = json_dumpfd(j, fd, JSON_INDENT(1)) ? -EIO : 0;

	json_decref(j);
	(void)!write(fd, "\n", 1);
	return r;
}

/* --- threads --- */

static json_t *thread_json(const struct collect_rank *r, const char *tid)
{
	static const char *const files[] = { "comm", "wchan", "syscall" };
	json_t *j = json_object();
	char *stat, *close;

	json_object_set_new(j, "tid", json_integer(atoi(tid)));
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_free_ char *name = xasprintf("task/%s/%s", tid, files[i]);

		put_text(j, files[i], proc_text(r, name, 256, NULL));
	}
	{
		_cleanup_free_ char *name = xasprintf("task/%s/stat", tid);

		stat = proc_text(r, name, 1024, NULL);
	}
	close = stat ? strrchr(stat, ')') : NULL;
	if (close && close[1] && close[2])
		json_object_set_new(j, "state", json_stringn(close + 2, 1));
	free(stat);
	return j;
}

/* Calls fn for each thread, in order of the directory; how many. */
static unsigned each_thread(const struct collect_rank *r,
			    void (*fn)(const struct collect_rank *r, const char *tid, void *user),
			    void *user)
{
	_cleanup_free_ char *path = xasprintf("%s/%d/task", r->proc, (int)r->p->pid);
	DIR *dir = opendir(path);
	struct dirent *e;
	unsigned n = 0;

	while (dir && n < THREADS_MAX && (e = readdir(dir)))
		if (isdigit((unsigned char)e->d_name[0])) {
			fn(r, e->d_name, user);
			n++;
		}
	if (dir)
		closedir(dir);
	return n;
}

static void add_thread(const struct collect_rank *r, const char *tid, void *user)
{
	json_array_append_new(user, thread_json(r, tid));
}

/* --- sockets --- */

static int by_inode(const void *a, const void *b)
{
	unsigned long x = *(const unsigned long *)a, y = *(const unsigned long *)b;

	return (x > y) - (x < y);
}

struct sockets {
	VEC(unsigned long) inodes;
	unsigned fds;
};

static void own_sockets(const struct collect_rank *r, struct sockets *s)
{
	_cleanup_free_ char *path = xasprintf("%s/%d/fd", r->proc, (int)r->p->pid);
	DIR *dir = opendir(path);
	struct dirent *e;

	while (dir && s->fds < SOCKETS_MAX && (e = readdir(dir))) {
		char target[64];
		ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);

		if (n <= 0)
			continue;
		target[n] = 0;
		s->fds++;
		if (!strncmp(target, "socket:[", 8))
			*vec_push(&s->inodes) = strtoul(target + 8, NULL, 10);
	}
	if (dir)
		closedir(dir);
	if (s->inodes.n)
		qsort(s->inodes.v, s->inodes.n, sizeof(*s->inodes.v), by_inode);
}

/* A table of the kernel, /proc/PID/net/tcp: the states of those sockets that are the rank's. */
static void count_tcp(const struct collect_rank *r, const char *name, const struct sockets *s,
		      unsigned *states, unsigned long long *unsent, unsigned long long *unread)
{
	_cleanup_free_ char *path = xasprintf("%s/%d/net/%s", r->proc, (int)r->p->pid, name);
	FILE *f = fopen(path, "re");
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		unsigned state;
		unsigned long tx, rx, inode;

		if (sscanf(line,
			   " %*d: %*64[0-9A-F]:%*x %*64[0-9A-F]:%*x %x %lx:%lx %*s %*s %*s %*s %lu",
			   &state, &tx, &rx, &inode) != 4 ||
		    !s->inodes.n ||
		    !bsearch(&inode, s->inodes.v, s->inodes.n, sizeof(inode), by_inode))
			continue;
		states[MIN(state, 15u)]++;
		if (state != 10) { /* of a listener it is a queue of connections */
			*unsent += tx;
			*unread += rx;
		}
	}
	if (f)
		fclose(f);
}

static json_t *sockets_json(const struct collect_rank *r)
{
	static const char *const names[16] = {
		"?",	      "established", "syn-sent",     "syn-recv",   "fin-wait-1",
		"fin-wait-2", "time-wait",   "close",	     "close-wait", "last-ack",
		"listen",     "closing",     "new-syn-recv", "?",	   "?",
		"?"
	};
	unsigned states[16] = { 0 };
	unsigned long long unsent = 0, unread = 0;
	json_t *j = json_object(), *tcp = json_object();
	struct sockets s = { 0 };

	own_sockets(r, &s);
	count_tcp(r, "tcp", &s, states, &unsent, &unread);
	count_tcp(r, "tcp6", &s, states, &unsent, &unread);
	json_object_set_new(j, "descriptors", json_integer(s.fds));
	json_object_set_new(j, "sockets", json_integer((json_int_t)s.inodes.n));
	for (unsigned i = 0; i < ARRAY_SIZE(states); i++)
		if (states[i])
			json_object_set_new(tcp, names[i], json_integer(states[i]));
	json_object_set_new(j, "tcp", tcp);
	json_object_set_new(j, "unsent_bytes", json_integer((json_int_t)unsent));
	json_object_set_new(j, "unread_bytes", json_integer((json_int_t)unread));
	free(s.inodes.v);
	return j;
}

/* --- memory of its group --- */

static void put_cgroup(const struct collect_rank *r, json_t *to)
{
	static const char *const files[] = { "memory.current",	      "memory.max",
					     "memory.high",	      "memory.events",
					     "memory.usage_in_bytes", "memory.limit_in_bytes" };
	char *cgroup = proc_text(r, "cgroup", SMALL_FILE_MAX, NULL), *save = NULL;
	json_t *memory = json_object();

	for (char *line = cgroup ? strtok_r(cgroup, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *second = strchr(line, ':'), *path = second ? strchr(second + 1, ':') : NULL;
		bool v1 = second && !strncmp(second, ":memory:", 8);

		if (!path || !(v1 || !strncmp(line, "0::", 3)))
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
			_cleanup_free_ char *name = xasprintf(
			    "/sys/fs/cgroup%s%s/%s", v1 ? "/memory" : "", path + 1, files[i]);

			put_text(memory, files[i], file_text(name, 4096, NULL));
		}
	}
	free(cgroup);
	json_object_set_new(to, "cgroup", memory);
}

int probe_process(void *user, int fd, struct error *why)
{
	const struct collect_rank *r = user;
	json_t *j = json_object(), *threads = json_array();
	char *status = proc_text(r, "status", SMALL_FILE_MAX, NULL);

	if (!status) {
		int e = errno;

		json_decref(j);
		json_decref(threads);
		return error_set(why, e == ENOENT ? -ESRCH : -e, "the process is gone");
	}
	put_whose(j, r, "process");
	put_text(j, "status", status);
	put_text(j, "stat", proc_text(r, "stat", 4096, NULL));
	put_text(j, "wchan", proc_text(r, "wchan", 256, NULL));
	put_text(j, "io", proc_text(r, "io", 4096, NULL));
	put_text(j, "limits", proc_text(r, "limits", SMALL_FILE_MAX, NULL));
	put_text(j, "oom_score", proc_text(r, "oom_score", 64, NULL));
	each_thread(r, add_thread, threads);
	json_object_set_new(j, "threads", threads);
	put_cgroup(r, j);
	json_object_set_new(j, "open", sockets_json(r));
	return write_json(j, fd);
}

/* --- command line and environment --- */

bool is_secret_name(const char *name, size_t len)
{
	static const char *const words[] = {
		"token",   "secret",  "passw",	    "passphrase", "credential",	 "api_key",
		"api-key", "apikey",  "access_key", "access-key", "private_key", "auth",
		"cookie",  "license", "_key",	    "-key",	  "_pwd",	 "_pat"
	};
	char copy[128];

	len = MIN(len, sizeof(copy) - 1);
	memcpy(copy, name, len);
	copy[len] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcasestr(copy, words[i]))
			return true;
	return false;
}

bool may_copy_variable(const char *name, size_t len)
{
	static const char *const begins[] = {
		"NCCL_",
		"RCCL_",
		"TORCH_",
		"TORCHELASTIC_",
		"PYTORCH_",
		"GLOO_",
		"CUDA_",
		"HIP_",
		"ROCR_",
		"HSA_",
		"UCX_",
		"FI_",
		"OMP_",
		"MKL_",
		"OMPI_COMM_",
		"SLURM_JOB_ID",
		"SLURM_JOBID",
		"SLURM_PROCID",
		"SLURM_LOCALID",
		"SLURM_NODEID",
		"SLURM_NTASKS",
		"SLURM_NNODES",
		"SLURM_STEP_ID",
		"SLURM_NODELIST",
		"SLURM_JOB_NODELIST",
		"NVIDIA_VISIBLE",
		"PYTHONFAULTHANDLER",
		"XLA_",
		"TORCHINDUCTOR_",
	};
	static const char *const whole[] = { "RANK",	    "LOCAL_RANK",  "WORLD_SIZE",
					     "GROUP_RANK",  "ROLE_RANK",   "LOCAL_WORLD_SIZE",
					     "MASTER_ADDR", "MASTER_PORT", "HOSTNAME",
					     "PMI_RANK",    "PMIX_RANK" };

	if (is_secret_name(name, len))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(begins); i++)
		if (len >= strlen(begins[i]) && !memcmp(name, begins[i], strlen(begins[i])))
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(whole); i++)
		if (len == strlen(whole[i]) && !memcmp(name, whole[i], len))
			return true;
	return false;
}

static json_t *environment_json(const char *text, size_t len)
{
	json_t *j = json_object();

	for (size_t at = 0; at < len; at += strlen(text + at) + 1) {
		const char *value = strchr(text + at, '=');
		char name[128];

		if (!value || (size_t)(value - text) - at >= sizeof(name) ||
		    !may_copy_variable(text + at, (size_t)(value - text) - at))
			continue;
		/* scheme://user:password@host */
		if (strstr(value, "://") && strchr(value, '@'))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)((size_t)(value - text) - at), text + at);
		json_object_set_new(j, name, text_json(value + 1));
	}
	return j;
}

/* --api-key=abc and --api-key abc lose the abc. */
static json_t *command_json(char *text, size_t len)
{
	json_t *j = json_array();
	bool hide = false;

	for (size_t at = 0; at < len; at += strlen(text + at) + 1) {
		char *word = text + at, *equals = strchr(word, '=');
		size_t name = equals ? (size_t)(equals - word) : strlen(word);
		bool secret = is_secret_name(word, name) && (*word == '-' || equals);

		if (hide || (strstr(word, "://") && strchr(word, '@'))) {
			json_array_append_new(j, json_string("***"));
		} else if (secret && equals) {
			_cleanup_free_ char *masked = xasprintf("%.*s=***", (int)name, word);

			json_array_append_new(j, text_json(masked));
		} else {
			json_array_append_new(j, text_json(word));
		}
		hide = !hide && secret && !equals;
	}
	return j;
}

int probe_command(void *user, int fd, struct error *why)
{
	const struct collect_rank *r = user;
	json_t *j = json_object();
	size_t len = 0;
	char *text = proc_text(r, "cmdline", ENVIRON_MAX, &len), target[PATH_MAX];
	_cleanup_free_ char *cwd = xasprintf("%s/%d/cwd", r->proc, (int)r->p->pid);
	ssize_t n;

	if (!text) {
		int e = errno;

		json_decref(j);
		return error_set(why, e == ENOENT ? -ESRCH : -e, "%s",
				 e == ENOENT ? "the process is gone" : strerror(e));
	}
	put_whose(j, r, "command");
	text[MIN(len, ENVIRON_MAX)] = 0;
	json_object_set_new(j, "command", command_json(text, len));
	free(text);
	n = readlink(cwd, target, sizeof(target) - 1);
	if (n > 0) {
		target[n] = 0;
		json_object_set_new(j, "folder", text_json(target));
	}
	text = proc_text(r, "environ", ENVIRON_MAX, &len);
	if (text) {
		text[len] = 0;
		json_object_set_new(j, "environment", environment_json(text, len));
	}
	free(text);
	return write_json(j, fd);
}

/* --- kernel stacks --- */

struct stacks {
	int fd, error;
	unsigned taken;
};

static void add_stack(const struct collect_rank *r, const char *tid, void *user)
{
	struct stacks *s = user;
	_cleanup_free_ char *name = xasprintf("task/%s/stack", tid);
	char *text = proc_text(r, name, SMALL_FILE_MAX, NULL);

	if (!text) {
		s->error = errno;
		return;
	}
	if (*text) {
		dprintf(s->fd, "==> /proc/%d/task/%s/stack <==\n%s\n\n", (int)r->p->pid, tid, text);
		s->taken++;
	}
	free(text);
}

int probe_kernel_stacks(void *user, int fd, struct error *why)
{
	struct stacks s = { .fd = fd };

	each_thread(user, add_stack, &s);
	if (!s.taken && s.error)
		return error_set(why, -s.error, "%s (only root may read kernel stacks)",
				 strerror(s.error));
	return 0;
}
