/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_json.c - `py-spy dump --json`: an array with an object a thread, innermost frame first.
 *
 * Each thread is taken on its own, so that memory follows one thread and a damaged one costs only
 * itself. Several arrays in a row (a file that many processes wrote to) are read alike.
 */
#include "read/json_fast.h"
#include "read/stack.h"
#include "read/text_lines.h"

#define THREAD_BYTES_MAX ((size_t)4 << 20)
#define NAME_BYTES_MAX	 4096u
#define FRAMES_MAX	 1024u

struct stack_json {
	struct json_window w;
	struct testimony *t;
	struct read_stats *stats;
	struct buf copy;
	struct stack_name name;
	int64_t first_pid;
};

/* The object's member that is called `key`; NULL. p stands behind the brace. */
static const char *member(const char *p, const char *end, const char *key)
{
	size_t n = strlen(key);

	for (p = json_skip_space(p, end); p < end && *p == '"';) {
		bool plain;
		const char *name = p + 1, *close = json_string_end(name, end, &plain);

		if (!close)
			return NULL;
		p = json_skip_space(close + 1, end);
		if (*p != ':')
			return NULL;
		p = json_skip_space(p + 1, end);
		if ((size_t)(close - name) == n && !memcmp(name, key, n))
			return p;
		p = json_skip_value(p, end);
		if (!p)
			return NULL;
		p = json_skip_space(p, end);
		if (*p != ',')
			return NULL;
		p = json_skip_space(p + 1, end);
	}
	return NULL;
}

static uint32_t text_at(struct stack_json *s, const char *p, const char *end)
{
	char text[NAME_BYTES_MAX];
	const char *close;
	bool plain, bad = false;
	size_t len;

	if (!p || *p != '"')
		return NO_ID;
	close = json_string_end(p + 1, end, &plain);
	if (!close)
		return NO_ID;
	len = MIN((size_t)(close - p - 1), sizeof(text));
	len = json_unescape(text, p + 1, len, &bad);
	s->stats->skipped[SKIP_BAD_TEXT] += bad;
	return len ? testimony_name(s->t, text, len) : NO_ID;
}

static int64_t number_at(const char *p, const char *end)
{
	int64_t v;

	if (!p || json_number(&p, end, 0, &v) != JSON_NUMBER_GOOD || v < 0)
		return -1;
	return v;
}

static bool true_at(const char *p, const char *end)
{
	return p && end - p >= 4 && !memcmp(p, "true", 4);
}

static void read_frames(struct stack_json *s, const char *p, const char *end)
{
	if (!p || *p != '[')
		return;
	p = json_skip_space(p + 1, end);
	for (unsigned n = 0; p < end && *p == '{'; n++) {
		const char *next = json_skip_value(p, end);
		const char *file;
		int64_t line;

		if (!next)
			return;
		if (n >= FRAMES_MAX) {
			s->t->dropped++;
			return;
		}
		/* The short name is what the text form prints. */
		file = member(p + 1, next, "short_filename");
		if (!file || *file != '"')
			file = member(p + 1, next, "filename");
		line = number_at(member(p + 1, next, "line"), next);
		testimony_frame(s->t, text_at(s, member(p + 1, next, "name"), next),
				text_at(s, file, next),
				line > 0 && line <= INT32_MAX ? (int32_t)line : -1);
		p = json_skip_space(next, end);
		if (*p != ',')
			return;
		p = json_skip_space(p + 1, end);
	}
}

static bool new_process(struct stack_json *s, int64_t pid)
{
	struct process_stack *p = s->t->stacks.n ? &s->t->stacks.v[s->t->stacks.n - 1] : NULL;
	bool child = s->first_pid >= 0 && pid != s->first_pid;

	if (p && p->pid == pid)
		return true;
	p = testimony_stack(s->t);
	if (!p)
		return false;
	p->tool = STACK_PYSPY;
	p->pid = pid;
	p->host = s->t->host;
	/* Other processes in a rank's file are its children. */
	p->rank = child ? -1 : s->name.rank;
	p->local_rank = child ? -1 : s->name.local_rank;
	if (s->first_pid < 0)
		s->first_pid = pid;
	return true;
}

static void read_thread(struct stack_json *s, const char *p, const char *end)
{
	const char *next = *p == '{' ? json_skip_value(p, end) : NULL;
	const char *frames = next ? member(p + 1, next, "frames") : NULL;
	struct thread_stack *th;
	int64_t pid, tid;
	const char *name;

	if (!frames) {
		s->stats->skipped[SKIP_MALFORMED]++;
		return;
	}
	pid = number_at(member(p + 1, next, "pid"), next);
	if (!new_process(s, pid))
		return;
	th = testimony_thread(s->t);
	th->name = text_at(s, member(p + 1, next, "thread_name"), next);
	th->active = true_at(member(p + 1, next, "active"), next);
	th->gil = true_at(member(p + 1, next, "owns_gil"), next);
	tid = number_at(member(p + 1, next, "os_thread_id"), next);
	name = intern_get(&s->t->names, th->name);
	th->main = (pid >= 0 && tid == pid) || !strcmp(name, "MainThread");
	read_frames(s, frames, next);
}

/* Copies the threads one by one; the arrays' own brackets are all that lies between. */
static void read_all(struct stack_json *s)
{
	unsigned found = 0;

	while (json_skip_space_refilling(&s->w)) {
		enum json_copied got;
		uint64_t at;

		if (strchr("[],", *s->w.p) && *s->w.p) {
			s->w.p++;
			continue;
		}
		at = json_window_at(&s->w, s->w.p);
		got = json_copy_value(&s->w, &s->copy, THREAD_BYTES_MAX, &found);
		if (got == JSON_END) {
			s->stats->skipped[SKIP_TRUNCATED]++;
			return;
		}
		/* Nothing that begins a value takes nothing. */
		if (got == JSON_BROKEN || json_window_at(&s->w, s->w.p) == at) {
			s->stats->skipped[SKIP_MALFORMED]++;
			s->w.p++;
			continue;
		}
		read_thread(s, (const char *)s->copy.data,
			    (const char *)s->copy.data + s->copy.len);
	}
	s->stats->skipped[SKIP_BAD_TEXT] += !!(found & JSON_FOUND_BAD_TEXT);
	s->stats->skipped[SKIP_TOO_LONG] += !!(found & JSON_FOUND_TOO_LONG);
	s->stats->skipped[SKIP_TOO_DEEP] += !!(found & JSON_FOUND_TOO_DEEP);
}

bool stack_json_sniff(const char *text, size_t len, const char *path)
{
	(void)path;
	line_trim(&text, &len);
	return len && *text == '[' && line_has(text, len, "\"frames\"") &&
	       (line_has(text, len, "\"thread_id\"") || line_has(text, len, "\"owns_gil\""));
}

int stack_json_read(struct input *in, const char *path, struct testimony **ret,
		    struct read_stats *stats, struct error *reterr)
{
	struct stack_json s = { .t = testimony_new(WITNESS_STACKS, "py-spy"),
				.stats = stats,
				.name = stack_name_of(path),
				.first_pid = -1 };

	s.t->path = testimony_name(s.t, path, strlen(path));
	s.t->rank = s.name.rank;
	if (s.name.host)
		s.t->host = testimony_name(s.t, s.name.host, s.name.host_len);
	json_window_init(&s.w, in, 0);
	read_all(&s);
	stats->events = s.t->threads.n;
	stats->bytes = input_bytes_text(in);
	stats->bytes_file = input_bytes_raw(in);
	json_window_done(&s.w);
	buf_done(&s.copy);
	if (!s.t->stacks.n) {
		testimony_free(s.t);
		return error_set(reterr, -EBADMSG, "no thread of py-spy's could be read");
	}
	if (input_state(in) != INPUT_GOOD)
		error_set(reterr, 0, "%s", input_problem(in));
	else if (stats->skipped[SKIP_TRUNCATED])
		error_set(reterr, 0, "it ends inside a thread");
	s.t->pid = s.first_pid;
	*ret = s.t;
	return 0;
}
