/* SPDX-License-Identifier: Apache-2.0 */
/* watch_files.c - logs and folders, looked at in a helper and taken in the loop; see watch_files.h.
 */
#include "watch/watch_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watch/watch_read.h"
#include "base/clock.h"

#define MORE_MS	   200 /* until the next look at a log of which more is there */
#define OUT_MUCH   ((size_t)64 << 10)
#define OUT_KEEP   ((size_t)256 << 10)
#define SILENCE_MS 500 /* of a helper that is at work */
#define ASKS_MOST  256u
#define SOCKET	   0 /* where a helper has it */

/* --- in the helper --- */

static struct helper {
	struct sources *s;
	struct source *v; /* that is looked at */
	uint32_t i;
	struct buf out;
	int64_t told_ms;
	uint64_t dev;
	bool dev_known;
} helper;

static void flush(struct helper *h)
{
	size_t done = 0;

	while (done < h->out.len) {
		ssize_t n = send(SOCKET, h->out.data + done, h->out.len - done, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(0); /* the loop is gone */
		done += (size_t)n;
	}
	h->out.len = 0;
	h->told_ms = clock_ms();
	if (h->out.cap > OUT_KEEP)
		buf_done(&h->out);
}

static void put(struct helper *h, enum files_word what, int64_t a, int64_t b, const void *p,
		size_t len)
{
	struct lane_word w = { .what = what, .source = h->i, .a = a, .b = b, .len = len };

	buf_put(&h->out, &w, sizeof(w));
	if (len)
		buf_put(&h->out, p, len);
	if (h->out.len >= OUT_MUCH)
		flush(h);
}

/* Called wherever something was answered: the loop shall see that it goes on. */
static void alive(void)
{
	struct helper *h = &helper;

	if (clock_ms() - h->told_ms < SILENCE_MS)
		return;
	put(h, WORD_ALIVE, 0, 0, NULL, 0);
	flush(h);
}

static void see_device(struct helper *h, uint64_t dev)
{
	if (!h->dev_known)
		h->dev = dev;
	h->dev_known = true;
}

static void send_text(void *user, const char *text, size_t len, bool history, int64_t age_ms)
{
	put(user, WORD_TEXT, history, age_ms, text, len);
}

/* Readings without their columns' names mean nothing: those at the file's beginning are kept. */
static void send_header(struct helper *h, const char *path)
{
	char text[2 * SOURCE_HEADER_MOST];
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text)) : 0;

	cleanup_close(&fd);
	if (n > 0)
		h->v->header = source_header_of(text, (size_t)n);
	if (h->v->header)
		put(h, WORD_HEADER, 0, 0, h->v->header, strlen(h->v->header));
}

static void look_at_file(struct helper *h, struct source_file *file)
{
	struct files_cursor c = { .result = 0 };
	struct error e = { "" };

	put(h, WORD_FILE, 0, 0, file->f.path, strlen(file->f.path));
	if (h->v->kind == SOURCE_GPU_LOG && !h->v->header)
		send_header(h, file->f.path);
	c.result = follow_look(&file->f, send_text, h, &e);
	c.f = file->f;
	c.f.path = NULL;
	c.f.fd = -1;
	snprintf(c.why, sizeof(c.why), "%s", e.text);
	put(h, WORD_CURSOR, 0, 0, &c, sizeof(c));
	if (file->f.known)
		see_device(h, file->f.dev);
	alive();
}

/* All files of a folder: what is a pattern in its path is taken as it stands. */
static char *pattern_of_folder(const char *path)
{
	char *pattern = xmalloc(2 * strlen(path) + 3), *to = pattern;

	for (; *path; path++) {
		if (strchr("*?[\\", *path))
			*to++ = '\\';
		*to++ = *path;
	}
	strcpy(to, "/*");
	return pattern;
}

/* glob(3) over many entries of a slow file system says that it goes on. */
static struct dirent *glob_readdir(void *d)
{
	alive();
	return readdir(d);
}

static int glob_lstat(const char *restrict path, struct stat *restrict st)
{
	alive();
	return lstat(path, st);
}

static int glob_stat(const char *restrict path, struct stat *restrict st)
{
	alive();
	return stat(path, st);
}

static void *glob_opendir(const char *path)
{
	return opendir(path);
}

static void glob_closedir(void *d)
{
	closedir(d);
}

static void find_files(struct helper *h)
{
	struct source *v = h->v;
	struct stat st;
	bool there = stat(v->what, &st) == 0, folder = there && S_ISDIR(st.st_mode);
	_cleanup_free_ char *pattern = folder ? pattern_of_folder(v->what) : xstrdup(v->what);
	glob_t found = { .gl_readdir = glob_readdir,
			 .gl_opendir = glob_opendir,
			 .gl_closedir = glob_closedir,
			 .gl_lstat = glob_lstat,
			 .gl_stat = glob_stat };

	if (!folder && (there || !strpbrk(v->what, "*?["))) {
		source_file_of(h->s, v, v->what);
		return;
	}
	if (folder)
		see_device(h, (uint64_t)st.st_dev);
	if (glob(pattern, GLOB_ALTDIRFUNC, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++)
			if (glob_stat(found.gl_pathv[i], &st) == 0 && S_ISREG(st.st_mode))
				source_file_of(h->s, v, found.gl_pathv[i]);
	globfree(&found);
	put(h, WORD_FOUND, (int64_t)v->files.n, 0, NULL, 0);
}

static void look_at_folder(struct helper *h, int64_t after_ns)
{
	struct files_folder f = { .result = 0 };
	struct error e = { "" };
	uint64_t dev;

	f.result = folder_look(h->v->what, after_ns, alive, &f.look, &dev, &e);
	snprintf(f.why, sizeof(f.why), "%s", e.text);
	put(h, WORD_FOLDER, 0, 0, &f, sizeof(f));
	if (f.result >= 0)
		see_device(h, dev);
}

static void serve(struct helper *h, const struct lane_ask *ask)
{
	h->i = ask->source;
	h->v = &h->s->v.v[ask->source];
	h->dev_known = false;
	if (h->v->kind == SOURCE_LOG || h->v->kind == SOURCE_GPU_LOG) {
		find_files(h);
		for (size_t k = 0; k < h->v->files.n; k++)
			look_at_file(h, &h->v->files.v[k]);
	} else {
		look_at_folder(h, ask->after_ns);
	}
	put(h, WORD_END, (int64_t)h->dev, h->dev_known, NULL, 0);
}

int files_serve(void *user)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
	struct helper *h = &helper;
	struct lane_ask asks[ASKS_MOST];
	ssize_t n;

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		signal(signals[i], SIG_DFL);
	closefrom(3); /* the lock of the state among them: we may outlive the loop */
	*h = (struct helper){ .s = user, .told_ms = clock_ms() };
	while ((n = recv(SOCKET, asks, sizeof(asks), 0)) > 0 || (n < 0 && errno == EINTR)) {
		for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(*asks); i++)
			serve(h, &asks[i]);
		flush(h);
	}
	return 0;
}

/* --- in the loop --- */

static struct source_file *file_now(struct source *v)
{
	return v->file < v->files.n ? &v->files.v[v->file] : NULL;
}

static void take_text(struct sources *s, struct source *v, const struct lane_word *w,
		      const char *text, size_t len)
{
	struct source_file *file = file_now(v);
	struct watch_piece p = {
		.text = text,
		.len = len,
		.path = file->f.path,
		.before_ms = file->before_ms,
		.at_ms = s->now_ms - w->b,
		.history = w->a,
		.skipped = &s->cut,
	};

	s->pieces++;
	if (!p.history)
		p.at_ms = MAX(p.at_ms, p.before_ms);
	if (v->kind == SOURCE_GPU_LOG)
		v->told |= watch_read_gpus(s->w, file->row, &p) > 0;
	else
		watch_read_log(s->w, file->row, &p);
}

/* Under the names of its columns, if they are not at its own begin. */
static void take_readings(struct sources *s, struct source *v, const struct lane_word *w,
			  const char *text)
{
	size_t head = v->header ? strlen(v->header) : 0;
	_cleanup_free_ char *with = NULL;

	if (!head || !strncmp(text, v->header, MIN((size_t)w->len, head))) {
		take_text(s, v, w, text, w->len);
		return;
	}
	with = xmalloc(head + w->len + 1);
	memcpy(with, v->header, head);
	memcpy(with + head, text, w->len + 1);
	take_text(s, v, w, with, head + w->len);
}

static void take_file(struct sources *s, struct source *v, const char *path)
{
	struct source_file *file = source_file_of(s, v, path);

	v->file = file ? (size_t)(file - v->files.v) : SIZE_MAX;
	v->told = false;
	if (file && file->row == NO_ID)
		file->row = watch_add_source(s->w, path);
	if (file && file->before_ms < 0)
		file->before_ms = s->now_ms - s->interval_ms;
}

static void take_cursor(struct sources *s, struct source *v, const struct files_cursor *c)
{
	struct source_file *file = file_now(v);
	char *path = file->f.path;

	file->f = c->f;
	file->f.path = path;
	if (c->result < 0)
		source_silent(s, file->row, c->why, 0);
	else if (v->kind != SOURCE_GPU_LOG || v->told)
		source_heard(s, file->row);
	else if (s->now_ms - s->w->sources.v[file->row].heard_ms > s->w->limits.blind_ms)
		source_silent(s, file->row, "no readings any more", 0);
	if (c->result == 1)
		v->next_ms = s->now_ms + MORE_MS;
	file->before_ms = s->now_ms;
}

static void take_folder(struct sources *s, struct source *v, const struct files_folder *f)
{
	int r = f->result;

	if (r >= 0 || v->kind == SOURCE_DUMPS)
		r = v->kind == SOURCE_CHECKPOINTS ? folder_take_saves(s, v, &f->look)
						  : folder_take_dumps(s, v, r, &f->look);
	if (r)
		source_silent(s, v->row, f->why, r < 0 ? -r : 0);
	else
		source_heard(s, v->row);
}

void files_take(struct sources *s, struct source *v, const struct lane_word *w, const char *text)
{
	struct files_cursor cursor;
	struct files_folder folder;

	switch ((enum files_word)w->what) {
	case WORD_FOUND:
		if (w->a)
			source_heard(s, v->row);
		else
			source_silent(s, v->row, "no such file", 0);
		break;
	case WORD_FILE:
		take_file(s, v, text);
		break;
	case WORD_HEADER:
		free(v->header);
		v->header = xstrdup(text);
		break;
	case WORD_TEXT:
		if (file_now(v) && v->kind == SOURCE_GPU_LOG)
			take_readings(s, v, w, text);
		else if (file_now(v))
			take_text(s, v, w, text, w->len);
		break;
	case WORD_CURSOR:
		memcpy(&cursor, text, sizeof(cursor));
		if (file_now(v))
			take_cursor(s, v, &cursor);
		break;
	case WORD_FOLDER:
		memcpy(&folder, text, sizeof(folder));
		take_folder(s, v, &folder);
		break;
	default:
		break;
	}
}
