/* SPDX-License-Identifier: Apache-2.0 */
/* meet_inside.h - what the files of the meeting share: one call of meet(), and who sits where. */
#pragma once
#include "meet/digest.h"
#include "meet/meet.h"
#include "base/clock.h"

#define INSTANCE_BYTES	  16u
#define MEET_EXTRAS_MOST  128u /* rows beyond the nodes' own; what is more is counted */
#define MEET_EXTRAS_OF	  16u  /* of them from one address */
#define MEET_WHY_MOST	  400u
#define MEET_SECRET_LEAST 16u
#define MEET_SECRET_MOST  4096u
#define MEET_MEMORY_MOST  ((size_t)4 << 30) /* parts of all nodes together */

struct seat { /* of a node; and of one that has no seat */
	uint32_t node;
	enum meet_presence presence;
	char *name, *address, *why;
	uint8_t *part;
	size_t part_len;
	int64_t clock_ns, clock_doubt_ns;
	int64_t came_ms; /* monotonic; INT64_MIN: never */
	uint64_t times;	 /* an extra: so often */
};

struct roster {
	struct seat *seats; /* of each node */
	uint32_t nodes, came;
	VEC(struct seat) extras;
	uint64_t more; /* extras that have no row */
	size_t bytes;  /* of all parts */
};

struct meeting {
	const struct meet_plan *plan;
	const uint8_t *part;
	size_t part_len;
	meet_judge_fn judge;
	void *user;
	char name[MEET_NAME_MOST + 1];
	uint8_t *secret; /* NULL: none, which only a folder allows */
	size_t secret_len;
	uint8_t instance[INSTANCE_BYTES]; /* of this call: apart from another with our number */
	int64_t until_ms;		  /* monotonic */
	struct roster roster;		  /* node 0's */
	const char *note;		  /* why others may not find us, said of the absent; NULL */
};

int64_t meet_clock_ns(const struct meet_plan *plan);
int meet_random(void *p, size_t len, struct error *reterr);
bool meet_stopped(const struct meeting *m);
/* How long before its limit a node must have the verdict on its way. */
int64_t meet_reserve_ms(int64_t limit_ms);
/* Bytes of others for people: printable ASCII, at most most bytes. */
char *meet_clean(const char *s, size_t len, size_t most);
/* "2026-11-30 19:48:23 UTC" */
void meet_time_words(int64_t epoch_ns, char ret[32]);

int meet_secret_read(const char *path, uint8_t **ret, size_t *ret_len, struct error *reterr);

void roster_open(struct roster *r, const struct meet_plan *plan);
/* The node is here with its whole part, which is taken over. */
void roster_seat(struct roster *r, uint32_t node, const char *name, const char *address,
		 uint8_t *part, size_t part_len, int64_t now_ms);
/* It went, or never was whole; what it gave is let go. */
void roster_lose(struct roster *r, uint32_t node, const char *name, const char *address,
		 const char *why);
/* One that has no seat; the same one again is counted. */
void roster_extra(struct roster *r, enum meet_presence presence, uint32_t node, const char *name,
		  const char *address, const char *why);
/* "node 3 (gpu07), nodes 5-9": who has not come, cut where it is long. */
char *roster_missing(const struct roster *r, size_t most);
int roster_judge(struct meeting *m, struct buf *ret_verdict, struct error *reterr);
void roster_done(struct roster *r);

int meet_listen(struct meeting *m, struct buf *ret_verdict, struct error *reterr); /* node 0 */
int meet_dial(struct meeting *m, struct buf *ret_verdict, struct error *reterr);   /* others */
int meet_folder(struct meeting *m, struct buf *ret_verdict, struct error *reterr);
