/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - a subcommand's options as one table, which feeds the parser, --help, the check of the
 * man page, and the shell's completion. An option exists if and only if it has a row.
 */
#pragma once
#include "base/base.h"
#include <stdio.h>

/* So that minutes in microseconds are still a number. */
#define OPTION_NUMBER_MOST INT64_C(100000000000)

enum option_type {
	OPTION_FLAG,   /* bool */
	OPTION_TEXT,   /* const char * */
	OPTION_TEXTS,  /* struct option_texts: the option may be given many times */
	OPTION_NUMBER, /* int64_t, from 0 to OPTION_NUMBER_MOST */
	OPTION_PATH,   /* const char *; completion offers files */
	OPTION_PCT,    /* double: "5" or "5%" gives 0.05 */
	OPTION_STEPS,  /* struct option_steps: "A-B", "A-", "-B" or "A" */
	OPTION_RANKS,  /* struct option_ranks: "0-7,9" */
	OPTION_LAYOUT, /* const char *: "tp=4 dp=4 pp=4", also with commas; spelling is checked */
};
struct option_steps {
	int64_t first, last; /* -1: no bound */
};
struct option_ranks {
	int64_t *v; /* malloc'd; ascending */
	size_t n;
};

struct option_texts {
	const char **v; /* malloc'd */
	size_t n;
};

struct option_row {
	const char *name; /* NULL ends the table */
	char letter;	  /* 0: none */
	enum option_type type;
	size_t offset;	   /* of the field in the subcommand's arguments */
	const char *value; /* what --help calls the value; NULL for flags */
	const char *help;
};
struct option_spec {
	const char *command; /* "diagnose" */
	const char *operands;
	const char *purpose; /* one line */
	const struct option_row *rows;
	const char *more; /* for --help, below the options; NULL */
};

enum { OPTIONS_HELP = 1 }; /* --help or -h was given; nothing else counts */
/*
 * Parses argv[1..] into args, options and operands in any order; argv is reordered so that the
 * operands are argv[*ret_operands..argc-1]. 0, OPTIONS_HELP, or -EINVAL with detail.
 */
int options_parse(const struct option_spec *spec, int argc, char **argv, void *args,
		  int *ret_operands, struct error *reterr);
void options_help(FILE *out, const struct option_spec *spec);
/* One line a row: command, name, letter, value, type, help, separated by tabs. */
void options_list(FILE *out, const struct option_spec *spec);

/* The candidate nearest to a mistyped word, NULL if none is near. */
const char *options_nearest(const char *word, const char *const *candidates, size_t n);
