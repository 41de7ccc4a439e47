/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint.c - is a checkpoint whole, and which is the newest that is?
 *
 * Bytes are read by pread from a descriptor, never mapped: a file that is cut meanwhile gives an
 * error and no signal. One that changes while it is looked at is still being written.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "read/checkpoint_inside.h"

#define ZERO_CHUNK 65536u
#define ALIKE_MOST 256u /* files of a folder that are looked for in the next */

const char *checkpoint_kind_name(enum checkpoint_kind k)
{
	static const char *const names[CHECKPOINT_KINDS] = {
		[CHECKPOINT_TORCH] = "torch",
		[CHECKPOINT_SAFETENSORS] = "safetensors",
		[CHECKPOINT_DCP] = "dcp",
		[CHECKPOINT_DEEPSPEED] = "deepspeed",
		[CHECKPOINT_MEGATRON] = "megatron",
		[CHECKPOINT_TRAINER] = "trainer",
		[CHECKPOINT_LIGHTNING] = "lightning",
		[CHECKPOINT_UNKNOWN] = "unknown",
	};

	return k < CHECKPOINT_KINDS ? names[k] : "unknown";
}

/* --- names --- */

bool name_torch(const char *name)
{
	static const char *const ends[] = { ".pt", ".pth", ".bin", ".ckpt", ".pth.tar", ".pkl" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (name_ends(name, ends[i]))
			return true;
	return false;
}

bool name_temporary(const char *name)
{
	static const char *const ends[] = { ".tmp",	   ".temp", ".part", ".partial",
					    ".incomplete", "~",	    "_tmp",  "-tmp" };
	static const char *const begins[] = { "tmp-", "tmp_", ".tmp", "tmp." };
	const char *tmp = strcasestr(name, ".tmp.");

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (name_ends(name, ends[i]))
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(begins); i++)
		if (strncasecmp(name, begins[i], strlen(begins[i])) == 0)
			return true;
	return tmp != NULL;
}

static int64_t number_at(const char *p)
{
	char *end;
	long long v;

	errno = 0;
	v = strtoll(p, &end, 10);
	return errno || end == p ? -1 : v;
}

int64_t name_step(const char *name)
{
	static const char *const words[] = { "step", "iteration", "iter", "checkpoint", "ckpt" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		for (const char *p = name; (p = strcasestr(p, words[i]));) {
			p += strlen(words[i]);
			if (*p == 's')
				p++;
			p += strspn(p, "-_=. ");
			if (isdigit((unsigned char)*p))
				return number_at(p);
		}
	if (name[strspn(name, "0123456789")] == 0 || name_torch(name))
		return isdigit((unsigned char)name[0]) ? number_at(name) : -1;
	return -1;
}

/* --- bytes --- */

bool stretch_read(const struct stretch *s, uint64_t from, void *buf, size_t len)
{
	uint8_t *to = buf;

	if (from > s->len || len > s->len - from)
		return false;
	while (len) {
		ssize_t n = pread(s->fd, to, len, (off_t)(s->at + from));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		to += n;
		from += (uint64_t)n;
		len -= (size_t)n;
	}
	return true;
}

uint8_t *stretch_bytes(const struct stretch *s, uint64_t from, size_t len)
{
	uint8_t *p;

	if (from > s->len || len > s->len - from)
		return NULL;
	p = xmalloc(len + 1);
	if (stretch_read(s, from, p, len))
		return p;
	free(p);
	return NULL;
}

bool stretch_hole(const struct stretch *s, uint64_t *ret_at)
{
	off_t at = lseek(s->fd, (off_t)s->at, SEEK_HOLE);

	if (at < 0 || (uint64_t)at >= s->at + s->len)
		return false;
	*ret_at = (uint64_t)at - s->at;
	return true;
}

uint64_t stretch_zero_tail(const struct stretch *s)
{
	_cleanup_free_ uint8_t *chunk = xmalloc(ZERO_CHUNK);
	uint64_t zeros = 0;

	while (zeros < s->len) {
		size_t n = (size_t)MIN(s->len - zeros, ZERO_CHUNK), i = n;

		if (!stretch_read(s, s->len - zeros - n, chunk, n))
			return zeros;
		while (i > 0 && !chunk[i - 1])
			i--;
		zeros += n - i;
		if (i)
			return zeros;
	}
	return zeros;
}

enum checkpoint_state checkpoint_file(struct checkpoint_look *l, const char *path,
				      checkpoint_file_fn check)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	enum checkpoint_state state;
	struct stat before, after;
	struct stretch s;

	if (fd < 0 || fstat(fd, &before) < 0)
		return torn(l, "%.255s: %s", path, errno == ENOENT ? "missing" : strerror(errno));
	if (!S_ISREG(before.st_mode))
		return torn(l, "%.255s: no regular file", path);
	s = (struct stretch){ .fd = fd, .len = (uint64_t)before.st_size };
	state = check(l, &s);
	if (fstat(fd, &after) < 0 || after.st_size != before.st_size ||
	    after.st_mtim.tv_sec != before.st_mtim.tv_sec ||
	    after.st_mtim.tv_nsec != before.st_mtim.tv_nsec)
		state = torn(l, "still being written");
	if (state != CHECKPOINT_GOOD) {
		struct error why = l->why;

		error_set(&l->why, 0, "%.255s: %.250s", path, why.text);
	}
	return state;
}

/* --- the whole --- */

/* What is wrong, named from within the checkpoint. */
static char *own_words(const struct checkpoint *c, const char *text)
{
	size_t len = strlen(c->path);

	if (strncmp(text, c->path, len) == 0 && (text[len] == '/' || text[len] == ':'))
		text += len + 1 + (text[len] == ':');
	return xstrdup(text);
}

/* "model-unfinished" beside model.ckpt or model.nemo, as long as it is written. */
bool checkpoint_unfinished(const char *path)
{
	static const char *const ends[] = { "", ".ckpt", ".nemo" };
	size_t len = strlen(path);

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		_cleanup_free_ char *mark = NULL;

		if (!name_ends(path, ends[i]))
			continue;
		mark = xasprintf("%.*s-unfinished", (int)(len - strlen(ends[i])), path);
		if (access(mark, F_OK) == 0)
			return true;
	}
	return false;
}

static enum checkpoint_state check_any(struct checkpoint_look *l, const struct checkpoint *c,
				       bool folder)
{
	const char *slash = strrchr(c->path, '/'), *name = slash ? slash + 1 : c->path;

	if (name_temporary(name))
		return torn(l, "a temporary name: its save did not end");
	if (checkpoint_unfinished(c->path))
		return torn(l, "marked as -unfinished: its save did not end");
	if (folder)
		return checkpoint_folder(l, c->path, c->kind);
	return checkpoint_file(l, c->path,
			       c->kind == CHECKPOINT_SAFETENSORS ? checkpoint_safetensors
								 : checkpoint_torch);
}

int checkpoint_check(struct checkpoint *c, bool whole, struct error *reterr)
{
	struct checkpoint_look l = { .whole = whole,
				     .facts = { .step = -1, .dp_world = -1, .mp_world = -1 } };
	struct stat st;

	if (stat(c->path, &st) < 0 && errno != ENOENT)
		return error_set(reterr, -errno, "%s: %s", c->path, strerror(errno));
	c->state = check_any(&l, c, S_ISDIR(st.st_mode));
	free(c->why);
	c->why = c->state == CHECKPOINT_GOOD ? NULL : own_words(c, l.why.text);
	c->weights_only = c->state == CHECKPOINT_GOOD && !l.facts.optimizer;
	if (c->step < 0 && c->state == CHECKPOINT_GOOD)
		c->step = l.facts.step;
	return 0;
}

/* --- beside the one before --- */

/* "step_100.pt" is for one folder what "step_90.pt" is for another. */
static void without_numbers(const char *name, char *ret, size_t size)
{
	size_t n = 0;

	while (*name && n + 1 < size) {
		bool digit = isdigit((unsigned char)*name);

		ret[n++] = digit ? '#' : *name++;
		while (digit && isdigit((unsigned char)*name))
			name++;
	}
	ret[n] = 0;
}

static bool has_alike(const char *folder, const char *pattern)
{
	DIR *dir = opendir(folder);
	struct dirent *d;
	bool has = false;
	char own[NAME_MAX + 1];

	while (dir && !has && (d = readdir(dir))) {
		without_numbers(d->d_name, own, sizeof(own));
		has = strcmp(own, pattern) == 0;
	}
	if (dir)
		closedir(dir);
	return has;
}

/* A file that the older folder has and the newer lacks; NULL: none. */
static char *lacks(const char *newer, const char *older)
{
	DIR *dir = opendir(older);
	unsigned looked = 0;
	struct dirent *d;
	char *missing = NULL;

	while (dir && !missing && looked++ < ALIKE_MOST && (d = readdir(dir))) {
		char pattern[NAME_MAX + 1];

		without_numbers(d->d_name, pattern, sizeof(pattern));
		if ((name_torch(d->d_name) || name_ends(d->d_name, ".safetensors")) &&
		    !name_temporary(d->d_name) && !has_alike(newer, pattern))
			missing = xstrdup(d->d_name);
	}
	if (dir)
		closedir(dir);
	return missing;
}

int checkpoints_check(struct checkpoints *c, size_t i, bool whole, struct error *reterr)
{
	struct checkpoint *k = &c->v.v[i];
	int r = checkpoint_check(k, whole, reterr);
	struct stat st;

	if (r < 0 || k->state != CHECKPOINT_GOOD || stat(k->path, &st) < 0 ||
	    !S_ISDIR(st.st_mode) ||
	    (k->kind != CHECKPOINT_TORCH && k->kind != CHECKPOINT_SAFETENSORS &&
	     k->kind != CHECKPOINT_DCP && k->kind != CHECKPOINT_LIGHTNING))
		return r;
	for (size_t o = i + 1; o < c->v.n; o++) {
		const struct checkpoint *older = &c->v.v[o];
		_cleanup_free_ char *missing = NULL;

		if (older->kind != k->kind || stat(older->path, &st) < 0 || !S_ISDIR(st.st_mode))
			continue;
		missing = lacks(k->path, older->path);
		if (missing) {
			k->state = CHECKPOINT_TORN;
			k->why = xasprintf("%s is missing, which %s has", missing, older->path);
		}
		break;
	}
	return 0;
}

struct checkpoint *checkpoints_newest_good(struct checkpoints *c, bool whole)
{
	struct error e;

	for (size_t i = 0; i < c->v.n; i++) {
		struct checkpoint *k = &c->v.v[i];

		if (checkpoints_check(c, i, whole, &e) < 0) {
			k->state = CHECKPOINT_FOREIGN;
			free(k->why);
			k->why = xstrdup(e.text);
		}
		if (k->state == CHECKPOINT_GOOD)
			return k;
	}
	return NULL;
}

void checkpoints_done(struct checkpoints *c)
{
	for (size_t i = 0; i < c->v.n; i++) {
		free(c->v.v[i].path);
		free(c->v.v[i].why);
	}
	free(c->v.v);
	*c = (struct checkpoints){ 0 };
}
