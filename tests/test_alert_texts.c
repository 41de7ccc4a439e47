/* SPDX-License-Identifier: Apache-2.0 */
/* test_alert_texts.c - what alerts say: bodies, templates, and what commands are given. */
#include "alert_helpers.h"

static void texts_from_anywhere_become_sound_json(void **state)
{
	json_t *o, *detail = json_object();
	char long_summary[4000];

	(void)state;
	open_plain();
	memset(long_summary, 'x', sizeof(long_summary));
	memcpy(long_summary + 999, "\xc3\xa4", 2); /* a character over the limit */
	long_summary[3999] = '\0';
	json_object_set_new(detail, "culprit", json_string("rank 3"));
	alert_raise(alerts,
		    &(struct alert){ .key = "k", .summary = "a\n\"\xff\xfe", .detail = detail },
		    now, NULL);
	alert_raise(alerts, &(struct alert){ .key = "l", .summary = long_summary }, now, NULL);
	json_decref(detail);
	step_to(now + 1000);
	o = json_loads(got[0].body, 0, NULL);
	assert_string_equal(json_string_value(json_object_get(o, "summary")), "a \"??");
	assert_string_equal(
	    json_string_value(json_object_get(json_object_get(o, "detail"), "culprit")), "rank 3");
	assert_string_equal(json_string_value(json_object_get(o, "time")),
			    "2023-11-14T22:13:20.000Z");
	assert_int_equal(strlen(alerts->ledger.raised.v[1]->summary), 999);
	json_decref(o);
	assert_int_equal(alert_raise(alerts, &(struct alert){ .key = "" }, now, NULL), -EINVAL);
	assert_int_equal(alert_raise(alerts, &(struct alert){ .key = "a\nb" }, now, NULL), -EINVAL);
}

static char *template_file(const char *text, const char *name)
{
	char *path = xasprintf("%s/%s", folder, name);
	FILE *f = fopen(path, "w");

	fputs(text, f);
	fclose(f);
	return path;
}

static void broken_templates_are_refused_with_file_and_line(void **state)
{
	static const struct {
		const char *text, *why;
	} broken[] = {
		{ "{\n \"a\": \"{{sumary}}\"}",
		  "t.json:2: an alert has no \"sumary\"; \"summary\" perhaps?" },
		{ "{\n\n\"a\": \"{{summary}\"}", "t.json:3: \"{{\" without \"}}\"" },
		{ "{{#raised}}\n", "t.json:1: {{#raised}} has no end" },
		{ "{{#raised}}\n{{/resolved}}",
		  "t.json:2: {{/resolved}} where {{/raised}} of line 1" },
		{ "{{/raised}}", "t.json:1: {{/raised}} ends what did not begin" },
		{ "\n{{}}", "t.json:2: \"{{}}\" names no field" },
		{ "{{a..b}}", "t.json:1: \"{{a..b}}\" names no field" },
		{ "{\n\"a\": {{summary}}}",
		  "t.json:2: for an alert that is raised without detail it "
		  "gives no JSON" },
		{ "{{#resolved}}nothing{{/resolved}}{{#raised}}{}{{/raised}}",
		  "t.json:1: for an alert that is resolved" },
		{ "", "it gives no JSON" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
		_cleanup_free_ char *path = template_file(broken[i].text, "t.json");
		struct alert_target t = { .webhook = "http://a.example/", .template = path };
		struct error e = { "" };

		assert_int_equal(
		    open_with((struct alert_plan){ .targets = &t, .n_targets = 1 }, &e), -EINVAL);
		if (!strstr(e.text, broken[i].why))
			fail_msg("\"%s\" is not in \"%s\"", broken[i].why, e.text);
	}
}

static void templates_say_what_they_should(void **state)
{
	_cleanup_free_ char *path = template_file(
	    "{{key}}|{{ summary "
	    "}}|{{raw:summary}}|{{json:summary}}|{{markup:summary}}|{{detail.a.b}}|"
	    "{{detail.none}}|{{json:detail.none}}|{{json:detail}}|{{detail.list}}|{{#detail.a}}A{{#"
	    "raised}}"
	    "R{{/raised}}{{/detail.a}}{{^detail.none}}N{{/detail.none}}{{#resolved}}X{{/resolved}}"
	    "{{#detail.zero}}Z{{/detail.zero}}|{{escalations}}",
	    "t.txt");
	struct alert_target t = { .webhook = "http://a.example/", .template = path };
	json_t *detail = json_pack("{s:{s:i},s:[s],s:i}", "a", "b", 5, "list", "\"", "zero", 0);

	(void)state;
	assert_int_equal(open_with((struct alert_plan){ .targets = &t, .n_targets = 1 }, NULL), 0);
	alert_raise(alerts, &(struct alert){ .key = "k", .summary = "<\"&", .detail = detail }, now,
		    NULL);
	json_decref(detail);
	step_to(now + 1000);
	assert_string_equal(
	    got[0].body,
	    "k|<\\\"&|<\"&|\"<\\\"&\"|&lt;\\\"&amp;|5||null|"
	    "{\"a\":{\"b\":5},\"list\":[\"\\\"\"],\"zero\":0}|[\\\"\\\\\\\"\\\"]|ARN|0");
}

/* --- commands --- */

/* Until so many have ended, well or not. */
static void wait_for_commands(uint64_t ended)
{
	int64_t next;

	alerts_transport(alerts, &(struct alert_transport){ 0 });
	for (int i = 0;
	     i < 500 && alerts_counts(alerts).delivered + alerts_counts(alerts).failed < ended;
	     i++) {
		now += 20;
		alerts_step(alerts, now, 20, &next);
	}
}

static void commands_get_the_body_and_the_environment(void **state)
{
	_cleanup_free_ char *line =
	    xasprintf("cat > %s/body; echo \"$LOCKSTEP_ALERT_KEY $LOCKSTEP_ALERT_WHAT "
		      "$LOCKSTEP_ALERT_SEVERITY "
		      "$LOCKSTEP_ALERT_SUMMARY\" > %s/env; yes | head -c 1000000; sleep 0.05",
		      folder, folder);
	struct alert_target t = { .command = line };
	_cleanup_free_ char *env = xasprintf("%s/env", folder),
			    *body = xasprintf("%s/body", folder);
	char text[600] = "";
	json_t *o;
	FILE *f;

	(void)state;
	assert_int_equal(open_with((struct alert_plan){ .targets = &t, .n_targets = 1 }, NULL), 0);
	raise_it("hung", ALERT_CRITICAL);
	wait_for_commands(1);
	assert_int_equal(alerts_counts(alerts).delivered, 1);
	f = fopen(env, "r");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	assert_string_equal(text, "hung raised critical it hangs\n");
	o = json_load_file(body, 0, NULL);
	assert_string_equal(json_string_value(json_object_get(o, "incident")), "lockstep/llm/hung");
	json_decref(o);
}

static void commands_that_fail_or_hang_are_tried_again(void **state)
{
	static const struct {
		const char *line, *why;
	} cases[] = {
		{ "echo no mail today >&2; exit 3", "it ended with 3: no mail today" },
		{ "kill -9 $$", "signal 9 ended it" },
		{ "trap '' TERM; sleep 100 & sleep 100", "no end in time, killed" },
		{ "/no/such/program", "it ended with 127" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct alert_target t = { .command = cases[i].line };
		struct alert_plan plan = {
			.targets = &t, .n_targets = 1, .answer_ms = 300, .retry_ms = 100000
		};

		assert_int_equal(open_with(plan, NULL), 0);
		raise_it("hung", ALERT_CRITICAL);
		raise_it(i % 2 ? "a" : "b", ALERT_CRITICAL); /* each case is another target */
		wait_for_commands(2);
		assert_true(alerts_counts(alerts).waiting > 0);
		assert_int_equal(alerts_counts(alerts).delivered, 0);
		if (!strstr(alerts_counts(alerts).last_error, cases[i].why))
			fail_msg("\"%s\" is not in \"%s\"", cases[i].why,
				 alerts_counts(alerts).last_error);
		close_all();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CLAIM(texts_from_anywhere_become_sound_json),
		CLAIM(broken_templates_are_refused_with_file_and_line),
		CLAIM(templates_say_what_they_should),
		CLAIM(commands_get_the_body_and_the_environment),
		CLAIM(commands_that_fail_or_hang_are_tried_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
