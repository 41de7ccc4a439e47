/* SPDX-License-Identifier: Apache-2.0 */
/* alert_body.c - an event in the words of docs/alerts.md: the plain JSON, and a template's fields.
   The same event gives the same bytes at each try. */
#include "alert/alert_inside.h"

#include <stdio.h>
#include <time.h>

#define UNTIL_MS                                                                                   \
	(7 * 24 * 3600 * (int64_t)1000) /* for receivers that want an end of a live alert */

const char *const body_names[] = {
	"lockstep",
	"id",
	"incident",
	"what",
	"key",
	"severity",
	"severity_before",
	"severity_first",
	"summary",
	"job",
	"host",
	"time",
	"time_ms",
	"since",
	"since_ms",
	"until",
	"duration_s",
	"escalations",
	"detail",
	"raised",
	"escalated",
	"resolved",
};
const size_t body_n_names = ARRAY_SIZE(body_names);

static json_t *time_text(int64_t ms)
{
	char text[64];
	time_t s = (time_t)(ms / 1000);
	struct tm tm;
	size_t n;

	if (ms < 0 || !gmtime_r(&s, &tm) || !(n = strftime(text, 40, "%Y-%m-%dT%H:%M:%S", &tm)))
		return json_null();
	snprintf(text + n, sizeof(text) - n, ".%03dZ", (int)(ms % 1000));
	return json_string(text);
}

json_t *body_fields(const struct alerts *a, const struct event *e)
{
	bool resolved = e->what == ALERT_RESOLVED;
	_cleanup_free_ char *incident = xasprintf("lockstep/%s/%s", a->job, e->key);
	json_t *o = json_object(),
	       *detail = e->detail ? json_loads(e->detail, JSON_DECODE_ANY, NULL) : NULL;

	json_object_set_new(o, "lockstep", json_string(LOCKSTEP_VERSION));
	json_object_set_new(o, "id", json_string(e->id));
	json_object_set_new(o, "incident", json_string(incident));
	json_object_set_new(o, "what", json_string(alert_what_name(e->what)));
	json_object_set_new(o, "key", json_string(e->key));
	json_object_set_new(o, "severity", json_string(alert_severity_name(e->severity)));
	json_object_set_new(o, "severity_before",
			    e->before == e->severity ? json_null()
						     : json_string(alert_severity_name(e->before)));
	json_object_set_new(o, "severity_first", json_string(alert_severity_name(e->first)));
	json_object_set_new(o, "summary", json_string(e->summary));
	json_object_set_new(o, "job", json_string(a->job));
	json_object_set_new(o, "host", json_string(a->host));
	json_object_set_new(o, "time", time_text(e->time_ms));
	json_object_set_new(o, "time_ms", json_integer(e->time_ms));
	json_object_set_new(o, "since", time_text(e->since_ms));
	json_object_set_new(o, "since_ms", json_integer(e->since_ms));
	json_object_set_new(o, "until", time_text(resolved ? e->time_ms : e->since_ms + UNTIL_MS));
	json_object_set_new(o, "duration_s", json_integer(MAX(e->time_ms - e->since_ms, 0) / 1000));
	json_object_set_new(o, "escalations", json_integer(e->escalations));
	json_object_set_new(o, "detail", detail ? detail : json_null());
	return o;
}

/* Conditions, which the plain JSON has no need of. */
static json_t *template_fields(const struct alerts *a, const struct event *e)
{
	json_t *o = body_fields(a, e);

	json_object_set_new(o, "raised", json_boolean(e->what != ALERT_RESOLVED));
	json_object_set_new(o, "escalated", json_boolean(e->what == ALERT_ESCALATED));
	json_object_set_new(o, "resolved", json_boolean(e->what == ALERT_RESOLVED));
	return o;
}

static void put_plain(const struct alerts *a, const struct event *e, struct buf *out)
{
	json_t *o = body_fields(a, e);
	char *text = json_dumps(o, JSON_COMPACT);

	if (text)
		buf_put(out, text, strlen(text));
	free(text);
	json_decref(o);
}

void body_make(const struct alerts *a, const struct target *t, const struct event *e,
	       struct buf *out)
{
	json_t *fields;

	if (!t->template) {
		put_plain(a, e, out);
		return;
	}
	fields = template_fields(a, e);
	if (template_render(t->template, fields, out) == -E2BIG) {
		json_object_del(fields, "detail");
		template_render(t->template, fields, out);
	}
	json_decref(fields);
}

int body_prove(const struct alerts *a, const struct target *t, const char *path,
	       struct error *reterr)
{
	static char key[] = "sample", summary[] = "a \"quoted\"\n\\ <&> line",
		    detail[] = "{\"culprit\":{\"rank\":3,\"host\":\"n\\\"1\"},\"list\":[1,\"a\"]}";
	int r = 0;

	for (int i = 0; i < 2 * ALERT_WHATS && r >= 0; i++) {
		struct event e = { .n = 1,
				   .id = "sample-1",
				   .what = (enum alert_what)(i / 2),
				   .severity = ALERT_WARNING,
				   .before = i % 2 ? ALERT_INFO : ALERT_WARNING,
				   .time_ms = 1700000060000,
				   .since_ms = 1700000000000,
				   .key = key,
				   .summary = summary,
				   .detail = i % 2 ? detail : NULL };
		struct buf out = { 0 };
		json_error_t why;
		json_t *v;

		body_make(a, t, &e, &out);
		v = json_loadb((char *)out.data, out.len, JSON_REJECT_DUPLICATES, &why);
		if (!v)
			r = error_set(reterr, -EINVAL,
				      "%s:%d: for an alert that is %s%s it gives no JSON: %s", path,
				      why.line, alert_what_name(e.what),
				      e.detail ? "" : " without detail", why.text);
		json_decref(v);
		buf_done(&out);
	}
	return r;
}
