/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_scan.h - huge JSON, damaged or not, from a window that slides over it.
 *
 * There are two ways through a value. The fast one (json_skip_object and the inline functions)
 * works on text that lies whole in the window and believes it to be sound: it gives NULL at the
 * first sign of the contrary, or when the window ends. The careful one (json_copy_value) then reads
 * the same text again from its first byte, refills the window as it goes, decides what damaged text
 * was meant to be, and writes a sound copy of bounded size, on which the fast way is taken again.
 *
 * The invariant that makes the fast way safe: JSON_PAD zero bytes lie behind every text. A zero
 * passes for white space and for nothing else, and a result is only believed if it lies inside.
 */
#pragma once
#include "base/buf.h"
#include "read/input.h"

#define JSON_WINDOW_BYTES ((size_t)256 << 10)
#define JSON_WINDOW_MIN	  ((size_t)1 << 10)
#define JSON_PAD	  64u
#define JSON_LOOKAHEAD	  256u /* as far as the careful way looks to see what a quote means */
#define JSON_DEPTH_MAX	  64u  /* deeper values are dropped and counted */
#define JSON_STRING_MAX	  ((size_t)64 << 10) /* longer strings are cut and counted */

struct json_window {
	struct input *in;
	char *buf;
	size_t cap;
	const char *p, *end; /* what has not been read yet */
	uint64_t offset;     /* of buf[0] in the text */
	bool eof;
	int error;
};
void json_window_init(struct json_window *w, struct input *in, size_t bytes); /* 0: the default */
void json_window_done(struct json_window *w);
/* Moves what is unread to the front and fills up. False: no byte was added. */
bool json_window_fill(struct json_window *w);
static inline uint64_t json_window_at(const struct json_window *w, const char *p)
{
	return w->offset + (uint64_t)(p - w->buf);
}
/* At least len unread bytes, less only at the end of the text. */
static inline size_t json_window_need(struct json_window *w, size_t len)
{
	while ((size_t)(w->end - w->p) < len && json_window_fill(w))
		;
	return (size_t)(w->end - w->p);
}

/* --- the careful way --- */

enum json_found {
	JSON_FOUND_BAD_TEXT = 1 << 0,	/* stray quotes, bad escapes, bare control characters */
	JSON_FOUND_TOO_DEEP = 1 << 1,	/* the value was dropped: `out` holds null */
	JSON_FOUND_TOO_LONG = 1 << 2,	/* a string was cut, or the value dropped for its size */
	JSON_FOUND_BAD_SYNTAX = 1 << 3, /* a missing comma or value, a wrong bracket: mended */
};
enum json_copied {
	JSON_COPIED,
	JSON_END,    /* the text ends inside the value */
	JSON_BROKEN, /* no way to tell what was meant; the window stands at the place */
};
/*
 * Reads the value at the window's place. `out` (emptied first; NULL: not wanted) gets a sound copy
 * of at most max_bytes with JSON_PAD zeros behind its length; found gets what was met.
 */
enum json_copied json_copy_value(struct json_window *w, struct buf *out, size_t max_bytes,
				 unsigned *found);
/* The same for a member's key, with its colon; out gets the bare key, escapes left as they are. */
enum json_copied json_copy_key(struct json_window *w, struct buf *out, unsigned *found);
/* White space of the text; false at its end. */
bool json_skip_space_refilling(struct json_window *w);

/* --- the fast way (json_fast.h has its inline half) --- */

/* Behind the bracket that closes `depth` objects, p being inside them and in no string; or NULL. */
const char *json_skip_object(const char *p, const char *end, unsigned depth);
/* The same on CPUs without AVX2; tests compare the two. */
const char *json_skip_object_plain(const char *p, const char *end, unsigned depth);
/* Behind any value; or NULL. */
const char *json_skip_value(const char *p, const char *end);

enum json_number {
	JSON_NUMBER_GOOD,
	JSON_NUMBER_BAD, /* inf, NaN, beyond 64 bits */
	JSON_NUMBER_NONE /* null, or no number at all */
};

/* Writes the text of a string without its escapes; unknown escapes are kept as they are. At most
   len bytes; returns their number. ret_bad: bad escapes, control characters, bytes that are no
   UTF-8. */
size_t json_unescape(char *dst, const char *s, size_t len, bool *ret_bad);
