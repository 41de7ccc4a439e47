/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_alert.c - whatever the journal holds gives a ledger within its limits, which written and
 * read again is the same; whatever a template holds is refused with its line, or renders the same
 * twice.
 *
 * The first byte says what the rest is: 'T' a template, 'J' the objects of a journal, a line each,
 * which get their check sums here, anything else a journal as it is.
 */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz_source.h"

#include "alert/alert_inside.h"

static uint32_t crc32_of(const uint8_t *p, size_t len)
{
	uint32_t c = ~0u;

	for (size_t i = 0; i < len; i++) {
		c ^= p[i];
		for (int bit = 0; bit < 8; bit++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
	}
	return ~c;
}

static void add_sums(const uint8_t *data, size_t size, struct buf *out)
{
	while (size) {
		const uint8_t *newline = memchr(data, '\n', size);
		size_t len = newline ? (size_t)(newline - data) : size;
		char head[16];

		snprintf(head, sizeof(head), "%08x ", crc32_of(data, len));
		buf_put(out, head, 9);
		buf_put(out, data, len);
		buf_put(out, "\n", 1);
		len = newline ? len + 1 : len;
		data += len;
		size -= len;
	}
}

static void check_ledger(const struct ledger *l)
{
	size_t raised = 0;

	fuzz_check(l->n_targets <= LEDGER_TARGETS_MOST && l->raised.n <= LEDGER_RAISED_MOST);
	for (size_t i = 0; i < l->events.n; i++) {
		const struct event *e = l->events.v[i];

		fuzz_check(e->n > 0 && e->n < l->next && (!i || l->events.v[i - 1]->n < e->n));
		fuzz_check(e->what < ALERT_WHATS && e->severity < ALERT_SEVERITIES);
		fuzz_check(strlen(e->key) <= ALERT_KEY_MOST && *e->key && *e->id);
		fuzz_check(strlen(e->summary) <= ALERT_SUMMARY_MOST);
		fuzz_check(e->to || ledger_raised(l, e->key) == e);
		raised += ledger_raised(l, e->key) == e;
	}
	fuzz_check(raised == l->raised.n);
}

static void journal(const uint8_t *data, size_t size)
{
	struct ledger first, second;
	struct buf a = { 0 }, b = { 0 };

	ledger_init(&first);
	ledger_init(&second);
	ledger_read(&first, data, size);
	check_ledger(&first);
	ledger_put_all(&first, &a);
	ledger_read(&second, a.data, a.len);
	check_ledger(&second);
	fuzz_check(!second.damaged);
	ledger_put_all(&second, &b);
	fuzz_check(a.len == b.len && !memcmp(a.data, b.data, a.len));
	buf_done(&a);
	buf_done(&b);
	ledger_done(&first);
	ledger_done(&second);
}

static void template(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "a", "b", "c" };
	struct error e = { "" };
	struct template *t = NULL;
	struct buf one = { 0 }, two = { 0 };
	json_t *fields;
	int r = template_parse("t", (const char *)data, size, names, ARRAY_SIZE(names), &t, &e);

	fuzz_check((r >= 0) == (t != NULL) && (r >= 0) == !e.text[0]);
	if (!t)
		return;
	fields = json_pack("{s:{s:s,s:[i,b]},s:s,s:n}", "a", "b", "<\"&\n\x01", "c", 3, 1, "b", "x",
			   "c");
	r = template_render(t, fields, &one);
	fuzz_check(template_render(t, fields, &two) == r);
	fuzz_check(one.len == two.len && one.len <= TEMPLATE_BODY_MOST);
	fuzz_check(!one.len || !memcmp(one.data, two.data, one.len));
	buf_done(&one);
	buf_done(&two);
	json_decref(fields);
	template_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf lines = { 0 };

	if (!size)
		return 0;
	if (data[0] == 'T')
		template(data + 1, size - 1);
	else if (data[0] != 'J')
		journal(data, size);
	else {
		add_sums(data + 1, size - 1, &lines);
		journal(lines.data, lines.len);
		buf_done(&lines);
	}
	return 0;
}
