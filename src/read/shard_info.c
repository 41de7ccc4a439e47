/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_info.c - JSON beside the data that says how much it is: Hugging Face's dataset_info.json
 * and state.json, the indexes of MosaicML streaming, LitData and WebDataset.
 *
 * A folder's shards are believed before such a file; it is what there is without them.
 */
#include "read/shard_inside.h"

#include <stdio.h>

static const struct {
	const char *list, *count; /* a list of objects with a count each */
} lists[] = {
	{ "shards", "samples" },     /* MosaicML's index.json */
	{ "chunks", "chunk_size" },  /* LitData's */
	{ "shardlist", "nsamples" }, /* WebDataset's */
};

static bool head_has(const struct shard_file *f, const char *key)
{
	char quoted[32];

	snprintf(quoted, sizeof(quoted), "\"%s\"", key);
	return memmem(f->head, f->head_len, quoted, strlen(quoted)) != NULL;
}

bool shard_looks_info(const struct shard_file *f)
{
	struct strict_json j = strict_json_of((const char *)f->head, f->head_len);

	if (f->size > COUNT_FILE_BYTES || strict_json_peek(&j) != '{')
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (head_has(f, lists[i].list) && head_has(f, lists[i].count))
			return true;
	return head_has(f, "_data_files") || (head_has(f, "splits") && head_has(f, "num_examples"));
}

struct info {
	int64_t train, all, listed; /* -1 */
	unsigned splits;
};

static bool key_is(const char *key, size_t len, const char *word)
{
	return len == strlen(word) && !memcmp(key, word, len);
}

static void add(int64_t *sum, int64_t v)
{
	*sum = MAX(*sum, 0);
	if (__builtin_add_overflow(*sum, v, sum))
		*sum = INT64_MAX;
}

/* The integer member of an object; -1: none. */
static int64_t member(struct strict_json *j, const char *word)
{
	bool begun = false;
	const char *key, *not_one;
	int64_t found = -1, v;
	size_t len;

	if (strict_json_peek(j) != '{') {
		strict_json_skip(j);
		return -1;
	}
	while (strict_json_next(j, '{', &begun, &key, &len))
		if (!key_is(key, len, word))
			strict_json_skip(j);
		else if (strict_json_integer(j, &v, &not_one))
			found = v;
	return found;
}

static void read_splits(struct strict_json *j, struct info *in)
{
	bool begun = false;
	const char *key;
	size_t len;

	while (strict_json_next(j, '{', &begun, &key, &len)) {
		bool train = key_is(key, len, "train");
		int64_t n = member(j, "num_examples");

		if (n < 0)
			continue;
		in->splits++;
		add(&in->all, n);
		if (train)
			in->train = n;
	}
}

static void read_list(struct strict_json *j, const char *count, struct info *in)
{
	bool begun = false;

	while (strict_json_next(j, '[', &begun, NULL, NULL)) {
		int64_t n = member(j, count);

		if (n >= 0)
			add(&in->listed, n);
	}
}

static void read_info(struct strict_json *j, struct info *in, unsigned depth)
{
	bool begun = false;
	const char *key;
	size_t len;

	while (strict_json_next(j, '{', &begun, &key, &len)) {
		char c = strict_json_peek(j);
		const char *count = NULL;

		for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
			if (c == '[' && key_is(key, len, lists[i].list))
				count = lists[i].count;
		if (count)
			read_list(j, count, in);
		else if (c == '{' && key_is(key, len, "splits"))
			read_splits(j, in);
		else if (c == '{' && !depth) /* dataset_infos.json: by configuration */
			read_info(j, in, depth + 1);
		else
			strict_json_skip(j);
	}
}

int shard_count_info(struct shard_file *f, struct shard *ret, struct error *reterr)
{
	struct info in = { -1, -1, -1, 0 };
	_cleanup_free_ char *text = NULL;
	struct strict_json j;
	size_t len;
	int r = counts_text(f, &text, &len, reterr);

	if (r < 0)
		return r;
	j = strict_json_of(text, len);
	read_info(&j, &in, 0);
	if (j.wrong)
		return error_set(reterr, -EBADMSG, "%s:%u: %s", f->path, j.line, j.wrong);
	ret->records = in.listed >= 0 ? in.listed : in.train >= 0 ? in.train : in.all;
	if (in.listed < 0 && in.splits > 1)
		snprintf(ret->why, sizeof(ret->why), "%s of %u splits",
			 in.train >= 0 ? "the train one" : "the sum", in.splits);
	return 0;
}
