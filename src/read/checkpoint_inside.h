/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_inside.h - what the parts of the checkpoint reader share. */
#pragma once
#include <stdio.h>

#include "base/buf.h"
#include "read/checkpoint.h"

#define CHECKPOINT_PICKLE_MOST	  ((uint64_t)256 << 20) /* bytes of a pickle that is looked into */
#define CHECKPOINT_DIRECTORY_MOST ((uint64_t)1 << 30)	/* of a zip's table */
#define CHECKPOINT_MEMBERS_MOST	  (1u << 22)
#define CHECKPOINT_HEADER_MOST	  100000000u /* safetensors' own limit */
#define CHECKPOINT_JSON_MOST	  ((uint64_t)64 << 20)
#define CHECKPOINT_DEPTH_MOST	  3u /* folders in a checkpoint */
#define CHECKPOINT_FOUND_MOST	  65536u
#define PAGE_ZEROS		  4096u

struct checkpoint_facts {
	bool optimizer;		    /* state of one was met */
	int64_t step;		    /* that the content says; -1 */
	unsigned step_rank;	    /* how much the word for it can be trusted */
	int64_t dp_world, mp_world; /* DeepSpeed's; -1 */
};
struct checkpoint_look {
	bool whole;
	struct error why; /* of all but CHECKPOINT_GOOD; of that, what could not be checked */
	struct checkpoint_facts facts;
};
#define torn(l, ...) (error_set(&(l)->why, 0, __VA_ARGS__), (enum checkpoint_state)CHECKPOINT_TORN)
#define foreign(l, ...)                                                                            \
	(error_set(&(l)->why, 0, __VA_ARGS__), (enum checkpoint_state)CHECKPOINT_FOREIGN)

/* A stretch of an open file. */
struct stretch {
	int fd;
	uint64_t at, len;
};
bool stretch_read(const struct stretch *s, uint64_t from, void *buf, size_t len);
/* All of the stretch, or of its first len bytes; malloc'd. NULL: it cannot be read. */
uint8_t *stretch_bytes(const struct stretch *s, uint64_t from, size_t len);
/* Has the file a hole there, bytes that were never written? Where. */
bool stretch_hole(const struct stretch *s, uint64_t *ret_at);
/* Zeros at its end: their number. */
uint64_t stretch_zero_tail(const struct stretch *s);

typedef enum checkpoint_state (*checkpoint_file_fn)(struct checkpoint_look *l,
						    const struct stretch *s);
/* Opens path (a regular file that does not change meanwhile) for check. */
enum checkpoint_state checkpoint_file(struct checkpoint_look *l, const char *path,
				      checkpoint_file_fn check);
enum checkpoint_state checkpoint_torch(struct checkpoint_look *l, const struct stretch *s);
enum checkpoint_state checkpoint_safetensors(struct checkpoint_look *l, const struct stretch *s);
enum checkpoint_state checkpoint_json(struct checkpoint_look *l, const struct stretch *s);
/* Folders; name: which of its metadata files (".metadata"). */
enum checkpoint_state checkpoint_dcp(struct checkpoint_look *l, const char *folder,
				     const char *name);
enum checkpoint_state checkpoint_index(struct checkpoint_look *l, const char *folder,
				       const char *name);
enum checkpoint_state checkpoint_folder(struct checkpoint_look *l, const char *folder,
					enum checkpoint_kind kind);

/* --- a zip as torch.save writes it --- */

struct zip_member {
	const char *name; /* not ended by a NUL */
	uint32_t name_len, crc;
	uint16_t method, flags;
	uint64_t at, packed, size;
	uint64_t data; /* where its bytes begin */
};
struct zip {
	uint8_t *directory;
	VEC(struct zip_member) members;
	uint64_t directory_at;
};
/* All but the data's checksums, those too if whole. ret is to be freed whatever comes. */
enum checkpoint_state zip_check(struct checkpoint_look *l, const struct stretch *s,
				struct zip *ret);
void zip_done(struct zip *z);
/* The bytes of one, checked; NULL: wrong checksum or unreadable. */
uint8_t *zip_bytes(const struct stretch *s, const struct zip_member *m);

/* --- a pickle as what it says; nothing in it is ever run --- */

struct pickle_text {
	const char *p;
	size_t len;
};
struct pickle_watch {
	void *user;
	/* A tensor's storage: key "0", class "FloatStorage", number of elements. */
	void (*storage)(void *user, struct pickle_text key, struct pickle_text class, int64_t n);
	void (*text)(void *user, struct pickle_text text); /* every string */
	/* A member of a dictionary; number: NULL unless it is one. */
	void (*pair)(void *user, struct pickle_text key, const int64_t *number, bool outermost);
	/* An item of DCP: where its bytes lie. */
	void (*item)(void *user, struct pickle_text file, int64_t at, int64_t len, bool altered);
};
/* One pickle at p; -ENODATA: it ends in the middle, -EBADMSG: it makes no sense, -ENOTSUP: an
   opcode that is not known here. */
int pickle_look(const uint8_t *p, size_t len, const struct pickle_watch *watch, size_t *ret_used,
		struct error *reterr);
bool pickle_is(struct pickle_text t, const char *word);
bool pickle_has(struct pickle_text t, const char *part); /* part is in lower case */
/* Takes what facts can be told from a member. */
void checkpoint_fact(struct checkpoint_facts *f, struct pickle_text key, const int64_t *number,
		     bool outermost);

/* --- names --- */

bool name_ends(const char *name, const char *end);
bool name_temporary(const char *name);
bool name_torch(const char *name);
int64_t name_step(const char *name); /* "step_100", "checkpoint-100": 100; -1 */
/* Has NeMo its mark beside it? */
bool checkpoint_unfinished(const char *path);
/* The step that a marker beside the folder names; -1: none there, -2: there, but it names none.
 *ret_ns: when it was written. */
int64_t checkpoint_marker(const char *folder, const char *marker, int64_t *ret_ns);
