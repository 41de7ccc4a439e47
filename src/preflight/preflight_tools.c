/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_tools.c - what probes need: small files, commands, digests, and values that may be
 * told.
 *
 * All of it runs in a probe's child, which dies at its deadline with the commands that it began.
 */
#include "preflight/preflight_inside.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/collect_probes.h"
#include "meet/digest.h"

#define TOLD_MOST 512u /* bytes of a value; of longer ones the digest */

char *system_text(const char *path, size_t max)
{
	_cleanup_free_ char *full = xasprintf("%s%s", preflight_root(), path);

	return file_text(full, max, NULL);
}

void short_digest(const void *p, size_t len, char ret[17])
{
	uint8_t digest[DIGEST_BYTES];
	char hex[DIGEST_HEX];
	struct error ignored;
	struct digest *d;

	strcpy(ret, "?");
	if (digest_open(NULL, 0, &d, &ignored) < 0)
		return;
	digest_add(d, p, len);
	digest_end(d, digest);
	digest_hex(digest, hex);
	memcpy(ret, hex, 16);
	ret[16] = 0;
}

/* "_PATH" is not the "_pat" of a token. */
static bool is_secret(const char *name)
{
	size_t len = strlen(name);

	if (len > 5 && !strcmp(name + len - 5, "_PATH"))
		len -= 5;
	return is_secret_name(name, len);
}

json_t *told_value(const char *name, const char *value)
{
	char digest[17];

	if (!is_secret(name) && !(strstr(value, "://") && strchr(value, '@')) &&
	    strlen(value) <= TOLD_MOST)
		return text_json(value);
	short_digest(value, strlen(value), digest);
	return json_sprintf("sha256 %s..", digest);
}

json_t *facts_group(json_t *facts, const char *group)
{
	json_t *items = json_object_get(facts, "items"), *g;

	if (!items) {
		items = json_object();
		json_object_set_new(facts, "items", items);
	}
	g = json_object_get(items, group);
	if (!g) {
		g = json_object();
		json_object_set_new(items, group, g);
	}
	return g;
}

static _Noreturn void become(char *const argv[], int out)
{
	int null = open("/dev/null", O_RDWR);

	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0)
		_exit(127);
	execvp(argv[0], argv);
	_exit(127);
}

char *command_text(char *const argv[], size_t max, struct error *reterr)
{
	int ends[2], status = 0;
	char *text;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0) {
		error_set(reterr, -errno, "%s: %s", argv[0], strerror(errno));
		return NULL;
	}
	pid = fork();
	if (pid == 0)
		become(argv, ends[1]);
	close(ends[1]);
	text = xmalloc(max + 1);
	while (pid > 0 && len < max && (n = read(ends[0], text + len, max - len)) != 0) {
		if (n < 0 && errno != EINTR)
			break;
		len += n > 0 ? (size_t)n : 0;
	}
	close(ends[0]);
	text[len] = 0;
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid > 0 && (len == max || (WIFEXITED(status) && WEXITSTATUS(status) == 0)))
		return text;
	free(text);
	error_set(reterr, pid < 0 ? -EAGAIN : -EIO, "%s: %s", argv[0],
		  WIFEXITED(status) && WEXITSTATUS(status) == 127 ? "not there" : "it failed");
	return NULL;
}
