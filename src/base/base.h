/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base.h - what every file may assume: fixed-width types, cleanup attributes, errors.
 *
 * Functions return int: >= 0 is good, a negative errno is bad. Outputs are called ret_* and stay
 * untouched on failure. What a person should read goes to one struct error, last.
 */
#pragma once

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_SIZE(a)	  (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)	  ((a) < (b) ? (a) : (b))
#define MAX(a, b)	  ((a) > (b) ? (a) : (b))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
#define NO_ID		  UINT32_MAX /* an interned string or a table row that is not there */

/* Detail of a failure for people: what, where, what next. One line, no newline. */
struct error {
	char text[512];
};

/* Formats *e (NULL is fine) and returns code, so that callers can `return error_set(...)`. */
int error_set(struct error *e, int code, const char *format, ...) PRINTF_LIKE(3, 4);

void cleanup_close(int *fd); /* closes *fd if it is >= 0 */
void cleanup_free(void *p);  /* frees what the pointer variable at p holds */
int take_fd(int *fd);	     /* returns *fd and disarms its cleanup */

#define _cleanup_close_ __attribute__((cleanup(cleanup_close)))
#define _cleanup_free_	__attribute__((cleanup(cleanup_free)))

/* Allocation that cannot be met ends the process with one clear line and status 70. */
void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *s);
char *xasprintf(const char *format, ...) PRINTF_LIKE(1, 2);

/* A growable array: VEC(struct foo) foos = {}; *vec_push(&foos) = foo; free(foos.v). */
#define VEC(T)                                                                                     \
	struct {                                                                                   \
		T *v;                                                                              \
		size_t n, cap;                                                                     \
	}
#define vec_grow(p, count)                                                                         \
	((p)->n + (count) <= (p)->cap                                                              \
	     ? (void)0                                                                             \
	     : (void)((p)->v = vec_reserve((p)->v, &(p)->cap, (p)->n + (count), sizeof(*(p)->v))))
#define vec_push(p) (vec_grow(p, 1), &(p)->v[(p)->n++])
void *vec_reserve(void *v, size_t *cap, size_t need, size_t size);
