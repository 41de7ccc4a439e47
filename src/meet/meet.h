/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet.h - the nodes of a job come together once: each gives its part, one judges, and all get the
 * same verdict, or each knows within the time limit who did not come.
 *
 * They meet in a folder that all see, or at one address and port with a shared secret. What is in a
 * part or a verdict is the caller's; both are bounded. Nothing here waits beyond the limit.
 */
#pragma once
#include <signal.h>

#include "base/buf.h"

#define MEET_PART_MOST	  ((size_t)4 << 20) /* bytes of one node's part */
#define MEET_VERDICT_MOST ((size_t)64 << 20)
#define MEET_NODES_MOST	  16384u
#define MEET_NAME_MOST	  255u /* bytes of a name, and of a job */
#define MEET_LIMIT_MS	  120000u

struct meet_plan {
	const char *folder; /* on storage that all nodes see; else: */
	const char
	    *address; /* "host:port", "[v6]:port": node 0 listens there, the others connect */
	const char *secret_file; /* the key of every message; needed with address */
	const char *job;      /* apart from other jobs and other attempts at this one, "1234.0" */
	const char *name;     /* of this node, for people; its host name if NULL */
	uint32_t node, nodes; /* this one, 0..nodes-1; node 0 judges */
	const char *const *names;  /* of all, where known (to name who does not come); NULL */
	unsigned limit_ms;	   /* from the call to the verdict; default 120,000 */
	int64_t (*clock_ns)(void); /* this node's clock, epoch; the machine's if NULL */
	const volatile sig_atomic_t *stop; /* a signal's handler raises it: -EINTR, soon; NULL */
};

enum meet_presence {
	MEET_CAME,
	MEET_ABSENT,   /* never heard of */
	MEET_LOST,     /* was here and went: before its part was whole, or before the verdict */
	MEET_IMPOSTOR, /* spoke with a wrong secret, or of another job; who: by name and address
			  said. Anybody who reaches the port can be one: it is a reason against the
			  job where the node that it claims to be did not come */
	MEET_MISFIT,   /* holds the secret and is of this job, but its number is another's, or it
			  counts other nodes; it gets the verdict too */
	MEET_STRANGER, /* spoke nothing of ours, or nothing at all (a scanner): worth a note only */
	MEET_PRESENCES
};
struct meet_part {
	uint32_t node; /* UINT32_MAX: one that fits no node */
	char *name;    /* owned by the meeting; "node 3" where nothing better is known */
	char *address; /* "10.0.0.3", NULL in a folder */
	enum meet_presence presence;
	char *why;	     /* for people, of all but MEET_CAME; NULL */
	const uint8_t *part; /* NULL unless MEET_CAME */
	size_t part_len;
	/* Its clock minus the judge's, and half the round trip by which that is uncertain. In a
	   folder against the folder's own clock, to the grain of its time stamps. INT64_MIN:
	   unknown. */
	int64_t clock_ns, clock_doubt_ns;
	int64_t late_ms; /* after the first node's coming */
};

/*
 * Called on node 0 when all came or the limit is near: makes the verdict of all parts, nodes in
 * order, then those beyond them (impostors, misfits, strangers). Absent nodes have their row too. 0
 * or a negative errno with detail.
 */
typedef int (*meet_judge_fn)(void *user, const struct meet_part *parts, size_t n,
			     struct buf *ret_verdict, struct error *reterr);
/*
 * Gives this node's part and gets the verdict. 0 with the same bytes on every node; -ETIMEDOUT: no
 * verdict came (detail names what this node knows: who listens where, who never answered);
 * -EACCES: wrong secret; -EINVAL, -E2BIG: a plan that cannot be; -EINTR: stopped. A single node
 * judges alone and opens nothing.
 */
int meet(const struct meet_plan *plan, const void *part, size_t part_len, meet_judge_fn judge,
	 void *user, struct buf *ret_verdict, struct error *reterr);
