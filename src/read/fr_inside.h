/* SPDX-License-Identifier: Apache-2.0 */
/* fr_inside.h - what the parts of the Flight Recorder reader share. */
#pragma once
#include "read/pile.h"

#define FR_ENTRIES_MAX (1u << 20)
#define FR_GROUPS_MAX  (1u << 16) /* of one rank; a pg_id beyond it is not mapped */
#define FR_FRAMES_MAX  64u	  /* of one stack; those outermost are left out */
#define FR_SIZES_MAX   4096u	  /* characters of an operation's sizes as text */
#define FR_WALK_MAX    (1u << 26) /* members of lists looked at: a memo repeats a list for nothing */

/* Keys and words that are understood; their number is their id in the testimony's names. */
#define FR_WORDS(X)                                                                                \
	X(ENTRIES, "entries")                                                                      \
	X(VERSION, "version")                                                                      \
	X(PG_CONFIG, "pg_config")                                                                  \
	X(PG_STATUS, "pg_status")                                                                  \
	X(RANK, "rank")                                                                            \
	X(FRAMES, "frames")                                                                        \
	X(RECORD_ID, "record_id")                                                                  \
	X(PG_ID, "pg_id")                                                                          \
	X(PROCESS_GROUP, "process_group")                                                          \
	X(PG_NAME, "pg_name")                                                                      \
	X(PG_DESC, "pg_desc")                                                                      \
	X(SEQ_ID, "seq_id")                                                                        \
	X(COLLECTIVE_SEQ_ID, "collective_seq_id")                                                  \
	X(P2P_SEQ_ID, "p2p_seq_id")                                                                \
	X(OP_ID, "op_id")                                                                          \
	X(PROFILING_NAME, "profiling_name")                                                        \
	X(TIME_CREATED_NS, "time_created_ns")                                                      \
	X(TIME_CREATED_US, "time_created_us")                                                      \
	X(INPUT_SIZES, "input_sizes")                                                              \
	X(INPUT_DTYPES, "input_dtypes")                                                            \
	X(OUTPUT_SIZES, "output_sizes")                                                            \
	X(OUTPUT_DTYPES, "output_dtypes")                                                          \
	X(STATE, "state")                                                                          \
	X(TIME_STARTED_NS, "time_discovered_started_ns")                                           \
	X(TIME_COMPLETED_NS, "time_discovered_completed_ns")                                       \
	X(RETIRED, "retired")                                                                      \
	X(TIMEOUT_MS, "timeout_ms")                                                                \
	X(IS_P2P, "is_p2p")                                                                        \
	X(NAME, "name")                                                                            \
	X(DESC, "desc")                                                                            \
	X(RANKS, "ranks")                                                                          \
	X(FILENAME, "filename")                                                                    \
	X(LINE, "line")                                                                            \
	X(LAST_ENQUEUED, "last_enqueued_collective")                                               \
	X(LAST_STARTED, "last_started_collective")                                                 \
	X(LAST_COMPLETED, "last_completed_collective")                                             \
	X(COMM_LIB_VERSION, "comm_lib_version")                                                    \
	X(NCCL_VERSION, "nccl_version")                                                            \
	X(SCHEDULED, "scheduled")                                                                  \
	X(STARTED, "started")                                                                      \
	X(COMPLETED, "completed")                                                                  \
	X(DEFAULT_PG, "default_pg")

#define FR_WORD_ID(id, text) FR_KEY_##id,
enum fr_word { FR_WORDS(FR_WORD_ID) FR_N_WORDS };
#undef FR_WORD_ID

_Static_assert(FR_N_WORDS <= PILE_WORDS_MAX, "a slot for each");

struct fr_frame {
	uint32_t function, file;
	int64_t line;
};
struct fr_raw_status {
	int64_t pg_id, enqueued, started, completed;
};
/* An operation's name, looked at once. */
struct fr_op {
	uint32_t name;
	enum comm_op op;
	int32_t source, target;
};
#define FR_OPS_CACHED 64u

/* What a signature is made of, names and numbers as they came: sizes and types of the input, of
   the output, the operation's name and whether it is between two ranks. */
#define FR_MAKINGS_CACHED 64u
#define FR_MAKING_WORDS	  22u
struct fr_making {
	uint32_t n, row;
	int64_t words[FR_MAKING_WORDS];
};
static inline bool fr_making_add(struct fr_making *m, int64_t v)
{
	if (m->n >= FR_MAKING_WORDS)
		return false;
	m->words[m->n++] = v;
	return true;
}

static inline bool fr_making_end(struct fr_making *m, uint32_t name, const struct pile_value *p2p)
{
	return fr_making_add(m, (int64_t)name << 1 | (p2p && p2p->kind == PILE_BOOL && p2p->n));
}

struct fr {
	struct pile_reader r;
	uint64_t walked; /* members of lists, up to FR_WALK_MAX */
	bool header;	 /* the dump's own dictionary was met */
	bool told_group; /* of a default group: its members are the world */
	VEC(struct fr_raw_status) status;
	VEC(uint32_t) group_of_pg; /* by pg_id: row + 1 */
	VEC(uint32_t) configured;  /* groups of pg_config */
	struct fr_op ops[FR_OPS_CACHED];
	struct fr_making makings[FR_MAKINGS_CACHED];
	struct fr_frame frames[FR_FRAMES_MAX]; /* of the entry taken last */
	uint32_t n_frames;
	uint8_t
	    quick_frames[5 * FR_FRAMES_MAX]; /* the same as opcodes, if fr_quick_entry took it */
	uint32_t n_quick_frames;
	const uint8_t *quick_at; /* the same, still in the window; NULL */
	size_t quick_len;
};

/* May n members more be looked at? What a dump has beyond the limit is unknown. */
static inline bool fr_may_walk(struct fr *f, size_t n)
{
	if (f->walked + n > FR_WALK_MAX)
		return false;
	f->walked += n;
	return true;
}

/* Reads from the window to the end of the pickle; what is wrong goes to e, with its offset. */
enum pile_end fr_pickle_run(struct fr *f, struct error *e);

/* An ended dictionary that is an entry of the ring; group and signature: rows, NO_ID if they are to
   be made of the slots. True: the entry is not done, its frames are wanted. */
bool fr_entry(struct fr *f, const struct pile_slots *slots, uint32_t group, uint32_t signature);
void fr_entry_frames(struct fr *f, const struct pile_value *items, size_t n);
/* The row of a signature that was made of this before; NO_ID. */
uint32_t fr_making_find(const struct fr *f, const struct fr_making *m);
/* The row of a group that the rank's pg_id meant before; NO_ID. */
uint32_t fr_group_find(const struct fr *f, int64_t pg_id, uint32_t name, uint32_t desc);
/*
 * An entry, at s, all of whose strings are in the memo: takes it and returns the place behind it.
 * NULL and nothing done if it is anything else, or not whole in the window.
 */
const uint8_t *fr_quick_entry(struct fr *f, const struct pile_value *memo, size_t n_memo,
			      const uint8_t *s, const uint8_t *end);
/* To be called before the window moves: puts the frames of the last entry aside. */
void fr_quick_keep(struct fr *f);
/* f->frames of the entry that fr_quick_entry took last. */
void fr_quick_frames(struct fr *f, const struct pile_value *memo, size_t n_memo);

/* The text of f->frames, interned; NO_ID if there are none. */
uint32_t fr_frames_text(struct fr *f);

#define FR_OPCODE_MAX                                                                              \
	16 /* bytes of an opcode of fr_scalar with its argument, or of three of them */

static inline uint32_t fr_load32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline int64_t fr_load64(const uint8_t *p)
{
	return (int64_t)(fr_load32(p) | (uint64_t)fr_load32(p + 4) << 32);
}

/*
 * The value of an opcode at s that pushes one without ado, and the place behind it; NULL if it is
 * another. FR_OPCODE_MAX bytes must be there. A switch and no table: a dump of a ring has a hundred
 * of these an entry.
 */
static inline const uint8_t *fr_scalar(const struct pile_value *memo, size_t n_memo,
				       const uint8_t *s, struct pile_value *ret)
{
	uint32_t at;

	switch (s[0]) {
	case 'h':
	case 'j':
		at = s[0] == 'h' ? s[1] : fr_load32(s + 1);
		if (at >= n_memo || memo[at].kind == PILE_UNSET)
			return NULL;
		*ret = memo[at];
		return s + (s[0] == 'h' ? 2 : 5);
	case 'K':
		*ret = pile_int(s[1]);
		return s + 2;
	case 'M':
		*ret = pile_int(s[1] | s[2] << 8);
		return s + 3;
	case 'J':
		*ret = pile_int((int32_t)fr_load32(s + 1));
		return s + 5;
	case 0x8a:
		if (s[1] != 8)
			return NULL;
		*ret = pile_int(fr_load64(s + 2));
		return s + 10;
	case 'N':
		*ret = pile_plain(PILE_NONE);
		return s + 1;
	case 0x88:
	case 0x89:
		*ret = (struct pile_value){ .kind = PILE_BOOL, .n = s[0] == 0x88 };
		return s + 1;
	default:
		return NULL;
	}
}

bool fr_host_of_path(const char *path, const char **ret, size_t *ret_len);
