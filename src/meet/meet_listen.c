/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet_listen.c - node 0 over TCP: one loop that moves bytes between sockets and the hall.
 *
 * Nobody is waited for but by the clock: every read and write is of what is there.
 */
#include "meet/meet_dial.h"
#include "meet/meet_hall.h"

#include <netinet/in.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#define BACKLOG		4096 /* the kernel cuts it to net.core.somaxconn */
#define TICK_MS		50
#define NEWS_MS		1000
#define AT_ONCE		256 /* events, and connections accepted */
#define READ_AT_ONCE	((size_t)256 << 10)
#define FILES_BESIDE	64u /* of ours, and of the caller's */
#define STRANGERS_LEAST 16u
#define STALL_MS	5000 /* none of those who are told moved: they are not waited for */
#define RESOLVE_ONE_MS	5000

struct listen_loop {
	struct hall hall;
	int epoll, listener;
	uint8_t *room;
	size_t strangers_most;
	int64_t news_ms, tick_ms;
	bool accepting;
};

/* --- the socket --- */

static int listen_at(const struct sockaddr_storage *at, socklen_t len)
{
	int fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, off = 0, wrong;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (at->ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, (const struct sockaddr *)at, len) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	wrong = -errno;
	close(fd);
	return wrong;
}

static int listen_everywhere(const struct target *t)
{
	struct sockaddr_storage at = { 0 };
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&at;
	struct sockaddr_in *four = (struct sockaddr_in *)&at;
	uint16_t port = htons((uint16_t)strtoul(t->port, NULL, 10));
	int fd;

	six->sin6_family = AF_INET6;
	six->sin6_addr = in6addr_any;
	six->sin6_port = port;
	fd = listen_at(&at, sizeof(*six));
	if (fd >= 0 || fd == -EADDRINUSE)
		return fd;
	memset(&at, 0, sizeof(at));
	four->sin_family = AF_INET;
	four->sin_port = port;
	return listen_at(&at, sizeof(*four));
}

/* A name that our own /etc/hosts makes loopback is known to the others as something else. */
static bool only_here(const struct target *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (!address_is_loopback(&t->v[i].at))
			return false;
	return !t->literal && strcmp(t->host, "localhost") != 0;
}

static int listen_on(struct target *t)
{
	int fd = -EADDRNOTAVAIL;

	if (!t->n || only_here(t))
		return listen_everywhere(t);
	for (size_t i = 0; i < t->n; i++) {
		fd = listen_at(&t->v[i].at, t->v[i].len);
		if (fd >= 0 || fd == -EADDRINUSE)
			return fd;
	}
	return fd;
}

/*
 * Our port, once it is free. While another has it, we ask who: a node 0 of this job lets us in as
 * its guest, and then the verdict is there (1). An address that is none of this machine's may be a
 * service's in front of us: then every address is listened at, if nobody answers there.
 */
static int find_place(struct meeting *m, struct target *t, int *ret_fd, struct buf *ret_verdict,
		      struct error *reterr)
{
	struct calls k = { .why = "it takes no connection" };
	int fd;

	for (;;) {
		int64_t left = m->until_ms - clock_ms();

		target_resolve(t, (int)MIN(left, RESOLVE_ONE_MS), NULL);
		fd = listen_on(t);
		if (fd < 0 && dial_once(m, t, &k, ret_verdict) >= 0)
			return 1;
		if (fd == -EADDRNOTAVAIL) {
			fd = listen_everywhere(t);
			m->note = "its address is none of node 0's, which listens on all it has";
		}
		if (fd >= 0) {
			*ret_fd = fd;
			return 0;
		}
		if (meet_stopped(m))
			return error_set(reterr, -EINTR, "the meeting at %.100s was stopped",
					 m->plan->address);
		if (clock_ms() >= m->until_ms)
			return error_set(reterr, -ETIMEDOUT,
					 "node 0 cannot listen at %.100s: %s; %.200s",
					 m->plan->address, strerror(-fd), k.why);
		dial_pause(m, &k);
	}
}

/* --- the loop --- */

static void want(struct listen_loop *l, struct guest *g, bool writing)
{
	struct epoll_event e = { .events = EPOLLIN | (writing ? (uint32_t)EPOLLOUT : 0),
				 .data.ptr = g };

	if (writing != g->writing)
		epoll_ctl(l->epoll, EPOLL_CTL_MOD, g->fd, &e);
	g->writing = writing;
}

/* Sends what can be sent of size bytes at *at; false: the connection is gone. */
static bool send_some(int fd, const uint8_t *p, size_t size, size_t *at)
{
	while (*at < size) {
		ssize_t n = send(fd, p + *at, size - *at, MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		*at += (size_t)n;
	}
	return true;
}

static void push(struct listen_loop *l, struct guest *g)
{
	struct hall *h = &l->hall;
	size_t before = g->verdict_at;
	bool fine = send_some(g->fd, g->out.data, g->out.len, &g->out_at);

	if (fine && g->out_at == g->out.len) {
		buf_done(&g->out);
		g->out_at = 0;
		if (g->state == GUEST_TOLD)
			fine = send_some(g->fd, h->verdict.data, h->verdict.len, &g->verdict_at);
		else if (g->state == GUEST_LEAVES)
			fine = false;
	}
	if (g->verdict_at != before)
		h->moved_ms = clock_ms();
	if (!fine)
		guest_drop(h, g, "its connection broke");
	else
		want(l, g,
		     g->out.len || (g->state == GUEST_TOLD && g->verdict_at < h->verdict.len));
}

static void pull(struct listen_loop *l, struct guest *g, int64_t now_ms)
{
	ssize_t n = recv(g->fd, l->room, READ_AT_ONCE, 0);

	if (n > 0)
		guest_feed(&l->hall, g, l->room, (size_t)n, now_ms);
	else if (n == 0)
		guest_drop(&l->hall, g, "it closed its connection");
	else if (errno != EAGAIN && errno != EINTR)
		guest_drop(&l->hall, g, strerror(errno));
}

static void greet(struct listen_loop *l, int fd, const struct sockaddr_storage *from,
		  int64_t now_ms)
{
	struct epoll_event e = { .events = EPOLLIN };
	char address[ADDRESS_MOST];
	struct guest *g;

	address_words(from, address, sizeof(address));
	meet_keep_alive(fd);
	g = hall_admit(&l->hall, fd, address, now_ms);
	if (!g)
		return;
	e.data.ptr = g;
	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &e) < 0)
		guest_drop(&l->hall, g, strerror(errno));
	else
		push(l, g);
}

/* Without room for another file it waits a tick: strangers time out meanwhile. */
static void accepting(struct listen_loop *l, bool on)
{
	struct epoll_event e = { .events = on ? (uint32_t)EPOLLIN : 0 };

	if (l->accepting != on)
		epoll_ctl(l->epoll, EPOLL_CTL_MOD, l->listener, &e);
	l->accepting = on;
}

static void admit(struct listen_loop *l, int64_t now_ms)
{
	for (int i = 0; i < AT_ONCE; i++) {
		struct sockaddr_storage from = { 0 };
		socklen_t size = sizeof(from);
		int fd = accept4(l->listener, (struct sockaddr *)&from, &size,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
			    errno == ENOBUFS)
				accepting(l, false);
			return;
		}
		greet(l, fd, &from, now_ms);
	}
}

static void turn(struct listen_loop *l)
{
	struct epoll_event events[AT_ONCE];
	int n = epoll_wait(l->epoll, events, AT_ONCE, TICK_MS);
	int64_t now_ms = clock_ms();

	for (int i = 0; i < n; i++) {
		struct guest *g = events[i].data.ptr;

		if (!g) {
			admit(l, now_ms);
			continue;
		}
		if (g->state != GUEST_GONE && events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP))
			pull(l, g, now_ms);
		if (g->state != GUEST_GONE)
			push(l, g);
	}
	hall_sweep(&l->hall);
	if (now_ms - l->tick_ms < TICK_MS)
		return;
	l->tick_ms = now_ms;
	accepting(l, true);
	hall_tick(&l->hall, now_ms);
	hall_sweep(&l->hall);
}

static void push_all(struct listen_loop *l)
{
	for (size_t i = 0; i < l->hall.guests.n; i++)
		if (l->hall.guests.v[i]->state != GUEST_GONE)
			push(l, l->hall.guests.v[i]);
}

static int gather(struct listen_loop *l, struct error *reterr)
{
	struct hall *h = &l->hall;
	int64_t now_ms = clock_ms();

	for (l->news_ms = now_ms + NEWS_MS; now_ms < h->judge_ms && !hall_complete(h, now_ms);
	     now_ms = clock_ms()) {
		if (meet_stopped(h->m))
			return error_set(reterr, -EINTR, "the meeting at %.100s was stopped",
					 h->m->plan->address);
		turn(l);
		if (now_ms >= l->news_ms) {
			hall_news(h);
			push_all(l);
			l->news_ms = now_ms + NEWS_MS;
		}
	}
	return hall_judge(h, clock_ms(), reterr);
}

static void tell(struct listen_loop *l)
{
	struct hall *h = &l->hall;
	int64_t now_ms = clock_ms();

	h->moved_ms = now_ms;
	push_all(l);
	while (h->waits && now_ms < h->m->until_ms && now_ms - h->moved_ms < STALL_MS &&
	       !meet_stopped(h->m)) {
		turn(l);
		now_ms = clock_ms();
	}
}

static int run(struct listen_loop *l, struct meeting *m, struct buf *ret_verdict,
	       struct error *reterr)
{
	struct epoll_event e = { .events = EPOLLIN };
	uint8_t *part;
	int r;

	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->listener, &e) < 0)
		return error_set(reterr, -errno, "epoll: %s", strerror(errno));
	l->accepting = true;
	l->room = xmalloc(READ_AT_ONCE);
	roster_open(&m->roster, m->plan);
	hall_open(&l->hall, m);
	l->hall.strangers_most = l->strangers_most;
	part = xmalloc(m->part_len + 1);
	if (m->part_len)
		memcpy(part, m->part, m->part_len);
	roster_seat(&m->roster, 0, m->name, NULL, part, m->part_len, clock_ms());
	m->roster.seats[0].clock_ns = m->roster.seats[0].clock_doubt_ns = 0;
	r = gather(l, reterr);
	if (r >= 0) {
		tell(l);
		*ret_verdict = l->hall.verdict;
		l->hall.verdict = (struct buf){ 0 };
	}
	hall_done(&l->hall);
	roster_done(&m->roster);
	free(l->room);
	return r;
}

/* A connection is a file; the caller's own limit comes back afterwards. */
static int files_raise(uint32_t nodes, struct rlimit *ret_old, size_t *ret_strangers,
		       struct error *reterr)
{
	rlim_t need = nodes + STRANGERS_MOST + MISFITS_MOST + FILES_BESIDE;
	struct rlimit l;

	getrlimit(RLIMIT_NOFILE, ret_old);
	l = *ret_old;
	if (l.rlim_cur < need) {
		l.rlim_cur = MIN(need, l.rlim_max);
		setrlimit(RLIMIT_NOFILE, &l);
	}
	*ret_strangers = MIN(l.rlim_cur - MIN(l.rlim_cur, nodes + FILES_BESIDE), STRANGERS_MOST);
	if (*ret_strangers >= STRANGERS_LEAST)
		return 0;
	setrlimit(RLIMIT_NOFILE, ret_old);
	return error_set(reterr, -EMFILE,
			 "node 0 may open %lu files, too few for %u nodes: raise ulimit -Hn",
			 (unsigned long)l.rlim_cur, nodes);
}

int meet_listen(struct meeting *m, struct buf *ret_verdict, struct error *reterr)
{
	struct listen_loop l = { .epoll = -EBADF, .listener = -EBADF };
	struct rlimit old;
	struct target t;
	int r = wire_usable(reterr);

	if (r >= 0)
		r = target_parse(m->plan->address, &t, reterr);
	if (r >= 0)
		r = files_raise(m->plan->nodes, &old, &l.strangers_most, reterr);
	if (r < 0)
		return r;
	r = find_place(m, &t, &l.listener, ret_verdict, reterr);
	if (r == 0)
		r = run(&l, m, ret_verdict, reterr);
	cleanup_close(&l.epoll);
	cleanup_close(&l.listener);
	setrlimit(RLIMIT_NOFILE, &old);
	return MIN(r, 0);
}
