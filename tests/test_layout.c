/* SPDX-License-Identifier: Apache-2.0 */
/* test_layout.c - layouts: what is parsed, what is refused, and where a rank stands. */
#include "model/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void layout_gives_coordinates_fastest_first(void **state)
{
	struct layout l;

	(void)state;
	assert_int_equal(layout_parse("tp=4 dp=3,pp=2", &l, NULL), 0);
	assert_int_equal(layout_world(&l), 24);
	assert_int_equal(layout_coord(&l, 17, LAYOUT_TP), 1);
	assert_int_equal(layout_coord(&l, 17, LAYOUT_DP), 1);
	assert_int_equal(layout_coord(&l, 17, LAYOUT_PP), 1);
	assert_int_equal(layout_coord(&l, 17, LAYOUT_CP), 0);
}

static void layout_ep_subdivides_and_is_no_factor(void **state)
{
	struct layout l;
	struct error e;
	char *text;

	(void)state;
	assert_int_equal(layout_parse("dp=1440 pp=9 ep=32", &l, NULL), 0);
	assert_int_equal(layout_world(&l), 12960);
	text = layout_format(&l);
	assert_string_equal(text, "dp=1440 pp=9 ep=32");
	free(text);
	assert_int_equal(layout_parse("dp=4 ep=3", &l, &e), -EINVAL);
	assert_string_equal(e.text, "layout: ep=3 does not divide dp x cp = 4");
}

static void layout_refuses_with_the_reason(void **state)
{
	static const char *const bad[][2] = {
		{ "", "layout: empty; give it as in \"tp=4 dp=4 pp=4\"" },
		{ "tp", "layout: tp needs a size, as in tp=4" },
		{ "tp=0", "layout: tp needs a size, as in tp=4" },
		{ "tp=4x", "layout: tp needs a size, as in tp=4" },
		{ "tp=-1", "layout: tp needs a size, as in tp=4" },
		{ "tp=2 tp=2", "layout: tp is given twice" },
		{ "zz=2", "layout: \"zz\" is none of tp, cp, dp, pp, ep" },
		{ "tp=99999999999999999999", "layout: tp needs a size, as in tp=4" },
	};
	struct layout l;
	struct error e;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(layout_parse(bad[i][0], &l, &e), -EINVAL);
		assert_string_equal(e.text, bad[i][1]);
	}
}

static void layout_shows_the_product_that_contradicts(void **state)
{
	struct layout l;
	struct error e;

	(void)state;
	assert_int_equal(layout_parse("tp=2 dp=4", &l, NULL), 0);
	assert_int_equal(layout_check(&l, 8, &e), 0);
	assert_int_equal(layout_check(&l, -1, &e), 0);
	assert_int_equal(layout_check(&l, 16, &e), -EINVAL);
	assert_string_equal(e.text, "layout: tp=2 dp=4 is 8 ranks, but the job has 16");
}

static void layout_knows_groups_by_their_usual_names(void **state)
{
	(void)state;
	assert_int_equal(layout_dim_of("TENSOR_MODEL_PARALLEL_GROUP"), LAYOUT_TP);
	assert_int_equal(layout_dim_of("mesh_pp"), LAYOUT_PP);
	assert_int_equal(layout_dim_of("dp"), LAYOUT_DP);
	assert_int_equal(layout_dim_of("MODEL_PARALLEL_GROUP"), LAYOUT_DIMS);
	assert_int_equal(layout_dim_of("undefined"), LAYOUT_DIMS);
	assert_int_equal(layout_dim_of(""), LAYOUT_DIMS);
}

/* 8 ranks, tp fastest, then pp, then dp: groups {0,1}, {0,2}, {0,4}, .. */
static void layout_is_found_in_the_strides_of_groups(void **state)
{
	struct job job = { .n_ranks = 8, .world_size = 8 };
	static const struct {
		const char *desc;
		uint32_t ranks[2];
	} groups[] = { { "mesh_tp", { 0, 1 } }, { "mesh_pp", { 4, 6 } }, { "mesh_dp", { 1, 5 } } };
	struct job_group g[3] = { 0 };
	struct layout l;
	char *text;

	(void)state;
	for (int i = 0; i < 3; i++)
		g[i] = (struct job_group){ .name = NO_ID,
					   .desc = intern_str(&job.names, groups[i].desc),
					   .size = 2,
					   .ranks = (uint32_t *)groups[i].ranks,
					   .n_ranks = 2 };
	job.groups = g;
	job.n_groups = 3;
	assert_true(layout_of_groups(&job, &l));
	text = layout_format(&l);
	assert_string_equal(text, "tp=2 pp=2 dp=2");
	free(text);
	job.world_size = 16; /* then the groups are not the whole story */
	assert_false(layout_of_groups(&job, &l));
	intern_done(&job.names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layout_gives_coordinates_fastest_first),
		cmocka_unit_test(layout_ep_subdivides_and_is_no_factor),
		cmocka_unit_test(layout_refuses_with_the_reason),
		cmocka_unit_test(layout_shows_the_product_that_contradicts),
		cmocka_unit_test(layout_knows_groups_by_their_usual_names),
		cmocka_unit_test(layout_is_found_in_the_strides_of_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
