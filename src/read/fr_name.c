/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fr_name.c - rank and host in the names that dumps have.
 *
 * PyTorch writes PREFIX and the rank without a separator or an extension, and any prefix may be
 * set; people add host names in front, a folder for each host, and extensions.
 */
#include <strings.h>

#include "read/fr.h"
#include "read/fr_inside.h"
#include "read/survey.h"

#define RANK_DIGITS_MAX 7u /* more of them are a time or a job's number */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	const char *colon = strrchr(base, ':');

	return colon ? colon + 1 : base;
}

/* Where extensions begin: at the first dot behind which letters come. */
static size_t stem_of(const char *base)
{
	for (size_t i = 1; base[i]; i++)
		if (base[i] == '.' && is_letter(base[i + 1]))
			return i;
	return strlen(base);
}

int64_t fr_rank_of_path(const char *path)
{
	const char *base = base_of(path);
	size_t end = stem_of(base), at = end;
	int64_t rank = survey_rank_of_name(path);

	if (rank >= 0)
		return rank;
	while (at && is_digit(base[at - 1]))
		at--;
	if (at == end || end - at > RANK_DIGITS_MAX)
		return -1;
	for (rank = 0; at < end; at++)
		rank = rank * 10 + (base[at] - '0');
	return rank;
}

/* How hosts are called, in front of a number. */
static const char *const host_words[] = {
	"node", "host", "worker", "compute", "machine", "server", "srv",  "vm",	  "nid",  "cn",
	"gn",	"pod",	"dgx",	  "hgx",     "ip",	"gpu-",	  "h100", "h200", "a100", "b200",
};

/* What has a number behind it and is no host, though it begins a dump's name. */
static const char *const no_hosts[] = {
	"rank",	 "trace", "dump", "step", "iter",  "iteration", "epoch", "run",	  "job",
	"try",	 "test",  "case", "time", "date",  "restart",	"exp",	 "slurm", "nccl",
	"torch", "world", "size", "part", "local", "pid",	"proc",	 "task",  "attempt",
};

static bool is_word(const char *const *words, size_t n, const char *s, size_t len, bool whole)
{
	for (size_t i = 0; i < n; i++) {
		size_t l = strlen(words[i]);

		if (l <= len && (l == len || !whole) && !strncasecmp(s, words[i], l))
			return true;
	}
	return false;
}

/* Letters first and a number in it; a folder only if it is called as hosts are. */
static bool is_host(const char *s, size_t len, bool folder)
{
	size_t letters = 0, digits = 0;

	while (letters < len && is_letter(s[letters]))
		letters++;
	for (size_t i = letters; i < len; i++) {
		if (!is_letter(s[i]) && !is_digit(s[i]) && s[i] != '-' && s[i] != '.')
			return false;
		digits += is_digit(s[i]);
	}
	if (!letters || !digits)
		return false;
	if (is_word(host_words, ARRAY_SIZE(host_words), s, len, false))
		return true;
	return !folder && letters >= 3 && digits >= 2 &&
	       !is_word(no_hosts, ARRAY_SIZE(no_hosts), s, letters, true);
}

bool fr_host_of_path(const char *path, const char **ret, size_t *ret_len)
{
	const char *base = base_of(path), *folder;
	const char *cut = strchr(base, '_');

	if (cut && is_host(base, (size_t)(cut - base), false)) {
		*ret = base;
		*ret_len = (size_t)(cut - base);
		return true;
	}
	if (base == path || base[-1] != '/')
		return false;
	for (folder = base - 1; folder > path && folder[-1] != '/' && folder[-1] != ':'; folder--)
		;
	if (!is_host(folder, (size_t)(base - 1 - folder), true))
		return false;
	*ret = folder;
	*ret_len = (size_t)(base - 1 - folder);
	return true;
}
