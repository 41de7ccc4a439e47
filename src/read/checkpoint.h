/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint.h - the checkpoints of a folder, newest first, and whether one is whole.
 *
 * What is torn is never taken for good: every file's own structure is checked to its end (zip
 * directory and CRCs of torch.save, header and sizes of safetensors, DCP's .metadata against its
 * shards, the markers of DeepSpeed and Megatron). Nothing in a file is ever run: a pickle is data.
 */
#pragma once
#include "base/base.h"

enum checkpoint_kind {
	CHECKPOINT_TORCH,	/* one file by torch.save */
	CHECKPOINT_SAFETENSORS, /* one file, or shards with an index */
	CHECKPOINT_DCP,		/* torch.distributed.checkpoint: .metadata and *.distcp */
	CHECKPOINT_DEEPSPEED,	/* latest, global_stepN/ */
	CHECKPOINT_MEGATRON,	/* latest_checkpointed_iteration.txt, iter_N/ */
	CHECKPOINT_TRAINER,	/* Hugging Face checkpoint-N/ */
	CHECKPOINT_LIGHTNING,	/* *.ckpt */
	CHECKPOINT_UNKNOWN,
	CHECKPOINT_KINDS
};
const char *checkpoint_kind_name(enum checkpoint_kind k);

enum checkpoint_state {
	CHECKPOINT_UNCHECKED,
	CHECKPOINT_GOOD,
	CHECKPOINT_TORN,   /* not whole: why says which file and how */
	CHECKPOINT_FOREIGN /* nothing here can check it: never taken for good */
};
struct checkpoint {
	char *path; /* file or folder; owned */
	enum checkpoint_kind kind;
	enum checkpoint_state state;
	int64_t step;	   /* by name, marker or content; -1 */
	int64_t bytes;	   /* all files */
	int64_t mtime_ns;  /* of its newest file */
	bool weights_only; /* no optimizer state in it */
	char *why;	   /* owned; NULL while there is nothing to say */
};
struct checkpoints {
	VEC(struct checkpoint) v; /* newest first: by step where all have one, else by mtime */
	uint64_t skipped;	  /* files beyond the limit of the walk */
};
#define CHECKPOINT_FILES_MOST 2000000u

/* Lists those in folder (two levels deep), unchecked. -ENOENT, -ENOTDIR, -EACCES with detail. */
int checkpoints_find(const char *folder, struct checkpoints *ret, struct error *reterr);
void checkpoints_done(struct checkpoints *c);
/* Sets state and why; whole: CRCs of all data too, not the structure alone. 0 or a negative errno.
 */
int checkpoint_check(struct checkpoint *c, bool whole, struct error *reterr);
/*
 * The same of the i-th of a list. A folder of which nothing but its files tells whether all are
 * there must have those that the one before it has.
 */
int checkpoints_check(struct checkpoints *c, size_t i, bool whole, struct error *reterr);
/*
 * What tells that the save of this entry of folder has not ended as yet, by names, markers and the
 * end of a file alone, for one who looks often: "no trainer_state.json". NULL: it ended, or nothing
 * tells; malloc'd.
 */
char *checkpoint_lacks_end(const char *folder, const char *name);
/* The newest good one, checked; those passed over are checked and say why. NULL: none. */
struct checkpoint *checkpoints_newest_good(struct checkpoints *c, bool whole);
