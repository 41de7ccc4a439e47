/* SPDX-License-Identifier: Apache-2.0 */
/* alert_helpers.h - alerts on a clock of the test's own, to receivers of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alert/alert_inside.h"

#define HOUR_MS	 (3600 * (int64_t)1000)
#define CLAIM(f) cmocka_unit_test_setup_teardown(f, begin, end)

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

static inline struct web_answer answers(int status)
{
	return (struct web_answer){ .status = status, .why = "", .retry_after_ms = -1 };
}

static inline struct web_answer say_yes(const struct flight *f)
{
	(void)f;
	return answers(200);
}

static inline int receive(void *user, struct flight *f, const struct buf *body,
			  struct error *reterr)
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
static inline void reply_all(void)
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

static inline void step_to(int64_t end)
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

static inline int open_with(struct alert_plan plan, struct error *e)
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

static inline void open_plain(void)
{
	struct error e = { "" };

	if (open_with((struct alert_plan){ 0 }, &e) != 0)
		fail_msg("%s", e.text);
}

static inline void close_all(void)
{
	n_held = 0;
	alerts = alerts_close(alerts);
}

static inline int raise_it(const char *key, enum alert_severity s)
{
	struct error e;

	return alert_raise(
	    alerts, &(struct alert){ .key = key, .severity = s, .summary = "it hangs" }, now, &e);
}

static inline int clear_it(const char *key)
{
	struct error e;

	return alert_clear(alerts, key, "it is over", now, &e);
}

static inline int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static inline int begin(void **state)
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

static inline int end(void **state)
{
	(void)state;
	close_all();
	return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
