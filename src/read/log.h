/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - lines of text from jobs, launchers, schedulers and kernels: the row of last resort. */
#pragma once
#include "model/testimony.h"
#include "read/input.h"

/* Any text is a log: UTF-8 or not, with some NUL bytes or colours in it, but no binary file. */
bool log_sniff(const char *text, size_t len, const char *path);
int log_read(struct input *in, const char *path, struct testimony **ret, struct read_stats *stats,
	     struct error *reterr);
/* The same, with nothing known of lines that are alike: slower, and for tests to compare with. */
int log_read_each(struct input *in, const char *path, struct testimony **ret,
		  struct read_stats *stats, struct error *reterr);
/* Sayings may be stamped without a year (times below -1). They get the one of the others, over all
   files of a job: to be called once, when all are read; without any year they lose their times. */
void log_settle_years(struct testimony *const *v, size_t n);
