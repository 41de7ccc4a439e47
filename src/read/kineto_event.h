/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kineto_event.h - inside the Kineto reader: the text of one event, and of the file's own members,
 * as fields. kineto.c walks the document and decides what is delivered.
 */
#pragma once
#include "model/event.h"
#include "read/json_fast.h"

/* What a category means to us, whatever torch called it in its time. */
enum category {
	CATEGORY_NONE, /* unknown or of no use: the rest of the event is not parsed */
	CATEGORY_KERNEL,
	CATEGORY_COPY,
	CATEGORY_SET,
	CATEGORY_MTIA,	  /* device work of any kind */
	CATEGORY_RUNTIME, /* runtime and driver calls */
	CATEGORY_ANNOTATION,
	CATEGORY_GPU_ANNOTATION,
	CATEGORY_OP,
	CATEGORY_OPERATOR, /* of 2021: operators and annotations alike */
	CATEGORY_PYTHON,
	CATEGORIES,
};

enum field_bit {
	FIELD_PH = 1 << 0,
	FIELD_CATEGORY = 1 << 1,
	FIELD_NAME = 1 << 2,
	FIELD_PID = 1 << 3,
	FIELD_TID = 1 << 4,
	FIELD_TS = 1 << 5,
	FIELD_DUR = 1 << 6,
	FIELD_ARGS = 1 << 7,
	/* from args */
	FIELD_STREAM = 1 << 8,
	FIELD_DEVICE = 1 << 9,
	FIELD_CORRELATION = 1 << 10,
	FIELD_COLLECTIVE = 1 << 11, /* "Collective name" */
	FIELD_BAD_TS = 1 << 12,	    /* no number, or beyond 64 bits */
	FIELD_BAD_DUR = 1 << 13,
};

struct event_fields {
	unsigned have; /* of enum field_bit; the rest is not set */
	char ph;
	bool name_plain; /* as json_string_end has it */
	enum category category;
	const char *name;
	size_t name_len;
	int64_t ts_ns, dur_ns;
	uint64_t pid, tid;
	const char *args;
	unsigned bad_numbers; /* inf and the like, wherever met */
	int64_t stream, device;
	uint64_t correlation, bytes;
	uint64_t blocks;	/* of "grid"; 0: unknown */
	struct comm_args comm;	/* valid after event_args */
	const char *collective; /* "Collective name" */
	size_t collective_len;
	int32_t src, dst;	  /* of send and recv; -1: unknown */
	int64_t dims_elements[2]; /* of the first two entries of "Input Dims"; -1: none */
};

/* What stands between the values of an event, white space and key, as it was met last. */
#define GUESS_BYTES   48u /* the longest, and one more; no more than JSON_PAD */
#define GUESS_MEMBERS 10u
#define GUESS_ARGS    32u
struct key_guess {
	char text[GUESS_BYTES];
	uint32_t last;	 /* of its last 16 bytes or less, those that count */
	uint8_t len;	 /* 0: nothing was met */
	uint8_t meaning; /* of the key */
};
struct key_guesses {
	struct key_guess member[GUESS_MEMBERS];	      /* by position in the event */
	struct key_guess arg[CATEGORIES][GUESS_ARGS]; /* by position in its arguments */
};

/* One event, p behind its opening brace; returns behind the closing one, NULL if the careful way
   must look. Events that are not of interest are skipped as soon as that is clear. */
const char *event_parse(const char *p, const char *end, struct key_guesses *guesses,
			struct event_fields *f);
/* Its arguments, if they may matter: strings of communication are interned. False: careful way. */
bool event_args(const char *end, struct intern *names, struct key_guesses *guesses,
		struct event_fields *f);

/* Members of the file itself; text is sound, as json_copy_value gives it. */
struct meta_builder {
	struct trace_meta meta;
	struct arena arena;
	struct intern *names;
};
void meta_init(struct meta_builder *b, struct intern *names);
bool meta_wants(const char *key); /* is the member worth a copy? */
void meta_member(struct meta_builder *b, const char *key, const char *text, size_t len);
void meta_done(struct meta_builder *b);
