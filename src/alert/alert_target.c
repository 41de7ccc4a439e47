/* SPDX-License-Identifier: Apache-2.0 */
/* alert_target.c - where alerts go: checked at the start, so that nobody learns of a slip when the
   first alert is due. */
#include "alert/alert_inside.h"
#include "base/intern.h"

#include <stdio.h>

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !strcmp(s + n - m, end);
}

static char *copy(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

/* What a target is: where it goes. Another template or severity does not make it another. */
void target_id(const struct alert_target *from, size_t again, char ret[TARGET_ID])
{
	const char *to = from->webhook ? from->webhook : from->command;

	snprintf(ret, TARGET_ID, "%016" PRIx64,
		 hash_bytes(to, strlen(to), (from->webhook ? 1u : 2u) + 2 * again));
}

int target_open(struct alerts *a, struct target *t, const struct alert_target *from,
		struct error *reterr)
{
	int r = 0;

	if (!from->webhook == !from->command)
		return error_set(reterr, -EINVAL, "an alert goes to a URL or to a command");
	if (from->command && !*from->command)
		return error_set(reterr, -EINVAL, "an alert's command is empty");
	if ((unsigned)from->least >= ALERT_SEVERITIES)
		return error_set(reterr, -EINVAL, "an alert has no severity %d", (int)from->least);
	if (from->webhook)
		r = web_url_check(from->webhook, reterr);
	t->json = true;
	if (r >= 0 && from->template) {
		t->json = ends_with(from->template, ".json");
		r = template_open(from->template, body_names, body_n_names, &t->template, reterr);
	}
	if (r >= 0 && t->template && t->json)
		r = body_prove(a, t, from->template, reterr);
	if (r < 0)
		return r;
	t->webhook = copy(from->webhook);
	t->command = copy(from->command);
	t->ca_file = copy(from->ca_file);
	t->token_file = copy(from->token_file);
	t->least = from->least;
	if (t->command)
		snprintf(t->name, sizeof(t->name), "command \"%.*s\"",
			 (int)MIN(strcspn(t->command, " \t\n"), 80), t->command);
	else
		web_url_name(t->webhook, t->name, sizeof(t->name));
	return 0;
}

void target_done(struct target *t)
{
	free(t->webhook);
	free(t->command);
	free(t->ca_file);
	free(t->token_file);
	template_free(t->template);
	free(t->queue.v);
	*t = (struct target){ 0 };
}

static bool same_alert(const struct event *a, const struct event *b)
{
	return !strcmp(a->key, b->key);
}

void target_queue(struct target *t, struct event *e)
{
	struct delivery d = { .event = e };

	for (size_t i = 0; i < t->queue.n && !d.behind; i++)
		d.behind = same_alert(t->queue.v[i].event, e);
	*vec_push(&t->queue) = d;
}

void target_unqueue(struct target *t, const struct event *e)
{
	size_t i = 0;

	while (i < t->queue.n && t->queue.v[i].event != e)
		i++;
	if (i == t->queue.n)
		return;
	memmove(&t->queue.v[i], &t->queue.v[i + 1], (t->queue.n - i - 1) * sizeof(*t->queue.v));
	t->queue.n--;
	for (size_t k = 0; k < t->queue.n; k++)
		if (same_alert(t->queue.v[k].event, e)) {
			t->queue.v[k].behind = false; /* the oldest that is left */
			break;
		}
}
