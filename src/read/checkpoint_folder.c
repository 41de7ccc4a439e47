/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint_folder.c - a folder that is one checkpoint: every file in it whole, and all of them
 * there, as the kind's own rules tell: numbered ranks without a gap, markers written last.
 */
#include <ctype.h>
#include <dirent.h>
#include <sys/stat.h>

#include "read/checkpoint_inside.h"
#include "base/clock.h"

#define NUMBERS_MOST 6u
#define WORD_MOST    4096u

/* A file's name with its numbers apart: "zero_pp_rank_#_mp_rank_#_optim_states.pt". */
struct shard {
	char *pattern;
	uint32_t numbers[NUMBERS_MOST];
	unsigned n;
};
enum seen {
	SEEN_WEIGHTS = 1 << 0,
	SEEN_STATE = 1 << 1, /* trainer_state.json */
	SEEN_OPTIMIZER = 1 << 2,
	SEEN_SCHEDULER = 1 << 3,
	SEEN_DCP = 1 << 4,
	SEEN_DCP_SHARD = 1 << 5,
	SEEN_OF = 1 << 6, /* model-00001-of-00004 */
	SEEN_INDEX = 1 << 7,
	SEEN_MODEL_STATES = 1 << 8,
	SEEN_RANK_FOLDER = 1 << 9,
	SEEN_DEEPSPEED = 1 << 10,
	SEEN_ZERO = 1 << 11,
};
struct walk {
	struct checkpoint_look *l;
	const char *root;
	enum checkpoint_kind kind;
	unsigned seen;
	uint64_t files;
	int64_t newest_ns; /* of the files */
	VEC(struct shard) shards;
};

static const struct {
	const char *part;
	unsigned seen;
} marks[] = {
	{ "trainer_state.json", SEEN_STATE },
	{ "optimizer.pt", SEEN_OPTIMIZER },
	{ "optimizer.bin", SEEN_OPTIMIZER },
	{ "scheduler.pt", SEEN_SCHEDULER },
	{ "model.safetensors", SEEN_WEIGHTS },
	{ "pytorch_model.bin", SEEN_WEIGHTS },
	{ ".index.json", SEEN_WEIGHTS | SEEN_INDEX },
	{ "-of-", SEEN_OF },
	{ ".distcp", SEEN_DCP_SHARD },
	{ "_model_states.pt", SEEN_MODEL_STATES | SEEN_WEIGHTS },
	{ "_optim_states.pt", SEEN_ZERO | SEEN_OPTIMIZER },
};

bool name_ends(const char *name, const char *end)
{
	size_t n = strlen(name), len = strlen(end);

	return n >= len && strcasecmp(name + n - len, end) == 0;
}

static bool metadata_name(const char *name)
{
	return strcmp(name, ".metadata") == 0 ||
	       (strncmp(name, "__", 2) == 0 && isdigit((unsigned char)name[2]) &&
		name_ends(name, ".metadata"));
}

/* --- numbered files --- */

static void keep_shard(struct walk *w, const char *relative)
{
	const char *slash = strrchr(relative, '/'), *from = slash ? slash + 1 : relative;
	struct shard s = { .pattern = xmalloc(strlen(relative) + 1) };
	char *to = s.pattern;

	if (strncmp(relative, "mp_rank_", 8) == 0)
		from = relative;
	memcpy(to, relative, (size_t)(from - relative));
	to += from - relative;
	while (*from) {
		if (isdigit((unsigned char)*from) && s.n < NUMBERS_MOST) {
			s.numbers[s.n++] = (uint32_t)strtoul(from, (char **)&from, 10);
			*to++ = '#';
		} else {
			*to++ = *from++;
		}
	}
	*to = 0;
	if (s.n && (strstr(s.pattern, "rank_#") || strstr(s.pattern, "rng_state_#") ||
		    strstr(s.pattern, "random_states_#")))
		*vec_push(&w->shards) = s;
	else
		free(s.pattern);
}

static int by_pattern(const void *a, const void *b)
{
	const struct shard *x = a, *y = b;
	int r = strcmp(x->pattern, y->pattern);

	for (unsigned i = 0; !r && i < x->n && i < y->n; i++)
		r = (x->numbers[i] > y->numbers[i]) - (x->numbers[i] < y->numbers[i]);
	return r;
}

/* Both stand in Megatron's numbered folders: these then have the same numbers. */
static bool same_folders(const char *a, const char *b)
{
	const char *slash = strncmp(a, "mp_rank_", 8) == 0 ? strchr(a, '/') : NULL;

	return slash && strncmp(a, b, (size_t)(slash - a) + 1) == 0;
}

/* How many values each number takes: from 0 to the largest that was seen. */
static void extents(const struct shard *v, size_t n, uint32_t ret[NUMBERS_MOST])
{
	memset(ret, 0, NUMBERS_MOST * sizeof(*ret));
	for (size_t i = 0; i < n; i++)
		for (unsigned k = 0; k < v[i].n; k++)
			ret[k] =
			    MAX(ret[k], v[i].numbers[k] == UINT32_MAX ? 0 : v[i].numbers[k] + 1);
}

static enum checkpoint_state missing(struct walk *w, const struct shard *like,
				     const uint32_t *numbers)
{
	char name[300];
	size_t len = 0;
	unsigned k = 0;

	for (const char *p = like->pattern; *p && len + 12 < sizeof(name); p++) {
		if (*p != '#' || k >= like->n)
			name[len++] = *p;
		else
			len += (size_t)snprintf(name + len, sizeof(name) - len, "%u", numbers[k++]);
	}
	name[len] = 0;
	return torn(w->l, "%s is missing", name);
}

/* All combinations of a pattern's numbers are there: sorted, they count like a clock. */
static enum checkpoint_state complete(struct walk *w, const struct shard *v, size_t n,
				      uint32_t extent[NUMBERS_MOST])
{
	uint32_t at[NUMBERS_MOST] = { 0 };
	const char *slash = strrchr(v->pattern, '/'), *name = slash ? slash + 1 : v->pattern;

	if (strncmp(name, "layer_", 6) == 0 || strstr(name, "-of-"))
		return CHECKPOINT_GOOD;
	if (strncmp(name, "zero_pp_rank_#", 14) == 0 && w->l->facts.dp_world > 0 &&
	    w->l->facts.dp_world < UINT32_MAX && extent[0] < w->l->facts.dp_world)
		extent[0] = (uint32_t)w->l->facts.dp_world;
	for (size_t i = 0; i <= n; i++) {
		unsigned k = v->n;

		if (i == n || memcmp(at, v[i].numbers, v->n * sizeof(*at)) != 0)
			return missing(w, v, at);
		while (k > 0 && ++at[k - 1] == extent[k - 1])
			at[--k] = 0;
		if (!k)
			return i + 1 == n ? CHECKPOINT_GOOD
					  : torn(w->l, "more files than ranks: %s", v->pattern);
	}
	return CHECKPOINT_GOOD;
}

static enum checkpoint_state all_complete(struct walk *w)
{
	enum checkpoint_state state = CHECKPOINT_GOOD;
	struct shard *v = w->shards.v;
	uint32_t extent[NUMBERS_MOST];
	size_t known = 0; /* up to here extent holds for all of a folder's */

	if (w->shards.n)
		qsort(v, w->shards.n, sizeof(*v), by_pattern);
	for (size_t i = 0, n; i < w->shards.n && state == CHECKPOINT_GOOD; i += n) {
		for (n = 1; i + n < w->shards.n && strcmp(v[i + n].pattern, v[i].pattern) == 0; n++)
			;
		if (i + n > known) {
			for (known = i + n;
			     known < w->shards.n && same_folders(v[i].pattern, v[known].pattern);
			     known++)
				;
			extents(v + i, known - i, extent);
		}
		state = complete(w, &v[i], n, extent);
	}
	return state;
}

/* --- files --- */

static enum checkpoint_state check_named(struct walk *w, const char *folder, const char *name,
					 const char *path)
{
	if (name_temporary(name))
		return torn(w->l, "%.255s has a temporary name: its save did not end", name);
	if (metadata_name(name)) {
		w->seen |= SEEN_DCP | SEEN_WEIGHTS;
		return checkpoint_dcp(w->l, folder, name);
	}
	if (name_ends(name, ".index.json"))
		return checkpoint_index(w->l, folder, name);
	if (name_ends(name, ".json"))
		return checkpoint_file(w->l, path, checkpoint_json);
	if (name_ends(name, ".safetensors"))
		return checkpoint_file(w->l, path, checkpoint_safetensors);
	if (name_torch(name))
		return checkpoint_file(w->l, path, checkpoint_torch);
	return CHECKPOINT_GOOD;
}

static void note(struct walk *w, const char *name, const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (strstr(name, marks[i].part))
			w->seen |= marks[i].seen;
	if (name_torch(name) || name_ends(name, ".safetensors")) {
		keep_shard(w, path + strlen(w->root) + 1);
		if (w->kind != CHECKPOINT_TRAINER || strstr(name, "model"))
			w->seen |= SEEN_WEIGHTS;
	}
	if (strstr(name, "optim"))
		w->l->facts.optimizer = true;
	w->files++;
}

static enum checkpoint_state walk(struct walk *w, const char *folder, unsigned depth);

static enum checkpoint_state look_at(struct walk *w, const char *folder, const char *name,
				     unsigned depth)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", folder, name);
	struct stat st;

	if (stat(path, &st) < 0)
		return torn(w->l, "%.255s leads to nothing", name);
	if (!S_ISDIR(st.st_mode)) {
		w->newest_ns = MAX(w->newest_ns, timespec_ns(st.st_mtim));
		note(w, name, path);
		return check_named(w, folder, name, path);
	}
	if (strncmp(name, "mp_rank_", 8) == 0)
		w->seen |= SEEN_RANK_FOLDER;
	if (strncmp(name, "global_step", 11) == 0)
		w->seen |= SEEN_DEEPSPEED;
	if (strstr(name, "optim")) {
		w->seen |= SEEN_OPTIMIZER;
		w->l->facts.optimizer = true;
	}
	return depth < CHECKPOINT_DEPTH_MOST ? walk(w, path, depth + 1) : CHECKPOINT_GOOD;
}

static enum checkpoint_state walk(struct walk *w, const char *folder, unsigned depth)
{
	enum checkpoint_state state = CHECKPOINT_GOOD;
	unsigned before = w->seen & (SEEN_DCP | SEEN_DCP_SHARD);
	DIR *dir = opendir(folder);
	struct dirent *d;

	if (!dir)
		return torn(w->l, "it cannot be read: %s", strerror(errno));
	w->seen &= ~(unsigned)(SEEN_DCP | SEEN_DCP_SHARD);
	while (state == CHECKPOINT_GOOD && (d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (w->files > CHECKPOINT_FILES_MOST)
			state = foreign(w->l, "more than %u files", CHECKPOINT_FILES_MOST);
		else
			state = look_at(w, folder, d->d_name, depth);
	}
	closedir(dir);
	if (state == CHECKPOINT_GOOD && w->seen & SEEN_DCP_SHARD && !(w->seen & SEEN_DCP))
		state = torn(w->l, "shards without .metadata: the save did not end");
	w->seen |= before;
	return state;
}

/* --- rules of the kinds --- */

int64_t checkpoint_marker(const char *folder, const char *marker, int64_t *ret_ns)
{
	struct stat st;
	_cleanup_free_ char *path = NULL;
	const char *slash = strrchr(folder, '/');
	char text[256] = "";
	FILE *f;

	path =
	    slash ? xasprintf("%.*s/%s", (int)(slash - folder), folder, marker) : xstrdup(marker);
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (!fgets(text, sizeof(text), f))
		text[0] = 0;
	*ret_ns = fstat(fileno(f), &st) == 0 ? timespec_ns(st.st_mtim) : INT64_MIN;
	fclose(f);
	text[strcspn(text, "\r\n")] = 0;
	if (strcmp(text, "release") == 0)
		return INT64_MAX;
	return *text && name_step(text) >= 0 ? name_step(text) : -2;
}

static enum checkpoint_state marked(struct walk *w, const char *marker, bool needed)
{
	const char *slash = strrchr(w->root, '/');
	int64_t own = name_step(slash ? slash + 1 : w->root), at_ns = INT64_MIN;
	int64_t said = checkpoint_marker(w->root, marker, &at_ns);

	if (said == -1)
		return needed ? torn(w->l, "no %s: the save did not end", marker) : CHECKPOINT_GOOD;
	/* Who ended in the middle of writing it had all ranks' files already. */
	if (said == -2 && at_ns >= w->newest_ns)
		return CHECKPOINT_GOOD;
	if (said == -2)
		return torn(w->l, "%s names no step: the save did not end", marker);
	if (own > said)
		return torn(w->l, "%s still says %" PRId64 ": the save did not end", marker, said);
	return CHECKPOINT_GOOD;
}

static enum checkpoint_state rule_deepspeed(struct walk *w)
{
	bool counted = w->l->facts.dp_world > 0 || !(w->seen & SEEN_ZERO);

	if (!(w->seen & (SEEN_MODEL_STATES | SEEN_DEEPSPEED)))
		return torn(w->l, "no *_model_states.pt in it");
	return marked(w, "latest", !counted);
}

static enum checkpoint_state rule_megatron(struct walk *w)
{
	if (!(w->seen & (SEEN_RANK_FOLDER | SEEN_DCP)))
		return torn(w->l, "neither mp_rank_* nor .metadata in it");
	return marked(w, "latest_checkpointed_iteration.txt", true);
}

static enum checkpoint_state rule_trainer(struct walk *w)
{
	if (!(w->seen & (SEEN_WEIGHTS | SEEN_DCP | SEEN_DEEPSPEED)))
		return torn(w->l, "no weights in it");
	if (!(w->seen & SEEN_STATE))
		return torn(w->l, "no trainer_state.json, which is written last");
	if (w->seen & SEEN_SCHEDULER && !(w->seen & (SEEN_OPTIMIZER | SEEN_DEEPSPEED)))
		return torn(w->l, "scheduler.pt without optimizer.pt");
	return CHECKPOINT_GOOD;
}

static enum checkpoint_state rule_any(struct walk *w)
{
	if (!(w->seen & SEEN_WEIGHTS))
		return torn(w->l, "nothing in it that could be weights");
	return CHECKPOINT_GOOD;
}

static enum checkpoint_state (*const rules[CHECKPOINT_KINDS])(struct walk *w) = {
	[CHECKPOINT_DEEPSPEED] = rule_deepspeed,
	[CHECKPOINT_MEGATRON] = rule_megatron,
	[CHECKPOINT_TRAINER] = rule_trainer,
};

enum checkpoint_state checkpoint_folder(struct checkpoint_look *l, const char *folder,
					enum checkpoint_kind kind)
{
	struct walk w = { .l = l, .root = folder, .kind = kind };
	enum checkpoint_state state = walk(&w, folder, 0);

	if (state == CHECKPOINT_GOOD)
		state = all_complete(&w);
	if (state == CHECKPOINT_GOOD && w.seen & SEEN_OF && !(w.seen & SEEN_INDEX))
		state = torn(l, "numbered shards without their index");
	if (state == CHECKPOINT_GOOD)
		state = rules[kind] ? rules[kind](&w) : rule_any(&w);
	for (size_t i = 0; i < w.shards.n; i++)
		free(w.shards.v[i].pattern);
	free(w.shards.v);
	return state;
}
