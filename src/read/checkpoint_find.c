/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint_find.c - what in a folder is a checkpoint.
 *
 * A folder is one by what lies in it or by the name that a framework gives it; a file is one by its
 * name. Two levels are walked, and so many files; what is beyond is counted. One thing under two
 * names (a link "last") is listed once, by its own name.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "read/checkpoint_inside.h"
#include "base/clock.h"

#define LEVELS	   2u
#define LOOK_NAMES 4096u /* of a folder, to tell its kind */
#define ZIP_END	   22	 /* bytes of the record at a zip's end */

struct finding_walk {
	struct checkpoints *ret;
	uint64_t files;
	VEC(struct id {
		dev_t dev;
		ino_t ino;
		size_t row;
		bool link;
	})
	ids;
};

static bool starts_number(const char *name, const char *word)
{
	size_t len = strlen(word);

	return strncmp(name, word, len) == 0 && name[len] >= '0' && name[len] <= '9';
}

/* --- what kind --- */

enum inside_bit {
	IN_METADATA = 1 << 0,
	IN_TRAINER = 1 << 1,
	IN_ACCELERATE = 1 << 2,
	IN_HF_WEIGHTS = 1 << 3,
	IN_SAFETENSORS = 1 << 4,
	IN_TORCH = 1 << 5,
	IN_DEEPSPEED = 1 << 6,
	IN_RANKS = 1 << 7,
	IN_CHECKPOINTS = 1 << 8, /* folders or files that are checkpoints by themselves */
};
static const struct {
	const char *part;
	unsigned bit;
	bool begins;
} inside_marks[] = {
	{ ".metadata", IN_METADATA, false },
	{ ".distcp", IN_METADATA, false },
	{ "trainer_state.json", IN_TRAINER, true },
	{ "training_args.bin", IN_TRAINER, true },
	{ "scheduler.pt", IN_TRAINER, true },
	{ "optimizer.pt", IN_TRAINER, true },
	{ "rng_state", IN_TRAINER, true },
	{ "random_states_", IN_ACCELERATE, true },
	{ "optimizer.bin", IN_ACCELERATE, true },
	{ "model.safetensors", IN_HF_WEIGHTS, true },
	{ "model-0", IN_HF_WEIGHTS, true },
	{ "pytorch_model", IN_HF_WEIGHTS, true },
	{ "adapter_model", IN_HF_WEIGHTS, true },
	{ ".safetensors", IN_SAFETENSORS, false },
	{ ".safetensors.index.json", IN_SAFETENSORS, false },
	{ "zero_pp_rank_", IN_DEEPSPEED, true },
	{ "bf16_zero_pp_rank_", IN_DEEPSPEED, true },
	{ "mp_rank_", IN_RANKS, true },
};

static unsigned inside_bits(const char *folder)
{
	DIR *dir = opendir(folder);
	unsigned bits = 0, n = 0;
	struct dirent *d;

	while (dir && n++ < LOOK_NAMES && (d = readdir(dir))) {
		const char *name = d->d_name;

		for (size_t i = 0; i < ARRAY_SIZE(inside_marks); i++)
			if (inside_marks[i].begins ? strncmp(name, inside_marks[i].part,
							     strlen(inside_marks[i].part)) == 0
						   : name_ends(name, inside_marks[i].part))
				bits |= inside_marks[i].bit;
		if (name_torch(name))
			bits |= IN_TORCH;
		if (name_torch(name) && strstr(name, "_model_states."))
			bits |= IN_DEEPSPEED;
		if (starts_number(name, "checkpoint-") || starts_number(name, "global_step") ||
		    starts_number(name, "iter_") ||
		    ((name_torch(name) || name_ends(name, ".safetensors")) && name_step(name) >= 0))
			bits |= IN_CHECKPOINTS;
	}
	if (dir)
		closedir(dir);
	return bits;
}

/* The kind of a folder that is one checkpoint; CHECKPOINT_KINDS: it is none. outer: the one asked
   for, whose name says nothing. */
static enum checkpoint_kind folder_kind(const char *path, const char *name, bool outer)
{
	unsigned in = inside_bits(path);
	const char *bare = name_temporary(name) && strncmp(name, "tmp-", 4) == 0 ? name + 4 : name;

	if (starts_number(bare, "global_step") || in & IN_DEEPSPEED)
		return in & IN_METADATA ? CHECKPOINT_DCP : CHECKPOINT_DEEPSPEED;
	if (starts_number(bare, "iter_") || in & IN_RANKS)
		return CHECKPOINT_MEGATRON;
	if (starts_number(bare, "checkpoint-") && !(in & IN_ACCELERATE) &&
	    in & (IN_TRAINER | IN_HF_WEIGHTS))
		return CHECKPOINT_TRAINER;
	if (in & IN_TRAINER && in & IN_HF_WEIGHTS && !(in & IN_CHECKPOINTS))
		return CHECKPOINT_TRAINER;
	if (in & IN_METADATA)
		return CHECKPOINT_DCP;
	if (name_ends(bare, ".ckpt"))
		return CHECKPOINT_LIGHTNING;
	if (in & IN_CHECKPOINTS)
		return CHECKPOINT_KINDS;
	if (in & IN_SAFETENSORS && in & IN_HF_WEIGHTS)
		return CHECKPOINT_SAFETENSORS;
	if (!outer && name_step(bare) >= 0 && in & (IN_TORCH | IN_SAFETENSORS))
		return in & IN_TORCH ? CHECKPOINT_TORCH : CHECKPOINT_SAFETENSORS;
	if (!outer && (name_step(bare) >= 0 || name_temporary(name)) && strcmp(bare, name) != 0)
		return CHECKPOINT_UNKNOWN;
	return CHECKPOINT_KINDS;
}

/* "step_5.pt.tmp": what it would have become. */
static enum checkpoint_kind file_kind(const char *name)
{
	_cleanup_free_ char *stem = xstrdup(name);
	char *dot = name_temporary(name) ? strrchr(stem, '.') : NULL;

	if (dot && dot != stem && !name_torch(name) && !name_ends(name, ".safetensors"))
		*dot = 0;
	if (name_ends(stem, ".safetensors"))
		return CHECKPOINT_SAFETENSORS;
	if (name_ends(stem, ".ckpt"))
		return CHECKPOINT_LIGHTNING;
	if (name_torch(stem) && !name_ends(stem, ".pkl"))
		return CHECKPOINT_TORCH;
	return CHECKPOINT_KINDS;
}

/* --- the walk --- */

static void take_size(struct finding_walk *w, const char *folder, struct checkpoint *c,
		      unsigned depth)
{
	DIR *dir = opendir(folder);
	struct dirent *d;

	while (dir && (d = readdir(dir))) {
		struct stat st;
		int64_t t;

		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (++w->files > CHECKPOINT_FILES_MOST) {
			w->ret->skipped++;
			continue;
		}
		if (fstatat(dirfd(dir), d->d_name, &st, 0) < 0)
			continue;
		if (S_ISDIR(st.st_mode) && depth < CHECKPOINT_DEPTH_MOST) {
			_cleanup_free_ char *sub = xasprintf("%s/%s", folder, d->d_name);

			take_size(w, sub, c, depth + 1);
		}
		if (!S_ISREG(st.st_mode))
			continue;
		c->bytes += st.st_size;
		t = timespec_ns(st.st_mtim);
		c->mtime_ns = MAX(c->mtime_ns, t);
	}
	if (dir)
		closedir(dir);
}

static void add(struct finding_walk *w, const char *path, const char *name,
		enum checkpoint_kind kind, const struct stat *st, bool link)
{
	struct checkpoint c = { .kind = kind, .step = name_step(name), .path = xstrdup(path) };

	*vec_push(&w->ids) = (struct id){ st->st_dev, st->st_ino, w->ret->v.n, link };
	c.mtime_ns = timespec_ns(st->st_mtim);
	if (S_ISDIR(st->st_mode))
		take_size(w, path, &c, 0);
	else
		c.bytes = st->st_size;
	*vec_push(&w->ret->v) = c;
}

static void find(struct finding_walk *w, const char *folder, unsigned level);

static void look(struct finding_walk *w, const char *folder, const char *name, unsigned level)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", folder, name);
	enum checkpoint_kind kind;
	struct stat st, own;

	if (lstat(path, &own) < 0)
		return;
	if (stat(path, &st) < 0) {
		/* A link to nothing, under a checkpoint's name, is a torn one. */
		if (S_ISLNK(own.st_mode) && (file_kind(name) < CHECKPOINT_KINDS))
			add(w, path, name, file_kind(name), &own, true);
		return;
	}
	if (S_ISDIR(st.st_mode)) {
		kind = folder_kind(path, name, false);
		if (kind < CHECKPOINT_KINDS)
			add(w, path, name, kind, &st, S_ISLNK(own.st_mode));
		else if (level < LEVELS && !S_ISLNK(own.st_mode))
			find(w, path, level + 1);
	} else if (S_ISREG(st.st_mode)) {
		kind = file_kind(name);
		if (kind < CHECKPOINT_KINDS)
			add(w, path, name, kind, &st, S_ISLNK(own.st_mode));
	}
}

static void find(struct finding_walk *w, const char *folder, unsigned level)
{
	DIR *dir = opendir(folder);
	struct dirent *d;

	if (!dir) {
		w->ret->skipped++;
		return;
	}
	while ((d = readdir(dir))) {
		const char *name = d->d_name;

		if (name[0] == '.' && !name_temporary(name))
			continue;
		/* Most of a million files are no checkpoints by their names alone. */
		if (++w->files > CHECKPOINT_FILES_MOST || w->ret->v.n >= CHECKPOINT_FOUND_MOST)
			w->ret->skipped++;
		else if (d->d_type != DT_REG || file_kind(name) < CHECKPOINT_KINDS)
			look(w, folder, name, level);
	}
	closedir(dir);
}

/* --- order --- */

static int by_step(const void *a, const void *b)
{
	const struct checkpoint *x = a, *y = b;

	if (x->step != y->step)
		return x->step < y->step ? 1 : -1;
	if (x->mtime_ns != y->mtime_ns)
		return x->mtime_ns < y->mtime_ns ? 1 : -1;
	return strcmp(x->path, y->path);
}

static int by_time(const void *a, const void *b)
{
	const struct checkpoint *x = a, *y = b;

	return x->mtime_ns != y->mtime_ns ? (x->mtime_ns < y->mtime_ns ? 1 : -1) : by_step(a, b);
}

static int by_id(const void *a, const void *b)
{
	const struct id *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev > y->dev ? 1 : -1;
	if (x->ino != y->ino)
		return x->ino > y->ino ? 1 : -1;
	return (x->link > y->link) - (x->link < y->link);
}

/* What is there under several names stays under one, and no link if there is another. */
static void drop_doubles(struct finding_walk *w)
{
	struct checkpoints *c = w->ret;
	size_t n = 0;

	if (!w->ids.n)
		return;
	qsort(w->ids.v, w->ids.n, sizeof(*w->ids.v), by_id);
	for (size_t i = 1; i < w->ids.n; i++) {
		const struct id *a = &w->ids.v[i - 1], *b = &w->ids.v[i];

		if (b->link && a->dev == b->dev && a->ino == b->ino) {
			free(c->v.v[b->row].path);
			c->v.v[b->row].path = NULL;
		}
	}
	for (size_t i = 0; i < c->v.n; i++)
		if (c->v.v[i].path)
			c->v.v[n++] = c->v.v[i];
	c->v.n = n;
}

int checkpoints_find(const char *folder, struct checkpoints *ret, struct error *reterr)
{
	struct finding_walk w = { .ret = ret };
	enum checkpoint_kind kind;
	const char *slash = strrchr(folder, '/');
	bool steps = true;
	struct stat st;

	if (stat(folder, &st) < 0)
		return error_set(reterr, -errno, "%s: %s", folder, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return error_set(reterr, -ENOTDIR, "%s: no folder", folder);
	if (access(folder, R_OK | X_OK) < 0)
		return error_set(reterr, -errno, "%s: %s", folder, strerror(errno));
	*ret = (struct checkpoints){ 0 };
	kind = folder_kind(folder, slash ? slash + 1 : folder, true);
	if (kind < CHECKPOINT_KINDS)
		add(&w, folder, slash ? slash + 1 : folder, kind, &st, false);
	else
		find(&w, folder, 1);
	drop_doubles(&w);
	free(w.ids.v);
	for (size_t i = 0; i < ret->v.n; i++)
		steps = steps && ret->v.v[i].step >= 0;
	if (ret->v.n)
		qsort(ret->v.v, ret->v.n, sizeof(*ret->v.v), steps ? by_step : by_time);
	return 0;
}

/* --- has it ended? --- */

static char *lacks_marker(const char *path, const char *name, const char *marker, bool needed)
{
	int64_t ns, said = checkpoint_marker(path, marker, &ns), own = name_step(name);

	if (said == -1)
		return needed ? xasprintf("no %s", marker) : NULL;
	if (said == -2)
		return xasprintf("%s names no step", marker);
	return own > said ? xasprintf("%s still says %" PRId64, marker, said) : NULL;
}

/* A zip's table lies at its end, as torch.save leaves it: without a comment. */
static char *lacks_table(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	uint8_t head[4], end[4];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return NULL;
	if (!st.st_size)
		return xstrdup("it is empty");
	if (pread(fd, head, 4, 0) != 4 || memcmp(head, "PK\3\4", 4) != 0)
		return NULL;
	if (st.st_size >= ZIP_END && pread(fd, end, 4, st.st_size - ZIP_END) == 4 &&
	    memcmp(end, "PK\5\6", 4) == 0)
		return NULL;
	return xstrdup("its table is not there");
}

static bool lies_in(const char *folder, const char *name)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", folder, name);
	struct stat st;

	return stat(path, &st) == 0 && st.st_size > 0;
}

char *checkpoint_lacks_end(const char *folder, const char *name)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", folder, name);
	struct stat st;

	if (name_temporary(name))
		return xstrdup("its name is a temporary one");
	if (checkpoint_unfinished(path) || name_ends(name, "-unfinished"))
		return xstrdup("it is marked as -unfinished");
	if (stat(path, &st) < 0)
		return NULL;
	if (!S_ISDIR(st.st_mode))
		return file_kind(name) < CHECKPOINT_KINDS ? lacks_table(path) : NULL;
	switch (folder_kind(path, name, false)) {
	case CHECKPOINT_TRAINER:
		return lies_in(path, "trainer_state.json") ? NULL
							   : xstrdup("no trainer_state.json");
	case CHECKPOINT_DEEPSPEED:
		return lacks_marker(path, name, "latest", false);
	case CHECKPOINT_MEGATRON:
		return lacks_marker(path, name, "latest_checkpointed_iteration.txt", true);
	case CHECKPOINT_DCP:
		return lies_in(path, ".metadata") || lies_in(path, "__0.metadata")
			   ? NULL
			   : xstrdup("no .metadata");
	default: /* Trainer's begins with its configuration */
		return starts_number(name, "checkpoint-") && !inside_bits(path)
			   ? xstrdup("no weights")
			   : NULL;
	}
}
