/* SPDX-License-Identifier: Apache-2.0 */
/* test_options.c - one table gives the parser, the help and the list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/options.h"

struct args {
	bool json;
	const char *layout, *out;
	double impact;
	struct option_steps steps;
	struct option_ranks ranks;
	struct option_texts faults;
	int64_t seed;
};
#define FIELD(name) offsetof(struct args, name)
static const struct option_row rows[] = {
	{ "json", 'j', OPTION_FLAG, FIELD(json), NULL, "print JSON" },
	{ "layout", 'l', OPTION_LAYOUT, FIELD(layout), "SPEC", "parallel layout" },
	{ "out", 0, OPTION_PATH, FIELD(out), "DIR", "where to" },
	{ "min-impact", 0, OPTION_PCT, FIELD(impact), "PCT", "smallest impact" },
	{ "steps", 0, OPTION_STEPS, FIELD(steps), "A-B", "steps" },
	{ "ranks", 0, OPTION_RANKS, FIELD(ranks), "LIST", "ranks" },
	{ "fault", 'f', OPTION_TEXTS, FIELD(faults), "FAULT", "faults" },
	{ "seed", 0, OPTION_NUMBER, FIELD(seed), "N", "seed" },
	{ 0 },
};
static const struct option_spec spec = { "thing", "PATH...", "does a thing", rows, "More.\n" };

static int parse(struct args *args, int *operands, struct error *error, int argc, char **argv)
{
	*args = (struct args){ .steps = { -1, -1 } };
	*error->text = 0;
	return options_parse(&spec, argc, argv, args, operands, error);
}
#define PARSE(...)                                                                                 \
	parse(&args, &operands, &error,                                                            \
	      (int)(sizeof((char *[]){ "thing", __VA_ARGS__ }) / sizeof(char *)),                  \
	      (char *[]){ "thing", __VA_ARGS__, NULL })

static void every_type_is_parsed(void **state)
{
	struct args args;
	struct error error;
	int operands = 0;

	(void)state;
	assert_int_equal(PARSE("a", "--json", "-l", "tp=2,dp=4", "--min-impact=7.5%", "--steps",
			       "10-20", "--ranks", "3,1", "--out", "x", "b"),
			 0);
	assert_true(args.json);
	assert_string_equal(args.layout, "tp=2,dp=4");
	assert_string_equal(args.out, "x");
	assert_float_equal(args.impact, 0.075, 1e-12);
	assert_int_equal(args.steps.first, 10);
	assert_int_equal(args.steps.last, 20);
	assert_int_equal(args.ranks.n, 2);
	assert_int_equal(args.ranks.v[0], 1);
	assert_int_equal(args.ranks.v[1], 3);
	assert_int_equal(operands, 11);
	free(args.ranks.v);
}

static void texts_add_up_and_numbers_are_whole(void **state)
{
	struct args args;
	struct error error;
	int operands;

	(void)state;
	assert_int_equal(PARSE("-f", "a b", "--seed", "12", "--fault=c"), 0);
	assert_int_equal(args.faults.n, 2);
	assert_string_equal(args.faults.v[0], "a b");
	assert_string_equal(args.faults.v[1], "c");
	assert_int_equal(args.seed, 12);
	free(args.faults.v);
	assert_true(PARSE("--seed", "100000000001") < 0);
	assert_non_null(strstr(error.text, "more than"));
	assert_true(PARSE("--seed", "99999999999999999999") < 0);
	assert_int_equal(PARSE("--seed", "1.5"), -EINVAL);
	assert_non_null(strstr(error.text, "1.5"));
	assert_int_equal(PARSE("--seed=-1"), -EINVAL);
	assert_int_equal(PARSE("--seed", ""), -EINVAL);
}

static void steps_may_be_open_at_an_end(void **state)
{
	struct args args;
	struct error error;
	int operands;

	(void)state;
	assert_int_equal(PARSE("--steps", "10-"), 0);
	assert_int_equal(args.steps.first, 10);
	assert_int_equal(args.steps.last, -1);
	assert_int_equal(PARSE("--steps=-7"), 0);
	assert_int_equal(args.steps.first, -1);
	assert_int_equal(args.steps.last, 7);
	assert_int_equal(PARSE("--steps", "3"), 0);
	assert_int_equal(args.steps.first, 3);
	assert_int_equal(args.steps.last, 3);
}

static void bad_values_are_named(void **state)
{
	static char *const bad[][2] = {
		{ "--steps", "20-10" },	   { "--steps", "-" },	       { "--steps", "x" },
		{ "--steps", "1-2-3" },	   { "--min-impact", "five" }, { "--min-impact", "-1" },
		{ "--min-impact", "nan" }, { "--ranks", "3-1" },       { "--layout", "tp=0" },
		{ "--layout", "xp=2" },	   { "--layout", "tp" },       { "--layout", "tp=2dp=2" },
		{ "--layout", "" },	   { "--min-impact", "" },
	};
	struct args args;
	struct error error;
	int operands;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(PARSE(bad[i][0], bad[i][1]), -EINVAL);
		assert_non_null(strstr(error.text, bad[i][0]));
		assert_null(args.ranks.v);
	}
}

static void a_mistyped_option_gets_a_suggestion(void **state)
{
	struct args args;
	struct error error;
	int operands;

	(void)state;
	assert_int_equal(PARSE("--jsn"), -EINVAL);
	assert_string_equal(error.text, "thing: unknown option --jsn; did you mean --json?");
	assert_int_equal(PARSE("--zzzzzz=3"), -EINVAL);
	assert_string_equal(error.text,
			    "thing: unknown option --zzzzzz; see lockstep thing --help");
	assert_int_equal(PARSE("-q"), -EINVAL);
	assert_string_equal(error.text, "thing: unknown option -q; see lockstep thing --help");
}

static void a_missing_value_is_said(void **state)
{
	struct args args;
	struct error error;
	int operands;

	(void)state;
	assert_int_equal(PARSE("--steps"), -EINVAL);
	assert_string_equal(error.text, "thing: --steps needs a value");
}

static void help_wins_and_dashes_end_options(void **state)
{
	struct args args;
	struct error error;
	int operands;

	(void)state;
	assert_int_equal(PARSE("--json", "--help"), OPTIONS_HELP);
	assert_int_equal(PARSE("-h"), OPTIONS_HELP);
	assert_int_equal(PARSE("--", "--json"), 0);
	assert_false(args.json);
	assert_int_equal(operands, 2);
	assert_int_equal(PARSE("-"), 0);
	assert_int_equal(operands, 1);
}

static void help_and_list_say_the_same(void **state)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	options_help(f, &spec);
	fclose(f);
	assert_string_equal(text, "Usage: lockstep thing [OPTION...] PATH...\n\ndoes a thing\n\n"
				  "Options:\n"
				  "  -j, --json               print JSON\n"
				  "  -l, --layout SPEC        parallel layout\n"
				  "      --out DIR            where to\n"
				  "      --min-impact PCT     smallest impact\n"
				  "      --steps A-B          steps\n"
				  "      --ranks LIST         ranks\n"
				  "  -f, --fault FAULT        faults\n"
				  "      --seed N             seed\n"
				  "  -h, --help               show this help\n\nMore.\n");
	free(text);
	f = open_memstream(&text, &size);
	options_list(f, &spec);
	fclose(f);
	assert_non_null(strstr(text, "thing\tlayout\tl\tSPEC\tlayout\tparallel layout\n"));
	assert_non_null(strstr(text, "thing\tout\t\tDIR\tpath\twhere to\n"));
	free(text);
}

static void the_nearest_word_is_near(void **state)
{
	static const char *const words[] = { "diagnose", "export", "explain" };

	(void)state;
	assert_string_equal(options_nearest("diagnos", words, 3), "diagnose");
	assert_string_equal(options_nearest("exprot", words, 3), "export");
	assert_null(options_nearest("frobnicate", words, 3));
	assert_null(options_nearest("", words, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_is_parsed),
		cmocka_unit_test(texts_add_up_and_numbers_are_whole),
		cmocka_unit_test(steps_may_be_open_at_an_end),
		cmocka_unit_test(bad_values_are_named),
		cmocka_unit_test(a_mistyped_option_gets_a_suggestion),
		cmocka_unit_test(a_missing_value_is_said),
		cmocka_unit_test(help_wins_and_dashes_end_options),
		cmocka_unit_test(help_and_list_say_the_same),
		cmocka_unit_test(the_nearest_word_is_near),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
