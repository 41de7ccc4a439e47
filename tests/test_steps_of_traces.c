/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real and recorded traces: ranks, steps, kernels and collectives are what independent scripts
 * counted (SOURCES.md and answer.json of the shared test data).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include <jansson.h>
#include <unistd.h>

#include "fold/merge.h"
#include "read/read.h"

static const char *shared_folder(void)
{
	static char path[4096];
	const char *folder = getenv("LOCKSTEP_SHARED");

	snprintf(path, sizeof(path), "%s/data", folder ? folder : "../shared");
	return access(path, R_OK) == 0 ? path : NULL;
}

struct traces {
	struct merge *merge;
	struct job *job;
	struct fold *fold;
	char path[4096];
	uint64_t key;
};

static int trace_begin(void *user, const char *path, enum input_kind kind, struct trace_sink **ret)
{
	struct traces *t = user;

	(void)kind;
	snprintf(t->path, sizeof(t->path), "%s", path);
	t->fold = fold_new(NULL);
	*ret = fold_sink(t->fold);
	return 0;
}

static void trace_end(void *user, const struct read_stats *stats, int status, const char *why)
{
	struct traces *t = user;
	struct fold_hint hint = { .rank = survey_rank_of_name(t->path) };
	struct rank_stream s;

	(void)stats;
	(void)why;
	assert_int_equal(status, 0);
	assert_int_equal(fold_finish(t->fold, &hint, &s, NULL), 0);
	t->fold = fold_free(t->fold);
	merge_add(t->merge, t->key++, t->path, &s);
}

static struct traces traces_read(const char *name)
{
	struct traces t = { .merge = merge_new() };
	char path[8192], *list[] = { path };
	struct survey survey = { 0 };
	struct read_client client = { .user = &t, .begin = trace_begin, .end = trace_end };

	snprintf(path, sizeof(path), "%s/%s", shared_folder(), name);
	assert_int_equal(survey_paths(&survey, list, 1, NULL), 0);
	for (size_t i = 0; i < survey.n; i++)
		if (survey.inputs[i].kind == INPUT_KINETO || survey.inputs[i].kind == INPUT_ARCHIVE)
			assert_int_equal(read_input(&survey.inputs[i], &client, NULL), 0);
	survey_done(&survey);
	t.job = merge_job(t.merge, NULL);
	assert_non_null(t.job);
	return t;
}

static bool absent(void)
{
	if (shared_folder())
		return false;
	print_message("skipped: no shared data\n");
	return true;
}

struct marks {
	uint32_t n_rows;
	struct mark_of {
		uint64_t number;
		int64_t mark_ns;
		uint32_t row;
	} v[256];
	size_t n;
};

/* Of every step that is played: parts add up, collectives stay within what was exposed. */
static int marks_take(void *user, uint64_t number, struct step *const *steps)
{
	struct marks *m = user;

	for (uint32_t row = 0; row < m->n_rows; row++) {
		const struct step *s = steps[row];
		int64_t own = 0, exposed = 0;

		if (!s)
			continue;
		assert_true(m->n < ARRAY_SIZE(m->v));
		for (unsigned p = 0; p < OWN_PARTS; p++)
			own += s->own[p];
		for (uint32_t i = 0; i < s->n_colls; i++)
			exposed += s->colls[i].exposed_ns;
		assert_int_equal(own, s->own_ns);
		assert_int_equal(s->own_ns + s->comm_exposed_ns, s->wall_ns);
		assert_true(exposed <= s->comm_exposed_ns);
		m->v[m->n++] = (struct mark_of){ number, s->mark_ns, row };
	}
	return 0;
}

struct known {
	const char *file;
	int64_t rank, world;
	uint64_t kernels;
	int64_t kernel_ns; /* -1: not stated; of counts NOT_STATED */
	uint64_t collectives;
	int64_t collective_ns;
	uint64_t first_step;
	int64_t marks_ns[6]; /* 0: no more */
};

#define NOT_STATED UINT64_MAX

static const struct known known[] = {
	{ "hta_nccl_parser_config",
	  0,
	  2,
	  2700,
	  -1,
	  21,
	  46876493,
	  4,
	  { 222442191, 219726905, 224936243 } },
	{ "hta_ns_resolution_rank-0",
	  0,
	  1,
	  4350,
	  -1,
	  0,
	  0,
	  101,
	  { 35115869, 72077474, 95697341, 95551087, 95699037 } },
	{ "hta_amd_mi250_rocm62", -1, -1, 14, 110881, 0, 0, 1, { 9288291, 49073 } },
	{ "hta_rank_non_gpu", 0, -1, 0, 0, 0, 0, 1009, { 75473000 } },
	{ "hta_distributed_info_not_found", -1, -1, 0, 0, 0, 0, 1009, { 75473000 } },
	{ "hta_sampled_rank-0", 0, 128, 1154, -1, 10, -1, 551, { 607312000, 622928000 } },
	{ "hta_sampled_rank-1", 1, 128, 1104, -1, NOT_STATED, -1, 551, { 607904000, 630639000 } },
	{ "param_resnet_kineto", -1, -1, 9628, 4103141000, 0, 0, 0, { 0 } },
	{ "tb_resnet50_workers0",
	  -1,
	  -1,
	  NOT_STATED,
	  591532000,
	  0,
	  0,
	  5,
	  { 176078000, 173992000, 176918000, 181259000, 176468000 } },
	{ "tb_resnet50_workers4",
	  -1,
	  -1,
	  NOT_STATED,
	  594868000,
	  0,
	  0,
	  5,
	  { 181565000, 123884000, 126824000, 126272000, 163461000 } },
	{ "tracelens_b200_eager", 0, 8, 768, -1, 1, 21953, 0, { 0 } },
	{ "tracelens_mi300_resnet_act_ckpt",
	  0,
	  8,
	  2995,
	  97255826,
	  17,
	  71516523,
	  15,
	  { 16798984, 15950958, 15887029 } },
	{ "tracelens_vllm_decode_graph", 0, 1, 425, 10674517, 0, 0, 0, { 0 } },
	{ "hta_event_sync_multi_stream", 0, -1, 3, -1, 0, 0, 0, { 0 } },
	{ "hta_mtia_rank_0", 0, 1, 0, -1, NOT_STATED, -1, 1, { 13336315805 } },
	{ "hta_cpu_only_rank-34", 34, 300, 0, 0, NOT_STATED, -1, 551, { 210109162 } },
};

static void known_check(const struct known *k)
{
	char name[256];
	struct traces t;
	const struct rank_info *info;
	struct marks m = { 0 };

	snprintf(name, sizeof(name), "kineto/%s.json.gz", k->file);
	t = traces_read(name);
	print_message("%s\n", k->file);
	info = &t.job->ranks[0];
	m.n_rows = t.job->n_ranks;
	assert_int_equal(t.job->n_ranks, 1);
	assert_int_equal(info->rank, k->rank);
	assert_int_equal(info->world_size, k->world);
	if (k->kernels != NOT_STATED)
		assert_int_equal(info->kernels, k->kernels);
	if (k->kernel_ns >= 0)
		assert_int_equal(info->kernel_ns, k->kernel_ns);
	if (k->collectives != NOT_STATED)
		assert_int_equal(info->collectives, k->collectives);
	if (k->collective_ns >= 0)
		assert_int_equal(info->collective_ns, k->collective_ns);
	assert_int_equal(merge_run(t.merge, marks_take, &m, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(k->marks_ns) && k->marks_ns[i]; i++) {
		assert_int_equal(m.v[i].number, k->first_step + i);
		assert_int_equal(m.v[i].mark_ns, k->marks_ns[i]);
	}
	merge_free(t.merge);
}

static void public_traces_count_as_their_sources_say(void **state)
{
	(void)state;
	if (absent())
		return;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		known_check(&known[i]);
}

static int dlrm_step(void *user, uint64_t number, struct step *const *steps)
{
	static const int64_t us[] = { 14455, 19901, 13017, 19313, 17979, 17797, 13091, 12509 };
	const struct job *job = user;
	int64_t least = INT64_MAX, late = 0;
	uint32_t least_row = NO_ID, late_row = NO_ID;

	assert_int_equal(number, 10);
	for (uint32_t row = 0; row < 8; row++) {
		const struct step *s = steps[row];
		int64_t start = s->start_ns + s->colls[0].start_ns;

		assert_int_equal(s->mark_ns, us[row] * 1000);
		assert_int_equal(s->n_colls, 8);
		assert_true(job->ranks[row].kernels >= 245 && job->ranks[row].kernels <= 315);
		if (job->ranks[row].collective_ns < least) {
			least = job->ranks[row].collective_ns;
			least_row = row;
		}
		if (!row || start > late) {
			late = start;
			late_row = row;
		}
	}
	assert_int_equal(least_row, 7);
	assert_int_equal(least, 1746000);
	assert_int_equal(late_row, 7);
	return 0;
}

static void dlrm_of_eight_ranks_is_read_from_its_archive(void **state)
{
	struct traces t;

	(void)state;
	if (absent())
		return;
	t = traces_read("kineto/dlrm-8rank.tar.gz");
	assert_int_equal(t.job->n_ranks, 8);
	assert_int_equal(t.job->world_size, 8);
	assert_int_equal(t.job->n_groups, 1);
	assert_int_equal(t.job->groups[0].n_rows, 8);
	assert_int_equal(merge_run(t.merge, dlrm_step, t.job, NULL), 0);
	merge_free(t.merge);
}

/* step_ms and collective_ms of a recorded job, rank by rank. */
static void recorded_check(const char *folder)
{
	char path[8192];
	json_t *answer;
	struct traces t;
	struct marks m = { 0 };

	snprintf(path, sizeof(path), "%s/%s/answer.json", shared_folder(), folder);
	answer = json_load_file(path, 0, NULL);
	assert_non_null(answer);
	t = traces_read(folder);
	print_message("%s: %u ranks\n", folder, t.job->n_ranks);
	m.n_rows = t.job->n_ranks;
	assert_int_equal(merge_run(t.merge, marks_take, &m, NULL), 0);
	for (uint32_t row = 0; row < t.job->n_ranks; row++) {
		char rank[24];
		json_t *steps, *sum;
		size_t at = 0;

		snprintf(rank, sizeof(rank), "%d", (int)t.job->ranks[row].rank);
		steps = json_object_get(json_object_get(answer, "step_ms"), rank);
		sum = json_object_get(
		    json_object_get(json_object_get(answer, "collective_ms"), rank), "sum_ms");
		assert_non_null(steps);
		assert_true(fabs((double)t.job->ranks[row].collective_ns / 1e6 -
				 json_number_value(sum)) <= 0.0011);
		for (size_t i = 0; i < m.n; i++) {
			if (m.v[i].row != row)
				continue;
			assert_true(fabs((double)m.v[i].mark_ns / 1e6 -
					 json_number_value(json_array_get(steps, at))) <= 0.00051);
			at++;
		}
		assert_int_equal(at, json_array_size(steps));
	}
	json_decref(answer);
	merge_free(t.merge);
}

static void recorded_jobs_have_the_steps_of_their_answers(void **state)
{
	static const char *const folders[] = {
		"healthy",	 "compute_straggler",  "data_starved",
		"host_stall",	 "checkpoint_step",    "gc_stall",
		"compile_stall", "workload_imbalance", "missing_ranks",
	};

	(void)state;
	if (absent())
		return;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		char name[256];

		snprintf(name, sizeof(name), "cpu-traces/%s", folders[i]);
		recorded_check(name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(public_traces_count_as_their_sources_say),
		cmocka_unit_test(dlrm_of_eight_ranks_is_read_from_its_archive),
		cmocka_unit_test(recorded_jobs_have_the_steps_of_their_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
