/* SPDX-License-Identifier: Apache-2.0 */
/* test_survey.c - what lies in a path: by content, in order of name, nothing opened that may hang.
 */
#include "read_helpers.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "read/survey.h"

static char root[64];

static int make_root(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/lockstep-survey-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	return system(command);
}

static char *in_root(const char *name)
{
	return xasprintf("%s/%s", root, name);
}

static void put_bytes(const char *name, const void *bytes, size_t len)
{
	_cleanup_free_ char *path = in_root(name);
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static void put_text(const char *name, const char *text)
{
	put_bytes(name, text, strlen(text));
}

static void put_folder(const char *name)
{
	_cleanup_free_ char *path = in_root(name);

	assert_int_equal(mkdir(path, 0700), 0);
}

static void survey_root(struct survey *s)
{
	char *paths[] = { root };

	assert_int_equal(survey_paths(s, paths, 1, NULL), 0);
}

/* The input of a name inside the root; fails if there is none. */
static const struct survey_input *find(const struct survey *s, const char *name)
{
	_cleanup_free_ char *path = in_root(name);

	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->inputs[i].path, path))
			return &s->inputs[i];
	fail_msg("%s was not found", name);
	return NULL;
}

static void kind_is_told_from_the_content(void **state)
{
	static const struct {
		const char *name, *text;
		enum input_kind kind;
	} rows[] = {
		{ "a.txt", "{\"schemaVersion\": 1, \"traceEvents\": [", INPUT_KINETO },
		{ "b", "\xef\xbb\xbf \n{\"schemaVersion\": 1, \"deviceProperties\": []",
		  INPUT_KINETO },
		{ "c", "[{\"ph\": \"X\", \"cat\": \"cpu_op\"}]", INPUT_KINETO },
		{ "d.json", "[{\"ph\": \"X\", \"cat\": \"mine\"}]", INPUT_OTHER },
		{ "e.json", "{\"answer\": 42}", INPUT_OTHER },
		{ "f.json.gz", "{\"traceEvents\": []}", INPUT_KINETO },
		{ "g.json", "LKSTEP1\n\001", INPUT_LKS },
		{ "h.json", "PK\003\004", INPUT_ARCHIVE },
		{ "i.pt.trace.json", "hello", INPUT_WITNESS }, /* any text may be a log */
		{ "j", "\001\002 bytes", INPUT_OTHER },
	};
	struct survey s;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		put_text(rows[i].name, rows[i].text);
	(void)state;
	survey_root(&s);
	assert_int_equal(s.n, ARRAY_SIZE(rows));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct survey_input *in = find(&s, rows[i].name);

		if (in->kind != rows[i].kind)
			fail_msg("%s is of kind %d", rows[i].name, (int)in->kind);
		assert_int_equal(in->size_bytes, strlen(rows[i].text));
		assert_int_equal(in->kind == INPUT_OTHER, in->why != NULL);
		assert_false(in->said); /* unrelated files are not worth a line */
	}
	survey_done(&s);
}

static void order_is_that_of_names(void **state)
{
	struct survey s;
	char *paths[3];

	(void)state;
	put_folder("b");
	put_text("b/z", "x");
	put_text("b/a", "x");
	put_text("c", "x");
	put_text("a", "x");
	paths[0] = in_root("c");
	paths[1] = root;
	paths[2] = in_root("b");
	assert_int_equal(survey_paths(&s, paths, 3, NULL), 0);
	assert_int_equal(s.n, 4); /* each once, though given twice */
	for (size_t i = 1; i < s.n; i++)
		assert_true(strcmp(s.inputs[i - 1].path, s.inputs[i].path) < 0);
	survey_done(&s);
	free(paths[0]);
	free(paths[2]);
}

static void what_may_hang_is_not_opened(void **state)
{
	_cleanup_free_ char *fifo = in_root("fifo"), *device = in_root("zero"),
			    *gone = in_root("gone");
	struct survey s;

	(void)state;
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(symlink("/dev/zero", device), 0);
	assert_int_equal(symlink("nowhere", gone), 0);
	put_text("empty", "");
	survey_root(&s);
	assert_string_equal(find(&s, "fifo")->why, "not opened: a FIFO");
	assert_string_equal(find(&s, "zero")->why, "not opened: a device");
	assert_string_equal(find(&s, "gone")->why, "cannot be reached: No such file or directory");
	assert_string_equal(find(&s, "empty")->why, "an empty file");
	for (size_t i = 0; i < s.n; i++)
		assert_true(s.inputs[i].said);
	survey_done(&s);
}

static void unreadable_file_is_said(void **state)
{
	struct survey s;
	char *path;

	(void)state;
	if (!geteuid()) {
		print_message("skipped: root may read everything\n");
		skip();
	}
	path = in_root("secret");
	put_text("secret", "{\"traceEvents\": []}");
	assert_int_equal(chmod(path, 0), 0);
	free(path);
	survey_root(&s);
	assert_int_equal(s.inputs[0].kind, INPUT_OTHER);
	assert_string_equal(s.inputs[0].why, "cannot be opened: Permission denied");
	assert_true(s.inputs[0].said);
	survey_done(&s);
}

static void loops_of_links_end(void **state)
{
	_cleanup_free_ char *up = in_root("a/up"), *self = in_root("self");
	struct survey s;

	(void)state;
	put_folder("a");
	put_text("a/trace", "{\"traceEvents\": []}");
	assert_int_equal(symlink("..", up), 0);
	assert_int_equal(symlink("self", self), 0);
	survey_root(&s);
	assert_int_equal(s.n, 2);
	assert_int_equal(find(&s, "a/trace")->kind, INPUT_KINETO);
	assert_string_equal(find(&s, "self")->why,
			    "cannot be reached: Too many levels of symbolic links");
	survey_done(&s);
}

static void missing_path_is_an_error(void **state)
{
	char *paths[] = { root, in_root("nothing") };
	struct error e = { 0 };
	struct survey s;

	(void)state;
	assert_int_equal(survey_paths(&s, paths, 2, &e), -ENOENT);
	assert_non_null(strstr(e.text, "/nothing: No such file"));
	free(paths[1]);
}

static void many_files_need_few_descriptors(void **state)
{
	const struct rlimit few = { .rlim_cur = 32, .rlim_max = 32 };
	struct rlimit before;
	struct survey s;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "rank%d.json", i);
		put_text(name, "{\"traceEvents\": []}");
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(
	    setrlimit(RLIMIT_NOFILE, &(struct rlimit){ few.rlim_cur, before.rlim_max }), 0);
	survey_root(&s);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(s.n, 2000);
	for (size_t i = 0; i < s.n; i++)
		assert_int_equal(s.inputs[i].kind, INPUT_KINETO);
	survey_done(&s);
}

static void rank_is_found_in_names(void **state)
{
	static const struct {
		const char *path;
		int64_t rank;
	} rows[] = {
		{ "rank-3.json", 3 },
		{ "rank3.json.gz", 3 },
		{ "/x/rank_3.pt.trace.json", 3 },
		{ "RANK_12", 12 },
		{ "hta_sampled_rank-0.json.gz", 0 },
		{ "hta_mtia_rank_0.json.gz", 0 },
		{ "kineto_trace_rank_10.json.gz", 10 },
		{ "rank0_iter16_18.json", 0 },
		{ "trace.rank00007.json", 7 },
		{ "worker_12.json", 12 },
		{ "worker12.pt.trace.json", 12 },
		{ "worker0_step_110.1747364549040.pt.trace.json.gz", 0 },
		{ "dlrm.tar.gz:dlrm_kineto/worker2_step_12.1694128201554.pt.trace.json", 2 },
		{ "dlrm.tar.gz:rank5.json", 5 },
		{ "run/rank3/trace.json", 3 },
		{ "rank_11/gpu-node-086_1117604.1747973049804478000.pt.trace.json", 11 },
		/* No ranks: hosts, processes, times, counts of workers, places in a node. */
		{ "gpu-node-086_1117604.1747973049804478000.pt.trace.json.gz", -1 },
		{ "job-worker-3_71.1747973049804.pt.trace.json", -1 },
		{ "tb_resnet50_workers0.json.gz", -1 },
		{ "hta_rank_non_gpu.json.gz", -1 },
		{ "local_rank3.json", -1 },
		{ "frank3.json", -1 },
		{ "trace_12.json", -1 },
		{ "rank3/run/trace.json", -1 },
		{ "rank99999999999.json", -1 },
		{ "", -1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (survey_rank_of_name(rows[i].path) != rows[i].rank)
			fail_msg("%s: %" PRId64, rows[i].path, survey_rank_of_name(rows[i].path));
}

static void host_is_found_in_names(void **state)
{
	static const struct {
		const char *path, *host;
	} rows[] = {
		{ "/x/gpu-node-086_1117604.1747973049804478000.pt.trace.json.gz", "gpu-node-086" },
		{ "a.b.example_12.1747973049804.pt.trace.json", "a.b.example" },
		{ "worker7_step_12.1694128201554.pt.trace.json", NULL },
		{ "rank3.1747973049804.pt.trace.json", NULL },
		{ "rank3.json", NULL },
		{ ".pt.trace.json", NULL },
		{ "_1.2.pt.trace.json", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *host = NULL;
		size_t len = 0;

		assert_int_equal(survey_host_of_name(rows[i].path, &host, &len),
				 rows[i].host != NULL);
		if (rows[i].host) {
			assert_int_equal(len, strlen(rows[i].host));
			assert_memory_equal(host, rows[i].host, len);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(kind_is_told_from_the_content, make_root,
						remove_root),
		cmocka_unit_test_setup_teardown(order_is_that_of_names, make_root, remove_root),
		cmocka_unit_test_setup_teardown(what_may_hang_is_not_opened, make_root,
						remove_root),
		cmocka_unit_test_setup_teardown(unreadable_file_is_said, make_root, remove_root),
		cmocka_unit_test_setup_teardown(loops_of_links_end, make_root, remove_root),
		cmocka_unit_test_setup_teardown(missing_path_is_an_error, make_root, remove_root),
		cmocka_unit_test_setup_teardown(many_files_need_few_descriptors, make_root,
						remove_root),
		cmocka_unit_test(rank_is_found_in_names),
		cmocka_unit_test(host_is_found_in_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
