/* SPDX-License-Identifier: Apache-2.0 */
/* read.c - one input to the client, whatever kind it is of. */
#include "read/read.h"

#include "read/kineto.h"

#include <stdio.h>

/* Says at the trace's end what went wrong with its bytes, though what came was read. */
static void describe(char *dst, size_t size, const char *path, const struct input *in,
		     const struct error *e, int status)
{
	dst[0] = 0;
	if (status < 0)
		snprintf(dst, size, "%s: %s", path, e->text[0] ? e->text : strerror(-status));
	else if (input_state(in) != INPUT_GOOD)
		snprintf(dst, size, "%s: %s", path, input_problem(in));
}

static int read_trace(const struct read_client *client, const char *path, struct input *in,
		      struct error *reterr)
{
	struct read_stats stats = { 0 };
	struct trace_sink *sink = NULL;
	struct error e = { 0 };
	char why[1024];
	int r;

	r = client->begin(client->user, path, INPUT_KINETO, &sink);
	if (r < 0)
		return r;
	r = kineto_read(in, NULL, sink, &stats, &e);
	describe(why, sizeof(why), path, in, &e, r);
	client->end(client->user, &stats, r, why[0] ? why : NULL);
	return r < 0 ? error_set(reterr, r, "%s", why) : 0;
}

int read_input(const struct survey_input *input, const struct read_client *client,
	       struct error *reterr)
{
	struct input *in = NULL;
	int r;

	r = input_open(input->path, &in, reterr);
	if (r < 0)
		return r;
	input_set_progress(in, client->progress);
	switch (input->kind) {
	case INPUT_KINETO:
		r = read_trace(client, input->path, in, reterr);
		break;
	default:
		r = error_set(reterr, -ENOTSUP, "%s: no input that can be read", input->path);
		break;
	}
	input_free(in);
	return r;
}
