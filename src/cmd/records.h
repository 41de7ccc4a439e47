/* SPDX-License-Identifier: Apache-2.0 */
/* records.h - from the bytes of a file of step records to one stream a rank, as fold gives them. */
#pragma once
#include "base/options.h"
#include "fold/fold.h"
#include "model/testimony.h"

struct records;
struct records *records_new(const struct option_steps *steps); /* steps to keep */
int records_feed(struct records *r, const void *bytes, size_t len);
/*
 * The end of the file. The streams are malloc'd for the caller; stats say what was cut. What went
 * wrong is in *reterr, with a negative errno if nothing can be used; a torn tail is told there too,
 * with 0.
 */
int records_end(struct records *r, struct rank_stream **ret, size_t *ret_n,
		struct read_stats *ret_stats, struct error *reterr);
/* After records_end: the next of what the file says of where ranks stood, for the caller; NULL: no
   more. */
struct testimony *records_testimony(struct records *r);
/* Likewise: that processes were gone all at once, in words; NULL: they were not. For the caller. */
char *records_cut(const struct records *r);
struct records *records_free(struct records *r); /* NULL is fine; returns NULL */
/* The head of a rank, its names out of those of the file; a later head replaces an earlier one. */
void records_take_head(struct rank_stream *stream, const struct intern *names,
		       const struct rank_info *info);
