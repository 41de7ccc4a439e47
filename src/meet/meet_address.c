/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet_address.c - names of hosts, asked for in a child: getaddrinfo() knows no deadline, and a
 * resolver that is gone can hold it for a minute.
 */
#include "meet/meet_address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int ask(struct target *t, int flags)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = flags | AI_NUMERICSERV };
	struct addrinfo *found, *a;
	int r = getaddrinfo(t->host, t->port, &hints, &found);

	if (r)
		return r;
	t->n = 0;
	for (a = found; a && t->n < ADDRESSES_MOST; a = a->ai_next) {
		if (a->ai_addrlen > sizeof(t->v[0].at))
			continue;
		memset(&t->v[t->n], 0, sizeof(t->v[t->n]));
		memcpy(&t->v[t->n].at, a->ai_addr, a->ai_addrlen);
		t->v[t->n++].len = a->ai_addrlen;
	}
	freeaddrinfo(found);
	return 0;
}

int target_parse(const char *text, struct target *ret, struct error *reterr)
{
	const char *colon = strrchr(text, ':'), *host = text;
	struct target t = { 0 };
	size_t len = colon ? (size_t)(colon - text) : 0;
	unsigned long port =
	    colon && colon[1] >= '0' && colon[1] <= '9' ? strtoul(colon + 1, NULL, 10) : 0;
	bool bracketed = len > 2 && host[0] == '[' && host[len - 1] == ']';

	if (bracketed) {
		host++;
		len -= 2;
	}
	if (!len || len >= sizeof(t.host) || (!bracketed && memchr(host, ':', len)) || !port ||
	    port > 65535 || strspn(colon + 1, "0123456789") != strlen(colon + 1))
		return error_set(reterr, -EINVAL,
				 "nodes meet at HOST:PORT or [V6]:PORT, not at \"%.80s\"", text);
	memcpy(t.host, host, len);
	snprintf(t.port, sizeof(t.port), "%lu", port);
	t.literal = !ask(&t, AI_NUMERICHOST);
	*ret = t;
	return 0;
}

static _Noreturn void child(struct target *t, int out)
{
	int r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	r = ask(t, 0);
	if (r)
		t->n = 0;
	if (write(out, &r, sizeof(r)) == (ssize_t)sizeof(r) && !r)
		r = write(out, t->v, t->n * sizeof(t->v[0])) < 0;
	_exit(0);
}

/* Up to size bytes, until the writer is gone or the time is over. */
static size_t read_until(int fd, void *to, size_t size, int64_t until_ms)
{
	size_t n = 0;

	for (;;) {
		struct pollfd p = { fd, POLLIN, 0 };
		int64_t left = until_ms - clock_ms();
		ssize_t got;

		if (left <= 0 || n == size)
			return n;
		if (poll(&p, 1, (int)left) <= 0)
			continue;
		got = read(fd, (char *)to + n, size - n);
		if (got <= 0)
			return n;
		n += (size_t)got;
	}
}

int target_resolve(struct target *t, int limit_ms, struct error *reterr)
{
	struct {
		int r;
		struct target_at v[ADDRESSES_MOST];
	} __attribute__((packed)) answer;
	int ends[2];
	size_t got;
	pid_t pid;

	if (t->literal)
		return 0;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(reterr, -errno, "pipe: %s", strerror(errno));
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		child(t, ends[1]);
	close(ends[1]);
	got = pid < 0 ? 0 : read_until(ends[0], &answer, sizeof(answer), clock_ms() + limit_ms);
	close(ends[0]);
	if (pid > 0) {
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (got < sizeof(answer.r))
		return error_set(reterr, -ETIMEDOUT, "%s: no resolver answers", t->host);
	if (answer.r)
		return error_set(reterr, -EHOSTUNREACH, "%s: %s", t->host, gai_strerror(answer.r));
	t->n = (got - sizeof(answer.r)) / sizeof(t->v[0]);
	memcpy(t->v, answer.v, t->n * sizeof(t->v[0]));
	return 0;
}

bool address_is_loopback(const struct sockaddr_storage *a)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)a;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;

	if (a->ss_family == AF_INET)
		return (ntohl(four->sin_addr.s_addr) >> 24) == 127;
	return a->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

void address_words(const struct sockaddr_storage *a, char *ret, size_t size)
{
	char text[INET6_ADDRSTRLEN] = "?";
	const struct sockaddr_in *four = (const struct sockaddr_in *)a;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;

	if (a->ss_family == AF_INET)
		inet_ntop(AF_INET, &four->sin_addr, text, sizeof(text));
	else if (a->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
		inet_ntop(AF_INET, &six->sin6_addr.s6_addr[12], text, sizeof(text));
	else if (a->ss_family == AF_INET6)
		inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof(text));
	snprintf(ret, size, "%s", text);
}
