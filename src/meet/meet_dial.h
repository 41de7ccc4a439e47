/* SPDX-License-Identifier: Apache-2.0 */
/* meet_dial.h - calls to the judge, and what is learnt from those that failed. */
#pragma once
#include "meet/meet_address.h"

#define CALL_FAILURES 5

struct calls {
	unsigned
	    said[CALL_FAILURES]; /* by enum caller_failure, since the judge last proved itself */
	char why[MEET_WHY_MOST]; /* of the last */
	char judge[MEET_NAME_MOST + 1], news[301];
	int64_t said_ms;	    /* when the first of them was said */
	char saying[MEET_WHY_MOST]; /* the last that was no mere breaking */
	int64_t pause_ms;
};
/* Each address of the target once: 0 with the verdict; -EAGAIN: why is in k. */
int dial_once(struct meeting *m, const struct target *t, struct calls *k, struct buf *ret_verdict);
void dial_pause(struct meeting *m, struct calls *k);
void meet_keep_alive(int fd); /* and no delay: who is gone is noticed in seconds */
