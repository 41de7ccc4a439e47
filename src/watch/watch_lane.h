/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_lane.h - paths are looked at by helpers, since a file system whose server is gone stops who
 * touches it, and no signal ends that.
 *
 * A lane is what is looked at one after the other by one helper, a fork of ours: the sources of one
 * file system. A helper that says nothing for the deadline is killed, and left where it does not
 * die of that; its sources are silent, and a new one tries again, later each time. The first
 * source that hangs goes to a lane of its own, for it may be its path alone; if the next hangs too
 * it is the file system. At most STUCK_MOST of a lane's helpers wait in the kernel.
 *
 * A helper knows of a source what we knew when it was forked, and tells us what it finds; it is
 * begun anew where it does not know one. Nothing of ours ever touches a path that is looked at.
 */
#pragma once
#include <poll.h>

#include "base/buf.h"
#include "base/child.h"

enum lane_kind {
	LANE_MOUNT,  /* by the path's name: its file system is not known as yet */
	LANE_DEVICE, /* as the helper saw it */
	LANE_OWN     /* one source, that hung */
};
struct lane_key {
	enum lane_kind kind;
	uint64_t number;
};
struct lane_gone { /* a helper that was ended, and may not have died */
	pid_t pid;
	int64_t since_ms;
};
struct lane {
	struct lane_key key;
	struct child child;
	int fd;		     /* to the helper; -1: there is none */
	uint32_t knows;	     /* the generation of sources at its birth */
	VEC(uint32_t) asked; /* sources, in the order in which they are answered */
	size_t sent;	     /* of them */
	struct buf in;	     /* words that came */
	int64_t heard_ms;    /* when it spoke last, or was asked */
	int64_t since_ms;    /* it does not answer since; 0: it does */
	int64_t again_ms;    /* not before */
	unsigned fails;	     /* in a row */
	VEC(struct lane_gone) gone;
};

/* A request, and the header of a word of the answer. */
struct lane_ask {
	uint32_t source;
	int64_t after_ns; /* of a folder: what is newer is counted */
};
struct lane_word {
	uint32_t what, source; /* enum files_word */
	int64_t a, b;
	uint64_t len; /* of what follows */
};

struct sources;
struct source;
struct lane_key lane_guess(const char *path);
/* Source i is to be looked at now; what it finds comes by lanes_take(). */
void lanes_ask(struct sources *s, uint32_t i);
void lanes_take(struct sources *s);
bool lanes_wait(const struct sources *s); /* some were asked that usually answer */
size_t lanes_files(const struct sources *s, struct pollfd *ret, size_t n);
int64_t lanes_next(const struct sources *s);		     /* when a deadline is over */
bool lane_has(const struct lane *l, const struct source *v); /* v's path is looked at there */
void lanes_done(struct sources *s);
