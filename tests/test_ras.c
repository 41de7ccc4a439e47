/* SPDX-License-Identifier: Apache-2.0 */
/* test_ras.c - RAS and Inspector: which rank counted what, and who is not heard. */
#include "dump_helpers.h"

static void expect(const char *bytes, const char *path, const char *text)
{
	static const size_t steps[] = { 0, 1, 50 };

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct heard h;
		char *got;

		hear(&h, bytes, strlen(bytes), path, steps[i]);
		assert_int_equal(h.status, 0);
		got = heard_text(&h, false);
		assert_string_equal(got, text);
		free(got);
		heard_done(&h);
	}
}

#define STATUS_GOOD                                                                                \
	"\"status\": {\"init_state\": 0, \"async_error\": 0, \"finalize_called\": false, "         \
	"\"destroy_flag\": false, \"abort_flag\": false}"
#define RANK_0                                                                                     \
	"{\"rank\": 0, \"host\": \"10.0.0.1\", \"pid\": 11, \"cuda_dev\": 0, \"nvml_dev\": "       \
	"4, " STATUS_GOOD ", \"collective_counts\": {\"Broadcast\": 2, \"AllGather\": 51, "        \
	"\"AllReduce\": 9}}"

/* 2.28.7 and 2.28.9 forget the comma behind nvml_dev. */
static void json_without_its_comma_is_read(void **state)
{
	(void)state;
	expect("{\n\"nccl_version\": \"2.28.9\", \"timestamp\": \"2026-07-30 10:14:02\",\n"
	       "\"communicators_count\": 1, \"communicators\": [{\"hash\": \"0x5e37\", "
	       "\"secondary_hash\": \"0x1:0x2\", \"size\": 2, \"ranks\": [" RANK_0 "],\n"
	       "\"missing_ranks\": [{\"rank\": 1, \"host\": \"unknown\", \"pid\": -1, "
	       "\"cuda_dev\": 1, \"nvml_dev\": -1\n\"status\": {\"unresponsive\": true, "
	       "\"considered_dead\": false}}]}], \"ras\": {\"timeouts_count\": 0}}",
	       "ras.json",
	       "rank -1 host - world -1 time 1785406442000000000 version -1.-1 dropped 0\n"
	       "count 0x5e37/2 rank 0 host 10.0.0.1 pid 11 gpu 4 all_reduce=9 all_gather=51 "
	       "broadcast=2\n"
	       "count 0x5e37/2 rank 1 host - pid -1 gpu 1 missing unresponsive\n");
}

static void states_of_ranks_are_told(void **state)
{
	static const struct {
		const char *status, *word;
	} rows[] = {
		{ "\"async_error\": 6", " failed" },
		{ "\"init_state\": 7", "" },
		{ "\"init_state\": 2", " failed" },
		{ "\"finalize_called\": true", " finalized" },
		{ "\"destroy_flag\": true", " finalized" },
		{ "\"abort_flag\": true", " aborted" },
		{ "\"a_new_one\": [true]", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char json[512], text[256];

		snprintf(json, sizeof(json),
			 "{\"nccl_version\": \"2.30\", \"communicators\": [{\"hash\": \"0xa\", "
			 "\"size\": 4, \"ranks\": [{\"rank\": 3, \"status\": {%s}, "
			 "\"collective_counts\": {\"AllToAll\": 7}}]}]}",
			 rows[i].status);
		snprintf(text, sizeof(text),
			 "rank -1 host - world -1 time -1 version -1.-1 dropped 0\n"
			 "count 0xa/4 rank 3 host - pid -1 gpu -1 all_to_all=7%s\n",
			 rows[i].word);
		expect(json, "ras.json", text);
	}
}

static void ranks_beyond_the_size_are_garbage(void **state)
{
	(void)state;
	expect("{\"nccl_version\": \"2.27.3\", \"communicators\": [{\"hash\": \"0xa\", \"size\": "
	       "2, \"ranks\": [], \"missing_ranks\": [{\"rank\": 1057455228, \"status\": "
	       "{\"considered_dead\": true}}, {\"rank\": 1, \"status\": {\"considered_dead\": "
	       "true}}]}]}",
	       "ras.json",
	       "rank -1 host - world -1 time -1 version -1.-1 dropped 1\n"
	       "count 0xa/2 rank 1 host - pid -1 gpu -1 missing dead\n");
}

/* An event where a rank should be: ranks that no communicator holds are nobody's. */
static void ranks_without_a_communicator_are_left_out(void **state)
{
	(void)state;
	expect("{\"communicators\": [{\"ranks\": [{\"rank\": 0, \"collective_counts\": {}}, "
	       "{\"event\": \"PEER_NEW\"}]}], \"nccl_version\": \"2.30\"}",
	       "ras.json",
	       "rank -1 host - world -1 time -1 version -1.-1 dropped 0\n"
	       "saying event host - pid -1 at -1: NCCL RAS: PEER_NEW\n");
}

static void of_several_snapshots_the_last_one_counts(void **state)
{
#define SNAPSHOT(when, n)                                                                          \
	"{\"nccl_version\": \"2.30\", \"timestamp\": \"2026-07-30 10:1" when ":02\", "             \
	"\"communicators\": [{\"hash\": \"0xa\", \"size\": 1, \"ranks\": [{\"rank\": 0, "          \
	"\"collective_counts\": {\"AllReduce\": " n "}}]}]}\n"
	(void)state;
	expect("{\"timestamp\": \"\", \"event\": \"PEER_DEAD\", \"peer\": {\"pid\": "
	       "7}}\n" SNAPSHOT("4", "5") SNAPSHOT("5", "6"),
	       "ras.jsonl",
	       "rank -1 host - world -1 time 1785406502000000000 version -1.-1 dropped 0\n"
	       "count -/-1 rank -1 host - pid 7 gpu -1 missing dead\n"
	       "count 0xa/1 rank 0 host - pid -1 gpu -1 all_reduce=6\n"
	       "saying event host - pid 7 at -1: NCCL RAS: PEER_DEAD\n");
}

static void truncated_json_keeps_whole_ranks(void **state)
{
	static const char json[] =
	    "{\"nccl_version\": \"2.30\", \"communicators\": [{\"hash\": \"0xa\", \"size\": 2, "
	    "\"ranks\": [" RANK_0 ", {\"rank\": 1, \"host\": \"10";
	struct heard h;

	(void)state;
	hear(&h, json, strlen(json), "ras.json", 0);
	assert_int_equal(h.status, 0);
	assert_int_equal(h.t->counts.n, 1);
	assert_string_equal(text_of(h.t, h.t->groups.v[h.t->counts.v[0].group].name), "0xa");
	assert_int_equal(h.stats.skipped[SKIP_TRUNCATED], 1);
	assert_non_null(strstr(h.error.text, "ends in the middle"));
	heard_done(&h);
}

#define TEXT_HEAD                                                                                  \
	"NCCL version 2.26.2 compiled with CUDA 12.6\n"                                            \
	"CUDA runtime version 12060, driver version 12060\n\nJob summary\n===========\n\n"         \
	"  Nodes  Processes         GPUs  Processes     GPUs\n"                                    \
	"(total)   per node  per process    (total)  (total)\n"                                    \
	"      2          2            1          4        4\n\n"                                  \
	"Communicators... (0.00s)\n=============\n\n"                                              \
	"Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"              \
	"    #  in group  per comm  per node  per comm  in group\n"                                \
	"    0         1         2         2         4         4   RUNNING  MISMATCH\n"

static void text_gives_every_rank_its_count(void **state)
{
	(void)state;
	expect(TEXT_HEAD
	       "\nErrors\n======\n\nWarnings\n========\n\n#0-0 (00fa93daea854b06) MISMATCH\n"
	       "  Communicator ranks have different AllGather operation counts\n"
	       "  3 ranks have launched up to operation 640\n"
	       "  Rank 2 has launched up to operation 641 -- GPU 0 (NVML 4) managed by process 17 "
	       "on node n2\n\n"
	       "  Communicator ranks have different AllReduce operation counts\n"
	       "  2 ranks have launched up to operation 8\n"
	       "  Rank 0 -- GPU 0 managed by process 1 on node n1\n"
	       "  Rank 1 -- [process information not found]\n"
	       "  2 ranks have not launched any operations\n\n",
	       "ras.txt",
	       "rank -1 host - world 4 time -1 version -1.-1 dropped 0\n"
	       "count 0xfa93daea854b06/4 rank 2 host n2 pid 17 gpu 4 all_reduce=0 all_gather=641\n"
	       "count 0xfa93daea854b06/4 rank 0 host n1 pid 1 gpu 0 all_reduce=8 all_gather=640\n"
	       "count 0xfa93daea854b06/4 rank 1 host - pid -1 gpu -1 all_reduce=8 all_gather=640\n"
	       "count 0xfa93daea854b06/4 rank 3 host - pid -1 gpu -1 all_reduce=0 "
	       "all_gather=640\n");
}

/* Two classes of which nobody is named: nobody's count is known. */
static void text_does_not_guess(void **state)
{
	(void)state;
	expect(TEXT_HEAD "\n#0-0 (0a) MISMATCH\n"
			 "  Communicator ranks have different AllReduce operation counts\n"
			 "  2 ranks have launched up to operation 8\n"
			 "  2 ranks have launched up to operation 9\n\n",
	       "ras.txt", "rank -1 host - world 4 time -1 version -1.-1 dropped 0\n");
}

static void text_names_who_is_not_heard(void **state)
{
	(void)state;
	expect(TEXT_HEAD
	       "\nErrors\n======\n\nINCOMPLETE\n  Missing communicator data from 2 job processes\n"
	       "  Process 7 on node n2 managing GPU 1\n  Process 8 on node n3 managing GPUs 2,3\n\n"
	       "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
	       "  Process 7 on node n2 managing GPU 1\n\n"
	       "#0-0 (0a) INCOMPLETE\n  Missing communicator data from 1 rank\n"
	       "  Rank 3 -- GPU 1 managed by process 7 on node n2\n\n"
	       "#0-0 (0a) ERROR\n  Asynchronous error on 1 rank\n"
	       "  Rank 1 reported Remote process error -- GPU 1 managed by process 5 on node n1\n",
	       "ras.txt",
	       "rank -1 host - world 4 time -1 version -1.-1 dropped 0\n"
	       "count -/-1 rank -1 host n3 pid 8 gpu 2 missing unresponsive\n"
	       "count 0xa/4 rank 3 host n2 pid 7 gpu 1 missing unresponsive dead\n"
	       "count 0xa/4 rank 1 host n1 pid 5 gpu 1 failed\n");
}

static void a_log_that_holds_a_report_is_a_log(void **state)
{
	static const char log[] = TEXT_HEAD
	    "\n[rank118]:[E603 17:48:01.005271823 ProcessGroupNCCL.cpp:632] [Rank 118] Watchdog "
	    "caught collective operation timeout\n";
	int format = witness_find(log, strlen(log), "train.log");

	(void)state;
	assert_true(format < 0 || strcmp(witness_formats[format].name, "ncclras") != 0);
}

static void the_monitor_tells_who_died(void **state)
{
	static const char said[] =
	    "rank -1 host - world -1 time 1785406531000000000 version -1.-1 dropped 0\n"
	    "count -/-1 rank -1 host 10.8.4.21 pid 40113 gpu 1 missing dead\n"
	    "saying event host 10.8.4.21 pid 40113 at 1785406531000000000: NCCL RAS: PEER_DEAD";
	char text[512];

	(void)state;
	snprintf(text, sizeof(text), "%s Process 40113 on node 10.8.4.21 managing GPU 1\n", said);
	expect("[2026-07-30 10:15:31] PEER_DEAD: Process 40113 on node 10.8.4.21 managing GPU 1\n",
	       "monitor.txt", text);
	snprintf(text, sizeof(text), "%s\n", said);
	expect("{\n  \"timestamp\": \"2026-07-30 10:15:31\",\n  \"group\": \"LIFECYCLE\",\n"
	       "  \"event\": \"PEER_DEAD\",\n  \"peer\": {\"host\": \"10.8.4.21\", \"pid\": 40113, "
	       "\"cuda_devs\": [1], \"nvml_devs\": [1]},\n  \"details\": \"\"\n}\n",
	       "monitor.json", text);
}

#define OPERATION(id, rank, perf)                                                                  \
	"{\"header\": {\"id\": \"" id "\", \"comm_name\": \"dp\", \"rank\": " rank                 \
	", \"n_ranks\": 8, \"nnodes\": 1}, \"metadata\": {\"dump_timestamp_us\": "                 \
	"1752867229276385, \"hostname\": \"h1\", \"pid\": 43}, " perf "}\n"

static void inspector_gives_the_last_of_each_kind(void **state)
{
	(void)state;
	expect(OPERATION("0xe6", "4", "\"coll_perf\": {\"coll\": \"AllReduce\", \"coll_sn\": 7}")
		   OPERATION("0xe6", "4",
			     "\"coll_perf\": {\"coll\": \"AllReduce\", \"coll_sn\": 9, "
			     "\"event_trace_sn\": {\"kernel_events\": [{\"channel_id\": 0}]}}")
		       OPERATION("0xe7", "0", "\"p2p_perf\": {\"p2p\": \"Send\", \"p2p_sn\": 3}")
			   OPERATION("0xe6", "4",
				     "\"coll_perf\": {\"coll\": \"AllReduce\", \"coll_sn\": 8}"),
	       "inspector.log",
	       "rank -1 host h1 world -1 time 1752867229276385000 version -1.-1 dropped 0\n"
	       "count 0xe6/8 rank 4 host h1 pid 43 gpu -1 all_reduce=9\n"
	       "count 0xe7/8 rank 0 host h1 pid 43 gpu -1 send=3\n");
}

static void inspector_goes_on_behind_a_damaged_line(void **state)
{
	static const char text[] = OPERATION("0xe6", "4",
					     "\"coll_perf\": {\"coll\": \"AllReduce\", "
					     "\"coll_sn\": 7}") "{\"header\": {\"id\": "
								"?????\n" OPERATION("0xe6", "4",
										    "\"coll_perf\":"
										    " {\"coll\": "
										    "\"AllReduce\","
										    " \"coll_sn\": "
										    "9}") "{\"heade"
											  "r\"";
	struct heard h;

	(void)state;
	hear(&h, text, strlen(text), "inspector.log", 0);
	assert_int_equal(h.status, 0);
	assert_int_equal(h.t->counts.n, 1);
	assert_int_equal(h.t->counts.v[0].counts[COMM_ALL_REDUCE], 9);
	assert_int_equal(h.stats.events, 2);
	assert_int_equal(h.stats.skipped[SKIP_MALFORMED], 1);
	assert_int_equal(h.stats.skipped[SKIP_TRUNCATED], 1);
	assert_non_null(strstr(h.error.text, "neither a value nor an end"));
	heard_done(&h);
}

static void shared_files_give_what_they_hold(void **state)
{
	const char *shared = getenv("LOCKSTEP_SHARED");
	char path[4096], bytes[65536];

	(void)state;
	for (int i = 1; i <= 2; i++) {
		struct heard h;
		const struct comm_count *last;
		FILE *f;
		size_t n;

		snprintf(path, sizeof(path), "%s/data/reports/18-ras-json-dead-rank/ras-%d.json",
			 shared ? shared : "../shared", i);
		f = fopen(path, "r");
		if (!f) {
			print_message("skipped: no shared data\n");
			skip();
		}
		n = fread(bytes, 1, sizeof(bytes), f);
		fclose(f);
		hear(&h, bytes, n, path, 0);
		assert_int_equal(h.status, 0);
		assert_int_equal(h.t->counts.n, 8);
		last = &h.t->counts.v[7];
		assert_int_equal(last->rank, 5);
		assert_int_equal(last->pid, 40113);
		assert_int_equal(last->gpu, 1);
		assert_int_equal(last->unresponsive, i == 1);
		assert_int_equal(last->dead, i == 2);
		heard_done(&h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_without_its_comma_is_read),
		cmocka_unit_test(states_of_ranks_are_told),
		cmocka_unit_test(ranks_beyond_the_size_are_garbage),
		cmocka_unit_test(ranks_without_a_communicator_are_left_out),
		cmocka_unit_test(of_several_snapshots_the_last_one_counts),
		cmocka_unit_test(truncated_json_keeps_whole_ranks),
		cmocka_unit_test(text_gives_every_rank_its_count),
		cmocka_unit_test(text_does_not_guess),
		cmocka_unit_test(text_names_who_is_not_heard),
		cmocka_unit_test(a_log_that_holds_a_report_is_a_log),
		cmocka_unit_test(the_monitor_tells_who_died),
		cmocka_unit_test(inspector_gives_the_last_of_each_kind),
		cmocka_unit_test(inspector_goes_on_behind_a_damaged_line),
		cmocka_unit_test(shared_files_give_what_they_hold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
