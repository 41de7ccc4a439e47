/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet_file.h - the three files of a meeting in a folder, to bytes and back.
 *
 * Node 0 leaves a call with a random number; a part says which call it answers, and a verdict whose
 * parts it was made of. So what an earlier attempt left behind is never taken for one of now,
 * whatever the clocks say. Each file ends in its digest: under the secret where there is one.
 */
#pragma once
#include "meet/meet_inside.h"

#define MEET_FILE_VERSION 1u
#define MEET_FILE_SMALL	  4096u /* all but the part itself, and the list of a verdict */

enum meet_file_kind { FILE_CALL = 'c', FILE_PART = 'p', FILE_VERDICT = 'v' };

struct meet_file { /* strings and bytes are in the text that was parsed */
	enum meet_file_kind kind;
	uint32_t node, nodes;
	uint8_t instance[INSTANCE_BYTES]; /* of who wrote it */
	uint8_t call[INSTANCE_BYTES];	  /* that it answers; of a call: its own */
	int64_t made_ns, left_ms;
	int64_t clock_ns, clock_doubt_ns;
	const char *job, *name;
	size_t job_len, name_len;
	const uint8_t *list; /* of a verdict: whom it is for, INSTANCE_BYTES each */
	size_t n_list;
	const uint8_t *bytes; /* the part, or the verdict */
	size_t len;
};
/* kind, instance, call and what belongs to it are given; the rest is the meeting's. */
void meet_file_put(struct buf *out, const struct meeting *m, const struct meet_file *f);
/* 0; -EPROTO: none of ours, or torn; -EACCES: of another secret; -EPROTONOSUPPORT: of another
   version. */
int meet_file_get(const struct meeting *m, const uint8_t *p, size_t len, struct meet_file *ret);
bool meet_file_lists(const struct meet_file *verdict, const uint8_t instance[INSTANCE_BYTES]);
