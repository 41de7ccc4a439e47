/* SPDX-License-Identifier: Apache-2.0 */
/* test_shards.c - counting lines and tars against the plain way, names, and a node's part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "read/shard_inside.h"

static char folder[] = "/tmp/lockstep-shards-XXXXXX";

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state)
{
	_cleanup_free_ char *command = xasprintf("rm -rf %s", folder);

	(void)state;
	return system(command);
}

static char *put(const char *name, const void *data, size_t len)
{
	char *path = xasprintf("%s/%s", folder, name);
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	fclose(f);
	return path;
}

static uint32_t next_random(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	return *seed ^= *seed << 5;
}

/* Lines with text, the plain way. */
static uint64_t filled_lines(const uint8_t *p, size_t len)
{
	uint64_t n = 0;
	bool filled = false;

	for (size_t i = 0; i < len; i++) {
		filled |= p[i] > ' ';
		if (p[i] == '\n' || i + 1 == len) {
			n += filled;
			filled = false;
		}
	}
	return n;
}

static void lines_are_tallied_as_one_byte_after_the_other_would(void **state)
{
	static const char bytes[] = "ab\n\n\n \r\t.\xff";
	uint8_t text[4096];
	uint32_t seed = 42;

	(void)state;
	print_message("seed %u\n", seed);
	for (unsigned round = 0; round < 2000; round++) {
		size_t len = next_random(&seed) % sizeof(text), at = 0;
		unsigned kinds = 1 + next_random(&seed) % (sizeof(bytes) - 1);
		struct line_tally t = { 0 };

		for (size_t i = 0; i < len; i++)
			text[i] = (uint8_t)bytes[next_random(&seed) % kinds];
		while (at < len) { /* in pieces of any size */
			size_t n = 1 + next_random(&seed) % 700;

			n = MIN(n, len - at);
			line_tally_add(&t, text + at, n);
			at += n;
		}
		if (t.open)
			line_tally_add(&t, (const uint8_t *)"\n", 1);
		assert_int_equal(t.lines - t.blank, filled_lines(text, len));
	}
}

static void chunks_of_a_large_file_add_up(void **state)
{
	size_t len = 2 * SHARD_CHUNK_BYTES + 12345;
	_cleanup_free_ uint8_t *text = xmalloc(len);
	_cleanup_free_ char *path = NULL;
	uint32_t seed = 7;
	struct shard s;
	struct error e;

	(void)state;
	for (unsigned longest = 1000; longest <= 100000000; longest *= 100000) {
		size_t left = 0;

		for (size_t i = 0; i < len; i++) {
			if (!left)
				left = 1 + next_random(&seed) % longest;
			text[i] = --left ? 'x' : '\n';
		}
		free(path);
		path = put("lines.txt", text, len);
		assert_int_equal(shard_count(path, &s, &e), 0);
		assert_int_equal(s.records, filled_lines(text, len));
		/* Lengths are found line by line, however it is cut. */
		assert_int_equal(shard_count_by(path, "n", &s, &e), 0);
		assert_int_equal(s.records, filled_lines(text, len));
		assert_int_equal(s.tokens, s.records ? -1 : 0);
	}
}

static void names_say_ranks_by_words_only(void **state)
{
	static const struct {
		const char *path;
		int64_t rank;
	} names[] = {
		{ "rank3.jsonl", 3 },	   { "data_rank_12.txt", 12 },
		{ "x/rank=7/part-1", 7 },  { "dp_rank3.idx", 3 },
		{ "dp2.idx", 2 },	   { "Rank-05.csv", 5 },
		{ "shard-3.tar", -1 },	   { "frank3", -1 },
		{ "local_rank3", -1 },	   { "rank3/rank4.txt", 4 },
		{ "3.txt", -1 },	   { "rank", -1 },
		{ "rank99999999999", -1 },
	};
	int64_t index, of;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(shard_rank_of(names[i].path, 0), names[i].rank);
	assert_true(shard_name_order("s-2.x", "s-10.x") < 0);
	assert_true(shard_name_order("s-010.x", "s-2.x") > 0);
	assert_true(shard_name_order("a", "a") == 0);
	assert_true(shard_name_order("a", "ab") < 0);
	assert_true(shard_of_name("d/train-00003-of-00016.arrow", &index, &of));
	assert_int_equal(index, 3);
	assert_int_equal(of, 16);
	assert_false(shard_of_name("state-of-mind", &index, &of));
	assert_false(shard_of_name("x-00016-of-00016", &index, &of));
}

static void columns_are_known_by_their_usual_names(void **state)
{
	static const struct {
		const char *name;
		enum count_field field;
	} names[] = {
		{ "blocks", COUNT_BLOCKS },
		{ "Num Blocks", COUNT_BLOCKS },
		{ "n_blocks", COUNT_BLOCKS },
		{ "block_count", COUNT_BLOCKS },
		{ "blocks_per_rank", COUNT_BLOCKS },
		{ "num_samples", COUNT_SAMPLES },
		{ "batches", COUNT_BATCHES },
		{ "rank", COUNT_RANK },
		{ "global-rank", COUNT_RANK },
		{ "total_tokens", COUNT_TOKENS },
		{ "rows", COUNT_RECORDS },
		{ "host", COUNT_NOTHING },
		{ "local_rank", COUNT_NOTHING },
		{ "", COUNT_NOTHING },
		{ "s", COUNT_NOTHING },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(count_field_of(names[i].name, strlen(names[i].name)),
				 names[i].field);
}

static void a_node_counts_its_ranks_only(void **state)
{
	static const char csv[] = "rank,blocks\n0,5\n1,6\n2,7\n3,8\n";
	_cleanup_free_ char *path = put("counts.csv", csv, sizeof(csv) - 1);
	_cleanup_free_ char *shards = xasprintf("%s/byrank", folder), *file = NULL;
	const char *paths[] = { path };
	struct block_options o = { .partial = true, .first_rank = 2, .ranks_here = 2 };
	struct block_counts c;
	struct error e = { 0 };

	(void)state;
	assert_int_equal(block_counts_read(paths, 1, &o, &c, &e), 0);
	assert_int_equal(c.ranks.n, 2);
	assert_int_equal(c.ranks.v[0].rank, 2);
	assert_int_equal(c.ranks.v[1].blocks, 8);
	block_counts_done(&c);

	/* Files of other ranks are not even opened: this one could not be. */
	assert_int_equal(mkdir(shards, 0700), 0);
	free(put("byrank/rank2.txt", "a\nb\n", 4));
	free(put("byrank/rank3.txt", "a\n", 2));
	file = put("byrank/rank0.txt", "\0\1\2", 3);
	paths[0] = shards;
	assert_int_equal(block_counts_read(paths, 1, &o, &c, &e), 0);
	assert_int_equal(c.ranks.n, 2);
	assert_int_equal(c.ranks.v[0].blocks, 2);
	assert_int_equal(c.ranks.v[1].blocks, 1);
	assert_string_equal(c.unit, "records");
	block_counts_done(&c);

	/* Dealt ones: this node's share of the same deal. */
	o = (struct block_options){
		.partial = true, .first_rank = 1, .ranks_here = 1, .world_size = 4
	};
	paths[0] = path;
	assert_int_equal(block_counts_read(paths, 1, &o, &c, &e), 0);
	assert_int_equal(c.ranks.n, 1);
	assert_int_equal(c.ranks.v[0].blocks, 6);
	block_counts_done(&c);
}

/* The same, however the bytes come. */
static void wide_text_is_the_same_in_any_pieces(void **state)
{
	/* a, U+E9, U+20AC, U+1F600, half a pair, b, the other half alone, NUL */
	static const uint8_t little[] = "\xff\xfe"
					"a\0\xe9\0\xac\x20\x3d\xd8\x00\xde\x3d\xd8"
					"b\0\x00\xde\0\0\x3d\xd8";
	static const char plain[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbd"
				    "b\xef\xbf\xbd\0\xef\xbf\xbd";
	const size_t len = sizeof(little) - 1;
	uint8_t big[sizeof(little)], out[256];

	(void)state;
	for (size_t i = 0; i < len; i++)
		big[i ^ 1] = little[i];
	for (unsigned form = 0; form < 2; form++)
		for (size_t piece = 1; piece <= len; piece++) {
			const uint8_t *from = form ? big : little;
			struct wide_text w = wide_text_of(from, len);
			size_t n = 0;

			assert_string_equal(w.name, form ? "UTF-16BE" : "UTF-16LE");
			for (size_t at = 0; at < len; at += piece)
				n += wide_text_decode(&w, from + at, MIN(piece, len - at), out + n);
			n += wide_text_decode(&w, NULL, 0, out + n);
			assert_int_equal(n, sizeof(plain) - 1);
			assert_memory_equal(out, plain, n);
		}
	assert_null(wide_text_of("\xef\xbb", 2).name);
	assert_string_equal(wide_text_of("\xff\xfe\0\0", 4).name, "UTF-32LE");
	assert_null(wide_text_guess("\1\0\2\0\3\0", 6));
	assert_string_equal(wide_text_guess("1\0,\0"
					    "2\0",
					    6),
			    "UTF-16LE");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_tallied_as_one_byte_after_the_other_would),
		cmocka_unit_test(chunks_of_a_large_file_add_up),
		cmocka_unit_test(names_say_ranks_by_words_only),
		cmocka_unit_test(columns_are_known_by_their_usual_names),
		cmocka_unit_test(a_node_counts_its_ranks_only),
		cmocka_unit_test(wide_text_is_the_same_in_any_pieces),
	};

	return cmocka_run_group_tests_name("shards", tests, make_folder, drop_folder);
}
