/* SPDX-License-Identifier: Apache-2.0 */
/* meet_hall.c - who may come in, who holds which seat, and who is told what. */
#include "meet/meet_hall.h"
#include "base/intern.h"

#include <stdio.h>

void hall_open(struct hall *h, struct meeting *m)
{
	const struct meet_plan *p = m->plan;
	int64_t limit = p->limit_ms ? p->limit_ms : MEET_LIMIT_MS;

	*h = (struct hall){ .m = m,
			    .judge_ms = m->until_ms - meet_reserve_ms(limit),
			    .strangers_most = STRANGERS_MOST };
	h->holders = xcalloc(p->nodes, sizeof(*h->holders));
}

static bool is_stranger(const struct guest *g)
{
	return g->state <= GUEST_ENTRY || g->state == GUEST_LEAVES;
}

/* Strangers by address, roughly: two that share a slot are one to it. */
#define CROWD_SLOTS 4096u

static uint32_t crowd_slot(const struct guest *g)
{
	return (uint32_t)hash_bytes(g->address, strlen(g->address), 0) % CROWD_SLOTS;
}

/* The oldest stranger of the address that has most of them: whoever floods loses his own. */
static struct guest *most_crowded(struct hall *h)
{
	uint16_t *crowds = xcalloc(CROWD_SLOTS, sizeof(*crowds));
	struct guest *worst = NULL;
	uint16_t most = 0;

	for (size_t i = 0; i < h->guests.n; i++)
		if (is_stranger(h->guests.v[i]))
			crowds[crowd_slot(h->guests.v[i])]++;
	for (size_t i = 0; i < h->guests.n; i++) { /* they stand in the order of their coming */
		struct guest *g = h->guests.v[i];

		if (is_stranger(g) && crowds[crowd_slot(g)] > most) {
			most = crowds[crowd_slot(g)];
			worst = g;
		}
	}
	free(crowds);
	return worst;
}

struct guest *hall_admit(struct hall *h, int fd, const char *address, int64_t now_ms)
{
	struct guest *g, *crowded;

	if (h->strangers >= h->strangers_most) {
		crowded = most_crowded(h);
		guest_drop(h, crowded, "pushed out by newer connections");
	}
	g = xcalloc(1, sizeof(*g));
	g->fd = fd;
	g->opened_ms = now_ms;
	g->deadline_ms = now_ms + STRANGER_MS;
	g->clock_ns = g->clock_doubt_ns = INT64_MIN;
	snprintf(g->address, sizeof(g->address), "%s", address);
	if (meet_random(g->nonce, sizeof(g->nonce), NULL) < 0) {
		cleanup_close(&g->fd);
		free(g);
		return NULL;
	}
	greeting_put(&g->out, g->nonce, 0, "");
	*vec_push(&h->guests) = g;
	h->strangers++;
	return g;
}

static void guest_state(struct hall *h, struct guest *g, enum guest_state state)
{
	h->strangers -= is_stranger(g);
	h->waits -= g->state == GUEST_TOLD;
	g->state = state;
	h->strangers += is_stranger(g);
	h->waits += state == GUEST_TOLD;
}

/* Its place goes to the newest of those who claim it too: a node that was started anew. */
static void seat_pass_on(struct hall *h, uint32_t node)
{
	for (size_t i = h->guests.n; i-- > 0;) {
		struct guest *g = h->guests.v[i];

		if (!g->contends || g->entry.node != node || g->state > GUEST_SEATED)
			continue;
		g->contends = false;
		h->misfits--;
		h->holders[node] = g;
		if (g->state != GUEST_SEATED)
			return;
		roster_seat(&h->m->roster, node, g->entry.name, g->address, g->part, g->part_len,
			    clock_ms());
		h->m->roster.seats[node].clock_ns = g->clock_ns;
		h->m->roster.seats[node].clock_doubt_ns = g->clock_doubt_ns;
		g->part = NULL;
		return;
	}
}

static void drop_stranger(struct hall *h, struct guest *g, const char *why)
{
	const char *name = g->greeting.name;

	roster_extra(&h->m->roster, MEET_STRANGER,
		     g->state == GUEST_ENTRY ? g->greeting.node : NO_ID,
		     *name ? name : "a stranger", g->address, why);
}

static void leave_seat(struct hall *h, struct guest *g, const char *why)
{
	char text[MEET_WHY_MOST];

	h->holders[g->entry.node] = NULL;
	snprintf(text, sizeof(text), "%s: %s",
		 g->state == GUEST_SEATED ? "went after it had given its part"
					  : "went before its part was whole",
		 why);
	roster_lose(&h->m->roster, g->entry.node, g->entry.name, g->address, text);
	seat_pass_on(h, g->entry.node);
}

void guest_drop(struct hall *h, struct guest *g, const char *why)
{
	if (g->state == GUEST_GONE)
		return;
	if (!h->judged && g->state <= GUEST_ENTRY)
		drop_stranger(h, g, why);
	h->misfits -= g->misfit || g->contends;
	h->bytes -= g->in.len;
	if (!h->judged && !g->misfit && !g->contends &&
	    (g->state == GUEST_MEMBER || g->state == GUEST_SEATED)) {
		leave_seat(h, g, why);
	}
	guest_state(h, g, GUEST_GONE);
	cleanup_close(&g->fd);
	g->fd = -EBADF;
}

/* What is written goes out yet. */
static void guest_leaves(struct hall *h, struct guest *g, int64_t now_ms)
{
	guest_state(h, g, GUEST_LEAVES);
	g->deadline_ms = now_ms + STRANGER_MS;
}

/* --- what guests say --- */

static void tell_verdict(struct hall *h, struct guest *g, int64_t now_ms)
{
	struct buf b = { 0 };

	buf_put_varint(&b, h->verdict.len);
	buf_put(&b, h->verdict_digest, DIGEST_BYTES);
	wire_put(&g->wire, &g->out, FRAME_VERDICT, b.data, b.len);
	buf_done(&b);
	g->verdict_at = 0;
	guest_state(h, g, GUEST_TOLD);
	h->moved_ms = now_ms;
}

static void deny(struct hall *h, struct guest *g, const struct entry *e, bool parsed,
		 int64_t now_ms)
{
	char why[MEET_WHY_MOST], when[32];

	if (parsed && e->sealed) {
		meet_time_words(e->made_ns, when);
		snprintf(why, sizeof(why), "sent an old message again, made at %s", when);
	} else {
		snprintf(why, sizeof(why), "does not hold the secret of this meeting");
	}
	roster_extra(&h->m->roster, MEET_IMPOSTOR, parsed ? e->node : g->greeting.node,
		     parsed ? e->name : g->greeting.name, g->address, why);
	wire_put(&g->wire, &g->out, FRAME_DENIED, NULL, 0);
	guest_leaves(h, g, now_ms);
}

static void refuse(struct hall *h, struct guest *g, int64_t now_ms)
{
	const char *ours = h->m->plan->job;
	_cleanup_free_ char *theirs = meet_clean(g->entry.job, strlen(g->entry.job), 100);
	char why[MEET_WHY_MOST];

	snprintf(why, sizeof(why), "is of job \"%s\", not of \"%.100s\"", theirs, ours);
	roster_extra(&h->m->roster, MEET_IMPOSTOR, g->entry.node, g->entry.name, g->address, why);
	snprintf(why, sizeof(why), "job \"%.100s\" of %.100s meets there", ours, h->m->name);
	wire_put(&g->wire, &g->out, FRAME_REFUSED, why, strlen(why));
	guest_leaves(h, g, now_ms);
}

static void make_misfit(struct hall *h, struct guest *g, const char *why)
{
	g->misfit = true;
	h->misfits++;
	roster_extra(&h->m->roster, MEET_MISFIT, g->entry.node, g->entry.name, g->address, why);
}

/* Which seat is its own; it may have none. */
static void find_seat(struct hall *h, struct guest *g, int64_t now_ms)
{
	const struct entry *e = &g->entry;
	struct guest *holder;
	char why[MEET_WHY_MOST];

	if (e->nodes != h->m->plan->nodes || e->node >= e->nodes) {
		snprintf(why, sizeof(why), "says it is node %u of %u; here %u nodes meet", e->node,
			 e->nodes, h->m->plan->nodes);
		make_misfit(h, g, why);
		return;
	}
	if (!e->node) {
		snprintf(why, sizeof(why), "is a second node 0: %.100s judges", h->m->name);
		make_misfit(h, g, why);
		return;
	}
	holder = h->holders[e->node];
	if (holder && !memcmp(holder->entry.instance, e->instance, INSTANCE_BYTES))
		guest_drop(h, holder, "it connected anew");
	if (h->holders[e->node]) {
		g->contends = true;
		h->misfits++;
		h->double_ms = now_ms + DOUBLE_WAIT_MS;
		return;
	}
	h->holders[e->node] = g;
}

static void welcome(struct hall *h, struct guest *g, int64_t now_ms)
{
	int64_t left = MAX(g->entry.left_ms, 0), judge;

	wire_put(&g->wire, &g->out, FRAME_WELCOME, h->m->name, strlen(h->m->name));
	guest_state(h, g, GUEST_MEMBER);
	if (h->judged) {
		g->misfit = true;
		h->misfits++;
		tell_verdict(h, g, now_ms);
		return;
	}
	g->deadline_ms = now_ms + PART_MS;
	find_seat(h, g, now_ms);
	if (h->misfits > MISFITS_MOST && (g->misfit || g->contends)) {
		guest_drop(h, g, "there are too many of the kind");
		return;
	}
	if (left < INT32_MAX) { /* who came long ago must have the verdict too */
		judge = now_ms + left - meet_reserve_ms(left);
		h->judge_ms = MIN(h->judge_ms, judge);
	}
}

static void take_entry(struct hall *h, struct guest *g, const struct frame *f, int64_t now_ms)
{
	struct entry e = { 0 };
	bool parsed = entry_get(h->m, f->body, f->len, &e);

	if (f->type != FRAME_ENTER || (f->genuine && !parsed)) {
		guest_drop(h, g, "spoke nothing of ours");
		return;
	}
	if (!f->genuine) {
		deny(h, g, &e, parsed, now_ms);
		return;
	}
	g->entry = e;
	wire_bind(&g->wire, f->body, f->len);
	if (strcmp(e.job, h->m->plan->job) != 0)
		refuse(h, g, now_ms);
	else
		welcome(h, g, now_ms);
}

static void take_tick(struct hall *h, struct guest *g, const struct frame *f)
{
	struct buf b = { 0 };

	if (++g->ticks > MEET_TICKS_MOST || f->len > 10) {
		guest_drop(h, g, "asks for the time without end");
		return;
	}
	buf_put(&b, f->body, f->len);
	buf_put_signed(&b, meet_clock_ns(h->m->plan));
	wire_put(&g->wire, &g->out, FRAME_TOCK, b.data, b.len);
	buf_done(&b);
}

static void take_part(struct hall *h, struct guest *g, const struct frame *f, int64_t now_ms)
{
	struct span s = span_of(f->body, f->len);
	uint8_t *part;
	size_t len;

	g->clock_ns = span_signed(&s);
	g->clock_doubt_ns = span_signed(&s);
	len = span_left(&s);
	if (s.bad || len > MEET_PART_MOST || len > MEET_MEMORY_MOST - h->m->roster.bytes) {
		guest_drop(h, g,
			   s.bad ? "its part cannot be read" : "there is no room for its part");
		return;
	}
	guest_state(h, g, GUEST_SEATED);
	g->deadline_ms = INT64_MAX;
	if (g->misfit)
		return;
	part = xmalloc(len + 1);
	memcpy(part, s.p, len);
	if (g->contends) {
		g->part = part;
		g->part_len = len;
		return;
	}
	roster_seat(&h->m->roster, g->entry.node, g->entry.name, g->address, part, len, now_ms);
	h->m->roster.seats[g->entry.node].clock_ns = g->clock_ns;
	h->m->roster.seats[g->entry.node].clock_doubt_ns = g->clock_doubt_ns;
}

static void take_frame(struct hall *h, struct guest *g, const struct frame *f, int64_t now_ms)
{
	if (g->state == GUEST_ENTRY) {
		take_entry(h, g, f, now_ms);
		return;
	}
	if (!f->genuine)
		guest_drop(h, g, "a message of its connection was altered");
	else if (f->type == FRAME_TICK && g->state >= GUEST_MEMBER && g->state <= GUEST_TOLD)
		take_tick(h, g, f);
	else if (f->type == FRAME_PART && g->state == GUEST_MEMBER)
		take_part(h, g, f, now_ms);
	else if (f->type == FRAME_PART && g->state == GUEST_TOLD)
		h->moved_ms = now_ms; /* too late to count */
	else if (f->type == FRAME_THANKS && g->state == GUEST_TOLD)
		guest_drop(h, g, "");
	else
		guest_drop(h, g, "a message out of turn");
}

/* One greeting or frame; bytes used, 0: no whole one is there. */
static size_t take_one(struct hall *h, struct guest *g, const uint8_t *p, size_t len,
		       int64_t now_ms)
{
	struct frame f;
	char why[MEET_WHY_MOST];
	ssize_t n;

	if (g->state == GUEST_GREETING) {
		n = greeting_get(p, len, &g->greeting);
		if (n > 0 && g->greeting.version != MEET_VERSION) {
			snprintf(why, sizeof(why),
				 "speaks version %u of the meeting, this lockstep speaks %u",
				 g->greeting.version, MEET_VERSION);
			roster_extra(&h->m->roster, MEET_IMPOSTOR, NO_ID, "another lockstep",
				     g->address, why);
			guest_leaves(h, g, now_ms);
		} else if (n > 0) {
			guest_state(h, g, GUEST_ENTRY);
			wire_open(&g->wire, true, h->m->secret, h->m->secret_len, g->nonce,
				  g->greeting.nonce);
		}
	} else {
		n = wire_get(
		    &g->wire, p, len,
		    g->state == GUEST_ENTRY ? FRAME_SMALL : MEET_PART_MOST + PART_HEAD_MOST, &f);
		if (n > 0)
			take_frame(h, g, &f, now_ms);
	}
	if (n < 0)
		guest_drop(h, g,
			   n == -EMSGSIZE ? "a message longer than any" : "spoke nothing of ours");
	return n > 0 ? (size_t)n : 0;
}

void guest_feed(struct hall *h, struct guest *g, const uint8_t *p, size_t len, int64_t now_ms)
{
	size_t used = 0, n;

	if (g->state >= GUEST_LEAVES)
		return;
	buf_put(&g->in, p, len);
	h->bytes += len;
	if (h->bytes > MEET_MEMORY_MOST) {
		guest_drop(h, g, "there is no room for its part");
		return;
	}
	while (g->state < GUEST_LEAVES && used < g->in.len) {
		n = take_one(h, g, g->in.data + used, g->in.len - used, now_ms);
		used += n;
		if (!n)
			break;
	}
	if (g->state == GUEST_GONE)
		return;
	if (g->state == GUEST_LEAVES) /* what else it said is not wanted */
		used = g->in.len;
	if (used)
		memmove(g->in.data, g->in.data + used, g->in.len - used);
	g->in.len -= used;
	h->bytes -= used;
	if (!g->in.len)
		buf_done(&g->in);
}

/* --- all of them --- */

void hall_tick(struct hall *h, int64_t now_ms)
{
	for (size_t i = 0; i < h->guests.n; i++) {
		struct guest *g = h->guests.v[i];

		if (g->state == GUEST_GONE || now_ms < g->deadline_ms)
			continue;
		if (g->state == GUEST_GREETING)
			guest_drop(h, g, "connected and said nothing whole in 5 s");
		else
			guest_drop(h, g, "it was too slow");
	}
}

bool hall_complete(struct hall *h, int64_t now_ms)
{
	return h->m->roster.came == h->m->roster.nodes && now_ms >= h->double_ms;
}

/* Those who still claim another's seat hold its number twice; strangers that have not spoken are
   not held against anybody. */
static void settle(struct hall *h)
{
	char why[MEET_WHY_MOST];

	for (size_t i = 0; i < h->guests.n; i++) {
		struct guest *g = h->guests.v[i];
		struct guest *holder;

		if (!g->contends || g->state == GUEST_GONE)
			continue;
		holder = h->holders[g->entry.node];
		snprintf(why, sizeof(why), "is a second node %u: %.100s at %s is node %u too",
			 g->entry.node, holder->entry.name, holder->address, g->entry.node);
		roster_extra(&h->m->roster, MEET_MISFIT, g->entry.node, g->entry.name, g->address,
			     why);
	}
	for (uint32_t i = 0; i < h->m->roster.nodes; i++) {
		struct guest *g = h->holders[i];

		if (g && g->state == GUEST_MEMBER)
			roster_lose(&h->m->roster, i, g->entry.name, g->address,
				    "is here, but its part was not whole in time");
	}
}

int hall_judge(struct hall *h, int64_t now_ms, struct error *reterr)
{
	struct digest *d;
	int r;

	settle(h);
	r = roster_judge(h->m, &h->verdict, reterr);
	if (r < 0)
		return r;
	r = digest_open(NULL, 0, &d, reterr);
	if (r < 0)
		return r;
	digest_add(d, h->verdict.data, h->verdict.len);
	digest_end(d, h->verdict_digest);
	h->judged = true;
	for (size_t i = 0; i < h->guests.n; i++)
		if (h->guests.v[i]->state == GUEST_MEMBER || h->guests.v[i]->state == GUEST_SEATED)
			tell_verdict(h, h->guests.v[i], now_ms);
	return 0;
}

void hall_news(struct hall *h)
{
	_cleanup_free_ char *missing = roster_missing(&h->m->roster, NEWS_MOST - 64);
	_cleanup_free_ char *text = xasprintf("%u of %u nodes came, missing: %s", h->m->roster.came,
					      h->m->roster.nodes, missing);

	for (size_t i = 0; i < h->guests.n; i++) {
		struct guest *g = h->guests.v[i];

		if (g->state == GUEST_SEATED && !g->out.len)
			wire_put(&g->wire, &g->out, FRAME_NEWS, text, strlen(text));
	}
}

static void guest_free(struct guest *g)
{
	cleanup_close(&g->fd);
	buf_done(&g->in);
	buf_done(&g->out);
	free(g->part);
	free(g);
}

void hall_sweep(struct hall *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->guests.n; i++) {
		if (h->guests.v[i]->state == GUEST_GONE)
			guest_free(h->guests.v[i]);
		else
			h->guests.v[n++] = h->guests.v[i];
	}
	h->guests.n = n;
}

void hall_done(struct hall *h)
{
	for (size_t i = 0; i < h->guests.n; i++)
		guest_free(h->guests.v[i]);
	free(h->guests.v);
	free(h->holders);
	buf_done(&h->verdict);
	*h = (struct hall){ 0 };
}
