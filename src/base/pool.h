/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - the only threads of the offline path: a fixed number of workers over numbered tasks. */
#pragma once
#include "base/base.h"

/* Runs task(user, i) for i in 0..n-1 on up to `threads` threads (0: one per CPU we may use), each i
   once, lower numbers first; returns when all are done. With one thread no thread is made. */
void pool_run(unsigned threads, size_t n, void (*task)(void *user, size_t i), void *user);

/* The same, while the caller does nothing but call watch(watch_user) every interval_ms: for a
   progress bar. Without a watch it is pool_run. */
struct pool_watch {
	void (*watch)(void *user);
	void *user;
	unsigned interval_ms;
};
void pool_run_watched(unsigned threads, size_t n, void (*task)(void *user, size_t i), void *user,
		      const struct pool_watch *watch);

/* For what the tasks of a pool share: one at a time. */
struct pool_lock *pool_lock_new(void);
void pool_lock(struct pool_lock *l);
void pool_unlock(struct pool_lock *l);
struct pool_lock *pool_lock_free(struct pool_lock *l); /* NULL is fine; returns NULL */

unsigned pool_cpus(void); /* CPUs that we may use: affinity and cgroup quota */
/*
 * The quota of a process whose /proc/self/cgroup reads `membership`, in a cgroup file system
 * mounted at `root` (version 2, or 1 with its cpu controller below it), in whole CPUs, rounded up;
 * 0: no quota.
 */
unsigned pool_quota_cpus(const char *membership, const char *root);
