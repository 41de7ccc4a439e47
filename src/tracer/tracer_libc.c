/* SPDX-License-Identifier: Apache-2.0 */
/* tracer_libc.c - see tracer_libc.h. */
#include <fcntl.h>
#include "tracer/tracer_libc.h"

void text_number(struct text *t, uint64_t n)
{
	char digits[24], *p = digits + sizeof(digits) - 1;

	*p = 0;
	do
		*--p = (char)('0' + n % 10);
	while (n /= 10);
	text_add(t, p);
}

long file_read(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return -1;
	while (len < size - 1 && (n = read(fd, buf + len, size - 1 - len)) > 0)
		len += (size_t)n;
	close(fd);
	buf[len] = 0;
	return (long)len;
}

bool number_of(const char *s, int64_t *ret)
{
	int64_t n = 0;

	if (!s || !*s)
		return false;
	for (; *s; s++) {
		if (*s < '0' || *s > '9' || n > INT64_MAX / 10 - 1)
			return false;
		n = n * 10 + (*s - '0');
	}
	*ret = n;
	return true;
}

/* Weak: an older libc keeps them in libdl, which a program need not have. */
#if defined(__x86_64__)
#define OLD_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLD_VERSION "GLIBC_2.17"
#endif

#ifdef OLD_VERSION
extern void *old_dlopen(const char *path, int flags) __attribute__((weak));
extern void *old_dlsym(void *library, const char *name) __attribute__((weak));
extern char *old_dlerror(void) __attribute__((weak));
__asm__(".symver old_dlopen, dlopen@" OLD_VERSION);
__asm__(".symver old_dlsym, dlsym@" OLD_VERSION);
__asm__(".symver old_dlerror, dlerror@" OLD_VERSION);
#else
#include <dlfcn.h>
#define old_dlopen  dlopen
#define old_dlsym   dlsym
#define old_dlerror dlerror
#endif

void *tracer_dlopen(const char *path, int flags)
{
	return old_dlopen ? old_dlopen(path, flags) : NULL;
}

void *tracer_dlsym(void *library, const char *name)
{
	return old_dlsym ? old_dlsym(library, name) : NULL;
}

const char *tracer_dlerror(void)
{
	const char *s = old_dlerror ? old_dlerror() : NULL;

	return s ? s : "no dlopen in this process";
}
