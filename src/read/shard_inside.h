/* SPDX-License-Identifier: Apache-2.0 */
/* shard_inside.h - what the counters of shards share; each is a row of the table in shard.c. */
#pragma once
#include "base/buf.h"
#include "base/wide_text.h"
#include "read/input.h"
#include "read/shards.h"

#define SHARD_LOOK_BYTES   ((size_t)64 << 10)
#define SHARD_CHUNK_BYTES  ((uint64_t)16 << 20) /* of a large file, for one worker */
#define SHARD_BUFFER_BYTES ((size_t)256 << 10)
#define COUNT_FILE_BYTES   ((uint64_t)16 << 20) /* a larger file is no counts file */
#define COUNT_TINY_BYTES   ((size_t)4096)	/* numbers alone in so little are no records */
#define COUNT_DEPTH_MOST   32u

struct shard_file {
	const char *path;
	int fd; /* read with pread only, so that workers may share it */
	uint64_t size;
	const uint8_t *head; /* the first bytes, decompressed and plain */
	size_t head_len;
	bool compressed;
	struct wide_text wide;	  /* its mark, if it is text that has one */
	const char *length_field; /* NULL */
	_Atomic uint64_t *progress;
	unsigned threads; /* 0: as many as there are CPUs */
};
/* As many bytes as there are, up to len; or a negative errno. */
ssize_t shard_pread(const struct shard_file *f, void *buf, size_t len, uint64_t at);
void shard_progress(const struct shard_file *f, uint64_t bytes);
/* The file's bytes in order, decompressed, and text as plain UTF-8. */
struct shard_stream {
	const struct shard_file *f;
	uint64_t at;
	struct input *in;
	/* of text with a mark: `in` reads what is made of `marked` */
	struct input *marked;
	struct wide_text wide;
	struct buf plain;
	size_t given; /* of it */
};
void shard_stream_open(struct shard_stream *s, const struct shard_file *f);
/* What is wrong with the file, as far as it was read; NULL. */
const char *shard_stream_problem(const struct shard_stream *s);
void shard_stream_close(struct shard_stream *s);

bool shard_looks_idx(const struct shard_file *f);
bool shard_looks_npy(const struct shard_file *f);
bool shard_looks_parquet(const struct shard_file *f);
bool shard_looks_arrow(const struct shard_file *f);
bool shard_looks_tar(const struct shard_file *f);
bool shard_looks_info(const struct shard_file *f);
bool shard_looks_counts(const struct shard_file *f);
bool shard_looks_lines(const struct shard_file *f);
int shard_count_idx(struct shard_file *f, struct shard *ret, struct error *reterr);
int shard_count_npy(struct shard_file *f, struct shard *ret, struct error *reterr);
int shard_count_parquet(struct shard_file *f, struct shard *ret, struct error *reterr);
int shard_count_arrow(struct shard_file *f, struct shard *ret, struct error *reterr);
int shard_count_tar(struct shard_file *f, struct shard *ret, struct error *reterr);
int shard_count_info(struct shard_file *f, struct shard *ret, struct error *reterr);
int shard_count_counts(struct shard_file *f, struct shard *ret, struct error *reterr);
int shard_count_lines(struct shard_file *f, struct shard *ret, struct error *reterr);

/* Opens, looks and says the kind; -ENOTSUP with detail. shard_close in any case. */
int shard_open(const char *path, struct shard_file *ret, enum shard_kind *ret_kind,
	       struct error *reterr);
int shard_count_open(struct shard_file *f, enum shard_kind kind, struct shard *ret,
		     struct error *reterr);
void shard_close(struct shard_file *f);

/* --- text in lines (shard_lines.c) --- */

struct line_tally {
	uint64_t lines, blank; /* blank ones are among the lines */
	bool filled;	       /* the line that is not at its end has more than white space */
	bool open;	       /* it has bytes at all */
};
void line_tally_add(struct line_tally *t, const uint8_t *p, size_t len);

/* --- small JSON, strictly (shard_json.c) --- */

struct strict_json {
	const char *p, *end;
	unsigned line, depth;
	const char *wrong; /* what is no JSON, at `line`; NULL */
};
struct strict_json strict_json_of(const char *text, size_t len);
/* The next thing's first character; 0 at the end or when something is wrong. */
char strict_json_peek(struct strict_json *j);
/* Walks an object or array: call until false; then look at `wrong`. key NULL in an array. */
bool strict_json_next(struct strict_json *j, char open, bool *begun, const char **ret_key,
		      size_t *ret_len);
bool strict_json_string(struct strict_json *j, const char **ret, size_t *ret_len);
/* An integer; "12" in quotes and 12.0 as well. False with `wrong` NULL: the value was another one
   and is passed over; ret_negative: because it is below 0. */
bool strict_json_integer(struct strict_json *j, int64_t *ret, const char **ret_not);
bool strict_json_skip(struct strict_json *j);
/* Text of an integer, white space and quotes around it: NULL, or why it is none. */
const char *count_of_text(const char *s, size_t len, int64_t *ret);

/* --- counts files (shard_counts.c) --- */

enum count_field {
	COUNT_BLOCKS,
	COUNT_BATCHES,
	COUNT_SAMPLES,
	COUNT_RECORDS,
	COUNT_TOKENS,
	COUNT_FIELDS,
	COUNT_RANK = COUNT_FIELDS,
	COUNT_WORLD,
	COUNT_WRAPPER, /* counts are inside */
	COUNT_NOTHING
};
struct count_cell {
	int64_t rank; /* or the row, where the file has no ranks */
	int64_t value;
	uint32_t line, file;
	enum count_field field;
};
struct count_cells {
	VEC(struct count_cell) v;
	int64_t world; /* that the files state; -1 */
	uint32_t file; /* that is being read */
	bool lone;     /* one count, of no rank: row 0 of the file */
	bool assumed;  /* ranks are the order of the numbers */
	bool worded;   /* it speaks of ranks or blocks, so it is no list of something else */
};
enum count_field count_field_of(const char *name, size_t len);
/* Adds the cells of one file; text is NUL-ended behind len. */
int counts_parse(const char *path, const char *text, size_t len, struct count_cells *c,
		 struct error *reterr);
/* So small, and nothing but numbers, but in no shape that is known. */
bool counts_unknown_shape(const char *text, size_t len);
/* The whole text, bounded; malloc'd. */
int counts_text(struct shard_file *f, char **ret, size_t *ret_len, struct error *reterr);

/* --- whose a file is (shard_name.c) --- */

/* The rank that the name or a folder's name in path says in words (rank3, rank_3, dp_rank=3); -1.
   Only what lies behind `from` bytes of the path is looked at. */
int64_t shard_rank_of(const char *path, size_t from);
/* Names in the order of people: shard-2 before shard-10. */
int shard_name_order(const char *a, const char *b);
/* The last number in one name, in front of its first dot if there is one; -1. */
int64_t shard_number_of(const char *name, size_t len);
/* -00003-of-00016: 3 of 16. */
bool shard_of_name(const char *path, int64_t *ret_index, int64_t *ret_of);

/* --- the files of a data set (shard_walk.c) --- */

struct shard_entry {
	char *path;	  /* owned */
	size_t name_from; /* of path: where what may name a rank begins */
	size_t inside;	  /* of path: behind the given folder; 0: the file itself was given */
	enum shard_kind kind;
	int64_t rank; /* by its name; -1 */
	struct shard s;
	bool left_out;
	bool lone; /* its rank is its place among such */
	int status;
	struct error error;
};
struct shard_entries {
	VEC(struct shard_entry) v; /* in the order of the given paths, then of names */
	uint64_t bytes;
	size_t strangers; /* files in folders that are no data */
	size_t others;	  /* of other nodes' ranks, not looked at */
};
/* All files below paths, their kinds looked up; what is not data is left out already. */
int shard_walk(const char *const *paths, size_t n, const struct block_options *o,
	       struct shard_entries *ret, struct error *reterr);
void shard_entries_done(struct shard_entries *e);
