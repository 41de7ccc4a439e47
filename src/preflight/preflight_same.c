/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_same.c - which node is at odds with the others, and in what.
 *
 * The most frequent value of a key is taken for the meant one; where two are as frequent nobody is
 * taken for right, and all sides are named.
 */
#include "preflight/preflight_inside.h"

#include <stdio.h>

#define VALUE_SHOWN 60u
#define KEYS_SHOWN  3u
#define HOSTS_SHOWN 3u
#define KEYS_KEPT   64u
#define ODD_KEPT    256u
#define NOT_SET	    "not set"

/* One key on which nodes differ: its values, each with the nodes that gave it. */
struct side {
	const char *value; /* NULL: not set */
	VEC(uint32_t) nodes;
};
struct difference {
	const char *key;
	VEC(struct side) sides; /* most frequent first */
	bool tie;
};

struct compared {
	const struct same_rule *rule;
	struct judging *j;
	const json_t **groups; /* of each node, NULL: it gave none */
	size_t gave;
	VEC(struct difference) differences;
};

static const json_t *group_of(const struct preflight_node *node, const struct same_rule *rule)
{
	const json_t *facts = node_facts(node, rule->probe), *items, *group;
	static json_t *nothing;

	if (!facts)
		return NULL;
	items = json_object_get(facts, "items");
	group = json_object_get(items, rule->group);
	if (json_is_object(group))
		return group;
	if (!nothing)
		nothing = json_object();
	return nothing;
}

static struct side *side_of(struct difference *d, const char *value)
{
	for (size_t i = 0; i < d->sides.n; i++) {
		const char *v = d->sides.v[i].value;

		if (v == value || (v && value && !strcmp(v, value)))
			return &d->sides.v[i];
	}
	*vec_push(&d->sides) = (struct side){ .value = value };
	return &d->sides.v[d->sides.n - 1];
}

static int by_frequency(const void *a, const void *b)
{
	const struct side *x = a, *y = b;

	if (x->nodes.n != y->nodes.n)
		return x->nodes.n < y->nodes.n ? 1 : -1;
	return x->nodes.v[0] < y->nodes.v[0] ? -1 : 1;
}

static void difference_done(struct difference *d)
{
	for (size_t i = 0; i < d->sides.n; i++)
		free(d->sides.v[i].nodes.v);
	free(d->sides.v);
}

static void compare_key(struct compared *c, const char *key)
{
	struct difference d = { .key = key };

	for (size_t i = 0; i < c->j->n; i++) {
		const char *value = c->groups[i] ? fact_text(c->groups[i], key) : NULL;

		if (!c->groups[i] || (!value && c->rule->lack_is_unknown))
			continue;
		*vec_push(&side_of(&d, value)->nodes) = (uint32_t)i;
	}
	if (d.sides.n < 2) {
		difference_done(&d);
		return;
	}
	qsort(d.sides.v, d.sides.n, sizeof(*d.sides.v), by_frequency);
	d.tie = d.sides.v[0].nodes.n == d.sides.v[1].nodes.n;
	*vec_push(&c->differences) = d;
}

/* A configuration's digest says no more than its keys do. */
static bool is_told_by_keys(const struct compared *c, const char *key)
{
	size_t len = strlen(key);

	for (size_t i = 0; i < c->differences.n; i++) {
		const char *k = c->differences.v[i].key;

		if (!strncmp(k, key, len) && k[len] == ':')
			return true;
	}
	return false;
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct difference *)a)->key, ((const struct difference *)b)->key);
}

static void compare(struct compared *c)
{
	const json_t *first = NULL;
	bool same = true;
	json_t *keys;
	void *iter;

	for (size_t i = 0; i < c->j->n; i++) {
		if (!c->groups[i])
			continue;
		if (!first)
			first = c->groups[i];
		else if (same)
			same = json_equal(first, c->groups[i]);
	}
	if (same)
		return;
	keys = json_object();
	for (size_t i = 0; i < c->j->n; i++)
		if (c->groups[i])
			json_object_update(keys, (json_t *)(uintptr_t)c->groups[i]);
	for (iter = json_object_iter(keys); iter; iter = json_object_iter_next(keys, iter)) {
		/* The node's own copy of the key outlives the union. */
		for (size_t i = 0; i < c->j->n; i++) {
			void *at = c->groups[i]
				       ? json_object_iter_at((json_t *)(uintptr_t)c->groups[i],
							     json_object_iter_key(iter))
				       : NULL;

			if (at) {
				compare_key(c, json_object_iter_key(at));
				break;
			}
		}
	}
	json_decref(keys);
	if (c->differences.n)
		qsort(c->differences.v, c->differences.n, sizeof(*c->differences.v), by_key);
}

/* --- words --- */

static void put_text(struct buf *b, const char *text)
{
	buf_put(b, text, strlen(text));
}

static void put_value(struct buf *b, const char *value)
{
	size_t len;

	if (!value)
		value = NOT_SET;
	len = strlen(value);
	if (len <= VALUE_SHOWN) {
		put_text(b, value);
		return;
	}
	len = VALUE_SHOWN - 2;
	while (len && ((unsigned char)value[len] & 0xc0) == 0x80)
		len--;
	buf_put(b, value, len);
	put_text(b, "..");
}

static void put_side(struct buf *b, const struct compared *c, const struct side *s)
{
	char number[64];

	put_value(b, s->value);
	put_text(b, " on ");
	if (s->nodes.n > HOSTS_SHOWN) {
		snprintf(number, sizeof(number), "%zu nodes", s->nodes.n);
		put_text(b, number);
		return;
	}
	for (size_t i = 0; i < s->nodes.n; i++) {
		if (i)
			put_text(b, i + 1 < s->nodes.n ? ", " : " and ");
		put_text(b, c->j->nodes[s->nodes.v[i]].host);
	}
}

static char *difference_words(const struct compared *c)
{
	struct buf b = { 0 };
	size_t shown = 0, all = 0;

	for (size_t i = 0; i < c->differences.n; i++) {
		const struct difference *d = &c->differences.v[i];

		if (is_told_by_keys(c, d->key))
			continue;
		if (all++ >= KEYS_SHOWN)
			continue;
		if (shown++)
			put_text(&b, "; ");
		put_text(&b, d->key);
		put_text(&b, ": ");
		for (size_t k = 0; k < d->sides.n && k < 4; k++) {
			if (k)
				put_text(&b, ", ");
			put_side(&b, c, &d->sides.v[k]);
		}
		if (d->sides.n > 4)
			put_text(&b, ", and others");
		if (d->tie)
			put_text(&b, " (no majority)");
	}
	if (all > shown) {
		char more[64];

		snprintf(more, sizeof(more), "; and %zu more differ", all - shown);
		put_text(&b, more);
	}
	buf_put(&b, "", 1);
	return (char *)b.data;
}

static json_t *difference_json(const struct compared *c, const struct difference *d)
{
	json_t *j = json_object(), *values = json_array();

	json_object_set_new(j, "item", text_json(d->key));
	json_object_set_new(j, "tie", json_boolean(d->tie));
	for (size_t i = 0; i < d->sides.n && i < ODD_KEPT; i++) {
		const struct side *s = &d->sides.v[i];
		json_t *v = json_object(), *hosts = json_array();

		for (size_t k = 0; k < s->nodes.n && k < ODD_KEPT; k++)
			json_array_append_new(hosts, text_json(c->j->nodes[s->nodes.v[k]].host));
		json_object_set_new(v, "value", s->value ? text_json(s->value) : json_null());
		json_object_set_new(v, "nodes", json_integer((json_int_t)s->nodes.n));
		json_object_set_new(v, "hosts", hosts);
		json_array_append_new(values, v);
	}
	json_object_set_new(j, "values", values);
	return j;
}

static void put_differences(const struct compared *c)
{
	const struct same_rule *r = c->rule;
	json_t *check = check_put(c->j, r->invariant, r->name, r->state, difference_words(c),
				  r->limit, r->remedy);
	json_t *list = json_array();

	for (size_t i = 0; i < c->differences.n; i++) {
		const struct difference *d = &c->differences.v[i];

		if (i < KEYS_KEPT)
			json_array_append_new(list, difference_json(c, d));
		for (size_t k = d->tie ? 0 : 1; k < d->sides.n; k++)
			for (size_t n = 0; n < d->sides.v[k].nodes.n && n < ODD_KEPT; n++)
				check_host(check, &c->j->nodes[d->sides.v[k].nodes.v[n]]);
	}
	json_object_set_new(check, "differs", list);
}

/* Alike, but what nobody could read is so too: a path that was named and is not there refuses. */
static void put_alike(const struct compared *c, size_t items)
{
	const struct same_rule *r = c->rule;
	struct gathered g = { 0 };

	for (size_t i = 0; i < c->j->n; i++) {
		json_t *group = (json_t *)(uintptr_t)c->groups[i];
		void *iter = json_object_iter(group);

		for (; iter; iter = json_object_iter_next(group, iter)) {
			const char *text = json_string_value(json_object_iter_value(iter));

			if (!text || strncmp(text, FACT_UNREAD, strlen(FACT_UNREAD)) != 0)
				continue;
			gather(&g, &c->j->nodes[i],
			       xasprintf("%.200s %.100s", json_object_iter_key(iter), text));
			break;
		}
	}
	gathered_put(c->j, &g, r->invariant, r->name, g.n ? CHECK_REFUSE : CHECK_OK,
		     c->gave > 1 ? xasprintf("%zu item%s, the same on %zu nodes", items,
					     items == 1 ? "" : "s", c->gave)
				 : NULL,
		     r->limit, "give paths that can be read");
}

void rule_of_same(struct judging *j, const struct same_rule *rule)
{
	struct compared c = { .rule = rule, .j = j };
	size_t items = 0;

	c.groups = xcalloc(j->n, sizeof(*c.groups));
	for (size_t i = 0; i < j->n; i++) {
		c.groups[i] = group_of(&j->nodes[i], rule);
		c.gave += c.groups[i] != NULL;
		items = MAX(items, json_object_size(c.groups[i]));
	}
	if (c.gave > 1 && items)
		compare(&c);
	if (c.differences.n)
		put_differences(&c);
	else if (items)
		put_alike(&c, items);
	for (size_t i = 0; i < c.differences.n; i++)
		difference_done(&c.differences.v[i]);
	free(c.differences.v);
	free(c.groups);
}
