/* SPDX-License-Identifier: Apache-2.0 */
/* test_kineto.c - what is told of a trace, sound or damaged, however it is cut into pieces. */
#include "read_helpers.h"

#include "read/json_scan.h"

#define HEAD "{\"schemaVersion\": 1, \"traceEvents\": [\n"
#define TAIL "\n], \"baseTimeNanoseconds\": 1790857026000000000}"
#define OP(name, ts)                                                                               \
	"{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"" name                                   \
	"\", \"pid\": 1, \"tid\": 2, \"ts\": " ts ", \"dur\": 1.5, \"args\": {\"Ev Idx\": 0}}"

static void expect_lines(const char *text, const char *lines)
{
	struct told t;

	told_text(&t, text, strlen(text));
	assert_int_equal(t.status, 0);
	assert_string_equal(told_lines(&t), lines);
	told_done(&t);
}

/* One of each kind, in the forms that torch has written them in. */
static const char all_kinds[] =
    "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [{\"id\": 0, \"name\": \"GPU A\"}],\n"
    "  \"traceEvents\": [\n"
    "  {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"void f<int>(float*)\", \"pid\": 0, "
    "\"tid\": 7,\n"
    "    \"ts\": 100.001, \"dur\": 2.5,\n    \"args\": {\n"
    "      \"External id\": 5, \"device\": 3, \"context\": 1,\n      \"stream\": 9, "
    "\"correlation\": 42,\n"
    "      \"grid\": [1, 2, 3]\n    }\n  },\n"
    "  {\"ph\": \"X\", \"cat\": \"Kernel\", \"name\": \"old\", \"pid\": 1, \"tid\": \"stream 7\", "
    "\"ts\": 200, \"dur\": 3,\n"
    "   \"args\": {\"correlation\": 43}},\n"
    "  {\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"Memcpy HtoD\", \"pid\": 0, \"tid\": 7, "
    "\"ts\": 300, \"dur\": 1,\n"
    "   \"args\": {\"device\": 0, \"stream\": 7, \"correlation\": 44, \"bytes\": 1024, \"memory "
    "bandwidth (GB/s)\": inf}},\n"
    "  {\"ph\": \"X\", \"cat\": \"Memset\", \"name\": \"Memset\", \"pid\": 0, \"tid\": 7, \"ts\": "
    "310, \"dur\": 1,\n"
    "   \"args\": {\"device\": 0, \"stream\": 7, \"correlation\": 45, \"bytes\": 16}},\n"
    "  {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 5, "
    "\"tid\": 6, \"ts\": 90, \"dur\": 4,\n"
    "   \"args\": {\"cbid\": 211, \"correlation\": 42}},\n"
    "  {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaDeviceSynchronize\", \"pid\": 5, "
    "\"tid\": 6, \"ts\": 95, \"dur\": 4,\n"
    "   \"args\": {\"correlation\": 50}},\n"
    "  {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaMemcpy\", \"pid\": 5, \"tid\": "
    "6, \"ts\": 99, \"dur\": 4,\n"
    "   \"args\": {\"correlation\": 51}},\n"
    "  {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaGetDevice\", \"pid\": 5, "
    "\"tid\": 6, \"ts\": 99, \"dur\": 4,\n"
    "   \"args\": {\"correlation\": 52}},\n"
    "  {\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#5\", \"pid\": 5, "
    "\"tid\": 6, \"ts\": 80, \"dur\": 400},\n"
    "  {\"ph\": \"X\", \"cat\": \"Operator\", \"name\": \"ProfilerStep#6\", \"pid\": 5, \"tid\": "
    "\"6\", \"ts\": 480, \"dur\": 400},\n"
    "  {\"ph\": \"X\", \"cat\": \"gpu_user_annotation\", \"name\": \"ProfilerStep#5\", \"pid\": 0, "
    "\"tid\": 7, \"ts\": 100, \"dur\": 300},\n"
    "  {\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::reduce\", \"pid\": 5, \"tid\": 6, "
    "\"ts\": 81, \"dur\": 2},\n"
    "  {\"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"a.py(1): f\", \"pid\": 5, "
    "\"tid\": 6, \"ts\": 81, \"dur\": 2,\n"
    "   \"args\": {\"Python parent id\": null, \"Python id\": 1}},\n"
    "  {\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"gloo:all_reduce\", \"pid\": 5, "
    "\"tid\": 8, \"ts\": 85, \"dur\": 9,\n"
    "   \"args\": {\"Input Dims\": [[4, 5], [3]]}},\n"
    "  {\"ph\": \"s\", \"id\": 1, \"pid\": 5, \"tid\": 6, \"ts\": 90, \"cat\": \"ac2g\", \"name\": "
    "\"ac2g\"},\n"
    "  {\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 5, \"tid\": 0, \"ts\": 0, \"args\": "
    "{\"name\": \"python\"}},\n"
    "  {\"ph\": \"X\", \"cat\": \"overhead\", \"name\": \"Buffer\", \"pid\": -1, \"tid\": 0, "
    "\"ts\": 80, \"dur\": 1},\n"
    "  {\"name\": \"Record Window End\", \"ph\": \"i\", \"s\": \"g\", \"pid\": \"\", \"tid\": "
    "\"\", \"ts\": 900}\n"
    "  ],\n  \"traceName\": \"/tmp/x.json\",\n"
    "  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 3, \"world_size\": 8, \"pg_config\": "
    "["
    "{\"pg_name\": \"0\", \"pg_desc\": \"default_pg\", \"pg_size\": 8, \"ranks\": [0, 1, 2, 3, 4, "
    "5, 6, 7]}, "
    "{\"pg_name\": \"1\", \"ranks\": \"[2, 3]\"}]},\n"
    "  \"host_name\": \"node-1\",\n  \"baseTimeNanoseconds\": 1790857026000000001\n}\n";

static const char all_kinds_lines[] =
    "kernel|void f<int>(float*)|100001|2500|gpu 3 stream 9|correlation 42|blocks 6\n"
    "kernel|old|200000|3000|gpu 1 stream 7|correlation 43\n"
    "copy|Memcpy HtoD|300000|1000|gpu 0 stream 7|correlation 44|bytes 1024\n"
    "set|Memset|310000|1000|gpu 0 stream 7|correlation 45|bytes 16\n"
    "launch|cudaLaunchKernel|90000|4000|correlation 42\n"
    "sync|cudaDeviceSynchronize|95000|4000|correlation 50\n"
    "launch|cudaMemcpy|99000|4000|correlation 51\n"
    "sync|cudaMemcpy|99000|4000|correlation 51\n"
    "annotation|ProfilerStep#5|80000|400000\n"
    "annotation|ProfilerStep#6|480000|400000\n"
    "gpu_annotation|ProfilerStep#5|100000|300000|gpu 0 stream 7\n"
    "op|aten::reduce|81000|2000\n"
    "python|a.py(1): f|81000|2000\n"
    "collective|gloo:all_reduce|85000|9000|all_reduce group  desc  ranks  dtype  size 0 seq -1 in "
    "20"
    " out -1 peer -1 self -1\n";

static void every_kind_is_told(void **state)
{
	struct told t;

	(void)state;
	told_text(&t, all_kinds, strlen(all_kinds));
	assert_int_equal(t.status, 0);
	assert_string_equal(told_lines(&t), all_kinds_lines);
	assert_int_equal(t.stats.events, 18);
	assert_int_equal(t.stats.skipped[SKIP_BAD_NUMBER], 1); /* the bandwidth of inf */
	assert_int_equal(t.stats.skipped[SKIP_TRUNCATED], 0);
	assert_int_equal(t.stats.bytes, strlen(all_kinds));
	told_done(&t);
}

static void meta_is_told_wherever_it_stands(void **state)
{
	struct told t;

	(void)state;
	told_text(&t, all_kinds, strlen(all_kinds));
	assert_int_equal(t.rank, 3);
	assert_int_equal(t.world_size, 8);
	assert_int_equal(t.base_time_ns, 1790857026000000001);
	assert_string_equal(t.host, "node-1");
	assert_string_equal(t.backend, "nccl");
	assert_string_equal(t.gpu_name, "GPU A");
	assert_string_equal(t.trace_id, "/tmp/x.json");
	assert_int_equal(t.n_groups, 2);
	assert_int_equal(t.group.size, 8);
	assert_int_equal(t.group.n_ranks, 8);
	assert_int_equal(t.group_ranks[7], 7);
	assert_string_equal(intern_get(&t.names, t.group.desc), "default_pg");
	told_done(&t);
}

static void missing_rank_is_not_rank_0(void **state)
{
	struct told t;

	(void)state;
	told_text(&t, HEAD TAIL, strlen(HEAD TAIL));
	assert_int_equal(t.status, 0);
	assert_int_equal(t.rank, -1);
	assert_int_equal(t.world_size, -1);
	told_done(&t);
}

static void bare_array_is_read(void **state)
{
	(void)state;
	expect_lines("[" OP("a", "1") ", " OP("b", "2") "]", "op|a|1000|1500\nop|b|2000|1500\n");
}

static void addresses_are_no_part_of_names(void **state)
{
	(void)state;
	expect_lines(HEAD "{\"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"<built-in "
			  "method f of T object at "
			  "0x7fdc74225570>\", \"pid\": 1, \"tid\": 2, \"ts\": 1, \"dur\": 2}" TAIL,
		     "python|<built-in method f of T object>|1000|2000\n");
}

/* The same text through every size of window and every split of the source. */
static void pieces_make_no_difference(void **state)
{
	struct told want;

	(void)state;
	told_text(&want, all_kinds, strlen(all_kinds));
	for (size_t window = JSON_WINDOW_MIN; window < JSON_WINDOW_MIN + 700; window++) {
		struct memory_source m = { .p = all_kinds, .len = strlen(all_kinds) };
		struct input *in = input_of_source(memory_read, &m);
		struct told t;

		told_read(&t, in, window);
		assert_string_equal(told_lines(&t), told_lines(&want));
		assert_int_equal(t.rank, 3);
		assert_memory_equal(&t.stats, &want.stats, sizeof(t.stats));
		told_done(&t);
		input_free(in);
	}
	for (size_t split = 1; split < strlen(all_kinds); split++) {
		struct memory_source m = {
			.p = all_kinds, .len = strlen(all_kinds), .first = split, .step = 4096
		};
		struct input *in = input_of_source(memory_read, &m);
		struct told t;

		told_read(&t, in, 0);
		assert_string_equal(told_lines(&t), told_lines(&want));
		told_done(&t);
		input_free(in);
	}
	told_done(&want);
}

/* Cut anywhere: every whole event in front of the cut, and what lies behind it counted as lost. */
static void truncation_keeps_whole_events(void **state)
{
	static const char text[] = HEAD OP("a", "1") ",\n" OP("b", "2") ",\n" OP("c", "3") TAIL;
	static const char *const lines[] = { "", "op|a|1000|1500\n",
					     "op|a|1000|1500\nop|b|2000|1500\n",
					     "op|a|1000|1500\nop|b|2000|1500\nop|c|3000|1500\n" };
	size_t ends[4] = { strlen(HEAD) - 1, 0, 0, 0 }; /* HEAD ends with a line feed */

	(void)state;
	for (size_t i = 1; i < 4; i++)
		ends[i] = ends[i - 1] + (i > 1 ? 2 : 1) + strlen(OP("a", "1"));
	for (size_t cut = 1; cut < strlen(text); cut++) {
		struct told t;
		size_t whole = 0;

		while (whole < 3 && cut >= ends[whole + 1])
			whole++;
		told_text(&t, text, cut);
		assert_int_equal(t.status, 0);
		assert_string_equal(told_lines(&t), lines[whole]);
		assert_int_equal(t.stats.events, whole);
		assert_int_equal(t.stats.skipped[SKIP_TRUNCATED], 1);
		assert_int_equal(t.stats.skipped[SKIP_MALFORMED], 0);
		if (cut >= ends[0])
			assert_int_equal(t.stats.lost_bytes, cut - ends[whole]);
		told_done(&t);
	}
}

struct damage_row {
	const char *text, *lines;
	enum skip_reason reason;
	uint64_t count;
};

static void damage_is_read_through_and_counted(void **state)
{
	static const struct damage_row rows[] = {
		{ HEAD OP("C:\\Users\\x", "1") "," OP("b", "2") TAIL,
		  "op|C:\\Users\\x|1000|1500\nop|b|2000|1500\n", SKIP_BAD_TEXT, 1 },
		{ HEAD OP("f(\"x\", \"y\")", "1") "," OP("b", "2") TAIL,
		  "op|f(\"x\", \"y\")|1000|1500\nop|b|2000|1500\n", SKIP_BAD_TEXT, 1 },
		{ HEAD OP("line\nfeed", "1") TAIL, "op|line\nfeed|1000|1500\n", SKIP_BAD_TEXT, 1 },
		{ HEAD OP("byte\x01", "1") TAIL, "op|byte\x01|1000|1500\n", SKIP_BAD_TEXT, 1 },
		{ HEAD OP("\xe4\xff", "1") TAIL, "op|\xe4\xff|1000|1500\n", SKIP_BAD_TEXT, 1 },
		{ HEAD OP("\\ud83d\\ude00", "1") TAIL, "op|\xf0\x9f\x98\x80|1000|1500\n",
		  SKIP_BAD_TEXT, 0 },
		{ HEAD OP("a", "0") "," OP("b", "2") TAIL, "op|b|2000|1500\n", SKIP_BAD_TIME, 1 },
		{ HEAD OP("a", "-5") "," OP("b", "2") TAIL, "op|b|2000|1500\n", SKIP_BAD_TIME, 1 },
		{ HEAD OP("a", "NaN") "," OP("b", "2") TAIL, "op|b|2000|1500\n", SKIP_BAD_NUMBER,
		  1 },
		{ HEAD OP("a", "99999999999999999999999") TAIL, "", SKIP_BAD_NUMBER, 1 },
		{ HEAD OP("a", "\"1753550898687486.783\"") TAIL, "op|a|1753550898687486783|1500\n",
		  SKIP_BAD_TIME, 0 },
		{ HEAD OP("a", "1.7535508986874867e+15") TAIL, "op|a|1753550898687486700|1500\n",
		  SKIP_BAD_TIME, 0 },
		{ HEAD OP("a", "1") ",]}", "op|a|1000|1500\n", SKIP_MALFORMED, 0 },
		{ HEAD OP("a", "1") " " OP("b", "2") TAIL, "op|a|1000|1500\nop|b|2000|1500\n",
		  SKIP_MALFORMED, 0 },
		/* An event whose writer died, and the next one. */
		{ HEAD "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"a\", " OP("b", "2") TAIL,
		  "op|b|2000|1500\n", SKIP_MALFORMED, 1 },
		{ HEAD "17, " OP("b", "2") TAIL, "op|b|2000|1500\n", SKIP_MALFORMED, 1 },
		{ HEAD "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"a\", \"ts\": 1, \"dur\": "
		       "-1}" TAIL,
		  "op|a|1000|0\n", SKIP_BAD_DURATION, 1 },
		{ HEAD
		  "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"a\", \"ts\": 1, \"dur\": 7e15, "
		  "\"pid\": 0, \"tid\": 7}" TAIL,
		  "kernel|a|1000|0|gpu 0 stream 7\n", SKIP_BAD_DURATION, 1 },
		{ HEAD "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"a\", \"ts\": 1, \"dur\": "
		       "inf}" TAIL,
		  "op|a|1000|0\n", SKIP_BAD_NUMBER, 1 },
		{ HEAD "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"a\", \"dur\": 1}" TAIL, "",
		  SKIP_BAD_TIME, 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct told t;

		told_text(&t, rows[i].text, strlen(rows[i].text));
		assert_int_equal(t.status, 0);
		if (strcmp(told_lines(&t), rows[i].lines) ||
		    t.stats.skipped[rows[i].reason] != rows[i].count)
			fail_msg("row %zu: %s %" PRIu64 ", told:\n%s", i,
				 skip_reason_text(rows[i].reason), t.stats.skipped[rows[i].reason],
				 told_lines(&t));
		told_done(&t);
	}
}

/* Damage must cost the event that has it and no other, wherever the window's edge falls. */
static void damage_costs_no_neighbour(void **state)
{
	struct buf text = { 0 };

	(void)state;
	buf_put(&text, HEAD, strlen(HEAD));
	for (int i = 0; i < 400; i++) {
		const char *e = i % 3 ? OP("fine", "1") "," : OP("da\"ma\"ge\\q", "1") ",";

		buf_put(&text, e, strlen(e));
	}
	buf_put(&text, OP("last", "9") TAIL, strlen(OP("last", "9") TAIL));
	for (size_t window = JSON_WINDOW_MIN; window < JSON_WINDOW_MIN + 200; window += 7) {
		struct memory_source m = { .p = (char *)text.data, .len = text.len };
		struct input *in = input_of_source(memory_read, &m);
		struct told t;

		told_read(&t, in, window);
		assert_int_equal(t.n[EVENT_OP], 401);
		assert_int_equal(t.stats.events, 401);
		assert_int_equal(t.stats.skipped[SKIP_MALFORMED], 0);
		assert_int_equal(t.base_time_ns, 1790857026000000000);
		told_done(&t);
		input_free(in);
	}
	buf_done(&text);
}

static void collectives_are_known_by_args_or_name(void **state)
{
	(void)state;
	expect_lines(HEAD
		     "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"ncclDevKernel_Generic(x)\", "
		     "\"pid\": 0, \"tid\": 7, \"ts\": 1, "
		     "\"dur\": 2, \"args\": {\"stream\": 20, \"Collective name\": "
		     "\"_allgather_base\", \"In msg nelems\": 10, "
		     "\"Out msg nelems\": 80, \"Group size\": 8, \"dtype\": \"BFloat16\", "
		     "\"Process Group Name\": \"3\", "
		     "\"Process Group Description\": \"dp\", \"Process Group Ranks\": \"[0, 1, 2, "
		     "3]\", \"Seq\": 17}},"
		     "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": "
		     "\"ncclKernel_AllReduce_RING_LL_Sum_float(x)\", \"pid\": 0, "
		     "\"tid\": 7, \"ts\": 2, \"dur\": 2, \"args\": {\"stream\": 20}},"
		     "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"void "
		     "at::native::reduce_kernel<512, 1>(x)\", \"pid\": 0, "
		     "\"tid\": 7, \"ts\": 3, \"dur\": 2, \"args\": {\"stream\": 7, \"Collective "
		     "name\": \"allreduce\"}},"
		     "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"reduce\", \"pid\": 0, "
		     "\"tid\": 7, \"ts\": 4, \"dur\": 2},"
		     "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": "
		     "\"ncclDevKernel_SendRecv(x)\", \"pid\": 0, \"tid\": 7, \"ts\": 5, "
		     "\"dur\": 2, \"args\": {\"stream\": 20, \"Collective name\": \"send\", \"Dst "
		     "Rank\": 4, \"Src Rank\": 0}},"
		     "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"record_param_comms\", "
		     "\"pid\": 1, \"tid\": 2, \"ts\": 6, \"dur\": 2, "
		     "\"args\": {\"Rank\": 5, \"Collective name\": \"allreduce\", \"dtype\": "
		     "\"Float\", \"In msg nelems\": 4, "
		     "\"Out msg nelems\": 4, \"Process Group Name\": \"0\", \"Seq\": 3}},"
		     "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"record_param_comms\", "
		     "\"pid\": 1, \"tid\": 2, \"ts\": 7, \"dur\": 2, "
		     "\"args\": {\"Collective name\": \"wait\"}},"
		     "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"c10d::_allgather_base_\", "
		     "\"pid\": 1, \"tid\": 2, \"ts\": 8, \"dur\": 2, "
		     "\"args\": {\"Input Dims\": [[8, 25], [1, 25], [], []]}}" TAIL,
		     "kernel|ncclDevKernel_Generic(x)|1000|2000|gpu 0 stream 20|all_gather group 3 "
		     "desc dp ranks [0, 1, 2, 3] "
		     "dtype BFloat16 size 8 seq 17 in 10 out 80 peer -1 self -1\n"
		     "kernel|ncclKernel_AllReduce_RING_LL_Sum_float(x)|2000|2000|gpu 0 stream "
		     "20|all_reduce group  desc  ranks  "
		     "dtype  size 0 seq -1 in -1 out -1 peer -1 self -1\n"
		     "kernel|void at::native::reduce_kernel<512, 1>(x)|3000|2000|gpu 0 stream 7\n"
		     "kernel|reduce|4000|2000|gpu 0 stream 7\n"
		     "kernel|ncclDevKernel_SendRecv(x)|5000|2000|gpu 0 stream 20|send group  desc  "
		     "ranks  dtype  size 0 seq -1 "
		     "in -1 out -1 peer 4 self -1\n"
		     "op|record_param_comms|6000|2000|all_reduce group 0 desc  ranks  dtype Float "
		     "size 0 seq 3 in 4 out 4 "
		     "peer -1 self 5\n"
		     "op|record_param_comms|7000|2000\n"
		     "op|c10d::_allgather_base_|8000|2000|all_gather group  desc  ranks  dtype  "
		     "size 0 seq -1 in 25 out 200 "
		     "peer -1 self -1\n");
}

static void names_of_operations_are_known(void **state)
{
	static const struct {
		const char *name;
		enum comm_op op, kernel_op;
	} rows[] = {
		{ "allreduce", COMM_ALL_REDUCE, COMM_NONE },
		{ "all_reduce", COMM_ALL_REDUCE, COMM_NONE },
		{ "_allgather_base", COMM_ALL_GATHER, COMM_NONE },
		{ "_all_gather_base", COMM_ALL_GATHER, COMM_NONE },
		{ "ALLGATHER_coalesced", COMM_ALL_GATHER, COMM_NONE },
		{ "allgather_into_tensor_coalesced", COMM_ALL_GATHER, COMM_NONE },
		{ "_reduce_scatter_base", COMM_REDUCE_SCATTER, COMM_NONE },
		{ "reduce_scatter_tensor_coalesced", COMM_REDUCE_SCATTER, COMM_NONE },
		{ "all_to_all", COMM_ALL_TO_ALL, COMM_NONE },
		{ "all_to_allv", COMM_ALL_TO_ALL, COMM_NONE },
		{ "alltoall_base", COMM_ALL_TO_ALL, COMM_NONE },
		{ "broadcast", COMM_BROADCAST, COMM_NONE },
		{ "_broadcast_oop", COMM_BROADCAST, COMM_NONE },
		{ "reduce", COMM_REDUCE, COMM_NONE },
		{ "gather", COMM_GATHER, COMM_NONE },
		{ "barrier", COMM_BARRIER, COMM_NONE },
		{ "send", COMM_SEND, COMM_NONE },
		{ "wait", COMM_NONE, COMM_NONE },
		{ "init", COMM_NONE, COMM_NONE },
		{ "nccl:all_reduce", COMM_ALL_REDUCE, COMM_NONE },
		{ "nccl:send 0->1", COMM_SEND, COMM_NONE },
		{ "nccl:recv 1<-0", COMM_RECV, COMM_NONE },
		{ "nccl:coalesced", COMM_SEND_RECV, COMM_NONE },
		{ "gloo:barrier", COMM_BARRIER, COMM_NONE },
		{ "c10d::barrier", COMM_BARRIER, COMM_NONE },
		{ "c10d::allreduce_", COMM_ALL_REDUCE, COMM_NONE },
		{ "c10d::alltoall_base_", COMM_ALL_TO_ALL, COMM_NONE },
		{ "c10d::_reduce_scatter_base_", COMM_REDUCE_SCATTER, COMM_NONE },
		{ "aten::reduce", COMM_NONE, COMM_NONE },
		{ "aten::gather", COMM_NONE, COMM_NONE },
		{ "reduce_kernel", COMM_NONE, COMM_NONE },
		{ "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(x)",
		  COMM_NONE, COMM_NONE },
		{ "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", COMM_ALL_REDUCE, COMM_ALL_REDUCE },
		{ "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)", COMM_REDUCE_SCATTER,
		  COMM_REDUCE_SCATTER },
		{ "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
		  COMM_ALL_GATHER, COMM_ALL_GATHER },
		{ "ncclDevKernel_Reduce_Sum_f32_RING_LL(x)", COMM_REDUCE, COMM_REDUCE },
		{ "ncclDevKernel_SendRecv(x)", COMM_SEND_RECV, COMM_SEND_RECV },
		{ "ncclDevKernel_Generic_4(x)", COMM_OTHER, COMM_OTHER },
		{ "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", COMM_ALL_REDUCE,
		  COMM_ALL_REDUCE },
		{ "ncclKernel_AllToAllPivot_RING_SIMPLE_Sum_int8_t(x)", COMM_ALL_TO_ALL,
		  COMM_ALL_TO_ALL },
		{ "ncclAllReduceRingLLKernel_sum_f32(ncclColl)", COMM_ALL_REDUCE, COMM_ALL_REDUCE },
		{ "ncclSymDevKernel_AllGather_LL(x)", COMM_ALL_GATHER, COMM_ALL_GATHER },
		{ "mscclKernel_Sum_half_Simple_false(x)", COMM_OTHER, COMM_OTHER },
		{ "", COMM_NONE, COMM_NONE },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t len = strlen(rows[i].name);
		enum comm_op op = comm_op_of(rows[i].name, len);
		enum comm_op kernel_op = comm_op_of_kernel(rows[i].name, len);

		if (op != rows[i].op || kernel_op != rows[i].kernel_op)
			fail_msg("%s: %s, as a kernel %s", rows[i].name, comm_op_name(op),
				 comm_op_name(kernel_op));
	}
}

static void no_trace_is_said_to_be_none(void **state)
{
	static const char *const rows[][2] = {
		{ "", "an empty file" },
		{ " \n ", "an empty file" },
		{ "hello", "no JSON: it begins with neither { nor [" },
		{ "{\"a\": 1}", "JSON, but no trace: it has no traceEvents" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct told t;

		told_text(&t, rows[i][0], strlen(rows[i][0]));
		assert_int_equal(t.status, -EBADMSG);
		assert_string_equal(t.error.text, rows[i][1]);
		told_done(&t);
	}
}

static int refuse(void *user, const struct trace_event *e)
{
	(void)user;
	(void)e;
	return -ECANCELED;
}

static void sink_can_stop(void **state)
{
	static const char text[] = HEAD OP("a", "1") "," OP("b", "2") TAIL;
	struct memory_source m = { .p = text, .len = strlen(text) };
	struct input *in = input_of_source(memory_read, &m);
	struct intern names = { 0 };
	struct read_stats stats = { 0 };
	struct trace_sink sink = { .names = &names, .event = refuse };

	(void)state;
	assert_int_equal(kineto_read(in, NULL, &sink, &stats, NULL), -ECANCELED);
	assert_int_equal(stats.events, 1);
	input_free(in);
	intern_done(&names);
}

/* The published counts of data/SOURCES.md. */
static void shared_traces_have_their_published_counts(void **state)
{
	static const struct {
		const char *file;
		uint64_t events, kernels, collectives;
		int64_t kernel_ns, collective_ns; /* -1: not published */
	} rows[] = {
		{ "hta_sampled_rank-0", 4855, 1154, 10, -1, -1 },
		{ "hta_sampled_rank-1", 4720, 1104, 10, -1, -1 },
		{ "hta_nccl_parser_config", 40573, 2700, 21, -1, 46876500 },
		{ "hta_ns_resolution_rank-0", 68692, 4350, 0, -1, -1 },
		{ "hta_amd_mi250_rocm62", 220, 14, 0, 110900, -1 },
		{ "hta_cpu_only_rank-34", 30, 0, 0, 0, -1 },
		{ "hta_rank_non_gpu", 2467, 0, 0, 0, -1 },
		{ "hta_event_sync_multi_stream", 149, 3, 0, -1, -1 },
		{ "param_resnet_kineto", 111631, 9628, 0, 4103141000, -1 },
		{ "tb_resnet50_workers0", 75718, 8772, 0, 591532000, -1 },
		{ "tb_resnet50_workers4", 71424, 8868, 0, 594868000, -1 },
		{ "tracelens_b200_eager", 24656, 768, 1, -1, 22000 },
		{ "tracelens_mi300_resnet_act_ckpt", 56451, 2995, 17, 97255800, 71516500 },
		{ "tracelens_vllm_decode_graph", 1993, 425, 0, 10674500, -1 },
		{ "hta_mtia_rank_0", 455739, 0, 0, -1, -1 },
	};
	const char *shared = getenv("LOCKSTEP_SHARED");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char path[4096];
		struct input *in;
		struct told t;

		snprintf(path, sizeof(path), "%s/data/kineto/%s.json.gz",
			 shared ? shared : "../shared", rows[i].file);
		if (input_open(path, &in, NULL) < 0) {
			print_message("skipped: no shared data\n");
			skip();
		}
		told_read(&t, in, 0);
		input_free(in);
		assert_int_equal(t.status, 0);
		if (t.stats.events != rows[i].events || t.n[EVENT_KERNEL] != rows[i].kernels ||
		    t.kernel_colls != rows[i].collectives)
			fail_msg("%s: %" PRIu64 " events, %" PRIu64 " kernels, %" PRIu64
				 " collectives",
				 rows[i].file, t.stats.events, t.n[EVENT_KERNEL], t.kernel_colls);
		/* Published to a tenth of a microsecond. */
		if (rows[i].kernel_ns >= 0)
			assert_in_range(t.sum_ns[EVENT_KERNEL] - rows[i].kernel_ns + 50, 0, 100);
		if (rows[i].collective_ns >= 0)
			assert_in_range(t.kernel_coll_ns - rows[i].collective_ns + 50, 0, 100);
		for (int r = 0; r < SKIP_REASONS; r++)
			assert_int_equal(t.stats.skipped[r], 0);
		told_done(&t);
	}
}

/* Events of one meaning each, in layouts that differ where a reader which expects the last one's
   would go wrong. */
static const char *const layouts[] = {
	"{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"a\", \"pid\": 1, \"tid\": 2, \"ts\": 10, "
	"\"dur\": 1, \"args\": {\"device\": 0, \"stream\": 7, \"correlation\": 5}}",
	"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"b\",\"pid\":1,\"tid\":2,\"ts\":11,\"dur\":2,"
	"\"args\":{\"stream\":8,\"device\":1,\"correlation\":6}}",
	"{\n                    \"ph\":  \"X\",\n                    \"cat\":  \"kernel\",\n"
	"          \"name\":   \"c\",\n\t\"pid\"\n:\n1\n,\n\"tid\" : 2 , \"ts\": 12.5, \"dur\": "
	"0.25,"
	"                                                        \"args\":\n{ \"device\":   2,"
	"                                                        \"stream\": 9.0,\n"
	"                                   \"correlation\": 12345678901}}",
	"{\"ph\": \"X\", \"name\": \"d\", \"cat\": \"kernel\", \"tid\": 2, \"pid\": 1, \"dur\": "
	"1.5, "
	"\"ts\": 13, \"args\": {\"correlation\": 7, \"grid\": [1, 2, 3], \"x\": [\"]\", {\"}\": "
	"1}], "
	"\"device\": 3, \"y\": 0.125, \"stream\": 10}}",
	"{\"ph\": \"X\", \"cat\": \"kernel\", \"names\": \"x\", \"name\": \"e\", \"pid\": 1, "
	"\"ts\": 14, "
	"\"args\": {\"device\": 0, \"streams\": 4, \"stream\": \"11\", \"correlation\": null}}",
	"{\"args\": {\"device\": 5, \"stream\": 7}, \"ph\": \"X\", \"cat\": \"kernel\", \"name\": "
	"\"f\", "
	"\"pid\": 1, \"tid\": 2, \"ts\": 15, \"dur\": 1.25,}",
	"{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 1, "
	"\"tid\": 2, \"ts\": 9, \"dur\": 1, \"args\": {\"correlation\": 5}}",
	"{\"ph\": \"s\", \"id\": 5, \"pid\": 1, \"tid\": 2, \"ts\": 9, \"cat\": \"ac2g\"}",
	"{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"g\", \"pid\": 1, \"tid\": 2, \"ts\": 16, "
	"\"dur\": 1, \"args\": {}}",
	"{}",
};

static void an_event_is_read_the_same_behind_any_other(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(layouts) * ARRAY_SIZE(layouts); i++) {
		const char *a = layouts[i / ARRAY_SIZE(layouts)];
		const char *b = layouts[i % ARRAY_SIZE(layouts)];
		char *both = xasprintf(HEAD "%s,\n%s,\n%s" TAIL, a, b, a), *alone, *want;
		struct told t, u;

		alone = xasprintf(HEAD "%s" TAIL, a);
		told_text(&t, alone, strlen(alone));
		free(alone);
		alone = xasprintf(HEAD "%s" TAIL, b);
		told_text(&u, alone, strlen(alone));
		want = xasprintf("%s%s%s", told_lines(&t), told_lines(&u), told_lines(&t));
		expect_lines(both, want);
		told_done(&t);
		told_done(&u);
		free(alone);
		free(want);
		free(both);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_event_is_read_the_same_behind_any_other),
		cmocka_unit_test(every_kind_is_told),
		cmocka_unit_test(meta_is_told_wherever_it_stands),
		cmocka_unit_test(missing_rank_is_not_rank_0),
		cmocka_unit_test(bare_array_is_read),
		cmocka_unit_test(addresses_are_no_part_of_names),
		cmocka_unit_test(pieces_make_no_difference),
		cmocka_unit_test(truncation_keeps_whole_events),
		cmocka_unit_test(damage_is_read_through_and_counted),
		cmocka_unit_test(damage_costs_no_neighbour),
		cmocka_unit_test(collectives_are_known_by_args_or_name),
		cmocka_unit_test(names_of_operations_are_known),
		cmocka_unit_test(no_trace_is_said_to_be_none),
		cmocka_unit_test(sink_can_stop),
		cmocka_unit_test(shared_traces_have_their_published_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
