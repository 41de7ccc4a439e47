/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fr_name.c - rank and host in the names that dumps have.
 *
 * PyTorch writes PREFIX and the rank without a separator or an extension, and any prefix may be
 * set; people add host names in front, a folder for each host, and extensions.
 */
#include <strings.h>

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

/* What is followed by a number and is no host. */
static const char *const no_hosts[] = {
	"rank",	   "trace",   "dump",  "fr",   "step", "iter",	"epoch",    "run",     "job",
	"try",	   "attempt", "t",     "pg",   "test", "case",	"time",	    "date",    "restart",
	"version", "v",	      "slurm", "nccl", "gloo", "torch", "recorder", "fr_rank", "snapshot",
	"global",  "world",   "size",  "tp",   "pp",   "dp",	"ep",	    "cp",      "part",
	"gpu",	   "local",   "pid",   "proc", "task", "tmp",	"log",	    "hang",
};

/* Letters first, a number in it, and the letters before the number are no word of no_hosts. */
static bool is_host(const char *s, size_t len)
{
	size_t letters = 0;
	bool digit = false;

	while (letters < len && is_letter(s[letters]))
		letters++;
	if (!letters)
		return false;
	for (size_t i = letters; i < len; i++) {
		if (!is_letter(s[i]) && !is_digit(s[i]) && s[i] != '-' && s[i] != '.')
			return false;
		digit = digit || is_digit(s[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(no_hosts); i++)
		if (strlen(no_hosts[i]) == letters && !strncasecmp(s, no_hosts[i], letters))
			return false;
	return digit;
}

bool fr_host_of_path(const char *path, const char **ret, size_t *ret_len)
{
	const char *base = base_of(path), *folder;
	const char *cut = strchr(base, '_');

	if (cut && is_host(base, (size_t)(cut - base))) {
		*ret = base;
		*ret_len = (size_t)(cut - base);
		return true;
	}
	if (base == path || base[-1] != '/')
		return false;
	for (folder = base - 1; folder > path && folder[-1] != '/'; folder--)
		;
	if (!is_host(folder, (size_t)(base - 1 - folder)))
		return false;
	*ret = folder;
	*ret_len = (size_t)(base - 1 - folder);
	return true;
}
