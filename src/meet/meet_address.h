/* SPDX-License-Identifier: Apache-2.0 */
/* meet_address.h - "host:port" to what can be bound or connected to, within a time limit. */
#pragma once
#include <sys/socket.h>

#include "meet/meet_inside.h"

#define ADDRESSES_MOST 16u

struct target {
	char host[256], port[8];
	bool literal; /* an address, no name */
	struct target_at {
		struct sockaddr_storage at;
		socklen_t len;
	} v[ADDRESSES_MOST];
	size_t n;
};
int target_parse(const char *text, struct target *ret, struct error *reterr);
/* Asks the resolver, in a child that is killed when the time is over. */
int target_resolve(struct target *t, int limit_ms, struct error *reterr);
bool address_is_loopback(const struct sockaddr_storage *a);
void address_words(const struct sockaddr_storage *a, char *ret, size_t size); /* without the port */
