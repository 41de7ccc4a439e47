/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_show.c - reports made by hand against tests/golden/show_*: what people and programs read.
 *
 * UPDATE_GOLDEN=1 writes the files anew; look at the difference before you keep it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "show/clean.h"
#include "show/coverage.h"
#include "show/line.h"
#include "show/page.h"
#include "show/show.h"
#include <jansson.h>
#include <math.h>
#include <unistd.h>

static void name_ranks(struct job *job, const int64_t *ranks, uint32_t n)
{
	job->ranks = arena_alloc(&job->arena, n * sizeof(*job->ranks));
	job->n_ranks = n;
	for (uint32_t row = 0; row < n; row++)
		job->ranks[row] = (struct rank_info){
			.rank = ranks[row],
			.unknown = 1,
			.world_size = -1,
			.host = intern_str(&job->names, row < 4 ? "node-a" : "node-b"),
			.gpu_name = NO_ID,
			.backend = NO_ID,
			.gpu_index = (int32_t)(row % 4),
			.kernels = 1000 + row,
			.kernel_ns = 123456789,
			.collectives = 80,
			.collective_ns = 23456789,
		};
}

static void begin(struct report *r, struct job *job, const int64_t *ranks, uint32_t n)
{
	*job = (struct job){ .world_size = n, .first_step = 10, .last_step = 40 };
	name_ranks(job, ranks, n);
	*r = (struct report){ .job = job, .step_ms_median = NAN, .step_ms_p99 = NAN };
}

static void add_input(struct report *r, const char *path, uint32_t row)
{
	struct report_input *in = vec_push(&r->inputs);

	*in = (struct report_input){
		.path = path,
		.format = "kineto",
		.steps = 31,
		.events = 12345,
		.kernels = 1000 + row,
		.collectives = 80,
		.bytes = 4000000,
	};
	*vec_push(&in->rows) = row;
}

static void end(struct report *r, struct job *job)
{
	report_done(r);
	job_done(job);
}

/* Compares with tests/golden/NAME, or writes it. */
static void check_golden(const char *name, const char *text)
{
	_cleanup_free_ char *path = xasprintf("%s/tests/golden/%s", SOURCE_ROOT, name);
	_cleanup_free_ char *want = NULL;
	size_t size = strlen(text);
	FILE *f;

	if (getenv("UPDATE_GOLDEN")) {
		f = fopen(path, "w");
		assert_non_null(f);
		fputs(text, f);
		fclose(f);
		return;
	}
	f = fopen(path, "r");
	if (!f)
		fail_msg("%s: %s", path, strerror(errno));
	want = xcalloc(size * 2 + 65536, 1);
	want[fread(want, 1, size * 2 + 65535, f)] = 0;
	fclose(f);
	assert_string_equal(text, want);
}

static char *as_text(const struct report *r, const char *given)
{
	const struct show_options options = { .given = given };
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	show_text(f, r, &options);
	fclose(f);
	return text;
}

static char *as_json(const struct report *r, bool all_ranks)
{
	const struct show_options options = { .all_ranks = all_ranks };
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_int_equal(show_json(f, r, &options), 0);
	fclose(f);
	return text;
}

static void assert_columns(const char *text)
{
	for (const char *line = text, *eol; *line; line = eol + 1) {
		_cleanup_free_ char *one = NULL;

		eol = strchr(line, '\n');
		assert_non_null(eol);
		one = strndup(line, (size_t)(eol - line));
		if (clean_columns(one) > PAGE_COLUMNS)
			fail_msg("%zu columns: %s", clean_columns(one), one);
	}
}

static void fill_straggler(struct report *r, struct finding *f)
{
	*f = (struct finding){
		.severity = SEVERITY_FAULT,
		.kind = KIND_SLOW,
		.level = "L2",
		.cause = CAUSE_COMPUTE_STRAGGLER,
		.summary = "Rank 7's kernels take 1.4 times as long as its peers'.",
		.action = "replace-node",
		.victims = "0-6",
		.where_phase = "backward",
		.where_collective = "all_reduce",
		.slowdown = 1.4176,
		.step_ms_lost = 312.45678,
		.lost_gpu_hours = 0.0215,
		.gpu_hours_per_day = 56.4,
		.confidence = 0.9,
	};
	*vec_push(&f->culprits) = 7;
	*vec_push(&f->propagation) =
	    (struct propagation){ .at = "all_reduce", .victims = "0-6", .ms = 301.2 };
	*vec_push(&f->windows) = (struct window){ 12, 40, -1, -1, 0, false };
	*vec_push(&f->evidence) = (struct evidence){ "compute of rank 7, median over steps 12-40",
						     1060.12, 748.3, "ms", "trace" };
	*vec_push(&f->evidence) = (struct evidence){ "rank 7 came last in 78 of 80 collectives",
						     NAN, NAN, NULL, "trace" };
	*vec_push(&f->excluded) = (struct exclusion){
		CAUSE_COMM_LINK,
		"rank 7's collectives are the shortest, so it is not waiting for the network; its "
		"compute is 1.4x its peers'"
	};
	*vec_push(&f->next) = "lockstep diagnose --ranks 0,7 --steps 12-14 PATH";
	*vec_push(&f->next) = "Look at clocks and temperature of GPU 3 on node-b before and "
			      "after the change at step 12.";
	finding_set_id(f, r->job);
}

static const int64_t eight[] = { 0, 1, 2, 3, 4, 5, 6, 7 };

static void make_slow(struct report *r, struct job *job)
{
	begin(r, job, eight, 8);
	r->verdict = VERDICT_SLOW;
	r->step_ms_median = 1060.4567;
	r->step_ms_p99 = 1100;
	for (uint32_t row = 0; row < 8; row++) {
		struct report_rank *rank = vec_push(&r->ranks);

		*rank = (struct report_rank){ .row = row,
					      .arrived_last = row == 7 ? 78 : 0,
					      .wait_ns = row == 7 ? -1 : 301200000,
					      .suspect = row == 7 };
		vec_grow(&rank->steps, 1);
		rank->steps.v[rank->steps.n].number = 10;
		rank->steps.v[rank->steps.n++].mark_ns = 1060456789;
	}
	fill_straggler(r, vec_push(&r->findings));
	add_input(r, "traces/rank0.json.gz", 0);
	add_input(r, "traces/rank7.json.gz", 7);
	r->inputs.v[1].skipped[SKIP_BAD_TIME] = 3;
	*vec_push(&r->assumed) = "The layout is not stated: all ranks are taken for alike.";
}

static void a_straggler_is_answered_in_three_lines(void **state)
{
	struct report r;
	struct job job;
	_cleanup_free_ char *text = NULL, *json = NULL;
	const char *third;

	(void)state;
	make_slow(&r, &job);
	text = as_text(&r, "'my traces'");
	assert_columns(text);
	third = strchr(strchr(strchr(text, '\n') + 1, '\n') + 1, '\n');
	for (size_t i = 0; i < 7; i++) {
		static const char *const words[] = { "rank 7",		 "node-b",  "GPU 3",
						     "all_reduce",	 "step 12", "312 ms",
						     "compute-straggler" };
		const char *at = strstr(text, words[i]);

		assert_non_null(at);
		assert_true(at < third);
	}
	assert_non_null(strstr(text, "--steps 12-14 'my traces'\n"));
	check_golden("show_straggler.txt", text);
	json = as_json(&r, false);
	check_golden("show_straggler.json", json);
	end(&r, &job);
}

static void a_healthy_job_says_what_was_looked_at(void **state)
{
	static const int64_t ranks[] = { 0, 1, -1 };
	struct report r;
	struct job job;
	_cleanup_free_ char *text = NULL, *json = NULL;

	(void)state;
	begin(&r, &job, ranks, 3);
	job.world_size = 128;
	r.step_ms_median = 607.3;
	add_input(&r, "a", 0);
	text = as_text(&r, "a");
	assert_columns(text);
	assert_non_null(strstr(text, "nothing wrong in what was given"));
	assert_non_null(strstr(text, "3 of 128 ranks"));
	assert_non_null(strstr(text, "2-127"));
	check_golden("show_healthy.txt", text);
	json = as_json(&r, false);
	assert_non_null(strstr(json, "\"ranks_seen\": \"0-1,unknown-1\""));
	check_golden("show_healthy.json", json);
	end(&r, &job);
}

static void nothing_usable_is_no_zero(void **state)
{
	struct job job = { .world_size = -1, .first_step = -1, .last_step = -1 };
	struct report r = { .job = &job,
			    .verdict = VERDICT_INSUFFICIENT,
			    .headline = "no profiler trace and no step record in what was given",
			    .step_ms_median = NAN,
			    .step_ms_p99 = NAN };
	_cleanup_free_ char *text = as_text(&r, "x"), *json = as_json(&r, false);

	(void)state;
	assert_non_null(strstr(text, "CANNOT TELL: no profiler trace"));
	assert_non_null(strstr(json, "\"world_size\": null"));
	assert_non_null(strstr(json, "\"ranks_missing\": null"));
	assert_non_null(strstr(json, "\"coverage\": null"));
	assert_non_null(strstr(json, "\"median\": null"));
	check_golden("show_insufficient.txt", text);
	check_golden("show_insufficient.json", json);
	end(&r, &job);
}

static void add_stand(struct report_group *g, uint32_t row, const char *state,
		      const char *operation, int64_t enqueued, int64_t completed)
{
	*vec_push(&g->ranks) = (struct report_stand){ row, state, operation, enqueued, completed };
}

static void add_gpu(struct report *r, uint32_t row, const char *shape, double w)
{
	*vec_push(&r->gpus) = (struct report_gpu){ .row = row,
						   .host = row < 4 ? "node-a" : "node-b",
						   .index = row % 4,
						   .shape = shape,
						   .power_w = w,
						   .limit_w = 700,
						   .utilization = 1,
						   .power_w_before = 612.4 };
}

static void fill_hang(struct report *r, struct finding *f)
{
	*f = (struct finding){
		.severity = SEVERITY_FAULT,
		.kind = KIND_HANG,
		.cause = CAUSE_DATA_STARVED,
		.summary = "rank 7 waits for its data loader and never called the next all_reduce.",
		.action = "fix-data",
		.victims = "0-6",
		.where_collective = "all_reduce",
		.slowdown = NAN,
		.step_ms_lost = NAN,
		.lost_gpu_hours = 1.6,
		.gpu_hours_per_day = NAN,
		.confidence = 0.9,
	};
	*vec_push(&f->culprits) = 7;
	*vec_push(&f->windows) =
	    (struct window){ 12, 12,   INT64_C(1764450593000000000), INT64_C(1764451313000000000),
			     0,	 false };
	*vec_push(&f->evidence) = (struct evidence){
		"rank 7 is the only one that did not call all_reduce #17 of default_pg", NAN, NAN,
		NULL, "dump"
	};
	*vec_push(&f->next) = "py-spy dump --native --pid 4711";
	finding_set_id(f, r->job);
}

static void make_hung(struct report *r, struct job *job)
{
	struct report_group *g;
	struct report_stack *s;

	begin(r, job, eight, 8);
	job->first_step = job->last_step = -1;
	r->verdict = VERDICT_HUNG;
	fill_hang(r, vec_push(&r->findings));
	g = vec_push(&r->groups);
	*g = (struct report_group){ .group = "0",
				    .desc = "default_pg",
				    .members = "0-7",
				    .last_common = 16,
				    .stuck = true };
	for (uint32_t row = 0; row < 7; row++)
		add_stand(g, row, "waiting", "all_reduce [[30048]] Float", 17 + row % 2, 16);
	add_stand(g, 7, "behind", "all_reduce [[30048]] Float", 16, 16);
	g = vec_push(&r->groups);
	*g = (struct report_group){ .group = "1", .members = "0-3", .last_common = 40 };
	s = vec_push(&r->stacks);
	*s = (struct report_stack){ .who = "rank 7", .doing = "in the data loader", .odd = true };
	*vec_push(&s->rows) = 7;
	*vec_push(&s->frames) = "TokenShards.__iter__ (data.py:36)";
	*vec_push(&s->frames) =
	    "_IterableDatasetFetcher.fetch (torch/utils/data/_utils/fetch.py:35)";
	s = vec_push(&r->stacks);
	*s = (struct report_stack){ .who = "ranks 0-6",
				    .doing = "in the backward pass, maybe in a collective of it" };
	for (uint32_t row = 0; row < 7; row++)
		*vec_push(&s->rows) = row;
	*vec_push(&s->frames) = "_engine_run_backward (torch/autograd/graph.py:979)";
	for (uint32_t row = 0; row < 7; row++)
		add_gpu(r, row, "waiting", 310 + row);
	add_gpu(r, 7, "idle", 118);
	*vec_push(&r->inputs) = (struct report_input){ .path = "hang/nccl_trace_rank_7",
						       .format = "flight-recorder",
						       .rank = 7,
						       .events = 16 };
	*vec_push(&r->inputs) = (struct report_input){
		.path = "hang/train.log", .format = "log", .rank = -1, .events = 11
	};
	*vec_push(&r->missing) = "a second dump of the same ranks: whether anything moves";
	*vec_push(&r->open) = "lockstep collect --out PATH-2";
}

static void a_hang_is_answered_in_three_lines(void **state)
{
	struct report r;
	struct job job;
	_cleanup_free_ char *text = NULL, *json = NULL;
	const char *third;

	(void)state;
	make_hung(&r, &job);
	text = as_text(&r, "hang");
	assert_columns(text);
	third = strstr(text, "\n\n");
	assert_non_null(third);
	for (size_t i = 0; i < 10; i++) {
		static const char *const words[] = {
			"HUNG: rank 7 ",
			"node-b",
			"GPU 3",
			"ranks 0-6",
			"all_reduce",
			"step 12",
			"2025-11-29 21:09:53 UTC",
			"data-starved",
			"fix-data",
			"(12 min)",
		};
		const char *at = strstr(text, words[i]);

		if (!at || at > third)
			fail_msg("'%s' is not in the first lines of:\n%s", words[i], text);
	}
	/* Who stands alone comes before those who wait, and is not lost in their set. */
	assert_true(strstr(text, "behind      rank 7") < strstr(text, "waiting     ranks 0-6"));
	assert_non_null(strstr(text, "called #17-18, finished #16"));
	assert_true(strstr(text, "rank 7, unlike the others") < strstr(text, "ranks 0-6: in the"));
	assert_non_null(strstr(text, "310-316 of 700 W, 100 % busy"));
	assert_non_null(strstr(text, "flight-recorder, rank 7, 16 entries"));
	assert_null(strstr(text, "0 kernels"));
	check_golden("show_hung.txt", text);
	json = as_json(&r, false);
	check_golden("show_hung.json", json);
	end(&r, &job);
}

static void a_crash_without_a_culprit_blames_nobody(void **state)
{
	struct report r;
	struct job job;
	struct finding *f;
	_cleanup_free_ char *text = NULL;

	(void)state;
	make_hung(&r, &job);
	r.verdict = VERDICT_CRASHED;
	f = &r.findings.v[0];
	f->kind = KIND_CRASH;
	f->cause = CAUSE_UNKNOWN;
	f->culprits.n = 0;
	f->action = "none";
	text = as_text(&r, "hang");
	assert_columns(text);
	assert_non_null(strstr(text, "CRASHED: nobody can be named; ranks 0-6 went down"));
	assert_non_null(strstr(text, "Cause: unknown: ")); /* nobody is sure of not knowing */
	assert_non_null(strstr(text, "Act: gather what is not given"));
	end(&r, &job);
}

/* The first lines of a hang as make_hung() makes it, after `change`; malloc'd. */
static char *first_lines(void (*change)(struct report *r, struct finding *f))
{
	struct report r;
	struct job job;
	_cleanup_free_ char *text = NULL;
	const char *blank;

	make_hung(&r, &job);
	change(&r, &r.findings.v[0]);
	text = as_text(&r, "hang");
	assert_columns(text);
	blank = strstr(text, "\n\n");
	assert_non_null(blank);
	end(&r, &job);
	return xasprintf("%.*s", (int)(blank - text), text);
}

static void preempt(struct report *r, struct finding *f)
{
	r->verdict = VERDICT_CRASHED;
	f->kind = KIND_CRASH;
	f->cause = CAUSE_PREEMPTED;
	f->cause_detail = "preempted";
	f->culprits.n = 0;
	f->victims = NULL;
	f->action = "wait";
}

static void lose_a_rank(struct report *r, struct finding *f)
{
	r->job->ranks[7].absent = true;
	f->cause = CAUSE_MISSING_RANK;
	f->action = "none";
}

static void save_for_long(struct report *r, struct finding *f)
{
	(void)r;
	f->cause = CAUSE_CHECKPOINT;
	f->action = "wait";
}

static void quote_an_error(struct report *r, struct finding *f)
{
	(void)r;
	f->summary =
	    "rank 7 failed first: RuntimeError: [enforce fail at "
	    "/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:456] "
	    "op.preamble.length "
	    "<= op.nbytes. 512 vs 320. Received data size doesn't match expected size. Is there a "
	    "distributed collective mismatch in your code?";
}

static void live_on_localhost(struct report *r, struct finding *f)
{
	(void)r;
	f->hosts.n = 0;
	*vec_push(&f->hosts) = "localhost";
}

/* Whoever is woken by the first lines must know whether it was the right one to wake. */
static void an_act_fits_its_cause(void **state)
{
	static const struct {
		void (*change)(struct report *r, struct finding *f);
		const char *has, *has_not;
	} cases[] = {
		{ preempt, "CRASHED: no rank broke it", "nobody can be named" },
		{ preempt, "Cause: preempted, ", "(preempted)" },
		{ preempt, "Act: wait: nothing is broken", "find out" },
		{ lose_a_rank, "Act: find out what rank 7 does, before", "nothing" },
		{ save_for_long, "Act: wait: for whoever owns the storage", "nothing is broken" },
		{ quote_an_error, "op.nbytes. 512 vs 320.", "third_party/gloo/gloo" },
		{ live_on_localhost, "HUNG: rank 7 (GPU 3) makes", "localhost" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = first_lines(cases[i].change);

		if (!strstr(text, cases[i].has) || strstr(text, cases[i].has_not))
			fail_msg("'%s', and not '%s', should be in:\n%s", cases[i].has,
				 cases[i].has_not, text);
	}
}

/* A rank of which nothing was given is not among those read. */
static void a_rank_of_which_nothing_is_given_is_not_counted_as_read(void **state)
{
	struct report r;
	struct job job;
	_cleanup_free_ char *text = NULL;

	(void)state;
	make_hung(&r, &job);
	job.world_size = 8;
	lose_a_rank(&r, &r.findings.v[0]);
	text = as_text(&r, "hang");
	assert_non_null(strstr(text, "7 of 8 ranks"));
	assert_non_null(strstr(text, "Not given: rank 7"));
	end(&r, &job);
}

/* 16,384 ranks, each in a place of its own, are as readable as eight. */
static void many_ranks_stay_on_one_screen(void **state)
{
	enum { N = 16384 };
	_cleanup_free_ int64_t *ranks = xmalloc(N * sizeof(*ranks));
	struct report r;
	struct job job;
	_cleanup_free_ char *text = NULL, *json = NULL;
	size_t lines = 0;

	(void)state;
	for (int i = 0; i < N; i++)
		ranks[i] = i;
	begin(&r, &job, ranks, N);
	r.verdict = VERDICT_HUNG;
	for (int k = 0; k < 20; k++) {
		struct report_group *g = vec_push(&r.groups);

		*g = (struct report_group){ .group = "a group with a long name",
					    .members = "0-16383",
					    .last_common = 5,
					    .stuck = true };
		for (uint32_t row = 0; row < N; row++)
			add_stand(g, row, row % 1000 == 7 ? "behind" : "waiting",
				  row % 3 ? "all_reduce" : "all_gather", 5 + row, 4);
	}
	for (uint32_t row = 0; row < N; row++) {
		struct report_stack *s = vec_push(&r.stacks);

		*s = (struct report_stack){ .doing = "in a collective" };
		*vec_push(&s->rows) = row;
		*vec_push(&s->frames) = "f (x.py:1)";
		add_gpu(&r, row, row % 2 ? "waiting" : "compute", row % 700);
	}
	text = as_text(&r, "x");
	assert_columns(text);
	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	if (lines > 80)
		fail_msg("%zu lines", lines);
	assert_non_null(strstr(text, "and 14 more groups in which somebody waits"));
	json = as_json(&r, false);
	if (strlen(json) > 8 << 20)
		fail_msg("%zu bytes of JSON", strlen(json));
	end(&r, &job);
}

static void names_from_traces_cannot_steer_the_terminal(void **state)
{
	struct report r;
	struct job job;
	_cleanup_free_ char *text = NULL, *json = NULL;
	struct finding *f;

	(void)state;
	make_slow(&r, &job);
	f = &r.findings.v[0];
	f->where_phase = "\033[2Jevil\r\x9b 31m\u202e\xc2\x85 \xff\xfe";
	f->where_kernel =
	    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor"
	    "_add<float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<f"
	    "loat>, std::array<char*, 3ul>)";
	f->next.v[1] = "look\033]0;title\007 here";
	r.inputs.v[0].path = "dir/\033[31mred\n";
	text = as_text(&r, "x");
	assert_columns(text);
	for (const char *p = text; *p; p++)
		assert_true((unsigned char)*p >= ' ' || *p == '\n');
	assert_null(strstr(text, "\u202e"));
	assert_null(strstr(text, "\xc2\x85"));
	check_golden("show_hostile.txt", text);
	json = as_json(&r, false);
	check_golden("show_hostile.json", json);
	end(&r, &job);
}

static void of_many_ranks_the_suspects_are_listed(void **state)
{
	struct report r;
	struct job job;
	int64_t ranks[100];
	json_t *few, *all, *some_doc, *all_doc;
	_cleanup_free_ char *some_text = NULL, *all_text = NULL;

	(void)state;
	for (int i = 0; i < 100; i++)
		ranks[i] = i;
	begin(&r, &job, ranks, 100);
	for (uint32_t row = 0; row < 100; row++)
		*vec_push(&r.ranks) = (struct report_rank){ .row = row, .suspect = row == 77 };
	some_text = as_json(&r, false);
	all_text = as_json(&r, true);
	some_doc = json_loads(some_text, 0, NULL);
	all_doc = json_loads(all_text, 0, NULL);
	few = json_object_get(some_doc, "ranks");
	all = json_object_get(all_doc, "ranks");
	assert_int_equal(json_array_size(few), 5);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(few, 4), "rank")), 77);
	assert_int_equal(json_array_size(all), 100);
	json_decref(some_doc);
	json_decref(all_doc);
	end(&r, &job);
}

static void an_id_outlives_the_order_of_ranks_and_the_size_of_the_fault(void **state)
{
	static const int64_t later[] = { 3, 7 };
	struct report r, other;
	struct job job, other_job;
	struct finding a = { .cause = CAUSE_COMM_LINK, .where_phase = "backward" }, b = a, c = a;

	(void)state;
	begin(&r, &job, eight, 8);
	begin(&other, &other_job, later, 2);
	*vec_push(&a.culprits) = 3;
	*vec_push(&a.culprits) = 7;
	*vec_push(&b.culprits) = 1; /* rank 7 of the other job */
	*vec_push(&b.culprits) = 0;
	*vec_push(&c.culprits) = 1;
	b.slowdown = 3;
	b.step_ms_lost = 17;
	finding_set_id(&a, &job);
	finding_set_id(&b, &other_job);
	finding_set_id(&c, &other_job);
	assert_int_equal(strlen(a.id), 16);
	assert_string_equal(a.id, b.id);
	assert_string_not_equal(a.id, c.id);
	*vec_push(&r.findings) = a;
	*vec_push(&other.findings) = b;
	*vec_push(&other.findings) = c;
	end(&r, &job);
	end(&other, &other_job);
}

static void numbers_are_said_as_people_say_them(void **state)
{
	static const struct {
		double v;
		const char *text;
	} rows[] = {
		{ 0.04216, "0.042" }, { 4.2149, "4.21" }, { 42.149, "42.1" }, { 421.49, "421" },
		{ 4214.9, "4,215" },  { 999.6, "1,000" }, { 9.996, "10.0" },  { -3.14159, "-3.14" },
		{ 1e6, "1,000,000" }, { 0, "0" },	  { 1, "1" },	      { 31, "31" },
	};
	char buf[32];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_string_equal(page_number(rows[i].v, buf), rows[i].text);
	assert_string_equal(page_count(0, buf), "0");
	assert_string_equal(page_count(999, buf), "999");
	assert_string_equal(page_count(1234567, buf), "1,234,567");
	assert_string_equal(page_count(UINT64_MAX, buf), "18,446,744,073,709,551,615");
}

static void sets_are_cut_behind_a_whole_range(void **state)
{
	static const struct {
		const char *set, *shown;
	} rows[] = {
		{ "0-7", "0-7" },
		{ "17,19,21,23", "17,19,21,23" },
		{ "17,19,21,23,25", "17,19,21,.." },
		{ "1000-2000,2002-3000", "1000-2000,.." },
		{ "", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_free_ char *got = set_name(rows[i].set, 12);

		assert_string_equal(got, rows[i].shown);
	}
}

static void json_text_is_utf8_whatever_came(void **state)
{
	_cleanup_free_ char *a = clean_utf8("ok \xc3\xa9 \xc3(\xe2\x82\xac\xe2\x82");
	_cleanup_free_ char *b = clean_utf8("\xed\xa0\x80\xf5\x80\x80\x80\xc0\x80");

	(void)state;
	assert_string_equal(a, "ok \u00e9 \ufffd(\u20ac\ufffd\ufffd");
	for (const char *p = b; *p; p += 3)
		assert_memory_equal(p, "\xef\xbf\xbd", 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_straggler_is_answered_in_three_lines),
		cmocka_unit_test(a_healthy_job_says_what_was_looked_at),
		cmocka_unit_test(nothing_usable_is_no_zero),
		cmocka_unit_test(a_hang_is_answered_in_three_lines),
		cmocka_unit_test(a_crash_without_a_culprit_blames_nobody),
		cmocka_unit_test(an_act_fits_its_cause),
		cmocka_unit_test(a_rank_of_which_nothing_is_given_is_not_counted_as_read),
		cmocka_unit_test(many_ranks_stay_on_one_screen),
		cmocka_unit_test(names_from_traces_cannot_steer_the_terminal),
		cmocka_unit_test(of_many_ranks_the_suspects_are_listed),
		cmocka_unit_test(an_id_outlives_the_order_of_ranks_and_the_size_of_the_fault),
		cmocka_unit_test(numbers_are_said_as_people_say_them),
		cmocka_unit_test(sets_are_cut_behind_a_whole_range),
		cmocka_unit_test(json_text_is_utf8_whatever_came),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
