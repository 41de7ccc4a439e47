/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_standings.c - dumps in one table: what all called alike is kept once, and of each dump only
 * where it stands.
 */
#include "hang_builder.h"

static void world_of(struct hang_case *c)
{
	case_new(c);
	case_group(c, "world", "0", "default_pg", "[0, 1, 2, 3]");
	case_group(c, "tp", "1", "mesh_tp", "[0, 1]");
}

static struct dump_view *taken(struct hang_case *c, size_t file)
{
	case_take(c, file);
	return c->views.v[file];
}

static struct dump_view *taken_dump(struct hang_case *c, int64_t rank, const char *calls)
{
	dump(c, rank, calls);
	return taken(c, c->files.n - 1);
}

/* The operation with which the dump called number `seq` of its first group. */
static enum comm_op called(const struct hang_case *c, const struct dump_view *v, int64_t pos)
{
	const struct dump_group *g = &v->groups.v[0];
	const struct standing_slot *slot = standings_slot(c->standings, g->group, pos);
	uint32_t variant = dump_variant(g, pos);

	if (!slot || variant == NO_ID)
		return COMM_NONE;
	return c->standings->signatures.v[slot_variant(slot, variant)].op;
}

/* --- the table --- */

static void what_all_called_alike_is_kept_once(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c);
	for (int64_t rank = 0; rank < 100; rank++) {
		assert_int_equal(taken_dump(&c, rank, "50(world:all_reduce)")->entries, 50);
	}
	assert_int_equal(c.standings->n_slots, 50);
	assert_int_equal(c.standings->signatures.n, 1);
	assert_int_equal(c.standings->groups.n, 1);
	assert_int_equal(c.standings->groups.v[0].differing.n, 0);
	case_done(&c);
}

static void who_called_what_is_found_by_its_number(void **state)
{
	struct hang_case c;
	struct dump_view *a, *b;

	(void)state;
	world_of(&c);
	a = taken_dump(&c, 0, "world:all_reduce world:all_gather world:broadcast");
	b = taken_dump(&c, 1, "world:all_reduce world:barrier world:broadcast");
	assert_int_equal(called(&c, a, POSITION(1)), COMM_ALL_REDUCE);
	assert_int_equal(called(&c, a, POSITION(2)), COMM_ALL_GATHER);
	assert_int_equal(called(&c, b, POSITION(2)), COMM_BARRIER);
	assert_int_equal(called(&c, b, POSITION(3)), COMM_BROADCAST);
	assert_int_equal(called(&c, a, POSITION(0)), COMM_NONE);
	assert_int_equal(called(&c, a, POSITION(4)), COMM_NONE);
	assert_int_equal(c.standings->groups.v[0].differing.n, 1);
	case_done(&c);
}

static void a_place_keeps_as_many_variants_as_there_are(void **state)
{
	struct hang_case c;
	char calls[64];

	(void)state;
	world_of(&c);
	for (int64_t rank = 0; rank < 40; rank++) {
		snprintf(calls, sizeof(calls), "world:all_reduce world:all_reduce/%d",
			 (int)rank + 1);
		taken_dump(&c, rank, calls);
	}
	for (size_t rank = 0; rank < 40; rank++) {
		const struct dump_group *g = &c.views.v[rank]->groups.v[0];
		const struct standing_slot *slot =
		    standings_slot(c.standings, g->group, POSITION(2));
		uint32_t row = slot_variant(slot, dump_variant(g, POSITION(2)));

		assert_int_equal(c.standings->signatures.v[row].in_elements, rank + 1);
	}
	assert_int_equal(c.standings->groups.v[0].differing.n, 1);
	case_done(&c);
}

static void groups_of_other_members_are_other_groups(void **state)
{
	struct hang_case c;

	(void)state;
	case_new(&c);
	case_group(&c, "a", "1", "tp", "[0, 1]");
	case_group(&c, "b", "1", "tp", "[2, 3]");
	taken_dump(&c, 0, "a:all_reduce");
	taken_dump(&c, 2, "b:all_reduce");
	assert_int_equal(c.standings->groups.n, 2);
	assert_int_equal(c.standings->n_slots, 2);
	case_done(&c);
}

static void a_table_without_dumps_knows_no_place(void **state)
{
	struct standings *s = standings_new();

	(void)state;
	assert_null(standings_slot(s, 0, POSITION(1)));
	standings_free(s);
	assert_null(standings_free(NULL));
	assert_null(dump_view_free(NULL));
}

static void a_dump_is_freed_when_it_is_taken(void **state)
{
	struct hang_case c;

	(void)state;
	world_of(&c);
	taken_dump(&c, 0, "3(world:all_reduce)");
	assert_int_equal(c.files.v[0]->entries.n, 0);
	assert_int_equal(c.files.v[0]->names.n, 0);
	case_done(&c);
}

/* --- numbers --- */

static void entries_are_taken_in_the_order_of_the_ranks_own_counting(void **state)
{
	struct hang_case c;
	struct testimony *t;
	struct op_entry first;
	struct dump_view *v;

	(void)state;
	world_of(&c);
	t = dump(&c, 0, "world:all_reduce world:all_gather world:broadcast?");
	first = t->entries.v[0];
	t->entries.v[0] = t->entries.v[2];
	t->entries.v[2] = first;
	v = taken(&c, 0);
	assert_int_equal(called(&c, v, POSITION(1)), COMM_ALL_REDUCE);
	assert_int_equal(called(&c, v, POSITION(3)), COMM_BROADCAST);
	assert_int_equal(v->groups.v[0].enqueued, 3);
	case_done(&c);
}

static void coalesced_calls_have_places_of_one_number(void **state)
{
	struct hang_case c;
	struct dump_view *v;

	(void)state;
	world_of(&c);
	v = taken_dump(&c, 0, "world:all_reduce world:all_gather +world:broadcast world:barrier");
	assert_int_equal(called(&c, v, POSITION(2)), COMM_ALL_GATHER);
	assert_int_equal(called(&c, v, POSITION(2) + 1), COMM_BROADCAST);
	assert_int_equal(called(&c, v, POSITION(3)), COMM_BARRIER);
	assert_int_equal(v->groups.v[0].enqueued, 3);
	case_done(&c);
}

static void the_number_at_which_a_ring_begins_may_be_cut(void **state)
{
	struct hang_case c;
	struct dump_view *whole, *wrapped;

	(void)state;
	world_of(&c);
	whole = taken_dump(&c, 0, "world@7 world:all_gather world:all_reduce");
	wrapped = taken_dump(&c, 1, "#9 world@7 world:all_gather world:all_reduce");
	assert_int_equal(called(&c, whole, POSITION(7)), COMM_ALL_GATHER);
	assert_int_equal(called(&c, wrapped, POSITION(7)), COMM_NONE);
	assert_int_equal(called(&c, wrapped, POSITION(8)), COMM_ALL_REDUCE);
	assert_int_equal(wrapped->groups.v[0].enqueued, 8);
	case_done(&c);
}

/* What stands before it in the ring is of another group: the number is whole. */
static void the_first_number_of_another_group_is_whole(void **state)
{
	struct hang_case c;
	struct dump_view *v;

	(void)state;
	case_new(&c);
	case_group(&c, "world", "0", "default_pg", "[0, 1]");
	case_group(&c, "tp", "1", "tp", "[0, 1]");
	v = taken_dump(&c, 0, "#9 world@7 world:all_gather tp@3 tp:all_reduce");
	assert_int_equal(called(&c, v, POSITION(7)), COMM_NONE);
	assert_int_equal(v->groups.n, 2);
	assert_int_equal(v->groups.v[1].first, POSITION(3));
	case_done(&c);
}

static void a_number_that_goes_back_is_of_another_counting(void **state)
{
	struct hang_case c;
	struct dump_view *v;

	(void)state;
	world_of(&c);
	v = taken_dump(&c, 0, "5(world:all_reduce) world@2 world:all_gather?");
	assert_int_equal(v->groups.v[0].enqueued, 5);
	assert_int_equal(v->groups.v[0].pending.n, 0);
	assert_int_equal(called(&c, v, POSITION(2)), COMM_ALL_REDUCE);
	case_done(&c);
}

/* 2^62 x 256 would overflow a position. */
static void numbers_beyond_the_limit_stand_nowhere(void **state)
{
	struct hang_case c;
	struct testimony *t;
	struct dump_view *v;

	(void)state;
	world_of(&c);
	t = dump(&c, 0, "world:all_reduce 3(world:all_reduce?)");
	t->entries.v[1].seq = INT64_MAX;
	t->entries.v[2].seq = (int64_t)1 << 62;
	t->entries.v[3].seq = -1;
	v = taken(&c, 0);
	assert_int_equal(v->entries, 4);
	assert_int_equal(v->groups.v[0].enqueued, 1);
	assert_int_equal(v->groups.v[0].pending.n, 0);
	assert_int_equal(c.standings->n_slots, 1);
	case_done(&c);
}

static void entries_of_no_group_are_left_out(void **state)
{
	struct hang_case c;
	struct testimony *t;
	struct dump_view *v;

	(void)state;
	world_of(&c);
	t = dump(&c, 0, "2(world:all_reduce)");
	t->entries.v[0].group = 77;
	t->entries.v[1].signature = 77;
	v = taken(&c, 0);
	assert_int_equal(v->entries, 0);
	assert_int_equal(v->groups.v[0].enqueued, -1);
	case_done(&c);
}

/* --- where it stands --- */

static void pending_operations_come_lowest_first_and_pairs_last(void **state)
{
	struct hang_case c;
	const struct dump_group *g;

	(void)state;
	world_of(&c);
	g = &taken_dump(&c, 0,
			"world:all_reduce world:send(1)? world:all_gather? world:recv(1)? "
			"world:barrier?")
		 ->groups.v[0];
	assert_int_equal(g->n_pending, 4);
	assert_int_equal(POSITION_SEQ(g->pending.v[0].pos), 2);
	assert_int_equal(POSITION_SEQ(g->pending.v[1].pos), 3);
	assert_true(g->pending.v[2].p2p && g->pending.v[3].p2p);
	assert_true(g->pending.v[2].order < g->pending.v[3].order);
	assert_int_equal(g->completed, 1);
	assert_int_equal(g->enqueued, 3);
	case_done(&c);
}

static void the_lowest_of_many_pending_are_kept_and_all_counted(void **state)
{
	struct hang_case c;
	const struct dump_group *g;

	(void)state;
	world_of(&c);
	g = &taken_dump(&c, 0, "30(world:send(1)?) 100(world:all_reduce?)")->groups.v[0];
	assert_int_equal(g->n_pending, 130);
	assert_int_equal(g->pending.n, STANDING_PENDING_MAX);
	for (size_t i = 0; i < g->pending.n; i++) {
		assert_false(g->pending.v[i].p2p);
		assert_int_equal(POSITION_SEQ(g->pending.v[i].pos), i + 1);
	}
	case_done(&c);
}

static void a_pair_has_no_common_number(void **state)
{
	struct hang_case c;
	struct dump_view *v;

	(void)state;
	world_of(&c);
	v = taken_dump(&c, 0, "5(world:send(1))");
	assert_int_equal(c.standings->n_slots, 0);
	assert_int_equal(v->groups.v[0].enqueued, -1);
	assert_int_equal(v->entries, 5);
	case_done(&c);
}

static void the_status_counts_where_it_is_ahead_of_the_entries(void **state)
{
	struct hang_case c;
	struct testimony *t;
	const struct dump_group *g;

	(void)state;
	world_of(&c);
	t = dump(&c, 0, "3(world:all_reduce)");
	status(&c, t, "world", 9, 8, 7);
	status(&c, t, "tp", 4, 4, -1);
	g = taken(&c, 0)->groups.v;
	assert_int_equal(g[0].enqueued, 9);
	assert_int_equal(g[0].started, 8);
	assert_int_equal(g[0].completed, 7);
	assert_int_equal(g[1].enqueued, 4);
	assert_int_equal(g[1].completed, -1);
	case_done(&c);
}

static void what_was_retired_or_completed_is_done(void **state)
{
	struct hang_case c;
	const struct dump_group *g;

	(void)state;
	world_of(&c);
	g = &taken_dump(&c, 0,
			"world:all_reduce world:all_reduce. world:all_reduce* world:all_reduce?")
		 ->groups.v[0];
	assert_int_equal(g->completed, 2);
	assert_int_equal(g->started, 3);
	assert_int_equal(g->enqueued, 4);
	assert_int_equal(g->n_pending, 2);
	case_done(&c);
}

static void the_first_unfinished_of_all_groups_is_known(void **state)
{
	struct hang_case c;
	struct dump_view *v;

	(void)state;
	world_of(&c);
	v = taken_dump(&c, 0, "world:all_reduce tp:all_gather? world:barrier?");
	assert_string_equal(
	    intern_get(&c.standings->names,
		       c.standings->groups.v[v->groups.v[v->first_wait].group].desc),
	    "mesh_tp");
	v = taken_dump(&c, 1, "world:all_reduce tp:all_gather world:barrier");
	assert_int_equal(v->first_wait, NO_ID);
	case_done(&c);
}

/* --- twins --- */

static void the_same_words_have_the_same_fingerprint(void **state)
{
	static const char *const calls[] = {
		"2(world:all_reduce) world:all_gather?",
		"2(world:all_reduce) world:all_gather",
		"2(world:all_reduce) world:all_gather/7?",
		"#1 2(world:all_reduce) world:all_gather?",
		"3(world:all_reduce) world:all_gather?",
		"2(world:all_reduce) world:send(1)?",
	};
	struct hang_case c;

	(void)state;
	world_of(&c);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		uint64_t print = taken_dump(&c, 0, calls[i])->fingerprint;

		assert_true(print == taken_dump(&c, 0, calls[i])->fingerprint);
		for (size_t k = 0; k < i; k++)
			assert_false(print == c.views.v[2 * k]->fingerprint);
	}
	case_done(&c);
}

/* --- habits --- */

static const struct dump_view *habit_of(struct hang_case *c, const char *calls)
{
	world_of(c);
	return taken_dump(c, 0, calls);
}

static void what_used_to_follow_follows_again(void **state)
{
	struct hang_case c;
	const struct dump_view *v =
	    habit_of(&c, "3(tp:all_gather tp:reduce_scatter world:all_reduce) tp:all_gather?");

	(void)state;
	assert_int_equal(v->habit, HABIT_KEPT);
	assert_int_equal(v->habit_size, HABIT_KEPT);
	case_done(&c);
}

static void what_never_followed_before_breaks_the_habit(void **state)
{
	struct hang_case c;
	const struct dump_view *v =
	    habit_of(&c, "3(tp:all_gather tp:reduce_scatter world:all_reduce) world:barrier?");

	(void)state;
	assert_int_equal(v->habit, HABIT_BROKEN);
	assert_int_equal(c.standings->signatures.v[v->usual].op, COMM_ALL_GATHER);
	case_done(&c);
}

static void another_size_keeps_the_order_and_breaks_the_size(void **state)
{
	struct hang_case c;
	const struct dump_view *v =
	    habit_of(&c, "3(tp:all_gather tp:reduce_scatter) tp:all_gather/77?");

	(void)state;
	assert_int_equal(v->habit, HABIT_KEPT);
	assert_int_equal(v->habit_size, HABIT_BROKEN);
	case_done(&c);
}

static void a_step_and_a_half_are_no_habit(void **state)
{
	struct hang_case c;
	const struct dump_view *v =
	    habit_of(&c, "tp:all_gather tp:reduce_scatter world:all_reduce world:barrier?");

	(void)state;
	assert_int_equal(v->habit, HABIT_UNKNOWN);
	case_done(&c);
}

static void what_followed_once_is_no_habit(void **state)
{
	struct hang_case c;
	const struct dump_view *v = habit_of(
	    &c, "2(world:all_reduce) tp:all_gather tp:reduce_scatter tp:all_gather world:barrier?");

	(void)state;
	assert_int_equal(v->habit, HABIT_UNKNOWN);
	case_done(&c);
}

/* Two receives a step, and now a third. */
static void a_receive_more_than_any_step_had_breaks_the_habit(void **state)
{
	struct hang_case c;
	const struct dump_view *v =
	    habit_of(&c, "4(2(tp:recv(0)) world:all_reduce) 2(tp:recv(0)) tp:recv(0)?");

	(void)state;
	assert_int_equal(v->habit, HABIT_BROKEN);
	case_done(&c);
}

static void a_receive_that_each_step_had_keeps_the_habit(void **state)
{
	struct hang_case c;
	const struct dump_view *v =
	    habit_of(&c, "4(2(tp:recv(0)) world:all_reduce) tp:recv(0) tp:recv(0)?");

	(void)state;
	assert_int_equal(v->habit, HABIT_KEPT);
	case_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_all_called_alike_is_kept_once),
		cmocka_unit_test(who_called_what_is_found_by_its_number),
		cmocka_unit_test(a_place_keeps_as_many_variants_as_there_are),
		cmocka_unit_test(groups_of_other_members_are_other_groups),
		cmocka_unit_test(a_table_without_dumps_knows_no_place),
		cmocka_unit_test(a_dump_is_freed_when_it_is_taken),
		cmocka_unit_test(entries_are_taken_in_the_order_of_the_ranks_own_counting),
		cmocka_unit_test(coalesced_calls_have_places_of_one_number),
		cmocka_unit_test(the_number_at_which_a_ring_begins_may_be_cut),
		cmocka_unit_test(the_first_number_of_another_group_is_whole),
		cmocka_unit_test(a_number_that_goes_back_is_of_another_counting),
		cmocka_unit_test(numbers_beyond_the_limit_stand_nowhere),
		cmocka_unit_test(entries_of_no_group_are_left_out),
		cmocka_unit_test(pending_operations_come_lowest_first_and_pairs_last),
		cmocka_unit_test(the_lowest_of_many_pending_are_kept_and_all_counted),
		cmocka_unit_test(a_pair_has_no_common_number),
		cmocka_unit_test(the_status_counts_where_it_is_ahead_of_the_entries),
		cmocka_unit_test(what_was_retired_or_completed_is_done),
		cmocka_unit_test(the_first_unfinished_of_all_groups_is_known),
		cmocka_unit_test(the_same_words_have_the_same_fingerprint),
		cmocka_unit_test(what_used_to_follow_follows_again),
		cmocka_unit_test(what_never_followed_before_breaks_the_habit),
		cmocka_unit_test(another_size_keeps_the_order_and_breaks_the_size),
		cmocka_unit_test(a_step_and_a_half_are_no_habit),
		cmocka_unit_test(what_followed_once_is_no_habit),
		cmocka_unit_test(a_receive_more_than_any_step_had_breaks_the_habit),
		cmocka_unit_test(a_receive_that_each_step_had_keeps_the_habit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
