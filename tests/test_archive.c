/* SPDX-License-Identifier: Apache-2.0 */
/* test_archive.c - members of archives are read as files of their own would be. */
#include "read_helpers.h"

#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>
#include <unistd.h>
#include <zstd.h>

#include "read/read.h"

#define TRACE                                                                                      \
	"{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"a\", \"ts\": 1, "     \
	"\"dur\": 1}], \"distributedInfo\": {\"rank\": 4}}"

/* What read_input told, one line a call. */
struct calls {
	struct buf lines;
	struct intern names;
	struct trace_sink sink;
	int begin_answer;
};

static void call_line(struct calls *c, const char *what, const char *path, const char *why)
{
	const char *colon = strchr(path, ':'); /* without the place of the archive */
	char line[512];
	int n = snprintf(line, sizeof(line), "%s %s%s%s\n", what, colon ? colon + 1 : "(file)",
			 why ? ": " : "", why ? why : "");

	buf_put(&c->lines, line, (size_t)n);
}

static int on_event(void *user, const struct trace_event *e)
{
	struct calls *c = user;
	char line[64];
	int n = snprintf(line, sizeof(line), "  event %s\n", intern_get(&c->names, e->name));

	buf_put(&c->lines, line, (size_t)n);
	return 0;
}

static int on_begin(void *user, const char *path, enum input_kind kind, struct trace_sink **ret)
{
	struct calls *c = user;

	call_line(c, kind == INPUT_LKS ? "records" : "trace", path, NULL);
	c->sink = (struct trace_sink){ .names = &c->names, .user = c, .event = on_event };
	*ret = &c->sink;
	return c->begin_answer;
}

static void on_end(void *user, const struct read_stats *stats, int status, const char *why)
{
	struct calls *c = user;
	const char *what = why ? strrchr(why, ':') : NULL;
	char line[512];
	int n = snprintf(line, sizeof(line), "  end %d, %" PRIu64 " events%s%s\n", status,
			 stats->events, what ? "," : "", what ? what + 1 : "");

	buf_put(&c->lines, line, (size_t)n);
}

static void on_other(void *user, const char *path, const char *why, bool said)
{
	call_line(user, said ? "said" : "other", path, why);
}

static int on_records(void *user, const void *bytes, size_t len)
{
	struct calls *c = user;
	char line[64];
	int n = snprintf(line, sizeof(line), "  %zu bytes, the first is %c\n", len,
			 *(const char *)bytes);

	buf_put(&c->lines, line, (size_t)n);
	return 0;
}

/* --- archives by hand --- */

static void tar_member(struct buf *tar, const char *name, char type, const void *data, size_t len)
{
	char block[512] = { 0 };
	unsigned sum = 0;

	snprintf(block, 100, "%s", name);
	memcpy(block + 100, "0000644\0000000000\0000000000", 24);
	snprintf(block + 124, 12, "%011zo", len);
	memcpy(block + 136, "00000000000", 12);
	memset(block + 148, ' ', 8);
	block[156] = type;
	memcpy(block + 257, "ustar\00000", 8);
	for (size_t i = 0; i < sizeof(block); i++)
		sum += (unsigned char)block[i];
	snprintf(block + 148, 8, "%06o", sum);
	buf_put(tar, block, sizeof(block));
	buf_put(tar, data, len);
	memset(block, 0, sizeof(block));
	buf_put(tar, block, (512 - len % 512) % 512);
}

static void tar_end(struct buf *tar)
{
	static const char zeros[1024];

	buf_put(tar, zeros, sizeof(zeros));
}

static void put_le(struct buf *b, uint64_t v, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++, v >>= 8)
		buf_put(b, &(uint8_t){ (uint8_t)v }, 1);
}

/* A zip of one stored member. */
static void zip_of(struct buf *zip, const char *name, const char *data)
{
	uint32_t len = (uint32_t)strlen(data), name_len = (uint32_t)strlen(name);
	uint32_t crc = crc32_gzip_refl(0, (const unsigned char *)data, len);
	size_t table;

	put_le(zip, 0x04034b50, 4);
	put_le(zip, 20, 10); /* version 2.0; no flags, stored, no time */
	put_le(zip, crc, 4);
	put_le(zip, len, 4);
	put_le(zip, len, 4);
	put_le(zip, name_len, 4);
	buf_put(zip, name, name_len);
	buf_put(zip, data, len);
	table = zip->len;
	put_le(zip, 0x02014b50, 4);
	put_le(zip, 20 | 20 << 16, 4);
	put_le(zip, 0, 8);
	put_le(zip, crc, 4);
	put_le(zip, len, 4);
	put_le(zip, len, 4);
	put_le(zip, name_len, 2);
	put_le(zip, 0, 8);
	put_le(zip, (uint64_t)0100644 << 16, 4);
	put_le(zip, 0, 4);
	buf_put(zip, name, name_len);
	put_le(zip, 0x06054b50, 4);
	put_le(zip, 0, 4);
	put_le(zip, 1 | 1 << 16, 4);
	put_le(zip, zip->len - 12 - table, 4);
	put_le(zip, table, 4);
	put_le(zip, 0, 2);
}

static void gzip(struct buf *out, const void *text, size_t len)
{
	struct isal_zstream z;
	uint8_t packed[65536];

	isal_deflate_stateless_init(&z);
	z.gzip_flag = IGZIP_GZIP;
	z.end_of_stream = 1;
	z.next_in = (uint8_t *)(uintptr_t)text;
	z.avail_in = (uint32_t)len;
	z.next_out = packed;
	z.avail_out = sizeof(packed);
	assert_int_equal(isal_deflate_stateless(&z), COMP_OK);
	buf_put(out, packed, z.total_out);
}

static void expect_calls(const struct buf *bytes, int want, const char *lines)
{
	char path[] = "/tmp/lockstep-archive-XXXXXX";
	int fd = mkstemp(path);
	char *paths[] = { path };
	struct calls c = { 0 };
	struct read_client client = { .user = &c,
				      .begin = on_begin,
				      .end = on_end,
				      .other = on_other,
				      .records = on_records };
	struct survey s;
	struct error e = { 0 };
	int r;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes->data, bytes->len), bytes->len);
	close(fd);
	assert_int_equal(survey_paths(&s, paths, 1, NULL), 0);
	assert_int_equal(s.n, 1);
	r = read_input(&s.inputs[0], &client, &e);
	unlink(path);
	survey_done(&s);
	if (r == -ENOTSUP && strstr(e.text, "libarchive13")) {
		print_message("skipped: no libarchive\n");
		intern_done(&c.names);
		buf_done(&c.lines);
		return;
	}
	buf_put(&c.lines, "", 1);
	assert_string_equal((const char *)c.lines.data, lines);
	assert_int_equal(r, want);
	intern_done(&c.names);
	buf_done(&c.lines);
}

static void mixed_tar(struct buf *tar)
{
	struct buf gz = { 0 }, inner = { 0 };

	gzip(&gz, TRACE, strlen(TRACE));
	tar_member(&inner, "x.json", '0', TRACE, strlen(TRACE));
	tar_end(&inner);
	tar_member(tar, "run/", '5', "", 0);
	tar_member(tar, "run/rank1.json", '0', TRACE, strlen(TRACE));
	tar_member(tar, "run/rank0.json.gz", '0', gz.data, gz.len);
	tar_member(tar, "run/link", '2', "", 0);
	tar_member(tar, "run/notes.txt", '0', "hello", 5);
	tar_member(tar, "run/empty.json", '0', "", 0);
	tar_member(tar, "run/inner.tar", '0', inner.data, inner.len);
	tar_member(tar, "run/steps.lks", '0', "LKSTEP1\n....", 12);
	tar_end(tar);
	buf_done(&gz);
	buf_done(&inner);
}

static const char mixed_lines[] = "trace run/rank1.json\n  event a\n  end 0, 1 events\n"
				  "trace run/rank0.json.gz\n  event a\n  end 0, 1 events\n"
				  "other run/notes.txt: no trace and no step record\n"
				  "said run/empty.json: an empty file\n"
				  "said run/inner.tar: an archive inside an archive: not opened\n"
				  "records run/steps.lks\n  12 bytes, the first is L\n"
				  "  end 0, 0 events\n";

static void members_are_read_in_order(void **state)
{
	struct buf tar = { 0 };

	(void)state;
	mixed_tar(&tar);
	expect_calls(&tar, 0, mixed_lines);
	buf_done(&tar);
}

static void packed_tars_are_the_same(void **state)
{
	struct buf tar = { 0 }, gz = { 0 }, zst = { 0 };
	char packed[65536];
	size_t n;

	(void)state;
	mixed_tar(&tar);
	gzip(&gz, tar.data, tar.len);
	expect_calls(&gz, 0, mixed_lines);
	n = ZSTD_compress(packed, sizeof(packed), tar.data, tar.len, 1);
	buf_put(&zst, packed, n);
	expect_calls(&zst, 0, mixed_lines);
	buf_done(&tar);
	buf_done(&gz);
	buf_done(&zst);
}

static void zip_is_read(void **state)
{
	struct buf zip = { 0 };

	(void)state;
	zip_of(&zip, "a/rank2.json", TRACE);
	expect_calls(&zip, 0, "trace a/rank2.json\n  event a\n  end 0, 1 events\n");
	buf_done(&zip);
}

static void torn_tar_gives_what_came_before(void **state)
{
	struct buf tar = { 0 };

	(void)state;
	tar_member(&tar, "one.json", '0', TRACE, strlen(TRACE));
	tar_member(&tar, "two.json", '0', TRACE, strlen(TRACE));
	tar.len = 512 + 512 + 512 + 60; /* in the middle of the second's first event */
	expect_calls(&tar, 0,
		     "trace one.json\n  event a\n  end 0, 1 events\n"
		     "trace two.json\n  end 0, 0 events\n"
		     "said (file): a damaged archive: Truncated tar archive\n");
	buf_done(&tar);
}

static void torn_gzip_inside_costs_only_its_member(void **state)
{
	struct buf tar = { 0 }, gz = { 0 };
	char lines[512];

	(void)state;
	gzip(&gz, TRACE, strlen(TRACE));
	tar_member(&tar, "one.json.gz", '0', gz.data, gz.len - 12);
	tar_member(&tar, "two.json", '0', TRACE, strlen(TRACE));
	tar_end(&tar);
	snprintf(lines, sizeof(lines),
		 "trace one.json.gz\n  event a\n"
		 "  end 0, 1 events, gzip stream ends in the middle at byte %zu of the file\n"
		 "trace two.json\n  event a\n  end 0, 1 events\n",
		 gz.len - 12);
	expect_calls(&tar, 0, lines);
	buf_done(&tar);
	buf_done(&gz);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_are_read_in_order),
		cmocka_unit_test(packed_tars_are_the_same),
		cmocka_unit_test(zip_is_read),
		cmocka_unit_test(torn_tar_gives_what_came_before),
		cmocka_unit_test(torn_gzip_inside_costs_only_its_member),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
