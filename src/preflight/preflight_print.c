/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_print.c - the verdict for people: one line what it is, then the checks, worst first,
 * and below each that is not well its limit and what to do. At most 100 columns; text that came
 * from other machines holds no control characters when it leaves.
 */
#include "preflight/preflight_inside.h"

#define COLUMNS 100u
#define INDENT	30u

static size_t columns_of(const char *s, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += ((unsigned char)s[i] & 0xc0) != 0x80;
	return n;
}

/* Wraps at spaces, and words that are too long anywhere. */
static void print_wrapped(FILE *out, const char *text)
{
	size_t at = INDENT;
	bool begun = false;

	while (*text) {
		size_t len, wide;

		text += strspn(text, " ");
		len = strcspn(text, " ");
		if (!len)
			break;
		if (!strncmp(text + len, " %", 2)) /* stays with its number */
			len += 1 + strcspn(text + len + 1, " ");
		wide = columns_of(text, len);
		if (begun && at + 1 + wide > COLUMNS) {
			fprintf(out, "\n%*s", (int)INDENT, "");
			at = INDENT;
			begun = false;
		}
		if (begun) {
			fputc(' ', out);
			at++;
		}
		for (size_t i = 0; i < len; i++) {
			unsigned char c = (unsigned char)text[i];

			if ((c & 0xc0) != 0x80 && at == COLUMNS) {
				fprintf(out, "\n%*s", (int)INDENT, "");
				at = INDENT;
			}
			fputc(c < ' ' || c == 0x7f ? '?' : c, out);
			at += (c & 0xc0) != 0x80;
		}
		begun = true;
		text += len;
	}
	fputc('\n', out);
}

static void print_below(FILE *out, const json_t *check, const char *key)
{
	const char *text = fact_text(check, key);

	if (!text)
		return;
	_cleanup_free_ char *line = xasprintf("%s: %s", key, text);

	fprintf(out, "%*s", (int)INDENT, "");
	print_wrapped(out, line);
}

static bool is_well(const json_t *check)
{
	const char *state = fact_text(check, "state");

	return !state || !strcmp(state, "ok");
}

static void print_check(FILE *out, const json_t *check)
{
	const char *state = fact_text(check, "state"), *measured = fact_text(check, "measured");
	const char *of = fact_text(check, "invariant"), *name = fact_text(check, "name");
	char full[64];

	snprintf(full, sizeof(full), "%.20s.%.30s", of ? of : "?", name ? name : "?");
	fprintf(out, "%-8s%-*s ", state ? state : "?", (int)INDENT - 9, full);
	if (strlen(full) > INDENT - 9)
		fprintf(out, "\n%*s", (int)INDENT, "");
	print_wrapped(out, measured ? measured : "?");
	if (is_well(check))
		return;
	print_below(out, check, "limit");
	print_below(out, check, "remedy");
}

static size_t count_state(const json_t *checks, const char *state)
{
	const json_t *c;
	size_t i, n = 0;

	json_array_foreach(checks, i, c)
	{
		const char *s = fact_text(c, "state");

		n += s && !strcmp(s, state);
	}
	return n;
}

void preflight_print(FILE *out, const json_t *verdict, bool brief)
{
	const json_t *checks = json_object_get(verdict, "checks"), *c;
	const char *v = fact_text(verdict, "verdict");
	size_t refuse = count_state(checks, "refuse"), warn = count_state(checks, "warn");
	size_t unknown = count_state(checks, "unknown"), i;
	int64_t nodes = fact_number(verdict, "nodes", 1), ranks = fact_number(verdict, "ranks", -1);

	fprintf(out, "%s: ", v && !strcmp(v, "cannot-tell") ? "cannot tell" : v ? v : "?");
	if (refuse)
		fprintf(out, "%zu of %zu check%s refuse%s, ", refuse, json_array_size(checks),
			json_array_size(checks) == 1 ? "" : "s", refuse == 1 ? "s" : "");
	else if (!json_array_size(checks))
		fprintf(out, "nothing was looked at, ");
	else if (!unknown)
		fprintf(out, "%zu check%s, none refuses, ", json_array_size(checks),
			json_array_size(checks) == 1 ? "" : "s");
	if (unknown)
		fprintf(out, "%zu not known, ", unknown);
	if (warn)
		fprintf(out, "%zu warning%s, ", warn, warn == 1 ? "" : "s");
	fprintf(out, "%s node%s", thousands(nodes), nodes == 1 ? "" : "s");
	if (ranks >= 0)
		fprintf(out, ", %s rank%s", thousands(ranks), ranks == 1 ? "" : "s");
	fputc('\n', out);
	json_array_foreach(checks, i, c) if (!brief || !is_well(c)) print_check(out, c);
}

json_t *preflight_brief(const json_t *verdict)
{
	json_t *brief = json_copy((json_t *)(uintptr_t)verdict), *kept = json_array(), *c;
	size_t i;

	json_array_foreach(json_object_get(verdict, "checks"), i, c) if (!is_well(c))
	    json_array_append(kept, c);
	json_object_set_new(brief, "checks", kept);
	return brief;
}
