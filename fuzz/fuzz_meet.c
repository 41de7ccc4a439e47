/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both sides of a meeting, and the files of one in a folder: bytes as they come, and bytes under
 * right tags, as from one who holds the secret and means ill. The first byte says which; then each
 * message is a type, a length of two bytes, and its bytes.
 */
#include "meet/meet_caller.h"
#include "meet/meet_file.h"
#include "meet/meet_hall.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NODES  4u
#define GUESTS 6u

static struct meet_plan plan_of(uint32_t node)
{
	return (struct meet_plan){ .job = "j", .node = node, .nodes = NODES };
}

static int judge_rows(void *user, const struct meet_part *parts, size_t n, struct buf *ret_verdict,
		      struct error *reterr)
{
	(void)user;
	(void)reterr;
	if (n < NODES || n > NODES + MEET_EXTRAS_MOST + 1)
		abort();
	for (size_t i = 0; i < n; i++) {
		const struct meet_part *p = &parts[i];

		if (i < NODES && p->node != i)
			abort();
		if (!p->name || (p->presence == MEET_CAME) != (p->part != NULL) ||
		    (p->presence != MEET_CAME && !p->why))
			abort();
		for (const char *s = p->name; *s; s++)
			if (*s < ' ' || *s > '~')
				abort();
		buf_put(ret_verdict, p->part, p->part_len);
	}
	return 0;
}

static struct meeting meeting_of(struct meet_plan *p)
{
	static uint8_t secret[] = "0123456789abcdef";
	struct meeting m = { .plan = p, .part = secret, .part_len = 3, .judge = judge_rows };

	strcpy(m.name, "n");
	m.secret = secret;
	m.secret_len = 16;
	m.until_ms = clock_ms() + 60000;
	return m;
}

/* The next message: its type; false: there is none. */
static bool next(struct span *s, uint8_t *ret_type, const uint8_t **ret_body, size_t *ret_len)
{
	size_t len;

	if (span_left(s) < 3)
		return false;
	*ret_type = span_u8(s);
	len = span_u8(s);
	len |= (size_t)span_u8(s) << 8;
	*ret_len = MIN(len, span_left(s));
	*ret_body = span_bytes(s, *ret_len);
	return true;
}

static void say(struct hall *h, struct guest *g, struct wire *w, uint8_t type, const uint8_t *body,
		size_t len)
{
	struct buf b = { 0 };
	struct meet_plan plan = plan_of(len ? body[0] % (NODES + 1) : 1);
	struct meeting m = meeting_of(&plan);
	bool whole =
	    (type & 0x0f) == FRAME_ENTER && type & 0x10; /* a good entry, its number ours */

	if (whole) {
		memset(m.instance, len > 1 ? body[1] : 0, sizeof(m.instance));
		entry_put(&b, &m);
		body = b.data;
		len = b.len;
	}
	struct buf out = { 0 };

	wire_put(w, &out, (enum frame_type)(type & 0x0f), body, len);
	if ((type & 0x0f) == FRAME_ENTER)
		wire_bind(w, body, len);
	guest_feed(h, g, out.data, out.len, type);
	buf_done(&out);
	buf_done(&b);
}

static void fuzz_hall(struct span s, bool keyed)
{
	struct meet_plan plan = plan_of(0);
	struct meeting m = meeting_of(&plan);
	struct hall h;
	struct guest *guests[GUESTS] = { 0 };
	struct wire wires[GUESTS] = { 0 };
	const uint8_t nonce[NONCE_BYTES] = { 0 }, *body;
	uint8_t type;
	size_t len;

	roster_open(&m.roster, &plan);
	hall_open(&h, &m);
	for (size_t i = 0; i < GUESTS; i++) {
		struct buf hello = { 0 };

		guests[i] = hall_admit(&h, -1, "10.0.0.1", 0);
		wire_open(&wires[i], false, m.secret, m.secret_len, guests[i]->nonce, nonce);
		greeting_put(&hello, nonce, (uint32_t)i, "x");
		if (keyed)
			guest_feed(&h, guests[i], hello.data, hello.len, 0);
		buf_done(&hello);
	}
	while (next(&s, &type, &body, &len)) {
		size_t i = (type >> 5) % GUESTS;

		if ((type & 0x0f) == 0x0f)
			hall_tick(&h, (int64_t)len * 100);
		else if ((type & 0x0f) == 0x0e)
			guest_drop(&h, guests[i], "fuzzed");
		else if ((type & 0x0f) == 0x0d && !h.judged)
			hall_judge(&h, 1, NULL);
		else if ((type & 0x0f) == 0x0c)
			hall_news(&h);
		else if (guests[i]->state < GUEST_LEAVES && keyed)
			say(&h, guests[i], &wires[i], type, body, len);
		else if (guests[i]->state < GUEST_LEAVES)
			guest_feed(&h, guests[i], body, len, type);
	}
	if (!h.judged && hall_judge(&h, 1, NULL) < 0)
		abort();
	hall_done(&h);
	roster_done(&m.roster);
}

static void fuzz_caller(struct span s, bool keyed)
{
	struct meet_plan plan = plan_of(1);
	struct meeting m = meeting_of(&plan);
	struct caller c;
	struct wire w;
	const uint8_t nonce[NONCE_BYTES] = { 0 }, *body;
	struct buf hello = { 0 };
	uint8_t type;
	size_t len;

	if (caller_open(&c, &m, NULL) < 0)
		abort();
	if (keyed) {
		greeting_put(&hello, nonce, 0, "");
		caller_feed(&c, hello.data, hello.len);
		wire_open(&w, true, m.secret, m.secret_len, nonce, c.nonce);
		memcpy(w.context, c.wire.context, sizeof(w.context));
	}
	while (next(&s, &type, &body, &len)) {
		struct buf out = { 0 };

		if (keyed && !(type & 0x80))
			wire_put(&w, &out, (enum frame_type)(type & 0x0f), body, len);
		else
			buf_put(&out, body, len);
		if (c.state < CALLER_DONE)
			caller_feed(&c, out.data, out.len);
		buf_done(&out);
	}
	if (c.verdict.len > c.verdict_len)
		abort();
	buf_done(&hello);
	caller_done(&c);
}

static void fuzz_file(struct span s, bool keyed)
{
	struct meet_plan plan = plan_of(1);
	struct meeting m = meeting_of(&plan);
	static const char label[] = "lockstep meeting 1: a file";
	struct buf b = { 0 };
	struct meet_file f;
	struct digest *d;
	uint8_t tag[DIGEST_BYTES], sum = 0;

	buf_put(&b, s.p, span_left(&s));
	if (keyed && digest_open(m.secret, m.secret_len, &d, NULL) >= 0) {
		digest_add(d, label, sizeof(label));
		digest_add(d, b.data, b.len);
		digest_end(d, tag);
		buf_put(&b, tag, sizeof(tag));
	}
	if (meet_file_get(&m, b.data, b.len, &f) >= 0) {
		for (size_t i = 0; i < f.len; i++)
			sum = (uint8_t)(sum + f.bytes[i]);
		for (size_t i = 0; i < f.name_len; i++)
			sum = (uint8_t)(sum + f.name[i]);
		if (meet_file_lists(&f, f.instance) && sum == 1 && f.n_list > b.len)
			abort();
	}
	buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const ways[])(struct span, bool) = { fuzz_hall, fuzz_caller, fuzz_file };
	struct span s = span_of(data, size);
	uint8_t way = span_u8(&s);

	if (!s.bad)
		ways[way % ARRAY_SIZE(ways)](s, way & 0x80);
	return 0;
}
