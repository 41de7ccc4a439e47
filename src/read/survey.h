/* SPDX-License-Identifier: Apache-2.0 */
/*
 * survey.h - what lies in the paths that we were given, before anything is read in earnest.
 *
 * Paths are sorted, folders are walked (links to folders that lead back are not followed twice),
 * and at most 64 KB of each file are looked at: the kind is told from the content, never from the
 * name. FIFOs, devices and sockets are not opened. The result never depends on the order of a
 * directory.
 */
#pragma once
#include "base/arena.h"

#define SURVEY_LOOK_BYTES ((size_t)64 << 10)
/* zstd gives nothing before a whole block of up to 128 KB. */
#define SURVEY_LOOK_MAX ((size_t)144 << 10)

enum input_kind {
	INPUT_KINETO,	/* a PyTorch profiler trace, Chrome JSON */
	INPUT_TIMELINE, /* a whole job in one Chrome trace */
	INPUT_NSYS, /* an SQLite database: of Nsight Systems, or reading it says that it is not */
	INPUT_LKS,  /* step records */
	INPUT_ARCHIVE, /* .tar, .tar.gz, .tar.zst or .zip: members are looked at when it is read */
	INPUT_WITNESS, /* a dump, a log, stacks, power: `format` says of which format */
	INPUT_OTHER,   /* not ours; `why` says what it looks like */
};

struct survey_input {
	const char *path;
	enum input_kind kind;
	int format;	 /* INPUT_WITNESS: row of witness_formats */
	const char *why; /* INPUT_OTHER: "an empty file", "not opened: a FIFO", .. */
	bool said; /* why is worth a line (unreadable, FIFO, damaged), not just an unrelated file */
	uint64_t size_bytes; /* on disk */
};
struct survey {
	struct arena arena;
	struct survey_input *inputs; /* sorted by path */
	size_t n;
};

/* -ENOENT with detail if a path given by name does not exist; what is inside folders never fails.
 */
int survey_paths(struct survey *s, char *const *paths, size_t n_paths, struct error *reterr);
void survey_done(struct survey *s);

/*
 * The kind of what begins with these bytes, compressed or not; whole: there are no more. For
 * INPUT_OTHER the reason, and whether it is worth a line. Archives use it for their members.
 */
struct survey_found {
	enum input_kind kind;
	int format;
	const char *why;
	bool said;
};
size_t survey_look_bytes(const void *raw, size_t len); /* how many it wants, having seen some */
struct survey_found survey_look(const void *raw, size_t len, bool whole, const char *path);

/* A rank in a file's name: "rank-3", "rank3", "rank_3", "worker_12", "worker12"; -1 if none is
   there. Digits of hosts, process ids and times are no ranks. */
int64_t survey_rank_of_name(const char *path);
/* The host in a name as torch's tensorboard_trace_handler writes it
   ("host_pid.ts.pt.trace.json[.gz]"); false if none. ret points into path. */
bool survey_host_of_name(const char *path, const char **ret, size_t *ret_len);
