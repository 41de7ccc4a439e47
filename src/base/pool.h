/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - the only threads of the offline path: a fixed number of workers over numbered tasks. */
#pragma once
#include "base/base.h"

/* Runs task(user, i) for i in 0..n-1 on up to `threads` threads (0: one per CPU we may use), each i
   once, lower numbers first; returns when all are done. With one thread no thread is made. */
void pool_run(unsigned threads, size_t n, void (*task)(void *user, size_t i), void *user);
unsigned pool_cpus(void); /* CPUs that we may use: affinity and cgroup quota */
