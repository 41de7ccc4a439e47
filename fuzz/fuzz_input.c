/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_input.c - any bytes come to an end, and trouble has a text. */
#include "fuzz_source.h"

#include "read/survey.h"

#define TEXT_MAX ((uint64_t)8 << 20) /* a small input may hold gigabytes; a part is enough */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span span = span_of(data, size);
	struct input *in = input_of_source(fuzz_read, &span);
	char buf[4096];
	struct survey_found found;
	uint64_t text = 0;
	ssize_t n;

	while (text < TEXT_MAX && (n = input_read(in, buf, sizeof(buf))) > 0)
		text += (uint64_t)n;
	fuzz_check(input_bytes_text(in) == text);
	fuzz_check((input_state(in) == INPUT_GOOD) == !*input_problem(in));
	input_free(in);
	found = survey_look(data, size, true, "file");
	fuzz_check(found.kind != INPUT_OTHER || found.why != NULL);
	return 0;
}
