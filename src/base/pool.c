/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - workers that take the next number until none is left.
 *
 * Tasks differ in size by orders of magnitude, so nothing is dealt out beforehand. Whoever waits
 * for the workers joins them, which also makes all that they wrote visible.
 */
#include "base/pool.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#define THREADS_LIMIT 128 /* each holds a few files open; 256 is the bound for all together */

struct pool {
	_Atomic size_t next;
	size_t n;
	void (*task)(void *user, size_t i);
	void *user;
	pthread_mutex_t lock; /* of running, for the watch */
	pthread_cond_t idle;
	unsigned running;
};

struct pool_lock {
	pthread_mutex_t mutex;
};

struct pool_lock *pool_lock_new(void)
{
	struct pool_lock *l = xcalloc(1, sizeof(*l));

	pthread_mutex_init(&l->mutex, NULL);
	return l;
}

void pool_lock(struct pool_lock *l)
{
	pthread_mutex_lock(&l->mutex);
}

void pool_unlock(struct pool_lock *l)
{
	pthread_mutex_unlock(&l->mutex);
}

struct pool_lock *pool_lock_free(struct pool_lock *l)
{
	if (l) {
		pthread_mutex_destroy(&l->mutex);
		free(l);
	}
	return NULL;
}

static void *pool_work(void *arg)
{
	struct pool *p = arg;

	for (;;) {
		size_t i = atomic_fetch_add(&p->next, 1);

		if (i >= p->n)
			break;
		p->task(p->user, i);
	}
	pthread_mutex_lock(&p->lock);
	p->running--;
	pthread_cond_signal(&p->idle);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void pool_wait_watching(struct pool *p, const struct pool_watch *watch)
{
	struct timespec until;

	pthread_mutex_lock(&p->lock);
	while (p->running) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += (long)watch->interval_ms * 1000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&p->idle, &p->lock, &until);
		pthread_mutex_unlock(&p->lock);
		watch->watch(watch->user);
		pthread_mutex_lock(&p->lock);
	}
	pthread_mutex_unlock(&p->lock);
}

void pool_run_watched(unsigned threads, size_t n, void (*task)(void *user, size_t i), void *user,
		      const struct pool_watch *watch)
{
	struct pool p = { .n = n, .task = task, .user = user };
	pthread_t ids[THREADS_LIMIT];
	pthread_condattr_t attr;
	unsigned made = 0, want;

	if (!threads)
		threads = pool_cpus();
	threads = (unsigned)MIN((size_t)MIN(threads, (unsigned)THREADS_LIMIT), n);
	want = watch ? threads : threads - (threads > 0);

	pthread_mutex_init(&p.lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p.idle, &attr);
	for (; made < want; made++) {
		pthread_mutex_lock(&p.lock);
		p.running++;
		pthread_mutex_unlock(&p.lock);
		if (pthread_create(&ids[made], NULL, pool_work, &p)) {
			pthread_mutex_lock(&p.lock);
			p.running--;
			pthread_mutex_unlock(&p.lock);
			break; /* fewer workers will do; none: the caller works alone */
		}
	}
	if (watch && made) {
		pool_wait_watching(&p, watch);
	} else {
		pthread_mutex_lock(&p.lock);
		p.running++;
		pthread_mutex_unlock(&p.lock);
		pool_work(&p);
	}
	for (unsigned i = 0; i < made; i++)
		pthread_join(ids[i], NULL);
	pthread_cond_destroy(&p.idle);
	pthread_condattr_destroy(&attr);
	pthread_mutex_destroy(&p.lock);
}

void pool_run(unsigned threads, size_t n, void (*task)(void *user, size_t i), void *user)
{
	pool_run_watched(threads, n, task, user, NULL);
}

static bool read_text(const char *path, char *text, size_t size)
{
	FILE *f = fopen(path, "re");
	size_t n;

	if (!f)
		return false;
	n = fread(text, 1, size - 1, f);
	text[n] = 0;
	fclose(f);
	return n > 0;
}

static unsigned quota_of(long long quota, long long period)
{
	if (quota <= 0 || period <= 0)
		return 0;
	return (unsigned)MIN((quota + period - 1) / period, (long long)INT_MAX);
}

/* The quota of one folder of either version; 0: none stated there. */
static unsigned quota_in(const char *folder)
{
	char path[PATH_MAX + 32], text[64], period_text[64];
	long long quota, period;

	snprintf(path, sizeof(path), "%s/cpu.max", folder);
	if (read_text(path, text, sizeof(text)))
		return sscanf(text, "%lld %lld", &quota, &period) == 2 ? quota_of(quota, period)
								       : 0;
	snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder);
	if (!read_text(path, text, sizeof(text)))
		return 0;
	snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
	if (!read_text(path, period_text, sizeof(period_text)))
		return 0;
	return quota_of(atoll(text), atoll(period_text));
}

/* The least of a folder and all above it up to the mount: each of them binds. */
static unsigned quota_upward(const char *mount, const char *group)
{
	char folder[PATH_MAX];
	size_t floor = strlen(mount);
	unsigned least = 0;

	if (snprintf(folder, sizeof(folder), "%s%s", mount, group) >= (int)sizeof(folder))
		return 0;
	for (;;) {
		unsigned quota = quota_in(folder);
		char *slash;

		if (quota && (!least || quota < least))
			least = quota;
		slash = strrchr(folder, '/');
		if (!slash || (size_t)(slash - folder) < floor)
			return least;
		*slash = 0;
	}
}

/* Is "cpu" one of the controllers in a list such as "cpu,cpuacct"? */
static bool lists_cpu(const char *controllers, size_t len)
{
	for (const char *p = controllers, *end = controllers + len; p < end;) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		size_t n = (size_t)((comma ? comma : end) - p);

		if (n == 3 && !memcmp(p, "cpu", 3))
			return true;
		p += n + 1;
	}
	return false;
}

unsigned pool_quota_cpus(const char *membership, const char *root)
{
	char mount[PATH_MAX], group[PATH_MAX];
	unsigned least = 0, quota;

	for (const char *line = membership, *eol; line && *line; line = eol ? eol + 1 : NULL) {
		const char *colon = strchr(line, ':');
		const char *second = colon ? strchr(colon + 1, ':') : NULL;

		eol = strchr(line, '\n');
		if (!second || (eol && second > eol))
			continue;
		snprintf(group, sizeof(group), "%.*s",
			 eol ? (int)MIN(eol - second - 1, PATH_MAX - 1) : PATH_MAX - 1, second + 1);
		if (second == colon + 1)
			snprintf(mount, sizeof(mount), "%s", root);
		else if (lists_cpu(colon + 1, (size_t)(second - colon - 1)))
			snprintf(mount, sizeof(mount), "%s/%.*s", root, (int)(second - colon - 1),
				 colon + 1);
		else
			continue;
		quota = quota_upward(mount, group);
		if (quota && (!least || quota < least))
			least = quota;
	}
	return least;
}

unsigned pool_cpus(void)
{
	cpu_set_t *set = CPU_ALLOC(CPU_SETSIZE * 8);
	size_t size = CPU_ALLOC_SIZE(CPU_SETSIZE * 8);
	char membership[8192];
	unsigned cpus = 1, quota = 0;

	if (set && !sched_getaffinity(0, size, set))
		cpus = (unsigned)MAX(CPU_COUNT_S(size, set), 1);
	if (set)
		CPU_FREE(set);
	if (read_text("/proc/self/cgroup", membership, sizeof(membership)))
		quota = pool_quota_cpus(membership, "/sys/fs/cgroup");
	return quota ? MIN(cpus, quota) : cpus;
}
