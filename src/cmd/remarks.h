/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remarks.h - the lines on stderr about what was given: one a problem, but few of one kind.
 *
 * An archive of 100,000 empty members, or a folder of them, has one problem. Remarks whose texts
 * differ in nothing but numbers are of one kind; only the first few of a kind are kept.
 */
#pragma once
#include "base/base.h"

#define REMARKS_KEPT 16

struct remark {
	char *path, *text;
};
struct remark_kind {
	char *kind; /* the text, digits as '#' */
	uint64_t n;
	struct remark kept[REMARKS_KEPT];
};
struct remarks {
	VEC(struct remark_kind) kinds;
};

/* text may begin with "path: ", as errors do. The same again behind itself counts once. */
void remarks_add(struct remarks *r, const char *path, const char *text);
/* Empties more into r. */
void remarks_join(struct remarks *r, struct remarks *more);
/* Each kind: its lines; where they say the same of more than three paths, or are too many, in one
   line. */
void remarks_say(const struct remarks *r);
void remarks_done(struct remarks *r);
