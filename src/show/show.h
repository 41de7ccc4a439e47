/* SPDX-License-Identifier: Apache-2.0 */
/* show.h - a report for people (text) and for programs (JSON, schema 1). */
#pragma once
#include "model/finding.h"
#include <stdio.h>

struct show_options {
	bool colour;	   /* ANSI colours: only when stdout is a terminal */
	bool all_ranks;	   /* list every rank, not the suspects and a few peers */
	const char *given; /* the paths as the user wrote them, for commands to copy */
};
void show_text(FILE *out, const struct report *report, const struct show_options *options);
/* What read[].events counts in an input of this format: "entries", "threads". */
const char *show_unit(const char *format, bool one);
int show_json(FILE *out, const struct report *report, const struct show_options *options);
