/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint_dcp.c - torch.distributed.checkpoint: what .metadata says lies where must lie there.
 *
 * Each item is a whole torch.save of its own, so a file with a stretch missing, or of zeros, does
 * not pass. .metadata is written last and renamed into place: without it the save did not end.
 */
#include "read/checkpoint_inside.h"

struct item {
	char *file; /* shared by those of one file once sorted; owned */
	uint64_t at, len;
	bool altered; /* by a transform: its bytes cannot be looked into */
};
struct dcp {
	struct checkpoint_look *l;
	VEC(struct item) items;
	char *bad; /* a name or number that cannot be */
};

/* Files are named inside of the folder: nothing leads out of it. */
static bool inside(struct pickle_text name)
{
	if (!name.len || name.len > 4096 || name.p[0] == '/' || memchr(name.p, 0, name.len))
		return false;
	for (size_t i = 0; i + 1 < name.len; i++)
		if (name.p[i] == '.' && name.p[i + 1] == '.')
			return false;
	return true;
}

static void see_item(void *user, struct pickle_text file, int64_t at, int64_t len, bool altered)
{
	struct dcp *d = user;

	if (!inside(file) || at < 0 || len < 0) {
		if (!d->bad)
			d->bad = xasprintf("a place that cannot be: %.*s", (int)MIN(file.len, 200u),
					   file.p);
		return;
	}
	*vec_push(&d->items) =
	    (struct item){ strndup(file.p, file.len), (uint64_t)at, (uint64_t)len, altered };
}

static void see_pair(void *user, struct pickle_text key, const int64_t *number, bool outermost)
{
	struct dcp *d = user;

	(void)outermost;
	checkpoint_fact(&d->l->facts, key, number, false);
}

/* .metadata, read through checkpoint_file: the look carries the rest. */
struct dcp_look {
	struct checkpoint_look l;
	struct dcp *d;
};

static enum checkpoint_state read_metadata(struct checkpoint_look *l, const struct stretch *s)
{
	struct dcp *d = ((struct dcp_look *)(void *)l)->d;
	struct pickle_watch watch = { .user = d, .item = see_item, .pair = see_pair };
	_cleanup_free_ uint8_t *p = NULL;
	struct error e;
	size_t used;
	int bad;

	if (!s->len)
		return torn(l, "empty");
	if (s->len > CHECKPOINT_PICKLE_MOST)
		return foreign(l, "larger than is looked at");
	p = stretch_bytes(s, 0, (size_t)s->len);
	if (!p)
		return torn(l, "it cannot be read");
	bad = pickle_look(p, (size_t)s->len, &watch, &used, &e);
	if (bad)
		return bad == -ENOTSUP ? foreign(l, "%s", e.text) : torn(l, "%s", e.text);
	if (used != s->len)
		return torn(l, "%zu bytes behind its end", (size_t)s->len - used);
	if (d->bad)
		return foreign(l, "%s", d->bad);
	return d->items.n ? CHECKPOINT_GOOD : foreign(l, "it names no bytes of any file");
}

static int by_place(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	int r = strcmp(x->file, y->file);

	if (r)
		return r;
	if (x->at != y->at)
		return x->at > y->at ? 1 : -1;
	return (x->len > y->len) - (x->len < y->len);
}

/* One file's items: n from v on. */
struct shard_look {
	struct checkpoint_look l;
	const struct item *v;
	size_t n;
};

static enum checkpoint_state check_item(struct checkpoint_look *l, const struct stretch *s,
					const struct item *i)
{
	struct stretch in = { s->fd, s->at + i->at, i->len };
	uint8_t head[4] = { 0 };

	if (i->altered || !i->len)
		return CHECKPOINT_GOOD; /* that it is there is all that can be told */
	if (!stretch_read(&in, 0, head, (size_t)MIN(i->len, 4u)))
		return torn(l, "it cannot be read at byte %" PRIu64, i->at);
	if (memcmp(head, "PK\3\4", 4) == 0) {
		struct checkpoint_look item = { .whole = l->whole, .facts = l->facts };
		enum checkpoint_state state = checkpoint_torch(&item, &in);

		if (state != CHECKPOINT_GOOD)
			error_set(&l->why, 0, "the item at byte %" PRIu64 ": %.300s", i->at,
				  item.why.text);
		return state;
	}
	if (stretch_zero_tail(&in) == i->len)
		return torn(l, "zeros at byte %" PRIu64 " where an item should lie", i->at);
	return foreign(l, "the item at byte %" PRIu64 " is none by torch.save", i->at);
}

static enum checkpoint_state check_shard(struct checkpoint_look *l, const struct stretch *s)
{
	const struct shard_look *f = (struct shard_look *)(void *)l;
	enum checkpoint_state state = CHECKPOINT_GOOD;
	uint64_t end = 0;

	for (size_t i = 0; i < f->n && state == CHECKPOINT_GOOD; i++) {
		const struct item *it = &f->v[i];

		if (it->at > s->len || it->len > s->len - it->at)
			return torn(l,
				    "%" PRIu64
				    " bytes, and .metadata says that an item ends at %" PRIu64,
				    s->len, it->at + it->len);
		if (i && it->at == f->v[i - 1].at && it->len == f->v[i - 1].len)
			continue;
		if (it->at < end)
			return torn(l, "items lie over each other at byte %" PRIu64, it->at);
		end = it->at + it->len;
		state = check_item(l, s, it);
	}
	return state;
}

static enum checkpoint_state check_shards(struct checkpoint_look *l, const char *folder,
					  const struct dcp *d)
{
	enum checkpoint_state state = CHECKPOINT_GOOD;

	for (size_t i = 0, n; i < d->items.n && state == CHECKPOINT_GOOD; i += n) {
		const struct item *v = d->items.v + i;
		_cleanup_free_ char *path = xasprintf("%s/%s", folder, v->file);
		struct shard_look f = { .l = *l, .v = v };

		for (n = 1; i + n < d->items.n && strcmp(v[n].file, v->file) == 0; n++)
			;
		f.n = n;
		state = checkpoint_file(&f.l, path, check_shard);
		l->why = f.l.why;
	}
	return state;
}

enum checkpoint_state checkpoint_dcp(struct checkpoint_look *l, const char *folder,
				     const char *name)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", folder, name);
	struct dcp d = { .l = l };
	struct dcp_look look = { .l = *l, .d = &d };
	enum checkpoint_state state = checkpoint_file(&look.l, path, read_metadata);

	l->why = look.l.why;
	if (state == CHECKPOINT_GOOD) {
		qsort(d.items.v, d.items.n, sizeof(*d.items.v), by_place);
		state = check_shards(l, folder, &d);
	}
	for (size_t i = 0; i < d.items.n; i++)
		free(d.items.v[i].file);
	free(d.items.v);
	free(d.bad);
	return state;
}
