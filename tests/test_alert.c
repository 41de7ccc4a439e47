/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_alert.c - alerts on a clock of the test's own and to receivers of its own: what is raised
 * arrives once, in order, whatever receivers, disks and restarts do.
 */
#include "alert_helpers.h"

#include <signal.h>
#include <sys/resource.h>

static const struct alert_target two[] = { { .webhook = "http://a.example/hook" },
					   { .webhook = "http://b.example/hook",
					     .least = ALERT_CRITICAL } };

static void raised_once_and_resolved_once(void **state)
{
	(void)state;
	open_plain();
	assert_int_equal(raise_it("hung", ALERT_CRITICAL), 1);
	assert_int_equal(raise_it("hung", ALERT_CRITICAL), 0);
	assert_int_equal(raise_it("hung", ALERT_WARNING), 0);
	assert_true(alert_is_raised(alerts, "hung"));
	step_to(now + 1000);
	assert_int_equal(clear_it("hung"), 1);
	assert_int_equal(clear_it("hung"), 0);
	assert_int_equal(clear_it("other"), 0);
	step_to(now + 1000);
	assert_int_equal(n_got, 2);
	assert_int_equal(got[0].what, ALERT_RAISED);
	assert_int_equal(got[1].what, ALERT_RESOLVED);
	assert_string_not_equal(got[0].id, got[1].id);
	assert_int_equal(alerts_counts(alerts).delivered, 2);
	assert_int_equal(alerts_counts(alerts).waiting, 0);
	assert_int_equal(alerts_counts(alerts).raised, 0);
}

static void more_severe_is_news_and_less_is_not(void **state)
{
	(void)state;
	assert_int_equal(open_with((struct alert_plan){ .targets = two, .n_targets = 2 }, NULL), 0);
	raise_it("slow", ALERT_WARNING);
	step_to(now + 1000);
	assert_int_equal(n_got, 1); /* the second wants critical ones only */
	assert_int_equal(raise_it("slow", ALERT_CRITICAL), 1);
	step_to(now + 1000);
	assert_int_equal(n_got, 3);
	assert_int_equal(got[2].what, ALERT_ESCALATED);
	clear_it("slow");
	step_to(now + 1000);
	assert_int_equal(n_got, 5);
}

static void what_lasts_is_escalated_three_times(void **state)
{
	(void)state;
	assert_int_equal(open_with((struct alert_plan){ .escalate_ms = 600000 }, NULL), 0);
	raise_it("slow", ALERT_INFO);
	step_to(now + 3 * HOUR_MS);
	assert_int_equal(n_got, 4);
	for (size_t i = 1; i < 4; i++) {
		assert_int_equal(got[i].what, ALERT_ESCALATED);
		assert_int_equal(got[i].severity, MIN(i, ALERT_CRITICAL));
		assert_in_range(got[i].at_ms - got[0].at_ms, i * 600000, i * 600000 + 1000);
	}
}

static int broken_until_ms;
static int64_t began_ms;

static struct web_answer down_for_an_hour(const struct flight *f)
{
	(void)f;
	if (now - began_ms < broken_until_ms)
		return (struct web_answer){ .error = -ECONNREFUSED,
					    .why = "http://a.example: refused",
					    .retry_after_ms = -1 };
	return answers(200);
}

static size_t count_yes(const char *key, enum alert_what what)
{
	size_t n = 0;

	for (size_t i = 0; i < n_got; i++)
		n += got[i].at_ms - began_ms >= broken_until_ms && !strcmp(got[i].key, key) &&
		     got[i].what == what;
	return n;
}

static void a_receiver_that_is_down_for_an_hour_gets_all_in_order(void **state)
{
	static const char *const keys[] = { "a", "b", "c", "d", "e", "f" };

	(void)state;
	open_plain();
	began_ms = now;
	broken_until_ms = HOUR_MS;
	reply = down_for_an_hour;
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
			assert_int_equal(raise_it(keys[i], ALERT_WARNING), 1);
			step_to(now + 60000);
			assert_int_equal(clear_it(keys[i]), 1);
			step_to(now + 60000);
		}
	step_to(began_ms + HOUR_MS - 1);
	assert_int_equal(alerts_counts(alerts).delivered, 0);
	assert_int_equal(alerts_counts(alerts).waiting, 24);
	assert_in_range(n_got, 10,
			40); /* tries in an hour: it backs off, and is asked one at a time */
	step_to(began_ms + HOUR_MS + 300000 * 5 / 4 + 10000); /* the longest back-off */
	assert_int_equal(alerts_counts(alerts).waiting, 0);
	assert_int_equal(alerts_counts(alerts).delivered, 24);
	for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
		int expected = ALERT_RAISED;

		assert_int_equal(count_yes(keys[k], ALERT_RAISED), 2);
		assert_int_equal(count_yes(keys[k], ALERT_RESOLVED), 2);
		for (size_t i = 0; i < n_got; i++)
			if (got[i].at_ms - began_ms >= HOUR_MS && !strcmp(got[i].key, keys[k])) {
				assert_int_equal(got[i].what, expected);
				expected = expected == ALERT_RAISED ? ALERT_RESOLVED : ALERT_RAISED;
			}
	}
}

static int status_said;
static int64_t retry_after;

static struct web_answer say_status(const struct flight *f)
{
	struct web_answer a = answers(status_said);

	(void)f;
	a.retry_after_ms = retry_after;
	return a;
}

static void retry_after_is_honoured(void **state)
{
	(void)state;
	open_plain();
	reply = say_status;
	status_said = 429;
	retry_after = 1800000;
	raise_it("hung", ALERT_CRITICAL);
	step_to(now + 1799000);
	assert_int_equal(n_got, 1);
	status_said = 200;
	step_to(now + 10000);
	assert_int_equal(n_got, 2);
	assert_string_equal(got[0].id, got[1].id);
	assert_string_equal(got[0].body, got[1].body);
}

static void refusals_are_given_up_after_five_and_access_never(void **state)
{
	static const int access[] = { 301, 401, 403, 404, 408, 500, 503 };

	(void)state;
	open_plain();
	reply = say_status;
	retry_after = -1;
	status_said = 400;
	raise_it("bad", ALERT_CRITICAL);
	step_to(now + HOUR_MS);
	assert_int_equal(n_got, 5);
	assert_int_equal(alerts_counts(alerts).refused, 1);
	assert_int_equal(alerts_counts(alerts).waiting, 0);
	assert_non_null(strstr(alerts_counts(alerts).last_error, "refuses alert \"bad\" with 400"));
	for (size_t i = 0; i < ARRAY_SIZE(access); i++) {
		status_said = access[i];
		raise_it("good", ALERT_CRITICAL);
		step_to(now + HOUR_MS);
		assert_int_equal(alerts_counts(alerts).waiting, 1);
		status_said = 200;
		clear_it("good");
		step_to(now + HOUR_MS);
		assert_int_equal(alerts_counts(alerts).waiting, 0);
		assert_int_equal(alerts_counts(alerts).refused, 1);
	}
}

static struct web_answer chokes_on_bad(const struct flight *f)
{
	return answers(f->event && !strcmp(f->event->key, "bad") ? 500 : 200);
}

static void an_event_that_a_receiver_chokes_on_holds_up_only_its_own_alert(void **state)
{
	(void)state;
	open_plain();
	reply = chokes_on_bad;
	raise_it("bad", ALERT_CRITICAL);
	clear_it("bad");
	for (int i = 0; i < 20; i++) {
		raise_it("good", ALERT_CRITICAL);
		step_to(now + 20000);
		clear_it("good");
		step_to(now + 20000);
	}
	assert_int_equal(alerts_counts(alerts).delivered, 40);
	assert_int_equal(alerts_counts(alerts).waiting, 2);
	for (size_t i = 0; i < n_got; i++)
		assert_false(!strcmp(got[i].key, "bad") && got[i].what == ALERT_RESOLVED);
}

static struct web_answer never(const struct flight *f)
{
	(void)f;
	return (struct web_answer){ .status = -1 };
}

static void a_restart_goes_on_with_the_same_ids(void **state)
{
	char first[LEDGER_ID_MOST];

	(void)state;
	open_plain();
	reply = never;
	raise_it("hung", ALERT_CRITICAL);
	clear_it("hung");
	raise_it("late", ALERT_WARNING);
	step_to(now + 100);
	assert_int_equal(n_got, 2); /* hung's resolution waits for its raise */
	strcpy(first, got[0].id);
	close_all();
	n_got = 0;
	reply = say_yes;
	open_plain();
	assert_true(alert_is_raised(alerts, "late"));
	assert_false(alert_is_raised(alerts, "hung"));
	assert_int_equal(raise_it("late", ALERT_WARNING), 0);
	step_to(now + 1000);
	assert_int_equal(n_got, 3);
	assert_string_equal(got[0].id, first);
	close_all();
	n_got = 0;
	open_plain();
	step_to(now + HOUR_MS);
	assert_int_equal(n_got, 0);
	assert_true(alert_is_raised(alerts, "late"));
	clear_it("late");
	step_to(now + 1000);
	assert_int_equal(n_got, 1);
}

static void a_new_target_hears_what_is_raised_and_a_gone_one_nothing(void **state)
{
	static const struct alert_target other[] = { { .webhook = "http://c.example/hook" } };
	struct alert_plan plan = { .targets = other, .n_targets = 1 };

	(void)state;
	open_plain();
	reply = say_status;
	status_said = 404;
	retry_after = -1;
	raise_it("hung", ALERT_CRITICAL);
	raise_it("over", ALERT_CRITICAL);
	clear_it("over");
	step_to(now + 60000);
	close_all();
	n_got = 0;
	reply = say_yes;
	assert_int_equal(open_with(plan, NULL), 0);
	assert_int_equal(alerts_counts(alerts).dropped, 3);
	step_to(now + HOUR_MS);
	assert_int_equal(n_got, 1);
	assert_string_equal(got[0].key, "hung");
	assert_string_equal(got[0].target, "http://c.example/hook");
}

static void old_ones_are_given_up_and_counted(void **state)
{
	(void)state;
	assert_int_equal(open_with((struct alert_plan){ .keep_hours = 48 }, NULL), 0);
	reply = say_status;
	status_said = 503;
	retry_after = -1;
	raise_it("hung", ALERT_CRITICAL);
	step_to(now + 47 * HOUR_MS);
	assert_int_equal(alerts_counts(alerts).waiting, 1);
	step_to(now + 2 * HOUR_MS);
	assert_int_equal(alerts_counts(alerts).waiting, 0);
	assert_int_equal(alerts_counts(alerts).dropped, 1);
	assert_true(alert_is_raised(alerts, "hung"));
}

static void clocks_that_step_lose_nothing(void **state)
{
	(void)state;
	open_plain();
	reply = say_status;
	status_said = 503;
	retry_after = -1;
	raise_it("hung", ALERT_CRITICAL);
	step_to(now + 60000);
	now += 1000 * 24 * HOUR_MS;
	step_to(now + 60000);
	assert_int_equal(alerts_counts(alerts).waiting, 1);
	now -= 2000 * 24 * HOUR_MS;
	step_to(now + 60000);
	status_said = 200;
	step_to(now + 400000);
	assert_int_equal(alerts_counts(alerts).waiting, 0);
	assert_int_equal(alerts_counts(alerts).delivered, 1);
}

static void too_many_are_bounded_and_counted(void **state)
{
	char key[32];

	(void)state;
	open_plain();
	reply = say_status;
	status_said = 503;
	retry_after = -1;
	step_to(now + 1);
	for (int i = 0; i < 1400; i++) {
		snprintf(key, sizeof(key), "k%d", i % 700);
		if (!alert_is_raised(alerts, key))
			raise_it(key, ALERT_WARNING);
		else
			clear_it(key);
		if (i % 700 == 699)
			step_to(now + 1000);
	}
	assert_int_equal(alerts_counts(alerts).waiting, 1400);
	for (int i = 0; i < 1500; i++) {
		snprintf(key, sizeof(key), "k%d", i % 700);
		raise_it(key, ALERT_WARNING);
		clear_it(key);
	}
	assert_in_range(alerts_counts(alerts).waiting, LEDGER_EVENTS_MOST - 1200,
			LEDGER_EVENTS_MOST);
	assert_true(alerts_counts(alerts).dropped > 200);
	assert_in_range(alerts->journal.bytes, 0, 8 << 20);
}

static void heartbeats_go_while_the_watcher_sees(void **state)
{
	struct alert_plan plan = { .heartbeat = "http://dead.example/ping", .heartbeat_ms = 60000 };

	(void)state;
	assert_int_equal(open_with(plan, NULL), 0);
	step_to(now + HOUR_MS);
	assert_int_equal(n_got, 0);
	alerts_alive(alerts, true);
	step_to(now + HOUR_MS);
	assert_in_range(n_got, 60, 61);
	assert_string_equal(got[0].target, "http://dead.example/ping");
	assert_string_equal(got[0].body, "");
	alerts_alive(alerts, false);
	n_got = 0;
	step_to(now + HOUR_MS);
	assert_int_equal(n_got, 0);
	alerts_alive(alerts, true);
	step_to(now + 1000);
	assert_int_equal(n_got, 1);
	reply = say_status;
	status_said = 500;
	retry_after = -1;
	n_got = 0;
	step_to(now + 600000);
	assert_in_range(n_got, 35, 41); /* every 15 s */
	assert_true(alerts_counts(alerts).heartbeats_failed >= 35);
}

/* --- the disk --- */

static void a_torn_tail_and_broken_lines_cost_what_they_say(void **state)
{
	_cleanup_free_ char *path = xasprintf("%s/alerts.log", folder);
	struct stat st;
	int fd;

	(void)state;
	open_plain();
	reply = never;
	raise_it("a", ALERT_WARNING);
	raise_it("b", ALERT_WARNING);
	raise_it("c", ALERT_WARNING);
	close_all();
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size - 20), 0);
	open_plain();
	assert_int_equal(alerts_counts(alerts).waiting, 2);
	assert_int_equal(alerts_counts(alerts).damaged, 0);
	raise_it("d", ALERT_WARNING); /* not behind the torn line */
	close_all();
	fd = open(path, O_RDWR);
	assert_int_equal(pwrite(fd, "#", 1, 200), 1); /* in b's or a's line */
	close(fd);
	open_plain();
	assert_int_equal(alerts_counts(alerts).damaged, 1);
	assert_int_equal(alerts_counts(alerts).waiting, 2);
	assert_true(alert_is_raised(alerts, "d"));
}

static void a_disk_that_refuses_is_told_and_tried_again(void **state)
{
	struct rlimit before, none;
	struct error e = { "" };

	(void)state;
	open_plain();
	getrlimit(RLIMIT_FSIZE, &before);
	none = before;
	none.rlim_cur = 100;
	setrlimit(RLIMIT_FSIZE, &none);
	assert_int_equal(
	    alert_raise(alerts, &(struct alert){ .key = "hung", .summary = "x" }, now, &e), 1);
	assert_non_null(strstr(e.text, "File too large; alerts are in memory only"));
	assert_true(alerts_counts(alerts).unsaved);
	step_to(now + 1000);
	assert_int_equal(n_got, 1); /* and goes out all the same */
	raise_it("other", ALERT_WARNING);
	setrlimit(RLIMIT_FSIZE, &before);
	step_to(now + 40000);
	assert_false(alerts_counts(alerts).unsaved);
	close_all();
	open_plain();
	assert_true(alert_is_raised(alerts, "hung"));
	assert_true(alert_is_raised(alerts, "other"));
	assert_int_equal(alerts_counts(alerts).damaged, 0);
	assert_int_equal(alerts_counts(alerts).waiting, 0);
}

static void what_is_no_folder_for_this_is_refused(void **state)
{
	struct error e = { "" };
	struct alerts *second = NULL;
	struct alert_plan plan = { .state = folder, .targets = one, .n_targets = 1 };
	_cleanup_free_ char *file = xasprintf("%s/file", folder),
			    *below = xasprintf("%s/no/folder", folder);

	(void)state;
	open_plain();
	assert_int_equal(alerts_open(&plan, now, &second, &e), -EBUSY);
	assert_non_null(strstr(e.text, "another watcher"));
	close(open(file, O_CREAT | O_WRONLY, 0600));
	plan.state = file;
	assert_int_equal(alerts_open(&plan, now, &second, &e), -ENOTDIR);
	plan.state = below;
	assert_int_equal(alerts_open(&plan, now, &second, &e), -ENOENT);
	close_all();
	chmod(folder, 0777);
	plan.state = folder;
	assert_int_equal(alerts_open(&plan, now, &second, &e), -ENOTSUP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CLAIM(raised_once_and_resolved_once),
		CLAIM(more_severe_is_news_and_less_is_not),
		CLAIM(what_lasts_is_escalated_three_times),
		CLAIM(a_receiver_that_is_down_for_an_hour_gets_all_in_order),
		CLAIM(retry_after_is_honoured),
		CLAIM(refusals_are_given_up_after_five_and_access_never),
		CLAIM(an_event_that_a_receiver_chokes_on_holds_up_only_its_own_alert),
		CLAIM(a_restart_goes_on_with_the_same_ids),
		CLAIM(a_new_target_hears_what_is_raised_and_a_gone_one_nothing),
		CLAIM(old_ones_are_given_up_and_counted),
		CLAIM(clocks_that_step_lose_nothing),
		CLAIM(too_many_are_bounded_and_counted),
		CLAIM(heartbeats_go_while_the_watcher_sees),
		CLAIM(a_torn_tail_and_broken_lines_cost_what_they_say),
		CLAIM(a_disk_that_refuses_is_told_and_tried_again),
		CLAIM(what_is_no_folder_for_this_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
