/* SPDX-License-Identifier: Apache-2.0 */
/* test_fr_limits.c - Flight Recorder dumps at the limits: the largest jobs, and what is larger. */
#include "dump_helpers.h"
#include "pickle_bytes.h"

#include "read/pile.h"

#define NAME "nccl_trace_rank_3"

/* The members of 16,384 ranks are more text than a window holds. */
static char *members_of_many(size_t n, const char *front, const char *back)
{
	struct buf b = { 0 };
	char number[24];

	buf_put(&b, front, strlen(front));
	for (size_t i = 0; i < n; i++) {
		int len = snprintf(number, sizeof(number), "%s%zu", i ? ", " : "[", i);

		buf_put(&b, number, (size_t)len);
	}
	buf_put(&b, back, strlen(back) + 1);
	return (char *)b.data;
}

static void members_of_the_largest_jobs_are_read_whole(void **state)
{
	char *json = members_of_many(16384,
				     "{\"version\": \"2.10\", \"pg_config\": {\"0\": {\"name\": "
				     "\"0\", \"desc\": \"default_pg\", \"ranks\": \"",
				     "]\"}}, \"pg_status\": {}}");
	char *members = members_of_many(16384, "", "]");
	struct pickle_bytes p = { .memo = 0 };

	(void)state;
	assert_true(strlen(members) > PILE_IN_PLACE_MAX);
	p_op(&p, "\x80\x02}(");
	p_text(&p, "pg_config");
	p_op(&p, "}(");
	p_text(&p, "0");
	p_op(&p, "}(");
	p_words(&p, "name", "0");
	p_words(&p, "desc", "default_pg");
	p_words(&p, "ranks", members);
	p_op(&p, "uuu.");
	for (size_t step = 0; step <= 4096; step += 4096) {
		struct heard h[2];

		hear(&h[0], p.b.data, p.b.len, NAME, step);
		hear(&h[1], json, strlen(json), "fr_rank3.json", step);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(h[i].status, 0);
			assert_int_equal(h[i].stats.skipped[SKIP_TOO_LONG], 0);
			assert_int_equal(h[i].t->world_size, 16384);
			assert_string_equal(intern_get(&h[i].t->names, h[i].t->groups.v[0].ranks),
					    members);
			heard_done(&h[i]);
		}
	}
	buf_done(&p.b);
	free(members);
	free(json);
}

static void strings_beyond_the_limit_are_passed_over(void **state)
{
	char *json = members_of_many(200000,
				     "{\"version\": \"2.10\", \"pg_config\": {\"0\": {\"name\": "
				     "\"0\", \"desc\": \"default_pg\", \"ranks\": \"",
				     "]\"}}, \"pg_status\": {}}");
	struct heard h;

	(void)state;
	assert_true(strlen(json) > PILE_STRING_MAX);
	hear(&h, json, strlen(json), "fr_rank3.json", 0);
	assert_int_equal(h.status, 0);
	assert_int_equal(h.stats.skipped[SKIP_TOO_LONG], 1);
	assert_int_equal(h.t->groups.n, 1);
	assert_true(h.t->groups.v[0].ranks == NO_ID);
	heard_done(&h);
	free(json);
}

/* A list of 10,000 tensors of 10,000 dimensions that a memo repeats: in time, sizes unknown. */
static void a_list_that_is_repeated_costs_no_hours(void **state)
{
	struct pickle_bytes p = { .memo = 0 };
	struct heard h;

	(void)state;
	p_op(&p, "\x80\x02]\x71\x00("); /* memo 0: the dimensions */
	for (int i = 0; i < 10000; i++)
		p_op(&p, "K\x01");
	p_op(&p, "e0]\x71\x01("); /* memo 1: the tensors */
	for (int i = 0; i < 10000; i++)
		p_op(&p, "h\x00");
	p_op(&p, "e0}(");
	p.memo = 2;
	p_text(&p, "entries");
	p_op(&p, "](");
	for (int i = 0; i < 100; i++) {
		p_op(&p, "}(");
		p_words(&p, "profiling_name", "nccl:all_reduce");
		p_member(&p, "collective_seq_id", i);
		p_text(&p, "input_sizes");
		p_op(&p, "h\x01u");
	}
	p_op(&p, "eu.");
	hear(&h, p.b.data, p.b.len, NAME, 0);
	assert_int_equal(h.status, 0);
	assert_int_equal(h.t->entries.n, 100);
	assert_int_equal(h.t->signatures.v[h.t->entries.v[99].signature].in_elements, -1);
	heard_done(&h);
	buf_done(&p.b);
}

static void a_list_of_no_types_is_an_empty_text(void **state)
{
	static const char json[] = "{\"version\": \"2.10\", \"entries\": [{\"profiling_name\": "
				   "\"nccl:barrier\", \"collective_seq_id\": 1, "
				   "\"input_dtypes\": []}]}";
	struct heard h;

	(void)state;
	hear(&h, json, strlen(json), "fr_rank3.json", 0);
	assert_int_equal(h.status, 0);
	assert_int_equal(h.t->entries.n, 1);
	assert_string_equal(intern_get(&h.t->names, h.t->signatures.v[0].in_dtypes), "");
	assert_true(h.t->signatures.v[0].in_dtypes != NO_ID);
	heard_done(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_of_the_largest_jobs_are_read_whole),
		cmocka_unit_test(strings_beyond_the_limit_are_passed_over),
		cmocka_unit_test(a_list_that_is_repeated_costs_no_hours),
		cmocka_unit_test(a_list_of_no_types_is_an_empty_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
