/* SPDX-License-Identifier: Apache-2.0 */
/* base.c - errors, cleanup and allocation that cannot fail quietly. */
#include "base/base.h"

#include <stdio.h>
#include <unistd.h>

int error_set(struct error *e, int code, const char *format, ...)
{
	va_list ap;

	if (!e)
		return code;
	va_start(ap, format);
	vsnprintf(e->text, sizeof(e->text), format, ap);
	va_end(ap);
	return code;
}

void cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

void cleanup_free(void *p)
{
	void *held;

	memcpy(&held, p, sizeof(held));
	free(held);
}

int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -EBADF;
	return taken;
}

static _Noreturn void out_of_memory(size_t size)
{
	fprintf(stderr, "lockstep: out of memory (%zu bytes more were needed)\n", size);
	_exit(70);
}

void *xmalloc(size_t size)
{
	void *p = malloc(size ? size : 1);

	if (!p)
		out_of_memory(size);
	return p;
}

void *xcalloc(size_t count, size_t size)
{
	void *p = calloc(count ? count : 1, size ? size : 1);

	if (!p)
		out_of_memory(count * size);
	return p;
}

void *xrealloc(void *p, size_t size)
{
	void *q = realloc(p, size ? size : 1);

	if (!q)
		out_of_memory(size);
	return q;
}

char *xstrdup(const char *s)
{
	size_t size = strlen(s) + 1;

	return memcpy(xmalloc(size), s, size);
}

char *xasprintf(const char *format, ...)
{
	va_list ap;
	char *s;
	int n;

	va_start(ap, format);
	n = vasprintf(&s, format, ap);
	va_end(ap);
	if (n < 0)
		out_of_memory(0);
	return s;
}

void *vec_reserve(void *v, size_t *cap, size_t need, size_t size)
{
	size_t grown = *cap ? *cap : size > 256 ? 2 : 16;

	if (need <= *cap)
		return v;
	while (grown < need)
		grown += grown / 2 + 1;
	if (size && grown > SIZE_MAX / size)
		out_of_memory(SIZE_MAX);
	*cap = grown;
	return xrealloc(v, grown * size);
}
