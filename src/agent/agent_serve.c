/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_serve.c - answers GET /metrics, on a Unix socket or a loopback port.
 *
 * One connection at a time, one request, one answer, then it is closed; who is slow is dropped
 * after a moment, so that nobody keeps the agent from its rings. That is all of HTTP that
 * Prometheus and curl need, and it saves an agent on every node a library and its threads.
 */
#include "agent/agent_inside.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define REQUEST_MOST 4096
#define PATIENCE_MS  200

static int listen_unix(struct agent *a, const char *path, struct error *reterr)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct stat st;

	if (strlen(path) >= sizeof(at.sun_path))
		return 0; /* its path is too long for a socket: none */
	strcpy(at.sun_path, path);
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
		unlink(path); /* of an agent before us: the folder is ours by its lock */
	a->listen = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (a->listen < 0 || bind(a->listen, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    listen(a->listen, 4) < 0)
		return error_set(reterr, -errno, "%s: %s", path, strerror(errno));
	a->socket_path = xstrdup(path);
	return 0;
}

/* "127.0.0.1:9464", "localhost:9464", "[::1]:9464"; 0: not written like this. */
static socklen_t address_parse(const char *text, struct sockaddr_storage *ret)
{
	const char *colon = strrchr(text, ':');
	struct sockaddr_in *four = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret;
	char host[64], *end;
	unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;

	memset(ret, 0, sizeof(*ret));
	if (!colon || colon[1] < '0' || colon[1] > '9' || *end || port > 65535 ||
	    (size_t)(colon - text) >= sizeof(host))
		return 0;
	memcpy(host, text, (size_t)(colon - text));
	host[colon - text] = '\0';
	if (!strcmp(host, "localhost"))
		strcpy(host, "127.0.0.1");
	if (!strcmp(host, "[::1]")) {
		six->sin6_family = AF_INET6;
		six->sin6_addr = in6addr_loopback;
		six->sin6_port = htons((uint16_t)port);
		return sizeof(*six);
	}
	four->sin_family = AF_INET;
	four->sin_port = htons((uint16_t)port);
	if (inet_pton(AF_INET, host, &four->sin_addr) != 1)
		return 0;
	return sizeof(*four);
}

static bool is_loopback(const struct sockaddr_storage *s)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)s;

	return s->ss_family == AF_INET6 || (ntohl(four->sin_addr.s_addr) >> 24) == 127;
}

static int listen_port(struct agent *a, const char *text, struct error *reterr)
{
	struct sockaddr_storage at;
	socklen_t len = address_parse(text, &at);
	int on = 1;

	if (!len)
		return error_set(reterr, -EINVAL,
				 "--listen is HOST:PORT or the path of a socket, not \"%.60s\"",
				 text);
	if (!is_loopback(&at))
		return error_set(reterr, -EINVAL,
				 "--listen %.60s: only a loopback address, since anybody may ask",
				 text);
	a->listen = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (a->listen >= 0)
		setsockopt(a->listen, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (a->listen < 0 || bind(a->listen, (struct sockaddr *)&at, len) < 0 ||
	    listen(a->listen, 4) < 0)
		return error_set(reterr, -errno, "--listen %.60s: %s", text, strerror(errno));
	return 0;
}

int serve_open(struct agent *a, struct error *reterr)
{
	const char *asked = a->options->listen;
	_cleanup_free_ char *own = NULL;

	if (asked && !strchr(asked, '/'))
		return listen_port(a, asked, reterr);
	own = xasprintf("%s/%s", a->options->out, AGENT_SOCKET);
	return listen_unix(a, asked ? asked : own, reterr);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static bool wait_for(int fd, short what, int64_t until)
{
	struct pollfd p = { fd, what, 0 };
	int64_t left = until - now_ms();

	return left > 0 && poll(&p, 1, (int)left) > 0;
}

static void send_all(int fd, const void *bytes, size_t len, int64_t until)
{
	const char *p = bytes;

	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			if (!wait_for(fd, POLLOUT, until))
				return;
			continue;
		}
		if (n <= 0)
			return;
		p += n;
		len -= (size_t)n;
	}
}

/* Up to the empty line. */
static bool request_get(int fd, char *to, int64_t until)
{
	size_t n = 0;

	while (n < REQUEST_MOST) {
		ssize_t got = recv(fd, to + n, REQUEST_MOST - n, MSG_DONTWAIT);

		if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
			if (!wait_for(fd, POLLIN, until))
				return false;
			continue;
		}
		if (got <= 0)
			return false;
		n += (size_t)got;
		to[n] = '\0';
		if (strstr(to, "\r\n\r\n") || strstr(to, "\n\n"))
			return true;
	}
	return false;
}

static void answer(const struct agent *a, int fd)
{
	char request[REQUEST_MOST + 1] = "", head[160];
	int64_t until = now_ms() + PATIENCE_MS;
	struct buf page = { 0 };
	bool good;
	int n;

	if (!request_get(fd, request, until))
		return;
	good = !strncmp(request, "GET /metrics", 12) || !strncmp(request, "GET / ", 6);
	if (good)
		metrics_put(a, &page);
	else
		buf_put(&page, "GET /metrics\n", 13);
	n = snprintf(head, sizeof(head),
		     "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4\r\n"
		     "Content-Length: %zu\r\nConnection: close\r\n\r\n",
		     good ? "200 OK" : "404 Not Found", page.len);
	send_all(fd, head, (size_t)n, until);
	send_all(fd, page.data, page.len, until);
	buf_done(&page);
}

/* Until somebody asks, a process is gone, or the time is over. */
void serve_wait(struct agent *a, int timeout_ms)
{
	struct pollfd *p = xcalloc(a->rings.n + 1, sizeof(*p));
	int64_t until = now_ms() + timeout_ms, left;
	size_t n = 1;

	p[0] = (struct pollfd){ a->listen, POLLIN, 0 };
	for (size_t i = 0; i < a->rings.n; i++)
		if (a->rings.v[i].pidfd >= 0)
			p[n++] = (struct pollfd){ a->rings.v[i].pidfd, POLLIN, 0 };
	while ((left = until - now_ms()) > 0 && poll(p, n, (int)left) > 0) {
		bool gone = false;

		for (size_t i = 1; i < n; i++)
			gone |= p[i].revents != 0;
		if (gone)
			break;
		if (p[0].revents) {
			_cleanup_close_ int fd = accept4(a->listen, NULL, NULL, SOCK_CLOEXEC);

			if (fd >= 0)
				answer(a, fd);
		}
	}
	free(p);
}

void serve_close(struct agent *a)
{
	cleanup_close(&a->listen);
	if (a->socket_path)
		unlink(a->socket_path);
	free(a->socket_path);
	a->socket_path = NULL;
}
