/* SPDX-License-Identifier: Apache-2.0 */
/* small_files.c - files that are read in one go: never a device's bytes, never without a bound. */
#include "node/small_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_quietly(const char *path)
{
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* Up to max bytes, ended by a NUL; NULL and errno. */
static char *read_text(int fd, size_t max, size_t *ret_len)
{
	char *text = xmalloc(max + 1);
	size_t len = 0;

	while (len < max) {
		ssize_t n = read(fd, text + len, max - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			free(text);
			return NULL;
		}
		if (!n)
			break;
		len += (size_t)n;
	}
	text[len] = 0;
	*ret_len = len;
	return text;
}

char *file_text(const char *path, size_t max, size_t *ret_len)
{
	_cleanup_close_ int fd = open_quietly(path);
	size_t len;
	char *text = fd < 0 ? NULL : read_text(fd, max, &len);

	if (!text)
		return NULL;
	if (ret_len)
		*ret_len = len;
	while (len && text[len - 1] == '\n')
		len--;
	text[len] = 0;
	return text;
}

char *file_whole(const char *path, size_t max, size_t *ret_len)
{
	_cleanup_close_ int fd = open_quietly(path);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > max) {
		errno = S_ISREG(st.st_mode) ? EFBIG : EINVAL;
		return NULL;
	}
	return read_text(fd, max, ret_len);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

size_t names_in(const char *folder, char *names[], size_t most)
{
	DIR *dir = opendir(folder);
	struct dirent *e;
	size_t n = 0;

	while (dir && n < most && (e = readdir(dir)))
		if (e->d_name[0] != '.')
			names[n++] = xstrdup(e->d_name);
	if (dir)
		closedir(dir);
	qsort(names, n, sizeof(*names), by_name);
	return n;
}

json_t *text_json(const char *s)
{
	json_t *j = s ? json_string(s) : json_null();
	char *copy;

	if (j)
		return j;
	copy = xstrdup(s);
	for (char *p = copy; *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	j = json_string(copy);
	free(copy);
	return j;
}
