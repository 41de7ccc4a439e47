/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_archive.c - any bytes as an archive: members are passed or read to their end. */
#include "fuzz_source.h"

#include "read/archive.h"

#define MEMBER_MAX ((uint64_t)1 << 20)

static int on_member(void *user, const char *name, input_source_fn source, void *source_user)
{
	unsigned *n = user;
	uint64_t text = 0;
	char buf[4096];
	ssize_t r;

	fuzz_check(name != NULL);
	if ((*n)++ & 1) /* every other one is passed over */
		return 0;
	while (text < MEMBER_MAX && (r = source(source_user, buf, sizeof(buf))) > 0)
		text += (uint64_t)r;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span span = span_of(data, size);
	struct input *in = input_of_source(fuzz_read, &span);
	unsigned n = 0;
	const struct archive_client client = { .user = &n, .member = on_member };
	struct error e = { 0 };

	if (archive_read_members(in, NULL, &client, &e) < 0)
		fuzz_check(e.text[0] != 0);
	input_free(in);
	return 0;
}
