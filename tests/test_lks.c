/* SPDX-License-Identifier: Apache-2.0 */
/* Segments read back as written, however the bytes come, and damage costs only what it hit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include <unistd.h>

#include "random_step.h"
#include "store/lks.h"

#define RANKS 3
#define STEPS 20

struct written {
	struct job job;
	struct step steps[STEPS][RANKS];
	uint8_t *bytes;
	size_t len;
};

struct got {
	struct intern names;
	struct arena arena;
	unsigned ranks, steps, wrong;
	const struct written *want;
};

static void job_make(struct written *w, uint64_t *seed)
{
	static const char *const names[] = { "gemm", "host7", "tp", "forward", "A100" };
	struct job *job = &w->job;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		intern_str(&job->names, names[i]);
	job->n_ranks = RANKS;
	job->ranks = arena_alloc(&job->arena, RANKS * sizeof(*job->ranks));
	for (uint32_t r = 0; r < RANKS; r++) {
		job->ranks[r] =
		    (struct rank_info){ .rank = r * 5, .host = 1, .gpu_name = 4, .backend = NO_ID };
		job->ranks[r].n_groups = 1;
		job->ranks[r].groups = arena_alloc(&job->arena, sizeof(struct rank_group));
		job->ranks[r].groups[0] = (struct rank_group){ .name = 2, .desc = NO_ID };
	}
	for (unsigned n = 0; n < STEPS; n++) {
		for (uint32_t r = 0; r < RANKS; r++) {
			w->steps[n][r] = random_step(&job->arena, seed, ARRAY_SIZE(names), 1);
			w->steps[n][r].rank_row = r;
			w->steps[n][r].number = n;
		}
	}
}

static void written_make(struct written *w)
{
	char path[] = "/tmp/lockstep-test-XXXXXX";
	int fd = mkstemp(path);
	uint64_t seed = 0x1c5;
	struct lks_writer *writer;
	FILE *file;

	*w = (struct written){ 0 };
	assert_true(fd >= 0);
	close(fd);
	job_make(w, &seed);
	assert_int_equal(lks_create(path, &w->job, &writer, NULL), 0);
	for (unsigned n = 0; n < STEPS; n++) {
		struct step *row[RANKS];

		for (unsigned r = 0; r < RANKS; r++)
			row[r] = n % 7 == r ? NULL : &w->steps[n][r];
		assert_int_equal(lks_write_step(writer, n, row, NULL), 0);
	}
	assert_int_equal(lks_close(writer, NULL), 0);
	file = fopen(path, "r");
	assert_non_null(file);
	w->bytes = xmalloc(1 << 20);
	w->len = fread(w->bytes, 1, 1 << 20, file);
	fclose(file);
	unlink(path);
}

static void written_done(struct written *w)
{
	free(w->bytes);
	job_done(&w->job);
}

static int got_rank(void *user, uint64_t row, const struct rank_info *info)
{
	struct got *g = user;

	(void)row;
	assert_string_equal(intern_get(&g->names, info->host), "host7");
	assert_string_equal(intern_get(&g->names, info->groups[0].name), "tp");
	assert_int_equal(info->rank % 5, 0);
	g->ranks++;
	return 0;
}

static int got_step(void *user, const struct rank_info *info, const struct step *step)
{
	struct got *g = user;
	const struct step *want = &g->want->steps[step->number][info->rank / 5];

	g->steps++;
	g->wrong += !step_same(step, want);
	return 0;
}

static struct got read_back(const struct written *w, const uint8_t *bytes, size_t len, size_t chunk,
			    uint64_t *torn, uint64_t *bad)
{
	struct got g = { .want = w };
	struct lks_client client = { &g, &g.names, got_rank, got_step, NULL };
	struct lks_reader *r = lks_reader_new(&client);

	for (size_t at = 0; at < len; at += chunk)
		assert_int_equal(lks_reader_feed(r, bytes + at, MIN(chunk, len - at), NULL), 0);
	assert_int_equal(lks_reader_end(r, torn, bad, NULL), 0);
	lks_reader_free(r);
	intern_done(&g.names);
	return g;
}

#define WRITTEN_STEPS (STEPS * RANKS - (3 * 3 - 0)) /* each rank misses every seventh step */

static void steps_read_back_as_written_in_any_portions(void **state)
{
	static const size_t chunks[] = { 1, 7, 4096, 1 << 20 };
	struct written w;
	uint64_t torn, bad;

	(void)state;
	written_make(&w);
	for (size_t i = 0; i < ARRAY_SIZE(chunks); i++) {
		struct got g = read_back(&w, w.bytes, w.len, chunks[i], &torn, &bad);

		assert_int_equal(g.ranks, RANKS);
		assert_int_equal(g.steps, WRITTEN_STEPS);
		assert_int_equal(g.wrong, 0);
		assert_int_equal(torn, 0);
		assert_int_equal(bad, 0);
	}
	written_done(&w);
}

static void a_torn_tail_is_cut_and_said(void **state)
{
	struct written w;
	uint64_t torn, bad;

	(void)state;
	written_make(&w);
	for (size_t len = 12; len < w.len; len += 13) {
		struct got g = read_back(&w, w.bytes, len, 1 << 20, &torn, &bad);

		assert_int_equal(g.wrong, 0);
		assert_int_equal(bad, 0);
		assert_true(g.steps < WRITTEN_STEPS);
		assert_true(torn < len);
	}
	read_back(&w, w.bytes, w.len - 1, 1 << 20, &torn, &bad);
	assert_true(torn > 0);
	written_done(&w);
}

/* One flipped bit costs one block. */
static void damage_costs_the_block_that_it_hit(void **state)
{
	struct written w;
	uint64_t torn, bad;
	struct got g;

	(void)state;
	written_make(&w);
	w.bytes[w.len - 1] ^= 4;
	g = read_back(&w, w.bytes, w.len, 1 << 20, &torn, &bad);
	assert_int_equal(bad, 1);
	assert_int_equal(torn, 0);
	assert_int_equal(g.wrong, 0);
	assert_true(g.steps < WRITTEN_STEPS && g.steps >= WRITTEN_STEPS - RANKS);
	written_done(&w);
}

static void blocks_of_later_versions_are_passed_over(void **state)
{
	struct written w;
	uint64_t torn, bad;
	struct got g;
	uint8_t *more;

	(void)state;
	written_make(&w);
	more = xmalloc(w.len + 12);
	memcpy(more, w.bytes, 12);
	memset(more + 12, 0, 12);
	more[12 + 4] = 99; /* an empty block of type 99; the checksum of nothing is 0 */
	memcpy(more + 24, w.bytes + 12, w.len - 12);
	g = read_back(&w, more, w.len + 12, 1 << 20, &torn, &bad);
	assert_int_equal(g.steps, WRITTEN_STEPS);
	assert_int_equal(bad, 0);
	free(more);
	written_done(&w);
}

static void what_is_no_segment_is_refused(void **state)
{
	struct got g = { 0 };
	struct lks_client client = { &g, &g.names, got_rank, got_step, NULL };
	struct lks_reader *r = lks_reader_new(&client);
	struct error error = { "" };
	uint64_t torn, bad;

	(void)state;
	assert_int_equal(lks_reader_feed(r, "{\"traceEvents\": []}", 19, &error), -EBADMSG);
	assert_true(error.text[0] != '\0');
	lks_reader_free(r);
	r = lks_reader_new(&client);
	assert_int_equal(lks_reader_feed(r, "LKSTEP1\n\3\0\0\0", 12, &error), -ENOTSUP);
	lks_reader_free(r);
	r = lks_reader_new(&client);
	assert_int_equal(lks_reader_feed(r, "LKS", 3, &error), 0);
	assert_int_equal(lks_reader_end(r, &torn, &bad, &error), -EBADMSG);
	lks_reader_free(r);
	intern_done(&g.names);
}

/* The first block is the strings'; its checksum is CRC-32C of its payload, bit by bit. */
static void the_checksum_is_crc32c(void **state)
{
	struct written w;
	uint32_t len, crc = ~0u, stated;

	(void)state;
	written_make(&w);
	memcpy(&len, w.bytes + 12, 4);
	memcpy(&stated, w.bytes + 20, 4);
	for (uint32_t i = 0; i < len; i++) {
		crc ^= w.bytes[24 + i];
		for (unsigned k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	assert_int_equal(stated, ~crc);
	written_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_read_back_as_written_in_any_portions),
		cmocka_unit_test(a_torn_tail_is_cut_and_said),
		cmocka_unit_test(damage_costs_the_block_that_it_hit),
		cmocka_unit_test(blocks_of_later_versions_are_passed_over),
		cmocka_unit_test(what_is_no_segment_is_refused),
		cmocka_unit_test(the_checksum_is_crc32c),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
