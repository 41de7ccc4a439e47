/* SPDX-License-Identifier: Apache-2.0 */
/* test_ranges.c - sets of ranks, written and read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/ranges.h"

static void ranges_are_written_as_runs(void **state)
{
	static const int64_t values[] = { 0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 12 };
	_cleanup_free_ char *all = ranges_format(values, ARRAY_SIZE(values));
	_cleanup_free_ char *one = ranges_format(values + 8, 1);
	_cleanup_free_ char *none = ranges_format(values, 0);

	(void)state;
	assert_string_equal(all, "0-7,9,11-12");
	assert_string_equal(one, "9");
	assert_string_equal(none, "");
}

static void ranges_come_back_ascending_and_distinct(void **state)
{
	static const int64_t want[] = { 0, 1, 2, 5, 9 };
	_cleanup_free_ int64_t *values = NULL;
	size_t n = 0;
	struct error error;

	(void)state;
	assert_int_equal(ranges_parse("9,0-2,1,5-5", &values, &n, &error), 0);
	assert_int_equal(n, ARRAY_SIZE(want));
	assert_memory_equal(values, want, sizeof(want));
}

static void what_is_no_set_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		",",
		"1,",
		",1",
		"3-1",
		"-1",
		"1-",
		"a",
		" 1",
		"1 ",
		"+1",
		"0x10",
		"1--2",
		"1-2-3",
		"1,,2",
		"1.5",
		"0-16777216",
		"99999999999999999999",
		"0-9000000000000000000",
	};
	int64_t *values = NULL;
	size_t n = 77;
	struct error error;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		*error.text = 0;
		assert_int_equal(ranges_parse(bad[i], &values, &n, &error), -EINVAL);
		assert_true(*error.text);
		assert_null(values);
		assert_int_equal(n, 77);
	}
}

static void a_large_set_is_taken_whole(void **state)
{
	_cleanup_free_ int64_t *values = NULL;
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	struct error error;

	(void)state;
	assert_int_equal(ranges_parse("0-131071", &values, &n, &error), 0);
	assert_int_equal(n, 131072);
	text = ranges_format(values, n);
	assert_string_equal(text, "0-131071");
}

static void a_member_is_found_and_nothing_else(void **state)
{
	static const int64_t v[] = { 0, 3, 4, 9 };

	(void)state;
	for (int64_t rank = -1; rank <= 10; rank++)
		assert_int_equal(ranges_has(v, 4, rank),
				 rank == 0 || rank == 3 || rank == 4 || rank == 9);
	assert_false(ranges_has(NULL, 0, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_are_written_as_runs),
		cmocka_unit_test(ranges_come_back_ascending_and_distinct),
		cmocka_unit_test(what_is_no_set_is_refused),
		cmocka_unit_test(a_large_set_is_taken_whole),
		cmocka_unit_test(a_member_is_found_and_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
