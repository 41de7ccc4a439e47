/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet_wire.h - the bytes of a meeting over TCP: a greeting from each side, then frames.
 *
 * A frame's tag is HMAC-SHA256 under a key of this one connection, made of the secret and both
 * sides' random challenges; it covers the direction, the frame's number, its type and bytes, and
 * the entry by which the node said its job, number and name. So no frame is good in another place:
 * not on another connection, not the other way, not twice, not for another node or job.
 */
#pragma once
#include "meet/meet_inside.h"

#define MEET_VERSION	    1u
#define NONCE_BYTES	    32u
#define GREETING_HEAD	    12u	  /* magic, version, length of the rest */
#define GREETING_MOST	    1024u /* the rest: another version's may be longer than ours */
#define FRAME_HEAD	    40u	  /* u32 length, u8 type, three zeros, tag; little-endian */
#define FRAME_SMALL	    1024u /* every frame but a part */
#define MEET_TICKS_MOST	    16u
#define MEET_TICKS	    8u
#define MEET_TICKS_LEAST    4u
#define MEET_TICK_ENOUGH_NS 2000000 /* a round trip after which no better one is sought */
#define PART_HEAD_MOST	    20u
#define NEWS_MOST	    300u

enum frame_type {
	FRAME_ENTER = 1, /* node: who I am */
	FRAME_WELCOME,	 /* judge: so am I */
	FRAME_REFUSED,	 /* judge: you hold the secret, but are not of this meeting */
	FRAME_DENIED,	 /* judge, without a tag: you do not hold the secret */
	FRAME_TICK,	 /* node: what is your time? */
	FRAME_TOCK,
	FRAME_PART,
	FRAME_NEWS,    /* judge: who is missing */
	FRAME_VERDICT, /* judge: length and digest; the bytes follow, no frame of their own */
	FRAME_THANKS,  /* node: I have it whole */
	FRAME_TYPES
};

struct greeting {
	unsigned version;
	uint8_t nonce[NONCE_BYTES];
	uint32_t node; /* as it says, proven by nothing */
	char name[MEET_NAME_MOST + 1];
};
void greeting_put(struct buf *out, const uint8_t nonce[NONCE_BYTES], uint32_t node,
		  const char *name);
/* Bytes used; 0: more are needed; -EPROTO: nothing of ours. Of another version only that is told.
 */
int greeting_get(const uint8_t *p, size_t len, struct greeting *ret);

struct wire { /* one side of one connection */
	bool judge;
	uint8_t key[DIGEST_BYTES];
	uint8_t context[DIGEST_BYTES]; /* of the entry; zeros before */
	uint64_t sent, got;
};
int wire_usable(struct error *reterr); /* digests can be made here; else negative */
void wire_open(struct wire *w, bool judge, const uint8_t *secret, size_t secret_len,
	       const uint8_t of_judge[NONCE_BYTES], const uint8_t of_node[NONCE_BYTES]);
/* From the entry on both sides bind what follows to it. */
void wire_bind(struct wire *w, const uint8_t *entry, size_t len);
void wire_put(struct wire *w, struct buf *out, enum frame_type type, const void *body, size_t len);

struct frame {
	enum frame_type type;
	bool genuine;
	const uint8_t *body;
	size_t len;
};
/* Bytes used; 0: more are needed; -EMSGSIZE: longer than most; -EPROTO: no frame. */
ssize_t wire_get(struct wire *w, const uint8_t *p, size_t len, size_t most, struct frame *ret);

struct entry {
	uint32_t node, nodes;
	int64_t left_ms; /* of its limit */
	int64_t made_ns; /* by its clock */
	uint8_t instance[INSTANCE_BYTES];
	char job[MEET_NAME_MOST + 1], name[MEET_NAME_MOST + 1];
	bool sealed; /* made with our secret, whenever and for whomever: it is old if its frame is
			not genuine */
};
void entry_put(struct buf *out, const struct meeting *m);
bool entry_get(const struct meeting *m, const uint8_t *body, size_t len, struct entry *ret);
