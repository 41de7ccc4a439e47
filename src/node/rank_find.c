/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_find.c - a walk over /proc that cannot hang.
 *
 * To read a process' environment the kernel takes its memory map's lock, and a process that sleeps
 * with that lock held makes every reader sleep too. So a child reads and tells what it found over a
 * pipe; when it falls silent it is left behind, the process is noted, and another child goes on
 * with the next one.
 */
#include "node/rank_find.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ENVIRON_MAX   ((size_t)1 << 20)
#define SILENCE_MS    1500
#define STUCK_MAX     64u /* children left behind at most */
#define PROCESSES_MAX 262144u

enum message_kind { MESSAGE_BEGIN, MESSAGE_FOUND, MESSAGE_DENIED };
struct message {
	enum message_kind kind;
	uint32_t at; /* in the list of processes */
	struct rank_process p;
};

/* --- of one process --- */

static ssize_t read_small(const char *path, char *buf, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;

	if (fd < 0)
		return -errno;
	while (len < size - 1) {
		ssize_t n = read(fd, buf + len, size - 1 - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		len += (size_t)n;
	}
	buf[len] = 0;
	return (ssize_t)len;
}

/* /proc/PID/stat: the name may hold blanks and brackets, so that the last ')' ends it. */
static bool read_stat(const char *proc, struct rank_process *p)
{
	char path[128], text[1024], *open, *close;
	long long start;
	int parent;

	snprintf(path, sizeof(path), "%s/%d/stat", proc, (int)p->pid);
	if (read_small(path, text, sizeof(text)) <= 0)
		return false;
	open = strchr(text, '(');
	close = strrchr(text, ')');
	if (!open || !close || close < open)
		return false;
	snprintf(p->comm, sizeof(p->comm), "%.*s", (int)(close - open - 1), open + 1);
	if (sscanf(
		close + 1,
		" %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lld",
		&p->state, &parent, &start) != 3)
		return false;
	p->parent = parent;
	p->start_ticks = start;
	return true;
}

static int64_t whole(const char *s)
{
	int64_t v = 0;

	if (!*s)
		return -1;
	for (; *s; s++) {
		if (*s < '0' || *s > '9' || v > INT32_MAX)
			return -1;
		v = v * 10 + (*s - '0');
	}
	return v;
}

static const struct {
	const char *name;
	size_t number; /* offset of an int64_t; 0: a text */
	size_t text;
	unsigned weight; /* the heavier of two names wins */
} variables[] = {
	{ "RANK", offsetof(struct rank_process, rank), 0, 9 },
	{ "OMPI_COMM_WORLD_RANK", offsetof(struct rank_process, rank), 0, 3 },
	{ "PMIX_RANK", offsetof(struct rank_process, rank), 0, 2 },
	{ "PMI_RANK", offsetof(struct rank_process, rank), 0, 2 },
	{ "SLURM_PROCID", offsetof(struct rank_process, rank), 0, 1 },
	{ "LOCAL_RANK", offsetof(struct rank_process, local_rank), 0, 9 },
	{ "OMPI_COMM_WORLD_LOCAL_RANK", offsetof(struct rank_process, local_rank), 0, 3 },
	{ "SLURM_LOCALID", offsetof(struct rank_process, local_rank), 0, 1 },
	{ "WORLD_SIZE", offsetof(struct rank_process, world_size), 0, 9 },
	{ "OMPI_COMM_WORLD_SIZE", offsetof(struct rank_process, world_size), 0, 3 },
	{ "SLURM_NTASKS", offsetof(struct rank_process, world_size), 0, 1 },
	{ "TORCH_FR_DUMP_TEMP_FILE", 0, offsetof(struct rank_process, dump_prefix), 9 },
	{ "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", 0, offsetof(struct rank_process, dump_prefix), 8 },
	{ "TORCH_FR_DEBUG_INFO_PIPE_FILE", 0, offsetof(struct rank_process, pipe_prefix), 8 },
	{ "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", 0, offsetof(struct rank_process, pipe_prefix), 9 },
	{ "HOME", 0, offsetof(struct rank_process, home), 9 },
	{ "XDG_CACHE_HOME", 0, offsetof(struct rank_process, cache), 9 },
	{ "CUDA_VISIBLE_DEVICES", 0, offsetof(struct rank_process, visible), 9 },
	{ "HIP_VISIBLE_DEVICES", 0, offsetof(struct rank_process, visible), 5 },
	{ "ROCR_VISIBLE_DEVICES", 0, offsetof(struct rank_process, visible), 4 },
	{ "MASTER_PORT", offsetof(struct rank_process, master_port), 0, 9 },
	{ "MASTER_ADDR", 0, offsetof(struct rank_process, master), 9 },
	{ "TORCHELASTIC_RUN_ID", 0, offsetof(struct rank_process, run_id), 9 },
	{ "SLURM_JOB_ID", 0, offsetof(struct rank_process, run_id), 5 },
};

static void take_variable(struct rank_process *p, const char *entry, unsigned *weights)
{
	const char *value = strchr(entry, '=');

	if (!value)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		size_t n = strlen(variables[i].name), at = variables[i].number + variables[i].text;

		if ((size_t)(value - entry) != n || memcmp(entry, variables[i].name, n) ||
		    weights[at] >= variables[i].weight)
			continue;
		if (variables[i].text) {
			if (strlen(value + 1) >= RANK_TEXT_MAX)
				return;
			strcpy((char *)p + at, value + 1);
		} else if (whole(value + 1) >= 0) {
			*(int64_t *)(void *)((char *)p + at) = whole(value + 1);
			p->by_rank |=
			    at == offsetof(struct rank_process, rank) && variables[i].weight == 9;
		} else {
			return;
		}
		weights[at] = variables[i].weight;
	}
}

static ssize_t read_environment(const char *proc, struct rank_process *p)
{
	unsigned weights[sizeof(struct rank_process)] = { 0 };
	_cleanup_free_ char *text = xmalloc(ENVIRON_MAX);
	char path[128];
	ssize_t len;

	snprintf(path, sizeof(path), "%s/%d/environ", proc, (int)p->pid);
	len = read_small(path, text, ENVIRON_MAX);
	for (ssize_t at = 0; at < len; at += (ssize_t)strlen(text + at) + 1)
		take_variable(p, text + at, weights);
	return len;
}

static struct rank_process process_unknown(pid_t pid)
{
	return (struct rank_process){
		.pid = pid, .rank = -1, .local_rank = -1, .world_size = -1, .master_port = -1
	};
}

/* --- the child --- */

static bool tell(int fd, const struct message *m)
{
	const char *p = (const char *)m;
	size_t len = m->kind == MESSAGE_FOUND ? sizeof(*m) : offsetof(struct message, p);

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

struct scan {
	const char *proc;
	const pid_t *pids;
	uint32_t n;
	bool asked; /* those without a rank are wanted too */
};

static _Noreturn void child(const struct scan *s, uint32_t from, int fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (uint32_t i = from; i < s->n; i++) {
		struct message m = { MESSAGE_BEGIN, i, process_unknown(s->pids[i]) };
		char path[128];
		struct stat st;
		ssize_t len;

		if (!tell(fd, &m))
			_exit(1);
		snprintf(path, sizeof(path), "%s/%d", s->proc, (int)s->pids[i]);
		if (stat(path, &st) < 0 || !read_stat(s->proc, &m.p))
			continue;
		m.p.uid = st.st_uid;
		len = read_environment(s->proc, &m.p);
		m.p.denied = len == -EACCES || len == -EPERM;
		if (s->asked || m.p.rank >= 0)
			m.kind = MESSAGE_FOUND;
		else if (m.p.denied)
			m.kind = MESSAGE_DENIED;
		else
			continue;
		tell(fd, &m);
	}
	_exit(0);
}

/* --- the parent --- */

/* All of a message, or false when the child is silent or gone. */
static bool hear(int fd, void *dst, size_t len)
{
	char *p = dst;

	while (len) {
		struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
		ssize_t n;

		if (poll(&poll_fd, 1, SILENCE_MS) <= 0)
			return false;
		n = read(fd, p, len);
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

/* Listens from `from` on; returns the process that the child fell silent at, or s->n. */
static uint32_t listen_from(const struct scan *s, uint32_t from, struct rank_list *all)
{
	struct message m = { .at = from };
	int ends[2], status;
	bool done = false;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return s->n;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		child(s, from, ends[1]);
	}
	close(ends[1]);
	while (pid > 0 && hear(ends[0], &m, offsetof(struct message, p))) {
		if (m.kind == MESSAGE_DENIED)
			all->denied++;
		if (m.kind != MESSAGE_FOUND)
			continue;
		if (!hear(ends[0], (char *)&m + offsetof(struct message, p),
			  sizeof(m) - offsetof(struct message, p)))
			break;
		*vec_push(&all->v) = m.p;
	}
	close(ends[0]);
	if (pid > 0) {
		/* An end of file comes from a child that is done; silence from one that hangs. */
		for (int i = 0; i < 40 && !done; i++) {
			done = waitpid(pid, &status, WNOHANG) == pid;
			if (!done)
				nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
			if (i == 20)
				kill(pid, SIGKILL);
		}
	}
	return done && WIFEXITED(status) && !WEXITSTATUS(status) ? s->n : m.at;
}

static int by_number(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

static uint32_t all_processes(const char *proc, pid_t **ret)
{
	VEC(pid_t) pids = { 0 };
	DIR *dir = opendir(proc);
	struct dirent *e;

	while (dir && pids.n < PROCESSES_MAX && (e = readdir(dir)))
		if (isdigit((unsigned char)e->d_name[0]) && atoi(e->d_name) != getpid())
			*vec_push(&pids) = atoi(e->d_name);
	if (dir)
		closedir(dir);
	if (pids.n)
		qsort(pids.v, pids.n, sizeof(*pids.v), by_number);
	*ret = pids.v;
	return (uint32_t)pids.n;
}

/* --- who of them is a rank --- */

static struct rank_process *find_pid(struct rank_list *l, pid_t pid)
{
	for (size_t i = 0; i < l->v.n; i++)
		if (l->v.v[i].pid == pid)
			return &l->v.v[i];
	return NULL;
}

/* torch calls a rank's main thread pt_main_thread, a data-loader's worker pt_data_worker: such a
   worker is no rank even when its rank is gone. */
static bool is_python(const struct rank_process *p)
{
	return !strncmp(p->comm, "python", 6) || !strncmp(p->comm, "pt_main", 7) ||
	       !strncmp(p->comm, "ray::", 5);
}

static bool is_worker(const struct rank_process *p)
{
	return !strncmp(p->comm, "pt_data", 7);
}

/* Is a an ancestor of p, through processes that share its number? */
static bool is_above(struct rank_list *all, const struct rank_process *a,
		     const struct rank_process *p)
{
	for (unsigned depth = 0; depth < 64 && a->rank == p->rank; depth++) {
		const struct rank_process *up = find_pid(all, p->parent);

		if (!up || up->rank != p->rank)
			return false;
		if (up->pid == a->pid)
			return true;
		p = up;
	}
	return false;
}

/*
 * Takes the processes of one kind: Python first, then what has none above or below it. The topmost
 * is the rank, those below it are its workers; a shell or a profiler that starts a rank is neither.
 */
static void choose(struct rank_list *all, bool by_rank, bool python, struct rank_list *ret)
{
	for (size_t i = 0; i < all->v.n; i++) {
		struct rank_process *p = &all->v.v[i];
		bool top = true, starts = false;

		if (p->stuck && python && is_python(p))
			*vec_push(&ret->v) = *p;
		if (p->state == 'Z' || p->rank < 0 || p->by_rank != by_rank ||
		    is_python(p) != python)
			continue;
		for (size_t k = 0; k < all->v.n && top; k++)
			top = is_python(&all->v.v[k]) != python || !is_above(all, &all->v.v[k], p);
		for (size_t k = 0; k < ret->v.n; k++) {
			starts |= is_above(all, p, &ret->v.v[k]);
			if (is_above(all, &ret->v.v[k], p)) {
				ret->v.v[k].workers++;
				top = false;
			}
		}
		if (top && !starts && !is_worker(p))
			*vec_push(&ret->v) = *p;
	}
}

/* Processes start at so many ticks after the machine did. */
static void settle_start(struct rank_list *l)
{
	struct timespec now, up;
	long ticks = sysconf(_SC_CLK_TCK);
	int64_t boot_ns;

	clock_gettime(CLOCK_REALTIME, &now);
	clock_gettime(CLOCK_BOOTTIME, &up);
	boot_ns = (now.tv_sec - up.tv_sec) * INT64_C(1000000000) + now.tv_nsec - up.tv_nsec;
	for (size_t i = 0; i < l->v.n; i++)
		l->v.v[i].started_ns =
		    (uint64_t)(boot_ns +
			       l->v.v[i].start_ticks * (1000000000 / (ticks > 0 ? ticks : 100)));
}

static int by_rank_number(const void *a, const void *b)
{
	const struct rank_process *x = a, *y = b;

	if (x->rank != y->rank)
		return (x->rank > y->rank) - (x->rank < y->rank);
	return (x->pid > y->pid) - (x->pid < y->pid);
}

static bool is_of_job(const struct rank_process *a, const struct rank_process *b)
{
	return a->master_port == b->master_port && !strcmp(a->master, b->master) &&
	       !strcmp(a->run_id, b->run_id);
}

static bool has_rank(const struct rank_list *l, size_t n, unsigned job, int64_t rank)
{
	for (size_t i = 0; i < n; i++)
		if (l->v.v[i].job == job && l->v.v[i].rank == rank)
			return true;
	return false;
}

/* One job, unless a rank's number is there twice: then those that meet at one place under one name
   are one, each number once. */
static void settle_jobs(struct rank_list *l)
{
	bool twice = false;
	unsigned n = 0;

	for (size_t i = 1; i < l->v.n; i++) /* they come by rank */
		twice |= l->v.v[i].rank >= 0 && l->v.v[i].rank == l->v.v[i - 1].rank;
	for (size_t i = 0; i < l->v.n; i++) {
		struct rank_process *r = &l->v.v[i];

		r->job = twice ? 0 : 1;
		for (size_t k = 0; k < i && !r->job; k++)
			if (is_of_job(&l->v.v[k], r) && !has_rank(l, i, l->v.v[k].job, r->rank))
				r->job = l->v.v[k].job;
		r->job = r->job ? r->job : ++n;
	}
}

void ranks_find(const char *proc, const pid_t *asked, size_t n_asked, struct rank_list *ret)
{
	_cleanup_free_ pid_t *pids = NULL;
	struct rank_list all = { 0 };
	struct scan scan = { .proc = proc, .asked = n_asked > 0 };
	bool by_rank = false;
	uint32_t n, at = 0;

	*ret = (struct rank_list){ 0 };
	if (n_asked) {
		n = (uint32_t)n_asked;
		pids = xmalloc(n * sizeof(*pids));
		memcpy(pids, asked, n * sizeof(*pids));
	} else {
		n = all_processes(proc, &pids);
	}
	scan.pids = pids;
	scan.n = n;
	while (at < n && all.stuck < STUCK_MAX) {
		at = listen_from(&scan, at, &all);
		if (at == n)
			break;
		/* Its state can be read whatever it sleeps in. */
		*vec_push(&all.v) = process_unknown(pids[at]);
		all.v.v[all.v.n - 1].stuck = true;
		read_stat(proc, &all.v.v[all.v.n - 1]);
		all.stuck++;
		at++;
	}
	ret->denied = all.denied;
	ret->stuck = all.stuck;
	for (size_t i = 0; i < all.v.n; i++)
		by_rank |= all.v.v[i].by_rank;
	for (size_t i = 0; i < all.v.n && n_asked; i++) {
		all.v.v[i].asked = true;
		*vec_push(&ret->v) = all.v.v[i];
	}
	if (!n_asked) {
		choose(&all, by_rank, true, ret);
		if (by_rank)
			choose(&all, by_rank, false, ret);
	}
	settle_start(ret);
	if (ret->v.n)
		qsort(ret->v.v, ret->v.n, sizeof(*ret->v.v), by_rank_number);
	settle_jobs(ret);
	free(all.v.v);
}

void ranks_done(struct rank_list *l)
{
	free(l->v.v);
	*l = (struct rank_list){ 0 };
}
