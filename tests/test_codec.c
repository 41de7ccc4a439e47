/* SPDX-License-Identifier: Apache-2.0 */
/* A step survives its bytes, and bytes that are no step are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "random_step.h"

static void any_step_survives_the_trip(void **state)
{
	uint64_t seed = 0xc0dec;

	(void)state;
	print_message("seed %#lx\n", (unsigned long)seed);
	for (unsigned round = 0; round < 2000; round++) {
		struct arena arena = { 0 };
		struct buf out = { 0 };
		struct step s = random_step(&arena, &seed, 100, 5), back;
		struct span in;

		step_encode(&out, &s);
		in = span_of(out.data, out.len);
		assert_int_equal(step_decode(&in, &arena, &back, NULL), 0);
		assert_int_equal(span_left(&in), 0);
		assert_true(step_same(&s, &back));
		buf_done(&out);
		arena_done(&arena);
	}
}

static size_t length_of(const struct step *s)
{
	struct arena arena = { 0 };
	struct buf out = { 0 };
	struct step back;
	struct span in;
	size_t len;

	step_encode(&out, s);
	in = span_of(out.data, len = out.len);
	assert_int_equal(step_decode(&in, &arena, &back, NULL), 0);
	assert_true(step_same(s, &back));
	buf_done(&out);
	arena_done(&arena);
	return len;
}

/* Collectives of one size, one behind the other, for each of which the own clock stood still. */
static void what_follows_from_other_fields_takes_no_bytes(void **state)
{
	struct step_comm row = { .op = COMM_ALL_REDUCE, .count = 3, .bytes = 3 << 20 };
	struct step_coll colls[3];
	struct step s = {
		.host_what = NO_ID, .comms = &row, .colls = colls, .n_comms = 1, .n_colls = 3
	};
	size_t least;

	(void)state;
	for (int i = 0; i < 3; i++)
		colls[i] = (struct step_coll){
			.peer = -1,
			.seq = -1,
			.bytes = 1 << 20,
			.start_ns = 1000000 * (i + 1),
			.end_ns = 1000000 * (i + 1) + 300000,
			.call_ns = INT64_MIN,
			.own_arrive_ns = 1000000 * (i + 1) - 300000 * i,
			.own_need_ns = -1,
			.exposed_ns = 300000,
		};
	least = length_of(&s);
	colls[2].exposed_ns--;
	assert_int_equal(length_of(&s), least + 3);
	colls[2].own_arrive_ns--;
	assert_int_equal(length_of(&s), least + 6);
	colls[2].bytes--;
	assert_int_equal(length_of(&s), least + 9);
	row.count = 0;
	assert_true(length_of(&s) > least + 9);
}

static void forget_blocks(struct step *s)
{
	for (uint32_t i = 0; i < s->n_kernels; i++)
		s->kernels[i].blocks = 0;
}

/* They came later, and lie behind all else. */
static void a_record_without_blocks_is_read(void **state)
{
	struct arena arena = { 0 };
	struct step_kernel k = { .count = 2, .sum_ns = 7, .max_ns = 4, .blocks = 12345 };
	struct step s = { .host_what = NO_ID, .kernels = &k, .n_kernels = 1 }, back;
	size_t with = length_of(&s), without;
	struct buf out = { 0 };
	struct span in;

	(void)state;
	k.blocks = 0;
	without = length_of(&s);
	assert_int_equal(with - without, 2);
	k.blocks = 12345;
	step_encode(&out, &s);
	in = span_of(out.data, without);
	assert_int_equal(step_decode(&in, &arena, &back, NULL), 0);
	assert_int_equal(back.kernels[0].max_ns, 4);
	assert_int_equal(back.kernels[0].blocks, 0);
	buf_done(&out);
	arena_done(&arena);
}

static void every_cut_of_a_record_is_refused(void **state)
{
	struct arena arena = { 0 };
	struct buf out = { 0 };
	uint64_t seed = 77;
	struct step s = random_step(&arena, &seed, 100, 5), back;
	struct error error = { "" };

	(void)state;
	forget_blocks(&s);
	step_encode(&out, &s);
	for (size_t n = 0; n < out.len; n++) {
		uint8_t *copy =
		    xmalloc(n ? n : 1); /* its own block: sanitizers see a byte too far */
		struct span in;

		memcpy(copy, out.data, n);
		in = span_of(copy, n);
		assert_int_equal(step_decode(&in, &arena, &back, &error), -EBADMSG);
		assert_true(error.text[0] != '\0');
		free(copy);
	}
	buf_done(&out);
	arena_done(&arena);
}

static void damaged_records_never_hurt(void **state)
{
	uint64_t seed = 0xbad;

	(void)state;
	for (unsigned round = 0; round < 5000; round++) {
		struct arena arena = { 0 };
		struct buf out = { 0 };
		struct step s = random_step(&arena, &seed, 100, 5), back;
		struct span in;

		step_encode(&out, &s);
		for (unsigned k = 0; k < 4; k++)
			out.data[random_next(&seed) % out.len] = (uint8_t)random_next(&seed);
		in = span_of(out.data, out.len);
		if (step_decode(&in, &arena, &back, NULL) == 0)
			for (uint32_t i = 0; i < back.n_colls; i++)
				assert_true(back.colls[i].comm < back.n_comms);
		buf_done(&out);
		arena_done(&arena);
	}
}

/* From a block of just its size, so that a sanitizer sees what is read behind it. */
static void a_varint_that_does_not_end_is_refused(void **state)
{
	struct arena arena = { 0 };
	struct buf out = { 0 };
	uint64_t seed = 0xff;
	struct step s = random_step(&arena, &seed, 100, 5), back;

	(void)state;
	step_encode(&out, &s);
	for (size_t at = 0; at + 12 < out.len; at++) {
		uint8_t *copy = memcpy(xmalloc(out.len), out.data, out.len);
		struct span in = span_of(copy, out.len);

		memset(copy + at, 0xff, 12);
		step_decode(&in, &arena, &back, NULL);
		in = span_of(copy, at + 12);
		assert_int_equal(step_decode(&in, &arena, &back, NULL), -EBADMSG);
		free(copy);
		arena_reset(&arena);
	}
	buf_done(&out);
	arena_done(&arena);
}

static void a_count_beyond_the_bytes_allocates_nothing(void **state)
{
	struct arena arena = { 0 };
	struct step s = { .host_what = NO_ID }, back;
	struct buf out = { 0 };
	struct span in;

	(void)state;
	step_encode(&out, &s);
	out.len -= 4; /* the counts of the four lists */
	buf_put_varint(&out, UINT64_C(1) << 60);
	in = span_of(out.data, out.len);
	assert_int_equal(step_decode(&in, &arena, &back, NULL), -EBADMSG);
	assert_null(arena.chunk);
	buf_done(&out);
}

static void the_head_of_a_rank_survives_the_trip(void **state)
{
	uint32_t members[] = { 0, 3, 70000 };
	struct rank_group groups[] = {
		{ .name = 1, .desc = NO_ID, .size = 3, .ranks = members, .n_ranks = 3 },
		{ .name = NO_ID, .desc = NO_ID, .size = 0 },
	};
	struct rank_info info = {
		.rank = -1,
		.unknown = 2,
		.world_size = 100000,
		.host = 7,
		.gpu_name = NO_ID,
		.backend = 0,
		.gpu_index = -1,
		.cpu_job = true,
		.groups = groups,
		.n_groups = 2,
		.kernels = 5,
		.collectives = 1u << 31,
		.kernel_ns = 1234567890123,
		.collective_ns = 9,
		.first_ns = 1700000000000000000,
		.last_ns = 1700000000000000999,
	};
	struct rank_info back;
	struct arena arena = { 0 };
	struct buf out = { 0 };
	struct span in;

	(void)state;
	rank_info_encode(&out, &info);
	in = span_of(out.data, out.len);
	assert_int_equal(rank_info_decode(&in, &arena, &back, NULL), 0);
	assert_int_equal(back.rank, -1);
	assert_int_equal(back.unknown, 2);
	assert_int_equal(back.world_size, 100000);
	assert_int_equal(back.host, 7);
	assert_int_equal(back.gpu_name, NO_ID);
	assert_int_equal(back.gpu_index, -1);
	assert_true(back.cpu_job);
	assert_int_equal(back.kernel_ns, info.kernel_ns);
	assert_int_equal(back.collectives, info.collectives);
	assert_int_equal(back.last_ns, info.last_ns);
	assert_int_equal(back.n_groups, 2);
	assert_memory_equal(back.groups[0].ranks, members, sizeof(members));
	assert_null(back.groups[1].ranks);
	for (size_t n = 0; n < out.len; n++) {
		in = span_of(out.data, n);
		assert_int_equal(rank_info_decode(&in, &arena, &back, NULL), -EBADMSG);
	}
	buf_done(&out);
	arena_done(&arena);
}

/* LEB128 as it is defined, one group of seven bits after the other. */
static size_t varint_plain(uint64_t v, uint8_t *out)
{
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		out[n++] = (uint8_t)(v | 0x80);
	out[n++] = (uint8_t)v;
	return n;
}

static void a_varint_is_the_same_however_it_is_made(void **state)
{
	(void)state;
	for (unsigned bit = 0; bit < 64; bit++)
		for (uint64_t k = 0; k < 5; k++) {
			uint64_t v =
			    ((uint64_t)1 << bit) * (k < 3 ? 1 : 0x9e3779b97f4a7c15u) + k - 2;
			struct buf out = { 0 };
			uint8_t plain[10];
			size_t n = varint_plain(v, plain);
			struct span in;

			buf_put_varint(&out, v);
			buf_put_varint(&out, 5);
			assert_int_equal(out.len, n + 1);
			assert_memory_equal(out.data, plain, n);
			in = span_of(out.data, out.len);
			assert_true(span_varint(&in) == v);
			assert_int_equal(span_varint(&in), 5);
			assert_false(in.bad);
			buf_done(&out);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_varint_is_the_same_however_it_is_made),
		cmocka_unit_test(any_step_survives_the_trip),
		cmocka_unit_test(what_follows_from_other_fields_takes_no_bytes),
		cmocka_unit_test(a_record_without_blocks_is_read),
		cmocka_unit_test(every_cut_of_a_record_is_refused),
		cmocka_unit_test(damaged_records_never_hurt),
		cmocka_unit_test(a_varint_that_does_not_end_is_refused),
		cmocka_unit_test(a_count_beyond_the_bytes_allocates_nothing),
		cmocka_unit_test(the_head_of_a_rank_survives_the_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
