/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet_dial.c - a node calls the judge, again and again until its limit: node 0 may start late, be
 * busy with the job before, or be started anew in the middle.
 *
 * Only what cannot mend itself ends the calling early: a secret that differs, another version.
 * Since anybody who sits on the port could say so, it must be said several times.
 */
#include "meet/meet_dial.h"
#include "meet/meet_caller.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define CONNECT_MS     3000
#define PROVE_MS       10000 /* the judge has so long to prove itself */
#define RESOLVE_MS     5000
#define PAUSE_FIRST_MS 20
#define PAUSE_MOST_MS  1000
#define SAYINGS	       3u   /* so often the same is said, and so long, before it is believed: */
#define SAYING_MS      2000 /* the job before may be there yet */
#define READ_AT_ONCE   ((size_t)256 << 10)
#define LOOK_MS	       200 /* whether to stop */

void meet_keep_alive(int fd)
{
	static const struct {
		int level, name, value;
	} rows[] = {
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },  { IPPROTO_TCP, TCP_NODELAY, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 2 }, { IPPROTO_TCP, TCP_KEEPINTVL, 2 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 3 },  { IPPROTO_TCP, TCP_USER_TIMEOUT, 8000 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		setsockopt(fd, rows[i].level, rows[i].name, &rows[i].value, sizeof(rows[i].value));
}

/* Waits for the socket, at most until then; 0: the time is over or we are to stop. */
static short wait_for(struct meeting *m, int fd, short what, int64_t until_ms)
{
	struct pollfd p = { fd, what, 0 };
	int64_t left;

	while ((left = MIN(until_ms, m->until_ms) - clock_ms()) > 0 && !meet_stopped(m))
		if (poll(&p, 1, (int)MIN(left, LOOK_MS)) > 0)
			return p.revents;
	return 0;
}

static int connect_to(struct meeting *m, const struct target_at *t, char why[MEET_WHY_MOST])
{
	int fd = socket(t->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t size = sizeof(int);
	int wrong = 0;

	if (fd < 0) {
		snprintf(why, MEET_WHY_MOST, "socket: %s", strerror(errno));
		return -1;
	}
	meet_keep_alive(fd);
	if (connect(fd, (const struct sockaddr *)&t->at, t->len) == 0)
		return fd;
	wrong = errno;
	if (wrong == EINPROGRESS) {
		wrong = ETIMEDOUT;
		if (wait_for(m, fd, POLLOUT, clock_ms() + CONNECT_MS))
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &wrong, &size);
	}
	if (!wrong)
		return fd;
	if (clock_ms() < m->until_ms) /* else it says no more than that */
		snprintf(why, MEET_WHY_MOST, "%s",
			 wrong == ECONNREFUSED ? "nobody listens there" : strerror(wrong));
	close(fd);
	return -1;
}

static bool push(struct caller *c, int fd)
{
	while (c->out_at < c->out.len) {
		ssize_t n = send(fd, c->out.data + c->out_at, c->out.len - c->out_at, MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		c->out_at += (size_t)n;
	}
	c->out.len = c->out_at = 0;
	return true;
}

static void broke(struct caller *c, const char *why)
{
	c->state = CALLER_FAILED;
	c->failure = CALL_BROKE;
	snprintf(c->why, sizeof(c->why), "%s", why);
}

static void pull(struct caller *c, int fd, uint8_t *room)
{
	ssize_t n = recv(fd, room, READ_AT_ONCE, 0);

	if (n > 0)
		caller_feed(c, room, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		broke(c, c->state >= CALLER_TICKING ? "node 0 was here and went away"
			 : n == 0		    ? "who listens there hung up"
						    : strerror(errno));
}

/* One connection, from its greeting to the verdict or its end. */
static void talk(struct caller *c, int fd)
{
	uint8_t *room = xmalloc(READ_AT_ONCE);
	int64_t prove_ms = clock_ms() + PROVE_MS;

	while (c->state < CALLER_DONE) {
		bool proven = c->state >= CALLER_TICKING;
		short got = wait_for(c->m, fd, (short)(POLLIN | (c->out.len ? POLLOUT : 0)),
				     proven ? INT64_MAX : prove_ms);

		if (!got) {
			broke(c, proven ? "node 0 has our part, but gave no verdict"
					: "who listens there does not answer");
			break;
		}
		if (got & (POLLIN | POLLERR | POLLHUP))
			pull(c, fd, room);
		if (!push(c, fd) && c->state < CALLER_DONE) /* what it last said may lie here yet */
			pull(c, fd, room);
	}
	while (c->state == CALLER_DONE && c->out.len && push(c, fd) && c->out.len)
		if (!wait_for(c->m, fd, POLLOUT, clock_ms() + CONNECT_MS))
			break;
	free(room);
}

static void learn(struct calls *k, const struct caller *c)
{
	static const char *const nothing = "";

	if (!k->said[CALL_DENIED] && !k->said[CALL_FALSE] && !k->said[CALL_VERSION])
		k->said_ms = clock_ms();
	k->said[c->failure]++;
	snprintf(k->why, sizeof(k->why), "%s", c->why);
	if (c->failure != CALL_BROKE)
		snprintf(k->saying, sizeof(k->saying), "%s", c->why);
	if (c->judge[0] || c->failure == CALL_REFUSED) {
		snprintf(k->judge, sizeof(k->judge), "%s", c->judge[0] ? c->judge : nothing);
		memset(k->said, 0, sizeof(k->said));
		k->pause_ms = PAUSE_FIRST_MS;
	}
	if (c->news[0])
		snprintf(k->news, sizeof(k->news), "%s", c->news);
}

int dial_once(struct meeting *m, const struct target *t, struct calls *k, struct buf *ret_verdict)
{
	for (size_t i = 0; i < t->n && !meet_stopped(m); i++) {
		_cleanup_close_ int fd = connect_to(m, &t->v[i], k->why);
		struct caller c;

		if (fd < 0)
			continue;
		if (caller_open(&c, m, NULL) < 0)
			return -EIO;
		talk(&c, fd);
		if (c.state == CALLER_DONE) {
			*ret_verdict = c.verdict;
			c.verdict = (struct buf){ 0 };
			caller_done(&c);
			return 0;
		}
		if (clock_ms() < m->until_ms || c.judge[0])
			learn(k, &c);
		caller_done(&c);
	}
	return -EAGAIN;
}

/* Grows to a second, and differs from node to node, so that they do not all come at once. */
void dial_pause(struct meeting *m, struct calls *k)
{
	uint16_t dice = 0;
	int64_t until;

	k->pause_ms = k->pause_ms ? MIN(2 * k->pause_ms, PAUSE_MOST_MS) : PAUSE_FIRST_MS;
	meet_random(&dice, sizeof(dice), NULL);
	until = MIN(m->until_ms, clock_ms() + k->pause_ms / 2 + k->pause_ms * dice / UINT16_MAX);
	while (clock_ms() < until && !meet_stopped(m))
		poll(NULL, 0, (int)MIN(until - clock_ms() + 1, LOOK_MS));
}

static int hopeless(const struct calls *k)
{
	if (clock_ms() - k->said_ms < SAYING_MS)
		return 0;
	if (k->said[CALL_DENIED] >= SAYINGS || k->said[CALL_FALSE] >= SAYINGS)
		return -EACCES;
	return k->said[CALL_VERSION] >= SAYINGS ? -EPROTO : 0;
}

static int give_up(struct meeting *m, const struct calls *k, struct error *reterr)
{
	const struct meet_plan *p = m->plan;
	const char *name = k->judge[0]		     ? k->judge
			   : p->names && p->names[0] ? p->names[0]
						     : "node 0";

	if (meet_stopped(m))
		return error_set(reterr, -EINTR, "the meeting at %.100s was stopped", p->address);
	return error_set(reterr, -ETIMEDOUT,
			 "no verdict at %.100s (%.60s) within %u ms, as node %u: %.160s%s%.200s",
			 p->address, name, p->limit_ms ? p->limit_ms : MEET_LIMIT_MS, p->node,
			 k->why, k->news[0] ? "; last heard: " : "", k->news);
}

int meet_dial(struct meeting *m, struct buf *ret_verdict, struct error *reterr)
{
	struct calls k = { .why = "nothing was tried" };
	struct error why = { "" };
	struct target t;
	int r = wire_usable(reterr);

	if (r >= 0)
		r = target_parse(m->plan->address, &t, reterr);
	if (r < 0)
		return r;
	while (clock_ms() < m->until_ms && !meet_stopped(m)) {
		int64_t left = m->until_ms - clock_ms();

		if (target_resolve(&t, (int)MIN(left, RESOLVE_MS), &why) < 0)
			snprintf(k.why, sizeof(k.why), "%.300s", why.text);
		else if (dial_once(m, &t, &k, ret_verdict) >= 0)
			return 0;
		r = hopeless(&k);
		if (r < 0)
			return error_set(
			    reterr, r, "%.100s: %.200s; is %.100s the same on all nodes?",
			    m->plan->address, k.saying,
			    r == -EPROTO ? "the version of lockstep" : m->plan->secret_file);
		dial_pause(m, &k);
	}
	return give_up(m, &k, reterr);
}
