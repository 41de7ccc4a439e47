/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert_driver.c - alerts driven by lines on standard input, for tests that kill it at any moment.
 *
 *   raise KEY SEVERITY SUMMARY..   clear KEY SUMMARY..   alive 0|1   skip MS (the clock)   counts
 *
 * Each line is answered by one, after it was done: "done 0|1 [why]" or the counts as JSON. At its
 * start it says "raised KEY" for each that is, then "ready [why]".
 */
#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "alert/alert.h"

static int64_t skipped_ms;
static struct alerts *alerts;

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000 + skipped_ms;
}

static void say_counts(void)
{
	struct alert_counts c = alerts_counts(alerts);
	json_t *o = json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:b,s:s}", "raised",
			      (json_int_t)c.raised, "waiting", (json_int_t)c.waiting, "delivered",
			      (json_int_t)c.delivered, "failed", (json_int_t)c.failed, "heartbeats",
			      (json_int_t)c.heartbeats, "heartbeats_failed",
			      (json_int_t)c.heartbeats_failed, "refused", (json_int_t)c.refused,
			      "dropped", (json_int_t)c.dropped, "damaged", (json_int_t)c.damaged,
			      "unsaved", (int)c.unsaved, "last_error", c.last_error);

	json_dumpf(o, stdout, JSON_COMPACT);
	json_decref(o);
	puts("");
}

static int change(const char *verb, const char *key, char *rest, struct error *e)
{
	struct alert alert = { .key = key };
	char *severity;
	int r;

	if (!strcmp(verb, "clear"))
		return alert_clear(alerts, key, rest, now_ms(), e);
	severity = strsep(&rest, " ");
	alert.severity = (enum alert_severity)strtol(severity ? severity : "0", NULL, 10);
	alert.summary = rest;
	alert.detail = json_pack("{s:{s:i}}", "culprit", "rank", 3);
	r = alert_raise(alerts, &alert, now_ms(), e);
	json_decref(alert.detail);
	return r;
}

static void obey(char *line)
{
	struct error e = { "" };
	char *verb = strsep(&line, " "), *key = strsep(&line, " ");

	if (!strcmp(verb, "counts")) {
		say_counts();
	} else if (!strcmp(verb, "skip")) {
		skipped_ms += strtoll(key, NULL, 10);
		puts("done 0");
	} else if (!strcmp(verb, "alive")) {
		alerts_alive(alerts, *key == '1');
		puts("done 0");
	} else {
		int r = change(verb, key, line, &e);

		printf("done %d %s\n", r, e.text);
	}
	fflush(stdout);
}

/* Whole lines of what has come; false: its end. */
static bool listen_once(void)
{
	static char text[65536];
	static size_t len;
	struct pollfd p = { 0, POLLIN, 0 };
	ssize_t n;
	char *newline;

	while (poll(&p, 1, 0) > 0) {
		n = read(0, text + len, sizeof(text) - 1 - len);
		if (n <= 0)
			return false;
		len += (size_t)n;
		while ((newline = memchr(text, '\n', len))) {
			size_t used = (size_t)(newline + 1 - text);

			*newline = '\0';
			obey(text);
			memmove(text, text + used, len - used);
			len -= used;
		}
	}
	return true;
}

static const char *option(int argc, char **argv, const char *name)
{
	for (int i = 2; i + 1 < argc; i += 2)
		if (!strcmp(argv[i], name))
			return argv[i + 1];
	return NULL;
}

static unsigned number(int argc, char **argv, const char *name)
{
	const char *v = option(argc, argv, name);

	return v ? (unsigned)strtoul(v, NULL, 10) : 0;
}

int main(int argc, char **argv)
{
	struct alert_target target = { .webhook = option(argc, argv, "webhook"),
				       .command = option(argc, argv, "command"),
				       .template = option(argc, argv, "template"),
				       .ca_file = option(argc, argv, "ca"),
				       .token_file = option(argc, argv, "token") };
	struct alert_plan plan = { .state = argc > 1 ? argv[1] : "",
				   .job = "llm",
				   .host = "watch1",
				   .targets = &target,
				   .n_targets = target.webhook || target.command,
				   .heartbeat = option(argc, argv, "heartbeat"),
				   .heartbeat_template = option(argc, argv, "heartbeat-template"),
				   .heartbeat_ms = number(argc, argv, "heartbeat-ms"),
				   .answer_ms = number(argc, argv, "answer-ms"),
				   .retry_ms = number(argc, argv, "retry-ms"),
				   .retry_most_ms = number(argc, argv, "retry-most-ms"),
				   .escalate_ms = number(argc, argv, "escalate-ms") };
	struct error e = { "" };
	json_t *raised;

	if (alerts_open(&plan, now_ms(), &alerts, &e) < 0) {
		fprintf(stderr, "%s\n", e.text);
		return 2;
	}
	raised = alerts_raised(alerts);
	for (size_t i = 0; i < json_array_size(raised); i++)
		printf("raised %s\n",
		       json_string_value(json_object_get(json_array_get(raised, i), "key")));
	json_decref(raised);
	printf("ready %s\n", e.text);
	fflush(stdout);
	while (listen_once()) {
		int64_t next;

		alerts_step(alerts, now_ms(), 5, &next);
	}
	if (number(argc, argv, "finish-ms"))
		printf("left %" PRIu64 "\n",
		       alerts_finish(alerts, now_ms(), number(argc, argv, "finish-ms")));
	alerts_close(alerts);
	return 0;
}
