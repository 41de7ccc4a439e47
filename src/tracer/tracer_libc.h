/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracer_libc.h - the little of libc that the tracer may not take from libc: printing into a
 * buffer, symbols that newer versions of it have moved.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Text of a bounded length; what does not fit is cut, and the end is always there. */
struct text {
	char *at, *end;
};
static inline struct text text_in(char *buf, size_t size)
{
	buf[0] = 0;
	return (struct text){ buf, buf + size - 1 };
}
static inline void text_add(struct text *t, const char *s)
{
	while (*s && t->at < t->end)
		*t->at++ = *s++;
	*t->at = 0;
}
void text_number(struct text *t, uint64_t n);

/* The whole of a small file of /proc or /sys; bytes read, with a byte 0 behind them; -1: none. */
long file_read(const char *path, char *buf, size_t size);
bool number_of(const char *s, int64_t *ret); /* decimal, all of it */

static inline uint32_t thread_id(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

/*
 * dlopen and its like, wherever this libc has them: they moved from libdl to libc with version
 * 2.34. NULL where the process has none.
 */
void *tracer_dlopen(const char *path, int flags);
void *tracer_dlsym(void *library, const char *name);
/* The error of the last of the two, or a word. */
const char *tracer_dlerror(void);
