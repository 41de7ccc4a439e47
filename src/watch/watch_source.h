/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_source.h - where a watcher looks, and how often. No source holds the others up.
 *
 * Files and folders are looked at by helpers (watch_lane.h); they, commands and endpoints are asked
 * at a look and taken when they answer or their deadline is over. Each file, command, endpoint and
 * folder is a row of the watch's sources, which says when it was heard and why it is silent.
 */
#pragma once
#include <jansson.h>
#include <poll.h>

#include "watch/watch_tap.h"
#include "watch/watch_lane.h"
#include "watch/watch_core.h"
#include "watch/watch_follow.h"
#include "alert/web.h"

enum source_kind {
	SOURCE_LOG,	    /* a file, a pattern, or a folder of logs */
	SOURCE_GPU_LOG,	    /* what nvidia-smi or the like writes to a file */
	SOURCE_LOG_COMMAND, /* its output is a log; begun again when it ends */
	SOURCE_GPU_COMMAND, /* prints readings and ends, or goes on printing them */
	SOURCE_JOB_COMMAND, /* prints the scheduler's word */
	SOURCE_ENDPOINT,    /* Prometheus text */
	SOURCE_CHECKPOINTS,
	SOURCE_DUMPS,
	SOURCE_KINDS
};
const char *source_kind_name(enum source_kind k);

#define SOURCE_FILES_MOST   4096u /* of one pattern */
#define SOURCE_TAIL	    ((size_t)64 << 10)
#define SOURCE_HEADER_MOST  4096u /* of readings: the line that names their columns */
#define SOURCE_ENTRIES_MOST 4096u /* of a folder that is looked at: the rest is counted */

struct source_file {
	struct follow f;
	uint32_t row;
	int64_t before_ms;
};
struct source_folder {		  /* what lay in it */
	bool known, busy, stands; /* it lacks its end, and stands still */
	int64_t newest_ns, settled_ns;
	uint64_t entries, bytes;
	char newest[128];
};
struct source {
	enum source_kind kind;
	const char *what;
	uint32_t row;
	int64_t next_ms, before_ms, heard_ms;
	unsigned fails;
	bool streams; /* a command that goes on */
	struct tap tap;
	struct web_call *call;
	struct sources *all;
	char *header;	 /* of a stream: its columns */
	struct buf tail; /* of a command's log: its end */
	VEC(struct source_file) files;
	struct source_folder folder;
	/* of files and folders */
	struct lane_key key;
	uint32_t moved;	   /* the generation in which it came to its lane */
	bool pending;	   /* asked */
	bool looked, told; /* ever; readings, by the file that is being taken */
	size_t file;	   /* that one */
};
struct sources {
	struct watch *w;
	VEC(struct source) v;
	struct web *web;
	int64_t interval_ms, deadline_ms;
	int64_t now_ms;		/* of the look under way */
	int64_t wall_offset_ms; /* the calendar's ms less the clock's */
	uint64_t looks, cut, pieces;
	VEC(struct lane) lanes;
	int64_t took_ms;     /* from them */
	uint32_t generation; /* of sources in lanes */
	json_t *cursors;     /* of an earlier run, until all files were looked at; NULL */
};

void sources_init(struct sources *s, struct watch *w, int64_t interval_ms, int64_t deadline_ms);
void sources_done(struct sources *s);
void sources_add(struct sources *s, enum source_kind kind, const char *what);
/* Looks where it is time to. */
void sources_look(struct sources *s, int64_t now_ms);
/* Takes what commands gave. */
void sources_take(struct sources *s, int64_t now_ms);
/* The next time there is something to do. */
int64_t sources_next(const struct sources *s);
/* Files to be waited for: at most n. */
size_t sources_files(const struct sources *s, struct pollfd *ret, size_t n);
bool sources_wait(const struct sources *s); /* some were asked and have not answered */
/* For files and folders: watch_lane.c, watch_files.c. */
bool source_has_path(const struct source *v);
/* How long to let be what failed so many times in a row: twice as long each time, from a second. */
int64_t sources_back_off(unsigned fails, int64_t most_ms);
void source_heard(struct sources *s, uint32_t row);
void source_silent(struct sources *s, uint32_t row, const char *why, int number);
/* The row of a path, which is new if need be; NULL: there are too many. */
struct source_file *source_file_of(struct sources *s, struct source *v, const char *path);
/* The first line, or two that begin with #, if they name columns. */
char *source_header_of(const char *text, size_t len);
/* A piece of text as if source number i had given it: for replays. */
void sources_feed(struct sources *s, size_t i, const char *text, size_t len, int64_t now_ms);

json_t *sources_to_json(const struct sources *s); /* the cursors */
void sources_from_json(struct sources *s, const json_t *j);
