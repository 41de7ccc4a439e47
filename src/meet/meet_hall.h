/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet_hall.h - the judge's side of a meeting over TCP: what it makes of the bytes of those who
 * connect. Here is no socket: meet_listen.c moves the bytes.
 *
 * A guest is one connection. It is a stranger until its entry proves the secret; only then may it
 * send more than a kilobyte, and only then is anything about it believed.
 */
#pragma once
#include "meet/meet_wire.h"

#define STRANGERS_MOST 1024u
#define MISFITS_MOST   256u
#define STRANGER_MS    5000  /* to prove the secret */
#define PART_MS	       60000 /* from the welcome to a whole part */
#define ADDRESS_MOST   48u
#define DOUBLE_WAIT_MS 3000 /* until a number that is held twice counts as that */

enum guest_state {
	GUEST_GREETING,
	GUEST_ENTRY,
	GUEST_MEMBER, /* proven; its part is to come */
	GUEST_SEATED, /* gave it */
	GUEST_TOLD,   /* the verdict is on its way */
	GUEST_LEAVES, /* what is written goes out yet, then it is closed */
	GUEST_GONE
};
struct guest {
	int fd;
	enum guest_state state;
	char address[ADDRESS_MOST];
	struct wire wire;
	uint8_t nonce[NONCE_BYTES];
	struct greeting greeting;
	struct entry entry;
	bool misfit;   /* has no seat and never will */
	bool contends; /* for a seat that another holds */
	unsigned ticks;
	struct buf in, out;
	size_t out_at;
	uint8_t *part; /* a contender's; a holder's is the roster's */
	size_t part_len;
	int64_t clock_ns, clock_doubt_ns;
	int64_t opened_ms, deadline_ms;
	uint64_t verdict_at; /* bytes of it that went out */
	bool writing;	     /* what the loop waits for on its socket */
};

struct hall {
	struct meeting *m;
	VEC(struct guest *) guests;
	struct guest **holders; /* of each node's seat; NULL */
	size_t strangers, misfits;
	size_t strangers_most; /* fewer than STRANGERS_MOST where files are scarce */
	size_t bytes;	       /* not yet whole frames of guests */
	int64_t judge_ms, double_ms;
	bool judged;
	struct buf verdict;
	uint8_t verdict_digest[DIGEST_BYTES];
	int64_t moved_ms; /* the last time that anything of the verdict moved */
	size_t waits;	  /* guests that are told and have not thanked */
};

void hall_open(struct hall *h, struct meeting *m);
/* One who connected: owns fd. NULL: there is no room even so. */
struct guest *hall_admit(struct hall *h, int fd, const char *address, int64_t now_ms);
/* Its bytes. It may be gone or leaving afterwards. */
void guest_feed(struct hall *h, struct guest *g, const uint8_t *p, size_t len, int64_t now_ms);
/* Its connection ended or it is sent away; why: for the row of a node that is lost by it. */
void guest_drop(struct hall *h, struct guest *g, const char *why);
/* Deadlines of all guests. */
void hall_tick(struct hall *h, int64_t now_ms);
bool hall_complete(struct hall *h, int64_t now_ms); /* all came, and no number is held twice */
/* Everything that the judge must know is in the roster; then the verdict goes to all. */
int hall_judge(struct hall *h, int64_t now_ms, struct error *reterr);
void hall_news(struct hall *h);	 /* who is missing, to those who wait */
void hall_sweep(struct hall *h); /* frees those who are gone */
void hall_done(struct hall *h);
