/* SPDX-License-Identifier: Apache-2.0 */
/* doing_rows.h - between doing.c and its table of known frames. */
#pragma once
#include "model/doing.h"

enum doing_row_kind {
	ROW_TELLS, /* this is what the thread is doing */
	ROW_READS, /* the same, by what no Python frame shows: not if it waits in one further in */
	ROW_WAITS, /* a generic wait: what it waits for stands further out */
	ROW_SKIPS, /* a wrapper: says nothing */
};

struct doing_row {
	const char *function; /* NULL: any; "x*" begins with; "*x*" holds */
	const char *file;     /* part of the path, from the start of a name in it; NULL: any */
	enum doing doing;
	enum doing_row_kind kind;
	enum comm_op op;
	const char *words; /* NULL: the usual ones */
};

/* A list of rows, tried in their order. */
struct doing_rows {
	const struct doing_row *v;
	size_t n;
};
extern const struct doing_rows doing_no_rank; /* processes that are no rank */
extern const struct doing_rows doing_python;
extern const struct doing_rows doing_native;
