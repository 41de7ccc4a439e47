/* SPDX-License-Identifier: Apache-2.0 */
/* test_json_scan.c - sound JSON as jansson reads it, damaged JSON as it was meant. */
#include "read_helpers.h"

#include <jansson.h>
#include <time.h>

#include "read/json_fast.h"

static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 32) % n;
}

static void seed_randomly(void)
{
	const char *given = getenv("LOCKSTEP_SEED");

	random_state = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + 1;
	print_message("LOCKSTEP_SEED=%" PRIu64 "\n", random_state);
}

/* A string that needs every kind of escape, and text that looks like structure. */
static json_t *random_string(void)
{
	static const char *const parts[] = { "a",	   "\"",
					     "\\",	   "\\\\",
					     "{",	   "}",
					     "[",	   "]",
					     ", \"b\": 1", "\n",
					     "\t",	   "\x01",
					     "\xc3\xa4",   "\xf0\x9f\x98\x80",
					     "/",	   "void f<int>(float*, unsigned long)",
					     ":",	   ",",
					     " " };
	char text[512] = "";
	uint32_t n = random_below(8);

	for (uint32_t i = 0; i < n; i++)
		strcat(text, parts[random_below(ARRAY_SIZE(parts))]);
	return json_string(text);
}

static json_t *random_value(unsigned depth)
{
	uint32_t kind = random_below(depth ? 8 : 6);
	json_t *v;

	switch (kind) {
	case 0:
		return json_null();
	case 1:
		return json_boolean(random_below(2));
	case 2:
		return json_integer((json_int_t)random_below(UINT32_MAX) - (1 << 30));
	case 3:
		return json_real((double)random_below(1000000) / 1024.0);
	case 4:
	case 5:
		return random_string();
	case 6:
		v = json_array();
		for (uint32_t i = random_below(6); i; i--)
			json_array_append_new(v, random_value(depth - 1));
		return v;
	default:
		v = json_object();
		for (uint32_t i = random_below(6); i; i--) {
			char key[16];

			snprintf(key, sizeof(key), "k%u \\\"", random_below(100));
			json_object_set_new(v, key, random_value(depth - 1));
		}
		return v;
	}
}

/* A copy of text with the padding that the fast way asks for. */
static char *padded(const char *text)
{
	size_t len = strlen(text);
	char *p = xcalloc(1, len + JSON_PAD);

	memcpy(p, text, len);
	return p;
}

static char *random_document(void)
{
	static const size_t flags[] = { JSON_COMPACT, JSON_INDENT(1), JSON_INDENT(4),
					JSON_ENSURE_ASCII, 0 };
	json_t *v = json_object();
	char *text, *p;

	for (uint32_t i = random_below(8); i; i--) {
		char key[16];

		snprintf(key, sizeof(key), "member %u", random_below(100));
		json_object_set_new(v, key, random_value(4));
	}
	text = json_dumps(v, flags[random_below(ARRAY_SIZE(flags))]);
	assert_non_null(text);
	json_decref(v);
	p = padded(text);
	free(text);
	return p;
}

static void skip_ends_where_jansson_ends(void **state)
{
	(void)state;
	seed_randomly();
	for (int i = 0; i < 20000; i++) {
		char *text = random_document();
		const char *end = text + strlen(text);
		const char *fast = json_skip_value(text, end);

		assert_ptr_equal(fast, json_skip_object_plain(text + 1, end, 1));
		if (fast != end)
			fail_msg("ends at %td of %td: %s", fast ? fast - text : -1, end - text,
				 text);
		free(text);
	}
}

static enum json_copied copy_text(const char *text, size_t window, struct buf *out, unsigned *found)
{
	struct memory_source m = { .p = text, .len = strlen(text), .first = 7, .step = 113 };
	struct input *in = input_of_source(memory_read, &m);
	struct json_window w;
	enum json_copied r;

	json_window_init(&w, in, window);
	*found = 0;
	r = json_copy_value(&w, out, (size_t)1 << 20, found);
	json_window_done(&w);
	input_free(in);
	return r;
}

static void assert_sound(const char *text)
{
	struct buf out = { 0 };
	unsigned found;

	assert_int_equal(copy_text(text, JSON_WINDOW_MIN, &out, &found), JSON_COPIED);
	assert_int_equal(found, 0);
	buf_done(&out);
}

/* Behind an escaped quote and a comma stand the string's end and a key that begins with a colon. */
static void text_between_two_strings_is_no_key(void **state)
{
	(void)state;
	assert_sound("{\n \"a\": {\n  \"b\": \"x\\\" ,\"\n },\n \":c\": 1\n}");
}

/* And here it is a string's end behind which no value begins. */
static void colon_without_a_value_makes_no_key(void **state)
{
	(void)state;
	assert_sound("[{\"a\": \"\\\", \"}, [\":}[\"], 7]");
}

static void copy_of_sound_text_is_equal(void **state)
{
	(void)state;
	seed_randomly();
	for (int i = 0; i < 5000; i++) {
		char *text = random_document();
		struct buf out = { 0 };
		json_t *want, *got;
		json_error_t error;
		unsigned found;

		if (copy_text(text, JSON_WINDOW_MIN, &out, &found) != JSON_COPIED)
			fail_msg("not copied, found %x: %s", found, text);
		want = json_loads(text, 0, &error);
		got = json_loadb((const char *)out.data, out.len, 0, &error);
		assert_non_null(want);
		if (!got || !json_equal(want, got) || found)
			fail_msg("found %x, copied %s as %.*s", found, text, (int)out.len,
				 (const char *)out.data);
		json_decref(want);
		json_decref(got);
		buf_done(&out);
		free(text);
	}
}

static void damage_is_mended(void **state)
{
	static const struct {
		const char *damaged, *meant;
		unsigned found;
	} rows[] = {
		{ "{\"a\": 1,}", "{\"a\":1}", 0 },
		{ "{\"a\": [1, 2,],}", "{\"a\":[1,2]}", 0 },
		{ "{\"a\": \"C:\\Users\\x\", \"b\": 1}", "{\"a\":\"C:\\\\Users\\\\x\",\"b\":1}",
		  JSON_FOUND_BAD_TEXT },
		{ "{\"a\": \"C:\\dir\\\", \"b\": 1}", "{\"a\":\"C:\\\\dir\\\\\",\"b\":1}",
		  JSON_FOUND_BAD_TEXT },
		{ "{\"a\": \"C:\\dir\\\"}", "{\"a\":\"C:\\\\dir\\\\\"}", JSON_FOUND_BAD_TEXT },
		{ "{\"a\": \"\\x41\"}", "{\"a\":\"\\\\x41\"}", JSON_FOUND_BAD_TEXT },
		{ "{\"a\": \"f<\"x\">\", \"b\": 1}", "{\"a\":\"f<\\\"x\\\">\",\"b\":1}",
		  JSON_FOUND_BAD_TEXT },
		{ "{\"a\": \"f(\"x\", \"y\")\", \"b\": 1}",
		  "{\"a\":\"f(\\\"x\\\", \\\"y\\\")\",\"b\":1}", JSON_FOUND_BAD_TEXT },
		{ "{\"a\": \"list[\"x\"]\", \"b\": 1}", "{\"a\":\"list[\\\"x\\\"]\",\"b\":1}",
		  JSON_FOUND_BAD_TEXT },
		{ "{\"a\": \"{\"x\": 1}\"}", "{\"a\":\"{\\\"x\\\": 1}\"}", JSON_FOUND_BAD_TEXT },
		{ "{\"a\": [\"p\"q\", \"r\"]}", "{\"a\":[\"p\\\"q\",\"r\"]}", JSON_FOUND_BAD_TEXT },
		{ "{\"a\": \"x\ny\x01z\"}", "{\"a\":\"x\\u000ay\\u0001z\"}", JSON_FOUND_BAD_TEXT },
		{ "{\"a\": inf, \"b\": NaN}", "{\"a\":inf,\"b\":NaN}", 0 },
		{ "{\"a\": , \"b\": 1}", "{\"a\":null,\"b\":1}", JSON_FOUND_BAD_SYNTAX },
		{ "{\"a\": 1 \"b\": 2}", "{\"a\":1,\"b\":2}", 0 },
		{ "{\"a\": [1, 2}", "{\"a\":[1,2]}", JSON_FOUND_BAD_SYNTAX },
		/* Sound text must not be mistaken for the above. */
		{ "{\"a\": \"say \\\"x\\\", \\\"y\\\": 1\"}",
		  "{\"a\":\"say \\\"x\\\", \\\"y\\\": 1\"}", 0 },
		{ "{\"a\": \"{\\\"x\\\": \\\"y\\\"}\", \"b\": 1}",
		  "{\"a\":\"{\\\"x\\\": \\\"y\\\"}\",\"b\":1}", 0 },
		{ "{\"a\": \"\\\\\", \"b\": 1}", "{\"a\":\"\\\\\",\"b\":1}", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct buf out = { 0 };
		unsigned found;
		enum json_copied r = copy_text(rows[i].damaged, 0, &out, &found);

		/* The array that lost its bracket swallows the object's end: no more can be known.
		 */
		if (!strcmp(rows[i].damaged, "{\"a\": [1, 2}"))
			assert_int_equal(r, JSON_END);
		else
			assert_int_equal(r, JSON_COPIED);
		if (r == JSON_COPIED) {
			buf_put(&out, "", 1);
			assert_string_equal((const char *)out.data, rows[i].meant);
		}
		assert_int_equal(found, rows[i].found);
		buf_done(&out);
	}
}

static void fast_way_refuses_stray_quotes(void **state)
{
	static const char *const rows[] = {
		"{\"a\": {\"b\": \"x\"y\", \"c\": 1}}",
		"{\"a\": {\"b\": \"f(\"x\", \"y\")\", \"c\": 1}}",
		"{\"a\": {\"b\": \"C:\\dir\\\", \"c\": \"x\"}}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *text = padded(rows[i]);

		assert_null(json_skip_value(text, text + strlen(text)));
		assert_null(json_skip_object_plain(text + 1, text + strlen(text), 1));
		free(text);
	}
}

static void fast_way_never_ends_behind_the_text(void **state)
{
	static const char text[] = "{\"a\": {\"b\": [1, \"x\\\"\", {}]}, \"c\": 12.5}";
	char *p = padded(text);
	size_t len = strlen(text);

	(void)state;
	for (size_t cut = 0; cut < len; cut++) {
		char *part = xcalloc(1, cut + JSON_PAD);

		memcpy(part, p, cut);
		assert_null(cut ? json_skip_value(part, part + cut) : NULL);
		free(part);
	}
	assert_ptr_equal(json_skip_value(p, p + len), p + len);
	free(p);
}

/* The end of a string at every place of a 64-byte block, with and without escapes in front. */
static void strings_end_at_every_place(void **state)
{
	(void)state;
	for (size_t n = 0; n < 200; n++)
		for (size_t escapes = 0; escapes < 5; escapes++) {
			char *text = xcalloc(1, n + 2 * escapes + 16 + JSON_PAD);
			size_t len = 0;
			bool plain;

			memcpy(text, "{\"k\":\"", 6);
			memset(text + 6, 'x', n);
			len = 6 + n;
			for (size_t i = 0; i < escapes; i++, len += 2)
				memcpy(text + len, i & 1 ? "\\\"" : "\\\\", 2);
			memcpy(text + len, "\"}", 2);
			assert_ptr_equal(json_string_end(text + 6, text + len + 2, &plain),
					 text + len);
			assert_int_equal(plain, escapes == 0);
			assert_ptr_equal(json_skip_value(text, text + len + 2), text + len + 2);
			free(text);
		}
}

static void numbers_are_exact(void **state)
{
	static const struct {
		const char *text;
		unsigned scale;
		enum json_number status;
		int64_t value;
	} rows[] = {
		{ "0,", 3, JSON_NUMBER_GOOD, 0 },
		{ "1,", 3, JSON_NUMBER_GOOD, 1000 },
		{ "12345678,", 3, JSON_NUMBER_GOOD, 12345678000 },
		{ "123456789,", 0, JSON_NUMBER_GOOD, 123456789 },
		{ "5129691249095.323,", 3, JSON_NUMBER_GOOD, 5129691249095323 },
		{ "1753550898687486.783,", 3, JSON_NUMBER_GOOD, 1753550898687486783 },
		{ "1753550898687486.7836,", 3, JSON_NUMBER_GOOD, 1753550898687486784 },
		{ "1753550898687486,", 3, JSON_NUMBER_GOOD, 1753550898687486000 },
		{ "1790857026000000000,", 0, JSON_NUMBER_GOOD, 1790857026000000000 },
		{ "9223372036854775807,", 0, JSON_NUMBER_GOOD, INT64_MAX },
		{ "9223372036854775808,", 0, JSON_NUMBER_BAD, 0 },
		{ "9999999999999999,", 3, JSON_NUMBER_BAD, 0 },
		{ "99999999999999999999999,", 3, JSON_NUMBER_BAD, 0 },
		{ "0.0005,", 3, JSON_NUMBER_GOOD, 1 },
		{ "0.00049999,", 3, JSON_NUMBER_GOOD, 0 },
		{ "1.5,", 3, JSON_NUMBER_GOOD, 1500 },
		{ "1.25,", 3, JSON_NUMBER_GOOD, 1250 },
		{ "1.123456,", 3, JSON_NUMBER_GOOD, 1123 },
		{ "1.123567,", 3, JSON_NUMBER_GOOD, 1124 },
		{ "7.9,", 0, JSON_NUMBER_GOOD, 8 },
		{ "-1,", 3, JSON_NUMBER_GOOD, -1000 },
		{ "-1.5005,", 3, JSON_NUMBER_GOOD, -1501 },
		{ "1.5e3,", 3, JSON_NUMBER_GOOD, 1500000 },
		{ "1.607e+15,", 3, JSON_NUMBER_GOOD, 1607000000000000000 },
		{ "25E-1,", 3, JSON_NUMBER_GOOD, 2500 },
		{ "1e-300,", 3, JSON_NUMBER_GOOD, 0 },
		{ "1e300,", 3, JSON_NUMBER_BAD, 0 },
		{ "0e99999999999999,", 3, JSON_NUMBER_GOOD, 0 },
		{ "\"1753550898687486.783\",", 3, JSON_NUMBER_GOOD, 1753550898687486783 },
		{ "\" 12 \",", 3, JSON_NUMBER_GOOD, 12000 },
		{ "inf,", 3, JSON_NUMBER_BAD, 0 },
		{ "-inf,", 3, JSON_NUMBER_BAD, 0 },
		{ "Infinity,", 3, JSON_NUMBER_BAD, 0 },
		{ "-Infinity,", 3, JSON_NUMBER_BAD, 0 },
		{ "NaN,", 3, JSON_NUMBER_BAD, 0 },
		{ "nan,", 3, JSON_NUMBER_BAD, 0 },
		{ "null,", 3, JSON_NUMBER_NONE, 0 },
		{ "\"text\",", 3, JSON_NUMBER_NONE, 0 },
		{ "true,", 3, JSON_NUMBER_NONE, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *text = padded(rows[i].text);
		const char *p = text, *end = text + strlen(text);
		int64_t v = 0;
		enum json_number r = json_number(&p, end, rows[i].scale, &v);

		if (r != rows[i].status || v != rows[i].value)
			fail_msg("%s: %d, %" PRId64 " for %" PRId64, rows[i].text, (int)r, v,
				 rows[i].value);
		if (r == JSON_NUMBER_GOOD)
			assert_ptr_equal(p, end - 1);
		free(text);
	}
}

/* Microseconds with every number of digits in front of the point and behind it. */
static void random_times_are_exact(void **state)
{
	(void)state;
	seed_randomly();
	for (int i = 0; i < 200000; i++) {
		unsigned whole = 1 + random_below(15), fraction = random_below(10);
		char text[64 + JSON_PAD] = { 0 };
		int64_t want = 0, v = -1, up = 0;
		size_t n = 0;
		const char *p = text;

		for (unsigned d = 0; d < whole; d++) {
			text[n] = (char)('0' + random_below(10));
			want = want * 10 + (text[n++] - '0');
		}
		if (fraction)
			text[n++] = '.';
		for (unsigned d = 0; d < MAX(fraction, 3); d++) {
			char c = d < fraction ? (char)('0' + random_below(10)) : '0';

			if (d < fraction)
				text[n++] = c;
			if (d < 3)
				want = want * 10 + (c - '0');
			else if (d == 3)
				up = c >= '5';
		}
		text[n] = ',';
		assert_int_equal(json_time_ns(&p, text + n + 1, &v), JSON_NUMBER_GOOD);
		if (v != want + up)
			fail_msg("%s %" PRId64 " for %" PRId64, text, v, want + up);
	}
}

struct endless {
	const char *head, *tail;
	char body;
	uint64_t n, at;
};

static ssize_t endless_read(void *user, void *buf, size_t len)
{
	struct endless *e = user;
	size_t head = strlen(e->head), tail = strlen(e->tail);
	uint64_t total = head + e->n + tail, n = MIN((uint64_t)len, total - e->at);

	for (uint64_t i = 0; i < n; i++, e->at++)
		((char *)buf)[i] = e->at < head		 ? e->head[e->at]
				   : e->at < head + e->n ? e->body
							 : e->tail[e->at - head - e->n];
	return (ssize_t)n;
}

static void long_string_is_cut_not_held(void **state)
{
	struct endless e = {
		.head = "{\"a\": \"", .tail = "\", \"b\": 1}", .body = 'x', .n = (uint64_t)20 << 20
	};
	struct input *in = input_of_source(endless_read, &e);
	struct json_window w;
	struct buf out = { 0 };
	unsigned found = 0;

	(void)state;
	json_window_init(&w, in, 0);
	assert_int_equal(json_copy_value(&w, &out, (size_t)1 << 20, &found), JSON_COPIED);
	assert_int_equal(found, JSON_FOUND_TOO_LONG);
	assert_in_range(out.len, JSON_STRING_MAX, 2 * JSON_STRING_MAX);
	assert_memory_equal(out.data + out.len - 8, "\",\"b\":1}", 8);
	assert_in_range(w.cap, 1, JSON_WINDOW_BYTES);
	json_window_done(&w);
	input_free(in);
	buf_done(&out);
}

static void nesting_bomb_is_counted_not_followed(void **state)
{
	struct endless e = { .head = "[[1], ", .tail = "", .body = '[', .n = (uint64_t)4 << 20 };
	struct input *in = input_of_source(endless_read, &e);
	struct json_window w;
	struct buf out = { 0 };
	unsigned found = 0;

	(void)state;
	json_window_init(&w, in, 0);
	assert_int_equal(json_copy_value(&w, &out, (size_t)1 << 20, &found), JSON_END);
	assert_int_equal(found, JSON_FOUND_TOO_DEEP);
	json_window_done(&w);
	input_free(in);
	buf_done(&out);
}

static void deep_value_is_dropped_and_passed(void **state)
{
	struct buf text = { 0 }, out = { 0 };
	unsigned found;

	(void)state;
	for (int i = 0; i < 200; i++)
		buf_put(&text, "{\"a\":[\"}]\",", 11);
	buf_put(&text, "1", 1);
	for (int i = 0; i < 200; i++)
		buf_put(&text, "]}", 2);
	buf_put(&text, "", 1);
	assert_int_equal(copy_text((char *)text.data, 0, &out, &found), JSON_COPIED);
	assert_int_equal(found, JSON_FOUND_TOO_DEEP);
	buf_put(&out, "", 1);
	assert_string_equal((char *)out.data, "null");
	buf_done(&text);
	buf_done(&out);
}

static void escapes_become_text(void **state)
{
	static const struct {
		const char *from, *to;
		bool bad;
	} rows[] = {
		{ "plain", "plain", false },
		{ "a\\\"b\\\\c\\/\\n\\t", "a\"b\\c/\n\t", false },
		{ "\\u00e4\\u20ac", "\xc3\xa4\xe2\x82\xac", false },
		{ "\\ud83d\\ude00", "\xf0\x9f\x98\x80", false },
		{ "\\ud83d", "\xef\xbf\xbd", true },
		{ "\\u0000", "\xef\xbf\xbd", true },
		{ "C:\\Users", "C:\\Users", true },
		{ "\\x41", "\\x41", true },
		{ "\\u12", "\\u12", true },
		{ "\xc3\xa4", "\xc3\xa4", false },
		{ "\xe4", "\xe4", true },
		{ "\xc0\x80", "\xc0\x80", true },
		{ "a\x01", "a\x01", true },
		{ "end\\", "end\\", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char dst[64];
		bool bad;
		size_t n = json_unescape(dst, rows[i].from, strlen(rows[i].from), &bad);

		dst[n] = 0;
		assert_string_equal(dst, rows[i].to);
		assert_int_equal(bad, rows[i].bad);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(skip_ends_where_jansson_ends),
		cmocka_unit_test(text_between_two_strings_is_no_key),
		cmocka_unit_test(colon_without_a_value_makes_no_key),
		cmocka_unit_test(copy_of_sound_text_is_equal),
		cmocka_unit_test(damage_is_mended),
		cmocka_unit_test(fast_way_refuses_stray_quotes),
		cmocka_unit_test(fast_way_never_ends_behind_the_text),
		cmocka_unit_test(strings_end_at_every_place),
		cmocka_unit_test(numbers_are_exact),
		cmocka_unit_test(random_times_are_exact),
		cmocka_unit_test(long_string_is_cut_not_held),
		cmocka_unit_test(nesting_bomb_is_counted_not_followed),
		cmocka_unit_test(deep_value_is_dropped_and_passed),
		cmocka_unit_test(escapes_become_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
