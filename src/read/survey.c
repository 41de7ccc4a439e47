/* SPDX-License-Identifier: Apache-2.0 */
/*
 * survey.c - what lies in the given paths: walked in order of name, each file looked at once.
 *
 * Nothing is opened before stat said that it is a regular file, no descriptor outlives the look at
 * its file or folder, and the result depends on names and contents only.
 */
#include "read/survey.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "read/input.h"
#include "read/sqlite_file.h"
#include "read/timeline.h"
#include "read/walked.h"
#include "read/witness.h"

#define SURVEY_DEPTH_MAX 64u
#define TAR_MAGIC_AT	 257u
#define TAR_BLOCK	 512u

struct walk {
	struct survey *s;
	VEC(struct survey_input) inputs;
	struct walked walked;
	char *raw; /* SURVEY_LOOK_BYTES */
	size_t raw_len;
};

/* --- what a file is --- */

static bool text_has(const char *text, size_t len, const char *part)
{
	return memmem(text, len, part, strlen(part)) != NULL;
}

static const char *skip_white(const char *p, const char *end)
{
	if (end - p >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		p += 3;
	while (p < end && (unsigned char)*p <= ' ')
		p++;
	return p;
}

/* Categories that only profiler traces have; a bare array needs one beside its phase letters. */
static bool has_kineto_category(const char *text, size_t len)
{
	static const char *const categories[] = {
		"\"cpu_op\"",	       "\"kernel\"",	 "\"Kernel\"", "\"Operator\"",
		"\"cuda_runtime\"",    "\"Runtime\"",	 "\"ac2g\"",   "\"user_annotation\"",
		"\"python_function\"", "\"gpu_memcpy\"", "\"Memcpy\"", "\"process_labels\"",
		"\"cuda_driver\"",     "\"fwdbwd\"",
	};

	for (size_t i = 0; i < ARRAY_SIZE(categories); i++)
		if (text_has(text, len, categories[i]))
			return true;
	return false;
}

static bool is_tar(const char *text, size_t len)
{
	return len >= TAR_BLOCK && !memcmp(text + TAR_MAGIC_AT, "ustar", 5);
}

static enum input_kind kind_of_json(const char *p, size_t len)
{
	if (timeline_looks(p, len) && !has_kineto_category(p, len))
		return INPUT_TIMELINE;
	if (text_has(p, len, "\"traceEvents\""))
		return INPUT_KINETO;
	if (*p == '{' && text_has(p, len, "\"schemaVersion\"") &&
	    (text_has(p, len, "\"deviceProperties\"") || text_has(p, len, "\"distributedInfo\"")))
		return INPUT_KINETO;
	if (*p == '[' && text_has(p, len, "\"ph\"") && has_kineto_category(p, len))
		return INPUT_KINETO;
	return INPUT_OTHER;
}

static struct survey_found found_in(const char *text, size_t len, const char *path)
{
	struct survey_found f = { INPUT_OTHER, -1, NULL, false };
	const char *end = text + len, *p = skip_white(text, end);
	bool json = p < end && (*p == '{' || *p == '[');

	if (len >= 8 && !memcmp(text, "LKSTEP1\n", 8))
		f.kind = INPUT_LKS;
	else if (sqlite_looks(text, len))
		f.kind = INPUT_NSYS;
	else if (is_tar(text, len) ||
		 (len >= 4 && (!memcmp(text, "PK\003\004", 4) || !memcmp(text, "PK\005\006", 4))))
		f.kind = INPUT_ARCHIVE;
	else if (json)
		f.kind = kind_of_json(p, (size_t)(end - p));
	if (f.kind != INPUT_OTHER)
		return f;
	if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) {
		text += 3;
		len -= 3;
	}
	f.format = witness_find(text, len, path);
	if (f.format >= 0)
		f.kind = INPUT_WITNESS;
	else if (json)
		f.why = *p == '[' && text_has(p, (size_t)(end - p), "\"ph\"")
			    ? "a Chrome trace, but not of the PyTorch profiler"
			    : "JSON of no known kind";
	else
		f.why = memchr(text, 0, len) ? "a binary file of no known kind"
					     : "a text file of no known kind";
	return f;
}

static ssize_t source_span(void *user, void *buf, size_t len)
{
	struct span *s = user;
	size_t n = MIN(len, span_left(s));

	memcpy(buf, s->p, n);
	s->p += n;
	return (ssize_t)n;
}

size_t survey_look_bytes(const void *raw, size_t len)
{
	static const uint8_t zstd_magic[] = { 0x28, 0xb5, 0x2f, 0xfd };

	return len >= sizeof(zstd_magic) && !memcmp(raw, zstd_magic, sizeof(zstd_magic))
		   ? SURVEY_LOOK_MAX
		   : SURVEY_LOOK_BYTES;
}

struct survey_found survey_look(const void *raw, size_t len, bool whole, const char *path)
{
	struct survey_found f = { INPUT_OTHER, -1, NULL, true };
	struct span span = span_of(raw, len);
	struct input *in = input_of_source(source_span, &span);
	_cleanup_free_ char *text = xmalloc(SURVEY_LOOK_BYTES);
	ssize_t n = input_read(in, text, SURVEY_LOOK_BYTES);

	if (n > 0)
		f = found_in(text, (size_t)n, path);
	else if (!input_compressed(in))
		f.why = "an empty file";
	else if (input_state(in) == INPUT_DAMAGED)
		f.why = "a damaged compressed file: nothing can be read of it";
	else
		f.why = whole ? "a compressed file that ends before its first byte"
			      : "a compressed file with nothing in its first part";
	input_free(in);
	return f;
}

static int read_look(struct walk *w, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOTSUP;
	w->raw_len = 0;
	for (size_t want; w->raw_len < (want = survey_look_bytes(w->raw, w->raw_len));) {
		ssize_t n = read(fd, w->raw + w->raw_len, want - w->raw_len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		w->raw_len += (size_t)n;
	}
	return 0;
}

static const char *keep(struct walk *w, const char *text)
{
	return arena_strndup(&w->s->arena, text, strlen(text));
}

static struct survey_input *add(struct walk *w, const char *path, const char *why, bool said)
{
	struct survey_input *i = vec_push(&w->inputs);

	*i = (struct survey_input){
		.path = keep(w, path), .kind = INPUT_OTHER, .format = -1, .why = why, .said = said
	};
	return i;
}

static void look_at_file(struct walk *w, const char *path, const struct stat *st)
{
	struct survey_input *i = add(w, path, NULL, true);
	struct survey_found found;
	int r = read_look(w, path);

	i->size_bytes = (uint64_t)st->st_size;
	if (r < 0) {
		char why[128];

		snprintf(why, sizeof(why), "cannot be opened: %s", strerror(-r));
		i->why = keep(w, why);
		return;
	}
	found = survey_look(w->raw, w->raw_len, w->raw_len == i->size_bytes, path);
	i->kind = found.kind;
	i->format = found.format;
	i->why = found.why;
	i->said = found.said;
}

/* --- the walk --- */

static void visit(struct walk *w, const char *path, unsigned depth);

static void visit_folder(struct walk *w, const char *path, const struct stat *st, unsigned depth)
{
	struct dirent **names;
	int n;

	if (walked_already(&w->walked, st))
		return;
	if (depth >= SURVEY_DEPTH_MAX) {
		add(w, path, "not walked: folders nested too deep", true);
		return;
	}
	n = scandir(path, &names, NULL, walked_by_name);
	if (n < 0) {
		char why[128];

		snprintf(why, sizeof(why), "a folder that cannot be read: %s", strerror(errno));
		add(w, path, keep(w, why), true);
		return;
	}
	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name;

		/* The agent's own files beside its segments tell nothing. */
		if (strcmp(name, ".") && strcmp(name, "..") &&
		    strncmp(name, ".lockstep-", 10) != 0) {
			_cleanup_free_ char *child = NULL;
			size_t len = strlen(path);

			while (len > 1 && path[len - 1] == '/')
				len--;
			child = xasprintf("%.*s%s%s", (int)len, path,
					  path[len - 1] == '/' ? "" : "/", name);
			visit(w, child, depth + 1);
		}
		free(names[i]);
	}
	free(names);
}

static const char *special_kind(mode_t mode)
{
	if (S_ISFIFO(mode))
		return "not opened: a FIFO";
	if (S_ISSOCK(mode))
		return "not opened: a socket";
	return "not opened: a device";
}

static void visit(struct walk *w, const char *path, unsigned depth)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		char why[128];

		snprintf(why, sizeof(why), "cannot be reached: %s", strerror(errno));
		add(w, path, keep(w, why), true);
		return;
	}
	if (S_ISDIR(st.st_mode))
		visit_folder(w, path, &st, depth);
	else if (S_ISREG(st.st_mode))
		look_at_file(w, path, &st);
	else
		add(w, path, special_kind(st.st_mode), true);
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct survey_input *)a)->path,
		      ((const struct survey_input *)b)->path);
}

/* A path that was given twice, or by name and in its folder, counts once. */
static size_t drop_doubles(struct survey_input *v, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (!kept || strcmp(v[kept - 1].path, v[i].path))
			v[kept++] = v[i];
	return kept;
}

int survey_paths(struct survey *s, char *const *paths, size_t n_paths, struct error *reterr)
{
	struct walk w = { .s = s };
	struct stat st;

	*s = (struct survey){ 0 };
	for (size_t i = 0; i < n_paths; i++)
		if (stat(paths[i], &st) < 0)
			return error_set(reterr, -errno, "%s: %s", paths[i], strerror(errno));
	w.raw = xmalloc(SURVEY_LOOK_MAX);
	for (size_t i = 0; i < n_paths; i++)
		visit(&w, paths[i], 0);
	if (w.inputs.n) {
		qsort(w.inputs.v, w.inputs.n, sizeof(*w.inputs.v), by_path);
		s->n = drop_doubles(w.inputs.v, w.inputs.n);
		s->inputs = arena_alloc(&s->arena, s->n * sizeof(*s->inputs));
		memcpy(s->inputs, w.inputs.v, s->n * sizeof(*s->inputs));
	}
	free(w.inputs.v);
	walked_done(&w.walked);
	free(w.raw);
	return 0;
}

void survey_done(struct survey *s)
{
	arena_done(&s->arena);
	*s = (struct survey){ 0 };
}

/* --- names --- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The last part of a path, or of an archive's member. */
static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	const char *colon = strrchr(base, ':');

	return colon ? colon + 1 : base;
}

/* The number behind `word` in s[0..len): at most one of - _ . between, no letter in front. */
static int64_t number_behind(const char *s, size_t len, const char *word)
{
	size_t n = strlen(word);

	for (size_t i = 0; i + n < len; i++) {
		size_t at = i + n;
		int64_t v = 0;

		if (strncasecmp(s + i, word, n) || (i && is_letter(s[i - 1])))
			continue;
		if (i >= 6 && !strncasecmp(s + i - 6, "local", 5)) /* the place in its node */
			continue;
		at += s[at] == '-' || s[at] == '_' || s[at] == '.';
		if (at >= len || !is_digit(s[at]))
			continue;
		for (; at < len && is_digit(s[at]) && v < INT32_MAX; at++)
			v = v * 10 + (s[at] - '0');
		if (v < INT32_MAX && (at == len || !is_digit(s[at])))
			return v;
	}
	return -1;
}

int64_t survey_rank_of_name(const char *path)
{
	const char *base = base_name(path), *host, *folder;
	size_t len = strlen(base), host_len;
	int64_t rank = number_behind(base, len, "rank");

	/* A host may be called job-worker-3: then the 3 is not a rank. */
	if (rank < 0 && !survey_host_of_name(path, &host, &host_len))
		rank = number_behind(base, len, "worker");
	if (rank >= 0 || base == path || base[-1] != '/')
		return rank;
	/* A folder for each rank: rank3/trace.json. */
	for (folder = base - 1; folder > path && folder[-1] != '/'; folder--)
		;
	if (!strncasecmp(folder, "rank", 4)) {
		const char *end = base - 1, *p = folder + 4;

		p += *p == '-' || *p == '_';
		for (host = p; p < end && is_digit(*p); p++)
			;
		if (p == end && p > host)
			return number_behind(folder, (size_t)(end - folder), "rank");
	}
	return -1;
}

bool survey_host_of_name(const char *path, const char **ret, size_t *ret_len)
{
	const char *base = base_name(path);
	const char *end = strstr(base, ".pt.trace.json"), *p = end;

	if (!end)
		return false;
	while (p > base && is_digit(p[-1])) /* the time */
		p--;
	if (p == end || p == base || p[-1] != '.')
		return false;
	end = --p;
	while (p > base && is_digit(p[-1])) /* the process */
		p--;
	if (p == end || p == base || p[-1] != '_')
		return false;
	end = p - 1;
	/* No host has an underscore: worker7_step_12.1694128201554 is a name by hand. */
	if (end == base || memchr(base, '_', (size_t)(end - base)))
		return false;
	*ret = base;
	*ret_len = (size_t)(end - base);
	return true;
}
