/* SPDX-License-Identifier: Apache-2.0 */
/* watch_lane.c - helpers that look at paths, and what becomes of those that hang; see watch_lane.h.
 */
#include "watch/watch_lane.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "watch/watch_files.h"

#define AGAIN_MOST_MS 60000
#define STUCK_MOST    3u   /* helpers of a lane that do not die */
#define STUCK_MS      2000 /* from KILL to "it waits in the kernel" */
#define OWN_MOST      8u   /* lanes of one source */
#define READ_BYTES    ((size_t)256 << 10)
#define READ_MOST     ((size_t)16 << 20) /* of a lane in one turn of the loop */
#define WORD_MOST     ((uint64_t)16 << 20)
#define LINE_MOST     4096u
#define SLEPT_MS      1000 /* between two turns of a loop that waits */

/* --- which lane --- */

/* "\040" is how the kernel writes a blank. */
static void unescape(char *p)
{
	char *to = p;

	for (; *p; p++) {
		unsigned v;

		if (*p == '\\' && sscanf(p + 1, "%3o", &v) == 1) {
			*to++ = (char)v;
			p += 3;
		} else {
			*to++ = *p;
		}
	}
	*to = '\0';
}

static bool is_below(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	return !strncmp(path, folder, n) && (n == 1 || !path[n] || path[n] == '/');
}

/* The mount that the name lies in: nothing is touched, so a link on the way is not seen. */
struct lane_key lane_guess(const char *path)
{
	_cleanup_free_ char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
	_cleanup_free_ char *full = here ? xasprintf("%s/%s", here, path) : xstrdup(path);
	FILE *f = fopen("/proc/self/mountinfo", "re");
	struct lane_key key = { LANE_MOUNT, 0 };
	char line[LINE_MOST], point[LINE_MOST];
	size_t best = 0;
	unsigned id;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%u %*s %*s %*s %4095s", &id, point) != 2)
			continue;
		unescape(point);
		if (is_below(full, point) && strlen(point) >= best) {
			best = strlen(point);
			key.number = id;
		}
	}
	if (f)
		fclose(f);
	return key;
}

static bool same_key(struct lane_key a, struct lane_key b)
{
	return a.kind == b.kind && a.number == b.number;
}

static struct lane *lane_of(struct sources *s, struct lane_key key)
{
	struct lane *l;

	for (size_t i = 0; i < s->lanes.n; i++)
		if (same_key(s->lanes.v[i].key, key))
			return &s->lanes.v[i];
	l = vec_push(&s->lanes);
	*l = (struct lane){ .key = key, .fd = -1 };
	return l;
}

bool lane_has(const struct lane *l, const struct source *v)
{
	return source_has_path(v) && same_key(l->key, v->key);
}

static void move_source(struct sources *s, struct source *v, struct lane_key key)
{
	if (same_key(v->key, key))
		return;
	v->key = key;
	v->moved = ++s->generation;
}

/* --- helpers --- */

/* Not waited for: it may not be able to die. */
static void end_helper(struct sources *s, struct lane *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
	l->in.len = 0;
	l->sent = 0;
	if (!l->child.pid)
		return;
	child_kill(&l->child);
	*vec_push(&l->gone) = (struct lane_gone){ l->child.pid, s->now_ms };
	l->child.pid = 0;
}

static void reap(struct sources *s, struct lane *l)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->gone.n; i++) {
		struct lane_gone g = l->gone.v[i];

		if (waitpid(g.pid, NULL, WNOHANG) == 0)
			l->gone.v[kept++] = g;
		else if (s->now_ms - g.since_ms > STUCK_MS) /* what it waited for has answered */
			l->again_ms = s->now_ms;
	}
	l->gone.n = kept;
}

static int begin_helper(struct sources *s, struct lane *l, struct error *reterr)
{
	struct child_plan plan = { .fn = files_serve, .user = s };
	int both[2], r;

	end_helper(s, l);
	reap(s, l);
	if (l->gone.n >= STUCK_MOST)
		return error_set(reterr, -EBUSY, "%zu of them wait for it in the kernel",
				 l->gone.n);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) < 0)
		return error_set(reterr, -errno, "no helper: %s", strerror(errno));
	plan.in = both[1];
	r = child_begin(&l->child, &plan, reterr);
	close(both[1]);
	if (r < 0) {
		close(both[0]);
		return r;
	}
	l->fd = both[0];
	l->knows = s->generation;
	return 0;
}

/* --- those that do not answer --- */

static void say_silent(struct sources *s, struct source *v, const char *why)
{
	source_silent(s, v->row, why, ETIMEDOUT);
	for (size_t i = 0; i < v->files.n; i++)
		if (v->files.v[i].row != NO_ID)
			source_silent(s, v->files.v[i].row, why, ETIMEDOUT);
}

static void say_hung(struct sources *s, const struct lane *l, struct source *v)
{
	time_t t = (time_t)((l->since_ms + s->wall_offset_ms) / 1000);
	char why[96];
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(why, sizeof(why), "its file system does not answer since %H:%M:%S UTC", &tm);
	say_silent(s, v, why);
}

static struct source *pop(struct sources *s, struct lane *l)
{
	struct source *v = &s->v.v[l->asked.v[0]];

	v->pending = false;
	l->sent -= l->sent > 0;
	memmove(l->asked.v, l->asked.v + 1, --l->asked.n * sizeof(*l->asked.v));
	return v;
}

static void back_off(struct sources *s, struct lane *l)
{
	l->again_ms = s->now_ms + sources_back_off(l->fails, AGAIN_MOST_MS);
}

static size_t own_lanes(const struct sources *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->v.n; i++)
		n += s->v.v[i].key.kind == LANE_OWN;
	return n;
}

/* It may be the path alone that hangs: the others shall not wait for it. */
static void part_with(struct sources *s, struct lane *l, struct source *v)
{
	struct lane_key key = { LANE_OWN, (uint64_t)(v - s->v.v) };
	int64_t since_ms = l->since_ms;
	struct lane *own;

	move_source(s, v, key);
	own = lane_of(s, key); /* l is not valid behind this */
	own->fails = 1;
	own->since_ms = since_ms;
	back_off(s, own);
}

static void lane_hangs(struct sources *s, size_t i)
{
	struct lane *l = &s->lanes.v[i];
	struct source *v;
	bool others = false;

	l->since_ms = l->since_ms ? l->since_ms : l->heard_ms;
	l->fails++;
	end_helper(s, l);
	v = pop(s, l);
	say_hung(s, l, v);
	for (size_t k = 0; k < s->v.n; k++)
		others |= &s->v.v[k] != v && lane_has(l, &s->v.v[k]);
	if (l->fails == 1 && others && own_lanes(s) < OWN_MOST) {
		l->heard_ms = s->now_ms;
		part_with(s, l, v);
		return;
	}
	while (l->asked.n)
		say_hung(s, l, pop(s, l));
	back_off(s, l);
}

/* Its helper ended by itself: killed, or a fault of ours. */
static void lane_breaks(struct sources *s, struct lane *l, const char *why)
{
	end_helper(s, l);
	l->fails++;
	while (l->asked.n)
		say_silent(s, pop(s, l), why);
	back_off(s, l);
}

/* --- asking --- */

static void send_asks(struct sources *s, struct lane *l)
{
	struct error e = { "" };

	while (l->sent < l->asked.n) {
		const struct source *v = &s->v.v[l->asked.v[l->sent]];
		struct lane_ask ask = { l->asked.v[l->sent], folder_after(v) };

		if (l->fd < 0 || l->knows < v->moved) {
			if (l->sent) /* what was asked of the one that there is comes first */
				return;
			if (begin_helper(s, l, &e) < 0) {
				if (l->since_ms)
					while (l->asked.n)
						say_hung(s, l, pop(s, l));
				lane_breaks(s, l, e.text);
				return;
			}
			l->heard_ms = s->now_ms;
		}
		if (send(l->fd, &ask, sizeof(ask), MSG_DONTWAIT | MSG_NOSIGNAL) !=
		    (ssize_t)sizeof(ask))
			return;
		l->sent++;
	}
}

void lanes_ask(struct sources *s, uint32_t i)
{
	struct source *v = &s->v.v[i];
	struct lane *l;

	if (v->pending)
		return;
	if (v->key.kind == LANE_MOUNT)
		move_source(s, v, lane_guess(v->what));
	l = lane_of(s, v->key);
	if (s->now_ms < l->again_ms) {
		if (l->since_ms)
			say_hung(s, l, v);
		return;
	}
	if (!l->asked.n)
		l->heard_ms = s->now_ms;
	*vec_push(&l->asked) = i;
	v->pending = true;
}

/* --- answers --- */

static void take_end(struct sources *s, struct lane *l, const struct lane_word *w)
{
	struct source *v = pop(s, l);

	l->fails = 0;
	l->since_ms = 0;
	v->looked = true;
	if (w->b)
		move_source(s, v, (struct lane_key){ LANE_DEVICE, (uint64_t)w->a });
}

/* Whole words that have come; false: they are none. */
static bool take_words(struct sources *s, struct lane *l)
{
	size_t at = 0;
	bool good = true;

	while (good && l->in.len - at >= sizeof(struct lane_word)) {
		struct lane_word w;
		char *text, behind;

		memcpy(&w, l->in.data + at, sizeof(w));
		good = l->sent && w.source == l->asked.v[0] && w.len <= WORD_MOST;
		if (!good || l->in.len - at - sizeof(w) < w.len)
			break;
		text = (char *)l->in.data + at + sizeof(w);
		behind = text[w.len];
		text[w.len] = '\0';
		if (w.what == WORD_END)
			take_end(s, l, &w);
		else
			files_take(s, &s->v.v[w.source], &w, text);
		text[w.len] = behind;
		at += sizeof(w) + w.len;
	}
	if (at) {
		memmove(l->in.data, l->in.data + at, l->in.len - at);
		l->in.len -= at;
	}
	return good;
}

static void read_lane(struct sources *s, struct lane *l)
{
	for (size_t took = 0; took < READ_MOST;) {
		ssize_t n;

		buf_widen(&l->in, READ_BYTES + 1);
		n = recv(l->fd, l->in.data + l->in.len, READ_BYTES, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n <= 0) {
			lane_breaks(s, l, "its helper ended");
			break;
		}
		l->in.len += (size_t)n;
		l->heard_ms = s->now_ms;
		took += (size_t)n;
		if (!take_words(s, l)) {
			lane_breaks(s, l, "its helper speaks nonsense");
			break;
		}
	}
	if (!l->in.len)
		buf_done(&l->in);
}

/* Of a lane that nobody is in any more the helper goes. */
static void tidy(struct sources *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->lanes.n; i++) {
		struct lane *l = &s->lanes.v[i];
		bool used = l->asked.n > 0;

		for (size_t k = 0; k < s->v.n && !used; k++)
			used = lane_has(l, &s->v.v[k]);
		if (!used)
			end_helper(s, l);
		reap(s, l);
		if (!used && !l->gone.n) {
			free(l->asked.v);
			free(l->gone.v);
			buf_done(&l->in);
			continue;
		}
		s->lanes.v[kept++] = *l;
	}
	s->lanes.n = kept;
}

/* While the loop itself was stopped (SIGSTOP, a machine that slept) helpers were too. */
static void allow_for_sleep(struct sources *s)
{
	int64_t gap = s->now_ms - s->took_ms;

	for (size_t i = 0; i < s->lanes.n && gap > SLEPT_MS; i++)
		if (!s->lanes.v[i].fails && s->lanes.v[i].heard_ms <= s->took_ms)
			s->lanes.v[i].heard_ms += gap;
	s->took_ms = s->now_ms;
}

void lanes_take(struct sources *s)
{
	allow_for_sleep(s);
	for (size_t i = 0; i < s->lanes.n; i++) {
		if (s->lanes.v[i].fd >= 0)
			read_lane(s, &s->lanes.v[i]);
		if (s->lanes.v[i].asked.n && s->now_ms - s->lanes.v[i].heard_ms >= s->deadline_ms)
			lane_hangs(s, i);
		send_asks(s, &s->lanes.v[i]);
	}
	tidy(s);
}

bool lanes_wait(const struct sources *s)
{
	for (size_t i = 0; i < s->lanes.n; i++)
		if (s->lanes.v[i].asked.n && !s->lanes.v[i].fails)
			return true;
	return false;
}

size_t lanes_files(const struct sources *s, struct pollfd *ret, size_t n)
{
	size_t used = 0;

	for (size_t i = 0; i < s->lanes.n && used < n; i++)
		if (s->lanes.v[i].asked.n && s->lanes.v[i].fd >= 0)
			ret[used++] = (struct pollfd){ s->lanes.v[i].fd, POLLIN, 0 };
	return used;
}

int64_t lanes_next(const struct sources *s)
{
	int64_t next = INT64_MAX;

	for (size_t i = 0; i < s->lanes.n; i++)
		if (s->lanes.v[i].asked.n)
			next = MIN(next, s->lanes.v[i].heard_ms + s->deadline_ms);
	return next;
}

void lanes_done(struct sources *s)
{
	for (size_t i = 0; i < s->lanes.n; i++) {
		struct lane *l = &s->lanes.v[i];

		end_helper(s, l);
		free(l->asked.v);
		free(l->gone.v);
		buf_done(&l->in);
	}
	free(s->lanes.v);
}
