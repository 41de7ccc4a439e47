/* SPDX-License-Identifier: Apache-2.0 */
/* meet_caller.c - greeting, entry, a few questions for the time, the part, and then the verdict. */
#include "meet/meet_caller.h"
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

int caller_open(struct caller *c, struct meeting *m, struct error *reterr)
{
	*c = (struct caller){ .m = m, .best_ns = INT64_MAX, .clock_ns = INT64_MIN };
	if (meet_random(c->nonce, sizeof(c->nonce), reterr) < 0)
		return -EIO;
	greeting_put(&c->out, c->nonce, m->plan->node, m->name);
	return 0;
}

static void fail(struct caller *c, enum caller_failure failure, const char *why)
{
	c->state = CALLER_FAILED;
	c->failure = failure;
	snprintf(c->why, sizeof(c->why), "%s", why);
}

static size_t take_greeting(struct caller *c, const uint8_t *p, size_t len)
{
	struct greeting g;
	struct buf entry = { 0 };
	char why[MEET_WHY_MOST];
	int n = greeting_get(p, len, &g);

	if (n < 0)
		fail(c, CALL_BROKE, "something else listens there, no meeting");
	if (n <= 0)
		return 0;
	if (g.version != MEET_VERSION) {
		snprintf(why, sizeof(why),
			 "node 0 speaks version %u of the meeting, this lockstep speaks %u",
			 g.version, MEET_VERSION);
		fail(c, CALL_VERSION, why);
		return (size_t)n;
	}
	wire_open(&c->wire, false, c->m->secret, c->m->secret_len, g.nonce, c->nonce);
	entry_put(&entry, c->m);
	wire_put(&c->wire, &c->out, FRAME_ENTER, entry.data, entry.len);
	wire_bind(&c->wire, entry.data, entry.len);
	buf_done(&entry);
	c->state = CALLER_ENTERED;
	return (size_t)n;
}

static void give_part(struct caller *c)
{
	struct buf b = { 0 };
	bool known = c->clock_ns != INT64_MIN;

	buf_put_signed(&b, c->clock_ns);
	buf_put_signed(&b, known ? c->best_ns / 2 : INT64_MIN);
	buf_put(&b, c->m->part, c->m->part_len);
	wire_put(&c->wire, &c->out, FRAME_PART, b.data, b.len);
	buf_done(&b);
	c->state = CALLER_GIVEN;
}

static void ask_time(struct caller *c)
{
	struct buf b = { 0 };

	buf_put_varint(&b, ++c->ticks);
	c->tick_ns = clock_ns();
	c->tick_clock_ns = meet_clock_ns(c->m->plan);
	wire_put(&c->wire, &c->out, FRAME_TICK, b.data, b.len);
	buf_done(&b);
	c->state = CALLER_TICKING;
}

/* Half way there and half way back, as far as anybody can tell: the quickest exchange bounds the
   error best. */
static void take_time(struct caller *c, const struct frame *f)
{
	struct span s = span_of(f->body, f->len);
	uint64_t tick = span_varint(&s);
	int64_t theirs = span_signed(&s), trip = clock_ns() - c->tick_ns;

	if (s.bad || tick != c->ticks) {
		fail(c, CALL_BROKE, "node 0 broke the protocol");
		return;
	}
	if (trip < c->best_ns) {
		c->best_ns = trip;
		c->clock_ns =
		    (int64_t)((uint64_t)c->tick_clock_ns + (uint64_t)(trip / 2) - (uint64_t)theirs);
	}
	if (c->ticks < MEET_TICKS_LEAST ||
	    (c->ticks < MEET_TICKS && c->best_ns > MEET_TICK_ENOUGH_NS))
		ask_time(c);
	else
		give_part(c);
}

static void take_verdict_head(struct caller *c, const struct frame *f)
{
	struct span s = span_of(f->body, f->len);
	uint64_t len = span_varint(&s);
	const uint8_t *digest = span_bytes(&s, DIGEST_BYTES);

	if (s.bad || len > MEET_VERDICT_MOST) {
		fail(c, CALL_BROKE, "node 0 broke the protocol");
		return;
	}
	c->verdict_len = (size_t)len;
	memcpy(c->verdict_digest, digest, DIGEST_BYTES);
	c->state = CALLER_VERDICT;
}

static void take_text(char *to, size_t size, const struct frame *f)
{
	char *text = meet_clean((const char *)f->body, f->len, size - 1);

	strcpy(to, text);
	free(text);
}

static void take_frame(struct caller *c, const struct frame *f)
{
	char why[MEET_WHY_MOST];

	if (f->type == FRAME_DENIED && c->state == CALLER_ENTERED)
		fail(c, CALL_DENIED, "node 0 holds another secret");
	else if (!f->genuine)
		fail(c, CALL_FALSE, "who listens there cannot prove that it holds the secret");
	else if (f->type == FRAME_WELCOME && c->state == CALLER_ENTERED) {
		take_text(c->judge, sizeof(c->judge), f);
		ask_time(c);
	} else if (f->type == FRAME_REFUSED && c->state == CALLER_ENTERED) {
		take_text(why, sizeof(why), f);
		fail(c, CALL_REFUSED, why);
	} else if (f->type == FRAME_TOCK && c->state == CALLER_TICKING)
		take_time(c, f);
	else if (f->type == FRAME_TOCK && c->state > CALLER_TICKING)
		return; /* the verdict was made meanwhile */
	else if (f->type == FRAME_NEWS && c->state == CALLER_GIVEN)
		take_text(c->news, sizeof(c->news), f);
	else if (f->type == FRAME_VERDICT && c->state >= CALLER_TICKING)
		take_verdict_head(c, f);
	else
		fail(c, CALL_BROKE, "node 0 broke the protocol");
}

/* Bytes of it that are used; when it is whole it is checked, and the judge is thanked. */
static size_t take_verdict(struct caller *c, const uint8_t *p, size_t len)
{
	uint8_t got[DIGEST_BYTES];
	struct digest *d;

	len = MIN(len, c->verdict_len - c->verdict.len);
	buf_put(&c->verdict, p, len);
	if (c->verdict.len < c->verdict_len)
		return len;
	if (digest_open(NULL, 0, &d, NULL) < 0)
		abort(); /* wire_usable() said that it can be */
	digest_add(d, c->verdict.data, c->verdict.len);
	digest_end(d, got);
	if (!digest_same(got, c->verdict_digest)) {
		fail(c, CALL_FALSE, "the verdict was altered on its way");
		return len;
	}
	wire_put(&c->wire, &c->out, FRAME_THANKS, NULL, 0);
	c->state = CALLER_DONE;
	return len;
}

static size_t take_one(struct caller *c, const uint8_t *p, size_t len)
{
	struct frame f;
	ssize_t n;

	if (c->state == CALLER_GREETING)
		return take_greeting(c, p, len);
	if (c->state == CALLER_VERDICT)
		return take_verdict(c, p, len);
	n = wire_get(&c->wire, p, len, FRAME_SMALL, &f);
	if (n < 0)
		fail(c, CALL_BROKE, "something else listens there, no meeting");
	if (n <= 0)
		return 0;
	take_frame(c, &f);
	if (c->state == CALLER_VERDICT && !c->verdict_len)
		take_verdict(c, NULL, 0);
	return (size_t)n;
}

void caller_feed(struct caller *c, const uint8_t *p, size_t len)
{
	size_t used = 0, n;

	if (c->state == CALLER_VERDICT && !c->in.len) { /* the long way of many bytes: not twice */
		used = take_verdict(c, p, len);
		p += used;
		len -= used;
		used = 0;
	}
	if (c->state >= CALLER_DONE)
		return;
	buf_put(&c->in, p, len);
	while (c->state < CALLER_DONE && used < c->in.len) {
		n = take_one(c, c->in.data + used, c->in.len - used);
		used += n;
		if (!n)
			break;
	}
	if (used)
		memmove(c->in.data, c->in.data + used, c->in.len - used);
	c->in.len -= used;
}

void caller_done(struct caller *c)
{
	buf_done(&c->in);
	buf_done(&c->out);
	buf_done(&c->verdict);
}
