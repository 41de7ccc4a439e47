/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - from a table of options to getopt_long(3), and to what people read of it. */
#include "base/options.h"
#include "base/ranges.h"

#include <assert.h>
#include <ctype.h>
#include <getopt.h>
#include <math.h>

#define ROWS_LIMIT  62
#define HELP_COLUMN 26

static const struct option_row help_row = { "help", 'h', OPTION_FLAG, 0, NULL, "show this help" };

static int parse_pct(const char *text, double *ret, struct error *reterr)
{
	char *end;
	double v;

	errno = 0;
	v = strtod(text, &end);
	if (end == text || errno || (strcmp(end, "") && strcmp(end, "%")) || !isfinite(v) ||
	    v < 0 || v > 1000)
		return error_set(reterr, -EINVAL, "\"%.60s\" is no percentage such as 5", text);
	*ret = v / 100;
	return 0;
}

/* A whole number, or -1 if none is there. */
static int64_t parse_whole(const char **p)
{
	int64_t v = 0;

	if (!isdigit((unsigned char)**p))
		return -1;
	for (; isdigit((unsigned char)**p); (*p)++)
		if (v < INT64_MAX / 16)
			v = v * 10 + (**p - '0');
	return v;
}

static int parse_steps(const char *text, struct option_steps *ret, struct error *reterr)
{
	const char *p = text;
	struct option_steps s = { .first = parse_whole(&p), .last = -1 };

	if (*p == '-') {
		p++;
		s.last = parse_whole(&p);
	} else {
		s.last = s.first;
	}
	if (*p || (s.first < 0 && s.last < 0) || (s.last >= 0 && s.last < s.first))
		return error_set(reterr, -EINVAL, "\"%.60s\" is no range of steps such as 10-20",
				 text);
	*ret = s;
	return 0;
}

static int parse_layout(const char *text, const char **ret, struct error *reterr)
{
	static const char *const axes[] = { "tp", "cp", "dp", "pp", "ep" };
	const char *p = text;
	bool any = false;

	for (;;) {
		size_t axis = 0;
		int64_t size;

		p += strspn(p, " ,");
		if (!*p)
			break;
		while (axis < ARRAY_SIZE(axes) && strncmp(p, axes[axis], 2))
			axis++;
		if (axis == ARRAY_SIZE(axes) || p[2] != '=')
			goto bad;
		p += 3;
		size = parse_whole(&p);
		if (size < 1 || (*p && *p != ' ' && *p != ','))
			goto bad;
		any = true;
	}
	if (!any)
		goto bad;
	*ret = text;
	return 0;
bad:
	return error_set(reterr, -EINVAL, "\"%.60s\" is no layout such as \"tp=4 dp=4 pp=4\"",
			 text);
}

static int parse_number(const char *text, int64_t *ret, struct error *reterr)
{
	const char *p = text;
	int64_t v = parse_whole(&p);

	if (p == text || *p || v < 0)
		return error_set(reterr, -EINVAL, "\"%.60s\" is no whole number from 0 on", text);
	if (v > OPTION_NUMBER_MOST)
		return error_set(reterr, -EINVAL, "%.60s is more than %" PRId64, text,
				 OPTION_NUMBER_MOST);
	*ret = v;
	return 0;
}

static void texts_add(struct option_texts *texts, const char *text)
{
	texts->v = xrealloc(texts->v, (texts->n + 1) * sizeof(*texts->v));
	texts->v[texts->n++] = text;
}

static int option_store(const struct option_row *row, const char *text, void *args,
			struct error *reterr)
{
	void *field = (char *)args + row->offset;
	struct option_ranks ranks;

	switch (row->type) {
	case OPTION_FLAG:
		*(bool *)field = true;
		return 0;
	case OPTION_TEXT:
	case OPTION_PATH:
		*(const char **)field = text;
		return 0;
	case OPTION_TEXTS:
		texts_add(field, text);
		return 0;
	case OPTION_NUMBER:
		return parse_number(text, field, reterr);
	case OPTION_PCT:
		return parse_pct(text, field, reterr);
	case OPTION_STEPS:
		return parse_steps(text, field, reterr);
	case OPTION_LAYOUT:
		return parse_layout(text, field, reterr);
	case OPTION_RANKS:
		if (ranges_parse(text, &ranks.v, &ranks.n, reterr) < 0)
			return -EINVAL;
		free(((struct option_ranks *)field)->v);
		*(struct option_ranks *)field = ranks;
		return 0;
	}
	return -EINVAL;
}

static size_t rows_count(const struct option_row *rows)
{
	size_t n = 0;

	while (rows[n].name)
		n++;
	assert(n <= ROWS_LIMIT);
	return n;
}

/* What the failing word was, in words of our own: getopt's go to stderr in its own style. */
static int unknown_option(const struct option_spec *spec, char **argv, int index,
			  struct error *reterr)
{
	const char *names[ROWS_LIMIT + 1], *word = argv[index], *near;
	size_t n = rows_count(spec->rows), len = strcspn(word, "=");
	char name[64];

	for (size_t i = 0; i < n; i++)
		names[i] = spec->rows[i].name;
	names[n] = help_row.name;
	snprintf(name, sizeof(name), "%.*s", (int)MIN(len, sizeof(name) - 1), word);
	near = strncmp(name, "--", 2) ? NULL : options_nearest(name + 2, names, n + 1);
	if (near)
		return error_set(reterr, -EINVAL, "%s: unknown option %s; did you mean --%s?",
				 spec->command, name, near);
	return error_set(reterr, -EINVAL, "%s: unknown option %s; see lockstep %s --help",
			 spec->command, name, spec->command);
}

int options_parse(const struct option_spec *spec, int argc, char **argv, void *args,
		  int *ret_operands, struct error *reterr)
{
	struct option longs[ROWS_LIMIT + 2] = { 0 };
	char shorts[2 * ROWS_LIMIT + 4] = ":h", *s = shorts + 2;
	size_t n = rows_count(spec->rows);
	struct error detail;

	for (size_t i = 0; i < n; i++) {
		const struct option_row *row = &spec->rows[i];
		int has_value = row->type == OPTION_FLAG ? no_argument : required_argument;

		longs[i] = (struct option){ row->name, has_value, NULL, (int)(256 + i) };
		if (row->letter) {
			*s++ = row->letter;
			if (has_value == required_argument)
				*s++ = ':';
		}
	}
	longs[n] = (struct option){ "help", no_argument, NULL, 'h' };
	optind = 0; /* glibc: start anew, also after an earlier command line */
	opterr = 0;
	for (;;) {
		const struct option_row *row = NULL;
		int c = getopt_long(argc, argv, shorts, longs, NULL);

		if (c == -1)
			break;
		if (c == 'h')
			return OPTIONS_HELP;
		if (c == ':')
			return error_set(reterr, -EINVAL, "%s: %s needs a value", spec->command,
					 argv[optind - 1]);
		if (c >= 256)
			row = &spec->rows[c - 256];
		for (size_t i = 0; !row && c != '?' && i < n; i++)
			if (spec->rows[i].letter == c)
				row = &spec->rows[i];
		if (!row)
			return unknown_option(spec, argv, MAX(optind - 1, 1), reterr);
		if (option_store(row, optarg, args, &detail) < 0)
			return error_set(reterr, -EINVAL, "%s: --%s: %s", spec->command, row->name,
					 detail.text);
	}
	*ret_operands = optind;
	return 0;
}

static void help_line(FILE *out, const struct option_row *row)
{
	char left[80];
	int len;

	if (row->letter)
		len = snprintf(left, sizeof(left), "  -%c, --%s", row->letter, row->name);
	else
		len = snprintf(left, sizeof(left), "      --%s", row->name);
	if (row->value)
		snprintf(left + len, sizeof(left) - (size_t)len, " %s", row->value);
	fprintf(out, "%-*s %s\n", HELP_COLUMN, left, row->help);
}

void options_help(FILE *out, const struct option_spec *spec)
{
	fprintf(out, "Usage: lockstep %s [OPTION...]%s%s\n\n%s\n\nOptions:\n", spec->command,
		*spec->operands ? " " : "", spec->operands, spec->purpose);
	for (const struct option_row *row = spec->rows; row->name; row++)
		help_line(out, row);
	help_line(out, &help_row);
	if (spec->more)
		fprintf(out, "\n%s", spec->more);
}

static void list_line(FILE *out, const char *command, const struct option_row *row)
{
	static const char *const types[] = {
		[OPTION_FLAG] = "flag",	    [OPTION_TEXT] = "text",   [OPTION_PATH] = "path",
		[OPTION_PCT] = "percent",   [OPTION_STEPS] = "steps", [OPTION_RANKS] = "ranks",
		[OPTION_LAYOUT] = "layout", [OPTION_TEXTS] = "texts", [OPTION_NUMBER] = "number",
	};

	fprintf(out, "%s\t%s\t%.1s\t%s\t%s\t%s\n", command, row->name,
		row->letter ? &row->letter : "", row->value ? row->value : "", types[row->type],
		row->help);
}

void options_list(FILE *out, const struct option_spec *spec)
{
	for (const struct option_row *row = spec->rows; row->name; row++)
		list_line(out, spec->command, row);
	list_line(out, spec->command, &help_row);
}

/* Levenshtein's distance, in one row; words are short. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t row[64], len = MIN(strlen(b), ARRAY_SIZE(row) - 1);

	for (size_t j = 0; j <= len; j++)
		row[j] = j;
	for (size_t i = 0; a[i]; i++) {
		size_t diagonal = row[0];

		row[0] = i + 1;
		for (size_t j = 1; j <= len; j++) {
			size_t above = row[j];

			row[j] = MIN(MIN(above, row[j - 1]) + 1, diagonal + (a[i] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[len];
}

const char *options_nearest(const char *word, const char *const *candidates, size_t n)
{
	size_t least = MAX(strlen(word) / 3, (size_t)1) + 1;
	const char *best = NULL;

	for (size_t i = 0; i < n; i++) {
		size_t distance = edit_distance(word, candidates[i]);

		if (distance < least) {
			least = distance;
			best = candidates[i];
		}
	}
	return best;
}
