/* SPDX-License-Identifier: Apache-2.0 */
/* print_testimony.c - what the reader of each given file says, as text: for tests in Python. */
#include "base/buf.h"
#include "read/witness.h"
#include "testimony_text.h"

static int print(const char *path)
{
	struct read_stats stats = { 0 };
	struct testimony *t = NULL;
	struct error e = { 0 };
	struct buf b = { 0 };
	struct input *in;
	char head[65536];
	ssize_t n;
	int format, r;

	if (input_open(path, &in, &e) < 0) {
		puts(e.text);
		return 1;
	}
	n = input_peek(in, head, sizeof(head));
	format = n > 0 ? witness_find(head, (size_t)n, path) : -1;
	r = format < 0 ? -1 : witness_formats[format].read(in, path, &t, &stats, &e);
	printf("== %s %s %s\n", path, format < 0 ? "none" : witness_formats[format].name, e.text);
	if (r >= 0) {
		testimony_text(&b, t, true);
		fputs((const char *)b.data, stdout);
	}
	buf_done(&b);
	testimony_free(t);
	input_free(in);
	return 0;
}

int main(int argc, char **argv)
{
	int r = 0;

	for (int i = 1; i < argc; i++)
		r |= print(argv[i]);
	return r;
}
