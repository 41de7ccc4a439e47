/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive.c - libarchive, by the dozen functions that are needed, found at run time.
 *
 * Invariant: nothing is ever extracted. A member is read as a stream of bytes, its name is only
 * shown, and links and devices inside are passed over.
 */
#include "read/archive.h"
#include "base/library.h"

#include <pthread.h>
#include <stdio.h>

#define ARCHIVE_BLOCK_BYTES ((size_t)256 << 10)
#define ARCHIVE_MEMBERS_MAX 1000000u
#define ARCHIVE_LIBRARY	    "libarchive.so.13"

/* From archive.h and archive_entry.h of libarchive 3, whose ABI has this number. */
enum { LA_EOF = 1, LA_OK = 0, LA_RETRY = -10, LA_WARN = -20, LA_FAILED = -25, LA_FATAL = -30 };
#define LA_TYPE_MASK 0170000u
#define LA_TYPE_FILE 0100000u

struct archive;
struct archive_entry;
typedef ssize_t la_read_fn(struct archive *, void *user, const void **buf);

static struct {
	struct archive *(*read_new)(void);
	int (*read_free)(struct archive *);
	int (*support_filter_none)(struct archive *);
	int (*support_format_tar)(struct archive *);
	int (*support_format_zip)(struct archive *);
	int (*read_open)(struct archive *, void *, int (*)(struct archive *, void *), la_read_fn *,
			 int (*)(struct archive *, void *));
	int (*read_open_filename)(struct archive *, const char *, size_t);
	int (*read_next_header)(struct archive *, struct archive_entry **);
	int (*read_data_block)(struct archive *, const void **, size_t *, int64_t *);
	const char *(*error_string)(struct archive *);
	const char *(*entry_pathname)(struct archive_entry *);
	unsigned (*entry_filetype)(struct archive_entry *);
	bool loaded;
	char why[256];
} la;

static const struct library_symbol la_symbols[] = {
	{ "archive_read_new", &la.read_new },
	{ "archive_read_free", &la.read_free },
	{ "archive_read_support_filter_none", &la.support_filter_none },
	{ "archive_read_support_format_tar", &la.support_format_tar },
	{ "archive_read_support_format_zip", &la.support_format_zip },
	{ "archive_read_open", &la.read_open },
	{ "archive_read_open_filename", &la.read_open_filename },
	{ "archive_read_next_header", &la.read_next_header },
	{ "archive_read_data_block", &la.read_data_block },
	{ "archive_error_string", &la.error_string },
	{ "archive_entry_pathname", &la.entry_pathname },
	{ "archive_entry_filetype", &la.entry_filetype },
};

static void load(void)
{
	la.loaded =
	    library_load(ARCHIVE_LIBRARY,
			 "archives need libarchive, which is not installed (package libarchive13)",
			 la_symbols, ARRAY_SIZE(la_symbols), la.why);
}

/* One archive being read. */
struct reader {
	struct archive *a;
	struct input *in;
	char *block;
	int input_error;
	/* the member's bytes that libarchive gave and nobody took yet */
	const char *data;
	size_t left;
	bool member_end, member_broken;
};

static ssize_t feed(struct archive *a, void *user, const void **buf)
{
	struct reader *r = user;
	ssize_t n = input_read(r->in, r->block, ARCHIVE_BLOCK_BYTES);

	(void)a;
	*buf = r->block;
	if (n < 0)
		r->input_error = (int)n;
	return n < 0 ? LA_FATAL : n;
}

/* A member that breaks off ends there: what came is worth reading. */
static ssize_t member_source(void *user, void *buf, size_t len)
{
	struct reader *r = user;
	size_t n;

	while (!r->left && !r->member_end) {
		const void *data = NULL;
		size_t size = 0;
		int64_t offset;
		int e = la.read_data_block(r->a, &data, &size, &offset);

		r->member_broken |= e < LA_WARN;
		if (e == LA_EOF || e < LA_WARN) {
			r->member_end = true;
		} else {
			r->data = data;
			r->left = size;
		}
	}
	n = MIN(len, r->left);
	if (n) {
		memcpy(buf, r->data, n);
		r->data += n;
		r->left -= n;
	}
	return (ssize_t)n;
}

static int broken(struct reader *r, struct error *reterr)
{
	const char *why = la.error_string(r->a);

	if (r->input_error)
		return error_set(reterr, r->input_error, "%s", strerror(-r->input_error));
	if (input_state(r->in) != INPUT_GOOD)
		return error_set(reterr, -EBADMSG, "%s", input_problem(r->in));
	return error_set(reterr, -EBADMSG, "a damaged archive: %s", why ? why : "no reason given");
}

static int each_member(struct reader *r, const struct archive_client *client, struct error *reterr)
{
	for (uint64_t n = 0;; n++) {
		struct archive_entry *entry;
		const char *name;
		int e = la.read_next_header(r->a, &entry);

		if (e == LA_EOF)
			return input_state(r->in) == INPUT_GOOD ? 0 : broken(r, reterr);
		if (e < LA_WARN)
			return broken(r, reterr);
		if (n >= ARCHIVE_MEMBERS_MAX)
			return error_set(reterr, -E2BIG, "more than %u members in one archive",
					 ARCHIVE_MEMBERS_MAX);
		if ((la.entry_filetype(entry) & LA_TYPE_MASK) != LA_TYPE_FILE)
			continue;
		name = la.entry_pathname(entry);
		r->left = 0;
		r->member_end = r->member_broken = false;
		e = client->member(client->user, name ? name : "(no name)", member_source, r);
		if (e < 0)
			return error_set(reterr, e, "%s", strerror(-e));
		if (r->member_broken)
			return broken(r, reterr);
	}
}

int archive_read_members(struct input *in, const char *file, const struct archive_client *client,
			 struct error *reterr)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct reader r = { .in = in };
	int e;

	pthread_once(&once, load);
	if (!la.loaded)
		return error_set(reterr, -ENOTSUP, "%s", la.why);
	r.a = la.read_new();
	if (!r.a)
		return error_set(reterr, -ENOMEM, "libarchive has no memory");
	la.support_filter_none(r.a);
	if (file) {
		la.support_format_zip(r.a);
		e = la.read_open_filename(r.a, file, ARCHIVE_BLOCK_BYTES);
	} else {
		r.block = xmalloc(ARCHIVE_BLOCK_BYTES);
		la.support_format_tar(r.a);
		la.support_format_zip(r.a);
		e = la.read_open(r.a, &r, NULL, feed, NULL);
	}
	e = e < LA_WARN ? broken(&r, reterr) : each_member(&r, client, reterr);
	la.read_free(r.a);
	free(r.block);
	return e;
}
