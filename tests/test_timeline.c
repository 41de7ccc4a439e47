/* SPDX-License-Identifier: Apache-2.0 */
/* test_timeline.c - what is told of a whole job's timeline: who its lanes are, who meets whom, and
   the waiting that the drawing left out. */
#include "read_helpers.h"

#include "read/timeline.h"

#define PLACE(pid, tid, pp, row)                                                                   \
	"{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": " #pid ", \"tid\": " #tid             \
	", \"args\": {\"name\": \"PP rank " #pp ", TP rank 0, " row "\"}},\n"                      \
	"{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": " #pid                               \
	", \"args\": {\"name\": \"DP rank [" #pid "]\"}},\n"
#define SPAN(name, pid, tid, ts, dur)                                                              \
	"{\"name\": \"" name "\", \"cat\": \"" name "\", \"ph\": \"X\", \"pid\": " #pid            \
	", \"tid\": " #tid ", \"ts\": " #ts ", \"dur\": " #dur                                     \
	", \"args\": {\"step\": 7, \"mb_id\": 0, \"seq_id\": 0}},\n"
#define END "{\"ph\": \"M\"}]"

/* Two stages of one replica: the second computes for longer, the first waits for its gradient. */
#define TWO_STAGES                                                                                 \
	"[" PLACE(0, 0, 0, "compute") PLACE(0, 1, 0, "pp-comm") PLACE(0, 2, 1, "compute")          \
	    PLACE(0, 3, 1, "pp-comm") SPAN("forward-compute", 0, 0, 1000, 10000)                   \
		SPAN("forward-send", 0, 1, 11005, 500) SPAN("forward-recv", 0, 3, 11005, 500)      \
		    SPAN("forward-compute", 0, 2, 11505, 40000)                                    \
			SPAN("backward-send", 0, 3, 51510, 500)                                    \
			    SPAN("backward-recv", 0, 1, 51510, 500)                                \
				SPAN("backward-compute", 0, 0, 52010, 20000)

struct read {
	struct timeline *t;
	struct read_stats stats;
	struct error error;
	int status;
};

static void read_text(struct read *r, const char *text)
{
	struct memory_source m = { .p = text, .len = strlen(text) };
	struct input *in = input_of_source(memory_read, &m);

	*r = (struct read){ 0 };
	r->status = timeline_read(in, &r->t, &r->stats, &r->error);
	input_free(in);
}

static void lane_told(struct told *told, struct read *r, uint32_t lane)
{
	struct trace_sink sink = {
		.names = &told->names, .user = told, .event = told_event, .meta = told_meta
	};

	*told = (struct told){ .rank = -9 };
	assert_int_equal(timeline_give(r->t, lane, &sink), 0);
	buf_put(&told->lines, "", 1);
}

static void expect_line(const struct told *told, const char *line)
{
	if (!strstr(told_lines(told), line))
		fail_msg("no \"%s\" in:\n%s", line, told_lines(told));
}

static void lanes_are_numbered_by_their_places(void **state)
{
	static const char text[] = "[" PLACE(1, 9, 0, "compute") PLACE(0, 5, 1, "compute")
	    PLACE(0, 3, 0, "compute") SPAN("forward-compute", 1, 9, 10, 5)
		SPAN("forward-compute", 0, 5, 10, 5) SPAN("forward-compute", 0, 3, 10, 5) END;
	struct read r;
	struct told told;

	(void)state;
	read_text(&r, text);
	assert_int_equal(r.status, 0);
	assert_int_equal(timeline_lanes(r.t), 3); /* dp=1 pp=1 is not in the file */
	for (uint32_t lane = 0; lane < 3; lane++) {
		lane_told(&told, &r, lane);
		assert_int_equal(told.rank, lane);
		assert_int_equal(told.world_size, 4);
		expect_line(&told, "annotation|ProfilerStep#7|10000|5001");
		told_done(&told);
	}
	timeline_free(r.t);
}

static void waiting_that_was_not_drawn_is_given_back(void **state)
{
	struct read r;
	struct told told;

	(void)state;
	read_text(&r, TWO_STAGES END);
	assert_int_equal(r.status, 0);
	lane_told(&told, &r, 0);
	/* The first stage was done at 11505 us; what came 5 us late came so on both. */
	expect_line(&told, "kernel|backward-recv|11510000|40500000");
	expect_line(&told, "recv group PIPELINE_MODEL_PARALLEL_GROUP of 0");
	expect_line(&told, "peer 1");
	told_done(&told);
	lane_told(&told, &r, 1);
	expect_line(&told, "kernel|forward-recv|1005000|10500000");
	expect_line(&told, "kernel|backward-send|51510000|500000");
	told_done(&told);
	timeline_free(r.t);
}

static void waiting_that_was_drawn_stays_as_it_is(void **state)
{
	static const char text[] =
	    "[" PLACE(0, 0, 0, "compute") PLACE(0, 1, 0, "dp-comm") PLACE(1, 0, 0, "compute")
		PLACE(1, 1, 0, "dp-comm") SPAN("forward-compute", 0, 0, 1000, 10000)
		    SPAN("grads-reduce-scatter", 0, 1, 11000, 40500)
			SPAN("forward-compute", 1, 0, 1000, 48000)
			    SPAN("grads-reduce-scatter", 1, 1, 51000, 500) END;
	struct read r;
	struct told told;

	(void)state;
	read_text(&r, text);
	lane_told(&told, &r, 0);
	expect_line(&told, "kernel|grads-reduce-scatter|11000000|40500000");
	told_done(&told);
	lane_told(&told, &r, 1); /* 2 ms late: its host's */
	expect_line(&told, "kernel|grads-reduce-scatter|51000000|500000");
	assert_int_equal(told.n[EVENT_UNSEEN], 0);
	told_done(&told);
	timeline_free(r.t);
}

static void a_send_is_there_when_what_it_sends_was_computed(void **state)
{
	/* The first stage goes on computing; its first send is received 30 ms later. */
	static const char text[] =
	    "[" PLACE(0, 0, 0, "compute") PLACE(0, 1, 0, "pp-comm") PLACE(0, 2, 1, "compute")
		PLACE(0, 3, 1, "pp-comm") SPAN("forward-compute", 0, 0, 1000, 10000)
		    SPAN("forward-compute", 0, 0, 11000, 10000) SPAN("data-load", 0, 2, 1000, 40000)
			SPAN("forward-send", 0, 1, 41000, 500)
			    SPAN("forward-recv", 0, 3, 41000, 500)
				SPAN("forward-compute", 0, 2, 41500, 9000)
				    SPAN("forward-send", 0, 1, 50500, 500)
					SPAN("forward-recv", 0, 3, 50500, 500) END;
	struct read r;
	struct told told;

	(void)state;
	read_text(&r, text);
	lane_told(&told, &r, 0);
	expect_line(&told, "kernel|forward-send|11000000|30500000");
	expect_line(&told, "kernel|forward-send|21000000|30000000");
	told_done(&told);
	lane_told(&told, &r, 1);
	expect_line(&told, "kernel|forward-recv|41000000|500000");
	expect_line(&told, "annotation|data-load|1000000|40000000");
	told_done(&told);
	timeline_free(r.t);
}

static void waiting_for_what_is_folded_away_is_nobodys(void **state)
{
	struct read r;
	struct told told;

	(void)state;
	read_text(&r, TWO_STAGES SPAN("layernorm-grads-all-reduce", 0, 1, 99000, 10) END);
	lane_told(&told, &r, 0);
	expect_line(&told, "unseen|wait|72010000|26990000");
	expect_line(&told, "kernel|layernorm-grads-all-reduce|99000000|10000");
	told_done(&told);
	timeline_free(r.t);
}

static void what_no_number_can_be_is_counted(void **state)
{
	static const char text[] = TWO_STAGES SPAN("forward-compute", 0, 0, NaN,
						   5) SPAN("forward-compute", 0, 0, 5, -1)
	    SPAN("forward-compute", 0, 0, 80000, 1e300) "{\"name\": \"forward-compute\", \"ph\": "
							"\"X\", \"pid\": 0, \"tid\": 0, \"ts\": "
							"80000, \"dur\": 5, \"args\": {}},\n" END;
	struct read r;

	(void)state;
	read_text(&r, text);
	assert_int_equal(r.status, 0);
	assert_int_equal(timeline_lanes(r.t), 2);
	assert_int_equal(r.stats.skipped[SKIP_BAD_TIME], 1);
	assert_int_equal(r.stats.skipped[SKIP_BAD_DURATION], 2);
	assert_int_equal(r.stats.skipped[SKIP_BAD_NUMBER], 2);
	assert_int_equal(r.stats.skipped[SKIP_NO_STEP], 1);
	timeline_free(r.t);
}

static void a_timeline_that_is_cut_off_gives_its_whole_events(void **state)
{
	static const char text[] = TWO_STAGES "{\"name\": \"forward-comp";
	struct read r;

	(void)state;
	read_text(&r, text);
	assert_int_equal(r.status, 0);
	assert_int_equal(r.stats.skipped[SKIP_TRUNCATED], 1);
	assert_int_equal(r.stats.lost_bytes, strlen(",\n{\"name\": \"forward-comp"));
	timeline_free(r.t);
}

static void a_file_without_places_is_no_timeline(void **state)
{
	struct read r;

	(void)state;
	read_text(&r, "[" SPAN("forward-compute", 0, 0, 10, 5) END);
	assert_int_equal(r.status, -EBADMSG);
	assert_non_null(strstr(r.error.text, "no thread is named by its place"));
	read_text(&r, "[" PLACE(0, 0, 0, "compute") END);
	assert_int_equal(r.status, -EBADMSG);
	assert_non_null(strstr(r.error.text, "no event with a step"));
	read_text(&r, "[" PLACE(0, 0, 60000, "compute") SPAN("forward-compute", 0, 0, 10, 5) PLACE(
			  50000, 0, 0, "compute") SPAN("forward-compute", 50000, 0, 10, 5) END);
	assert_int_equal(r.status, -EBADMSG);
	assert_non_null(strstr(r.error.text, "not believed"));
}

static void threads_without_a_place_are_left_out_and_said(void **state)
{
	struct read r;

	(void)state;
	read_text(&r, TWO_STAGES SPAN("forward-compute", 9, 9, 10, 5) END);
	assert_int_equal(r.status, 0);
	assert_int_equal(timeline_lanes(r.t), 2);
	assert_int_equal(r.stats.skipped[SKIP_NO_STEP], 1);
	assert_non_null(strstr(r.error.text, "1 events were left out: they stand in threads"));
	timeline_free(r.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lanes_are_numbered_by_their_places),
		cmocka_unit_test(waiting_that_was_not_drawn_is_given_back),
		cmocka_unit_test(waiting_that_was_drawn_stays_as_it_is),
		cmocka_unit_test(a_send_is_there_when_what_it_sends_was_computed),
		cmocka_unit_test(waiting_for_what_is_folded_away_is_nobodys),
		cmocka_unit_test(what_no_number_can_be_is_counted),
		cmocka_unit_test(a_timeline_that_is_cut_off_gives_its_whole_events),
		cmocka_unit_test(a_file_without_places_is_no_timeline),
		cmocka_unit_test(threads_without_a_place_are_left_out_and_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
