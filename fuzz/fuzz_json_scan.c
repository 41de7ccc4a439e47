/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_json_scan.c - a careful copy is sound: the fast way accepts it whole. The fast way never
 * leaves the text, and text without escapes grows by none.
 */
#include "fuzz_source.h"

#include "read/json_fast.h"

static void check_copy(const uint8_t *data, size_t size)
{
	struct span span = span_of(data, size);
	struct input *in = input_of_source(fuzz_read, &span);
	struct json_window w;
	struct buf out = { 0 };
	unsigned found = 0;

	json_window_init(&w, in, JSON_WINDOW_MIN);
	if (json_copy_value(&w, &out, 65536, &found) == JSON_COPIED) {
		const char *text = (const char *)out.data, *end = text + out.len;

		/* A bare word ends only at what follows it, and nothing follows here. */
		if (*text == '{' || *text == '[' || *text == '"')
			fuzz_check(json_skip_value(text, end) == end);
	}
	json_window_done(&w);
	input_free(in);
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = xcalloc(1, size + JSON_PAD), *plain = xmalloc(size + 4);
	const char *end = text + size, *p;
	int64_t v;
	bool bad;

	if (size)
		memcpy(text, data, size);
	p = size ? json_skip_value(text, end) : NULL;
	fuzz_check(!p || (p >= text && p <= end));
	p = text;
	json_number(&p, end, 3, &v);
	fuzz_check(p <= end + JSON_PAD);
	fuzz_check(json_unescape(plain, text, size, &bad) <= size);
	check_copy(data, size);
	free(text);
	free(plain);
	return 0;
}
