/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shards.h - how much data each rank has, from what people have: a counts file, or the shards.
 *
 * A counts file says it by rank (JSON; CSV with columns rank,blocks; one number a line; one file a
 * rank). Shards are counted: lines of JSONL and text, Megatron .idx, .npy, Parquet and Arrow by
 * their footers, WebDataset tars by their samples. Memory is constant whatever a file's size; every
 * count, length and depth from a file has a limit.
 */
#pragma once
#include "base/base.h"

#define COUNT_RANKS_MOST  ((int64_t)1 << 20)
#define COUNT_BLOCKS_MOST ((int64_t)999999999)	   /* a counts file that says more is wrong */
#define COUNT_ITEMS_MOST  ((int64_t)1000000000000) /* records, samples */
#define COUNT_TOKENS_MOST ((int64_t)1000000000000000)

enum shard_kind {
	SHARD_COUNTS, /* numbers by rank */
	SHARD_LINES,  /* JSONL or text: records by line */
	SHARD_IDX,    /* Megatron-LM indexed dataset: sequences and tokens */
	SHARD_NPY,
	SHARD_PARQUET,
	SHARD_ARROW, /* IPC file or stream, Hugging Face's too */
	SHARD_INFO,  /* Hugging Face dataset_info.json, state.json; indexes of other shards */
	SHARD_TAR,   /* WebDataset */
	SHARD_KINDS
};
const char *shard_kind_name(enum shard_kind k);

/* What one file holds; -1 where it does not say. */
struct shard {
	enum shard_kind kind;
	int64_t records, tokens, bytes;
	char why[160]; /* what is odd: "the last line has no end", "truncated after 1,234 rows" */
};
/* -ENOTSUP with detail: of no kind that can be counted; -EBADMSG: damaged. */
int shard_count(const char *path, struct shard *ret, struct error *reterr);
/* The same; tokens are counted from this field or column of a record: a number, or a list whose
   length counts. NULL: none. */
int shard_count_by(const char *path, const char *length_field, struct shard *ret,
		   struct error *reterr);

struct rank_blocks {
	int64_t rank;
	int64_t blocks;		 /* of the sequence length; records, where nothing is packed */
	int64_t records, tokens; /* -1: not known */
	uint32_t files;
};
struct block_counts {
	VEC(struct rank_blocks) ranks; /* ascending, each once */
	bool packed;		       /* blocks were computed from tokens */
	int64_t sequence_length;       /* -1 */
	int64_t last_said;	       /* highest rank that files speak of, others' too; -1 */
	char unit[16];		       /* "blocks", "records", "samples", "batches" */
	VEC(char *) remarks;	       /* owned; one line each */
};

/* How shards that name no rank come to ranks: rank 0 the first n/world, or each world-th. */
enum deal { DEAL_CONTIGUOUS, DEAL_STRIDED };

/* Zeros are the defaults. */
struct block_options {
	int64_t sequence_length; /* tokens a block; <= 0: a record is a block */
	int64_t world_size;	 /* ranks to which shards without a rank are dealt; <= 0: unknown */
	enum deal deal;
	const char *length_field; /* of a record; NULL */
	/*
	 * For one node of many: counts of some ranks only, and holes are no fault; the judge puts
	 * the nodes' parts together and asks block_counts_whole. With ranks_here > 0 only files of
	 * ranks first_rank .. first_rank + ranks_here - 1 are counted; those of ranks beyond the
	 * world are looked at, and said.
	 */
	bool partial;
	int64_t first_rank, ranks_here;
	_Atomic uint64_t *progress; /* bytes read so far are added; NULL */
};
/*
 * Counts files and shards, files and folders mixed. -EINVAL with detail (path, line, what) for
 * holes, negative, doubled or absurd numbers; -ENODATA: nothing that can be counted. ret is filled
 * on success only.
 */
int block_counts_read(const char *const *paths, size_t n, const struct block_options *options,
		      struct block_counts *ret, struct error *reterr);
/* Bytes that lie in these paths, for a progress bar. */
uint64_t block_paths_bytes(const char *const *paths, size_t n);
/*
 * Adds a rank that another node counted (where: its name, for the detail). The same numbers twice
 * are one (both nodes see the same storage); others are -EINVAL. Rows may come in any order.
 */
int block_counts_add(struct block_counts *c, const struct rank_blocks *row, const char *where,
		     struct error *reterr);
/* Ranks 0 .. world_size - 1 (<= 0: up to the highest one), each there? -EINVAL names the missing.
 */
int block_counts_whole(const struct block_counts *c, int64_t world_size, struct error *reterr);
void block_counts_done(struct block_counts *c);
