/* SPDX-License-Identifier: Apache-2.0 */
/* nsys_inside.h - what nsys.c (tables), nsys_unit.c (whose a row is) and nsys_step.c (which ranges
   are steps) share. */
#pragma once
#include "base/intern.h"
#include "read/nsys.h"
#include "read/sqlite_file.h"

#define NSYS_ROWS_MAX	 (1u << 24) /* of all tables, 64 bytes each; more are counted as lost */
#define NSYS_STRINGS_MAX (1u << 22)
#define NSYS_UNITS_MAX	 1024u
#define NSYS_DOMAINS_MAX 1024u

enum nsys_nccl {
	NSYS_NCCL_NONE,
	NSYS_NCCL_CALL,	  /* a call of NCCL with a payload */
	NSYS_NCCL_JOINED, /* into another of its group */
};

struct nsys_row {
	int64_t start, end;
	uint64_t correlation, bytes;
	uint64_t process, thread; /* thread: stream of GPU work */
	uint32_t name, device;
	uint32_t unit;	 /* NO_ID: of none */
	uint8_t kind;	 /* enum event_kind */
	uint8_t nccl;	 /* enum nsys_nccl: then correlation is the communicator, device the peer
			    + 1 */
	uint16_t domain; /* of NVTX; NSYS_DOMAINS_MAX: one of many, or none known */
};

/* A process's GPU: what is taken for a rank. */
struct nsys_unit {
	uint64_t process;
	uint32_t device;
	uint64_t kernels;
	size_t first_row, n_rows;
	uint32_t first_mark, n_marks; /* into marks */
};
struct nsys_mark {
	int64_t start, end;
	uint64_t number;
};
struct nsys_string {
	int64_t id;
	uint32_t name;
};
/* A field of a payload. */
enum nsys_field_role { FIELD_OTHER, FIELD_COMM, FIELD_BYTES, FIELD_PEER, FIELD_SIZE, FIELD_ROLES };
struct nsys_field {
	int64_t schema;
	uint32_t offset;
	bool wide; /* 8 bytes, else 4 */
	enum nsys_field_role role;
};
struct nsys_comm {
	uint64_t id;
	uint32_t size;
};
struct nsys_domain {
	uint64_t process;
	uint32_t name;
	uint16_t id;
};
struct nsys_gpu {
	int64_t id;
	uint32_t name;
};

struct nsys {
	struct intern names;
	VEC(struct nsys_row) rows;
	VEC(struct nsys_string) strings; /* by id */
	VEC(struct nsys_unit) units;	 /* by process and device */
	VEC(struct nsys_mark) marks;
	VEC(struct nsys_gpu) gpus;
	VEC(struct nsys_domain) domains;
	VEC(struct nsys_field) fields;
	VEC(struct nsys_comm) comms;
	const char *step_range; /* as asked for; NULL */
	uint32_t without_range; /* units that have none of that name */
	uint32_t host;
	int64_t rank, world_size; /* as the environment of the only process says; -1 */
	int64_t base_ns;
	bool no_process; /* GPU work does not say whose it is */
	uint64_t beyond; /* rows beyond a limit */
	struct read_stats *stats;
};

static inline bool nsys_on_gpu(const struct nsys_row *r)
{
	return r->kind < EVENT_LAUNCH;
}
/* nsys_unit.c: fills units, and puts the rows of each together; those of none are dropped. */
void nsys_settle_units(struct nsys *n);
/* nsys_nccl.c: NCCL's own ranges. A row of NVTX_PAYLOAD_SCHEMA_ENTRIES (schemaId, type, name,
   offset); the payload of a range; groups of calls, once units stand; the arguments of a call,
   false if it is none. */
int nsys_take_field(void *user, const struct sqlite_value *v);
void nsys_take_payload(struct nsys *n, struct nsys_row *r, const void *payload, size_t len);
void nsys_settle_nccl(struct nsys *n);
bool nsys_nccl_args(const struct nsys *n, const struct nsys_row *r, struct intern *to,
		    struct comm_args *ret);
/* nsys_step.c: fills marks from the ranges of each unit. */
void nsys_settle_steps(struct nsys *n);
