/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_state.c - what the next agent needs to go on: per ring where to begin to read, and where
 * its steps were written.
 *
 * The segments are the truth about which steps are on disk: the state says only in which file to
 * look, so that no step is written twice whenever the agent was killed. Text, a line a ring:
 *
 *	ring NAME ROW LAST SEGMENT|- COUNTED MORE CURSOR...
 */
#include "agent/agent_inside.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE_MOST ((size_t)16 << 20)

static void number_put(struct buf *b, uint64_t v)
{
	char text[32];
	int n = snprintf(text, sizeof(text), " %" PRIu64, v);

	buf_put(b, text, (size_t)n);
}

static void line_put(struct buf *b, const struct followed *f)
{
	const struct rank_live *r = f->live;
	const struct rank_snapshot *s = rank_resume(r, f->last_end);
	uint32_t row = NO_ID, n = r->ring->h.n_slots;
	const char *file = f->recording ? recording_file(f->recording, f->who, &row) : NULL;

	buf_put(b, "ring ", 5);
	buf_put(b, f->name, strlen(f->name));
	number_put(b, file ? row : 0);
	number_put(b, (uint64_t)(f->last_step + 1));
	buf_put(b, " ", 1);
	buf_put(b, file ? file : "-", strlen(file ? file : "-"));
	number_put(b, s && s->count.any ? s->count.last + 1 : 0);
	number_put(b, s ? s->count.more : 0);
	for (uint32_t i = 0; s && i < n; i++)
		number_put(b, f->last_step < 0 ? 0 : s->cursor[i]);
	buf_put(b, "\n", 1);
}

int state_save(struct agent *a, struct error *reterr)
{
	static const char part[] = AGENT_STATE ".part";
	_cleanup_close_ int fd = -EBADF;
	struct buf b = { 0 };
	int status = 0;

	buf_put(&b, "lockstep-agent 1\n", 17);
	for (size_t i = 0; i < a->rings.n; i++)
		if (a->rings.v[i].live)
			line_put(&b, &a->rings.v[i]);
	fd = openat(a->out, part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || write(fd, b.data, b.len) != (ssize_t)b.len ||
	    renameat(a->out, part, a->out, AGENT_STATE) < 0)
		status = error_set(reterr, -errno, "%s/%s: %s", a->options->out, AGENT_STATE,
				   strerror(errno));
	buf_done(&b);
	return status;
}

static void line_take(struct agent *a, char *line)
{
	struct remembered r = { 0 };
	char *save, *word, *name = NULL, *row = NULL, *last = NULL, *segment = NULL;
	char *counted, *more;

	word = strtok_r(line, " ", &save);
	if (!word || strcmp(word, "ring"))
		return;
	name = strtok_r(NULL, " ", &save);
	row = strtok_r(NULL, " ", &save);
	last = strtok_r(NULL, " ", &save);
	segment = strtok_r(NULL, " ", &save);
	counted = strtok_r(NULL, " ", &save);
	more = strtok_r(NULL, " ", &save);
	if (!more || strchr(segment, '/') || strchr(name, '/'))
		return;
	r.row = (uint32_t)strtoul(row, NULL, 10);
	r.last_step = (int64_t)strtoll(last, NULL, 10) - 1;
	r.count.any = strcmp(counted, "0") != 0;
	r.count.last = strtoull(counted, NULL, 10) - r.count.any;
	r.count.more = strtoull(more, NULL, 10);
	while (r.n_cursors < RING_READ_SLOTS && (word = strtok_r(NULL, " ", &save)))
		r.cursor[r.n_cursors++] = strtoull(word, NULL, 10);
	r.name = xstrdup(name);
	r.segment = strcmp(segment, "-") ? xstrdup(segment) : NULL;
	*vec_push(&a->remembered) = r;
}

static void step_seen(void *user, uint64_t row, uint64_t number, int64_t end_ns)
{
	const struct {
		struct agent *a;
		const char *segment;
	} *of = user;

	(void)end_ns;
	for (size_t i = 0; i < of->a->remembered.n; i++) {
		struct remembered *r = &of->a->remembered.v[i];

		if (r->segment && r->row == row && !strcmp(r->segment, of->segment))
			r->last_step = MAX(r->last_step, (int64_t)MIN(number, (uint64_t)INT64_MAX));
	}
}

/* Each segment of the last agent once. */
static void segments_look(struct agent *a)
{
	for (size_t i = 0; i < a->remembered.n; i++) {
		const char *segment = a->remembered.v[i].segment;
		struct {
			struct agent *a;
			const char *segment;
		} of = { a, segment };
		struct error error = { "" };
		bool done = !segment;

		for (size_t k = 0; k < i && !done; k++)
			done = a->remembered.v[k].segment &&
			       !strcmp(a->remembered.v[k].segment, segment);
		if (!done && segment_recover(a->out, segment, step_seen, &of, &error) < 0)
			a->options->say("%s", error.text);
	}
}

void state_load(struct agent *a)
{
	_cleanup_close_ int fd = openat(a->out, AGENT_STATE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_free_ char *text = NULL;
	char *save, *line;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || (size_t)st.st_size > STATE_MOST)
		return;
	text = xcalloc(1, (size_t)st.st_size + 1);
	n = read(fd, text, (size_t)st.st_size);
	if (n <= 0 || strncmp(text, "lockstep-agent 1\n", 17) != 0)
		return;
	for (line = strtok_r(text + 17, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		line_take(a, line);
	segments_look(a);
}

/* A ring that the agent before us has followed: go on where its last step ended. */
void state_apply(struct agent *a, struct followed *f)
{
	for (size_t i = 0; i < a->remembered.n; i++) {
		struct remembered *r = &a->remembered.v[i];
		struct ring_file *ring = f->live->ring;

		if (strcmp(r->name, f->name) != 0)
			continue;
		f->last_step = f->next_step = f->live->skip_until = r->last_step;
		f->live->count = r->count;
		for (uint32_t k = 0; k < MIN(r->n_cursors, ring->h.n_slots); k++)
			if (r->cursor[k] <= ring->slots[k].head)
				ring->cursor[k] = r->cursor[k];
		return;
	}
}
