/* SPDX-License-Identifier: Apache-2.0 */
/*
 * standings.h - all dumps of a job in one table: (group, position) -> who called what.
 *
 * Thousands of dumps of thousands of entries mostly say the same. The table keeps each operation of
 * a group once, with the few signatures that ranks called it with; of a dump only its windows,
 * which signature it had where (in runs), and what it has not finished remain. So memory follows
 * distinct operations, not ranks x entries.
 *
 * A position is the sequence number x 256, plus the place among operations of one number (coalesced
 * calls). Point-to-point entries have no common numbering: only pending ones are kept.
 */
#pragma once
#include "model/signature.h"

#define POSITION(seq)	      ((int64_t)(seq) << 8)
#define POSITION_SEQ(pos)     ((pos) >> 8)
#define STANDING_SEQ_MAX      ((int64_t)1 << 48)
#define STANDING_PLACES	      4u
#define STANDING_PENDING_MAX  64u /* of one dump and group; the lowest */
#define STANDING_SLOTS_MAX    (8u << 20)
#define STANDING_VARIANTS_MAX 64u /* of one operation; what comes after counts as the last */

struct pending_op {
	int64_t pos;
	uint32_t signature; /* row of standings.signatures */
	uint32_t frames;    /* of standings.names; NO_ID */
	int64_t order;	    /* in the rank's own counting */
	int64_t created_ns;
	int64_t timeout_ms;
	uint8_t state;
	bool p2p;
};
struct variant_run {
	int64_t from, last; /* positions of one place, number by number */
	uint32_t variant;
};
struct dump_group {
	uint32_t group;	     /* row of standings.groups */
	int64_t first, last; /* window of entries: positions; -1: none */
	int64_t enqueued, started,
	    completed; /* sequence numbers, from the status and the entries */
	uint32_t last_signature;
	struct variant_runs { /* by place, the last one of all further places */
		struct variant_run *v;
		size_t n, cap;
	} runs[STANDING_PLACES];
	VEC(struct pending_op) pending; /* lowest position first; p2p ones after them */
	uint64_t n_pending;
	bool left_here; /* its last step parts here from those before */
};
/* What is left of one dump. */
struct dump_view {
	int64_t rank;
	uint32_t host, path; /* of standings.names */
	int64_t time_ns, world_size;
	uint64_t entries;
	bool cut;	      /* it ends in the middle: what it lacks proves nothing */
	bool traced;	      /* by our tracer, whose numbers are not a Flight Recorder's */
	uint64_t fingerprint; /* of what it says: twins are equal */
	VEC(struct dump_group) groups;
	uint32_t first_wait;   /* row of groups: where its first unfinished operation is; NO_ID */
	bool left_step;	       /* its last step has other operations than those before */
	enum habit habit;      /* of that operation: did it follow what it used to follow? */
	enum habit habit_size; /* the same with sizes; KEPT only if habit is */
	uint32_t usual;	       /* signature that used to come there instead; NO_ID */
};

struct standing_slot {
	int64_t pos;
	uint32_t group;
	uint32_t next; /* slot that followed it in some rank; NO_ID */
	uint32_t n_variants;
	uint32_t variants[3]; /* rows of signatures; more are in `more` */
	VEC(uint32_t) more;
};
struct standing_group {
	uint32_t name, desc, ranks; /* of standings.names */
	int64_t size;
	VEC(uint32_t) differing; /* slots with more than one variant */
};
struct standings {
	struct intern names;
	VEC(struct signature) signatures;
	VEC(struct standing_group) groups;
	struct standing_slot *slots;
	uint32_t n_slots, cap_slots;
	uint32_t *index, index_mask;
	struct intern signature_keys, group_keys;
	uint64_t dropped; /* entries beyond STANDING_SLOTS_MAX */
};

struct standings *standings_new(void);
struct standings *standings_free(struct standings *s);
/* Takes a dump's entries over and frees them; one caller at a time. */
struct dump_view *standings_take(struct standings *s, struct testimony *t, bool cut);
struct dump_view *dump_view_free(struct dump_view *v);

uint32_t slot_variant(const struct standing_slot *slot, uint32_t i); /* row of signatures */
/* The variant with which the dump called pos, by its runs; NO_ID outside its window. */
uint32_t dump_variant(const struct dump_group *g, int64_t pos);
const struct standing_slot *standings_slot(const struct standings *s, uint32_t group, int64_t pos);
