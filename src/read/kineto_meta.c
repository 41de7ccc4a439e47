/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kineto_meta.c - what a trace says of its rank and job, outside its events.
 *
 * The text is a sound copy of one member, JSON_PAD zeros behind it; what has an unexpected type is
 * left out, never an error.
 */
#include "read/kineto_event.h"

#define META_GROUPS_MAX 65536u /* of one file */
#define META_RANKS_MAX	(1u << 24)

/* Calls member(user, key, value) for each member of the object at p; a short object without names
   on the way. False if p is none. */
typedef void (*member_fn)(void *user, const char *key, size_t key_len, const char *value,
			  const char *end);

static const char *each_member(const char *p, const char *end, member_fn member, void *user)
{
	bool plain;

	if (*p != '{')
		return NULL;
	p++;
	for (;;) {
		const char *key, *value;
		size_t key_len;

		p = json_skip_space(p, end);
		if (*p == '}')
			return p + 1;
		if (*p != '"')
			return NULL;
		key = p + 1;
		p = json_string_end(key, end, &plain);
		if (!p)
			return NULL;
		key_len = (size_t)(p - key);
		p = json_skip_space(p + 1, end);
		if (*p != ':')
			return NULL;
		value = json_skip_space(p + 1, end);
		p = json_skip_value(value, end);
		if (!p)
			return NULL;
		member(user, key, key_len, value, p);
		p = json_skip_space(p, end);
		if (*p == ',')
			p++;
	}
}

static bool key_is(const char *key, size_t len, const char *name)
{
	return strlen(name) == len && !memcmp(key, name, len);
}

/* A string's text, or a number's; NO_ID for anything else. */
static uint32_t meta_text(struct meta_builder *b, const char *p, const char *end)
{
	char *text;
	size_t len;
	bool bad;

	if (*p == '"') {
		p++;
		end--;
	} else if (*p != '-' && (*p < '0' || *p > '9')) {
		return NO_ID;
	}
	while (end > p && (unsigned char)end[-1] <= ' ')
		end--;
	text = arena_alloc(&b->arena, (size_t)(end - p) + 4);
	len = json_unescape(text, p, (size_t)(end - p), &bad);
	return intern(b->names, text, len);
}

static int64_t meta_number(const char *p, const char *end, int64_t otherwise)
{
	int64_t v;

	return json_number(&p, end, 0, &v) == JSON_NUMBER_GOOD ? v : otherwise;
}

/* "ranks": a list, or a string that holds one; shortened lists ("...") are no list of members. */
static void meta_ranks(struct meta_builder *b, const char *p, const char *end,
		       struct trace_group *g)
{
	VEC(uint32_t) ranks = { 0 };

	while (p < end && (*p == '"' || *p == '[' || (unsigned char)*p <= ' '))
		p++;
	while (p < end && *p >= '0' && *p <= '9' && ranks.n < META_RANKS_MAX) {
		int64_t v;

		if (json_number(&p, end, 0, &v) != JSON_NUMBER_GOOD || v > UINT32_MAX - 1)
			break;
		*vec_push(&ranks) = (uint32_t)v;
		while (p < end && (*p == ',' || (unsigned char)*p <= ' '))
			p++;
	}
	if (ranks.n && p < end && *p == ']') {
		g->n_ranks = (uint32_t)ranks.n;
		g->ranks = arena_alloc(&b->arena, ranks.n * sizeof(*g->ranks));
		memcpy(g->ranks, ranks.v, ranks.n * sizeof(*g->ranks));
	}
	free(ranks.v);
}

struct group_context {
	struct meta_builder *b;
	struct trace_group group;
};

static void group_member(void *user, const char *key, size_t len, const char *p, const char *end)
{
	struct group_context *c = user;

	if (key_is(key, len, "pg_name"))
		c->group.name = meta_text(c->b, p, end);
	else if (key_is(key, len, "pg_desc"))
		c->group.desc = meta_text(c->b, p, end);
	else if (key_is(key, len, "pg_size"))
		c->group.size = (uint32_t)MIN(MAX(meta_number(p, end, 0), 0), INT32_MAX);
	else if (key_is(key, len, "ranks"))
		meta_ranks(c->b, p, end, &c->group);
}

static void add_group(struct meta_builder *b, const struct trace_group *g)
{
	struct trace_meta *m = &b->meta;
	struct trace_group *grown;

	if (m->n_groups >= META_GROUPS_MAX)
		return;
	if (!(m->n_groups & (m->n_groups - 1))) { /* a power of two, or none: full */
		grown = arena_alloc(&b->arena, (m->n_groups ? 2 * m->n_groups : 1) * sizeof(*g));
		if (m->n_groups)
			memcpy(grown, m->groups, m->n_groups * sizeof(*g));
		m->groups = grown;
	}
	m->groups[m->n_groups++] = *g;
}

/* "pg_config": a list of objects. */
static void meta_groups(struct meta_builder *b, const char *p, const char *end)
{
	if (*p != '[')
		return;
	p++;
	for (;;) {
		struct group_context c = { .b = b, .group = { .name = NO_ID, .desc = NO_ID } };

		p = json_skip_space(p, end);
		if (*p == ',') {
			p++;
			continue;
		}
		p = each_member(p, end, group_member, &c);
		if (!p)
			return;
		if (c.group.name != NO_ID || c.group.ranks)
			add_group(b, &c.group);
	}
}

static void distributed_member(void *user, const char *key, size_t len, const char *p,
			       const char *end)
{
	struct meta_builder *b = user;

	if (key_is(key, len, "rank"))
		b->meta.rank = MAX(meta_number(p, end, -1), -1);
	else if (key_is(key, len, "world_size"))
		b->meta.world_size = MAX(meta_number(p, end, -1), -1);
	else if (key_is(key, len, "backend"))
		b->meta.backend = meta_text(b, p, end);
	else if (key_is(key, len, "pg_config"))
		meta_groups(b, p, end);
}

static void device_member(void *user, const char *key, size_t len, const char *p, const char *end)
{
	struct meta_builder *b = user;

	if (key_is(key, len, "name") && end - p > 2 && b->meta.gpu_name == NO_ID)
		b->meta.gpu_name = meta_text(b, p, end);
}

static void meta_devices(struct meta_builder *b, const char *p, const char *end)
{
	while (p && p < end && (*p == '[' || *p == ',' || (unsigned char)*p <= ' '))
		p++;
	while (p && *p == '{') {
		p = each_member(p, end, device_member, b);
		while (p && p < end && (*p == ',' || (unsigned char)*p <= ' '))
			p++;
	}
}

static void meta_distributed(struct meta_builder *b, const char *p, const char *end)
{
	each_member(p, end, distributed_member, b);
}

static void meta_base_time(struct meta_builder *b, const char *p, const char *end)
{
	b->meta.base_time_ns = MAX(meta_number(p, end, 0), 0);
}

static void meta_host(struct meta_builder *b, const char *p, const char *end)
{
	b->meta.host = meta_text(b, p, end);
}

static void meta_trace_id(struct meta_builder *b, const char *p, const char *end)
{
	b->meta.trace_id = meta_text(b, p, end);
}

static void meta_trace_name(struct meta_builder *b, const char *p, const char *end)
{
	if (b->meta.trace_id == NO_ID)
		b->meta.trace_id = meta_text(b, p, end);
}

static const struct {
	const char *key;
	void (*take)(struct meta_builder *b, const char *p, const char *end);
} members[] = {
	{ "distributedInfo", meta_distributed },
	{ "deviceProperties", meta_devices },
	{ "baseTimeNanoseconds", meta_base_time },
	{ "host_name", meta_host },
	{ "hostname", meta_host },
	{ "trace_id", meta_trace_id },
	{ "traceName", meta_trace_name },
};

bool meta_wants(const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (!strcmp(members[i].key, key))
			return true;
	return false;
}

void meta_member(struct meta_builder *b, const char *key, const char *text, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (!strcmp(members[i].key, key))
			members[i].take(b, text, text + len);
}

void meta_init(struct meta_builder *b, struct intern *names)
{
	*b = (struct meta_builder){ .names = names,
				    .meta = { .rank = -1,
					      .world_size = -1,
					      .host = NO_ID,
					      .backend = NO_ID,
					      .gpu_name = NO_ID,
					      .trace_id = NO_ID } };
}

void meta_done(struct meta_builder *b)
{
	arena_done(&b->arena);
}
