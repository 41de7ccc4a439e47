/* SPDX-License-Identifier: Apache-2.0 */
/* test_input.c - the same text whatever it is packed in, and all of it that can be saved. */
#include "read_helpers.h"

#include <isa-l/igzip_lib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

static char *sample_text(size_t len)
{
	char *text = xmalloc(len);

	for (size_t i = 0; i < len; i++)
		text[i] = (char)('a' + (i * 7 + i / 31 + i / 977) % 26);
	return text;
}

static void gzip(struct buf *out, const char *text, size_t len)
{
	struct isal_zstream z;
	size_t size = len + len / 8 + 1024;
	_cleanup_free_ uint8_t *packed = xmalloc(size);

	isal_deflate_stateless_init(&z);
	z.gzip_flag = IGZIP_GZIP;
	z.end_of_stream = 1;
	z.next_in = (uint8_t *)(uintptr_t)text;
	z.avail_in = (uint32_t)len;
	z.next_out = packed;
	z.avail_out = (uint32_t)size;
	assert_int_equal(isal_deflate_stateless(&z), COMP_OK);
	buf_put(out, packed, z.total_out);
}

static void zstd(struct buf *out, const char *text, size_t len)
{
	size_t size = ZSTD_compressBound(len);
	_cleanup_free_ uint8_t *packed = xmalloc(size);

	size = ZSTD_compress(packed, size, text, len, 3);
	assert_int_equal(ZSTD_isError(size), 0);
	buf_put(out, packed, size);
}

/* Reads all in pieces of an odd size. */
static struct input *unpack(struct memory_source *m, struct buf *out)
{
	struct input *in = input_of_source(memory_read, m);
	char piece[4099];
	ssize_t n;

	while ((n = input_read(in, piece, sizeof(piece))) > 0)
		buf_put(out, piece, (size_t)n);
	assert_int_equal(n, 0);
	return in;
}

static void expect_text(const struct buf *packed, const char *text, size_t len)
{
	static const size_t steps[] = { 0, 1, 1000, 65536 };

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct memory_source m = { .p = (const char *)packed->data,
					   .len = packed->len,
					   .first = 1,
					   .step = steps[i] };
		struct buf out = { 0 };
		struct input *in = unpack(&m, &out);

		assert_int_equal(input_state(in), INPUT_GOOD);
		assert_int_equal(out.len, len);
		assert_memory_equal(out.data, text, len);
		assert_int_equal(input_bytes_text(in), len);
		input_free(in);
		buf_done(&out);
	}
}

static void plain_gzip_and_zstd_give_the_text(void **state)
{
	_cleanup_free_ char *text = sample_text(300000);
	struct buf plain = { 0 }, gz = { 0 }, zst = { 0 };

	(void)state;
	buf_put(&plain, text, 300000);
	gzip(&gz, text, 300000);
	zstd(&zst, text, 300000);
	expect_text(&plain, text, 300000);
	expect_text(&gz, text, 300000);
	expect_text(&zst, text, 300000);
	buf_done(&plain);
	buf_done(&gz);
	buf_done(&zst);
}

static void members_and_frames_are_joined(void **state)
{
	_cleanup_free_ char *text = sample_text(100000);
	struct buf gz = { 0 }, zst = { 0 };

	(void)state;
	for (size_t at = 0; at < 100000; at += 25000) {
		gzip(&gz, text + at, 25000);
		zstd(&zst, text + at, 25000);
	}
	expect_text(&gz, text, 100000);
	expect_text(&zst, text, 100000);
	buf_put(&gz, "\0\0\0\0\0\0\0\0", 8); /* tapes and block devices pad with zeros */
	expect_text(&gz, text, 100000);
	buf_done(&gz);
	buf_done(&zst);
}

/* Cut at any place: a truncation is seen, and what was decodable comes first. */
static void truncation_is_seen_after_what_could_be_read(void **state)
{
	_cleanup_free_ char *text = sample_text(20000);

	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		struct buf packed = { 0 };
		size_t before = 0;

		(kind ? zstd : gzip)(&packed, text, 20000);
		for (size_t cut = 5; cut < packed.len; cut += 1 + packed.len / 300) {
			struct memory_source m = { .p = (const char *)packed.data, .len = cut };
			struct buf out = { 0 };
			struct input *in = unpack(&m, &out);

			assert_int_equal(input_state(in), INPUT_TRUNCATED);
			assert_non_null(strstr(input_problem(in), "ends in the middle at byte"));
			assert_in_range(out.len, before, 20000);
			if (out.len)
				assert_memory_equal(out.data, text, out.len);
			before = out.len;
			input_free(in);
			buf_done(&out);
		}
		buf_done(&packed);
	}
}

static void damage_is_seen_after_what_could_be_read(void **state)
{
	_cleanup_free_ char *text = sample_text(200000);

	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		struct buf packed = { 0 }, out = { 0 };
		struct memory_source m;
		struct input *in;

		(kind ? zstd : gzip)(&packed, text, 200000);
		memset(packed.data + packed.len / 2, 0xff, 64);
		m = (struct memory_source){ .p = (const char *)packed.data, .len = packed.len };
		in = unpack(&m, &out);
		assert_int_equal(input_state(in), INPUT_DAMAGED);
		assert_string_not_equal(input_problem(in), "");
		input_free(in);
		buf_done(&packed);
		buf_done(&out);
	}
}

static void wrong_checksum_is_seen(void **state)
{
	_cleanup_free_ char *text = sample_text(5000);
	struct buf packed = { 0 }, out = { 0 };
	struct memory_source m;
	struct input *in;

	(void)state;
	gzip(&packed, text, 5000);
	packed.data[packed.len - 8] ^= 1;
	m = (struct memory_source){ .p = (const char *)packed.data, .len = packed.len };
	in = unpack(&m, &out);
	assert_int_equal(input_state(in), INPUT_DAMAGED);
	assert_int_equal(out.len, 5000);
	input_free(in);
	buf_done(&packed);
	buf_done(&out);
}

/* A frame of blocks that each say "131,072 zeros" in four bytes, without end. */
static ssize_t bomb_read(void *user, void *buf, size_t len)
{
	static const uint8_t head[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38 };
	static const uint8_t block[] = { 0x02, 0x00, 0x10, 0x00 };
	uint64_t *at = user;
	uint8_t *p = buf;

	for (size_t i = 0; i < len; i++, (*at)++)
		p[i] = *at < sizeof(head) ? head[*at] : block[(*at - sizeof(head)) % 4];
	return (ssize_t)len;
}

static void bomb_is_stopped(void **state)
{
	_cleanup_free_ char *piece = xmalloc((size_t)1 << 20);
	uint64_t at = 0, text = 0;
	struct input *in = input_of_source(bomb_read, &at);
	ssize_t n;

	(void)state;
	while ((n = input_read(in, piece, (size_t)1 << 20)) > 0) {
		text += (uint64_t)n;
		assert_in_range(text, 0, (uint64_t)10 << 30);
	}
	assert_int_equal(input_state(in), INPUT_BOMB);
	assert_non_null(strstr(input_problem(in), "expands to more than any trace has"));
	input_free(in);
}

/* 1,000:1 is what gzip makes of one line repeated: no bomb. */
static void tight_gzip_is_no_bomb(void **state)
{
	size_t len = (size_t)8 << 20;
	_cleanup_free_ char *text = xcalloc(1, len);
	struct buf gz = { 0 };

	(void)state;
	gzip(&gz, text, len);
	expect_text(&gz, text, len);
	buf_done(&gz);
}

static ssize_t failing_read(void *user, void *buf, size_t len)
{
	int *calls = user;

	if ((*calls)++)
		return -EIO;
	memset(buf, 'x', MIN(len, 100));
	return (ssize_t)MIN(len, 100);
}

static void read_error_comes_behind_the_bytes(void **state)
{
	int calls = 0;
	struct input *in = input_of_source(failing_read, &calls);
	char buf[1000];

	(void)state;
	assert_int_equal(input_read(in, buf, sizeof(buf)), 100);
	assert_int_equal(input_read(in, buf, sizeof(buf)), -EIO);
	input_free(in);
}

static void what_is_no_file_is_refused(void **state)
{
	char dir[] = "/tmp/lockstep-input-XXXXXX", path[64];
	struct error e = { 0 };
	struct input *in = NULL;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/fifo", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(input_open(path, &in, &e), -ENOTSUP); /* and does not hang */
	assert_int_equal(input_open(dir, &in, &e), -ENOTSUP);
	assert_int_equal(input_open("/dev/zero", &in, &e), -ENOTSUP);
	unlink(path);
	assert_int_equal(input_open(path, &in, &e), -ENOENT);
	assert_non_null(strstr(e.text, path));
	assert_null(in);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_gzip_and_zstd_give_the_text),
		cmocka_unit_test(members_and_frames_are_joined),
		cmocka_unit_test(truncation_is_seen_after_what_could_be_read),
		cmocka_unit_test(damage_is_seen_after_what_could_be_read),
		cmocka_unit_test(wrong_checksum_is_seen),
		cmocka_unit_test(bomb_is_stopped),
		cmocka_unit_test(tight_gzip_is_no_bomb),
		cmocka_unit_test(read_error_comes_behind_the_bytes),
		cmocka_unit_test(what_is_no_file_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
