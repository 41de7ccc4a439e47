/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_alert.c - alerts on a clock of the test's own and to receivers of its own: what is raised
 * arrives once, in order, whatever receivers, disks and restarts do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job/alert_inside.h"

#define HOUR_MS (3600 * (int64_t)1000)

/* --- receivers --- */

struct arrival {
	int64_t at_ms;
	char body[1024], id[LEDGER_ID_MOST], key[64];
	enum alert_what what;
	enum alert_severity severity;
	const char *target;
};
static struct arrival got[8192];
static size_t n_got;
static struct flight *held[64];
static size_t n_held;
static struct web_answer (*reply)(const struct flight *f); /* .status -1: it never answers */
static struct alerts *alerts;
static int64_t now;
static char folder[64];

static struct web_answer answers(int status)
{
	return (struct web_answer){ .status = status, .why = "", .retry_after_ms = -1 };
}

static struct web_answer say_yes(const struct flight *f)
{
	(void)f;
	return answers(200);
}

static int receive(void *user, struct flight *f, const struct buf *body, struct error *reterr)
{
	struct arrival *a = &got[n_got % ARRAY_SIZE(got)];

	(void)user;
	(void)reterr;
	*a = (struct arrival){ .at_ms = now, .target = f->target->webhook };
	snprintf(a->body, sizeof(a->body), "%.*s", (int)body->len,
		 body->data ? (char *)body->data : "");
	if (f->event) {
		snprintf(a->id, sizeof(a->id), "%s", f->event->id);
		snprintf(a->key, sizeof(a->key), "%.60s", f->event->key);
		a->what = f->event->what;
		a->severity = f->event->severity;
	}
	n_got++;
	held[n_held++] = f;
	return 0;
}

/* Answers what was asked. */
static void reply_all(void)
{
	size_t n = n_held;

	n_held = 0;
	for (size_t i = 0; i < n; i++) {
		struct web_answer a = reply(held[i]);

		if (a.status == -1)
			held[n_held++] = held[i];
		else
			flight_done(held[i], &a);
	}
}

static void step_to(int64_t end)
{
	do {
		int64_t next;
		size_t before;

		do {
			before = n_got;
			alerts_step(alerts, now, 0, &next);
			reply_all();
		} while (n_got != before);
		if (n_held && next <= now + 50)
			next = now + 1000;
		now = MIN(MAX(next, now + 1), end);
	} while (now < end);
}

/* --- a watcher --- */

static const struct alert_target one[] = { { .webhook = "http://a.example/hook" } };
static const struct alert_target two[] = { { .webhook = "http://a.example/hook" },
					   { .webhook = "http://b.example/hook",
					     .least = ALERT_CRITICAL } };

static int open_with(struct alert_plan plan, struct error *e)
{
	int r;

	plan.state = folder;
	plan.job = plan.job ? plan.job : "llm";
	plan.host = "watch1";
	if (!plan.targets) {
		plan.targets = one;
		plan.n_targets = 1;
	}
	r = alerts_open(&plan, now, &alerts, e);
	if (r >= 0)
		alerts_transport(alerts, &(struct alert_transport){ .start = receive });
	return r;
}

static void open_plain(void)
{
	struct error e = { "" };

	if (open_with((struct alert_plan){ 0 }, &e) != 0)
		fail_msg("%s", e.text);
}

static void close_all(void)
{
	n_held = 0;
	alerts = alerts_close(alerts);
}

static int raise_it(const char *key, enum alert_severity s)
{
	struct error e;

	return alert_raise(
	    alerts, &(struct alert){ .key = key, .severity = s, .summary = "it hangs" }, now, &e);
}

static int clear_it(const char *key)
{
	struct error e;

	return alert_clear(alerts, key, "it is over", now, &e);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static int begin(void **state)
{
	(void)state;
	/* in memory if there is such a place: syncs cost nothing there */
	snprintf(folder, sizeof(folder), "%s/lockstep-test-alert.XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	n_got = n_held = 0;
	now = 1700000000000;
	reply = say_yes;
	return mkdtemp(folder) == NULL;
}

static int end(void **state)
{
	(void)state;
	close_all();
	return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* --- claims --- */

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
	step_to(began_ms + HOUR_MS + 6 * 60000);
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

/* --- texts --- */

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

static void wait_for_commands(unsigned ms)
{
	int64_t next;

	alerts_transport(alerts, &(struct alert_transport){ 0 });
	for (unsigned i = 0; i < ms / 20; i++) {
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
	wait_for_commands(1000);
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
		wait_for_commands(800);
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
#define CLAIM(f) cmocka_unit_test_setup_teardown(f, begin, end)
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
		CLAIM(texts_from_anywhere_become_sound_json),
		CLAIM(broken_templates_are_refused_with_file_and_line),
		CLAIM(templates_say_what_they_should),
		CLAIM(commands_get_the_body_and_the_environment),
		CLAIM(commands_that_fail_or_hang_are_tried_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
