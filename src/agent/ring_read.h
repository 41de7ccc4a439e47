/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_read.h - reads the ring file of a training process while that writes, or after it died.
 *
 * The contents are a stranger's: nothing is mapped, since a file that is cut short would kill who
 * reads it; every count, offset and length is checked before it is used; what contradicts itself
 * is given up with a reason, and never followed.
 */
#pragma once
#include "base/buf.h"
#include "model/ring_layout.h"

#define RING_READ_SLOTS	  256u /* limits of what is believed */
#define RING_READ_PENDING 4096u
#define RING_READ_NAMES	  65536u
#define RING_READ_BYTES	  ((uint64_t)64 << 20)

struct ring_file {
	int fd;
	char *path;
	uint64_t device, inode;
	struct ring_header h; /* the last good copy; words are ended */
	uint64_t cursor[RING_READ_SLOTS];
	bool dead;		 /* nothing more is to come: half a collective is all of it */
	struct ring_slot *slots; /* h.n_slots of them, the last copy */
	struct ring_pending *pending;
	struct buf names;  /* as in the file, as far as they were read */
	uint32_t *name_at; /* by id - 1: where in names */
	uint32_t n_names;
	size_t name_cap;
	uint64_t overtaken; /* records that were overwritten before they were read */
	uint64_t records;   /* that were given */
	uint64_t strange;   /* records of no known kind */
	double ns_a_tick;
	bool rate_settled; /* the pairs lie far enough apart */
};

/*
 * Opens name in the folder dir. -ENOTSUP: of another major version; -EBADMSG: no ring, or one that
 * contradicts itself; -EAGAIN: not yet complete. From the beginning of what the ring holds, unless
 * cursors are set afterwards.
 */
int ring_open(int dir, const char *name, struct ring_file **ret, struct error *reterr);
/* The same of an open file, which is taken over. */
int ring_open_fd(int fd, const char *name, struct ring_file **ret, struct error *reterr);
struct ring_file *ring_free(struct ring_file *r); /* NULL is fine; returns NULL */

/* Reads header, slots and what is under way once more. -EBADMSG: it is to be given up. */
int ring_refresh(struct ring_file *r, struct error *reterr);

/* n records of a slot in order; a RING_MORE is never parted from the record before it. */
typedef void (*ring_take_fn)(void *user, uint32_t slot, const struct ring_record *records,
			     size_t n);
/* What came since the last time, of all slots; the header is that of ring_refresh. */
int ring_read(struct ring_file *r, ring_take_fn take, void *user, struct error *reterr);

/* A name by its id; "" for none. */
const char *ring_name(const struct ring_file *r, uint32_t id, size_t *ret_len);

/*
 * Time on the process's own line: epoch ns at its start and CLOCK_MONOTONIC from there, so that a
 * step of the wall clock moves nothing. gpu: from CLOCK_REALTIME, as records of the GPU have it.
 */
int64_t ring_time(const struct ring_file *r, uint64_t ticks);
int64_t ring_span(const struct ring_file *r, uint64_t ticks); /* a duration, >= 0 */
int64_t ring_time_gpu(const struct ring_file *r, uint64_t realtime_ns);
