/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read.c - one input to the client, whatever kind it is of.
 *
 * A member of an archive is looked at as a file of its own would be, and then read from its first
 * byte again: the look is kept and played back in front of the rest.
 */
#include "read/read.h"

#include <stdio.h>

#include "read/archive.h"
#include "read/kineto.h"
#include "read/nsys.h"
#include "read/timeline.h"
#include "read/witness.h"

#define READ_RECORD_BYTES ((size_t)256 << 10)

/* What went wrong with a trace's bytes, in one line; "" if nothing did. A file that gave its events
   though it is damaged has a line too, beside a status of 0. */
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

/* What a file of many ranks holds, once it is read: each rank is a trace to the client. */
struct many {
	void *of;
	uint32_t n;
	int (*give)(void *of, uint32_t i, struct trace_sink *sink);
};

static int give_lane(void *of, uint32_t i, struct trace_sink *sink)
{
	return timeline_give(of, i, sink);
}

static int give_gpu(void *of, uint32_t i, struct trace_sink *sink)
{
	return nsys_give(of, i, sink);
}

/* A file that gave nothing is told as one trace that did. */
static void tell_unread(const struct read_client *client, const char *path, enum input_kind kind,
			const struct read_stats *stats, int status, const char *why)
{
	struct trace_sink *sink = NULL;

	if (client->begin(client->user, path, kind, &sink) >= 0)
		client->end(client->user, stats, status, why);
}

/* What the file lost is told with the first. */
static int give_many(const struct read_client *client, const char *path, enum input_kind kind,
		     const struct many *many, const struct read_stats *stats, const char *why)
{
	int r = 0;

	for (uint32_t i = 0; i < many->n && r >= 0; i++) {
		struct read_stats none = { 0 };
		struct trace_sink *sink = NULL;

		r = client->begin(client->user, path, kind, &sink);
		if (r < 0)
			return r;
		r = many->give(many->of, i, sink);
		client->end(client->user, i ? &none : stats, r,
			    r < 0    ? strerror(-r)
			    : i == 0 ? why
				     : NULL);
	}
	return r;
}

/* The end of reading such a file: e is what its reader said, r its status. */
static int end_many(const struct read_client *client, const char *path, struct input *in,
		    enum input_kind kind, const struct many *many, const struct read_stats *stats,
		    const struct error *e, int r, struct error *reterr)
{
	char why[1024];

	describe(why, sizeof(why), path, in, e, r);
	if (r >= 0 && !why[0] && e->text[0])
		snprintf(why, sizeof(why), "%s: %s", path, e->text);
	if (r < 0)
		tell_unread(client, path, kind, stats, r, why);
	else
		r = give_many(client, path, kind, many, stats, why[0] ? why : NULL);
	return r < 0 ? error_set(reterr, r, "%s", why) : 0;
}

static int read_timeline(const struct read_client *client, const char *path, struct input *in,
			 struct error *reterr)
{
	struct read_stats stats = { 0 };
	struct timeline *t = NULL;
	struct error e = { 0 };
	int r = timeline_read(in, &t, &stats, &e);
	const struct many many = { t, r < 0 ? 0 : timeline_lanes(t), give_lane };

	r = end_many(client, path, in, INPUT_TIMELINE, &many, &stats, &e, r, reterr);
	timeline_free(t);
	return r;
}

/* plain: the file lies at path as it is. */
static int read_nsys(const struct read_client *client, const char *path, struct input *in,
		     bool plain, struct error *reterr)
{
	struct read_stats stats = { 0 };
	struct nsys *n = NULL;
	struct error e = { 0 };
	int r = nsys_read(in, path, plain, client->step_range, &n, &stats, &e);
	const struct many many = { n, r < 0 ? 0 : nsys_ranks(n), give_gpu };

	if (r == -ENODATA) {
		client->other(client->user, path, "an SQLite database of no known kind", false);
		return 0;
	}
	r = end_many(client, path, in, INPUT_NSYS, &many, &stats, &e, r, reterr);
	nsys_free(n);
	return r;
}

/* Step records are passed on as they are; who wants them checks them. */
static int read_records(const struct read_client *client, const char *path, struct input *in,
			struct error *reterr)
{
	_cleanup_free_ char *buf = NULL;
	struct read_stats stats = { 0 };
	struct trace_sink *sink = NULL;
	struct error e = { 0 };
	char why[1024];
	ssize_t n;
	int r;

	if (!client->records)
		return 0;
	r = client->begin(client->user, path, INPUT_LKS, &sink);
	if (r < 0)
		return r;
	buf = xmalloc(READ_RECORD_BYTES);
	/* What the client does not take it says itself. */
	while ((n = input_read(in, buf, READ_RECORD_BYTES)) > 0 &&
	       client->records(client->user, buf, (size_t)n) >= 0)
		;
	if (n < 0)
		r = (int)n;
	stats.bytes = input_bytes_text(in);
	stats.bytes_file = input_bytes_raw(in);
	stats.skipped[SKIP_TRUNCATED] = input_state(in) == INPUT_TRUNCATED;
	describe(why, sizeof(why), path, in, &e, r);
	client->end(client->user, &stats, r, why[0] ? why : NULL);
	return r < 0 ? error_set(reterr, r, "%s", why) : 0;
}

static int read_witness(const struct read_client *client, const char *path, struct input *in,
			int format, struct error *reterr)
{
	struct read_stats stats = { 0 };
	struct testimony *t = NULL;
	struct error e = { 0 };
	char why[1024];
	int r;

	if (!client->witness)
		return 0;
	r = witness_formats[format].read(in, path, &t, &stats, &e);
	describe(why, sizeof(why), path, in, &e, r);
	if (r >= 0 && e.text[0])
		snprintf(why, sizeof(why), "%s: %s", path, e.text);
	if (r < 0) {
		testimony_free(t);
		client->mute(client->user, path, why);
		return error_set(reterr, r, "%s", why);
	}
	stats.bytes = input_bytes_text(in);
	stats.bytes_file = input_bytes_raw(in);
	t->path = testimony_name(t, path, strlen(path));
	client->witness(client->user, path, t, &stats, why[0] ? why : NULL);
	return 0;
}

/* --- archives --- */

struct archive_read {
	const struct read_client *client;
	const char *path;
	unsigned read; /* members that were traces or records */
};

/* The look, and the rest behind it. */
struct replay {
	const char *look;
	size_t len, at;
	input_source_fn rest;
	void *rest_user;
};

static ssize_t source_replay(void *user, void *buf, size_t len)
{
	struct replay *r = user;
	size_t n = MIN(len, r->len - r->at);

	if (!n)
		return r->rest(r->rest_user, buf, len);
	memcpy(buf, r->look + r->at, n);
	r->at += n;
	return (ssize_t)n;
}

static int read_member(void *user, const char *name, input_source_fn source, void *source_user)
{
	struct archive_read *a = user;
	_cleanup_free_ char *look = xmalloc(SURVEY_LOOK_MAX);
	_cleanup_free_ char *path = xasprintf("%s:%s", a->path, name);
	struct replay replay = { .look = look, .rest = source, .rest_user = source_user };
	struct survey_found found;
	struct input *in;
	size_t want;
	ssize_t n = 1;
	int r = 0;

	while (n > 0 && replay.len < (want = survey_look_bytes(look, replay.len))) {
		n = source(source_user, look + replay.len, want - replay.len);
		replay.len += n > 0 ? (size_t)n : 0;
	}
	found = survey_look(look, replay.len, n <= 0, path);
	if (found.kind == INPUT_ARCHIVE || found.kind == INPUT_OTHER) {
		if (found.kind == INPUT_ARCHIVE)
			found.why = "an archive inside an archive: not opened";
		a->client->other(a->client->user, path, found.why,
				 found.said || found.kind == INPUT_ARCHIVE);
		return 0;
	}
	in = input_of_source(source_replay, &replay);
	if (found.kind == INPUT_KINETO)
		r = read_trace(a->client, path, in, NULL);
	else if (found.kind == INPUT_TIMELINE)
		r = read_timeline(a->client, path, in, NULL);
	else if (found.kind == INPUT_NSYS)
		r = read_nsys(a->client, path, in, false, NULL);
	else if (found.kind == INPUT_WITNESS && !a->client->witness)
		a->client->other(a->client->user, path, "no trace and no step record", false);
	else if (found.kind == INPUT_WITNESS)
		r = read_witness(a->client, path, in, found.format, NULL);
	else
		r = read_records(a->client, path, in, NULL);
	input_free(in);
	a->read += r >= 0;
	return 0; /* its own trouble was told to the client: the next member is read */
}

static int read_archive(const struct read_client *client, const char *path, struct input *in,
			struct error *reterr)
{
	struct archive_read a = { .client = client, .path = path };
	const struct archive_client members = { .user = &a, .member = read_member };
	struct error e = { 0 };
	char magic[2] = { 0 };
	int r;

	bool zip = input_peek(in, magic, sizeof(magic)) == 2 && !memcmp(magic, "PK", 2);

	r = archive_read_members(in, zip ? path : NULL, &members, &e);
	if (r < 0 && a.read) { /* the members in front of the damage were read */
		client->other(client->user, path, e.text, true);
		return 0;
	}
	return r < 0 ? error_set(reterr, r, "%s: %s", path, e.text) : 0;
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
	case INPUT_TIMELINE:
		r = read_timeline(client, input->path, in, reterr);
		break;
	case INPUT_NSYS:
		r = read_nsys(client, input->path, in, true, reterr);
		break;
	case INPUT_LKS:
		r = read_records(client, input->path, in, reterr);
		break;
	case INPUT_ARCHIVE:
		r = read_archive(client, input->path, in, reterr);
		break;
	case INPUT_WITNESS:
		r = read_witness(client, input->path, in, input->format, reterr);
		break;
	case INPUT_OTHER:
		r = error_set(reterr, -ENOTSUP, "%s: %s", input->path,
			      input->why ? input->why : "of no known kind");
		break;
	}
	input_free(in);
	return r;
}
