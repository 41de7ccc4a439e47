/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint_torch.c - one file by torch.save, in its three forms: a zip, the older row of pickles
 * with the storages behind them, and a bare pickle.
 *
 * Every storage that the pickle names must be there in its size, so the older form, which has no
 * checksums, is known to be whole by its last byte.
 */
#include "read/checkpoint_inside.h"

#define FIRST_BYTES   ((uint64_t)1 << 20) /* of a row of pickles, looked at first */
#define KEY_BYTES     64u
#define PICKLES	      5u /* magic, protocol, system, object, keys */
#define PICKLE_OBJECT 3u
#define PICKLE_KEYS   4u

static const uint8_t zip_begins[] = { 'P', 'K', 3, 4 };
static const uint8_t row_begins[] = { 0x80, 2,	  0x8a, 0x0a, 0x6c, 0xfc, 0x9c,
				      0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19 };

static int element_bytes(struct pickle_text class)
{
	static const struct {
		const char *name;
		int bytes;
	} sizes[] = {
		{ "UntypedStorage", 1 },  { "FloatStorage", 4 },    { "DoubleStorage", 8 },
		{ "HalfStorage", 2 },	  { "BFloat16Storage", 2 }, { "LongStorage", 8 },
		{ "IntStorage", 4 },	  { "ShortStorage", 2 },    { "CharStorage", 1 },
		{ "ByteStorage", 1 },	  { "BoolStorage", 1 },	    { "ComplexFloatStorage", 8 },
		{ "QInt8Storage", 1 },	  { "QUInt8Storage", 1 },   { "QInt32Storage", 4 },
		{ "QUInt4x2Storage", 1 }, { "QUInt2x4Storage", 1 }, { "ComplexDoubleStorage", 16 }
	};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		if (pickle_is(class, sizes[i].name))
			return sizes[i].bytes;
	return 0;
}

struct wanted {
	char key[KEY_BYTES];
	int64_t n, bytes; /* -1: its element's size is not known */
};
struct reading {
	struct checkpoint_look *l;
	VEC(struct wanted) storages;
	VEC(struct wanted) keys; /* of the last pickle, in their order */
	bool strange;		 /* a key or size that cannot be */
};

static bool copy_key(struct pickle_text key, char *ret)
{
	if (key.len >= KEY_BYTES || memchr(key.p, 0, key.len))
		return false;
	memcpy(ret, key.p, key.len);
	ret[key.len] = 0;
	return true;
}

static void see_storage(void *user, struct pickle_text key, struct pickle_text class, int64_t n)
{
	struct reading *r = user;
	struct wanted w = { .n = n, .bytes = element_bytes(class) };

	if (!copy_key(key, w.key) || n < 0 || __builtin_mul_overflow(w.bytes, n, &w.bytes))
		r->strange = true;
	else if (!element_bytes(class))
		w.bytes = -1;
	*vec_push(&r->storages) = w;
}

static void see_key(void *user, struct pickle_text text)
{
	struct reading *r = user;
	struct wanted w = { .bytes = -1 };

	if (!copy_key(text, w.key))
		r->strange = true;
	*vec_push(&r->keys) = w;
}

static void see_pair(void *user, struct pickle_text key, const int64_t *number, bool outermost)
{
	struct reading *r = user;

	checkpoint_fact(&r->l->facts, key, number, outermost);
}

static void reading_done(struct reading *r)
{
	free(r->storages.v);
	free(r->keys.v);
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct wanted *)a)->key, ((const struct wanted *)b)->key);
}

static const struct wanted *find_key(const struct reading *r, const char *key)
{
	struct wanted w = { .bytes = 0 };

	snprintf(w.key, sizeof(w.key), "%s", key);
	return r->storages.n ? bsearch(&w, r->storages.v, r->storages.n, sizeof(w), by_key) : NULL;
}

/* --- zip --- */

static const struct zip_member *member_of(const struct zip *z, const char *end)
{
	size_t len = strlen(end);

	for (size_t i = 0; i < z->members.n; i++) {
		const struct zip_member *m = &z->members.v[i];

		if (m->name_len >= len && memcmp(m->name + m->name_len - len, end, len) == 0)
			return m;
	}
	return NULL;
}

static int by_name(const void *a, const void *b)
{
	const struct zip_member *x = a, *y = b;
	int r = memcmp(x->name, y->name, MIN(x->name_len, y->name_len));

	return r ? r : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

/* Every storage that the pickle names is a member, in its size. z's members are sorted by name. */
static enum checkpoint_state storages_there(struct checkpoint_look *l, const struct reading *r,
					    const struct zip *z, const char *prefix, int prefix_len)
{
	for (size_t i = 0; i < r->storages.n; i++) {
		const struct wanted *w = &r->storages.v[i];
		_cleanup_free_ char *name = xasprintf("%.*sdata/%s", prefix_len, prefix, w->key);
		struct zip_member key = { .name = name, .name_len = (uint32_t)strlen(name) };
		const struct zip_member *m =
		    bsearch(&key, z->members.v, z->members.n, sizeof(key), by_name);

		if (!m)
			return torn(l, "%s is missing from it", name);
		if (w->bytes >= 0 && m->size != (uint64_t)w->bytes)
			return torn(l, "%s has %" PRIu64 " bytes where %" PRId64 " are due", name,
				    m->size, w->bytes);
	}
	return CHECKPOINT_GOOD;
}

static enum checkpoint_state read_pickle(struct checkpoint_look *l, const struct stretch *s,
					 struct zip *z, const struct zip_member *found)
{
	struct reading r = { .l = l };
	struct pickle_watch watch = { .user = &r, .storage = see_storage, .pair = see_pair };
	const struct zip_member pickle = *found;
	_cleanup_free_ uint8_t *p = NULL;
	enum checkpoint_state state = CHECKPOINT_GOOD;
	struct error e;
	size_t used;
	int bad;

	if (pickle.size > CHECKPOINT_PICKLE_MOST)
		return CHECKPOINT_GOOD; /* its structure is */
	p = zip_bytes(s, &pickle);
	if (!p)
		return torn(l, "the bytes of data.pkl are not those that were saved (CRC)");
	bad = pickle_look(p, (size_t)pickle.size, &watch, &used, &e);
	if (bad && bad != -ENOTSUP) {
		state = torn(l, "data.pkl: %s", e.text);
	} else if (!bad && !r.strange) {
		qsort(z->members.v, z->members.n, sizeof(*z->members.v), by_name);
		state = storages_there(l, &r, z, pickle.name, (int)pickle.name_len - 8);
	}
	reading_done(&r);
	return state;
}

static enum checkpoint_state check_zip(struct checkpoint_look *l, const struct stretch *s)
{
	struct zip z;
	enum checkpoint_state state = zip_check(l, s, &z);
	const struct zip_member *m;

	if (state == CHECKPOINT_GOOD) {
		m = member_of(&z, "data.pkl");
		state = m ? read_pickle(l, s, &z, m)
			  : foreign(l, "a zip, but none by torch.save: it has no data.pkl");
	}
	zip_done(&z);
	return state;
}

/* --- rows of pickles --- */

static bool says(const struct stretch *s, uint64_t at, int64_t n)
{
	uint8_t b[8];
	uint64_t v = 0;

	if (!stretch_read(s, at, b, sizeof(b)))
		return false;
	for (int i = 7; i >= 0; i--)
		v = v << 8 | b[i];
	return v == (uint64_t)n;
}

/* The storages behind the pickles: each its number of elements, then its bytes. */
static enum checkpoint_state check_storages(struct checkpoint_look *l, const struct stretch *s,
					    struct reading *r, uint64_t at)
{
	if (r->storages.n)
		qsort(r->storages.v, r->storages.n, sizeof(*r->storages.v), by_key);
	for (size_t i = 0; i < r->keys.n; i++) {
		const struct wanted *w = find_key(r, r->keys.v[i].key);

		if (!w)
			return torn(l, "storage %s is named by nothing", r->keys.v[i].key);
		if (w->bytes < 0)
			return foreign(l, "a storage of a kind that is not known here");
		if (s->len - at >= 8 && !says(s, at, w->n))
			return torn(l, "storage %s is not where it should be", w->key);
		if (s->len - at < 8 || s->len - at - 8 < (uint64_t)w->bytes)
			return torn(l, "cut off in storage %s, %zu of %zu", w->key, i + 1,
				    r->keys.n);
		at += 8 + (uint64_t)w->bytes;
	}
	if (at != s->len)
		return torn(l, "%" PRIu64 " bytes behind its end", s->len - at);
	return CHECKPOINT_GOOD;
}

/* From the middle of the last storage to the end there is nothing but zeros, a page or more. */
static bool zeros_from_within(const struct stretch *s, const struct reading *r)
{
	const struct wanted *last = r->keys.n ? find_key(r, r->keys.v[r->keys.n - 1].key) : NULL;
	uint64_t zeros = last ? stretch_zero_tail(s) : 0;

	return zeros >= PAGE_ZEROS && zeros + 16 < (uint64_t)last->bytes;
}

/* A hole in a file that has no checksums. */
static enum checkpoint_state check_written(struct checkpoint_look *l, const struct stretch *s)
{
	uint64_t hole;

	if (stretch_hole(s, &hole))
		return torn(l, "a hole at byte %" PRIu64 ": what belongs there was never written",
			    hole);
	return CHECKPOINT_GOOD;
}

/* 1: more of the file is needed to tell. */
static int check_row(struct checkpoint_look *l, const struct stretch *s, const uint8_t *p,
		     size_t len, bool bare, enum checkpoint_state *ret)
{
	struct reading r = { .l = l };
	size_t used, at = 0;
	struct error e;
	int bad = 0;

	for (unsigned i = 0; i < (bare ? 1 : PICKLES) && !bad; i++, at += bad ? 0 : used) {
		struct pickle_watch watch = { .user = &r };

		if (bare || i == PICKLE_OBJECT) {
			watch.storage = see_storage;
			watch.pair = see_pair;
		} else if (i == PICKLE_KEYS) {
			watch.text = see_key;
		}
		bad = pickle_look(p + at, len - at, &watch, &used, &e);
	}
	if (bad == -ENODATA && len < s->len) {
		reading_done(&r);
		return 1;
	}
	if (bad == -ENOTSUP || r.strange)
		*ret = foreign(l, "%s", bad ? e.text : "a storage that cannot be");
	else if (bad)
		*ret = torn(l, "%s", e.text);
	else
		*ret = check_storages(l, s, &r, at);
	if (*ret == CHECKPOINT_GOOD && zeros_from_within(s, &r))
		*ret = torn(l, "zeros from the middle of its last storage to the end");
	reading_done(&r);
	return 0;
}

static enum checkpoint_state check_pickles(struct checkpoint_look *l, const struct stretch *s,
					   bool bare)
{
	enum checkpoint_state state = CHECKPOINT_GOOD;

	for (uint64_t len = FIRST_BYTES;; len *= 4) {
		size_t n = (size_t)MIN(len, s->len);
		_cleanup_free_ uint8_t *p = stretch_bytes(s, 0, n);

		if (!p)
			return torn(l, "it cannot be read");
		if (!check_row(l, s, p, n, bare, &state))
			break;
		if (len >= CHECKPOINT_PICKLE_MOST)
			return foreign(l, "a pickle larger than is looked at");
	}
	return state == CHECKPOINT_GOOD ? check_written(l, s) : state;
}

enum checkpoint_state checkpoint_torch(struct checkpoint_look *l, const struct stretch *s)
{
	uint8_t head[sizeof(row_begins)] = { 0 };
	size_t n = (size_t)MIN(s->len, sizeof(head));

	if (!n)
		return torn(l, "empty");
	if (!stretch_read(s, 0, head, n))
		return torn(l, "it cannot be read");
	if (memcmp(head, zip_begins, MIN(n, sizeof(zip_begins))) == 0)
		return n < sizeof(zip_begins) ? torn(l, "cut off after %zu bytes", n)
					      : check_zip(l, s);
	if (memcmp(head, row_begins, n) == 0)
		return n < sizeof(head) ? torn(l, "cut off after %zu bytes", n)
					: check_pickles(l, s, false);
	if (head[0] == 0x80)
		return check_pickles(l, s, true);
	for (size_t i = 0; i < n; i++)
		if (head[i])
			return foreign(l, "nothing by torch.save");
	return torn(l, "it begins with zeros: nothing was written there");
}
