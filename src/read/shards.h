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

enum shard_kind {
	SHARD_COUNTS, /* numbers by rank */
	SHARD_LINES,  /* JSONL or text: records by line */
	SHARD_IDX,    /* Megatron-LM indexed dataset: sequences and tokens */
	SHARD_NPY,
	SHARD_PARQUET,
	SHARD_ARROW, /* IPC file or stream, Hugging Face's too */
	SHARD_INFO,  /* Hugging Face dataset_info.json, state.json */
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
int shard_count(const char *path, struct shard *ret, struct error *reterr);

struct rank_blocks {
	int64_t rank;
	int64_t blocks; /* of the sequence length; records, where nothing is packed */
	int64_t records, tokens;
	uint32_t files;
};
struct block_counts {
	VEC(struct rank_blocks) ranks; /* ascending, each once */
	bool packed;		       /* blocks were computed from tokens */
	int64_t sequence_length;       /* -1 */
	char unit[16];		       /* "blocks", "records", "samples" */
	VEC(char *) remarks;	       /* owned; one line each */
};
struct block_options {
	int64_t sequence_length; /* tokens a block; -1: a record is a block */
	int64_t
	    world_size; /* shards are dealt to ranks in order, as the names or the stride say; -1 */
};
/*
 * Counts files and shards, files and folders mixed. -EINVAL with detail (path, line, what) for
 * holes, negative, doubled or absurd numbers; -ENODATA: nothing that can be counted.
 */
int block_counts_read(const char *const *paths, size_t n, const struct block_options *options,
		      struct block_counts *ret, struct error *reterr);
void block_counts_done(struct block_counts *c);
