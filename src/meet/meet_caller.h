/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet_caller.h - a node's side of one connection to the judge, without its socket.
 *
 * Nothing of ours but our name and number goes out before the judge has proven the secret, and
 * nothing of it is believed before.
 */
#pragma once
#include "meet/meet_wire.h"

enum caller_state {
	CALLER_GREETING,
	CALLER_ENTERED, /* it is to prove itself */
	CALLER_TICKING,
	CALLER_GIVEN,
	CALLER_VERDICT, /* its bytes are coming */
	CALLER_DONE,	/* and are whole; what is written goes out yet */
	CALLER_FAILED
};
enum caller_failure {
	CALL_BROKE,   /* the connection, or what came over it */
	CALL_DENIED,  /* we do not hold the secret, as it says without proof */
	CALL_FALSE,   /* it cannot prove that it holds it */
	CALL_VERSION, /* it speaks another version */
	CALL_REFUSED, /* proven: another job meets there */
};
struct caller {
	struct meeting *m;
	enum caller_state state;
	enum caller_failure failure;
	char why[MEET_WHY_MOST]; /* of CALLER_FAILED */
	char judge[MEET_NAME_MOST + 1], news[NEWS_MOST + 1];
	uint8_t nonce[NONCE_BYTES];
	struct wire wire;
	struct buf in, out;
	size_t out_at;
	unsigned ticks;
	int64_t tick_ns, tick_clock_ns; /* when the last went out: monotonic, our clock */
	int64_t best_ns, clock_ns;	/* least round trip, and the difference it gave */
	struct buf verdict;
	size_t verdict_len;
	uint8_t verdict_digest[DIGEST_BYTES];
};
int caller_open(struct caller *c, struct meeting *m, struct error *reterr);
void caller_feed(struct caller *c, const uint8_t *p, size_t len);
void caller_done(struct caller *c);
