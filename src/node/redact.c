/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redact.c - one pass over bytes: words and paths, each looked up, each replaced by its alias.
 *
 * Names are told by where they stand: a user or a host as a whole word anywhere, a folder only
 * inside a path. An alias is a letter of its kind and a number, padded to the name's length.
 */
#include "node/redact.h"

#include <fcntl.h>
#include <stdio.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_MAX_LEN	255u
#define STEMS_MAX	64u
#define REDACT_FILE_MAX ((off_t)1 << 30)

enum redact_kind { KIND_NONE, KIND_USER, KIND_HOST, KIND_FOLDER, KIND_ADDRESS };

struct redact {
	struct intern names;
	VEC(uint8_t) kinds;	/* by id */
	VEC(char *) aliases;	/* by id */
	char *stems[STEMS_MAX]; /* hosts without their number */
	size_t n_stems;
	unsigned next[KIND_ADDRESS + 1];
};

struct redact *redact_new(void)
{
	return xcalloc(1, sizeof(struct redact));
}

struct redact *redact_free(struct redact *r)
{
	if (!r)
		return NULL;
	for (size_t i = 0; i < r->aliases.n; i++)
		free(r->aliases.v[i]);
	for (size_t i = 0; i < r->n_stems; i++)
		free(r->stems[i]);
	free(r->aliases.v);
	free(r->kinds.v);
	intern_done(&r->names);
	free(r);
	return NULL;
}

size_t redact_count(const struct redact *r)
{
	return r->aliases.n;
}

static bool is_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '-' || c == '_';
}

/* u0012 for the twelfth user of five letters; of shorter names the number's end. */
static char *alias_of(struct redact *r, enum redact_kind kind, size_t len)
{
	static const char letters[] = {
		[KIND_USER] = 'u', [KIND_HOST] = 'h', [KIND_FOLDER] = 'd', [KIND_ADDRESS] = 'a'
	};
	char digits[NAME_MAX_LEN + 16], *alias = xmalloc(len + 1);
	int n =
	    snprintf(digits, sizeof(digits), "%0*u", (int)MAX(len - 1, (size_t)1), ++r->next[kind]);

	alias[0] = letters[kind];
	memcpy(alias + 1, digits + (n - (int)(len - 1)), len - 1);
	alias[len] = 0;
	return alias;
}

static const char *alias_for(struct redact *r, enum redact_kind kind, const char *p, size_t len)
{
	uint32_t id;

	if (!len || len > NAME_MAX_LEN)
		return NULL;
	id = intern(&r->names, p, len);
	if (id == r->aliases.n) {
		*vec_push(&r->kinds) = (uint8_t)kind;
		*vec_push(&r->aliases) = alias_of(r, kind, len);
	}
	return r->aliases.v[id];
}

void redact_user(struct redact *r, const char *name)
{
	/* root is no secret, and a part of too many words. */
	if (strlen(name) > 1 && strcmp(name, "root"))
		alias_for(r, KIND_USER, name, strlen(name));
}

static bool is_digits(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] < '0' || p[i] > '9')
			return false;
	return len > 0;
}

void redact_host(struct redact *r, const char *name)
{
	size_t len = strlen(name), stem = len;
	const char *dot = strchr(name, '.');

	if (len < 2 || !strcmp(name, "localhost") || (name[0] >= '0' && name[0] <= '9'))
		return;
	alias_for(r, KIND_HOST, name, len);
	if (dot) { /* the short name, and each part of the domain but the last */
		_cleanup_free_ char *shorter = xasprintf("%.*s", (int)(dot - name), name);

		redact_host(r, shorter);
		for (const char *part = dot + 1, *end; (end = strchr(part, '.')); part = end + 1)
			if (end - part > 2)
				alias_for(r, KIND_HOST, part, (size_t)(end - part));
		return;
	}
	while (stem && name[stem - 1] >= '0' && name[stem - 1] <= '9')
		stem--;
	if (stem == len || stem < 2 || r->n_stems == STEMS_MAX)
		return;
	r->stems[r->n_stems++] = xasprintf("%.*s", (int)stem, name);
}

/* A host of the same kind: one of the stems and a number. */
static bool is_like_host(const struct redact *r, const char *p, size_t len)
{
	for (size_t i = 0; i < r->n_stems; i++) {
		size_t n = strlen(r->stems[i]);

		if (len > n && !memcmp(p, r->stems[i], n) && is_digits(p + n, len - n))
			return true;
	}
	return false;
}

/* 10.1.2.3 as a word: its length; 0. */
static size_t address_at(const char *p, const char *end)
{
	const char *at = p;

	for (unsigned part = 0; part < 4; part++) {
		unsigned v = 0, n = 0;

		for (; at < end && *at >= '0' && *at <= '9' && n < 4; n++)
			v = v * 10 + (unsigned)(*at++ - '0');
		if (!n || n > 3 || v > 255)
			return 0;
		if (part < 3 && (at == end || *at++ != '.'))
			return 0;
	}
	if (at < end && (is_word(*at) || (*at == '.' && at + 1 < end && is_word(at[1]))))
		return 0;
	if (at - p == 7 && !memcmp(p, "0.0.0.0", 7))
		return 0;
	return at - p >= 9 && !memcmp(p, "127.", 4) ? 0 : (size_t)(at - p);
}

/* --- paths --- */

static bool is_path(char c)
{
	return is_word(c) || c == '.' || c == '+' || c == '@' || c == '~' || c == '=';
}

/* Folders that every machine has say nothing of this one. */
static bool is_common_folder(const char *p, size_t len)
{
	static const char *const names[] = {
		"usr",
		"lib",
		"lib64",
		"lib32",
		"libexec",
		"bin",
		"sbin",
		"etc",
		"opt",
		"local",
		"home",
		"root",
		"tmp",
		"var",
		"run",
		"mnt",
		"data",
		"dev",
		"proc",
		"sys",
		"scratch",
		"share",
		"cache",
		"log",
		"logs",
		"python",
		"python3",
		"conda",
		"miniconda3",
		"anaconda3",
		"envs",
		"venv",
		".venv",
		"cuda",
		"targets",
		"include",
		"src",
		"nfs",
		"lustre",
		"gpfs",
		"fsx",
		"work",
		"workspace",
		"x86_64-linux-gnu",
		"aarch64-linux-gnu",
		"shm",
		"task",
		"fd",
		"self",
		"root",
		"cgroup",
		"class",
		"fs",
		"infiniband",
		"ports",
		"counters",
		"hw_counters",
		"net",
		"kernel",
		"gpu",
		"devices",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strlen(names[i]) == len && !memcmp(names[i], p, len))
			return true;
	/* python3.11, rank3, and numbers: processes, ports */
	return (len > 6 && !memcmp(p, "python", 6)) || is_digits(p, len) ||
	       (len > 4 && !memcmp(p, "rank", 4) && is_digits(p + 4, len - 4));
}

static bool begins_packages(const char *p, size_t len)
{
	return (len == 13 && !memcmp(p, "site-packages", 13)) ||
	       (len == 13 && !memcmp(p, "dist-packages", 13));
}

static void put_alias(struct redact *r, char *p, size_t len, enum redact_kind kind)
{
	const char *alias = alias_for(r, kind, p, len);

	if (alias)
		memcpy(p, alias, len);
}

/* Is a path's last part a file? A folder has no extension. */
static bool is_file_name(const char *p, size_t len)
{
	return memrchr(p, '.', len) != NULL;
}

/* A path from its first slash on; behind it. */
static char *redact_path(struct redact *r, char *p, char *end)
{
	bool packages = false, system = true;
	unsigned depth = 0;

	while (p < end && *p == '/') {
		char *from = ++p;
		size_t len;
		bool last, known;
		uint32_t id;

		while (p < end && is_path(*p))
			p++;
		len = (size_t)(p - from);
		/* A point at the end is the sentence's. */
		while (len && from[len - 1] == '.')
			len--;
		last = p == end || *p != '/';
		if (!len || packages)
			continue;
		packages = begins_packages(from, len);
		known = packages || is_common_folder(from, len);
		/* /proc and /sys are the same on each machine, down to their files. */
		if (depth++ == 0)
			system = (len == 4 && !memcmp(from, "proc", 4)) ||
				 (len == 3 && (!memcmp(from, "sys", 3) || !memcmp(from, "dev", 3)));
		id = intern_find(&r->names, from, len);
		if (id != NO_ID && r->kinds.v[id] != KIND_FOLDER)
			put_alias(r, from, len, r->kinds.v[id]);
		else if (!system && !known && !(last && (depth == 1 || is_file_name(from, len))))
			put_alias(r, from, len, KIND_FOLDER);
	}
	return p;
}

/* --- bytes --- */

/* A word: a user's or a host's name, or like a host's. With its domain first, if it is known so. */
static char *redact_word(struct redact *r, char *p, char *end)
{
	char *to = p, *dotted;
	uint32_t id;
	size_t len;

	while (to < end && is_word(*to))
		to++;
	for (dotted = to; dotted + 1 < end && *dotted == '.' && is_word(dotted[1]);)
		for (dotted++; dotted < end && is_word(*dotted);)
			dotted++;
	id = dotted > to ? intern_find(&r->names, p, (size_t)(dotted - p)) : NO_ID;
	len = (size_t)((id != NO_ID ? dotted : to) - p);
	if (id == NO_ID)
		id = intern_find(&r->names, p, len);
	if (id != NO_ID && r->kinds.v[id] != KIND_FOLDER)
		put_alias(r, p, len, r->kinds.v[id]);
	else if (is_like_host(r, p, len))
		put_alias(r, p, len, KIND_HOST);
	else
		return to;
	return p + len;
}

/* In "job-h01_x" the host is a part of a word. */
static void redact_inside(struct redact *r, char *p, char *end)
{
	for (char *from = p; from < end;) {
		char *to = from;
		uint32_t id;

		while (to < end && *to != '_' && *to != '-')
			to++;
		id = intern_find(&r->names, from, (size_t)(to - from));
		if (id != NO_ID && r->kinds.v[id] != KIND_FOLDER)
			put_alias(r, from, (size_t)(to - from), r->kinds.v[id]);
		else if (is_like_host(r, from, (size_t)(to - from)))
			put_alias(r, from, (size_t)(to - from), KIND_HOST);
		from = to + (to < end);
	}
}

/* Does no name go on from the character before p? The n of an escaped line end is none. */
static bool is_edge(const char *start, const char *p, bool (*part)(char c))
{
	return p == start || !part(p[-1]) ||
	       (p - start >= 2 && p[-2] == '\\' && strchr("nrtbf", p[-1]));
}

void redact_bytes(struct redact *r, char *p, size_t len)
{
	char *end = p + len, *start = p;

	while (p < end) {
		size_t n;

		if (*p == '\\' && p + 1 < end) {
			p += 2;
		} else if (*p == '/' && (is_edge(start, p, is_path) || p[-1] == '=') &&
			   p + 1 < end && is_path(p[1])) {
			p = redact_path(r, p, end);
		} else if (*p >= '0' && *p <= '9' && is_edge(start, p, is_path) &&
			   (n = address_at(p, end))) {
			put_alias(r, p, n, KIND_ADDRESS);
			p += n;
		} else if (is_word(*p)) {
			char *to = redact_word(r, p, end);

			redact_inside(r, p, to);
			p = to;
		} else {
			p++;
		}
	}
}

/*
 * The strings of a pickle of plain values, each by itself: -EINVAL at an opcode that is not one of
 * those, and then nothing was changed behind it.
 */
static int redact_pickle(struct redact *r, uint8_t *p, size_t len)
{
	/* For each opcode: bytes of its argument; + 16: they count a string that follows. */
	static const struct {
		uint8_t code, argument;
	} opcodes[] = {
		{ 0x80, 1 }, { 0x95, 8 }, { '(', 0 },	{ ')', 0 },   { ']', 0 },  { '}', 0 },
		{ 'q', 1 },  { 'r', 4 },  { 'h', 1 },	{ 'j', 4 },   { 'K', 1 },  { 'M', 2 },
		{ 'J', 4 },  { 'G', 8 },  { 'N', 0 },	{ 0x88, 0 },  { 0x89, 0 }, { 'a', 0 },
		{ 'e', 0 },  { 's', 0 },  { 'u', 0 },	{ 't', 0 },   { 'l', 0 },  { 'd', 0 },
		{ 0x85, 0 }, { 0x86, 0 }, { 0x87, 0 },	{ '0', 0 },   { '1', 0 },  { '2', 0 },
		{ 0x94, 0 }, { 'X', 20 }, { 0x8c, 17 }, { 0x8d, 24 }, { 'U', 17 }, { 'T', 20 },
		{ 'C', 17 }, { 'B', 20 }, { 0x8a, 17 }, { 0x8b, 20 },
	};
	uint8_t *end = p + len;

	while (p < end && *p != '.') {
		uint64_t n = 0;
		size_t i = 0, bytes;

		while (i < ARRAY_SIZE(opcodes) && opcodes[i].code != *p)
			i++;
		if (i == ARRAY_SIZE(opcodes))
			return -EINVAL;
		bytes = opcodes[i].argument & 15;
		p++;
		if ((size_t)(end - p) < bytes)
			return -EINVAL;
		for (size_t k = 0; k < bytes; k++)
			n |= (uint64_t)p[k] << (8 * k);
		p += bytes;
		if (opcodes[i].argument < 16)
			continue;
		if (n > (uint64_t)(end - p))
			return -EINVAL;
		redact_bytes(r, (char *)p, (size_t)n);
		p += n;
	}
	return p < end ? 0 : -EINVAL;
}

int redact_file(struct redact *r, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	int status = 0;
	char *p;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > REDACT_FILE_MAX)
		return -EFBIG;
	if (!st.st_size)
		return 0;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	if ((uint8_t)*p == 0x80)
		status = redact_pickle(r, (uint8_t *)p, (size_t)st.st_size);
	else
		redact_bytes(r, p, (size_t)st.st_size);
	munmap(p, (size_t)st.st_size);
	return status;
}
