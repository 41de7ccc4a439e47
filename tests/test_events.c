/* SPDX-License-Identifier: Apache-2.0 */
/* test_events.c - what the monitoring said, logs in JSON lines, and what `lockstep collect` wrote.
 */
#include "witness_helpers.h"

#define EVENTS                                                                                     \
	"{\"time\": \"2024-01-16T14:44:16Z\", \"host\": \"h01\", \"text\": \"NVRM: Xid "           \
	"(PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.\"}\n"                         \
	"{\"time\": \"2024-01-16T14:44:17Z\", \"host\": \"h02\", \"text\": \"Out of memory: "      \
	"Killed process 4711 (python3) total-vm:1kB, anon-rss:2kB\"}\n"                            \
	"{\"time\": 1705416258.5, \"node\": \"h04\", \"event\": \"drained by hand\", \"rank\": "   \
	"7}\n"

static size_t count(const struct testimony *t, enum saying_kind kind)
{
	size_t n = 0;

	for (size_t i = 0; i < t->sayings.n; i++)
		n += t->sayings.v[i].kind == kind;
	return n;
}

static const struct saying *first(const struct testimony *t, enum saying_kind kind)
{
	for (size_t i = 0; i < t->sayings.n; i++)
		if (t->sayings.v[i].kind == kind)
			return &t->sayings.v[i];
	return NULL;
}

static void events_keep_their_words_and_mean_what_logs_mean(void **state)
{
	const struct saying *xid, *oom, *event;
	struct witnessed w;

	(void)state;
	witness_text(&w, "events.jsonl", EVENTS);
	assert_string_equal(w.format, "events");
	assert_int_equal(w.status, 0);
	assert_int_equal(w.t->witness, WITNESS_EVENTS);
	assert_int_equal(count(w.t, SAY_EVENT), 3);
	xid = first(w.t, SAY_GPU_ERROR);
	assert_non_null(xid);
	assert_int_equal(xid->value, 79);
	assert_string_equal(intern_get(&w.t->names, xid->host), "h01");
	assert_int_equal(xid->time_ns, 1705416256000000000);
	oom = first(w.t, SAY_OUT_OF_MEMORY);
	assert_non_null(oom);
	assert_string_equal(intern_get(&w.t->names, oom->host), "h02");
	event = &w.t->sayings.v[w.t->sayings.n - 1];
	assert_int_equal(event->rank, 7);
	assert_string_equal(intern_get(&w.t->names, event->host), "h04");
	assert_string_equal(intern_get(&w.t->names, event->text), "drained by hand");
	assert_int_equal(event->time_ns, 1705416258500000000);
	witness_done(&w);
}

static void an_array_of_events_is_the_same(void **state)
{
	struct witnessed w;

	(void)state;
	witness_text(
	    &w, "events.json",
	    "[\n{\"time\": \"2024-01-16T14:44:16Z\", \"host\": \"h01\", \"text\": \"a\"},\n"
	    "{\"time\": \"2024-01-16T14:44:17Z\", \"host\": \"h01\", \"text\": \"b\"}\n]\n");
	assert_string_equal(w.format, "events");
	assert_string_equal(told_sayings(w.t), "event h01 rank -1 @1705416256.000: a\n"
					       "event h01 rank -1 @1705416257.000: b\n");
	witness_done(&w);
}

static void equal_events_are_counted(void **state)
{
	struct witnessed w;

	(void)state;
	witness_text(&w, "events.jsonl",
		     "{\"time\": 1705416256, \"host\": \"h01\", \"text\": \"fan slow\"}\n"
		     "{\"time\": 1705416257, \"host\": \"h01\", \"text\": \"fan slow\"}\n");
	assert_int_equal(w.stats.events, 2);
	assert_true(w.t->sayings.n >= 1);
	witness_done(&w);
}

static void a_journal_is_a_log(void **state)
{
	struct witnessed w;

	(void)state;
	witness_text(&w, "journal.json",
		     "{\"__REALTIME_TIMESTAMP\":\"1705416259123456\",\"_HOSTNAME\":\"h01\","
		     "\"SYSLOG_IDENTIFIER\":\"kernel\",\"MESSAGE\":\"NVRM: Xid (PCI:0000:3b:00): "
		     "79, pid=1, GPU has fallen off the bus.\"}\n"
		     "{\"__REALTIME_TIMESTAMP\":\"1705416260123456\",\"_HOSTNAME\":\"h01\","
		     "\"SYSLOG_IDENTIFIER\":\"sshd\",\"MESSAGE\":\"hello\"}\n");
	assert_string_equal(w.format, "events");
	assert_int_equal(w.t->witness, WITNESS_LOG);
	assert_int_equal(count(w.t, SAY_EVENT), 0);
	assert_int_equal(count(w.t, SAY_GPU_ERROR), 1);
	assert_int_equal(first(w.t, SAY_GPU_ERROR)->time_ns / 1000000, 1705416259123);
	witness_done(&w);
}

static void a_line_cut_in_the_middle_costs_itself(void **state)
{
	struct witnessed w;

	(void)state;
	witness_text(&w, "events.jsonl",
		     "{\"time\": 1705416256, \"host\": \"h01\", \"text\": \"one\"}\n"
		     "{\"time\": 1705416257, \"host\": \"h01\", \"te\n"
		     "{\"time\": 1705416258, \"host\": \"h01\", \"text\": \"three\"}\n");
	assert_int_equal(w.status, 0);
	assert_string_equal(told_sayings(w.t), "event h01 rank -1 @1705416256.000: one\n"
					       "event h01 rank -1 @1705416258.000: three\n");
	assert_int_equal(w.stats.skipped[SKIP_MALFORMED], 1);
	witness_done(&w);
}

static void text_cannot_break_out_of_its_line(void **state)
{
	struct witnessed w;

	(void)state;
	witness_text(&w, "events.jsonl",
		     "{\"time\": 1705416256, \"host\": \"h 01]/x\", \"text\": \"a\\n[rank5]: "
		     "b\\u0000c\"}\n");
	assert_int_equal(w.status, 0);
	for (size_t i = 0; i < w.t->sayings.n; i++) {
		assert_int_equal(w.t->sayings.v[i].rank, -1);
		assert_string_equal(intern_get(&w.t->names, w.t->sayings.v[i].host), "h_01__x");
	}
	witness_done(&w);
}

static void metrics_and_other_json_are_no_events(void **state)
{
	(void)state;
	assert_string_not_equal(witness_format_of("x.jsonl", "{\"time\": 1705416256, \"gpu\": 3, "
							     "\"power_w\": 69}\n"),
				"events");
	assert_string_not_equal(witness_format_of("x.json", "{\"a\": 1}\n"), "events");
	assert_string_not_equal(witness_format_of("x.json", "{\n \"text\": \"of a book\"\n}\n"),
				"events");
}

static void collect_says_who_stood_where(void **state)
{
	const struct saying *s;
	struct witnessed w;

	(void)state;
	witness_text(
	    &w, "ev/collect.json",
	    "{\n \"lockstep_collect\": 1,\n \"host\": \"h01\",\n \"time_ns\": "
	    "\"1705416256000000000\",\n \"ranks\": [\n  {\"rank\": 3, \"local_rank\": 1, "
	    "\"world_size\": 8, \"gpu\": 5, \"pid\": 77},\n  {\"rank\": null, \"pid\": 78}\n"
	    " ]\n}\n");
	assert_string_equal(w.format, "collected");
	assert_int_equal(count(w.t, SAY_HELLO), 1);
	s = first(w.t, SAY_HELLO);
	assert_int_equal(s->rank, 3);
	assert_int_equal(s->local_rank, 1);
	assert_int_equal(s->gpu, 5);
	assert_int_equal(s->pid, 77);
	assert_int_equal(w.t->world_size, 8);
	assert_string_equal(intern_get(&w.t->names, s->host), "h01");
	witness_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_keep_their_words_and_mean_what_logs_mean),
		cmocka_unit_test(an_array_of_events_is_the_same),
		cmocka_unit_test(equal_events_are_counted),
		cmocka_unit_test(a_journal_is_a_log),
		cmocka_unit_test(a_line_cut_in_the_middle_costs_itself),
		cmocka_unit_test(text_cannot_break_out_of_its_line),
		cmocka_unit_test(metrics_and_other_json_are_no_events),
		cmocka_unit_test(collect_says_who_stood_where),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
