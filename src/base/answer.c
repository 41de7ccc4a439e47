/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer.c - answers GET /metrics, on a Unix socket or a loopback port; see answer.h.
 *
 * One connection at a time, one request, one answer, then it is closed; who is slow is dropped
 * after a moment, so that nobody keeps the caller from its work. That is all of HTTP that
 * Prometheus and curl need, and it saves a library and its threads.
 */
#include "base/answer.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define REQUEST_MOST 4096
#define PATIENCE_MS  200

static int listen_unix(struct answer *a, const char *path, struct error *reterr)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct stat st;

	if (strlen(path) >= sizeof(at.sun_path))
		return 0; /* its path is too long for a socket: none */
	strcpy(at.sun_path, path);
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
		unlink(path); /* of one before us: the folder is ours by its lock */
	a->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (a->fd < 0 || bind(a->fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    listen(a->fd, 4) < 0)
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

static int listen_port(struct answer *a, const char *text, struct error *reterr)
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
	a->fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (a->fd >= 0)
		setsockopt(a->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (a->fd < 0 || bind(a->fd, (struct sockaddr *)&at, len) < 0 || listen(a->fd, 4) < 0)
		return error_set(reterr, -errno, "--listen %.60s: %s", text, strerror(errno));
	return 0;
}

int answer_open(struct answer *a, const char *where, struct error *reterr)
{
	int r = strchr(where, '/') ? listen_unix(a, where, reterr) : listen_port(a, where, reterr);

	if (r < 0)
		cleanup_close(&a->fd);
	return r;
}

static bool wait_for(int fd, short what, int64_t until)
{
	struct pollfd p = { fd, what, 0 };
	int64_t left = until - clock_ms();

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

static void serve_one(int fd, answer_page_fn page_of, const void *user)
{
	char request[REQUEST_MOST + 1] = "", head[160];
	int64_t until = clock_ms() + PATIENCE_MS;
	struct buf page = { 0 };
	bool good;
	int n;

	if (!request_get(fd, request, until))
		return;
	good = !strncmp(request, "GET /metrics", 12) || !strncmp(request, "GET / ", 6);
	if (good)
		page_of(user, &page);
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

void answer_one(const struct answer *a, answer_page_fn page, const void *user)
{
	_cleanup_close_ int fd = accept4(a->fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd >= 0)
		serve_one(fd, page, user);
}

void answer_close(struct answer *a)
{
	cleanup_close(&a->fd);
	if (a->socket_path)
		unlink(a->socket_path);
	free(a->socket_path);
	a->socket_path = NULL;
}
