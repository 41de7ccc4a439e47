/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_rendezvous.c - can the job's ranks meet where they are told to.
 *
 * The node that has the address tries whether the port is free; the others knock: a refusal is
 * good, since it comes from the host and nobody should listen before the job starts.
 */
#include "preflight/preflight_fabric.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* "host:29500", "[fe80::1]:29500"; false: it is none. */
static bool split_place(const char *place, char host[256], char port[8])
{
	const char *colon = strrchr(place, ':'), *from = place;
	size_t len = colon ? (size_t)(colon - place) : 0;
	char *end;
	long n;

	if (!len || !isdigit((unsigned char)colon[1]))
		return false;
	n = strtol(colon + 1, &end, 10);
	if (*end || n < 1 || n > 65535)
		return false;
	if (*from == '[' && from[len - 1] == ']') {
		from++;
		len -= 2;
	}
	if (!len || len >= 256)
		return false;
	memcpy(host, from, len);
	host[len] = 0;
	snprintf(port, 8, "%ld", n);
	return true;
}

/* An address is ours if a socket can be bound to it. */
static bool is_ours(const struct addrinfo *a)
{
	_cleanup_close_ int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage any;

	if (fd < 0)
		return false;
	memcpy(&any, a->ai_addr, a->ai_addrlen);
	if (a->ai_family == AF_INET6)
		((struct sockaddr_in6 *)&any)->sin6_port = 0;
	else
		((struct sockaddr_in *)&any)->sin_port = 0;
	return bind(fd, (struct sockaddr *)&any, a->ai_addrlen) == 0;
}

/* Tries to listen at the port itself; 0 or a negative errno. */
static int try_listen(const struct addrinfo *a)
{
	_cleanup_close_ int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, 1) < 0)
		return -errno;
	return 0;
}

static const char *knock(const struct addrinfo *a, unsigned limit_ms)
{
	_cleanup_close_ int fd =
	    socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd p = { fd, POLLOUT, 0 };
	socklen_t len = sizeof(int);
	int error = 0;

	if (fd < 0)
		return strerror(errno);
	if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
		return "connected";
	if (errno != EINPROGRESS)
		return errno == ECONNREFUSED ? "refused" : strerror(errno);
	if (poll(&p, 1, (int)limit_ms) <= 0)
		return "no answer in time";
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	return !error ? "connected" : error == ECONNREFUSED ? "refused" : strerror(error);
}

static void look_at(const struct addrinfo *a, unsigned limit_ms, json_t *j)
{
	char text[INET6_ADDRSTRLEN] = "?";
	const void *raw = a->ai_family == AF_INET6
			      ? (const void *)&((struct sockaddr_in6 *)a->ai_addr)->sin6_addr
			      : (const void *)&((struct sockaddr_in *)a->ai_addr)->sin_addr;
	int r;

	inet_ntop(a->ai_family, raw, text, sizeof(text));
	json_object_set_new(j, "address", json_string(text));
	if (!is_ours(a)) {
		json_object_set_new(j, "answer", text_json(knock(a, limit_ms)));
		return;
	}
	json_object_set_new(j, "local", json_true());
	r = try_listen(a);
	json_object_set_new(j, "free", json_boolean(r == 0));
	if (r < 0)
		json_object_set_new(j, "why", text_json(strerror(-r)));
}

json_t *rendezvous_facts(const char *place, unsigned limit_ms)
{
	const char *address = getenv("MASTER_ADDR"), *number = getenv("MASTER_PORT");
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
	_cleanup_free_ char *made = NULL;
	char host[256], port[8];
	json_t *j;
	int r;

	if (!place && address && *address && number && *number) {
		made = xasprintf(strchr(address, ':') ? "[%s]:%s" : "%s:%s", address, number);
		place = made;
	}
	if (!place)
		return NULL;
	j = json_object();
	json_object_set_new(j, "place", text_json(place));
	if (!split_place(place, host, port)) {
		json_object_set_new(j, "why", json_string("it is no HOST:PORT"));
		return j;
	}
	r = getaddrinfo(host, port, &hints, &found);
	if (r)
		json_object_set_new(j, "why", text_json(gai_strerror(r)));
	else
		look_at(found, MAX(limit_ms / 2, 100u), j); /* before the probe's own deadline */
	if (found)
		freeaddrinfo(found);
	return j;
}
