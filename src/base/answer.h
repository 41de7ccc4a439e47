/* SPDX-License-Identifier: Apache-2.0 */
/* answer.h - a page of Prometheus text for who asks on this host, from a loop that does other work.
 */
#pragma once
#include "base/buf.h"

struct answer {
	int fd; /* readable when somebody asks; -1: nobody can */
	char *socket_path;
};
typedef void (*answer_page_fn)(const void *user, struct buf *out);

/* where: the path of a socket if it has a slash (one too long for a socket: none is opened), else
   HOST:PORT of a loopback address. */
int answer_open(struct answer *a, const char *where, struct error *reterr);
void answer_one(const struct answer *a, answer_page_fn page, const void *user);
void answer_close(struct answer *a);
