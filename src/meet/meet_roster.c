/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet_roster.c - who sits where: the rows that the judge gets.
 *
 * Each node has one row whatever happens. What others say of themselves makes rows beyond them,
 * bounded in all and by address, so that nobody can push a name out of the list with many of his.
 */
#include "meet/meet_inside.h"
#include "base/ranges.h"

#include <stdio.h>

void roster_open(struct roster *r, const struct meet_plan *plan)
{
	*r = (struct roster){ .nodes = plan->nodes };
	r->seats = xcalloc(plan->nodes, sizeof(*r->seats));
	for (uint32_t i = 0; i < plan->nodes; i++)
		r->seats[i] = (struct seat){
			.node = i,
			.presence = MEET_ABSENT,
			.name = plan->names && plan->names[i] ? xstrdup(plan->names[i])
							      : xasprintf("node %u", i),
			.clock_ns = INT64_MIN,
			.clock_doubt_ns = INT64_MIN,
			.came_ms = INT64_MIN,
		};
}

static void replace(char **s, const char *by)
{
	char *old = *s;

	*s = by ? xstrdup(by) : NULL;
	free(old);
}

static void seat_clear(struct roster *r, struct seat *s)
{
	r->came -= s->presence == MEET_CAME;
	r->bytes -= s->part_len;
	free(s->part);
	s->part = NULL;
	s->part_len = 0;
	s->clock_ns = s->clock_doubt_ns = INT64_MIN;
}

static void seat_fill(struct roster *r, struct seat *s, const char *name, const char *address)
{
	seat_clear(r, s);
	if (name && *name)
		replace(&s->name, name);
	replace(&s->address, address);
}

void roster_seat(struct roster *r, uint32_t node, const char *name, const char *address,
		 uint8_t *part, size_t part_len, int64_t now_ms)
{
	struct seat *s = &r->seats[node];

	seat_fill(r, s, name, address);
	replace(&s->why, NULL);
	s->presence = MEET_CAME;
	s->part = part;
	s->part_len = part_len;
	if (s->came_ms == INT64_MIN)
		s->came_ms = now_ms;
	r->came++;
	r->bytes += part_len;
}

void roster_lose(struct roster *r, uint32_t node, const char *name, const char *address,
		 const char *why)
{
	struct seat *s = &r->seats[node];

	seat_fill(r, s, name, address);
	replace(&s->why, why);
	s->presence = MEET_LOST;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

void roster_extra(struct roster *r, enum meet_presence presence, uint32_t node, const char *name,
		  const char *address, const char *why)
{
	size_t of_address = 0;

	for (size_t i = 0; i < r->extras.n; i++) {
		struct seat *s = &r->extras.v[i];

		if (!same_text(s->address, address))
			continue;
		of_address++;
		if (s->presence == presence && s->node == node && same_text(s->name, name) &&
		    same_text(s->why, why)) {
			s->times++;
			return;
		}
	}
	if (r->extras.n >= MEET_EXTRAS_MOST || (address && of_address >= MEET_EXTRAS_OF)) {
		r->more++;
		return;
	}
	*vec_push(&r->extras) = (struct seat){
		.node = node,
		.presence = presence,
		.name = xstrdup(name ? name : ""),
		.address = address ? xstrdup(address) : NULL,
		.why = xstrdup(why),
		.clock_ns = INT64_MIN,
		.clock_doubt_ns = INT64_MIN,
		.came_ms = INT64_MIN,
		.times = 1,
	};
}

/* Those whose names say no more than their numbers, as ranges. */
static void put_numbers(struct buf *b, const struct roster *r)
{
	int64_t *v = xcalloc(r->nodes, sizeof(*v));
	_cleanup_free_ char *text = NULL;
	char plain[32];
	size_t n = 0;

	for (uint32_t i = 0; i < r->nodes; i++) {
		snprintf(plain, sizeof(plain), "node %u", i);
		if (r->seats[i].presence != MEET_CAME && !strcmp(r->seats[i].name, plain))
			v[n++] = i;
	}
	text = ranges_format(v, n);
	if (n) {
		buf_put(b, b->len ? ", " : "", b->len ? 2 : 0);
		buf_put(b, "nodes ", n > 1 ? 6 : 0);
		buf_put(b, "node ", n > 1 ? 0 : 5);
		buf_put(b, text, strlen(text));
	}
	free(v);
}

char *roster_missing(const struct roster *r, size_t most)
{
	struct buf b = { 0 };
	char plain[32];
	char *text;

	for (uint32_t i = 0; i < r->nodes && b.len < most; i++) {
		snprintf(plain, sizeof(plain), "node %u", i);
		if (r->seats[i].presence == MEET_CAME || !strcmp(r->seats[i].name, plain))
			continue;
		text = xasprintf("%s%s (%.80s)", b.len ? ", " : "", plain, r->seats[i].name);
		buf_put(&b, text, strlen(text));
		free(text);
	}
	put_numbers(&b, r);
	text = meet_clean((const char *)b.data, b.len, most);
	if (b.len > most && most > 4)
		strcpy(text + most - 4, " ...");
	buf_done(&b);
	return text;
}

static struct meet_part row_of(const struct seat *s, int64_t first_ms)
{
	return (struct meet_part){
		.node = s->node,
		.name = s->name,
		.address = s->address,
		.presence = s->presence,
		.why = s->why,
		.part = s->presence == MEET_CAME ? s->part : NULL,
		.part_len = s->presence == MEET_CAME ? s->part_len : 0,
		.clock_ns = s->clock_ns,
		.clock_doubt_ns = s->clock_doubt_ns,
		.late_ms = s->came_ms == INT64_MIN ? 0 : s->came_ms - first_ms,
	};
}

/* Their number belongs to what is said of them. */
static void count_extras(struct roster *r)
{
	for (size_t i = 0; i < r->extras.n; i++) {
		struct seat *s = &r->extras.v[i];
		char *why;

		if (s->times < 2)
			continue;
		why = xasprintf("%s (%" PRIu64 " times)", s->why, s->times);
		free(s->why);
		s->why = why;
	}
	if (r->more) {
		char *why = xasprintf("%" PRIu64 " more that are not listed one by one", r->more);

		*vec_push(&r->extras) = (struct seat){ .node = UINT32_MAX,
						       .presence = MEET_STRANGER,
						       .name = xstrdup("others"),
						       .why = why,
						       .clock_ns = INT64_MIN,
						       .clock_doubt_ns = INT64_MIN,
						       .came_ms = INT64_MIN };
	}
}

int roster_judge(struct meeting *m, struct buf *ret_verdict, struct error *reterr)
{
	struct roster *ro = &m->roster;
	struct meet_part *rows;
	struct buf verdict = { 0 };
	int64_t first_ms = INT64_MAX;
	int r;

	count_extras(ro);
	rows = xcalloc(ro->nodes + ro->extras.n, sizeof(*rows));
	for (uint32_t i = 0; i < ro->nodes; i++)
		if (ro->seats[i].came_ms != INT64_MIN)
			first_ms = MIN(first_ms, ro->seats[i].came_ms);
	for (uint32_t i = 0; i < ro->nodes; i++) {
		if (ro->seats[i].presence == MEET_ABSENT && !ro->seats[i].why)
			ro->seats[i].why = xasprintf("never heard of%s%s", m->note ? "; " : "",
						     m->note ? m->note : "");
		rows[i] = row_of(&ro->seats[i], first_ms);
	}
	for (size_t i = 0; i < ro->extras.n; i++)
		rows[ro->nodes + i] = row_of(&ro->extras.v[i], first_ms);
	r = m->judge(m->user, rows, ro->nodes + ro->extras.n, &verdict, reterr);
	free(rows);
	if (r >= 0 && verdict.len > MEET_VERDICT_MOST)
		r = error_set(reterr, -E2BIG, "a verdict of %zu bytes, more than %zu", verdict.len,
			      MEET_VERDICT_MOST);
	if (r < 0) {
		buf_done(&verdict);
		return r;
	}
	*ret_verdict = verdict;
	return 0;
}

static void seat_done(struct seat *s)
{
	free(s->name);
	free(s->address);
	free(s->why);
	free(s->part);
}

void roster_done(struct roster *r)
{
	for (uint32_t i = 0; r->seats && i < r->nodes; i++)
		seat_done(&r->seats[i]);
	for (size_t i = 0; i < r->extras.n; i++)
		seat_done(&r->extras.v[i]);
	free(r->seats);
	free(r->extras.v);
	*r = (struct roster){ 0 };
}
