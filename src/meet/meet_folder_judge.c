/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet_folder_judge.c - node 0 in a folder: calls, looks who answers, judges, and tidies up.
 *
 * A file counts only if it answers this call. A node whose file is not renewed is gone: so one that
 * was started anew is told from two that have the same number.
 */
#include "meet/meet_folder.h"
#include "base/intern.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define LOST_PULSES	   3
#define LOST_MORE_MS	   2000
#define STALL_MS	   5000
#define LOOKED_MOST(nodes) (4 * (size_t)(nodes) + 4096)

enum member_state { MEMBER_NEW, MEMBER_OLD, MEMBER_HERE, MEMBER_GONE, MEMBER_BAD };
struct member { /* a file of a node */
	enum member_state state;
	uint32_t node;
	bool misfit, holds; /* holds: its node's seat */
	char name[MEET_NAME_MOST + 1];
	uint8_t instance[INSTANCE_BYTES];
	int64_t made_ns;
	ino_t ino;
	off_t size;
	struct timespec time;
	int64_t pulse_ms; /* when its time was last seen to change */
	bool seen;	  /* in this look */
	uint8_t *part;	  /* until it holds the seat */
	size_t part_len;
	int64_t clock_ns, clock_doubt_ns;
};

struct folder_judge {
	struct meet_place *p;
	struct roster *r;
	struct intern files;
	VEC(struct member) members; /* by the file's id */
	int64_t judge_ms, double_ms, pulses_ms;
	bool more_said, moved;
};

static int64_t lost_ms(const struct folder_judge *j)
{
	return LOST_PULSES * place_pulse_ms(j->p->m->plan) + LOST_MORE_MS;
}

/* --- one file --- */

static void take_seat(struct folder_judge *j, struct member *b)
{
	struct seat *s = &j->r->seats[b->node];

	roster_seat(j->r, b->node, b->name, NULL, b->part, b->part_len, clock_ms());
	s->clock_ns = b->clock_ns;
	s->clock_doubt_ns = b->clock_doubt_ns;
	b->part = NULL;
	b->holds = true;
}

static struct member *holder_of(struct folder_judge *j, uint32_t node)
{
	for (size_t i = 0; i < j->members.n; i++)
		if (j->members.v[i].holds && j->members.v[i].node == node)
			return &j->members.v[i];
	return NULL;
}

static void gone(struct folder_judge *j, struct member *b, const char *why)
{
	struct member *next = NULL;

	if (b->state != MEMBER_HERE)
		return;
	b->state = MEMBER_GONE;
	if (!b->holds)
		return;
	b->holds = false;
	roster_lose(j->r, b->node, b->name, NULL, why);
	for (size_t i = 0; i < j->members.n; i++)
		if (j->members.v[i].state == MEMBER_HERE && !j->members.v[i].misfit &&
		    j->members.v[i].node == b->node)
			next = &j->members.v[i];
	if (next)
		take_seat(j, next);
}

static void answers(struct folder_judge *j, struct member *b)
{
	const struct meet_plan *plan = j->p->m->plan;
	char why[MEET_WHY_MOST] = "";

	b->state = MEMBER_HERE;
	if (!b->node && j->r->nodes)
		snprintf(why, sizeof(why), "is a second node 0: %.100s judges", j->p->m->name);
	if (b->node >= plan->nodes)
		snprintf(why, sizeof(why), "says it is node %u; here %u nodes meet", b->node,
			 plan->nodes);
	if (*why) {
		b->misfit = true;
		roster_extra(j->r, MEET_MISFIT, b->node, b->name, NULL, why);
	} else if (j->r->seats[b->node].presence == MEET_CAME) {
		j->double_ms = clock_ms() + lost_ms(j);
	} else {
		take_seat(j, b);
	}
}

static void say_bad(struct folder_judge *j, struct member *b, const char *file, int wrong)
{
	static const struct {
		int wrong;
		enum meet_presence presence;
		const char *why;
	} rows[] = {
		{ -EACCES, MEET_IMPOSTOR, "its file is of another secret, or cannot be read" },
		{ -EPERM, MEET_IMPOSTOR, "its file belongs to another user" },
		{ -ELOOP, MEET_IMPOSTOR, "its file is a link, or no regular file" },
		{ -EPROTONOSUPPORT, MEET_IMPOSTOR, "its file is of another version of lockstep" },
		{ -EPROTO, MEET_STRANGER, "is no file of a meeting, or torn" },
		{ -EFBIG, MEET_STRANGER, "is larger than any file of a meeting" },
	};
	_cleanup_free_ char *name = meet_clean(file, strlen(file), MEET_NAME_MOST);

	b->state = MEMBER_BAD;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].wrong == wrong) {
			roster_extra(j->r, rows[i].presence, b->node, name, NULL, rows[i].why);
			return;
		}
	roster_extra(j->r, MEET_STRANGER, b->node, name, NULL, strerror(-wrong));
}

static void take_file(struct folder_judge *j, struct member *b, const char *file,
		      const struct buf *text)
{
	struct meet_file f = { 0 };
	char *clean;
	int64_t now = clock_ms();
	int r = meet_file_get(j->p->m, text->data, text->len, &f);

	if (r >= 0 && (f.kind != FILE_PART || f.len > MEET_PART_MOST))
		r = -EPROTO;
	if (r < 0) {
		say_bad(j, b, file, r);
		return;
	}
	clean = meet_clean(f.name, f.name_len, MEET_NAME_MOST);
	strcpy(b->name, clean);
	free(clean);
	b->node = f.node;
	b->made_ns = f.made_ns;
	memcpy(b->instance, f.instance, INSTANCE_BYTES);
	b->state = MEMBER_OLD;
	if (memcmp(f.call, j->p->call, INSTANCE_BYTES) != 0)
		return;
	if (f.nodes != j->r->nodes && !b->misfit) {
		char why[MEET_WHY_MOST];

		snprintf(why, sizeof(why), "says it is node %u of %u; here %u nodes meet", f.node,
			 f.nodes, j->r->nodes);
		b->misfit = true;
		b->state = MEMBER_HERE;
		roster_extra(j->r, MEET_MISFIT, f.node, b->name, NULL, why);
		return;
	}
	if (f.len > MEET_MEMORY_MOST - j->r->bytes) {
		say_bad(j, b, file, -EFBIG);
		return;
	}
	free(b->part);
	b->part = xmalloc(f.len + 1);
	memcpy(b->part, f.bytes, f.len);
	b->part_len = f.len;
	b->clock_ns = f.clock_ns;
	b->clock_doubt_ns = f.clock_doubt_ns;
	if (f.left_ms >= 0 && f.left_ms < INT32_MAX)
		j->judge_ms = MIN(j->judge_ms, now + f.left_ms - meet_reserve_ms(f.left_ms));
	j->moved = true;
	answers(j, b);
}

/* A file that was renewed lives; one that was replaced is read again. */
static void look_at(struct folder_judge *j, int dir, const char *file, struct member *b)
{
	struct buf text = { 0 };
	struct stat st;
	_cleanup_close_ int fd = place_open_file(dir, file, MEET_PART_MOST + MEET_FILE_SMALL, &st);
	int r = fd;

	if (r == -ENOENT)
		return; /* renamed or removed between two looks */
	if (r >= 0 && (b->state == MEMBER_NEW || b->ino != st.st_ino || b->size != st.st_size)) {
		gone(j, b, "it replaced its file");
		b->ino = st.st_ino;
		b->size = st.st_size;
		b->pulse_ms = clock_ms();
		r = place_read_file(fd, (size_t)st.st_size, &text);
		if (r >= 0)
			take_file(j, b, file, &text);
	} else if (r >= 0 && memcmp(&b->time, &st.st_mtim, sizeof(b->time)) != 0) {
		b->pulse_ms = clock_ms();
	}
	if (r < 0)
		say_bad(j, b, file, r);
	else
		b->time = st.st_mtim;
	buf_done(&text);
}

/* --- all of them --- */

static struct member *member_of(struct folder_judge *j, const char *file)
{
	uint32_t id = intern_find(&j->files, file, strlen(file));
	struct member *b;
	unsigned node;

	if (id != NO_ID)
		return &j->members.v[id];
	if (j->members.n >= LOOKED_MOST(j->r->nodes)) {
		if (!j->more_said)
			roster_extra(j->r, MEET_STRANGER, NO_ID, "the folder", NULL,
				     "holds more files than any meeting: the rest was not looked "
				     "at");
		j->more_said = true;
		return NULL;
	}
	intern_str(&j->files, file);
	b = vec_push(&j->members);
	*b = (struct member){ .node = NO_ID, .clock_ns = INT64_MIN, .clock_doubt_ns = INT64_MIN };
	if (sscanf(file, FILE_PART_PREFIX "%u-", &node) == 1)
		b->node = node;
	return b;
}

static bool is_not_for_us(const char *file)
{
	return file[0] == '.' || !strcmp(file, FILE_CALL_NAME) || !strcmp(file, FILE_VERDICT_NAME);
}

static void scan(struct folder_judge *j)
{
	int fd = place_open_dir(j->p);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	int64_t now = clock_ms();
	bool pulses = now >= j->pulses_ms;
	struct dirent *e;
	size_t looked = 0;

	if (!dir)
		return;
	for (size_t i = 0; i < j->members.n; i++)
		j->members.v[i].seen = false;
	while (looked++ < 2 * LOOKED_MOST(j->r->nodes) && (e = readdir(dir))) {
		struct member *b = is_not_for_us(e->d_name) ? NULL : member_of(j, e->d_name);

		if (!b)
			continue;
		b->seen = true;
		if (b->state == MEMBER_NEW || b->state == MEMBER_OLD ||
		    (pulses && b->state != MEMBER_BAD))
			look_at(j, dirfd(dir), e->d_name, b);
	}
	closedir(dir);
	if (pulses)
		j->pulses_ms = now + place_pulse_ms(j->p->m->plan) / 2;
	for (size_t i = 0; i < j->members.n; i++) {
		struct member *b = &j->members.v[i];

		if (!b->seen)
			gone(j, b, "took its file away after it had given its part");
		else if (now - b->pulse_ms > lost_ms(j))
			gone(j, b, "gave its part, and has not been heard of since");
	}
}

/* 1: another has called since: it judges. */
static int still_ours(struct folder_judge *j)
{
	_cleanup_close_ int dir = place_open_dir(j->p);
	struct buf text = { 0 };
	struct meet_file f = { 0 };
	int r = dir < 0 ? dir : place_read(dir, FILE_CALL_NAME, MEET_FILE_SMALL, &text);

	if (r >= 0)
		r = meet_file_get(j->p->m, text.data, text.len, &f);
	r = r >= 0 && f.kind == FILE_CALL && memcmp(f.call, j->p->call, INSTANCE_BYTES) != 0;
	buf_done(&text);
	return r;
}

/* Numbers that two hold, and nodes of which there is only an old file. */
static void settle(struct folder_judge *j)
{
	char why[MEET_WHY_MOST], when[32];

	for (size_t i = 0; i < j->members.n; i++) {
		struct member *b = &j->members.v[i];
		struct member *holder;

		if (b->state == MEMBER_OLD && b->node < j->r->nodes &&
		    j->r->seats[b->node].presence == MEET_ABSENT && !j->r->seats[b->node].why) {
			meet_time_words(b->made_ns, when);
			j->r->seats[b->node].why =
			    xasprintf("never heard of; a file of an earlier attempt is here, "
				      "made at %s",
				      when);
		}
		if (b->state != MEMBER_HERE || b->misfit || b->holds)
			continue;
		holder = holder_of(j, b->node);
		snprintf(why, sizeof(why), "is a second node %u: %.100s is node %u too", b->node,
			 holder ? holder->name : "another", b->node);
		roster_extra(j->r, MEET_MISFIT, b->node, b->name, NULL, why);
	}
}

static int publish(struct folder_judge *j, const struct buf *verdict)
{
	struct meet_file f = { .kind = FILE_VERDICT, .bytes = verdict->data, .len = verdict->len };
	struct buf list = { 0 }, text = { 0 };
	int r;

	for (size_t i = 0; i < j->members.n; i++)
		if (j->members.v[i].state == MEMBER_HERE)
			buf_put(&list, j->members.v[i].instance, INSTANCE_BYTES);
	memcpy(f.call, j->p->call, INSTANCE_BYTES);
	f.list = list.data;
	f.n_list = MIN(list.len / INSTANCE_BYTES, 2 * (size_t)MEET_NODES_MOST);
	meet_file_put(&text, j->p->m, &f);
	r = place_write(j->p, FILE_VERDICT_NAME, &text);
	buf_done(&list);
	buf_done(&text);
	return r;
}

static size_t here(const struct folder_judge *j)
{
	size_t n = 0;

	for (size_t i = 0; i < j->members.n; i++)
		n += j->members.v[i].state == MEMBER_HERE;
	return n;
}

/* Until all have taken their files away, which says that they have the verdict; who comes late gets
   it too. What is not fetched stays. */
static void tell(struct folder_judge *j, const struct buf *verdict)
{
	int64_t moved_ms = clock_ms();
	size_t waits = here(j), now_here;

	while (waits && clock_ms() < j->p->m->until_ms && clock_ms() - moved_ms < STALL_MS &&
	       !meet_stopped(j->p->m)) {
		j->moved = false;
		scan(j);
		if (j->moved)
			publish(j, verdict);
		now_here = here(j);
		if (now_here != waits || j->moved)
			moved_ms = clock_ms();
		place_pause(j->p, now_here != waits, j->p->m->until_ms);
		waits = now_here;
	}
	if (waits)
		return;
	place_remove(j->p, FILE_VERDICT_NAME);
	place_remove(j->p, FILE_CALL_NAME);
	rmdir(j->p->path);
}

static int call(struct meet_place *p, struct error *reterr)
{
	struct meet_file f = { .kind = FILE_CALL };
	struct buf text = { 0 };
	int r;

	memcpy(p->call, p->m->instance, INSTANCE_BYTES);
	memcpy(f.call, p->call, INSTANCE_BYTES);
	memcpy(f.instance, p->m->instance, INSTANCE_BYTES);
	meet_file_put(&text, p->m, &f);
	r = place_write(p, FILE_CALL_NAME, &text);
	place_remove(p, FILE_VERDICT_NAME); /* of an earlier attempt */
	buf_done(&text);
	return r < 0 ? error_set(reterr, r, "%s/%s: %s", p->path, FILE_CALL_NAME, strerror(-r)) : 0;
}

/* 0: it can be judged; 1: another judges. */
static int gather(struct folder_judge *j, struct error *reterr)
{
	struct meet_place *p = j->p;

	for (;;) {
		int64_t now = clock_ms();

		j->moved = false;
		scan(j);
		if (still_ours(j) == 1)
			return 1;
		if (meet_stopped(p->m))
			return error_set(reterr, -EINTR, "the meeting in %.200s was stopped",
					 p->m->plan->folder);
		if (now >= j->judge_ms || (j->r->came == j->r->nodes && now >= j->double_ms))
			return 0;
		place_pause(p, j->moved, j->judge_ms);
	}
}

static void judge_done(struct folder_judge *j)
{
	for (size_t i = 0; i < j->members.n; i++)
		free(j->members.v[i].part);
	free(j->members.v);
	intern_done(&j->files);
	roster_done(j->r);
}

int place_judge(struct meet_place *p, struct buf *ret_verdict, struct error *reterr)
{
	struct meeting *m = p->m;
	struct folder_judge j = { .p = p, .r = &m->roster };
	struct buf verdict = { 0 };
	uint8_t *part;
	int r = call(p, reterr);

	if (r < 0)
		return r;
	roster_open(j.r, m->plan);
	part = xmalloc(m->part_len + 1);
	if (m->part_len)
		memcpy(part, m->part, m->part_len);
	roster_seat(j.r, 0, m->name, NULL, part, m->part_len, clock_ms());
	j.r->seats[0].clock_ns = p->clock_ns;
	j.r->seats[0].clock_doubt_ns = p->clock_doubt_ns;
	j.judge_ms =
	    m->until_ms - meet_reserve_ms(m->plan->limit_ms ? m->plan->limit_ms : MEET_LIMIT_MS);
	r = gather(&j, reterr);
	if (r == 0) {
		settle(&j);
		r = roster_judge(m, &verdict, reterr);
		if (r >= 0 && publish(&j, &verdict) < 0)
			r = error_set(reterr, -EIO, "%s/%s cannot be written", p->path,
				      FILE_VERDICT_NAME);
		if (r >= 0)
			tell(&j, &verdict);
	} else if (r < 0) {
		place_remove(p, FILE_CALL_NAME);
	}
	judge_done(&j);
	if (r == 1)
		return place_wait(p, ret_verdict, reterr);
	if (r < 0)
		buf_done(&verdict);
	else
		*ret_verdict = verdict;
	return r;
}
