/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet.c - what a plan must be, and the way that is taken: alone, in a folder, or over TCP.
 *
 * Whatever the way, the limit is one point of the monotonic clock, set here.
 */
#include "meet/meet_inside.h"
#include "base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int64_t meet_clock_ns(const struct meet_plan *plan)
{
	struct timespec t;

	if (plan->clock_ns)
		return plan->clock_ns();
	clock_gettime(CLOCK_REALTIME, &t);
	return timespec_ns(t);
}

int meet_random(void *p, size_t len, struct error *reterr)
{
	if (getrandom(p, len, 0) != (ssize_t)len)
		return error_set(reterr, -EIO, "the kernel gives no random bytes: %s",
				 strerror(errno));
	return 0;
}

bool meet_stopped(const struct meeting *m)
{
	return m->plan->stop && *m->plan->stop;
}

int64_t meet_reserve_ms(int64_t limit_ms)
{
	return MIN(limit_ms / 8, 5000);
}

char *meet_clean(const char *s, size_t len, size_t most)
{
	char *t = xmalloc(MIN(len, most) + 1);

	len = MIN(len, most);
	for (size_t i = 0; i < len; i++)
		t[i] = s[i] >= ' ' && s[i] <= '~' ? s[i] : '?';
	t[len] = '\0';
	return t;
}

void meet_time_words(int64_t epoch_ns, char ret[32])
{
	time_t s = (time_t)(epoch_ns / 1000000000);
	struct tm tm;

	if (epoch_ns < 0 || !gmtime_r(&s, &tm) || !strftime(ret, 32, "%Y-%m-%d %H:%M:%S UTC", &tm))
		strcpy(ret, "an unknown time");
}

static int secret_check(const char *path, const struct stat *st, struct error *reterr)
{
	if (!S_ISREG(st->st_mode))
		return error_set(reterr, -EINVAL, "%s: the secret is no regular file", path);
	if (st->st_uid != geteuid())
		return error_set(reterr, -EPERM,
				 "%s: the secret belongs to user %u, not to us (%u)", path,
				 st->st_uid, geteuid());
	if (st->st_mode & 077)
		return error_set(reterr, -EPERM,
				 "%s: others can read the secret (mode %03o); chmod 600 it", path,
				 st->st_mode & 0777);
	if (st->st_size > MEET_SECRET_MOST)
		return error_set(reterr, -E2BIG, "%s: a secret has at most %u bytes", path,
				 MEET_SECRET_MOST);
	return 0;
}

/* Space at its end is the editor's, not the secret's. */
static size_t secret_trim(const char *s, size_t len)
{
	while (len && strchr(" \t\r\n", s[len - 1]) && s[len - 1])
		len--;
	return len;
}

int meet_secret_read(const char *path, uint8_t **ret, size_t *ret_len, struct error *reterr)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char text[MEET_SECRET_MOST];
	struct stat st;
	ssize_t n;
	size_t len;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(reterr, -errno, "secret %s: %s", path, strerror(errno));
	r = secret_check(path, &st, reterr);
	if (r < 0)
		return r;
	n = read(fd, text, sizeof(text));
	if (n < 0)
		return error_set(reterr, -errno, "secret %s: %s", path, strerror(errno));
	len = secret_trim(text, (size_t)n);
	if (len < MEET_SECRET_LEAST) {
		explicit_bzero(text, sizeof(text));
		return error_set(reterr, -EINVAL,
				 "%s: a secret of %zu bytes is too short, %u are the least; make "
				 "one: head -c 32 /dev/urandom | base64",
				 path, len, MEET_SECRET_LEAST);
	}
	*ret = xmalloc(len);
	memcpy(*ret, text, len);
	*ret_len = len;
	explicit_bzero(text, sizeof(text));
	return 0;
}

static int plan_check(const struct meet_plan *p, size_t part_len, struct error *reterr)
{
	if (!p->nodes || p->nodes > MEET_NODES_MOST)
		return error_set(reterr, -EINVAL, "%u nodes cannot meet: 1 to %u can", p->nodes,
				 MEET_NODES_MOST);
	if (p->node >= p->nodes)
		return error_set(reterr, -EINVAL, "node %u of %u: nodes are numbered 0 to %u",
				 p->node, p->nodes, p->nodes - 1);
	if (part_len > MEET_PART_MOST)
		return error_set(reterr, -E2BIG, "node %u gives %zu bytes, more than %zu", p->node,
				 part_len, MEET_PART_MOST);
	if (p->nodes == 1)
		return 0;
	if (!p->folder == !p->address)
		return error_set(reterr, -EINVAL,
				 "%u nodes meet in a folder or at an address: one of the two",
				 p->nodes);
	if (p->address && !p->secret_file)
		return error_set(reterr, -EINVAL, "nodes that meet at %s need a secret",
				 p->address);
	if (!p->job || !*p->job || strlen(p->job) > MEET_NAME_MOST)
		return error_set(reterr, -EINVAL,
				 "a job that meets has a name of 1 to %u bytes, the same on all "
				 "nodes",
				 MEET_NAME_MOST);
	return 0;
}

static void name_ourselves(struct meeting *m)
{
	char host[MEET_NAME_MOST + 1] = "";
	_cleanup_free_ char *clean = NULL;

	gethostname(host, sizeof(host) - 1);
	clean = m->plan->name ? meet_clean(m->plan->name, strlen(m->plan->name), MEET_NAME_MOST)
			      : meet_clean(host, strlen(host), MEET_NAME_MOST);
	strcpy(m->name, clean);
}

static int meet_alone(struct meeting *m, struct buf *ret_verdict, struct error *reterr)
{
	uint8_t *part = xmalloc(m->part_len + 1);
	int r;

	if (m->part_len)
		memcpy(part, m->part, m->part_len);
	roster_open(&m->roster, m->plan);
	roster_seat(&m->roster, 0, m->name, NULL, part, m->part_len, clock_ms());
	m->roster.seats[0].clock_ns = m->roster.seats[0].clock_doubt_ns = 0;
	r = roster_judge(m, ret_verdict, reterr);
	roster_done(&m->roster);
	return r;
}

int meet(const struct meet_plan *plan, const void *part, size_t part_len, meet_judge_fn judge,
	 void *user, struct buf *ret_verdict, struct error *reterr)
{
	struct meeting m = {
		.plan = plan, .part = part, .part_len = part_len, .judge = judge, .user = user
	};
	int r = plan_check(plan, part_len, reterr);

	if (r < 0)
		return r;
	m.until_ms = clock_ms() + (plan->limit_ms ? plan->limit_ms : MEET_LIMIT_MS);
	name_ourselves(&m);
	if (plan->nodes == 1)
		return meet_alone(&m, ret_verdict, reterr);
	r = meet_random(m.instance, sizeof(m.instance), reterr);
	if (r >= 0 && plan->secret_file)
		r = meet_secret_read(plan->secret_file, &m.secret, &m.secret_len, reterr);
	if (r >= 0)
		r = plan->folder      ? meet_folder(&m, ret_verdict, reterr)
		    : plan->node == 0 ? meet_listen(&m, ret_verdict, reterr)
				      : meet_dial(&m, ret_verdict, reterr);
	if (m.secret)
		explicit_bzero(m.secret, m.secret_len);
	free(m.secret);
	return r;
}
