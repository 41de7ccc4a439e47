/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint_safetensors.c - a safetensors file, the index of sharded ones, and small JSON beside
 * weights.
 *
 * The header says where every tensor lies; they must follow each other without a gap to the file's
 * last byte. There are no checksums: zeros from the middle of a tensor to the end, a page or more,
 * and holes are taken for what a crash leaves.
 */
#include <jansson.h>
#include <sys/stat.h>

#include "read/checkpoint_inside.h"

#define READ_CHUNK ((size_t)1 << 20)

struct tensor {
	uint64_t begin, end;
	const char *name;
};

static int by_begin(const void *a, const void *b)
{
	const struct tensor *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin > y->begin ? 1 : -1;
	return (x->end > y->end) - (x->end < y->end);
}

static unsigned dtype_bytes(const char *name) /* 0: not known here */
{
	static const struct {
		const char *name;
		unsigned bytes;
	} types[] = { { "BOOL", 1 },	{ "U8", 1 },  { "I8", 1 },  { "F8_E5M2", 1 },
		      { "F8_E4M3", 1 }, { "U16", 2 }, { "I16", 2 }, { "F16", 2 },
		      { "BF16", 2 },	{ "U32", 4 }, { "I32", 4 }, { "F32", 4 },
		      { "U64", 8 },	{ "I64", 8 }, { "F64", 8 }, { "C64", 8 },
		      { "F8_E8M0", 1 } };

	for (size_t i = 0; name && i < ARRAY_SIZE(types); i++)
		if (strcmp(name, types[i].name) == 0)
			return types[i].bytes;
	return 0;
}

static bool read_tensor(const char *name, json_t *v, struct tensor *ret)
{
	json_t *offsets = json_object_get(v, "data_offsets"), *shape = json_object_get(v, "shape"),
	       *d;
	json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
	const char *dtype = json_string_value(json_object_get(v, "dtype"));
	uint64_t bytes = dtype_bytes(dtype);
	size_t i;

	if (!dtype || !json_is_array(shape) || json_array_size(offsets) != 2 ||
	    !json_is_integer(begin) || !json_is_integer(end) || json_integer_value(begin) < 0 ||
	    json_integer_value(end) < json_integer_value(begin))
		return false;
	*ret = (struct tensor){ (uint64_t)json_integer_value(begin),
				(uint64_t)json_integer_value(end), name };
	if (!bytes)
		return true;
	json_array_foreach(shape, i,
			   d) if (!json_is_integer(d) || json_integer_value(d) < 0 ||
				  __builtin_mul_overflow(bytes, (uint64_t)json_integer_value(d),
							 &bytes)) return false;
	return bytes == ret->end - ret->begin;
}

/* The tensors follow each other from the header to the end. */
static enum checkpoint_state check_tensors(struct checkpoint_look *l, const struct stretch *s,
					   json_t *header, uint64_t data)
{
	VEC(struct tensor) t = { 0 };
	enum checkpoint_state state = CHECKPOINT_GOOD;
	uint64_t at = 0, zeros = 0;
	const char *key;
	json_t *v;

	json_object_foreach(header, key, v)
	{
		if (strcmp(key, "__metadata__") == 0)
			continue;
		if (state == CHECKPOINT_GOOD && !read_tensor(key, v, vec_push(&t)))
			state = torn(l, "its header makes no sense at %.200s", key);
		checkpoint_fact(&l->facts, (struct pickle_text){ key, strlen(key) }, NULL, false);
	}
	if (t.n)
		qsort(t.v, t.n, sizeof(*t.v), by_begin);
	for (size_t i = 0; i < t.n && state == CHECKPOINT_GOOD; at = t.v[i++].end)
		if (t.v[i].begin != at)
			state =
			    torn(l, "tensors lie over each other or apart at %.200s", t.v[i].name);
	if (state == CHECKPOINT_GOOD && at != s->len - data)
		state = torn(l, "%" PRIu64 " bytes of tensors where its header says %" PRIu64,
			     s->len - data, at);
	if (state == CHECKPOINT_GOOD && t.n)
		zeros = stretch_zero_tail(s);
	if (zeros >= PAGE_ZEROS)
		for (size_t i = 0; i < t.n && state == CHECKPOINT_GOOD; i++)
			if (s->len - zeros >= data + t.v[i].begin + 16 &&
			    s->len - zeros + 16 < data + t.v[i].end)
				state = torn(l, "zeros from the middle of %.200s to the end",
					     t.v[i].name);
	free(t.v);
	return state;
}

/* Nothing to compare them with, but they must be there. */
static bool readable(const struct stretch *s)
{
	_cleanup_free_ uint8_t *chunk = xmalloc(READ_CHUNK);

	for (uint64_t at = 0; at < s->len; at += READ_CHUNK)
		if (!stretch_read(s, at, chunk, (size_t)MIN(s->len - at, READ_CHUNK)))
			return false;
	return true;
}

enum checkpoint_state checkpoint_safetensors(struct checkpoint_look *l, const struct stretch *s)
{
	uint8_t head[8];
	uint64_t len = 0, hole;
	_cleanup_free_ uint8_t *text = NULL;
	enum checkpoint_state state;
	json_error_t e;
	json_t *header;

	if (s->len < 8 || !stretch_read(s, 0, head, 8))
		return torn(l, "cut off after %" PRIu64 " bytes", s->len);
	for (int i = 7; i >= 0; i--)
		len = len << 8 | head[i];
	if (len < 2 || len > CHECKPOINT_HEADER_MOST)
		return len ? foreign(l, "no safetensors: a header of %" PRIu64 " bytes", len)
			   : torn(l, "it begins with zeros: nothing was written there");
	if (len > s->len - 8)
		return torn(l, "cut off in its header");
	text = stretch_bytes(s, 8, (size_t)len);
	if (!text)
		return torn(l, "it cannot be read");
	header = json_loadb((const char *)text, (size_t)len, JSON_REJECT_DUPLICATES, &e);
	if (!json_is_object(header)) {
		json_decref(header);
		return torn(l, "its header is no JSON: %s", e.text);
	}
	state = check_tensors(l, s, header, 8 + len);
	json_decref(header);
	if (state == CHECKPOINT_GOOD && stretch_hole(s, &hole))
		return torn(l, "a hole at byte %" PRIu64 ": what belongs there was never written",
			    hole);
	if (state == CHECKPOINT_GOOD && l->whole && !readable(s))
		return torn(l, "it cannot be read");
	return state;
}

/* --- JSON beside weights --- */

static json_t *load(struct checkpoint_look *l, const struct stretch *s, enum checkpoint_state *ret)
{
	_cleanup_free_ uint8_t *text = NULL;
	json_error_t e;
	json_t *v;

	*ret = CHECKPOINT_GOOD;
	if (!s->len)
		*ret = torn(l, "empty");
	else if (s->len > CHECKPOINT_JSON_MOST)
		*ret = foreign(l, "larger than JSON beside weights ever is");
	else if (!(text = stretch_bytes(s, 0, (size_t)s->len)))
		*ret = torn(l, "it cannot be read");
	if (*ret != CHECKPOINT_GOOD)
		return NULL;
	v = json_loadb((const char *)text, (size_t)s->len, JSON_DECODE_ANY, &e);
	if (!v)
		*ret = torn(l, "no whole JSON: %s", e.text);
	return v;
}

enum checkpoint_state checkpoint_json(struct checkpoint_look *l, const struct stretch *s)
{
	enum checkpoint_state state;
	json_t *v = load(l, s, &state), *step = json_object_get(v, "global_step");

	if (json_is_integer(step))
		l->facts.step = json_integer_value(step);
	json_decref(v);
	return state;
}

struct index_look {
	struct checkpoint_look l;
	json_t *map;
};

static enum checkpoint_state keep_index(struct checkpoint_look *l, const struct stretch *s)
{
	struct index_look *i = (struct index_look *)(void *)l;
	enum checkpoint_state state;
	json_t *v = load(l, s, &state);

	if (state == CHECKPOINT_GOOD) {
		i->map = json_incref(json_object_get(v, "weight_map"));
		if (!json_is_object(i->map))
			state = torn(l, "an index without weight_map");
	}
	json_decref(v);
	return state;
}

/* Files are named by their bare names: nothing leads out of the folder. */
static bool bare(const char *name)
{
	return name && *name && !strchr(name, '/') && name[0] != '.';
}

/* All files that it names are there; whether they are whole is seen with each. */
enum checkpoint_state checkpoint_index(struct checkpoint_look *l, const char *folder,
				       const char *name)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", folder, name);
	struct index_look i = { .l = *l };
	enum checkpoint_state state = checkpoint_file(&i.l, path, keep_index);
	const char *key;
	struct stat st;
	json_t *v;

	l->why = i.l.why;
	json_object_foreach(i.map, key, v)
	{
		const char *file = json_string_value(v);
		_cleanup_free_ char *shard = xasprintf("%s/%s", folder, file ? file : "");

		if (state != CHECKPOINT_GOOD)
			break;
		if (!bare(file))
			state = torn(l, "%s names a file that cannot be", name);
		else if (stat(shard, &st) < 0 || !S_ISREG(st.st_mode))
			state = torn(l, "%.255s is missing, which %.200s names", file, name);
	}
	json_decref(i.map);
	return state;
}
