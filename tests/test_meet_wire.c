/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_meet_wire.c - both sides of a meeting over TCP without sockets: bytes are altered, sent
 * again, turned round and cut, and never does anything come of it that nobody who holds the secret
 * said.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "meet/meet_caller.h"
#include "meet/meet_hall.h"
#include "meet_rows.h"

#define PART "what node 1 has to say"

static struct meet_plan plans[2];
static struct meeting judge, node;
static struct hall hall;
static char words[8192]; /* the verdict */

static struct meeting meeting_of(struct meet_plan *p, const char *key)
{
	struct meeting m = { .plan = p, .part = (const uint8_t *)PART, .part_len = strlen(PART) };

	m.judge = rows_judge;
	m.secret_len = strlen(key);
	m.secret = (uint8_t *)xstrdup(key);
	m.until_ms = clock_ms() + 60000;
	snprintf(m.name, sizeof(m.name), "gpu%02u", p->node);
	meet_random(m.instance, sizeof(m.instance), NULL);
	return m;
}

static void open_hall(void)
{
	for (uint32_t i = 0; i < 2; i++)
		plans[i] = (struct meet_plan){ .job = "1234.0", .node = i, .nodes = 3 };
	judge = meeting_of(&plans[0], "0123456789abcdef");
	node = meeting_of(&plans[1], "0123456789abcdef");
	roster_open(&judge.roster, &plans[0]);
	hall_open(&hall, &judge);
}

static void close_hall(void)
{
	struct error error;

	if (!hall.judged)
		assert_int_equal(hall_judge(&hall, clock_ms(), &error), 0);
	assert_true(hall.verdict.len < sizeof(words));
	memcpy(words, hall.verdict.data, hall.verdict.len);
	words[hall.verdict.len] = '\0';
	hall_done(&hall);
	roster_done(&judge.roster);
	free(judge.secret);
	free(node.secret);
}

static struct guest *admit(void)
{
	struct guest *g = hall_admit(&hall, -1, "10.0.0.9", 0);

	assert_non_null(g);
	return g;
}

static void to_guest(struct guest *g, const struct buf *b)
{
	guest_feed(&hall, g, b->data, b->len, 1);
}

/* Everything that each side has to say, until both are silent. Keeps what the node said. */
static void pump(struct caller *c, struct guest *g, struct buf *ret_said)
{
	while (c->out.len || g->out.len) {
		struct buf b = c->out;

		c->out = (struct buf){ 0 };
		if (ret_said)
			buf_put(ret_said, b.data, b.len);
		to_guest(g, &b);
		buf_done(&b);
		b = g->out;
		g->out = (struct buf){ 0 };
		caller_feed(c, b.data, b.len);
		buf_done(&b);
	}
}

static void says(const char *text)
{
	if (!strstr(words, text))
		fail_msg("\"%s\" is not in: %s", text, words);
}

static void an_exchange_seats_a_node_and_tells_it_the_verdict(void **state)
{
	struct caller c;
	struct guest *g;
	struct error error;

	(void)state;
	open_hall();
	g = admit();
	assert_int_equal(caller_open(&c, &node, NULL), 0);
	pump(&c, g, NULL);
	assert_int_equal(c.state, CALLER_GIVEN);
	assert_int_equal(g->state, GUEST_SEATED);
	assert_string_equal(c.judge, "gpu00");
	hall_news(&hall);
	pump(&c, g, NULL);
	assert_string_equal(c.news, "1 of 3 nodes came, missing: nodes 0,2");
	assert_int_equal(hall_judge(&hall, clock_ms(), &error), 0);
	pump(&c, g, NULL);
	caller_feed(&c, hall.verdict.data, hall.verdict.len);
	pump(&c, g, NULL);
	assert_int_equal(c.state, CALLER_DONE);
	assert_memory_equal(c.verdict.data, hall.verdict.data, hall.verdict.len);
	assert_int_equal(g->state, GUEST_GONE);
	caller_done(&c);
	close_hall();
	says("1\tcame\tgpu01\t10.0.0.9\t-\t");
}

/* What one node said over one connection, as one who listened has it. */
static struct buf said_once(void)
{
	struct buf said = { 0 };
	struct caller c;

	open_hall();
	assert_int_equal(caller_open(&c, &node, NULL), 0);
	pump(&c, admit(), &said);
	assert_int_equal(c.state, CALLER_GIVEN);
	caller_done(&c);
	close_hall();
	return said;
}

static void what_was_said_before_is_known_as_old(void **state)
{
	struct buf said = said_once();

	(void)state;
	open_hall();
	to_guest(admit(), &said);
	close_hall();
	says("1\tabsent\t");
	says("1\timpostor\tgpu01\t10.0.0.9\tsent an old message again, made at 20");
	buf_done(&said);
}

/* To another connection of the same meeting, a moment later: challenges differ. */
static void no_connection_takes_what_another_was_told(void **state)
{
	struct buf said = { 0 };
	struct caller c;
	struct guest *g, *other;

	(void)state;
	open_hall();
	g = admit();
	other = admit();
	assert_int_equal(caller_open(&c, &node, NULL), 0);
	pump(&c, g, &said);
	to_guest(other, &said);
	assert_int_equal(other->state, GUEST_LEAVES);
	to_guest(g, &said); /* and not twice on its own */
	assert_int_equal(g->state, GUEST_GONE);
	caller_done(&c);
	close_hall();
	says("1\tlost\tgpu01\t10.0.0.9\twent after it had given its part: ");
	says("1\timpostor\tgpu01\t10.0.0.9\tsent an old message again");
	buf_done(&said);
}

static void what_the_judge_says_is_not_taken_from_a_node(void **state)
{
	struct caller c;
	struct guest *g, *mirror;
	struct buf b = { 0 };

	(void)state;
	open_hall();
	g = admit();
	mirror = admit();
	assert_int_equal(caller_open(&c, &node, NULL), 0);
	to_guest(g, &c.out);
	buf_put(&b, g->out.data, g->out.len); /* its greeting, and no more: nothing was proven */
	assert_int_equal(b.len, GREETING_HEAD + NONCE_BYTES + 4);
	to_guest(mirror, &b);
	assert_int_equal(mirror->state, GUEST_ENTRY);
	caller_done(&c);
	buf_done(&b);

	/* The node's own words come back to it. */
	assert_int_equal(caller_open(&c, &node, NULL), 0);
	b = c.out;
	c.out = (struct buf){ 0 };
	caller_feed(&c, b.data, b.len);
	assert_int_equal(c.state, CALLER_ENTERED);
	buf_done(&b);
	b = c.out;
	c.out = (struct buf){ 0 };
	caller_feed(&c, b.data, b.len);
	assert_int_equal(c.state, CALLER_FAILED);
	assert_int_equal(c.failure, CALL_FALSE);
	caller_done(&c);
	buf_done(&b);
	close_hall();
}

/* One byte of all that a node says is another: it may be refused or never be whole, but nothing
   that it did not say is taken. */
static bool altered(size_t at, uint8_t by)
{
	struct caller c;
	struct guest *g;
	size_t passed = 0;
	bool reached = false;

	open_hall();
	g = admit();
	assert_int_equal(caller_open(&c, &node, NULL), 0);
	while (c.out.len || g->out.len) {
		struct buf b = c.out;

		c.out = (struct buf){ 0 };
		if (at >= passed && at < passed + b.len) {
			b.data[at - passed] ^= by;
			reached = true;
		}
		passed += b.len;
		to_guest(g, &b);
		buf_done(&b);
		b = g->out;
		g->out = (struct buf){ 0 };
		caller_feed(&c, b.data, b.len);
		buf_done(&b);
	}
	if (reached && judge.roster.seats[1].presence == MEET_CAME)
		/* only what it says before its proof, in vain, does not matter */
		assert_true(at >= GREETING_HEAD + NONCE_BYTES &&
			    at < GREETING_HEAD + NONCE_BYTES + 9);
	caller_done(&c);
	close_hall();
	return reached;
}

static void no_byte_of_a_node_can_be_altered(void **state)
{
	size_t at = 0;

	(void)state;
	while (altered(at, (uint8_t)(1 << at % 8)))
		at++;
	assert_in_range(at, 350, 700);
}

static void no_byte_of_the_judge_can_be_altered(void **state)
{
	bool reached = true;

	(void)state;
	for (size_t at = 0; reached; at++) {
		struct caller c;
		struct guest *g;
		size_t passed = 0;
		struct error error;

		reached = false;
		open_hall();
		g = admit();
		assert_int_equal(caller_open(&c, &node, NULL), 0);
		for (int i = 0; c.out.len || g->out.len || (!hall.judged && i < 100); i++) {
			struct buf b = c.out;

			c.out = (struct buf){ 0 };
			to_guest(g, &b);
			buf_done(&b);
			if (g->state == GUEST_SEATED)
				hall_judge(&hall, clock_ms(), &error);
			b = g->out;
			g->out = (struct buf){ 0 };
			if (hall.judged && g->state == GUEST_TOLD && b.len)
				buf_put(&b, hall.verdict.data, hall.verdict.len);
			if (at >= passed && at < passed + b.len) {
				b.data[at - passed] ^= (uint8_t)(1 << at % 8);
				reached = true;
			}
			passed += b.len;
			caller_feed(&c, b.data, b.len);
			buf_done(&b);
		}
		assert_int_equal(c.state == CALLER_DONE,
				 !reached || (at >= GREETING_HEAD + NONCE_BYTES &&
					      at < GREETING_HEAD + NONCE_BYTES + 4));
		caller_done(&c);
		close_hall();
	}
}

static void garbage_is_a_stranger(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} rows[] = {
		{ "GET / HTTP/1.1\r\n\r\n", 18 },
		{ "LSMEET\r\r", 8 },
		{ "LSMEET\r\n\1\0\377\377", 12 },
		{ "LSMEET\r\n\1\0\1\0x", 13 },
		{ "\0\0\0\0", 4 },
	};

	(void)state;
	open_hall();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct guest *g = admit();

		guest_feed(&hall, g, (const uint8_t *)rows[i].bytes, rows[i].len, 1);
		assert_int_equal(g->state, GUEST_GONE);
	}
	close_hall();
	says("-1\tstranger\ta stranger\t10.0.0.9\tspoke nothing of ours (5 times)\t");
}

static void another_version_is_named(void **state)
{
	struct guest *g;

	(void)state;
	open_hall();
	g = admit();
	guest_feed(&hall, g, (const uint8_t *)"LSMEET\r\n\2\0\3\0abc", 15, 1);
	assert_int_equal(g->state, GUEST_LEAVES);
	close_hall();
	says("-1\timpostor\tanother lockstep\t10.0.0.9\tspeaks version 2 of the meeting");
}

static void a_stranger_may_send_a_kilobyte_and_wait_five_seconds(void **state)
{
	uint8_t much[4096] = "LSMEET\r\n\1\0\x24";
	struct guest *g, *slow;

	(void)state;
	open_hall();
	g = admit();
	slow = admit();
	guest_feed(&hall, g, much, 12 + 36, 1);
	assert_int_equal(g->state, GUEST_ENTRY);
	memcpy(much, "\1\4\0\0\1\0\0\0", 8); /* a frame of 1,025 bytes */
	guest_feed(&hall, g, much, 8, 1);
	assert_int_equal(g->state, GUEST_GONE);
	guest_feed(&hall, slow, (const uint8_t *)"LSM", 3, 1);
	hall_tick(&hall, STRANGER_MS - 1);
	assert_int_equal(slow->state, GUEST_GREETING);
	hall_tick(&hall, STRANGER_MS);
	assert_int_equal(slow->state, GUEST_GONE);
	close_hall();
	says("connected and said nothing whole in 5 s");
	says("a message longer than any");
}

static void who_floods_pushes_out_his_own(void **state)
{
	struct guest *honest;
	struct caller c;

	(void)state;
	open_hall();
	honest = hall_admit(&hall, -1, "10.0.0.1", 0);
	for (int i = 0; i < 5000; i++) {
		hall_admit(&hall, -1, "10.6.6.6", 0);
		if (i % 100 == 0)
			hall_sweep(&hall);
		assert_true(hall.strangers <= STRANGERS_MOST);
	}
	assert_int_equal(honest->state, GUEST_GREETING);
	assert_int_equal(caller_open(&c, &node, NULL), 0);
	pump(&c, honest, NULL);
	assert_int_equal(honest->state, GUEST_SEATED);
	caller_done(&c);
	close_hall();
	says("10.6.6.6\tpushed out by newer connections (");
	says("1\tcame\tgpu01\t10.0.0.1\t");
}

/* Denied ones are strangers until they are gone: they cannot fill the hall either. */
static void liars_are_bounded_and_counted(void **state)
{
	char name[32];

	(void)state;
	open_hall();
	free(node.secret);
	node.secret = (uint8_t *)xstrdup("another secret..");
	for (int i = 0; i < 3000; i++) {
		struct caller c;
		struct guest *g = admit();

		snprintf(name, sizeof(name), "liar%d", i);
		strcpy(node.name, name);
		assert_int_equal(caller_open(&c, &node, NULL), 0);
		pump(&c, g, NULL);
		assert_int_equal(c.state, CALLER_FAILED);
		assert_int_equal(c.failure, CALL_DENIED);
		caller_done(&c);
		assert_true(hall.strangers <= STRANGERS_MOST);
	}
	assert_true(judge.roster.extras.n <= MEET_EXTRAS_OF);
	close_hall();
	says("1\timpostor\tliar0\t10.0.0.9\tdoes not hold the secret");
	says("-1\tstranger\tothers\t-\t2984 more that are not listed");
}

/* Whatever chunks the bytes come in. */
static void bytes_may_come_one_by_one(void **state)
{
	struct caller c;
	struct guest *g;

	(void)state;
	open_hall();
	g = admit();
	assert_int_equal(caller_open(&c, &node, NULL), 0);
	while (c.out.len || g->out.len) {
		struct buf b = c.out;

		c.out = (struct buf){ 0 };
		for (size_t i = 0; i < b.len; i++)
			guest_feed(&hall, g, b.data + i, 1, 1);
		buf_done(&b);
		b = g->out;
		g->out = (struct buf){ 0 };
		for (size_t i = 0; i < b.len; i++)
			caller_feed(&c, b.data + i, 1);
		buf_done(&b);
	}
	assert_int_equal(c.state, CALLER_GIVEN);
	caller_done(&c);
	close_hall();
	says("1\tcame\tgpu01\t");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_exchange_seats_a_node_and_tells_it_the_verdict),
		cmocka_unit_test(what_was_said_before_is_known_as_old),
		cmocka_unit_test(no_connection_takes_what_another_was_told),
		cmocka_unit_test(what_the_judge_says_is_not_taken_from_a_node),
		cmocka_unit_test(no_byte_of_a_node_can_be_altered),
		cmocka_unit_test(no_byte_of_the_judge_can_be_altered),
		cmocka_unit_test(garbage_is_a_stranger),
		cmocka_unit_test(another_version_is_named),
		cmocka_unit_test(a_stranger_may_send_a_kilobyte_and_wait_five_seconds),
		cmocka_unit_test(who_floods_pushes_out_his_own),
		cmocka_unit_test(liars_are_bounded_and_counted),
		cmocka_unit_test(bytes_may_come_one_by_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
