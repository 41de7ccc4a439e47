/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_config.h - options in a file: name = value a line, as the command line has them.
 *
 * Lines that begin with #, ; or [ are passed over, so that sections may stand there. A flag is yes
 * or no. The words that come out are the command line's: what is wrong in them is said there.
 */
#pragma once
#include "base/options.h"
#include "read/input.h"

#define CONFIG_MOST	 4096u /* options in a file */
#define CONFIG_LINE_MOST 8192u

struct watch_config {
	VEC(char *) words; /* "--log=/a/b" */
};
/* 0, or -EINVAL, -E2BIG with detail, or what kept the file from being read. */
int watch_config_read(struct watch_config *c, const char *path, const struct option_row *rows,
		      struct error *reterr);
int watch_config_take(struct watch_config *c, struct input *in, const char *path,
		      const struct option_row *rows, struct error *reterr);
void watch_config_done(struct watch_config *c);
